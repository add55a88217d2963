"""Losses that one native call makes, and the kernels of their gradients, each against the formula behind the record."""

import contextlib
import itertools

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager.ops import distances, losses, margins

from .without_kernels import without_kernels

REDUCTIONS = ("mean", "sum", "none")


def values(*shape, dtype="float32", seed=0):
    return fb.tensor(np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 3).to(getattr(fb, dtype))


def places(low, high, *shape, seed=1):
    return fb.tensor(np.random.default_rng(seed + sum(shape)).integers(low, high, shape))


def told(function, *args, **kw):
    try:
        return function(*args, **kw)
    except Exception as error:
        return type(error), str(error)


def near(a, b, context, tolerance=2e-5):
    assert a.dtype is b.dtype and a.shape == b.shape, context
    a, b = (x.detach().to(fb.float64).numpy() for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=str(context))


RECORDS = (
    losses.nll_loss,
    losses.cross_entropy,
    losses.loss_slope,
    losses.nll_loss_backward,
    losses.cross_entropy_backward,
    losses.huber_loss,
    losses.smooth_l1_loss,
    losses.soft_margin_loss,
    losses.binary_cross_entropy,
    losses.binary_cross_entropy_with_logits,
    margins.multi_margin_loss,
    margins.multi_margin_loss_backward,
    margins.multilabel_margin_loss,
    margins.multilabel_margin_loss_backward,
    margins.multilabel_margin_rows,
    margins.multilabel_margin_rows_backward,
    distances.row_distance,
    distances.row_distance_backward,
    distances.cosine_similarity,
    distances.cosine_similarity_backward,
)


def formulas():
    """The records without their kernels."""
    return without_kernels(RECORDS)


def alike(function, args, kw, tracked=(0,), tolerance=2e-5):
    """Values, and gradients of first and second order, with the native calls and without any."""
    found = []
    for call in (function, function.__wrapped__):
        leaves = [x.detach().clone().requires_grad_() if k in tracked else x for k, x in enumerate(args)]
        with formulas() if call is not function else contextlib.nullcontext():
            found.append(derived(call, leaves, kw, tracked))
    a, b = found
    if isinstance(b[0], type):
        assert a == b, (args, kw)
        return
    for x, y in zip(a, b, strict=True):
        near(x, y, (function.__name__, args, kw), tolerance)


