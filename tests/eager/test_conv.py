"""Convolutions against their definition in plain loops, their errors, memory orders, modules and lazy modules."""

import copy
import itertools

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.runtime import native


def direct(x, w, b, stride, padding, dilation, groups):
    """The sum over channels and taps, one tap at a time, in float64."""
    n, kernel = x.ndim - 2, w.shape[2:]
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    made, taken = w.shape[0] // groups, w.shape[1]
    for g, tap in itertools.product(range(groups), itertools.product(*map(range, kernel))):
        at = tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, sizes, stride))
        part = x[(slice(None), slice(g * taken, (g + 1) * taken), *at)]
        weight = w[(slice(g * made, (g + 1) * made), slice(None), *tap)].astype(np.float64)
        out[:, g * made : (g + 1) * made] += np.einsum("oc,nc...->no...", weight, part)
    return out if b is None else out + b.reshape(-1, *(1,) * n)


CASES = [  # sizes of x, weight, stride, padding, dilation, groups
    ((2, 3, 19, 23), (8, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 16, 7, 7), (40, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 30, 30), (16, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    ((2, 64, 4, 4), (96, 64, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((2, 12, 20, 37), (12, 1, 3, 3), (1, 1), (1, 1), (1, 1), 12),
    ((2, 12, 21, 20), (24, 1, 5, 3), (2, 1), (2, 1), (1, 2), 12),
    ((2, 16, 9, 40), (12, 4, 3, 3), (1, 3), (0, 2), (2, 1), 4),
    ((2, 24, 12, 12), (3, 24, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 5, 70), (9, 5, 4), (3,), (2,), (2,), 1),
    ((1, 4, 6, 7, 8), (10, 2, 2, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 2), 2),
    ((1, 600, 5, 5), (7, 600, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    # steps whose phases are taken apart, with positions that some phases lack
    ((3, 8, 13, 15), (24, 8, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((2, 6, 17, 14), (16, 6, 3, 2), (3, 2), (2, 1), (2, 3), 1),
    ((2, 4, 7, 9, 11), (16, 4, 3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    ((2, 5, 41), (24, 5, 5), (4,), (2,), (1,), 1),
    ((8, 6, 36, 35), (20, 6, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((2, 8, 9, 9), (24, 4, 2, 2), (3, 3), (0, 0), (1, 1), 2),
    # few channels of the input: its gradient adds up products
    ((4, 1, 28, 28), (32, 1, 4, 4), (2, 2), (1, 1), (1, 1), 1),
    ((5, 4, 9, 11), (16, 2, 3, 3), (2, 1), (1, 0), (1, 2), 2),
    ((4, 2, 5, 6, 7), (9, 2, 2, 2, 2), (1, 2, 1), (1, 0, 1), (2, 1, 1), 1),
    ((4, 9, 11, 14), (5, 9, 3, 4), (3, 2), (2, 1), (1, 2), 1),
    ((4, 10, 3, 5, 13), (4, 10, 1, 2, 3), (1, 1, 3), (0, 1, 2), (1, 1, 1), 1),
    # depthwise: planes narrower than a register, steps whose phases have planes of their own, bands, blocks of planes, one dim
    ((3, 70, 6, 6), (70, 1, 3, 3), (1, 1), (1, 1), (1, 1), 70),
    ((2, 33, 13, 12), (33, 1, 5, 3), (2, 2), (2, 1), (1, 1), 33),
    ((2, 5, 90, 95), (5, 1, 3, 5), (1, 2), (4, 0), (3, 1), 5),
    ((1, 9, 75, 64), (9, 1, 4, 2), (3, 3), (0, 1), (2, 5), 9),
    ((4, 40, 3, 3), (40, 1, 3, 3), (1, 1), (0, 0), (1, 1), 40),
    ((4, 40, 2, 1), (40, 1, 3, 3), (2, 1), (1, 1), (1, 1), 40),
    ((2, 6, 301), (6, 1, 4), (1,), (3,), (1,), 6),
    ((2, 3, 2, 6, 9), (3, 1, 2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 3),
    # ... of one image whose taps in front of it and behind meet nothing, which transposed ones have as phases
    ((2, 3, 1, 6, 9), (3, 1, 3, 3, 3), (2, 1, 1), (1, 1, 1), (1, 1, 1), 3),
    ((3, 3, 2, 6, 6), (3, 1, 4, 2, 3), (3, 3, 2), (3, 2, 1), (2, 1, 2), 3),
    # windows of few terms, which lie a row in a register: several blocks of channels, tiles and bands
    ((3, 1, 45, 61), (11, 1, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 50, 30), (7, 3, 4, 4), (2, 2), (1, 1), (1, 1), 1),
    ((2, 2, 2200), (6, 1, 9), (2,), (4,), (1,), 2),
    ((2, 2, 4, 9, 16), (6, 2, 1, 3, 3), (2, 1, 1), (0, 1, 2), (1, 2, 1), 1),
    # few channels made of many, whose parts overlap
    ((3, 37, 13, 29), (1, 37, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((2, 90, 12, 47), (3, 90, 3, 3), (1, 2), (1, 0), (1, 1), 1),
]
TOLERANCE = {"float64": 1e-10, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}


def arrays(case, seed=0):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal(case[0]), rng.standard_normal(case[1]) / np.sqrt(np.prod(case[1][1:]))
    return x, w, rng.standard_normal(case[1][0])


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values_of_every_kernel(dtype, isa):
    before = native.isa()
    native._native.set_isa(isa)
    try:
        for case in CASES:
            x, w, b = (flambeau.tensor(a, dtype=getattr(flambeau, dtype)) for a in arrays(case))
            out = getattr(F, f"conv{len(case[2])}d")(x, w, b, *case[2:])
            wanted = direct(*(t.double().numpy() for t in (x, w, b)), *case[2:])
            assert out.dtype is x.dtype
            np.testing.assert_allclose(out.double().numpy(), wanted, rtol=0, atol=TOLERANCE[dtype], err_msg=str(case))
    finally:
        native._native.set_isa(before)


def test_gradients_are_adjoint():
    """<g, conv(x, w)> = <grad x, x> = <grad w, w>: a convolution is linear in both."""
    for case in CASES:
        x, w, _ = (flambeau.tensor(a).requires_grad_() for a in arrays(case))
        out = getattr(F, f"conv{len(case[2])}d")(x, w, None, *case[2:])
        g = flambeau.tensor(np.random.default_rng(1).standard_normal(tuple(out.shape)))
        by_x, by_w = flambeau.autograd.grad(out, (x, w), g)
        total = (g * out).sum().item()
        assert (by_x * x).sum().item() == pytest.approx(total, rel=1e-9)
        assert (by_w * w).sum().item() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_of_every_kernel(dtype, isa):
    """Against those in float64, which the tests beside this one hold to the definition."""

    def gradients(x, w, g, case):
        x, w = x.requires_grad_(), w.requires_grad_()
        return flambeau.autograd.grad(getattr(F, f"conv{len(case[2])}d")(x, w, None, *case[2:]), (x, w), g)

    before = native.isa()
    native._native.set_isa(isa)
    try:
        for case in CASES:
            x, w, b = (flambeau.tensor(a, dtype=getattr(flambeau, dtype)) for a in arrays(case))
            g = flambeau.randn(getattr(F, f"conv{len(case[2])}d")(x, w, b, *case[2:]).shape).to(x.dtype)
            exact = gradients(x.double(), w.double(), g.double(), case)
            for found, wanted in zip(gradients(x, w, g, case), exact):
                bound = TOLERANCE[dtype] * max(1.0, wanted.abs().max().item())
                np.testing.assert_allclose(found.double().numpy(), wanted.numpy(), rtol=0, atol=bound, err_msg=str(case))
    finally:
        native._native.set_isa(before)


def test_transposed_is_the_adjoint():
    for case in CASES:
        x, w, _ = arrays(case)
        x, w = flambeau.tensor(x).requires_grad_(), flambeau.tensor(w)
        n, sizes = len(case[2]), case[0][2:]
        out = getattr(F, f"conv{n}d")(x, w, None, *case[2:])
        g = flambeau.tensor(np.random.default_rng(1).standard_normal(tuple(out.shape)))
        (wanted,) = flambeau.autograd.grad(out, x, g)
        extra = [
            m - ((k - 1) * s - 2 * p + d * (t - 1) + 1)
            for m, k, s, p, d, t in zip(sizes, out.shape[2:], case[2], case[3], case[4], case[1][2:])
        ]
        actual = getattr(F, f"conv_transpose{n}d")(g, w, None, case[2], case[3], extra, case[5], case[4])
        np.testing.assert_allclose(actual.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-10)


def test_an_infinity_at_the_edge_stays_where_it_belongs():
    x = flambeau.zeros(1, 2, 5, 18)
    x[0, 0, 2, 17] = float("inf")
    w = flambeau.ones(2, 1, 1, 3).requires_grad_()
    y = F.conv2d(x, w, padding=(0, 1), groups=2)
    assert y[0, 0, 2, 15].item() == 0 and y[0, 0, 2, 16].item() == float("inf")
    y[0, 0, :, :15].sum().backward()
    assert w.grad.flatten().tolist()[3:] == [0, 0, 0]

    for made in (1, 2, 6):  # the last tap never meets the first column of a row
        x, w = flambeau.ones(1, 1, 3, 34), flambeau.ones(made, 1, 1, 3).requires_grad_()
        x[0, 0, 2, 0] = float("inf")
        F.conv2d(x, w, padding=(0, 1)).sum().backward()
        assert w.grad.flatten().tolist() == [float("inf"), float("inf"), 99] * made


def test_channels_last_in_gives_channels_last_out():
    x, w = flambeau.randn(2, 3, 6, 5), flambeau.randn(4, 3, 3, 3)
    wanted = F.conv2d(x, w)
    last = F.conv2d(x.to(memory_format=flambeau.channels_last), w)
    assert last.stride() == (48, 1, 12, 4)
    assert F.conv2d(x, w.to(memory_format=flambeau.channels_last)).stride() == (48, 1, 12, 4)
    assert wanted.stride() == (48, 12, 3, 1)
    assert flambeau.allclose(last, wanted, atol=1e-5)
    x, w = flambeau.randn(2, 8, 9, 11), flambeau.randn(16, 8, 3, 3)
    last = F.conv2d(x.to(memory_format=flambeau.channels_last), w, stride=2, padding=1)
    assert flambeau.allclose(last, F.conv2d(x, w, stride=2, padding=1), atol=1e-4)


def test_same_padding_and_unbatched():
    x, w = flambeau.randn(3, 9), flambeau.randn(2, 3, 4)
    with pytest.warns(UserWarning, match="even kernel"):
        out = F.conv1d(x, w, padding="same")
    assert out.shape == (2, 9)
    assert flambeau.allclose(out, F.conv1d(F.pad(x, (1, 2)), w), atol=1e-5)
    assert F.conv1d(x, w, padding="valid").shape == (2, 6)
    assert F.conv2d(flambeau.randn(0, 3, 8, 8), flambeau.randn(4, 3, 3, 3), flambeau.randn(4)).shape == (0, 4, 6, 6)


X, W = (1, 3, 8, 8), (4, 3, 3, 3)
ERRORS = [
    (X, (4, 4, 3, 3), {}, r"expected input\[1, 3, 8, 8\] to have 4 channels, but got 3 channels instead"),
    ((3, 8), W, {}, r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got input of size: \[3, 8\]"),
    ((1, 3, 2, 2), W, {}, r"Calculated padded input size per channel: \(2 x 2\). Kernel size: \(3 x 3\)"),
    (X, (4, 1, 3, 3), {"groups": 3}, "divisible by 3 at dimension 0"),
    (X, W, {"stride": 0}, "non-positive stride"),
    (X, W, {"padding": -1}, "negative padding"),
    (X, W, {"dilation": 0}, "dilation should be greater than zero"),
    (X, W, {"stride": (1, 1, 1)}, r"list of 2 values to match the convolution dimensions, but got stride=\[1, 1, 1\]"),
    (X, W, {"stride": 2, "padding": "same"}, "not supported for strided"),
    (X, W, {"padding": "foo"}, "Invalid padding string"),
    (X, W, {"bias": flambeau.zeros(3)}, r"expected bias to be 1-dimensional with 4 elements, but got bias of size \[3\]"),
    (X, W, {"bias": flambeau.zeros(4).double()}, r"Input type \(float\) and bias type \(double\)"),
]


@pytest.mark.parametrize("x, w, kw, text", ERRORS, ids=lambda v: v if isinstance(v, str) else "")
def test_errors(x, w, kw, text):
    with pytest.raises(RuntimeError, match=text):
        F.conv2d(flambeau.zeros(x), flambeau.zeros(w), **kw)


def test_errors_of_transposed():
    x, w = flambeau.zeros(1, 3, 8, 8), flambeau.zeros(3, 4, 3, 3)
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        F.conv_transpose2d(x, w, output_padding=1)
    with pytest.raises(RuntimeError, match=r"Calculated output size per channel: \(-6 x -6\)"):
        F.conv_transpose2d(x, w, padding=8)
    with pytest.raises(TypeError, match="must be tuple of ints, not str"):
        F.conv_transpose2d(x, w, padding="same")


def test_modules():
    assert str(nn.Conv2d(4, 6, (3, 5), stride=2, padding=1, dilation=2, groups=2, bias=False, padding_mode="circular")) == (
        "Conv2d(4, 6, kernel_size=(3, 5), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, bias=False, "
        "padding_mode=circular)"
    )
    m = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1)
    assert m.weight.shape == (4, 6, 3, 3) and m(flambeau.zeros(1, 4, 5, 5), output_size=[10, 9]).shape == (1, 6, 10, 9)
    with pytest.raises(ValueError, match="valid sizes range from"):
        m(flambeau.zeros(1, 4, 5, 5), output_size=[12, 9])
    for wrong in ({"groups": 2}, {"padding_mode": "foo"}, {"padding": "same", "stride": 2}):
        with pytest.raises(ValueError):
            nn.Conv2d(3, 4, 3, **wrong)
    bound = 1 / np.sqrt(3 * 9)
    drawn = nn.Conv2d(3, 64, 3)
    assert 0.9 * bound < drawn.weight.abs().max().item() <= bound and drawn.bias.abs().max().item() <= bound


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_padding_modes(mode):
    m = nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode)
    x = flambeau.randn(1, 2, 5, 6)
    name = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}[mode]
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (2, 2)), name)
    assert flambeau.allclose(m(x), F.conv2d(flambeau.tensor(padded), m.weight, m.bias), atol=1e-5)


def test_lazy_modules():
    m = nn.LazyConv2d(4, 3, bias=True)
    assert repr(m.weight) == "<UninitializedParameter>" and m.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        m.weight.shape
    assert isinstance(copy.deepcopy(m).weight, nn.UninitializedParameter)
    assert m(flambeau.zeros(2, 3, 8, 8)).shape == (2, 4, 6, 6)
    assert type(m) is nn.Conv2d and type(m.weight) is nn.Parameter and m.in_channels == 3 and m.weight.abs().sum() > 0
    loaded = nn.LazyConvTranspose1d(4, 3, stride=2)
    loaded.load_state_dict(nn.ConvTranspose1d(2, 4, 3).state_dict())
    assert loaded.weight.shape == (2, 4, 3) and loaded(flambeau.zeros(2, 5)).shape == (4, 11)


SQUARES = [  # sizes of x, channels made, padding
    ((2, 37, 19, 23), 50, (1, 1)),
    ((3, 32, 12, 70), 33, (0, 2)),
    ((1, 48, 31, 17), 96, (2, 0)),
    ((9, 40, 8, 8), 32, (1, 1)),
]


@pytest.mark.parametrize("isa", native.isas())
def test_squares_of_results(isa):
    """3x3 taps over many windows are computed in squares of 2x2 results: forward, the gradient of x, odd sizes."""
    before = native.isa()
    native._native.set_isa(isa)
    try:
        for shape, made, padding in SQUARES:
            case = (shape, (made, shape[1], 3, 3), (1, 1), padding, (1, 1), 1)
            x, w, b = (flambeau.tensor(a, dtype=flambeau.float32) for a in arrays(case))
            x = flambeau.nn.functional.pad(x, (3, 2))[..., 3:-2].requires_grad_()  # rows of x are apart
            out = F.conv2d(x, w, b, *case[2:])
            np.testing.assert_allclose(
                out.detach().numpy(),
                direct(*(t.detach().double().numpy() for t in (x, w, b)), *case[2:]),
                rtol=0,
                atol=4e-6,
                err_msg=str(case),
            )
            g = flambeau.tensor(np.random.default_rng(1).standard_normal(tuple(out.shape)), dtype=flambeau.float32)
            (by_x,) = flambeau.autograd.grad(out, x, g)
            exact = F.conv_transpose2d(g.double(), w.double(), None, 1, padding)
            np.testing.assert_allclose(by_x.numpy(), exact.numpy(), rtol=0, atol=8e-6, err_msg=str(case))
    finally:
        native._native.set_isa(before)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 3e38])
def test_squares_do_not_spread_what_is_not_finite(value):
    """An output that no window of the odd number meets is what it is without it."""
    x, w = flambeau.randn(1, 32, 40, 40), flambeau.rand(32, 32, 3, 3) + 0.1
    wanted = F.conv2d(x, w, padding=1)
    x[0, 5, 10, 11] = value
    out = F.conv2d(x, w, padding=1)
    met = np.zeros((40, 40), bool)
    met[9:12, 10:13] = True
    np.testing.assert_allclose(out.numpy()[..., ~met], wanted.numpy()[..., ~met], rtol=0, atol=1e-4)
    assert (np.abs(out.numpy()[..., met]) > 1e36).all() if value == value else np.isnan(out.numpy()[..., met]).all()


SEGMENTS = [  # sizes of x, channels made, kernel, steps, padding
    ((64, 17, 8, 14), 20, (4, 4), (2, 2), (1, 1)),
    ((112, 16, 9, 12), 50, (4, 4), (2, 2), (0, 2)),
    ((52, 18, 11, 13), 17, (2, 2), (1, 1), (1, 0)),
    ((64, 16, 13, 8), 16, (4, 2), (2, 1), (3, 1)),
    ((64, 33, 8, 10), 18, (4, 4), (2, 2), (3, 1)),  # more terms than one part of a sum takes
]


@pytest.mark.parametrize("isa", native.isas())
def test_segments_of_results(isa):
    """Two taps per phase over many images are computed in segments of three and two: forward and both gradients."""
    before = native.isa()
    native._native.set_isa(isa)
    try:
        for shape, made, kernel, step, padding in SEGMENTS:
            case = (shape, (made, shape[1], *kernel), step, padding, (1, 1), 1)
            x, w, b = (flambeau.tensor(a, dtype=flambeau.float32) for a in arrays(case))
            x, w = F.pad(x, (3, 2))[..., 3:-2].requires_grad_(), w.requires_grad_()  # rows of x are apart
            out = F.conv2d(x, w, b, *case[2:])
            np.testing.assert_allclose(
                out.detach().numpy(),
                direct(*(t.detach().double().numpy() for t in (x, w, b)), *case[2:]),
                rtol=0,
                atol=5e-6,
                err_msg=str(case),
            )
            g = flambeau.tensor(np.random.default_rng(1).standard_normal(tuple(out.shape)), dtype=flambeau.float32)
            got = flambeau.autograd.grad(out, (x, w), g)
            wide = [t.detach().double().requires_grad_() for t in (x, w)]
            exact = flambeau.autograd.grad(F.conv2d(*wide, None, *case[2:]), wide, g.double())
            for mine, right in zip(got, exact, strict=True):
                np.testing.assert_allclose(
                    mine.numpy(), right.numpy(), rtol=0, atol=2e-6 * float(right.abs().max()), err_msg=str(case)
                )
    finally:
        native._native.set_isa(before)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 3e38])
def test_segments_do_not_spread_what_is_not_finite(value):
    """Results that no window of the odd number meets, and weights' gradients of other channels, are what they are without it."""
    x, w = flambeau.randn(64, 16, 16, 16), flambeau.rand(16, 16, 4, 4) + 0.1
    wanted = F.conv2d(x, w, stride=2, padding=1), F.conv_transpose2d(x, w, stride=2, padding=1)
    x[3, 5, 8, 9] = value
    got = F.conv2d(x, w, stride=2, padding=1), F.conv_transpose2d(x, w, stride=2, padding=1)
    for out, plain, rows, columns in zip(got, wanted, (slice(3, 5), slice(15, 19)), (slice(4, 6), slice(17, 21)), strict=True):
        met = np.zeros(tuple(out.shape), bool)
        met[3, :, rows, columns] = True
        np.testing.assert_allclose(out.numpy()[~met], plain.numpy()[~met], rtol=0, atol=1e-4)
        assert (np.abs(out.numpy()[met]) > 1e36).all() if value == value else np.isnan(out.numpy()[met]).all()
    w.requires_grad_()
    (gradient,) = flambeau.autograd.grad(F.conv2d(x, w, stride=2, padding=1).sum(), w)
    met = np.zeros(tuple(w.shape), bool)
    met[:, 5] = True
    assert np.isfinite(gradient.numpy()[~met]).all()


PIXELS = [  # images, channels, channels made, pixels along a side, step
    (8, 64, 66, 1, 1),
    (9, 66, 64, 2, 1),
    (5, 70, 65, 2, 2),
    (8, 97, 64, 4, 2),
    (7, 64, 98, 4, 1),
    (40, 64, 64, 2, 1),
    (30, 64, 67, 4, 1),
]


@pytest.mark.parametrize("isa", native.isas())
def test_images_of_few_pixels(isa):
    """Images of up to 4x4 pixels, side by side in registers: forward, both gradients, channels last, the transposed convolution."""
    before = native.isa()
    native._native.set_isa(isa)
    try:
        for n, c, o, side, step in PIXELS:
            case = ((n, c, side, side), (o, c, 3, 3), (step, step), (1, 1), (1, 1), 1)
            x, w, b = (flambeau.tensor(a, dtype=flambeau.float32, requires_grad=True) for a in arrays(case))
            wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
            for form in (flambeau.contiguous_format, flambeau.channels_last):
                out = F.conv2d(x.to(memory_format=form), w, b, step, 1)
                np.testing.assert_allclose(
                    out.detach().numpy(),
                    direct(*(t.detach().numpy() for t in wide), *case[2:]),
                    rtol=0,
                    atol=5e-6,
                    err_msg=str(case),
                )
                g = flambeau.tensor(np.random.default_rng(1).standard_normal(tuple(out.shape)), dtype=flambeau.float32)
                exact = flambeau.autograd.grad(F.conv2d(*wide, step, 1), wide, g.double())
                for mine, right in zip(flambeau.autograd.grad(out, (x, w, b), g), exact, strict=True):
                    np.testing.assert_allclose(
                        mine.numpy(), right.numpy(), rtol=0, atol=2e-6 * float(right.abs().max()), err_msg=str(case)
                    )
    finally:
        native._native.set_isa(before)


def drawn_depthwise(rng):
    """Sizes of x, weight, stride, padding and dilation of a depthwise convolution that has windows."""
    while True:
        n = rng.integers(1, 4)
        kernel, stride, dilation = (tuple(int(v) for v in rng.integers(1, most + 1, n)) for most in (5, 3, 3))
        sizes = tuple(int(v) for v in rng.integers(1, rng.choice([8, 40, 130]), min(n, 2)))
        sizes = (int(rng.integers(1, 3)), *sizes)[-n:]
        padding = tuple(int(v) for v in rng.integers(0, 5, n))
        if all(m + 2 * p >= d * (k - 1) + 1 for m, p, d, k in zip(sizes, padding, dilation, kernel)):
            channels = int(rng.choice([2, 3, 17, 70]))
            made = channels * int(rng.choice([1, 1, 2, 3]))
            return (int(rng.integers(1, 4)), channels, *sizes), (made, 1, *kernel), stride, padding, dilation, channels


@pytest.mark.parametrize("isa", native.isas())
def test_drawn_depthwise(isa):
    """One to three results per channel, eagerly and with the tiles handed to what follows."""
    convolve = (F.conv1d, F.conv2d, F.conv3d)
    follow = flambeau.compile(lambda f, x, w, b, *a: F.relu6(f(x, w, b, *a) * 2 + 1), dynamic=False)
    rng = np.random.default_rng(11)
    before = native.isa()
    native._native.set_isa(isa)
    try:
        for _ in range(60):
            sizes, weight, stride, padding, dilation, groups = drawn_depthwise(rng)
            x, w, b = (rng.standard_normal(s).astype(np.float32) for s in (sizes, weight, weight[:1]))
            want = direct(x, w, b, stride, padding, dilation, groups)
            function = convolve[len(stride) - 1]
            tensors = [flambeau.tensor(v) for v in (x, w, b)]
            if rng.random() < 0.3:
                tensors[0] = tensors[0].transpose(-1, -2).contiguous().transpose(-1, -2)
            got = function(*tensors, stride, padding, dilation, groups)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
            if rng.random() < 0.2:
                flambeau.compiler.reset()
                got = follow(function, *tensors, stride, padding, dilation, groups)
                np.testing.assert_allclose(got.numpy(), np.clip(want * 2 + 1, 0, 6), rtol=1e-4, atol=1e-4)
    finally:
        native._native.set_isa(before)
