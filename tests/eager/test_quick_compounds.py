"""Functions of several steps that run as one native call: each against the Python path behind it, which tracked, strided and
unusual calls go."""

import itertools

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager import _call
from flambeau.eager.ops import fractional_max_pool, indexing, padding, im2col
from flambeau.runtime import kernels as jobs

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
FLOATS = TYPES[:4]


def values(dtype, *shape, seed=0):
    x = np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 6
    return fb.tensor(x > 0) if dtype == "bool" else fb.tensor(np.abs(x) if dtype == "uint8" else x).to(getattr(fb, dtype))


def places(high, *shape, seed=1):
    return fb.tensor(np.random.default_rng(seed + sum(shape)).integers(0, high, shape))


def told(function, args, kw):
    """The result, or what was raised."""
    try:
        return function(*args, **kw)
    except Exception as error:
        return type(error), str(error)


def alike(function, *args, exact=True, tolerance=1e-6, **kw):
    """The public function gives or raises what the one behind it does."""
    found, wanted = told(function, args, kw), told(function.__wrapped__, args, kw)
    if not isinstance(wanted, fb.Tensor) and not (isinstance(wanted, tuple) and isinstance(wanted[0], fb.Tensor)):
        assert found == wanted, (args, kw)
        return
    pairs = [(found, wanted)] if isinstance(wanted, fb.Tensor) else list(zip(found, wanted, strict=True))
    assert type(found) is type(wanted)
    for a, b in pairs:
        assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride(), (args, kw, a.shape, b.shape)
        a, b = (x.detach().to(fb.float64).numpy() if x.dtype is fb.bfloat16 else x.detach().numpy() for x in (a, b))
        if exact or a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b, err_msg=str((args, kw)))
        else:
            small = dict(rtol=1e-3, atol=1e-3) if a.dtype == np.float16 else dict(rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(a, b, **small, err_msg=str((args, kw)))


def forms(x):
    """The same numbers strided, expanded and with a history."""
    yield x
    yield x.repeat_interleave(2, -1)[..., ::2] if x.ndim else x
    if x.ndim > 1:
        yield x.transpose(0, -1).contiguous().transpose(0, -1)
        yield x[:1].expand(*x.shape)
    if x.is_floating_point():
        yield x.clone().requires_grad_()


# -- elements put elsewhere


@pytest.mark.parametrize("dtype", TYPES)
def test_triangles(dtype):
    for shape in ((1, 1), (5, 7), (7, 5), (2, 3, 4), (0, 3), (3, 0), (2, 2, 3, 3)):
        for x in forms(values(dtype, *shape)):
            for k in (0, 1, -1, 3, -9, 100):
                alike(fb.tril, x, k)
                alike(fb.triu, x, diagonal=k)
    alike(fb.tril, values(dtype, 3))
    alike(fb.tril, values(dtype, 3, 3), 1.5)


@pytest.mark.parametrize("dtype", TYPES)
def test_flips_and_diagonals(dtype):
    for shape in ((1,), (9,), (5, 7), (2, 3, 4), (4, 1, 3), (0, 3), ()):
        for x in forms(values(dtype, *shape)):
            for dims in itertools.chain(((d,) for d in range(-len(shape), len(shape))), [(0, -1), (0, 0), (5,), ()]):
                alike(fb.flip, x, dims)
            alike(fb.flip, x, 0)
            alike(fb.diag_embed, x)
            alike(fb.diag_embed, x, 1)
            alike(fb.diag, x)
            alike(fb.diag, x, -1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions(n, dtype):
    plain, turned = getattr(F, f"conv{n}d"), getattr(F, f"conv_transpose{n}d")
    near, sizes, taps = dict(exact=False, tolerance=2e-5), (7, 6, 5)[:n], (3, 2, 1)[:n]
    for channels, made, groups in ((4, 6, 1), (4, 6, 2), (1, 3, 1), (3, 1, 1), (4, 4, 4), (5, 6, 2), (4, 6, 0)):
        w, back = (
            values(dtype, made, max(channels // max(groups, 1), 1), *taps),
            values(dtype, channels, max(made // max(groups, 1), 1), *taps),
        )
        b = values(dtype, made)
        for x in forms(values(dtype, 2, channels, *sizes)):
            for more in (
                (),
                (1,),
                (2, 1),
                ((2,) * n, [1] * n),
                ([2], 0),
                (1, "same"),
                (1, "valid"),
                (1, -1),
                (0,),
                (1, 0, 2),
                (1, 4, 2),
                (1.0,),
            ):
                alike(plain, x, w, b, *more, groups=groups, **near)
            for more in ((), (2,), (2, 1), (3, 1, 2), ((2,) * n, [1] * n, (1,) * n), (2, 1, 2), (1, 9), (2, 0, -1)):
                alike(turned, x, back, b, *more, groups=groups, **near)
                alike(turned, x, back, None, *more, groups=groups, dilation=2, **near)
        x = values(dtype, 2, channels, *sizes)
        alike(plain, x[0], w, b, groups=groups, **near)
        alike(plain, x[:0], w, b, groups=groups, **near)
        alike(plain, x, w, b[:1], groups=groups, **near)
        alike(plain, x, w.double() if dtype != "float64" else w.float(), groups=groups, **near)
        alike(plain, x, w[..., 0], groups=groups, **near)
        alike(plain, x, w.repeat(*(1,) * (n + 1), 9), groups=groups, **near)
    if n == 2:
        x, w = values(dtype, 2, 4, 6, 5).contiguous(memory_format=fb.channels_last), values(dtype, 3, 4, 2, 2)
        alike(plain, x, w, **near)
        alike(plain, x.contiguous(), w.contiguous(memory_format=fb.channels_last), **near)
        alike(plain, values(dtype, 2, 1, 6, 5), values(dtype, 3, 1, 1, 1), **near)
        alike(plain, values(dtype, 1, 1, 1, 5), values(dtype, 1, 1, 1, 2), **near)


@pytest.mark.parametrize("dtype", TYPES)
def test_quarter_turns(dtype):
    for shape in ((5, 7), (1, 3), (3, 1, 2), (2, 3, 4), (0, 3), (4,)):
        for x in forms(values(dtype, *shape)):
            alike(fb.rot90, x)
            for k in (-1, 0, 1, 2, 3, 5):
                for dims in ((0, 1), [1, 0], (-1, 0), (1, -1), (0, 0), (0, 3)):
                    alike(fb.rot90, x, k, dims)


def test_large_outer_products_and_dropout():
    """On one thread, which nothing else could help."""
    threads = fb.get_num_threads()
    fb.set_num_threads(1)
    try:
        for dtype in FLOATS:
            x, y = values(dtype, 300), values(dtype, 250, seed=2)
            x[3], y[5], y[6] = np.nan, np.inf, -0.0
            for equation in ("i,j->ij", "i,j->ji"):
                alike(fb.einsum, equation, x, y)
            alike(fb.einsum, "bi,bj->bij", values(dtype, 3, 200), values(dtype, 3, 150))
            for p in (0.5, 0.25):
                found = []
                for f in (F.dropout2d, F.dropout2d.__wrapped__):
                    fb.manual_seed(2)
                    found.append(f(values(dtype, 4, 8, 33, 31), p).double().numpy().tobytes())
                assert found[0] == found[1]
    finally:
        fb.set_num_threads(threads)


def test_gradients_of_triangles_and_flips():
    x = values("float64", 4, 3).requires_grad_()
    for f in (
        lambda a: fb.tril(a, 1) ** 2,
        lambda a: fb.triu(a) ** 2,
        lambda a: a.flip(0) ** 2,
        lambda a: fb.flip(a, (1, 0)) ** 2,
    ):
        assert fb.autograd.gradcheck(f, (x,)) and fb.autograd.gradgradcheck(f, (x,))


@pytest.mark.parametrize("dtype", TYPES)
def test_shuffles(dtype):
    for shape in ((4, 3, 5), (2, 8, 2, 6), (1, 2, 9, 2, 2), (2, 12, 1, 1), (0, 4, 2, 2)):
        for x in forms(values(dtype, *shape)):
            for k in (1, 2, 3, 4, 0, -1, 12):
                for f in (F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle):
                    alike(f, x, k)


def test_one_hot():
    for k in (places(5, 7), places(5, 2, 3), places(5, 4)[::2], places(5, 0), places(5, 1).expand(3), fb.tensor(3)):
        for n in (5, 7, 3, *((0, -1, -2) if k.numel() else ())):
            alike(F.one_hot, k, n)
    alike(F.one_hot, places(5, 3) - 1, 5)
    alike(F.one_hot, values("float32", 3), 5)
    alike(F.one_hot, places(5, 3).int(), 5)


PADS = [(1, 2), (0, 0), (2, 0), (0, 3), (-1, 2), (1, 2, 3, 1), (0, 0, 1, 1), (2, 2, 0, 0), (1, 1, 1, 1, 1, 1), (7, 1), (1,), ()]


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular", "other"])
def test_padding(mode):
    for dtype in TYPES:
        for shape in ((4,), (2, 4), (2, 4, 5), (1, 3, 4, 5), (1, 1, 3, 4, 4), (0, 3, 4), (2, 0, 4)):
            for x in forms(values(dtype, *shape)) if dtype == "float32" else (values(dtype, *shape),):
                for p in PADS:
                    alike(F.pad, x, p, mode)
    alike(F.pad, values("float32", 3, 4), (1, 1), "constant", 2.5)
    alike(F.pad, values("float32", 3, 4), [1, 1])
    alike(F.pad, values("float32", 3, 4), (1.0, 1))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_kernels_are_the_formulas(mode):
    for shape, pairs in (((2, 4), ((0, 0), (1, 2))), ((3, 4, 5), ((0, 0), (2, 1), (1, 3))), ((3, 4), ((1, 1), (0, 0)))):
        for dtype in ("float32", "float64"):
            x = values(dtype, *shape).numpy()
            wide = padding.pad_edges.kernels["numpy"](x, pairs, mode)
            np.testing.assert_array_equal(_call.pad_edges(x, pairs, mode), wide)
            back = padding.pad_edges_backward.kernels["numpy"](shape, wide, pairs, mode)
            np.testing.assert_allclose(_call.pad_edges_backward(shape, wide, pairs, mode), back, rtol=1e-6, atol=1e-5)
    assert _call.pad_edges(x.T, pairs, mode) is NotImplemented
    y = values("float64", 1, 2, 4, 3).requires_grad_()
    assert fb.autograd.gradcheck(lambda a: F.pad(a, (1, 2, 2, 1), mode) ** 2, (y,))
    assert fb.autograd.gradgradcheck(lambda a: F.pad(a, (1, 2, 2, 1), mode) ** 2, (y,))


def test_window_kernels_are_the_formulas():
    for kernel, stride, pads, dilation in (
        ((3, 3), (1, 1), (0, 0), (1, 1)),
        ((2, 3), (2, 1), (1, 2), (1, 2)),
        ((1, 1), (3, 2), (0, 0), (1, 1)),
        ((3, 2), (2, 3), (2, 1), (2, 1)),
        ((5, 7), (1, 1), (3, 3), (1, 1)),
    ):
        for dtype in ("float32", "float64", "float16", "int64"):
            x = values(dtype, 2, 3, 6, 7).numpy()
            columns = im2col.unfold_windows.kernels["numpy"](x, kernel, stride, pads, dilation)
            np.testing.assert_array_equal(_call.unfold_windows(x, kernel, stride, pads, dilation), columns)
            if dtype in ("float32", "float64"):
                whole = im2col.fold_windows.kernels["numpy"](columns, (6, 7), kernel, stride, pads, dilation)
                np.testing.assert_allclose(
                    _call.fold_windows(columns, (6, 7), kernel, stride, pads, dilation), whole, rtol=1e-5, atol=1e-5
                )
    assert _call.unfold_windows(x.transpose(0, 1, 3, 2), kernel, stride, pads, dilation) is NotImplemented
    assert F.fold(fb.zeros(0, 8, 4), (3, 3), 2).shape == (0, 2, 3, 3)


# -- refusals by value


def test_looks():
    for dtype in (*FLOATS, "int64", "int32", "uint8"):
        x = fb.tensor([0, 1, 1, 0]).to(getattr(fb, dtype))
        assert _call.within(x, 0, 1, None) and _call.within(x, None, 1, None) and _call.within(x, 0, None, None)
        assert not _call.within(x, 1, 1, None) and not _call.within(x, 0, 0, None)
        assert _call.within(x[:0], 5, 5, None) and not _call.within(x[::2][:1].expand(3), 1, 1, None)
    assert not _call.within(fb.tensor([0.5, float("nan")]), 0, 1, None)
    assert not _call.within(fb.tensor([0.5, float("nan")]), None, None, None)
    assert not _call.within(fb.tensor([float("inf")]), 0, 1, None) and _call.within(fb.tensor([float("inf")]), 0, None, None)
    assert _call.within(places(3, 5), 0, 2, None) and _call.within(places(3, 5) + 1, 1, 2, 3)
    assert not _call.within(3, 0, 5, None) and not _call.within(fb.zeros(2, device="meta"), 0, 1, None)


def test_refusals_keep_their_words():
    x = fb.tensor([0.5, 1.5])
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(x, x.clamp(max=1))
    with pytest.raises(ValueError, match="var has negative entry/entries"):
        F.gaussian_nll_loss(x, x, -x)
    assert F.gaussian_nll_loss(x, x, fb.tensor([float("nan"), 1.0])).isnan()
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        F.one_hot(fb.tensor([3]), 3)
    with pytest.raises(RuntimeError):
        fb.vmap(lambda a: F.binary_cross_entropy(a, a.clamp(0, 1)))(x.reshape(2, 1))


# -- pooling


IMAGES = {1: [(2, 3, 9), (3, 6), (1, 1, 1)], 2: [(2, 3, 6, 7), (3, 5, 4), (1, 2, 2, 2)], 3: [(1, 2, 4, 5, 6), (2, 4, 4, 4)]}
WINDOWS = [
    dict(kernel_size=2),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=2, stride=1),
    dict(kernel_size=3, stride=2, ceil_mode=True),
    dict(kernel_size=2, stride=3, padding=1, ceil_mode=True),
    dict(kernel_size=0),
    dict(kernel_size=2, padding=2),
    dict(kernel_size=50),
    dict(kernel_size=2, stride=0),
]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools(n):
    largest, means = getattr(F, f"max_pool{n}d"), getattr(F, f"avg_pool{n}d")
    for shape in IMAGES[n]:
        for dtype in (*FLOATS, "int64"):
            for x in forms(values(dtype, *shape)) if dtype == "float32" else (values(dtype, *shape),):
                for window in WINDOWS:
                    for more in ({}, {"return_indices": True}, {"dilation": 2}):
                        alike(largest, x, **window, **more)
                    for more in ({}, {"count_include_pad": False}, *([{"divisor_override": 3}] if n > 1 else [])):
                        alike(means, x, **window, **more, exact=False, tolerance=4e-2 if dtype == "bfloat16" else 1e-5)
    alike(largest, x.float(), (2,) * n, (1,) * n)
    alike(largest, x.float(), (2,) * (n + 1))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_pools(n):
    largest, means = getattr(F, f"adaptive_max_pool{n}d"), getattr(F, f"adaptive_avg_pool{n}d")
    for shape in IMAGES[n]:
        for dtype in FLOATS:
            for x in forms(values(dtype, *shape)) if dtype == "float32" else (values(dtype, *shape),):
                for sizes in (1, 2, 3, (2,) * n, (None,) * n, 0, -1, 9, (1, 2, 3)[:n]):
                    alike(means, x, sizes, exact=False, tolerance=4e-2 if dtype == "bfloat16" else 1e-5)
                    alike(largest, x, sizes)
                    alike(largest, x, sizes, return_indices=True)


def test_pools_of_odd_numbers():
    odd = float("nan"), float("-inf"), float("inf"), 1.0
    x = fb.tensor(np.random.default_rng(0).choice(odd, (2, 2, 7, 6)).astype("float32"))
    for window in WINDOWS[:5]:
        alike(F.max_pool2d, x, **window, return_indices=True)
        alike(F.avg_pool2d, x, **window)
    low = fb.full((1, 1, 4, 4), float("-inf"))
    for window in WINDOWS[:5]:
        alike(F.max_pool2d, low, **window, return_indices=True)


# -- losses


@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "other"])
def test_losses_of_classes(reduction):
    for rows, classes in ((1, 1), (7, 5), (30, 11), (0, 3)):
        for x in forms(values("float32", rows, classes)):
            for t in (places(classes, rows), places(classes, rows) - 1, places(classes, rows) + 1, places(classes, rows + 1)):
                for f in (F.nll_loss, F.cross_entropy):
                    alike(f, x, t, reduction=reduction, exact=False)
                    alike(f, x, t, ignore_index=0, reduction=reduction, exact=False)
                    alike(f, x, t, fb.ones(classes), reduction=reduction, exact=False)
                alike(F.cross_entropy, x, t, label_smoothing=0.1, reduction=reduction, exact=False)
                for p in (1, 2, 3):
                    alike(F.multi_margin_loss, x, t, p, 0.7, reduction=reduction, exact=False)
                alike(F.multi_margin_loss, x, t, weight=fb.ones(classes), reduction=reduction, exact=False)
            for low in (0, 1, 2):
                alike(
                    F.multilabel_margin_loss,
                    x,
                    places(classes + 1, rows, classes) - low,
                    reduction=reduction,
                    exact=False,
                    tolerance=1e-5,
                )
    for x in forms(values("float32", 4, 3).sigmoid()):
        y = values("float32", 4, 3, seed=7).sigmoid()
        alike(F.binary_cross_entropy, x, y, reduction=reduction, exact=False)
        alike(F.binary_cross_entropy, x * 2, y, reduction=reduction, exact=False)
        alike(F.binary_cross_entropy, x.round(), y, reduction=reduction, exact=False, tolerance=1e-5)
        alike(F.binary_cross_entropy, x, y[0], reduction=reduction)
        alike(F.binary_cross_entropy, x, y, y, reduction=reduction, exact=False)
    alike(F.multi_margin_loss, fb.tensor([[float("nan"), 1.0, float("inf")]]), fb.tensor([2]), reduction=reduction)
    alike(F.nll_loss, values("float32", 4, 3, 2), places(3, 4, 2), reduction=reduction, exact=False)
    alike(F.nll_loss, values("float32", 5), fb.tensor(2), reduction=reduction, exact=False)


# -- normalisation


def test_norms_of_groups_and_batches():
    for shape in ((3, 4), (2, 6, 5), (2, 4, 3, 3), (1, 2, 1, 1), (4, 8, 1, 1), (0, 4, 2), (2, 3, 40, 50)):
        w, b, m, v = (values("float32", shape[1], seed=k) for k in range(4))
        for x in forms(values("float32", *shape)):
            for groups in (1, 2, shape[1], 0, 5):
                for vectors in ((), (w, b), (None, b), (w[:1], b)):
                    alike(F.group_norm, x, groups, *vectors, exact=False, tolerance=2e-5)
            for training in (False, True):
                alike(F.batch_norm, x, m.clone(), v.abs() + 0.1, w, b, training, exact=False, tolerance=2e-5)
                alike(F.batch_norm, x, None, None, w, training=training, exact=False, tolerance=2e-5)
        alike(F.group_norm, x.detach() + 1000, 1, w, b, exact=False, tolerance=3e-3)
    alike(F.group_norm, fb.full((2, 4, 3), 5.0), 2)


# -- products


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
def test_small_products(dtype):
    near = dict(exact=False, tolerance=2e-5)
    for b, m, k, n in ((1, 1, 1, 1), (3, 2, 5, 4), (2, 16, 16, 16), (1, 0, 2, 3), (0, 2, 2, 2), (2, 3, 0, 4)):
        for x in forms(values(dtype, b, m, k)):
            y = values(dtype, b, k, n)
            alike(fb.bmm, x, y, **near)
            alike(fb.bmm, x, y[:, :, :1], **near)
            for z in (values(dtype, b, m, n), values(dtype, n), values(dtype, m, n), values(dtype, 1), values(dtype, 7)):
                alike(fb.baddbmm, z, x, y, **near)
                alike(fb.baddbmm, z, x, y, beta=2, alpha=3, **near)
        for x in forms(values(dtype, m, k)):
            for z in (values(dtype, m, n), values(dtype, n), values(dtype, m, 1), values(dtype, 7)):
                alike(fb.addmm, z, x, values(dtype, k, n), **near)
                alike(fb.addmm, z, x, values(dtype, k, n), beta=0.5, **near)
    alike(fb.bmm, values(dtype, 2, 3, 4), values(dtype, 2, 3, 4))
    alike(fb.bmm, values(dtype, 2, 3), values(dtype, 3, 2))
    for shape, dim in (((4, 3), -1), ((3, 4), None), ((3, 4), 0), ((2, 3, 5), 1), ((4, 2), -1), ((0, 3), 1), ((3, 3), None)):
        for x in forms(values(dtype, *shape)):
            alike(fb.cross, x, values(dtype, *shape, seed=3), *([] if dim is None else [dim]))
    for x in forms(values(dtype, 3, 2)):
        alike(fb.kron, x, values(dtype, 2, 5))
        alike(fb.kron, x, values(dtype, 4))


# -- order


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "float16", "uint8"])
def test_medians_and_modes(dtype):
    for shape in ((1,), (8,), (9,), (4, 7), (2, 3, 6), (0,), (3, 0), ()):
        for x in forms((values(dtype, *shape) / 3).round() if dtype in FLOATS else values(dtype, *shape)):
            alike(fb.median, x)
            for d in (-1, 0, 1):
                alike(fb.median, x, d)
                alike(fb.median, x, d, True)
                alike(fb.mode, x, d)
                for k in (1, 3, 0, 9):
                    alike(fb.kthvalue, x, k, d)
            alike(fb.mode, x)
            alike(fb.kthvalue, x, 2)
    if dtype in FLOATS:
        x = fb.tensor([1.0, float("nan"), 3.0, 1.0]).to(getattr(fb, dtype))
        for f in (fb.median, fb.mode, lambda a: fb.kthvalue(a, 2)):
            f(x)


# -- writes by index


@pytest.mark.parametrize("dtype", TYPES)
def test_writes_in_place(dtype):
    for shape, count in (((7,), 9), ((5, 3), 4), ((4, 2, 3), 6), ((0, 2), 0), ((3, 0), 2)):
        for k in (
            [places(shape[0], count), -1 - places(shape[0], count), places(shape[0], count) + 1] if shape[0] else [places(1, 0)]
        ):
            for y in (values(dtype, count, *shape[1:], seed=2), values(dtype, *shape[1:], seed=3), values(dtype)):
                for adds in (False, True):
                    found = []
                    for function in (fb.Tensor.index_put_, fb.Tensor.index_put_.__wrapped__):
                        x = values(dtype, *shape)
                        before = x._version
                        made = told(function, (x, (k,), y, adds), {})
                        found.append((str(made), x.tolist(), x._version - before))
                    assert found[0] == found[1]
    for mask in (values("bool", 4, 5, seed=3), values("bool", 5, seed=3), fb.ones(4, 5, dtype=fb.bool)):
        for source in (values(dtype, 20), values(dtype, 4, 5, seed=8), values(dtype, 3)):
            found = []
            for function in (fb.Tensor.masked_scatter_, fb.Tensor.masked_scatter_.__wrapped__):
                x = values(dtype, 4, 5)
                found.append((str(told(function, (x, mask, source), {})), x.tolist()))
            assert found[0] == found[1]
    for x in forms(values(dtype, 4, 5)):
        for k in (fb.tensor([0, 3]), fb.tensor([-1, 1, 1]), fb.tensor([4]), fb.tensor(2), fb.tensor([], dtype=fb.int64)):
            for value in (1, 1.0, True, 2.5, 1e30, -3):
                for d in (0, 1, -1, 2):
                    alike(fb.index_fill, x, d, k, value)


def test_memory_that_is_read_and_written():
    k = fb.tensor([2, 0, 1, 1])
    x = fb.arange(4.0)
    x.index_put_((k,), x)
    y = fb.arange(4.0)
    y.index_put_((k,), y.clone())
    assert x.tolist() == y.tolist()
    x = fb.zeros(3, requires_grad=True).clone()
    v = fb.ones(2, requires_grad=True)
    x.index_put_((fb.tensor([0, 1]),), v)
    x.sum().backward()
    assert v.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="leaf"):
        fb.zeros(3, requires_grad=True).index_put_((fb.tensor([0]),), fb.ones(1))


