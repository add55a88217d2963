"""From a list of samples to one batch.

Tensors are stacked, numbers become a tensor, strings stay a list, and mappings, sequences and named tuples are collated
field by field.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import api
from ...tensor import Tensor


def default_convert(data):
    """numpy arrays and numbers become tensors, inside any structure; everything else is kept."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind not in "SUO":
        return api.as_tensor(data)
    if isinstance(data, Mapping):
        kind: Any = type(data)
        return kind({k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, (list, tuple)):
        return type(data)(default_convert(d) for d in data)
    return data


def default_collate(batch):
    first = batch[0]
    if isinstance(first, Tensor):
        return api.stack(batch, 0)
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind not in "SUO":
        return api.stack([api.as_tensor(b) for b in batch], 0)
    if isinstance(first, float):
        return api.tensor(batch, dtype=api.float64)
    if isinstance(first, int):
        return api.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([b[key] for b in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _like(first, columns)
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


def _like(example, value):
    """The value in the example's own container type, where that takes one argument."""
    try:
        return type(example)(value)
    except TypeError:
        return value
