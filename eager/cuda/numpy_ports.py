"""Kernels that were written with numpy, run on a GPU: the same functions with `XP` where they say `np`.

In: a function of this package over numpy arrays. Out: its copy, whose globals and closure have cupy in numpy's place; the
functions of the package that it calls are copied likewise. Products go to cuBLAS; the runtime's kernels for processors
are not there (`Absent`), so a copy that would call one fails instead of computing on the host.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

from ...runtime import kernels, elementwise, copy_gather, native, roi_ops
from ..ops import products, recurrences
from . import blas
from .find_cupy import cupy
from .array_module import XP

_ROOT = __name__.rsplit(".", 2)[0]  # "flambeau.eager"


class Absent:
    """Stands for a module of kernels for processors."""

    def __init__(self, name, **own):
        self._name = name
        vars(self).update(own)

    def __getattr__(self, name):
        raise NotOnDevice(f"{self._name}.{name} runs on processors only")


class NotOnDevice(Exception):
    """A numpy kernel uses something that does not exist on a GPU."""


def _contiguous(x):
    return cupy().ascontiguousarray(x)


_INSTEAD = {
    id(native): Absent("native", empty=lambda shape, dtype: cupy().empty(shape, dtype)),
    id(copy_gather): Absent(
        "moves", copied=_contiguous, contiguous_copy=lambda x: x.copy(order="C"), converted=lambda x, dtype: NotImplemented
    ),
    id(elementwise): Absent("maps"),
    id(kernels): Absent("jobs"),
    id(roi_ops): Absent("roi_ops"),
    id(np): XP,
    id(products.numpy_product): blas.product,
}
_copies: dict = {}


def ported(function):
    """The copy of a function, made once."""
    found = _copies.get(function)
    if found is None:
        found = _copies[function] = types.FunctionType(
            function.__code__,
            {"__builtins__": __builtins__},
            function.__name__,
            function.__defaults__,
            None if function.__closure__ is None else tuple(types.CellType() for _ in function.__closure__),
        )
        found.__kwdefaults__ = function.__kwdefaults__
        for own, cell in zip(found.__closure__ or (), function.__closure__ or ()):
            own.cell_contents = port(cell.cell_contents)
        for name in _names(function.__code__):
            if name in function.__globals__:
                found.__globals__[name] = port(function.__globals__[name])
    return found


def _names(code):
    """The global names of a function and of those inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


class _Module:
    """A module of records: its functions are copied as they are asked for."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return port(getattr(self._module, name))


def port(value) -> Any:
    """What stands on a GPU for a value that a kernel refers to."""
    instead = _INSTEAD.get(id(value))
    if instead is not None:
        return instead
    if isinstance(value, functools.partial):
        return functools.partial(port(value.func), *map(port, value.args), **value.keywords)
    if isinstance(value, types.ModuleType):
        return _Module(value) if value.__name__.startswith(_ROOT + ".ops") or value.__name__ == _ROOT + ".op.prims" else value
    if (
        isinstance(value, np.ufunc)
        or callable(value)
        and getattr(value, "__module__", "").split(".")[0] == "numpy"
        and not isinstance(value, type)
    ):
        return getattr(XP, value.__name__)
    if isinstance(value, types.FunctionType) and value.__module__.startswith((_ROOT + ".ops", _ROOT + ".op.prims")):
        return port(value.__wrapped__) if hasattr(value, "__wrapped__") else ported(value)
    if isinstance(value, recurrences.Steps):
        return recurrences.Steps(*map(port, value))
    return value
