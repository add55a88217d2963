"""Datasets, samplers, collation and the loader."""

from collections import namedtuple

import numpy as np
import pytest

from flambeau.eager import api as torch
from flambeau.eager.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)


class Squares(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        if index >= 7:
            raise IndexError
        return index, float(index**2)


class Counter(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def test_batches_in_order():
    batches = list(DataLoader(Squares(), batch_size=3))
    assert [b[0].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert batches[0][0].dtype is torch.int64 and batches[0][1].dtype is torch.float64
    loader = DataLoader(Squares(), batch_size=3, drop_last=True)
    assert len(loader) == 2 and len(list(loader)) == 2
    assert [x for x, _ in DataLoader(Squares(), batch_size=None)] == list(range(7))


def test_shuffling_follows_the_generator():
    def order(seed):
        return [
            int(i)
            for b in DataLoader(Squares(), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(seed))
            for i in b[0]
        ]

    assert sorted(order(1)) == list(range(7)) and order(1) == order(1) and any(order(1) != order(s) for s in range(2, 6))
    torch.manual_seed(5)
    loader = DataLoader(Squares(), batch_size=7, shuffle=True)
    first, second = next(iter(loader))[0].tolist(), next(iter(loader))[0].tolist()
    torch.manual_seed(5)
    assert next(iter(loader))[0].tolist() == first and sorted(second) == list(range(7))


def test_iterable_datasets():
    assert [b.tolist() for b in DataLoader(Counter(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified shuffle option"):
        DataLoader(Counter(), shuffle=True)


def test_refusals():
    with pytest.raises(ValueError, match="sampler option is mutually exclusive with shuffle"):
        DataLoader(Squares(), sampler=SequentialSampler(Squares()), shuffle=True)
    with pytest.raises(ValueError, match="batch_sampler option is mutually exclusive"):
        DataLoader(Squares(), batch_size=2, batch_sampler=BatchSampler(range(3), 2, False))
    with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
        DataLoader(Squares(), batch_size=0)


def test_custom_collate_and_getitems():
    class Fast(Squares):
        def __getitems__(self, indices):
            return [i * 10 for i in indices]

    assert [b.tolist() for b in DataLoader(Fast(), batch_size=4)] == [[0, 10, 20, 30], [40, 50, 60]]
    assert list(DataLoader(Squares(), batch_size=4, collate_fn=len)) == [4, 3]


def test_datasets():
    xs, ys = torch.arange(6).view(3, 2), torch.arange(3)
    data = TensorDataset(xs, ys)
    assert len(data) == 3 and data[1][0].tolist() == [2, 3] and data[1][1].item() == 1
    both = ConcatDataset([data, Squares()])
    assert len(both) == 10 and both[3] == (0, 0.0) and both[-1] == (6, 36.0) and len(data + data) == 6
    assert Subset(Squares(), [4, 2])[0] == (4, 16.0)
    parts = random_split(Squares(), [5, 2], torch.Generator().manual_seed(0))
    assert [len(p) for p in parts] == [5, 2] and sorted(parts[0].indices + parts[1].indices) == list(range(7))
    assert [len(p) for p in random_split(Squares(), [0.5, 0.5])] == [4, 3]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(xs, torch.arange(2))


def test_samplers():
    g = torch.Generator().manual_seed(0)
    assert sorted(RandomSampler(range(9), generator=g)) == list(range(9))
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=50, generator=g))
    assert len(drawn) == 50 and set(drawn) == {0, 1, 2}
    endless = iter(DataLoader(Squares(), 2, sampler=RandomSampler(Squares(), replacement=True, num_samples=10**10)))
    assert len(next(endless)) == 2
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        DataLoader([], shuffle=True)
    assert sorted(SubsetRandomSampler([3, 1, 8], g)) == [1, 3, 8]
    weighted = list(WeightedRandomSampler([0.0, 1.0, 3.0], 400, generator=g))
    assert 0 not in weighted and 0.65 < weighted.count(2) / 400 < 0.85
    assert list(BatchSampler(SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert len(BatchSampler(SequentialSampler(range(5)), 2, True)) == 2


def test_collation():
    Point = namedtuple("Point", "x y")
    out = default_collate([{"a": np.ones(2, np.float32), "b": ("s", 1), "c": Point(1.0, [1, 2])}] * 3)
    assert (
        out["a"].shape == (3, 2)
        and out["a"].dtype is torch.float32
        and list(out["b"][0]) == ["s", "s", "s"]
        and out["b"][1].tolist() == [1, 1, 1]
    )
    assert (
        isinstance(out["c"], Point)
        and out["c"].x.dtype is torch.float64
        and [t.tolist() for t in out["c"].y] == [[1, 1, 1], [2, 2, 2]]
    )
    assert default_collate([torch.ones(2), torch.zeros(2)]).shape == (2, 2)
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])
