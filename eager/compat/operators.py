"""torch.ops: operators by namespace and name: those that were registered in Python, and the profiler's blocks."""

import functools
import importlib
import inspect
import pathlib
import types

from . import missing
from .custom_operator import Operator


OPERATORS = {}


def entry(name, schema=None):
    """The operator of this name, made if it is new."""
    operator = OPERATORS.setdefault(name, Operator(name))
    operator.schema = schema or operator.schema
    return operator


def find(name):
    if name not in OPERATORS:
        raise missing.error(f"torch.ops.{name.replace('::', '.')}", "it was never registered")
    return OPERATORS[name]


class Namespace(types.ModuleType):
    """torch.ops.NAME."""

    def __getattr__(self, name):
        space = self.__name__.rpartition(".")[2]
        known = OPERATORS.get(f"{space}::{name}")
        if known is None and space == "aten" and name in _aten():
            made = AtenOperator(name)
            setattr(self, name, made)
            return made
        if known is None or known.function is None:
            raise AttributeError(f"torch.ops.{self.__name__.rpartition('.')[2]} has no operator {name!r}")
        return known.function if known.built_in else known


# -- PyTorch's own operators: public functions of the same signature under another name

_SPACES = {"linalg_": "linalg", "fft_": "fft", "special_": "special"}


@functools.cache
def _aten():
    """{operator of PyTorch 2.13: the names of its overloads}"""
    lines = pathlib.Path(__file__).with_name("aten.txt").read_text(encoding="utf-8").splitlines()
    return {name: overloads for name, *overloads in map(str.split, lines)}


def _answering(name):
    """The function or method that does what `aten::name` does; None if there is none."""
    face = importlib.import_module(__name__.partition(".")[0])
    for prefix, space in _SPACES.items():
        if name.startswith(prefix):
            return getattr(getattr(face, space), name.removeprefix(prefix), None)
    found = getattr(face, name, None)
    if found is None or inspect.isclass(found) or inspect.ismodule(found):
        found = getattr(face.Tensor, name, None)
    return found if callable(found) and not hasattr(found, "missing") and not inspect.isclass(found) else None


class AtenOperator:
    """`torch.ops.aten.add`: calls the function `torch.add` (or the method). Its overloads (`.Tensor`, `.out`) do the same:
    what the arguments are tells which one is meant."""

    def __init__(self, name, overload=""):
        self._name, self._overload = name, overload
        self.__name__ = self.__qualname__ = f"{name}.{overload}" if overload else name
        self.__module__ = "torch.ops.aten"
        self.function = _answering(name)

    def __call__(self, *args, **kwargs):
        if self.function is None:
            raise missing.error(f"torch.ops.aten.{self.__name__}", "no public function does the same")
        return self.function(*args, **kwargs)

    def __getattr__(self, name):
        if not self._overload and name in _aten()[self._name]:
            made = AtenOperator(self._name, name)
            setattr(self, name, made)
            return made
        raise AttributeError(f"torch.ops.aten.{self.__name__} has no overload {name!r}")

    def overloads(self):
        return list(_aten()[self._name])

    def name(self):
        return f"aten::{self.__name__.removesuffix('.default')}"

    def __repr__(self):
        return (
            f"<OpOverload(op='aten.{self._name}', overload='{self._overload}')>"
            if self._overload
            else f"<OpOverloadPacket(op='aten.{self._name}')>"
        )

    def __str__(self):
        return f"aten.{self.__name__}"


class Operators(types.ModuleType):
    """torch.ops."""

    loaded_libraries = frozenset()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        space = Namespace(f"torch.ops.{name}")
        setattr(self, name, space)
        return space

    @staticmethod
    def load_library(path):
        """torchvision's library of operators stands for those of `torchvision_ops`, which this package has itself."""
        place = pathlib.Path(path)
        if (place.parent.name, place.name.partition(".")[0]) == ("torchvision", "_C"):
            for name, function in importlib.import_module(".torchvision_ops", __package__).FUNCTIONS.items():
                made = entry(name)
                made.function, made.built_in = function, True
            return
        raise OSError(f"{path}: C++ extensions built for PyTorch cannot be loaded by flambeau")


ops = Operators("flambeau.ops", __doc__)


# -- the profiler's blocks, where a program opens and closes them itself


def _enter(name, args=None):
    """The open block, for `_record_function_exit`."""
    return _blocks().entered(name, args)


def _exit(handle):
    if not isinstance(handle, _blocks()):
        raise TypeError(f"_record_function_exit(): expected what _record_function_enter() gave, not {type(handle).__name__}")
    handle.close()


def _blocks():
    from ..profiler.recorder import record_function

    return record_function


for _name, _function in (
    ("_record_function_enter", _enter),
    ("_record_function_enter_new", _enter),
    ("_record_function_exit", _exit),
):
    entry(f"profiler::{_name}").function = _function
