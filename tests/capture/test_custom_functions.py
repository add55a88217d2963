"""Custom functions (autograd.Function) inside compiled programs: forward and the user's backward in one graph."""

import pytest

import flambeau as torch
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime import counters
from flambeau.runtime.config import config

from .harness import captured, check  # noqa: F401

Function = torch.autograd.Function
calls = []


class Triple(Function):
    """The wrong gradient on purpose: whoever differentiates the forward itself is caught."""

    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t * 3


class Exp(Function):
    """Saves its own result."""

    @staticmethod
    def forward(ctx, t):
        y = t.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Affine(Function):
    """Several results, a number among the arguments, setup_context."""

    @staticmethod
    def forward(t, n):
        return t * n, t + n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]

    @staticmethod
    def backward(ctx, g, h):
        return g * ctx.n + h, None


class Reverse(Function):
    """Its result is a view of its argument."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.scale, None


class Linear(Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x @ w.t() + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (
            g @ w if ctx.needs_input_grad[0] else None,
            g.t() @ x if ctx.needs_input_grad[1] else None,
            g.sum(0) if ctx.needs_input_grad[2] else None,
        )


class Greatest(Function):
    @staticmethod
    def forward(ctx, x):
        values, index = x.max(1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return values, index

    @staticmethod
    def backward(ctx, g, nothing):
        assert not nothing.is_floating_point() and g.shape == nothing.shape
        return torch.zeros(ctx.shape).scatter(1, ctx.saved_tensors[0][:, None], g[:, None])


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


class Loud(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        calls.append(1)
        return g * 5


class Writing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g.mul_(3)


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 7


class Short(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


weight = torch.randn(5, 4, requires_grad=True)
PROGRAMS = {
    "triple": lambda x: Triple.apply(x) * 2,
    "exp": lambda x: Exp.apply(x) + 1,
    "chain": lambda x: Triple.apply(Exp.apply(x.sin())).cos(),
    "several": lambda x: sum(Affine.apply(x, 3)),
    "one of several": lambda x: Affine.apply(x, 3)[1] * 2,
    "size as number": lambda x: Affine.apply(x, x.shape[0])[0],
    "view": lambda x: Reverse.apply(x, 0.5) * 2,
    "linear": lambda x: Linear.apply(x, weight, torch.ones(5)).relu(),
    "greatest": lambda x: Greatest.apply(x)[0] * 2,
}
CUT = {
    "side effect": (lambda x: Loud.apply(x) + 1, "backward"),
    "written": (lambda x: Writing.apply(x) + 1, "backward"),
    "dirty": (lambda x: Dirty.apply(x * 1) + 1, "backward"),
    "view returned": (lambda x: Reverse.apply(x, 2.0), "hidden alias"),
    "view written": (lambda x: Reverse.apply(x * 2, 2.0).clone().add_(1) + 0 * Reverse.apply(x, 1.0), None),
}


def gradients(fn, x, order: int):
    x, weight.grad = x.clone().requires_grad_(), None
    out = fn(x)
    out = out[0] if isinstance(out, tuple) else out
    scale = torch.arange(out.numel()).reshape(out.shape) * 0.1 + 1
    if order == 1:
        (out * scale).sum().backward()
        return out.detach(), x.grad, weight.grad
    (g,) = torch.autograd.grad((out * out * scale).sum(), x, create_graph=True)
    return out.detach(), g.detach(), torch.autograd.grad((g * g).sum(), x)[0]


def same(first, second):
    """Equal up to rounding of the largest numbers: second derivatives are differences of them."""
    for a, b in zip(first, second, strict=True):
        assert a is b is None or torch.allclose(a, b, 1e-4, 1e-5 * max(1.0, a.abs().max().item()))


CASES = [(name, *how) for name in PROGRAMS for how in (("eager", None), ("aot_eager", True))]
CASES += [
    (name, "inductor", name == "several") for name in ("chain", "several", "view", "linear", "greatest")
]  # C++ takes its time


@pytest.mark.parametrize("name, backend, dynamic", CASES)
def test_one_graph_with_the_users_gradient(name, backend, dynamic):
    fn = PROGRAMS[name]
    torch.manual_seed(0)
    counters.reset()
    compiled = torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)
    with config.patch(strict=True):
        for rows in (3, 6):
            x = torch.randn(rows, 4) * 0.5
            same(gradients(fn, x, 1), gradients(compiled, x, 1))
            if name not in ("view", "several", "one of several", "size as number", "greatest"):
                same(gradients(fn, x, 2), gradients(compiled, x, 2))
    seen = counters.snapshot()
    assert seen["breaks"] == {} and seen["fallbacks"] == {} and seen["graphs"] == (1 if dynamic else 2)


@pytest.mark.parametrize("name", CUT)
def test_what_is_not_captured_is_cut_and_right(name):
    fn, code = CUT[name]
    counters.reset()
    calls.clear()
    compiled = torch.compile(fn, backend="aot_eager")
    x = torch.randn(3, 4)
    same(gradients(fn, x, 1), gradients(compiled, x, 1))
    same(gradients(fn, x, 1), gradients(compiled, x, 1))
    assert len(calls) == (4 if name == "side effect" else 0)
    assert code is None or set(counters.snapshot()["breaks"]) == {code}


def test_results_that_share_memory_share_it():
    compiled = torch.compile(lambda x: Reverse.apply(x, 2.0))
    x = torch.randn(3, requires_grad=True)
    y = compiled(x)
    with torch.no_grad():
        x.fill_(7)
    assert y.tolist() == [7, 7, 7]


def test_once_differentiable_raises_the_second_time():
    compiled = torch.compile(lambda x: Once.apply(x) * x, fullgraph=True)
    x = torch.randn(4, requires_grad=True)
    (g,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    assert torch.allclose(g, x.cos() * x + x.sin())
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_errors_of_a_backward_come_when_it_runs():
    compiled = torch.compile(lambda x: Short.apply(x, 2 * x) + 1)
    out = compiled(torch.randn(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        out.sum().backward()


def test_nothing_is_recorded_without_gradients():
    counters.reset()
    compiled = torch.compile(PROGRAMS["triple"], fullgraph=True)
    assert not compiled(torch.ones(3)).requires_grad
    with torch.no_grad():
        assert not compiled(torch.ones(3, requires_grad=True)).requires_grad


def read_data(x):
    return x.data * 2 + (x * 3).data.sum()


def written_data(x):
    x.data.mul_(2)
    return x + 1


def returned_data(x):
    d = x.data
    return d, x * 2


@pytest.mark.parametrize("fn, cut", [(read_data, False), (written_data, True), (returned_data, True)])
def test_data_of_a_tensor(fn, cut):
    """Read it is a tensor of the graph; written or returned it is Python's, which leaves the versions alone."""
    counters.reset()
    compiled = torch.compile(fn, backend="aot_eager")
    for _ in range(2):
        x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
        expected, found = fn(x), compiled(y)
        for f in (expected, found):
            if isinstance(f, tuple):
                f[0].mul_(5)
        pairs = zip(expected, found) if isinstance(expected, tuple) else [(expected, found)]
        assert all(torch.equal(a.detach(), b.detach()) and a.requires_grad == b.requires_grad for a, b in pairs)
        assert torch.equal(x, y) and x._version == y._version == 0
    assert bool(counters.snapshot()["breaks"]) == cut


