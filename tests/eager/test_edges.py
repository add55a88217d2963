"""Values and gradients at the edges of formulas: certain answers, halves whose squares do not fit, infinities, mixed types, what has
no order, matrices without an inverse. Each with its neighbours: other types, forms, functions of the family."""

import math
import warnings

import pytest

import flambeau
from flambeau import nn

F, inf, nan = nn.functional, math.inf, math.nan
HALVES = [flambeau.float16, flambeau.bfloat16]
FLOATS = [*HALVES, flambeau.float32, flambeau.float64]


def close(found, wanted, tolerance=1e-5):
    wanted = flambeau.as_tensor(wanted, dtype=flambeau.float64)
    assert flambeau.allclose(found.detach().double(), wanted, tolerance, tolerance, equal_nan=True), (found, wanted)


def slope(f, *values, dtype=flambeau.float32):
    x = flambeau.tensor(values, dtype=dtype, requires_grad=True)
    f(x).sum().backward()
    return x.grad


# -- losses


@pytest.mark.parametrize("dtype", FLOATS)
def test_certain_answers_have_a_gradient(dtype):
    target = flambeau.tensor([1.0, 0.0, 1.0, 0.0], dtype=dtype)
    found = slope(lambda p: F.binary_cross_entropy(p, target, reduction="sum"), 1.0, 0.0, 0.5, 0.25, dtype=dtype)
    close(found, [0.0, 0.0, -2.0, 4 / 3], 1e-2)
    wrong = slope(lambda p: F.binary_cross_entropy(p, (1 - target).float()), 1.0, 0.0, 0.5, 0.25)
    assert wrong.isfinite().all() and wrong[0] > 1e10 and wrong[1] < -1e10


def test_targets_outside_are_refused():
    with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
        F.binary_cross_entropy(flambeau.tensor([0.5]), flambeau.tensor([1.5]))


def test_gradient_of_the_target_and_of_the_weight():
    p, t, w = flambeau.tensor([0.2, 0.7]), flambeau.tensor([0.3, 0.6], requires_grad=True), flambeau.ones(2, requires_grad=True)
    F.binary_cross_entropy(p, t, w, reduction="sum").backward()
    close(t.grad, ((1 - p).log() - p.log()).tolist())
    close(w.grad, F.binary_cross_entropy(p, t, reduction="none").tolist())


