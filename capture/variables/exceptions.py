"""Exceptions that the traced program raises and catches."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..breaks import unsupported
from .base import Variable
from .constant import HEAP_TYPE
from .sequences import ListVariable, TupleVariable


class ExceptionVariable(Variable):
    """An exception object: its class and arguments, and the real one when library code raised it."""

    def __init__(self, cls: Any, arguments: Any = (), real: Any = None):
        super().__init__()
        self.cls, self.arguments, self.real = cls, list(arguments), real
        self.fields = {}
        self.changed = False  # the program wrote an attribute or the arguments
        self.notes = None
        self.step = None  # the root frame's step during which it, or what was being handled then, was first raised

    def raised_during(self, step: int, handled: Any) -> None:
        if self.step is None:
            if handled is not None and handled is not self:
                self.fields.setdefault("__context__", handled)
            self.step = step if handled is None or handled.step is None else min(step, handled.step)

    def made_by_python(self, what: str) -> Any:
        """The error that lets Python raise the exception: only that gives it a traceback and a context."""
        return unsupported("exception", what, step=self.step)

    def python_type(self) -> Any:
        return self.cls

    def describe(self) -> str:
        return f"{self.cls.__name__}({', '.join(str(a) for a in self.arguments)})"

    def get_attr(self, tx: Any, name: Any) -> Any:
        if name in self.fields:
            return self.fields[name]
        if name == "args":
            return TupleVariable(self.arguments)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.arguments[0] if self.arguments else tx.constant(None)
        if name == "code" and issubclass(self.cls, SystemExit):
            return (
                self.arguments[0]
                if len(self.arguments) == 1
                else TupleVariable(self.arguments)
                if self.arguments
                else tx.constant(None)
            )
        if name in ("__traceback__", "__cause__", "__context__", "__suppress_context__"):
            if self.step is not None and (name == "__traceback__" or self.real is not None):
                raise self.made_by_python(f"{name} of a caught {self.cls.__name__}")
            return tx.constant(False if name == "__suppress_context__" else None)
        if name == "__class__":
            return tx.wrap_type(self.cls)
        if name == "with_traceback":
            return ConstantMethod(self)
        if name == "add_note":
            return AddNoteMethod(self)
        if name == "__notes__" and self.notes is not None:
            return self.notes
        if name in ("__str__", "__repr__"):
            return ExceptionTextMethod(self, str if name == "__str__" else repr)
        found = tx.class_attribute(self.cls, name)
        if found is None:
            return tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        if isinstance(found[1], (types.MemberDescriptorType, types.GetSetDescriptorType)):
            raise self.made_by_python(f"{name} of a {self.cls.__name__}")
        return tx.bind(found, self, name)

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        if name in ("__traceback__", "__cause__", "__context__"):
            kind = types.TracebackType if name == "__traceback__" else BaseException
            if not issubclass(value.python_type(), (kind, type(None))):
                raise unsupported("exception", f"{name} of an exception becomes a {value.python_type().__name__}")
        if name == "__traceback__":  # what Python will give it when it is raised again
            return
        self.changed = self.changed or not name.startswith("__")
        if name == "args":
            self.arguments = tx.unpack(value)
            return
        if name == "__cause__":
            self.fields["__suppress_context__"] = tx.constant(True)
        self.fields[name] = value

    def twin(self, tx: Any) -> Any:
        """A real exception with the same arguments and so with the same fields, to ask what its C code makes of them."""
        written = any(
            isinstance(tx.class_attribute(self.cls, name)[1], (types.FunctionType, staticmethod))
            for name in ("__init__", "__new__")
        )
        if written or self.changed or not all(argument.is_constant() for argument in self.arguments):
            raise unsupported("exception", f"the text of a {self.cls.__name__}")
        return self.real if self.real is not None else tx.run(self.cls, *(argument.plain() for argument in self.arguments))

    def text(self, tx: Any, form: Callable) -> Any:
        """str(exception), or with another form: what its class says, else its arguments."""
        own = tx.class_attribute(self.cls, "__str__" if form is str else "__repr__")
        if isinstance(own[1], types.FunctionType):
            return tx.call(tx.bind(own, self, "__str__"), [], {}).plain()
        if own[0] not in (BaseException, KeyError):  # written in C, of the object's own fields
            return form(self.twin(tx))
        if form is str and len(self.arguments) == 1 and not issubclass(self.cls, KeyError):
            return tx.text(self.arguments[0])
        parts = [tx.text(argument, repr) for argument in self.arguments]
        if form is str:
            return parts[0] if len(parts) == 1 else f"({', '.join(parts)})" if parts else ""
        return f"{self.cls.__name__}({', '.join(parts)})"

    def reconstruct(self, gen: Any) -> None:
        if self.step is not None:
            raise self.made_by_python(f"a caught {self.cls.__name__} is kept")
        own_init = any("__init__" in base.__dict__ for base in self.cls.__mro__ if base.__flags__ & HEAP_TYPE)
        if own_init:  # it was traced: what is left to do is to make the object
            gen.load_call(self.cls.__new__, [gen.constant(self.cls), *self.arguments])
        else:
            gen.load_call(self.cls, self.arguments)
        for name, value in self.fields.items():
            gen.store_attr_on_top(name, value)
        if self.notes is not None:
            gen.store_attr_on_top("__notes__", self.notes)


class SizedExceptionVariable(ExceptionVariable):
    """What library code raised with a size that changes in its text: that is Python's to write, with the number of each call.
    It can be caught; who looks at its arguments, or keeps it, lets Python raise it."""

    def __init__(self, error: Exception):
        super().__init__(type(error), (), error)
        self.given = None  # what the program has written for arguments

    @property
    def arguments(self) -> Any:
        if self.given is None:
            raise self.made_by_python(f"the text of a {self.cls.__name__} tells a size that changes")
        return self.given

    @arguments.setter
    def arguments(self, arguments: list) -> None:
        self.given = arguments

    def describe(self) -> str:
        return self.cls.__name__


class AddNoteMethod(Variable):
    """`exception.add_note`."""

    def __init__(self, owner: Any):
        super().__init__()
        self.owner = owner

    def call(self, tx: Any, args: list, kwargs: dict) -> Any:
        if self.owner.notes is None:
            self.owner.notes = ListVariable([])
        return self.owner.notes.method_append(tx, *args, **kwargs)


class ExceptionTextMethod(Variable):
    """`exception.__str__` or `__repr__`, as BaseException has them."""

    def __init__(self, owner: Any, form: Any):
        super().__init__()
        self.owner, self.form = owner, form

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return tx.constant(self.owner.text(tx, self.form))


class TracebackVariable(Variable):
    """The traceback of an exception that only the trace raised: it can be passed on, and is not None; no more is known."""

    def __init__(self, raised: ExceptionVariable):
        super().__init__()
        self.raised = raised

    def python_type(self) -> type:
        return types.TracebackType

    def get_attr(self, tx: Any, name: str) -> Variable:
        raise self.raised.made_by_python(f"{name} of a traceback")

    def reconstruct(self, gen: Any) -> None:
        raise self.raised.made_by_python("a traceback is kept")


class ConstantMethod(Variable):
    def __init__(self, value: Any):
        super().__init__()
        self.value = value

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return self.value
