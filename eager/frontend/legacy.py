"""Old constructors by type (FloatTensor, LongTensor, ...), global settings, and checks that torch has at top level."""

import math
from typing import Any

import numpy as np

from .. import device as devices, dtypes
from ..ops.activations import log_softmax_backward, softmax_backward
from ..ops.creation import empty as _empty
from ..sizes import Size
from ..overrides import public as asking_handlers
from ..tensor import Tensor
from . import public
from .creation import tensor as _tensor


class _TypedTensor(type):
    """`isinstance(t, FloatTensor)` looks at t's type; calling the class makes a tensor."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, t):
        return isinstance(t, Tensor) and t.dtype is cls.dtype and t.device.type == "cpu"

    def __call__(cls, *args, device=None):
        """(sizes): uninitialised memory; (sequence or array): data; (tensor): the same memory."""
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(f"expected {cls.__name__} (got {args[0].type()})")
            return args[0].detach()
        if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not isinstance(args[0], Size):
            return _tensor(args[0], dtype=cls.dtype, device=device)
        sizes = tuple(args[0]) if args and isinstance(args[0], Size) else args
        return _empty(sizes or (0,), cls.dtype, devices.resolve_device(device or "cpu"))

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


_NAMES = {f"{d.scalar_type}Tensor": d for d in dtypes.LEGACY if not d.is_complex}
TENSOR_TYPES = {name: _TypedTensor(name, (), {"dtype": d, "is_cuda": False, "__module__": "torch"}) for name, d in _NAMES.items()}


@public.method
def new(self, *args, device=None):
    """The old `t.new(...)`: sizes give uninitialised memory of t's type, a sequence gives data."""
    if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not isinstance(args[0], Size):
        return _tensor(args[0], dtype=self.dtype, device=device)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    sizes = tuple(args[0]) if args and isinstance(args[0], Size) else args
    return _empty(sizes or (0,), self.dtype, self.device if device is None else devices.resolve_device(device))


@public.method
def pin_memory(self, device=None):
    """A copy in memory that a GPU reads by itself; without a GPU any tensor will do."""
    if not devices.usable("cuda"):
        raise RuntimeError("pin_memory(): memory is pinned for an accelerator, and none is available here")
    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    return self if self.is_pinned() else _cuda().pinned(self)


@public.method
def is_pinned(self, device=None):
    return "cuda" in devices.runtimes and self.device.type == "cpu" and _cuda().is_pinned(self)


def _cuda():
    devices.resolve_device("cuda")
    return devices.runtimes["cuda"]


@public.method
def record_stream(self, s):
    """Memory that a stream uses is kept until the stream is done; only GPUs have streams that run on."""
    if self.is_cuda:
        return _cuda().keep(self, s)
    raise RuntimeError(
        f"record_stream() is for tensors on GPUs: this one is on {self.device}, where every call is finished when it returns"
    )


@public.both
def is_same_size(input, other):
    return input.shape == other.shape


@public.function
def can_cast(from_, to):
    """Whether a result of type `from_` may be written into a tensor of type `to`."""
    return from_.category <= to.category and not (to is dtypes.bool and from_ is not dtypes.bool)


@public.function
def typename(obj):
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__builtin__") else f"{module}.{kind.__qualname__}"


@public.function
def is_storage(obj):
    from ..storage import UntypedStorage

    return isinstance(obj, UntypedStorage) or type(obj).__name__.endswith("Storage")


@public.function
def get_device(input):
    return input.get_device()


@public.function
def is_signed(input):
    return input.is_signed()


@public.function
def is_inference(input):
    return input.is_inference()


# -- settings


class _Settings:
    matmul_precision, deterministic, warn_only, warn_always, interop = "highest", False, False, False, 1


@public.function
def set_default_tensor_type(t):
    """A tensor type (or its name): its dtype becomes the default one."""
    name = t if isinstance(t, str) else t.__name__
    if ".cuda." in name:
        raise TypeError(f"type {name} not available. This build has the devices cpu and meta.")
    kind: Any = TENSOR_TYPES.get(name.rpartition(".")[2])
    if kind is None:
        raise TypeError(f"invalid type object: {t}")
    dtypes.set_default_dtype(kind.dtype)


@public.function
def set_default_device(device):
    devices.set_default_device(device)


@public.function
def get_default_device():
    return devices.get_default_device()


@public.function
def set_float32_matmul_precision(precision):
    """float32 products are computed in float32 whatever is asked for: the setting is kept for `get_...`."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"precision must be one of highest, high or medium, but got {precision!r}")
    _Settings.matmul_precision = precision


@public.function
def get_float32_matmul_precision():
    return _Settings.matmul_precision


@public.function
def use_deterministic_algorithms(mode, *, warn_only=False):
    """Every kernel here is deterministic; the setting is kept for the questions below."""
    _Settings.deterministic, _Settings.warn_only = bool(mode), bool(warn_only)


@public.function
def are_deterministic_algorithms_enabled():
    return _Settings.deterministic


@public.function
def is_deterministic_algorithms_warn_only_enabled():
    return _Settings.warn_only


@public.function
def set_deterministic_debug_mode(debug_mode):
    names = {"default": 0, "warn": 1, "error": 2}
    level = names.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


@public.function
def get_deterministic_debug_mode():
    return 0 if not _Settings.deterministic else 1 if _Settings.warn_only else 2


@public.function
def set_flush_denormal(mode):
    """False: the processor's mode is left as it is."""
    return False


@public.function
def set_warn_always(b):
    _Settings.warn_always = bool(b)


@public.function
def is_warn_always_enabled():
    return _Settings.warn_always


@public.function
def get_num_interop_threads():
    return _Settings.interop


@public.function
def set_num_interop_threads(n):
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive number of threads")
    _Settings.interop = n


@public.function
def compiled_with_cxx11_abi():
    return True


# -- checks


def _check_text(message):
    return "Expected cond to be True" if message is None else str(message() if callable(message) else message)


def _check(cond, message=None):
    if not isinstance(cond, bool) and not hasattr(cond, "node") and not hasattr(cond, "__bool__"):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise RuntimeError(_check_text(message))


def _check_index(cond, message=None):
    if not cond:
        raise IndexError(_check_text(message))


def _check_value(cond, message=None):
    if not cond:
        raise ValueError(_check_text(message))


def _check_type(cond, message=None):
    if not cond:
        raise TypeError(_check_text(message))


def _check_not_implemented(cond, message=None):
    if not cond:
        raise NotImplementedError(_check_text(message))


def _check_is_size(i, message=None, *, max=None):
    _check(i >= 0, message)


@asking_handlers
def _assert(condition, message):
    """An assertion that also takes tensors, and objects that take part in the protocol of functions."""
    assert condition, message


def _assert_async(input, assert_msg=""):
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _shape_as_tensor(self):
    return _tensor(list(self.shape), dtype=dtypes.int64)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax from its result."""
    return softmax_backward(grad_output, output, dim % max(output.ndim, 1)).to(input_dtype)


def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    return log_softmax_backward(grad_output, output, dim % max(output.ndim, 1)).to(input_dtype)


@public.function
def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    from ..printing import set_printoptions as change

    change(precision, threshold, edgeitems, linewidth, profile, sci_mode)


PRIVATE = {
    f.__name__: f
    for f in (
        _check,
        _check_index,
        _check_value,
        _check_type,
        _check_not_implemented,
        _check_is_size,
        _assert,
        _assert_async,
        _shape_as_tensor,
        _softmax_backward_data,
        _log_softmax_backward_data,
    )
}
CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "dtype": dtypes.dtype}
