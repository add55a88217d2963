"""Storage, views and in-place writes (items 1-16)."""

import copy

import numpy as np
import pytest


def test_01_views_share_storage(lib):
    a = lib.zeros(2, 3)
    v = a[0]
    v += 1
    a.t()[1].fill_(5)
    assert a.tolist() == [[1, 5, 1], [0, 5, 0]]
    a[:, 2] = 7
    assert v.tolist() == [1, 5, 7]


def test_02_in_place_on_a_view_reroutes_history(lib):
    a = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = a.clone()
    b[1:] = a[:2] * 3
    b.sum().backward()
    assert a.grad.tolist() == [4, 3, 0]


WRITTEN = {
    "view": lambda lib, x: x.view(3, 8),
    "a view of columns": lambda lib, x: x[::2].view(2, 2, 3),
    "flattened": lambda lib, x: x.unsqueeze(0).reshape(-1),
    "unflattened": lambda lib, x: x.unflatten(1, (2, 3)),
    "as_strided": lambda lib, x: x.as_strided((3, 4), (6, 1), 1),
    "as_strided of rows": lambda lib, x: x[1:].as_strided((3, 4), (6, 1)),
    "as_strided of columns": lambda lib, x: x[:, ::2].as_strided((3, 2), (6, 2), 2),
    "as_strided across": lambda lib, x: x.t().as_strided((3, 2), (6, 2), 2),
    "complex": lambda lib, x: lib.view_as_complex(x.view(4, 3, 2)),
    "one row of complex": lambda lib, x: lib.view_as_complex(x.view(3, 4, 2))[1],
    "diagonal": lambda lib, x: x.diagonal(),
    "windows": lambda lib, x: x.unfold(1, 2, 2),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("act", ["mul_", "copy_", "zero_"])
def test_02_gradients_of_writes_into_views_in_any_layout(lib, name, act):
    def slopes(g, second):
        x = (lib.arange(24.0).reshape(4, 6) / 7).requires_grad_()
        w = (lib.arange(24.0).reshape(4, 6) / 5).requires_grad_()
        y = x * w
        v = WRITTEN[name](lib, y)
        if act == "copy_":
            v.copy_((w * 3).reshape(-1)[: v.numel()].reshape(v.shape))
        else:
            getattr(v, act)(*([2.5] if act == "mul_" else []))
        g = (g.t() * y.t()).t() if second else g
        found = lib.autograd.grad(y, (x, w), g, create_graph=second)
        if second:
            found = lib.autograd.grad((found[0].t().contiguous() * found[1].t()).sum(), (x, w))
        return [t.tolist() for t in found]

    g = lib.arange(24.0).reshape(4, 6).cos()
    for second in (False, True):
        wanted = slopes(g, second)
        assert slopes(g.t().contiguous().t(), second) == wanted
        assert slopes(lib.ones(()).expand(4, 6), second) == slopes(lib.ones(4, 6), second)


def test_02_views_made_before_the_write_follow(lib):
    a = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = a * 1
    v, w = b[:2], b[1:]
    v.mul_(10)
    w.mul_(3)
    assert b.tolist() == [10, 60, 9] and v.tolist() == [10, 60]
    (v.sum() + b.sum()).backward()
    assert a.grad.tolist() == [20, 60, 3]


def test_03_augmented_index_is_get_add_set(lib):
    a = lib.zeros(3)
    a[[0, 0, 1]] += 1
    assert a.tolist() == [1, 1, 0]
    x = lib.zeros(2, 3, requires_grad=True)
    y = x * 1
    y[:, 1] += x[:, 0] * 2
    y.sum().backward()
    assert x.grad.tolist() == [[3, 1, 1], [3, 1, 1]]


def test_04_version_counters(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    b = x * 1
    c = b.exp()
    b.add_(1)
    c.sum().backward()  # exp saves its result
    b = x * 1
    c = b**2
    b.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation: \[torch.FloatTensor \[2\]\].* is at "
        "version 1; expected version 0 instead",
    ):
        c.sum().backward()
    assert b._version == 1 and b.detach()._version == 1


def test_05_leaf_in_place(lib):
    p = lib.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        p.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        p[0] = 1
    with lib.no_grad():
        p.add_(1)
        p[0] = 7
    assert p.tolist() == [7, 2, 2] and p.requires_grad and p.is_leaf


def test_06_data(lib):
    p = lib.nn.Parameter(lib.ones(2))
    version = p._version
    p.data.mul_(3)
    assert p.tolist() == [3, 3] and p._version == version
    p.data = lib.zeros(3, dtype=lib.float64)
    assert p.shape == (3,) and p.dtype == lib.float64 and p.requires_grad
    y = (p * 2).sum()
    p.data.add_(1)
    y.backward()
    assert p.grad.tolist() == [2, 2, 2]


def test_07_assignments_to_grad(lib):
    p = lib.ones(2, requires_grad=True)
    p.sum().backward()
    p.grad = None
    p.grad = lib.full((2,), 5.0)
    p.sum().backward()
    assert p.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError):
        p.grad = lib.ones(3)
    with pytest.raises(TypeError):
        p.grad = 1
    p.requires_grad = False
    assert not (p * 2).requires_grad
    module = lib.nn.Linear(2, 1)
    module(lib.ones(1, 2)).sum().backward()
    module.zero_grad()
    assert module.weight.grad is None
    module(lib.ones(1, 2)).sum().backward()
    module.zero_grad(set_to_none=False)
    assert module.weight.grad.tolist() == [[0, 0]]


