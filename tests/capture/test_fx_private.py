"""Tracers of packages that call PyTorch's private pieces of the trace (torch_geometric's does)."""

import flambeau
import pytest
from flambeau import fx, nn
from flambeau.fx import _symbolic_trace as st


class Summed(nn.Module):
    """A module whose call a tracer of its own exchanges."""

    def __call__(self, x):
        return x.sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.total = nn.Linear(2, 2), Summed()

    def forward(self, x):
        return self.total(self.layer(x).relu())


class Whole(fx.Tracer):
    """Writes the trace by hand, with calls of `Summed` as nodes."""

    def is_leaf_module(self, module, name):
        return True

    def trace(self, root, concrete_args=None):
        self.root, function = root, type(root).forward
        self.submodule_paths = {module: name for name, module in root.named_modules()}
        self.graph = fx.Graph(tracer_cls=type(self))
        self.tensor_attrs = {}
        assert isinstance(function, st.FunctionType) and not any(isinstance(v, st.ScriptObject) for v in vars(root).values())
        function, args = self.create_args_for_root(function, True, concrete_args)
        cache = {}

        def read(module, name):
            return self.getattr(name, st._orig_module_getattr(module, name), cache)

        def call(module, *args, **kwargs):
            return self.call_module(module, lambda *a, **k: st._orig_module_call(module, *a, **k), args, kwargs)

        with st._Patcher() as patcher:
            patcher.patch_method(nn.Module, "__getattr__", read, deduplicate=False)
            patcher.patch_method(nn.Module, "__call__", call, deduplicate=False)
            patcher.patch_method(Summed, "__call__", call, deduplicate=False)
            st._patch_wrapped_functions(patcher)
            st._autowrap_check(patcher, function.__globals__, self._autowrap_function_ids)
            self.create_node("output", "output", (self.create_arg(function(*args)),), {})
        self.submodule_paths = None
        return self.graph


def test_a_trace_by_hand():
    model, before = Model(), (nn.Module.__call__, nn.Module.__getattr__, Summed.__call__)
    graph = Whole().trace(model)
    assert (nn.Module.__call__, nn.Module.__getattr__, Summed.__call__) == before
    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "call_method", "call_module", "output"]
    x = flambeau.randn(3, 2)
    assert fx.GraphModule(model, graph)(x).allclose(model(x))
    last = list(graph.nodes)[-1]
    assert last.next.op == "root" and last.next.next is next(iter(graph.nodes))


def test_what_a_patcher_exchanges_comes_back():
    scope, other = {"a": 1}, type("Other", (Summed,), {})
    with pytest.raises(ValueError):
        with st._Patcher() as patcher:
            patcher.patch(scope, "a", 2)
            patcher.patch(scope, "a", 3)  # (exchanged already)
            patcher.patch(scope, "b", 4)
            patcher.patch_method(other, "__call__", None)
            assert scope == {"a": 2, "b": 4} and patcher.visit_once(scope) and not patcher.visit_once(scope)
            raise ValueError
    assert scope == {"a": 1} and "__call__" not in vars(other)
