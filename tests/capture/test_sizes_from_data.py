"""unique(), bincount(), repeat_interleave() and the like: sizes that the data decides, in one graph, static and dynamic."""

import pytest

import flambeau as torch
from flambeau.eager.nn import functional as F
from flambeau.runtime import counters
from flambeau.runtime.config import config

PROGRAMS = {
    "unique": lambda x: x.unique() * 2 + x.unique().sum(),
    "unique parts": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique of rows": lambda x: torch.unique(torch.stack([x, x]), dim=1, return_counts=True),
    "unique length": lambda x: (x.unique().shape[0] * 2, len(x.unique()), x.unique().numel() + 1),
    "consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True),
    "bincount": lambda x: torch.bincount(x.abs().long()),
    "bincount weights": lambda x: torch.bincount(x.abs().long(), x, minlength=4) * 2,
    "repeat": lambda x: torch.repeat_interleave(x, x.abs().long()) + 1,
    "repeat rows": lambda x: torch.stack([x, -x]).repeat_interleave(torch.tensor([1, 2]), dim=0).sum(1),
    "places": lambda x: torch.repeat_interleave(x.abs().long()) * 2,
    "one_hot": lambda x: F.one_hot(x.abs().long()).float().mean(0),
    "masked_select": lambda x: torch.masked_select(x, x > 0).exp(),
    "mask": lambda x: x[x > 0].sum() + x[x > 100].sum(),
    "nonzero": lambda x: (x > 0).nonzero() * 2,
    "where": lambda x: torch.where(x > 0)[0] + 1,
    "argwhere": lambda x: torch.argwhere(x > 0),
}
INPUTS = (
    [1.0, 3.0, 1.0, 2.0, -3.0, 2.0],
    [4.0, 4.0, 0.0, -1.0, 1.0, 2.0],
    [1.0, 0.0, 2.0, 5.0, 5.0, 5.0, 1.0, -2.0, 3.0],
    [0.0] * 9,
)


def close(a, b):
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype is b.dtype and torch.allclose(a.double(), b.double(), equal_nan=True)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(close, a, b))
    return type(a) is type(b) and a == b


GENERATED = ("unique parts", "bincount weights", "repeat", "one_hot", "masked_select")  # C++ takes its time
CASES = [(name, *how) for name in PROGRAMS for how in (("eager", None), ("aot_eager", True))]


@pytest.mark.parametrize("name, backend, dynamic", [*CASES, *((name, "inductor", True) for name in GENERATED)])
def test_one_graph(name, backend, dynamic):
    fn = PROGRAMS[name]
    counters.reset()
    compiled = torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)
    with config.patch(strict=True):
        for values in INPUTS:
            assert close(fn(torch.tensor(values)), compiled(torch.tensor(values)))
    seen = counters.snapshot()
    assert seen["graphs"] == (1 if dynamic else 2) and seen["breaks"] == {} and seen["fallbacks"] == {}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_flow_past_a_read(backend):
    def fn(x):
        return torch.repeat_interleave(x * 2, x.abs().long()).exp().sum()

    leaves = [torch.tensor([1.0, 2.0, 0.0, 3.0], requires_grad=True) for _ in range(2)]
    for f, leaf in zip((fn, torch.compile(fn, backend=backend, fullgraph=True)), leaves):
        f(leaf).backward()
    assert torch.allclose(leaves[0].grad, leaves[1].grad)


def test_an_error_of_a_read_is_eagers():
    """What ran before it has happened, once."""

    def fn(x, seen):
        seen.append(1)
        return torch.bincount(x) + 1

    compiled = torch.compile(fn)
    assert torch.equal(compiled(torch.tensor([1, 2]), []), torch.tensor([1, 2, 2]))
    seen = []
    with pytest.raises(RuntimeError, match="non-negative"):
        compiled(torch.tensor([1, -2]), seen)
    assert seen == [1]


def test_a_read_whose_type_depends_on_the_data():
    """The counts of nothing are integers whatever the weights."""

    def fn(x, w):
        return torch.bincount(x[x > 0], w[x > 0])

    compiled = torch.compile(fn)
    for values in ([1, 2, 2], [0, -1, 0]):
        x, w = torch.tensor(values), torch.tensor([1.0, 2.0, 3.0])
        assert close(fn(x, w), compiled(x, w))


