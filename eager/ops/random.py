"""Random numbers: counter-based draws. Each call takes one ordinal of its generator, whatever its size; element i of
the draw depends on (seed, ordinal, i) only, so eager and compiled code draw the same numbers.
"""

import numpy as np

from ...runtime import sorting, reductions
from .. import dtypes, random
from ..op.meta import map_strides
from ..op.numpy_kernels import ordered_draw, wrap
from ..op.op import composite, random_op, scalar, size, static, tensor
from .arithmetic import cast, div, gt, le, minimum, mul, where
from .creation import arange
from .elementary import log1p
from ..state import state
from .sorting import cumsum, sort, topk
from .reduce import amax, sum as sum_dims
from .views import permute, unsqueeze


@random_op
def rand(s, rng, size, dtype, device=None):
    """Uniform in [0, 1)."""
    return rng.uniform()


@random_op
def randn(s, rng, size, dtype, device=None):
    """Standard normal."""
    return rng.normal()


@random_op
def randint(s, rng, low: scalar, high: scalar, size, dtype, device=None):
    """Integers in [low, high): the high part of 32 (62 for wide ranges) random bits times the range."""
    span = high - low
    if span > 2**31:
        return (rng.bits(0) * 2**30 + (rng.bits(1) >> 2)) % span + low
    return (rng.bits() * span >> 32) + low


@rand.in_order
def _(stream, size, dtype, device):
    return stream.uniform(stream.sized(size, dtype))


@randn.in_order
def _(stream, size, dtype, device):
    return stream.normal(stream.sized(size, dtype))


@randint.in_order
def _(stream, low, high, size, dtype, device):
    return stream.integers(stream.sized(size, dtype), low, high)


def _sized(make):
    return [((3, 4), dtypes.float32), ((), dtypes.float64), ((0, 2), dtypes.float32), ((5,), dtypes.bfloat16)]


rand.samples(_sized)
randn.samples(_sized)
randint.samples(
    lambda make: [
        (0, 10, (3, 4), dtypes.int64),
        (-5, 5, (7,), dtypes.int32),
        (0, 3, (), dtypes.float32),
        (0, 2**40, (5,), dtypes.int64),
    ]
)


@random_op(promote=lambda *operands: (None, dtypes.bool))
def keep_mask(s, rng, size, p: scalar, device=None):
    """True with probability 1 - p."""
    return rng.uniform() >= p


@keep_mask.in_order
def _(stream, size, p, device):
    """(PyTorch draws nothing to drop all.)"""
    like = stream.sized(size, dtypes.bool)
    return np.zeros(like.sizes, np.bool_) if p == 1 else stream.bernoulli(like, 1.0 - p)


keep_mask.samples(lambda make: [((3, 4), 0.5), ((0, 2), 0.1), ((), 0.3)])


def mask_over(x, p):
    """`keep_mask` of the sizes of x; PyTorch draws it in the order in which x lies in memory."""
    sizes = tuple(x.shape)
    if random.in_order is None or (strides := map_strides(sizes, (x,))) is None:
        return keep_mask(sizes, p, x.device)
    order = sorted(range(len(sizes)), key=lambda d: -strides[d])
    return permute(keep_mask(tuple([sizes[d] for d in order]), p, x.device), tuple([order.index(d) for d in range(len(order))]))


# -- draws in the shape and type of a tensor; their in-place forms are the tensor methods


@random_op(promote="keep")
def uniform(s, rng, x, low: scalar = 0.0, high: scalar = 1.0):
    return rng.uniform() * (high - low) + low


@random_op(promote="keep")
def normal(s, rng, x, mean: scalar = 0.0, std: scalar = 1.0):
    return rng.normal() * std + mean


@random_op(promote="keep")
def exponential(s, rng, x, rate: scalar = 1.0):
    return s.log1p(-rng.uniform()) * (-1.0 / rate)


@random_op(promote="keep")
def random_integers(s, rng, x, low: scalar, high: scalar):
    span = high - low
    if span > 2**31:
        return (rng.bits(0) * 2**30 + (rng.bits(1) >> 2)) % span + low
    return (rng.bits() * span >> 32) + low


@random_op(promote="keep")
def bernoulli(s, rng, p: tensor):
    """1 with probability p (elementwise), else 0."""
    return s.lt(rng.uniform(), p)


@random_op(promote="keep")
def bernoulli_like(s, rng, x, p: scalar = 0.5):
    return s.lt(rng.uniform(), p)


@random_op(promote="keep")
def normal_around(s, rng, mean: tensor, std: tensor):
    """Normal with a mean and a deviation per element."""
    return rng.normal() * std + mean


@uniform.in_order
def _(stream, x, low, high):
    return stream.uniform(x, low, high)


@normal.in_order
def _(stream, x, mean, std):
    return stream.normal(x, mean, std)


@exponential.in_order
def _(stream, x, rate):
    return stream.of_kind("exponential", x, rate)


@random_integers.in_order
def _(stream, x, low, high):
    return stream.integers(x, low, high)


@bernoulli_like.in_order
def _(stream, x, p):
    return stream.bernoulli(x, p)


