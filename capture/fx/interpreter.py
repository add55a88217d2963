"""Interpreter: runs a GraphModule node by node; Transformer: runs it on proxies and gives the graph that comes out.

In: a GraphModule and inputs. Out: the result, or a new GraphModule. Each operation is a method to override.
"""

from __future__ import annotations

import contextlib
from typing import Any
from collections.abc import Callable, Iterator

from ...eager.nn.modules.module import Module
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy


class Interpreter:
    """`Interpreter(module).run(*inputs)`. `env` has the values of nodes that are still needed."""

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None):
        self.module, self.submodules = module, dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.garbage_collect_values, self.name = garbage_collect_values, "Interpreter"
        self.extra_traceback = True
        self.args_iter = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for read in node.all_input_nodes:
                    if read not in seen:
                        seen.add(read)
                        self.user_to_last_uses.setdefault(node, []).append(read)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The output for these inputs. `initial_env`: values that are known."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and error.args and f"While executing {node.format_node()}" not in str(error.args[0]):
                    error.args = (f"{error.args[0]}\n\nWhile executing {node.format_node()}", *error.args[1:])
                raise
            for dead in self.user_to_last_uses.get(node, ()):
                self.env.pop(dead, None)
            if node.op == "output":
                found = self.env[node]
                return self.graph.process_outputs(found) if enable_io_processing else found
        return None

    def boxed_run(self, args_list: list) -> Any:
        """Like `run`; takes the inputs out of the list, so that they may die."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        yield

    def run_node(self, n: Node) -> Any:
        """The value of a node: calls the method of its operation."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        with self._set_current_node(n):
            return getattr(self, n.op)(n.target, args, kwargs)

    # -- operations

    def placeholder(self, target: Any, args: tuple, kwargs: dict) -> Any:
        if target.startswith("*"):
            return list(self.args_iter) if not target.startswith("**") else dict(next(self.args_iter, {}))
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return self.fetch_attr(target)

    def call_function(self, target: Callable, args: tuple, kwargs: dict) -> Any:
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict) -> Any:
        self_obj, *rest = args
        return getattr(self_obj, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict) -> Any:
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple, kwargs: dict) -> Any:
        return args[0]

    # -- helpers

    def fetch_attr(self, target: str) -> Any:
        """What lies at a dotted path below the module."""
        found: Any = self.module
        done: list[str] = []
        for atom in target.split("."):
            done.append(atom)
            if not hasattr(found, atom):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(done)}")
            found = getattr(found, atom)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        def value(read: Node) -> Any:
            if read not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {read}! Run Graph.lint() to diagnose such issues")
            return self.env[read]

        return _thawed(map_arg(args, value))


def _thawed(args: Any) -> Any:
    """Frozen lists and dicts of a graph as ordinary ones."""
    if isinstance(args, tuple) and not hasattr(args, "_fields"):
        return tuple([_thawed(a) for a in args])
    if isinstance(args, list):
        return [_thawed(a) for a in args]
    if isinstance(args, dict):
        return {k: _thawed(v) for k, v in args.items()}
    return args


class _TransformerTracer(Tracer):
    """Modules are called whole; what was a tensor attribute stays one."""

    def __init__(self, graph: Graph, root: Module):
        super().__init__()
        self.graph, self.root = graph, root

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """`transform()` runs the methods on proxies and gives the new GraphModule."""

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)
        self.tracer.root = module

    def placeholder(self, target: Any, args: tuple, kwargs: dict) -> Proxy:
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: tuple, kwargs: dict) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple, kwargs: dict) -> Proxy:
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Proxy:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        result = super().run(enable_io_processing=False)
        if result is not None:
            old = self.graph.output_node()
            proxies = map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x)
            made = self.new_graph.output(proxies, old.type)
            made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
