"""What PyTorch has and this package has not imports, and raises by its public name when it is used; small things beside it are real."""

import builtins
import enum
import importlib
import inspect
import logging
import types

import pytest

import flambeau as fb
from flambeau.eager.compat.absent import table
from flambeau.runtime.config import config
from flambeau.utils import swap_tensors


def test_placeholders_raise_by_name_when_they_are_used():
    from flambeau.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
    from flambeau.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel as same

    assert FullyShardedDataParallel is same and issubclass(ShardingStrategy, enum.Enum) and ShardingStrategy.FULL_SHARD.value == 1
    assert not isinstance(fb.nn.Linear(1, 1), FullyShardedDataParallel)

    class Mine(FullyShardedDataParallel, fb.nn.Module, functional=True):
        pass

    for use in (Mine, FullyShardedDataParallel, fully_shard):
        with pytest.raises(
            RuntimeError, match=r"^torch\.distributed\.fsdp\.\S+ does not exist in flambeau: .*one process"
        ) as told:
            use(fb.nn.Linear(1, 1))
        assert "flambeau." not in str(told.value)


def test_what_nobody_has_is_missing():
    for path in ("distributed.nothing", "nn.nothing", "nothing"):
        with pytest.raises(ModuleNotFoundError, match=f"^No module named 'flambeau.{path}'$"):
            importlib.import_module(f"flambeau.{path}")
    with pytest.raises(AttributeError, match=r"module 'torch\.distributed\.fsdp' has no attribute 'nothing'"):
        fb.distributed.fsdp.nothing
    assert not hasattr(fb.nn, "nothing") and not hasattr(fb, "nothing") and not hasattr(fb.distributed, "__wrapped__")


def test_every_line_of_the_table_is_served():
    for path in table.lines():
        module = importlib.import_module(f"flambeau.{path}".rstrip("."))
        for name in table.names(path):
            getattr(module, name)
    exception = fb.distributed.checkpoint.api.CheckpointException
    assert issubclass(exception, BaseException)


def test_types_of_elements_that_no_tensor_has():
    assert isinstance(fb.int1, fb.dtype) and repr(fb.uint7) == "torch.uint7" and fb.int1.itemsize == 1
    for use in (lambda: fb.zeros(2, dtype=fb.int1), lambda: fb.ones(2).to(fb.uint3), lambda: fb.tensor([1], dtype=fb.int4)):
        with pytest.raises(RuntimeError, match=r"torch\.u?int\d does not exist"):
            use()


