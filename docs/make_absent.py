"""Writes eager/compat/absent/names.txt: what PyTorch has and this package has not, by module.

In: an environment that has PyTorch 2.13 and the package. Out: one line for every module of PyTorch that lacks something here,
as eager/compat/absent/table.py reads it. Run `python docs/make_absent.py` there; `--check` exits with 1 if the file is another.
"""

import ast
import contextlib
import enum
import importlib
import inspect
import io
import pathlib
import pkgutil
import sys
import types
import typing
import warnings

from checked import finish

FILE = pathlib.Path(__file__).parent.parent / "eager" / "compat" / "absent" / "names.txt"
# Modules that are not walked, by the start of their names, and why.
LEFT_OUT = {
    "torch.testing._internal": "PyTorch's own tests",
    "torch.utils.benchmark.examples": "programs, which run when they are imported",
    "torch.nativert.backends": "programs, which run when they are imported",
    "torch.utils._strobelight.examples": "programs, which run when they are imported",
}
PLAIN = (bool, int, float, type(None))


def walked(root):
    """Names of all modules of PyTorch that can be imported here."""
    found = ["torch"]
    silent = contextlib.redirect_stderr(io.StringIO())
    with silent, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in pkgutil.walk_packages(root.__path__, "torch.", onerror=lambda name: None):
            if not info.name.startswith((*LEFT_OUT,)) and not info.name.endswith("__main__"):
                try:
                    importlib.import_module(info.name)
                except (Exception, SystemExit):  # what needs other packages, or is a program
                    continue
                found.append(info.name)
        for name in ("functorch", "functorch.compile", "functorch.experimental", "functorch.experimental.control_flow"):
            importlib.import_module(name)
            found.append(name)
    return found


def public(module):
    """Names that a module offers: those in its `__all__`, and those that its text defines without an underscore (in a
    package, also those that it takes from modules of its own)."""
    names = {name for name in getattr(module, "__all__", ()) if hasattr(module, name)}
    if module.__name__ == "torch":
        names |= {name for name in dir(module) if name[0] != "_" and isinstance(getattr(module, name), of_torch(module))}
    names |= {
        name
        for name, value in vars(module).items()
        if name[0] != "_" and inspect.isclass(value) and value.__module__ == module.__name__
    }
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return sorted(names)
    names |= {name for name in defined(tree.body, module) if not name.startswith("_") and hasattr(module, name)}
    return sorted(name for name in names if not inspect.ismodule(getattr(module, name)) and name.isidentifier())


def of_torch(torch):
    """Kinds of values that torch's top level gets from its core: types of elements and of memory."""
    return torch.dtype, torch.layout, torch.memory_format, torch.qscheme


def defined(body, module):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.ImportFrom) and hasattr(module, "__path__"):
            if node.level or (node.module or "").startswith((module.__name__ + ".", "torch._C")):
                yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for part in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                yield from defined(part, module)


def unlisted(module, name, value):
    """Of private modules only functions and classes are kept."""
    return "._" in module and spelled(name, value)[-1] not in ")}" and not inspect.isclass(value)


def spelled(name, value):
    """A name as a line of the file has it: what kind of thing it is."""
    if isinstance(value, enum.EnumMeta):
        members = ",".join(f"{k}={v.value!r}" if type(v.value) is int else k for k, v in value.__members__.items())
        return f"{name}{{{members}}}"
    if inspect.isclass(value):
        if issubclass(value, BaseException):
            return f"{name}!{next(base.__name__ for base in value.__mro__ if base.__module__ == 'builtins')}"
        return name
    if isinstance(value, sys.modules["torch"].dtype):
        return f"{name}#{value.itemsize}"
    if isinstance(value, typing.TypeVar):
        return f"{name}~"
    if isinstance(value, PLAIN) or type(value) is str and len(value) < 60 and value.isprintable() and not set(" ,") & set(value):
        return f"{name}={value!r}"
    if (
        isinstance(value, types.FunctionType | types.BuiltinFunctionType)
        or inspect.isroutine(value)
        or callable(value)
        and not typing.get_origin(value)
        and type(value).__module__ != "typing"
    ):
        return f"{name}()"
    return f"{name}?"


def text():
    import torch

    modules = {name: sys.modules[name] for name in walked(torch)}
    wanted = {name: public(module) for name, module in modules.items()}
    import flambeau
    from flambeau.eager.compat.absent import table

    table.hide()
    here = {name: present(flambeau, table.inner(name)) for name in modules}
    places = {}  # of a class or function: the module that it can be taken from
    for name in sorted(modules, key=lambda name: (name.count("."), name)):
        for each in wanted[name]:
            if hasattr(here[name], each):
                places.setdefault(id(getattr(modules[name], each)), (name, each))
    for name in modules:
        for each in wanted[name]:
            if getattr(getattr(modules[name], each), "__module__", None) == name:
                places.setdefault(id(getattr(modules[name], each)), (name, each))
    lines = []
    for name, module in modules.items():
        lacking = []
        for each in wanted[name]:
            value = getattr(module, each)
            place, own = places.get(id(value), (name, each)) if hasattr(value, "__module__") else (name, each)
            if hasattr(here[name], each):
                continue
            if not unlisted(name, each, value):
                lacking.append(f"{each}@{place}" if (place, own) != (name, each) and own == each else spelled(each, value))
        if here[name] is None or lacking:
            lines.append(" ".join([name + "/" * hasattr(module, "__path__"), *lacking]) + "\n")
    return "".join(lines)


def present(flambeau, path):
    try:
        return importlib.import_module(f"flambeau.{path}") if path else flambeau
    except ImportError:
        return None


if __name__ == "__main__":
    finish(FILE, text())
