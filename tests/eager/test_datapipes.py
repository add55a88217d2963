"""Datasets in a chain: pipes that are read in order, and pipes with items by number."""

import pickle

import pytest

from flambeau.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe
from flambeau.utils.data.datapipes.iter import IterableWrapper, ShardingFilter
from flambeau.utils.data.datapipes.map import SequenceWrapper


def odd(x):
    return x % 2


def test_chains_are_read_again_from_the_beginning():
    pipe = IterableWrapper(range(10)).filter(odd).map(lambda x: x * 2).batch(2)
    assert list(pipe) == list(pipe) == [[2, 6], [10, 14], [18]]
    assert list(IterableWrapper(range(5)).batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(IterableWrapper(range(5)).batch(2)) == 3 and list(pipe.unbatch()) == [2, 6, 10, 14, 18]


def test_columns():
    rows = IterableWrapper([(1, 2), (3, 4)])
    assert list(rows.map(lambda a: -a, input_col=0)) == [(-1, 2), (-3, 4)]
    assert list(rows.map(lambda a, b: a + b, input_col=[0, 1], output_col=-1)) == [(1, 2, 3), (3, 4, 7)]
    assert list(IterableWrapper([{"a": 1}]).map(lambda a: a + 1, "a", "b")) == [{"a": 1, "b": 2}]
    assert list(rows.filter(lambda a: a > 1, input_col=0)) == [(3, 4)]


def test_several_pipes():
    a, b = IterableWrapper([1, 2, 3]), IterableWrapper([4, 5])
    assert list(a.concat(b)) == [1, 2, 3, 4, 5] and list(a.zip(b)) == [(1, 4), (2, 5)] and len(a.concat(b)) == 5


def test_shuffles():
    pipe = IterableWrapper(range(20)).shuffle(buffer_size=5)
    assert sorted(pipe) == list(range(20)) and list(pipe.set_shuffle(False)) == list(range(20))
    pipe.set_shuffle()
    assert list(pipe.set_seed(3)) == list(pipe.set_seed(3)) != list(range(20))


def test_shards():
    pipe = ShardingFilter(IterableWrapper(range(7)))
    pipe.apply_sharding(3, 1)
    assert list(pipe) == [1, 4]


def test_loaders_and_pickles():
    assert [t.tolist() for t in DataLoader(IterableWrapper(range(4)), batch_size=2)] == [[0, 1], [2, 3]]
    assert list(pickle.loads(pickle.dumps(IterableWrapper([1, 2, 3]).filter(odd)))) == [1, 3]
    assert [t.tolist() for t in IterableWrapper([1, 2]).batch(2).collate()] == [[1, 2]]


def test_pipes_with_items_by_number():
    pipe = SequenceWrapper([1, 2, 3]).map(lambda x: x * 10)
    assert isinstance(pipe, MapDataPipe) and len(pipe) == 3 and pipe[2] == 30


def test_own_pipes_are_methods():
    @functional_datapipe("doubled_in_this_test")
    class Doubled(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            for item in self.source:
                yield from (item, item)

    try:
        assert list(IterableWrapper([1, 2]).doubled_in_this_test()) == [1, 1, 2, 2]
        with pytest.raises(Exception, match="already taken"):
            functional_datapipe("doubled_in_this_test")(Doubled)
    finally:
        IterDataPipe.functions.pop("doubled_in_this_test")
    with pytest.raises(AttributeError, match="no attribute 'doubled_in_this_test'"):
        IterableWrapper([1]).doubled_in_this_test()
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("thing")(int)
