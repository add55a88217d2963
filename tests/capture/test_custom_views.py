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
    v = function.apply(x * 1)                                       # without a write it is a view like any other
    (v * 2).sum().backward()
    assert x.grad.tolist() == [6.0] * 3