# -- functions of elements, spreads, grids, draws

ODD = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-45, 3e38, -3e38, 1.17549435e-38, 0.3]


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_elements(dtype):
    a, b = (x.reshape(-1).to(getattr(fb, dtype)) for x in fb.meshgrid(fb.tensor(ODD), fb.tensor(ODD), indexing="ij"))
    for x, y in ((a, b), (a[::2], b[::2]), (a.reshape(13, 13).t(), b.reshape(13, 13)), (a, b[:1]), (a[:0], b[:0]), (a[0], b[1])):
        for f in (fb.copysign, fb.nextafter):
            alike(f, x, y)
            if f is fb.copysign:
                assert fb.equal(fb.signbit(f(x, y)), fb.signbit(f.__wrapped__(x, y)))
        for w in (0.3, 0.5, 0.9, -2.0, 1, 0, float("nan")):
            alike(fb.lerp, x, y, w, exact=False, tolerance=3e-2 if dtype == "bfloat16" else 1e-6)
        alike(fb.nan_to_num, x)
        alike(fb.nan_to_num, x, 2.0)
    x = values(dtype, 9).requires_grad_()
    assert fb.lerp(x, values(dtype, 9), 0.3).requires_grad and fb.copysign(x, values(dtype, 9)).requires_grad


