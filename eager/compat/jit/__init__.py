"""torch.jit: there is no TorchScript here, code runs as Python. Decorators return their argument; `is_scripting()` and
`is_tracing()` are False; saving, loading and tracing scripts raise (`flambeau.compile` is the compiler)."""

from typing import Final  # noqa: F401

from .. import missing
from . import annotations  # noqa: F401

_ADVICE = "there is no TorchScript; flambeau.compile compiles Python code as it stands"


class Error(RuntimeError):
    """What scripts raise in PyTorch; nothing raises it here."""


def _same(obj=None, *args, **kwargs):
    """Returns its argument."""
    return obj


script = export = script_method = interface = _script_if_tracing = script_if_tracing = _same
optimize_for_inference = freeze = _overload_method = _overload = _same


def ignore(drop=False, **kwargs):
    """Decorator, with or without arguments: returns the function."""
    return drop if callable(drop) else _same


def unused(fn):
    """Returns the function."""
    return fn


def is_scripting():
    return False


def is_tracing():
    return False


def annotate(the_type, the_value):
    """Returns the value."""
    return the_value


def isinstance(obj, target_type):
    import builtins

    return builtins.isinstance(obj, target_type)


class Attribute:
    """A value and its type: only the value matters here."""

    def __new__(cls, value, type):
        return value


class TracerWarning(Warning):
    """Never issued: nothing is traced."""


ScriptModule = missing.kind("torch.jit.ScriptModule", _ADVICE)
ScriptFunction = missing.kind("torch.jit.ScriptFunction", _ADVICE)
ScriptObject = missing.kind("torch.ScriptObject", _ADVICE)
RecursiveScriptModule = missing.kind("torch.jit.RecursiveScriptModule", _ADVICE)
trace = missing.function("torch.jit.trace", _ADVICE)
trace_module = missing.function("torch.jit.trace_module", _ADVICE)
load = missing.function("torch.jit.load", _ADVICE)
save = missing.function("torch.jit.save", _ADVICE)
fork = missing.function("torch.jit.fork", _ADVICE)
wait = missing.function("torch.jit.wait", _ADVICE)
