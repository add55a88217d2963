"""Classes of plain data: dataclasses whose comparison, hash and text are shared functions, made at the first use.

In: a class with annotated fields. Out: the same class with `__init__` and `dataclasses.fields`. A dataclass compiles three
functions when it is defined, a frozen one six (0.3 and 0.6 ms); this one compiles its `__init__` when the first instance is
made (defining it takes 0.02 ms). That nobody changes an instance is a rule here, not a check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

Class = TypeVar("Class", bound=type)


@overload
@dataclass_transform(field_specifiers=(field,))
def data(cls: Class) -> Class: ...
@overload
@dataclass_transform(field_specifiers=(field,))
def data(cls: None = None, *, eq: bool = True) -> Callable[[Class], Class]: ...
def data(cls: Any = None, *, eq: bool = True) -> Any:
    """A class decorator. With `eq` instances of one class are equal, and hash alike, if their fields do."""
    return (lambda cls: finished(cls, eq)) if cls is None else finished(cls, eq)


def finished(cls: type, eq: bool) -> type:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else dataclasses ask for the signature
    own = set(vars(cls))
    cls = dataclass(init=False, repr=False, eq=False, match_args=False)(cls)
    if "__init__" not in own:
        cls.__init__ = late_init(cls)
    methods: dict[str, Callable] = {} if "__repr__" in own else {"__repr__": shown}
    if eq and "__eq__" not in own:
        names = [field.name for field in cls.__dataclass_fields__.values() if field.compare]
        cls._data_values = attrgetter(*names) if names else staticmethod(lambda x: ())
        methods["__eq__"] = equal
        if "__hash__" not in own:
            methods["__hash__"] = hashed
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def late_init(cls: type) -> Callable:
    """An `__init__` that puts the real one in its place."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = made_init(cls)
        cls.__init__(self, *args, **kwargs)

    return __init__


def made_init(cls: type) -> Callable:
    """What `dataclasses` would make: fields in their order, defaults, then `__post_init__`."""
    space: dict[str, Any] = {"_missing": MISSING}
    head, keywords, body = ["self"], [], []
    for each in fields(cls):
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            space[f"_new_{name}"] = each.default_factory
            value = f"_new_{name}() if {name} is _missing else {name}" if each.init else f"_new_{name}()"
            default = "=_missing"
        else:
            space[f"_of_{name}"] = each.default
            default = "" if each.default is MISSING else f"=_of_{name}"
        if each.init:
            (keywords if each.kw_only else head).append(name + default)
        if each.init or each.default_factory is not MISSING:
            body.append(f"    self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    parameters = ", ".join([*head, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({parameters}):\n" + "\n".join(body or ["    pass"]), space)
    made = space["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def shown(self: Any) -> str:
    fields = [f"{field.name}={getattr(self, field.name)!r}" for field in self.__dataclass_fields__.values() if field.repr]
    return f"{type(self).__qualname__}({', '.join(fields)})"


def equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self is other or self._data_values(self) == other._data_values(other)


def hashed(self: Any) -> int:
    return hash(self._data_values(self))
