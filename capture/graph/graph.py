"""The captured program: Graph and Node, their checker, their printer and their Interpreter.

In: the tracer appends nodes; passes insert, replace and erase. Out: the same program, as text that runs and as an
Interpreter. The idea: four kinds of node (placeholder, get_attr, call_function, output) in one linked list whose order
is the program's; a node's `value` is the meta tensor that eager's own rules made, sizes in args are numbers or SymInt,
and nothing else is hidden.
"""

from __future__ import annotations

import contextlib
import keyword
import operator
import os
import re
from typing import Any
from collections.abc import Callable, Iterable, Iterator

from ...eager import dtypes, random, sizes
from ...eager.dispatch import state
from ...eager._call import fresh_view
from ...eager.op.op import Kind, Op, find
from ...eager.state import recording
from ...eager.tensor import INFERENCE, Tensor
from ...runtime.dataclass import data
from ...runtime.errors import CheckFailed, InternalError
from ...runtime.locks import cached_property
from ..shapes import expr as E
from ..shapes.symbolic_shapes import ShapeEnv, SymFloat, SymInt

KINDS = ("placeholder", "get_attr", "call_function", "output")


@data(eq=False)
class Read:
    """A target that reads data; no op record, because its result is no tensor, or has no known size. `fake` gives the result
    without data: `new(kind)` makes a number that only the data knows. The table of them is in data_dependent.py."""

    name: str
    fn: Callable
    fake: Callable

    def __call__(self, *args: Any) -> Any:
        return self.fn(*args)


class Node:
    """One value of the program. `args` may nest tuples, lists, dicts and slices of Nodes, constants and symbolic
    numbers.

    grad: whether eager recorded gradients here; draw: number of its random draw in the program; source: where an input
    comes from; stack: user frames (filename, line number, source line, function), innermost last; tag: what a pass
    must respect ("checkpoint").
    """

    __slots__ = (
        "graph",
        "op",
        "name",
        "target",
        "_args",
        "users",
        "value",
        "stack",
        "grad",
        "draw",
        "source",
        "tag",
        "_prev",
        "_next",
    )

    def __init__(
        self,
        graph: Graph,
        op: str,
        name: str,
        target: Any,
        args: tuple,
        value: Any = None,
        *,
        stack: tuple = (),
        grad: bool = False,
        draw: int | None = None,
        source: str | None = None,
        tag: str | None = None,
    ):
        if op not in KINDS:
            raise InternalError(f"a node is one of {', '.join(KINDS)}, not {op!r}")
        self.graph, self.op, self.name, self.target, self.value = graph, op, name, target, value
        self.stack, self.grad, self.draw, self.source, self.tag = stack, grad, draw, source, tag
        self.users: dict[Node, None] = {}
        self._args: tuple = ()
        self._prev = self._next = self
        self.args = args

    @property
    def args(self) -> tuple:
        return self._args

    @args.setter
    def args(self, args: tuple) -> None:
        for node in self.inputs:
            node.users.pop(self, None)
        self._args = tuple(args)
        for node in self.inputs:
            node.users[self] = None

    @property
    def inputs(self) -> list[Node]:
        """The nodes it reads, each once, in order."""
        return list(dict.fromkeys(leaves(self._args)))

    @property
    def is_op(self) -> bool:
        return self.op == "call_function" and isinstance(self.target, Op)

    @property
    def is_getitem(self) -> bool:
        return self.op == "call_function" and self.target is operator.getitem

    @property
    def refuses(self) -> bool:
        """Whether the call may raise for what its tensors hold: it may not be dropped then, whoever reads its result."""
        if not (self.is_op and self.target.refuses):
            return False
        return self.target.may_refuse(self.target.bind(map_args(self.args, lambda v: v.value if isinstance(v, Node) else v), {}))

    @property
    def next(self) -> Node:
        return self._next

    def where(self) -> str:
        """The user's innermost line, `file.py:12`, or nothing."""
        return f"{os.path.basename(self.stack[-1][0])}:{self.stack[-1][1]}" if self.stack else ""

    def marks(self) -> dict:
        """What a pass must carry over to a node that takes this one's place."""
        return dict(stack=self.stack, grad=self.grad, draw=self.draw, tag=self.tag)

    def __repr__(self) -> str:
        return self.name


