"""Optimizers and schedules: values of PyTorch 2.13 on the same little problem, groups, state, hooks."""

import copy
import math

import numpy as np
import pytest

from flambeau.eager import api as torch
from flambeau.eager import nn, optim
from flambeau.eager.ops import optimizer as records


def descend(make, steps=3, schedule=None):
    """Minimises (w * a).pow(2).sum() from w = [1, -2, 3], a = [1, 2, 0.5]."""
    w = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    a = torch.tensor([1.0, 2.0, 0.5])
    optimizer = make([w])
    scheduler = schedule(optimizer) if schedule else None
    rates = []
    for _ in range(steps):
        optimizer.zero_grad()
        ((w * a) ** 2).sum().backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
    return w.detach().numpy() if not schedule else rates


def reference(
    kind,
    lr,
    steps=3,
    wd=0.0,
    betas=(0.9, 0.999),
    eps=1e-8,
    momentum=0.0,
    nesterov=False,
    dampening=0.0,
    amsgrad=False,
    maximize=False,
):
    """The formulas in float64."""
    w, a = np.array([1.0, -2.0, 3.0]), np.array([1.0, 2.0, 0.5])
    m, v, top, buffer = np.zeros(3), np.zeros(3), np.zeros(3), None
    for t in range(1, steps + 1):
        g = 2 * w * a * a * (-1 if maximize else 1)
        if kind == "adamw":
            w = w * (1 - lr * wd)
        else:
            g = g + wd * w
        if kind == "sgd":
            if momentum:
                buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
                g = g + momentum * buffer if nesterov else buffer
            w = w - lr * g
            continue
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        top = np.maximum(top, v)
        root = np.sqrt(top if amsgrad else v) / math.sqrt(1 - betas[1] ** t) + eps
        w = w - lr / (1 - betas[0] ** t) * m / root
    return w


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda p: optim.SGD(p, lr=0.1), reference("sgd", 0.1)),
        (lambda p: optim.SGD(p, lr=0.1, weight_decay=0.2, maximize=True), reference("sgd", 0.1, wd=0.2, maximize=True)),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), reference("sgd", 0.1, momentum=0.9)),
        (
            lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
            reference("sgd", 0.1, momentum=0.9, nesterov=True, wd=0.1),
        ),
        (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3), reference("sgd", 0.1, momentum=0.9, dampening=0.3)),
        (lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1), reference("adam", 0.1, wd=0.1)),
        (lambda p: optim.Adam(p, lr=0.1, maximize=True), reference("adam", 0.1, maximize=True)),
        (lambda p: optim.AdamW(p, lr=0.1, betas=(0.8, 0.9)), reference("adamw", 0.1, wd=0.01, betas=(0.8, 0.9))),
        (
            lambda p: optim.AdamW(p, lr=0.5, amsgrad=True, betas=(0.9, 0.5)),
            reference("adamw", 0.5, wd=0.01, betas=(0.9, 0.5), amsgrad=True),
        ),
    ],
)
def test_formulas(make, expected):
    np.testing.assert_allclose(descend(make), expected, rtol=2e-6)


def test_kernels_equal_the_decompositions_that_are_compiled():
    rng = np.random.default_rng(0)

    def tensors(*kinds):
        return [torch.tensor((rng.random((70, 3)) + 0.1).astype(np.float32)) if k else torch.tensor(2.0) for k in kinds]

    calls = [
        (records.sgd_step, tensors(1, 1), (0.1, 0.2, True)),
        (records.sgd_momentum_step, tensors(1, 1, 1), (0.1, 0.9, 0.2, 0.1, False, False)),
        (records.sgd_momentum_step, tensors(1, 1, 1), (0.1, 0.9, 0.0, 0.1, True, True)),
        (records.adam_step, tensors(1, 1, 1, 1, 0), (0.1, 0.9, 0.99, 1e-8, 0.1, True, False)),
        (records.adam_step, tensors(1, 1, 1, 1, 0), (0.1, 0.9, 0.99, 1e-8, 0.1, False, True)),
        (records.amsgrad_step, tensors(1, 1, 1, 1, 1, 0), (0.1, 0.9, 0.99, 1e-8, 0.1, True, False)),
    ]
    for op, given, options in calls:
        want = op.fn(*given, *options)
        mutated = [t.clone() for t in given]
        assert op(*mutated, *options) == ()
        got = [t for p, t in zip(op.params, mutated) if p.name in op.mutates]
        for x, y, before in zip(got, want, [t for p, t in zip(op.params, given) if p.name in op.mutates]):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=3e-6, atol=1e-7, err_msg=op.name)
            assert x._version == 1 and not torch.equal(x, before)