def decorated(manager):
    def fn(x):
        @manager()
        def inner(x):
            return x * 2

        y = inner(x)
        return y.requires_grad, x * 3

    return fn


@pytest.mark.parametrize("manager", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("outer", [torch.no_grad, torch.enable_grad])
def test_managers_that_decorate_inside(manager, outer):
    fn = decorated(manager)

    def within(x):
        with outer():
            return fn(x), x * 4

    check(within, torch.ones(3, requires_grad=True))


# -- tensors that a backward makes of numbers ----------------------------------------------------------------------------------

MADE_OF_NUMBERS = {
    "tensor": lambda g: torch.tensor(2.0) * g,
    "new_tensor": lambda g: g.new_tensor(3.0) * g,
    "as_tensor": lambda g: torch.as_tensor(1.5) * g,
    "list": lambda g: torch.tensor([1.0, 2.0, 4.0]) * g,
    "alone": lambda g: torch.tensor([1.0, 2.0, 4.0]),
    "full": lambda g: torch.full((3,), 2.0) * g,
    "double": lambda g: (torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) * g).float(),
    "twice": lambda g: torch.tensor(2.0) * g + torch.tensor(2.0),
    "index": lambda g: g[torch.tensor([2, 0, 1])],
    "mask": lambda g: torch.where(torch.tensor([True, False, True]), g, -g),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops"])
@pytest.mark.parametrize("name", MADE_OF_NUMBERS)
def test_tensors_that_a_backward_makes_are_saved(name, backend):
    make = MADE_OF_NUMBERS[name]

    class Scaled(Function):
        @staticmethod
        def forward(ctx, t, u):
            ctx.save_for_backward(t)
            return t * u

        @staticmethod
        def backward(ctx, g):
            (t,) = ctx.saved_tensors
            return make(g), g * t

    counters.reset()
    f = lambda x, y: Scaled.apply(x * 2, y).sin()
    compiled = torch.compile(f, backend=backend, fullgraph=True)
    for n in range(2):
        seen = []
        for h in (f, compiled):
            x, y = torch.tensor([1.0, 2.0, 3.0 + n], requires_grad=True), torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
            z = h(x, y)
            first = torch.autograd.grad(z.sum(), (x, y), create_graph=True)
            second = torch.autograd.grad(first[1].sum(), (x, y), allow_unused=True)
            seen.append([None if t is None else t.tolist() for t in (z, *first, *second)])
        assert all(a is b is None or a == pytest.approx(b) for a, b in zip(*seen))
    assert counters.snapshot()["fallbacks"] == {}


def leaf():
    return torch.linspace(0, 2, 3).requires_grad_()


def unrecorded(t):
    with torch.no_grad():
        return t.view(-1)


def shown(found):
    return (found.tolist(), found.requires_grad, found.is_leaf) if isinstance(found, torch.Tensor) else found


WRITTEN = {
    "leaf": leaf,
    "of a leaf": lambda: leaf().view(-1),
    "of a view of a leaf": lambda: leaf().view(-1)[:2],
    "computed": lambda: leaf() * 2,
    "of a computed": lambda: (leaf() * 2).view(-1),
    "detached": lambda: leaf().detach(),
    "without gradients": lambda: torch.ones(3),
    "of such": lambda: torch.ones(3)[:2],
    "unrecorded": lambda: unrecorded(leaf()),
    "one of several": lambda: (leaf() * 2).split(2)[0],
    "one of several of a leaf": lambda: leaf().view(3, 1).unbind()[0],
}


@pytest.mark.parametrize("first", WRITTEN)
@pytest.mark.parametrize("backend", ("loops", lambda graph, inputs: Interpreter(graph).run))
def test_writes_into_views_of_what_the_graph_does_not_see(first, backend):
    """A view that the caller made may refuse a write: the program's handler hears it."""

    def program(t, wide):
        try:
            if wide:
                t[:1].mul_(3)
            t.add_(1)
        except RuntimeError as error:
            return str(error)
        return t * 2

    for wide in (False, True):
        compiled = torch.compile(program, backend=backend)
        for name in (first, *WRITTEN, first):
            mine, theirs = WRITTEN[name](), WRITTEN[name]()
            assert shown(compiled(mine, wide)) == shown(program(theirs, wide)), name
            assert shown(mine) == shown(theirs), name


def test_a_refused_write_behind_a_break():
    def program(x, y):
        part = y.view(-1)[:2]
        print("a break")
        try:
            part.add_(x)
        except RuntimeError as error:
            return str(error)
        return part

    compiled = torch.compile(program, backend=lambda graph, inputs: Interpreter(graph).run)
    for make in (leaf, lambda: torch.ones(3), lambda: leaf() * 2, leaf):
        assert shown(compiled(1.0, make())) == shown(program(1.0, make()))
