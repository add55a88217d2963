"""Public functions and methods: PyTorch's behaviour on the points where implementations differ, as literal values."""

import math

import numpy as np
import pytest

from flambeau.eager import api as torch
from flambeau.eager.nn import functional as F


def values(t):
    return t.tolist()


# -- types


@pytest.mark.parametrize(
    "make, dtype",
    [
        (lambda: torch.tensor([1.0]), "float32"),
        (lambda: torch.tensor(np.float64(2)), "float64"),
        (lambda: torch.arange(3), "int64"),
        (lambda: torch.arange(0, 1, 0.25), "float32"),
        (lambda: torch.full((1,), 1), "int64"),
        (lambda: torch.full((1,), True), "bool"),
        (lambda: torch.tensor([1, 2]) / 2, "float32"),
        (lambda: torch.tensor([1], dtype=torch.int32) * 2.5, "float32"),
        (lambda: torch.ones(2, dtype=torch.float16) * torch.tensor(2.0, dtype=torch.float64), "float16"),
        (lambda: torch.ones(2, dtype=torch.bfloat16) + torch.ones(2, dtype=torch.float16), "float32"),
        (lambda: torch.tensor([1], dtype=torch.uint8) + torch.tensor([1], dtype=torch.int8), "int16"),
        (lambda: torch.tensor([True]).sum(), "int64"),
        (lambda: torch.tensor([1], dtype=torch.int32).cumsum(0), "int64"),
        (lambda: torch.tensor([2]).exp(), "float32"),
        (lambda: torch.tensor([[1, 2.5]]), "float32"),
        (lambda: torch.tensor([1.0]) > 0, "bool"),
        (lambda: torch.tensor([3]).float().long(), "int64"),
        (lambda: torch.where(torch.tensor([True]), torch.tensor([1]), 1.5), "float32"),
        (lambda: torch.tensor([1]).type_as(torch.ones(1)), "float32"),
    ],
)
def test_result_types(make, dtype):
    assert make().dtype.name == dtype


