"""The launcher against a driver that records: parameters, grids, shared memory, streams, clusters, failures."""

import ctypes
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from flambeau.inductor.triton import launch
from flambeau.inductor.triton.ahead import Binary, Given, Launched
from flambeau.runtime.errors import BackendError


class Seen(ctypes.Structure):
    _fields_ = [("function", ctypes.c_uint64), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint), ("shared", ctypes.c_uint),
                ("count", ctypes.c_uint), ("cluster", ctypes.c_uint), ("stream", ctypes.c_uint64),
                ("parameters", ctypes.c_uint64 * 24)]


@pytest.fixture
def stub(tmp_path):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    path = tmp_path / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(Path(__file__).with_name("stub_cuda.cpp")), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    library.path = str(path)
    library.seen = lambda: list((Seen * 64).in_dll(library, "seen")[:ctypes.c_int.in_dll(library, "seen_count").value])
    library.set = lambda name, value: setattr(ctypes.c_int.in_dll(library, name), "value", value)
    return library


def binary(kernel="k", arguments=(), grid=(7,), cubin=b"\x7fELF1", **facts):
    facts = {"name": kernel, "shared": 1024, "num_warps": 4, "num_ctas": 1, **facts}
    return Binary(Launched(kernel, grid, tuple(arguments), (), ()), cubin, "", facts)


TWO = [binary("first", [("x", Given("*fp32", "x")), ("n", Given("i32", value=-5)), ("y", Given("*fp32", "y"))], (3, 2)),
       binary("second", [("y", Given("*fp32", "y")), ("seed", Given("i64", "seed")), ("rate", Given("fp64", "rate"))], (9,),
              b"\x7fELF2", num_warps=8, shared=100_000, num_ctas=2)]


def test_one_call_launches_all_in_order(stub):
    prepared = launch.Prepared(launch.Driver(stub.path), TWO)
    stub.set("counted_parameters", 5)
    for start in (0x1000, 0x2000):
        prepared({"x": start, "y": start + 64}, stream=0xABC, scalars={"seed": -1, "rate": 0.5})
    first, second, third, fourth = stub.seen()
    assert (list(first.grid), first.block, first.shared, first.count, first.stream) == ([3, 2, 1], 128, 1024, 0, 0xABC)
    assert list(first.parameters[:5]) == [0x1000, 2**32 - 5, 0x1040, 0, 0]          # then triton's two pointers
    assert (list(second.grid), second.block, second.shared, second.count, second.cluster) == ([18, 1, 1], 256, 100_000, 2, 2)
    assert list(second.parameters[:5]) == [0x1040, 2**64 - 1, 0x3FE0000000000000, 0, 0]
    assert third.parameters[0] == 0x2000 and fourth.parameters[0] == 0x2040 and third.function == first.function != second.function
    assert ctypes.c_int.in_dll(stub, "shared_limit").value == 100_000


def test_equal_kernels_are_loaded_once(stub):
    launch.Prepared(launch.Driver(stub.path), [TWO[0], TWO[0]])
    assert ctypes.c_int.in_dll(stub, "loaded").value == 1


def test_failures_name_the_kernel(stub):
    prepared = launch.Prepared(launch.Driver(stub.path), TWO)
    call = lambda: prepared({"x": 0, "y": 0}, scalars={"seed": 0, "rate": 0.0})
    stub.set("fail_at", 1)
    with pytest.raises(launch.LaunchError, match="700: second was not launched: an illegal"):
        call()
    stub.set("seen_count", 0)
    stub.set("fail_at", 0)
    with pytest.raises(MemoryError, match="first was not launched: out of memory"):
        call()


def test_what_cannot_be_loaded_is_refused(stub, tmp_path):
    on = launch.Driver(stub.path)
    with pytest.raises(BackendError, match="wide needs 300,000 bytes of shared memory"):
        launch.Prepared(on, [binary("wide", shared=300_000)])
    with pytest.raises(launch.LaunchError, match="broken cannot be loaded"):
        launch.Prepared(on, [binary("broken", cubin=b"none")])
    with pytest.raises(BackendError, match="scratch"):
        launch.Prepared(on, [binary("other", global_scratch_size=8)])
    with pytest.raises(BackendError, match="cannot be opened"):
        launch.Driver(str(tmp_path / "nowhere.so"))


def test_a_launch_costs_the_host_little(stub, everything):
    if not everything:
        pytest.skip("times are taken where all tests are run")
    prepared = launch.Prepared(launch.Driver(stub.path), [TWO[0]] * 1000)
    stub.set("silent", 1)
    times = []
    for _ in range(30):
        start = time.process_time()
        prepared({"x": 0, "y": 0})
        times.append(time.process_time() - start)
    assert min(times) / 1000 < 0.3e-6
