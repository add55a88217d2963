"""Indexing (items 17-24)."""

import warnings

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
