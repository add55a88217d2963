"""The rest of the list: random numbers, names that files import, protocols of other packages."""

import pytest


def test_seeds_repeat(lib):
    lib.manual_seed(123)
    a = lib.randn(20), lib.rand(3), lib.randint(0, 10, (5,)), lib.randperm(6)
    lib.manual_seed(123)
    b = lib.randn(20), lib.rand(3), lib.randint(0, 10, (5,)), lib.randperm(6)
    assert all(lib.equal(x, y) for x, y in zip(a, b)) and sorted(a[3].tolist()) == list(range(6))


def test_decorators_at_import(lib):
    @lib.jit.ignore
    def ignored(x):
        return x

    @lib.jit.unused
    def unused(x):
        return x

    assert ignored(1) == unused(1) == 1
    lib._assert(True, "fine")
    with pytest.raises(AssertionError, match="wrong"):
        lib._assert(False, "wrong")


def test_kinds_of_tensors(lib):
    p = lib.nn.Parameter(lib.ones(1))
    assert isinstance(p, lib.Tensor) and isinstance(p, lib.nn.Parameter) and not isinstance(p.data, lib.nn.Parameter)
    assert lib.is_tensor(p) and not lib.is_tensor([1]) and callable(lib.relu)
    v = lib.autograd.Variable(lib.ones(2), requires_grad=True)
    assert v.requires_grad and isinstance(v, lib.autograd.Variable) and isinstance(v, lib.Tensor)


def test_torch_function_protocol(lib):
    class Logged:
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func)
            return 42

    assert lib.add(lib.ones(1), Logged()) == 42 and Logged.calls == [lib.add]


def test_tensor_subclass(lib):
    class Labelled(lib.Tensor):
        pass

    t = lib.ones(2).as_subclass(Labelled)
    assert type(t) is Labelled and type(t + 1) is Labelled and (t + 1).tolist() == [2, 2]
    assert type(lib.ones(2) * t) is Labelled


def test_profiler(lib, sub, tmp_path):
    profiler, older = sub("profiler"), sub("autograd.profiler")
    with older.profile(record_shapes=True) as prof:
        with older.record_function("part"):
            lib.ones(10, 10) @ lib.ones(10, 10)
    rows = {e.key: e for e in prof.key_averages()}
    assert rows["part"].count == 1 and rows["aten::matmul"].count == 1
    assert rows["part"].cpu_time_total >= rows["aten::matmul"].cpu_time_total > 0
    assert "Self CPU time total" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=5)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "aten::matmul" in (tmp_path / "trace.json").read_text()
    ready = []
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU],
        schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: ready.append(p.step_num),
    ) as prof:
        for _ in range(6):
            lib.ones(2).exp()
            prof.step()
    assert ready == [4] and {e.key: e.count for e in prof.key_averages()}["aten::exp"] == 2