def test_integer_arithmetic():
    assert (torch.tensor(-7) // 2).item() == -4 and (torch.tensor([-7, 7]) % 3).tolist() == [2, 1]
    assert torch.fmod(torch.tensor([-7, 7]), 3).tolist() == [-1, 1]
    assert torch.div(torch.tensor([-7, 7]), 2, rounding_mode="trunc").tolist() == [-3, 3]
    assert torch.div(torch.tensor([-7.0, 7.0]), 2, rounding_mode="floor").tolist() == [-4.0, 3.0]
    assert (torch.tensor([255], dtype=torch.uint8) + 1).tolist() == [0]
    assert (2 ** torch.tensor([3])).tolist() == [8] and (1 - torch.tensor([3])).tolist() == [-2]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed."):
        torch.tensor([2]) ** -1
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors is not supported"):
        torch.tensor([True]) - torch.tensor([False])
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype.*Got: Long"):
        torch.arange(3).mean()


def test_places_that_do_not_exist():
    asked = ("xpu", "mps", "xla", "ipu", "mtia", "maia", "vulkan", "mkldnn", "sparse", "sparse_csr", "nested", "quantized")
    assert not any(getattr(torch.ones(1), f"is_{place}") for place in asked) and torch.ones(1).is_cpu


def test_in_place_rules():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.zeros(3, dtype=torch.int64).add_(1.5)
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        torch.zeros(3).add_(torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
        torch.zeros(1).expand(3).add_(1)
    x = torch.ones(2)
    x += torch.tensor([1.0, 2.0])
    x.mul_(2).clamp_(max=5.0).sub_(1, alpha=2)
    assert x.tolist() == [2.0, 3.0]
    assert x.fill_(4.0).zero_().tolist() == [0.0, 0.0]


def test_to():
    x = torch.ones(2)
    assert x.to(torch.float32) is x and x.to("cpu") is x and x.to(torch.ones(1)) is x and x.float() is x
    assert x.to(torch.float32, copy=True) is not x and x.to("cpu", torch.int64).dtype is torch.int64
    assert x.to("meta").is_meta and x.double().half().bfloat16().dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match="CUDA is not available"):
        x.to("cuda")
    assert torch.ones(2, device="meta").shape == (2,)


# -- indexing


def test_reading():
    x = torch.arange(24.0).view(2, 3, 4)
    assert (
        x[1, -1, 2].item() == 22.0
        and x[..., 0].shape == (2, 3)
        and x[:, None].shape == (2, 1, 3, 4)
        and x[True].shape == (1, 2, 3, 4)
    )
    assert x[0, 1:, ::2].tolist() == [[4.0, 6.0], [8.0, 10.0]] and x[[0, 0, 1]].shape == (3, 3, 4)
    y = torch.zeros(2, 3, 4, 5)
    assert y[:, [0, 1], :, [0, 1]].shape == (2, 2, 4) and y[:, [0, 1], [0, 1]].shape == (2, 2, 5)
    assert y[:, torch.tensor([[1], [0]]), None, 2].shape == (2, 2, 1, 1, 5)
    assert x[x > 21].tolist() == [22.0, 23.0] and x[torch.tensor([True, False])].shape == (1, 3, 4)
    assert x[torch.tensor(1)].shape == (3, 4) and x[torch.tensor([-1])][0, 0, 0].item() == 12.0
    assert [row.tolist() for row in torch.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    first, second = torch.tensor([5, 6])
    assert first.item() == 5 and second.item() == 6 and 5 in torch.tensor([5, 6])


@pytest.mark.parametrize(
    "key, error, text",
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (torch.tensor([7]), IndexError, "index 7 is out of bounds for dimension 0 with size 3"),
        ("a", TypeError, "invalid data type 'str'"),
        (1.5, IndexError, "only integers, slices"),
        (torch.tensor([True, False]), IndexError, r"The shape of the mask \[2\] at index 0 does not match"),
        (torch.tensor([0.5]), IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    ],
)
def test_wrong_keys(key, error, text):
    with pytest.raises(error, match=text):
        torch.zeros(3, 4)[key]


def test_writing():
    z = torch.zeros(3, 4)
    z[1] = 5
    z[:, 2] = torch.arange(3.0)
    z[z > 4] = -1
    z[[0, 2], [1, 3]] = torch.tensor([9.0, 8.0])
    z[0] += 1
    assert z.tolist() == [[1.0, 10.0, 1.0, 1.0], [-1.0, -1.0, 1.0, -1.0], [0.0, 0.0, 2.0, 8.0]]
    n = torch.zeros(3, dtype=torch.int64)
    n[0] = 1.9
    n[[0, 0, 1]] += 1
    assert n.tolist() == [2, 1, 0]
    m = torch.zeros(2, 2)
    m[torch.tensor([[True, False], [True, True]])] = torch.tensor([1.0, 2.0, 3.0])
    m[..., 1] *= 2
    assert m.tolist() == [[1.0, 0.0], [2.0, 6.0]]
    m[:] = torch.ones(1, 1, 2)
    assert m.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_gradients_flow_through_keys():
    x = torch.arange(4.0, requires_grad=True)
    y = x * 1
    y[1:] = x[:3] * 3
    y[[0]] = x[[3]] * 10
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0, 10.0]
    x.grad = None
    (x[[0, 0, 1]] * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 0.0, 0.0]


def test_gather_scatter():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.gather(1, torch.tensor([[0, 0], [1, 0]])).tolist() == [[1.0, 1.0], [4.0, 3.0]]
    assert torch.zeros(2, 2).scatter(1, torch.tensor([[1], [0]]), 5.0).tolist() == [[0.0, 5.0], [5.0, 0.0]]
    assert torch.zeros(3).scatter_add_(0, torch.tensor([0, 0, 2]), torch.ones(3)).tolist() == [2.0, 0.0, 1.0]
    assert x.index_add(0, torch.tensor([0, 0]), x, alpha=2).tolist() == [[9.0, 14.0], [3.0, 4.0]]
    assert torch.take_along_dim(x, x.argsort(1, descending=True), 1).tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert x.index_select(1, torch.tensor([1])).tolist() == [[2.0], [4.0]] and x.masked_select(x > 2).tolist() == [3.0, 4.0]
    assert torch.nonzero(torch.tensor([0, 3, 4])).tolist() == [[1], [2]] and torch.tensor(3).nonzero().shape == (1, 0)
    with pytest.raises(RuntimeError, match="index 2 is out of bounds for dimension 1 with size 2"):
        x.gather(1, torch.tensor([[2], [0]]))
    with pytest.raises(RuntimeError, match="Expected self.dtype to be equal to src.dtype"):
        x.scatter(1, torch.tensor([[0], [0]]), torch.tensor([[1], [1]]))
    assert F.one_hot(torch.tensor([0, 2]), 3).tolist() == [[1, 0, 0], [0, 0, 1]]


# -- shapes


def test_views_and_copies():
    x = torch.arange(24).view(4, 6)
    with pytest.raises(RuntimeError, match=r"Use .reshape\(...\) instead"):
        x.t().view(24)
    assert x.t().view(3, 2, 4).untyped_storage() is x.untyped_storage()
    assert x.t().reshape(3, 8).untyped_storage() is not x.untyped_storage() and x.reshape(-1, 3).shape == (8, 3)
    with pytest.raises(RuntimeError, match=r"shape '\[5, -1\]' is invalid for input of size 24"):
        x.view(5, -1)
    assert (
        x.flatten().shape == (24,) and x.unflatten(1, (2, -1)).shape == (4, 2, 3) and torch.zeros(1, 2, 1).squeeze().shape == (2,)
    )
    assert x.expand(2, -1, -1).stride() == (0, 6, 1) and x.permute(1, 0).stride() == (1, 6) and x.T.shape == (6, 4)
    with pytest.raises(
        RuntimeError,
        match=r"The expanded size of the tensor \(5\) must match the existing size \(6\) at non-singleton dimension 1",
    ):
        x.expand(4, 5)
    assert x.movedim(0, -1).shape == (6, 4) and x.narrow(1, 1, 2)[0].tolist() == [1, 2]
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)"):
        x.sum(5)
    with pytest.raises(RuntimeError, match="duplicate dims are not allowed"):
        x.permute(0, 0)


