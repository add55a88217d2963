"""torchvision's operators: against the sums they stand for, element by element; gradients; compiled; errors."""

import functools
import math

import numpy as np
import pytest

import flambeau as fb

fb.ops.load_library("somewhere/torchvision/_C.so")
vision = fb.ops.torchvision


def taps(at, m):
    """(place, weight) of a position: up to a pixel outside it is at the border."""
    if not -1 <= at <= m:
        return []
    low = int(max(at, 0))
    return [(m - 1, 1.0)] if low >= m - 1 else [(low, 1 - (max(at, 0) - low)), (low + 1, max(at, 0) - low)]


def aligned_bin(plane, begin, extent, counts):
    """The mean of a bin's samples."""
    total = 0.0
    for a in range(counts[0]):
        for b in range(counts[1]):
            down = taps(begin[0] + (a + 0.5) * extent[0] / counts[0], plane.shape[0])
            across = taps(begin[1] + (b + 0.5) * extent[1] / counts[1], plane.shape[1])
            total += sum(plane[y, x] * v * w for y, v in down for x, w in across)
    return total


def align(x, rois, bins, scale, samples, moved, sensitive):
    made = x.shape[1] // (bins[0] * bins[1]) if sensitive else x.shape[1]
    out = np.zeros((len(rois), made, *bins))
    for k, (image, x1, y1, x2, y2) in enumerate(rois):
        begin = [v * scale - 0.5 * moved for v in (y1, x1)]
        extent = [v * scale - 0.5 * moved - b for v, b in zip((y2, x2), begin)]
        step = [(e if moved else max(e, 1)) / n for e, n in zip(extent, bins)]
        counts = [samples if samples > 0 else math.ceil(s) for s in step]
        count = counts[0] * counts[1] if sensitive else max(counts[0] * counts[1], 1)
        for c, i, j in np.ndindex(made, *bins):
            plane = x[int(image), (c * bins[0] + i) * bins[1] + j if sensitive else c]
            start = (begin[0] + i * step[0], begin[1] + j * step[1])
            out[k, c, i, j] = aligned_bin(plane, start, step, counts) / count if count else np.nan
    return out


def rounded(v):
    return int(math.copysign(math.floor(abs(v) + 0.5), v))


def pool(x, rois, bins, scale, sensitive):
    made = x.shape[1] // (bins[0] * bins[1]) if sensitive else x.shape[1]
    out = np.zeros((len(rois), made, *bins))
    for k, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (rounded(v * scale) for v in corners)
        for c, i, j in np.ndindex(made, *bins):
            spans = []
            for d, (at, low, high) in enumerate(((i, y1, y2), (j, x1, x2))):
                size, most = max(high - low + (not sensitive), 1) / bins[d], x.shape[2 + d] - sensitive
                ends = (math.floor(at * size) + low, math.ceil((at + 1) * size) + low)
                spans.append(slice(*(min(max(v, 0), most) for v in ends)))
            part = x[int(image), (c * bins[0] + i) * bins[1] + j if sensitive else c][tuple(spans)]
            if part.size:
                out[k, c, i, j] = part.mean() if sensitive else part.max()
    return out


def boxes(rng, count, width, height, images):
    corners = np.stack([np.sort(rng.uniform(-5, 1.2 * n, (count, 2)), 1) for n in (width, height)], 2).reshape(count, 4)
    made = np.concatenate([rng.integers(0, images, (count, 1)), corners], 1)
    if count > 2:
        made[0, 3], made[1, 3] = made[0, 1] - 1, made[1, 1]  # turned around, and without a width
    return made


def whole(f, *args):
    """The call as one graph, compiled anew."""
    fb._dynamo.reset()
    return fb.compile(lambda *args: f(*args), fullgraph=True)(*args)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("images, channels, height, width, count", [(2, 12, 7, 9, 5), (1, 24, 5, 6, 4), (3, 12, 8, 8, 0)])