@pytest.mark.parametrize("name", ["huber_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_far_errors_have_the_slope_of_the_line(name, dtype):
    found = slope(
        lambda x: getattr(F, name)(x, flambeau.zeros(5, dtype=dtype), reduction="sum"),
        inf,
        -inf,
        flambeau.finfo(dtype).max,
        0.5,
        nan,
        dtype=dtype,
    )
    close(found, [1.0, -1.0, 1.0, 0.5, nan])


def test_losses_of_infinite_scores():
    x = flambeau.tensor([[inf, 1.0]])
    assert F.multi_margin_loss(x, flambeau.tensor([0])).item() == 0
    assert slope(lambda v: F.gaussian_nll_loss(flambeau.ones(1), flambeau.ones(1), v), inf).isfinite().all()


# -- halves


def test_norms_of_halves_are_summed_in_floats():
    x = (flambeau.arange(1, 65).float() * 8).half()
    for p, wanted in (
        (2.0, 2393.0),
        (3.0, float((x.double() ** 3).sum() ** (1 / 3))),
        (1.5, float((x.double() ** 1.5).sum() ** (1 / 1.5))),
    ):
        for found in (x.norm(p), flambeau.linalg.vector_norm(x, p), F.pairwise_distance(x, x * 0, p, eps=0.0)):
            assert abs(found.item() / wanted - 1) < 2e-3, (p, found)
    close((x * 2).std(), float((x.double() * 2).std()), 2e-3)
    close(flambeau.std_mean(x * 2)[0], float((x.double() * 2).std()), 2e-3)
    close(F.cosine_similarity(x, x * 0.5, 0), 1.0, 5e-3)
    close(F.normalize(x, dim=0)[-1], 512 / 2393.0, 2e-3)
    close(flambeau.renorm(x.reshape(1, 64), 2, 0, 1.0)[0, -1], 512 / 2393.0, 2e-3)
    q = x.clone().requires_grad_()
    q.norm().backward()
    close(q.grad[-1], 512 / 2393.0, 2e-3)
    p = nn.Parameter(x.clone())
    p.grad = x.clone()
    close(nn.utils.clip_grad_norm_([p], 1.0), 2393.0, 2e-3)


def test_one_element_is_its_own_norm():
    for value in (3e38, -3e38, 1e-40):
        x = flambeau.tensor([[value]], requires_grad=True)
        found = x.norm(dim=1)
        assert found.item() == abs(x.item())
        found.backward(flambeau.ones(1))
        assert x.grad.item() == math.copysign(1, value)


def test_the_default_epsilon_is_that_of_the_computation():
    x = flambeau.tensor([[0.25]])
    for dtype in HALVES:
        assert F.rms_norm(x.to(dtype), (1,)).item() == 1


def test_halves_are_rounded_once():
    dtype, top = flambeau.float16, flambeau.finfo(flambeau.float16).max
    x, y = flambeau.tensor([-top], dtype=dtype), flambeau.tensor([top], dtype=dtype)
    assert flambeau.add(x, y, alpha=2).item() == top and flambeau.sub(x, y, alpha=-2).item() == top
    two = flambeau.tensor([2.0], dtype=dtype)
    assert flambeau.addcmul(x, y, two).item() == top and flambeau.addcdiv(x, y, two, value=4).item() == top
    assert flambeau.logaddexp(y, y).item() == top and flambeau.sinc(y).isfinite()


# -- types meet first


def test_mixed_types_are_promoted_before_they_are_multiplied():
    z, t, u = flambeau.zeros(1, dtype=flambeau.float64), flambeau.tensor([0.1]), flambeau.tensor([0.3])
    wide, also = t.double(), u.double()
    for found, wanted in (
        (flambeau.add(z, t, alpha=3), wide * 3),
        (flambeau.sub(z, t, alpha=3), wide * -3),
        (flambeau.rsub(t, z, alpha=1), -wide),
        (z.clone().add_(t, alpha=0.7), wide * 0.7),
        (flambeau.addcmul(z, t, u, value=0.7), wide * also * 0.7),
        (z.clone().addcmul_(t, u, value=0.7), wide * also * 0.7),
        (flambeau.addcdiv(z, t, u, value=0.7), wide / also * 0.7),
        (z.clone().addcdiv_(t, u), wide / also),
    ):
        close(found, wanted.tolist(), 1e-13)
    with pytest.raises(RuntimeError, match="expected dtype float64 for `end`"):
        flambeau.lerp(z, t, 0.5)


def test_lerp_reaches_both_ends_and_has_gradients_of_its_type():
    x, y = flambeau.tensor([0.1], dtype=flambeau.float64, requires_grad=True), flambeau.tensor([1e17], dtype=flambeau.float64)
    assert flambeau.lerp(x, y, 1.0).item() == 1e17 and flambeau.lerp(x, y, 0.0).item() == 0.1
    flambeau.lerp(x, y, 0.3).backward()
    assert x.grad.item() == 1 - 0.3


def test_whole_numbers_scaled():
    x = flambeau.tensor([1, 2])
    assert flambeau.add(x, x, alpha=3).tolist() == [4, 8] and flambeau.addcmul(x, x, x, value=2).tolist() == [3, 10]
    with pytest.raises(RuntimeError, match="must not be a floating point"):
        flambeau.add(x, x, alpha=1.5)


# -- what the type does not hold


@pytest.mark.parametrize(
    "data, kind", [([2**63], ValueError), (2**70, ValueError), ([-(2**63) - 1], ValueError), ([1, 2**64], ValueError)]
)
def test_integers_that_are_too_wide(data, kind):
    for make in (flambeau.tensor, flambeau.as_tensor, flambeau.ones(1).long().new_tensor):
        with pytest.raises(kind, match="Overflow"):
            make(data)


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([300], "uint8"),
        (300, "int8"),
        ([2**31], "int32"),
        ([1e30], "int32"),
        ([nan], "int64"),
        ([-129], "int8"),
        ([-300], "uint8"),
        ([-1.0], "uint8"),
    ],
)
def test_numbers_that_the_type_does_not_hold(data, dtype):
    with pytest.raises(RuntimeError, match="without overflow"):
        flambeau.tensor(data, dtype=getattr(flambeau, dtype))