def leaves(value: Any) -> Iterator[Node]:
    """The Nodes inside nested arguments."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves(tuple(value.values()))
    elif isinstance(value, slice):
        yield from leaves((value.start, value.stop, value.step))


def map_args(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nesting with `change` applied to everything that is not a container."""
    if type(value) in (tuple, list):
        return type(value)(map_args(v, change) for v in value)
    if isinstance(value, sizes.Size):
        return tuple(map_args(v, change) for v in value)
    if isinstance(value, dict):
        return {k: map_args(v, change) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(map_args(v, change) for v in (value.start, value.stop, value.step)))
    return change(value)


def map_nodes(value: Any, change: Callable[[Node], Any]) -> Any:
    """The same nesting with Nodes replaced."""
    return map_args(value, lambda v: change(v) if isinstance(v, Node) else v)


class Graph:
    """A program as a linked list of nodes: placeholders first, output last."""

    def __init__(self, env: ShapeEnv | None = None, name: str = "forward"):
        self.env, self.name = env, name
        self.constants: dict[str, Any] = {}
        self.draws = 0
        self._names: set[str] = set(_RESERVED)
        self._counters: dict[str, int] = {}
        self._root = Node(self, "output", "", "root", ())
        self._before = self._root  # new nodes go before this one

    # -- reading -----------------------------------------------------------------------------------------------------
    @property
    def nodes(self) -> list[Node]:
        found, node = [], self._root._next
        while node is not self._root:
            found.append(node)
            node = node._next
        return found

    @property
    def inputs(self) -> list[Node]:
        found, node = [], self._root._next  # placeholders come first
        while node.op == "placeholder":
            found.append(node)
            node = node._next
        return found

    @property
    def output(self) -> Node:
        last = self._root._prev
        if last is self._root or last.op != "output":
            raise InternalError(f"graph {self.name} has no output node yet")
        return last

    @property
    def calls(self) -> list[Node]:
        return [n for n in self.nodes if n.op == "call_function"]

    @property
    def operations(self) -> list[Node]:
        """The calls that compute: picking one of several results is none."""
        return [n for n in self.calls if not n.is_getitem]

    @property
    def last(self) -> Node:
        """What was written last."""
        return self._root._prev

    def find(self, name: str) -> Node:
        return next(n for n in self.nodes if n.name == name)

    def __len__(self) -> int:
        return len(self.nodes)

    # -- building ----------------------------------------------------------------------------------------------------
    def placeholder(self, name: str, value: Any = None, source: str | None = None) -> Node:
        last = self._root._prev
        if last.op != "placeholder":
            last = next(iter(reversed(self.inputs)), self._root)
        with self.inserting_before(last._next):
            return self._insert(Node(self, "placeholder", self.fresh_name(name), name, (), value, source=source))

    def get_attr(self, name: str, tensor: Tensor, value: Tensor | None = None) -> Node:
        """A constant tensor that belongs to the graph."""
        name = name if self.constants.get(name, tensor) is tensor else self.fresh_name(name)
        self.constants[name] = tensor
        return self._insert(Node(self, "get_attr", self.fresh_name(name), name, (), tensor if value is None else value))

    def call(self, target: Any, args: tuple, value: Any = None, name: str | None = None, **marks: Any) -> Node:
        """A call of an op record (or operator.getitem)."""
        wanted: str = name or ("getitem" if target is operator.getitem else target.name)
        return self._insert(Node(self, "call_function", self.fresh_name(wanted), target, args, value, **marks))

    def set_output(self, args: Any) -> Node:
        if self._root._prev.op == "output" and self._root._prev is not self._root:
            self.output.args = (args,)
            return self.output
        with self.inserting_before(self._root):
            return self._insert(Node(self, "output", "output", "output", (args,)))

    def copy_node(self, node: Node, change: Callable[[Node], Any]) -> Node:
        """The same call here, with its inputs replaced, its name and marks kept."""
        new = Node(
            self,
            node.op,
            self.fresh_name(node.name),
            node.target,
            map_nodes(node.args, change),
            node.value,
            source=node.source,
            **node.marks(),
        )
        return self._insert(new)

    def copy(self) -> tuple[Graph, dict[Node, Node]]:
        """A copy and the map from old nodes to new ones."""
        new = self.like()
        table: dict[Node, Node] = {}
        for node in self.nodes:
            if node.op == "output":
                new.set_output(map_nodes(node.args[0], table.__getitem__))
            else:
                table[node] = new.copy_node(node, table.__getitem__)
        return new, table

    def like(self, name: str | None = None) -> Graph:
        """An empty graph over the same symbols, constants and draws."""
        new = Graph(self.env, name or self.name)
        new.constants, new.draws = dict(self.constants), self.draws
        return new

    def fresh_name(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted).strip("_") or "value"
        base = f"v_{base}" if base[0].isdigit() else base
        stem = re.sub(r"_\d+$", "", base)
        while base in self._names or keyword.iskeyword(base) or _SYMBOL.fullmatch(base):
            self._counters[stem] = self._counters.get(stem, 0) + 1
            base = f"{stem}_{self._counters[stem]}"
        self._names.add(base)
        return base

    @contextlib.contextmanager
    def inserting_before(self, node: Node) -> Iterator[Any]:
        before, self._before = self._before, node
        try:
            yield self
        finally:
            self._before = before

    def inserting_after(self, node: Node) -> Any:
        return self.inserting_before(node._next)

    def _insert(self, node: Node) -> Node:
        place = self._before
        if place is self._root and self._root._prev.op == "output" and self._root._prev is not self._root:
            place = self._root._prev  # a finished graph grows before its output
        node._prev, node._next = place._prev, place
        place._prev._next = node
        place._prev = node
        return node

    # -- changing ----------------------------------------------------------------------------------------------------
    def move_before(self, node: Node, place: Node) -> None:
        node._prev._next, node._next._prev = node._next, node._prev
        node._prev, node._next = place._prev, place
        place._prev._next = node
        place._prev = node

    def erase(self, node: Node) -> None:
        if node.users:
            raise InternalError(
                f"{node.name} is erased while {', '.join(u.name for u in node.users)} use it\n{self.print_python()}"
            )
        node._prev._next, node._next._prev = node._next, node._prev
        node.args = ()

    def replace_all_uses(self, old: Node, new: Node) -> None:
        """Every user of `old` reads `new` (a Node, or a nesting of Nodes and constants) instead."""
        for user in list(old.users):
            if user is not new:
                user.args = map_nodes(user.args, lambda n: new if n is old else n)

    # -- checking ----------------------------------------------------------------------------------------------------
    def lint(self) -> None:
        """Raise InternalError, naming the node, unless the list is a well-formed program."""
        seen: dict[Node, None] = {}
        names: set[str] = set()
        nodes = self.nodes
        for node in nodes:
            problem = _problem(self, node, seen, names)
            if problem:
                raise InternalError(f"graph {self.name}, node {node.name}: {problem}\n{self.print_python()}")
            seen[node] = None
            names.add(node.name)
        if not nodes or nodes[-1].op != "output":
            raise InternalError(f"graph {self.name} does not end in an output\n{self.print_python()}")

    # -- symbols -----------------------------------------------------------------------------------------------------
    def symbol_sources(self) -> dict[str, tuple[int, str, int]]:
        """Symbol name -> (input number, "size" | "stride" | "value", dimension): where a call reads it, from a stride only
        where no size or number tells."""
        sources = [(name, (k, what, dim)) for k, node in enumerate(self.inputs) for name, what, dim in _symbols_of(node.value)]
        sources.sort(key=lambda source: source[1][1] == "stride")
        found: dict[str, tuple[int, str, int]] = {}
        for name, source in sources:
            found.setdefault(name, source)
        return found

    # -- printing ----------------------------------------------------------------------------------------------------
    def print_python(self) -> str:
        """The program as Python text: shapes and user lines as comments; it defines `forward` and runs as it stands."""
        return _print(self)

    def compile_python(self) -> Callable:
        """Run the printed text; a function of the inputs (and seed, base for the draws)."""
        space: dict[str, Any] = {}
        exec(compile(self.print_python(), f"<graph {self.name}>", "exec"), space)
        constants = self.constants
        return lambda *inputs, **kw: space[self.name](*inputs, constants=constants, **kw)

    def __str__(self) -> str:
        return self.print_python()

    def _repr_html_(self) -> str:
        """For notebooks: each node with its value's shape and the user's line, where that is another than the node's before."""
        from ..fx.graph_html import table_html

        lines = [_line_of(node) for node in self.nodes]
        rows = [
            (node.name, _call_of(node), "" if node.op == "output" else describe(node.value), line if line != before else "")
            for node, line, before in zip(self.nodes, lines, ["", *lines])
        ]
        return table_html(f"{self.name}: {len(self.inputs)} inputs, {len(self.calls)} operations", rows)

    # -- as backends written for torch.fx see it ---------------------------------------------------------------------
    @cached_property
    def graph_module(self) -> Any:
        """The same program as a `fx.GraphModule`, made when first asked for; `graph`, `code`, `forward` and calls are its."""
        from ..fx.captured import from_captured

        return from_captured(self)

    graph = property(lambda self: self.graph_module.graph)
    code = property(lambda self: self.graph_module.code)
    forward = property(lambda self: self.graph_module.forward)

    def recompile(self) -> Any:
        """Makes changes of `graph` take effect in `forward` and calls."""
        return self.graph_module.recompile()

    def print_readable(self, print_output: bool = True) -> str:
        return self.graph_module.print_readable(print_output)

    def __call__(self, *inputs: Any) -> Any:
        return self.graph_module(*inputs)