def test_splitting_and_joining():
    x = torch.arange(7)
    assert [c.tolist() for c in x.chunk(3)] == [[0, 1, 2], [3, 4, 5], [6]] and [c.tolist() for c in x.split([3, 4])] == [
        [0, 1, 2],
        [3, 4, 5, 6],
    ]
    assert [len(c) for c in x.tensor_split(3)] == [3, 2, 2] and [c.item() for c in x[:2].unbind()] == [0, 1]
    with pytest.raises(RuntimeError, match="split_with_sizes expects split_sizes to sum exactly to 7"):
        x.split([3, 3])
    assert (
        torch.cat([torch.tensor([]), torch.ones(2, 1)], 0).shape == (2, 1)
        and torch.cat([torch.ones(1), torch.tensor([2])]).dtype is torch.float32
    )
    with pytest.raises(
        RuntimeError,
        match="Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor number 1",
    ):
        torch.cat([torch.ones(1, 2), torch.ones(1, 3)])
    assert (
        torch.stack([x, x], -1).shape == (7, 2) and torch.hstack([x, x]).shape == (14,) and torch.vstack([x, x]).shape == (2, 7)
    )
    a, b = torch.meshgrid(x[:2], x[:3], indexing="ij")
    assert a.tolist() == [[0, 0, 0], [1, 1, 1]] and b.shape == (2, 3)


def test_rearranging():
    x = torch.tensor([[1, 2], [3, 4]])
    assert (
        x.flip(0).tolist() == [[3, 4], [1, 2]]
        and x.roll(1).tolist() == [[4, 1], [2, 3]]
        and x.repeat(1, 2).tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]]
    )
    assert torch.rot90(x).tolist() == [[2, 4], [1, 3]] and x.repeat_interleave(2, 0).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert (
        x.tril().tolist() == [[1, 0], [3, 4]]
        and torch.diag(torch.tensor([1, 2])).tolist() == [[1, 0], [0, 2]]
        and x.diagonal().tolist() == [1, 4]
    )
    assert F.pad(x, (1, 0, 0, 1), value=9).tolist() == [[9, 1, 2], [9, 3, 4], [9, 9, 9]] and F.pad(x, (-1, 0)).tolist() == [
        [2],
        [4],
    ]


def test_strides_of_results():
    x = torch.zeros(2, 3, 4)
    assert (x.permute(2, 0, 1) * 2).stride() == (1, 12, 4) and (torch.zeros(4, 3).t() + torch.zeros(3, 4)).stride() == (1, 3)
    assert torch.empty_like(x.permute(2, 0, 1)).stride() == (1, 12, 4) and x.permute(2, 0, 1).clone().stride() == (1, 12, 4)


# -- reductions


