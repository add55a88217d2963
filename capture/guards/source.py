"""Where a value came from.

A Source names one access path from the frame's inputs: an argument, a global, an attribute, an item, a cell. It gives a
name for humans (`name()`), the bytecode that reads it again (`reconstruct(emit)`) and the step that a guard tree takes
from its base (`step`). `Guards` collects what was read to make a decision and lowers it into a GuardTree in one place.
"""

from __future__ import annotations

import types
from typing import Any

from ...runtime.dataclass import data
from ...runtime.errors import InternalError


MODULE_TABLES = ("_parameters", "_buffers", "_modules")


class Source:
    """One access path; `base` is the path that this step starts from (None at a root)."""

    base: Source | None

    @property
    def root(self) -> Source:
        """Where the path starts."""
        source = self
        while source.base is not None:
            source = source.base
        return source

    @property
    def of_frame(self) -> bool:
        """Whether the path starts at a local or a cell of the frame."""
        return isinstance(self.root, (Local, LocalCell, Free))

    def name(self) -> str:
        raise TypeError(f"{type(self).__name__} has no name")

    def step(self) -> tuple[str, Any]:
        """(kind, key) of the guard tree's child."""
        raise TypeError(f"{type(self).__name__} has no guard step")

    def reconstruct(self, emit: Any) -> None:
        """Emit bytecode that pushes the value."""
        raise TypeError(f"{type(self).__name__} cannot be read again")

    def __str__(self) -> str:
        return self.name()


class Root(Source):
    """A path that starts here."""

    base: None = None


@data
class Argument(Root):
    """What the frame was called with under a name."""

    local: str

    def name(self) -> str:
        return self.local

    def step(self) -> tuple:
        return "arg", self.local


@data
class Local(Argument):
    """An argument of the frame."""

    def reconstruct(self, emit: Any) -> None:
        emit.load_fast(self.local)


@data
class LocalCell(Argument):
    """An argument that nested functions share. Generated code has put it into a cell, and its first value into `.arg_<name>`."""

    def reconstruct(self, emit: Any) -> None:
        emit.load_fast(f".arg_{self.local}")


@data
class Free(Root):
    """The cell of a free variable of the frame's own code."""

    variable: str
    index: int

    def name(self) -> str:
        return f"cell({self.variable})"

    def step(self) -> tuple:
        return "closure", self.index

    def reconstruct(self, emit: Any) -> None:
        emit.load_closure(self.variable)


@data
class Contents(Source):
    """What a cell holds."""

    base: Source

    def name(self) -> str:
        return self.base.variable if isinstance(self.base, Free) else f"{self.base.name()}.cell_contents"

    def step(self) -> tuple:
        return "cell", None

    def reconstruct(self, emit: Any) -> None:
        if isinstance(self.base, Free):
            emit.load_deref(self.base.variable)
        else:
            self.base.reconstruct(emit)
            emit.load_attr("cell_contents")


@data
class Global(Root):
    """A global of the frame's own module."""

    variable: str

    def name(self) -> str:
        return self.variable

    def step(self) -> tuple:
        return "global", self.variable

    def reconstruct(self, emit: Any) -> None:
        emit.load_global(self.variable)


class Pinned(Root):
    """An object that the entry keeps alive: the globals of an inlined function, a class, a module."""

    value: Any
    label: str

    def __init__(self, value: Any, label: str):
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "label", label)

    def __eq__(self, other: Any) -> bool:
        return type(other) is Pinned and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def name(self) -> str:
        return self.label

    def step(self) -> tuple:
        return "object", self.value

    def reconstruct(self, emit: Any) -> None:
        emit.load_const(self.value)


@data
class Attr(Source):
    """An attribute, read as Python reads it."""

    base: Source
    attr: str

    def name(self) -> str:
        return f"{self.base.name()}.{self.attr}"

    def step(self) -> tuple:
        return "attr", self.attr

    def reconstruct(self, emit: Any) -> None:
        self.base.reconstruct(emit)
        emit.load_attr(self.attr)


@data
class TensorSlot(Attr):
    """An attribute of a tensor that gives what stands in a slot: guards read the slot."""

    slot: str

    def step(self) -> tuple:
        return "slot", self.slot


@data
class DictAttr(Source):
    """An entry of an object's own `__dict__`."""

    base: Source
    attr: str

    def name(self) -> str:
        return f"{self.base.name()}.{self.attr}"

    def step(self) -> tuple:
        return "dict_attr", self.attr

    def reconstruct(self, emit: Any) -> None:
        self.base.reconstruct(emit)
        if not self.bound():
            emit.load_attr(self.attr)
            return
        emit.load_attr("__dict__")
        emit.load_const(self.attr)
        emit.binary_subscr()

    def bound(self) -> bool:
        """Whether it is a descriptor in a class, which an attribute access would call."""
        home = self.base.value if isinstance(self.base, Pinned) else None
        return isinstance(home, type) and hasattr(type(vars(home).get(self.attr)), "__get__")


@data
class Item(Source):
    """An item under a constant index or key."""

    base: Source
    key: Any
    kind: Any = None  # the key's type: 1, 1.0 and True are equal keys but different paths

    def name(self) -> str:
        if isinstance(self.base, DictAttr) and self.base.attr in MODULE_TABLES:
            return f"{self.base.base.name()}.{self.key}"  # as users write it
        return f"{self.base.name()}[{self.key!r}]"

    def step(self) -> tuple:
        return "item", self.key

    def reconstruct(self, emit: Any) -> None:
        self.base.reconstruct(emit)
        emit.load_const(self.key)
        emit.binary_subscr()