NUMBERS = {
    "arange": lambda x, n: torch.arange(n.item()) * 2,
    "zeros": lambda x, n: torch.zeros(n.item(), 3) + x.sum(),
    "slice": lambda x, n: x[: n.item()] * 2,
    "slice from": lambda x, n: x[n.item() :].sum(),
    "narrow": lambda x, n: x.narrow(0, 0, n.item()).exp(),
    "select": lambda x, n: x[n.item()] + 1,
    "topk": lambda x, n: x.topk(n.item())[0],
    "int of a float": lambda x, n: x[: int(n * 1.5)] + 1,
    "repeat": lambda x, n: x.repeat(n.item()),
}


@pytest.mark.parametrize(
    "name, backend, dynamic",
    [
        *((name, *how) for name in NUMBERS for how in (("eager", None), ("aot_eager", True))),
        *((name, "inductor", True) for name in ("zeros", "slice", "select")),
    ],
)
def test_numbers_become_sizes_and_indices(name, backend, dynamic):
    """In one graph; numbers that are none (negative, or too large) have eager's meaning or error."""
    fn = NUMBERS[name]
    counters.reset()
    compiled = torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True)
    x = torch.randn(6)
    with config.patch(strict=True):
        for n in (2, 3, 1, 5, 0, 6, -2, 9, -7):
            expected, found = outcome(fn, x, torch.tensor(n)), outcome(compiled, x, torch.tensor(n))
            assert type(expected) is type(found) and (close(expected, found) if not isinstance(found, str) else expected == found)
    seen = counters.snapshot()
    assert seen["graphs"] == 1 and seen["breaks"] == {}


def outcome(fn, *args):
    try:
        return fn(*args)
    except (RuntimeError, IndexError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def test_the_programs_own_questions_break():
    """Both ways are as likely as the other: nothing is assumed."""

    def fn(x, n):
        number = n.item()
        return x * 2 if number >= 0 else x - abs(number)

    counters.reset()
    compiled = torch.compile(fn, backend="eager")
    for n in (2, -3):
        assert torch.equal(compiled(torch.ones(2), torch.tensor(n)), fn(torch.ones(2), torch.tensor(n)))
    assert set(counters.snapshot()["breaks"]) == {"data-dependent size"}


def test_what_never_holds_is_not_tried_for_ever():
    compiled = torch.compile(lambda x, n: x[: n.item()] * 2, backend="aot_eager")
    x, fallbacks = torch.randn(4), "data unlike what was assumed"
    compiled(x, torch.tensor(2))
    counters.reset()
    for _ in range(12):
        assert torch.equal(compiled(x, torch.tensor(-1)), x[:-1] * 2)
    assert counters.snapshot()["fallbacks"].get(fallbacks) == 1


def test_a_size_is_not_compared_with_a_size_of_another_dimension():
    """Broadcasting (batch, 4) with (4,) says nothing about the batch: a batch of 4 is no other code, and a piece behind a
    read, which may add no guard, is compiled."""
    layer = torch.nn.Linear(3, 4)

    def fn(x):
        best = layer(x).argmax(1)
        return (best == 2).sum().item(), best * 2

    compiled = torch.compile(fn, backend="aot_eager", dynamic=True, fullgraph=True)
    counters.reset()
    with config.patch(strict=True):
        for batch in (7, 4, 3):
            x = torch.randn(batch, 3)
            assert close(fn(x), compiled(x))
    seen = counters.snapshot()
    assert (seen["recompiles"], seen["fallbacks"]) == (0, {})


def test_a_factor_that_follows_a_size_reaches_what_eager_runs():
    """The inverse transform is divided by its length, which is another one in the next call."""

    def fn(x):
        return torch.fft.irfft(torch.fft.rfft(x)), torch.fft.ifft(x, norm="ortho").abs() * 2

    counters.reset()
    compiled = torch.compile(fn, dynamic=True, fullgraph=True)
    for length in (16, 32, 24):
        x = torch.randn(length)
        assert close(fn(x), compiled(x))
    assert counters.snapshot()["recompiles"] == 0
