"""Views: stride rules. Each returns (sizes, strides, offset) of the view from the sizes and strides of the tensor.

Rules only add strides and multiply them by integers, so they also run on symbols. Dims come in as non-negative ints.
"""

from typing import Any

from ...runtime import copy_gather
from .._call import fresh_view, unfold_backward as unfold_windows_back
from ..op.gradient import Meta
from ..op.op import indexed, Out, scatter, size, static, view, write_in_order
from ..sizes import contiguous_strides
from .creation import full

VIEW_ERROR = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
    "two "
    "contiguous subspaces). Use .reshape(...) instead."
)


def view_strides(shape, strides, size):
    """Strides that show a tensor's memory under new sizes, or None where only a copy could."""
    if _same(strides, contiguous_strides(shape)) or _empty(shape):
        return contiguous_strides(size)
    out: list[Any] = [None] * len(size)
    at = len(size) - 1
    step, count, wanted = (strides[-1] if shape else 1), 1, 1
    for d in reversed(range(len(shape))):
        wanted = wanted * shape[d]
        if d > 0 and (shape[d - 1] == 1 or strides[d - 1] == wanted * step):
            continue  # this dim and the one before it lie in one run of memory
        while at >= 0 and (count < wanted or size[at] == 1):
            out[at] = count * step
            count = count * size[at]
            at -= 1
        if count != wanted:
            return None
        step, count, wanted = (strides[d - 1] if d else 1), 1, 1
    return tuple(out) if at < 0 else None


def _same(a, b):
    return all(x is y or x == y for x, y in zip(a, b))


def _empty(shape):
    return any(type(n) is int and n == 0 for n in shape)


def split_index(linear, size):
    """The index into `size` of the element with this row-major number; the first dim needs no remainder."""
    index = []
    for n, step in zip(size, contiguous_strides(size)):
        at = linear if type(step) is int and step == 1 else linear // step
        index.append(0 if type(n) is int and n == 1 else at if not index else at % n)
    return tuple(index)


def _view_loop(s, i, r, x, size):
    return x(*reshaped_index(x.shape, size, i))


def reshaped_index(shape, size, i):
    """The index into `shape` for the index `i` into `size`. Equal leading and trailing dims are passed through, so that
    only the dims in between pay for divisions."""
    lead = 0
    while lead < min(len(shape), len(size)) and _equal(shape[lead], size[lead]):
        lead += 1
    tail = 0
    while tail < min(len(shape), len(size)) - lead and _equal(shape[-1 - tail], size[-1 - tail]):
        tail += 1
    inner, outer = size[lead : len(size) - tail], shape[lead : len(shape) - tail]
    linear = 0
    for at, step in zip(i[lead : len(size) - tail], contiguous_strides(inner)):
        linear = linear + at * step
    return tuple(i[:lead]) + split_index(linear, outer) + tuple(i[len(i) - tail :])


def _equal(a, b):
    """Equal for certain: as ints, or as the same symbolic expression (no guard is added for asking)."""
    return a is b or (a == b if type(a) is int and type(b) is int else getattr(a, "expr", a) is getattr(b, "expr", b))


@view(name="view", loop=_view_loop)
def view_as_size(shape, strides, size):
    new = view_strides(shape, strides, size)
    if new is None:
        raise RuntimeError(VIEW_ERROR)
    return tuple(size), new, 0


@view_as_size.grad("x")
def _(g, x: Meta):
    return reshape(g, x.shape)


@view_as_size.samples
def _(make):
    return [
        (make(3, 4), (4, 3)),
        (make(2, 3, 4), (6, 4)),
        (make(), (1, 1)),
        (make(0, 3), (3, 0)),
        (make(6), (2, 1, 3)),
        (make(4, 6).t(), (3, 2, 4)),
        (make(2, 1, 4), (2, 4)),
    ]


@indexed(meta=lambda x: x.shape, promote="keep", recompute=True)
def contiguous_copy(s, i, x):
    return x(*i)


contiguous_copy.native(copy_gather.contiguous_copy)


@contiguous_copy.numpy
def _(x):
    return x.copy(order="C")


@contiguous_copy.grad("x")
def _(g):
    return g


contiguous_copy.samples(lambda make: [(make(4, 3).t(),), (make(2, 3, 4).permute(2, 0, 1),), (make(),), (make(0, 2).t(),)])


def contiguous(x):
    return x if x.is_contiguous() else contiguous_copy(x)


write_in_order(view_as_size, contiguous)


def reshape(x, size):
    """A view under new sizes where the memory allows it, else of a copy."""
    if view_strides(tuple(x.shape), tuple(x.stride()), size) is not None:
        return view_as_size(x, size)
    out = view_as_size(contiguous_copy(x), size)
    out._fl_view = fresh_view()  # of a copy that nobody else has: a tensor like any other
    return out


