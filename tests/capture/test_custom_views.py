"""Arguments that a custom function gives back, views that it makes, and writes into them: eagerly and compiled."""

import pytest

import flambeau as torch

Function = torch.autograd.Function


class Same(Function):
    @staticmethod
    def forward(ctx, t):
        return t

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Rows(Function):
    @staticmethod
    def forward(ctx, t):
        return t.view(3, 1)

    @staticmethod
    def backward(ctx, g):
        return g.view(3) * 3


@pytest.mark.parametrize("backend", [None, "aot_eager", "loops"])
@pytest.mark.parametrize("factor", ["number", "tensor"])
def test_an_argument_that_comes_back_unrecorded_has_no_history(backend, factor):
    """A write into it is none of what the argument was made by."""

    def f(x, y):
        b = x * 1
        with torch.no_grad():
            v = Same.apply(b)
        v.mul_(2 if factor == "number" else y[0])
        return (v * 2).sum() + (b * 3).sum(), v is b

    compiled = f if backend is None else torch.compile(f, backend=backend)
    for _ in range(2):
        x, y = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        z, same = compiled(x, y)
        gx, gy = torch.autograd.grad(z, (x, y), allow_unused=True)
        assert z.item() == 60 and not same and gx.tolist() == [3.0] * 3
        assert gy is None if factor == "number" else gy.tolist() == [12.0]


@pytest.mark.parametrize("backend", [None, "aot_eager", "loops"])
def test_an_argument_without_gradient_that_comes_back_is_a_view(backend):
    def f(x, y):
        v = Same.apply(x)
        v.mul_(y)
        return v

    compiled = f if backend is None else torch.compile(f, backend=backend)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        compiled(torch.ones(3), torch.tensor(2.0, requires_grad=True))


@pytest.mark.parametrize("backend", [None, "aot_eager", "loops"])
@pytest.mark.parametrize("function", [Same, Rows])
def test_a_custom_view_ends_where_its_base_is_written(function, backend):
    def f(x, y):
        b = x * 1
        v = function.apply(b)
        b.mul_(y)
        return (v * 2).sum() + (b * 3).sum()

    compiled = f if backend is None else torch.compile(f, backend=backend)
    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified"):
            compiled(x, torch.tensor(2.0, requires_grad=True)).backward()
    v = function.apply(x * 1)  # without a write it is a view like any other
    (v * 2).sum().backward()
    assert x.grad.tolist() == [6.0] * 3


class Both(Function):
    """A result, and an argument as it came; the backward reads that argument."""

    @staticmethod
    def forward(ctx, t, u):
        ctx.save_for_backward(t, u)
        return t * u, t

    @staticmethod
    def backward(ctx, *g):
        t, u = ctx.saved_tensors
        return g[0] * u + g[1] * t * 10, g[0] * t + g[1] * 100


CALLERS = {
    "alone": lambda a, b: Both.apply(a * 2, b)[1] * 1,
    "both": lambda a, b: sum(Both.apply(a * 2, b * 1)),
    "twice": lambda a, b: Both.apply(a, a)[1].sin(),
    "of one value twice": lambda a, b: (lambda u: Both.apply(u, u)[1] * b)(a * 2),
    "leaf": lambda a, b: Both.apply(a, b)[1] * 2,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops"])
@pytest.mark.parametrize("caller", CALLERS)
def test_an_argument_that_comes_back_has_the_gradients_of_the_function_alone(caller, backend):
    """Of first and second order: neither past the function, nor through the result where the argument was saved."""
    f = CALLERS[caller]
    seen = []
    for h in (f, torch.compile(f, backend=backend), torch.compile(f, backend=backend)):
        a, b = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
        first = torch.autograd.grad(h(a, b).sum(), (a, b), create_graph=True, allow_unused=True)
        sum((g * g).sum() for g in first if g is not None and g.requires_grad).backward()
        seen.append([None if t is None else t.tolist() for t in (*first, a.grad, b.grad)])
    for got in seen[1:]:
        assert all(p is q is None or p == pytest.approx(q, rel=1e-5) for p, q in zip(seen[0], got)), seen


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops"])
def test_a_reshape_that_copies_is_no_view(backend):
    """The graph writes it as a copy and a view of that, which made its result one that cannot be detached in place."""

    def f(x):
        return x.flatten(), x.clone().reshape(-1), x.reshape(-1) * 1

    for x in (torch.ones(2, 3).t(), torch.ones(2, 3, requires_grad=True).t()):
        outs = torch.compile(f, backend=backend)(x)
        assert [t._base for t in outs] == [t._base for t in f(x)] == [None] * 3
        assert all(t.detach_() is t for t in outs)
    with torch.inference_mode():
        assert [t.is_inference() for t in torch.compile(f, backend=backend)(x)] == [True] * 3
