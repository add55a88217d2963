"""Values at corners, as PyTorch gives them: numbers that a type does not hold, norms of nothing, mirrored edges, kinks."""

import math

import numpy as np
import pytest

import flambeau as torch


def filled(x, n):
    return [
        lambda: x.clone().fill_(n),
        lambda: torch.full((2,), n, dtype=x.dtype),
        lambda: torch.full_like(x, n),
        lambda: x.new_full((2,), n),
        lambda: x.masked_fill(x == 0, n),
        *([] if isinstance(n, complex) else [lambda: x.index_fill(0, torch.tensor([0]), n)]),
    ]


def test_index_fill_takes_no_complex_number_for_a_real_one():
    x, index = torch.zeros(2), torch.tensor([0])
    for number in (1 + 1j, 3 + 0j, torch.tensor(3 + 0j)):
        with pytest.raises(RuntimeError, match="Converting complex Scalar to non-complex type"):
            x.index_fill(0, index, number)
    assert x.to(torch.complex64).index_fill(0, index, 1 + 1j).tolist() == [1 + 1j, 0]


def assigned(x, n):
    x = x.clone()
    x[0] = n
    return x


@pytest.mark.parametrize(
    "dtype, number",
    [
        ("uint8", 300),
        ("uint8", -0.5),
        ("uint8", -256),
        ("int8", 128),
        ("int32", 2**31),
        ("int32", math.nan),
        ("int64", 1e19),
        ("float16", 1e6),
        ("float32", 1 + 1j),
    ],
)
def test_numbers_that_a_type_does_not_hold_are_refused(dtype, number):
    x = torch.zeros(2, dtype=getattr(torch, dtype))
    for call in filled(x, number):
        with pytest.raises(RuntimeError, match="cannot be converted to type .* without overflow"):
            call()
    if dtype == "float16":
        assert assigned(x, number).tolist() == [math.inf, 0]
    else:
        with pytest.raises(RuntimeError, match="without overflow"):
            assigned(x, number)


@pytest.mark.parametrize(
    "dtype, number, held",
    [
        ("uint8", -1, 255),
        ("uint8", 255, 255),
        ("int32", -2.9, -2),
        ("int8", True, 1),
        ("float16", math.inf, math.inf),
        ("int16", 3 + 0j, 3),
    ],
)
def test_numbers_as_a_type_holds_them(dtype, number, held):
    x = torch.zeros(2, dtype=getattr(torch, dtype))
    assert all(call().tolist()[0] == held for call in filled(x, number))
    assert assigned(x, number).tolist() == [held, 0]


def test_bounds_that_a_type_does_not_hold():
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.ones(2, dtype=torch.uint8).clamp(max=300)


def test_arange_of_integers_counts_in_whole_steps():
    assert torch.arange(-1.5, 1.0, dtype=torch.int32).tolist() == [-1, 0, 1]
    assert torch.arange(-1.5, 1.0, dtype=torch.int64).tolist() == [-1, 0]
    assert torch.arange(0.5, 3.7, 0.7, dtype=torch.int16).tolist() == [0] * 5
    with pytest.raises(RuntimeError, match="unsupported range"):
        torch.arange(0, math.inf)


def test_hypot_does_not_overflow():
    x = torch.tensor([3e30, 0.0, math.inf, 3.0], requires_grad=True)
    y = torch.hypot(x, torch.tensor([4e30, 0.0, math.nan, -4.0]))
    assert torch.allclose(y, torch.tensor([5e30, 0.0, math.inf, 5.0]))
    assert torch.hypot(torch.tensor(100, dtype=torch.int8), torch.tensor([1.0]))[0] == pytest.approx(100.005, rel=1e-6)
    y[3].backward()
    assert x.grad[3].item() == pytest.approx(0.6)


def test_angle_of_the_origin_does_not_change():
    y, x = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    torch.atan2(y, x).backward()
    assert y.grad.item() == 0 and x.grad.item() == 0


def test_logaddexp_of_infinities():
    x = torch.tensor([math.inf, -math.inf])
    assert torch.logaddexp(x, x).tolist() == [math.inf, -math.inf]


