"""Arguments by keyword, under the names that PyTorch's functions and methods have for them, which are not always the same."""

import pytest

torch = pytest.importorskip("torch")

import flambeau

from . import listed

CALLS = """
X.view(size=(4, 3)), X[:1].expand(size=(2, 4)), X.repeat(repeats=(2, 1)), X.clone().resize_(size=(2, 2))
X[:1].broadcast_to(size=(2, 4))
X.split(split_size=2, dim=1), X.split(split_size=[1, 3], dim=-1), t.split(X, split_size_or_sections=2)
X.hsplit(sections=2), t.vsplit(X, indices=[1]), X.tensor_split(tensor_indices_or_sections=t.tensor(2)), X.chunk(chunks=2, dim=1)
t.det(input=X @ X.T), t.inverse(input=X[:, :3] + t.eye(3)), t.matrix_power(input=X[:, :3], n=2), t.matrix_exp(input=X[:, :3])
t.slogdet(input=X[:, :3] + t.eye(3)), t.cholesky_inverse(input=X[:, :3].tril()), t.isin(element=2, test_elements=I)
t.result_type(tensor=X, other=1)
t.tril_indices(2, 3, layout=t.strided), t.arange(start=1, end=4, step=2, pin_memory=False), t.eye(n=2, m=3, pin_memory=False)
t.empty_strided((2, 2), (1, 2), layout=t.strided, pin_memory=False).stride(), t.randperm(1, layout=t.strided)
t.linspace(start=0, end=1, steps=3)
t.zeros(3).random_(**{"from": 3, "to": 4}), t.zeros(3).uniform_(**{"from": 2, "to": 2}), t.randint(low=1, high=2, size=(2,))
t.zeros(size=(2, 3)), t.ones(size=[2], dtype=t.int64), t.empty(size=(2,)).shape, X.new_zeros(size=(2,)), X.new_ones(size=(1, 2))
t.rand(size=(2,)).shape, t.randn(size=(2, 1)).shape, X.new_empty(size=(0,)), X.new_full(size=(2,), fill_value=3)
t.full(size=(2,), fill_value=2)
X.permute(dims=(1, 0)), X.flip(dims=[0]), X.tile(dims=(2, 1)), X.roll(shifts=1, dims=0), X.unflatten(dim=0, sizes=(3, 1))
X.movedim(source=0, destination=1), X.reshape(shape=(4, 3)), X.transpose(dim0=0, dim1=1), X.narrow(dim=1, start=1, length=2)
X.unsqueeze(dim=1)
X.flatten(start_dim=0, end_dim=1), X.squeeze(dim=0), t.stack(tensors=[X, Y], dim=1), t.cat(tensors=[X, Y], dim=-1)
X.diagonal(offset=1, dim1=0, dim2=1), X.rot90(k=1, dims=(0, 1)), X.repeat_interleave(repeats=2, dim=0)
X.unfold(dimension=1, size=2, step=1)
X.select(dim=0, index=1), X.swapaxes(axis0=0, axis1=1), X.as_strided(size=(2,), stride=(1,))
X.gather(dim=1, index=I[:, :1] % 4)
t.tensordot(a=X, b=Y, dims=([0], [0])), t.where(condition=X > 0, input=X, other=Y), X.masked_fill(mask=X > 0, value=1.5)
X.clamp(min=0.1)
X.index_select(dim=1, index=t.tensor([2])), X.topk(k=2, dim=1).values, X.mean(dim=1, keepdim=True), t.matmul(input=X, other=Y.T)
t.addmm(input=X[:, :3], mat1=X, mat2=Y.T, alpha=2), X.scatter(dim=1, index=I[:, :1] % 4, value=2.0), X.add(other=Y, alpha=2)
X.scatter_add(dim=0, index=I[:1] % 3, src=Y), X.pow(exponent=2), X.lerp(end=Y, weight=0.3), X.cumsum(dim=0)
X.std(dim=0, correction=0)
X.norm(p=1, dim=1), X.sort(dim=1, descending=True).values, X.index_add(dim=0, index=t.tensor([0]), source=Y[:1])
X.softmax(dim=0), X.all(dim=0)
""".strip().splitlines()
REFUSED = ["t.zeros(3).uniform_(low=1)", "t.zeros(3).random_(high=1)", "X.split(size=2)", "t.zeros(sizes=(2,))"]


@pytest.mark.parametrize("calls", CALLS)
def test_keyword(calls):
    ours, theirs = (listed.call(library, f"r = [{calls}]") for library in (flambeau, torch))
    assert listed.agree(ours, theirs) == ""


@pytest.mark.parametrize("call", REFUSED)
def test_unknown_keyword(call):
    for library in (flambeau, torch):
        with pytest.raises(TypeError):
            listed.call(library, f"r = {call}")
