"""The native runtime: thread pool, caching allocator, matrix products, random numbers, and the launcher's refusals."""

import gc
import os
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest

from flambeau.eager import random as eager_random
from flambeau.eager.op.prims import philox
from flambeau.runtime import _native, native


@pytest.fixture
def threads():
    """Set the number of threads for one test."""
    before = native.get_num_threads()
    yield native.set_num_threads
    native.set_num_threads(before)


# -- pool


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("nested", [False, True])
def test_every_element_is_visited_once(threads, count, nested):
    threads(count)
    for n in (0, 1, 7, 1000):
        for grain in (1, 64):
            out = np.zeros(n, np.int64)
            _native.pool_count(out, 3, grain, nested)
            assert (out == 3).all()


def test_workers_start_when_first_needed_and_the_setting_is_checked(threads):
    threads(3)
    out = np.zeros(1000, np.int64)
    _native.pool_count(out)
    assert _native.workers_alive() >= 2
    with pytest.raises(ValueError, match="positive"):
        native.set_num_threads(0)


def test_numpys_products_take_as_many_threads(threads):
    if not native.get_blas_threads():
        pytest.skip("numpy without OpenBLAS")
    for count in (1, 2, 1):
        threads(count)
        assert native.get_blas_threads() == count
    text = "from flambeau.runtime import native; print(native.get_num_threads(), native.get_blas_threads())"
    for own, blas, expected in (("1", None, "1 1"), ("2", "1", "2 2"), (None, "1", f"{native.default_threads()} 1")):
        given = {"FLAMBEAU_THREADS": own, "OPENBLAS_NUM_THREADS": blas}
        env = {k: v for k, v in os.environ.items() if k not in given} | {k: v for k, v in given.items() if v}
        found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=env, check=True)
        assert found.stdout.strip() == expected


def test_a_busy_pool_means_serial_for_other_callers(threads):
    threads(2)
    outs = [np.zeros(5000, np.int64) for _ in range(6)]
    workers = [threading.Thread(target=lambda out=out: [_native.pool_count(out) for _ in range(50)]) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((out == 50).all() for out in outs)


def test_parked_workers_wake(threads):
    threads(2)
    for _ in range(3):
        out = np.zeros(100, np.int64)
        _native.pool_count(out)
        assert (out == 1).all()
        time.sleep(0.02)


def counts_right() -> None:
    out = np.zeros(1000, np.int64)
    _native.pool_count(out)
    assert (out == 1).all() and _native.workers_alive() >= 1
    native.empty((100000,), np.dtype(np.float32))[:] = 1


def test_a_child_has_a_pool_of_its_own(threads, in_child):
    threads(2)
    counts_right()
    assert in_child(counts_right, 20) == 0
    counts_right()


def test_fork_while_another_thread_is_inside_the_pool(threads, in_child):
    threads(2)
    stop = threading.Event()
    out = np.zeros(20000, np.int64)

    def churn():
        while not stop.is_set():
            _native.pool_count(out, 20)
            native.empty((300000,), np.dtype(np.float32))

    busy = threading.Thread(target=churn)
    busy.start()
    try:
        for _ in range(15):
            assert in_child(counts_right, 20) == 0
    finally:
        stop.set()
        busy.join()
    counts_right()


def test_default_threads_follow_the_affinity():
    assert 1 <= native.default_threads() <= len(os.sched_getaffinity(0))


# -- allocator


def test_blocks_are_aligned_reused_and_counted():
    gc.collect()
    native.empty_cache()
    native.reset_peak()
    before = native.memory()
    x = native.empty((1000, 1000), np.dtype(np.float32))
    address = x.ctypes.data
    assert address % 64 == 0 and x.flags.c_contiguous and x.flags.writeable and x.shape == (1000, 1000)
    during = native.memory()
    assert during["current"] - before["current"] >= 4_000_000 and during["peak"] >= during["current"]
    view = x[10:20]
    del x
    assert native.memory()["current"] == during["current"]  # a view keeps the block
    del view
    after = native.memory()
    assert after["current"] == before["current"] and after["cached"] - before["cached"] >= 4_000_000
    again = native.empty((1000, 1000), np.dtype(np.float32))
    assert again.ctypes.data == address and native.memory()["system_calls"] == during["system_calls"]
    del again
    native.empty_cache()
    assert native.memory()["cached"] == 0


def test_the_cache_is_bounded():
    native.empty_cache()
    native.reset_peak()
    for _ in range(3):
        blocks = [native.empty((64 << 20,), np.dtype(np.uint8)) for _ in range(6)]
        del blocks
    memory = native.memory()
    assert memory["cached"] <= max(256 << 20, memory["peak"] // 2)
    native.empty_cache()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3), (100, 100, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, ml_dtypes.bfloat16])
