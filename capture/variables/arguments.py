"""How the functions that answer for builtins and methods may be called: a call by the program is bound before it is made.

In: a function of the compiler, the number of its positional arguments and those by keyword. Out: whether Python would bind them.
What does not fit is a wrong call by the program, a graph break; so an error in the function's own body is one of the compiler.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any, NamedTuple

from ..breaks import GraphBreak, unsupported


class Parameters(NamedTuple):
    """What a code object says of a function's parameters."""

    names: tuple[str, ...]  # of those that take positional arguments
    hidden: int  # so many of them take no keyword
    least: int  # so many of them have no default
    most: float
    only: frozenset[str]  # keywords that are no positional parameters
    required: frozenset[str]  # keywords among them that have no default
    rest: bool  # takes any other keyword

    def bind(self, count: int, keywords: Collection[str]) -> bool:
        """Whether a call with so many positional arguments and these keywords is one that Python makes."""
        if not keywords:
            return self.least <= count <= self.most and not self.required
        free = {*self.names[max(count, self.hidden) :], *self.only}
        unknown = [name for name in keywords if name not in free]
        twice = [name for name in unknown if name in self.names[self.hidden : count]]
        missing = [
            name for i, name in enumerate(self.names[: self.least]) if i >= count and (i < self.hidden or name not in keywords)
        ]
        return count <= self.most and not twice and not missing and self.required <= {*keywords} and (self.rest or not unknown)


@functools.cache
def parameters(fn: FunctionType) -> Parameters:
    code = fn.__code__
    count = code.co_argcount
    only = frozenset(code.co_varnames[count : count + code.co_kwonlyargcount])
    return Parameters(
        names=code.co_varnames[:count],
        hidden=code.co_posonlyargcount,
        least=count - len(fn.__defaults__ or ()),
        most=math.inf if code.co_flags & inspect.CO_VARARGS else count,
        only=only,
        required=only - (fn.__kwdefaults__ or {}).keys(),
        rest=bool(code.co_flags & inspect.CO_VARKEYWORDS),
    )


@functools.cache
def most_arguments(fn: Callable) -> tuple[float, frozenset[str] | None]:
    """How many positional arguments a builtin takes, and which keywords; infinity and None where it does not say."""
    try:
        told = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return math.inf, None
    kinds = [p.kind for p in told]
    at_most = (
        math.inf
        if inspect.Parameter.VAR_POSITIONAL in kinds
        else sum(kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
    )
    return at_most, None if inspect.Parameter.VAR_KEYWORD in kinds else frozenset(p.name for p in told)


def is_surplus(fn: Callable, args: list, kwargs: dict) -> bool:
    """Whether there are arguments that the builtin does not take."""
    at_most, keywords = most_arguments(fn)
    return len(args) > at_most or (bool(kwargs) and keywords is not None and not kwargs.keys() <= keywords)


@functools.cache
def span(handler: FunctionType, fn: Callable | None = None) -> tuple[float, float]:
    """How few and how many positional arguments, with no others, a handler takes, and the builtin that it answers for."""
    told = parameters(handler)
    return math.inf if told.required else told.least, min(told.most, math.inf if fn is None else 1 + most_arguments(fn)[0])


def fits(handler: FunctionType, args: list, kwargs: dict, fn: Callable | None = None, own: int = 1) -> bool:
    """Whether a call of a handler, with so many arguments of `own` in front, is one that Python makes, and `fn` takes."""
    if kwargs:
        return parameters(handler).bind(own + len(args), kwargs) and (fn is None or not is_surplus(fn, args, kwargs))
    least, most = span(handler, fn)
    return least <= own + len(args) <= most


def call_error(name: Any) -> GraphBreak:
    """A call that Python refuses, and has to tell the program so."""
    return unsupported("builtin", f"{getattr(name, '__name__', name)}() with arguments of other kinds or number")


def given_arguments(*variables: Any) -> list:
    """Those of optional arguments, in order, that were given."""
    return [v for v in variables if v is not None]
