"""DataLoader: a dataset, an order and a way to batch.

In: a map-style or iterable dataset. Out: an iterator over batches, loaded in the calling process or by worker processes
(fetch.py and workers.py); the order and the numbers drawn are the same for the same seed.
"""

import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ... import device as devices
from ...random import Generator
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .fetch import END, IterableFetcher, MapFetcher
from .pinned import pinned
from .sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed
from .workers import Plan, Workers

T = TypeVar("T")
_collate_fn_t = Callable[[list[T]], Any]  # for annotations of packages
_worker_init_fn_t = Callable[[int], None]


class _Endless:
    """The sampler of an iterable dataset: it has no indices."""

    def __iter__(self):
        return itertools.repeat(None)


class _BaseDataLoaderIter:
    """The iterator of one epoch; it ends its workers when it is done or dropped."""

    def __init__(self, loader, batches):
        self._loader, self._batches = loader, batches

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)

    def __len__(self):
        return len(self._loader)

    def __del__(self):
        self._batches.close()


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches are loaded by the process that asks for them."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches come from worker processes."""

    def _shutdown_workers(self):
        """Ends the workers of this epoch, and those that outlive epochs."""
        self._batches.close()
        self._loader._fl_end_workers()


class DataLoader:
    _iterator = None  # packages that keep an epoch's iterator look for it under this name

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to "
                "enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if generator is not None and not isinstance(generator, Generator):
            raise TypeError(f"DataLoader: generator must be a Generator, got {type(generator).__name__}")
        self.dataset, self.num_workers, self.pin_memory, self.timeout = dataset, num_workers, pin_memory, timeout
        self.prefetch_factor: Any = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self.pin_memory_device, self._workers = pin_memory_device, None
        self.multiprocessing_context = multiprocessing_context
        self.worker_init_fn, self.generator, self.drop_last = worker_init_fn, generator, drop_last
        self._iterable = isinstance(dataset, IterableDataset)
        self._fl_check_order(shuffle, sampler, batch_sampler, batch_size, drop_last)
        self.sampler = self._fl_default_sampler(shuffle) if sampler is None else sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
            self.batch_size = batch_size
        else:
            self.batch_size = None
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)

    def _fl_check_order(self, shuffle, sampler, batch_sampler, batch_size, drop_last):
        if self._iterable:
            if shuffle:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
                )
            if sampler is not None or batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified sampler and batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def _fl_default_sampler(self, shuffle):
        if self._iterable:
            return _Endless()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self):
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None and self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                f"but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            import multiprocessing

            if context not in multiprocessing.get_all_start_methods():
                raise ValueError(
                    f"multiprocessing_context option should specify a valid start method in "
                    f"{multiprocessing.get_all_start_methods()}, but got {context!r}"
                )
            context = multiprocessing.get_context(context)
        self._context = context

    def _fl_order(self):
        """What the fetcher is asked for, one batch after the other."""
        if self._iterable:
            return itertools.repeat(None if self.batch_size is None else range(self.batch_size))
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def __iter__(self):
        pinning = self.pin_memory and devices.usable("cuda")
        if self.pin_memory and not pinning:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
                stacklevel=2,
            )
        seed = self._fl_base_seed()
        if self.timeout and not self.num_workers:
            raise AssertionError("DataLoader: timeout is for workers, and num_workers is 0: nothing is waited for")
        if not self.num_workers:
            return _SingleProcessDataLoaderIter(self, pinned(self._fl_load_here(), pinning))
        return _MultiProcessingDataLoaderIter(self, pinned(self._fl_load_by_workers(seed), pinning))

    def _fl_base_seed(self):
        """One draw an epoch, as with any number of workers: shuffling is then the same for all of them."""
        return drawn_seed(self.generator) % (2**63 - self.num_workers)

    def _fl_batched(self):
        return self.batch_size is not None if self._iterable else self.batch_sampler is not None

    def _fl_load_here(self):
        kind = IterableFetcher if self._iterable else MapFetcher
        fetch = kind(self.dataset, self._fl_batched(), self.collate_fn, self.drop_last)
        for indices in self._fl_order():
            batch = fetch(indices)
            if batch is END:
                return
            yield batch

    def _fl_load_by_workers(self, seed):
        if self.persistent_workers:
            yield from self._fl_persistent(seed).batches(self._fl_order())
            return
        workers = self._fl_start(seed)
        try:
            yield from workers.batches(self._fl_order())
        finally:
            workers.close()

    def _fl_persistent(self, seed):
        """The same processes for every epoch; they end with the loader."""
        if self._workers is None:
            self._workers = self._fl_start(seed)
            self._ending = weakref.finalize(self, self._workers.close)
        else:
            self._workers.renew(seed)
        return self._workers

    def _fl_end_workers(self):
        if self._workers is not None:
            self._ending()
            self._workers = None

    def _fl_start(self, seed):
        import multiprocessing

        plan = Plan(
            self.dataset,
            self._iterable,
            self._fl_batched(),
            self.collate_fn,
            self.drop_last,
            self.worker_init_fn,
            self.num_workers,
        )
        return Workers(plan, self._context or multiprocessing, seed, max(1, self.prefetch_factor), self.timeout, self.in_order)

    def __len__(self):
        if not self._iterable:
            sampler: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
            return len(sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
