"""symbolic_trace: a module or function, run once on proxies, as a graph.

In: Python code whose control flow does not depend on values. Out: a Graph. Modules of `nn` are calls (`call_module`),
other modules are traced through; parameters and buffers are `get_attr`. While a trace runs, calls and attributes of
modules, functions of `math` and those under `wrap` ask the tracer.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import inspect
import math
import sys
import types
from types import FunctionType as FunctionType
from itertools import chain
from typing import Any
from collections.abc import Callable, Iterator

from ...eager.compat import pytree
from ...eager.compat.jit import ScriptObject as ScriptObject
from ...eager.nn.modules.container import Sequential
from ...eager.nn.modules.module import Module
from ...eager.nn.parameter import Parameter
from ...eager.frontend.legacy import _assert
from ...eager.tensor import Tensor
from ._compatibility import compatibility as compatibility
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, base_types, map_aggregate
from .proxy import Attribute, Proxy, Scope, TracerBase, assert_fn

NN = Module.__module__.partition(".modules")[0]
_wrapped: dict[tuple[int, str], dict] = {}  # (id of globals, name) -> the globals
_wrapped_methods: list[tuple[type, str]] = []


class PHBase:
    """In `concrete_args`: stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


def is_fx_tracing() -> bool:
    """Whether this thread is in `Tracer.trace`."""
    return bool(_tracing)


is_fx_symbolic_tracing = is_fx_tracing
_tracing: list = []


def _assert_is_none(value: Any, msg: Any) -> None:
    if value is not None:
        raise AssertionError(msg)


