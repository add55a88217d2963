"""Batches in pinned memory, by PyTorch's path."""

from ..pinned import pin as pin_memory

__all__ = ["pin_memory"]
