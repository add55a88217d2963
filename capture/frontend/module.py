"""The compiled Module: the wrapped module in every respect but its forward.

`compile(module)` makes an object of a class derived from the module's own that shares the module's `__dict__`: attributes,
parameters, hooks, `state_dict` keys and methods are the same by construction,
    in both directions. Only `forward` differs:
it calls the original's forward through a door.
"""

from __future__ import annotations

import collections
import copy
import threading
import types
import weakref
from typing import Any
from collections.abc import Callable

from ...eager.nn.modules.lazy import LazyModuleMixin
from ...eager.nn.modules.module import Module
from ...runtime import locks
from ...runtime.identity import WeakIdKeyDictionary
from . import api as compiling
from ..state import disable, native

PREFIX = "_orig_mod."
_classes = WeakIdKeyDictionary()  # a module's class -> its compiled class, weakly: that holds its base
_making = locks.fresh(threading.RLock)


class CompiledModule:
    """Mixed in before the module's own class; its state stands in slots, outside of the shared `__dict__`."""

    __slots__ = ()
    _flambeau_original: Any  # the module
    _flambeau_how: tuple[Any, Callable]  # settings and converter
    _flambeau_door: tuple[Any, Any]  # (a forward, the door of it)

    @property
    def _orig_mod(self) -> Any:
        return self._flambeau_original

    @property
    def dynamo_ctx(self) -> Any:
        """Compiles any function with this module's settings: what trainers ask for, to compile its other steps."""
        return lambda function: compiling.compile_callable(function, *self._flambeau_how)

    @property
    def forward(self) -> Any:
        """The door of the forward that the original has now: its own or its class's."""
        source = self.__dict__.get("forward") or type(self._flambeau_original).forward
        known, door = self._flambeau_door
        return door if known is source else self._new_door(source)

    def _new_door(self, source: Callable) -> Any:
        """One door for all threads that ask at once."""
        with _making:
            if self._flambeau_door[0] is not source:
                made = _door(self._flambeau_original, source, *self._flambeau_how)
                object.__setattr__(self, "_flambeau_door", (source, made))
            return self._flambeau_door[1]

    @forward.setter
    def forward(self, function: Callable) -> None:
        self.__dict__["forward"] = function

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Keys with the prefix that other compiled modules write load too."""
        if any(key.startswith(PREFIX) for key in state_dict):
            plain: Any = collections.OrderedDict((key.removeprefix(PREFIX), value) for key, value in state_dict.items())
            if hasattr(state_dict, "_metadata"):
                plain._metadata = {key.removeprefix(PREFIX): value for key, value in state_dict._metadata.items()}
            state_dict = plain
        module: Any = super()  # the class that this is mixed into
        return module.load_state_dict(state_dict, *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> tuple:
        settings, _ = self._flambeau_how
        return _rebuild, (self._flambeau_original, settings.arguments())

    def __deepcopy__(self, memo: Any) -> Any:
        return compile_module(copy.deepcopy(self._flambeau_original, memo), *self._flambeau_how)

    def __copy__(self) -> Any:
        return compile_module(copy.copy(self._flambeau_original), *self._flambeau_how)


class CompiledLazyModule(CompiledModule):
    """A module that takes another class once its sizes are known: the original does; `forward` is looked up there."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__":
            self._flambeau_original.__class__ = value
        else:
            super().__setattr__(name, value)


def _rebuild(module: Module, arguments: dict) -> Any:
    return compiling.compile(module, **arguments)


def _class_of(original: type) -> type:
    with _making:
        known = _classes.get(original, lambda: None)()
        return known or _new_class(original)


def _new_class(original: type) -> type:
    fields = {
        "__slots__": ("_flambeau_original", "_flambeau_door", "_flambeau_how"),
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
    }
    mixin = CompiledLazyModule if issubclass(original, LazyModuleMixin) else CompiledModule
    made = type(original.__name__, (mixin, original), fields)
    _classes[original] = weakref.ref(made)
    return made


def _door(module: Module, source: Callable, settings: Any, converter: Any) -> Any:
    """A forward behind a door: an instance's own as it is, a class's as a method."""
    forward = source if "forward" in module.__dict__ else types.MethodType(source, module)
    return compiling.compile_callable(forward, settings, converter)


@compiling.compiles(Module)
def compile_module(module: Module, settings: Any, converter: Callable) -> Module:
    """A module that shares everything with `module` and runs its forward compiled."""
    if isinstance(module, CompiledModule):
        module = module._flambeau_original
    self = object.__new__(_class_of(type(module)))
    object.__setattr__(self, "__dict__", module.__dict__)
    object.__setattr__(self, "_flambeau_original", module)
    object.__setattr__(self, "_flambeau_how", (settings, converter))
    object.__setattr__(self, "_flambeau_door", (None, None))
    return self


def doors_of(f: Any) -> Any:
    """The Compiled object behind anything that `compile` returns, or None."""
    if isinstance(f, CompiledModule):
        f = f.forward
    if isinstance(f, types.MethodType):
        f = f.__func__
    return f.cache if native is not None and isinstance(f, native.Wrapper) else None


def compile_in_place(self: Module, *args: Any, **kwargs: Any) -> None:
    """`module.compile(...)`: from now on this very module runs its forward compiled."""
    compiled = compiling.compile(self.forward, *args, **kwargs)
    self.__dict__["forward"] = compiled


Module.compile = compile_in_place  # pyright: ignore[reportAttributeAccessIssue] (eager knows no compiler)
# once a module: not worth any code
LazyModuleMixin._infer_parameters = disable(LazyModuleMixin._infer_parameters)  # pyright: ignore[reportAttributeAccessIssue]
