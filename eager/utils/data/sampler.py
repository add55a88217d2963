"""Samplers: iterate over indices of a dataset, or over lists of them."""

import itertools

from ... import api
from ... import random
from ...random import Generator


class Sampler:
    def __init__(self, data_source=None):
        pass

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise TypeError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def seeded(generator):
    """The given generator, or a fresh one whose seed comes from the default generator."""
    if generator is not None:
        return generator
    return Generator().manual_seed(drawn_seed(None))


def drawn_seed(generator):
    """A seed of 63 bits."""
    if random.in_order is not None:
        return int(api.empty((), dtype=api.int64).random_(generator=generator).item())
    return int(api.randint(0, 2**63 - 1, (), generator=generator).item())


DRAWN = 32  # draws with replacement are made so many at a time


class RandomSampler(Sampler):
    """A random order without replacement, or `num_samples` draws with it."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, generator = len(self.data_source), seeded(self.generator)
        if self.replacement:  # programs ask for 10 ** 10 as "without end"
            for start in range(0, self.num_samples, DRAWN):
                yield from api.randint(0, n, (min(DRAWN, self.num_samples - start),), generator=generator).tolist()
            return
        for _ in range(self.num_samples // n):
            yield from api.randperm(n, generator=generator).tolist()
        rest = self.num_samples % n
        if rest or random.in_order is not None:  # (PyTorch draws an order of which it takes nothing)
            yield from api.randperm(n, generator=generator).tolist()[:rest]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for i in api.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn in proportion to weights."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        self.weights = api.as_tensor(weights, dtype=api.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        drawn = api.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices; the last one may be shorter unless drop_last."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