def test_reflection_goes_around_what_is_cut_off():
    x = torch.arange(1.0, 6)[None]
    assert torch.nn.functional.pad(x, (-1, 4), "reflect").tolist() == [[2, 3, 4, 5, 4, 3, 2, 1]]
    assert torch.nn.functional.pad(x, (2, -3), "reflect").tolist() == [[3, 2, 1, 2]]


@pytest.mark.parametrize("p", [math.inf, -math.inf, -1])
def test_norms_of_nothing_that_are_not_defined(p):
    for call in (torch.norm, torch.linalg.vector_norm):
        with pytest.raises(RuntimeError, match="does not have an identity"):
            call(torch.zeros(0, 3), p, 0)
        assert call(torch.zeros(0, 3), p, 1).shape == (0,)


@pytest.mark.parametrize("p", [1, 2, math.inf, "fro", "nuc"])
def test_matrix_norms_of_nothing_are_zero(p):
    assert torch.linalg.matrix_norm(torch.zeros(2, 0, 3), p).tolist() == [0, 0]
    assert torch.linalg.matrix_norm(torch.zeros(2, 3, 0), p).tolist() == [0, 0]


def test_no_slope_at_kinks():
    x = torch.tensor([[0.0, 1.0, -1.0]], requires_grad=True)  # (the gap between label and other is exactly 1)
    torch.nn.functional.multilabel_margin_loss(x, torch.tensor([[1, -1, 0]])).backward()
    assert x.grad.tolist() == [[0, 0, 0]]
    d = torch.tensor(1.0, requires_grad=True)
    (first,) = torch.autograd.grad(torch.nn.functional.huber_loss(d, torch.tensor(0.0)), d, create_graph=True)
    assert first.item() == 1 and torch.autograd.grad(first, d)[0].item() == 0


def test_medians_of_nothing():
    for call in (torch.median, torch.nanmedian, lambda x, d: torch.kthvalue(x, 1, d)):
        with pytest.raises(IndexError, match="non-zero size"):
            call(torch.zeros(0, 3), 0)
    assert torch.tensor([], dtype=torch.int32).median().item() == -(2**31)


def test_running_log_sums_of_complex_numbers():
    x = torch.tensor([1 + 1j, 2 - 1j, 0.5j])
    assert torch.allclose(torch.logcumsumexp(x, 0), x.exp().cumsum(0).log())


def test_casts_out_of_range_do_not_warn(recwarn):
    half = torch.zeros(2, dtype=torch.float16)
    half.copy_(torch.tensor([1e6, math.nan]))
    torch.zeros(2, dtype=torch.int32).copy_(torch.tensor([1e20, math.nan]))
    assert torch.tensor([1e6], dtype=torch.float16).item() == math.inf and half[0].item() == math.inf
    assert not recwarn.list


@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
def test_factors_of_lu_have_gradients(sizes):
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    x = (x + 2 * torch.eye(*sizes[-2:], dtype=torch.float64)).requires_grad_()
    p, low, up = torch.linalg.lu(x)
    assert torch.allclose(p @ low @ up, x)
    assert torch.autograd.gradcheck(lambda a: torch.linalg.lu(a)[1:], x)


@pytest.mark.parametrize("std", [torch.std, lambda x, dim: torch.std_mean(x, dim)[0]], ids=["std", "std_mean"])
def test_the_spread_of_equal_values_has_no_slope(std):
    x = torch.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]], requires_grad=True)
    std(x, 1).sum().backward()
    assert x.grad[0].tolist() == [0, 0, 0]
    assert torch.allclose(x.grad[1], torch.tensor([-0.4364, -0.1091, 0.5455]), atol=1e-4)


def test_one_step_of_logspace_has_its_start_unrounded():
    assert torch.logspace(-0.5, -3, 1, dtype=torch.uint8).tolist() == [0]


