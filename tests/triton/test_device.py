"""What calls a GPU, without one: memory is the host's, and each launch, with its addresses, numbers, grid and blocks as the
driver would get them, is run by triton's interpreter. Then the choices: chips, shared memory, devices."""

import importlib
import json
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest
import flambeau
from flambeau.eager.frontend import creation
from flambeau.inductor import driver
from flambeau.inductor.triton import aot, device, target, triton_api
from flambeau.nn import functional as F
from flambeau.runtime.config import config
from flambeau.runtime.errors import BackendError

from ..test_ops_compiled import near
from .test_models import GPT


class Host:
    """A place whose memory is the host's."""

    device, chip, most_shared, tunes = flambeau.device("cpu"), 90, 232448, False
    stream = staticmethod(lambda: 0)

    def __init__(self):
        self.calls = []

    def empty(self, elements, dtype):
        return creation.full((elements,), 1, dtype=dtype)  # not zeros: nobody may count on them

    def zeros(self, elements, dtype):
        return creation.zeros((elements,), dtype=dtype)

    def prepare(self, launches):
        def run(addresses, stream, scalars):
            self.calls.append(dict(addresses))
            tl = importlib.import_module("triton.language")
            with triton_api.interpreting() as found:
                for one in launches:
                    launched = one.launched
                    given = {name: number(found, tl, g, addresses, scalars) for name, g in launched.arguments}
                    blocks = {k: tl.float32 if v is tl.bfloat16 else v for k, v in launched.constants}
                    triton_api.run_grid(found, one.function, launched.grid, given | blocks)

        return run


def number(found, tl, given, addresses, scalars):
    if given.kind[0] == "*":
        return triton_api.address(found, tl, addresses[given.name], given.kind[1:])
    return triton_api.number(found, tl, scalars[given.name] if given.value is None else given.value, given.kind)


@pytest.fixture
def host(monkeypatch):
    """A backend that runs on a `Host`."""

    def launched(program, chip, sizes, generated, most_shared, configs, unaligned):
        namespace = triton_api.load(generated.text, interpreted=True)
        return [
            SimpleNamespace(function=namespace[one.kernel], launched=one)
            for one in aot.launches(program, generated, namespace, sizes, configs, unaligned)
        ]

    monkeypatch.setattr(aot, "compile_program", launched)
    place = Host()

    def backend(graph, inputs):
        return driver.compile_graph(graph, inputs, None, target.on_device(place))

    backend.place = place
    with config.patch(strict=True):
        yield backend


def trained(call, model, *inputs):
    flambeau.manual_seed(7)
    for p in model.parameters():
        p.grad = None
    out = call(*inputs)
    out.sum().backward()
    return [out.detach(), *(p.grad for p in model.parameters())]


def test_a_model_trains(host):
    """With known sizes, then with sizes that a second call makes symbolic."""
    flambeau.manual_seed(0)
    model = GPT(vocabulary=31, layers=1, length=20)
    compiled = flambeau.compile(model, backend=host)
    for length in (12, 20):
        tokens = flambeau.randint(0, 31, (2, length + 1))
        inputs = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        for k, (a, b) in enumerate(zip(trained(compiled, model, *inputs), trained(model, model, *inputs))):
            near(a, b, f"length {length}: value {k}", strided=False)


def test_written_inputs_aliases_numbers_and_checks(host):
    def f(x, i, rate):
        x.mul_(rate)
        return x, x[i] + F.dropout(x.sum(0), 0.5), x.t(), x.shape[0]

    compiled = flambeau.compile(f, backend=host)
    for rows, rate in ((4, 0.5), (6, 2.5)):
        index = flambeau.tensor([1, -1, 3])
        found, wanted = [], []
        for call, out in ((compiled, found), (f, wanted)):
            flambeau.manual_seed(5)
            x = flambeau.arange(rows * 3.0).view(rows, 3)
            out += [x, *call(x, index, rate)]
        assert found[1] is found[0] and found[3].data_ptr() == found[0].data_ptr() and found[4] == rows
        for k in range(4):
            near(found[k], wanted[k], f"value {k}")
    with pytest.raises(IndexError):
        compiled(flambeau.zeros(6, 3), flambeau.tensor([0, 6, 1]), 1.5)
    near(compiled(flambeau.ones(6, 3), flambeau.tensor([0, 5, 1]), 1.5)[0], flambeau.full((6, 3), 1.5), "after a check failed")


