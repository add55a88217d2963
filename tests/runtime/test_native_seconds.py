"""`native_seconds` counts what generated code and the runtime's kernels take, once each, whoever calls them."""

import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.runtime import native, toolchain

rng = np.random.default_rng(0)
large = torch.from_numpy(rng.standard_normal((256, 256)).astype(np.float32))


def counted(f):
    """Seconds counted while `f` runs, and seconds that it took."""
    f()
    before, start = native.native_seconds(), time.perf_counter()
    f()
    return native.native_seconds() - before, time.perf_counter() - start


@pytest.mark.parametrize(
    "f",
    [
        lambda: large @ large,
        lambda: torch.nn.functional.linear(large, large),
        lambda: torch.nn.functional.layer_norm(large, (256,)),
        lambda: torch.nn.functional.conv2d(large.view(1, 4, 128, 128), large[:36, :1].reshape(1, 4, 3, 3)),
    ],
    ids=["product", "linear", "job", "convolution"],
)
def test_kernels_that_eager_calls_are_counted(f):
    native_part, whole = counted(f)
    assert 0 < native_part <= whole


@pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
def test_kernels_in_compiled_calls_are_counted_once():
    f = torch.compile(lambda x: torch.softmax(x @ x, -1).sort()[0] + torch.linalg.matrix_exp(x * 0.01))
    native_part, whole = counted(lambda: f(large))
    assert 0 < native_part <= whole


@pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
def test_short_calls_are_all_counted_though_not_all_are_timed():
    f, x = torch.compile(lambda x: x + 1), torch.ones(4)
    before = native.native_seconds()
    for _ in range(500):
        f(x)
    (graph,) = torch.compiler.report(f).graphs
    assert graph.programs[0].calls == 500 and graph.programs[0].seconds > 0
    assert native.native_seconds() - before >= graph.programs[0].seconds > 100e-9
