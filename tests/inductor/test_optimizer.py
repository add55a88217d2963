"""Compiled optimizer steps: one graph, one native call for all parameters, state and parameters written where they lie."""

import pytest

import flambeau as fl
from flambeau.runtime import counters

SHAPES = [(3,), (0,), (40, 50), (1,), (), (5, 7)]
MAKERS = {
    "sgd": lambda ps: fl.optim.SGD(ps, lr=0.1, weight_decay=0.1),
    "momentum": lambda ps: fl.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.5, maximize=True),
    "nesterov": lambda ps: fl.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda ps: fl.optim.Adam(ps, lr=0.1, weight_decay=0.1),
    "adamw": lambda ps: fl.optim.AdamW(ps, lr=0.1),
    "amsgrad": lambda ps: fl.optim.AdamW(ps, lr=0.1, amsgrad=True),
    "rmsprop": lambda ps: fl.optim.RMSprop(ps, lr=0.01, momentum=0.9, centered=True, weight_decay=0.1),
    "adagrad": lambda ps: fl.optim.Adagrad(ps, lr_decay=0.1, maximize=True),
    "adadelta": lambda ps: fl.optim.Adadelta(ps),
    "adamax": lambda ps: fl.optim.Adamax(ps, weight_decay=0.1),
    "nadam": lambda ps: fl.optim.NAdam(ps, decoupled_weight_decay=True, weight_decay=0.1),
    "radam": lambda ps: fl.optim.RAdam(ps, betas=(0.9, 0.7)),  # rectified from the third step on
    "asgd": lambda ps: fl.optim.ASGD(ps, t0=2, weight_decay=0.1),  # averages from the fourth
    "rprop": lambda ps: fl.optim.Rprop(ps),
    "adafactor": lambda ps: fl.optim.Adafactor([p for p in ps if p.numel()], weight_decay=0.1),
}


def problem(make, shapes=SHAPES, dtype=fl.float32):
    fl.manual_seed(0)
    ps = [fl.nn.Parameter(fl.randn(*shape, dtype=dtype)) for shape in shapes]
    return ps, make(ps)


def give_gradients(ps):
    for p in ps:
        p.grad = fl.sin(p.detach()) + 0.1


def compare(make, steps=4, between=lambda opt, k: None, **options):
    """Compiled steps next to eager ones; the compiled parameters and what was counted."""
    fl.compiler.reset()
    (ps, opt), (qs, other) = problem(make), problem(make)
    step = fl.compile(lambda: opt.step(), fullgraph=True, **options)
    for k in range(steps):
        give_gradients(ps)
        give_gradients(qs)
        step()
        other.step()
        between(opt, k)
        between(other, k)
        for p, q in zip(ps, qs):
            assert fl.allclose(p, q, rtol=1e-6, atol=1e-6)
            assert 0 < p._version <= q._version or not p.numel()  # a graph writes once what its steps write
    for p, q in zip(ps, qs):
        mine, theirs = opt.state[p], other.state[q]
        assert mine.keys() == theirs.keys()
        assert all(fl.allclose(mine[n], theirs[n], rtol=1e-6, atol=1e-6) for n in mine)
    return ps, fl.compiler.counters()


@pytest.mark.parametrize("name", MAKERS)
def test_compiled_steps_are_the_eager_ones(name):
    _, found = compare(MAKERS[name])
    assert found["breaks"] == {} and found["fallbacks"] == {}
    assert found["graphs"] == (2 if name == "momentum" else 1)  # the first gradient is not dampened


@pytest.mark.parametrize("name", ["momentum", "amsgrad"])
def test_through_the_loop_interpreter(name):
    _, found = compare(MAKERS[name], backend="loops")
    assert found["breaks"] == {}


def test_a_learning_rate_that_is_a_tensor():
    """Of the optimizers that treat each parameter by itself it is data of the graph."""

    def schedule(opt, k):
        opt.param_groups[0]["lr"].fill_(0.1 / (k + 2))

    _, found = compare(lambda ps: fl.optim.RMSprop(ps, lr=fl.tensor(0.1)), steps=6, between=schedule)
    assert found["graphs"] == 1 and found["breaks"] == {}


def test_a_learning_rate_that_changes_is_an_input():
    def schedule(opt, k):
        opt.param_groups[0]["lr"] = 0.1 / (k + 2)

    _, found = compare(MAKERS["adamw"], steps=6, between=schedule)
    assert found["graphs"] == 2 and found["fallbacks"] == {}


def test_parameters_without_gradient_are_left_alone():
    ps, opt = problem(MAKERS["adamw"])
    ps[2].grad = fl.ones(40, 50)
    before = [p.detach().clone() for p in ps]
    step = fl.compile(opt.step)
    step()
    step()
    assert all(fl.equal(p, b) for k, (p, b) in enumerate(zip(ps, before)) if k != 2)
    assert not fl.equal(ps[2], before[2]) and list(opt.state) == [ps[2]]


def test_another_optimizer_is_another_entry():
    (ps, opt), (qs, other) = problem(MAKERS["adamw"]), problem(MAKERS["adamw"])
    step = fl.compile(lambda opt: opt.step(), fullgraph=True)
    for k in range(4):
        for params, each in ((ps, opt), (qs, other)):
            give_gradients(params)
            step(each)
    assert all(fl.equal(p, q) for p, q in zip(ps, qs))
    assert all(opt.state[p]["step"].item() == 4 for p in ps)


def test_state_that_was_loaded_is_used():
    (ps, opt), (qs, other) = problem(MAKERS["adamw"]), problem(MAKERS["adamw"])
    step = fl.compile(opt.step)
    for k in range(3):
        give_gradients(ps)
        step()
    other.load_state_dict(opt.state_dict())
    opt.load_state_dict(other.state_dict())  # other tensors under the same parameters
    with fl.no_grad():
        for p, q in zip(ps, qs):
            q.copy_(p)
    give_gradients(ps)
    give_gradients(qs)
    step()
    other.step()
    assert all(fl.equal(p, q) for p, q in zip(ps, qs))


def test_one_run_for_all_parameters():
    ps, opt = problem(MAKERS["adamw"], shapes=[(64, 64)] * 20)
    give_gradients(ps)
    step = fl.compile(opt.step)
    step()
    before = counters.snapshot()
    for _ in range(3):
        step()
    assert fl.compiler.counters()["fallbacks"] == {}
    assert counters.snapshot() == before
    places = [p.data_ptr() for p in ps]
    step()
    assert [p.data_ptr() for p in ps] == places


@pytest.mark.parametrize("dtype", [fl.float64, fl.bfloat16])
def test_other_types(dtype):
    (ps, opt), (qs, other) = (problem(MAKERS["adamw"], [(9, 5)], dtype) for _ in range(2))
    step = fl.compile(opt.step)
    for _ in range(3):
        give_gradients(ps)
        give_gradients(qs)
        step()
        other.step()
    assert fl.allclose(ps[0].float(), qs[0].float(), rtol=1e-6, atol=1e-6)
