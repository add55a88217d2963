"""torch.cuda over cupy: GPUs, streams, events, memory, random numbers, under PyTorch's names.

Without cupy or a GPU `is_available()` is False, questions have answers, seeding and emptying are nothing, and work raises
with what to install. Ops themselves are in `kernels.py` and run through `runtime.py`.
"""

from ..amp import cuda as amp
from ..compat import missing
from ..random import default_generator
from . import memory, nvtx, random, streams
from .gpus import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    host_runs,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from .find_cupy import INSTALL as _INSTALL, CudaUnavailable
from .memory import (
    OutOfMemoryError,
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

_lazy_init = init
_ADVICE = "no graphs are captured by hand; compile with mode='reduce-overhead'"


def _default_generators():
    return (default_generator,)


def utilization(gpu=None):
    raise missing.error("torch.cuda.utilization", "nvidia-smi tells it")


globals().update(missing.functions("torch.cuda", "make_graphed_callables graph graph_pool_handle", _ADVICE))
globals().update(missing.kinds("torch.cuda", "CUDAGraph", _ADVICE))
globals().update(
    missing.kinds(
        "torch.cuda",
        """FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor
ShortTensor CharTensor ByteTensor BoolTensor""",
        "use torch.tensor(..., dtype=..., device='cuda')",
    )
)


def __getattr__(name):
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'flambeau.cuda' has no attribute {name!r}")


__all__ = [name for name in dir() if not name.startswith("_")]
