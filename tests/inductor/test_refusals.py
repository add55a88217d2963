"""What eager refuses for what the data is, compiled code refuses: indices outside of their dim, values outside of their range.

Each case is a call that eager raises for; compiled, it raises the same error: by both backends, for sizes that are known and sizes that
are not, where the result is read as a whole, in part or not at all. The same calls with good data run without falling back.
"""

import numpy as np
import pytest

import flambeau
from flambeau.eager.op.op import Kind, OPS
from flambeau.eager.state import recording
from flambeau.eager import dispatch
from flambeau.eager.op_samples import Samples
from flambeau.inductor import driver
from flambeau.inductor.loops.body import Body
from flambeau.capture.shapes.value_ranges import Bounds
from flambeau.nn import functional as F
from flambeau.runtime.errors import CheckFailed

from ..test_ops_compiled import MORE
from ..test_ops import samples
from .tools import BACKENDS

t = flambeau.tensor
ones, rows = flambeau.ones, lambda *sizes: flambeau.arange(float(np.prod(sizes))).reshape(*sizes)
BAD, GOOD = t([0, 7]), t([0, 0])

# name -> (function, the arguments that eager refuses, arguments that it takes)
INDICES = {
    "index": (lambda x, i: x[i], (rows(3, 4), BAD), (rows(3, 4), GOOD)),
    "negative index": (lambda x, i: x[i], (rows(3, 4), t([-4, 0])), (rows(3, 4), t([-3, -1]))),
    "index of one element": (lambda x, i: x[i], (rows(1, 4), BAD), (rows(1, 4), t([-1, 0]))),
    "index of an expanded dim": (lambda x, i: x.expand(3, 4)[i], (rows(1, 4), BAD), (rows(1, 4), t([2, 1]))),
    "index of a row that is added": (lambda x, y, i: (x + y)[i], (rows(3, 4), rows(4), BAD), (rows(3, 4), rows(4), t([2, 1]))),
    "two indices": (lambda x, i, j: x[i, j], (rows(3, 4), t([0, 1]), BAD), (rows(3, 4), t([2, 1]), t([3, 0]))),
    "last dim": (lambda x, i: x[:, i], (rows(3, 4), BAD), (rows(3, 4), t([3, 1]))),
    "arange": (lambda x: x[flambeau.arange(5)], (rows(3),), (rows(7),)),
    "arange with steps": (lambda x: x[flambeau.arange(0, 9, 4)], (rows(8),), (rows(9),)),
    "arange of a size": (lambda x, y: x[flambeau.arange(y.shape[0])], (rows(3), rows(5)), (rows(5), rows(3))),
    "full": (lambda x: x[flambeau.full((2,), 5)], (rows(3),), (rows(7),)),
    "constant": (lambda x: x[flambeau.tensor([0, 5])], (rows(3),), (rows(7),)),
    "gather": (lambda x, i: x.gather(0, i), (rows(3), BAD), (rows(3), t([2, 1]))),
    "gather of an expanded dim": (lambda x, i: x.expand(3).gather(0, i), (rows(1), BAD), (rows(1), t([2, 1]))),
    "gather of shared memory": (lambda x, i: x.gather(0, i), (ones(1).expand(3), BAD), (ones(1).expand(3), t([2, 1]))),
    "take": (lambda x, i: x.take(i), (rows(1), BAD), (rows(1), t([0, -1]))),
    "take_along_dim": (lambda x, i: x.take_along_dim(i), (rows(3), t([0, -4])), (rows(3), t([0, 2]))),
    "index_select": (lambda x, i: x.index_select(0, i), (rows(3, 4), t([-1, 0])), (rows(3, 4), t([2, 0]))),
    "embedding": (lambda x, i: F.embedding(i, x), (rows(3, 4), BAD), (rows(3, 4), t([2, 0]))),
    "embedding of one row": (lambda x, i: F.embedding(i, x), (rows(1, 4), BAD), (rows(1, 4), GOOD)),
    "embedding without columns": (lambda x, i: F.embedding(i, x), (rows(3, 0), BAD), (rows(3, 0), t([2, 0]))),
    "embedding_bag": (lambda x, i: F.embedding_bag(i.unsqueeze(0), x), (rows(3, 4), BAD), (rows(3, 4), t([2, 0]))),
    "scatter": (lambda x, i: x.scatter(0, i, 1.0), (rows(3), BAD), (rows(3), t([2, 0]))),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, ones(2)), (rows(1), BAD), (rows(1), GOOD)),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i, ones(2), "amax"), (rows(3), BAD), (rows(3), GOOD)),
    "index_add": (lambda x, i: x.index_add(0, i, ones(2, 4)), (rows(3, 4), BAD), (rows(3, 4), GOOD)),
    "index_copy": (lambda x, i: x.index_copy(0, i, ones(2, 4)), (rows(3, 4), BAD), (rows(3, 4), t([1, 0]))),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), (rows(3, 4), BAD), (rows(3, 4), GOOD)),
    "index_put": (lambda x, i: x.index_put((i,), t(1.0)), (rows(1), BAD), (rows(1), GOOD)),
    "index_put adds": (lambda x, i: x.index_put((i,), t(1.0), accumulate=True), (rows(3), BAD), (rows(3), GOOD)),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), (rows(2, 3), BAD), (rows(2, 3), t([2, -100]))),
    "nll_loss of one class": (lambda x, i: F.nll_loss(x, i), (rows(2, 1), BAD), (rows(2, 1), GOOD)),
    "weighted nll_loss": (lambda x, i, w: F.nll_loss(x, i, w), (rows(2, 3), BAD, ones(3)), (rows(2, 3), GOOD, ones(3))),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), (rows(2, 3), BAD), (rows(2, 3), t([2, -100]))),
    "multi_margin_loss": (lambda x, i: F.multi_margin_loss(x, i), (rows(2, 3), BAD), (rows(2, 3), GOOD)),
    "multilabel_margin_loss": (
        lambda x, i: F.multilabel_margin_loss(x, i),
        (rows(1, 2), t([[0, 7]])),
        (rows(1, 2), t([[0, -1]])),
    ),
    "max_unpool1d": (lambda x, i: F.max_unpool1d(x, i, 2), (ones(1, 1, 2), t([[[0, 9]]])), (ones(1, 1, 2), t([[[0, 3]]]))),
}
VALUES = {
    "bernoulli": (lambda p: p.bernoulli(), (t([0.5, 2.0]),), (t([0.5, 1.0]),)),
    "bernoulli of NaN": (lambda p: p.bernoulli(), (t([0.5, np.nan]),), (t([0.5, 0.0]),)),
    "bernoulli_": (lambda p: ones(2).bernoulli_(p), (t([0.5, -0.1]),), (t([0.5, 1.0]),)),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, ones(2)), (t([0.5, 1.5]),), (t([0.5, 1.0]),)),
    "binary_cross_entropy's target": (lambda x: F.binary_cross_entropy(ones(2), x), (t([0.5, 1.5]),), (t([0.5, 1.0]),)),
    "gaussian_nll_loss": (lambda v: F.gaussian_nll_loss(ones(2), ones(2), v), (t([1.0, -1.0]),), (t([1.0, np.nan]),)),
    "normal": (lambda s: flambeau.normal(flambeau.zeros(2), s), (t([1.0, -1.0]),), (t([1.0, 0.0]),)),
    "one_hot": (lambda i: F.one_hot(i, 3), (BAD,), (t([0, 2]),)),
    "one_hot of a negative class": (lambda i: F.one_hot(i, 3), (t([0, -1]),), (t([0, 2]),)),
    "inv_ex": (lambda x: flambeau.linalg.inv_ex(x, check_errors=True).inverse, (flambeau.zeros(2, 2),), (flambeau.eye(2),)),
    "cholesky_ex": (lambda x: flambeau.linalg.cholesky_ex(x, check_errors=True).L, (-flambeau.eye(2),), (flambeau.eye(2),)),
    "solve_ex": (
        lambda x: flambeau.linalg.solve_ex(x, ones(2), check_errors=True).result,
        (flambeau.zeros(2, 2),),
        (flambeau.eye(2),),
    ),
    "lu_factor_ex": (
        lambda x: flambeau.linalg.lu_factor_ex(x, check_errors=True).LU,
        (flambeau.zeros(2, 2),),
        (flambeau.eye(2),),
    ),
    "lu_factor": (lambda x: flambeau.linalg.lu_factor(x).LU, (flambeau.zeros(2, 2),), (flambeau.eye(2),)),
    "cholesky": (lambda x: flambeau.linalg.cholesky(x), (-flambeau.eye(2),), (flambeau.eye(2),)),
    "inv": (lambda x: flambeau.linalg.inv(x), (flambeau.zeros(2, 2),), (flambeau.eye(2),)),
    "floor_divide": (lambda a, b: a // b, (t([1, 2]), t([1, 0])), (t([1, 2]), t([1, -2]))),
    "remainder": (lambda a, b: a % b, (t([1, 2]), t([1, 0])), (t([1, 2]), t([1, -2]))),
    "fmod": (lambda a, b: flambeau.fmod(a, b), (t([1, 2]), t([1, 0])), (t([1, 2]), t([1, -2]))),
    "div with trunc": (lambda a, b: flambeau.div(a, b, rounding_mode="trunc"), (t([1, 2]), t([1, 0])), (t([1, 2]), t([1, -2]))),
}
CASES = INDICES | VALUES
READS = {
    "whole": lambda out: out,
    "in part": lambda out: out[:1] + 1 if out.dim() else out,
    "not at all": lambda out: flambeau.zeros(2) + 1,
}


