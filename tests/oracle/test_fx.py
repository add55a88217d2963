"""torch.fx against PyTorch's: the same programs give the same nodes, code, text, results and kinds of errors.

Each program is source text, run once with `torch` meaning either library.
"""

import contextlib
import importlib.util
import io
import re
import subprocess
import sys

import numpy as np
import pytest

import flambeau
import flambeau.fx

torch = pytest.importorskip("torch")

SETUP = """
import math, operator
from collections import namedtuple
nn, F, fx = torch.nn, torch.nn.functional, torch.fx
Pair = namedtuple("Pair", "a b")
class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.lin, s.norm, s.drop = nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.0)
        s.scale = nn.Parameter(torch.ones(4))
        s.register_buffer("shift", torch.arange(4.0))
        s.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])
    def forward(s, x, mask=None, *, k: int = 2):
        for block in s.blocks:
            x = x + block(x)
        x = s.drop(s.norm(s.lin(x))) * s.scale + s.shift
        return {"out": x.view(x.shape[0], -1), "pair": (x.mean(dim=1), k)}
class Inner(nn.Module):
    def __init__(s, block):
        super().__init__()
        s.block = block
    def forward(s, x: torch.Tensor) -> torch.Tensor:
        return s.block(x)["out"].relu_() if s.training else s.block(x)["out"]
def make(seed=0):
    block = Block()
    with torch.no_grad():
        for n, p in enumerate(block.parameters()):
            p.copy_((torch.arange(p.numel()) + n).reshape(p.shape).to(torch.float32).sin())
    return block
helper_calls = []
def helper(x, y=1):
    helper_calls.append(1)
    return x * y
fx.wrap("helper")
fx.wrap("len")
X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
"""

TRACED = {
    "block": "make()",
    "nested": "Inner(make()).eval()",
    "operators": "lambda x: ((x + 1) - 2 * x) / 3 // 1 % 5 ** (x @ x.T).sum() - (-x) + (+x)",
    "reflected": "lambda x: (1 - x) + (2 / (x + 9)) + (2 ** x) + (7 // (x + 9))",
    "comparisons": "lambda x: (x > 0, x >= 0, x < 1, x <= 1, x == 0, x != 0, ~(x > 0), (x > 0) & (x < 1) | (x == 0) ^ (x > 2))",
    "indexing": "lambda x: (x[0], x[..., 1:], x[:, None], x[x > 0], x[1:x.size(0)], x[[0, 1]], x[-1, ::2])",
    "methods": "lambda x: x.view(-1, x.shape[1]).transpose(0, 1).contiguous().sum(dim=(0, 1), keepdim=True)",
    "attributes": "lambda x: (x.shape, x.T, x.shape[0] * 2)",
    "functions": "lambda x: torch.softmax(torch.clamp(x, min=0.1), dim=-1) + torch.cumsum(x, dim=1)",
    "same name": "lambda x: torch.max(x) + x.max() + torch.sum(x) + x.sum() + torch.abs(x).mean()",
    "containers": "lambda x: {'a': [x, (x, None)], 'b': (slice(x, None, 2), 3.5, 'text', True, range(3))}",
    "unpacking": "lambda x: ((lambda a, b: a * b)(*[x, x]), sum_of(x.chunk(2, 1)))",
    "constants": "lambda x: x + torch.ones(4) * 2 + torch.full((4,), 0.5)",
    "constant first": "lambda x: torch.ones(4) + x",
    "inplace": "inplace_program",
    "wrapped": "lambda x: helper(x, y=2) + math.sqrt(x.sum() ** 2) + len(x)",
    "defaults": "defaults",
    "collecting": "collecting",
    "names": "lambda input, max: torch.abs(input) + max",
    "keyword": "lambda x: torch.cat([x, x], dim=0).to(torch.float64).add(x.new_zeros(4), alpha=2)",
    "infinity": "lambda x: x.masked_fill(x > 0, float('inf')).clamp(min=-float('inf')) + math.pi",
    "devices": "lambda x: torch.zeros_like(x, device=torch.device('cpu'), dtype=torch.float64)",
    "no use": "lambda x: (torch.sin(x), x * 3)[1]",
    "unused input": "lambda x, y: x",
    "iadd": "iadd",
    "abs": "lambda x: abs(x)",
    "named tuple": "lambda x: [Pair(x, x * 2), 1]",
    "typed": "typed",
    "nested calls": "lambda x: torch.where(x > 0, x, torch.zeros_like(x)).pow(2).sqrt().reciprocal()",
    "asserted": "lambda x: (torch._assert(x.shape[0] == 3, 'three rows'), x * 2)[1]",
    "conv": "nn.Sequential(nn.Conv1d(3, 2, 1), nn.BatchNorm1d(2).eval(), nn.Flatten(0)).eval()",
}
MORE = """
def sum_of(pieces):
    first, second = pieces
    return first + second
def inplace_program(x):
    y = x.clone()
    y.add_(1)
    y += x
    return y.mul_(2)
def defaults(x, y=2, *, z=3.5, name="none"):
    return x * y + z
def collecting(x, *rest, **named):
    return x * 2
def iadd(x):
    x += 1
    x *= x
    return x
def typed(x: torch.Tensor, n: int = 3) -> torch.Tensor:
    return x * n
"""


