"""What all parts of a Context share: where the trace is, guards, new variables, and running library code on fakes.

The fields are set by the Context (trace_context.py). What calls, operators and iteration mean stands on this (semantics.py), and
on both what texts say (texts.py).
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ...eager import autograd
from ...eager.class_homes import real_module
from ...eager.errors import DataDependent
from ...runtime.errors import FlambeauError
from ..breaks import UserRaise, unsupported
from ..graph.graph import Node
from ..graph.graph_tracer import GraphTracer
from ..guards.source import Guards, Pinned, Source
from ..shapes.symbolic_shapes import ShapeEnv
from ..variables import builder
from ..variables.base import NotPlain, Variable
from ..variables.constant import ConstantVariable
from ..variables.exceptions import ExceptionVariable, SizedExceptionVariable
from ..variables.objects import ClassVariable

ROOT = __name__.split(".")[0]
AUTOGRAD = f"{ROOT}.eager.autograd"
INLINED = tuple(
    f"{ROOT}.eager.{name}"
    for name in (
        "nn.modules",
        "nn.utils",
        "nn.attention",
        "nn.parallel",
        "optim",
        "utils",
        "distributions",
        "func",
        "compat.backends",
        "compat.pytree",
        "compat.higher_order",
    )
)
EAGER = f"{ROOT}.eager"


class TraceState:
    """The state of a trace, as far as its parts ask for it."""

    GRAD_MODES = (autograd.no_grad, autograd.enable_grad, autograd.set_grad_enabled, autograd.inference_mode)

    inline_call: Callable  # (context, function, args, kwargs) -> Variable
    global_of: Callable  # (context, frame, name) -> Variable
    frames: list  # those being interpreted, innermost last
    tracer: GraphTracer
    env: ShapeEnv
    guards: Guards
    last_node: Node | None  # of the graph, when the loops' steps were last counted from zero
    idle: int  # steps of loops since then

    # -- guards ----------------------------------------------------------------------------------------------------

    def line(self) -> str:
        """The user's innermost line as `file:line`, for guards."""
        for frame in reversed(self.frames):
            if not frame.trusted and frame.line:
                return f"{frame.code.co_filename}:{frame.line}"
        return ""

    def guard(self, source: Source, kind: str, payload: Any = None) -> None:
        if not (isinstance(source, Pinned) and kind in ("is", "type_is", "equals")):
            self.guards.add(source, kind, payload, self.line())

    def guard_different(self, a: Source, b: Source) -> None:
        """Two paths lead to two objects. Pinned objects are different for good."""
        if not (isinstance(a, Pinned) and isinstance(b, Pinned)):
            first, second = sorted((a, b), key=lambda source: source.name())
            self.guard(first, "not_same", second)

    # -- making variables ------------------------------------------------------------------------------------------

    def wrap(self, value: Any, source: Source) -> Variable:
        return builder.wrap(self, value, source)

    def fresh(self, value: Any) -> Variable:
        return builder.fresh(self, value)

    def constant(self, value: Any) -> ConstantVariable:
        return ConstantVariable(value)

    def wrap_type(self, cls: type) -> ClassVariable:
        return ClassVariable(cls)

    def wrap_pinned(self, value: Any, label: str) -> Variable:
        return self.wrap(value, Pinned(value, label))

    # -- running library code --------------------------------------------------------------------------------------

    def run(self, fn: Callable, *args: Any, **kwargs: Any) -> Any:
        """Call real code on fakes and numbers; its exceptions are the traced program's. What a builtin asks of a number is
        the program's own question; what library code asks is asked of a size or an index."""
        before, self.env.assumes = self.env.assumes, not isinstance(fn, (types.BuiltinFunctionType, type))
        try:
            with self.tracer:
                return fn(*args, **kwargs)
        except DataDependent as error:
            raise unsupported("item" if "item" in error.what else "data-dependent", str(error)) from error
        except (FlambeauError, UserRaise):
            raise
        except RecursionError as error:
            raise unsupported("recursion", "calls nest too deeply") from error
        except Exception as error:
            raise UserRaise(self.exception(error), f"{type(error).__name__}: {error}") from error
        finally:
            self.env.assumes = before

    def run_outside(self, fn: Callable, *args: Any, **kwargs: Any) -> Any:
        """Call real code on real values, as if nothing were traced; its exceptions are the traced program's."""
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            raise UserRaise(self.exception(error), f"{type(error).__name__}: {error}") from error

    def run_variables(self, fn: Callable, args: Iterable = (), kwargs: dict | None = None, what: str = "") -> Any:
        """`run` on variables; one without a plain value is a graph break."""
        try:
            values = [a.realize().plain() for a in args]
            named = {k: v.realize().plain() for k, v in (kwargs or {}).items()}
        except NotPlain as error:
            name = what or getattr(fn, "__qualname__", repr(fn))
            raise unsupported("call", f"{name} cannot be traced with {error} as an argument") from error
        return self.run(fn, *values, **named)

    def runs_for_real(self, fn: Any) -> bool:
        """Library functions that are run on fakes instead of being inlined."""
        module = real_module(fn)
        return module.startswith(EAGER) and not module.startswith((*INLINED, AUTOGRAD))

    def exception(self, error: Exception) -> ExceptionVariable:
        """What library code raised."""
        if self.env.symbols and not self.env.symbols.keys().isdisjoint(re.findall(r"[a-z]\d+", str(error))):  # "s0xs1" has two
            return SizedExceptionVariable(error)
        arguments = [self.constant(a if isinstance(a, (str, int, float, bool, type(None))) else str(a)) for a in error.args]
        return ExceptionVariable(type(error), arguments, error)

    def raise_error(self, cls: type, *args: Any) -> NoReturn:
        raise UserRaise(ExceptionVariable(cls, [self.constant(a) for a in args]), f"{cls.__name__}: {' '.join(map(str, args))}")
