"""numpy's functions and scalars beside tensors: `numpy.prod(x.shape)`, `numpy.log2(n)`.

A function of numpy on numbers that are known is called while tracing, and what it gives, if it is a number, is a constant: it is
the same whenever the same numbers come, which is guarded. Arrays are no constants: what takes or gives one is a graph break.
"""

from __future__ import annotations

import numpy as np

from ...eager.sizes import SYMBOLIC
from ...eager.tensor import Tensor
from ..breaks import unsupported

FUNCTIONS = (np.ufunc, type(np.prod))
SCALARS = (np.number, np.bool_)
KNOWN = (bool, int, float, complex, str, type(None), type, np.dtype, *SCALARS)


def is_numpy(fn) -> bool:
    return isinstance(fn, FUNCTIONS)


def call_numpy(tx, args, kwargs, fn):
    """The real function, on what is known."""
    given = [*(a.realize() for a in args), *(v.realize() for v in kwargs.values())]
    for value in given:
        if not is_known(value.plain()):
            raise unsupported("builtin", f"numpy.{fn.__name__}() of {value}, which is no known number")
    found = tx.run_outside(fn, *(a.realize().plain() for a in args), **{n: v.realize().plain() for n, v in kwargs.items()})
    if not is_known(found):
        raise unsupported("builtin", f"numpy.{fn.__name__}() gives a {type(found).__name__}, which is no number")
    return tx.fresh(found)


def is_known(value) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(is_known, value))
    return isinstance(value, KNOWN) and not isinstance(value, (Tensor, *SYMBOLIC))
