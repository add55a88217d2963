"""Variable: what the interpreter knows about one Python value.

Every class answers the same questions: its Python type, its plain value when library code may run on it (`plain()`),
attributes, calls, items, truth, iteration, and how generated code makes it again (`reconstruct`). What a class does not
answer is a graph break with the user's line. `tx` is the Context of the trace everywhere.
"""

from __future__ import annotations

from typing import Any
from collections.abc import Callable

from ...runtime.errors import InternalError
from ..breaks import unsupported
from ..guards.source import Source


class NotPlain(Exception):
    """The variable has no real Python value that library code could run on."""


class Variable:
    """Base of all kinds of values; `source` says where it came from (None: made by the traced code)."""

    source: Source | None
    outside: Any = None  # the real object, of kinds that are wrapped anew on every path that leads to it
    shared = True  # generated code keeps one object for it, however often it is loaded
    is_array = False  # an array of numpy's that stands for a tensor
    has_index = False  # whether `__index__` of its class is written in Python
    has_own_setattr = False  # its class replaces object.__setattr__; the trace runs that, the replay must not again

    def __init__(self, source: Source | None = None):
        self.source = source

    @property
    def known_source(self) -> Source:
        """Where a value came from that is known to be from outside."""
        if self.source is None:
            raise InternalError(f"{self} did not come from outside")
        return self.source

    # -- what it is ------------------------------------------------------------------------------------------------

    def realize(self) -> Variable:
        """The value itself; one that was not looked at so far is looked at now, under guards."""
        return self

    def resolved(self) -> Variable:
        """The value itself as far as it was looked at: what `realize` gave, if it was asked."""
        return self

    def python_type(self) -> type:
        raise unsupported("value", f"the type of {self} is not known")

    def plain(self) -> Any:
        """The Python value, with fake tensors in place of tensors; raises NotPlain."""
        raise NotPlain(str(self))

    def is_constant(self) -> bool:
        return False

    def identity(self) -> Any:
        """What `is` compares."""
        return self

    def key(self) -> Any:
        """The hashable stand-in used for dict keys and set members."""
        raise unsupported("operator", f"{self} is used as a dict key or set member")

    def describe(self) -> str:
        return type(self).__name__.removesuffix("Variable").lower()

    def __str__(self) -> str:
        return f"{self.describe()} {self.source.name()}" if self.source is not None else self.describe()

    # -- what it does ----------------------------------------------------------------------------------------------

    def truth(self, tx: Any) -> bool:
        return True

    def get_attr(self, tx: Any, name: str) -> Variable:
        raise unsupported("attribute", f"attribute {name!r} of {self}")

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        raise unsupported("attribute", f"storing attribute {name!r} of {self}")

    def del_attr(self, tx: Any, name: str) -> None:
        raise unsupported("attribute", f"deleting attribute {name!r} of {self}")

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        raise unsupported("call", f"calling {self}")

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        return tx.call(self.get_attr(tx, name), args, kwargs)

    def get_item(self, tx: Any, key: Variable) -> Variable:
        raise unsupported("operator", f"indexing {self}")

    def set_item(self, tx: Any, key: Variable, value: Variable) -> None:
        raise unsupported("operator", f"item assignment to {self}")

    def del_item(self, tx: Any, key: Variable) -> None:
        raise unsupported("operator", f"item deletion from {self}")

    def contains(self, tx: Any, member: Variable) -> bool:
        return any(tx.same_value(value, member) for value in self.unpack(tx))

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        """`op(self, other)` (or `op(other, self)`); None where this kind has no say."""
        return None

    def unary(self, tx: Any, op: Callable) -> Variable:
        raise unsupported("operator", f"{op.__name__}() of {self}")

    def length(self, tx: Any) -> Variable:
        return tx.constant(len(self.unpack(tx)))

    def iterate(self, tx: Any) -> Any:
        """A Variable with `next`."""
        raise unsupported("iteration", f"iterating over {self}")

    def unpack(self, tx: Any) -> list:
        """All members, by iterating to the end."""
        iterator, found = self.iterate(tx), []
        while (value := iterator.next(tx)) is not None:
            tx.step()
            found.append(value)
        return found

    # -- how it is made again --------------------------------------------------------------------------------------

    def reconstruct(self, gen: Any) -> None:
        """Emit bytecode that pushes the value; `gen` is the Codegen."""
        raise unsupported("resume", f"{self} cannot be rebuilt outside of the graph")


class LazyVariable(Variable):
    """A value of the real world that was moved around but not looked at: no guard yet."""

    source: Source

    def __init__(self, tx: Any, value: Any, source: Source):
        super().__init__(source)
        self.tx, self.value = tx, value
        self._real: Variable | None = None

    def realize(self) -> Any:
        if self._real is None:
            self._real = self.tx.wrap(self.value, self.source)
        return self._real

    def resolved(self) -> Variable:
        return self if self._real is None else self._real

    def reconstruct(self, gen: Any) -> None:
        if self._real is not None:
            gen.load(self._real)
        else:
            self.source.reconstruct(gen.emit)


class KnownVariable(Variable):
    """An object that is the same one whenever the code runs (`plain` gives it): a class, a module, a function of C."""

    shared = False

    def python_type(self) -> type:
        return type(self.plain())

    def is_constant(self) -> bool:
        return True

    def identity(self) -> Any:
        return self.plain()

    def key(self) -> Any:
        return self.plain()

    def __str__(self) -> str:
        return self.describe()

    def reconstruct(self, gen: Any) -> None:
        gen.emit.load_const(self.plain())


class NamedMethod(Variable):
    """A bound method that its owner knows by name, not called yet."""

    def __init__(self, owner: Any, name: str):
        super().__init__()
        self.owner, self.name = owner, name

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.owner)
        gen.emit.load_attr(self.name)


class OpaqueVariable(Variable):
    """An outside object of a kind that is not traced: it may be passed on and asked for its type, any other use is a graph
    break."""

    source: Source

    def __init__(self, value: Any, source: Source):
        super().__init__(source)
        self.value = value

    def describe(self) -> str:
        return f"{type(self.value).__module__}.{type(self.value).__qualname__}"

    def python_type(self) -> type:
        return type(self.value)

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise unsupported("value", f"{self.source.name()} is a {self.describe()}")

    key = truth = get_attr = set_attr = del_attr = call = call_method = get_item = set_item = del_item = contains = refuse
    binary = length = iterate = next = unpack = refuse


class NullVariable(Variable):
    """The NULL of CPython's value stack."""

    shared = False

    def reconstruct(self, gen: Any) -> None:
        gen.emit.push_null()


NULL = NullVariable()
DELETED = object()  # stands for an attribute, item or name that the trace deleted
