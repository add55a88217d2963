"""Indexing (items 17-24)."""

import re
import warnings

import numpy as np
import pytest


def test_17_mixed_indices(lib):
    a = lib.arange(24).reshape(2, 3, 4)
    assert a[None].shape == (1, 2, 3, 4) and a[..., 1].shape == (2, 3) and a[0, ..., None].shape == (3, 4, 1)
    assert a[1, :, 1:3].tolist() == [[13, 14], [17, 18], [21, 22]]
    assert a[:, -1, ::2].tolist() == [[8, 10], [20, 22]]
    with pytest.raises(IndexError):
        a[0, 0, 0, 0]


def test_18_index_arrays(lib):
    a = lib.zeros(2, 3, 4, 5)
    assert a[:, [0, 1], :, [0, 1]].shape == (2, 2, 4)
    assert a[:, [0, 1], [0, 1]].shape == (2, 2, 5)
    assert a[[0, 1], 0].shape == (2, 4, 5)
    assert a[lib.tensor([[0, 1], [1, 0]])].shape == (2, 2, 3, 4, 5)


def test_19_masks(lib):
    a = lib.arange(4.0)
    a[a > 1] = 0
    assert a.tolist() == [0, 1, 0, 0]
    assert a[lib.tensor([True, False, False, True])].tolist() == [0, 0]
    a[lib.tensor([True, True, False, False])] = lib.tensor([5.0, 6.0])
    assert a.tolist() == [5, 6, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert a[lib.tensor([1, 0, 0, 0], dtype=lib.uint8)].tolist() == [5]
    assert a[True].shape == (1, 4) and a[False].shape == (0, 4)
    b = lib.zeros(2, 2)
    b[lib.tensor([True, False])] = 3
    assert b.tolist() == [[3, 3], [0, 0]]


def test_20_negative_steps(lib):
    with pytest.raises(ValueError, match="step must be greater than zero"):
        lib.arange(3)[::-1]
    assert lib.arange(3).flip(0).tolist() == [2, 1, 0]


def test_21_tensors_as_python_indices(lib):
    k = lib.tensor(2)
    assert [10, 20, 30][k] == 30 and list(range(k)) == [0, 1] and lib.zeros(k, 3).shape == (2, 3)
    assert lib.arange(5)[k].item() == 2 and lib.arange(5)[:k].tolist() == [0, 1]
    with pytest.raises(TypeError):
        [1, 2][lib.tensor(1.0)]


def test_22_gather_and_scatter(lib):
    x = lib.arange(6.0).reshape(2, 3).requires_grad_()
    index = lib.tensor([[2, 0]])
    y = x.gather(1, index)
    assert y.tolist() == [[2, 0]]
    y.sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [0, 0, 0]]
    assert lib.zeros(2, 3).scatter_(1, lib.tensor([[1], [2]]), 5.0).tolist() == [[0, 5, 0], [0, 0, 5]]
    assert lib.zeros(3).scatter(0, lib.tensor([2, 0]), lib.tensor([1.0, 2.0])).tolist() == [2, 0, 1]
    assert lib.zeros(3).scatter_add_(0, lib.tensor([1, 1]), lib.ones(2)).tolist() == [0, 2, 0]
    assert lib.zeros(3, 2).index_add_(0, lib.tensor([0, 0]), lib.ones(2, 2)).tolist() == [[2, 2], [0, 0], [0, 0]]
    assert lib.zeros(3).index_copy_(0, lib.tensor([2]), lib.tensor([4.0])).tolist() == [0, 0, 4]
    z = lib.arange(6.0).reshape(3, 2).requires_grad_()
    z.index_select(0, lib.tensor([1, 1])).sum().backward()
    assert z.grad.tolist() == [[0, 0], [2, 2], [0, 0]]


def test_23_masked_fill(lib):
    a = lib.zeros(2, 3)
    mask = lib.tensor([True, False, True])
    assert a.masked_fill(mask, float("-inf")).tolist() == [[float("-inf"), 0, float("-inf")]] * 2
    a.masked_fill_(~mask, lib.finfo(lib.float32).min)
    assert a[0, 1] == lib.finfo(lib.float32).min and a[0, 0] == 0


