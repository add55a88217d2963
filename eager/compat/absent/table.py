"""What PyTorch 2.13 has and this package has not: modules and names that can be imported and raise when they are used.

In: names.txt, a line for each module (`docs/make_absent.py` writes it), read when a name is first looked for in vain. Out:
modules of placeholders, and `first`, which modules of this package ask for what they lack. After the module's name (`/` for a
package):

    name()  a function          Name    a class                 Name!RuntimeError   an exception, derived from this one
    name=1  a plain value       Name~   a variable of types     Name{A=1,B}         an enumeration with its members
    name?   another value, as a class       name@torch.nn       the thing of this name there
    name#2  a type of elements of two bytes
"""

import ast
import builtins
import enum
import functools
import importlib
import pathlib
import re
import types
import typing
from typing import Any

from ... import dtypes
from .. import missing
from .reasons import reason

ENTRY = re.compile(r"(\w+)(\(\)|~|\?|!(\w+)|@([\w.]+)|#(\d+)|\{([^}]*)\}|=(\S+))?$")
PACKAGE = __name__.partition(".")[0]
_hidden = []
_modules, _values = {}, {}


def hide():
    """From now on nothing is found: for the program that asks what is lacking."""
    _hidden.append(True)
    for kept in (lines, names):
        kept.cache_clear()


@functools.cache
def lines():
    """{path: (whether it is a package, its names as they stand)}; "" is `torch` itself, other paths are without `torch.`"""
    found = {}
    if not _hidden:
        for line in pathlib.Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines():
            name, _, rest = line.partition(" ")
            found[inner(name.rstrip("/"))] = name.endswith("/"), rest
    return found


@functools.cache
def names(path):
    """{name: its entry} of one module."""
    return {re.split(r"\W", each, maxsplit=1)[0]: each for each in lines().get(path, (False, ""))[1].split()}


def inner(name):
    """torch.nn -> nn, torch -> "", functorch.compile -> functorch.compile"""
    first, _, rest = name.partition(".")
    return rest if first == "torch" else name


def public(path):
    """How a program writes a path of the table."""
    return path if path.partition(".")[0] == "functorch" else f"torch.{path}".rstrip(".")


def has(path):
    return path in lines()


def _needs_rpc(function):
    """A mark that packages put on functions while they are imported; the function raises when it is called."""
    symbol = "torch.distributed.rpc"
    return missing.function(symbol, f"{function.__name__}() needs it, and there is one process")


PRIVATE = {("distributed.rpc.api", "_require_initialized"): _needs_rpc}  # names that the table does not list


def first(paths, name):
    """What stands for a name of the module that has these paths; AttributeError if PyTorch has none either."""
    if not name.startswith("__"):
        for path in paths:
            if (path, name) in PRIVATE:
                return PRIVATE[path, name]
            if name in names(path):
                return value(path, name)
            below = f"{path}.{name}".lstrip(".")
            if has(below):
                return importlib.import_module(f"{PACKAGE}.{below}")
    raise AttributeError(f"module {public(paths[0])!r} has no attribute {name!r}")


def value(path, name):
    if (path, name) not in _values:
        _values[path, name] = made(f"{public(path)}.{name}", names(path)[name])
    return _values[path, name]


def made(symbol, entry):
    found = ENTRY.match(entry)
    assert found is not None
    name, sign, exception, place, bytes_, members, plain = found.groups()
    module = symbol.rpartition(".")[0]
    if place:
        return getattr(importlib.import_module(f"{PACKAGE}.{inner(place)}".rstrip(".")), name)
    if sign == "()":
        return missing.function(symbol, reason(symbol))
    if sign == "~":
        variable: Any = typing.TypeVar
        return variable(name)
    if exception:
        return type(
            name, (getattr(builtins, exception),), {"__module__": module, "__doc__": f"{symbol}: nothing here raises it."}
        )
    if bytes_:
        return ElementType(name, int(bytes_))
    if members is not None:
        pairs = [each.partition("=") for each in members.split(",") if each]
        return enum.Enum(name, [(key, int(number) if number else key) for key, _, number in pairs], module=module)
    if plain:
        return ast.literal_eval(plain)
    return missing.kind(symbol, reason(symbol))


class ElementType(dtypes.dtype):
    """A type of elements that no tensor can have here: its name and size are known, all else raises."""

    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize
        self.is_floating_point, self.is_complex = name.startswith("float"), name.startswith("complex")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing.error(f"torch.{self.name}", "no tensor has elements of this type; torch.uint8 holds their bytes")

    numpy = property(lambda self: self.__getattr__("numpy"))


class Placeholders(types.ModuleType):
    """A module of PyTorch that does not exist here."""

    missing: str
    __all__: list[str]

    def __getattr__(self, name):
        found = first([inner(self.__name__)], name)
        setattr(self, name, found)
        return found

    def __dir__(self):
        return sorted({*self.__all__, *vars(self)})


def module(path):
    """The module of placeholders at a path of the table."""
    if path not in _modules:
        symbol = public(path)
        made = _modules[path] = Placeholders(symbol, f"{symbol} does not exist in flambeau: {reason(symbol)}.")
        made.missing, made.__all__ = symbol, list(names(path))
        if lines()[path][0]:
            made.__path__ = []
    return _modules[path]
