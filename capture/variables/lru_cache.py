"""Functions with a cache (functools.lru_cache, functools.cache): called for real while tracing.

What such a function gives for the same arguments is one object for as long as its cache keeps it, whatever else changes; a
call with constants is therefore made while tracing, and its result is a constant of the entry. One guard looks into the
cache at every call of the entry. A cache that is full, or nearly, is left to Python, because tracing and guards would change
which result it forgets next; so is a call with a number that changes from call to call (with fullgraph=True the number is guarded
instead). A call with objects that the traced code made is inlined.
"""

from __future__ import annotations

import functools
import gc
import sys
from typing import Any

from ..breaks import UserRaise, unsupported
from .base import KnownVariable, NotPlain, Variable
from .constant import SymVariable
from .dicts import DictVariable
from .functions import UserFunctionVariable
from .objects import Cached, UserObjectVariable, lookup_defined
from .side_effect_reach import may_see
from .sequences import ListVariable, TupleVariable
from .sets import SetVariable
from .tensor import TensorVariable


ROOM = 8  # places that a cache must have left for its calls to be made while tracing


class CachedFunctionVariable(KnownVariable):
    """The object that `functools.lru_cache` makes of a function."""

    def __init__(self, value: Any, source: Any = None):
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return Cached

    def plain(self) -> Any:
        return self.value

    def describe(self) -> str:
        return f"cached function {getattr(self.value, '__qualname__', self.value)}"

    def get_attr(self, tx: Any, name: str) -> Variable:
        value = tx.run(getattr, self.value, name)
        return tx.wrap_pinned(value, name) if name == "__wrapped__" else tx.fresh(value)

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        given = [*args, *kwargs.values()]
        for value in given:
            self.refuse_unhashable(tx, value)
        if any(map(is_symbolic, given)):
            args, kwargs = self.with_numbers(tx, args, kwargs)
        elif any(map(is_new, given)):
            if may_forget(self.value) and not keeps_one(self.value):
                raise unsupported("call", f"{self} has a cache so full that the order of its calls decides what it forgets")
            return self.inline(tx, args, kwargs)
        try:
            real = tuple(real_value(tx, a) for a in args)
            named = {name: real_value(tx, v) for name, v in kwargs.items()}
        except NotPlain as error:
            raise unsupported("call", f"{self} is called with {error}, which is no constant") from error
        if may_forget(self.value) and not (keeps_one(self.value) and holds(self.value, real, named)):
            raise unsupported("call", f"{self} has a cache so full that the order of its calls decides what it forgets")
        first = tx.effects.pending() and not holds(self.value, real, named)
        if first and may_see(self.value, (*real, *named.values()), tx.effects):
            if "logging" in sys.modules:
                from .loggers import tell_once, tells_only

                if tells_only(self.value, args):
                    return tell_once(tx, self.value, args, kwargs)
            if tx.options.fullgraph:
                return self.inline(tx, args, kwargs)
            raise unsupported("call", f"{self} is called for the first time, and may see changes that are still to be made")
        try:
            result = tx.run_outside(self.value, *real, **named)
        except UserRaise as error:  # nothing is kept of it: Python is to call it each time
            raise unsupported("call", f"{self} raises {error.text}") from error
        self.guard_result(tx, real, named, result)
        return tx.wrap_pinned(result, f"{self.value.__name__}()")

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        raise unsupported("call", f"{name}() of {self}")  # what the cache holds now

    def with_numbers(self, tx: Any, args: list, kwargs: dict) -> tuple:
        """The cache is Python's: asked with a number that changes, it is to be asked for each."""
        if not tx.options.fullgraph:
            raise unsupported("call", f"{self} is called with a number that changes from call to call")
        return [specialise_numbers(tx, a) for a in args], {name: specialise_numbers(tx, value) for name, value in kwargs.items()}

    def inline(self, tx: Any, args: list, kwargs: dict) -> Any:
        """No cache can hold this call yet, or (in a whole graph) the function must see changes that are still to be made."""
        return tx.call(tx.wrap_pinned(self.value.__wrapped__, self.value.__name__), args, kwargs)

    def refuse_unhashable(self, tx: Any, value: Variable) -> None:
        if isinstance(value, (ListVariable, DictVariable)) or isinstance(value, SetVariable) and value.cls is set:
            tx.raise_error(TypeError, f"unhashable type: {value.python_type().__name__!r}")

    def guard_result(self, tx: Any, args: Any, kwargs: Any, result: Any) -> Any:
        key = self.value, functools._make_key(args, kwargs, True)
        if key not in tx.cached_calls:
            tx.cached_calls.add(key)
            tx.guard(self.source, "predicate", CachedResultGuard(args, kwargs, result))