def test_two_tensors_exchange_all_that_they_are():
    layer, weight = fb.nn.Linear(2, 1), fb.nn.Parameter(fb.ones(1, 2))
    before, optimizer = layer.weight, fb.optim.SGD(layer.parameters(), lr=0.1)
    before.mark, old = "kept", before.tolist()
    swap_tensors(layer.weight, weight)
    assert layer.weight is before and before.tolist() == [[1, 1]] and weight.tolist() == old and weight.mark == "kept"
    layer(fb.ones(1, 2)).sum().backward()
    optimizer.step()
    assert fb.allclose(layer.weight, fb.tensor([[0.9, 0.9]]))
    a, b = fb.nn.Parameter(fb.ones(2)), fb.zeros(3, dtype=fb.int64)
    swap_tensors(a, b)
    assert type(a) is fb.Tensor and type(b) is fb.nn.Parameter and a.dtype is fb.int64 and b.requires_grad and not a.requires_grad
    whole = fb.ones(3)
    part = whole[1:]
    with pytest.raises(RuntimeError, match="share its memory"):
        swap_tensors(whole, fb.ones(3))
    x = fb.ones(2, requires_grad=True)
    y = x * x
    swap_tensors(x, fb.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_sparse_and_back():
    x = fb.tensor([[0.0, 1, 0], [2, 0, 3]], requires_grad=True)
    for sparse in (
        x.to_sparse(),
        x.to_sparse(1),
        fb.tensor(3.0).to_sparse(),
        fb.tensor(0.0).to_sparse(),
        fb.zeros(2, 0).to_sparse(),
    ):
        assert sparse.is_coalesced() and list(sparse.to_dense().shape) == list(sparse.shape)
    assert x.to_sparse().to_dense().tolist() == x.tolist() and x.to_sparse(1).values().tolist() == x.tolist()
    fb.sparse.mm(x.to_sparse(), fb.ones(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0, 2, 0], [2, 0, 2]]
    with pytest.raises(RuntimeError, match=r"sparse_dim argument must be in \[0,2\] range, but 3 is given"):
        x.to_sparse(3)
    with pytest.raises(RuntimeError, match="to_sparse_bsr does not exist"):
        x.to_sparse_bsr()


def test_operators_under_their_own_names():
    aten, x = fb.ops.aten, fb.randn(2, 3)
    assert (
        fb.equal(aten.add.Tensor(x, x), x + x) and fb.equal(aten.sum.dim_IntList(x, [0]), x.sum(0)) and fb.equal(aten.clone(x), x)
    )
    assert aten.add.Tensor is aten.add.Tensor and str(aten.add.Tensor) == "aten.add.Tensor" and "out" in aten.add.overloads()
    assert fb.equal(aten.linalg_norm.default(x), fb.linalg.norm(x)) and aten.add_.Tensor(x, 1) is x
    assert fb.equal(fb.compile(lambda x: aten.mul.Tensor(x, x).relu(), backend="eager")(x), x * x)
    with pytest.raises(RuntimeError, match=r"torch\.ops\.aten\._to_copy\.default does not exist"):
        aten._to_copy.default(x)
    for wrong in (lambda: aten.nothing, lambda: aten.add.nothing):
        with pytest.raises(AttributeError, match="nothing"):
            wrong()


def test_logs_by_name(monkeypatch):
    monkeypatch.setattr(config, "logs", ())
    fb._logging.set_logs(graph_breaks=True, recompiles=True, guards=False, inductor=logging.ERROR)
    assert config.logs == ("breaks", "recompiles")
    fb._logging.set_logs(dynamo=logging.INFO)
    assert set(config.logs) == {"breaks", "recompiles", "graph"}
    fb._logging.set_logs()
    assert config.logs == ()
    with pytest.warns(RuntimeWarning, match="'sym_node' prints nothing here"):
        fb._logging.set_logs(sym_node=True)


def test_what_dynamo_counted():
    from flambeau._dynamo.utils import counters

    counters.clear()
    assert counters["stats"]["unique_graphs"] == 0 and not counters["graph_break"]
    fb.compile(lambda x: x + 1, backend="eager")(fb.ones(2))
    assert counters["stats"]["unique_graphs"] == 1 and counters["frames"]["total"] == 1


def test_lists_of_an_optimizers_group():
    class Mine(fb.optim.Adam):
        def step(self):
            for group in self.param_groups:
                lists = params, grads, averages, squares, largest, steps = [], [], [], [], [], []
                assert self._init_group(group, *lists) is False
                assert len(params) == len(grads) == len(averages) == len(squares) == len(steps) == 1 and not largest
                averages[0].lerp_(grads[0], 0.5)

    p, unused = fb.ones(2, requires_grad=True), fb.ones(2, requires_grad=True)
    optimizer = Mine([p, unused])
    (p * 3).sum().backward()
    optimizer.step()
    assert optimizer.state[p]["exp_avg"].tolist() == [1.5, 1.5] and not optimizer.state.get(unused)


def test_every_distribution_says_what_its_parameters_are():
    for name in dir(fb.distributions):
        kind = getattr(fb.distributions, name)
        if isinstance(kind, type) and issubclass(kind, fb.distributions.Distribution):
            assert kind.__dict__.get("__doc__"), name


def test_what_packages_ask_before_they_go_on_has_an_answer():
    """They import these where they can, and would meet the error of a placeholder."""
    x = fb.ones(2, 3)
    from flambeau._prims_common import is_contiguous_or_false
    from flambeau.backends.cuda import SDPAParams, can_use_flash_attention
    from flambeau.utils import _python_dispatch as asked

    assert not asked.is_traceable_wrapper_subclass(x) and not asked.is_traceable_wrapper_subclass_type(type(x))
    assert not asked.is_in_torch_dispatch_mode() and is_contiguous_or_false(x) and not is_contiguous_or_false(x.t())
    assert not can_use_flash_attention(SDPAParams(x, x, x, None, 0.0, False, False))


def test_modules_that_are_attributes_import_as_themselves():
    """Their place was taken by placeholders as soon as somebody imported them."""
    import flambeau.cpu.amp
    import flambeau.mps
    import flambeau.xpu.memory

    for name in ("cpu", "xpu", "mps", "mtia"):
        module = importlib.import_module(f"flambeau.{name}")
        assert (
            module is getattr(fb, name)
            and module.is_available() is (name == "cpu")
            and not hasattr(module.is_available, "missing")
        )
    assert fb.get_device_module("cpu") is flambeau.cpu is fb.cpu and flambeau.cpu.amp.autocast is fb.cpu.amp.autocast
    assert hasattr(flambeau.xpu.memory, "empty_cache")


@pytest.mark.parametrize(
    "path",
    [
        "multiprocessing.spawn",
        "nn.parallel.replicate",
        "nn.parallel.data_parallel",
        "nn.parallel.parallel_apply",
        "utils.checkpoint",
        "nn.utils.weight_norm",
    ],
)
def test_functions_stay_where_modules_of_their_names_are_imported(path):
    parent, _, name = path.rpartition(".")
    holder = importlib.import_module(f"flambeau.{parent}")
    before = getattr(holder, name)
    module = importlib.import_module(f"flambeau.{path}")
    assert isinstance(module, types.ModuleType) and getattr(holder, name) is before


def test_no_module_of_the_table_hides_a_builtin_from_code():
    """`torch.utils.data.datapipes.iter.callable`, once imported, is what `callable` means in the module `iter`."""
    looked_at = set()
    for path in table.lines():
        above, _, name = path.rpartition(".")
        if hasattr(builtins, name):
            module = importlib.import_module(f"flambeau.{above}".rstrip("."))
            if not isinstance(module, table.Placeholders):
                looked_at.add(path)
                code = compile(inspect.getsource(module), module.__file__, "exec")
                assert name not in names_of_functions(code), f"a function of {module.__file__} uses {name}"
    assert "utils.data.datapipes.iter.callable" in looked_at


def names_of_functions(code):
    """The names (of variables of the module, builtins, attributes) in the functions and classes of a piece of code."""
    functions = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return {name for each in functions for name in {*each.co_names, *names_of_functions(each)}}
