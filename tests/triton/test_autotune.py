"""Blocks of kernels are measured, on a driver whose clock is made up: the fastest is taken, kept and told; what does not fit is
not."""

import pytest
import flambeau
from flambeau.inductor import driver
from flambeau.inductor.triton import aot, autotune, configs, launch, target
from flambeau.runtime import artifact_store
from flambeau.runtime.config import config

from .test_device import Host
from .test_launch import counted

SIZE = 512


@pytest.fixture
def tuning(stub, tmp_path, monkeypatch):
    """A backend on the recording driver that measures; kernels are not really compiled."""
    (tmp_path / "cache").mkdir(mode=0o700)
    built = []

    def compiled(namespace, launched, capability):
        blocks, options = dict(launched.constants), dict(launched.options)
        built.append((launched.kernel, blocks, options))
        area = blocks.get("BK", 0) * (blocks.get("BM", 0) + blocks.get("BN", 0))
        facts = {"name": launched.kernel, "shared": 4 * options.get("num_stages", 1) * area, "num_warps": options["num_warps"]}
        return aot.Binary(launched, b"\x7fELF" + str((blocks, options)).encode(), "", facts)

    monkeypatch.setattr(aot, "compiled", compiled)

    class Stubbed(Host):
        tunes, most_shared = True, 1 << 20

        def __init__(self):
            self.driver = launch.Driver(stub.path)

        def prepare(self, binaries):
            return launch.PreparedLaunches(self.driver, binaries)

    def backend(graph, inputs):
        return driver.compile_graph(graph, inputs, None, target.on_device(backend.place))

    def describe(graph, compiled):
        backend.compiled = compiled
        return target.describe(graph, compiled)

    backend.describe, backend.built, backend.place = describe, built, Stubbed()
    with config.patch(strict=True, cache_dir=str(tmp_path / "cache")):
        artifact_store.forget()
        yield backend
    artifact_store.forget()


def product(backend, *inputs):
    """The grid of a call's last launch, and the compiled function."""
    flambeau.compiler.reset()
    compiled = flambeau.compile(lambda a, b: a @ b, backend=backend)
    compiled(*(inputs or (flambeau.zeros(SIZE, SIZE), flambeau.zeros(SIZE, SIZE))))
    return compiled


def tiles(bm, bn):
    return (SIZE // bm) * (SIZE // bn)


def test_the_fastest_is_taken_kept_and_told(stub, tuning):
    stub.set("fast_grid", tiles(128, 64))
    stub.set("seen_count", 0)
    compiled = product(tuning)
    assert stub.seen()[-1].grid[0] == tiles(128, 64) and len(tuning.built) == 1 + len(configs.PRODUCTS[4])
    text = flambeau.compiler.report(compiled).graphs[0].texts["tuned.txt"]
    assert "* BM=128, BN=64, BK=32, num_warps=4, num_stages=3: 1000.0 us" in text and "as the rule says: 2000.0 us" in text
    tuning.built.clear()
    stub.set("fast_grid", tiles(32, 32))  # nobody asks the clock again
    stub.set("seen_count", 0)
    compiled = product(tuning)
    assert [s.grid[0] for s in stub.seen()] == [tiles(128, 64)] and not tuning.built
    assert flambeau.compiler.report(compiled).graphs[0].texts["tuned.txt"] == text


def test_a_kernel_is_measured_once_for_sizes_of_a_class(stub, tuning, monkeypatch):
    """In another program the same kernel is found by its text; on another device it is measured anew."""
    stub.set("fast_grid", tiles(128, 64))
    product(tuning)
    tried, measured = [], autotune.Tuner.measured
    monkeypatch.setattr(
        autotune.Tuner, "measured", lambda self, one, given: tried.append(one.kernel) or measured(self, one, given)
    )
    f = flambeau.compile(lambda a, b: (a @ b, a.sum(1)), backend=tuning)
    f(flambeau.zeros(SIZE, SIZE), flambeau.zeros(SIZE, SIZE))
    assert len(tried) == 1 and "gemm" not in tried[0]
    stub.set("named", 1)
    tuning.place.driver = launch.Driver(stub.path)
    product(tuning)
    assert tried[1:] == ["k_gemm"]


def test_what_does_not_fit_is_skipped(stub, tuning):
    tuning.place.most_shared = 4 * 3 * 32 * (64 + 32)
    stub.set("fast_grid", tiles(128, 128))  # the fastest needs more than there is
    compiled = product(tuning)
    text = flambeau.compiler.report(compiled).graphs[0].texts["tuned.txt"]
    assert "as the rule says: skipped: needs 49,152 bytes of shared memory, and this chip has 36,864" in text
    assert text.count("skipped: needs") > 3 and "* BM=64, BN=64, BK=16, num_warps=4, num_stages=4: 2000.0 us" in text
    assert stub.seen()[-1].grid[0] == tiles(64, 64)


def test_what_the_chip_refuses_is_skipped(stub, tuning):
    stub.set("refused_grid", tiles(128, 64))
    text = flambeau.compiler.report(product(tuning)).graphs[0].texts["tuned.txt"]
    assert "BM=128, BN=64, BK=32, num_warps=4, num_stages=3: skipped: CUDA error 701" in text


def test_a_lost_device_is_no_choice(stub, tuning):
    stub.set("fail_at", 3)
    stub.set("fail_code", 700)
    with pytest.raises(launch.DeviceLost):
        product(tuning)


def test_inputs_are_not_touched(stub, tuning):
    """A program that writes to an input is measured on a copy."""
    x = flambeau.zeros(64, 5000)
    stub.set("counted_parameters", 2)
    flambeau.compile(lambda x: x.mul_(2), backend=tuning)(x)
    assert counted(stub, "seen_count") > 20
    assert [x.data_ptr() in list(s.parameters) for s in stub.seen()].count(True) == 1  # the call itself


def test_modes_ask_for_it(monkeypatch):
    asked = []
    monkeypatch.setattr(target, "place_of", lambda inputs, replay, tunes: asked.append((replay, tunes)))
    monkeypatch.setattr(driver, "compile_graph", lambda *args, **named: lambda *inputs: list(inputs))
    for mode, options in (
        (None, None),
        ("reduce-overhead", None),
        ("max-autotune", None),
        ("max-autotune-no-cudagraphs", None),
        (None, {"max_autotune": True}),
    ):
        target.triton_backend(None, [], options, mode)
    assert asked == [(False, False), (True, False), (True, True), (False, True), (False, True)]


def test_choices_differ_from_the_rule_and_from_each_other():
    rule = {"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 3}
    made = configs.products(rule, {"BM": 64, "BN": 32, "BK": 512}, 4)
    blocks = [{**rule, **change} for change in made]
    assert rule not in blocks and all(blocks.count(b) == 1 for b in blocks) and all(b["BN"] <= 32 for b in blocks)
    assert all(
        set(c) <= {"RBLOCK", "XBLOCK", "num_warps"}
        for c in configs.rows({"XBLOCK": 4, "RBLOCK": 1024, "num_warps": 4}, ["RBLOCK"])
    )
    assert all("RBLOCK" not in c for c in configs.rows({"XBLOCK": 4, "RBLOCK": 128, "num_warps": 4}, []))
