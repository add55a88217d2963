"""Proxy: a value that a tracer stands in for, and TracerBase, which turns what is done to it into nodes.

In: operators, attributes, method calls and public functions on proxies (the last by `__torch_function__`). Out: one node
each in the tracer's graph. What needs the value itself (a condition, a loop, len) raises TraceError.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import dis
import operator
import sys
from typing import TYPE_CHECKING, Any
from collections.abc import Iterator

from ...eager.compat.overrides import is_tensor_method_or_property
from ...eager.tensor import Tensor
from ...runtime.locks import cached_property
from .code import OPERATORS, magic_methods, reflectable_magic_methods
from .graph import Graph
from .node import Node, base_types, map_aggregate, public_name


class TraceError(ValueError):
    """The program needs the value of something that is only traced."""


@dataclasses.dataclass
class Scope:
    """The module that is being called: dotted path and type."""

    module_path: str
    module_type: Any


class TracerBase:
    """Makes nodes and proxies; subclasses set `graph`."""

    graph: Graph
    record_stack_traces: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    check_mutable_operations: bool = False
    scope: Scope = Scope("", None)

    @property
    def module_stack(self) -> collections.OrderedDict:
        found = self.__dict__.get("_module_stack")
        if found is None:
            found = self._module_stack = collections.OrderedDict()
        return found

    def create_node(
        self, kind: str, target: Any, args: tuple, kwargs: dict, name: str | None = None, type_expr: Any = None
    ) -> Node:
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces:
            node.stack_trace = _user_line()
        return node

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple,
        kwargs: dict,
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Proxy:
        """A node from arguments that hold proxies, and the proxy of it."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """What stands in a node for a value of the program: nodes for proxies, constants as they are."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            made = tuple([self.create_arg(x) for x in a])
            return type(a)(*made) if hasattr(a, "_fields") else made
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._create_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if isinstance(a, range):
            return range(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if isinstance(a, base_types) or callable(a) and hasattr(a, "__name__"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key: Any) -> Any:
        made = self.create_arg(key)

        def refuse(x: Any) -> Any:
            if isinstance(x, Node):
                raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")
            return x

        map_aggregate(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator:
        raise TraceError(
            "Proxy object cannot be iterated. A loop over it, or *args and **kwargs of it, needs its length: "
            "unpack into names, or make the function that loops a leaf with torch.fx.wrap"
        )

    def keys(self, obj: Proxy) -> Proxy:
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists."""

    def __init__(self, graph: Graph):
        self.graph = graph


def _user_line() -> str:
    """The innermost frame outside of the package."""
    package, frame = __name__.partition(".")[0], sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return "" if frame is None else f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}\n'


def assert_fn(x: Tensor) -> None:
    if not x:
        raise AssertionError("Assertion failed")


class Proxy:
    """Stands for the value of `node`."""

    if TYPE_CHECKING:  # `_define` makes it, as all operators

        def __getitem__(self, key: Any) -> Proxy: ...

    def __init__(self, node: Node, tracer: TracerBase | None = None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer") or k.startswith("__") and k.endswith("__"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{k}'")
        return Attribute(self, k)

    def __deepcopy__(self, memo: Any) -> Proxy:
        made = Proxy.__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator:
        """`a, b = proxy` takes as many items as there are names."""
        frame = sys._getframe(1)
        here = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
        if here is not None and here.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(here.argval))
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and (handled := _assertion(self, sys._getframe(1))):
            return handled
        return self.tracer.to_bool(self)

    def keys(self) -> Proxy:
        """For `**proxy`: depends on the tracer."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = None, kwargs: dict | None = None) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict = {}

        def note(x: Any) -> Any:
            if isinstance(x, Proxy):
                tracers[x.tracer] = None
            return x

        map_aggregate((args, kwargs), note)
        if len(tracers) != 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}")
        (tracer,) = tracers
        own = args and isinstance(args[0], Tensor) or public_name(orig_method) is None
        if own and is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _assertion(proxy: Proxy, frame: Any) -> bool:
    """`assert proxy` becomes a call that asserts, where the next instructions raise AssertionError."""
    instructions = list(dis.get_instructions(frame.f_code))
    at = next((k for k, i in enumerate(instructions) if i.offset == frame.f_lasti), None)
    while at is not None and not instructions[at].opname.startswith("POP_JUMP"):
        at = at + 1 if at + 1 < len(instructions) and instructions[at].opname in ("TO_BOOL", "COMPARE_OP", "CACHE") else None
    if at is None or instructions[at + 1].opname not in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT"):
        return False
    proxy.tracer.create_proxy("call_function", assert_fn, (proxy,), {})
    return True


class Attribute(Proxy):
    """`proxy.name`: a method call if it is called, a node of its own when it is used."""

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer

    @cached_property
    def node(self) -> Node:
        return self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _define(name: str) -> None:
    target = OPERATORS[name]

    def method(*args: Any, **kwargs: Any) -> Proxy:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    def reflected(self: Any, other: int) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    plain = name.strip("_")
    method.__name__ = f"__{plain}__"
    setattr(Proxy, f"__{plain}__", method)
    if name in reflectable_magic_methods:
        reflected.__name__ = f"__r{plain}__"
        setattr(Proxy, f"__r{plain}__", reflected)


for _name in magic_methods:
    _define(_name)