_SYMBOL = re.compile(r"[sfu]\d+")
_RESERVED = (
    "constants",
    "seed",
    "base",
    "ops",
    "marks",
    "dtypes",
    "device",
    "inf",
    "nan",
    "math",
    "forward",
    "backward",
    "output",
)


def _problem(graph: Graph, node: Node, seen: dict, names: set) -> str | None:
    if node.graph is not graph:
        return "belongs to another graph"
    if node.name in names:
        return "its name is taken by an earlier node"
    if node.op == "placeholder" and any(n.op != "placeholder" for n in seen):
        return "a placeholder after other nodes"
    if any(n.op == "output" for n in seen):
        return "stands after the output"
    for read in node.inputs:
        if read not in seen:
            return f"reads {read.name}, which is not defined before it"
        if node not in read.users:
            return f"reads {read.name}, which does not list it as a user"
    for user in node.users:
        if node not in user.inputs:
            return f"lists {user.name} as a user, which does not read it"
    return _problem_of_target(graph, node)


def _problem_of_target(graph: Graph, node: Node) -> str | None:
    if node.op == "get_attr" and node.target not in graph.constants:
        return f"reads constant {node.target!r}, which the graph does not have"
    if node.op == "call_function" and not (isinstance(node.target, (Op, Read)) or node.target is operator.getitem):
        return f"calls {node.target!r}, which is not an op record"
    if node.draw is not None and not 0 <= node.draw < graph.draws:
        return f"is draw {node.draw} of a graph with {graph.draws} draws"
    return None


