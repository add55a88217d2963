"""Grad modes, inference mode, anomaly mode and saved-tensor hooks: context managers that also decorate functions.

`mode` is what a manager sets, `prev` what it found.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

from .. import _call
from ..state import state
from .anomaly import present_stack


class _Restoring:
    """A context manager that has put the settings that it changed into `prev`."""

    prev: Any

    def __exit__(self, *_):
        state.set(**self.prev)


class _Manager(_Restoring):
    """A context manager that can decorate functions and generator functions."""

    def __call__(self, function: Any) -> Any:
        if inspect.isclass(function):
            made: Any = function
            made.__init__ = self(made.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        @functools.wraps(function)
        def inside(*args, **kw):
            with self.clone():
                return function(*args, **kw)

        return inside

    def _generator(self, function):
        @functools.wraps(function)
        def inside(*args, **kw):
            generator, value = function(*args, **kw), None
            try:
                while True:
                    with self.clone():
                        item = generator.send(value)
                    value = yield item
            except StopIteration as stop:
                return stop.value
            finally:
                generator.close()

        return inside

    def clone(self) -> Any:
        return type(self)()


class _GradMode(_Manager):
    mode = False
    prev: bool | Any

    def __new__(cls, function=None) -> Any:
        self = object.__new__(cls)
        self.prev = None
        return self if function is None else self(function)

    def __enter__(self):
        self.prev = state.grad
        state.grad = self.mode

    def __exit__(self, *_):
        state.grad = self.prev


class no_grad(_GradMode):
    """Calls inside are not recorded."""


class enable_grad(_GradMode):
    """Calls inside are recorded."""

    mode = True


class set_grad_enabled(_Manager):
    """Sets the mode at once; as a context manager, restores it at the end."""

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}")
        self.mode = mode
        self.prev = state.grad
        state.grad = self.mode

    def __call__(self, function):
        state.grad = self.prev
        return super().__call__(function)

    def __enter__(self):
        state.grad = self.mode

    def __exit__(self, *_):
        state.grad = self.prev

    def clone(self):
        return set_grad_enabled(self.mode)


class inference_mode(_Manager):
    """Calls inside are not recorded; `inference_mode(False)` records them, whatever surrounds it."""

    mode: bool
    prev: Any

    def __new__(cls, mode=True) -> Any:
        self = object.__new__(cls)
        self.mode = mode if isinstance(mode, bool) else True
        self.prev = None
        return self if isinstance(mode, bool) else self(mode)

    def __enter__(self):
        self.prev = (state.grad, state.inference)
        state.grad, state.inference = not self.mode, self.mode
        _call.inference(self.mode)

    def __exit__(self, *_):
        state.grad, state.inference = self.prev
        _call.inference(state.inference)

    def clone(self):
        return inference_mode(self.mode)


def is_grad_enabled() -> bool:
    return state.grad


def is_inference_mode_enabled() -> bool:
    return state.inference


class set_detect_anomaly(_Manager):
    """With anomaly mode on, a node remembers where it was recorded, and backward (if `check_nan`) looks for NaN."""

    def __init__(self, mode: bool, check_nan: bool = True):
        self.mode, self.check_nan = mode, check_nan
        self.prev = state.set(anomaly=present_stack if mode else None, check_nan=check_nan)

    def __enter__(self):
        pass

    def clone(self):
        return set_detect_anomaly(self.mode, self.check_nan)


class detect_anomaly(_Manager):
    """Anomaly mode for a block."""

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self.prev = state.set(anomaly=present_stack, check_nan=self.check_nan)

    def clone(self):
        return set_detect_anomaly(True, self.check_nan)


def is_anomaly_enabled() -> bool:
    return state.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    return state.check_nan


class set_multithreading_enabled(_Manager):
    """Whether backward may use several threads. It runs in the thread that calls it, whatever is set."""

    def __init__(self, mode: bool):
        global _multithreading
        self.mode, self.prev = bool(mode), _multithreading
        _multithreading = self.mode

    def __enter__(self):
        pass

    def __exit__(self, *_):
        global _multithreading
        _multithreading = self.prev

    def clone(self):
        return set_multithreading_enabled(self.mode)


_multithreading = True


def is_multithreading_enabled() -> bool:
    return _multithreading


class saved_tensors_hooks(_Restoring):
    """Tensors saved inside go through `pack_hook`, and through `unpack_hook` when the gradient is computed."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        if state.no_packer is not None:
            raise RuntimeError(state.no_packer)
        self.prev = state.set(packer=(self.pack_hook, self.unpack_hook))


class disable_saved_tensors_hooks(_Manager):
    """Inside, saved-tensor hooks raise RuntimeError with this message."""

    def __init__(self, error_message: str):
        self.error_message = error_message

    def __enter__(self):
        if state.packer is not None:
            raise RuntimeError(self.error_message)
        self.prev = state.set(no_packer=self.error_message)

    def clone(self):
        return disable_saved_tensors_hooks(self.error_message)


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are kept as copies on the cpu."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(lambda t: t.detach().clone(), lambda t: t)
