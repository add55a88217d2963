"""The launcher against a driver that records: parameters, grids, shared memory, streams, clusters, failures."""

import ctypes
import time

import pytest
from flambeau.inductor.triton import launch
from flambeau.inductor.triton.aot import Binary, LaunchArgument, KernelLaunch
from flambeau.runtime.errors import BackendError


def binary(kernel="k", arguments=(), grid=(7,), cubin=b"\x7fELF1", **facts):
    facts = {"name": kernel, "shared": 1024, "num_warps": 4, "num_ctas": 1, **facts}
    return Binary(KernelLaunch(kernel, grid, tuple(arguments), (), ()), cubin, "", facts)


TWO = [
    binary(
        "first",
        [("x", LaunchArgument("*fp32", "x")), ("n", LaunchArgument("i32", value=-5)), ("y", LaunchArgument("*fp32", "y"))],
        (3, 2),
    ),
    binary(
        "second",
        [("y", LaunchArgument("*fp32", "y")), ("seed", LaunchArgument("i64", "seed")), ("rate", LaunchArgument("fp64", "rate"))],
        (9,),
        b"\x7fELF2",
        num_warps=8,
        shared=100_000,
        num_ctas=2,
    ),
]


def test_one_call_launches_all_in_order(stub):
    prepared = launch.PreparedLaunches(launch.Driver(stub.path), TWO)
    stub.set("counted_parameters", 5)
    for start in (0x1000, 0x2000):
        prepared({"x": start, "y": start + 64}, stream=0xABC, scalars={"seed": -1, "rate": 0.5})
    first, second, third, fourth = stub.seen()
    assert (list(first.grid), first.block, first.shared, first.count, first.stream) == ([3, 2, 1], 128, 1024, 0, 0xABC)
    assert list(first.parameters[:5]) == [0x1000, 2**32 - 5, 0x1040, 0, 0]  # then triton's two pointers
    assert (list(second.grid), second.block, second.shared, second.count, second.cluster) == ([18, 1, 1], 256, 100_000, 2, 2)
    assert list(second.parameters[:5]) == [0x1040, 2**64 - 1, 0x3FE0000000000000, 0, 0]
    assert (
        third.parameters[0] == 0x2000 and fourth.parameters[0] == 0x2040 and third.function == first.function != second.function
    )
    assert ctypes.c_int.in_dll(stub, "shared_limit").value == 100_000


def test_equal_kernels_are_loaded_once(stub):
    launch.PreparedLaunches(launch.Driver(stub.path), [TWO[0], TWO[0]])
    assert ctypes.c_int.in_dll(stub, "loaded").value == 1


def test_failures_name_the_kernel(stub):
    prepared = launch.PreparedLaunches(launch.Driver(stub.path), TWO)
    call = lambda: prepared({"x": 0, "y": 0}, scalars={"seed": 0, "rate": 0.0})
    stub.set("fail_at", 1)
    stub.set("fail_code", 700)
    with pytest.raises(launch.DeviceLost, match="700: second was not launched: an illegal.*lost to this program"):
        call()
    stub.set("fail_code", 1)
    stub.set("seen_count", 0)
    with pytest.raises(launch.LaunchError, match="CUDA error 1: second was not launched") as caught:
        call()
    assert not isinstance(caught.value, launch.DeviceLost)
    stub.set("seen_count", 0)
    stub.set("fail_at", 0)
    stub.set("fail_code", 2)
    with pytest.raises(MemoryError, match="first was not launched: out of memory"):
        call()


def test_what_cannot_be_loaded_is_refused(stub, tmp_path):
    on = launch.Driver(stub.path)
    with pytest.raises(BackendError, match="wide needs 300,000 bytes of shared memory"):
        launch.PreparedLaunches(on, [binary("wide", shared=300_000)])
    with pytest.raises(launch.LaunchError, match="broken cannot be loaded"):
        launch.PreparedLaunches(on, [binary("broken", cubin=b"none")])
    with pytest.raises(BackendError, match="scratch"):
        launch.PreparedLaunches(on, [binary("other", global_scratch_size=8)])
    with pytest.raises(BackendError, match="cannot be opened"):
        launch.Driver(str(tmp_path / "nowhere.so"))


