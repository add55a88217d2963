"""What goes wrong on a GPU is an error that says what, or the next config; never a wrong result. The driver is a recording
one."""

import flambeau
import pytest
from flambeau.inductor import driver
from flambeau.inductor.triton import aot, device, launch, target
from flambeau.runtime.config import config
from flambeau.runtime.errors import BackendError

from .test_device import Host
from .test_launch import counted


class Stubbed(Host):
    """Memory of the host, launches that are recorded and not run; `left`: allocations until there is no memory."""

    left = -1

    def __init__(self, stub, replay=False):
        self.driver, self.replay, self.most_shared = launch.Driver(stub.path), replay, 1 << 20

    def prepare(self, binaries):
        return (launch.CudaGraphLaunches if self.replay else launch.PreparedLaunches)(self.driver, binaries)

    def empty(self, elements, dtype):
        self.left -= 1
        if self.left == 0:
            raise flambeau.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 bytes")
        return super().empty(elements, dtype)


@pytest.fixture
def place(stub, monkeypatch):
    """A place on the recording driver; kernels are not really compiled."""

    def compiled(namespace, launched, capability):
        return aot.Binary(
            launched, b"\x7fELF" + launched.kernel.encode(), "", {"name": launched.kernel, "shared": 64, "num_warps": 4}
        )

    monkeypatch.setattr(aot, "binary", lambda key, *given: compiled(*given))
    monkeypatch.setattr(aot, "load_launches", lambda whole: None)
    monkeypatch.setattr(aot.artifact_store, "put", lambda *given: "")
    return Stubbed(stub)


def compile_on(place, f):
    flambeau.compiler.reset()
    return flambeau.compile(f, backend=lambda graph, inputs: driver.compile_graph(graph, inputs, None, target.on_device(place)))


def failing(stub, code, at=0):
    stub.set("seen_count", 0)
    stub.set("fail_at", at)
    stub.set("fail_code", code)


def test_no_memory_for_results(place):
    """The error is the caller's, nothing was launched or written, and the next call works."""
    f = compile_on(place, lambda x: x.mul_(2).softmax(-1))
    x = flambeau.ones(3, 5)
    f(x)
    place.left = 1
    with pytest.raises(flambeau.cuda.OutOfMemoryError, match="Tried to allocate"):
        f(x)
    assert flambeau.equal(x, flambeau.ones(3, 5))  # eager did not run instead: it would have doubled x
    f(x)


@pytest.mark.parametrize("replay", [False, True])
def test_no_memory_for_a_launch(stub, place, replay):
    place.replay = replay
    f = compile_on(place, lambda x: x * 2 + 1)
    f(flambeau.ones(4))
    failing(stub, 2)
    with pytest.raises(
        flambeau.cuda.OutOfMemoryError, match="was not launched: out of memory; free tensors, or use a smaller batch"
    ) as error:
        f(flambeau.ones(4))
    assert isinstance(error.value, MemoryError) and isinstance(error.value, RuntimeError)
    failing(stub, 0, -1)
    f(flambeau.ones(4))
    assert counted(stub, "seen_count") == 1


@pytest.mark.parametrize("code", sorted(launch.LOST))
def test_a_lost_device(stub, place, code):
    """Each call says so; eager, which has no device either, is not asked."""
    f = compile_on(place, lambda x: x * 2 + 1)
    f(flambeau.ones(4))
    failing(stub, code)
    for _ in range(2):
        with pytest.raises(launch.DeviceLost, match=f"CUDA error {code}: k_add was not launched.*start it again"):
            f(flambeau.ones(4))
        stub.set("seen_count", 0)


def test_launches_before_a_refused_one_give_no_result(stub, place):
    f = compile_on(place, lambda x: (x @ x).softmax(-1) @ x)
    x = flambeau.ones(64, 64)
    f(x)
    failing(stub, 1, at=1)
    with pytest.raises(launch.OutOfResources, match="CUDA error 1: .* was not launched"):
        f(x)


def test_a_chip_without_kernels(stub):
    for capability in (75, 120):
        stub.set("capability", capability)
        on = launch.Driver(stub.path)
        with pytest.raises(BackendError, match=f"this GPU is sm_{capability}: kernels are generated for sm_80, sm_90"):
            device.chip_of(on.capability)


def test_a_cubin_of_another_chip(stub, monkeypatch):
    on = launch.Driver(stub.path)
    monkeypatch.setattr(on.library, "fb_cuda_load", lambda *given: launch.NO_IMAGE, raising=False)
    launched = aot.KernelLaunch("k", (1,), (), (), ())
    with pytest.raises(BackendError, match=r"k was compiled for another chip than this one \(sm_90\)"):
        launch.PreparedLaunches(on, [aot.Binary(launched, b"\x7fELF", "", {"name": "k", "shared": 0, "num_warps": 1})])


def test_types_that_kernels_do_not_compute_in():
    x, a = flambeau.complex(flambeau.ones(4), flambeau.ones(4)), flambeau.arange(6).view(2, 3)
    flambeau.compiler.reset()
    with config.patch(strict=True):
        product, doubled = flambeau.compile(lambda x, a: (a @ a.t(), x * 2), backend="triton")(x, a)
    assert flambeau.equal(product, a @ a.t()) and doubled.tolist() == [2 + 2j] * 4
    assert sorted(flambeau.compiler.counters()["fallbacks"]) == [
        "triton: gemm(int64[2, 3], int64[3, 2]): tensor cores multiply floating matrices",
        "triton: mul(complex64[4]): kernels have no complex numbers",
    ]


@pytest.mark.parametrize("most", [60_000, 30_000, 12_000])
def test_what_does_not_fit_is_compiled_smaller(programs, everything, most):
    """By triton itself: what its compiler says of shared memory is what counts."""
    if not everything and most != 30_000:
        pytest.skip("compiled where all tests are run")
    a = flambeau.zeros(128, 128)
    flambeau.compile(lambda a: a @ a, backend="triton")(a)
    (made,) = aot.compile_program(programs[-1], 80, {}, most_shared=most)
    assert 0 < made.facts["shared"] <= most and made.cubin[:4] == b"\x7fELF"
