"""Optimizer steps in place over lists of arrays, in one parallel run; False where the native kernels do not take them.

In: per parameter the arrays that a step reads and writes, all of one type. Steps are counted in float32, one element each.
"""

from __future__ import annotations

import numpy as np

from . import _native
from .jobs import TYPES, plain

_job_list, _numbers = _native.job_list, _native.jobs()
ADAM, SGD, COUNT = _numbers["adam"], _numbers["sgd"], _numbers["count_up"]
_F32 = np.dtype(np.float32)


def adam(rows, lr, beta1, beta2, eps, weight_decay, decoupled, maximize) -> bool:
    """`rows`: (param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq or None, step) of each parameter; counts the steps."""
    if not all([plain(*row[:5]) and row[5].dtype == _F32 for row in rows]):
        return False
    counts = tuple([count for row in rows for count in (row[5], row[5])])
    for dtype, group in by_type(rows):
        arrays = tuple([a for p, g, m, v, top, count in group for a in (p, m, v, top, p, m, v, top, g, count)])
        _job_list(ADAM, TYPES[dtype], 10, arrays, (int(decoupled), int(maximize)), (lr, beta1, beta2, eps, weight_decay))
    _job_list(COUNT, TYPES[_F32], 2, counts, (), ())
    return True


def sgd(rows, lr, momentum, dampening, weight_decay, nesterov, maximize) -> bool:
    """`rows`: (param, grad, buffer or None) of each parameter."""
    if not all([plain(*row) for row in rows]):
        return False
    for dtype, group in by_type(rows):
        arrays = tuple([a for p, g, b in group for a in (p, b, p, b, g)])
        _job_list(SGD, TYPES[dtype], 5, arrays, (int(nesterov), int(maximize)), (lr, momentum, 1.0 - dampening, weight_decay))
    return True


def by_type(rows):
    """(type, rows of that type), each type once."""
    groups: dict = {}
    for row in rows:
        groups.setdefault(row[0].dtype, []).append(row)
    return groups.items()
