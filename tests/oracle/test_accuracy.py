"""Rounding errors of float32 kernels: each result of a layer is, on average over draws, no further from float64 than PyTorch's.

An error is the root mean square of the differences in units of 2**-24 of the result's root mean square. Networks that
amplify last digits (batch norm over few values) show a kernel's lost digit as a wrong gradient many layers later.
"""

import numpy as np
import pytest

import flambeau as fb

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


SHAPES = [(2, 24, 16, 16), (2, 16, 4, 4), (4, 32, 2, 2), (2, 48, 8, 8)]


def batch_norm(F, x, w, b):
    return F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)


def group_norm(F, x, w, b):
    return F.group_norm(x, 4, w, b, 1e-5)


def convolution(F, x, w, b):
    return F.conv2d(x, w, b, 1, 1)


# the layer and the shape of its weight for so many channels
LAYERS = [(batch_norm, lambda c: (c,)), (group_norm, lambda c: (c,)), (convolution, lambda c: (c, c, 3, 3))]
LIMITS = {"out": 1.1, "gradient of x": 1.15, "gradient of the weight": 1.25}  # few numbers, so a larger spread


def drawn(weight, offset):
    """Inputs of every shape, with the channels' means up to `offset` deviations from zero."""
    random = np.random.default_rng(0)
    for shape in SHAPES * 2:
        c = shape[1]
        x = random.standard_normal(shape) + offset * random.standard_normal((1, c, 1, 1))
        yield [a.astype(np.float32) for a in (x, random.standard_normal(weight(c)), random.standard_normal(c))]


def results(lib, layer, arrays, wide=False):
    """The output and the gradients of x and weight, for a loss with unequal slopes."""
    tensors = [lib.tensor(a.astype(np.float64) if wide else a).requires_grad_() for a in arrays]
    out = layer(lib.nn.functional, *tensors)
    slope = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(np.float32)
    gradients = lib.autograd.grad(out, tensors[:2], lib.tensor(slope.astype(np.float64) if wide else slope))
    return [t.detach().numpy() for t in (out, *gradients)]


def error(got, wanted):
    return np.sqrt(np.square(got - wanted).mean() / np.square(wanted).mean()) * 2**24


@pytest.mark.parametrize("offset", [0.3, 3.0])
@pytest.mark.parametrize(("layer", "weight"), LAYERS, ids=lambda v: getattr(v, "__name__", ""))
def test_errors_are_no_larger_than_pytorchs(layer, weight, offset):
    ratios = []
    for arrays in drawn(weight, offset):
        exact = results(torch, layer, arrays, wide=True)
        mine, theirs = (results(lib, layer, arrays) for lib in (fb, torch))
        ratios.append([error(a, e) / error(b, e) for a, b, e in zip(mine, theirs, exact, strict=True)])
    for (name, limit), ratio in zip(LIMITS.items(), np.exp(np.log(ratios).mean(0)), strict=True):
        assert ratio < limit, (name, ratio)


def test_errors_of_convolutions_in_squares():
    """Large enough that 3x3 windows are computed in squares of 2x2 results, forward and back to x."""
    random = np.random.default_rng(2)
    ratios = []
    for shape in [(1, 64, 24, 24), (2, 40, 15, 19)]:
        c = shape[1]
        arrays = [random.standard_normal(s).astype(np.float32) for s in (shape, (c, c, 3, 3), (c,))]
        exact = results(torch, convolution, arrays, wide=True)
        mine, theirs = (results(lib, convolution, arrays) for lib in (fb, torch))
        ratios.append([error(a, e) / error(b, e) for a, b, e in zip(mine, theirs, exact, strict=True)])
    for (name, limit), ratio in zip(LIMITS.items(), np.exp(np.log(ratios).mean(0)), strict=True):
        assert ratio < limit, (name, ratio)


def halving(F, x, w, b):
    return F.conv2d(x, w, b, 2, 1)


def test_errors_of_convolutions_in_segments():
    """Many images and two taps per phase: computed in segments of three and two results, forward and back."""
    random = np.random.default_rng(3)
    ratios = []
    for shape in [(64, 64, 10, 10), (64, 64, 16, 16)]:
        c = shape[1]
        arrays = [random.standard_normal(s).astype(np.float32) for s in (shape, (c, c, 4, 4), (c,))]
        exact = results(torch, halving, arrays, wide=True)
        mine, theirs = (results(lib, halving, arrays) for lib in (fb, torch))
        ratios.append([error(a, e) / error(b, e) for a, b, e in zip(mine, theirs, exact, strict=True)])
    for (name, limit), ratio in zip(LIMITS.items(), np.exp(np.log(ratios).mean(0)), strict=True):
        assert ratio < limit, (name, ratio)