def test_reductions():
    x = torch.tensor([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]])
    best = x.max(1)
    assert (
        best.values.tolist() == [5.0, 7.0]
        and best.indices.tolist() == [1, 0]
        and x.max().item() == 7.0
        and x.argmax().item() == 3
    )
    assert torch.max(x, torch.tensor(3.0)).tolist() == [[3.0, 5.0, 3.0], [7.0, 3.0, 7.0]] and x.min(0, keepdim=True)[
        0
    ].tolist() == [[1.0, 0.0, 2.0]]
    assert (
        x.sum(axis=0, keepdims=True).tolist() == [[8.0, 5.0, 9.0]]
        and x.sum((0, 1)).item() == 22.0
        and x.amax((0, 1)).item() == 7.0
    )
    assert torch.std(torch.tensor([1.0, 2.0])).item() == pytest.approx(0.70710678) and math.isnan(
        torch.tensor([1.0]).var().item()
    )
    assert (
        torch.var(torch.tensor([1.0, 2.0]), unbiased=False).item() == 0.25
        and torch.tensor([1.0, 3.0]).var(correction=0).item() == 1.0
    )
    assert (
        x.median().item() == 2.0 and x.kthvalue(2)[0].tolist() == [2.0, 7.0] and x.topk(2)[0].tolist() == [[5.0, 2.0], [7.0, 7.0]]
    )
    assert x.sort(descending=True).indices.tolist() == [[1, 2, 0], [0, 2, 1]] and x.norm(1, dim=0).tolist() == [8.0, 5.0, 9.0]
    assert (
        torch.tensor([True, False]).any().item() and not torch.tensor([1, 0]).all().item() and torch.count_nonzero(x).item() == 5
    )
    with pytest.raises(IndexError, match=r"max\(\): Expected reduction dim 0 to have non-zero size."):
        torch.zeros(0, 2).max(0)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        x.sum((0, 0))


def test_sums_of_many_rows_stay_accurate():
    x = torch.full((100_003, 4), 0.1)
    assert x.sum(0).tolist() == pytest.approx([10000.3] * 4, rel=2e-6)


@pytest.mark.parametrize(
    "function, x, expected",
    [
        (lambda x: x.abs(), [0.0, -1.0], [0.0, -1.0]),
        (lambda x: x.clamp(-0.5, 0.5), [-0.5, 0.5, 2.0], [1.0, 1.0, 0.0]),
        (lambda x: x.max(), [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
        (lambda x: torch.maximum(x, torch.tensor([1.0, 2.0])), [1.0, 3.0], [0.5, 1.0]),
        (lambda x: x.sqrt(), [0.0], [math.inf]),
        (lambda x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
        (F.relu, [0.0, 1.0, -1.0], [0.0, 1.0, 0.0]),
        (lambda x: x.prod(), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
        (lambda x: x**0, [0.0, 2.0], [0.0, 0.0]),
        (lambda x: x.amax(), [2.0, 2.0], [0.5, 0.5]),
        (lambda x: x.max(0).values, [2.0, 2.0], [1.0, 0.0]),
    ],
)
def test_gradients_at_kinks(function, x, expected):
    x = torch.tensor(x, requires_grad=True)
    function(x).sum().backward()
    assert x.grad.tolist() == expected


def test_rounding_and_softmax():
    assert torch.tensor([0.5, 1.5, 2.5, -0.5]).round().tolist() == [0.0, 2.0, 2.0, -0.0] and torch.tensor([1.234]).round(
        decimals=2
    ).item() == pytest.approx(1.23)
    assert all(math.isnan(v) for v in torch.full((2,), -math.inf).softmax(0).tolist())
    assert torch.tensor([1000.0, 0.0]).softmax(0).tolist() == [1.0, 0.0]
    np.testing.assert_allclose(torch.tensor([[1.0, 2.0]]).log_softmax(1).numpy(), [[-1.3132616, -0.31326166]], rtol=1e-6)
    assert torch.ones(2, 2).bfloat16().softmax(1).dtype is torch.bfloat16


# -- products


def test_products():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, -1.0])
    assert (
        (a @ b).tolist() == [-1.0, -1.0]
        and (b @ a).tolist() == [-2.0, -2.0]
        and b.dot(b).item() == 2.0
        and torch.outer(b, b).tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    )
    assert torch.addmm(torch.ones(2), a, a, beta=2, alpha=0.5).tolist() == [[5.5, 7.0], [9.5, 13.0]]
    assert (torch.ones(2, 1, 3, 4) @ torch.ones(5, 4, 2)).shape == (2, 5, 3, 2) and torch.bmm(
        torch.ones(2, 3, 4), torch.ones(2, 4, 1)
    ).shape == (2, 3, 1)
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x4\)"):
        torch.ones(3, 4) @ torch.ones(3, 4)
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype, but got: float != double"):
        a @ a.double()
    with pytest.raises(
        RuntimeError, match=r"Expected size for first two dimensions of batch2 tensor to be: \[2, 4\] but got: \[2, 5\]"
    ):
        torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 5, 1))


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...j->...i", [(2, 3, 4), (4,)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("i,j", [(2,), (3,)]),
        ("ij->ji", [(2, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("b i d, b j d -> b i j", [(2, 3, 4), (2, 5, 4)]),
        ("ij,j", [(2, 3), (3,)]),
        ("...i,...i->...", [(2, 1, 4), (3, 4)]),
    ],
)
def test_einsum(equation, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in shapes]
    np.testing.assert_allclose(
        torch.einsum(equation, *map(torch.tensor, arrays)).numpy(), np.einsum(equation.replace(" ", ""), *arrays), rtol=1e-12
    )


# -- creation and random numbers


def test_creation():
    assert torch.arange(10, 0, -3).tolist() == [10, 7, 4, 1] and torch.arange(1.0, 2.0, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert torch.linspace(0, 1, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0] and torch.eye(2, 3).tolist() == [
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
    ]
    assert torch.ones_like(torch.arange(2)).dtype is torch.int64 and torch.zeros((2, 3)).shape == torch.zeros(2, 3).shape
    assert (
        torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
        and torch.Tensor(3).shape == (3,)
        and torch.Tensor([1, 2]).dtype is torch.float32
    )
    array = np.zeros(2, np.float32)
    shared = torch.from_numpy(array)
    shared += 1
    assert array.tolist() == [1.0, 1.0] and torch.as_tensor(array)[0].item() == 1.0 and torch.tensor(array).numpy() is not array
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        torch.tensor([[1, 2], [3]])
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.zeros(-1)
    assert torch.ones(2, requires_grad=True).requires_grad and torch.zeros(2).new_full((1,), 3).dtype is torch.float32


def test_draws_repeat_and_count_one_ordinal_a_call():
    torch.manual_seed(3)
    a, b = torch.rand(4), torch.randn(3)
    torch.manual_seed(3)
    torch.rand(1000)
    assert torch.equal(torch.randn(3), b)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), a[:2]), "element i depends on seed, ordinal and i only"
    g = torch.Generator().manual_seed(1)
    before = torch.get_rng_state()
    first = torch.rand(3, generator=g)
    assert torch.equal(torch.get_rng_state(), before) and torch.equal(
        torch.rand(3, generator=torch.Generator().manual_seed(1)), first
    )


