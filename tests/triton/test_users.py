"""The user's own kernels: called with tensors in the host's memory and through the launcher, captured as one node, and what they
write."""

import ctypes

import pytest
import triton
import triton.language as tl
import flambeau
from flambeau import compiler, library
from flambeau.inductor.triton import aot, launch, user_kernels
from flambeau.runtime.config import config
from flambeau.runtime.errors import BackendError


@triton.jit
def put(pointer, value, mask):
    tl.store(pointer, value, mask)


@triton.jit
def axpy(x_ptr, y_ptr, out_ptr, n, a, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    made = tl.load(x_ptr + offsets, mask=mask) * a + tl.load(y_ptr + offsets, mask=mask)
    place = out_ptr + offsets
    put(place, made, mask)


@triton.jit
def softmax_rows(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + tl.program_id(0) * n + columns, e / tl.sum(e, axis=0), mask=columns < n)


@triton.jit
def count(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(bins_ptr + at, 1, mask=offsets < n)


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def sums(x, y, a=2.5):
    out = flambeau.zeros_like(x)
    axpy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), a, BLOCK=64)
    return out * 2


def test_what_is_written():
    assert user_kernels.written_parameters(axpy) & {"x_ptr", "y_ptr", "out_ptr"} == {"out_ptr"}
    assert user_kernels.written_parameters(softmax_rows) & {"x_ptr", "y_ptr"} == {"y_ptr"}
    assert user_kernels.written_parameters(count) & {"x_ptr", "bins_ptr"} == {"bins_ptr"}


def test_eager():
    x, y, out = flambeau.randn(150), flambeau.randn(150), flambeau.zeros(150)
    library.wrap_triton(axpy)[grid](x, y, out, n=150, a=2.5, BLOCK=64)
    flambeau.testing.assert_close(out, x * 2.5 + y)
    assert out._version == 1 and x._version == 0
    view = flambeau.randn(7, 20)[:, 3:15]
    soft = flambeau.empty(7, 12)
    library.wrap_triton(softmax_rows)[7](view, soft, view.stride(0), 12, BLOCK=16, num_warps=2)
    flambeau.testing.assert_close(soft, view.softmax(-1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_captured_as_one_node(dynamic):
    compiled = flambeau.compile(sums, fullgraph=True, dynamic=dynamic)
    with config.patch(strict=True):
        for n in (100, 130):
            x, y = flambeau.randn(n), flambeau.randn(n)
            flambeau.testing.assert_close(compiled(x, y), (x * 2.5 + y) * 2)
    assert compiler.counters()["breaks"] == {}


def test_what_it_writes_is_seen_by_what_follows():
    wrapped = library.wrap_triton(count)

    def f(x, bins):
        before = bins.sum()
        wrapped[grid](x, bins, x.shape[0], BLOCK=32)
        count[(1,)](x, bins[1], x.shape[0], BLOCK=64)
        return before, bins.sum(), bins[0] * 2

    x = flambeau.randint(0, 4, (50,), dtype=flambeau.int32)
    results = []
    for call in (f, flambeau.compile(f, fullgraph=True)):
        bins = flambeau.zeros(2, 4, dtype=flambeau.int32)
        results.append((*(call(x, bins) if call is not f else reference(x, bins)), bins))
    for a, b in zip(*results):
        flambeau.testing.assert_close(a, b)


def reference(x, bins):
    """What `f` means, with wrapped kernels alone."""
    before, wrapped = bins.sum(), library.wrap_triton(count)
    wrapped[(2,)](x, bins, 50, BLOCK=32)
    wrapped[(1,)](x, bins[1], 50, BLOCK=64)
    return before, bins.sum(), bins[0] * 2


def test_refusals():
    x = flambeau.randn(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires a gradient"):
        library.wrap_triton(axpy)[(1,)](x, x, x, 4, 1.0, BLOCK=16)
    with pytest.raises(BackendError, match="not a plain @triton.jit function"):
        library.wrap_triton(sums)
    with pytest.raises(TypeError, match="BLOCK"):
        library.wrap_triton(axpy)[(1,)](x, x, x, 4, 1.0)


def test_a_launch_on_a_gpu(stub):  # noqa: F811
    """As the driver gets it: pointers, numbers, no constants; compiled once for a type, again for another divisibility."""
    on = launch.Driver(stub.path)
    stub.set("counted_parameters", 5)
    x, out = flambeau.zeros(64), flambeau.zeros(65)
    told, binaries = [], []
    for n, z in ((48, out), (64, out), (49, out), (48, out[1:])):
        given, options = user_kernels.bind_arguments(axpy, (x, x, z, n, 0.5), {"BLOCK": 64, "num_warps": 2})
        launched = user_kernels.as_launch(axpy, (1, 3), given, options)
        made = user_kernels.prepare_launch(on, 90, axpy, launched)
        made({name: v.data_ptr() for name, v in given.items() if hasattr(v, "data_ptr")}, 0xABC)
        told.append({name: divisible for name, _, divisible in aot.signature(launched)})
        binaries.append(made.binaries[0].cubin)
    first, second, *_ = stub.seen()
    assert (list(first.grid), first.block, first.stream) == ([1, 3, 1], 64, 0xABC)
    assert list(first.parameters[:4]) == [x.data_ptr(), x.data_ptr(), out.data_ptr(), 48] and second.parameters[3] == 64
    assert ctypes.c_float.from_buffer(ctypes.c_uint32(first.parameters[4] & 0xFFFFFFFF)).value == 0.5
    assert [(t["n"], t["out_ptr"]) for t in told] == [(True, True), (True, True), (False, True), (True, False)]
    assert binaries[0] is binaries[1]
    given, options = user_kernels.bind_arguments(axpy, (x, x, out, 1, 0.5), {"BLOCK": 64})
    assert ("n", 1) in user_kernels.as_launch(axpy, (1,), given, options).constants, "a one is a constant"
