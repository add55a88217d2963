"""Pooling, normalisation per channel, padding, resampling and their relatives against PyTorch: values, gradients, memory
order, printed modules."""

import itertools
import warnings

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as G

torch = pytest.importorskip("torch")
F = torch.nn.functional


def ours(t, last=False):
    array = t.detach().numpy()
    if last:
        return fb.from_numpy(np.ascontiguousarray(array.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)
    return fb.from_numpy(array.copy())


def same(a, b, what, tolerance=3e-5):
    if isinstance(b, tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y, what, tolerance)
        return
    a, b = a.detach().numpy(), b.detach().numpy()
    assert a.shape == b.shape and a.dtype == b.dtype, what
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=str(what))


def check(name, shapes, *args, last=False, tolerance=3e-5, own=G, theirs=F, make=torch.randn, **kw):
    """Values, memory order and gradients of one function for normal inputs of these shapes."""
    what = (name, shapes, args, kw)
    wanted_in = [make(*shape) for shape in shapes]
    actual_in = [ours(t, last).requires_grad_() for t in wanted_in]
    if last:
        wanted_in = [t.contiguous(memory_format=torch.channels_last) for t in wanted_in]
    wanted_in = [t.clone().requires_grad_() for t in wanted_in]
    wanted, actual = getattr(theirs, name)(*wanted_in, *args, **kw), getattr(own, name)(*actual_in, *args, **kw)
    same(actual, wanted, what, tolerance)
    with fb.no_grad():
        same(getattr(own, name)(*actual_in, *args, **kw), wanted, what, tolerance)
    if isinstance(wanted, tuple):
        wanted, actual = wanted[0], actual[0]
    if last and 1 not in wanted.shape[2:]:
        assert actual.stride() == wanted.stride(), what
    weights = torch.randn(*wanted.shape)
    (wanted * weights).sum().backward()
    (actual * fb.from_numpy(weights.numpy())).sum().backward()
    for x, y in zip(actual_in, wanted_in):
        if x.grad is None:
            assert not y.grad.any(), what
        else:
            same(x.grad, y.grad, what, tolerance)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


NORMS = [
    ("BatchNorm1d", (3,), (4, 3)),
    ("BatchNorm1d", (3,), (4, 3, 5)),
    ("BatchNorm2d", (3,), (2, 3, 4, 5)),
    ("BatchNorm2d", (70,), (2, 70, 9, 9)),
    ("BatchNorm3d", (3,), (2, 3, 2, 3, 2)),
    ("InstanceNorm2d", (3,), (2, 3, 4, 5)),
    ("InstanceNorm2d", (3, 1e-5, 0.1, True, True), (2, 3, 4, 5)),
    ("InstanceNorm1d", (3,), (3, 5)),
    ("GroupNorm", (2, 6), (2, 6, 3, 4)),
    ("GroupNorm", (6, 6), (2, 6, 3)),
    ("SyncBatchNorm", (3,), (2, 3, 4, 4)),
]


