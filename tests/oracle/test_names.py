"""Functions of many families against PyTorch: values, types, and gradients of what is differentiable."""

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.standard_normal(shape)


def square(*shape):
    x = normal(*shape)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])


def complexes(*shape):
    return normal(*shape) + 1j * normal(*shape)


A, B, V, P = normal(3, 4), normal(3, 4), normal(5), np.abs(normal(3, 4)) + 0.3
U, Q, S, Z, W = RNG.uniform(-0.9, 0.9, (3, 4)), RNG.uniform(0.05, 0.95, (3, 4)), square(3, 3), complexes(3, 4), complexes(3, 3)
N, I = RNG.integers(0, 6, (4, 5)), RNG.integers(0, 9, 12)
X0 = np.array([1.0, 0.0, 2.0, 0.0, -3.0, 4.0])
TIES = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 1.0, 0.0]])

# name -> (function of (L, *tensors), arrays); gradients are compared where inputs are floating or complex
CASES = {}


def case(name, fn, *arrays):
    CASES[f"{name}-{len(CASES)}"] = (fn, arrays)


for _name in "lgamma digamma asinh sinc deg2rad rad2deg i0 expm1".split():
    case(_name, lambda L, x, n=_name: getattr(L, n)(x), A)
for _name in "atanh erfinv".split():
    case(_name, lambda L, x, n=_name: getattr(L, n)(x), U)
case("acosh", lambda L, x: L.acosh(x), P + 1)
case("logit", lambda L, x: L.logit(x), Q)
case("logit_eps", lambda L, x: L.logit(x, 0.2), Q)
for _name in "i0e i1 i1e ndtr log_ndtr erfcx gammaln psi entr expit".split():
    case("special." + _name, lambda L, x, n=_name: getattr(L.special, n)(x), P)
case("special.ndtri", lambda L, x: L.special.ndtri(x), Q)
case("special.log_ndtr", lambda L, x: L.special.log_ndtr(x), np.linspace(-30, 5, 12))
case("special.zeta", lambda L, x: L.special.zeta(x + 1.5, x + 0.2).detach(), P)
case("special.xlog1py", lambda L, x, y: L.special.xlog1py(x, y), A, P)
case("polygamma", lambda L, x: L.polygamma(1, x), P)
case("polygamma", lambda L, x: L.polygamma(3, x), P)
case("mvlgamma", lambda L, x: L.mvlgamma(x, 3), P + 2)
case("igamma", lambda L, a, x: L.special.gammainc(a.detach(), x), P, P * 2)
case("igammac", lambda L, a, x: L.special.gammaincc(a.detach(), x), P, P * 7)
case("atan2", lambda L, x, y: L.atan2(x, y), A, B)
case("copysign", lambda L, x, y: L.copysign(x, y), A, B)
case("xlogy", lambda L, x, y: L.xlogy(x, y), A, P)
case("heaviside", lambda L, x: L.heaviside(x.detach(), L.ones_like(x).detach()), X0)
case("fmax", lambda L, x, y: L.fmax(x, y), A, B)
case("fmin", lambda L, x, y: L.fmin(x, y), A, B)
case("logaddexp2", lambda L, x, y: L.logaddexp2(x, y), A, B)
case("ldexp", lambda L, x: L.ldexp(x, L.tensor([1, 2, 3, 4])), A)
case("signbit", lambda L, x: L.signbit(x), A)
case("isposinf", lambda L, x: L.isposinf(x / 0), X0)
case("nan_to_num", lambda L, x: L.nan_to_num(x / 0, 1.0, 2.0, 3.0), X0)
case("hardshrink", lambda L, x: L.hardshrink(x, 0.4), A)
case("gcd", lambda L, x: L.gcd(x, x + 4), I)
case("lcm", lambda L, x: L.lcm(x, x + 4), I)
case("frexp", lambda L, x: tuple(L.frexp(x.detach())), A)
for _name in "cumprod cummax cummin logcumsumexp".split():
    case(_name, lambda L, x, n=_name: getattr(L, n)(x, 1), A)
    case(_name, lambda L, x, n=_name: getattr(L, n)(x, dim=0), TIES)