def test_numbers_that_fit():
    assert flambeau.tensor([-(2**63)]).item() == -(2**63) and flambeau.tensor([-1], dtype=flambeau.uint8).item() == 255
    assert flambeau.tensor([2**63], dtype=flambeau.uint64).item() == 2**63 and flambeau.tensor([1.5, 2**70]).tolist() == [
        1.5,
        2.0**70,
    ]
    assert flambeau.tensor([2**70], dtype=flambeau.bool).item() is True and flambeau.tensor([1e300]).item() == inf


# -- numbers without an order

COMPLEX = flambeau.ones(2, dtype=flambeau.complex64)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x < 1.5,
        lambda x: x >= x,
        lambda x: flambeau.ones(2) > 1j,
        lambda x: x.max(),
        lambda x: x.min(0),
        lambda x: x.amax(0),
        lambda x: x.clip(0, 1),
        lambda x: x.clamp_(0, 1),
        flambeau.isposinf,
        flambeau.isneginf,
        lambda x: x.argmax(),
        lambda x: x.sort(),
        lambda x: x.topk(1),
        lambda x: x.median(),
        lambda x: x.floor(),
        lambda x: x.round(),
        lambda x: x % 2,
        lambda x: flambeau.maximum(x, x),
        lambda x: flambeau.atan2(x, x),
        lambda x: flambeau.sign(x),
    ],
)
def test_complex_numbers_have_no_order(f):
    with pytest.raises(RuntimeError, match="omplex"):
        f(COMPLEX)


def test_complex_statistics():
    x = flambeau.tensor([1 + 2j, 3 - 1j])
    for variance in (x.var(), flambeau.var_mean(x)[0], flambeau.std_mean(x)[0] ** 2):
        assert not variance.is_complex() and abs(variance.item() - 6.5) < 1e-5
    found = flambeau.logaddexp(x, x.flip(0)).tolist()
    wanted = flambeau.log(flambeau.exp(x.to(flambeau.complex128)) + flambeau.exp(x.flip(0).to(flambeau.complex128))).tolist()
    assert max(abs(a - b) for a, b in zip(found, wanted)) < 1e-5
    assert x.clone().requires_grad_().pow(flambeau.tensor([2 + 0j, 1j])).abs().sum().requires_grad


# -- matrices


def test_infos_of_singular_matrices():
    zero, singular = flambeau.zeros(2, 2), flambeau.tensor([[1.0, 2.0], [2.0, 4.0]])
    for a, info in ((zero, 1), (singular, 2), (flambeau.eye(2), 0)):
        assert flambeau.linalg.solve_ex(a, flambeau.ones(2)).info.item() == info == flambeau.linalg.inv_ex(a).info.item()
        assert flambeau.linalg.lu_factor_ex(a).info.item() == info
    batch = flambeau.linalg.inv_ex(flambeau.stack([singular, flambeau.eye(2) * 2]))
    assert batch.info.tolist() == [2, 0] and batch.inverse[1].tolist() == [[0.5, 0], [0, 0.5]]
    low, info = flambeau.linalg.cholesky_ex(flambeau.tensor([[4.0, 1, 0], [1, 4, 9], [0, 9, 1]]))
    assert info.item() == 3 and low[0, 0].item() == 2
    for call in (flambeau.linalg.solve_ex, flambeau.linalg.inv_ex, flambeau.linalg.lu_factor_ex, flambeau.linalg.cholesky_ex):
        with pytest.raises(RuntimeError):
            call(zero, *([flambeau.ones(2)] if call is flambeau.linalg.solve_ex else []), check_errors=True)


def test_powers_of_matrices_of_whole_numbers():
    x = flambeau.tensor([[1, 2], [3, 4]])
    assert flambeau.matrix_power(x, 3).tolist() == [[37, 54], [81, 118]] and flambeau.matrix_power(x, 0).tolist() == [
        [1, 0],
        [0, 1],
    ]
    with pytest.raises(RuntimeError, match="inv"):
        flambeau.matrix_power(x, -1)


