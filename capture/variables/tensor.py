"""Tensors: a fake tensor that library code runs on while its operations become graph nodes."""

from __future__ import annotations

import math
from typing import Any

from ...eager.autograd import tensor_backward
from ...eager.tensor import Tensor
from ..breaks import unsupported
from ..shapes.symbolic_shapes import hint_of
from ..guards.source import Attr, DictAttr, TensorSlot, Source
from ..guards.tensor_facts import TensorFacts
from .base import Variable
from .constant import PlainMethod

# changes of a tensor's own state that the graph does not hold: they cannot be replayed after it
_METADATA = ("data", "requires_grad", "grad_fn")
_AUTOGRAD = ("backward", "register_hook", "retain_grad", "register_post_accumulate_grad_hook")
_IN_PLACE_METADATA = ("requires_grad_", "set_", "resize_", "as_strided_", "share_memory_", "detach_")
_READS = {
    "item": "item",
    "tolist": "item",
    "numpy": "item",
    "data_ptr": "item",
    "__array__": "item",
    "untyped_storage": "metadata",
    "storage": "metadata",
}


MOST_NUMBERS = 8


def numbers_of(fake: Tensor) -> Any:
    """tolist() of a few numbers."""
    hints: list[Any] = [hint_of(n) for n in fake.shape]
    if None in hints or math.prod(hints) > MOST_NUMBERS:
        return fake.tolist()  # raises
    return [numbers_of(row) for row in fake.unbind(0)] if fake.ndim else fake.item()


