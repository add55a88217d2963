"""torch.backends.cuda: switches that change nothing without a CUDA device."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    fp32_precision="none",
)
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)
_enabled = dict(flash=True, mem_efficient=True, math=True, cudnn=True)


def is_built():
    return False


def flash_sdp_enabled():
    return _enabled["flash"]


def mem_efficient_sdp_enabled():
    return _enabled["mem_efficient"]


def math_sdp_enabled():
    return _enabled["math"]


def cudnn_sdp_enabled():
    return _enabled["cudnn"]


def enable_flash_sdp(enabled):
    _enabled["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled):
    _enabled["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled):
    _enabled["math"] = bool(enabled)


def enable_cudnn_sdp(enabled):
    _enabled["cudnn"] = bool(enabled)


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """The choice of attention kernel is the library's here: the arguments are recorded for the block, nothing else."""
    before = dict(_enabled)
    _enabled.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _enabled.update(before)


def preferred_linalg_library(backend=None):
    return "default"


class SDPAParams(NamedTuple):
    """What the kernels for attention are asked about."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool


def can_use_flash_attention(params, debug=False):
    """Whether PyTorch's kernel for CUDA devices would run: it is not here."""
    return False


def can_use_efficient_attention(params, debug=False):
    return False


def can_use_cudnn_attention(params, debug=False):
    return False