@pytest.mark.parametrize("dtype", FLOATS)
def test_spreads(dtype):
    for shape in ((2,), (1,), (9,), (4, 6), (3, 1, 5), (0,), ()):
        for x in forms(values(dtype, *shape)):
            for f in (fb.var, fb.std):
                with np.testing.suppress_warnings() as quiet:
                    quiet.filter(UserWarning)
                    alike(f, x, exact=False, tolerance=4e-2 if dtype == "bfloat16" else 1e-5)
                    for d in (0, -1, 1, (0,)):
                        alike(f, x, d, exact=False, tolerance=4e-2 if dtype == "bfloat16" else 1e-5)
                    alike(f, x, unbiased=False, exact=False, tolerance=4e-2 if dtype == "bfloat16" else 1e-5)


def test_places_of_a_grid():
    for n, modes in ((2, ("bilinear", "nearest", "bicubic", "other")), (3, ("bilinear", "nearest", "bicubic"))):
        for dtype in ("float32", "float64"):
            for x in forms(values(dtype, 2, 3, *(4, 5, 3)[:n])):
                grid = values(dtype, 2, *(3, 2, 4)[:n], n) / 8
                for mode in modes:
                    for edge in ("zeros", "border", "reflection", "other"):
                        for align in (True, False):
                            alike(F.grid_sample, x, grid, mode, edge, align)
    alike(F.grid_sample, x, grid[:1], align_corners=True)
    alike(F.grid_sample, x, grid.float(), align_corners=True)


