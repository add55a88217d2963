"""Writes into expanded memory, whose elements share places.

What is written is one value, so every element that shares a place with a written one has it afterwards. The write goes
to the elements without their repetitions; other in-place operations refuse such memory.
"""

from ..ops import arithmetic as a, views as v


def distinct(x):
    """The elements once each: dims over which memory repeats are cut to one."""
    if 0 not in x.stride() or 0 in x.shape:
        return x
    for d, (n, step) in enumerate(zip(x.shape, x.stride())):
        if type(step) is int and step == 0 and n != 1:
            x = v.slice_dim(x, d, 0, 1, 1)
    return x


def fill(x, value):
    """`value`: a number."""
    a.copy.inplace(distinct(x), value)
    return x


def fill_masked(x, mask, value):
    target = distinct(x)
    if target is not x:
        mask = mask.expand(tuple(x.shape))
        for d, n in enumerate(target.shape):
            mask = mask.any(d, True) if n is not mask.shape[d] and n != mask.shape[d] else mask
    a.masked_fill.inplace(target, mask, value)
    return x
