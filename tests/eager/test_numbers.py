"""numpy's scalars as numbers, results in the type that was asked for, products of groups, gradients by private names."""

import numpy as np
import pytest

import flambeau as fl

F = fl.nn.functional
SCALARS = [np.float16(2), np.float32(2), np.float64(2), np.int32(2), np.int64(2), np.bool_(True)]


@pytest.mark.parametrize("x", SCALARS, ids=lambda x: x.dtype.name)
def test_scalars_of_numpy_are_numbers(x):
    number = float(x) if x.dtype.kind in "fb" else int(x)
    ones, whole = fl.ones(2), fl.ones(2, dtype=fl.int32)
    calls = [
        lambda n: fl.add(ones, n),
        lambda n: fl.pow(n, ones),
        lambda n: fl.add(whole, n),
        lambda n: n * whole,
        lambda n: fl.where(ones > 0, n, ones),
        lambda n: fl.clamp(ones, n),
        lambda n: fl.full((2,), n),
        lambda n: fl.zeros(2).fill_(n),
        lambda n: ones.masked_fill(ones > 0, n),
        lambda n: fl.full_like(whole, n),
        lambda n: ones.new_full((2,), n),
        lambda n: fl.fill(ones, n),
        lambda n: ones.index_fill(0, fl.tensor([0]), n),
    ]
    for k, call in enumerate(calls):
        want, got = call(number), call(x)
        if x.dtype.kind != "b" or k != 3:  # a factor that is a bool leaves whole numbers whole
            assert got.dtype is want.dtype, k
        assert got.tolist() == want.tolist(), k
    assert fl.result_type(whole, x) is fl.result_type(whole, number)


@pytest.mark.parametrize("function", [fl.sum, fl.prod, fl.nansum, fl.cumsum, fl.cumprod], ids=lambda f: f.__name__)
def test_whole_results_in_the_type_asked_for(function):
    x = fl.tensor([100, 3, 2], dtype=fl.int32)
    for dtype in (fl.int8, fl.uint8, fl.int32):
        got = function(x, 0, dtype=dtype)
        assert got.dtype is dtype
        assert got.tolist() == function(x, 0).to(dtype).tolist()


@pytest.mark.parametrize("shape", [(3,), (50,), (20_000,), (40, 300), (300, 70), (3, 40, 170)], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_totals_of_floats_are_kept_in_doubles(name, shape):
    """Rounded once each, by every path and compiled; as PyTorch has them on this device."""
    ours, theirs = getattr(fl, name), getattr(np, name)
    x = (1 + 0.1 * np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    for d in range(len(shape)):
        wanted = theirs(x, axis=d, dtype=np.float64).astype(np.float32)
        t = fl.from_numpy(x)
        np.testing.assert_array_equal(ours(t, d).numpy(), wanted)
        np.testing.assert_array_equal(ours(fl.stack([t, t], -1)[..., 0], d).numpy(), wanted)
        np.testing.assert_array_equal(fl.compile(lambda t: ours(t, d))(t).numpy(), wanted)  # noqa: B023


def test_running_products_come_back_from_below_the_smallest_float():
    x = fl.cat([fl.full((200,), 0.5), fl.full((200,), 2.0)])
    for t in (x, x.expand(50, 400), x[:, None].expand(400, 50)):
        d = 0 if t.shape[0] == 400 else 1
        assert t.cumprod(d).select(d, -1).eq(1).all()
    assert x.to(fl.complex64).cumprod(0)[-1] == 1


def test_gradient_of_small_running_products_at_zeros():
    for zeros in ((), (1,), (1, 3)):
        x = fl.tensor([2.0, 3.0, -1.5, 4.0, 0.5], dtype=fl.float64)
        x[list(zeros)] = 0
        assert fl.autograd.gradcheck(lambda x: x.cumprod(0), (x.requires_grad_(),))


def test_sum_as_bool():
    assert fl.sum(fl.tensor([2, 2]), dtype=fl.bool).item() is True
    with pytest.raises(NotImplementedError, match="Bool"):
        fl.cumsum(fl.ones(2), 0, dtype=fl.bool)


GROUPED = [((6, 4), (3, 4, 2)), ((3, 2, 4), (4, 6)), ((2, 6), (6, 3))]


@pytest.mark.parametrize("left, right", GROUPED, ids=["rows", "columns", "summed"])
def test_grouped_products(left, right):
    a, b, ends = fl.randn(left), fl.randn(right), [2, 2, 5]
    got = F.grouped_mm(a, b, offs=fl.tensor(ends, dtype=fl.int32))
    parts = [slice(s, e) for s, e in zip([0, *ends], ends)]
    if a.ndim == b.ndim:
        want = fl.stack([a[:, p] @ b[p] for p in parts])
    elif a.ndim == 2:
        want = fl.cat([a[p] @ b[k] for k, p in enumerate(parts)] + [fl.zeros(1, 2)])
    else:
        want = fl.cat([a[k] @ b[:, p] for k, p in enumerate(parts)] + [fl.zeros(2, 1)], dim=1)
    assert fl.allclose(got, want, atol=1e-6)


def test_grouped_products_refuse():
    a, b, ends = fl.ones(6, 4), fl.ones(3, 4, 2), fl.tensor([2, 2, 6], dtype=fl.int32)
    for match, call in {
        "have to be int32": lambda: F.grouped_mm(a, b, offs=ends.long()),
        "have to match": lambda: F.grouped_mm(a, b, offs=ends[:2]),
        "provide offsets": lambda: F.grouped_mm(a, b),
        "contraction": lambda: F.grouped_mm(b[0], b, offs=ends),
        "Bias": lambda: F.grouped_mm(a, b, offs=ends, bias=a),
        "Float32": lambda: F.grouped_mm(a.long(), b),
    }.items():
        with pytest.raises(RuntimeError, match=match):
            call()
    assert F.grouped_mm(b, fl.ones(3, 2, 5)).tolist() == fl.bmm(b, fl.ones(3, 2, 5)).tolist()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_from_results(name):
    x, g = fl.randn(3, 4, requires_grad=True), fl.randn(3, 4)
    y = getattr(fl, name)(x, 1)
    want = fl.autograd.grad(y, x, g)[0]
    assert fl.equal(getattr(fl, f"_{name}_backward_data")(g, y.detach(), -1, fl.float32), want)


def test_custom_operators_take_keywords():
    @fl.library.custom_op("numbers::scaled", mutates_args=())
    def scaled(x: fl.Tensor, by: float = 2.0) -> fl.Tensor:
        return x * by

    def keep(ctx, inputs, output):
        ctx.by = inputs[1]

    fl.library.register_autograd("numbers::scaled", lambda ctx, g: (g * ctx.by, None), setup_context=keep)
    x = fl.ones(2, requires_grad=True)
    (fl.ops.numbers.scaled(x, by=3.0) + fl.ops.numbers.scaled(x=x)).sum().backward()
    assert x.grad.tolist() == [5, 5]
