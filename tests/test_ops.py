"""The universal op test, driven by the samples of the records: every record is covered by giving its samples.

Checked: kernels against the loop or decomposition that the compiler lowers, values against numpy where numpy has the
function, gradients (first and second order) against differences in float64, in-place and `out=` forms against the plain
one.
"""

import math

import numpy as np
import pytest

import flambeau
from flambeau.eager import api, dtypes, random as random_state
from flambeau.eager.op import numpy_kernels
from flambeau.eager.autograd import grad, no_grad
from flambeau.eager.op.op import OPS, Kind
from flambeau.eager.state import state
from flambeau.eager.tensor import Tensor

NAMES = sorted(name for name, op in OPS.items() if op.sample_rule is not None)
RANDOM = {name for name in NAMES if OPS[name].draws is not None}
EPS = 1e-6


def samples(name, make):
    op = OPS[name]
    return [op.bind(tuple(args), {}) for args in op.sample_rule(make)]


def mapped(args, fn):
    """The arguments with fn applied to every tensor."""
    return tuple(
        fn(a)
        if isinstance(a, Tensor)
        else tuple(map(fn, a))
        if type(a) in (tuple, list) and a and isinstance(a[0], Tensor)
        else a
        for a in args
    )


def flat(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def visible(op, out):
    """The outputs that are not hidden."""
    return [t for k, t in enumerate(flat(out)) if k >= len(op.outputs) or not op.outputs[k].hidden]


def assert_same(a, b, what, rtol=2e-5):
    assert a.dtype is b.dtype, f"{what}: {a.dtype} and {b.dtype}"
    assert tuple(a.shape) == tuple(b.shape), f"{what}: {list(a.shape)} and {list(b.shape)}"
    wide = np.complex128 if a.dtype.is_complex else np.float64
    x, y = (t._fl_array.astype(wide) if t.dtype.category else t._fl_array for t in (a, b))
    rtol = 1e-2 if a.dtype.is_floating_point and a.dtype.itemsize < 4 else rtol
    np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol, err_msg=what)


def described(args):
    return [list(a.shape) if isinstance(a, Tensor) else a for a in args]


# -- kernels and loops


def derived(op, args):
    """What the record means without its own kernels: its loop, its derived kernel or its decomposition."""
    if op.kind is Kind.COMPOSITE:
        return flat(op.fn(*args))
    if op.kind is Kind.MAP:
        return list(numpy_kernels.run_loop(op, args))
    if op.explicit_loop and op.kind is Kind.REDUCE:
        return list(numpy_kernels.run_windows(op, args))
    return list(numpy_kernels._DERIVED[op.kind.name](op, args))


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].kind is not Kind.EXTERN])
def test_kernels_agree_with_what_is_lowered(name, make):
    op = OPS[name]
    with no_grad():
        for args in samples(name, make):
            with random_state.at(5, 3):
                fast = flat(op(*args))
            with random_state.at(5, 3):
                slow = derived(op, args)
            if op.name in ("empty",):
                continue
            for k, (a, b) in enumerate(zip(fast, slow, strict=True)):
                assert_same(a, b, f"{name}{described(args)} output {k}")


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True)) if x.size else x
    return e / e.sum(dim, keepdims=True)


def _layer_norm(x, count, w, b, eps):
    dims = tuple(range(x.ndim - count, x.ndim))
    y = (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + eps) if x.size else x
    return y * (1 if w is None else w) + (0 if b is None else b)


def _embedding_backward(rows, index, x, padding):
    out = np.zeros((rows, *x.shape[index.ndim :]))
    for at in np.ndindex(index.shape):
        if index[at] != padding:
            out[index[at]] += x[at]
    return out


def _scattered(x, dim, index, source, add):
    out = x.copy()
    for at in np.ndindex(index.shape):
        to = (*at[:dim], index[at], *at[dim + 1 :])
        out[to] = (out[to] if add else 0) + source[at]
    return out


def _attention(q, k, v, mask, p, causal, scale):
    s = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)) @ v


