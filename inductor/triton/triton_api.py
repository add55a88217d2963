"""Everything that touches triton's own modules: loading generated files, in either mode, and what its interpreter lacks.

In: the text of a `kernels.py`. Out: its namespace, with functions that triton compiles or that its interpreter runs. The
interpreter is triton's; mended for a scope are what is wrong or slow in it: bfloat16 conversions, reductions with a combine
function of one's own (by halves, as a machine does them), bounds of loops under numpy 2.4, libdevice's functions.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import linecache
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from ...runtime.errors import BackendError, InternalError
from .triton_text import TYPES

_numbers = itertools.count(1)


@functools.cache
def triton() -> Any:
    try:
        return importlib.import_module("triton")
    except ImportError as error:
        raise BackendError(f"the Triton backend needs the package triton: {error}", "pip install 'triton>=3.6'") from error


def load(text: str, interpreted: bool) -> dict[str, Any]:
    """The namespace of a generated file."""
    module = triton()
    name = f"<triton kernels {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    before = module.knobs.runtime.interpret
    module.knobs.runtime.interpret = interpreted
    try:
        namespace: dict[str, Any] = {"__name__": name, "__file__": name}
        exec(compile(text, name, "exec"), namespace)
    finally:
        module.knobs.runtime.interpret = before
    return namespace


# -- the interpreter


@functools.cache
def _interpreter() -> Any:
    triton()
    return importlib.import_module("triton.runtime.interpreter")


class Patches:
    """Attributes that are changed for a scope."""

    def __init__(self):
        self.undo = contextlib.ExitStack()

    def set(self, owner: Any, name: str, value: Any) -> None:
        before = getattr(owner, name)
        self.undo.callback(setattr, owner, name, before)
        setattr(owner, name, value)


@contextlib.contextmanager
def interpreting(memory: Iterable[np.ndarray] = ()) -> Iterator[Any]:
    """Inside, functions of a file that was loaded `interpreted` can be called, with arguments made by `number` and `address`.
    With `memory`, an access outside of these arrays raises."""
    found = _interpreter()
    tl = importlib.import_module("triton.language")
    patches = Patches()
    builder = found.interpreter_builder
    scope = found._patch_lang(types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    patches.set(builder, "create_splat", functools.partial(_splat, found))
    patches.set(builder, "options", found.InterpreterOptions(sanitize_overflow=False))
    patches.set(found, "_convert_float", _converted(tl, found._convert_float))
    patches.set(found.ReduceOps, "apply_impl", functools.partialmethod(_reduce, found))
    patches.set(found.ScanOps, "apply_impl", functools.partialmethod(_scan, found))
    patches.set(tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
    patches.set(found.InterpretedFunction, "__call__", _call_inside)
    fence = BoundsChecker(memory)
    for name in ACCESSES if fence.starts else ():
        patches.set(builder, name, fence.around(name, getattr(builder, name)))
    _patch_libdevice(found, tl, patches)
    try:
        with np.errstate(all="ignore"):
            yield found
    finally:
        patches.undo.close()
        scope.restore()


# how triton's builder touches memory -> the places of the pointers and of the mask among its arguments
ACCESSES = {
    "create_masked_load": (0, 1),
    "create_masked_store": (0, 2),
    "create_atomic_rmw": (1, 3),
    "create_load": (0, None),
    "create_store": (0, None),
}


class BoundsChecker:
    """Arrays in memory; an access must lie in one of them."""

    def __init__(self, memory: Iterable[np.ndarray]):
        spans = sorted((m.ctypes.data, m.ctypes.data + m.nbytes) for m in memory if m.nbytes)
        self.starts, self.ends = [s for s, _ in spans], list(itertools.accumulate((e for _, e in spans), max))

    def around(self, name: str, access: Callable) -> Callable:
        pointer, mask = ACCESSES[name]

        def checked(*given: Any, **keywords: Any) -> Any:
            addresses = given[pointer].data
            if mask is not None and given[mask] is not None:
                addresses = np.broadcast_to(addresses, np.broadcast_shapes(addresses.shape, given[mask].data.shape))
                addresses = addresses[np.broadcast_to(given[mask].data, addresses.shape)]
            self.check(addresses, given[pointer])
            return access(*given, **keywords)

        return checked

    def check(self, addresses: np.ndarray, pointer: Any) -> None:
        if addresses.size == 0:
            return
        size = max(1, pointer.get_element_ty().primitive_bitwidth // 8)
        flat = addresses.reshape(-1)
        at = np.searchsorted(np.array(self.starts, np.uint64), flat, side="right") - 1
        inside = (at >= 0) & (flat + np.uint64(size) <= np.array(self.ends, np.uint64)[at])
        if not inside.all():
            raise InternalError(f"a Triton kernel touches {int((~inside).sum())} elements outside of its arrays")


def _call_inside(function: Any, *args: Any, **keywords: Any) -> Any:
    """A call from a kernel: everything is patched already."""
    return function.rewrite()(*args, **keywords)


def run_grid(found: Any, function: Any, grid: tuple, arguments: dict[str, Any]) -> None:
    """Run all programs of one launch, one after the other."""
    body = function.rewrite()
    grid = (*grid, *(1,) * (3 - len(grid)))
    builder = found.interpreter_builder
    builder.set_grid_dim(*grid)
    for x, y, z in itertools.product(*map(range, grid)):
        builder.set_grid_idx(x, y, z)
        body(**arguments)


def address(found: Any, tl: Any, where: int, element: str) -> Any:
    """A pointer to elements of a type by its name in signatures."""
    kind = tl.pointer_type(NAMED(tl)[element])
    return tl.tensor(found.TensorHandle(np.array([where], np.uint64), kind), kind)


def number(found: Any, tl: Any, value: Any, element: str) -> Any:
    kind = NAMED(tl)[element]
    return tl.tensor(found.TensorHandle(np.array([value], found._get_np_dtype(kind)), kind), kind)


def plain_number(found: Any, tl: Any, value: Any) -> Any:
    """An argument of `run`: sizes are whole numbers of the host, all else is made already."""
    return number(found, tl, value, "i32" if -(2**31) <= value < 2**31 else "i64") if isinstance(value, int) else value


@functools.cache
def NAMED(tl: Any) -> dict[str, Any]:
    return {short: getattr(tl, "int1" if name == "bool" else name) for name, (short, _) in TYPES.items()}


def _converted(tl: Any, other: Any) -> Any:
    """float32 and bfloat16, rounded to the nearest."""

    def convert(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16:
            return data.astype(ml_dtypes.bfloat16).view(np.uint16)
        if source == tl.bfloat16 and target == tl.float32:
            return data.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32).view(np.uint32)
        return other(data, source, target, rounding)

    return convert


def _splat(found: Any, kind: Any, given: Any) -> Any:
    """A number as a block; of a comparison's result the interpreter knows the operands' type only."""
    return found.TensorHandle(np.full(kind.shape, given.data.reshape(-1)[0], given.data.dtype), given.dtype.scalar)


def _reduce(ops: Any, found: Any, given: Any) -> Any:
    """Combine halves until one element is left; the extent is a power of two."""
    parts = given if isinstance(given, tuple) else (given,)
    types_ = [p.dtype.scalar for p in parts]
    arrays = [p.handle.data for p in parts]
    axis = ops.axis
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    while arrays[0].shape[axis] > 1:
        half = arrays[0].shape[axis] // 2
        low = [np.take(a, range(half), axis) for a in arrays]
        high = [np.take(a, range(half, 2 * half), axis) for a in arrays]
        arrays = _combined(ops, [*low, *high], types_)
    results = [np.take(a, 0, axis) if not ops.keep_dims else a for a in arrays]
    return tuple(_interpreter_value(ops, r, t) for r, t in zip(results, types_))


def _scan(ops: Any, found: Any, given: Any) -> Any:
    """Combine each element with what came before it, at distances of 1, 2, 4, ..."""
    parts = given if isinstance(given, (tuple, list)) else (given,)
    types_ = [p.dtype.scalar for p in parts]
    arrays = [np.flip(p.handle.data, ops.axis) if ops.reverse else p.handle.data for p in parts]
    axis, distance = ops.axis, 1
    n = arrays[0].shape[axis]
    while distance < n:
        before = [np.roll(a, distance, axis) for a in arrays]
        joined = _combined(ops, [*before, *arrays], types_)
        there = (np.arange(n) >= distance).reshape([-1 if d == axis else 1 for d in range(arrays[0].ndim)])
        arrays = [np.where(there, j, a) for a, j in zip(arrays, joined)]
        distance *= 2
    arrays = [np.flip(a, axis) if ops.reverse else a for a in arrays]
    return tuple(_interpreter_value(ops, a, t) for a, t in zip(arrays, types_))


def _combined(ops: Any, arrays: list[np.ndarray], types_: list[Any]) -> list[np.ndarray]:
    operands = [_interpreter_value(ops, a, t) for a, t in zip(arrays, [*types_, *types_])]
    result = ops.combine_fn(*operands)
    return [r.handle.data for r in (result if isinstance(result, (tuple, list)) or hasattr(result, "values") else (result,))]


def _interpreter_value(ops: Any, array: np.ndarray, kind: Any) -> Any:
    return ops.to_tensor(np.asarray(array), kind)


_FUNCTIONS = {
    "log1p": np.log1p,
    "expm1": np.expm1,
    "tan": np.tan,
    "tanh": np.tanh,
    "pow": np.power,
    "rint": np.rint,
    "trunc": np.trunc,
    "fmod": np.fmod,
}


def _patch_libdevice(found: Any, tl: Any, patches: Patches) -> None:
    module = importlib.import_module("triton.language.extra.libdevice")

    def over_arrays(function: Callable) -> Callable:
        def call(*given: Any, _semantic: Any = None, **_: Any) -> Any:
            args = [a if isinstance(a, tl.tensor) else found.interpreter_semantic.to_tensor(a) for a in given]
            kind = next(a.dtype.scalar for a in args)
            result = np.asarray(function(*(a.handle.data for a in args)))
            shape = list(result.shape) if any(a.type.is_block() for a in args) else None
            return tl.tensor(found.TensorHandle(result, kind), tl.block_type(kind, shape) if shape else kind)

        return call

    for name, function in _FUNCTIONS.items():
        patches.set(module, name, over_arrays(function))