def _symbols_of(value: Any) -> Iterator[tuple[str, str, int]]:
    """(symbol, "size" | "stride" | "value", dim) for every size of a value that is a symbol alone. The stride of a single
    element says nothing: whoever makes the array may write another."""
    if isinstance(value, SymInt):
        rows: Iterable = [(value, "value", 0)]
    elif isinstance(value, SymFloat):
        if value.tree[0] == "var":
            yield value.tree[1], "value", 0
        return
    elif hasattr(value, "shape"):
        rows = [(n, "size", d) for d, n in enumerate(value.shape)]
        rows += [(s, "stride", d) for d, (n, s) in enumerate(zip(value.shape, value.stride())) if not (type(n) is int and n == 1)]
    else:
        return
    for size, what, dim in rows:
        if isinstance(size, SymInt) and size.expr.is_var:
            yield size.expr.name, what, dim


def bind_symbols(value: Any, actual: Any, values: dict[str, Any]) -> None:
    """Add the symbols that stand alone in a meta value to `values`, read from the actual one."""
    for name, what, dim in _symbols_of(value):
        if name not in values:
            values[name] = actual if what == "value" else actual.shape[dim] if what == "size" else actual.stride()[dim]


def check_read(node: Node, value: Any, symbols: dict[str, Any]) -> None:
    """Raise CheckFailed unless a value that only the data knew is of the sizes that the graph has for it."""
    if (env := node.graph.env) is not None:
        env.check_assumed(symbols)
    for fake, real in zip(node.value, value) if isinstance(value, tuple) else ((node.value, value),):
        wanted, found = (fake.shape, real.shape) if isinstance(real, Tensor) else ((fake,), (real,))
        for size, number in zip(wanted, found):
            if not isinstance(size, (int, SymInt)) or isinstance(size, SymInt) and not size.expr.free_names() <= symbols.keys():
                continue
            if evaluate_number(size, symbols) != number:
                raise CheckFailed(f"{node.name}: {number} where {size} was assumed")


