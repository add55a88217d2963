"""Public functions with a native path for small tensors: the same bits, gradients and errors as the records behind them."""

import numpy as np
import pytest

import flambeau as fb
from flambeau.eager.ops import reduce as records

SHAPES = [(), (1,), (7,), (8,), (129,), (1000,), (3, 17), (17, 3), (130, 4), (4, 5, 6), (2, 130, 3), (3, 1)]


def values(shape, dtype="float32"):
    return fb.tensor((np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape) * 10).astype(dtype))


def dims_of(shape):
    return [None, *range(len(shape)), *([(0, 1), (1, 2)] if len(shape) == 3 else [])]


def canonical(dim, rank):
    return tuple(range(rank)) if dim is None else (dim,) if isinstance(dim, int) else dim


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_bits_are_those_of_the_record(name, dtype):
    if name == "mean" and dtype == "int64":
        pytest.skip("means are of floating types")
    for shape in SHAPES:
        for dim in dims_of(shape):
            x = values(shape, dtype)
            public = (
                getattr(fb, name)(x)
                if dim is None and name in ("sum", "mean")
                else getattr(fb, name)(x, () if dim is None else dim)
            )
            assert np.array_equal(public.numpy(), getattr(records, name)(x, canonical(dim, len(shape)), False).numpy())


def test_nan_wins_and_its_first_place_is_told():
    x = fb.tensor([[1.0, float("nan"), 3.0], [4.0, 5.0, float("nan")]])
    found = x.max(1)
    assert np.isnan(found.values.numpy()).all() and found.indices.tolist() == [1, 2]
    assert x.argmin(-1).tolist() == [1, 2] and np.isnan(x.max().item()) and np.isnan(x.min().item())
    assert fb.tensor([2.0, 5.0, 5.0]).argmax().item() == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(),
        lambda x: x.sum(1),
        lambda x: x.mean(dim=0, keepdim=True),
        lambda x: x.amax(1),
        lambda x: x.max(),
        lambda x: fb.softmax(x, -1),
        lambda x: x.log_softmax(dim=1),
        lambda x: fb.cat([x, x * 2], 1),
        lambda x: fb.stack((x, x)),
    ],
)
def test_gradients_are_those_of_differences(call):
    fb.manual_seed(0)
    x = fb.randn(3, 4, dtype=fb.float64).requires_grad_()
    assert fb.autograd.gradcheck(call, (x,)) and fb.autograd.gradgradcheck(call, (x,))
    assert not call(x.detach()).requires_grad
    with fb.no_grad():
        assert not call(x).requires_grad


def test_writes_move_the_version_and_are_seen_through_views():
    base = fb.zeros(4)
    base[1:3].fill_(3.0)
    assert base.tolist() == [0, 3, 3, 0] and base._version == 1
    base.copy_(fb.ones(4)).zero_()
    assert base.tolist() == [0] * 4 and base._version == 3


def test_writes_are_refused_as_elsewhere():
    leaf = fb.ones(3, requires_grad=True)
    for write in (lambda: leaf.zero_(), lambda: leaf.fill_(1.0), lambda: leaf.copy_(fb.ones(3))):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write()
    saved = leaf.exp()
    with fb.no_grad():
        saved.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


def test_recorded_fills_cut_the_history():
    x = fb.ones(3, requires_grad=True)
    y = x * 2
    y.fill_(5.0)
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_factories_follow_the_defaults():
    assert fb.zeros(2, 3).dtype is fb.float32 and fb.full((2,), 3).dtype is fb.int64 and fb.full((), True).dtype is fb.bool
    fb.set_default_dtype(fb.float64)
    try:
        assert fb.ones((2,)).dtype is fb.float64 and fb.full((2,), 1.5).dtype is fb.float64
    finally:
        fb.set_default_dtype(fb.float32)
    with fb.device("meta"):
        assert fb.zeros(2).is_meta
    assert fb.zeros(2, device="meta").is_meta and fb.zeros_like(fb.zeros(2, device="meta")).is_meta
    assert fb.ones(2, requires_grad=True).requires_grad and fb.zeros(2, 0).shape == (2, 0)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: fb.zeros(2, 3).sum(2), IndexError),
        (lambda: fb.zeros(2).sum(unknown=1), TypeError),
        (lambda: fb.arange(3).mean(), RuntimeError),
        (lambda: fb.zeros(0).max(), RuntimeError),
        (lambda: fb.cat([fb.zeros(2, 3), fb.zeros(2, 2)]), RuntimeError),
        (lambda: fb.stack([fb.zeros(2), fb.zeros(3)]), RuntimeError),
        (lambda: fb.zeros(-1), RuntimeError),
        (lambda: fb.zeros(2).copy_(fb.zeros(3)), RuntimeError),
    ],
)
def test_errors_are_those_of_the_general_path(call, error):
    with pytest.raises(error):
        call()


def test_rows_at_an_index_tensor():
    x, index = values((5, 3)), fb.tensor([[0, -1], [4, 2]])
    found = x[index]
    assert np.array_equal(found.numpy(), x.numpy()[index.numpy()]) and found.shape == (2, 2, 3)
    found.zero_()
    assert x[index].numpy().any() and not found.numpy().any()  # a copy
    assert x[fb.tensor([], dtype=fb.int64)].shape == (0, 3)
    for bad in (5, -6):
        with pytest.raises(IndexError, match="out of bounds"):
            x[fb.tensor([0, bad])]
    leaf = fb.ones(4, requires_grad=True)
    leaf[fb.tensor([1, 1])].sum().backward()
    assert leaf.grad.tolist() == [0, 2, 0, 0]