@view
def permute(shape, strides, dims: static):
    return tuple(shape[d] for d in dims), tuple(strides[d] for d in dims), 0


@permute.grad("x")
def _(g, dims):
    return permute(g, tuple(dims.index(d) for d in range(len(dims))))


permute.samples(lambda make: [(make(2, 3, 4), (2, 0, 1)), (make(), ()), (make(3), (0,)), (make(0, 2, 1), (1, 2, 0))])


@view
def transpose(shape, strides, dim0: static, dim1: static):
    order = list(range(len(shape)))
    order[dim0], order[dim1] = dim1, dim0
    return tuple(shape[d] for d in order), tuple(strides[d] for d in order), 0


@transpose.grad("x")
def _(g, dim0, dim1):
    return transpose(g, dim0, dim1)


transpose.samples(lambda make: [(make(2, 3, 4), 0, 2), (make(3, 4), 1, 0), (make(3), 0, 0), (make(0, 2), 0, 1)])


def mT(x):
    """The matrices of the last two dims, transposed."""
    return transpose(x, len(x.shape) - 2, len(x.shape) - 1)


@view
def expand(shape, strides, size):
    lead = len(size) - len(shape)
    steps = [0] * lead
    for n, step, wanted in zip(shape, strides, size[lead:]):
        steps.append(0 if type(n) is int and n == 1 and not _equal(n, wanted) else step)
    return tuple(size), tuple(steps), 0


@expand.grad("x")
def _(g):
    return g


expand.samples(
    lambda make: [(make(3, 1), (3, 4)), (make(4), (2, 3, 4)), (make(), (2, 2)), (make(1, 3), (0, 3)), (make(2, 3), (2, 3))]
)


@view
def unsqueeze(shape, strides, dim: static):
    step = shape[dim] * strides[dim] if dim < len(shape) else 1
    return shape[:dim] + (1,) + shape[dim:], strides[:dim] + (step,) + strides[dim:], 0


@unsqueeze.grad("x")
def _(g, dim):
    return squeeze(g, (dim,))


unsqueeze.samples(lambda make: [(make(2, 3), 0), (make(2, 3), 2), (make(), 0), (make(0, 2), 1), (make(3, 2).t(), 1)])


@view
def squeeze(shape, strides, dims: static):
    """Without the named dims, which are of size 1."""
    kept = [d for d in range(len(shape)) if d not in dims]
    return tuple(shape[d] for d in kept), tuple(strides[d] for d in kept), 0


@squeeze.grad("x")
def _(g, dims):
    for d in sorted(dims):
        g = unsqueeze(g, d)
    return g


squeeze.samples(
    lambda make: [(make(2, 1, 3), (1,)), (make(1, 2, 1), (0, 2)), (make(1), (0,)), (make(2, 3), ()), (make(0, 1), (1,))]
)


@view(name="slice")
def slice_dim(shape, strides, dim: static, start, step, length):
    """`length` elements of one dim: start, start + step, ..."""
    sizes = shape[:dim] + (length,) + shape[dim + 1 :]
    return sizes, strides[:dim] + (strides[dim] * step,) + strides[dim + 1 :], strides[dim] * start


@slice_dim.grad("x")
def _(g, x: Meta, dim, start, step, length):
    return slice_backward(g, x.shape[dim], dim, start, step)


slice_dim.samples(
    lambda make: [(make(5, 3), 0, 1, 2, 2), (make(2, 6), 1, 0, 1, 4), (make(4), 0, 2, 1, 0), (make(3, 4).t(), 0, 1, 1, 3)]
)


@indexed(meta=lambda x, size, dim, start, step: (*x.shape[:dim], size, *x.shape[dim + 1 :]), promote="keep", recompute=True)
def slice_backward(s, i, x, size, dim: static, start, step):
    """Zeros of `size` along `dim`, with x at start, start + step, ..."""
    at = i[dim] - start
    inside = s.logical_and(s.ge(s.index(at), 0), s.lt(s.index(at), s.index(x.shape[dim] * step)))
    if not (type(step) is int and step == 1):
        inside = s.logical_and(inside, s.eq(s.index(at % step), 0))
        at = at // step
    return x(*i[:dim], at, *i[dim + 1 :], mask=inside, other=0)


@slice_backward.numpy
def _(x, size, dim, start, step):
    out = copy_gather.zeros(x.shape[:dim] + (size,) + x.shape[dim + 1 :], x.dtype)
    out[(slice(None),) * dim + (slice(start, start + x.shape[dim] * step, step),)] = x
    return out


