"""torch.ops: operators by namespace and name: those that were registered in Python, and the profiler's blocks."""

import types

from .. import overrides
from . import missing


class Operator:
    """One operator: its function (None until registered), schema and shape function."""

    def __init__(self, name, schema=None):
        self.name, self.schema = name, schema
        self.function = self.fake = self.backward = None
        space, _, own = name.rpartition("::")
        self.__name__ = self.__qualname__ = own
        self.__module__ = f"torch.ops.{space}"

    def __call__(self, *args, **kwargs):
        kinds = overrides.asked_classes((*args, *kwargs.values()))
        if any(map(overrides.own_handler, kinds)):
            return overrides.answers(self, kinds, args, kwargs)
        if self.function is None:
            raise missing.error(f"torch.ops.{self.name.replace('::', '.')}",
                                "no kernel is registered for it (C++ extensions of PyTorch cannot be loaded)")
        return self.function(*args, **kwargs)

    @property
    def default(self):
        return self

    def __repr__(self):
        return f"<operator {self.name}>"


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
        known = OPERATORS.get(f"{self.__name__.rpartition('.')[2]}::{name}")
        if known is None or known.function is None:
            raise AttributeError(f"torch.ops.{self.__name__.rpartition('.')[2]} has no operator {name!r}")
        return known


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


for _name, _function in (("_record_function_enter", _enter), ("_record_function_enter_new", _enter),
                         ("_record_function_exit", _exit)):
    entry(f"profiler::{_name}").function = _function