def test_contracted_dims_of_one():
    assert flambeau.tensordot(flambeau.ones(2, 1), flambeau.ones(3, 2), dims=1).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert flambeau.tensordot(flambeau.ones(2, 3).int(), flambeau.ones(1, 2).int(), dims=1).tolist() == [[3, 3], [3, 3]]
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        flambeau.tensordot(flambeau.ones(2, 2), flambeau.ones(3, 2), dims=1)


# -- the rest


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_no_numbers(mode, padding):
    x = flambeau.arange(16.0).reshape(1, 1, 4, 4)
    grid = flambeau.tensor([[[[nan, 0.0], [inf, 0.0], [-inf, 0.0], [1e30, 0.0]]]])
    assert F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False).shape == (1, 1, 1, 4)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_reductions_without_elements(reduce):
    none, place = flambeau.zeros(0), flambeau.zeros(0, dtype=flambeau.long)
    for include in (True, False):
        assert flambeau.ones(4).scatter_reduce(0, place, none, reduce, include_self=include).tolist() == [1] * 4
        assert flambeau.ones(4, 0).scatter_reduce(
            0, flambeau.zeros(5, 0, dtype=flambeau.long), flambeau.zeros(5, 0), reduce
        ).shape == (4, 0)
    ends = flambeau.tensor([inf, 2.0]).scatter_reduce(
        0, flambeau.tensor([1]), flambeau.tensor([-inf]), "amin", include_self=False
    )
    assert ends.tolist() == [inf, -inf]


def test_draws_between_tensors():
    x, low, high = flambeau.empty(50), flambeau.tensor(0.5), flambeau.tensor(0.75)
    assert 0.5 <= x.uniform_(low, high).min() and x.max() <= 0.75
    for call in (lambda: x.normal_(low, high), lambda: x.exponential_(low), lambda: x.log_normal_(low, high)):
        assert call().isfinite().all()
    assert set(x.random_(flambeau.tensor(0), flambeau.tensor(3)).tolist()) <= {0, 1, 2}


def test_negative_deviations_are_refused():
    for call in (
        lambda: flambeau.normal(0.0, -1.0, (2,)),
        lambda: flambeau.normal(flambeau.zeros(2), -flambeau.ones(2)),
        lambda: flambeau.normal(flambeau.zeros(2), -1.0),
        lambda: flambeau.ones(2).normal_(0, -1),
    ):
        with pytest.raises(RuntimeError, match="std"):
            call()


def test_refusals_of_shapes_and_lengths():
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        flambeau.renorm(flambeau.ones(3), 2, 0, 1.0)
    with pytest.raises(RuntimeError, match="at least 3 at dimension 1"):
        F.ctc_loss(flambeau.zeros(5, 1, 4), flambeau.ones(1, 2).long(), [5], [3])
    with pytest.raises(RuntimeError, match="same|Expected"):
        flambeau.polar(flambeau.ones(2), flambeau.ones(2).double())
    with pytest.raises(RuntimeError, match="common dtype"):
        F.cosine_similarity(flambeau.ones(2).long(), flambeau.ones(2).long(), 0)


def test_steps_between_complex_ends():
    assert flambeau.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j] and flambeau.linspace(
        0, 1, 3, dtype=flambeau.complex64
    ).tolist() == [0, 0.5, 1]


def test_too_few_for_a_deviation():
    for call in (
        lambda: flambeau.ones(1).std(),
        lambda: flambeau.ones(3, 1).var(1),
        lambda: flambeau.var_mean(flambeau.ones(1)),
        lambda: flambeau.std_mean(flambeau.ones(2), correction=3),
    ):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.ones(1).var(correction=0)


