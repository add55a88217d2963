"""The native call path: plans, falling back, recording, in-place adds of gradients, other classes of operands."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau.eager import dtypes
from flambeau.eager.op import ufunc_program
from flambeau.eager.op.op import OPS, specialise

REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


def filled(shape, dtype, seed=0):
    return torch.tensor(np.random.default_rng(seed).integers(1, 9, shape), dtype=dtype)


@pytest.mark.parametrize("name", ["add", "mul", "maximum", "lt", "div"])
@pytest.mark.parametrize("first", REAL)
@pytest.mark.parametrize("second", REAL)
def test_a_plan_means_what_the_python_path_does(name, first, second):
    op = OPS[name]
    x, y = filled((3, 4), first), filled((4,), second, 1)
    by_python = specialise(op).__wrapped__ and torch.eager.dispatch.execute(op, (x, y))
    for _ in range(2):  # the first call makes the plan, the second runs it
        found = op(x, y)
        assert found.dtype is by_python.dtype and found.tolist() == by_python.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x, x),
        lambda x: (x.t(), x.t()),
        lambda x: (x[:, ::2], x[:, ::2]),
        lambda x: (x, x[:1]),
        lambda x: (x, x[:, :1]),
        lambda x: (x[0], x.t()[:8]),
        lambda x: (x.expand(3, 8, 8), x[None, :, :1]),
        lambda x: (x[1, 1], x),
        lambda x: (x, 2.5),
        lambda x: (x.reshape(2, 4, 8).permute(2, 0, 1), 1.0),
    ],
)
def test_any_strides(make):
    a, b = make(filled((8, 8), torch.float32))
    for _ in range(2):
        found = a * b + a
    wanted = a.numpy() * (b.numpy() if isinstance(b, torch.Tensor) else b) + a.numpy()
    assert np.array_equal(found.numpy(), wanted)
    assert found.stride() == torch.eager.op.meta.infer(OPS["mul"], (a, b))[0].strides or found.is_contiguous()


def test_a_long_formula_runs_in_blocks_and_on_several_threads():
    x = torch.linspace(-4, 4, 100_003)
    wanted = 1 / (1 + np.exp(-x.numpy().astype(np.float64)))
    for _ in range(2):
        assert np.allclose(torch.sigmoid(x).numpy(), wanted, atol=1e-6)


def test_in_place_counts_versions_and_refuses_overlap():
    x = torch.zeros(4)
    x += 1
    x.mul_(3.0)
    assert x.tolist() == [3] * 4 and x._version == 2
    whole = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        whole[1:].add_(whole[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ones(1).expand(3).add_(1)
    whole[::2] += 1
    assert whole.tolist() == [1, 1, 3, 3, 5, 5]


def test_the_default_type_changes_plans():
    x = torch.tensor([1, 2])
    assert all((x / 2).dtype is torch.float32 for _ in range(2))
    torch.set_default_dtype(torch.float64)
    try:
        assert all((x / 2).dtype is torch.float64 for _ in range(2))
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x / 2).dtype is torch.float32


def test_numbers_out_of_range_take_the_python_path():
    x = torch.tensor([1, 2], dtype=torch.uint8)
    for _ in range(2):
        assert (x + 1).tolist() == [2, 3] and (x + 255).tolist() == [0, 1]
    y = torch.ones(2)
    assert (y * 1e300).tolist() == [float("inf")] * 2 and (y + 2**60).tolist() == [2.0**60] * 2


def test_views_share_memory_and_history():
    x = torch.arange(24.0).reshape(2, 3, 4)
    for view in (x[1], x[:, 1:], x[..., ::2], x.transpose(0, 2), x[None, 0, :, -1], x.unbind(1)[2]):
        assert view._base is not None and view.untyped_storage() is x.untyped_storage()
    x[0, 1].fill_(7)
    assert x.view(-1)[4:8].tolist() == [7] * 4
    w = torch.ones(6, requires_grad=True)
    a, b, c = (w * 1).chunk(3)
    (a * 2 + c).sum().backward()
    assert w.grad.tolist() == [2, 2, 0, 0, 1, 1]


def test_pieces_add_into_one_gradient():
    w = torch.zeros(4, 3, requires_grad=True)
    y = w * 1
    loss = sum((y[t] * (t + 1)).sum() for t in range(4)) + y[1:3].sum() + y.sum()
    loss.backward()
    assert w.grad[:, 0].tolist() == [2, 4, 5, 5]
    (g,) = torch.autograd.grad(sum((y[t] ** 3).sum() for t in range(4)), w, create_graph=True)
    assert g.requires_grad


def test_a_gradient_that_others_hold_is_not_written():
    w, seen = torch.ones(3, requires_grad=True), []
    y = w * 2
    y.register_hook(seen.append)
    (y.sum() + y[:2].sum()).backward()
    kept = seen[0].clone()
    w.grad.add_(100)
    assert seen[0].tolist() == kept.tolist() == [2, 2, 1]


def test_errors_are_those_of_the_python_path():
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        torch.ones(3) + torch.ones(4)
    with pytest.raises(IndexError, match="out of bounds"):
        torch.ones(3)[3]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        torch.ones(3)[::-1]
    with pytest.raises(IndexError, match="too many indices"):
        torch.ones(3)[0, 0]
    with pytest.raises(RuntimeError, match="second time"):
        x = torch.ones(2, requires_grad=True)
        y = (x * x).sum()
        y.backward()
        y.backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x = torch.ones(2, requires_grad=True) * 1
        y = x * x
        x.add_(1)
        y.sum().backward()


def test_memory_is_freed_without_the_collector():
    gc.disable()
    try:
        x = torch.ones(3, requires_grad=True)
        y = torch.sigmoid(x * 2)[1:]
        watched = [weakref.ref(t) for t in (y, y.grad_fn)]
        del y
        assert [r() for r in watched] == [None, None]
    finally:
        gc.enable()


def test_public_functions_survive_copies():
    for f in (torch.chunk, torch.exp, torch.Tensor.view):
        assert copy.deepcopy(f) is f
    assert pickle.loads(pickle.dumps(torch.chunk)) is torch.chunk


def test_formulas_that_branch_have_no_program():
    op = OPS["softplus"]
    plan = ufunc_program.program_of(op, (torch.ones(2), 1.0, 20.0))
    assert plan is None or plan[-2] == dtypes.ALL.index(torch.float32)
    assert ufunc_program.program_of(OPS["round_decimals"], (torch.ones(2), 100.0, False)) is None


class Labelled(torch.Tensor):
    pass


class Logged(torch.Tensor):
    names: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_keep_their_class():
    t = torch.ones(2, requires_grad=True).as_subclass(Labelled)
    for made in (t + 1, torch.ones(2) * t, t[0], t.view(2, 1), t.sum(), t.detach(), t @ t):
        assert type(made) is Labelled
    assert type(torch.Tensor._make_subclass(Labelled, torch.ones(2))) is Labelled
    assert type(torch.nn.Parameter(torch.ones(1)) + 1) is torch.Tensor
    (t * 3).sum().backward()


def test_torch_function_is_asked():
    made = (torch.ones(3).as_subclass(Logged) + 1) * 2
    assert type(made) is Logged and {"add", "mul"} <= set(Logged.names) and made.tolist() == [4] * 3

    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented if func is torch.mul else func, types

    assert torch.add(torch.ones(1), Foreign()) == (torch.add, (Foreign,))