def test_24_shapes_from_data(lib):
    a = lib.tensor([[0, 3], [4, 0]])
    assert a.nonzero().tolist() == [[0, 1], [1, 0]]
    assert [t.tolist() for t in a.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    values, inverse, counts = lib.unique(lib.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 3] and inverse.tolist() == [1, 0, 1] and counts.tolist() == [1, 2]
    assert a[a > 0].tolist() == [3, 4]


# -- every spelling of a key


def test_sequences_of_more_than_numbers_are_tuples(lib):
    x, t = lib.arange(24.0).reshape(2, 3, 4), lib.tensor
    assert x[[t(0), t(1)]].tolist() == x[0, 1].tolist()
    assert x[[t([0, 1]), t([1, 2])]].tolist() == x[t([0, 1]), t([1, 2])].tolist() and x[[[0, 1], [1, 2]]].shape == (2, 4)
    assert x[[slice(None), slice(1, 3)]].shape == (2, 2, 4) and x[[..., 1]].shape == (2, 3) and x[[None, 1]].shape == (1, 3, 4)
    assert x[[0, 1]].shape == (2, 3, 4) and x[[0] * 40].shape == (40, 3, 4) and x[[[0]] * 40].shape == (40, 1, 3, 4)
    assert x[lib.Size([0, 1])].shape == (4,) and x[range(2)].shape == (2, 3, 4) and x[..., None, ...].shape == (2, 3, 4, 1)
    x[[slice(None), slice(1, 3)]] = 0
    assert x.sum() == sum([0, 1, 2, 3, 12, 13, 14, 15])


def test_arrays_are_indices(lib):
    x = lib.arange(12.0).reshape(3, 4)
    for kind in ("int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"):
        k = np.array([0, 2], kind)
        assert x[k].shape == (2, 4) and x[:, k].shape == (3, 2) and x[k, k].tolist() == [0, 10]
    assert x[np.array(1)].tolist() == [4, 5, 6, 7] and x[np.array([True, False, True])].shape == (2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert x[np.array([1, 0, 1], "uint8")].shape == (2, 4)
    x[np.array([0, 1])] = 9.0
    x[:, np.array([False, False, False, True])] = 5.0
    assert x.tolist() == [[9, 9, 9, 5], [9, 9, 9, 5], [8, 9, 10, 5]]
    with pytest.raises(ValueError, match="stride"):
        x[np.array([0, 1])[::-1]]


@pytest.mark.parametrize("key", [1.5, {}, np.float64(1), np.bool_(True), 1j])
def test_what_is_no_key(lib, key):
    with pytest.raises(IndexError, match="only integers, slices"):
        lib.zeros(2, 3)[key]


def test_indices_that_no_element_asks_for(lib):
    assert lib.zeros(2, 0)[lib.tensor([5])].shape == (1, 0) and lib.zeros(0, 3)[:, lib.tensor([5])].shape == (0, 1)
    for key in (lib.tensor([0]), [0, 0], lib.tensor(0)):
        with pytest.raises(IndexError):
            lib.zeros(0, 3)[key]


def test_what_is_stored(lib):
    x = lib.zeros(2, 3)
    for value in ([1, 2, 3], (1, 2, 3), np.ones(3), None, "a"):
        with pytest.raises(TypeError, match="can't assign"):
            x[0] = value
    for key, value in ((lib.tensor([0]), lib.ones(2)), (lib.tensor([[0, 1]]), lib.ones(4)), (x > -1, lib.ones(2))):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x[key] = value
    assert not x.any()


# -- outside of the memory


def test_view_as_of_another_number_of_elements(lib):
    data = lib.arange(100.0, 106.0)
    for x, like in ((data[:2], lib.ones(6)), (lib.zeros(0), lib.tensor(1.0)), (lib.ones(6), lib.ones(2))):
        with pytest.raises(RuntimeError, match="is invalid for input of size"):
            x.view_as(like)
    assert data.view_as(lib.ones(2, 3)).shape == (2, 3)


def test_a_list_that_holds_itself(lib):
    held = []
    held.append(held)
    with pytest.raises((ValueError, RecursionError)):
        lib.tensor(held)


def test_views_of_leaves_that_are_views(lib):
    x = lib.arange(6.0).reshape(2, 3).requires_grad_()
    for view in (x[0], x[0][1], x.view(-1), x.t()):
        with pytest.raises(RuntimeError, match="a view of a leaf"):
            view.mul_(2)
    with lib.no_grad():
        x[0].mul_(2)
    assert x.tolist() == [[0, 2, 4], [3, 4, 5]]


# -- indices without dims


def test_indices_without_dims_are_single(lib):
    t = lib.tensor
    x = lib.arange(3.0)
    assert x.gather(0, t(2)).shape == () and x.gather(0, t(2)) == 2
    assert x.scatter(0, t(0), 9.0).tolist() == [9, 1, 2] and x.scatter(0, t(1), t(9.0)).tolist() == [0, 9, 2]
    assert x.scatter_add(0, t(2), t(1.0)).tolist() == [0, 1, 3]
    assert x.scatter_reduce(0, t(1), t(5.0), "prod").tolist() == [0, 5, 2]
    assert x.clone().scatter_(0, t(0), 9.0).tolist() == [9, 1, 2] and x.index_fill(0, t(1), 4).tolist() == [0, 4, 2]
    assert x.index_copy(0, t(1), t(4.0)).tolist() == [0, 4, 2] and x.index_add(0, t(1), t([4.0])).tolist() == [0, 5, 2]
    assert x.index_select(0, t(1)).tolist() == [1] and x.index_fill(0, t([-1]), 7).tolist() == [0, 1, 7]
    one = t(1.0)
    assert (
        one.gather(0, t([0, 0])).tolist() == [1, 1] and one.scatter(0, t([0]), t([3.0])) == 3 and one.scatter(0, t(0), 4.0) == 4
    )
    assert (
        one.index_fill(0, t([0]), 3) == 3 and one.index_copy(0, t([0]), t([3.0])) == 3 and one.index_add(0, t([0]), t(3.0)) == 4
    )


def test_gradients_of_indices_without_dims(lib):
    x = lib.arange(3.0).requires_grad_()
    v = lib.tensor(2.0, requires_grad=True)
    (x.gather(0, lib.tensor(2)) * 3 + x.scatter(0, lib.tensor(0), v).sum()).backward()
    assert x.grad.tolist() == [0, 1, 4] and v.grad == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x, t: x.index_fill(0, t([[0, 1]]), 1),
        lambda x, t: x.index_copy(0, t([[0, 1]]), x),
        lambda x, t: x.diagonal_scatter(x[0, :1]),
        lambda x, t: x.masked_scatter(x > 0, t([1, 2])),
        lambda x, t: x.flatten(0, 5),
        lambda x, t: x.flip((0, 0)),
        lambda x, t: x.fill_(x[0]),
        lambda x, t: x[None].diag(),
        lambda x, t: x.scatter(0, t([0]), 1.0),
        lambda x, t: x.index_add(0, t([0, 1]), x[:1]),
        lambda x, t: x.maximum(-1),
        lambda x, t: x.masked_fill(t([1, 0]), 1.0),
        lambda x, t: x.select_scatter(x[0, :1], 0, 0),
        lambda x, t: x.put(t([0, 1]), x[0, :1]),
        lambda x, t: x.add_(x.t()),
        lambda x, t: x.requires_grad_("a"),
        lambda x, t: x.type("foo"),
        lambda x, t: x.cumsum("a"),
        lambda x, t: int(x),
    ],
)
def test_refusals(lib, call):
    x = lib.arange(4.0).reshape(2, 2)
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)) as caught:
        call(x, lib.tensor)
    assert not re.search(r"ufunc|numpy|AxisError|array of size|has no attribute", str(caught.value))
    assert x.tolist() == [[0, 1], [2, 3]]