def evaluate_number(number: Any, values: dict[str, Any]) -> Any:
    """A symbolic number under bound symbols; anything else is itself."""
    if isinstance(number, SymInt):
        return number.expr.evaluate(values)
    if isinstance(number, SymFloat):
        return number.evaluate(values)
    return number


# -- text -----------------------------------------------------------------------------------------------------------

_HEADER = """import math
from math import inf, nan

from {package}.capture.graph.graph import marks, ops
from {package}.eager import dtypes
from {package}.eager.device import device

"""
_SHORT = {"bool": "b8", "bfloat16": "bf16"}


reads: dict[str, Read] = {}  # by name; data_dependent.py enters them


class _Ops:
    """`ops.add` is the op record named add; `ops.add_` its in-place form."""

    def __getattr__(self, name: str) -> Op | Read:
        try:
            return reads.get(name) or find(name)
        except KeyError:
            raise AttributeError(f"no op record {name!r}") from None


ops = _Ops()


@contextlib.contextmanager
def marks(grad: bool = True, draw: tuple | None = None) -> Iterator[None]:
    """What a printed program says of a call: gradients are not recorded here; it makes this (seed, ordinal) draw."""
    with contextlib.ExitStack() as stack:
        if not grad and state.grad:
            stack.enter_context(recording(False))
        if draw is not None and draw[0] is not None:
            stack.enter_context(random.at(*draw))
        yield


def describe(value: Any) -> str:
    """f32[s0, 4] of a meta tensor, with strides where they are not row-major; short text of other values."""
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(describe, value)) + ")"
    if not hasattr(value, "dtype"):
        return "" if value is None else str(value)
    kind = _SHORT.get(value.dtype.name) or re.sub(r"^(float|int|uint|complex)", lambda m: m[0][0], value.dtype.name)
    text = f"{kind}[{', '.join(map(str, value.shape))}]"
    wanted = tuple(map(_is_plain_constant, sizes.contiguous_strides(tuple(value.shape))))
    actual = tuple(map(_is_plain_constant, value.stride()))
    return text if wanted == actual else f"{text} strides ({', '.join(map(str, actual))})"


def _is_plain_constant(size: Any) -> Any:
    return E.int_if_const(size.expr) if isinstance(size, SymInt) else size


