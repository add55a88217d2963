"""Modules and names that packages import: they do what PyTorch's do, or can be imported and raise where they are used."""

import importlib
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau import futures
from flambeau.nn.utils._named_member_accessor import NamedMemberAccessor
from flambeau.utils import benchmark

ABSENT = {
    "export": "export draft_export load save",
    "package": "is_from_package",
    "monitor": "log_event",
    "masked": "masked_tensor mean",
    "nested": "nested_tensor",
    "utils.mobile_optimizer": "optimize_for_mobile",
    "utils.cpp_extension": "load load_inline CppExtension",
}


@pytest.mark.parametrize("path", ABSENT)
def test_modules_that_do_nothing_say_so_where_they_are_used(path):
    module = importlib.import_module(f"flambeau.{path}")
    for name in ABSENT[path].split():
        with pytest.raises(RuntimeError, match=rf"torch\.{path}\.{name} does not exist in flambeau: \w+"):
            getattr(module, name)(None)


def test_classes_that_do_nothing_can_be_named():
    from flambeau.export import Dim, ExportedProgram
    from flambeau.utils.cpp_extension import BuildExtension

    assert not isinstance(3, ExportedProgram)
    for kind in (Dim, ExportedProgram, type("Mine", (BuildExtension,), {})):
        with pytest.raises(RuntimeError, match="does not exist in flambeau"):
            kind("x")


def test_paths_of_functions():
    import flambeau.functional as functional
    from flambeau.functional import einsum

    assert einsum is torch.einsum and all(getattr(functional, name) is getattr(torch, name) for name in functional.__all__)
    with pytest.raises(AttributeError, match=r"torch.functional.*'no_such'"):
        functional.no_such


# -- futures


def test_a_future():
    future = torch.futures.Future()
    assert torch.Future is futures.Future and not future.done()
    with pytest.raises(RuntimeError, match="not done"):
        future.value()
    told = []
    future.add_done_callback(lambda f: told.append(f.value()))
    doubled = future.then(lambda f: f.wait() * 2)
    threading.Timer(0.02, lambda: future.set_result(torch.ones(2))).start()
    assert doubled.wait().tolist() == [2, 2] and future.done() and len(told) == 1
    future.add_done_callback(lambda f: told.append(1))
    assert told[1:] == [1]
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(1)


def test_errors_of_futures():
    future = futures.Future()
    following = future.then(lambda f: f.value() + 1)
    future.set_exception(ValueError("no"))
    for one in (future, following):
        with pytest.raises(ValueError, match="no"):
            one.wait()
    with pytest.raises(AssertionError, match="not an Exception"):
        futures.Future().set_exception("text")
    with pytest.warns(UserWarning, match="callback of a future raised ZeroDivisionError"):
        future.add_done_callback(lambda f: 1 / 0)


def test_several_futures():
    first, second = futures.Future(), futures.Future()
    gathered = futures.collect_all([first, second])
    second.set_result(2)
    assert not gathered.done()
    first.set_result(1)
    assert (
        gathered.wait() == [first, second]
        and futures.wait_all([first, second]) == [1, 2]
        and futures.collect_all([]).wait() == []
    )
    failed = futures.Future()
    failed.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        futures.wait_all([first, failed])


# -- members by name


@pytest.fixture
def model():
    inner = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    return torch.nn.ModuleDict({"a": inner})


def test_members_by_name(model):
    members = NamedMemberAccessor(model)
    weight = members.get_tensor("a.0.weight")
    new = torch.zeros(3, 2)
    assert members.swap_tensor("a.0.weight", new) is weight and model["a"][0].weight is new
    members.set_tensor("a.1.running_mean", torch.ones(3))
    assert model["a"][1].running_mean.tolist() == [1, 1, 1]
    before, missing = members.swap_tensors_dict({"a.0.weight": weight, "a.0.bias": torch.ones(3)})
    assert before["a.0.weight"] is new and not missing and model["a"][0].weight is weight
    with pytest.raises(RuntimeError, match="Missing.*a.0.other"):
        members.swap_tensors_dict({"a.0.weight": new, "a.0.other": new})
    assert model["a"][0].weight is weight and not hasattr(model["a"][0], "other")
    members.del_tensor("a.0.bias")
    with pytest.raises(AttributeError, match="bias"):
        members.get_tensor("a.0.bias")
    with pytest.raises(AttributeError, match="'b' is not a submodule"):
        members.get_tensor("b.weight")
    old = members.swap_submodule("a.1", torch.nn.Identity())
    assert isinstance(old, torch.nn.BatchNorm1d) and isinstance(model["a"][1], torch.nn.Identity)


# -- benchmark


