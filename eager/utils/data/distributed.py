"""DistributedSampler: each of `num_replicas` processes sees its own share of a data set, reshuffled by `set_epoch`."""

import math

from ... import api
from ...compat import distributed
from .sampler import Sampler


class DistributedSampler(Sampler):
    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        self.num_samples = (
            math.ceil((count - num_replicas) / num_replicas)
            if drop_last and count % num_replicas
            else math.ceil(count / num_replicas)
        )
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            order = api.Generator()
            order.manual_seed(self.seed + self.epoch)
            indices = api.randperm(len(indices), generator=order).tolist()
        missing = self.total_size - len(indices)
        if self.drop_last:
            indices = indices[: self.total_size]
        elif missing > 0:
            indices += (indices * math.ceil(missing / len(indices)))[:missing]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Another order for another epoch, the same in all processes."""
        self.epoch = epoch
