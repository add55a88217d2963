"""torch.fx on our graphs: captured programs as GraphModules, backends that change them, tracing, copies and files.

Against PyTorch's own fx: tests/oracle/test_fx.py.
"""

import copy
import pickle
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x):
        with torch.no_grad():
            mean = x.mean()
        y = self.drop(self.lin(x)) * self.scale + self.shift
        first, second = y.view(-1, 2 * x.shape[0]).chunk(2, 1)
        return F.softmax(first * second + mean, dim=-1).reshape(2 * x.shape[0], -1)


def as_is(graph, example_inputs):
    """A backend written for torch.fx."""
    graph.graph.lint()
    return graph.forward


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_captured_graph_runs_as_a_graph_module(dynamic):
    """The same values, gradients and random numbers as eager's, for other sizes too; the captured text is unchanged."""
    torch.manual_seed(0)
    net, texts = Net(), []

    def backend(graph, example_inputs):
        texts.append((graph.print_python(), graph.code))
        return as_is(graph, example_inputs)

    compiled = torch.compile(net, backend=backend, dynamic=dynamic)
    for rows in (6, 8, 10):
        results = []
        for call in (net, compiled):
            x = torch.ones(rows, 4).mul(torch.arange(4.0)).requires_grad_()
            net.zero_grad()
            torch.manual_seed(1)
            out = call(x)
            (out * torch.arange(float(out.numel())).view_as(out)).sum().backward()
            results.append([out, x.grad, net.scale.grad, net.lin.weight.grad])
        assert all(torch.equal(a, b) for a, b in zip(*results)), rows
    assert len(texts) == (1 if dynamic else 2)  # fixed sizes, then symbols
    assert "set_grad_enabled(False)" in texts[0][1] and ("x.size(0)" in texts[-1][1])
    assert texts[0][0].startswith("import math")


def test_grad_mode_around_a_captured_graph_stays():
    seen = []
    compiled = torch.compile(Net().eval(), backend=lambda g, inputs: seen.append(g.graph_module) or as_is(g, inputs))
    compiled(torch.ones(2, 4))
    (module,) = seen
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    inputs = [torch.ones(2, 4) if "x" == n.name else torch.ones(n.meta["val"].shape) for n in placeholders]
    with torch.no_grad():
        (out,) = module(*inputs)
        assert not torch.is_grad_enabled() and not out.requires_grad
    module(*inputs)
    assert torch.is_grad_enabled()


def test_changes_take_effect_and_writes_are_kept():
    def backend(module, example_inputs):
        for node in module.graph.nodes:
            if getattr(node.target, "name", "") == "sin":
                node.target = torch.cos
        assert not module.graph.eliminate_dead_code()  # an in-place op without readers has an effect
        module.recompile()
        return module

    def program(x, y):
        y.add_(1)
        return torch.sin(x) + 1

    x, y = torch.randn(5), torch.zeros(5)
    assert torch.equal(torch.compile(program, backend=backend)(x, y), x.cos() + 1)
    assert torch.equal(y, torch.ones(5))


def test_nodes_know_values_and_lines():
    found = []
    torch.compile(lambda x: torch.relu(x) @ x.t(), backend=lambda g, i: found.append(g.graph) or g.forward)(torch.ones(2, 3))
    relu = next(n for n in found[0].nodes if n.name == "relu")
    assert tuple(relu.meta["val"].shape) == (2, 3) and "test_fx.py" in relu.stack_trace
    product = next(n for n in found[0].nodes if n.name == "matmul")
    assert [n.name for n in product.all_input_nodes][0] == "relu" and list(relu.users) == [product]


def test_traced_modules_compile_copy_and_pickle(tmp_path):
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    x = torch.randn(5, 4)
    wanted = traced(x)
    assert torch.equal(torch.compile(traced, backend="eager", fullgraph=True)(x), wanted)
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), copy.copy(traced)):
        assert torch.equal(other(x), wanted) and other.code == traced.code
        assert list(other.state_dict()) == list(traced.state_dict())
    assert copy.deepcopy(traced).get_parameter("0.weight") is not traced.get_parameter("0.weight")
    torch.save(traced, tmp_path / "traced.pt")
    assert torch.equal(torch.load(tmp_path / "traced.pt", weights_only=False)(x), wanted)


def test_to_folder_is_a_package(tmp_path):
    traced = fx.symbolic_trace(Net().eval())
    traced.to_folder(tmp_path / "net", "Stored")
    torch.save(torch.ones(3, 4), tmp_path / "x.pt")
    torch.save(traced(torch.ones(3, 4)).detach(), tmp_path / "out.pt")
    code = (
        "import flambeau as torch; from net import Stored; m = Stored().eval(); x = torch.load('x.pt'); "
        "assert torch.equal(m(x), torch.load('out.pt'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unpacking_asks_for_as_many_as_there_are_names():
    def program(x):
        first, (second, third) = x.chunk(2)[0], x.unbind(1)
        [(a, b)] = [x.chunk(2)]
        return first + second + third, a - b

    traced = fx.symbolic_trace(program)
    x = torch.arange(4.0).view(2, 2)
    assert all(torch.equal(a, b) for a, b in zip(traced(x), program(x)))
    assert sum(n.target.__name__ == "getitem" for n in traced.graph.nodes if n.op == "call_function") == 5
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: sum(x))


def test_assertions_on_proxies():
    class Asserting(fx.Tracer):
        trace_asserts = True

    space = {}  # pytest would rewrite an assertion of this file
    exec("def program(x):\n    assert x.sum() > 0\n    return x + 1", space)
    module = fx.GraphModule({}, Asserting().trace(space["program"]))
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(AssertionError):
        module(-torch.ones(2))


def test_a_trace_leaves_everything_as_it_was():
    before = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    assert (nn.Module.__call__, nn.Module.__getattr__) == before and not fx._symbolic_trace.is_fx_tracing()
    import math

    assert math.sqrt(4) == 2 and not hasattr(math.sqrt, "__fx_recorded__")
