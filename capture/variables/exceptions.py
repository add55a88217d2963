"""Exceptions that the traced program raises and catches."""

from __future__ import annotations

from ..breaks import unsupported
from .base import Variable
from .containers import TupleVariable


HEAP_TYPE = 1 << 9                           # Py_TPFLAGS_HEAPTYPE: a class written in Python


class ExceptionVariable(Variable):
    """An exception object: its class and arguments, and the real one when library code raised it."""

    def __init__(self, cls, arguments=(), real=None):
        super().__init__()
        self.cls, self.arguments, self.real = cls, list(arguments), real
        self.fields = {}
        self.step = None         # the root frame's step during which it, or what was being handled then, was first raised

    def raised_during(self, step: int, handled) -> None:
        if self.step is None:
            self.step = step if handled is None or handled.step is None else min(step, handled.step)

    def made_by_python(self, what: str):
        """The error that lets Python raise the exception: only that gives it a traceback and a context."""
        error = unsupported("exception", what)
        error.step = self.step
        return error

    def python_type(self):
        return self.cls

    def describe(self):
        return f"{self.cls.__name__}({', '.join(str(a) for a in self.arguments)})"

    def get_attr(self, tx, name):
        if name in self.fields:
            return self.fields[name]
        if name == "args":
            return TupleVariable(self.arguments)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.arguments[0] if self.arguments else tx.constant(None)
        if name in ("__traceback__", "__cause__", "__context__", "__suppress_context__"):
            if self.step is not None:
                raise self.made_by_python(f"{name} of a caught {self.cls.__name__}")
            return tx.constant(False if name == "__suppress_context__" else None)
        if name == "__class__":
            return tx.wrap_type(self.cls)
        if name == "with_traceback":
            return ReturnsItself(self)
        found = tx.class_attribute(self.cls, name)
        if found is None:
            tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        return tx.bind(found, self, name)

    def set_attr(self, tx, name, value):
        self.fields[name] = value

    def text(self, tx):
        """str(exception)."""
        if not self.arguments:
            return ""
        plain = [tx.plain_or_text(a) for a in self.arguments]
        return str(self.cls(*plain)) if issubclass(self.cls, KeyError) else str(plain[0] if len(plain) == 1 else tuple(plain))

    def reconstruct(self, gen):
        if self.step is not None:
            raise self.made_by_python(f"a caught {self.cls.__name__} is kept")
        own_init = any("__init__" in base.__dict__ for base in self.cls.__mro__ if base.__flags__ & HEAP_TYPE)
        if own_init:               # it was traced: what is left to do is to make the object
            gen.load_call(self.cls.__new__, [gen.constant(self.cls), *self.arguments])
        else:
            gen.load_call(self.cls, self.arguments)
        for name, value in self.fields.items():
            gen.store_attr_on_top(name, value)


class ReturnsItself(Variable):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def call(self, tx, args, kwargs):
        return self.value