@pytest.mark.parametrize(
    "sizes, dim", [((1, 70000), 1), ((1, 70000), (1,)), ((1, 1, 300, 300), (2, 3)), ((90000, 1), 0), ((1, 90000, 1), 1)]
)
def test_many_elements_to_one_result_leave_the_other_dims(sizes, dim):
    x = torch.arange(math.prod(sizes), dtype=torch.float32).reshape(sizes)
    dims = dim if isinstance(dim, tuple) else (dim,)
    left = tuple(n for d, n in enumerate(sizes) if d not in dims)
    for f in (torch.sum, torch.mean, torch.amax, torch.amin, torch.var, torch.std, torch.logsumexp, torch.norm):
        got = f(x, dim=dim)
        assert tuple(got.shape) == left and torch.equal(got, f(x.flatten(), dim=0).reshape(left)), f.__name__
    if not isinstance(dim, tuple):
        for f in (torch.argmax, torch.argmin):
            assert tuple(f(x, dim=dim).shape) == left and f(x, dim=dim).item() == f(x).item()
        assert tuple(torch.max(x, dim).indices.shape) == left


def test_truth_values_are_not_shifted():
    """As in PyTorch; with an integer beside them they are numbers."""
    x = torch.tensor([True, False])
    assert (x << 1).tolist() == [2, 0] and (x >> torch.tensor([0, 1])).tolist() == [1, 0]
    for shift in (torch.bitwise_left_shift, torch.bitwise_right_shift):
        with pytest.raises(NotImplementedError, match="only for integers"):
            shift(x, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "bool"])
def test_the_sign_of_one_number_is_a_tensor(dtype):
    """Of an array without dimensions numpy's function gives no array."""
    told = torch.signbit(torch.tensor(0 if dtype == "bool" else -1).to(getattr(torch, dtype)))
    assert told.shape == () and told.dtype is torch.bool and isinstance(told.numpy(), np.ndarray)
    assert told.item() is (dtype in ("float32", "float64", "float16", "bfloat16", "int64")) and (~told).item() is not told.item()
    assert torch.compile(lambda t: torch.signbit(t), backend="eager")(torch.tensor(-2.0)).item()


def test_renorm_of_numbers_whose_squares_overflow():
    """The norm is computed in doubles, as PyTorch's is."""
    x = torch.tensor([[1e30, 1e30], [1.0, 1.0]])
    assert torch.allclose(x.renorm(2, 0, 5.0), torch.tensor([[5 / 2**0.5] * 2, [1.0, 1.0]]))


def test_lgamma_far_below_zero_is_infinite():
    for dtype in (torch.float32, torch.float64):
        assert torch.lgamma(torch.tensor([-1e10, -3.0, -1e30, float("-inf")], dtype=dtype)).tolist() == [float("inf")] * 4


def test_histc_of_one_number_so_large_that_its_bins_have_no_width():
    assert torch.histc(torch.tensor([1e20, 1e20]), bins=3).tolist() == [0, 2, 0]


def test_tensors_that_have_the_common_shape_are_broadcast_as_they_are():
    x, y = torch.ones(2, 3), torch.ones(3)
    a, b = torch.broadcast_tensors(x, y)
    assert a is x and b.shape == (2, 3) and torch.broadcast_to(y, 2, 3).shape == (2, 3)


