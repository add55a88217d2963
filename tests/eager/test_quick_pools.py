"""Pooling that one native call makes and records: values and gradients of both orders against the path behind it and the
formulas of the records."""

import itertools

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager.ops import pooling

from .without_kernels import without_kernels

RECORDS = (pooling.max_pool, pooling.max_pool_backward, pooling.avg_pool, pooling.avg_pool_backward)


def plain():
    """The records' gradients without native kernels."""
    return without_kernels(RECORDS[1::2], "native")


def told(function, x, args, kw):
    x = x.detach().clone(memory_format=fb.preserve_format).requires_grad_()
    try:
        found = function(x, *args, **kw)
    except Exception as error:
        return type(error), str(error)
    values = found[0] if isinstance(found, tuple) else found
    seed = (fb.arange(1.0, values.numel() + 1) / max(values.numel(), 1)).reshape(values.shape).to(values.dtype)
    (grad,) = fb.autograd.grad((values * values * seed).sum(), x, create_graph=True)
    (second,) = fb.autograd.grad((grad * grad).sum(), x)
    return [*(found if isinstance(found, tuple) else (found,)), grad, second]


def alike(function, x, *args, **kw):
    found = told(function, x, args, kw)
    with plain():
        wanted = told(function.__wrapped__, x, args, kw)
    if isinstance(wanted, tuple):
        assert found == wanted
        return
    near = 5e-2 if x.dtype is fb.bfloat16 else 1e-2 if x.dtype is fb.float16 else 1e-5
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape, (args, kw)
        a, b = (t.detach().to(fb.float64).numpy() for t in (a, b))
        np.testing.assert_allclose(
            a, b, rtol=near, atol=near * max(1, np.abs(b[np.isfinite(b)]).max(initial=0)), err_msg=str((args, kw))
        )


def values(dtype, *shape):
    return fb.tensor(np.random.default_rng(sum(shape)).standard_normal(shape)).to(getattr(fb, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_windows(n, dtype):
    for lead in ((2,), (2, 3)):
        x = values(dtype, *lead, *(7, 6, 5)[:n])
        for kernel, stride, padding, ceil in itertools.product((2, 3), (None, 1, 2), (0, 1), (False, True)):
            for dilation in (1, 2):
                alike(getattr(F, f"max_pool{n}d"), x, kernel, stride, padding, dilation, ceil)
            alike(getattr(F, f"max_pool{n}d"), x, kernel, stride, padding, return_indices=True)
            for padded in (True, False):
                alike(getattr(F, f"avg_pool{n}d"), x, kernel, stride, padding, ceil, padded)
        alike(getattr(F, f"max_pool{n}d"), x, (2, 1, 3)[:n], (1, 2, 1)[:n])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_windows(n):
    for lead in ((2,), (2, 3)):
        x = values("float32", *lead, *(6, 4, 8)[:n])
        for sizes in (1, 2, 3, (3, 2, 4)[:n], (6, 4, 8)[:n], None):
            for name in ("avg", "max"):
                alike(getattr(F, f"adaptive_{name}_pool{n}d"), x, sizes)
            alike(getattr(F, f"adaptive_max_pool{n}d"), x, sizes, True)


def test_odd_numbers_and_memory():
    lowest = fb.full((1, 1, 4, 4), float("-inf"))
    mixed = lowest.clone()
    mixed[0, 0, 1, 1] = 1.0
    for x in (
        lowest,
        mixed,
        fb.full((1, 1, 4, 4), float("nan")),
        fb.zeros(1, 1, 4, 4),
        values("float32", 1, 2, 0, 4),
        values("float32", 2, 3, 6, 6).to(memory_format=fb.channels_last),
        values("float32", 2, 3, 6, 6).transpose(2, 3),
    ):
        alike(F.max_pool2d, x, 2)
        alike(F.max_pool2d, x, 3, 2, 1)
        alike(F.avg_pool2d, x, 2)
    alike(F.max_pool2d, values("float32", 2, 3, 6, 6), 0)
    alike(F.max_pool2d, values("float32", 2, 3, 6, 6), 3, 1, 2)
    x = values("float32", 2, 3, 6, 6).requires_grad_()
    y = F.max_pool2d(input=x, kernel_size=2)
    assert y.requires_grad and F.max_pool2d(x, 2).grad_fn.name() == y.grad_fn.name()