def constant_text(value: Any) -> str:
    """A constant argument as an expression of the printed program."""
    if isinstance(value, Node):
        return value.name
    if isinstance(value, tuple):
        return "(" + ", ".join(map(constant_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(constant_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {constant_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({constant_text(value.start)}, {constant_text(value.stop)}, {constant_text(value.step)})"
    return f"dtypes.{value.name}" if isinstance(value, dtypes.dtype) else repr(value)


def _print(graph: Graph) -> str:
    inputs = graph.inputs
    lines = [_HEADER.format(package=__name__.partition(".")[0])]
    names = "".join(f"{n.name}, " for n in inputs)
    lines.append(f"def {graph.name}({names}*, constants={{}}, seed=None, base=0):")
    lines += [f"    # {n.name}: {describe(n.value)}" + (f"    {n.source}" if n.source else "") for n in inputs]
    for symbol, (k, what, dim) in graph.symbol_sources().items():
        read = {"value": "", "size": f".shape[{dim}]", "stride": f".stride()[{dim}]"}[what]
        lines.append(f"    {symbol} = {inputs[k].name}{read}")
    last, block = None, ""
    for node in graph.nodes:
        if node.op != "placeholder":
            lines += _user_line(node, last)
            last = node.stack[-1][:2] if node.stack else last
            block = _add_statement(lines, node, block)
    return "\n".join(lines) + "\n"


def _user_line(node: Node, last: tuple | None) -> list[str]:
    if not node.stack or node.stack[-1][:2] == last:
        return []
    filename, number, line, function = node.stack[-1]
    return [f"    # {os.path.basename(filename)}:{number} in {function}: {line.strip()}"]


def _add_statement(lines: list[str], node: Node, block: str) -> str:
    """Append the statement of a node, in the `with` block that its marks need; `block` is the one that is open."""
    if node.op == "output":
        lines.append(f"    return {constant_text(node.args[0])}")
        return ""
    marked = [] if node.grad or node.op == "get_attr" else ["grad=False"]
    marked += [] if node.draw is None else [f"draw=(seed, base + {node.draw})"]
    needed = f"    with marks({', '.join(marked)}):" if marked else ""
    if needed and (needed != block or node.draw is not None):
        lines.append(needed)
    shape = describe(node.value)
    comment = "    # " + shape + (f", {node.tag}" if node.tag else "") if shape or node.tag else ""
    lines.append(("        " if needed else "    ") + _statement(node) + comment)
    lines += [("    " if needed else "") + line for line in _unbacked_lines(node)]
    return needed


def _unbacked_lines(node: Node) -> list[str]:
    """Symbols that only the data knows are read from the value that brings them."""
    env = node.graph.env
    reads = {"value": "{0}", "size": "{0}.shape[{1}]", "stride": "{0}.stride()[{1}]"}
    return [
        f"    {name} = {reads[what].format(node.name, dim)}"
        for name, what, dim in _symbols_of(node.value)
        if env is not None and env.symbols[name].hint is None
    ]


def _statement(node: Node) -> str:
    if node.op == "get_attr":
        return f"{node.name} = constants[{node.target!r}]"
    args = ", ".join(map(constant_text, node.args))
    if node.is_getitem:
        return f"{node.name} = {constant_text(node.args[0])}[{constant_text(node.args[1])}]"
    return f"{node.name} = ops.{getattr(node.target, 'name', repr(node.target))}({args})"


def _call_of(node: Node) -> str:
    if node.op == "placeholder":
        return f"input {node.source or ''}".strip()
    return f"return {constant_text(node.args[0])}" if node.op == "output" else _statement(node).partition(" = ")[2]


def _line_of(node: Node) -> str:
    return f"{node.where()}  {node.stack[-1][2].strip()}" if node.stack else ""


# -- running --------------------------------------------------------------------------------------------------------


class Interpreter:
    """Runs a graph node by node, on real or meta tensors. `run_node` is the one place to extend."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.values: dict[Node, Any] = {}
        self.symbols: dict[str, Any] = {}
        self._last_uses = _last_uses(graph)

    def run(self, *inputs: Any, seed: int | None = None, base: int = 0) -> Any:
        """The output for these inputs. With a seed, the node of draw k uses ordinal base + k instead of the generator."""
        placeholders = self.graph.inputs
        if len(inputs) != len(placeholders):
            raise TypeError(
                f"graph {self.graph.name} takes {len(placeholders)} inputs "
                f"({', '.join(n.name for n in placeholders)}), got {len(inputs)}"
            )
        self.values, self.symbols, self.seed, self.base = {}, {}, seed, base
        for node, value in zip(placeholders, inputs):
            self.values[node] = value
            bind_symbols(node.value, value, self.symbols)
        return self._run_nodes()

    def _run_nodes(self) -> Any:
        try:
            for node in self.graph.nodes:
                if node.op == "output":
                    return self.fetch(node.args[0])
                if node.op != "placeholder":
                    self.values[node] = value = self.run_node(node, self.fetch(node.args))
                    bind_symbols(node.value, value, self.symbols)
                    if isinstance(node.target, Read):
                        check_read(node, value, self.symbols)
                for dead in self._last_uses.get(node, ()):
                    del self.values[dead]
        finally:
            self.values = {}

    def fetch(self, args: Any) -> Any:
        """Nodes replaced by their values and symbolic numbers by numbers."""
        return map_args(args, lambda v: self.values[v] if isinstance(v, Node) else evaluate_number(v, self.symbols))

    def run_node(self, node: Node, args: tuple) -> Any:
        """The value of a get_attr or call_function node."""
        if node.op == "get_attr":
            return self.graph.constants[node.target]
        if node.is_getitem:
            return args[0][args[1]]
        return self.call(node, args)

    def call(self, node: Node, args: tuple) -> Any:
        if node.draw is None and (node.grad or not state.grad):
            value = node.target(*args)
        else:
            draw = None if node.draw is None else (self.seed, self.base + node.draw)
            with marks(node.grad, draw):
                value = node.target(*args)
        if node.is_op and node.target.kind is Kind.VIEW and is_no_view(node.value):
            value._fl_view = fresh_view()
        return value


def is_no_view(value: Any) -> bool:
    """Whether a view op gave a tensor like any other: a view of a copy that nobody else has (`reshape`)."""
    return isinstance(value, Tensor) and (value._fl_view is None or value._fl_view is INFERENCE)


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """Node -> the nodes that nothing reads after it."""
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for read in node.inputs:
            if read not in seen:
                seen.add(read)
                if node.op != "output":
                    last.setdefault(node, []).append(read)
    return last
