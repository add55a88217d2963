"""DataLoader with worker processes: the same batches in the same order, errors, seeds, early ends."""

import os
import random
import time
from collections import namedtuple

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

Pair = namedtuple("Pair", "x label")


class Rows(Dataset):
    """Every kind of field; rows big enough to go through shared memory."""

    def __len__(self):
        return 11

    def __getitem__(self, i):
        return {
            "x": torch.full((700,), float(i)),
            "t": torch.arange(6).reshape(2, 3).t() + i,
            "n": np.float64(i),
            "half": torch.ones(3, dtype=torch.bfloat16) * i,
            "name": f"row {i}",
            "pair": Pair(i, i % 2 == 0),
        }


class Faulty(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            raise KeyError("no such row")
        return i


class Dying(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        os._exit(3)


class Slow(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        time.sleep(30)


class Draws(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        info = get_worker_info()
        return torch.rand(()), random.random(), np.random.rand(), info.id, info.seed


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, 10, step))


def collected(loader):
    return [{k: v if isinstance(v, (list, tuple)) else v.tolist() for k, v in batch.items()} for batch in loader]


def mark(worker_id):
    random.seed(0)
    os.environ["MARKED"] = str(worker_id)


class Marked(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return int(os.environ["MARKED"]) == get_worker_info().id


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_same_batches_as_without_workers(method):
    def loader(workers, **kw):
        return DataLoader(
            Rows(), batch_size=3, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(4), **kw
        )

    own, theirs = collected(loader(0)), collected(loader(2, multiprocessing_context=method))
    assert str(own) == str(theirs) and len(own) == 4
    first = next(iter(loader(2, multiprocessing_context=method)))
    assert first["x"].shape == (3, 700) and first["half"].dtype == torch.bfloat16
    assert isinstance(first["pair"], Pair) and first["pair"].label.dtype == torch.bool
    first["x"].add_(1)  # the batch is the loader's to change


def test_default_generator_shuffles_alike():
    def order(workers):
        torch.manual_seed(11)
        return [b[0].tolist() for b in DataLoader(TensorDataset(torch.arange(9)), 2, shuffle=True, num_workers=workers)]

    assert order(0) == order(1) == order(3)
    assert order(0) != [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


def test_errors_carry_the_workers_traceback():
    loader = iter(DataLoader(Faulty(), batch_size=2, num_workers=2))
    assert [next(loader).tolist(), next(loader).tolist()] == [[0, 1], [2, 3]]
    with pytest.raises(KeyError) as caught:
        next(loader)
    text = str(caught.value)
    assert "Caught KeyError in DataLoader worker process 0" in text and "no such row" in text and "__getitem__" in text


def test_a_dead_worker_and_a_slow_one_are_told(monkeypatch):
    from flambeau.eager.utils.data import workers

    monkeypatch.setattr(workers, "POLL", 0.2)
    with pytest.raises(RuntimeError, match=r"worker \(pid\(s\) .*exit code 3.* exited unexpectedly"):
        list(DataLoader(Dying(), num_workers=1))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        list(DataLoader(Slow(), num_workers=1, timeout=0.5))


def test_seeds_and_info():
    def drawn():
        torch.manual_seed(3)
        return [[f.tolist() for f in batch] for batch in DataLoader(Draws(), batch_size=2, num_workers=2)]

    once, again = drawn(), drawn()
    assert once == again
    assert [b[3] for b in once] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert once[1][4][0] == once[0][4][0] + 1 and once[0][0] != once[1][0] and once[0][2] != once[1][2]
    assert get_worker_info() is None


def test_iterable_datasets_are_split_by_the_worker_info():
    assert sorted(x for b in DataLoader(Stream(), batch_size=2, num_workers=2) for x in b.tolist()) == list(range(10))
    assert [b.tolist() for b in DataLoader(Stream(), batch_size=4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    dropped = DataLoader(Stream(), batch_size=4, num_workers=2, drop_last=True)
    assert [b.tolist() for b in dropped] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_persistent_workers_serve_several_epochs():
    loader = DataLoader(Rows(), batch_size=4, num_workers=2, persistent_workers=True, prefetch_factor=1)
    next(iter(loader))  # an epoch that is given up
    pids = [p.pid for p in loader._workers.processes]
    for _ in range(2):
        assert [b["n"].tolist() for b in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert pids == [p.pid for p in loader._workers.processes]
    processes, place = loader._workers.processes, loader._workers.folder.name
    del loader
    assert not any(p.is_alive() for p in processes) and not os.path.exists(place)


def test_worker_init_fn_and_out_of_order():
    assert all(b.all() for b in DataLoader(Marked(), num_workers=2, worker_init_fn=mark))
    batches = [b["n"].tolist() for b in DataLoader(Rows(), batch_size=2, num_workers=2, in_order=False)]
    assert sorted(map(tuple, batches)) == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10,)]


def test_tensors_that_need_a_graph_are_refused():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        list(DataLoader([0, 1], num_workers=1, collate_fn=lambda rows: w * 2))


@pytest.mark.parametrize(
    "wrong, match",
    [
        (dict(num_workers=-1), "non-negative"),
        (dict(prefetch_factor=2), "num_workers > 0"),
        (dict(persistent_workers=True), "num_workers > 0"),
        (dict(timeout=-1), "non-negative"),
        (dict(num_workers=1, multiprocessing_context="thread"), "valid start method"),
        (dict(multiprocessing_context="fork"), "num_workers > 0"),
    ],
)
def test_refusals(wrong, match):
    with pytest.raises(ValueError, match=match):
        DataLoader([1, 2], **wrong)
