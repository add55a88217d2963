"""GraphModule: a module whose `forward` is the code of a graph.

In: a root (a module, or a dict from dotted paths to what is there) and a graph. Out: a module with what the graph
reads of the root; its class is its own, so that `forward` can be written anew (`recompile`).
"""

from __future__ import annotations

import copy
import itertools
import linecache
import os
from pathlib import Path
from typing import Any
from collections.abc import Callable

from ...eager.nn.modules.module import Module
from ...eager.nn.parameter import Parameter
from ...eager.tensor import Tensor
from .code import PythonCode
from .graph import Graph

_count = itertools.count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # of `meta`: attributes that copies take over


class _CodeOnlyModule(Module):
    """A module with these fields, for code that makes a GraphModule anew from them."""

    def __init__(self, body: dict):
        super().__init__()
        self.__dict__.update(body)


def _forward_from_src(code: PythonCode) -> Callable:
    """The function that the text defines; its lines show up in tracebacks."""
    name = f"<eval_with_key>.{next(_count)}"
    linecache.cache[name] = len(code.src), None, code.src.splitlines(True), name
    space = dict(code.globals)
    exec(compile(code.src, name, "exec"), space)
    return space["forward"]


def _copy_attr(source: Module, target: Module, path: str) -> None:
    """What lies at a dotted path below one module, under the same path below another."""
    *prefix, name = path.split(".")
    for part in prefix:
        source, target = getattr(source, part), _child(target, part)
        if source is target:  # the whole module was taken over before
            return
    found = getattr(source, name)
    if isinstance(found, Tensor) and not isinstance(found, Parameter):
        target.register_buffer(name, found)
    else:
        setattr(target, name, found)


def _assign_attr(value: Any, target: Module, path: str) -> None:
    *prefix, name = path.split(".")
    for part in prefix:
        target = _child(target, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


def _child(module: Module, name: str) -> Module:
    if not hasattr(module, name):
        setattr(module, name, Module())
    return getattr(module, name)


class GraphModule(Module):
    """`graph`, `code`, `forward`. After changing the graph, `recompile()`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        base = next(c for c in cls.__mro__ if "_own_graph_class" not in vars(c))
        own: Any = type("GraphModuleImpl", (base,), {"_own_graph_class": True, "__module__": base.__module__})
        return super().__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        elif not isinstance(root, dict):
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        paths = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            for path in paths:
                _copy_attr(root, self, path)
        else:
            missing = next((p for p in paths if p not in root), None)
            if missing is not None:
                raise RuntimeError(f"Node referenced target {missing} but that target was not provided in root!")
            for path in sorted(dict.fromkeys(paths), key=lambda p: p.count(".")):
                _assign_attr(root[path], self, path)
        self._tracer_cls = graph._tracer_cls
        self.meta: dict[str, Any] = {}
        self.graph = graph

    @property
    def graph(self) -> Graph:
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of forward."""
        return self._code

    def recompile(self) -> PythonCode:
        """Write and load `forward` from the graph as it is now."""
        code = self._graph.python_code("self")
        self.__dict__["_code"] = code.src
        type(self).forward = _forward_from_src(code)
        return code

    # -- modules below

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a dotted path, making what lies between; False if something else is in the way."""
        *prefix, name = target.split(".")
        module: Module = self
        for part in prefix:
            module = _child(module, part)
            if not isinstance(module, Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        *prefix, name = target.split(".")
        module: Module = self
        for part in prefix:
            if not isinstance(getattr(module, part, None), Module):
                return False
            module = getattr(module, part)
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Deletes modules that no node of the graph calls or reads from."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[: k + 1]) for k in range(len(parts)))
                if node.op == "call_module":
                    used.update(f"{node.target}.{n}" for n, _ in self.get_submodule(node.target).named_modules() if n)
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    # -- text and files

    def print_readable(self, print_output: bool = True, **_: Any) -> str:
        """The code with the user's lines, where they are known, as a class."""
        code = self._graph.python_code("self", verbose=True).src.strip("\n")
        lines = "\n".join("    " + line if line.strip() else "" for line in code.split("\n"))
        text = f"class {self._get_name()}(torch.nn.Module):\n{lines}\n"
        for _, child in self.named_children():
            if isinstance(child, GraphModule):
                text += "\n" + "\n".join("    " + line for line in child.print_readable(False).split("\n"))
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | os.PathLike, module_name: str = "FxModule") -> None:
        """Writes a package: `module.py` with the class, and one file of modules, parameters and globals."""
        from ...eager import serialization

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        code = self._graph.python_code("self")
        fixed = {"inf", "nan", "NoneType", "torch", "device"}
        parts = {name: value for name, value in code.globals.items() if name not in fixed}
        members = {**dict(self._modules), **dict(self._parameters), **dict(self._buffers)}
        serialization.save({"members": members, "globals": parts}, str(folder / "state.pt"))
        body = "\n".join("    " + line if line.strip() else "" for line in code.src.strip("\n").split("\n"))
        (folder / "module.py").write_text(_FOLDER.format(package=__name__.partition(".")[0], name=module_name, body=body))
        (folder / "__init__.py").write_text("from .module import *\n")

    def __str__(self) -> str:
        return "\n".join(
            [Module.__repr__(self), self._code, "# `graph_module.print_readable()` shows the code with the lines it came from"]
        )

    # -- copies and files

    def __copy__(self) -> GraphModule:
        return GraphModule(self, self._graph, type(self).__name__)

    def __deepcopy__(self, memo: dict) -> GraphModule:
        fields = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        return _rebuilt(copy.deepcopy(fields, memo), copy.deepcopy(self._graph, {}), type(self).__name__, memo, id(self))

    def __reduce__(self) -> tuple:
        fields = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code", "_tracer_cls")}
        return _rebuilt, (fields, self._graph, type(self).__name__)


def _rebuilt(fields: dict, graph: Graph, name: str, memo: dict | None = None, key: int = 0) -> GraphModule:
    made = GraphModule.__new__(GraphModule)
    Module.__init__(made)
    made.__dict__.update(fields)
    made.__dict__.setdefault("_tracer_cls", None)
    type(made).__name__ = name
    made.graph = graph
    if memo is not None:
        memo[key] = made
    return made


_FOLDER = """import os
from math import inf, nan

import {package} as torch
from {package} import device

NoneType = type(None)
_stored = torch.load(os.path.join(os.path.dirname(__file__), "state.pt"), weights_only=False)
globals().update(_stored["globals"])


class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, value in _stored["members"].items():
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

{body}
"""
