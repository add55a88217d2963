"""A model as TensorBoard's graph: it is run once, and each op becomes a node under the path of the module that called it.

In: a module (or function) and what it is called with. Out: a GraphDef message. Parameters and buffers are nodes too, where
they are registered; node names are paths, which the page folds and unfolds.
"""

# pyright: reportAttributeAccessIssue=false
# (classes of messages are made when their modules are imported)

from __future__ import annotations

from collections import Counter

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.types_pb2 import DataType
from tensorboard.compat.proto.versions_pb2 import VersionDef

from ... import dispatch
from ...autograd import no_grad
from ...nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ...state import Mode
from ...tensor import Tensor

NAMES = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}  # of TensorFlow's types, where they are not ours
PRODUCER = 22


def leaves(x):
    """The tensors in an argument."""
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from leaves(item)
    elif isinstance(x, dict):
        yield from leaves(tuple(x.values()))


class Drawing(Mode):
    """Notes each op with what it takes and gives while the model runs."""

    def __init__(self, model, name: str):
        self.graph = GraphDef(versions=VersionDef(producer=PRODUCER))
        self.names: dict[int, tuple[str, Tensor]] = {}  # id -> (node, tensor kept alive)
        self.used: Counter = Counter()
        self.scope = [name]
        self.paths = {inner: path.replace(".", "/") for path, inner in model.named_modules()} if isinstance(model, Module) else {}
        self.root = name

    def __enter__(self):
        self.hooks = [register_module_forward_pre_hook(self._enter), register_module_forward_hook(self._leave, always_call=True)]
        return super().__enter__()

    def __exit__(self, *exc):
        super().__exit__(*exc)
        for hook in self.hooks:
            hook.remove()

    def _enter(self, module, args):
        path = self.paths.get(module)
        inner = f"{self.scope[-1]}/{type(module).__name__}" if path is None else f"{self.root}/{path}" if path else self.root
        self.scope.append(inner)

    def _leave(self, module, args, result):
        self.scope.pop()

    def unique(self, name: str) -> str:
        self.used[name] += 1
        return name if self.used[name] == 1 else f"{name}_{self.used[name] - 1}"

    def note(self, name: str, op: str, inputs: list[str], results: list[Tensor], rest: str = "") -> None:
        name = self.unique(name)
        attributes = {"_output_shapes": AttrValue()}
        for t in results:
            attributes["_output_shapes"].list.shape.add(dim=[{"size": n} for n in t.shape])
        if results:
            kind = results[0].dtype.name
            attributes["dtype"] = AttrValue(type=dict(DataType.items()).get(f"DT_{NAMES.get(kind, kind.upper())}", 0))
        if rest:
            attributes["arguments"] = AttrValue(s=rest.encode())
        self.graph.node.add(name=name, op=op, input=inputs, attr=attributes)
        for t in results:
            self.names[id(t)] = name, t

    def dispatch(self, op, args):
        with dispatch.below():  # what a composite is made of is one node
            out = dispatch.execute(op, args)
        inputs = [self.source(t) for t in leaves(args)]
        rest = ", ".join(f"{p.name}={a!r}" for p, a in zip(op.params, args) if not any(True for _ in leaves(a)) and a is not None)
        self.note(f"{self.scope[-1]}/{op.name}", op.name, inputs, list(leaves(out)), rest)
        return out

    def source(self, t: Tensor) -> str:
        if id(t) not in self.names:
            self.note(f"{self.scope[-1]}/constant", "Const", [], [t])
        return self.names[id(t)][0]


def graph_of(model, inputs) -> GraphDef:
    """The GraphDef of one call: `inputs` is a tensor, a tuple of arguments, or a dictionary of named ones."""
    named = inputs if isinstance(inputs, dict) else {}
    args = () if named else tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    drawing = Drawing(model, getattr(model, "__name__", type(model).__name__))
    for k, t in enumerate(leaves((args, named))):
        drawing.note(f"input/{k}", "Placeholder", [], [t])
    if isinstance(model, Module):
        for kind, found in (("Parameter", model.named_parameters()), ("Buffer", model.named_buffers())):
            for name, t in found:
                drawing.note(f"{drawing.root}/{name.replace('.', '/')}", kind, [], [t])
    with no_grad(), drawing:
        result = model(*args, **named)
    for t in leaves(result):
        drawing.note("output/result", "Output", [drawing.source(t)], [t])
    return drawing.graph
