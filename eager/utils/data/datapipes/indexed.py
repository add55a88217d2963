"""Pipes with items by number: the classes of `map`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .datapipe import MapDataPipe, functional_datapipe


class SequenceWrapper(MapDataPipe):
    """A list or dict as a pipe; a deep copy of it, or itself."""

    def __init__(self, sequence: Any, deepcopy: bool = True):
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """`fn` of each item."""

    def __init__(self, datapipe: Any, fn: Callable = lambda x: x):
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)
