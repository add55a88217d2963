"""Wrappers for several devices or processes; here for one process without GPUs."""

from ...compat import missing
from . import distributed, scatter_gather
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .scatter_gather import gather, scatter

_ADVICE = "there are no GPUs here; call the module itself"
replicate = missing.function("torch.nn.parallel.replicate", _ADVICE)
parallel_apply = missing.function("torch.nn.parallel.parallel_apply", _ADVICE)
