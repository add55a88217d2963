"""Operators of torch.library in compiled programs: each call is one node, whatever the backend; eagerly they follow
torch.library.custom_op's rules."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau.eager.op.op import OPS
from flambeau.eager.ops import custom_calls
from flambeau.runtime import counters

BACKENDS = ("eager", "aot_eager", "loops", "inductor")
numbers = itertools.count()


@pytest.fixture(autouse=True)
def no_records_left():
    """The records of a program's operators go with it: other tests walk all records of the library."""
    yield
    custom_calls.operator_record.cache_clear()
    for name in [name for name in OPS if "." in name]:
        del OPS[name]


def operator(function, fake=None, mutates_args=(), backward=None, setup=None):
    """A new operator of this function."""
    made = torch.library.custom_op(f"tests::{function.__name__}_{next(numbers)}", function, mutates_args=mutates_args)
    if fake is not None:
        made.register_fake(fake)
    if backward is not None:
        made.register_autograd(backward, setup_context=setup)
    return made


def sine(x: Tensor, scale: float = 2.0) -> Tensor:
    return torch.from_numpy(np.sin(x.numpy(force=True)) * np.float32(scale))


def sine_operator():
    def setup(ctx, inputs, output):
        x, ctx.scale = inputs
        ctx.save_for_backward(x)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.scale, None

    return operator(sine, lambda x, scale=2.0: torch.empty_like(x), backward=backward, setup=setup)


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_and_gradient_are_eagers_in_one_graph(backend):
    op = sine_operator()

    def f(x, y):
        return (op(x * 2, 3.0) + op(y, scale=0.5) * getattr(torch.ops.tests, op.__name__)(x)).sum()

    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    expected = torch.autograd.grad(f(x, y), (x, y))
    compiled = torch.compile(f, backend=backend, fullgraph=True)
    found = torch.autograd.grad(compiled(x, y), (x, y))
    torch.testing.assert_close(compiled(x, y), f(x, y))
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(compiled(x.detach(), y.detach()), f(x, y).detach())


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_an_operator_writes_is_seen(backend):
    def add_into(x: Tensor, out: Tensor) -> None:
        out.add_(x)

    op = operator(add_into, mutates_args={"out"})

    def f(x, state):
        total = torch.zeros_like(x)
        op(x * 2, total)
        op(x, state[1])
        return total + 1

    x, state = torch.randn(5), torch.randn(3, 5)
    other = state.clone()
    expected = f(x, state)
    torch.testing.assert_close(torch.compile(f, backend=backend, fullgraph=True)(x, other), expected)
    torch.testing.assert_close(other, state)


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_results_lists_and_texts(backend):
    def spread(parts: list[Tensor], how: str, at: int = 0) -> tuple[Tensor, Tensor]:
        made = torch.stack(parts)
        return (made.amax(at) if how == "max" else made.amin(at)), made.sum().to(torch.float64).reshape(1)

    def fake(parts, how, at=0):
        return torch.empty_like(parts[0]), parts[0].new_empty(1, dtype=torch.float64)

    op = operator(spread, fake)

    def f(x, y):
        a, b = op([x, y * 2], "max")
        c, _ = op((y, x), how="min")
        return a + c, b * 2

    x, y = torch.randn(2, 3), torch.randn(2, 3)
    for a, b in zip(torch.compile(f, backend=backend, fullgraph=True)(x, y), f(x, y)):
        torch.testing.assert_close(a, b)


def test_symbolic_sizes_are_given_as_numbers():
    def repeated(x: Tensor, times: int) -> Tensor:
        assert type(times) is int
        return x.repeat(times)

    op = operator(repeated, lambda x, times: x.new_empty(x.shape[0] * times))
    counters.reset()
    compiled = torch.compile(lambda x: op(x, x.shape[0]) + 1, fullgraph=True, dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x), x.repeat(n) + 1)
    assert counters.snapshot()["graphs"] == 1


def test_numbers_that_change_are_those_of_the_call():
    op = operator(sine, lambda x, scale=2.0: torch.empty_like(x))
    compiled = torch.compile(lambda x, scale: op(x, scale) + op(x, scale * 2), fullgraph=True)
    x = torch.randn(3)
    for scale in (1.5, 2.5, 0.5, 3.0):
        torch.testing.assert_close(compiled(x, scale), x.sin() * (3 * scale))


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_neither_dropped_nor_merged(backend):
    seen = []

    def noted(x: Tensor) -> Tensor:
        seen.append(float(x.sum()))
        return x * len(seen)

    op = operator(noted, torch.empty_like)

    def f(x):
        op(x + 1)  # nobody reads it
        return op(x) + op(x)

    x = torch.ones(2)
    expected = f(x).clone()
    before, seen[:] = list(seen), []
    torch.testing.assert_close(torch.compile(f, backend=backend, fullgraph=True)(x), expected)
    assert seen == before == [4.0, 2.0, 2.0]


