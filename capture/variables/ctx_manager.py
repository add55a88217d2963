"""Context managers of grad mode (no_grad, enable_grad, set_grad_enabled, inference_mode), of autocast, and of profiles.

Entering one switches the mode that traced operations record; a switch that outlives the frame is replayed as a side
effect. User-written managers need nothing here: their `__enter__` and `__exit__` are inlined like any method.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...eager.autograd import inference_mode, set_grad_enabled
from ..breaks import unsupported
from ..guards.source import Attr
from .base import NamedMethod, Variable


class ManagerVariable(Variable):
    """A manager of the library's: an object of `cls`, made with `arguments`. It serves a `with`, and decorates functions."""

    METHODS = ("__enter__", "__exit__")

    def __init__(self, cls: type, arguments: Any = (), source: Any = None):
        super().__init__(source)
        self.cls, self.arguments = cls, list(arguments)

    def python_type(self) -> Any:
        return self.cls

    def describe(self) -> str:
        return f"{self.cls.__name__} manager"

    def get_attr(self, tx: Any, name: str) -> ManagerMethod:
        if name in self.METHODS:
            return ManagerMethod(self, name)
        raise unsupported("attribute", f"attribute {name!r} of {self}")

    def call(self, tx: Any, args: list, kwargs: dict) -> DecoratedVariable:
        """As a decorator."""
        return DecoratedVariable(self, args[0])

    def around(self, tx: Any, run: Any) -> Any:
        """What a function that it decorates does."""
        self.call_method(tx, "__enter__", [], {})
        try:
            return run()
        finally:
            self.call_method(tx, "__exit__", [], {})


class GradModeVariable(ManagerVariable):
    """One grad-mode manager object; `wanted` is the mode it sets, `previous` what it will restore."""

    METHODS = ("__enter__", "__exit__", "clone")

    def __init__(self, cls: type, wanted: bool, previous: bool | None = None, arguments: Any = (), source: Any = None):
        super().__init__(cls, arguments, source)
        self.wanted, self.previous = wanted, previous

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name == "clone":
            return GradModeVariable(self.cls, self.wanted, arguments=self.made_with(tx))
        if name == "__enter__":
            self.enter(tx)
        elif name == "__exit__":
            self.leave(tx)
        else:
            raise unsupported("context-manager", f"{name} of {self}")
        return tx.constant(None if name == "__enter__" else False)

    def made_with(self, tx: Any) -> list:
        return [tx.constant(self.wanted)] if self.cls in (set_grad_enabled, inference_mode) else []

    def enter(self, tx: Any) -> None:
        """A manager from outside that is entered here is a new one from now on: its `prev` changes."""
        self.arguments, self.source = self.made_with(tx), None
        if self.cls is not set_grad_enabled or self.previous is None:
            self.previous = tx.grad_mode()
        tx.set_grad_mode(self.mode(tx))

    def mode(self, tx: Any) -> bool:
        """Whether gradients are recorded inside."""
        return self.wanted if self.cls is not inference_mode else tx.grad_mode() and not self.wanted

    def leave(self, tx: Any) -> None:
        if self.source is not None:
            tx.guard(Attr(self.source, "prev"), "equals", self.previous)
        tx.set_grad_mode(self.previous)

    def around(self, tx: Any, run: Callable) -> Variable:
        before = tx.grad_mode()
        tx.set_grad_mode(self.mode(tx))
        try:
            return run()
        finally:
            tx.set_grad_mode(before)

    def reconstruct(self, gen: Any) -> None:
        if self.cls is inference_mode and self.previous is not None:
            raise unsupported("context-manager", "a graph break inside inference_mode")
        gen.load_call(self.cls, self.arguments)
        if self.previous is not None:
            gen.store_attr_on_top("prev", gen.constant(self.previous))


class AutocastVariable(ManagerVariable):
    """An autocast manager. Entering it switches this thread's real settings until the trace ends, so that traced ops are
    cast as they would be; a switch that outlives the frame is made again by the generated code."""

    SETTINGS = ("device", "fast_dtype", "_enabled", "_cache_enabled")

    def __init__(self, cls: Any, value: Any, arguments: Any = (), named: Any = None, source: Any = None):
        super().__init__(cls, arguments, source)
        self.named = dict(named or {})
        self.real, self.value = value, copy.copy(value)
        self.value._previous = list(value._previous)

    def get_attr(self, tx: Any, name: str) -> Variable:
        return super().get_attr(tx, name) if name in self.METHODS else tx.fresh(tx.run(getattr, self.value, name))

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name == "__enter__":
            self.value.__enter__()
            tx.effects.enter(self)
            return self
        if name != "__exit__":
            return super().call_method(tx, name, args, kwargs)
        if not tx.effects.leave(self):
            self.leave_outer(tx)
        self.value.__exit__(None, None, None)
        return tx.constant(False)

    def leave_outer(self, tx: Any) -> None:
        """It was entered before this frame: what it restores is guarded."""
        if self.source is None or not self.value._previous:
            raise unsupported("context-manager", f"{self} is left without having been entered last")
        tx.guard(self.source, "predicate", ManagerStateGuard(self.value._previous[-1]))

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(self.cls, self.arguments, self.named)


def is_region(cls: Any) -> bool:
    """Whether it is the profiler's record_function; the profiler is not imported for the question."""
    if cls.__name__ != "record_function":
        return False
    from ...eager.profiler.recorder import record_function

    return issubclass(cls, record_function)


class RegionVariable(ManagerVariable):
    """A `record_function`: ops that are traced inside carry its name, from which profiles draw the region. A frame that is
    cut inside enters it again."""

    def __init__(self, cls: Any, arguments: Any, named: Any):
        super().__init__(cls, arguments)
        self.named, self.entered = dict(named), False
        self.name = self.arguments[0] if self.arguments else self.named["name"]

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name == "__enter__":
            tx.regions.append(self.name.plain())
            self.entered = True
            return self
        if name != "__exit__":
            return super().call_method(tx, name, args, kwargs)
        if self.entered:
            tx.regions.pop()
        self.entered = False
        return tx.constant(None)

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(self.cls.entered if self.entered else self.cls, self.arguments, self.named)


class ManagerStateGuard:
    """Guard: leaving the manager brings these settings back."""

    def __init__(self, previous: Any):
        self.previous = previous

    def __call__(self, manager: Any) -> Any:
        return bool(manager._previous) and manager._previous[-1] == self.previous


class ManagerMethod(NamedMethod):
    """`manager.__exit__`, as a `with` statement keeps it on the stack."""


class DecoratedVariable(Variable):
    """A function decorated by a manager inside the traced code."""

    def __init__(self, manager: Any, function: Any):
        super().__init__()
        self.manager, self.function = manager, function

    def call(self, tx: Any, args: list, kwargs: dict) -> Any:
        return self.manager.around(tx, lambda: tx.call(self.function, args, kwargs))

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.manager)
        gen.wrap_under(self.function)