def test_non_contiguous_parameters_and_unused_ones():
    base = torch.ones(3, 2)
    p, unused = base.t().requires_grad_(), torch.ones(1, requires_grad=True)
    optimizer = optim.AdamW([p, unused], lr=0.1, weight_decay=0.0)
    (p * torch.arange(1.0, 7.0).view(2, 3)).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), np.full((2, 3), 0.9), rtol=1e-5)
    assert unused.item() == 1.0 and unused not in optimizer.state


def test_state_dict_round_trip():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.AdamW([{"params": [w], "lr": 0.1}], lr=0.5)
    (w * w).sum().backward()
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    assert saved["param_groups"][0]["params"] == [0] and sorted(saved["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]
    assert saved["state"][0]["step"].item() == 1.0 and saved["param_groups"][0]["lr"] == 0.1
    twin = w.detach().clone().requires_grad_()
    other = optim.AdamW([twin], lr=9.0)
    other.load_state_dict(saved)
    for p, o in ((w, optimizer), (twin, other)):
        p.grad = None
        (p * p).sum().backward()
        o.step()
    assert torch.equal(w, twin) and other.param_groups[0]["lr"] == 0.1
    with pytest.raises(ValueError, match="loaded state dict has a different number of parameter groups"):
        other.load_state_dict({"state": {}, "param_groups": []})


def test_groups():
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
    a.grad, b.grad = torch.ones(1), torch.ones(1)
    optimizer.step()
    assert a.item() == pytest.approx(0.9) and b.item() == 0.0
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    assert a.item() == pytest.approx(0.4)
    optimizer.add_param_group({"params": [torch.ones(1, requires_grad=True)]})
    assert len(optimizer.param_groups) == 3 and optimizer.param_groups[2]["lr"] == 0.1
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": [a]})
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([a * 2], lr=0.1)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match="params argument given to the optimizer should be an iterable"):
        optim.SGD(a, lr=0.1)
    with pytest.raises(ValueError, match="Invalid beta parameter at index 1: 1.0"):
        optim.Adam([a], betas=(0.9, 1.0))


def test_closure_and_hooks():
    w, seen = torch.ones(1, requires_grad=True), []
    optimizer = optim.SGD([w], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kw: seen.append("pre"))
    optimizer.register_step_post_hook(lambda o, args, kw: seen.append("post"))

    def closure():
        optimizer.zero_grad()
        loss = (w * 3).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3.0 and w.item() == pytest.approx(0.7) and seen == ["pre", "post"]


def test_zero_grad_keeps_or_drops():
    w = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    w.grad = torch.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.item() == 0.0
    optimizer.zero_grad()
    assert w.grad is None


def test_a_subclass_of_optimizer():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, dict(lr=lr))

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    np.testing.assert_allclose(descend(lambda p: Sign(p, 0.25)), [0.25, -1.25, 2.25])


sch = optim.lr_scheduler


