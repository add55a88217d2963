"""Results that follow the order of their inputs' memory, and results that must have memory of their own."""

from ..op.meta import map_order
from ..ops import views as v
from ..ops.views import contiguous_copy
from ..tensor import Tensor, is_dense

CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def channels_last(tensors) -> tuple | None:
    """The order of dims in memory where all tensors (of one rank) have strides in the order of channels last: of what is made
    of them PyTorch keeps it (`suggest_memory_format`)."""
    first = tensors[0]
    order = CHANNELS_LAST.get(first.ndim)
    if order is None or first.is_contiguous() and first.shape[1] > 1 or not all(follows(x, order) for x in tensors):
        return None
    return order


def follows(x: Tensor, order: tuple) -> bool:
    """Whether strides grow from the last of these dims to the first, those of dims of one element too; sizes that are not known
    must be dense in it."""
    sizes, strides = x._fl_sizes, x._fl_strides
    if not all(type(n) is int for n in (*sizes, *strides)):
        dense = is_dense(sizes, strides, order)
        if not dense or not any(type(n) is int and n == 1 for n in sizes):
            return dense
    least = 0
    for d in reversed(order):
        if not sizes[d] or strides[d] < least or d == 0 and least == strides[1]:
            return False
        least = strides[d] * sizes[d]
    return strides[1] > 0


def memory_order(x: Tensor) -> tuple | None:
    """The order of dims from the slowest to the fastest in x's memory, which may have gaps; None where it is that of rows."""
    order = map_order(x._fl_sizes, (x,))
    return None if order is None else tuple(order)


def back(order: tuple) -> list:
    """The permutation that takes dims in this order to their own places."""
    return [order.index(d) for d in range(len(order))]


def unshared(result: Tensor, *given: Tensor) -> Tensor:
    """The result, or a copy where it lies in the memory of one of these."""
    home = result._fl_storage
    return contiguous_copy(result) if home is not None and any(x._fl_storage is home for x in given) else result


def reshaped_copy(x: Tensor, sizes: tuple, source: Tensor) -> Tensor:
    """x in these sizes, never in the memory of `source`, of which it is a view."""
    return unshared(v.reshape(x, sizes), source)
