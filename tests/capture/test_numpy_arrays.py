"""numpy's arrays of tensors inside of compiled programs: numpy itself runs each function, so that results are its own."""

import random
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.eager.op.op import OPS
from flambeau.eager.ops import custom_calls
from flambeau.runtime import counters

BACKENDS = ("eager", "aot_eager", "loops", "inductor")
torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_records_left():
    """The records of a program's operators go with it: other tests walk all records of the library."""
    yield
    custom_calls.operator_record.cache_clear()
    for name in [name for name in OPS if "." in name]:
        del OPS[name]


def same(found, expected):
    """Results of one type, one element type and one shape, with equal values."""
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(found, expected, equal_nan=expected.dtype.kind in "fc")
    else:
        assert found == expected


def sines(x):
    return torch.from_numpy(np.sin(x.numpy()) * 2).sum() + 1


def standardised(x):
    a = x.detach().cpu().numpy()
    return torch.from_numpy(((a - a.mean(0)) / (a.std(0) + 1e-6)).astype(np.float32)) * 2


def returned(x):
    a = (x + 1).numpy()
    return np.maximum(a, 0), a.sum(), a.T, a.shape, a.dtype, np.float32(2) * a, 1 - a, -a, a**2, a[0, 1], a[0], a // 0.3, a > 0


def put_together(x):
    a = x.numpy()
    stacked = torch.as_tensor(np.stack([a, a * 2]))
    return stacked, torch.tensor(np.where(a > 0, a, -a)), torch.from_numpy(np.concatenate((a[1:], a[:1]), axis=0)) @ torch.ones(4)


def softmax(x):
    a = x.numpy(force=True)
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return torch.from_numpy(e / e.sum(axis=1, keepdims=True)) * x


def two_results(x):
    whole, rest = np.modf(x.numpy())
    return torch.from_numpy(rest), whole, np.divmod(x.numpy(), 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [sines, standardised, returned, put_together, softmax, two_results])
def test_programs_are_one_graph(program, backend):
    counters.reset()
    x = torch.randn(3, 4)
    same(torch.compile(program, backend=backend)(x), program(x))
    assert not counters.snapshot()["breaks"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8, torch.bool], ids=str)
def test_types_are_numpys(dtype):
    x = (torch.randn(3, 4) * 3).abs().to(dtype)
    ops = (lambda a: a * 2, lambda a: a + 1.5, np.sqrt, lambda a: a.sum(), lambda a: a.mean(0), lambda a: a / a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in ops:
            same(torch.compile(lambda x: (op(x.numpy()), x.sum()), fullgraph=True)(x), (op(x.numpy()), x.sum()))


def test_sizes_that_change_are_symbolic_for_elementwise_functions():
    counters.reset()
    f = lambda x, y: torch.from_numpy(np.exp(x.numpy()) + y.numpy() * 2.0) + 1
    compiled = torch.compile(f, dynamic=True, fullgraph=True)
    for n in (3, 5, 9):
        x, y = torch.randn(n, 4), torch.randint(0, 5, (4,))
        same(compiled(x, y), f(x, y))
    assert counters.snapshot()["graphs"] == 1
    with pytest.raises(Exception, match="sizes change"):
        torch.compile(lambda x: torch.from_numpy(x.numpy().sum(0)), dynamic=True, fullgraph=True)(torch.randn(7, 4))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: np.unique(x.numpy()),  # sizes that values decide
        lambda x: np.nonzero(x.numpy()),
        lambda x: np.where(x.numpy() > 0),
        lambda x: x.numpy()[x.numpy() > 0],
        lambda x: x.numpy()[::-1].copy(),
        lambda x: x.numpy().tolist(),
        lambda x: np.add(x.numpy(), 1, out=np.zeros((3, 4), np.float32)),
        lambda x: abs(x.numpy()),
    ],
)
def test_the_rest_is_python(program):
    x = torch.randn(3, 4)
    f = lambda x: program(x + 1)
    same(torch.compile(f)(x), f(x))


def test_writes_through_arrays_are_python():
    def f(x):
        y = x * 2
        a = y.numpy()
        a[0] = 7
        a += 1
        return y + 0

    x = torch.randn(3, 4)
    same(torch.compile(f)(x), f(x))


def test_memory_is_shared_as_eagerly():
    def f(x):
        y = x + 1
        a = y.numpy()
        return y, a, a.T, torch.from_numpy(np.sin(a))

    y, a, t, _ = torch.compile(f)(torch.randn(3, 4))
    y.zero_()
    assert not a.any() and not t.any()

    def g(x):
        t = torch.from_numpy(x.numpy())
        t.add_(1)
        return x.sum()

    x = torch.randn(3, 4)
    other = x.clone()
    same(torch.compile(g)(x), g(other))
    same(x, other)
    assert x._version == other._version


def test_a_gradient_is_refused_as_eagerly():
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.compile(lambda x: torch.from_numpy(np.sin(x.numpy())))(x)
    found = torch.compile(lambda x: x * torch.from_numpy(np.sin(x.detach().numpy())))(x)
    found.sum().backward()
    same(x.grad, x.detach().sin())


def test_what_numpy_refuses_is_raised():
    with pytest.raises(ValueError, match="broadcast"):
        torch.compile(lambda x: np.add(x.numpy(), x[:, :3].numpy()) + 1)(torch.randn(3, 4))
    with pytest.raises(ValueError, match="negative integer powers"):
        torch.compile(lambda x, y: x.numpy() ** y.numpy())(torch.tensor([2, 3]), torch.tensor([1, -1]))


def drawn(draw, depth=4):
    """A program of `depth` random functions of numpy over arrays of (3, 4)."""
    one = [
        np.sin,
        np.exp,
        np.negative,
        np.square,
        np.abs,
        np.floor,
        np.sign,
        lambda a: a.clip(-1, 1),
        lambda a: np.roll(a, 1),
        np.sort,
    ]
    one += [lambda a: a - a.mean(0), lambda a: a.cumsum(1), lambda a: a.T.copy().reshape(3, 4), lambda a: a[[0]].repeat(3, 0)]
    two = [
        np.add,
        np.subtract,
        np.multiply,
        np.maximum,
        np.arctan2,
        lambda a, b: np.where(a > b, a, b),
        lambda a, b: a / (b * b + 1),
    ]
    steps = [draw.choice(one) if draw.random() < 0.5 else draw.choice(two) for _ in range(depth)]

    def program(x, y):
        held = [x.numpy(), y.numpy()]
        for k, step in enumerate(steps):
            held.append(step(held[-1]) if step in one else step(held[-1], held[k]))
        return held[-1], held[-2].sum(), torch.from_numpy(held[-1].astype(np.float64)) + 1

    return program


def test_drawn_programs():
    draw = random.Random(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(60):
            program = drawn(draw)
            x, y = torch.randn(3, 4), draw.choice([torch.randn(3, 4), torch.randint(-3, 3, (3, 4)), torch.randn(4).double()])
            try:
                expected = program(x, y)
            except (TypeError, ValueError, IndexError) as error:
                with pytest.raises(type(error)):
                    torch.compile(program, backend="aot_eager")(x, y)
                continue
            same(torch.compile(program, backend=BACKENDS[k % 4])(x, y), expected)
