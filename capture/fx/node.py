"""Node: one value of a `torch.fx` graph.

In: one of six operations (placeholder, get_attr, call_function, call_method, call_module, output), a target and
arguments that may nest Nodes in tuples, lists, dicts and slices. The idea: `args` and `kwargs` are the only truth, and
assigning them keeps `users` of what they read.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import types
from typing import Any
from collections.abc import Callable

from ...eager import dtypes, overrides
from ...eager.compat import overrides as protocol
from ...eager.compat.operators import OPERATORS, Operator
from ...eager.device import device
from ...eager.memory_formats import memory_format
from ...eager.op.op import Op
from ...eager.tensor import Tensor
from .immutable_collections import immutable_dict, immutable_list

PACKAGE = __name__.partition(".")[0]
Target = Callable[..., Any] | str
Argument = Any  # nestings of nodes and constants
OPERATIONS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
base_types = (str, int, float, bool, complex, dtypes.dtype, Tensor, device, memory_format, range, type(None), type(Ellipsis))


# -- nesting


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """The same nesting with `fn` applied to everything that is not a container; lists and dicts come back frozen."""
    if isinstance(a, tuple):
        made = tuple([map_aggregate(x, fn) for x in a])
        return made if not hasattr(a, "_fields") else type(a)(*made)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(*[map_aggregate(x, fn) for x in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """The same nesting with Nodes replaced by `fn(node)`."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


# -- names of functions


@functools.cache
def _public_names() -> dict[int, str]:
    found: dict[int, str] = {}
    spaces = {
        "torch": sys.modules[PACKAGE],
        **{
            name: sys.modules[f"{overrides.__package__}.{real}"]
            for name, real in protocol._NAMESPACES.items()
            if real and f"{overrides.__package__}.{real}" in sys.modules and name != "torch"
        },
    }
    for space, module in spaces.items():
        for name, value in list(vars(module).items()):
            if callable(value) and not name.startswith("__"):
                found.setdefault(id(value), f"{space}.{name}")
    return found


def public_name(target: Any) -> str | None:
    """`torch.relu` of a function or class that the package has under that name, else None."""
    if isinstance(target, Op):
        return None
    if isinstance(target, Operator):
        return f"{target.__module__}.{target.__name__}"
    found = _public_names().get(id(target))
    if found is None and getattr(target, "__module__", None) in (__package__, f"{__package__}._symbolic_trace"):
        return f"torch.fx._symbolic_trace.{target.__name__}"
    return found


def _get_qualified_name(target: Any) -> str:
    """Where a function can be found: `torch.relu`, `_operator.add`, `module.name`; of a builtin its bare name."""
    found = public_name(target)
    if found is not None:
        return found
    if isinstance(target, Op):
        return f"ops.{target.name}"
    name = target.__name__
    if getattr(builtins, name, None) is target:
        return name
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{target.__objclass__.__module__}.{target.__objclass__.__name__}.{name}"
    return f"{getattr(target, '__module__', None) or 'builtins'}.{name}".replace(f"{PACKAGE}.ops", "torch.ops")


def _type_repr(obj: Any) -> str:
    """A type as an annotation shows it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        return obj.__qualname__ if obj.__module__ == "builtins" else public_name(obj) or f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return obj.__name__ if isinstance(obj, types.FunctionType) else repr(obj)


# -- side effects

_side_effectful_functions: set = {operator.setitem, *(each for name, each in OPERATORS.items() if name.startswith("profiler::"))}


def has_side_effect(fn: Any) -> Any:
    """Calls of `fn` are kept by `eliminate_dead_code` although nothing reads their result. Returns `fn`."""
    _side_effectful_functions.add(fn)
    return fn


class Node:
    """`graph`, `name`, `op`, `target`, `args`, `kwargs`; `type` (annotation), `meta` (a dict for passes), `users`."""

    target: Any  # a function for call_function, else a name

    def __init__(self, graph: Any, name: str, op: str, target: Any, args: tuple, kwargs: dict, return_type: Any = None):
        if op not in OPERATIONS and op != "root":  # (of the list's head)
            raise AssertionError(f"op {op!r} is none of {', '.join(OPERATIONS)}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} "
                "but a Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple = ()
        self._kwargs: dict = immutable_dict()
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable | None = None
        self._set(args, kwargs)

    # -- place

    @property
    def next(self) -> Node:
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` (of the same graph) to before this node."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        x._erased = False
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` to after this node."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    # -- arguments

    @property
    def args(self) -> tuple:
        return self._args

    @args.setter
    def args(self, args: Any) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict) -> None:
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads, each once."""
        return list(self._input_nodes)

    def _set(self, args: tuple, kwargs: dict) -> None:
        for read in self._input_nodes:
            read.users.pop(self, None)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args = map_arg(tuple(args), note)
        self._kwargs = map_arg(dict(kwargs), note)

    def update_arg(self, idx: int, arg: Any) -> None:
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        swap = lambda n: new_input if n is old_input else n
        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Any = lambda user: True, *, propagate_meta: bool = False
    ) -> list:
        """Every user for which the callback says so reads `replace_with` instead; returns them."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay although nothing reads it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            writes = isinstance(self.target, Op) and (self.target.mutates or self.target.effects)
            return bool(writes) or self.target in _side_effectful_functions
        if self.op == "call_module" and self.graph.owning_module is not None:
            return getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False)
        return False

    @property
    def stack_trace(self) -> str | None:
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str) -> None:
        self.meta["stack_trace"] = trace

    # -- text

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        name = _get_qualified_name(target)
        name = f"builtins.{name}" if "." not in name else name
        return name.replace("_operator", "operator")

    def format_node(
        self, placeholder_names: Any = None, maybe_return_typename: Any = None, *, include_tensor_metadata: bool = False
    ) -> str | None:
        """One line: `%relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})`."""
        typed = f"{_type_repr(self.type)} " if self.type is not None else ""
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {typed}[num_users={len(self.users)}] = {self.op}[target={self.target}]{default}"
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        head = f"%{self.name} : {typed}[num_users={len(self.users)}] = {self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_argument_text(self.args)}, kwargs = {_argument_text(self.kwargs)})"


def _argument_text(arg: Any) -> str:
    if isinstance(arg, list):
        return "[" + ", ".join(map(_argument_text, arg)) + "]"
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(_argument_text, arg)) + ("," if len(arg) == 1 else "") + ")"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_argument_text(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)