def _cross_entropy(x, t, w, reduction, ignore, smooth):
    logp = np.moveaxis(np.log(_softmax(x, 1)), 1, -1)
    w = np.ones(logp.shape[-1]) if w is None else w
    kept = t != ignore
    safe = np.where(kept, t, 0)
    loss = -np.take_along_axis(logp, safe[..., None], -1)[..., 0] * w[safe] * (1 - smooth) - (logp * w).sum(-1) * smooth / len(w)
    loss = np.where(kept, loss, 0)
    return loss if reduction == "none" else loss.sum() / ((w[safe] * kept).sum() if reduction == "mean" else 1)


def _reduced(x, reduction):
    return {"none": np.array, "mean": np.mean, "sum": np.sum}[reduction](x)


def _huber(x, t, reduction, delta):
    d = np.abs(x - t)
    return _reduced(np.where(d <= delta, d * d / 2, delta * d - delta**2 / 2), reduction)


def _smooth_l1(x, t, reduction, beta):
    return _reduced(np.abs(x - t), reduction) if beta == 0 else _huber(x, t, reduction, beta) / beta


def _kl_div(x, t, reduction, log_target):
    p = np.exp(t) if log_target else t
    loss = np.where(p == 0, 0, p * (np.log(np.where(p == 0, 1, p)) - x))
    return loss.sum() / len(x) if reduction == "batchmean" else _reduced(loss, reduction)


