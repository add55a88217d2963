"""torch.overrides: what the `__torch_function__` protocol offers to those who write functions and handlers."""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager

from .. import overrides
from ..overrides import TorchFunctionMode as TorchFunctionMode
from ..state import state
from ..tensor import Tensor

BaseTorchFunctionMode = TorchFunctionMode
_NAMESPACES = {
    "torch": "api",
    "torch.nn.functional": "nn.functional",
    "torch.linalg": "linalg",
    "torch.fft": "fft",
    "torch.special": "special",
    "torch.Tensor": None,
}


def is_tensor_like(inp) -> bool:
    """A Tensor, or an object whose type takes part in the protocol."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args) -> bool:
    """Whether a type among the arguments, or a function mode, is to be asked."""
    if state.unasked == overrides.NOTHING:
        return False
    return bool(state.function_modes or (not state.unasked and overrides.asked_classes(tuple(relevant_args))))


def has_torch_function_unary(arg) -> bool:
    return has_torch_function((arg,))


def has_torch_function_variadic(*args) -> bool:
    return has_torch_function(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks function modes, then each type that takes part, subclasses first; TypeError if none answers."""
    kinds = overrides.asked_classes(tuple(relevant_args))
    for mode in reversed(state.function_modes):
        with overrides.below_mode(mode):
            answer = mode.__torch_function__(public_api, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    return overrides.answers(public_api, kinds, args, kwargs)


def _get_overloaded_args(relevant_args, get_type_fn=type) -> list:
    """One argument of each type that takes part, subclasses first."""
    relevant = list(relevant_args)
    return [next(a for a in relevant if type(a) is kind) for kind in overrides.asked_classes(tuple(relevant))]


def wrap_torch_function(dispatcher):
    """A decorator: handlers are asked for the arguments that `dispatcher(*args, **kwargs)` names."""

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def get_default_nowrap_functions() -> set:
    """What gives tensors that Tensor's own handler leaves as they are."""
    return {Tensor._base.__get__, Tensor.grad.__get__}


def get_overridable_functions() -> dict:
    """{namespace: its functions that handlers are asked about}."""
    found = {}
    for name in _NAMESPACES.values():
        scope = Tensor if name is None else importlib.import_module(f"{overrides.__package__}.{name}")
        found[scope] = [f for f in vars(scope).values() if is_tensor_method_or_property(f) or _is_asked(f)]
    return found


def get_ignored_functions() -> set:
    """Functions of tensors that handlers are never asked about."""
    from .. import api

    return {api.tensor, api.as_tensor, api.from_numpy, api.is_tensor}


def _is_asked(function) -> bool:
    return type(function).__module__ == overrides.CALLABLES


def is_tensor_method_or_property(func) -> bool:
    """Whether a function is a method of Tensor or reads one of its attributes."""
    if getattr(func, "__name__", "") == "__get__":
        return True
    return any(f is func for f in vars(Tensor).values() if callable(f))


def resolve_name(f) -> str | None:
    """`torch.cat`, `torch.Tensor.add`: the public name of a function, or None."""
    for public, name in _NAMESPACES.items():
        scope = Tensor if name is None else importlib.import_module(f"{overrides.__package__}.{name}")
        for key, value in vars(scope).items():
            if value is f:
                return f"{public}.{key}"
    if getattr(f, "__name__", "") == "__get__":
        return f"torch.Tensor.{overrides.attribute_of(f)}.__get__"
    return None


@contextmanager
def _pop_mode_temporarily():
    """Inside, the top function mode is off; gives that mode."""
    mode = state.function_modes[-1]
    with overrides.below_mode(mode):
        yield mode


def _is_torch_function_mode_enabled() -> bool:
    return bool(state.function_modes)


def _get_current_function_mode():
    return state.function_modes[-1] if state.function_modes else None


def _get_current_function_mode_stack() -> list:
    return list(state.function_modes)


@contextmanager
def _enable_torch_function():
    """Inside, handlers are asked whatever was switched off around."""
    with overrides.asking(overrides.PLAIN):
        yield
