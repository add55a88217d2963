"""Op records as programs of one call: their samples at three sizes, forward alone and with gradients.

A sample is made larger by multiplying all its dims, its first dim, or also the sizes among its arguments, whichever the record
takes; random tensors are drawn by the samples' own maker. A tensor that would be much larger than asked for is made as it is in
the sample, and what memory does not hold is tried smaller.
"""

import collections
import functools
import itertools
import math
import time

import flambeau
from flambeau.eager.op.op import OPS
from flambeau.eager.op_samples import Fixed, Samples
from flambeau.eager.tensor import Tensor

SIZES = {"small": 1e2, "middle": 1e5, "large": 3e6}  # elements of the largest tensor
LONGEST = 0.5  # seconds of an eager step, above which a smaller one is taken
AHEAD = 16  # a sample is tried with so many times fewer elements first
SPARE = 8  # times the elements asked for, above which a tensor does not grow

Case = collections.namedtuple("Case", "name kind steps rounds")


class Scaled(Samples):
    """A maker whose tensors have more elements than in the samples, up to `most`."""

    def __init__(self, grow, most):
        super().__init__()
        self.grow, self.most = grow, most

    def grown(self, shape):
        larger = self.grow(shape)
        return larger if math.prod(larger) <= self.most else shape

    def __call__(self, *shape, dtype=None):
        return super().__call__(*self.grown(shape), dtype=dtype)

    def positive(self, *shape):
        return super().positive(*self.grown(shape))

    def uniform(self, *shape):
        return super().uniform(*self.grown(shape))

    def probabilities(self, *shape):
        return super().probabilities(*self.grown(shape))

    def ints(self, high, *shape):
        return super().ints(high, *self.grown(shape))

    def bools(self, *shape):
        return super().bools(*self.grown(shape))


def all_dims(factor, rank):
    each = max(1, round(factor ** (1 / max(rank, 1))))
    return lambda shape: tuple(n * each if grows(n) else n for n in shape)


def first_dim(factor, rank):
    return lambda shape: tuple(n * max(1, round(factor)) if d == 0 and grows(n) else n for d, n in enumerate(shape))


def grows(n):
    return n > 1 and type(n) is not Fixed


WAYS = (all_dims, first_dim)


def cases(sizes):
    for name, size in itertools.product(sorted(OPS), sizes):
        op = OPS[name]
        if op.sample_rule is None or op.mutates:
            continue
        for way in ("forward", "training") if op.grads or op.kind.value == "composite" else ("forward",):
            label = f"ops {name} {size} {way}"
            yield Case(label, "ops", lambda op=op, size=size, way=way: steps(op, SIZES[size], way == "training"), 9)


def tensors(args):
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif isinstance(a, (tuple, list)):
            yield from tensors(a)


def largest(op):
    """(number, rank and elements of the largest tensor) of the sample that is worth growing: of those that may have a gradient,
    where there are some."""
    found = [(max((t.numel() for t in tensors(args)), default=0), k, args) for k, args in enumerate(op.sample_rule(Samples()))]
    found = [one for one in found if any(map(continuous, tensors(one[2])))] or found
    elements, number, args = max(found, key=lambda one: one[0])
    rank = max((t.dim() for t in tensors(args) if t.numel() == elements), default=1)
    return number, rank, max(elements, 1)


@functools.lru_cache(maxsize=1)
def arguments(op, elements):
    """The sample at this size, in the first way that the record takes; smaller where a step would take too long."""
    number, rank, own = largest(op)
    small = op.bind(tuple(op.sample_rule(Samples())[number]), {})
    runs(op, small, LONGEST)  # what a first call has to import and make is not the sample's time
    tried = set()
    while elements > own:
        for way, sizes in itertools.product(WAYS, (False, True)):
            args = sample(op, number, own, rank, elements / AHEAD, way, sizes)
            if args is not None and agrees(op, args) and runs(op, args, LONGEST / AHEAD):
                args = sample(op, number, own, rank, elements, way, sizes)
                if args is not None and agrees(op, args) and shapes(args) not in tried and runs(op, args, LONGEST):
                    return args
                tried.add(shapes(args))
        elements /= 4
    return small


def sample(op, number, own, rank, elements, way, sizes):
    """The numbered sample, grown from `own` to `elements`; None where it does not grow so."""
    grow = way(max(elements / own, 1), rank)
    try:
        args = op.bind(tuple(op.sample_rule(Scaled(grow, SPARE * elements + own))[number]), {})
        larger = with_sizes(op, args, grow) if sizes else args
    except Exception:
        return None
    if elements > 2 * own and max((t.numel() for t in tensors(args)), default=elements) <= own:
        return None
    return None if sizes and larger == args else larger


def shapes(args):
    """What tells grown samples of a record apart: sizes of tensors, and among the arguments."""
    if args is None:
        return None
    return tuple(tuple(t.shape) for t in tensors(args)), tuple(a for a in args if type(a) is tuple and not [*tensors(a)])


def with_sizes(op, args, grow):
    """The sizes among the arguments grow with the tensors."""
    flat = lambda a: type(a) is tuple and all(type(n) is int for n in a)
    return tuple(grow(a) if p.role == "size" and flat(a) else a for p, a in zip(op.params, args))


def agrees(op, args):
    """Whether the sizes among the arguments are those that the record's formulas give: it trusts them, and would read or write
    anywhere."""
    if op.meta_rule is None:
        return True
    try:
        told = op.meta_rule(*args)
    except RuntimeError:
        return False
    except Exception:
        return op.kind.value != "scatter"
    if op.kind.value != "scatter" or "numpy" not in op.kernels:
        return True
    shown = lambda a: a.numpy() if isinstance(a, Tensor) else type(a)(map(shown, a)) if type(a) in (tuple, list) else a
    try:
        return op.kernels["numpy"](*map(shown, args)).shape == tuple(told[0] if type(told[0]) is tuple else told)
    except Exception:
        return False


def runs(op, args, longest):
    """Whether a call, with its gradients where it has some, works and takes no more than `longest`: records trust their
    arguments, and one that is not right for them may be told by the gradient alone."""
    start = time.process_time()
    try:
        with flambeau.no_grad():
            op(*args)
        taken = time.process_time() - start
        if taken < longest and (op.grads or op.kind.value == "composite"):
            stepped(lambda *values: op(*replaced(args, iter(values))), with_leaves(tensors(args)))
    except Exception:
        return False
    return taken < longest


def steps(op, elements, training):
    """(eager step, compiled step) of one call."""
    args = arguments(op, elements)
    given = [t for t in tensors(args)]

    def call(*values):
        left = iter(values)
        return op(*replaced(args, left))

    compiled = flambeau.compile(call)
    if not training:

        def forward(f):
            with flambeau.no_grad():
                return f(*given)

        return lambda: forward(call), lambda: forward(compiled)
    leaves = with_leaves(given)
    return lambda: stepped(call, leaves), lambda: stepped(compiled, leaves)


def continuous(t):
    return t.is_floating_point() or t.dtype.is_complex


def with_leaves(given):
    return [t.detach().requires_grad_() if continuous(t) else t for t in given]


def replaced(args, values):
    nested = lambda a: type(a)(replaced(a, values)) if type(a) in (tuple, list) else a
    return [next(values) if isinstance(a, Tensor) else nested(a) for a in args]


def stepped(f, leaves):
    """Forward, and the gradients of all results."""
    out = f(*leaves)
    outs = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, Tensor) and t.requires_grad]
    wanted = [t for t in leaves if t.requires_grad]
    return flambeau.autograd.grad(outs, wanted, [flambeau.ones_like(t) for t in outs], allow_unused=True)