def test_one_value_for_expanded_memory(lib):
    for write, wanted in (
        (lambda x: x.fill_(2), 2),
        (lambda x: x.zero_(), 0),
        (lambda x: x.masked_fill_(lib.tensor([True, False, False]), 5.0), 5),
    ):
        base = lib.ones(1)
        write(base.expand(3))
        assert base.item() == wanted
    with pytest.raises(RuntimeError, match="single memory location"):
        lib.ones(1).expand(3).add_(1)


def test_sizes_are_ints(lib):
    t = lib.tensor
    assert lib.Size([t(2), 3]) == (2, 3) and all(type(n) is int for n in lib.Size([t(2), t([3]), True]))
    for bad in ([2.5], ["a"], [None], [t(2.0)], "ab"):
        with pytest.raises(TypeError, match="takes an iterable of 'int'"):
            lib.Size(bad)


def test_numbers_that_no_type_holds(lib):
    for bad in (2**63, -(2**63) - 1, 2**70):
        for data in (bad, [bad], [[1, bad]]):
            with pytest.raises(ValueError, match="Overflow"):
                lib.tensor(data)
    for data, kind in (([300], lib.uint8), ([2**40], lib.int32), ([float("nan")], lib.int32), ([-129], lib.int8)):
        with pytest.raises(RuntimeError, match="without overflow"):
            lib.tensor(data, dtype=kind)
    assert lib.tensor([2**63], dtype=lib.float64).tolist() == [2.0**63] and lib.tensor([-1], dtype=lib.uint8).tolist() == [255]


def test_masked_scatter_into_repeated_places(lib):
    source = lib.arange(6.0)
    for mask in (True, False, [True] + [False] * 4):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            lib.tensor([-1.0]).expand(5).masked_scatter_(lib.tensor(mask), source)
    assert lib.tensor([-1.0]).expand(3).masked_scatter(lib.tensor([True, False, True]), source).tolist() == [0, -1, 1]
    assert lib.tensor([-1.0]).expand(0).masked_scatter_(lib.tensor(True), source).tolist() == []
    assert lib.tensor([-1.0]).expand(1).masked_scatter_(lib.tensor(True), source).tolist() == [0]


def test_a_fill_of_no_places_counts_a_version(lib):
    for x in (lib.arange(4), lib.tensor([3]).expand(4)):
        before = x._version
        x.index_fill_(0, lib.zeros(0, dtype=lib.int64), 5)
        assert x._version == before + 1


def test_lists_of_a_key_are_read_before_its_masks_are_compared(lib):
    x, mask = lib.zeros(3, 1, 2), lib.tensor([[0, 0]], dtype=lib.uint8)
    with pytest.raises(TypeError):
        x[[None, mask, [lib.tensor(-1), lib.tensor(0.0)]]] = 4.0
    with pytest.raises(TypeError):
        x[None, mask, [lib.tensor(-1), lib.tensor(0.0)]]
