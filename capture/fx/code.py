"""Python text of a graph.

In: a Graph. Out: `PythonCode`: the text of a `forward` and the globals that it needs. Values are dropped behind
their last use; operators are printed as operators, attributes as attributes; functions of the package by their public
names, others as globals of their own.
"""

from __future__ import annotations

import enum
import math
import operator
import sys
from dataclasses import dataclass, field
from typing import Any
from collections.abc import Callable

from ...eager import dtypes
from ...eager.device import device
from ...eager.tensor import Tensor
from .node import PACKAGE, Node, _get_qualified_name, map_arg, public_name

FIXED_GLOBALS = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": sys.modules[PACKAGE], "device": device}
reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}


@dataclass
class PythonCode:
    """`src` defines `forward`; `globals` is what it is executed in."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


@dataclass
class CodeGen:
    """Writes code. `transform` may change the lines of the body (`Graph.on_generate_code`)."""

    transform: Callable[[list[str]], list[str]] | None = None

    def process_inputs(self, *args: Any) -> tuple:
        return args

    def process_outputs(self, out: Any) -> Any:
        return out

    def generate(self, graph: Any, root_module: str, names: Any, verbose: bool = False) -> PythonCode:
        writer = _Writer(graph, root_module, names, verbose)
        for node in graph.nodes:
            names._used.add(node.name)
        for node in graph.nodes:
            writer.write(node)
        lines = writer.lines or ["pass\n"]
        body = "".join(lines if self.transform is None else self.transform(lines))
        wraps = "".join(f'torch.fx._symbolic_trace.wrap("{name}")\n' for name in writer.wrapped).rstrip("\n")
        inputs = writer.inputs if writer.inputs[:1] == [root_module] else [root_module, *writer.inputs]
        head = f"def forward({', '.join(inputs)}){writer.returns}:"
        indented = "\n".join("    " + line for line in body.split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{indented}", writer.globals)


class _Writer:
    """The state of one text."""

    def __init__(self, graph: Any, root: str, names: Any, verbose: bool):
        self.root, self.names, self.verbose = root, names, verbose
        self.globals = dict(FIXED_GLOBALS)
        names._used.update(FIXED_GLOBALS)
        self.inputs: list[str] = []
        self.lines: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.returns = ""
        self.last_uses = _last_uses(graph)

    # -- statements

    def write(self, node: Node) -> None:
        if self.verbose and node.stack_trace:
            self.lines.append(f"# {node.stack_trace.strip().splitlines()[-1]}\n")
        getattr(self, node.op)(node)
        self.lines.append(self.end(node))

    def end(self, node: Node) -> str:
        """What is dropped behind a statement."""
        if node.op == "placeholder":
            return ""
        if node.op == "output":
            return "\n"
        dead = [*self.last_uses.get(node, ()), *([] if node.users else [node])]
        return f";  {' = '.join(n.name for n in dead)} = None\n" if dead else "\n"

    def placeholder(self, node: Node) -> None:
        kind = "" if node.type is None else f" : {self.type(node.type)}"
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.inputs.append(f"{node.target}{kind}{default}")
        name = node.target.replace("*", "")
        if name != node.name:
            self.lines.append(f"{node.name} = {name}\n")

    def get_attr(self, node: Node) -> None:
        self.assign(node, self.path(node.target))

    def call_module(self, node: Node) -> None:
        self.assign(node, f"{self.path(node.target)}({self.arguments(node.args, node.kwargs)})")

    def call_method(self, node: Node) -> None:
        self.assign(node, f"{self.text(node.args[0])}.{node.target}({self.arguments(node.args[1:], node.kwargs)})")

    def call_function(self, node: Node) -> None:
        target, name = node.target, getattr(node.target, "__name__", None)
        if getattr(target, "__module__", None) == "_operator" and name in magic_methods:
            self.assign(node, magic_methods[name].format(*map(self.text, node.args)))
        elif getattr(target, "__module__", None) == "_operator" and name in inplace_methods:
            first, *_ = words = list(map(self.text, node.args))
            self.lines.append(f"{inplace_methods[name].format(*words)};  ")
            self.assign(node, first)
        elif target is getattr and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            self.assign(node, f"{self.text(node.args[0])}.{node.args[1]}")
        else:
            called = self.function(target)
            if node.meta.get("is_wrapped"):
                self.wrapped[called] = None
            self.assign(node, f"{called}({self.arguments(node.args, node.kwargs)})")

    def output(self, node: Node) -> None:
        if node.type is not None:
            self.returns = f" -> {self.type(node.type)}"
        self.lines.append(f"return {self.text(node.args[0])}")

    def assign(self, node: Node, value: str) -> None:
        kind = "" if node.type is None else f" : {self.type(node.type)}"
        self.lines.append(f"{node.name}{kind} = {value}")

    # -- expressions

    def path(self, target: str) -> str:
        """`self.a.b`, with getattr where a part is no identifier."""
        text = self.root
        for part in target.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def arguments(self, args: tuple, kwargs: dict) -> str:
        return ", ".join([*map(self.text, args), *(f"{k} = {self.text(v)}" for k, v in kwargs.items())])

    def function(self, target: Any) -> str:
        """A name for a function or type; registers the global that it needs."""
        if (public := public_name(target)) is not None and target is not device:
            return public
        hint = _get_qualified_name(target).replace(".", "_")
        hint = "".join(c if c.isalnum() or c == "_" else "_" for c in hint)
        if self.globals.get(hint) is target:
            return hint
        name = self.names.create_name(hint, target)
        self.globals[name] = target
        return name

    def type(self, kind: Any) -> str:
        if kind == ():
            return "()"
        origin = getattr(kind, "__origin__", None)
        if origin is not None and getattr(kind, "__args__", None):
            inner = ", ".join(self.type(a) for a in kind.__args__)
            return f"{self.type(origin)}[{inner}]"
        if isinstance(kind, str) or kind is ...:
            return repr(kind) if isinstance(kind, str) else "..."
        if not isinstance(kind, type):
            return self.function(kind) if hasattr(kind, "__name__") else repr(kind)
        return kind.__name__ if kind.__module__ == "builtins" and kind is not type(None) else self.function(kind)

    def text(self, a: Any) -> str:
        if isinstance(a, Node):
            return repr(a)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return f"{self.function(type(a))}({', '.join(map(self.text, a))})"
        if isinstance(a, tuple):
            return "(" + ", ".join(map(self.text, a)) + ("," if len(a) == 1 else "") + ")"
        if isinstance(a, list):
            return "[" + ", ".join(map(self.text, a)) + "]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{k!r}: {self.text(v)}" for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.text(a.start)}, {self.text(a.stop)}, {self.text(a.step)})"
        if isinstance(a, enum.Enum):
            return f"{self.function(type(a))}.{a.name}"
        if isinstance(a, (dtypes.dtype, Tensor)) or not callable(a):
            return repr(a)
        return self.function(a) if hasattr(a, "__name__") else repr(a)


def _last_uses(graph: Any) -> dict[Node, list[Node]]:
    """Node -> the nodes that nothing reads after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):

        def note(read: Node, node: Node = node) -> None:
            if read not in seen:
                seen.add(read)
                found.setdefault(node, []).append(read)

        map_arg((node.args, node.kwargs), note)
    return found


OPERATORS = {name: getattr(operator, name) for name in magic_methods if hasattr(operator, name)}
OPERATORS["div"] = operator.truediv