def test_empty_shapes_and_types(shape, dtype):
    x = native.empty(shape, np.dtype(dtype))
    assert x.shape == shape and x.dtype == dtype and x.flags.c_contiguous
    x[...] = 1
    assert (x == 1).all()


def test_empty_refuses():
    with pytest.raises(RuntimeError, match="negative dimension -3"):
        native.empty((2, -3), np.dtype(np.float32))
    with pytest.raises(MemoryError):
        native.empty((1 << 40, 1 << 30), np.dtype(np.float32))
    with pytest.raises(TypeError):
        native.empty((2,), np.dtype(object))
    with pytest.raises(TypeError):
        native.empty([2], np.dtype(np.float32))


# -- products

TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14, np.float16: 1e-3, ml_dtypes.bfloat16: 8e-3}


def near(out, a, b):
    want = np.matmul(a.astype(np.float64), b.astype(np.float64))
    scale = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64)).max(initial=1e-30)
    assert np.abs(out.astype(np.float64) - want).max(initial=0) <= TOLERANCE[out.dtype.type] * scale


def random_matrix(rng, shape, dtype, layout):
    """A matrix with rows, columns, every second element, or reversed elements next to each other."""
    *batch, m, n = shape
    if layout == "column":
        return np.moveaxis(rng.standard_normal((*batch, n, m)), -1, -2).astype(dtype, order="K")
    if layout == "strided":
        return rng.standard_normal((*batch, 2 * m, 3 * n)).astype(dtype)[..., ::2, ::3]
    x = rng.standard_normal(shape).astype(dtype)
    return x[..., ::-1, ::-1] if layout == "reversed" else x


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: np.dtype(d).name)
def test_products_of_odd_sizes_and_strides(isa, dtype, threads):
    rng = np.random.default_rng(0)
    for count in (1, 2):
        threads(count)
        for m, k, n in [
            (1, 1, 1),
            (5, 7, 3),
            (6, 64, 64),
            (13, 3, 70),
            (97, 130, 129),
            (2, 1100, 65),
            (3, 1025, 100),
            (130, 0, 5),
            (0, 3, 4),
            (3, 700, 2),
            (4, 257, 4),
        ]:
            for layout_a in ("row", "column", "strided", "reversed"):
                for layout_b in ("row", "column", "strided"):
                    a, b = random_matrix(rng, (m, k), dtype, layout_a), random_matrix(rng, (k, n), dtype, layout_b)
                    out = np.full((m, n), 7, dtype)
                    native.matmul(a, b, out)
                    near(out, a, b)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: np.dtype(d).name)
def test_batches_of_small_products(isa, dtype, threads):
    rng = np.random.default_rng(0)
    for count in (1, 2):
        threads(count)
        for batch, m, k, n in [(40, 16, 16, 16), (3, 17, 9, 5), (4, 3, 600, 2), (2, 33, 70, 40), (2, 5, 4, 129), (90, 2, 256, 3)]:
            for layout_a in ("row", "column"):
                for layout_b in ("row", "column"):
                    a, b = random_matrix(rng, (batch, m, k), dtype, layout_a), random_matrix(rng, (batch, k, n), dtype, layout_b)
                    out = np.full((batch, m, n), 7, dtype)
                    native.matmul(a, b, out)
                    near(out, a, b)


def test_products_into_any_output(isa):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((70, 33)).astype(np.float32), rng.standard_normal((33, 90)).astype(np.float32)
    column, wide = np.full((90, 70), 7, np.float32).T, np.full((140, 270), 7, np.float32)
    native.matmul(a, b, column)
    near(column, a, b)
    native.matmul(a, b, wide[::2, ::3])
    near(wide[::2, ::3], a, b)
    assert (wide[1::2] == 7).all() and (wide[:, 1::3] == 7).all()
    half = np.empty((70, 90), np.float16)
    native.matmul(a, b, half)
    near(half, a, b)


def test_batches_broadcast(isa, threads):
    rng = np.random.default_rng(2)
    for count in (1, 2):
        threads(count)
        for left, right, out_shape in [
            ((5,), (5,), (5,)),
            ((4, 3), (3,), (4, 3)),
            ((4, 3), (), (4, 3)),
            ((), (4, 3), (4, 3)),
            ((4, 1), (1, 3), (4, 3)),
            ((2, 1, 2, 1, 2, 3), (1, 2, 1, 2, 1, 3), (2, 2, 2, 2, 2, 3)),
            ((0,), (0,), (0,)),
        ]:
            for m, k, n in [(5, 7, 9), (64, 20, 40)]:
                a, b = (
                    rng.standard_normal((*left, m, k)).astype(np.float32),
                    rng.standard_normal((*right, k, n)).astype(np.float32),
                )
                out = np.full((*out_shape, m, n), 7, np.float32)
                native.matmul(a, b, out)
                near(out, a, b)
        heads = rng.standard_normal((2, 10, 3, 16)).astype(np.float32).transpose(0, 2, 1, 3)  # attention's permuted views
        out = np.empty((2, 10, 3, 10), np.float32).transpose(0, 2, 1, 3)
        native.matmul(heads, heads.swapaxes(-1, -2), out)
        near(out, heads, heads.swapaxes(-1, -2))


