"""Operators of the user's own (`torch.library`) in graphs: one record per operator, run by the function that was registered.

In: the tensors and whole numbers of a call, and how the other arguments stand between them (`OperatorCall`). Out: the operator's
results, then for each tensor that it writes the value afterwards: who records a call copies these back, so that the writing is
as visible as any other. Sizes and types are those of the operator's shape function (`register_fake`).
"""

from __future__ import annotations

import functools
from typing import Any

from ...runtime.dataclass import data
from ..dtypes import from_numpy
from ..op.meta import Spec
from ..op.op import Op, Out, extern, size, static, tensors
from ..state import no_modes, recording, setting
from ..tensor import Tensor
from .rearrange import like
from .user_kernels import same_memory

TENSOR, NUMBER, SEVERAL, VALUE = range(4)


@data
class OperatorCall:
    """`layout`: per argument (TENSOR, its place), (NUMBER, its place), (SEVERAL, class, members) or (VALUE, the value);
    `written`: places of the tensors that change."""

    operator: Any
    layout: tuple
    written: tuple = ()

    def arguments(self, found: tuple | list, numbers: tuple | list) -> list:
        return [_filled(each, found, numbers) for each in self.layout]

    def __repr__(self) -> str:
        return f"<{self.operator.name}{self.layout}>"


def _filled(entry: tuple, found: tuple | list, numbers: tuple | list) -> Any:
    kind, *rest = entry
    if kind == SEVERAL:
        cls, members = rest
        return cls(_filled(each, found, numbers) for each in members)
    return found[rest[0]] if kind == TENSOR else numbers[rest[0]] if kind == NUMBER else rest[0]


def as_tuple(results: Any) -> tuple:
    """The tensors that an operator gave: none, one or several."""
    return () if results is None else tuple(results) if isinstance(results, (tuple, list)) else (results,)


def shapes(call: OperatorCall, operands: tuple | list, numbers: tuple | list) -> Any:
    """What the shape function gives for these tensors: fakes as the operator gives tensors."""
    with no_modes(), setting(fake=True), recording(False):
        return call.operator.shape_function(*call.arguments(operands, numbers))


@functools.cache
def operator_record(name: str, results: int, written: int) -> Op:
    """The record of an operator with this many results that writes this many of its tensors."""

    def run(operands: tensors, numbers: size, call: static):
        arrays = [same_memory(a) if k in call.written else a for k, a in enumerate(operands)]
        given = [Tensor._fl_from_array(a, from_numpy(a.dtype)) for a in arrays]
        with no_modes(), recording(False):
            operator = call.operator
            made = as_tuple(operator.by_position(operator.function, call.arguments(given, numbers)))
        if len(made) != results:
            raise RuntimeError(f"{name} gave {len(made)} results where its shape function gives {results}")
        found = (*[t._values(name) for t in made], *[arrays[k] for k in call.written])
        return found[0] if len(found) == 1 else found

    def meta(operands, numbers, call):
        specs = [Spec(t._fl_sizes, t._fl_dtype, None, t._fl_device) for t in as_tuple(shapes(call, operands, numbers))]
        found = (*specs, *[like(operands[k]) for k in call.written])
        return found[0] if len(found) == 1 else found

    outs = [Out(f"result_{k}", differentiable=False) for k in range(results)]
    outs += [Out(f"new_{k}", differentiable=False) for k in range(written)]
    own = name if (results, written) == (1, 0) else f"{name}.{results}_{written}"
    record = extern(name=own.replace("::", "."), meta=meta, outputs=tuple(outs), effects=True)(run)
    record.native(run)  # (numpy's kernels run in a context of their own, which the operator's function would enter again)
    return record