@pytest.mark.parametrize(
    "name,more",
    [
        ("cauchy_", ()),
        ("cauchy_", (1.5, 0.3)),
        ("cauchy_", (0, -1)),
        ("geometric_", (0.3,)),
        ("geometric_", (1e-9,)),
        ("geometric_", (0.999,)),
        ("geometric_", (2,)),
    ],
)
def test_draws_of_further_distributions(name, more):
    function = getattr(fb.Tensor, name)
    for dtype in ("float32", "float64", "float16"):
        for make in (lambda: fb.zeros(50, dtype=getattr(fb, dtype)), lambda: fb.zeros(6, 5, dtype=getattr(fb, dtype)).t()):
            found = []
            for f in (function, function.__wrapped__):
                fb.manual_seed(3)
                found.append((str(told(lambda x: f(x, *more).tolist(), (make(),), {})), fb.get_rng_state().tolist()))
            assert found[0] == found[1]


# -- distances, norms, and the kernels of records


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_distances(dtype):
    near = dict(exact=False, tolerance=1e-5)
    for shape in ((1, 3), (6, 16), (5, 17), (2, 3, 40), (7,), (0, 3), (3, 0)):
        y = values(dtype, *shape, seed=3)
        for x in forms(values(dtype, *shape)):
            alike(F.pairwise_distance, x, y, **near)
            alike(F.pairwise_distance, x, y, 1.0, **near)
            alike(F.pairwise_distance, x, y, keepdim=True, **near)
            alike(F.pairwise_distance, x, y[:1], **near)
            alike(F.cosine_similarity, x, y, **near)
            alike(F.cosine_similarity, x, y, -1, **near)
            alike(F.cosine_similarity, x, y * 0, -1, 1e-3, **near)
            for reduction in ("none", "mean", "sum"):
                for swap in (False, True):
                    alike(F.triplet_margin_loss, x, y, y.flip(0), 0.7, swap=swap, reduction=reduction, **near)
            if len(shape) == 2:
                alike(fb.cdist, x, y, **near)
                alike(fb.cdist, x, x, 1.0, **near)
    alike(fb.cdist, values(dtype, 30, 3), values(dtype, 4, 3), exact=False, tolerance=1e-3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_norms(dtype):
    near = dict(exact=False, tolerance=3e-2 if dtype == "bfloat16" else 1e-5)
    for shape in ((2,), (1,), (9,), (4, 6), (3, 1, 5), (0,), ()):
        for x in forms(values(dtype, *shape)):
            for p in ("fro", 1, 2, 3, 2.5, 0, -1, float("inf"), None):
                alike(fb.norm, x, p, **near)
                for d in (0, -1, 1, (0,)):
                    alike(fb.norm, x, p, d, **near)
    for x in (fb.tensor([1e-30, 2e-30]), fb.tensor([1e30, 2e30]), fb.tensor([float("nan"), 1.0]), fb.zeros(3)):
        alike(fb.norm, x, exact=False)


def test_pairs_of_rows_and_their_gradients():
    for dtype, room in (("float32", 1e-4), ("float64", 1e-12)):
        x = values(dtype, 7, 5).numpy()
        x[3] = x[1]
        i, j = np.triu_indices(7, 1)
        d = np.sqrt(((x[i] - x[j]) ** 2).sum(1))
        g = values(dtype, 21, seed=4).numpy()
        share = np.where(d == 0, 0, g / np.where(d == 0, 1, d))[:, None] * (x[i] - x[j])
        wanted = np.zeros_like(x)
        np.add.at(wanted, i, share)
        np.add.at(wanted, j, -share)
        np.testing.assert_allclose(_call.pair_distances_backward(g, x, d), wanted, rtol=room, atol=room)
    y = values("float64", 5, 3).requires_grad_()
    assert fb.autograd.gradcheck(F.pdist, (y,)) and fb.autograd.gradgradcheck(F.pdist, (y,))
    same = fb.ones(3, 2, requires_grad=True)
    F.pdist(same).sum().backward()
    assert same.grad.tolist() == [[0.0, 0.0]] * 3
    assert F.pdist(fb.zeros(1, 3, requires_grad=True)).shape == (0,) and F.pdist(fb.zeros(4, 0)).tolist() == [0.0] * 6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, width", [(2, 1), (20, 16), (101, 37), (60, 64), (50, 150)])
def test_pairs_of_rows_are_the_same_on_any_threads(dtype, rows, width):
    x = values(dtype, rows, width).numpy()
    x[rows // 2] = x[0]
    i, j = np.triu_indices(rows, 1)
    d, g = np.sqrt(((x[i] - x[j]) ** 2).sum(1)), values(dtype, len(i), seed=4).numpy()
    share = np.where(d == 0, 0, g / np.where(d == 0, 1, d))[:, None] * (x[i] - x[j])
    wanted, found, before = np.zeros_like(x), [], fb.get_num_threads()
    np.add.at(wanted, i, share)
    np.add.at(wanted, j, -share)
    try:
        for threads in (1, 2, 5):
            fb.set_num_threads(threads)
            found.append(jobs.empty(x.shape, x.dtype))
            jobs.run("pair_distances_back", x.dtype, rows, 1, (found[-1], g, x, d), (rows, width))
    finally:
        fb.set_num_threads(before)
    np.testing.assert_allclose(
        found[0], wanted, rtol=1e-3 if dtype == "float32" else 1e-10, atol=1e-3 if dtype == "float32" else 1e-12
    )
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_kernels_of_picked_elements():
    for shape, dim, size in (((3,), 1, 4), ((2, 3), 0, 5), ((2, 3), 1, 4), ((), 0, 2), ((2, 3, 2), 2, 3)):
        k = places(size, *shape).numpy()
        for dtype in ("float32", "float64", "float16", "bool"):
            x = values(dtype, *shape).numpy()
            np.testing.assert_array_equal(_call.spread(x, k, dim, size), indexing.spread.kernels["numpy"](x, k, dim, size))
        one = np.broadcast_to(np.float32(2.5), shape)
        np.testing.assert_array_equal(_call.spread(one, k, dim, size), indexing.spread.kernels["numpy"](one, k, dim, size))
        assert _call.spread(x, k + size, dim, size) is NotImplemented
    odd = fb.tensor(np.random.default_rng(0).standard_normal((2, 2, 9, 8))).requires_grad_()
    for window in (
        dict(kernel_size=3, stride=2, padding=1),
        dict(kernel_size=2, dilation=2),
        dict(kernel_size=(3, 2), stride=(1, 2)),
    ):
        values_, places_ = F.max_pool2d(odd, **window, return_indices=True)
        assert fb.equal(odd.flatten(2).gather(2, places_.flatten(2)).reshape(values_.shape), values_)


@pytest.mark.parametrize("n", [2, 3])
def test_windows_that_start_anywhere(n):
    function = getattr(F, f"fractional_max_pool{n}d")
    for sizes, kernel, out in (((7, 6, 5)[-n:], 2, 3), ((9, 8, 7)[-n:], (3, 2, 1)[-n:], (4, 1, 3)[-n:])):
        for dtype in ("float32", "float64"):
            x = values(dtype, 2, 3, *sizes)
            for seed in range(4):
                samples = fb.tensor(np.random.default_rng(seed).random((2, 3, n))).to(x.dtype)
                kernels, outputs = (k if isinstance(k, tuple) else (k,) * n for k in (kernel, out))
                found = fractional_max_pool.fractional_max(x, samples, kernels, outputs)
                wanted = fractional_max_pool.fractional_max.fn(x, samples, kernels, outputs)
                assert fb.equal(found[0], wanted[0]) and fb.equal(found[1], wanted[1])
                y = x.double().requires_grad_()
                assert fb.autograd.gradcheck(lambda a: function(a, kernel, out, _random_samples=samples.double()), (y,))
    assert function(values("float32", 3, *sizes), 2, 3).shape == (3, *(3,) * n)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"])
def test_resized_images(mode):
    for shape in ((2, 3, 7), (1, 2, 6, 5), (2, 1, 3, 4, 5), (1, 1, 1, 1), (0, 2, 3, 3)):
        for dtype in (*FLOATS, "uint8", "int64"):
            for x in forms(values(dtype, *shape)) if dtype == "float32" else (values(dtype, *shape),):
                n = len(shape) - 2
                for how in (
                    dict(size=3),
                    dict(size=(14, 9, 4)[:n]),
                    dict(size=list(shape[2:])),
                    dict(size=0),
                    dict(scale_factor=2),
                    dict(scale_factor=0.5),
                    dict(scale_factor=1.7),
                    dict(scale_factor=(1.0, 2.3, 0.6)[:n]),
                    dict(scale_factor=-1.0),
                    dict(scale_factor=1.7, recompute_scale_factor=True),
                    dict(),
                    dict(size=2, scale_factor=2.0),
                    dict(size=(1,) * n),
                ):
                    for align in ({}, {"align_corners": True}, {"align_corners": False}):
                        alike(F.interpolate, x, mode=mode, **how, **align, exact=False, tolerance=1e-5)


def test_attention_and_rows_that_are_looked_up():
    for shapes in (
        ((1, 2, 5, 8), (1, 2, 7, 8)),
        ((2, 1, 64, 16), (2, 1, 64, 16)),
        ((1, 4, 1, 16), (1, 4, 32, 16)),
        ((2, 3, 4), (2, 5, 4)),
        ((1, 4, 3, 8), (1, 2, 3, 8)),
        ((0, 2, 3, 4), (0, 2, 3, 4)),
        ((1, 1, 130, 8), (1, 1, 100, 8)),
        ((1, 1, 3, 4), (1, 1, 3, 5)),
    ):
        for dtype in ("float32", "float64", "float16"):
            for q in forms(values(dtype, *shapes[0]) / 4):
                k, v = values(dtype, *shapes[1], seed=2) / 4, values(dtype, *shapes[1], seed=3)
                for more in (
                    {},
                    {"is_causal": True},
                    {"scale": 0.3},
                    {"enable_gqa": True},
                    {"attn_mask": values(dtype, shapes[0][-2], shapes[1][-2])},
                ):
                    alike(F.scaled_dot_product_attention, q, k, v, **more, exact=False, tolerance=1e-5)
    for dtype in FLOATS:
        for w in forms(values(dtype, 6, 3)):
            for k in (
                places(6, 4),
                places(6, 2, 5),
                fb.tensor(3),
                places(6, 4).int(),
                places(6, 8)[::2],
                places(6, 0),
                fb.tensor([6]),
                fb.tensor([-1]),
            ):
                alike(F.embedding, k, w)
                alike(F.embedding, k, w, 1)
                alike(F.embedding, k, w, padding_idx=9)
    table = values("float32", 6, 3).requires_grad_()
    F.embedding(places(6, 4), table).sum().backward()
    assert table.grad.sum() == 12


def test_running_moments():
    for shape in ((3, 4), (2, 3, 5), (2, 2, 3, 3), (1, 2, 1)):
        found = []
        for function in (F.batch_norm, F.batch_norm.__wrapped__):
            mean, var = values("float32", shape[1], seed=1), values("float32", shape[1], seed=2).abs()
            versions = mean._version, var._version
            made = told(function, (values("float32", *shape), mean, var, None, None, True, 0.3), {})
            found.append((made, mean, var, mean._version - versions[0], var._version - versions[1]))
        if not isinstance(found[0][0], fb.Tensor):
            assert found[0][0] == found[1][0]
            continue
        for a, b in zip(found[0][:3], found[1][:3]):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
        assert found[0][3:] == found[1][3:]


def test_gradients_of_the_vectors_of_group_norm():
    for shape, groups in (((2, 4, 3), 2), ((2, 4, 2, 2), 4), ((3, 6), 3)):
        x = values("float64", *shape).requires_grad_()
        w, b = (values("float64", shape[1], seed=k).requires_grad_() for k in (1, 2))
        assert fb.autograd.gradcheck(lambda *a: F.group_norm(a[0], groups, *a[1:]), (x, w, b))
        assert fb.autograd.gradgradcheck(lambda *a: F.group_norm(a[0], groups, *a[1:]), (x, w, b))
        y = values("float64", 2, 3, 3, 4).permute(0, 3, 1, 2).requires_grad_()
        v = values("float64", 4, seed=5).requires_grad_()
        assert fb.autograd.gradcheck(lambda a, u: F.group_norm(a, 2, u), (y, v))


# -- order and small products


@pytest.mark.parametrize("dtype", TYPES[:-1])
def test_sorting_of_few(dtype):
    for shape in ((60,), (8, 9), (3, 4, 5), (1, 50), (50, 1), (0, 3), ()):
        x = values(dtype, *shape)
        x = x.round() if x.is_floating_point() else x  # (some tie)
        for y in forms(x):
            for dim in range(-1, max(len(shape) - 1, 0)):
                for flag in (False, True):
                    alike(fb.sort, y, dim, flag)
                    alike(fb.argsort, y, dim, flag)
                    alike(fb.topk, y, min(3, shape[dim] if shape else 1), dim, flag)
                alike(fb.topk, y, 99, dim)
        for kw in ({}, {"return_inverse": True}, {"return_counts": True}, {"return_inverse": True, "return_counts": True}):
            alike(fb.unique, x, **kw)
    odd = fb.tensor([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0] * 10)
    alike(fb.sort, odd)
    alike(fb.topk, odd, 7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
def test_small_products_of_halves_and_whole_numbers(dtype):
    for a, b in (((9,), (9,)), ((4, 9), (9,)), ((9,), (9, 5)), ((4, 9), (9, 5)), ((1,), (1,)), ((4, 1), (1,))):
        x, y = values(dtype, *a), values(dtype, *b, seed=2)
        wanted = x.double().numpy() @ y.double().numpy()
        found = x @ y
        assert found.dtype is x.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found.double().numpy(), wanted, rtol=2e-2, atol=0.5)
        with pytest.raises(RuntimeError):
            x @ values(dtype, b[0] + 1, *b[1:])
    if dtype != "int64":
        for x in forms(values(dtype, 2, 3, 4)):
            alike(fb.bmm, x, values(dtype, 2, 4, 5), exact=False, tolerance=3e-2)


@pytest.mark.parametrize("dtype", TYPES)
def test_differences_of_neighbours(dtype):
    for shape in ((9,), (2,), (1,), (3, 4), (3, 1, 4), (0, 3), (3, 0), ()):
        for x in forms(values(dtype, *shape)):
            for dim in range(-1, len(shape)):
                alike(fb.diff, x, 1, dim)
            alike(fb.diff, x)
            alike(fb.diff, x, n=2)
            alike(fb.diff, x, prepend=x)