def test_devices_have_contexts_of_their_own(stub):
    second = launch.Driver(stub.path, 1)
    first = launch.Driver(stub.path)
    assert (first.capability, first.most_shared) == (90, 232448)
    for on, number in ((second, 1), (first, 0), (second, 1)):
        launch.PreparedLaunches(on, TWO)({"x": 0, "y": 0}, scalars={"seed": 0, "rate": 0.0})
        assert ctypes.c_int.in_dll(stub, "current_device").value == number
    with pytest.raises(launch.LaunchError, match="error 101"):
        launch.Driver(stub.path, 5)


def counted(stub, name):
    return ctypes.c_int.in_dll(stub, name).value


def test_addresses_that_come_again_are_replayed(stub):
    """The first call of a table launches, the second records it, and all later ones are one launch of a graph each."""
    prepared = launch.CudaGraphLaunches(launch.Driver(stub.path), TWO)
    stub.set("counted_parameters", 5)
    call = lambda start, seed=1: prepared({"x": start, "y": start + 64}, stream=0xABC, scalars={"seed": seed, "rate": 0.5})
    call(0x1000)
    assert (len(stub.seen()), counted(stub, "recorded"), counted(stub, "replayed")) == (2, 0, 0)
    call(0x1000)
    recorded = stub.seen()[2:]
    assert [s.stream for s in recorded] == [0x77, 0x77] and list(recorded[0].parameters[:3]) == [0x1000, 2**32 - 5, 0x1040]
    for _ in range(3):
        call(0x1000)
    assert (len(stub.seen()), counted(stub, "recorded"), counted(stub, "replayed")) == (4, 1, 4)
    assert ctypes.c_uint64.in_dll(stub, "replayed_stream").value == 0xABC
    call(0x2000)  # other memory: launched as always
    call(0x1000)  # known: replayed
    call(0x1000, seed=2)  # another number: launched
    assert (len(stub.seen()), counted(stub, "recorded"), counted(stub, "replayed")) == (8, 1, 5)
    assert stub.seen()[4].parameters[0] == 0x2000 and stub.seen()[7].parameters[1] == 2
    prepared.__del__()
    assert counted(stub, "forgotten") == 1


def test_addresses_that_keep_changing_are_launched(stub):
    prepared = launch.CudaGraphLaunches(launch.Driver(stub.path), TWO)
    call = lambda start: prepared({"x": start, "y": 0}, scalars={"seed": 0, "rate": 0.0})
    for start in range(launch.PATIENCE + 1):
        call(64 * start)
    call(0)
    call(0)
    assert (counted(stub, "recorded"), counted(stub, "seen_count")) == (0, 2 * (launch.PATIENCE + 3))
    several = launch.CudaGraphLaunches(launch.Driver(stub.path), TWO)
    for start in range(2 * launch.MOST_GRAPHS):
        for _ in range(2):
            several({"x": 64 * start, "y": 0}, scalars={"seed": 0, "rate": 0.0})
    assert counted(stub, "recorded") == launch.MOST_GRAPHS


def test_what_cannot_be_recorded_is_told(stub):
    prepared = launch.CudaGraphLaunches(launch.Driver(stub.path), TWO)
    call = lambda: prepared({"x": 0, "y": 0}, scalars={"seed": 0, "rate": 0.0})
    call()
    stub.set("fail_recording", 901)
    with pytest.raises(launch.LaunchError, match="CUDA error 901"):
        call()
    stub.set("fail_recording", 0)
    call()
    assert prepared.replays == 1


def test_a_launch_costs_the_host_little(stub, everything):
    if not everything:
        pytest.skip("times are taken where all tests are run")
    prepared = launch.PreparedLaunches(launch.Driver(stub.path), [TWO[0]] * 1000)
    stub.set("silent", 1)
    times = []
    for _ in range(30):
        start = time.process_time()
        prepared({"x": 0, "y": 0})
        times.append(time.process_time() - start)
    assert min(times) / 1000 < 0.3e-6
