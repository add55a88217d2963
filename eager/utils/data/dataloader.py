"""DataLoader: a dataset, an order and a way to batch.

In: a map-style or iterable dataset. Out: an iterator over batches, loaded in the calling process.
"""

import itertools

from ...random import Generator
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


class _Endless:
    """The sampler of an iterable dataset: it has no indices."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if num_workers > 0:
            raise ValueError(f"DataLoader: num_workers={num_workers} is not available, data is loaded in the calling "
                             "process; use num_workers=0")
        if prefetch_factor is not None or persistent_workers:
            raise ValueError("prefetch_factor and persistent_workers need num_workers > 0")
        if generator is not None and not isinstance(generator, Generator):
            raise TypeError(f"DataLoader: generator must be a Generator, got {type(generator).__name__}")
        self.dataset, self.num_workers, self.pin_memory, self.timeout = dataset, 0, pin_memory, timeout
        self.worker_init_fn, self.generator, self.drop_last = worker_init_fn, generator, drop_last
        self._iterable = isinstance(dataset, IterableDataset)
        self._check_order(shuffle, sampler, batch_sampler, batch_size, drop_last)
        self.sampler = self._default_sampler(shuffle) if sampler is None else sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
            self.batch_size = batch_size
        else:
            self.batch_size = None
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)

    def _check_order(self, shuffle, sampler, batch_sampler, batch_size, drop_last):
        if self._iterable:
            if shuffle:
                raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle option, "
                                 f"but got shuffle={shuffle}")
            if sampler is not None or batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified sampler and batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                             "and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def _default_sampler(self, shuffle):
        if self._iterable:
            return _Endless()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def __iter__(self):
        return self._iterate_rows() if self._iterable else self._fetch_indices()

    def _fetch_indices(self):
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
            return
        fetch_many = getattr(self.dataset, "__getitems__", None)
        for indices in self.batch_sampler:
            rows = fetch_many(indices) if fetch_many else [self.dataset[i] for i in indices]
            yield self.collate_fn(rows)

    def _iterate_rows(self):
        rows = iter(self.dataset)
        if self.batch_sampler is None:
            yield from map(self.collate_fn, rows)
            return
        while batch := list(itertools.islice(rows, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self):
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def get_worker_info():
    """None: there are no worker processes."""
    return None
