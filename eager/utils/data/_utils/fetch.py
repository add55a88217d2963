"""From indices to a batch, by PyTorch's path."""

from ..fetch import IterableFetcher as _IterableDatasetFetcher
from ..fetch import MapFetcher as _MapDatasetFetcher

__all__ = ["_IterableDatasetFetcher", "_MapDatasetFetcher"]