def test_rolling_nothing_along_one_dimension_asks_for_no_dimension():
    x = torch.zeros(2, 5, 0)
    assert x.roll(1, -4).shape == (2, 5, 0) and torch.zeros(0).roll(1, 3).shape == (0,)
    for wrong in (lambda: x.roll((1, 1), (0, 3)), lambda: torch.zeros(2).roll(1, 1)):
        with pytest.raises(IndexError, match="Dimension out of range"):
            wrong()


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_running_sums_in_place_look_at_the_dimension_before_the_type(name):
    x = torch.zeros(3, dtype=torch.float16)
    with pytest.raises(IndexError, match="Dimension out of range"):
        getattr(x, name)(1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Bad in-place call"):
        getattr(x, name)(0, dtype=torch.float64)


@pytest.mark.parametrize("dtype, tiny", [(torch.complex64, 1e-40), (torch.complex128, 1e-310)])
def test_directions_of_denormal_complex_numbers(dtype, tiny):
    x = torch.tensor([complex(tiny, tiny), complex(0, -tiny), 0j, 3 - 4j], dtype=dtype, requires_grad=True)
    expected = torch.tensor([0.5**0.5 * (1 + 1j), -1j, 0j, 0.6 - 0.8j], dtype=dtype)
    assert torch.allclose(torch.sgn(x), expected, atol=0, rtol=2e-6)
    x.abs().sum().backward()
    assert torch.allclose(x.grad, expected, atol=0, rtol=2e-6)


def test_gradients_of_determinants_at_singular_matrices_are_cofactors():
    x = torch.tensor(
        [[-1, 0.6875, -0.6875], [-0.0625, -0.8125, 0.8125], [-0.375, 0.125, -0.125]], dtype=torch.float64, requires_grad=True
    )
    assert x.det().item() == 0
    x.det().backward()
    assert x.grad.flatten().tolist() == pytest.approx(
        [0, -0.3125, -0.3125, 0, -0.1328125, -0.1328125, 0, 0.85546875, 0.85546875], abs=1e-15
    )


def test_none_behind_a_second_ellipsis():
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.ones(2, 3)[..., ..., None]


def test_lgamma_of_the_least_numbers():
    tiny = [4.9406564584124654e-324, 1e-310, -1e-310]
    found = torch.lgamma(torch.tensor(tiny, dtype=torch.float64)).tolist()
    assert found == pytest.approx([-math.log(abs(v)) for v in tiny], rel=1e-15)


def test_complex_weights_are_counted_by_their_real_parts():
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        counts = torch.bincount(torch.tensor([2, 0, 2]), torch.tensor([1 + 2j, 3, 4]))
    assert counts.dtype is torch.float64 and counts.tolist() == [3, 0, 5]


def test_powers_that_64_bits_do_not_hold():
    with pytest.raises(OverflowError):
        torch.ones(2).float_power(2**70)


def test_the_slope_of_a_squared_error_overflows_as_in_pytorch():
    """Whatever small gradient it then meets."""
    far, near = torch.tensor([-3e38, 1.0], requires_grad=True), torch.tensor([3e38, 3.0], requires_grad=True)
    loss = torch.nn.functional.mse_loss(far, near, reduction="none")
    left, right = torch.autograd.grad(loss, (far, near), torch.full((2,), 0.25))
    assert left.tolist() == [-math.inf, -1] and right.tolist() == [math.inf, 1]
    nothing = torch.zeros(0, requires_grad=True)
    assert torch.autograd.grad(torch.nn.functional.mse_loss(nothing, nothing * 2), nothing)[0].shape == (0,)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_slope_at_a_certain_answer_is_infinite_however_small_its_weight(reduction):
    x, y = (
        torch.tensor([0.875, 1, 1], dtype=torch.bfloat16),
        torch.tensor([0.4375, 0, 1], dtype=torch.bfloat16, requires_grad=True),
    )
    w = torch.tensor([1, 0.3125, 2.0**-133], dtype=torch.bfloat16)
    loss = torch.nn.functional.binary_cross_entropy(x, y, w, reduction=reduction)
    assert torch.autograd.grad(loss.sum(), y)[0].tolist()[1:] == [-math.inf, -math.inf]


def test_signs_of_truth_values_are_not_written_into_memory_that_overlaps():
    x = torch.tensor([[True], [False]])
    assert x.sign_().tolist() == [[True], [False]] and x.t().sign_() is not None
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(2, 3).sign_()


def test_indices_that_are_written_are_read_first():
    """What was written into an index that is also the target was an index of the next element: it wrote anywhere."""
    far = 10**12
    for write in (
        lambda x, y: x.scatter_add_(0, x, y),
        lambda x, y: x.scatter_(0, x, y),
        lambda x, y: x[0].index_add_(0, x[0], y[0]),
        lambda x, y: x.put_(x, y),
        lambda x, y: x.view(-1).scatter_(0, x.view(-1), far),
    ):
        x, other = (torch.tensor([[0, 1, 2], [1, 0, 2], [2, 2, 0]]) for _ in range(2))
        y = torch.full((3, 3), far)
        write(x, y)
        assert x.shape == other.shape and int((x >= far).sum()) > 0 and int(x.max()) <= far * 9 + 9


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("whole", [torch.int8, torch.int32, torch.int64])
def test_ldexp_with_whole_numbers_is_exact_and_keeps_the_type(dtype, whole):
    x = torch.tensor([1.5, 3.0, 0.0, math.inf, 1.0], dtype=dtype)
    made = torch.ldexp(x, torch.tensor([3, -5, 127, -100, -20], dtype=whole))
    assert made.dtype is dtype and made.tolist() == [12.0, 0.09375, 0.0, math.inf, torch.tensor(2.0**-20, dtype=dtype).item()]
    if whole is not torch.int8:
        far = torch.ldexp(torch.tensor([0.0, 1.0, 1.0], dtype=dtype), torch.tensor([2000, -3000, 3000], dtype=whole))
        assert far.tolist() == [0.0, 0.0, math.inf]
        least = torch.finfo(dtype).smallest_normal
        assert torch.ldexp(torch.tensor([least], dtype=dtype), torch.tensor([-int(math.log2(least))], dtype=whole)).tolist() == [
            1.0
        ]


def test_incomplete_gamma_where_one_argument_decides():
    nan, inf = math.nan, math.inf
    a, x = torch.tensor([inf, nan, nan, nan, 0.0, 0.0, 0.5]), torch.tensor([nan, 0.0, inf, 1.0, nan, 2.0, nan])
    for call, wanted in (
        (torch.igamma, [0.0, 0.0, 1.0, nan, nan, 1.0, nan]),
        (torch.igammac, [1.0, 1.0, 0.0, nan, nan, 0.0, nan]),
    ):
        assert np.array_equal(call(a, x).numpy(), wanted, equal_nan=True)


def test_incomplete_gamma_at_the_ends_of_doubles():
    most, least = 1.7976931348623157e308, 5e-324
    a, x = (torch.tensor(v, dtype=torch.float64) for v in ([most, most, 3e307, least, least], [most, 2.75, most, 0.5, 1e-300]))
    assert torch.igammac(a, x).tolist() == [0.5, 1.0, 0.0, 0.0, 0.0] and torch.igamma(a, x).tolist() == [0.5, 0.0, 1.0, 1.0, 1.0]


def test_keys_of_more_than_64_bits_are_refused_for_one_number_too():
    for x in (torch.tensor(1.0), torch.ones(3)):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            x[2**70]
    for key in ([2**70], [2**70, np.int64(-1)]):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            torch.ones(3)[key]


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_nan_elements_share_the_gradient_of_an_extreme(name):
    for values, wanted in (
        ([1.0, math.nan, 2.0], [0, 1, 0]),
        ([math.nan, math.nan, 1.0], [0.5, 0.5, 0]),
        ([1.0, 1.0, 1.0], [1 / 3] * 3),
    ):
        x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
        found = torch.autograd.grad(getattr(torch, name)(x), x)[0].tolist()
        if name.startswith("a") and math.nan in values:  # PyTorch's rows: nothing equals the NaN that has won
            assert all(map(math.isnan, found))
        else:
            assert found == wanted


@pytest.mark.parametrize("alpha", [True, False])
def test_a_boolean_alpha_keeps_a_sum_of_bools_one(alpha):
    """PyTorch: True + True is True, whether the other is a tensor or a number."""
    x = torch.tensor([True, False])
    expected = [True, alpha]
    for found in (x.add(True, alpha=alpha), x.add(torch.tensor(True), alpha=alpha), x.clone().add_(True, alpha=alpha)):
        assert found.dtype is torch.bool and found.tolist() == expected
    assert x.add(False, alpha=alpha).tolist() == [True, False]


def test_slices_behind_a_second_ellipsis():
    """As in PyTorch each ellipsis stands for all dims that are not named, and a slice of everything behind the last dim for none."""
    x = torch.arange(12).view(3, 4)
    for rest in (slice(None), slice(0, None), slice(None, None, 1), slice(0, None, 1)):
        assert x[..., ..., rest].tolist() == x.tolist()
        assert x[[..., 1, ..., rest]].tolist() == x[1].tolist()
    for rest in (slice(1, None), slice(None, None, 2)):
        with pytest.raises(IndexError):
            x[..., ..., rest]


@pytest.mark.parametrize("weights", [[0.0, 1.1754944e-38], [0.0, 0.0], [1.0, -1.0]])
def test_smoothed_labels_whose_weights_add_up_to_nothing(weights):
    """Both parts are divided by the weights of the targets: 0 / 0, whatever the other part is."""
    x, y = torch.full((4, 2), 2.0), torch.tensor([0, 1, 0, 1] if weights[1] == -1.0 else [0, 0, 0, 0])
    for f in (torch.nn.functional.cross_entropy, torch.compile(torch.nn.functional.cross_entropy)):
        assert math.isnan(f(x, y, torch.tensor(weights), label_smoothing=0.2))


def test_smoothed_labels_with_weights():
    """Against the formula of PyTorch's page, in doubles."""
    x, y, w = (
        torch.randn(5, 3, dtype=torch.float64),
        torch.tensor([0, 2, 1, 1, 2]),
        torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64),
    )
    lines = -torch.log_softmax(x, 1) * w
    known = y != 1
    total = w[y[known]].sum()
    wanted = 0.8 * lines[known, y[known]].sum() / total + 0.2 * lines[known].mean(1).sum() / total
    found = torch.nn.functional.cross_entropy(x, y, w, ignore_index=1, label_smoothing=0.2)
    torch.testing.assert_close(found, wanted)