@pytest.mark.parametrize("compiled", [False, True])
def test_bins_of_regions(dtype, images, channels, height, width, count, compiled):
    rng, limit = np.random.default_rng(0), 1e-4 if dtype == "float32" else 1e-9
    x = rng.standard_normal((images, channels, height, width)).astype(dtype)
    rois = boxes(rng, count, 2 * width, 2 * height, images).astype(dtype)
    run = whole if compiled else lambda f, *args: f(*args)
    args = fb.tensor(x), fb.tensor(rois), 0.5
    for bins, samples in (((2, 3), 2), ((2, 2), 0), ((3, 2), -1)):
        for moved in (False, True):
            got = run(vision.roi_align, *args, *bins, samples, moved)
            np.testing.assert_allclose(got, align(x, rois, bins, 0.5, samples, moved, False), limit, limit)
        got, channel = run(vision.ps_roi_align, *args, *bins, samples)
        np.testing.assert_allclose(got, align(x, rois, bins, 0.5, samples, True, True), limit, limit)
        assert (
            channel.dtype is fb.int32
            and channel.shape == got.shape
            and (not count or channel[-1].flatten().tolist() == [*range(channels)])
        )
        got, places = run(vision.roi_pool, *args, *bins)
        np.testing.assert_allclose(got, pool(x, rois, bins, 0.5, False), limit, limit)
        for k, c, i, j in np.ndindex(*got.shape):
            at = int(places[k, c, i, j])
            assert got[k, c, i, j] == (0 if at < 0 else x[int(rois[k, 0]), c].flat[at])
        np.testing.assert_allclose(run(vision.ps_roi_pool, *args, *bins)[0], pool(x, rois, bins, 0.5, True), limit, limit)


def test_gradients():
    rng = np.random.default_rng(0)
    x = fb.tensor(rng.standard_normal((2, 8, 6, 6)), requires_grad=True)
    rois = fb.tensor([[0, 0.3, 0.2, 3.1, 4.7], [1, 1, 1, 9, 9], [0, 2, 2, 3.4, 5.2]], dtype=fb.float64)
    for f in (
        lambda x: vision.roi_align(x, rois, 1.0, 2, 2, -1, False),
        lambda x: vision.roi_pool(x, rois, 1.0, 2, 2)[0],
        lambda x: vision.ps_roi_align(x, rois, 1.0, 2, 2, 2)[0],
        lambda x: vision.ps_roi_pool(x, rois, 1.0, 2, 2)[0],
    ):
        assert fb.autograd.gradcheck(f, (x,))
    weight, offset = fb.tensor(rng.standard_normal((2, 4, 2, 3))), fb.tensor(rng.standard_normal((2, 2 * 2 * 6, 3, 6)))
    mask, bias = fb.tensor(rng.random((2, 2 * 6, 3, 6))), fb.tensor(rng.standard_normal(2))
    image = fb.tensor(rng.standard_normal((2, 4, 5, 6)))
    leaves = [t.requires_grad_() for t in (image, weight, offset, mask, bias)]
    numbers = (1, 1, 0, 1, 2, 1, 1, 2, True)
    assert fb.autograd.gradcheck(lambda *args: vision.deform_conv2d(*args, *numbers), leaves)
    out = vision.deform_conv2d(*leaves, *numbers)
    g = fb.randn(out.shape, dtype=fb.float64)
    for mine, asked in zip(fb.autograd.grad(out, leaves, g), vision._deform_conv2d_backward(g, *leaves, *numbers)):
        assert fb.allclose(mine, asked)
    compiled = fb.compile(lambda *args: vision.deform_conv2d(*args, *numbers), fullgraph=True)
    for mine, other in zip(
        fb.autograd.grad(compiled(*leaves), leaves, g), fb.autograd.grad(vision.deform_conv2d(*leaves, *numbers), leaves, g)
    ):
        assert fb.allclose(mine, other)


@pytest.mark.parametrize("groups, offset_groups, masked", [(1, 1, False), (2, 4, True), (4, 2, True)])
def test_moved_taps_that_do_not_move_are_a_convolution(groups, offset_groups, masked):
    """And moved by whole pixels they are the convolution of a moved image."""
    x, weight, bias = fb.randn(2, 8, 9, 7), fb.randn(4, 8 // groups, 3, 2), fb.randn(4)
    sizes = fb.nn.functional.conv2d(x, weight, bias, (2, 1), (1, 0), (1, 2), groups).shape[2:]
    mask = fb.ones(2, offset_groups * 6, *sizes) if masked else fb.zeros(2, 1)
    numbers = (2, 1, 1, 0, 1, 2, groups, offset_groups, masked)
    offset = fb.zeros(2, offset_groups * 12, *sizes)
    want = fb.nn.functional.conv2d(x, weight, bias, (2, 1), (1, 0), (1, 2), groups)
    assert fb.allclose(vision.deform_conv2d(x, weight, offset, mask, bias, *numbers), want, atol=1e-5)
    offset[:, ::2], offset[:, 1::2] = 2, -1
    moved = fb.nn.functional.pad(x, (1, 0, 0, 2))[:, :, 2:, :-1]
    want = fb.nn.functional.conv2d(moved, weight, bias, (2, 1), (1, 0), (1, 2), groups)
    got = vision.deform_conv2d(x, weight, offset, mask, bias, *numbers)
    assert fb.allclose(got[:, :, 1:], want[:, :, 1:], atol=1e-5)  # (the first row reads what padding was)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("compiled", [False, True])
def test_suppression(dtype, compiled):
    rng = np.random.default_rng(0)
    run = functools.partial(whole, vision.nms) if compiled else vision.nms
    for count in (0, 1, 40):
        b = fb.tensor(boxes(rng, max(count, 3), 90, 90, 1)[:count, 1:]).to(dtype)
        scores = fb.tensor(np.round(rng.random(count), 1)).to(dtype)  # (some are equal: the first one stays)
        for threshold in (0.0, 0.1, 0.5, 1.0):
            assert run(b, scores, threshold).tolist() == suppressed(b.numpy(), scores.numpy(), threshold)


def suppressed(b, scores, threshold):
    area, kept, gone = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]), [], set()
    order = np.argsort(-scores, kind="stable").tolist()
    for at, i in enumerate(order):
        if i in gone:
            continue
        kept.append(i)
        for j in order[at + 1 :]:
            sides = np.minimum(b[i, 2:], b[j, 2:]) - np.maximum(b[i, :2], b[j, :2])
            both = np.maximum(sides, 0).prod()
            with np.errstate(all="ignore"):
                if float(both / (area[i] + area[j] - both)) > threshold:
                    gone.add(j)
    return kept


