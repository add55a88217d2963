"""Pipes that are read in order: the classes of `iter`."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..collate import default_collate
from .datapipe import IterDataPipe, functional_datapipe


class IterableWrapper(IterDataPipe):
    """The members of an iterable, of which each reader gets a deep copy (`deepcopy=False`: the iterable itself)."""

    def __init__(self, iterable: Iterable, deepcopy: bool = True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # generators, files: read once
                pass
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """`fn` of each; of a column of each (`input_col`), put back there or into `output_col` (-1: behind)."""

    def __init__(self, datapipe: Any, fn: Callable, input_col: Any = None, output_col: Any = None):
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _of_columns(self, item: Any) -> Any:
        if self.input_col is None:
            return self.fn(item)
        several = isinstance(self.input_col, (list, tuple))
        result = self.fn(*(item[k] for k in self.input_col)) if several else self.fn(item[self.input_col])
        place = self.output_col if self.output_col is not None else self.input_col[0] if several else self.input_col
        was = tuple if isinstance(item, tuple) else None
        made = dict(item) if isinstance(item, dict) else list(item)
        if place == -1 and isinstance(made, list):
            made.append(result)
        else:
            made[place] = result
        return was(made) if was else made

    def __iter__(self) -> Iterator:
        for item in self.datapipe:
            yield self._of_columns(item)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """Those of which `filter_fn` (of their column `input_col`) is true."""

    def __init__(self, datapipe: Any, filter_fn: Callable, input_col: Any = None):
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator:
        for item in self.datapipe:
            if self.filter_fn(item if self.input_col is None else item[self.input_col]):
                yield item


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of `batch_size`, the last one shorter or left out (`drop_last`); `wrapper_class` makes something else of them."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Callable = list):
        if batch_size < 1:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator:
        batch: list = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        return (len(self.datapipe) + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The members of batches, `unbatch_level` levels down (-1: all lists)."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1):
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _members(self, item: Any, level: int) -> Iterator:
        if level == 0 or level == -1 and not isinstance(item, list):
            yield item
        elif not isinstance(item, list):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for member in item:
                yield from self._members(member, level if level == -1 else level - 1)

    def __iter__(self) -> Iterator:
        for item in self.datapipe:
            yield from self._members(item, self.unbatch_level)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches as tensors, by `collate_fn`."""

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Callable | None = None):
        super().__init__(datapipe, collate_fn or (conversion if callable(conversion) else default_collate))


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """One after the other."""

    def __init__(self, *datapipes: Any):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of one of each, as long as the shortest."""

    def __init__(self, *datapipes: Any):
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("shuffle")
class Shuffler(IterDataPipe):
    """In another order: each is drawn from a buffer of `buffer_size`. `set_seed` fixes the order of the next reader."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0):
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else UnBatcher(datapipe, unbatch_level)
        self.buffer_size, self.enabled, self.seed = buffer_size, True, None

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        self.enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        self.seed = seed
        return self

    def __iter__(self) -> Iterator:
        if not self.enabled:
            yield from self.datapipe
            return
        draw, buffer = random.Random(self.seed), []
        self.seed = None
        for item in self.datapipe:
            if len(buffer) == self.buffer_size:
                place = draw.randrange(len(buffer))
                buffer[place], item = item, buffer[place]
                yield item
            else:
                buffer.append(item)
        draw.shuffle(buffer)
        yield from buffer

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe):
    """Every n-th, from the k-th on, as `apply_sharding(n, k)` says."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None):
        self.source_datapipe, self.count, self.number = source_datapipe, 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        self.count, self.number = num_of_instances, instance_id

    def __iter__(self) -> Iterator:
        for k, item in enumerate(self.source_datapipe):
            if k % self.count == self.number:
                yield item
