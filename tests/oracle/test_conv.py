"""Convolutions drawn at random, against PyTorch: values, gradients, memory order."""

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F

torch = pytest.importorskip("torch")

TOLERANCE = {"float32": 1e-4, "float64": 1e-10, "bfloat16": 5e-2, "float16": 1e-2}


def draw(r, channels, size):
    """Arguments of one valid call."""
    while True:
        n, transposed, groups = int(r.integers(1, 4)), bool(r.integers(2)), int(r.choice([1, 1, 1, 2, 3]))
        c, o = (groups * int(r.integers(1, channels + 1)) for _ in range(2))
        if r.random() < 0.2:
            groups, o = c, c * int(r.integers(1, 3))
        sizes, kernel, stride, dilation, padding = (
            tuple(map(int, r.integers(low, high, n))) for low, high in ((1, size if n < 3 else 8), (1, 5), (1, 4), (1, 3), (0, 4))
        )
        extra = tuple(int(r.integers(0, max(s, d))) if transposed else 0 for s, d in zip(stride, dilation))
        spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
        made = [
            (m - 1) * s - 2 * p + span + e if transposed else m + 2 * p - span + 1
            for m, s, p, span, e in zip(sizes, stride, padding, spans, extra)
        ]
        if min(made) >= 1:
            return n, transposed, (int(r.integers(1, 4)), c, *sizes), o, groups, kernel, stride, padding, dilation, extra


def run(lib, function, case, arrays, dtype, last):
    n, transposed, _, _, groups, _, stride, padding, dilation, extra = case
    x, *rest = (lib.tensor(a, dtype=getattr(lib, dtype)).requires_grad_() for a in arrays)
    given = x.to(memory_format=lib.channels_last) if last else x
    kw = {"output_padding": extra} if transposed else {}
    out = getattr(function, f"conv{'_transpose' * transposed}{n}d")(
        given, *rest, stride=stride, padding=padding, dilation=dilation, groups=groups, **kw
    )
    weights = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
    (out * lib.tensor(weights, dtype=out.dtype)).sum().backward()
    return [out.detach(), *(t.grad for t in (x, *rest))]


@pytest.mark.parametrize("seed, channels, size", [(1, 3, 9), (2, 3, 9), (3, 20, 30)])
def test_drawn_calls(seed, channels, size):
    r = np.random.default_rng(seed)
    for _ in range(60):
        case = draw(r, channels, size)
        n, transposed, shape, o, groups, kernel = case[:6]
        weight = (shape[1], o // groups, *kernel) if transposed else (o, shape[1] // groups, *kernel)
        arrays = [r.standard_normal(shape), r.standard_normal(weight)] + [r.standard_normal(o)] * bool(r.integers(2))
        dtype = str(r.choice(["float32"] * 4 + ["float64", "bfloat16", "float16"]))
        last = n == 2 and shape[1] > 1 and shape[2:] != (1, 1) and r.random() < 0.3
        ours = run(flambeau, F, case, arrays, dtype, last)
        theirs = run(torch, torch.nn.functional, case, arrays, dtype, last)
        for a, b in zip(ours, theirs, strict=True):
            assert tuple(a.shape) == tuple(b.shape), case
            scale = max(1.0, b.abs().max().item())
            np.testing.assert_allclose(
                a.double().numpy() / scale, b.double().numpy() / scale, rtol=0, atol=TOLERANCE[dtype], err_msg=f"{case} {dtype}"
            )
        strides = [[s for s, m in zip(t.stride(), t.shape) if m > 1] for t in (ours[0], theirs[0])]
        assert strides[0] == strides[1] or n != 2, (case, last)
