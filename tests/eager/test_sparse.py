"""Sparse tensors by coordinates, on both libraries where PyTorch is installed."""

import copy
import importlib.util
import pickle

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


def test_products_sums_and_moves(lib):
    at, values = places(lib)
    made = lib.sparse_coo_tensor(at, values, (2, 3))
    dense, other = made.to_dense(), lib.arange(6.0).reshape(3, 2)
    for product in (made @ other, lib.mm(made, other), lib.matmul(made, other), lib.sparse.mm(made, other)):
        assert product.tolist() == (dense @ other).tolist()
    assert (made.mT.to_dense()).tolist() == made.transpose(0, 1).to_dense().tolist() == dense.t().tolist()
    assert lib.sparse.sum(made).item() == dense.sum().item()
    assert lib.sparse.sum(made, dim=0).to_dense().tolist() == dense.sum(0).tolist()
    assert lib.sparse.sum(made, 1).to_dense().tolist() == dense.sum(1).tolist()
    assert (made * 2).to_dense().tolist() == (2 * made).to_dense().tolist() == (dense * 2).tolist()
    assert (made + made).to_dense().tolist() == (dense * 2).tolist() and (made - made).to_dense().tolist() == (dense * 0).tolist()
    assert (made.coalesce() * lib.full((2, 3), 3.0)).to_dense().tolist() == (dense * 3).tolist()
    assert made.double().dtype is lib.float64 and made.ndimension() == 2 and made.detach().clone().size(1) == 3
    assert isinstance(made, lib.Tensor) and lib.is_tensor(made) and made.is_sparse
    old = lib.sparse.FloatTensor(at, values, lib.Size([2, 3]))
    assert old.to_dense().tolist() == dense.tolist()


def test_batches_of_products(lib):
    made = lib.sparse_coo_tensor(lib.tensor([[0, 1], [0, 1], [1, 0]]), lib.tensor([1.0, 2.0]), (2, 2, 2))
    other = lib.arange(8.0).reshape(2, 2, 2)
    assert lib.bmm(made, other).tolist() == lib.bmm(made.to_dense(), other).tolist()


def test_gradients_of_products(lib):
    at, values = places(lib)
    values.requires_grad_()
    other = lib.arange(6.0).reshape(3, 2).requires_grad_()
    lib.sparse.mm(lib.sparse_coo_tensor(at, values, (2, 3)), other).sum().backward()
    dense = lib.sparse_coo_tensor(at, values.detach(), (2, 3)).to_dense()
    assert other.grad.tolist() == dense.sum(0)[:, None].expand(3, 2).tolist()
    assert values.grad.tolist() == other.detach().sum(1)[at[1]].tolist()


def test_compressed_rows_and_columns(lib):
    starts, columns, values = lib.tensor([0, 1, 3]), lib.tensor([2, 0, 2]), lib.tensor([3.0, 4.0, 5.0])
    made = lib.sparse_csr_tensor(starts, columns, values, size=(2, 3))
    assert made.layout is lib.sparse_csr and made.is_sparse_csr and not made.is_sparse
    assert made.to_dense().tolist() == [[0, 0, 3], [4, 0, 5]] and made.crow_indices().tolist() == [0, 1, 3]
    assert (made @ lib.ones(3, 2)).tolist() == [[3, 3], [9, 9]]
    turned = made.to_sparse_csc()
    assert turned.layout is lib.sparse_csc and turned.to_dense().tolist() == made.to_dense().tolist()
    assert turned.ccol_indices().tolist() == [0, 1, 1, 3] and turned.row_indices().tolist() == [1, 0, 1]
    x = lib.tensor([[0.0, 1.0], [2.0, 0.0]])
    for form in (x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse(), x.to_sparse(layout=lib.sparse_csr)):
        assert form.to_dense().tolist() == x.tolist() and form.values().tolist() == (
            [2, 1] if form.layout is lib.sparse_csc else [1, 2]
        )
    columns = lib.sparse_csc_tensor(lib.tensor([0, 1, 2]), lib.tensor([1, 0]), lib.tensor([7.0, 8.0]))
    assert columns.to_dense().tolist() == [[0, 8], [7, 0]] and columns.t().to_dense().tolist() == [[0, 7], [8, 0]]
    for given, words in ((([0, 2], [0], [1.0], (1, 1)), "nnz"), (([0, 1], [2], [1.0], (1, 1)), "col_indices")):
        with pytest.raises(RuntimeError, match=words):
            lib.sparse_csr_tensor(*map(lib.tensor, given[:3]), given[3], check_invariants=True)