# values computed by numpy in float64 from the same arguments
REFERENCES = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "trunc_divide": lambda a, b: np.trunc(np.true_divide(a, b)),
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "erf": _erf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "where": np.where,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "clamp": lambda x, low, high: np.clip(x, low, high),
    "masked_fill": lambda x, m, v: np.where(m, v, x),
    "sum": lambda x, d, k: np.sum(x, d, keepdims=k),
    "mean": lambda x, d, k: np.mean(x, d, keepdims=k),
    "prod": lambda x, d, k: np.prod(x, d, keepdims=k),
    "amax": lambda x, d, k: np.max(x, d, keepdims=k),
    "amin": lambda x, d, k: np.min(x, d, keepdims=k),
    "any": lambda x, d, k: np.any(x, d, keepdims=k),
    "all": lambda x, d, k: np.all(x, d, keepdims=k),
    "argmax": lambda x, d, k: (
        np.argmax(x, d[0], keepdims=k)
        if len(d) == 1
        else np.argmax(
            x.transpose([e for e in range(x.ndim) if e not in d] + list(d)).reshape(
                [n for e, n in enumerate(x.shape) if e not in d] + [-1]
            ),
            -1,
        )
    ),
    "var": lambda x, c, d, k: np.var(x, d, ddof=c, keepdims=k),
    "std": lambda x, c, d, k: np.std(x, d, ddof=c, keepdims=k),
    "norm": lambda x, p, d, k: (
        np.sum(np.abs(x) ** p, d, keepdims=k) ** (1 / p) if np.isfinite(p) else np.max(np.abs(x), d, keepdims=k)
    ),
    "logsumexp": lambda x, d, k: np.log(np.sum(np.exp(x), d, keepdims=k)),
    "cumsum": lambda x, d: np.cumsum(x, d),
    "max_dim": lambda x, d, k: np.max(x, d[0], keepdims=k),
    "min_dim": lambda x, d, k: np.min(x, d[0], keepdims=k),
    "view": np.reshape,
    "permute": np.transpose,
    "transpose": np.swapaxes,
    "expand": np.broadcast_to,
    "unsqueeze": np.expand_dims,
    "squeeze": np.squeeze,
    "diagonal": np.diagonal,
    "select": lambda x, d, i: np.take(x, i, d),
    "cat": lambda xs, d: np.concatenate(xs, d),
    "slice": lambda x, d, a, s, n: np.take(x, a + s * np.arange(n), d),
    "stack": lambda xs, d: np.stack(xs, d),
    "flip": np.flip,
    "roll": np.roll,
    "repeat": np.tile,
    "repeat_interleave": np.repeat,
    "tril": np.tril,
    "triu": np.triu,
    "unfold": lambda x, d, n, s: np.moveaxis(
        np.stack([np.take(x, np.arange(k, k + n), d) for k in range(0, x.shape[d] - n + 1, s)], d), d + 1, -1
    ),
    "gather": lambda x, d, i: (
        np.take_along_axis(x, i, d)
        if x.shape[:d] + x.shape[d + 1 :] == i.shape[:d] + i.shape[d + 1 :]
        else x[tuple(i if e == d else g for e, g in enumerate(np.indices(i.shape)))]
    ),
    "scatter": lambda x, d, i, s: _scattered(x, d, i, s, False),
    "scatter_add": lambda x, d, i, s: _scattered(x, d, i, s, True),
    "index_select": lambda x, d, i: np.take(x, i, d),
    "embedding": lambda w, i, p: w[i],
    "embedding_backward": _embedding_backward,
    "index": lambda x, ix, ds: x[tuple(dict(zip(ds, ix)).get(d, slice(None)) for d in range(x.ndim))],
    "gemm": np.matmul,
    "matmul": np.matmul,
    "linear": lambda x, w, b: x @ w.T + (0 if b is None else b),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "softmax": _softmax,
    "softplus": lambda x, b, t: np.where(x * b > t, x, np.log1p(np.exp(x * b)) / b),
    "log_softmax": lambda x, d: np.log(_softmax(x, d)),
    "layer_norm": _layer_norm,
    "mse_loss": lambda x, t, r: {"none": np.array, "mean": np.mean, "sum": np.sum}[r]((x - t) ** 2),
    "cross_entropy": _cross_entropy,
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "kl_div": _kl_div,
    "cumprod": lambda x, d: np.cumprod(x, d),
    "atan2": np.arctan2,
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "elu": lambda x, alpha, scale, factor: scale * np.where(x > 0, x, alpha * np.expm1(x * factor)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "prelu": lambda x, w: np.where(x > 0, x, w * x),
    "attention": _attention,
    "sort": lambda x, d, desc: -np.sort(-x, d) if desc else np.sort(x, d),
    "one_hot": lambda x, n: np.eye(n)[x],
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_values_are_numpy_s(name, make):
    op = OPS[name]

    def wide(t):
        return t._fl_array.astype(np.float64) if t.dtype.is_floating_point else t._fl_array

    for args in samples(name, make):
        if op.draws is not None and op.draws(*args):
            continue  # the numbers drawn are compared where kernels meet decompositions
        if name == "sort" and args[2] and any(np.isnan(wide(args[0])).ravel()):
            continue  # NaN comes first in a descending sort; numpy puts it last
        got = flat(op(*args))[0]
        with np.errstate(all="ignore"):
            want = np.asarray(REFERENCES[name](*mapped(args, wide)))
        tolerance = 1e-2 if got.dtype.is_floating_point and got.dtype.itemsize < 4 else 2e-5
        assert tuple(got.shape) == want.shape, f"{name}{described(args)}"
        np.testing.assert_allclose(
            got._fl_array.astype(np.float64), want.astype(np.float64), tolerance, tolerance, err_msg=f"{name}{described(args)}"
        )


# -- gradients


def differentiable(op):
    if op.kind is Kind.COMPOSITE and not op.mutates:
        return True
    return bool(op.grads)


# arguments that are constants by definition, as in PyTorch
CONSTANT = {("nll_loss", "weight"), ("cross_entropy", "weight")}


def in_double(op, args):
    """(arguments with floating tensors in float64, the tensors that take part in the test)."""

    def one(t):
        return Tensor._fl_from_array(t._fl_array.astype(np.float64), dtypes.float64) if t.dtype.is_floating_point else t

    args = mapped(args, one)
    parts = [a for p, a in zip(op.params, args) if (op.name, p.name) not in CONSTANT]
    tensors = [t for a in parts for t in (a if isinstance(a, (tuple, list)) else (a,)) if isinstance(t, Tensor)]
    return args, [t for t in tensors if t.dtype.is_floating_point]


def total(op, args, weights):
    """The weighted sum of all differentiable outputs, and the outputs."""
    with random_state.at(7, 1):
        outs = flat(op(*args))
    chosen = [
        t for k, t in enumerate(outs) if t.dtype is dtypes.float64 and (k >= len(op.outputs) or op.outputs[k].differentiable)
    ]
    if not weights:
        weights.extend(
            Tensor._fl_from_array(np.random.default_rng(k).standard_normal(t._fl_array.shape), dtypes.float64)
            for k, t in enumerate(chosen)
        )
    out = None
    for t, w in zip(chosen, weights):
        part = (t * w).sum()
        out = part if out is None else out + part
    return out


def slope(function, leaves, directions):
    """The derivative of a number along the directions, by central differences."""
    ends = []
    for sign in (EPS, -EPS):
        for x, d in zip(leaves, directions):
            x._fl_array += sign * d
        ends.append(float(function()._fl_array))
        for x, d in zip(leaves, directions):
            x._fl_array -= sign * d
    return (ends[0] - ends[1]) / (2 * EPS)


def along(grads, directions):
    return float(np.sum([np.sum(g._fl_array * d) for g, d in zip(grads, directions) if g is not None]))


@pytest.mark.parametrize("name", [n for n in NAMES if differentiable(OPS[n])])
def test_gradients(name, make):
    op = OPS[name]
    rng = np.random.default_rng(3)
    tested = 0
    for args in samples(name, make):
        args, leaves = in_double(op, args)
        places = [a for p, a in zip(op.params, args) if p.name in PLACES]
        leaves = [x for x in leaves if x._fl_array.size and np.isfinite(x._fl_array).all() and not any(x is a for a in places)]
        for x in leaves:
            x.requires_grad_()
        weights = []
        out = total(op, args, weights)
        if out is None or not out.requires_grad or not np.isfinite(out._fl_array):
            continue  # halves and infinities have no differences to compare with
        directions = [rng.standard_normal(x._fl_array.shape) for x in leaves]
        grads = grad(out, leaves, create_graph=True, allow_unused=True)
        for x, g in zip(leaves, grads):
            assert g is None or tuple(g.shape) == tuple(x.shape), f"{name}{described(args)}: gradient of shape {list(g.shape)}"
        with no_grad():
            numeric = slope(lambda: total(op, args, weights), leaves, directions)
        assert along(grads, directions) == pytest.approx(numeric, rel=1e-4, abs=1e-6), f"{name}{described(args)}"
        tested += 1
        check_second(name, op, args, weights, leaves, grads, directions)
    assert tested or name in NO_GRADIENT, f"no sample of {name} reaches a gradient"


PLACES = {"rois"}  # floating operands that say where: they have no gradient, and are none a little beside

# composites and records whose results are no floating tensors, or are constant; what needs two devices (tests/cuda)
COMPLEX = {"angle", "complex", "conj", "fft_r2c", "sgn"}
# (complex gradients: tests/eager/test_complex.py; still is 0 and moves by its gradient alone: tests that write through views)
NO_GRADIENT = {"multinomial", "randperm", "edges_below", "last_weight", "bag_winners", "copy", "transfer", "still"} | COMPLEX
NO_GRADIENT.add("exhausted_var")  # (its result is no number: tests/eager/test_edges.py)


ONCE = {"ctc_loss"}  # a second differentiation raises, as in PyTorch


def check_second(name, op, args, weights, leaves, grads, directions):
    """The derivative of <grad, direction> along another direction."""
    if name in ONCE or not any(g is not None and g.requires_grad for g in grads):
        return
    rng = np.random.default_rng(4)
    fixed = [Tensor._fl_from_array(d, dtypes.float64) for d in directions]

    def inner():
        found = grad(total(op, args, weights), leaves, create_graph=True, allow_unused=True)
        parts = [(g * d).sum() for g, d in zip(found, fixed) if g is not None]
        return sum(parts[1:], parts[0])

    others = [rng.standard_normal(x._fl_array.shape) for x in leaves]
    second = grad(inner(), leaves, allow_unused=True)
    numeric = slope(inner, leaves, others)
    assert along(second, others) == pytest.approx(numeric, rel=1e-3, abs=1e-5), f"{name}{described(args)} (second order)"


# -- in-place and out=


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in NAMES
        if OPS[n].kind in (Kind.MAP, Kind.SCATTER, Kind.RANDOM, Kind.SCAN)
        and OPS[n].params[0].is_tensor
        and OPS[n].params[0].role == "tensor"
    ],
)
def test_in_place_equals_plain(name, make):
    op = OPS[name]
    for args in samples(name, make):
        target = args[0]
        if not isinstance(target, Tensor):
            continue
        with random_state.at(5, 3):
            want = flat(op(*args))[0]
        if want.shape != target.shape or want.dtype.category > target.dtype.category or name in ("cast", "empty"):
            continue
        target = target.clone()
        version = target._version
        with random_state.at(5, 3):
            got = op.inplace(target, *args[1:])
        assert got is target and target._version > version
        assert_same(target, want.to(target.dtype), f"{name}_{described(args)}")