@pytest.mark.parametrize("name,args,shape", NORMS, ids=lambda v: str(v))
@pytest.mark.parametrize("last", [False, True])
def test_norms(name, args, shape, last):
    """Three steps, the last in evaluation: outputs, gradients, running statistics."""
    if last and len(shape) != 4:
        pytest.skip("no image")
    theirs, own = getattr(torch.nn, name)(*args), getattr(fb.nn, name)(*args)
    assert repr(theirs) == repr(own)
    for momentum in (0.1, None) if name.startswith("Batch") else (0.1,):
        theirs.momentum = own.momentum = momentum
        theirs.train(), own.train()
        for step in range(3):
            if step == 2:
                theirs.eval(), own.eval()
            x = torch.randn(*shape) * 2 + 3
            y = ours(x, last).requires_grad_()
            x.requires_grad_()
            wanted, actual = theirs(x), own(y)
            same(actual, wanted, name)
            weights = torch.randn(*shape)
            (wanted * weights).sum().backward()
            (actual * fb.from_numpy(weights.numpy())).sum().backward()
            same(y.grad, x.grad, name)
            for (k, a), (key, b) in zip(theirs.state_dict().items(), own.state_dict().items(), strict=True):
                assert k == key
                same(b, a, key)
            for a, b in zip(theirs.parameters(), own.parameters(), strict=True):
                same(b.grad, a.grad, name, 1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_windows(n):
    for shape in ((2, 3) + (7, 8, 6)[:n], (3,) + (7, 8, 6)[:n]):
        for kernel, stride, padding, ceil in itertools.product((2, 3), (None, 2), (0, 1), (False, True)):
            check(f"max_pool{n}d", [shape], kernel, stride, padding, ceil_mode=ceil, return_indices=True)
            for counted in (True, False):
                check(f"avg_pool{n}d", [shape], kernel, stride, padding, ceil, counted)
        check(f"max_pool{n}d", [shape], 2, 1, 1, 2)
        check(f"lp_pool{n}d", [shape], 2, 2, make=lambda *s: torch.rand(*s) + 0.1)
        for size in (1, 2, 3, 5):
            check(f"adaptive_avg_pool{n}d", [shape], size)
            check(f"adaptive_max_pool{n}d", [shape], size, return_indices=True)


@pytest.mark.parametrize("kernel,stride,padding", [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_windows_of_images_with_channels_last(kernel, stride, padding):
    for name in ("max_pool2d", "avg_pool2d"):
        check(name, [(2, 70, 8, 9)], kernel, stride, padding, last=True)
    check("adaptive_avg_pool2d", [(2, 5, 8, 9)], 3, last=True)
    check("adaptive_max_pool2d", [(2, 5, 8, 9)], 3, last=True)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_windows_and_unpooling(n):
    x, samples, name = torch.randn(2, 3, *(9, 8, 7)[:n]), torch.rand(2, 3, n), f"fractional_max_pool{n}d"
    args = dict(output_size=(4, 5, 3)[:n], return_indices=True)
    same(
        getattr(G, name)(ours(x), 2, **args, _random_samples=ours(samples)),
        getattr(F, name)(x, 2, **args, _random_samples=samples),
        name,
    )
    x = torch.randn(2, 3, *(8, 6, 4)[:n])
    values, indices = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    same(getattr(G, f"max_unpool{n}d")(ours(values), ours(indices), 2), getattr(F, f"max_unpool{n}d")(values, indices, 2), n)


MODES = [
    (1, "nearest"),
    (1, "nearest-exact"),
    (1, "linear"),
    (1, "area"),
    (2, "nearest"),
    (2, "nearest-exact"),
    (2, "bilinear"),
    (2, "bicubic"),
    (2, "area"),
    (3, "nearest"),
    (3, "trilinear"),
    (3, "area"),
]


@pytest.mark.parametrize("n,mode", MODES)
def test_interpolate(n, mode):
    shape, corners = (2, 3) + (5, 7, 4)[:n], (None, True, False) if "linear" in mode or mode == "bicubic" else (None,)
    for last, align in itertools.product((False, True) if n == 2 else (False,), corners):
        for size in (1, 3, 10, (10, 7, 6)[:n]):
            check("interpolate", [shape], size=size, mode=mode, align_corners=align, last=last)
        for factor, recompute in itertools.product((2, 0.7, (2, 3, 1.5)[:n]), (None, True)):
            check(
                "interpolate",
                [shape],
                scale_factor=factor,
                mode=mode,
                recompute_scale_factor=recompute,
                align_corners=align,
                last=last,
            )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialiased(mode):
    for size in (3, (2, 9), (12, 4)):
        check("interpolate", [(2, 3, 9, 8)], size=size, mode=mode, antialias=True)
    check("interpolate", [(2, 3, 9, 8)], scale_factor=0.4, mode=mode, antialias=True)


def test_nearest_picks_the_same_elements():
    """Places are computed in float32, rounding included."""
    for n, size, mode in itertools.product((5, 7, 13, 100), (3, 9, 64, 77, 301), ("nearest", "nearest-exact")):
        x = torch.arange(float(n)).reshape(1, 1, n)
        same(G.interpolate(ours(x), size=size, mode=mode), F.interpolate(x, size=size, mode=mode), (n, size, mode), 0)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_pad(mode):
    for shape, amounts in (
        ((2, 5), (1, 2)),
        ((2, 3, 5), (3, 0)),
        ((2, 3, 5), (-1, 2)),
        ((2, 3, 5), (-1, -1)),
        ((2, 3, 4, 5), (1, 2, 3, 0)),
        ((3, 4, 5), (1, 0, 0, 2)),
        ((2, 3, 4, 5, 3), (1, 2, 2, 0, 1, 1)),
    ):
        check("pad", [shape], amounts, mode=mode)
    if mode != "circular":
        check("pad", [(2, 3, 4, 5)], (1, 2, 3, 0), mode=mode, last=True)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding_mode):
    for align in (True, False):
        args = dict(mode=mode, padding_mode=padding_mode, align_corners=align, tolerance=3e-4)
        check("grid_sample", [(2, 3, 5, 6), (2, 4, 3, 2)], **args)
        if mode != "bicubic":
            check("grid_sample", [(2, 3, 5, 6, 4), (2, 4, 3, 2, 3)], **args)


def test_rearrangements():
    check("unfold", [(2, 3, 6, 7)], (3, 2), 1, (1, 0), (2, 1))
    check("unfold", [(3, 6, 7)], 2, 2)
    check("fold", [(2, 12, 20)], (5, 6), 2)
    check("pixel_shuffle", [(2, 8, 3, 4)], 2)
    check("pixel_unshuffle", [(2, 2, 6, 4)], 2)
    check("channel_shuffle", [(2, 6, 3, 4)], 3)
    for align in (True, False):
        check("affine_grid", [(2, 2, 3)], (2, 3, 4, 5), align_corners=align)
        check("affine_grid", [(2, 3, 4)], (2, 3, 4, 5, 2), align_corners=align)


def test_distances():
    check("pairwise_distance", [(4, 5), (4, 5)])
    check("pairwise_distance", [(4, 5), (4, 5)], p=1, keepdim=True)
    check("pdist", [(5, 3)])
    check("bilinear", [(4, 2, 3), (4, 2, 5), (6, 3, 5), (6,)])
    check("local_response_norm", [(2, 7, 4, 5)], 3)
    check("local_response_norm", [(2, 7, 4)], 4, 0.1, 0.5, 2.0)
    for p in (2.0, 1.0, float("inf"), 3.0):
        check("cdist", [(2, 4, 5), (2, 6, 5)], p=p, own=fb, theirs=torch)
    check("cdist", [(2, 30, 5), (2, 6, 5)], own=fb, theirs=torch, tolerance=1e-4)


PRINTED = [
    ("MaxPool2d", (2,)),
    ("AvgPool2d", (2,)),
    ("AvgPool1d", (2,)),
    ("AdaptiveAvgPool2d", (3,)),
    ("LPPool2d", (2, 2)),
    ("AdaptiveMaxPool2d", ((3, None),)),
    ("MaxUnpool2d", (2,)),
    ("FractionalMaxPool2d", (2, 3)),
    ("ConstantPad2d", (1, 2.0)),
    ("ZeroPad2d", (1,)),
    ("ReflectionPad2d", (1,)),
    ("CircularPad1d", (1,)),
    ("Upsample", (3,)),
    ("Upsample", (None, 2)),
    ("UpsamplingBilinear2d", ()),
    ("UpsamplingNearest2d", (2,)),
    ("Dropout2d", (0.3, True)),
    ("AlphaDropout", ()),
    ("PixelShuffle", (2,)),
    ("PixelUnshuffle", (2,)),
    ("ChannelShuffle", (2,)),
    ("Unfold", (2,)),
    ("Fold", (4, 2)),
    ("PairwiseDistance", ()),
    ("CosineSimilarity", ()),
    ("Bilinear", (2, 3, 4)),
    ("LocalResponseNorm", (3,)),
    ("CrossMapLRN2d", (3,)),
    ("GroupNorm", (2, 4)),
    ("InstanceNorm1d", (3,)),
    ("SyncBatchNorm", (3,)),
]


@pytest.mark.parametrize("name,args", PRINTED, ids=lambda v: str(v))
def test_modules_print_alike(name, args):
    assert repr(getattr(fb.nn, name)(*args)) == repr(getattr(torch.nn, name)(*args))


WRONG = [
    "F.max_pool2d(x(1, 4, 4), 3, padding=2)",
    "F.max_pool2d(x(1, 4, 4), 5)",
    "F.max_pool2d(x(1, 4, 4), (2, 2, 2))",
    "F.max_pool2d(x(1, 4, 4), 2, stride=0)",
    "F.avg_pool2d(x(1, 4, 4), 2, divisor_override=0)",
    "F.avg_pool2d(x(1, 4, 4), 5)",
    "F.max_pool2d(x(4, 4), 2)",
    "F.adaptive_avg_pool2d(x(4, 4), 2)",
    "F.adaptive_avg_pool2d(x(1, 4, 4), -1)",
    "F.pad(x(1, 1, 4), (4, 4), mode='reflect')",
    "F.pad(x(1, 1, 4), (5, 5), mode='circular')",
    "F.pad(x(1, 1, 4), (1,))",
    "F.pad(x(1, 1, 4, 4), (1, 1), mode='replicate')",
    "F.pad(x(1, 1, 4), (1, 1), mode='foo')",
    "F.interpolate(x(1, 1, 4))",
    "F.interpolate(x(1, 1, 4), size=2, scale_factor=2)",
    "F.interpolate(x(1, 1, 4), size=2, mode='bilinear')",
    "F.interpolate(x(1, 1, 4, 4), size=(2,))",
    "F.interpolate(x(1, 1, 4, 4), size=2, align_corners=True)",
    "F.interpolate(x(1, 1, 4, 4), size=0)",
    "F.interpolate(x(1, 4), size=2)",
    "F.pixel_shuffle(x(3, 2, 2), 2)",
    "F.pixel_unshuffle(x(4, 3, 2), 2)",
    "F.channel_shuffle(x(1, 4, 2, 2), 3)",
    "F.unfold(x(1, 1, 4, 4), 5)",
    "F.fold(x(1, 4, 8), (4, 4), 2)",
    "F.fold(x(1, 5, 9), (4, 4), 2)",
    "F.dropout1d(x(2))",
    "F.dropout2d(x(3))",
    "F.dropout2d(x(2, 3, 4, 4), p=2)",
    "nn.BatchNorm2d(3)(x(2, 3, 4))",
    "nn.BatchNorm2d(3)(x(2, 4, 4, 4))",
    "nn.BatchNorm1d(3)(x(1, 3))",
    "F.batch_norm(x(2, 3), None, None)",
    "F.group_norm(x(2, 3), 2)",
    "nn.GroupNorm(3, 4)",
    "nn.InstanceNorm2d(3)(x(2, 3, 1, 1))",
    "F.local_response_norm(x(2), 2)",
]


@pytest.mark.parametrize("text", WRONG)
def test_errors(text):
    """The same type, and half of the words of the message or more."""
    with pytest.raises(Exception) as theirs:
        eval(text, {"F": F, "nn": torch.nn, "x": torch.randn})
    with pytest.raises(type(theirs.value)) as own:
        eval(text, {"F": G, "nn": fb.nn, "x": fb.randn})
    wanted, actual = (set(str(e.value).lower().split()) for e in (theirs, own))
    assert len(wanted & actual) >= len(wanted) / 2, f"{own.value} | {theirs.value}"
