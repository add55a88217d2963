"""Wrappers for several devices or processes; here for one process without GPUs."""

from ...compat import missing
from ...lazy_import import submodules as _submodules
from .data_parallel import DataParallel, data_parallel

_ADVICE = "there are no GPUs here; call the module itself"
replicate = missing.function("torch.nn.parallel.replicate", _ADVICE)
parallel_apply = missing.function("torch.nn.parallel.parallel_apply", _ADVICE)

__getattr__ = _submodules(
    __name__,
    "distributed",
    "scatter_gather",
    DistributedDataParallel="distributed",
    gather="scatter_gather",
    scatter="scatter_gather",
)
