"""torch._C: the few private names that packages call at import or in a forward."""

from contextlib import contextmanager

from .. import api
from ..ops.factorizations import LinAlgError as _LinAlgError  # noqa: F401
from ..overrides import DisableTorchFunction as DisableTorchFunction
from ..overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from ..overrides import disabled as _disabled_torch_function_impl  # noqa: F401
from ..frontend.arguments import parse_to
from ..state import state
from ..tensor import Tensor as _Tensor
from . import missing


_TensorMeta = type(_Tensor)


def _is_torch_function_enabled():
    return state.unasked is None


def _is_torch_function_mode_enabled():
    return bool(state.function_modes)


def _len_torch_function_stack():
    return len(state.function_modes)


def _get_function_stack_at(level):
    return state.function_modes[level]


def _log_api_usage_once(name):
    """Nothing is logged."""


def _get_default_device():
    """The type of the device of new tensors."""
    return api.get_default_device().type


class _distributed_rpc:
    @staticmethod
    def _is_current_rpc_agent_set():
        """There is one process."""
        return False


def _get_tracing_state():
    """No tracer exists."""
    return None


def _jit_set_profiling_mode(mode):
    return False


_jit_set_profiling_executor = _jit_set_bailout_depth = _jit_override_can_fuse_on_cpu = _jit_set_profiling_mode
_jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _jit_set_profiling_mode


class _nn:
    """torch._C._nn: the one function of it that packages call."""

    @staticmethod
    def _parse_to(*args, **kwargs):
        """What the arguments of `.to(...)` mean: (device, dtype, non_blocking, memory_format)."""
        device, dtype, non_blocking, _, memory_format = parse_to(args, kwargs)
        return device, dtype, non_blocking, memory_format


class Graph:
    """TorchScript's graphs, in annotations only."""


class Value:
    """What TorchScript's graphs compute, in annotations only."""


class DispatchKey:
    """Names of autocast's keys."""

    AutocastCPU, AutocastCUDA, AutocastXPU = "AutocastCPU", "AutocastCUDA", "AutocastXPU"


class DispatchKeySet:
    """A set of keys; there is no dispatcher to give it to."""

    def __init__(self, *keys):
        self.keys = keys

    def __or__(self, other):
        return DispatchKeySet(*self.keys, *other.keys)


@contextmanager
def _ExcludeDispatchKeyGuard(keys):
    """There is no dispatcher: only autocast's keys may be asked to be left out, by `autocast(enabled=False)`."""
    raise missing.error("torch._C._ExcludeDispatchKeyGuard", "use torch.autocast(device, enabled=False)")
    yield