class ItemPast(Item):
    """An item that is read past a `__getitem__` of the class: as `kind`, its builtin base, gives it."""

    def reconstruct(self, emit: Any) -> None:
        emit.load_const(self.kind.__getitem__)
        emit.as_callable()
        self.base.reconstruct(emit)
        emit.load_const(self.key)
        emit.call(2)


class IteratorItem(Item):
    """What an iterator from outside gives after `key` others: generated code has the rest of it in a local from the start."""

    def name(self) -> str:
        return f"{self.base.name()}, member {self.key}"

    def reconstruct(self, emit: Any) -> None:
        emit.load_fast(rest_local(self.base))
        emit.load_const(self.key)
        emit.binary_subscr()


def rest_local(iterator: Source) -> str:
    """The local that holds what an iterator has still to give when the frame begins."""
    return f".rest_{iterator.name()}"


@data
class Length(Source):
    """How many members a container has."""

    base: Source

    def name(self) -> str:
        return f"len({self.base.name()})"

    def step(self) -> tuple:
        return "length", None

    def reconstruct(self, emit: Any) -> None:
        emit.load_const(len)
        emit.as_callable()
        self.base.reconstruct(emit)
        emit.call(1)


class Keyed(Source):
    """An item under a key that is compared by identity; `key_source` leads to that very object."""

    base: Source
    key: Any
    key_source: Source

    def __init__(self, base: Source, key: Any, key_source: Source):
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "key_source", key_source)

    def __eq__(self, other: Any) -> bool:
        return type(other) is Keyed and other.key is self.key and other.base == self.base

    def __hash__(self) -> int:
        return hash((id(self.key), self.base))

    def name(self) -> str:
        return f"{self.base.name()}[{self.key_source.name()}]"

    def step(self) -> tuple:
        return "item", self.key

    def reconstruct(self, emit: Any) -> None:
        self.base.reconstruct(emit)
        self.key_source.reconstruct(emit)
        emit.binary_subscr()


def item(base: Source, key: Any) -> Item:
    return Item(base, key, type(key))


def module_entry(base: Source, table: str, name: str) -> Source:
    """A parameter, buffer or sub-module of a Module, by its table."""
    return item(DictAttr(base, table), name)


@data
class Guard:
    """One fact that must hold for the entry to be used again."""

    source: Source | None
    kind: str
    payload: Any
    line: str

    def describe(self) -> str:
        """The fact in words, with the name that the user knows."""
        place = self.source.name() if self.source is not None else ""
        return WORDS.get(self.kind, "{0}: " + self.kind + " {1}").format(place, _show(self.payload)).strip()


WORDS = {
    "type_is": "{0} is of type {1}",
    "is": "{0} is the same object, {1}",
    "equals": "{0} == {1}",
    "tensor": "{0} is {1}",
    "len": "len({0}) == {1}",
    "dict_keys": "{0} has the keys {1}",
    "no_dict_attr": "{0} has no attribute {1} of its own",
    "no_attr": "{0} has no attribute {1}",
    "no_item": "{0} has no entry {1}",
    "has_item": "{0} has the entry {1}",
    "bool": "the truth of {0} is {1}",
    "no_hooks": "{0} has no hooks",
    "same_as": "{0} is {1}",
    "not_same": "{0} is not {1}",
    "grad_mode": "gradients are recorded: {1}",
    "casting": "the settings of autocast are {1}",
    "there": "{0} is there",
    "own_names": "{0} has the attributes {1}",
    "predicate": "{0} passes {1}",
}


def _show(value: Any) -> str:
    if isinstance(value, Source):
        return value.name()
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_show, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, (type, types.FunctionType)):
        return value.__qualname__
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, (int, float, str, bytes, bool, type(None))):
        return repr(value)
    return str(value) if type(value).__str__ is not object.__str__ else f"<{type(value).__name__}>"


class Guards:
    """The guards of one trace, in the order of reading, each once."""

    def __init__(self):
        self.items: list[Guard] = []
        self._seen: set = set()
        self.closed = False

    def add(self, source: Source | None, kind: str, payload: Any = None, line: str = "") -> None:
        key = (source, kind, _payload_key(payload))
        if key not in self._seen:
            if self.closed:
                raise InternalError(f"a guard on {source} is added after the guards were written")
            self._seen.add(key)
            self.items.append(Guard(source, kind, payload, line))

    def has(self, source: Source, kind: str) -> bool:
        return any(g.source == source and g.kind == kind for g in self.items)

    def text(self) -> str:
        return "\n".join(f"{g.describe()}{'   # ' + g.line if g.line else ''}" for g in self.items) + "\n"


def _payload_key(payload: Any) -> Any:
    if isinstance(payload, (Source, str, type(None))):
        return payload
    if isinstance(payload, (int, float, complex)):
        return type(payload), repr(payload)
    if isinstance(payload, (tuple, list)):
        return tuple(_payload_key(part) for part in payload)
    return id(payload)


def node_of(root: Any, source: Source, known: dict | None = None) -> Any:
    """The guard tree's node for a source, made step by step (`child` returns an existing node, which it looks for among all
    others there; `known`: nodes by source, for whoever asks for many)."""
    if known is not None and source in known:
        return known[source]
    above = root if source.base is None else node_of(root, source.base, known)
    kind, key = source.step()
    node = above.child(kind, key, source.name())
    if known is not None:
        known[source] = node
    return node
