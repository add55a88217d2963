"""Optimizer steps in place over lists of arrays, in one parallel run; False where the native kernels do not take them.

In: per parameter the arrays that a step reads and writes, all of one type. Steps are counted in float32, one element each.
`*_calls` are the same steps for compiled code (runtime/kernel_calls.py).
"""

from __future__ import annotations

import numpy as np

from . import _native, kernel_calls
from .kernels import TYPES, are_contiguous_floats

_job_list, _numbers = _native.job_list, _native.jobs()
ADAM, SGD, COUNT = _numbers["adam"], _numbers["sgd"], _numbers["count_up"]
_F32 = np.dtype(np.float32)


def adam(rows, lr, beta1, beta2, eps, weight_decay, decoupled, maximize) -> bool:
    """`rows`: (param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq or None, step) of each parameter; counts the steps."""
    if not all([are_contiguous_floats(*row[:5]) and row[5].dtype == _F32 for row in rows]):
        return False
    counts = tuple([count for row in rows for count in (row[5], row[5])])
    for dtype, group in by_type(rows):
        arrays = tuple([a for p, g, m, v, top, count in group for a in (p, m, v, top, p, m, v, top, g, count)])
        _job_list(ADAM, TYPES[dtype], 10, arrays, (int(decoupled), int(maximize)), (lr, beta1, beta2, eps, weight_decay))
    _job_list(COUNT, TYPES[_F32], 2, counts, (), ())
    return True


def sgd(rows, lr, momentum, dampening, weight_decay, nesterov, maximize) -> bool:
    """`rows`: (param, grad, buffer or None) of each parameter."""
    if not all([are_contiguous_floats(*row) for row in rows]):
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


def adam_calls(c, news, olds, grad, step, new_step, options, reals):
    """`news`, `olds`: param, exp_avg, exp_avg_sq and max_exp_avg_sq or None."""
    kind = kind_of(*olds, grad)
    if kind is None or step.dtype.name != "float32" or c.is_empty(grad):
        return None
    arrays = (*news, *kernel_calls.rows_of(c, *olds, grad, step))
    same = tuple((k, k + 4) for k in range(4))
    return (
        kernel_calls.RuntimeCall("adam", kind, count(grad), 1, arrays, options, reals, same),
        kernel_calls.RuntimeCall("count_up", 0, count(step), 1, (new_step, arrays[-1]), same=((0, 1),)),
    )


def sgd_calls(c, news, olds, grad, options, reals):
    """`news`, `olds`: param, and buffer or None."""
    kind = kind_of(*olds, grad)
    if kind is None or c.is_empty(grad):
        return None
    arrays = (*news, *kernel_calls.rows_of(c, *olds, grad))
    return (kernel_calls.RuntimeCall("sgd", kind, count(grad), 1, arrays, options, reals, ((0, 2), (1, 3))),)


def kind_of(*regions):
    """The kernels' number of the one type that all have, if they are of one shape too; else None."""
    first, *rest = [x for x in regions if x is not None]
    alike = all(x.dtype is first.dtype and x.shape == first.shape for x in rest)
    return kernel_calls.TYPES.get(first.dtype.name) if alike else None


def count(region):
    units = 1
    for n in region.shape:
        units = units * n
    return units