@slice_backward.grad("x")
def _(g, x: Meta, dim, start, step):
    return slice_dim(g, dim, start, step, x.shape[dim])


slice_backward.samples(lambda make: [(make(2, 3), 6, 0, 1, 2), (make(2, 3), 4, 1, 1, 1), (make(0, 2), 3, 0, 0, 1)])


@view
def select(shape, strides, dim: static, index: size):
    return shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], strides[dim] * index


@select.grad("x")
def _(g, x: Meta, dim, index):
    return slice_backward(unsqueeze(g, dim), x.shape[dim], dim, index, 1)


select.samples(
    lambda make: [(make(3, 4), 0, 2), (make(3, 4), 1, 0), (make(3), 0, 1), (make(2, 3, 0), 1, 1), (make(4, 2).t(), 0, 1)]
)


@view
def diagonal(shape, strides, offset: static, dim0: static, dim1: static):
    """The diagonal moves to the last dim."""
    start0, start1 = max(-offset, 0), max(offset, 0)
    length = _diagonal_length(shape[dim0] - start0, shape[dim1] - start1)
    kept = [d for d in range(len(shape)) if d not in (dim0, dim1)]
    sizes = tuple(shape[d] for d in kept) + (length,)
    steps = tuple(strides[d] for d in kept) + (strides[dim0] + strides[dim1],)
    return sizes, steps, strides[dim0] * start0 + strides[dim1] * start1


def _diagonal_length(a, b):
    shorter = a if a <= b else b
    return shorter if shorter >= 0 else 0


@diagonal.grad("x")
def _(g, x: Meta, offset, dim0, dim1):
    return diagonal.put(full(x.shape, 0, g.dtype, g.device), g, offset, dim0, dim1)


diagonal.samples(lambda make: [(make(3, 4), 0, 0, 1), (make(4, 3), -1, 0, 1), (make(2, 3, 3), 1, 1, 2), (make(3, 3), 2, 1, 0)])


def _strided_loop(s, i, r, x, size, steps, offset):
    """In memory without gaps the place of an element is its number."""
    return x(*split_index(sum((at * step for at, step in zip(i, steps)), offset), x.shape))


@view(loop=_strided_loop)
def as_strided(shape, strides, size, steps: size, offset):
    """Any sizes and strides over the memory of a contiguous tensor, `offset` elements after its first."""
    return tuple(size), tuple(steps), offset


write_in_order(as_strided, contiguous)


@view
def restrided(shape, strides, size, steps: size, offset, own: size):
    """`as_strided` of a tensor with gaps or out of order: its own strides say where its gradient is read. It reads what
    is no element of the tensor, so graphs do not hold it."""
    return tuple(size), tuple(steps), offset


@view
def unfold(shape, strides, dim: static, size, step):
    """Windows of `size` elements, every `step`, in a new last dim."""
    count = (shape[dim] - size) // step + 1
    return (
        shape[:dim] + (count,) + shape[dim + 1 :] + (size,),
        strides[:dim] + (strides[dim] * step,) + strides[dim + 1 :] + (strides[dim],),
        0,
    )


@unfold.grad("x")
def _(g, x: Meta, dim, size, step):
    return unfold_backward(x.shape, g, dim, size, step)


unfold.samples(lambda make: [(make(7), 0, 3, 2), (make(3, 5), 1, 2, 1), (make(4, 2), 0, 4, 1)])


@scatter(
    mode="add", ranges=lambda shape, x, dim, size, step: x.shape, meta=lambda shape, x, dim, size, step: shape, promote="same"
)
def unfold_backward(s, i, shape, x, dim: static, size, step):
    """Windows added back onto zeros of `shape`."""
    return (*i[:dim], i[dim] * step + i[-1], *i[dim + 1 : -1]), x(*i)


@unfold_backward.numpy
def _(shape, x, dim, size, step):
    out = copy_gather.zeros(shape, x.dtype)
    lead, count = (slice(None),) * dim, x.shape[dim]
    for k in range(size):
        out[lead + (slice(k, k + step * count, step),)] += x[..., k]
    return out


unfold_backward.native(unfold_windows_back)


@unfold_backward.grad("x")
def _(g, dim, size, step):
    return unfold(g, dim, size, step)


unfold_backward.samples(lambda make: [((7,), make(3, 3), 0, 3, 2), ((3, 5), make(3, 4, 2), 1, 2, 1)])


@view(outputs=(Out(differentiable=False),))
def detach(shape, strides):
    """The same memory without history."""
    return shape, strides, 0


@view
def alias(shape, strides):
    """The same memory, with history."""
    return shape, strides, 0


@alias.grad("x")
def _(g):
    return g


alias.samples(lambda make: [(make(2, 3),), (make(),), (make(3, 2).t(),)])
