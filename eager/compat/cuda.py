"""torch.cuda on a machine without a CUDA runtime: questions are answered, work raises with what to do.

Seeding and cache calls are no-ops, as in PyTorch without a device; streams, events and memory figures need one.
"""

import contextlib

from .. import device as devices
from ..amp import cuda as amp  # noqa: F401  (torch.cuda.amp)
from ..random import default_generator
from . import missing

__path__ = []      # `import torch.cuda.amp` looks for a package
_ADVICE = "flambeau has no CUDA runtime on this machine; use device='cpu'"


class OutOfMemoryError(RuntimeError):
    """Device memory is exhausted."""


def is_available():
    return False


def is_initialized():
    return False


_initialized = False


def device_count():
    return 0


def is_bf16_supported(including_emulation=True):
    return False


def init():
    raise missing.error("torch.cuda.init", _ADVICE)


_lazy_init = init


def manual_seed(seed):
    """Nothing to seed without a device."""


def manual_seed_all(seed):
    """Nothing to seed without a device."""


def seed():
    """Nothing to seed without a device."""


seed_all = seed


def empty_cache():
    """Nothing is cached without a device."""


def ipc_collect():
    """Nothing to collect without a device."""


def memory_allocated(device=None):
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


def memory_stats(device=None):
    return {}


def reset_peak_memory_stats(device=None):
    """No memory is counted without a device."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def get_rng_state_all():
    return []


def set_rng_state_all(new_states):
    if len(new_states):
        raise missing.error("torch.cuda.set_rng_state_all", _ADVICE)


def get_arch_list():
    return []


def is_current_stream_capturing():
    return False


def current_stream(device=None):
    raise missing.error("torch.cuda.current_stream", _ADVICE)


@contextlib.contextmanager
def device(device):
    """A negative or absent index changes nothing; a real one needs a device."""
    if device is not None and not (isinstance(device, int) and device < 0) and devices.device(device).type == "cuda":
        raise missing.error("torch.cuda.device", _ADVICE)
    yield


def device_of(obj):
    return device(None)


@contextlib.contextmanager
def stream(stream):
    """`stream(None)` changes nothing."""
    if stream is not None:
        raise missing.error("torch.cuda.stream", _ADVICE)
    yield


def _default_generators():
    return (default_generator,)


globals().update(missing.functions("torch.cuda", """set_device synchronize current_device get_device_properties
get_device_name get_device_capability get_rng_state set_rng_state mem_get_info memory_summary set_per_process_memory_fraction
default_stream set_stream utilization make_graphed_callables graph initial_seed can_device_access_peer""", _ADVICE))
globals().update(missing.kinds("torch.cuda", "Stream Event ExternalStream CUDAGraph StreamContext", _ADVICE))
globals().update(missing.kinds("torch.cuda", """FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor
ShortTensor CharTensor ByteTensor BoolTensor""", _ADVICE))


class nvtx:
    """torch.cuda.nvtx: ranges are not recorded without a device."""

    @staticmethod
    def range_push(msg):
        return -1

    @staticmethod
    def range_pop():
        return -1

    @staticmethod
    def mark(msg):
        return None
