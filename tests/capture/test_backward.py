"""backward() and autograd.grad() inside of compiled functions: one graph, and what eager does to gradients, parameters and states."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.runtime import counters
from flambeau.utils.checkpoint import checkpoint

from .harness import captured, check, same  # noqa: F401

torch.manual_seed(1)
W = torch.randn(3, requires_grad=True)
X, Y = torch.randn(5, 4), torch.tensor([0, 2, 1, 1, 0])


def leaf(*sizes):
    return torch.randn(*sizes).requires_grad_()


# -- what is captured whole: (program, arguments)


def into_grad(w):
    (w * w).sum().backward()
    return w.grad * 1


def twice(w):
    (w * w).sum().backward()
    (w * 3).sum().backward()
    return w.grad


def retained(w):
    loss = (w * w).exp().sum()
    loss.backward(retain_graph=True)
    first = w.grad.clone()
    loss.backward()
    return first, w.grad


def same_gradient_for_two(a, b):
    ((a + b) * 3).sum().backward()
    a.grad.mul_(2)
    return a.grad, b.grad


def given_gradient(w):
    g = w.detach() + 1
    (w * 1).backward(g)
    w.grad.mul_(3)
    return g


def only_some(a, b):
    (a * b).sum().backward(inputs=[a])
    return a.grad, b.grad


def taken(a, b):
    return torch.autograd.grad((a * b).sum(), [a, b], allow_unused=False)


def unused(a, b):
    ga, gb = torch.autograd.grad((a * 2).sum(), [a, b], allow_unused=True)
    return ga, gb is None


def penalty(w):
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    ((g**2).sum() + w.sum()).backward()
    return w.grad


def inner_steps(w):
    fast = w
    for _ in range(3):
        (g,) = torch.autograd.grad((fast**2).sum(), fast, create_graph=True)
        fast = fast - 0.1 * g
    fast.sum().backward()
    return w.grad


def opened(a, b):
    F.l1_loss(torch.stack([a, b]), torch.zeros(2, 3)).backward()
    return a.grad, b.grad


def in_place(a):
    y = a * 2
    y[0] = 1.0
    y.mul_(a.detach())
    y.view(-1)[1:].sum().backward()
    return a.grad


def unrecorded(a):
    y = (a * a).sum()
    with torch.no_grad():
        y.backward()
    return a.grad


def clipped(a):
    (a * 100).sum().backward()
    return nn.utils.clip_grad_norm_([a], 1.0), a.grad


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 3


def custom(a):
    Triple.apply(a).sum().backward()
    return a.grad


def random(a):
    F.dropout(a * 2, 0.5).sum().backward()
    return a.grad


WHOLE = [
    (into_grad, 1),
    (twice, 1),
    (retained, 1),
    (same_gradient_for_two, 2),
    (given_gradient, 1),
    (only_some, 2),
    (taken, 2),
    (unused, 2),
    (penalty, 1),
    (inner_steps, 1),
    (opened, 2),
    (in_place, 1),
    (unrecorded, 1),
    (clipped, 1),
    (custom, 1),
    (random, 1),
]


@pytest.mark.parametrize("fn, count", WHOLE, ids=lambda v: getattr(v, "__name__", None))
def test_captured_whole(fn, count):
    check(fn, *(leaf(3) for _ in range(count)))


def test_gradient_that_is_there_is_added_to():
    def fn(w):
        (w * w).sum().backward()

    w = leaf(3)
    compiled = torch.compile(fn, backend="eager", fullgraph=True)
    compiled(w)
    assert torch.equal(w.grad, 2 * w.detach())
    seen = w.grad
    compiled(w)
    assert w.grad is seen and torch.equal(seen, 4 * w.detach())
    w.grad = None
    compiled(w)
    assert torch.equal(w.grad, 2 * w.detach()) and counters.snapshot()["graphs"] == 2


def test_a_gradient_has_memory_of_its_own():
    def fn(a, b):
        (a + b).sum().backward()

    a, b = leaf(3), leaf(3)
    torch.compile(fn, backend="aot_eager", fullgraph=True)(a, b)
    assert a.grad.data_ptr() != b.grad.data_ptr() and a.grad.is_contiguous()


# -- history that leaves the graph


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_history_that_was_used_up(backend):
    def fn(w):
        y = w * w
        loss = y.sum()
        loss.backward()
        return loss, y

    w = leaf(3)
    loss, y = torch.compile(fn, backend=backend, fullgraph=True)(w)
    assert loss.requires_grad and y.grad_fn is not None and not loss.is_leaf
    for t in (loss, (y * 2).sum()):
        with pytest.raises(RuntimeError, match="a second time"):
            t.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(loss, w)
    assert torch.equal(w.grad, 2 * w.detach())


def overwritten_by_draws(x):
    x.uniform_(0.25, 0.5)
    x.clamp_(max=1.0)
    return x


def overwritten_by_numbers(x):
    x.copy_(torch.ones(2, 4))
    return x.exp()


def drawn_within(x):
    x = x * 1
    return x.uniform_(0.25, 0.5).clamp(max=1.0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("fn", [overwritten_by_draws, overwritten_by_numbers, drawn_within])
def test_history_is_used_up_where_gradients_need_nothing_of_it(fn, backend):
    """Eager steps had saved something; the compiled backward, which gives zeros, has not."""
    w = leaf(2, 4)
    y = torch.compile(fn, backend=backend)(w * 1)
    assert torch.autograd.grad(y.sum(), w)[0].eq(0).all()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_history_without_anything_saved_runs_twice():
    w = leaf(3)
    y = torch.compile(lambda x: x + 1, backend="aot_eager")(w)
    y.sum().backward()
    y.sum().backward()
    assert w.grad.eq(2).all()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_history_that_lives_on(backend):
    def fn(w, v):
        y = w * w
        loss = y.sum()
        loss.backward()
        return loss, (v * v).sum(), v + w

    w, v = leaf(3), leaf(3)
    loss, other, both = torch.compile(fn, backend=backend, fullgraph=True)(w, v)
    (other + both.sum()).backward()
    torch.testing.assert_close(v.grad, 2 * v.detach() + 1)  # the sums' order is free: rounding differs
    torch.testing.assert_close(w.grad, 2 * w.detach() + 1)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_retained_history_lives_on():
    def fn(w):
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
        return loss

    w = leaf(3)
    torch.compile(fn, backend="aot_eager", fullgraph=True)(w).backward()
    assert torch.equal(w.grad, 4 * w.detach())


# -- cuts


def from_outside(y):
    (y * 2).sum().backward()


def test_history_from_outside_is_a_cut():
    w = leaf(3)
    torch.compile(from_outside, backend="eager")(w * 1)
    assert torch.equal(w.grad, torch.full((3,), 2.0)) and counters.snapshot()["breaks"] == {"backward": 1}


def test_checkpointed_region_is_a_cut():
    def fn(w):
        checkpoint(torch.sin, w, use_reentrant=False).sum().backward()
        return w.grad

    check(fn, leaf(3), graphs=None, breaks={"backward": 1})


def test_hooks_of_a_leaf_run():
    def fn(w):
        (w * w).sum().backward()

    w, seen = leaf(3), []
    compiled = torch.compile(fn, backend="eager")
    compiled(w)
    w.grad = None
    handle = w.register_hook(lambda g: seen.append(g.clone()))
    compiled(w)
    assert len(seen) == 1 and torch.equal(w.grad, 2 * w.detach())
    handle.remove()
    before = counters.snapshot()["graphs"]
    compiled(w)
    w.register_post_accumulate_grad_hook(seen.append)
    compiled(w)
    assert seen[1] is w and counters.snapshot()["graphs"] == before


def test_a_second_backward_raises_as_in_eager():
    def fn(w):
        loss = (w * w).sum()
        loss.backward()
        loss.backward()

    w = leaf(3)
    with pytest.raises(RuntimeError, match="a second time"):
        torch.compile(fn, backend="eager")(w)
    assert torch.equal(w.grad, 2 * w.detach())


def test_wrong_calls_raise_as_in_eager():
    def fn(w):
        return (w * w).backward()

    check(fn, leaf(3), graphs=None, breaks=None)
    check(lambda w: torch.autograd.grad(w.sum(), w, 1, 2, 3, 4, 5, 6, 7, 8), leaf(3), graphs=None, breaks=None)


# -- training steps


def zero_first(model, opt, x, y):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    return loss


def zero_last(model, opt, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    opt.step()
    model.zero_grad()
    return loss.detach()


def filled_with_zeros(model, opt, x, y):
    opt.zero_grad(set_to_none=False)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    return loss


def two_halves(model, opt, x, y):
    opt.zero_grad()
    for k in (0, 2):
        (F.cross_entropy(model(x[k : k + 2]), y[k : k + 2]) / 2).backward()
    opt.step()


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3))


def trained(step, kind, compiled):
    model = made()
    opt = kind(model.parameters())
    run = compiled(step)
    torch.manual_seed(3)
    losses = [run(model, opt, X, Y) for _ in range(3)]
    grads = [p.grad for p in model.parameters()]
    return losses, grads, model.state_dict(), opt.state_dict()["state"]


def close(a, b):
    if isinstance(a, torch.Tensor):
        return a.requires_grad == b.requires_grad and a.stride() == b.stride() and torch.allclose(a, b, atol=1e-6)
    if isinstance(a, dict):
        return list(a) == list(b) and all(close(a[k], b[k]) for k in a)
    return len(a) == len(b) and all(map(close, a, b)) if isinstance(a, (list, tuple)) else a == b


KINDS = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), "adamw": lambda p: torch.optim.AdamW(p, lr=0.01)}
STEPS = [(zero_first, "adamw", 1), (zero_last, "sgd", 1), (filled_with_zeros, "sgd", 2), (two_halves, "sgd", 1)]


@pytest.mark.parametrize("step, kind, graphs", STEPS, ids=lambda v: getattr(v, "__name__", None))
def test_a_whole_step_is_one_graph(step, kind, graphs):
    expected = trained(step, KINDS[kind], lambda f: f)
    found = trained(step, KINDS[kind], lambda f: torch.compile(f, backend="aot_eager", fullgraph=True))
    assert close(expected, found)
    assert counters.snapshot()["graphs"] == graphs and counters.snapshot()["fallbacks"] == {}


@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_parameters_are_written_in_place_behind_the_last_check(backend):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    plain = copy.deepcopy(model)
    opt, other = KINDS["adamw"](model.parameters()), KINDS["adamw"](plain.parameters())
    step, place = torch.compile(zero_first, backend=backend), model.weight.data_ptr()
    assert close(zero_first(plain, other, X, Y), step(model, opt, X, Y))
    before = copy.deepcopy((model.state_dict(), opt.state_dict()))
    with pytest.raises(IndexError):
        step(model, opt, X, Y + 7)
    assert same(before, (model.state_dict(), opt.state_dict())) and model.weight.grad is None
    graphs = counters.snapshot()["graphs"]
    assert close(zero_first(plain, other, X, Y), step(model, opt, X, Y)) and model.weight.data_ptr() == place
    assert close(plain.state_dict(), model.state_dict()) and counters.snapshot()["graphs"] == graphs


def test_other_batches():
    model, other = made().eval(), made().eval()
    opt, plain = KINDS["sgd"](model.parameters()), KINDS["sgd"](other.parameters())
    step = torch.compile(zero_first, backend="aot_eager", fullgraph=True)
    for n in (5, 4, 2):
        assert close(zero_first(other, plain, X[:n], Y[:n]), step(model, opt, X[:n], Y[:n]))
    assert close(model.state_dict(), other.state_dict()) and counters.snapshot()["graphs"] == 2