case("cumprod", lambda L, x: L.cumprod(x, 0), X0)
case("cumsum", lambda L, x: L.cumsum(x, 0, dtype=L.float64), X0)
case("unique", lambda L, x: L.unique(x, return_inverse=True, return_counts=True), N)
case("unique", lambda L, x: L.unique(x % 2, dim=0, return_inverse=True, return_counts=True), N)
case("unique_consecutive", lambda L, x: L.unique_consecutive(x // 3, return_inverse=True, return_counts=True), I)
case("unique_consecutive", lambda L, x: L.unique_consecutive(x // 6, dim=1), N)
case("isin", lambda L, x: L.isin(x, L.tensor([1, 3])), N)
case("bincount", lambda L, x: L.bincount(x, minlength=12), I)
case("bincount", lambda L, x: L.bincount(x, L.arange(12.0)), I)
case("histc", lambda L, x: L.histc(x.detach(), 6), A)
case("histc", lambda L, x: L.histc(x.detach(), 4, -1, 1), A)
case("histogram", lambda L, x: tuple(L.histogram(x.detach(), 5)), A)
case("mode", lambda L, x: L.mode(x, 1), N)
for _how in ("linear", "lower", "higher", "midpoint", "nearest"):
    case("quantile", lambda L, x, h=_how: L.quantile(x, 0.3, dim=1, interpolation=h), A)
case("quantile", lambda L, x: L.quantile(x, L.tensor([0.1, 0.5], dtype=x.dtype), dim=0, keepdim=True), A)
case("quantile", lambda L, x: L.quantile(x, 0.5), A)
case("nanquantile", lambda L, x: L.nanquantile(L.where(x > 1, float("nan"), x), 0.5, dim=1), A)
case("nanmean", lambda L, x: L.nanmean(L.where(x > 1, float("nan"), x), 1), A)
case("nanmedian", lambda L, x: L.nanmedian(L.where(x > 1, float("nan"), x), 1), A)
case("cov", lambda L, x: L.cov(x), A)
case("cov", lambda L, x: L.cov(x, correction=0, fweights=L.tensor([1, 2, 3, 1])), A)
case("cov", lambda L, x: L.cov(x, aweights=L.tensor([0.5, 0.2, 0.1, 0.7], dtype=x.dtype)), A)
case("corrcoef", lambda L, x: L.corrcoef(x), A)
case("diff", lambda L, x: L.diff(x, 2, 1), A)
case("diff", lambda L, x: L.diff(x, prepend=x[:, :1], append=x[:, :2]), A)
case("gradient", lambda L, x: L.gradient(x), A)
case("gradient", lambda L, x: L.gradient(x, spacing=0.5, dim=1, edge_order=2), A)
case("trapezoid", lambda L, x: L.trapezoid(x, dx=0.5), A)
case("trapezoid", lambda L, x, y: L.trapezoid(x, y), A, np.sort(B))
case("cumulative_trapezoid", lambda L, x: L.cumulative_trapezoid(x), A)
case("renorm", lambda L, x: L.renorm(x, 2, 0, 1.0), A)
case("block_diag", lambda L, x, y: L.block_diag(x, y, L.ones(2, dtype=x.dtype)), A, S)
case("cartesian_prod", lambda L, x: L.cartesian_prod(x, x * 2), V)
case("combinations", lambda L, x: L.combinations(x, 3), V)
case("combinations", lambda L, x: L.combinations(x, 2, True), V)
case("kron", lambda L, x, y: L.kron(x, y), A, V)
case("ger", lambda L, x: L.ger(x, x), V)
case("addr", lambda L, x, y: L.addr(x, y, y, beta=0.5, alpha=2), square(5, 5), V)
case("vander", lambda L, x: L.vander(x.detach()), V)
case("diagflat", lambda L, x: L.diagflat(x, 1), A)
case("cross", lambda L, x, y: L.cross(x, y, dim=0), A, B)
case("linalg.cross", lambda L, x: L.linalg.cross(x.T, x.T * 2 + 1), A)
case("column_stack", lambda L, x: L.column_stack([x, x * 2]), V)
case("hsplit", lambda L, x: L.hsplit(x, 2), A)
case("unravel_index", lambda L, x: L.unravel_index(x, (3, 5)), I)
case("select_scatter", lambda L, x, y: L.select_scatter(x, y[0], 0, 1), A, B)
case("slice_scatter", lambda L, x, y: L.slice_scatter(x, y[:, :2], 1, 0, 4, 2), A, B)
case("diagonal_scatter", lambda L, x, y: L.diagonal_scatter(x, y[0, :3]), A, B)
case("put", lambda L, x, y: x.put(L.tensor([1, -1, 5]), y[0, :3]), A, B)
case("put", lambda L, x, y: x.put(L.tensor([1, 1, 5]), y[0, :3], accumulate=True), A, B)
for _how in ("sum", "prod", "mean", "amax", "amin"):
    for _self in (True, False):
        case(
            "scatter_reduce",
            lambda L, x, y, h=_how, s=_self: x.scatter_reduce(
                1, L.tensor([[0, 0, 1, 3], [2, 2, 2, 1], [3, 0, 0, 0]]), y, h, include_self=s
            ),
            A,
            B,
        )
case("index_reduce", lambda L, x, y: x.index_reduce(0, L.tensor([0, 2, 0]), y, "amax"), A, B)
case("fill_diagonal_", lambda L, x: (x * 1).fill_diagonal_(7.0), A)
case("sum_to_size", lambda L, x: x.sum_to_size(1, 4), A)
for _name in "hann_window hamming_window blackman_window bartlett_window kaiser_window".split():
    case(_name, lambda L, n=_name: (getattr(L, n)(9), getattr(L, n)(8, periodic=False)))
case("range", lambda L: L.range(1, 4, 0.5))
case("can_cast", lambda L: L.tensor([L.can_cast(L.float32, L.int64), L.can_cast(L.int8, L.float16)]))
# complex
for _name in "abs angle exp sqrt sin tanh conj sgn reciprocal log".split():
    case("complex." + _name, lambda L, z, n=_name: getattr(L, n)(z), Z)
case("complex.mul", lambda L, z, x: z * x + z / (z + 3) - x * z * z, Z, A)
case("complex.parts", lambda L, z: (z.real * z.imag, L.view_as_real(z) * 2, z.mH, z.isreal()), Z)
case("complex.polar", lambda L, x, y: L.polar(x, y), P, A)
case("complex.make", lambda L, x, y: L.complex(x, y) ** 2, A, B)
case("complex.view", lambda L, x: L.view_as_complex(x.reshape(3, 2, 2)) * (1 + 2j), A)
case("complex.matmul", lambda L, z, w: w @ z, Z, W)
case("complex.sum", lambda L, z: (z.sum(), z.mean(0), z.cumsum(0), z.prod()), Z)
case("complex.vdot", lambda L, z: L.vdot(z[0], z[1]), Z)
case("complex.index", lambda L, z: (z[1:, ::2], L.cat([z, z * 2]), L.stack([z, z]), z.T.reshape(-1)), Z)
case("complex.inplace", lambda L, z: _written(z * 1), Z)
case(
    "complex.rotary",
    lambda L, x: L.view_as_real(
        L.view_as_complex(x.reshape(3, 2, 2)) * L.polar(L.ones(2, dtype=x.dtype), L.arange(2, dtype=x.dtype))
    ).flatten(1),
    A,
)


def _written(z):
    z.real.mul_(2)
    z[0].imag.zero_()
    return z


# linear algebra
for _name in "inv det slogdet cholesky eigvalsh svdvals pinv matrix_exp".split():
    case("linalg." + _name, lambda L, x, n=_name: getattr(L.linalg, n)(x), S)
    if _name != "matrix_exp":
        case("linalg." + _name, lambda L, x, n=_name: getattr(L.linalg, n)(x), square(2, 3, 3))
case("linalg.matrix_exp", lambda L, x: L.linalg.matrix_exp(x * 0.3), S)
case("linalg.inv", lambda L, w: L.linalg.inv(w), W)
case("linalg.det", lambda L, w: L.linalg.det(w), W)
case("linalg.solve", lambda L, a, b: L.linalg.solve(a, b), S, normal(3, 2))
case("linalg.solve", lambda L, a, b: L.linalg.solve(a, b[:, 0]), S, normal(3, 2))
case("linalg.solve", lambda L, a, b: L.linalg.solve(a, b.T, left=False), S, normal(3, 2))
case("linalg.solve_triangular", lambda L, a, b: L.linalg.solve_triangular(a, b, upper=True), S, normal(3, 2))
case(
    "linalg.solve_triangular",
    lambda L, a, b: L.linalg.solve_triangular(a, b.T, upper=False, left=False, unitriangular=True),
    S,
    normal(3, 2),
)
case("linalg.qr", lambda L, x: L.linalg.qr(x.T), A)
case("linalg.qr", lambda L, x: tuple(t.abs() for t in L.linalg.qr(x.detach().T, "complete")), A)
case("linalg.eigh", lambda L, x: (L.linalg.eigh(x + x.T)[0], L.linalg.eigh(x + x.T)[1] ** 2), S)
case("linalg.svd", lambda L, x: (L.linalg.svd(x, False).S, L.linalg.svd(x, False).U ** 2, L.linalg.svd(x, False).Vh ** 2), A)
case("linalg.svd", lambda L, x: L.linalg.svd(x.T, False).U ** 2, A)
case("linalg.eig", lambda L, x: L.linalg.eig(x)[0].abs().sort().values, normal(4, 4))
case("linalg.eigvals", lambda L, x: (L.linalg.eigvals(x) ** 2).sum(), normal(4, 4))
case("linalg.lu", lambda L, x: tuple(L.linalg.lu(x.detach())), normal(4, 4))
case("linalg.lu_factor", lambda L, x: tuple(L.linalg.lu_factor(x.detach())), normal(2, 4, 4))
case("linalg.lu_solve", lambda L, x, b: L.linalg.lu_solve(*L.linalg.lu_factor(x.detach()), b), normal(4, 4), normal(4, 2))
case("linalg.lstsq", lambda L, x, b: L.linalg.lstsq(x.T, b).solution, A, normal(4, 2))
case("linalg.matrix_rank", lambda L, x: L.linalg.matrix_rank(x), A)
case("linalg.cond", lambda L, x: L.linalg.cond(x), S)
for _ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
    case("linalg.matrix_norm", lambda L, x, o=_ord: L.linalg.matrix_norm(x, o), A)
for _ord in (0.5, 1, 2, 3, 0, float("inf"), -float("inf")):
    case("linalg.vector_norm", lambda L, x, o=_ord: L.linalg.vector_norm(x, o, dim=1), A)
case("linalg.norm", lambda L, x: (L.linalg.norm(x), L.linalg.norm(x, dim=1), L.linalg.norm(x, "nuc"), L.linalg.norm(x, 1)), A)
case("linalg.vector_norm", lambda L, z: L.linalg.vector_norm(z), Z)
case(
    "linalg.matrix_power",
    lambda L, x: (L.linalg.matrix_power(x, 3), L.linalg.matrix_power(x, -2), L.linalg.matrix_power(x, 0)),
    S,
)
case("linalg.multi_dot", lambda L, x, y: L.linalg.multi_dot([x, y.T, x, y[0]]), A, B)
case("linalg.vecdot", lambda L, x, y: L.linalg.vecdot(x, y), A, B)
case("linalg.vander", lambda L, x: L.linalg.vander(x, N=3), V)
case("linalg.tensorinv", lambda L, x: L.linalg.tensorinv(x.reshape(2, 2, 4)), normal(4, 4))
case("linalg.tensorsolve", lambda L, x, b: L.linalg.tensorsolve(x.reshape(2, 2, 4), b.reshape(2, 2)), normal(4, 4), normal(4))
case("cholesky_solve", lambda L, x, b: L.cholesky_solve(b, L.linalg.cholesky(x)), S, normal(3, 2))
case("cholesky_inverse", lambda L, x: L.cholesky_inverse(L.linalg.cholesky(x)), S)
case("svd", lambda L, x: (L.svd(x).S, L.svd(x).V ** 2), A)
case("logdet", lambda L, x: L.logdet(x), S)
case("pinverse", lambda L, x: L.pinverse(x), A)
# Fourier
for _name in "fft ifft rfft fft2 ifft2 fftn ifftn rfft2 rfftn ihfft hfft irfft irfft2 irfftn".split():
    for _norm in (None, "ortho", "forward"):
        case("fft." + _name, lambda L, x, n=_name, m=_norm: getattr(L.fft, n)(x, norm=m), A)
for _name in "fft ifft irfft hfft irfft2 irfftn fft2".split():
    case("fft." + _name, lambda L, z, n=_name: getattr(L.fft, n)(z), Z)
case("fft.rfft", lambda L, x: L.fft.rfft(x, 7, dim=0), A)
case("fft.irfft", lambda L, z: L.fft.irfft(z, 5), Z)
case("fft.fftfreq", lambda L: (L.fft.fftfreq(6, 0.5), L.fft.rfftfreq(7)))
case("fft.fftshift", lambda L, x: (L.fft.fftshift(x), L.fft.ifftshift(x, dim=1)), A)
case("stft", lambda L, x: L.stft(x, 16, 4, window=L.hann_window(16, dtype=x.dtype), return_complex=True), normal(2, 64))
case(
    "istft",
    lambda L, x: L.istft(
        L.stft(x, 16, 4, window=L.hann_window(16, dtype=x.dtype), return_complex=True),
        16,
        4,
        window=L.hann_window(16, dtype=x.dtype),
    ),
    normal(2, 64),
)


def tensors(library, arrays):
    made = [library.tensor(a) for a in arrays]
    return [t.requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in made]


def flat(out):
    return [t for o in out for t in flat(o)] if isinstance(out, (tuple, list)) else [out]


def gradients(library, outs, inputs):
    """Of one real number that depends on all outputs with uneven weights."""
    loss = 0.0
    for k, o in enumerate(outs):
        if getattr(o, "requires_grad", False):
            weights = library.tensor(np.cos(np.arange(o.numel()) + k).reshape(tuple(o.shape)))
            parts = o.real + 2 * o.imag if o.is_complex() else o
            loss = loss + (parts.double() * weights).sum()
    if not hasattr(loss, "backward"):
        return [None] * len(inputs)
    wanted = [x for x in inputs if x.requires_grad]
    return library.autograd.grad(loss, wanted, allow_unused=True)


def compare(mine, theirs, what):
    assert str(mine.dtype) == str(theirs.dtype), f"{what}: {mine.dtype} and {theirs.dtype}"
    assert tuple(mine.shape) == tuple(theirs.shape), f"{what}: {tuple(mine.shape)} and {tuple(theirs.shape)}"
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().resolve_conj().numpy(), rtol=2e-6, atol=2e-7, err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    fn, arrays = CASES[name]
    results = {}
    for library in (flambeau, torch):
        inputs = tensors(library, arrays)
        outs = flat(fn(library, *inputs))
        results[library] = outs, gradients(library, outs, inputs)
    (mine, my_grads), (theirs, their_grads) = results[flambeau], results[torch]
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        compare(a, b, f"output {k}")
    for k, (a, b) in enumerate(zip(my_grads, their_grads, strict=True)):
        if b is not None or a is not None:
            b = torch.zeros(tuple(a.shape), dtype=getattr(torch, str(a.dtype)[6:])) if b is None else b
            a = flambeau.zeros(tuple(b.shape), dtype=getattr(flambeau, str(b.dtype)[6:])) if a is None else a
            compare(a, b, f"gradient {k}")