@pytest.mark.parametrize("name", [n for n in NAMES if n in api.__all__ and n not in RANDOM])
def test_out(name, make):
    import inspect

    function, op = getattr(api, name), OPS[name]
    if "out" not in inspect.signature(function).parameters or any(p.role not in ("tensor", "tensor?") for p in op.params):
        pytest.skip("no out=, or arguments that are spelled otherwise")
    for args in samples(name, make):
        if not any(isinstance(a, Tensor) for a in args):
            continue
        try:
            want = function(*args)
        except TypeError:
            continue  # a number where the public function wants a tensor
        if isinstance(want, tuple):
            continue
        out = api.empty(tuple(want.shape), dtype=want.dtype)
        assert function(*args, out=out) is out
        assert_same(out, want, f"{name}{described(args)} out=")
        other = api.empty(0, dtype=want.dtype)
        assert function(*args, out=other) is other and other.shape == want.shape


# as_strided reads memory by position and is tested with the tensor's geometry; detach has no gradient by definition
# the compiler's own two records have tests in tests/inductor/test_records.py
WITHOUT_SAMPLES = {"as_strided", "restrided", "detach", "with_value", "restride"}
WITHOUT_SAMPLES |= {"view_as_real", "view_as_complex", "real", "imag", "fft_c2c", "fft_c2r"}  # tests/eager/test_complex.py
WITHOUT_SAMPLES |= {
    "cholesky",
    "cholesky_ex",
    "cholesky_solve",
    "eigh",
    "eig",
    "svd",
}  # of structured matrices, up to signs: tests/oracle/test_names.py
WITHOUT_SAMPLES |= {"gamma_draw"}  # its gradient is a mean's: tests/eager/test_training_tools_and_distributions.py
WITHOUT_SAMPLES |= {"ctc_loss_backward"}  # its gradient is an error, as in PyTorch: below