def test_08_in_place_may_not_grow_the_left(lib):
    a = lib.zeros(3)
    with pytest.raises(RuntimeError):
        a.add_(lib.ones(2, 3))
    b = lib.zeros(2, 3)
    b.add_(lib.ones(3))
    assert b.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_09_in_place_result_type(lib):
    a = lib.zeros(2, dtype=lib.int64)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        a.add_(1.5)
    a[0] = 1.9
    assert a.tolist() == [1, 0] and a.dtype == lib.int64


def test_10_expand(lib):
    e = lib.zeros(3, 1).expand(3, 4)
    assert e.stride() == (1, 0)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        e.add_(1)
    assert lib.zeros(3, 1).expand(-1, 2).shape == (3, 2)


def test_11_view_of_strides(lib):
    a = lib.arange(6).reshape(2, 3)
    with pytest.raises(RuntimeError, match=r"Use \.reshape\(\.\.\.\) instead"):
        a.t().view(6)
    assert a.t().contiguous().view(6).tolist() == [0, 3, 1, 4, 2, 5]
    assert a.view(-1).data_ptr() == a.data_ptr()


def test_12_reshape_is_a_view_where_it_can(lib):
    a = lib.arange(6.0).reshape(2, 3)
    assert a.reshape(3, 2).data_ptr() == a.data_ptr()
    assert a.t().reshape(6).data_ptr() != a.data_ptr()
    a.reshape(-1)[0] = 9
    assert a[0, 0] == 9


def test_13_strides_of_results(lib):
    y = lib.zeros(2, 3, 4).permute(2, 0, 1) * 2
    assert y.shape == (4, 2, 3) and y.stride() == (1, 12, 4)
    x = lib.zeros(2, 8, 2, 2).to(memory_format=lib.channels_last)
    assert x.is_contiguous(memory_format=lib.channels_last) and not x.is_contiguous()
    assert (x + 1).stride() == x.stride() == (32, 1, 16, 8)


def test_13_convolution_keeps_channels_last(lib):
    x = lib.zeros(1, 3, 4, 4).to(memory_format=lib.channels_last)
    y = lib.nn.Conv2d(3, 8, 1)(x)
    assert y.is_contiguous(memory_format=lib.channels_last)


def test_14_strided_views(lib):
    x = lib.arange(5.0).requires_grad_()
    windows = x.unfold(0, 3, 1)
    assert windows.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    windows.sum().backward()
    assert x.grad.tolist() == [1, 2, 3, 2, 1]
    s = lib.as_strided(lib.arange(6.0), (2, 2), (1, 2), 1)
    assert s.tolist() == [[1, 3], [2, 4]]


def test_14_complex_views(lib):
    r = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    z = lib.view_as_complex(r)
    assert z.tolist() == [1 + 2j, 3 + 4j]
    lib.view_as_real(z * 2).sum().backward()
    assert r.grad.tolist() == [[2, 2], [2, 2]]
    base = lib.zeros(2, dtype=lib.complex64)
    lib.view_as_real(base)[0, 1] = 5
    assert base.tolist() == [5j, 0]


def test_15_numpy_shares_memory(lib):
    a = lib.zeros(2)
    n = a.numpy()
    n[0] = 3
    a[1] = 4
    assert a.tolist() == [3, 4] and n.tolist() == [3, 4]
    n = np.zeros(2, np.float32)
    t = lib.from_numpy(n)
    t.add_(1)
    assert n.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach"):
        lib.ones(2, requires_grad=True).numpy()


def test_16_detach_clone_deepcopy(lib):
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.data_ptr() == y.data_ptr()
    c = y.clone()
    assert c.grad_fn is not None and c.data_ptr() != y.data_ptr()
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)
    y.detach_()
    assert y.is_leaf and not y.requires_grad
    module = lib.nn.Linear(2, 2)
    twin = copy.deepcopy(module)
    with lib.no_grad():
        module.weight.fill_(0)
    assert twin.weight.abs().sum() > 0 and isinstance(twin.weight, lib.nn.Parameter)