@pytest.mark.parametrize("compiled", (False, True))
@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float64", "complex64"))
def test_no_degree_of_freedom_left(dtype, compiled):
    """Elements that differ, though floats do not hold the square of their difference, vary without bound; equal ones are NaN."""

    def spreads(x, correction):
        return [
            flambeau.var(x, 1, correction=correction),
            flambeau.std(x, 1, correction=correction),
            flambeau.var_mean(x, 1, correction=correction)[0],
            flambeau.std_mean(x, 1, correction=correction)[0],
        ]

    call = flambeau.compile(spreads, fullgraph=True) if compiled else spreads
    x = flambeau.tensor([[1e-30, 0.0], [3.0, 3.0], [1.0, 2.0]], dtype=getattr(flambeau, dtype))
    x = (x * (1 + 1j) if dtype == "complex64" else x).requires_grad_()
    for correction in (2, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = call(x, correction)
        for r in found:
            assert r.isnan().tolist() == [False, True, False] and r.isinf().tolist() == [True, False, True], r
            assert r.dtype is (flambeau.float32 if dtype == "complex64" else x.dtype)
        found[0][2].backward()
        if dtype != "complex64":
            expected = [-inf, inf] if correction == 2 else [1 / 3, -1 / 3]  # 2 / (2 - 5) of the distance from the mean, 0.5
            assert x.grad[2].tolist() == flambeau.tensor(expected, dtype=x.dtype).tolist()
        x.grad = None


def test_order_statistics_lie_in_rows():
    x = flambeau.rand(2, 9, 3, 4)
    for found in (x.median(1), x.kthvalue(2, 1), x.median(1, keepdim=True)):
        assert found[0].is_contiguous() and found[1].is_contiguous()


def test_special_functions_at_their_ends():
    assert F.threshold(flambeau.tensor([nan]), 0.1, -1).isnan().item() and slope(flambeau.special.entr, 0.0).item() == inf
    close(flambeau.special.ndtri(flambeau.tensor([1e-30, 0.5, 1.0])), [-11.4640, 0.0, inf], 1e-4)
    close(flambeau.digamma(flambeau.tensor([-1e-20])), [1e20], 1e18)
    close(flambeau.special.zeta(flambeau.tensor([inf, inf]), flambeau.tensor([2.0, 1.0])), [0.0, 1.0])
    close(slope(lambda x: x.pow(0), nan), [0.0])
    close(slope(flambeau.logit, 0.0, 1.0, 2.0), [inf, inf, nan])
    close(slope(lambda x: flambeau.div(x, 2.0, rounding_mode="trunc"), inf), [0.0])


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
def test_scaled_sums_of_halves_are_rounded_once(dtype):
    """addmm and its family with factors: within half a unit in the last place of what the halves exactly give."""
    x, y, z, v = (flambeau.randn(*size).to(dtype) for size in ((6, 8), (8, 5), (6, 5), (8,)))
    one = v.new_tensor(0.0) + z[:, 0]
    calls = (
        (flambeau.addmm(z, x, y, beta=-4.775, alpha=2.0315), -4.775 * z.double() + 2.0315 * (x.double() @ y.double())),
        (
            flambeau.baddbmm(z[None], x[None], y[None], beta=-4.775, alpha=2.0315)[0],
            -4.775 * z.double() + 2.0315 * (x.double() @ y.double()),
        ),
        (flambeau.addmv(one, x, v, beta=-4.775, alpha=2.0315), -4.775 * one.double() + 2.0315 * (x.double() @ v.double())),
    )
    for got, want in calls:
        assert ((got.double() - want).abs() <= want.abs() * flambeau.finfo(dtype).eps * 0.51 + 1e-6).all()


@pytest.mark.parametrize("rank", [3, 2, 1, 0])
def test_second_derivatives_of_the_determinant_of_singular_matrices(rank):
    """Cofactors of 3x3 matrices are sums of products of two elements: their slopes are exact by differences."""
    x = flambeau.randn(2, 3, rank, dtype=flambeau.float64) @ flambeau.randn(2, rank, 3, dtype=flambeau.float64)
    weight = flambeau.randn(2, 3, 3, dtype=flambeau.float64)

    def slope(x, graph=False):
        leaf = x.clone().requires_grad_()
        (first,) = flambeau.autograd.grad(flambeau.linalg.det(leaf).sum(), leaf, create_graph=True)
        return flambeau.autograd.grad((first * weight).sum(), leaf)[0] if graph else (first.detach() * weight).sum((1, 2))

    wanted = flambeau.zeros_like(x)
    for i in range(3):
        for k in range(3):
            step = flambeau.zeros(3, 3, dtype=flambeau.float64)
            step[i, k] = 0.5
            wanted[:, i, k] = slope(x + step) - slope(x - step)
    flambeau.testing.assert_close(slope(x, True), wanted, rtol=1e-9, atol=1e-9)
