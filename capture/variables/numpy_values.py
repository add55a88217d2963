"""numpy's functions and scalars beside tensors: `numpy.prod(x.shape)`, `numpy.log2(n)`.

A function of numpy on numbers that are known is called while tracing, and what it gives, if it is a number, is a constant: it is
the same whenever the same numbers come, which is guarded. Arrays are no constants: what takes or gives one is a graph break.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from typing import Any

from ...eager.sizes import SYMBOLIC
from ...eager.tensor import Tensor
from ..breaks import unsupported
from .arguments import is_surplus, call_error
from .base import NotPlain, Variable
from .sequences import SequenceVariable

FUNCTIONS = (np.ufunc, type(np.prod))
SCALARS = (np.number, np.bool_)
KNOWN = (bool, int, float, complex, str, type(None), type, np.dtype, *SCALARS)


ON_ARRAYS: list[Callable] = []  # what calls functions on arrays, once a program has some (numpy_arrays.py)


def is_numpy(fn: Callable) -> bool:
    return isinstance(fn, FUNCTIONS)


def call_numpy(tx: Any, fn: Any, args: list, kwargs: dict) -> Variable:
    """The real function, on what is known."""
    if is_surplus(fn, args, kwargs):
        raise call_error(fn)
    if ON_ARRAYS and any(map(holds_array, (*args, *kwargs.values()))):
        return ON_ARRAYS[0](tx, fn, args, kwargs)
    plain, named = [known(fn, a) for a in args], {name: known(fn, v) for name, v in kwargs.items()}
    found = tx.run_outside(fn, *plain, **named)
    if not is_known(found):
        raise unsupported("builtin", f"numpy.{fn.__name__}() gives a {type(found).__name__}, which is no number")
    return tx.fresh(found)


def holds_array(variable: Variable) -> bool:
    """Whether an argument is an array, or a list with one."""
    variable = variable.realize()
    return variable.is_array or any(map(holds_array, variable.items if isinstance(variable, SequenceVariable) else ()))


def known(fn: Any, variable: Variable) -> int:
    """The number that an argument is."""
    try:
        value = variable.realize().plain()
    except NotPlain as error:
        raise unsupported("builtin", f"{fn.__name__}() of {error}") from error
    if not is_known(value):
        raise unsupported("builtin", f"numpy.{fn.__name__}() of {variable}, which is no known number")
    return value


def is_known(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(is_known, value))
    return isinstance(value, KNOWN) and not isinstance(value, (Tensor, *SYMBOLIC))