def test_a_timer():
    x = torch.ones(4)
    found = benchmark.Timer(
        "f(x)", "f = torch.sin", globals={"x": x, "torch": torch}, label="sine", sub_label="small", description="ours"
    ).timeit(50)
    assert found.number_per_run == 50 and 0 < found.median < 1 and found.mean == found.median and "sine: small" in repr(found)
    blocks = benchmark.Timer("x + 1", globals={"x": x}, num_threads=2)
    found = blocks.blocked_autorange(min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01 and found.num_threads == 2 and found.iqr >= 0
    assert blocks.adaptive_autorange(threshold=10.0, min_run_time=0.001).meets_confidence(10.0)
    for wrong in (lambda: benchmark.Timer("x;", language="c++"), lambda: blocks.repeat(), lambda: blocks.collect_callgrind()):
        with pytest.raises((ValueError, NotImplementedError, RuntimeError), match="Timer"):
            wrong()


def test_a_timer_leaves_the_threads_as_they_were():
    kept = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0", num_threads=kept + 1).timeit(1)
    assert torch.get_num_threads() == kept


def test_a_comparison():
    def measured(row, column, seconds, threads=1):
        task = benchmark.TaskSpec("f", label="product", sub_label=row, description=column, num_threads=threads)
        return benchmark.Measurement(10, [seconds * 10] * 3, task)

    table = benchmark.Compare(
        [measured("8x8", "ours", 2e-6), measured("8x8", "theirs", 5.25e-6), measured("64x64", "ours", 1e-3, 2)]
    )
    table.trim_significant_figures()
    lines = str(table).splitlines()
    assert lines[0] == "[product]" and lines[1].split() == ["|", "ours", "|", "theirs"] and lines[-1] == "Times are in us."
    assert (
        [cell.strip() for cell in lines[3].split("|")[1:]] == ["2", "5.25"]
        and lines[4].startswith("64x64 (2 threads)")
        and "1e+03" in lines[4]
    )
    assert benchmark.select_unit(3e-5) == ("us", 1e-6) and benchmark.select_unit(0.0) == ("ns", 1e-9)


# -- the rest


def test_names_that_packages_take():
    from flambeau._C import _LinAlgError
    from flambeau._jit_internal import BroadcastingList2, boolean_dispatch
    from flambeau._tensor_str import PRINT_OPTS, _str, printoptions
    from flambeau.distributions.utils import _standard_normal, _sum_rightmost
    from flambeau.fx._symbolic_trace import compatibility
    from flambeau.nn.functional import _Reduction
    from flambeau.utils.data._utils.collate import default_collate
    from flambeau.utils.data._utils.pin_memory import pin_memory
    from flambeau.utils.data._utils.worker import get_worker_info

    assert _LinAlgError is torch.linalg.LinAlgError and BroadcastingList2[int] is int and get_worker_info() is None
    assert _standard_normal((2, 3), torch.float64, "cpu").dtype is torch.float64 and _sum_rightmost(
        torch.ones(2, 3), 1
    ).tolist() == [3, 3]
    assert compatibility(is_backward_compatible=True)(len) is len and _Reduction.get_enum("sum") == 2
    assert boolean_dispatch("both", 1, False, lambda x, both=False: 2, lambda x, both=False: 1, "m", "f")(0, True) == 2
    assert default_collate([1, 2]).tolist() == [1, 2] and pin_memory([3]) == [3]
    with printoptions(precision=2):
        assert PRINT_OPTS.precision == 2 and _str(torch.tensor([1.23456])) == "tensor([1.23])"
    assert PRINT_OPTS.precision == 4
    with pytest.raises(ValueError, match="not a valid value"):
        _Reduction.get_enum("most")
    assert isinstance(torch.jit.Error("x"), RuntimeError) and torch.serialization.MAP_LOCATION
    assert "numpy" in torch.__config__.show() and "threads" in torch.__config__.parallel_info()


def test_a_report_of_the_machine(capsys):
    from flambeau.utils import collect_env

    collect_env.main()
    said = capsys.readouterr().out
    assert "Python version:" in said and f"[pip] numpy=={np.__version__}" in said and "PyTorch version: 2.13.0" in said


def test_modules_call_through_the_names_that_packages_replace():
    layer = torch.nn.LSTM(2, 3)
    layer._update_flat_weights()
    layer.check_forward_args(torch.ones(4, 1, 2), (torch.zeros(1, 1, 3), torch.zeros(1, 1, 3)), None)
    with pytest.raises(RuntimeError, match="Expected hidden"):
        layer.check_forward_args(torch.ones(4, 1, 2), (torch.zeros(2, 1, 3), torch.zeros(1, 1, 3)), None)
    assert torch.nn.ReLU()._wrapped_call_impl(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]


def test_backends_that_count():
    from flambeau._dynamo.testing import CompileCounter, CompileCounterWithBackend

    for counter in (CompileCounter(), CompileCounterWithBackend("eager")):
        f = torch.compile(lambda x: (x.sin() + 1) * 2, backend=counter)
        assert torch.allclose(f(torch.ones(2)), (torch.ones(2).sin() + 1) * 2) and (counter.frame_count, counter.op_count) == (
            1,
            3,
        )
        counter.clear()
        assert counter.frame_count == 0