def test_sparse_buffers(lib):
    class Layer(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mixed", lib.eye(3).to_sparse(), persistent=False)

        def forward(self, x):
            return self.mixed @ x

    layer = Layer()
    assert layer(lib.ones(3, 1)).flatten().tolist() == [1, 1, 1] and layer.double().mixed.dtype is lib.float64


def test_reductions_of_products():
    import flambeau as fb

    made = fb.sparse_coo_tensor(fb.tensor([[0, 0, 1], [0, 1, 1]]), fb.tensor([1.0, 2.0, 3.0]), (3, 2))
    other = fb.tensor([[1.0, 5.0], [2.0, -1.0]])
    assert fb.sparse.mm(made, other, "amax").tolist() == [[4, 5], [6, -3], [0, 0]]
    assert fb.sparse.mm(made, other, "mean").tolist() == [[2.5, 1.5], [6, -3], [0, 0]]
    with pytest.raises(ValueError, match="reduce must be one of"):
        fb.sparse.mm(made, other, "prod")
    with pytest.raises(TypeError, match=r"torch.sigmoid\(\) takes no sparse tensors"):
        fb.sigmoid(made)


def test_a_dense_operand_may_come_first(lib):
    at, values = places(lib)
    made = lib.sparse_coo_tensor(at, values, (2, 3)).coalesce()
    dense, other = made.to_dense(), lib.arange(6.0).reshape(2, 3)
    for total in (other + made, lib.add(other, made), other.add(made)):
        assert total.tolist() == (other + dense).tolist()
    assert lib.add(other, made, alpha=2).tolist() == (other + 2 * dense).tolist()
    assert (other - made).tolist() == (other - dense).tolist()
    assert (other * made).to_dense().tolist() == (other * dense).tolist()
    assert (lib.ones(4, 2) @ made).tolist() == (lib.ones(4, 2) @ dense).tolist()


def test_what_no_sparse_operand_may_stand_in_is_named():
    import flambeau as fb

    made = fb.eye(2).to_sparse()
    for call in (lambda: fb.ones(2, 2) / made, lambda: made / fb.ones(2, 2), lambda: fb.zeros_like(made), lambda: 2 - made):
        with pytest.raises(TypeError):
            call()
    for call in (
        lambda: made.to_sparse(layout=fb.sparse_bsr),
        lambda: made.to_sparse(1),
        lambda: made.to_sparse_csr().to_sparse(1),
    ):
        with pytest.raises(RuntimeError, match="to_sparse"):
            call()


@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_files_and_copies(lib, form, tmp_path):
    made = getattr(lib.tensor([[0.0, 1.0], [2.0, 0.0]]), form)()
    lib.save({"s": made}, tmp_path / "s.pt")
    copies = [lib.load(tmp_path / "s.pt")["s"]]
    if lib is flambeau:  # PyTorch copies and pickles those by coordinates alone
        copies += [pickle.loads(pickle.dumps(made)), copy.deepcopy(made)]
    for again in copies:
        assert again.layout is made.layout and again.to_dense().tolist() == made.to_dense().tolist()


@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_files_of_pytorch(form, tmp_path):
    torch = pytest.importorskip("torch")
    for writes, reads in ((torch, flambeau), (flambeau, torch)):
        made = getattr(writes.tensor([[0.0, 1.0], [2.0, 0.0]]), form)()
        writes.save(made, tmp_path / "s.pt")
        again = reads.load(tmp_path / "s.pt")
        assert str(again.layout) == str(made.layout) and again.to_dense().tolist() == [[0, 1], [2, 0]]


def test_places_and_beginnings(lib):
    rows, columns = lib.tensor([0, 0, 2]), lib.tensor([1, 2, 0])
    starts = lib._convert_indices_from_coo_to_csr(rows, 4)
    assert starts.tolist() == [0, 2, 2, 3, 3]
    assert lib._convert_indices_from_csr_to_coo(starts, columns).tolist() == [[0, 0, 2], [1, 2, 0]]
    assert lib._convert_indices_from_csr_to_coo(starts, columns, transpose=True).tolist() == [[1, 2, 0], [0, 0, 2]]
    assert lib._convert_indices_from_coo_to_csr(rows, 4, out_int32=True).dtype is lib.int32
