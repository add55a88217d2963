"""autocast: a context (or decorator) in which products run in bfloat16 or float16 and sensitive ops in float32.

While it is active, `state.autocast` is a function (record, arguments) -> arguments that casts floating tensors (float64
excepted). Casts of leaves that require gradients are kept until the outermost context ends, so that a weight used twice
is cast once.
"""

import contextlib
import functools
import threading
import warnings
import weakref

from .. import device as devices, dtypes
from ..op.op import OPS
from ..state import state
from ..tensor import Tensor
from . import policy

policy.install()
_DEFAULTS = {
    "cpu": dtypes.bfloat16,
    "cuda": dtypes.float16,
    "xpu": dtypes.float16,
    "mps": dtypes.float16,
    "meta": dtypes.bfloat16,
}
_LOW_TYPES = (dtypes.bfloat16, dtypes.float16)


class _AutocastState(threading.local):
    """Per device type: on or off, and the low type; `nesting` counts open contexts."""

    def __init__(self):
        self.enabled, self.dtypes = dict.fromkeys(_DEFAULTS, False), dict(_DEFAULTS)
        self.caching, self.nesting, self.cache = True, 0, {}


_settings = _AutocastState()


def _cast_arguments(op, args):
    kind, rule = _kind(args), op.autocast
    if not _settings.enabled[kind] or rule == "float32 on cuda" and kind != "cuda":
        return args
    rule = "lower" if rule == "lower" else "float32"
    target = _settings.dtypes[kind] if rule == "lower" else dtypes.float32
    return tuple(
        [
            _cast(a, target, rule)
            if isinstance(a, Tensor)
            else tuple([_cast(x, target, rule) for x in a])
            if _is_tensors(a)
            else a
            for a in args
        ]
    )


def _kind(args) -> str:
    """Whose settings hold: those of the GPU where a tensor is on one."""
    for a in args:
        for x in a if _is_tensors(a) else (a,):
            if isinstance(x, Tensor) and x._fl_device.type == "cuda":
                return "cuda"
    return "cpu"


def _is_tensors(a):
    return type(a) is tuple and bool(a) and isinstance(a[0], Tensor)


def _cast(x, target, kind):
    """Low: floating tensors but float64; float32: the low types only."""
    d = x.dtype
    if d is target or (d not in _LOW_TYPES if kind == "float32" else not d.is_floating_point or d is dtypes.float64):
        return x
    if not (_settings.caching and kind == "lower" and x._fl_requires_grad and x._grad_fn is None and state.grad):
        return OPS["cast"](x, target)
    known = _settings.cache.get(id(x))
    if known is None or known[0]() is not x or known[1] != (x._version, target):
        known = weakref.ref(x), (x._version, target), OPS["cast"](x, target)
        _settings.cache[id(x)] = known
    return known[2]


def _apply():
    """Tell the thread's state: what casts, and all settings as one value to compare."""
    s = _settings
    plain = s.caching and not any(s.enabled.values()) and s.dtypes == _DEFAULTS
    casting = None if plain else (s.caching, tuple(s.enabled.items()), tuple(s.dtypes.items()))
    state.set(autocast=_cast_arguments if s.enabled["cpu"] or s.enabled["cuda"] else None, casting=casting)


def settings() -> tuple:
    """All of this thread's settings; `restore` brings them back."""
    s = _settings
    return dict(s.enabled), dict(s.dtypes), s.caching, s.nesting


def restore(saved: tuple) -> None:
    s = _settings
    if saved != settings():
        s.enabled, s.dtypes, s.caching, s.nesting = saved
        _apply()


@contextlib.contextmanager
def restored(saved: tuple):
    """Work under other settings for a while, as inside of a context of its own: what is cast is kept until the outermost ends."""
    before = settings()
    enabled, types, caching, _ = saved
    restore((dict(enabled), dict(types), caching, before[-1] + 1))
    try:
        yield
    finally:
        restore(before)
        if before[-1] == 0:
            _settings.cache.clear()


