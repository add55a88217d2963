"""Public names, declared where the function stands; `api.py` makes the library's functions and the methods of Tensor of them.

    @public.function              torch.f
    @public.method                Tensor.f
    @public.both                  the two
    @public.in_place              Tensor.f_, which writes what f gives into the tensor
    @public.in_place_view         Tensor.f_, which gives the tensor the geometry of the view
    @public.in_place_function     torch.f_, which calls the method
    @public.small(record)         small calls run natively, and are recorded as `record`; without one, what is recorded does not
    @public.views                 the usual calls run natively: a few views

Decorators add up; each returns the function as it is. The name is the function's own, or the one given: `@public.method("data")`.
`each(scope, function="a b", method="a")` declares names that are assigned: aliases, and functions made of op records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

FUNCTIONS: dict[str, Any] = {}
METHODS: dict[str, Any] = {}  # properties, too
IN_PLACE: dict[str, Any] = {}  # name without the underscore -> function of new tensors
IN_PLACE_VIEWS: dict[str, Any] = {}
IN_PLACE_FUNCTIONS: dict[str, Any] = {}  # name without the underscore -> anything
SMALL: dict[str, Any] = {}  # name -> the record that calls with history are recorded as, its call path, or None
VIEWS: dict[str, Any] = {}


def _declare(table: dict[str, Any], name: str, value: Any) -> Any:
    if name in table:
        raise ValueError(f"the public name {name!r} is declared twice")
    table[name] = value
    return value


def _form(table: dict[str, Any]) -> Callable:
    def declare(value: Any) -> Any:
        if isinstance(value, str):
            return lambda function: _declare(table, value, function)
        return _declare(table, value.__name__, value)

    return declare


function, method, in_place, in_place_view, in_place_function, views = map(
    _form, (FUNCTIONS, METHODS, IN_PLACE, IN_PLACE_VIEWS, IN_PLACE_FUNCTIONS, VIEWS)
)


def both(value: Any) -> Any:
    return (lambda f: function(value)(method(value)(f))) if isinstance(value, str) else function(method(value))


def small(value: Any) -> Any:
    if type(value) is FunctionType:
        SMALL[value.__name__] = None
        return value
    return lambda function: SMALL.update({function.__name__: value}) or function


def methods(**values: Any) -> None:
    """Methods and properties that are called otherwise than their functions."""
    for name, value in values.items():
        _declare(METHODS, name, value)


def each(scope: Mapping[str, Any], **names: str) -> None:
    """Declares, of a mapping, the names of each form (those of the decorators), separated by spaces."""
    forms = dict(function=function, method=method, both=both, in_place=in_place, in_place_function=in_place_function)
    for form, listed in names.items():
        for name in listed.split():
            forms[form](name)(scope[name])
