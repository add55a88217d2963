"""Products of groups of rows or columns, each group with a matrix of its own (mixtures of experts).

`ends[i]` is where group i ends along the grouped dim of a matrix. Of rows and batches (S,K) x (G,K,N) -> (S,N); of batches
and columns (G,M,K) x (K,S) -> (M,S); of two matrices, grouped along what is summed, (M,S) x (S,N) -> (G,M,N). The gradients
of each of these are others of these. What lies behind the last end is zero in the result and counts as zero.
"""

import numpy as np

from ..op.op import extern
from .products import numpy_product
from .views import mT


def _meta(a, b, ends):
    if len(a.shape) == len(b.shape):
        return ends.shape[0], a.shape[0], b.shape[1]
    return (a.shape[0], b.shape[2]) if len(a.shape) == 2 else (a.shape[1], b.shape[1])


@extern(meta=_meta, exclude=("ends",))
def grouped_mm(a, b, ends):
    """The kind of product follows from the numbers of dims."""
    out = np.zeros(_meta(a, b, ends), a.dtype)
    start = 0
    for k, end in enumerate(ends.tolist()):
        part = slice(start, end)
        if a.ndim == b.ndim:
            out[k] = numpy_product(a[:, part], b[part])
        elif a.ndim == 2:
            out[part] = numpy_product(a[part], b[k])
        else:
            out[:, part] = numpy_product(a[k], b[:, part])
        start = max(start, end)
    return out


@grouped_mm.grad("a")
def _(g, b, ends):
    return grouped_mm(g, mT(b), ends)


@grouped_mm.grad("b")
def _(g, a, ends):
    return grouped_mm(mT(a), g, ends)


@grouped_mm.samples
def _(make):
    ends = make.ints(6, 3).sort().values
    return [(make(6, 4), make(3, 4, 2), ends), (make(3, 2, 4), make(4, 6), ends), (make(2, 6), make(6, 3), ends)]