def test_every_differentiable_record_has_samples():
    """Derived records (in-place, pure, put) are tested through the record that they come from."""
    missing = [
        name
        for name, op in OPS.items()
        if op.sample_rule is None and op.grads and name not in WITHOUT_SAMPLES and not name.endswith(("_put", "_", "_pure"))
    ]
    assert not missing
    assert state.grad


def test_ctc_loss_is_differentiable_once(make):
    x = make(6, 2, 4).requires_grad_()
    loss = flambeau.ctc_loss(x, make.wrap(np.array([[1, 2], [3, 3]])), (6, 5), (2, 2))
    (first,) = grad(loss, [x], create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for ctc_loss_backward is not implemented"):
        first.sum().backward()


@pytest.mark.parametrize("name, to_real", [("fft", False), ("ifft", False), ("rfft", False), ("irfft", True), ("hfft", True)])
@pytest.mark.parametrize("size", [5, 6])
def test_gradients_of_transforms(name, to_real, size):
    """Of the real and the imaginary parts of what goes in, against differences."""
    rng = np.random.default_rng(size)
    parts = [Tensor._fl_from_array(rng.standard_normal((2, size)), dtypes.float64) for _ in range(1 if name == "rfft" else 2)]
    weights = None

    def value():
        nonlocal weights
        out = getattr(flambeau.fft, name)(parts[0] if len(parts) == 1 else flambeau.complex(*parts), norm="ortho")
        out = out if to_real else flambeau.view_as_real(out)
        if weights is None:
            weights = Tensor._fl_from_array(rng.standard_normal(tuple(out.shape)), dtypes.float64)
        return (out * out * weights).sum()

    for x in parts:
        x.requires_grad_()
    directions = [rng.standard_normal((2, size)) for _ in parts]
    grads = grad(value(), parts)
    with no_grad():
        assert along(grads, directions) == pytest.approx(slope(value, parts, directions), rel=1e-5, abs=1e-7)
