"""In-place writes: views and their bases, histories, versions, and what is refused (values as PyTorch 2.13 gives
them).
"""

import numpy as np
import pytest

import flambeau

from flambeau.eager import autograd, dispatch, dtypes
from flambeau.eager.op.op import OPS, find
from flambeau.eager.storage import Storage
from flambeau.eager.tensor import Tensor, fake_tensor

from .core_support import T, V, total  # noqa: E402

add, mul, exp, copy, clone, select, permute, expand, detach, slice_, view = (
    OPS[n] for n in ("add", "mul", "exp", "copy", "clone", "select", "permute", "expand", "detach", "slice", "view")
)
add_, mul_, copy_ = add.inplace, mul.inplace, copy.inplace


def part(x, start, end, dim=0):
    return slice_(x, dim, start, 1, end - start)


def test_derived_records():
    assert find("add_") is add.inplace and add_.mutates == ("a",) and add_.functional is add and add_.pure is add
    assert OPS["add_"] is add_


def test_writes_show_in_base_and_views():
    a = T([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    v = select(a, 0, 0)
    add_(v, 1.0)
    copy_(select(permute(a, (1, 0)), 0, 1), T(5.0))
    assert V(a) == [[1.0, 5.0, 1.0], [0.0, 5.0, 0.0]] and V(v) == [1.0, 5.0, 1.0]
    assert a._version == v._version == 2


def test_histories_go_through_the_base():
    a = T([1.0, 2.0], True)
    b = clone(a)
    copy_(part(b, 1, 2), mul(part(a, 0, 1), 3.0))
    total(b).backward()
    assert V(a.grad) == [4.0, 0.0]


def test_view_made_before_the_write_sees_the_new_history():
    w, base = T([10.0, 20.0], True), T([1.0, 2.0])
    v = part(base, 0, 1)
    mul_(base, w)
    assert v.requires_grad and V(v) == [10.0]
    total(v).backward()
    assert V(w.grad) == [1.0, 0.0]


def test_write_through_a_chain_of_views():
    w = T([[2.0, 3.0], [4.0, 5.0]], True)
    base = clone(w)
    row = select(permute(base, (1, 0)), 0, 1)  # second column
    mul_(row, 10.0)
    total(mul(base, base)).backward()
    assert V(base) == [[2.0, 30.0], [4.0, 50.0]]
    assert V(w.grad) == [[4.0, 600.0], [8.0, 1000.0]]


def test_sibling_views_and_write_twice():
    w = T([1.0, 2.0, 3.0], True)
    base = mul(w, 1.0)
    left, right = part(base, 0, 2), part(base, 1, 3)
    mul_(left, 2.0)
    mul_(right, 3.0)
    assert V(base) == [2.0, 12.0, 9.0]
    total(left).backward()
    assert V(w.grad) == [2.0, 6.0, 0.0]


def test_value_written_gets_its_gradient_and_overwritten_gets_none():
    base, value = T([1.0, 2.0, 3.0], True), T([7.0], True)
    b = mul(base, 1.0)
    copy_(part(b, 0, 1), value)
    total(mul(b, T([10.0, 20.0, 30.0]))).backward()
    assert V(value.grad) == [10.0] and V(base.grad) == [0.0, 20.0, 30.0]


def test_fill_cuts_the_gradient():
    x = T([1.0, 2.0], True)
    y = mul(x, 2.0)
    copy_(y, T(0.0))
    assert y.requires_grad
    total(y).backward()
    assert x.grad is None or V(x.grad) == [0.0, 0.0]


def test_leaves_are_protected_but_not_under_no_grad():
    x = T([1.0, 2.0], True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        add_(x, 1.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
        add_(part(x, 0, 1), 1.0)
    with autograd.no_grad():
        add_(x, 1.0)
        add_(part(x, 0, 1), 1.0)
    assert V(x) == [3.0, 3.0] and x.is_leaf and x._version == 2


def test_in_place_on_a_plain_tensor_joins_the_graph():
    x, w = T([1.0, 2.0]), T([3.0, 4.0], True)
    y = mul_(x, w)
    assert y is x and x.requires_grad and not x.is_leaf
    total(x).backward()
    assert V(w.grad) == [1.0, 2.0]


def test_own_old_value_is_kept_for_the_gradient():
    w = T([3.0, 4.0], True)
    b = mul(w, 1.0)
    mul_(b, w)
    total(b).backward()
    assert V(w.grad) == [6.0, 8.0]
    b = mul(w, 1.0)
    mul_(b, b)  # the operand b is saved too, and then changes
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total(b).backward()


def test_saved_result_of_an_in_place_op():
    w = T([0.0, 1.0], True)
    b = mul(w, 1.0)
    exp.inplace(b)
    total(b).backward()
    np.testing.assert_allclose(w.grad._fl_array, np.exp([0.0, 1.0]), rtol=1e-6)


def test_shapes_and_types():
    a = T([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        add_(a, T([[1.0, 1.0]] * 3))
    assert V(add_(T([[1.0, 2.0], [3.0, 4.0]]), T([10.0, 20.0]))) == [[11.0, 22.0], [13.0, 24.0]]
    i = T([1, 2])
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        add_(i, 1.5)
    assert V(copy_(i, T([1.9, -1.9]))) == [1, -1] and i.dtype is dtypes.int64
    h = T([1.0, 2.0], dtype=dtypes.float16)
    add_(h, T([0.5, 0.5]))
    assert h.dtype is dtypes.float16 and V(h) == [1.5, 2.5]


def test_expanded_memory_is_refused():
    e = expand(T([[1.0], [2.0]]), (2, 3))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
        add_(e, 1.0)


def test_read_only_arrays_are_refused():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        add_(Tensor._fl_from_array(array, dtypes.float32), 1.0)


def test_overlapping_operands():
    a = T([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory"
    ):
        add_(part(a, 1, 4), part(a, 0, 3))
    add_(part(a, 0, 2), part(a, 2, 4))
    add_(a, a)
    assert V(a) == [8.0, 12.0, 6.0, 8.0]


def test_numpy_memory_is_shared_both_ways():
    array = np.zeros(3, np.float32)
    t = Tensor._fl_from_array(array, dtypes.float32)
    add_(t, 1.0)
    array[0] = 9
    assert array.tolist() == [9.0, 1.0, 1.0] and V(t) == [9.0, 1.0, 1.0] and t.numpy() is array


def test_detach_shares_memory_and_version_but_not_history():
    x = mul(T([1.0, 2.0], True), 1.0)
    d = detach(x)
    add_(d, 1.0)
    assert V(x) == [2.0, 3.0] and x._version == d._version == 1 and not d.requires_grad and d._base is None
    w = T([5.0], True)
    copy_(part(d, 0, 1), w)
    assert d.requires_grad and x.grad_fn.name() == "MulBackward0"


def test_data_version_moves_with_every_write():
    x = T([1.0, 2.0])
    storage = x.untyped_storage()
    add_(part(x, 0, 1), 1.0)
    assert (storage._version, storage.data_version) == (1, 1)


def test_writes_to_fakes_bump_versions_and_rebase():
    x = fake_tensor((2, 3), storage=Storage(None))
    w = fake_tensor((3,), requires_grad=True)
    v = select(x, 0, 0)
    add_(v, w)
    assert x._version == 1 and x.requires_grad and v.requires_grad and x.grad_fn.name() == "SelectScatterBackward0"
    (g,) = autograd.grad(total(x), w, fake_tensor(()))
    assert g._fl_fake and g.shape == (3,)


def test_put_writes_through_a_view_of_a_copy():
    base, value = T([[1.0, 2.0], [3.0, 4.0]], True), T([7.0, 8.0], True)
    out = select.put(base, value, 1, 0)
    assert V(out) == [[7.0, 2.0], [8.0, 4.0]] and V(base) == [[1.0, 2.0], [3.0, 4.0]]
    total(mul(out, T([[1.0, 2.0], [3.0, 4.0]]))).backward()
    assert V(base.grad) == [[0.0, 2.0], [0.0, 4.0]] and V(value.grad) == [1.0, 3.0]


def test_base_and_view_attributes():
    x = T([[1.0, 2.0], [3.0, 4.0]])
    v = select(permute(x, (1, 0)), 0, 1)
    assert v._base is x and v._is_view() and not x._is_view() and v.storage_offset() == 1 and v.stride() == (2,)


def test_many_short_lived_views_do_not_pile_up():
    x = T([1.0, 2.0])
    for _ in range(1000):
        part(x, 0, 1)
    assert len(x.untyped_storage().views) < 200


def test_out_argument():
    out = T([0.0, 0.0])
    dispatch.store(out, add(T([1.0, 2.0]), 1.0))
    assert V(out) == [2.0, 3.0]
    small = T([0.0])
    dispatch.store(small, T([1.0, 2.0, 3.0]))
    assert V(small) == [1.0, 2.0, 3.0] and small.shape == (3,)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        dispatch.store(T([1]), T([1.5]))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        dispatch.store(T([0.0]), mul(T([1.0], True), 2.0))


def test_set_data():
    p = T([1.0, 2.0], True)
    dispatch.set_data(p, T([[5.0]]))
    assert V(p) == [[5.0]] and p.shape == (1, 1) and p.requires_grad and p.is_leaf


@pytest.mark.parametrize("name", ["neg", "exp", "abs", "sqrt", "sin", "relu", "sigmoid", "square", "tanh"])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_in_place_on_strided_memory(name, step):
    """numpy 2.4's negative reads strided memory wrongly when it writes into it."""
    values = (np.arange(24 * step) % 7 + 0.25).astype(np.float32)
    expected = OPS[name](T(values[::step].copy()))
    base = T(values)
    out = OPS[name].inplace(slice_(base, 0, 0, step, 24))
    np.testing.assert_array_equal(out._fl_array, expected._fl_array)
    np.testing.assert_array_equal(base._fl_array[1::step], values[1::step])


def test_in_place_views_keep_histories():
    w = T([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], True)
    x = mul(w, 1.0)
    row = select(x, 0, 0)
    dispatch.become_view(x, lambda t: permute(t, (1, 0)))
    assert x.shape == (3, 2) and row._base is x._base is not x
    mul_(row, 10.0)
    mul_(select(x, 1, 1), 3.0)  # second column: what was the second row
    assert V(x) == [[10.0, 12.0], [20.0, 15.0], [30.0, 18.0]]
    total(x).backward()
    assert V(w.grad) == [[10.0, 10.0, 10.0], [3.0, 3.0, 3.0]]
    leaf = T([[1.0, 2.0]], True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        dispatch.become_view(leaf, lambda t: permute(t, (1, 0)))
    with autograd.no_grad():
        dispatch.become_view(leaf, lambda t: permute(t, (1, 0)))
    assert leaf.shape == (2, 1) and leaf.is_leaf and leaf.requires_grad


REPEATED = {  # what is written, the gradients of x and y (those of PyTorch)
    "a row of many": (lambda b, y: b.expand(3, 4)[0].copy_(y), [0, 0, 0, 0], [1, 2, 3, 4]),
    "a part of a row": (lambda b, y: b.expand(3, 4)[0, 1:3].mul_(y[1:3]), [1, 6, 9, 4], [0, 2, 6, 0]),
    "added to a row": (lambda b, y: b.expand(3, 4)[1].add_(y), [1, 2, 3, 4], [1, 2, 3, 4]),
    "a window": (lambda b, y: b.unfold(0, 2, 1)[1].copy_(y[:2]), [1, 0, 0, 4], [2, 3, 0, 0]),
    "a row of a transposed one": (
        lambda b, y: b.view(2, 2).t().unsqueeze(0).expand(3, 2, 2)[2, 0].mul_(y[:2]),
        [3, 2, 9, 4],
        [0, 6, 0, 0],
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_written_part_of_a_view_that_repeats_elements(name):
    write, of_x, of_y = REPEATED[name]
    x = flambeau.arange(4.0).requires_grad_()
    y = flambeau.full((4,), 3.0).requires_grad_()
    b = x * 1
    write(b, y)
    (b * flambeau.arange(1.0, 5)).sum().backward()
    assert x.grad.tolist() == of_x and y.grad.tolist() == of_y


def test_a_quotient_may_be_written_into():
    x, y = flambeau.tensor([1.0, 4.0], requires_grad=True), flambeau.tensor([2.0, 0.5], requires_grad=True)
    quotient = x / y
    quotient[quotient > 1] = 0
    quotient.sum().backward()
    assert x.grad.tolist() == [0.5, 0] and y.grad.tolist() == [-0.25, 0]


def test_versions_that_were_read_stay_what_they_were():
    """Counters count in place where nobody else holds the number."""
    x = flambeau.zeros(3)
    seen = [x._version]
    for _ in range(600):
        x.add_(1)
        seen.append(x._version)
    assert seen == list(range(seen[0], seen[0] + 601))