def _device_type(device_type):
    if device_type not in _DEFAULTS:
        raise RuntimeError(
            f"Unsupported autocast device type '{device_type}': this library knows " + ", ".join(sorted(_DEFAULTS))
        )
    return device_type


class autocast:
    """`with autocast("cpu", dtype=torch.bfloat16): ...` or `@autocast("cpu")`. On a device type without a runtime here
    it warns and does nothing, as PyTorch does without CUDA."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = _device_type(device_type)
        self.fast_dtype = _settings.dtypes[device_type] if dtype is None else dtype
        self._enabled = bool(enabled)
        self._cache_enabled = _settings.caching if cache_enabled is None else bool(cache_enabled)
        if self._enabled and not devices.usable(self.device):
            warnings.warn(
                f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling",
                stacklevel=2,
            )
            self._enabled = False
        elif self._enabled and self.fast_dtype not in _LOW_TYPES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast "
                "only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            self._enabled = False
        self._previous = []

    def __enter__(self):
        s = _settings
        self._previous.append((s.enabled[self.device], s.dtypes[self.device], s.caching))
        s.enabled[self.device], s.dtypes[self.device], s.caching = (self._enabled, self.fast_dtype, self._cache_enabled)
        s.nesting += 1
        _apply()
        return self

    def __exit__(self, *_):
        s = _settings
        s.enabled[self.device], s.dtypes[self.device], s.caching = self._previous.pop()
        s.nesting -= 1
        if s.nesting == 0:
            s.cache.clear()
        _apply()
        return False

    def __call__(self, func):
        @functools.wraps(func)
        def decorated(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return decorated


def is_autocast_available(device_type):
    return device_type in ("cpu", "cuda", "xpu", "mps")


# -- the settings one by one


def is_autocast_enabled(device_type="cuda"):
    return _settings.enabled[_device_type(device_type)]


def set_autocast_enabled(device_type, enabled=None):
    """(device_type, enabled), or (enabled) for CUDA."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _settings.enabled[_device_type(device_type)] = bool(enabled)
    _apply()


def get_autocast_dtype(device_type):
    return _settings.dtypes[_device_type(device_type)]


def set_autocast_dtype(device_type, dtype):
    _settings.dtypes[_device_type(device_type)] = dtype
    _apply()


def is_autocast_cpu_enabled():
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype():
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype):
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype():
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype):
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled():
    return _settings.caching


def set_autocast_cache_enabled(enabled):
    _settings.caching = bool(enabled)
    _apply()


def clear_autocast_cache():
    _settings.cache.clear()


def autocast_increment_nesting():
    _settings.nesting += 1
    return _settings.nesting


def autocast_decrement_nesting():
    _settings.nesting -= 1
    return _settings.nesting


# -- autograd.Function under autocast


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For `Function.forward`: under autocast, floating tensors become `cast_inputs` and the body runs without autocast;
    the backward (see `custom_bwd`) sees the same setting."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    _device_type(device_type)

    @functools.wraps(fwd)
    def decorated(*args, **kwargs):
        enabled = is_autocast_enabled(device_type)
        args[0]._fl_dtype = get_autocast_dtype(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        if not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast_all(args, cast_inputs), **_cast_all(kwargs, cast_inputs))

    return decorated


def _cast_all(value, dtype):
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype is not dtypes.float64 else value
    if isinstance(value, dict):
        return {k: _cast_all(v, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_cast_all(v, dtype) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def custom_bwd(bwd=None, *, device_type):
    """For `Function.backward`: runs with the autocast setting of the forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._fl_dtype):
            return bwd(*args, **kwargs)

    return decorated


__all__ = [
    "autocast",
    "is_autocast_enabled",
    "set_autocast_enabled",
    "get_autocast_dtype",
    "set_autocast_dtype",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_enabled",
    "get_autocast_cpu_dtype",
    "set_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "set_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "set_autocast_cache_enabled",
    "clear_autocast_cache",
    "autocast_increment_nesting",
    "autocast_decrement_nesting",
]
