"""A captured graph as a torch.fx GraphModule.

In: what `flambeau.compile` hands to a backend: op records over tensors, sizes maybe symbolic. Out: a GraphModule over the
same records that takes the same inputs; sizes are nodes that read them from the inputs, constants are attributes, and
calls that record no gradients stand between switches of the grad mode.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

from ...eager.autograd.modes import set_grad_enabled
from ...eager.api import is_grad_enabled
from ..shapes.symbolic_shapes import SymFloat, SymInt
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, has_side_effect

_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
has_side_effect(set_grad_enabled)


def from_captured(captured: Any) -> GraphModule:
    """The GraphModule of a captured graph; it takes and returns what the captured graph does."""
    return GraphModule(dict(captured.constants), _Converter(captured).graph, "Captured")


class _Converter:
    def __init__(self, captured: Any):
        self.captured, self.graph = captured, Graph()
        self.nodes: dict[Any, Node] = {}
        self.symbols = captured.symbol_sources()
        self.sizes: dict[str, Any] = {}
        self.grad, self.before = True, None
        for node in captured.nodes:
            self.convert(node)

    def convert(self, node: Any) -> None:
        if node.op == "output":
            self.switch(True)
            self.graph.output(self.argument(node.args[0]))
            return
        if node.op == "placeholder":
            made = self.graph.placeholder(node.name)
        elif node.op == "get_attr":
            made = self.graph.create_node("get_attr", node.target, name=node.name)
        else:
            self.switch(node.grad or node.is_getitem)
            made = self.graph.call_function(node.target, tuple([self.argument(a) for a in node.args]), name=node.name)
        self.nodes[node] = made
        made.meta.update(val=node.value, grad=node.grad)
        if node.stack:
            made.stack_trace = "".join(
                [f'  File "{f}", line {n}, in {where}\n    {line.strip()}\n' for f, n, line, where in node.stack]
            )

    def switch(self, grad: bool) -> None:
        """From here on gradients are recorded as around the graph, or not at all."""
        if grad != self.grad:
            self.before = self.before or self.graph.call_function(is_grad_enabled)
            self.graph.call_function(set_grad_enabled, (self.before if grad else False,))
            self.grad = grad

    def argument(self, value: Any) -> Any:
        if type(value).__hash__ is object.__hash__ and value in self.nodes:
            return self.nodes[value]
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple([self.argument(v) for v in value])
        if isinstance(value, list):
            return [self.argument(v) for v in value]
        if isinstance(value, dict):
            return {k: self.argument(v) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(self.argument(value.start), self.argument(value.stop), self.argument(value.step))
        return self.number(value) if isinstance(value, (SymInt, SymFloat)) else value

    # -- sizes

    def number(self, value: Any) -> Node:
        """A symbolic number as nodes."""
        text = str(value)
        if text not in self.sizes:
            self.sizes[text] = self.tree(ast.parse(text, mode="eval").body)
        return self.sizes[text]

    def tree(self, tree: Any) -> Any:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            return self.symbol(tree.id)
        if isinstance(tree, ast.UnaryOp):
            return self.graph.call_function(operator.neg, (self.tree(tree.operand),))
        if isinstance(tree, ast.BinOp):
            return self.graph.call_function(_BINARY[type(tree.op)], (self.tree(tree.left), self.tree(tree.right)))
        function = getattr(math, getattr(tree.func, "attr", getattr(tree.func, "id", "")))
        return self.graph.call_function(function, tuple([self.tree(a) for a in tree.args]))

    def symbol(self, name: str) -> Any:
        number, what, dim = self.symbols[name]
        node = self.nodes[self.captured.inputs[number]]
        if what == "value":
            return node
        key = f"{name}!"
        if key not in self.sizes:
            self.sizes[key] = self.graph.call_method(what, (node, dim))
        return self.sizes[key]
