"""Profiles: ops, compiled calls with each kernel, named regions, compilations; what the Chrome trace holds."""

import gzip
import json

import pytest

import flambeau as torch
from flambeau import nn, profiler
from flambeau.nn import functional as F
from flambeau.profiler import profile, record_function
from flambeau.runtime import native, toolchain

compiled_only = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        with record_function("first"):
            x = F.gelu(self.one(x))
        with record_function("second"):
            return self.two(F.layer_norm(x, (32,)))


def inside(event, outer):
    return outer.start <= event.start and event.end <= outer.end


def named(events, start):
    return [e for e in events if e.name.startswith(start)]


@pytest.fixture(scope="module")
def step():
    """Events of two profiled training steps of a compiled module, of which the first compiles, and the counters."""
    torch.manual_seed(0)
    model, x = Net(), torch.randn(8, 16)
    call = torch.compile(model)
    torch.compiler.reset()
    with profile() as prof:
        for _ in range(2):
            with record_function("step"):
                call(x).square().mean().backward()
    return prof, torch.compiler.counters()


@compiled_only
def test_compiled_calls_stay_compiled_and_show_their_kernels(step):
    prof, counted = step
    assert counted["graphs"] == 1 and not counted["breaks"] and not counted["fallbacks"]
    events = prof.events()
    graphs, kernels = [e for e in events if e.category == "compiled"], [e for e in events if e.category == "kernel"]
    assert [e.name for e in graphs] == ["forward of Net.forward", "backward of Net.forward"] * 2
    assert len(kernels) == 2 * counted["kernels"]
    assert all(any(inside(k, g) for g in graphs) for k in kernels)
    for graph in graphs:
        assert 0 <= graph.self_cpu_time_total <= graph.cpu_time_total


@compiled_only
def test_kernels_are_named_by_their_source(step):
    prof, _ = step
    lines = open(__file__).read().splitlines()
    places = set()
    for event in prof.events():
        if event.category == "kernel":
            assert event.name.startswith(event.details["kernel"]) and "test_profiler.py:" in event.name
            for told in event.details["lines"]:
                place, _, text = told.partition("  ")
                number = int(place.partition(":")[2])
                assert lines[number - 1].strip() == text
                places.add(text)
    assert "x = F.gelu(self.one(x))" in places


@compiled_only
def test_regions_inside_of_compiled_code(step):
    """No break for them, and they lie around the kernels of their lines, within the region outside."""
    prof, _ = step
    events = prof.events()
    steps, first, second = (named(events, name) for name in ("step", "first", "second"))
    assert len(steps) == 2 and len(first) >= 2 and len(second) >= 2
    assert all(any(inside(e, s) for s in steps) for e in first + second)
    for event in first:
        own = [k for k in events if k.category == "kernel" and inside(k, event)]
        assert own and all(any("self.one" in line or "gelu" in line for line in k.details["lines"]) for k in own)


@compiled_only
def test_a_compilation_is_an_event_and_its_inner_tries_are_none(step):
    prof, _ = step
    events = prof.events()
    (compilation,) = named(events, "compile ")
    assert compilation.name == "compile Net.forward" and compilation.category == "compile"
    assert not [e for e in events if e.category == "cpu_op" and inside(e, compilation)]


@compiled_only
def test_a_cut_inside_of_a_region_enters_it_again():
    seen = []

    def f(x):
        with record_function("part"):
            y = x.sin()
            seen.append(len(seen))
            print(end="")
            return y.cos()

    call = torch.compile(f)
    x = torch.ones(4)
    want = f(x)
    assert torch.equal(call(x), want)
    with profile() as prof:
        assert torch.equal(call(x), want)
    assert seen == [0, 1, 2] and named(prof.events(), "part")


@compiled_only
def test_what_a_kernel_computes_on_the_way_counts():
    """Three lines and two blocks in one kernel: all lines are named, and the innermost block is drawn."""

    def f(x):
        with record_function("outer"):
            y = x.sin()
            with record_function("inner"):
                y = y.exp()
        return y + 1

    call = torch.compile(f)
    call(torch.ones(100))
    with profile() as prof:
        call(torch.ones(100))
    (kernel,) = [e for e in prof.events() if e.category == "kernel"]
    assert [line.partition("  ")[2] for line in kernel.details["lines"]] == ["y = x.sin()", "y = y.exp()", "return y + 1"]
    assert [e.name for e in prof.events() if e.category == "user_annotation"] == ["outer", "inner"]


@compiled_only
@pytest.mark.parametrize("make", [lambda f: record_function("named")(f), lambda f: record_function(name="named")(f)])
def test_a_decorated_function_is_captured(make):
    body = make(lambda x: x.exp() + 1)
    call = torch.compile(lambda x: body(x) * 2, fullgraph=True)
    x = torch.ones(3)
    assert torch.allclose(call(x), (x.exp() + 1) * 2)


@compiled_only
def test_eager_calls_of_a_compiled_graph_hold_their_ops():
    def f(x):
        return torch.linalg.inv(x * 2) + 1

    call = torch.compile(f)
    x = torch.eye(3) + 1
    call(x)
    with profile() as prof:
        call(x)
    (graph,) = [e for e in prof.events() if e.category == "compiled"]
    (outer,) = named(prof.events(), "eager call of ")
    assert inside(outer, graph) and any(inside(e, outer) for e in named(prof.events(), "aten::"))


def test_nothing_watches_after_a_profile():
    with profile():
        with profile():
            torch.ones(2).exp()
    assert native.watch_launches(None) is None
    assert not torch.eager.state.state.modes


def test_time_of_inner_events_is_counted_once():
    with profile() as prof:
        with record_function("outer"):
            with record_function("inner"):
                torch.ones(100).exp()
    rows = {e.key: e for e in prof.key_averages()}
    total = sum(e.self_cpu_time_total for e in prof.events())
    assert total == pytest.approx(rows["outer"].cpu_time_total, rel=1e-6)
    assert rows["outer"].cpu_time_total >= rows["inner"].cpu_time_total >= rows["aten::exp"].cpu_time_total


def test_chrome_trace(tmp_path):
    with profile(record_shapes=True) as prof:
        torch.ones(2, 3).exp()
    prof.export_chrome_trace(tmp_path / "trace.json")
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace == json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    (event,) = [e for e in trace["traceEvents"] if e["name"] == "aten::exp"]
    assert event["ph"] == "X" and event["cat"] == "cpu_op" and event["dur"] > 0 and event["args"]["Input Dims"] == [[2, 3]]


def test_what_is_not_supported_is_told():
    with pytest.raises(RuntimeError, match="profile_memory"):
        profile(profile_memory=True)
    assert profiler.supported_activities() == {profiler.ProfilerActivity.CPU}
