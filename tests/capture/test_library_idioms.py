"""What libraries of models do around their layers: signatures that are asked, sequences that are half read, records of outputs."""

import collections
import collections.abc
import dataclasses
import functools
import inspect

import pytest

import flambeau as torch
from flambeau.runtime import counters

from .harness import captured, check  # noqa: F401

X = torch.arange(6.0).reshape(2, 3)
said: list = []


def many(a, b=2, *rest, d=3, **named):
    pass


class Owner:
    def method(self, a, b=2):
        pass


owner = Owner()


def counting(fn):
    @functools.wraps(fn)
    def run(*args, **kwargs):
        asked = inspect.signature(fn).parameters
        return fn(*args, **{k: v for k, v in kwargs.items() if k in asked}) + len(asked)

    return run


@counting
def decorated(x, scale=3):
    return x * scale


def names_of_parameters(x):
    asked = inspect.signature(many).parameters
    return x + ("b" in asked), list(asked), [p.name for p in asked.values() if p.kind is p.KEYWORD_ONLY], asked["b"].default


def of_methods(x):
    return x + 1, list(inspect.signature(owner.method).parameters), list(inspect.signature(Owner.method).parameters.keys())


def passed_on(x):
    return decorated(x, scale=2, other=5), str(inspect.signature(decorated))


def read_only(x):
    asked = inspect.signature(many).parameters
    try:
        asked["z"] = 1
    except TypeError as error:
        return x + 1, str(error)


class Row(collections.abc.Sequence):
    def __init__(self, *values):
        self.values = values

    def __getitem__(self, k):
        return self.values[k]

    def __len__(self):
        return len(self.values)


def first_of_a_sequence(x):
    return x + next(iter(Row(4, 5)))


def left_early(x):
    for value in Row(1, 2):
        x = x * value + 1
        break
    for _, value in zip([1], Row(3, 4)):
        x = x + value
    return x, 2 in Row(1, 2), any(v == 1 for v in Row(1, 2))


def two_handlers():
    try:
        try:
            yield 1
        except (KeyError, ValueError):
            said.append("inner")
    except TypeError as error:
        said.append(error)


def inside_a_handler():
    try:
        raise KeyError
    except KeyError:
        try:
            yield 1
        except ValueError:
            said.append("never")


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """A record that is a dictionary of what it has."""

    hidden: torch.Tensor = None
    pooled: torch.Tensor = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


def record(x):
    made = Output(hidden=x * 2)
    return made["hidden"] + len(made), list(made.keys())


IDIOMS = [
    names_of_parameters,
    of_methods,
    passed_on,
    read_only,
    first_of_a_sequence,
    left_early,
    lambda x: x + next(two_handlers()),
    lambda x: x + next(inside_a_handler()),
    record,
]


@pytest.mark.parametrize("fn", IDIOMS, ids=lambda fn: fn.__name__)
def test_captured_whole(fn):
    check(fn, X)


def test_a_signature_that_changes_is_seen():
    def asked(a, b=2):
        pass

    def fn(x):
        parameters = inspect.signature(asked).parameters
        return x + len(parameters) + parameters["b"].default

    compiled = torch.compile(fn, backend="eager")
    for change in (
        lambda: None,
        lambda: setattr(asked, "__defaults__", (7,)),
        lambda: setattr(asked, "__signature__", inspect.signature(lambda q, r, b=1: None)),
        lambda: delattr(asked, "__signature__"),
    ):
        change()
        assert compiled(X).tolist() == fn(X).tolist()
    assert not counters.snapshot()["breaks"]


def logs_all():
    try:
        yield 1
    except BaseException:
        said.append("dropped")
        raise


def logs_at_the_end():
    try:
        yield 1
    finally:
        said.append("dropped")


@pytest.mark.parametrize("made", [logs_all, logs_at_the_end])
def test_what_hears_that_it_is_dropped_is_python_s(made):
    compiled = torch.compile(lambda x: x + next(made()), backend="eager")
    for _ in range(2):
        said.clear()
        assert compiled(X).tolist() == (X + 1).tolist() and said == ["dropped"]
    assert counters.snapshot()["breaks"]["generator"] == 1


# -- checks of arguments that only the data answers


D = torch.distributions
POLICY = torch.nn.Linear(3, 3)


def normal(x):
    made = D.Normal(x, x.exp())
    return made.log_prob(x * 2), D.kl_divergence(made, D.Normal(0.0, 1.0)).sum(), made.entropy()


def policy(x):
    made = D.Categorical(logits=POLICY(x))
    return (made.log_prob(torch.tensor([0, 2])) * x.sum(1)).mean() - 0.01 * made.entropy().mean()


def uniform(x):
    return D.Uniform(x, x + 1).log_prob(x + 0.5), D.Geometric(probs=x.sigmoid()).log_prob(torch.ones(2, 3))


@pytest.mark.parametrize("fn", [normal, policy, uniform], ids=lambda fn: fn.__name__)
def test_distributions_are_captured(fn):
    check(fn, X)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_gradients_go_through_checks(backend):
    def gradients(run):
        POLICY.zero_grad()
        run(X).backward()
        return [p.grad.clone() for p in POLICY.parameters()]

    expected, found = gradients(policy), gradients(torch.compile(policy, backend=backend))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(expected, found)) and not counters.snapshot()["breaks"]


def test_data_that_a_check_refuses_raises():
    def fn(x):
        return D.Normal(x, x).log_prob(x).sum()

    def told(run, x):
        try:
            return round(run(x).item(), 4)
        except ValueError as error:
            return str(error)

    compiled = torch.compile(fn, backend="eager")
    for x in (X + 1, X + 2, X - 3, X + 3, X - 9):
        assert told(compiled, x) == told(fn, x)
    assert counters.snapshot()["graphs"] == 1 and not counters.snapshot()["breaks"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.uint8], ids=str)
def test_a_histogram_between_known_bounds_is_one_graph(dtype):
    x = torch.randn(500) * 2
    if dtype.is_floating_point:
        x[:5] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 3.0])
    x = x.to(dtype)
    for bins, low, high in ((4, -1.0, 1.0), (7, 0, 3), (100, -2.5, 2.5)):
        f = lambda x: torch.histc(x, bins, low, high)
        for backend in ("eager", "loops", "inductor"):
            assert torch.equal(torch.compile(f, backend=backend, fullgraph=True)(x), f(x))