@pytest.mark.parametrize(
    "schedule, expected",
    [
        (lambda o: sch.LambdaLR(o, lambda e: 0.5**e), [0.5, 0.25, 0.125, 0.0625]),
        (lambda o: sch.StepLR(o, 2, 0.1), [1.0, 0.1, 0.1, 0.01]),
        (lambda o: sch.MultiStepLR(o, [1, 3], 0.5), [0.5, 0.5, 0.25, 0.25]),
        (lambda o: sch.ExponentialLR(o, 0.5), [0.5, 0.25, 0.125, 0.0625]),
        (lambda o: sch.CosineAnnealingLR(o, 4), [0.8535534, 0.5, 0.1464466, 0.0]),
        (lambda o: sch.LinearLR(o, 0.25, total_iters=3), [0.5, 0.75, 1.0, 1.0]),
        (lambda o: sch.ConstantLR(o, 0.5, 2), [0.5, 1.0, 1.0, 1.0]),
        (
            lambda o: sch.SequentialLR(o, [sch.LinearLR(o, 0.5, total_iters=2), sch.ExponentialLR(o, 0.5)], [2]),
            [0.75, 1.0, 0.5, 0.25],
        ),
    ],
)
def test_schedules(schedule, expected):
    np.testing.assert_allclose(descend(lambda p: optim.SGD(p, lr=1.0), 4, schedule), expected, atol=1e-7)


def test_schedule_state():
    optimizer = optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    scheduler = sch.CosineAnnealingLR(optimizer, 10)
    for _ in range(3):
        scheduler.step()
    other = sch.CosineAnnealingLR(optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0), 10)
    other.load_state_dict(scheduler.state_dict())
    assert other.last_epoch == 3 and other.get_last_lr() == scheduler.get_last_lr()


# -- many parameters in one run


def stepped(make, shapes, steps=3, spoil=None):
    """Parameters after some steps; `spoil` makes one of them such that the rows are stepped one by one."""
    torch.manual_seed(0)
    ps = [nn.Parameter(torch.randn(*shape)) for shape in shapes]
    if spoil is not None:
        ps.append(spoil())
    opt = make(ps)
    for _ in range(steps):
        for p in ps:
            p.grad = torch.sin(p.detach()) + 0.1
        opt.step()
    return ps[: len(shapes)], opt


MANY = {
    "sgd": lambda ps: optim.SGD(ps, lr=0.1, weight_decay=0.1),
    "momentum": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.5, maximize=True),
    "nesterov": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda ps: optim.Adam(ps, lr=0.1, weight_decay=0.1),
    "adamw": lambda ps: optim.AdamW(ps, lr=0.1, maximize=True),
    "amsgrad": lambda ps: optim.AdamW(ps, lr=0.1, amsgrad=True),
}


@pytest.mark.parametrize("name", MANY)
def test_one_run_is_the_steps_one_by_one(name):
    shapes = [(3,), (0,), (200, 200), (1,), (), (5, 7)]
    together, opt = stepped(MANY[name], shapes)
    alone, _ = stepped(MANY[name], shapes, spoil=lambda: nn.Parameter(torch.ones(4, 3).t()))
    for a, b in zip(together, alone):
        assert torch.equal(a, b)
        assert a._version == b._version == 3
    for p in together if "adam" in name else ():
        assert opt.state[p]["step"].item() == 3


def test_parameters_over_the_same_memory_are_stepped_in_order():
    base = torch.ones(40000)
    a, b = nn.Parameter(base[:30000]), nn.Parameter(base[10000:])
    a.grad, b.grad = torch.ones(30000), torch.ones(30000)
    optim.SGD([a, b], lr=0.5, weight_decay=1.0).step()
    assert base[0].item() == 0.0 and base[20000].item() == -0.5 and base[39999].item() == 0.0


def test_types_in_one_optimizer_keep_apart():
    ps = [nn.Parameter(torch.ones(5, dtype=d)) for d in (torch.float32, torch.float64, torch.bfloat16, torch.float32)]
    opt = optim.AdamW(ps, lr=0.25, weight_decay=0.0)
    for p in ps:
        p.grad = torch.full_like(p, 2.0)
    opt.step()
    assert [round(p[0].item(), 4) for p in ps] == [0.75] * 4