def derived(function, leaves, kw, tracked):
    loss = told(function, *leaves, **kw)
    if isinstance(loss, tuple):
        return loss
    seed = fb.ones_like(loss) * fb.arange(1.0, loss.numel() + 1).reshape(loss.shape).to(loss.dtype)
    wanted = [leaves[k] for k in tracked]
    grads = fb.autograd.grad(loss, wanted, seed, create_graph=True)
    moving = [g for g in grads if g.requires_grad]
    seconds = (
        fb.autograd.grad([(g * g).sum() for g in moving], wanted, allow_unused=True, materialize_grads=True) if moving else ()
    )
    return [loss, *grads, *seconds]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_classes(reduction, dtype):
    tolerance = {"float16": 5e-3, "bfloat16": 4e-2}.get(dtype, 2e-5)
    for rows, classes in ((1, 1), (7, 5), (20, 11)):
        x, t = values(rows, classes, dtype=dtype), places(0, classes, rows)
        for more in ({}, {"ignore_index": 0}, {"ignore_index": 3}):
            alike(F.nll_loss, (x, t), dict(more, reduction=reduction), tolerance=tolerance)
            for part in (0.0, 0.1, 1.0):
                alike(F.cross_entropy, (x, t), dict(more, reduction=reduction, label_smoothing=part), tolerance=tolerance)
        weight = values(classes, dtype=dtype).abs()
        alike(F.nll_loss, (x, t, weight), dict(reduction=reduction), tolerance=tolerance)
        alike(F.cross_entropy, (x, t, weight), dict(reduction=reduction, label_smoothing=0.2), tolerance=tolerance)
    for wrong in (5, -1):
        for f in (F.nll_loss, F.cross_entropy):
            a, b = (told(g, values(3, 5, dtype=dtype).requires_grad_(), fb.tensor([0, wrong, 1])) for g in (f, f.__wrapped__))
            assert isinstance(b, tuple) and a == b
    assert fb.isnan(F.nll_loss(values(2, 3).requires_grad_(), fb.tensor([1, 1]), ignore_index=1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(reduction):
    odd = fb.tensor([[float("nan"), 1.0, float("inf"), 2.0], [1.0, float("inf"), float("-inf"), float("inf")]])
    for x in (
        values(1, 1),
        values(6, 5),
        values(20, 9),
        odd,
        values(4, 3, dtype="float64"),
        values(0, 3),
        values(4),
        values(3, 40),
        values(2, 70, dtype="float64"),
        values(5, 6).t(),
    ):
        classes = x.shape[-1]
        t = places(0, classes, *x.shape[:-1])
        for p, margin in itertools.product((1, 2), (1.0, 0.3, -0.5, 2)):
            alike(F.multi_margin_loss, (x, t), dict(p=p, margin=margin, reduction=reduction))
        alike(F.multi_margin_loss, (x, t), dict(weight=fb.ones(classes, dtype=x.dtype), reduction=reduction))
        for low in (0, -1):
            alike(F.multilabel_margin_loss, (x, places(low, classes, *x.shape)), dict(reduction=reduction))
        alike(F.multilabel_margin_loss, (x, places(0, 1, *x.shape) - 1), dict(reduction=reduction))
    for f, wrong in ((F.multi_margin_loss, fb.tensor([3, 0])), (F.multilabel_margin_loss, fb.tensor([[3, 0, 0], [0, 0, -1]]))):
        a, b = (told(g, values(2, 3).requires_grad_(), wrong) for g in (f, f.__wrapped__))
        assert isinstance(b, tuple) and a == b


def by_label(x, target, g):
    """Losses of rows and the gradient of the scores, one pair after the other."""
    losses, slopes = np.zeros(len(x), x.dtype), np.zeros_like(x)
    for row, labels in enumerate(target):
        labels = [n for n in labels[: np.argmax(np.append(labels, -1) < 0)] if n < x.shape[1]]
        others = [n for n in range(x.shape[1]) if n not in labels]
        for label in labels:
            gaps = 1 - x[row, label] + x[row, others]
            losses[row] += gaps[gaps > 0].sum() / x.shape[1]
            slopes[row, others] += gaps > 0
            slopes[row, label] -= (gaps > 0).sum()
    return losses, slopes * (g / x.shape[1]).astype(x.dtype)[:, None]


@pytest.mark.parametrize("classes", [1, 7, 16, 17, 100, 1500])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_labels_of_rows(dtype, classes):
    """Repeated labels count each time, those behind the first negative one and those that are no classes not at all."""
    x, g = values(5, classes, dtype=dtype).numpy(), np.array([1, -2, np.inf, np.nan, 0], dtype)
    x[1, ::3], x[2, ::4], x[3, 0] = np.nan, np.inf, -np.inf
    target = places(0, classes, 5, classes).numpy()
    target[:4, min(9, classes) :], target[1, 1:2], target[2, classes // 3 :] = -1, target[1, 0], -7
    target[3, :1], target[4, classes // 2 :] = classes + 2, 1 << 40
    with np.errstate(invalid="ignore"):
        losses, slopes = by_label(x, target, g)
    args = (fb.tensor(x), fb.tensor(target))
    near(margins.multilabel_margin_rows(*args), fb.tensor(losses), classes)
    near(margins.multilabel_margin_rows_backward(fb.tensor(g), *args), fb.tensor(slopes), classes)
    with formulas():
        near(margins.multilabel_margin_rows(*args), fb.tensor(losses), classes)
        near(margins.multilabel_margin_rows_backward(fb.tensor(g), *args), fb.tensor(slopes), classes)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_pairs(reduction):
    special = fb.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 40.0, -40.0, 200.0, -200.0, 1e-30])
    for x, y in (
        (values(7), values(7, seed=3)),
        (values(3, 5), values(3, 5, seed=3)),
        (special, special.flip(0)),
        (values(), values()),
        (values(4, dtype="float64"), values(4, dtype="float64", seed=3)),
        (values(4, 3).t(), values(3, 4)),
        (values(0), values(0)),
    ):
        kw = dict(reduction=reduction)
        for tracked in ((0,), (1,), (0, 1)):
            for bound in (1.0, 0.3, 2):
                alike(F.huber_loss, (x, y), dict(kw, delta=bound), tracked)
                alike(F.smooth_l1_loss, (x, y), dict(kw, beta=bound), tracked)
            alike(F.smooth_l1_loss, (x, y), dict(kw, beta=0), tracked)
            alike(F.soft_margin_loss, (x, y), kw, tracked)
            alike(F.binary_cross_entropy_with_logits, (x, y), kw, tracked)
            alike(F.binary_cross_entropy, (x.sigmoid(), y.sigmoid()), kw, tracked, 1e-3)
        alike(F.binary_cross_entropy_with_logits, (x, y, y.abs()), kw)
        alike(F.binary_cross_entropy_with_logits, (x, y), dict(kw, pos_weight=fb.tensor(2.0, dtype=x.dtype)))
    alike(F.binary_cross_entropy, (fb.tensor([0.0, 1.0, 0.5]), fb.tensor([0.0, 1.0, 1.0])), dict(reduction=reduction))
    alike(F.soft_margin_loss, (values(4, 3), values(3)), dict(reduction=reduction), (0, 1))
    alike(F.soft_margin_loss, (values(5), places(0, 2, 5) * 2 - 1), dict(reduction=reduction))
    for f in (F.huber_loss, F.smooth_l1_loss, F.binary_cross_entropy):
        a, b = (told(g, values(3), values(3, seed=9), reduction="other") for g in (f, f.__wrapped__))
        assert isinstance(b, tuple) and a == b


def test_rows_side_by_side():
    same = values(3, 4)
    zero = values(3, 4) * fb.tensor([[0.0], [1.0], [1e-9]])
    for x, y in (
        (values(5, 7), values(5, 7, seed=2)),
        (values(2, 3, 20), values(2, 3, 20, seed=2)),
        (values(9), values(9, seed=2)),
        (values(4, 1), values(4, 1, seed=2)),
        (same, same),
        (zero, values(3, 4, seed=2)),
        (values(4, 5), values(5)),
        (values(3, 4, dtype="float64"), values(3, 4, dtype="float64", seed=2)),
        (values(4, 3).t(), values(3, 4)),
        (values(3, 4, dtype="float16"), values(3, 4, dtype="float16", seed=2)),
        (values(3, 4) * 1e20, values(3, 4)),
    ):
        tolerance = 5e-3 if x.dtype is fb.float16 else 1e-4
        for tracked in ((0,), (1,), (0, 1)):
            for kw in ({}, {"p": 2, "eps": 0.1}, {"p": 1}, {"keepdim": True}):
                alike(F.pairwise_distance, (x, y), kw, tracked, tolerance)
            for kw in ({"dim": -1}, {"dim": 0}, {"dim": -1, "eps": 2.0}, {"dim": 7}):
                alike(F.cosine_similarity, (x, y), kw, tracked, tolerance)
    for kw in ({}, {"swap": True}, {"reduction": "none"}, {"reduction": "sum", "margin": 0.2}, {"p": 1}):
        alike(F.triplet_margin_loss, (values(5, 7), values(5, 7, seed=2), values(5, 7, seed=4)), kw, (0, 1, 2), 1e-4)


def test_values_that_are_nan_stay_so():
    x, y = fb.tensor([float("nan"), 1.0, float("inf")], requires_grad=True), fb.tensor([1.0, float("nan"), 0.5])
    for f in (F.huber_loss, F.smooth_l1_loss, F.soft_margin_loss, F.binary_cross_entropy_with_logits):
        loss = f(x, y, reduction="none")
        (grad,) = fb.autograd.grad(loss.sum(), x)
        assert loss[:2].isnan().all() and grad[:2].isnan().all(), f.__name__


def test_the_slope_of_a_distance_is_zero_at_nan():
    """Of a gradient in memory of its own, which the kernel takes, and of an expanded one, which the formula does."""
    x, y = fb.tensor([float("nan"), 1.0, float("inf")], requires_grad=True), fb.tensor([1.0, float("nan"), 0.5])
    for g in (fb.ones(3), fb.ones(1).expand(3)):
        (grad,) = fb.autograd.grad(F.smooth_l1_loss(x, y, reduction="none", beta=0.0), x, g)
        assert grad.tolist() == [0, 0, 1]


def test_what_was_saved_may_not_be_written():
    x, t = values(4, 3).requires_grad_(), fb.tensor([0, 1, 2, 1])
    y = x * 1
    for f, other in ((F.multi_margin_loss, t), (F.cross_entropy, t), (F.huber_loss, values(4, 3, seed=5))):
        y = x * 1
        loss = f(y, other)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
