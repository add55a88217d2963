"""Graph: a program as a list of Nodes, with torch.fx's methods.

In: `placeholder`, `call_function`, ... append nodes (or insert them, under `inserting_before`). Out: the nodes, text, and
Python code (`python_code`). A graph that `flambeau.compile` captured becomes one of these by `fx.from_captured`.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import keyword
import re
from collections import defaultdict
from typing import Any
from collections.abc import Callable, Iterator

from .graph_html import table_html
from .code import FIXED_GLOBALS, CodeGen, PythonCode
from .node import Node, map_aggregate, map_arg

_SUFFIX = re.compile(r"(.*)_(\d+)")
_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")


class _Namespace:
    """Names that are taken, and whose they are."""

    def __init__(self):
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any) -> str:
        """A fresh identifier like `candidate`; the name that `obj` has already, if it has one."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
        split = _SUFFIX.fullmatch(candidate)
        stem, number = (split[1], int(split[2])) if split else (candidate, 0)
        candidate = f"{stem}_{number}" if split else stem
        number = number or self._counts[stem]
        while candidate in self._used or self._reserved(candidate, obj):
            number += 1
            candidate = f"{stem}_{number}"
        self._used.add(candidate)
        self._counts[stem] = number
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Node) -> None:
        self._names.setdefault(obj, name)

    def _rename_object(self, obj: Any, name: str) -> None:
        self._names[obj] = name
        self._used.add(name)

    @staticmethod
    def _reserved(name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if hasattr(builtins, name):
            return getattr(builtins, name) is not obj
        return name in FIXED_GLOBALS and FIXED_GLOBALS[name] is not obj


class _NodeList:
    """The nodes in order; nodes may be erased while it is walked."""

    def __init__(self, graph: Graph, backwards: bool = False):
        self.graph, self.backwards = graph, backwards

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = root._prev if self.backwards else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self.backwards else node._next

    def __reversed__(self) -> Any:
        """A list of nodes, too: it has a length."""
        return _NodeList(self.graph, not self.backwards)


class _InsertPoint:
    """Where new nodes go; as a context the place before is restored."""

    def __init__(self, graph: Graph, insert: Callable):
        self.graph, self.previous = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> _InsertPoint:
        return self

    def __exit__(self, *_: Any) -> None:
        self.graph._insert = self.previous


class Graph:
    """See the module. `owning_module` is the GraphModule that it belongs to, if any."""

    owning_module = None

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None):
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras
        self._graph_namespace = _Namespace()
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._len = 0
        self._codegen = CodeGen()

    # -- reading

    @property
    def nodes(self) -> _NodeList:
        return _NodeList(self)

    def output_node(self) -> Node:
        last = next(iter(reversed(self.nodes)))
        if last.op != "output":
            raise AssertionError(f"the last node is {last.format_node()}, no output")
        return last

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of an operation (and, of calls, of one target), in order."""
        by_target = op == "call_function" or target is not None
        return [n for n in self.nodes if n.op == op and (not by_target or n.target == target)]

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self.nodes)

    def _repr_html_(self) -> str:
        """For notebooks: the columns of `print_tabular`."""
        rows = [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs) if n.kwargs else "") for n in self.nodes]
        return table_html("graph", rows, strong=5)

    def print_tabular(self) -> None:
        """Prints operation, name, target and arguments in columns."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(len(rows[0][k]) + 2, *(len(row[k]) for row in rows)) for k in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        print("\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows))

    # -- building

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple | None = None,
        kwargs: dict | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, not {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, not {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        return node

    @staticmethod
    def _target_to_str(target: Any) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", None) or getattr(target, "name", "call")
        name = name[2:-2] if name.startswith("__") and name.endswith("__") and len(name) > 4 else name
        return _CAMEL.sub(r"_\1", name).lower()

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input; `*name` and `**name` collect."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """The attribute at a dotted path below the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: dict | None = None, type_expr: Any = None) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: tuple | None = None, kwargs: dict | None = None, type_expr: Any = None) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable,
        args: tuple | None = None,
        kwargs: dict | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """The same call here, with its inputs changed."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, tuple(args), dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict, return_output_node: bool = False) -> Any:
        """Appends the nodes of `g` that are not in `val_map` (inputs are usually given there); returns what `g` returns."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """`with graph.inserting_before(node):` or, without `with`, from now on. None: the beginning of the graph."""
        if n is None:
            return self.inserting_after(self._root)
        self._own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        if n is None:
            return self.inserting_before(self._root)
        self._own(n)
        return _InsertPoint(self, n.append)

    def _own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError("Node to insert at is not in graph.")

    # -- changing

    def erase_node(self, to_erase: Node) -> None:
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases calls whose results nothing reads; whether there were any."""
        self.lint()
        impure = is_impure_node or (lambda node: node.is_impure())
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len < before

    # -- checking

    def lint(self) -> None:
        """Raises RuntimeError, or AssertionError, naming the node, unless the list is a well-formed program."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for read in node.all_input_nodes:
                if read.graph is not self:
                    raise RuntimeError(
                        f"Argument '{read}' of Node '{node}' does not belong to this Graph, but was used as an argument!"
                    )
                if read not in seen:
                    raise RuntimeError(
                        f"Argument '{read}' of Node '{node}' was used before it has been defined! Please check "
                        f"that Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node)

    def _check_target(self, node: Node) -> None:
        at = self.owning_module
        for atom in node.target.split("."):
            if not hasattr(at, atom):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {atom} of {at}")
            at = getattr(at, atom)
        if node.op == "call_module" and not hasattr(at, "forward"):
            raise RuntimeError(f"Node {node} target {node.target} {atom} of {at} does not reference an nn.Module")

    # -- code

    def set_codegen(self, codegen: CodeGen) -> None:
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> tuple:
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        return self._codegen.process_outputs(out)

    def python_code(self, root_module: str, *, verbose: bool = False) -> PythonCode:
        """Text of `forward` and the globals that it needs; `root_module` is the name of the module inside of it."""
        return self._codegen.generate(self, root_module, _Namespace(), verbose)

    def on_generate_code(self, make_transformer: Callable) -> Any:
        """`make_transformer(current)` gives a function from lines of the body to lines, until the context ends."""
        wanted = make_transformer(self._codegen.transform)
        previous, self._codegen.transform = self._codegen.transform, wanted
        return self._restoring(previous)

    @contextlib.contextmanager
    def _restoring(self, previous: Any) -> Iterator[None]:
        try:
            yield
        finally:
            self._codegen.transform = previous

    # -- copies and files

    def __deepcopy__(self, memo: dict | None = None) -> Graph:
        """A copy of the program; `meta` of its nodes is copied one level deep."""
        new = Graph(tracer_cls=self._tracer_cls)
        table: dict = {}
        returned = new.graph_copy(self, table, return_output_node=True)
        if returned is not None:
            result, old = returned
            made = new.output(result, old.type)
            made.meta = copy.copy(old.meta)
            table[old] = made
        new._codegen = copy.copy(self._codegen)
        if memo is not None:
            memo.update({id(old): made for old, made in table.items()})
        return new

    def __reduce__(self) -> tuple:
        """As rows: operation, name, target, arguments with references to earlier rows."""
        number = {node: k for k, node in enumerate(self.nodes)}
        refer = lambda node: _Reference(number[node])
        rows = [
            (n.op, n.name, n.target, map_arg(n.args, refer), map_arg(n.kwargs, refer), n.type, bool(n.meta.get("is_wrapped")))
            for n in self.nodes
        ]
        return _from_rows, (rows,)


class _Reference(int):
    """A node of a stored graph, by number."""


def _from_rows(rows: list) -> Graph:
    graph, made = Graph(), []
    for op, name, target, args, kwargs, kind, wrapped in rows:
        look_up = lambda x: made[x] if isinstance(x, _Reference) else x
        made.append(graph.create_node(op, target, map_aggregate(args, look_up), dict(map_aggregate(kwargs, look_up)), name, kind))
        if wrapped:
            made[-1].meta["is_wrapped"] = True
    return graph