for _op in (uniform, normal, exponential):
    _op.samples(lambda make: [(make(3, 4),), (make(),), (make(0, 2),), (make(4, 3).t(),)])
random_integers.samples(lambda make: [(make(3, 4), 0, 10), (make.ints(3, 5), -2, 7)])
bernoulli.samples(lambda make: [(make.probabilities(3, 4),), (make.probabilities(0, 2),)])
bernoulli_like.samples(lambda make: [(make(3, 4), 0.3), (make.ints(3, 5), 0.5)])
normal_around.samples(lambda make: [(make(3, 4), make.positive(3, 4))])


# -- orders and choices


@composite(draws=lambda *args: 1)
def randperm(n: size, dtype: static, device: static = None, generator: static = None):
    """The order of n random keys of 53 bits (equal keys stay in order), as whole numbers."""
    if random.in_order is not None and device is None and not state.fake:
        return wrap(ordered_draw(randperm, (n, dtype, device, generator)), dtype)
    keys = mul(rand((n,), dtypes.float64, device, generator), 2.0**53)
    return cast(sort(cast(keys, dtypes.int64), 0, False)[1], dtype)


@randperm.in_order
def _(stream, n, dtype, device):
    return stream.permutation(n, dtype)


@composite(draws=lambda *args: 1)
def multinomial(weights, count: size, replacement: static, generator: static = None):
    """Indices drawn along the last dim in proportion to weights. With replacement: by the inverse of the running sum;
    without: the largest of weight / exponential, which picks in the same proportions."""
    if random.in_order is not None and weights._fl_device.type == "cpu":
        stream = random.in_order.Stream(generator or random.default_generator)
        found = stream.multinomial(weights._values("multinomial()"), count, replacement)
        return wrap(np.ascontiguousarray(found), dtypes.int64)
    last = len(weights.shape) - 1
    if not replacement:
        clocks = log1p(mul(rand(tuple(weights.shape), dtypes.float64, weights.device, generator), -1.0))
        return topk(div(weights, mul(clocks, -1.0)), count, last, True, True)[1]
    total = sum_dims(weights, (last,), True)
    edges = div(cumsum(weights, last), total)
    u = rand((*weights.shape[:-1], count), weights.dtype, weights.device, generator)
    return _capped(edges_below(edges, u), weights, last)


@composite
def edges_below(edges, u):
    """How many of the ascending edges of its row each u has reached."""
    last = len(edges.shape) - 1
    return sum_dims(le(unsqueeze(edges, last), unsqueeze(u, last + 1)), (last + 1,), False)


@edges_below.native
def _(edges, u):
    if edges.dtype.itemsize < 4 or not u.size:
        return NotImplemented
    found = sorting.edges_below(np.ascontiguousarray(edges), np.ascontiguousarray(u))
    if found is not NotImplemented:
        return found
    rows = [np.searchsorted(e, v, "right") for e, v in zip(edges.reshape(-1, edges.shape[-1]), u.reshape(-1, u.shape[-1]))]
    return np.stack(rows).reshape(u.shape).astype(np.int64, copy=False)


@edges_below.calls
def _(c, outs, edges, u):
    return sorting.edges_below_calls(c, outs[0], edges, u)


edges_below.samples(lambda make: [(make(2, 5).sort().values, make(2, 3)), (make(4).sort().values, make(6))])


def _capped(index, weights, last):
    """Rounding may leave the last edge below 1: such a draw belongs to the last index with a weight."""
    return cast(minimum(index, last_weight(weights)), dtypes.int64)


@composite
def last_weight(weights):
    """(..., 1): the last index of each row with a weight."""
    last = len(weights.shape) - 1
    places = arange(0, 1, weights.shape[last], dtypes.int64, weights.device)
    return amax(where(gt(weights, 0), places, 0), (last,), True)


@last_weight.native
def _(weights):
    """(Most often it is the last of all.)"""
    n = weights.shape[-1]
    if not n or not (weights[..., -1] > 0).all():
        return NotImplemented
    return np.full((*weights.shape[:-1], 1), n - 1, np.int64)


last_weight.samples(lambda make: [(make.positive(2, 5),), (make.probabilities(6),), (make(3, 4),)])


def check_weights(weights, count, replacement):
    """What only values can tell; reading them is up to the caller (a capture breaks there)."""
    array = weights._values("multinomial's check of its weights")
    if array.size:
        low, high = _bounds(array)
        if not (low >= 0 and high < np.inf):  # (also for NaN)
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not (high > 0 if array.ndim == 1 else _tops(array).all()):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and array.size and ((array > 0).sum(-1) < count).any():
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
        )


def _bounds(array):
    """(least, greatest) of all elements; NaN where one is."""
    every = tuple(range(array.ndim))
    found = [reductions.reduce(name, array, every, False) for name in ("min", "max")]
    return [f(array) if x is NotImplemented else x for f, x in zip((np.min, np.max), found)]


def _tops(array):
    """Whether each row has a weight that is not zero."""
    found = reductions.reduce("max", array, (array.ndim - 1,), False)
    return (np.max(array, -1) if found is NotImplemented else found) > 0
