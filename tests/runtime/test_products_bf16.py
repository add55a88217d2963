"""Products of bfloat16 by the processor's instructions: each set that is there, and tiles of registers spelled in C++."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from flambeau.runtime import _native, native, toolchain

BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
SIZES = [
    (1, 1, 1),
    (5, 7, 3),
    (6, 64, 64),
    (13, 3, 70),
    (97, 130, 129),
    (2, 1100, 65),
    (3, 1025, 100),
    (130, 0, 5),
    (0, 3, 4),
    (33, 1100, 40),
    (16, 32, 32),
    (70, 96, 33),
    (30, 200, 300),
    (200, 31, 20),
]
LAYOUTS = [(a, b) for a in ("row", "column", "strided") for b in ("row", "column", "strided")]

SETS = [name for name in native.instructions() if name not in native.isas()]


@pytest.fixture(params=SETS)
def instructions(request):
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa("auto")


def matrix(rng, m, n, layout):
    if layout == "column":
        return rng.standard_normal((n, m)).astype(BF16).T
    if layout == "strided":
        return rng.standard_normal((2 * m, 3 * n)).astype(BF16)[::2, ::3]
    return rng.standard_normal((m, n)).astype(BF16)


def exact(a, b, bias=0.0):
    """The product in double, and the size of its largest sum of magnitudes."""
    a, b = a.astype(F32).astype(np.float64), b.astype(F32).astype(np.float64)
    return a @ b + bias, (np.abs(a) @ np.abs(b)).max(initial=1e-30) + np.abs(bias).max(initial=0)


def near(out, want, scale):
    assert np.abs(out.astype(np.float64) - want).max(initial=0) <= scale * (1e-6 if out.dtype == F32 else 4e-3)


def test_odd_sizes_and_strides(instructions):
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        for left, right in LAYOUTS:
            a, b = matrix(rng, m, k, left), matrix(rng, k, n, right)
            want = exact(a, b)
            for out in (np.full((m, n), 7, BF16), np.full((n, m), 7, BF16).T, np.full((m, 2 * n), 7, F32)[:, ::2]):
                native.matmul(a, b, out)
                near(out, *want)


def test_two_threads_and_batches(instructions):
    rng = np.random.default_rng(1)
    before = native.get_num_threads()
    native.set_num_threads(2)
    try:
        for heads, m, k, n in [(6, 70, 64, 90), (1, 500, 200, 300)]:
            a, b = rng.standard_normal((heads, m, k)).astype(BF16), rng.standard_normal((heads, n, k)).astype(BF16)
            out = np.empty((heads, m, n), BF16)
            native.matmul(a, b.swapaxes(-1, -2), out)
            for i in range(heads):
                near(out[i], *exact(a[i], b[i].T))
    finally:
        native.set_num_threads(before)


def test_nan_and_infinity(instructions):
    a, b = np.ones((20, 41), BF16), np.ones((41, 50), BF16)
    a[1, 40], b[7, 9] = np.nan, np.inf
    out = np.empty((20, 50), BF16)
    native.matmul(a, b, out)
    assert np.isnan(out[1].astype(F32)).all() and np.isinf(out[[0, 2], 9].astype(F32)).all()
    assert (out[0, :9].astype(F32) == 41).all()


def test_nothing_is_read_beyond_arrays(instructions, at_the_edge):
    """The last bytes of the operands are the last of a mapped page; the next page cannot be read."""
    for m, k, n in [(5, 7, 3), (1, 33, 17), (6, 16, 64), (2, 5, 16), (1, 64, 100), (4, 100, 1), (17, 64, 31), (49, 96, 65)]:
        a, b, out = (at_the_edge(sizes, BF16) for sizes in ((m, k), (k, n), (m, n)))
        for left, right in [(a, b), (a, at_the_edge((n, k), BF16).T), (at_the_edge((k, m), BF16).T, b)]:
            native.matmul(left, right, out)
            near(out, *exact(left, right))


# -- tiles of registers and the bias, by a program that spells the tile instructions

PROGRAM = """
#define FB_ISA 512
#define FB_TILES
#define FB_TILES_EMULATED
#include <stdlib.h>
namespace {
#include "gemm.h"
}
static void serial(FbRange fn, void* arg, long n, long) {
    fn(arg, 0, n / 2, 0); // two calls, as of two threads
    fn(arg, n / 2, n, 1);
}
static int two() { return 2; }
static void* get(long bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }
extern "C" __attribute__((visibility("default"))) void multiply(const void* a, const void* b, void* out, const void* bias,
    int out_type, const long* n) {
    FbRuntime rt = {serial, two, get, free};
    FbGemm g = {};
    g.a = a, g.b = b, g.out = out, g.a_type = g.b_type = FB_BF16, g.out_type = out_type;
    g.M = n[0], g.K = n[1], g.N = n[2], g.a_m = n[3], g.a_k = n[4], g.b_k = n[5], g.b_n = n[6], g.out_m = n[7], g.out_n = n[8];
    if (bias) g.bias = bias, g.bias_n = 1;
    run_product<bf16, bf16, Pair>(g, rt);
}
"""


@pytest.fixture(scope="module")
def emulated():
    if "avx512" not in native.isas() or toolchain.compiler() is None:
        pytest.skip("the vectors of the program are AVX-512's, and it needs a compiler")
    path = toolchain.build([PROGRAM], (f"-I{native.CSRC}", "-DFB_PROGRAM_OF_TESTS=1"))
    return ctypes.CDLL(path).multiply


def test_tiles_of_odd_sizes_and_strides(emulated):
    rng = np.random.default_rng(2)
    for number, (m, k, n) in enumerate(SIZES):
        for left, right in LAYOUTS[number % 2 :: 2]:
            a, b = matrix(rng, m, k, left), matrix(rng, k, n, right)
            bias = rng.standard_normal(n).astype(BF16)
            for out, kind in ((np.full((m, n), 7, BF16), 2), (np.full((n, m), 7, F32).T, 0)):
                strides = [s // x.itemsize for x in (a, b, out) for s in x.strides]
                numbers = (ctypes.c_long * 9)(m, k, n, *strides)
                pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
                emulated(pointer(a), pointer(b), pointer(out), pointer(bias) if kind == 2 else None, kind, numbers)
                near(out, *exact(a, b, bias.astype(np.float64) if kind == 2 else 0.0))


def test_linear_rounds_once():
    """A bias is added before the product is rounded, whatever instructions multiply."""
    import flambeau

    rng = np.random.default_rng(3)
    for rows, inner, columns in [(3, 40, 50), (64, 100, 70), (1, 64, 33), (40, 64, 300)]:
        x, w, b = (rng.standard_normal(s).astype(F32).astype(BF16) for s in ((rows, inner), (columns, inner), (columns,)))
        want = x.astype(np.float64) @ w.astype(np.float64).T + b.astype(np.float64)
        for name in native.instructions():
            _native.set_isa(name)
            got = flambeau.nn.functional.linear(*(flambeau.from_numpy(v.astype(F32)).bfloat16() for v in (x, w, b)))
            steps = np.abs(got.float().numpy() - want) / np.maximum(np.abs(want), 1e-2)
            assert steps.max() <= 2.0**-8 * 1.01
    _native.set_isa("auto")
