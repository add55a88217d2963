"""Batches in pinned memory: what a GPU copies from without the processor.

In: batches (tensors, nested in the usual containers, or objects with `pin_memory`). Out: the same with pinned tensors.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def pinned(batches, wanted: bool):
    """The batches one by one, pinned if wanted."""
    return (pin(batch) for batch in batches) if wanted else batches


def pin(batch, device=None):
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, (str, bytes)):
        return batch
    if isinstance(batch, Mapping):
        kind: Any = type(batch)
        return kind({key: pin(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(pin, batch))
    if isinstance(batch, Sequence):
        return type(batch)(map(pin, batch)) if isinstance(batch, (list, tuple)) else [pin(b) for b in batch]
    return batch