def test_without_a_shape_function_a_call_is_a_counted_break():
    op = operator(sine)
    f = lambda x: op(x + 1, 1.0) + 1
    x = torch.randn(3)
    counters.reset()
    torch.testing.assert_close(torch.compile(f)(x), f(x))
    assert counters.snapshot()["breaks"]["call"]
    with pytest.raises(Exception, match="no shape function") as told:
        torch.compile(f, fullgraph=True)(x)
    assert "register_fake" in str(told.value)


def test_a_shape_function_that_is_wrong_is_an_error():
    op = operator(sine, lambda x, scale=2.0: x.new_empty(1))
    with pytest.raises(
        RuntimeError, match=r"tests\.sine_\d+: result 0 is float32\[4\] where its shape function says float32\[1\]"
    ):
        torch.compile(lambda x: op(x) + 1)(torch.randn(4))


def test_an_operator_written_with_tensor_operations_is_looked_into():
    lib = torch.library.Library(f"tests_{next(numbers)}", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    op = getattr(torch.ops, lib.ns).twice
    x = torch.randn(3, requires_grad=True)
    torch.compile(lambda x: op.default(x).sum(), fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 2.0))


def test_schemas_tell_what_is_written():
    lib = torch.library.Library(f"tests_{next(numbers)}", "DEF")
    lib.define("fill(Tensor(a!) out, Tensor x, Tensor(b!)? other=None) -> ()")

    def fill(out, x, other=None) -> None:
        out.copy_(x)

    lib.impl("fill", fill, "CPU")
    op = getattr(torch.ops, lib.ns).fill
    assert op.mutates == ("out", "other")

    def f(x):
        out = torch.zeros_like(x)
        op(out, x)
        return out

    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(f, fullgraph=True)(x), x)


def test_aten_operators_in_graphs():
    aten = torch.ops.aten

    def f(x):
        return aten.add.Tensor(x, x) + aten.relu(x) + aten.sum.dim_IntList(x, [0]) + aten.mul.Tensor(x, 2)

    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, fullgraph=True)(x), f(x))


def test_aten_operators_alone_are_known():
    """In a program that has no operator of its own: torch.ops is loaded while the frame is traced."""
    program = """
import flambeau as torch
compiled = torch.compile(lambda x: torch.ops.aten.relu(x) + 1, fullgraph=True)
print(compiled(torch.ones(2)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


# -- eagerly


def test_a_result_that_is_an_argument_is_refused():
    op = operator(flattened)
    with pytest.raises(RuntimeError, match="shares memory with one"):
        op(torch.ones(2))


def flattened(x: Tensor) -> Tensor:
    return x.view(-1)


def test_a_gradient_that_was_not_registered_is_an_error_of_backward():
    op = operator(sine)
    out = op(torch.ones(2, requires_grad=True))
    assert out.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        out.sum().backward()


def test_an_operator_that_writes_has_no_gradient():
    def write(x: Tensor) -> None:
        x.zero_()

    with pytest.raises(RuntimeError, match="non-functional"):
        operator(write, mutates_args=("x",)).register_autograd(lambda ctx, g: g)


def test_gradients_reach_tensors_in_lists():
    def total(parts: list[Tensor]) -> Tensor:
        return sum(p * (k + 1) for k, p in enumerate(parts))

    op = operator(total, backward=lambda ctx, g: [g * 1, g * 2])
    x, y = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
    op([x, y]).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(2))
    torch.testing.assert_close(y.grad, torch.full((2,), 2.0))


def test_meta_tensors_take_the_shape_function():
    op = operator(sine, lambda x, scale=2.0: x.new_empty(*x.shape, 2))
    assert op(torch.empty(3, device="meta")).shape == (3, 2)


def test_written_tensors_have_a_new_version():
    def write(x: Tensor) -> None:
        x.numpy()[:] = 7

    x = torch.zeros(2)
    before = x._version
    operator(write, mutates_args={"x"})(x)
    assert x._version > before and x.tolist() == [7.0, 7.0]