def test_results_are_new_memory(host):
    f = flambeau.compile(lambda x: (x * 2).softmax(-1), backend=host)
    first = f(flambeau.ones(3, 5))
    kept = first.clone()
    assert f(flambeau.rand(3, 5)).data_ptr() != first.data_ptr() and flambeau.equal(first, kept)


def test_arrays_that_are_not_aligned_are_told(host):
    """Kernels load several elements at once from arrays that begin at multiples of 16 bytes."""
    told, prepare = [], host.place.prepare
    host.place.prepare = lambda launches: (
        told.append([g.value for one in launches for _, g in one.launched.arguments]) or prepare(launches)
    )
    compiled = flambeau.compile(lambda x: x * 2, backend=host)
    whole = flambeau.arange(9.0)
    for x in (whole[:8], whole[1:], whole[:8], whole[1:]):
        assert flambeau.equal(compiled(x), x * 2)
    assert told == [[None, None], [aot.UNALIGNED, None]]
    given = [(("x", aot.LaunchArgument("*fp32", "x", value)),) for value in (None, aot.UNALIGNED)]
    assert [aot.signature(aot.KernelLaunch("k", (1,), g, (), ()))[0][2] for g in given] == [True, False]


@pytest.mark.parametrize("capability, chip", [(80, 80), (86, 80), (89, 80), (90, 90)])
def test_chips(capability, chip):
    assert device.chip_of(capability) == chip


@pytest.mark.parametrize("capability", [70, 75, 100, 120])
def test_other_chips_are_refused(capability):
    with pytest.raises(BackendError, match=f"this GPU is sm_{capability}: kernels are generated for sm_80, sm_90"):
        device.chip_of(capability)


def test_what_does_not_fit_is_compiled_with_smaller_blocks(programs, monkeypatch, tmp_path):
    """Fewer stages first, then halves of the largest block; what cannot shrink any more is refused."""
    flambeau.compile(lambda a, b: a @ b, backend="triton")(flambeau.randn(256, 256), flambeau.randn(256, 256))
    tried = []

    def compiled(namespace, launched, capability):
        options, blocks = dict(launched.options), dict(launched.constants)
        tried.append((options["num_stages"], blocks["BM"], blocks["BN"], blocks["BK"]))
        shared = 4 * options["num_stages"] * blocks["BK"] * (blocks["BM"] + blocks["BN"])
        return aot.Binary(launched, b"\x7fELF", "", {"name": launched.kernel, "shared": shared})

    monkeypatch.setattr(aot, "compiled", compiled)
    with config.patch(cache_dir=str(tmp_path)):
        aot.artifact_store.forget()
        (made,) = aot.compile_program(programs[-1], 80, {}, most_shared=10_000)
        assert tried == [(3, 64, 64, 32), (2, 64, 64, 32), (1, 64, 64, 32), (1, 32, 64, 32), (1, 32, 32, 32)]
        assert made.facts["shared"] <= 10_000 and dict(made.launched.constants)["BM"] == 32
        assert made.launched.grid == (8 * 8,)  # more, smaller tiles
        with pytest.raises(BackendError, match="shared memory, and this chip has 100"):
            aot.compile_program(programs[-1], 80, {}, most_shared=100)
    aot.artifact_store.forget()


def test_one_device_a_graph():
    class On(flambeau.Tensor):
        device = None

    tensors = [flambeau.zeros(2).as_subclass(On) for _ in range(2)]
    for t, d in zip(tensors, ("cpu", "cuda:0")):
        type(t).device = property(lambda self: flambeau.device(self.place))
        t.place = d
    with pytest.raises(BackendError, match="tensors on cpu, cuda:0"):
        target.place_of(tensors, False)
    assert target.place_of([flambeau.zeros(2), 3], False) is None


def test_programs_on_cuda_tensors():
    """Captured, compiled by the default backend, and run as the launcher would be asked to; cupy is a stand-in."""
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "tests.triton.on_cuda"], cwd=root, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["different"] == {} and found["programs"] == 9 and found["kernels"] > 15
    assert [why for why in found["fallbacks"] if "cuda" in why or "triton" in why] == [
        "triton: inv(float32[4, 4]): factorisations are the vendor's library's"
    ]