def wrap(fn_or_name: Any) -> Any:
    """At module scope: calls of that function from this module, with a proxy among the arguments, are one node. Takes a
    name or decorates; returns its argument."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__code__.co_name
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _find_proxy(*values: Any) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate(values, lambda x: found.append(x) if isinstance(x, Proxy) else x)
    return found[0] if found else None


def _recorded(function: Callable) -> Callable:
    """The function, or a node of it where a proxy comes in."""

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    asked: Any = record
    asked.__fx_recorded__ = True
    return asked


def _recorded_method(name: str, method: Callable) -> Callable:
    @functools.wraps(method)
    def asked(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return asked


class Tracer(TracerBase):
    """`Tracer().trace(root)`; override `is_leaf_module`, `create_arg`, `iter`, `to_bool`, `call_module`, ..."""

    def __init__(self, autowrap_modules: tuple = (math,), autowrap_functions: tuple = (), param_shapes_constant: bool = False):
        if param_shapes_constant:
            raise RuntimeError("torch.fx.Tracer: param_shapes_constant is not supported by flambeau")
        self._autowrap_function_ids = {
            id(f) for module in autowrap_modules for name, f in vars(module).items() if not name.startswith("_") and callable(f)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.root: Module = Module()
        self.submodule_paths: dict[Module, str] | None = None
        self.scope = Scope("", None)
        self.tensor_attrs: dict[Tensor, str] = {}
        self.root_module_name = ""

    # -- what may be overridden

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one call: those of `nn`, but for Sequential."""
        inside = (type(m).__module__ + ".").startswith((f"{NN}.", "torch.nn.", "torch.ao.nn."))
        return inside and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Its dotted path below the root."""
        paths = self.submodule_paths or {}
        if mod not in paths:
            raise NameError("module is not installed as a submodule")
        return paths[mod]

    def call_module(self, m: Module, forward: Callable, args: tuple, kwargs: dict) -> Proxy:
        """A call of a module: one node, or what its forward does."""
        path = self.path_of_module(m)
        outer, self.scope = self.scope, Scope(path, type(m))
        key = path if path not in self.module_stack else f"{path}@{len(self.module_stack)}"
        self.module_stack[key] = path, type(m)
        try:
            if not self.is_leaf_module(m, path):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", path, args, kwargs)
        finally:
            self.scope = outer
            self.module_stack.pop(key)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict) -> Any:
        """What reading an attribute of a module gives: parameters are proxies."""
        if isinstance(attr_val, Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        name = next((n for n, p in members if p is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
        return parameter_proxy_cache[name]

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, Parameter):
            name = next((n for n, p in self.root.named_parameters() if p is a), None)
            if name is None:
                raise NameError("parameter is not a member of this module")
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._place_of(a), (), {})
        if isinstance(a, Module):
            name = next((n for n, m in self.root.named_modules() if m is a), None)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple([self.create_arg(x) for x in a]), {})
        return super().create_arg(a)

    def _place_of(self, tensor: Tensor) -> str:
        """The path of a tensor below the root; one that is not there is put there."""
        name = self.tensor_attrs.get(tensor)
        if name is None:
            name = self.tensor_attrs[tensor] = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, name, tensor)
        return name

    def get_fresh_qualname(self, prefix: str) -> str:
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # -- inputs

    def create_args_for_root(self, root_fn: Callable, is_module: bool, concrete_args: dict | None = None) -> tuple:
        """The function to call and its arguments: proxies, or the values of `concrete_args`."""
        plain = inspect.unwrap(root_fn)
        code = plain.__code__
        names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        args: list = []
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            names.pop(0)
            args.append(self.root)
        given = self._given(concrete_args, names, plain)
        args += [self._proxy_placeholder(name, given, inspect.signature(plain), plain) for name in names]
        if not code.co_kwonlyargcount and not code.co_flags & _COLLECTS:
            return root_fn, args
        rest = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                args.append(self._proxy_placeholder(stars + rest.pop(0), given, inspect.signature(plain), plain))
        return _taking_all_by_place(plain, len(args)), args

    @staticmethod
    def _given(concrete_args: Any, names: list, function: Callable) -> dict:
        if isinstance(concrete_args, tuple):
            if len(concrete_args) != len(names):
                raise RuntimeError(f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments")
            concrete_args = dict(zip(names, concrete_args))
        for name, value in (concrete_args or {}).items():
            if not pytree.tree_structure(value).is_leaf():
                raise RuntimeError(
                    f"torch.fx: concrete_args[{name!r}] is a container; flambeau takes numbers, strings, None and fx.PH there"
                )
        return concrete_args or {}

    def _proxy_placeholder(self, name: str, given: dict, signature: Any, function: Callable) -> Any:
        bare = name.lstrip("*")
        parameter = signature.parameters.get(bare)
        is_open = name.startswith("*") or parameter is None or parameter.default is inspect.Parameter.empty
        default = () if parameter is None or is_open else (parameter.default,)
        if name not in given:
            kind = getattr(function, "__annotations__", {}).get(bare)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        value = given[name]
        out = self.create_proxy("placeholder", f"{name}_1", default, {})
        if isinstance(value, PHBase):
            return out
        told = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (out, told), {})
        elif isinstance(value, base_types) and not isinstance(value, Tensor):
            self.create_proxy("call_function", _assert, (out == value, told), {})
        return value

    # -- the trace

    def trace(self, root: Any, concrete_args: dict | None = None) -> Graph:
        """The graph of `root(...)`: see the module."""
        _tracing.append(self)
        try:
            return self._trace(root, concrete_args)
        finally:
            _tracing.pop()

    def _trace(self, root: Any, concrete_args: Any) -> Graph:
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = getattr(type(root), self.traced_func_name) if is_module else root
        self.submodule_paths = {mod: name for name, mod in self.root.named_modules()} if is_module else {}
        self.root_module_name = root._get_name() if is_module else ""
        self.graph = Graph(tracer_cls=type(self) if type(self) is not Tracer else None)
        self.tensor_attrs = {t: name for name, t in _tensors_of(self.root)}
        self._module_stack = collections.OrderedDict()
        space = inspect.unwrap(function).__globals__
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        with self._asked(space):
            result = self.create_arg(function(*args))
        returned = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
        self.create_node("output", "output", (result,), {}, type_expr=returned)
        self.submodule_paths = None
        return self.graph

    traced_func_name = "forward"

    @contextlib.contextmanager
    def _asked(self, space: dict) -> Iterator[None]:
        """While open: module calls, their attributes and wrapped functions ask this tracer."""
        cache: dict = {}

        @functools.wraps(_orig_module_getattr)
        def module_getattr(mod: Any, name: str) -> Any:
            return self.getattr(name, _orig_module_getattr(mod, name), cache)

        @functools.wraps(_orig_module_call)
        def module_call(mod: Any, *args: Any, **kwargs: Any) -> Proxy:
            forward = lambda *args, **kwargs: _orig_module_call(mod, *args, **kwargs)
            _autowrap_check(patcher, getattr(getattr(mod, "forward", None), "__globals__", {}), self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        with _Patcher() as patcher:
            patcher.patch_method(Module, "__call__", module_call, deduplicate=False)
            patcher.patch_method(Module, "__getattr__", module_getattr, deduplicate=False)
            _patch_wrapped_functions(patcher)
            scopes: list[Any] = [space, *map(vars, self._autowrap_search)]
            for searched in scopes:
                _autowrap_check(patcher, searched, self._autowrap_function_ids)
            yield


# -- what is exchanged while a trace runs (private names of PyTorch's, which tracers of packages call)

_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__
_ABSENT: Any = object()


class _Patcher:
    """`with _Patcher() as patcher:` what it exchanges is as it was when the block ends."""

    def __init__(self) -> None:
        self._undo: list[tuple] = []
        self._seen: set[int] = set()

    def patch(self, frame_dict: dict, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """A name of a scope; with `deduplicate`, only if this patcher has not exchanged it yet."""
        self._exchange(frame_dict, name, new_fn, frame_dict.get(name, _ABSENT), deduplicate)

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """The same of a method."""
        self._exchange(cls, name, new_fn, vars(cls).get(name, _ABSENT), deduplicate)

    def visit_once(self, thing: Any) -> bool:
        """Whether it was not asked about this thing before."""
        fresh = id(thing) not in self._seen
        self._seen.add(id(thing))
        return fresh

    def _exchange(self, place: Any, name: str, new: Any, old: Any, deduplicate: bool) -> None:
        if deduplicate and any(held is place and known == name for held, known, _ in self._undo):
            return
        self._undo.append((place, name, old))
        _put(place, name, new)

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: Any) -> None:
        while self._undo:
            _put(*self._undo.pop())
        self._seen.clear()


def _put(place: Any, name: str, value: Any) -> None:
    if isinstance(place, dict):
        place.pop(name) if value is _ABSENT else place.__setitem__(name, value)
    elif value is _ABSENT:
        delattr(place, name)
    else:
        setattr(place, name, value)


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """What was given to `wrap` records its calls."""
    for (_, name), where in _wrapped.items():
        found = where.get(name, getattr(builtins, name, None))
        if found is not None and not hasattr(found, "__fx_recorded__"):
            patcher.patch(where, name, _recorded(found))
    for cls, name in _wrapped_methods:
        patcher.patch_method(cls, name, _recorded_method(name, getattr(cls, name)))


def _autowrap_check(patcher: _Patcher, frame_dict: dict, function_ids: set[int]) -> None:
    """Functions of a scope that are to be nodes record their calls."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _recorded(value))


_COLLECTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _taking_all_by_place(function: Any, count: int) -> Any:
    """The same code, with *args, **kwargs and keyword-only parameters as positional ones."""
    code = function.__code__.replace(
        co_flags=function.__code__.co_flags & ~_COLLECTS, co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0
    )
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__annotations__ = dict(getattr(function, "__annotations__", {}))
    return made


def _tensors_of(root: Module) -> Iterator[Any]:
    """(path, tensor) of buffers and plain tensor attributes."""
    for prefix, module in root.named_modules():
        for name, value in chain(list(vars(module).items()), module._buffers.items()):
            if isinstance(value, Tensor):
                yield f"{prefix}.{name}" if prefix else name, value


def symbolic_trace(root: Module | Callable, concrete_args: dict | None = None) -> GraphModule:
    """The GraphModule of a module or function. `concrete_args`: values for arguments that are not to be inputs (checked
    when the result is called), or `PH`."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = [
    "PH",
    "Attribute",
    "GraphModule",
    "Node",
    "ProxyableClassMeta",
    "Tracer",
    "assert_fn",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]


class ProxyableClassMeta(type):
    """Classes whose construction with a proxy among the arguments is one node."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        return (
            super().__call__(*args, **kwargs) if proxy is None else proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        )