def test_products_do_not_read_beyond_arrays(isa, at_the_edge):
    """The last bytes of the operands are the last of a mapped page; the next page cannot be read."""
    for m, k, n in [(5, 7, 3), (1, 33, 17), (6, 16, 64), (2, 5, 16), (1, 64, 100), (4, 100, 1)]:
        a, b = at_the_edge((m, k)), at_the_edge((k, n))
        out = at_the_edge((m, n))
        native.matmul(a, b, out)
        near(out, a, b)
        b = at_the_edge((n, k)).T
        native.matmul(a, b, out)
        near(out, a, b)


def test_products_propagate_nan_and_infinity(isa):
    a, b = np.ones((3, 40), np.float32), np.ones((40, 50), np.float32)
    a[1, 3], b[7, 9] = np.nan, np.inf
    out = np.empty((3, 50), np.float32)
    native.matmul(a, b, out)
    assert np.isnan(out[1]).all() and np.isinf(out[[0, 2], 9]).all() and np.isfinite(out[0, :9]).all()


def test_product_refusals():
    f = lambda *shape: np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match="3x4 @ 5x6"):
        native.matmul(f(3, 4), f(5, 6), f(3, 6))
    with pytest.raises(ValueError, match="2 or more"):
        native.matmul(f(3), f(3, 4), f(3, 4))
    with pytest.raises(TypeError, match="no native kernel"):
        native.matmul(f(3, 4).astype(np.int64), f(4, 5).astype(np.int64), f(3, 5))
    with pytest.raises(ValueError, match="batch dimension 0"):
        native.matmul(f(2, 3, 4), f(3, 4, 5), f(2, 3, 5))
    frozen = f(3, 5)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        native.matmul(f(3, 4), f(4, 5), frozen)
    odd = np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4)
    with pytest.raises(ValueError, match="misaligned"):
        native.matmul(odd, f(4, 5), f(3, 5))
    with pytest.raises(TypeError):
        native.matmul(f(3, 4), f(4, 5))


# -- random numbers


@pytest.mark.parametrize("n", [0, 1, 15, 16, 1000, 20001])
def test_philox_bits_are_the_definition(isa, n):
    for word in range(4):
        out = np.empty(n, np.uint32)
        native.philox(out, 2**40 + 17, 2**33 + 5, word)
        np.testing.assert_array_equal(out.astype(np.int64), philox(2**40 + 17, 2**33 + 5, np.arange(n), word))


def test_uniforms_equal_eager(isa, threads):
    for count in (1, 2):
        threads(count)
        for dtype in (np.float32, np.float64):
            out = np.empty(20000, dtype)
            native.philox(out, 99, 7)
            np.testing.assert_array_equal(out, eager_uniform(99, 7, 20000, dtype))


def eager_uniform(seed, ordinal, n, dtype):
    """By the definition in eager/random.py: 24 bits of word 0, or 53 of words 0 and 1."""
    first, second = (philox(seed, ordinal, np.arange(n), w) for w in (0, 1))
    if dtype is np.float32:
        return ((first >> 8) * 2.0**-24).astype(np.float32)
    return ((first >> 5) * 2.0**26 + (second >> 6)) * 2.0**-53


def test_the_eager_generator_draws_these_numbers():
    from flambeau.eager import dtypes
    from flambeau.eager.ops import random as random_ops

    del random_ops
    from flambeau.eager.op.op import OPS

    with eager_random.at(5, 3):
        drawn = OPS["rand"]((1000,), dtypes.float32) if "rand" in OPS else None
    if drawn is None:
        pytest.skip("no rand record")
    np.testing.assert_array_equal(drawn._fl_array, eager_uniform(5, 3, 1000, np.float32))


def test_philox_refusals():
    with pytest.raises(TypeError, match="no kernel"):
        native.philox(np.empty(3, np.int8), 0, 0)
    with pytest.raises(ValueError, match="words are 0 to 3"):
        native.philox(np.empty(3, np.uint32), 0, 0, 4)
    with pytest.raises(ValueError, match="contiguous"):
        native.philox(np.empty(6, np.float32)[::2], 0, 0)
