"""Rows looked up, and bags of them, that one native call makes: against the formulas behind the records."""

import itertools

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager.ops import embedding_bag, indexing

from .without_kernels import without_kernels

RECORDS = (
    embedding_bag.bag_sum,
    embedding_bag.bag_sum_backward,
    embedding_bag.bag_max,
    embedding_bag.bag_max_backward,
    indexing.embedding,
)


def formulas():
    """The records without their kernels."""
    return without_kernels(RECORDS)


def told(function, index, weight, more, kw, tracked):
    """The rows and the gradients of first and second order, or what was raised."""
    weight = weight.detach().clone().requires_grad_(tracked)
    more = tuple(x.detach().clone().requires_grad_(tracked) if fb.is_tensor(x) and x.is_floating_point() else x for x in more)
    try:
        out = function(index, weight, *more, **kw)
    except Exception as error:
        return type(error), str(error)
    if not tracked:
        return [out]
    seed = fb.arange(1.0, out.numel() + 1, dtype=out.dtype).reshape(out.shape)
    (grad,) = fb.autograd.grad((out * out * seed).sum(), weight, create_graph=True)
    (second,) = fb.autograd.grad((grad * grad).sum(), weight)
    return [out, grad, second]


def alike(function, index, weight, *more, **kw):
    for tracked in (False, True):
        found = told(function, index, weight, more, kw, tracked)
        with formulas():
            wanted = told(function.__wrapped__, index, weight, more, kw, tracked)
        if isinstance(wanted, tuple):
            assert found == wanted
            continue
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-4, err_msg=str((index, more, kw))
            )


def places(high, *shape):
    return fb.tensor(np.random.default_rng(sum(shape)).integers(0, high, shape))


WEIGHTS = {
    "plain": lambda: fb.randn(7, 3),
    "equal": lambda: fb.ones(7, 3),
    "strided": lambda: fb.randn(3, 7).t(),
    "double": lambda: fb.randn(7, 3, dtype=fb.float64),
    "odd": lambda: fb.tensor([[float("inf"), -1.0], [-float("inf"), 2.0]] * 4),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode, kind):
    fb.manual_seed(0)
    w = WEIGHTS[kind]()
    for padding in (None, 2, -1):
        for index in (places(7, 4, 5), places(7, 1, 1), places(7, 6, 4).t(), places(7, 4, 5).int()):
            alike(F.embedding_bag, index, w, mode=mode, padding_idx=padding)
        index = places(7, 9)
        for starts, last in itertools.product(([0, 2, 5], [0, 0, 4, 9], [0], [0, 9]), (False, True)):
            alike(F.embedding_bag, index, w, fb.tensor(starts), mode=mode, include_last_offset=last, padding_idx=padding)
    alike(F.embedding_bag, fb.zeros(0, dtype=fb.int64), w, fb.tensor([0, 0]), mode=mode)
    alike(F.embedding_bag, fb.full((2, 3), 2), w, mode=mode, padding_idx=2)
    if kind == "plain":
        alike(F.embedding_bag, places(7, 4, 5), w, mode=mode, per_sample_weights=fb.randn(4, 5))


def test_what_is_refused():
    w = fb.randn(7, 3)
    for mode in ("sum", "mean", "max", "other"):
        for index in (fb.tensor([[0, 7]]), fb.tensor([[-1, 0]])):
            for tracked in (False, True):
                a, b = (told(f, index, w, (), dict(mode=mode), tracked) for f in (F.embedding_bag, F.embedding_bag.__wrapped__))
                assert isinstance(b, tuple) and a == b
    for f in (F.embedding_bag, F.embedding_bag.__wrapped__):
        assert told(f, places(7, 4, 5), w, (fb.tensor([0]),), {}, False)[0] is ValueError
        assert told(f, places(7, 4), w, (), {}, False)[0] is ValueError


def test_rows():
    w = fb.randn(7, 3)
    for index in (places(7, 5), places(7, 2, 3), places(7, 4, 3).t(), fb.tensor(3), fb.tensor([7]), fb.tensor([-1])):
        for kw in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}):
            alike(F.embedding, index, w, **kw)
    assert F.embedding(places(7, 5), w.half().requires_grad_()).grad_fn.name() == "EmbeddingBackward0"


def test_a_table_that_was_written_is_no_matter():
    """The gradient of a bag needs the indices alone."""
    index, w = places(7, 2, 3), fb.randn(7, 3, requires_grad=True)
    for mode in ("sum", "max"):
        out = F.embedding_bag(index, w, mode=mode)
        with fb.no_grad():
            w.add_(1)
        out.sum().backward()
    out = F.embedding_bag(index, w)
    index.add_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("width", (1, 7, 32, 37, 64, 133, 300))
@pytest.mark.parametrize("dtype", (fb.float32, fb.float64, fb.bfloat16))
def test_wide_bags_in_the_runtime_s_kernel(width, dtype):
    """Rows of whole groups of registers, of single ones and of what is left; empty bags, a row that is left out, weights."""
    rng = np.random.default_rng(width)
    weight = fb.from_numpy(rng.standard_normal((50, width))).to(dtype)
    rows, index = weight.double().numpy(), rng.integers(0, 50, 40 * max(300, 30000 // width))
    first = np.sort(np.concatenate([[0, 0], rng.integers(0, len(index), 298)]))
    share = fb.from_numpy(rng.standard_normal(len(index))).to(dtype)
    bag = np.searchsorted(first, np.arange(len(index)), side="right") - 1
    for mode, padding, weights in (("sum", None, None), ("mean", None, None), ("mean", 3, None), ("sum", 3, share)):
        found = F.embedding_bag(
            fb.from_numpy(index), weight, fb.from_numpy(first), mode=mode, padding_idx=padding, per_sample_weights=weights
        )
        kept = index != padding
        each = rows[index[kept]] * (1 if weights is None else weights.double().numpy()[kept, None])
        wanted = np.zeros((len(first), width))
        np.add.at(wanted, bag[kept], each)
        counts = np.maximum(np.bincount(bag[kept], minlength=len(first)), 1)[:, None]
        tolerance = {fb.float32: 1e-4, fb.float64: 1e-12, fb.bfloat16: 2e-2}[dtype]
        wanted = wanted / counts if mode == "mean" else wanted
        np.testing.assert_allclose(found.double().numpy(), wanted, rtol=tolerance, atol=tolerance * 20)