class CachedResultGuard:
    """Guard: the cached function has the same result for these arguments as when the entry was made."""

    def __init__(self, args: tuple, kwargs: dict, result: Any):
        self.args, self.kwargs, self.result = args, kwargs, result

    def __call__(self, function: Any) -> bool:
        held = holds(function, self.args, self.kwargs)  # else the call would do the function's work, for no one perhaps
        return held and function(*self.args, **self.kwargs) is self.result

    def __str__(self) -> str:
        return f"gives the same for {self.args}"


def is_symbolic(variable: Variable) -> bool:
    """A number that is not known, or a tuple with one."""
    if isinstance(variable, TupleVariable):
        return any(is_symbolic(part.realize()) for part in variable.items)
    return isinstance(variable, SymVariable)


def specialise_numbers(tx: Any, variable: Any) -> Variable:
    """The same with the numbers that there are now, guarded."""
    variable = variable.realize()
    if isinstance(variable, TupleVariable) and is_symbolic(variable):
        return TupleVariable([specialise_numbers(tx, part) for part in variable.items], cls=variable.cls)
    return variable.specialise(tx) if isinstance(variable, SymVariable) else variable


def is_new(variable: Variable) -> bool:
    """Objects that the traced code made and that are equal to nothing else."""
    if isinstance(variable, TupleVariable):
        return any(is_new(part.realize()) for part in variable.items)
    if isinstance(variable, UserObjectVariable):
        return variable.source is None and all(lookup_defined(variable.cls, n)[0] is object for n in ("__eq__", "__hash__"))
    return isinstance(variable, TensorVariable) and variable.source is None


def may_forget(cached: Any) -> bool:
    """Whether new results push others out, or soon will: a call then does its work again, side effects too."""
    info = cached.cache_info()
    room = 0 if info.maxsize == 1 else ROOM
    return info.maxsize is not None and info.currsize + room >= info.maxsize


def keeps_one(cached: Any) -> bool:
    """A cache of one result has no order."""
    return cached.cache_info().maxsize == 1


def holds(cached: Any, args: tuple, kwargs: dict) -> bool:
    """Whether the cache has a result for this call, found without making it."""
    return key_of(cached, args, kwargs) in table_of(cached)


def table_of(cached: Any) -> dict:
    """The cache's own dictionary, which only the collector shows."""
    size = cached.cache_info().currsize
    return next(
        (
            found
            for found in gc.get_referents(cached)
            if type(found) is dict and found is not cached.__dict__ and len(found) == size
        ),
        {},
    )


def key_of(cached: Any, args: tuple, kwargs: dict) -> Any:
    """What the cache looks a call up by, as functools makes it in C."""
    typed = cached.cache_parameters()["typed"]
    if not kwargs and not typed:
        return args[0] if len(args) == 1 and type(args[0]) in (str, int) else args
    key = args + (mark(), *(part for pair in kwargs.items() for part in pair)) if kwargs else args
    return key + tuple(map(type, (*args, *kwargs.values()))) if typed else key


@functools.cache
def mark() -> object:
    """The object that functools puts between positional and named arguments."""
    probe = functools.lru_cache(lambda **named: None)
    probe(name=1)
    return next(iter(table_of(probe)))[0]


def real_value(tx: Any, variable: Variable) -> Any:
    """The very object that a call by Python would pass, guarded to be it; raises NotPlain where there is none."""
    variable = variable.realize()
    if variable.is_constant():
        return variable.plain()
    if isinstance(variable, TupleVariable):
        parts = [real_value(tx, part) for part in variable.items]
        return variable.cls(*parts) if hasattr(variable.cls, "_fields") else variable.cls(parts)
    value = (
        variable.fn
        if isinstance(variable, UserFunctionVariable)
        else variable.value
        if isinstance(variable, UserObjectVariable)
        else None
    )
    if value is None or variable.source is None or variable in tx.effects.attributes:
        raise NotPlain(str(variable))
    tx.guard_identity(variable.source, value)
    return value