@pytest.fixture(scope="module")
def both():
    made = {}
    for name, library in (("torch", torch), ("flambeau", flambeau)):
        made[name] = {"torch": library, "__name__": "fx_program"}
        exec(SETUP + MORE, made[name])
    return made


def plain(value):
    """Results as numbers and containers of numpy arrays."""
    if hasattr(value, "detach"):
        return np.asarray(value.detach().numpy())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def compare(a, b):
    if isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    elif isinstance(a, (list, dict)):
        assert len(a) == len(b)
        for x, y in zip(a.values(), b.values()) if isinstance(a, dict) else zip(a, b):
            compare(x, y)
    else:
        assert a == b or str(a) == str(b) or abs(a - b) < 1e-4


def rows(graph):
    return [
        (
            n.op,
            n.name,
            n.target if isinstance(n.target, str) else n._pretty_print_target(n.target),
            repr(n.args),
            repr(n.kwargs),
            [u.name for u in n.users],
            sorted(n.meta),
        )
        for n in graph.nodes
    ]


def inputs_of(space, gm, name):
    count = sum(n.op == "placeholder" and not n.args and not n.target.startswith("*") for n in gm.graph.nodes)
    x = space["X"]
    return [x.reshape(1, 3, 4) if name == "conv" else x.clone(), *[space["torch"].ones(4)] * (count - 1)]