def test_types_and_autocast():
    x, rois = fb.randn(1, 3, 6, 6), fb.tensor([[0.0, 1, 1, 4, 5]])
    want = vision.roi_align(x, rois, 1.0, 2, 2, 2, False)
    for dtype in (fb.float16, fb.bfloat16):
        got = vision.roi_align(x.to(dtype), rois.to(dtype), 1.0, 2, 2, 2, False)
        assert got.dtype is dtype and fb.allclose(got.float(), want, atol=2e-2)
        with fb.autocast("cpu", dtype=dtype if dtype is fb.bfloat16 else fb.float16):
            got = vision.roi_align(x.to(dtype), rois, 1.0, 2, 2, 2, False)
            assert got.dtype is dtype and vision.nms(rois[:, 1:].to(dtype), fb.ones(1), 0.5).tolist() == [0]
    with pytest.raises(RuntimeError, match="same type as tensor for rois"):
        vision.roi_align(x.double(), rois, 1.0, 2, 2, 2, False)


def test_errors_name_what_is_wrong():
    x = fb.randn(1, 8, 6, 6)
    for call, text in (
        (lambda: vision.roi_align(x, fb.tensor([[3.0, 0, 0, 1, 1]]), 1.0, 2, 2, 2, False), "roi_align.*of image 3.*has 1 images"),
        (lambda: vision.roi_pool(x, fb.tensor([[0, float("nan"), 0, 1, 1]]), 1.0, 2, 2), "roi_pool.*not finite"),
        (lambda: vision.roi_align(x, fb.ones(1, 4), 1.0, 2, 2, 2, False), r"Tensor\[K, 5\]"),
        (lambda: vision.ps_roi_pool(x, fb.zeros(1, 5), 1.0, 3, 1), "must be a multiple of pooling"),
        (lambda: vision.nms(fb.rand(4), fb.rand(3), 0.5), "boxes should be a 2d tensor, got 1D"),
        (lambda: vision.nms(fb.rand(3, 4), fb.rand(4), 0.5), "same number of elements in dimension 0, got 3 and 4"),
        (lambda: deform(x, fb.zeros(1, 16, 5, 5)), r"offset.shape\[1\] is not valid: got: 16 expected: 8"),
        (lambda: deform(x, fb.zeros(1, 8, 4, 5)), r"offset output dims: \(4, 5\) - computed output dims: \(5, 5\)"),
        (lambda: vision.qnms(x, x, 0.5), "qnms does not exist"),
        (
            lambda: vision._roi_align_backward(x[:, :1, :2, :2], fb.zeros(1, 5), 1.0, 2, 2, 1, 8, 6, 6, 2, False),
            r"roi_align_backward.*over \(1, 8, 6, 6\) is \(1, 8, 2, 2\), got \(1, 1, 2, 2\)",
        ),
        (
            lambda: vision._ps_roi_pool_backward(x[:, :1, :2, :2], fb.zeros(1, 5), None, 1.0, 2, 2, 1, 8, 6, 6),
            r"ps_roi_pool_backward.*got \(1, 1, 2, 2\)",
        ),
        (lambda: fb.ops.load_library("torchvision/image.so"), "cannot be loaded"),
    ):
        with pytest.raises((RuntimeError, OSError), match=text):
            call()


def deform(x, offset):
    return vision.deform_conv2d(x, fb.ones(2, 8, 2, 2), offset, fb.zeros(1, 1), fb.zeros(2), 1, 1, 0, 0, 1, 1, 1, 1, False)