def test_distributions():
    torch.manual_seed(0)
    u, n, k = torch.rand(20000), torch.randn(20000), torch.randint(-2, 3, (20000,))
    assert 0 <= u.min().item() and u.max().item() < 1 and u.mean().item() == pytest.approx(0.5, abs=0.01)
    assert n.mean().item() == pytest.approx(0, abs=0.03) and n.std().item() == pytest.approx(1, abs=0.02)
    assert sorted(set(k.tolist())) == [-2, -1, 0, 1, 2] and sorted(torch.randperm(50).tolist()) == list(range(50))
    assert torch.empty(20000).exponential_(2.0).mean().item() == pytest.approx(0.5, abs=0.02)
    assert torch.bernoulli(torch.full((20000,), 0.3)).mean().item() == pytest.approx(0.3, abs=0.02)
    assert torch.empty(3, dtype=torch.int64).random_(5, 6).tolist() == [5, 5, 5] and torch.empty(2).uniform_(
        3.0, 3.0
    ).tolist() == [3.0, 3.0]
    assert torch.randint(0, 2**60, (9,)).max().item() > 2**40


def test_multinomial():
    torch.manual_seed(0)
    w = torch.tensor([0.0, 1.0, 3.0])
    drawn = torch.multinomial(w, 8000, replacement=True)
    assert 0 not in drawn and (drawn == 2).float().mean().item() == pytest.approx(0.75, abs=0.02)
    firsts = [torch.multinomial(w, 2) for _ in range(300)]
    assert all(sorted(f.tolist()) == [1, 2] for f in firsts) and sum(f[0].item() == 2 for f in firsts) / 300 == pytest.approx(
        0.75, abs=0.08
    )
    assert torch.multinomial(torch.ones(4, 3), 1).shape == (4, 1)
    with pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan` or element < 0"):
        torch.multinomial(torch.tensor([1.0, -1.0]), 1)
    with pytest.raises(RuntimeError, match="not enough non-negative category to sample"):
        torch.multinomial(w, 3)


def test_comparisons_of_tensors():
    a = torch.tensor([1.0, math.nan])
    assert (
        torch.allclose(a, a, equal_nan=True) and not torch.allclose(a, a) and not torch.equal(a, a) and torch.equal(a[:1], a[:1])
    )
    assert torch.isclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-6])).item() and (a == None) is False  # noqa: E711
    assert torch.tensor([math.nan, math.inf, -math.inf]).nan_to_num(posinf=2.0, neginf=-2.0).tolist() == [0.0, 2.0, -2.0]


def test_data_writes_do_not_move_the_version():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    x.data.mul_(2.0)
    y.backward()
    assert x.tolist() == [2.0, 2.0] and x.grad.tolist() == [4.0, 4.0]
    x.data = torch.zeros(3)
    assert x.shape == (3,) and x.requires_grad


def test_overlapping_views_add_their_gradients():
    x = torch.arange(4.0, requires_grad=True)
    windows = (x * 1).as_strided((3, 2), (1, 1))
    assert windows.tolist() == [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    (windows * torch.tensor([[1.0, 10.0], [100.0, 1.0], [10.0, 100.0]])).sum().backward()
    assert x.grad.tolist() == [1.0, 110.0, 11.0, 100.0]
    y = torch.ones(2, 3, requires_grad=True)
    y.t().as_strided((2,), (2,)).sum().backward()  # counts in memory, not in the transposed tensor
    assert y.grad.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def test_tensors_without_dims():
    s = torch.tensor(2.0)
    assert (
        s.transpose(0, -1).item() == 2.0
        and s.unfold(0, 1, 1).tolist() == [2.0]
        and s.flip(0).item() == 2.0
        and s.softmax(0).item() == 1.0
    )
    assert (
        s.index_select(0, torch.tensor([0])).item() == 2.0
        and math.isnan(s.var(0).item())
        and s.sort(0)[1].item() == 0
        and s.max(0)[0].item() == 2.0
    )
    for call, error, text in [
        (lambda: s.chunk(2), RuntimeError, "chunk expects at least a 1-dimensional tensor"),
        (lambda: s.split(1), RuntimeError, "split expects at least a 1-dimensional tensor"),
        (lambda: torch.cat([s, s]), RuntimeError, "zero-dimensional tensor .* cannot be concatenated"),
        (lambda: s.roll(1, 0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
        (lambda: s.unbind(), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
        (lambda: s.narrow(0, 0, 1), RuntimeError, r"narrow\(\) cannot be applied to a 0-dim tensor."),
        (lambda: s[0], IndexError, "invalid index of a 0-dim tensor"),
        (lambda: list(s), TypeError, "iteration over a 0-d tensor"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_a_dim_is_refused_before_a_type_without_order():
    x = torch.ones(3, 4, dtype=torch.complex64)
    for call in (lambda: x.sort(-3), lambda: x.argsort(2), lambda: torch.topk(x, 1, 2), lambda: x.sort(dim=2, stable=True)):
        with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\]"):
            call()
    for call, text in ((lambda: x.sort(1), "Sort does not"), (lambda: x.topk(1), "topk does not"), (lambda: x.topk(9), "k=9")):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_memory_order_of_results():
    x = torch.zeros(4, 3).t()
    assert x.softmax(1).stride() == x.log_softmax(0).stride() == F.layer_norm(x, (4,)).stride() == x.cumsum(1).stride() == (4, 1)
    assert (
        F.gelu(x).stride()
        == x.flip(0).stride()
        == x.sort(1)[0].stride()
        == torch.randn_like(x).stride()
        == x.double().stride()
        == (1, 3)
    )
    assert x.roll(1, 0).stride() == x.tril().stride() == torch.cat([x, x]).stride() == x[[0, 1]].stride() == (4, 1)


def test_star_imports_give_what_is_imported_late():
    """Names that a package imports when they are first asked for are in `from package import *` as well."""
    wanted = {
        "": "load save compile vmap GradScaler",
        ".amp": "GradScaler autocast",
        ".autograd": "gradcheck gradgradcheck Function",
        ".nn": "DataParallel Linear grad",
        ".nn.parallel": "DistributedDataParallel DataParallel",
        ".nn.utils": "parameters_to_vector vector_to_parameters skip_init fuse_conv_bn_eval spectral_norm clip_grad_norm_",
    }
    for path, names in wanted.items():
        given = {}
        exec(f"from flambeau{path} import *", given)
        assert not [name for name in names.split() if name not in given], path