@pytest.mark.parametrize("name", TRACED)
def test_a_traced_program_is_pytorchs(both, name):
    told = {}
    for who, space in both.items():
        gm = space["torch"].fx.symbolic_trace(eval(TRACED[name], space))
        gm.graph.lint()
        told[who] = gm, space
    (ours, space), (theirs, other) = told["flambeau"], told["torch"]
    assert rows(ours.graph) == rows(theirs.graph)
    assert ours.code == theirs.code
    assert str(ours.graph) == str(theirs.graph)
    if name == "containers":
        return  # a slice of a tensor is no result that runs
    if name == "conv":
        ours.load_state_dict({k: space["torch"].from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    compare(plain(ours(*inputs_of(space, ours, name))), plain(theirs(*inputs_of(other, theirs, name))))
    run = space["torch"].fx.Interpreter(ours).run(*inputs_of(space, ours, name))
    compare(plain(run), plain(ours(*inputs_of(space, ours, name))))


REFUSED = {
    "branch": "lambda x: x if x.sum() > 0 else -x",
    "loop": "lambda x: [row for row in x]",
    "stars": "lambda x: torch.cat([*x])",
    "len without wrap": "lambda x: x.__len__()",
    "int": "lambda x: int(x)",
    "membership": "lambda x: 1 in x",
    "strange constant": "lambda x: x.add(object())",
    "foreign parameter": "lambda x: x + nn.Linear(2, 2).weight",
    "node as key": "lambda x: {x: 1}",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_traced_is_refused_alike(both, name):
    kinds = {}
    for who, space in both.items():
        with pytest.raises(Exception) as caught:
            space["torch"].fx.symbolic_trace(eval(REFUSED[name], space))
        kinds[who] = type(caught.value).__name__, re.split(r"[.(]", str(caught.value))[0][:40]
    assert kinds["flambeau"] == kinds["torch"]


STEPS = {
    "build by hand": """
g = fx.Graph()
x = g.placeholder("x"); w = g.get_attr("lin.weight"); y = g.call_module("lin", (x,))
z = g.call_function(torch.add, (y, 1), {"alpha": 2}); z = g.call_method("relu", (z,))
g.output((z, [w])); g.lint()
gm = fx.GraphModule({"lin": make().lin, "lin.weight": make().lin.weight}, g); tell(gm.code); tell(gm(X))
""",
    "insert and replace": """
gm = fx.symbolic_trace(lambda x: torch.relu(x) + x)
for n in gm.graph.nodes:
    if n.target is torch.relu:
        with gm.graph.inserting_after(n):
            new = gm.graph.call_function(torch.tanh, n.args)
        n.replace_all_uses_with(new)
        gm.graph.erase_node(n)
with gm.graph.inserting_before():
    gm.graph.placeholder("first")
gm.recompile(); tell(gm.code); tell(rows(gm.graph)); tell(gm(1, X))
""",
    "dead code": """
gm = fx.symbolic_trace(lambda x: [torch.sin(x).cos(), x.exp()][1])
tell(gm.graph.eliminate_dead_code()); tell(gm.graph.eliminate_dead_code()); gm.recompile(); tell(gm.code); tell(len(gm.graph.nodes))
""",
    "transformer": """
class Swap(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)
    def call_method(self, target, args, kwargs):
        return super().call_method("tanh" if target == "exp" else target, args, kwargs)
class M(nn.Module):
    def __init__(s):
        super().__init__(); s.lin = make().lin; s.w = nn.Parameter(torch.ones(4))
    def forward(s, x): return s.lin(torch.relu(x)) * s.w + x.exp()
gm = Swap(fx.symbolic_trace(M())).transform(); tell(gm.code); tell(gm(X))
""",
    "interpreter methods": """
seen = []
class Log(fx.Interpreter):
    def run_node(self, n):
        seen.append((n.op, n.name)); return super().run_node(n)
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.sub if target is torch.add else target, args, kwargs)
gm = fx.symbolic_trace(lambda x, y=3: torch.add(x, y).sum(dim=0)); tell(Log(gm).run(X)); tell(seen); tell(Log(gm).run(X, 5))
tell(attempt(lambda: fx.Interpreter(gm).run()))
""",
    "replace pattern": """
gm = fx.symbolic_trace(lambda x, y: torch.relu(x + y) * torch.relu(y + y) + torch.relu(x))
found = fx.replace_pattern(gm, lambda a, b: torch.relu(a + b), lambda a, b: torch.sigmoid(a) - b)
tell(len(found)); tell(gm.code); tell(gm(X, X + 1))
""",
    "replace overlapping": """
gm = fx.symbolic_trace(lambda x: torch.relu(torch.relu(torch.relu(x))))
found = fx.replace_pattern(gm, lambda a: torch.relu(torch.relu(a)), lambda a: torch.tanh(a)); tell(len(found)); tell(gm(X))
""",
    "errors": """
g = fx.Graph(); x = g.placeholder("x"); y = g.call_function(torch.relu, (x,)); other = fx.Graph().placeholder("x")
tell(attempt(lambda: g.erase_node(x))); tell(attempt(lambda: g.call_function(torch.relu, (other,))))
tell(attempt(lambda: g.create_node("strange", "x")))
tell(attempt(lambda: y.args.append(1))); z = g.call_function(torch.stack, ([x, y],)); tell(attempt(lambda: z.args[0].append(1)))
g.output(z); g.nodes.__iter__(); x.prepend(y); tell(attempt(g.lint))
tell(attempt(lambda: fx.GraphModule({}, fx.symbolic_trace(make()).graph)))
""",
    "node edits": """
gm = fx.symbolic_trace(lambda x, y: torch.add(x, y, alpha=2)); add = [n for n in gm.graph.nodes if n.op == "call_function"][0]
x, y = [n for n in gm.graph.nodes if n.op == "placeholder"]
add.update_arg(1, x); add.update_kwarg("alpha", 4); tell((repr(x.users), repr(y.users), repr(add.all_input_nodes)))
add.insert_arg(0, y); tell(repr(add.args)); add.args = (y, x); add.replace_input_with(x, y); tell(repr(add.args)); tell(add.next.op)
gm.recompile(); tell(gm.code); tell(add.format_node()); tell(gm(X, X))
""",
    "graph copy": """
gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1); g = fx.Graph(); a = g.placeholder("a"); table = {}
inner = [n for n in gm.graph.nodes][0]; table[inner] = g.call_function(torch.neg, (a,))
g.output(g.graph_copy(gm.graph, table)); tell(str(g)); tell(fx.GraphModule({}, g)(X))
import copy, pickle
tell(copy.deepcopy(gm).code); tell(pickle.loads(pickle.dumps(gm)).code); tell(copy.deepcopy(gm)(X))
""",
    "submodules": """
gm = fx.symbolic_trace(make()); tell(gm.add_submodule("extra.deep", nn.Linear(2, 2))); tell([n for n, _ in gm.named_modules()])
gm.delete_all_unused_submodules(); tell([n for n, _ in gm.named_modules()]); tell(gm.delete_submodule("lin")); tell(attempt(gm.graph.lint))
tell(sorted(gm.state_dict()))
""",
    "concrete arguments": """
def f(x, flag, n=2, name=None):
    return x * n if flag else x + n
for given in ({"flag": True}, {"flag": False, "n": 5}, {"flag": True, "n": fx.PH, "name": None}):
    gm = fx.symbolic_trace(f, concrete_args=given); tell(gm.code)
tell(attempt(lambda: gm(X, False)))
""",
    "own tracer": """
class Deep(fx.Tracer):
    def is_leaf_module(self, m, name):
        return isinstance(m, nn.Sequential) or super().is_leaf_module(m, name)
graph = Deep().trace(make()); tell(rows(graph)); tell([n.target for n in graph.nodes if n.op == "call_module"])
stack = [{k: (v[0], v[1].__name__) for k, v in n.meta["nn_module_stack"].items()} for n in graph.nodes if "nn_module_stack" in n.meta]
tell(stack)
""",
    "find and table": """
gm = fx.symbolic_trace(make()); tell([n.name for n in gm.graph.find_nodes(op="call_module")])
tell([n.name for n in gm.graph.find_nodes(op="call_function", target=operator.add)]); tell(gm.graph.output_node().name)
tell([n.name for n in reversed(gm.graph.nodes)])
""",
    "printed table": """
tell(output(fx.symbolic_trace(lambda x: x.relu() + 1).graph.print_tabular))
""",
    "changed code": """
gm = fx.symbolic_trace(lambda x: x + 1)
with gm.graph.on_generate_code(lambda current: lambda body: ["print('traced')\\n", *body]):
    gm.recompile()
tell(output(lambda: gm(X)))
""",
    "shapes": """
from importlib import import_module
ShapeProp = import_module(fx.__name__.replace("capture.fx", "fx") + ".passes.shape_prop").ShapeProp
gm = fx.symbolic_trace(make()); ShapeProp(gm).propagate(X)
tell([(n.name, tuple(n.meta["tensor_meta"].shape), str(n.meta["tensor_meta"].dtype)) for n in gm.graph.nodes
      if hasattr(n.meta.get("tensor_meta"), "shape")])
""",
}


def attempt(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def output(function):
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        function()
    return [line.rstrip() for line in told.getvalue().splitlines()]


@pytest.mark.parametrize("name", STEPS)
def test_work_on_graphs_is_pytorchs(both, name):
    if name == "printed table":
        pytest.importorskip("tabulate", reason="PyTorch prints tables with it")
    told = {}
    for who, space in both.items():
        said = told[who] = []
        exec(
            STEPS[name],
            {
                **space,
                "tell": lambda value, said=said: said.append(plain(value)),
                "attempt": attempt,
                "rows": rows,
                "output": output,
                "__name__": "fx_program",
            },
        )
    assert len(told["torch"]) == len(told["flambeau"]) > 0
    for ours, theirs in zip(told["flambeau"], told["torch"]):
        compare(ours, theirs)


EXTRACT = """
import flambeau
flambeau.alias_torch()
import torch
from torchvision.models import resnet18
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names
model = resnet18(num_classes=3).eval()
x = torch.randn(1, 3, 32, 32)
assert get_graph_node_names(model)[1][-4:] == ["layer4.1.relu_1", "avgpool", "flatten", "fc"]
found = create_feature_extractor(model, {"layer2": "middle", "fc": "end"})(x)
assert found["middle"].shape == (1, 128, 4, 4) and torch.equal(found["end"], model(x))
"""


def test_torchvision_extracts_features():
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    done = subprocess.run([sys.executable, "-c", EXTRACT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there():
    missing = [name for name in torch.fx.__all__ if not hasattr(flambeau.fx, name)]
    for kind in ("Graph", "Node", "GraphModule", "Interpreter", "Transformer", "Tracer", "Proxy"):
        theirs, ours = getattr(torch.fx, kind), getattr(flambeau.fx, kind)
        missing += [f"{kind}.{n}" for n in vars(theirs) if not n.startswith("_") and not hasattr(ours, n)]
    beyond = {
        "Graph.create_size_node",
        "Graph.create_stride_node",
        "Graph.create_storage_offset_node",
        "Graph.materialize_symint",
        "Graph.materialize_symints",
        "Node.normalized_arguments",
    }
    assert set(missing) <= beyond, set(missing) - beyond
