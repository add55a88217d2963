"""Sparse tensors by coordinates, on both libraries where PyTorch is installed."""

import importlib.util

import pytest

import flambeau


@pytest.fixture(params=["flambeau", "torch"])
def lib(request):
    if request.param == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    return flambeau if request.param == "flambeau" else importlib.import_module("torch")


def places(lib):
    return lib.tensor([[0, 1, 1, 0], [2, 0, 0, 1]]), lib.tensor([1.0, 2.0, 3.0, 4.0])


def test_dense_values_add_up(lib):
    at, values = places(lib)
    made = lib.sparse_coo_tensor(at, values, (2, 4))
    assert made.to_dense().tolist() == [[0, 4, 1, 0], [5, 0, 0, 0]] and tuple(made.shape) == (2, 4)
    assert lib.sparse_coo_tensor(at, values).to_dense().tolist() == [[0, 4, 1], [5, 0, 0]]
    for kind in (lib.int8, lib.float16, lib.bool):
        dense = lib.sparse_coo_tensor(at, values.to(kind), (2, 3)).to_dense()
        assert dense.dtype == kind and dense.tolist() == lib.tensor([[0, 4, 1], [5, 0, 0]]).to(kind).tolist()
    rows = lib.sparse_coo_tensor(at[:1], values[:, None] * lib.ones(2), (2, 2))
    assert rows.to_dense().tolist() == [[5, 5], [5, 5]] and rows.dense_dim() == 1
    assert lib.sparse_coo_tensor([[0, 1]], [1, 2], (3,)).to_dense().tolist() == [1, 2, 0]
    assert lib.sparse_coo_tensor((2, 2)).to_dense().tolist() == [[0, 0], [0, 0]]


def test_coalesced(lib):
    at, values = places(lib)
    made = lib.sparse_coo_tensor(at, values, (2, 3))
    once = made.coalesce()
    assert not made.is_coalesced() and once.is_coalesced() and (made._nnz(), once._nnz()) == (4, 3)
    assert once.indices().tolist() == [[0, 0, 1], [1, 2, 0]] and once.values().tolist() == [4, 1, 5]
    assert made.t().to_dense().tolist() == [[0, 5], [4, 0], [1, 0]]
    assert (made @ lib.ones(3, 2)).tolist() == [[5, 5], [5, 5]]
    with pytest.raises(RuntimeError, match="uncoalesced"):
        made.indices()


def test_gradients_of_values(lib):
    at, values = places(lib)
    values.requires_grad_()
    made = lib.sparse_coo_tensor(at, values, (2, 3))
    (made.to_dense() * lib.arange(6.0).reshape(2, 3)).sum().backward()
    assert made.requires_grad and values.grad.tolist() == [2, 3, 3, 1]


def test_sparse_refusals(lib):
    at, values = places(lib)
    for given, words in (
        ((at, values[:3], (2, 3)), "same nnz"),
        ((at, values, (2, 3, 4)), "sparse_dim"),
        ((at, values, (2, 2)), "size is inconsistent with indices: for dim 1, size is 2 but found index 2"),
        ((-at, values, (2, 3)), "found negative index"),
    ):
        with pytest.raises(RuntimeError, match=words):
            lib.sparse_coo_tensor(*given, check_invariants=True)  # flambeau checks always
    with pytest.raises((AttributeError, RuntimeError)):
        lib.sparse_coo_tensor(at, values, (2, 3)).reshape(6, 1, 1)