def outcome(f, args):
    """The error of a call, or None."""
    flambeau.manual_seed(3)
    try:
        f(*args)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("dynamic", [False, True], ids=["known sizes", "unknown sizes"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", CASES)
def test_refused_in_the_loop_interpreter(name, read, dynamic):
    compare(name, read, "loops", dynamic)


@pytest.mark.parametrize("name", CASES)
def test_refused_in_generated_code(name):
    for read in READS:
        compare(name, read, "inductor", name.startswith("i"))


def compare(name, read, backend, dynamic):
    f, bad, good = CASES[name]
    program = lambda *args: READS[read](f(*args))
    compiled = flambeau.compile(program, backend=backend, dynamic=dynamic)
    flambeau.manual_seed(3)
    expected = program(*good)
    flambeau.manual_seed(3)
    np.testing.assert_allclose(compiled(*good).numpy(), expected.numpy(), rtol=1e-6)
    refused = outcome(program, bad)
    assert refused is not None and outcome(compiled, bad) == refused


@pytest.mark.parametrize("backend", ["loops", "inductor"])
@pytest.mark.parametrize(
    "name", ["index", "gather", "embedding", "nll_loss", "cross_entropy", "binary_cross_entropy", "arange", "index_add"]
)
def test_refused_in_a_forward_with_gradients(name, backend):
    """Also where the backward alone, or nothing, reads the result."""
    f, bad, _ = CASES[name]
    for read in ("whole", "not at all"):
        program = lambda *args: READS[read](f(*args)) + args[0].sum()
        given = (bad[0].clone().requires_grad_(), *bad[1:])
        assert outcome(flambeau.compile(program, backend=backend), given) == outcome(program, given) is not None


def test_a_refused_call_has_written_nothing():
    def program(x, i):
        x.add_(1.0)
        x[i]
        return x * 2

    for backend in ("loops", "inductor"):
        x, y = rows(3), rows(3)
        assert outcome(flambeau.compile(program, backend=backend), (x, BAD)) == outcome(program, (y, BAD)) is not None
        assert x.tolist() == y.tolist()


def test_writes_to_an_empty_slice():
    """PyTorch looks at a position, and not at a list of them, where nothing is written."""

    def position(z, i):
        z[i, 4::3] = 1.0
        return z

    for backend in ("loops", "inductor"):
        for i in (t(9), t(1), t([9]), t([1])):
            z = rows(3, 4)
            assert outcome(flambeau.compile(position, backend=backend), (z.clone(), i)) == outcome(position, (z.clone(), i))


def test_padded_reads_ask_for_no_index():
    """Where a padded read takes no element, an index there would be wrong, and nobody looks at it."""

    def padded(x, i, d):
        return (
            F.pad(x[flambeau.arange(x.shape[0])], (2, 3)),
            F.pad(x[i], (2, 2)),
            F.pad(i // d, (1, -1)),
            flambeau.cat([x[i], x[flambeau.arange(3)]]),
        )

    x, i, d = rows(6), t([5, 0, -1]), t([2, 3, 1])
    for backend in ("loops", "inductor"):
        for dynamic in (False, True):
            failed = []
            compiled = flambeau.compile(padded, backend=telling(backend, failed), dynamic=dynamic)
            for made, expected in zip(compiled(x, i, d), padded(x, i, d)):
                assert made.tolist() == expected.tolist()
            assert not failed


def telling(name, failed):
    """A backend whose calls put the checks that fail into a list."""

    def backend(graph, inputs):
        run = BACKENDS[name](graph, inputs)

        def call(*given):
            try:
                return run(*given)
            except CheckFailed as error:
                failed.append(error.check)
                raise

        return call

    return backend


# -- what is proved, and what a kernel looks at


def program_of(f, *args, dynamic=False):
    """The scheduled loop program of a function."""
    found = []
    kept = driver.loop_program

    def keep(*given):
        found.append(kept(*given))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "loop_program", keep)
        flambeau.compile(f, backend="loops", dynamic=dynamic)(*args)
    return found[0]


def looks(program):
    return [kernel.name for kernel in program.kernels if kernel.name.startswith("k_look")]


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_proved_is_not_looked_at(dynamic):
    program = program_of(
        lambda x: x[flambeau.arange(x.shape[0])] + x[flambeau.arange(x.shape[0]) - x.shape[0]], rows(5, 3), dynamic=dynamic
    )
    assert not program.checks and not looks(program)


@pytest.mark.parametrize(
    "f, count",
    [
        (lambda x, i: x[i] * 2, 0),
        (lambda x, i: x[:, i] * 2, 0),
        (lambda x, i: F.embedding(i, x).sum(), 0),
        (lambda x, i: x.index_select(1, i).t(), 0),
        (lambda x, i: x.index_add(0, i, x[:2]), 0),
        (lambda x, i: F.nll_loss(x[:2], i), 0),
        (lambda x, i: F.cross_entropy(x[:2], i), 0),
        (lambda x, i: x[i][:1] + 1, 1),
        (lambda x, i: (x[i], x)[1] + 1, 1),
        (lambda x, i: x[:1].expand(3, 4)[i], 1),
        (lambda x, i: (x[i], x[:, i], x + 1)[2], 2),
    ],
)
def test_kernels_that_only_look_are_those_that_are_needed(f, count):
    """Where some kernel looks at every index anyway there is no other."""
    assert len(looks(program_of(f, rows(3, 4), t([1, 2])))) == count


def test_bodies_prove_indices():
    body = Body()
    body.bounds = Bounds({"i": (0, 4)})
    i = flambeau.inductor.loops.body.index_var("i")
    assert body.is_within(i, 5) and not body.is_within(i, 4) and not body.is_within(i - 1, 5) and body.is_within(4 - i, 5)
    assert body.is_within(2, 3) and not body.is_within(3, 3) and not body.is_within(-1, 3)


# -- which records may refuse


class Opened(dispatch.Mode):
    """Composites are replaced by what they run; `seen`: which records that may refuse were called."""

    def __init__(self):
        self.seen = set()

    def __enter__(self):
        super().__enter__()
        return self

    def dispatch(self, op, args):
        if op.may_refuse(args):
            self.seen.add(op.name)
        return op.fn(*args) if op.kind is Kind.COMPOSITE else dispatch.execute(op, args)


# compute indices that lie within
CLAMPED = {
    "grid_sample",
    "grid_sample_backward",
    "pair_distances",
    "pair_distances_backward",
    "multilabel_margin_rows",
    "multilabel_margin_rows_backward",
}


def test_composites_of_records_that_refuse_are_marked():
    """Else one whose result is not read would be removed, and its refusals with it."""
    unmarked = {}
    for name, op in sorted(OPS.items()):
        if op.kind is not Kind.COMPOSITE or op.fn is None or op.fn.__module__.split(".")[1] != "eager" or name in CLAMPED:
            continue
        make = Samples(3)
        for given in [*MORE.get(name, lambda make: [])(make), *(op.sample_rule(make) if op.sample_rule else [])]:
            args = op.bind(tuple(given), {})
            if not op.may_refuse(args):
                with recording(False), Opened() as opened:
                    op.fn(*args)
                if opened.seen:
                    unmarked[name] = opened.seen
    assert not unmarked


def test_loops_that_look_belong_to_marked_records(monkeypatch):
    """Every record whose loop has an index or a divisor looked at says that it may refuse."""
    unmarked, kept = set(), Body.looked_at
    at = [None]

    def looked_at(body, value, size, check):
        if check and not at[0].refuses:
            unmarked.add(at[0].target.name)
        return kept(body, value, size, check)

    monkeypatch.setattr(Body, "looked_at", looked_at)
    for kind in (Kind.MAP, Kind.REDUCE, Kind.SCATTER):
        original = flambeau.inductor.loops.lower.LOWER[kind]

        def lower(self, node, original=original):
            at[0] = node
            original(self, node)

        monkeypatch.setitem(flambeau.inductor.loops.lower.LOWER, kind, lower)
    for name, op in sorted(OPS.items()):
        if (
            op.kind in (Kind.MAP, Kind.SCATTER, Kind.REDUCE)
            and op.sample_rule
            and op.fn.__module__.split(".")[1] == "eager"
            and not op.mutates
        ):
            for args in samples(name, Samples(3))[:2]:
                try:
                    program_of(lambda op=op, args=args: op(*args))
                except (IndexError, AttributeError):
                    continue
    assert not unmarked


# -- what is not read cannot spoil what is


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_a_filter_reads_its_window_alone(backend, dynamic, mode):
    """One infinite pixel is seen where the filter reaches it, and nowhere else."""

    def smaller(x):
        return F.interpolate(x, (5, 7), mode=mode, antialias=True)

    x = flambeau.randn(1, 2, 20, 24)
    x[0, 0, 3, 3] = float("inf")
    expected = smaller(x).numpy()
    assert np.isfinite(expected[0, 1]).all() and 0 < (~np.isfinite(expected[0, 0])).sum() < 16
    made = flambeau.compile(smaller, backend=backend, dynamic=dynamic)(x).numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["loops", "inductor"])
@pytest.mark.parametrize("shape, dim", [((3, 0), 1), ((0, 3), 0), ((2, 0, 3), 1), ((2, 3, 0), 2)], ids=str)
def test_nothing_is_looked_at_where_there_is_nothing(shape, dim, backend):
    """An index into an empty dimension is the same number at every point, of which there are none."""
    for call in (flambeau.cummin, flambeau.cummax):
        x = flambeau.zeros(shape, requires_grad=True)
        values, places = flambeau.compile(lambda x: call(x, dim), backend=backend)(x)  # noqa: B023
        assert flambeau.autograd.grad(values.sum(), x)[0].shape == places.shape == shape


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops", "inductor"])
def test_a_gradient_of_padding_has_the_padded_sizes(backend):
    """Else it would be added beyond the result's memory."""
    call = lambda g: OPS["pad_edges_backward"]((2, 4), g, ((0, 0), (1, 2)), "reflect")
    assert flambeau.compile(call, backend=backend)(flambeau.ones(2, 7)).shape == (2, 4)
    for f in (call, flambeau.compile(call, backend=backend)):
        with pytest.raises(RuntimeError, match="is not that of a tensor of sizes"):
            f(flambeau.ones(14, 7))
