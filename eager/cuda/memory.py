"""How much of a GPU's memory is in use: what tensors hold, and what cupy's pool has taken from the driver.

In: a GPU (None: the current one). Out: bytes. Without a GPU all figures are 0 and emptying is nothing.
"""

from __future__ import annotations

from . import find_cupy
from .allocator import Counts, OutOfMemoryError, counts, on, readable
from .gpus import index_of, is_available, is_initialized

__all__ = ["OutOfMemoryError"]
_NONE = Counts()


def _counts(device) -> Counts:
    return counts(index_of(device)) if is_initialized() else _NONE


def _pool(device):
    with on(index_of(device)):
        return find_cupy.cupy().get_default_memory_pool()


def memory_allocated(device=None) -> int:
    """Bytes that tensors hold."""
    return _counts(device).now


def max_memory_allocated(device=None) -> int:
    """The most that tensors held, since the start or the last `reset_peak_memory_stats`."""
    return _counts(device).peak


def memory_reserved(device=None) -> int:
    """Bytes that the pool has, in use or not."""
    if not is_initialized():
        return 0
    index = index_of(device)
    with on(index):
        total = find_cupy.cupy().get_default_memory_pool().total_bytes()
    held = counts(index)
    held.pool_peak = max(held.pool_peak, total)
    return total


def max_memory_reserved(device=None) -> int:
    memory_reserved(device)
    return _counts(device).pool_peak


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device=None) -> None:
    held = _counts(device)
    held.peak, held.pool_peak = held.now, 0
    memory_reserved(device)


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None) -> None:
    held = _counts(device)
    held.given = held.back = 0


def memory_stats(device=None) -> dict:
    """The figures under PyTorch's names; empty without a GPU."""
    if not is_initialized():
        return {}
    held, reserved = _counts(device), memory_reserved(device)
    found = {"num_alloc_retries": 0, "num_ooms": held.refused}
    for kind, now, peak, given, back in (
        ("allocated_bytes", held.now, held.peak, held.given, held.back),
        ("active_bytes", held.now, held.peak, held.given, held.back),
        ("reserved_bytes", reserved, held.pool_peak, held.pool_peak, held.pool_peak - reserved),
    ):
        for name, value in (("current", now), ("peak", peak), ("allocated", given), ("freed", back)):
            found[f"{kind}.all.{name}"] = value
    found["allocation.all.current"] = held.blocks
    return found


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """A few lines for people."""
    rows = [
        ("held by tensors", memory_allocated(device)),
        ("at most", max_memory_allocated(device)),
        ("in the pool", memory_reserved(device)),
        ("at most", max_memory_reserved(device)),
    ]
    return "\n".join(f"{what:16} {readable(size):>12}" for what, size in rows)


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of the GPU, as its driver tells."""
    with on(index_of(device)):
        return find_cupy.cupy().cuda.runtime.memGetInfo()


def empty_cache() -> None:
    """Gives the pool's unused blocks back to the driver."""
    if is_available() and is_initialized():
        memory_reserved()
        find_cupy.cupy().get_default_memory_pool().free_all_blocks()
        find_cupy.cupy().get_default_pinned_memory_pool().free_all_blocks()


def ipc_collect() -> None:
    """Blocks are not shared with other processes."""


def set_per_process_memory_fraction(fraction: float, device=None) -> None:
    """The pool takes no more than this part of the GPU's memory."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    with on(index_of(device)):
        find_cupy.cupy().get_default_memory_pool().set_limit(fraction=fraction)