class TensorVariable(Variable):
    """`fake` stands for the tensor; `cls` is the real class (Tensor, Parameter); `real` the input it was made from, `facts` what
    its guard says."""

    facts: TensorFacts | None = None

    def __init__(self, fake: Any, source: Source | None = None, cls: type | None = None, real: Any = None):
        super().__init__(source)
        self.fake, self.real = fake, real
        self.cls = cls or type(fake)

    def python_type(self) -> type:
        return self.cls

    def plain(self) -> Any:
        return self.fake

    def identity(self) -> Any:
        return self.fake

    def key(self) -> Any:
        return ("tensor", id(self.fake))

    def describe(self) -> str:
        return f"tensor {list(self.fake.shape)} {self.fake.dtype}"

    def truth(self, tx: Any) -> bool:
        if self.fake.numel() != 1 and tx.run(lambda: bool(self.fake.numel() != 1)):
            return tx.run(bool, self.fake)
        raise unsupported("branch-on-data", f"Python asks for the truth of {self}, which only the data knows")

    # -- attributes ------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Any, name: str) -> Variable:
        stored = tx.effects.stored(self, name)
        if stored is not None:
            return stored
        if name == "__class__":
            return tx.wrap_type(self.cls)
        if name in _READS or name in _AUTOGRAD:
            return PlainMethod(self, name)
        if self.real is not None and name in getattr(self.real, "__dict__", {}):
            return tx.wrap(self.real.__dict__[name], DictAttr(self.known_source, name))
        if name in ("grad", "_grad"):
            return self.gradient(tx)
        if name == "data":
            return self.data(tx)
        if name in ("grad_fn", "_grad_fn") and self.fake.requires_grad:
            if self.real is not None and self.real._grad_fn is None and self.fake.is_leaf:  # its guard says so
                return tx.constant(None)
            raise unsupported("backward", f"{name} of {self}")
        return self.library_attribute(tx, name)

    def library_attribute(self, tx: Any, name: str) -> Variable:
        value = tx.run(getattr, self.fake, name)
        if callable(value) and getattr(value, "__self__", None) is self.fake:
            return PlainMethod(self, name)
        return tx.fresh(value)

    def gradient(self, tx: Any) -> Variable:
        if self.facts is None:
            return tx.constant(None)
        if self.real.grad is None:
            self.facts.no_gradient = True
            return tx.constant(None)
        plain = type(self.real).grad is Tensor.grad
        return tx.wrap(
            self.real.grad, TensorSlot(self.known_source, "grad", "_grad") if plain else Attr(self.known_source, "grad")
        )

    def data(self, tx: Any) -> Variable:
        """The same memory without history, and without a part in its versions: one that is written or leaves the trace is
        Python's."""
        if not tx.assumptions.aliases_unseen:
            raise unsupported("metadata", f".data of {self} is written, or leaves the graph")
        tx.tracer.silent.append(self.fake._fl_storage)
        return tx.fresh(tx.run(type(self.fake).detach, self.fake))

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        if name == "requires_grad" and value.realize().is_constant() and self.may_become_leaf(tx):
            self.become_leaf(tx, [value.realize()], {})
            return
        if name in _METADATA:
            raise unsupported("metadata", f"storing {name!r} of {self}")
        tx.effects.store_attr(self, name, value)

    # -- calls -----------------------------------------------------------------------------------------------------

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name == "item" and not (args or kwargs):
            return tx.fresh(tx.run(self.fake.item))
        if name == "tolist" and not (args or kwargs):
            return tx.fresh(tx.run(numbers_of, self.fake))
        if name == "numpy" and not args and kwargs.keys() <= {"force"}:
            return tx.array_of(self, **kwargs)
        if name in _READS:
            raise unsupported(_READS[name], f"{name}() of {self}")
        if name == "backward":
            return tx.call_builtin(tensor_backward, [self, *args], kwargs)
        if name in _AUTOGRAD:
            raise unsupported("backward", f"{name}() of {self}")
        if name in ("requires_grad_", "detach_") and self.same_recording(tx, name, args, kwargs):
            return self
        if name == "requires_grad_" and self.may_become_leaf(tx):
            return self.become_leaf(tx, args, kwargs)
        if name in _IN_PLACE_METADATA and (self.source is not None or name in ("requires_grad_", "detach_")):
            raise unsupported("metadata", f"{name}() of {self}")
        method = tx.run(getattr, self.fake, name)
        return tx.fresh(tx.run_variables(method, args, kwargs, what=f"Tensor.{name}"))

    def same_recording(self, tx: Any, name: str, args: list, kwargs: dict) -> bool:
        """Does this leave the tensor as it is? A tensor from outside is guarded by its requires_grad."""
        wanted = name == "requires_grad_"
        for given in (*args, *kwargs.values()):
            wanted = given.realize().plain() if given.realize().is_constant() else None
        return wanted == self.fake.requires_grad and (self.source is None or wanted or self.fake.is_leaf)

    def may_become_leaf(self, tx: Any) -> bool:
        """Whether gradients may be asked for at a tensor that the trace made. Nobody outside may see it: then the history
        that begins here is the trace's own affair."""
        return tx.assumptions.leaves_unseen and self.source is None and not self.fake.requires_grad

    def become_leaf(self, tx: Any, args: list, kwargs: dict) -> TensorVariable:
        tx.run_variables(self.fake.requires_grad_, args, kwargs, what="Tensor.requires_grad_")
        tx.tracer.owned[id(self.fake)] = self.fake
        return self

    def get_item(self, tx: Any, key: Variable) -> Variable:
        return tx.fresh(tx.run_variables(lambda k: self.fake[k], [key], what="indexing"))

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        value = tx.specialise_number(value)
        tx.run_variables(self.fake.__setitem__, [key, value], what="item assignment")

    def length(self, tx: Any) -> Variable:
        return tx.fresh(tx.run(lambda: self.fake.shape[0] if self.fake.dim() else len(self.fake)))

    def iterate(self, tx: Any) -> Variable:
        return tx.iterator([tx.fresh(row) for row in tx.run(lambda: list(iter(self.fake)))])

    def contains(self, tx: Any, member: Variable) -> bool:
        raise unsupported("data-dependent", "`in` on a tensor")

    def reconstruct(self, gen: Any) -> None:
        gen.load_output(self.fake)