def test_positions_of_bools_are_refused_first():
    for f in (torch.argmax, torch.argmin):
        for x in (torch.zeros(0, 4, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)):
            with pytest.raises(RuntimeError, match="does not support bool input"):
                f(x)


@pytest.mark.parametrize("count", [6, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_dropout_is_a_product_in_which_nan_and_infinity_stay(dtype, count):
    """Eager and compiled: what is dropped is multiplied by 0, and so are gradients."""
    dtype = getattr(torch, dtype)
    x = torch.full((count,), math.nan, dtype=dtype)
    huge = torch.full((count,), math.inf, dtype=dtype)
    for f in (torch.nn.functional.dropout, torch.compile(lambda t, p: torch.nn.functional.dropout(t, p))):
        assert f(x, 0.5).isnan().all()
        dropped = f(huge, 0.5)
        assert dropped.isnan().any() and dropped.isinf().any() and (dropped.isnan() | dropped.isinf()).all()
        w = torch.ones(count, dtype=dtype, requires_grad=True)
        y = f(w, 0.5)
        (grad,) = torch.autograd.grad(y, w, huge)
        assert torch.equal(grad.isnan(), y == 0) and torch.equal(grad.isinf(), y != 0)


def test_attention_with_dropout_loses_no_nan():
    q, k, v = torch.full((1, 2, 4), math.nan), torch.ones(1, 3, 4), torch.ones(1, 3, 2)
    plain = torch.nn.functional.scaled_dot_product_attention
    for f in (plain, torch.compile(lambda *a, **k: plain(*a, **k))):
        assert f(q, k, v, dropout_p=0.99).isnan().all()


def test_a_number_beside_unsigned_is_itself():
    x = torch.tensor([0, 1, 9], dtype=torch.uint8)
    assert x.copysign(-1).tolist() == [-0.0, -1.0, -9.0] and x.copysign(300).tolist() == [0.0, 1.0, 9.0]
    assert torch.special.zeta(-1, x).isnan().all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_slopes_of_cross_entropy_at_an_infinite_weight_or_slope(dtype):
    """At the target it is taken from itself, which is NaN; other classes keep their infinity, other rows their numbers."""
    kind = getattr(torch, dtype)
    target, weight = torch.tensor([0, 1]), torch.tensor([math.inf, 1, 1], dtype=kind)
    loss = torch.nn.functional.cross_entropy
    for run in (loss, torch.compile(lambda *args, **kw: loss(*args, **kw))):
        x = torch.tensor([[0.5, -1.0, 2.0], [0.5, -1.0, 2.0]], dtype=kind, requires_grad=True)
        run(x, target, weight, reduction="sum").backward()
        first, second = x.grad.double().numpy()
        assert np.isnan(first[0]) and (first[1:] == math.inf).all() and np.isfinite(second).all()
        x.grad = None
        run(x, target, reduction="none").backward(torch.tensor([math.inf, 1.0], dtype=kind))
        first, second = x.grad.double().numpy()
        assert np.isnan(first[0]) and (first[1:] == math.inf).all() and np.isfinite(second).all()
