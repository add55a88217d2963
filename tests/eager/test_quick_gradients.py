"""Gradients and recorded calls that are one native step: the same as the formulas of the records give, which calls go to that are
to be differentiated again, and as the Python function behind the public one gives."""

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau.eager.op.op import OPS
from flambeau.runtime import lapack, native

FLOATS = ("float32", "float64", "float16", "bfloat16")
SHAPES = ((6,), (1,), (5, 7), (1, 3), (4, 1), (2, 3, 4))


def values(dtype, *shape, seed=0):
    x = np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 2
    return fb.tensor(x).to(getattr(fb, dtype))


def places(high, *shape, seed=1):
    return fb.tensor(np.random.default_rng(seed + sum(shape)).integers(0, high, shape))


def numbers(x):
    return x.detach().to(fb.complex128 if x.is_complex() else fb.float64).numpy()


def near(found, wanted, what):
    assert found.dtype is wanted.dtype and found.shape == wanted.shape and found.stride() == wanted.stride(), what
    size = {fb.float64: 1e-11, fb.float16: 4e-3, fb.bfloat16: 3e-2}.get(wanted.dtype, 3e-5)
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=size, atol=size, err_msg=str(what))


def first(x):
    return x[0] if isinstance(x, tuple) else x


def gradients(function, tensors, g, again):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    passed = [t * 1 for t in leaves]  # (a leaf's gradient would be laid out as the leaf is)
    for t in passed:
        t.retain_grad()
    out = first(function(*passed))
    out.backward(g if g is not None else fb.ones_like(out), create_graph=again)
    return out, [t.grad.detach() for t in passed]


def forms(shape, dtype):
    """Gradients in memory of several kinds."""
    yield values(dtype, *shape, seed=5)
    yield fb.ones(()).to(getattr(fb, dtype)).expand(shape)
    if shape:
        yield values(dtype, *shape, 2, seed=5)[..., 0]


def check(function, *tensors, what="", plain=None):
    """`plain`: the function behind the public one."""
    shape = first(function(*tensors)).shape
    dtype = first(function(*tensors)).dtype
    kind = str(dtype).split(".")[1]
    for g in forms(shape, kind) if dtype.is_floating_point else [None]:
        out, quick = gradients(function, tensors, g, False)
        general, wanted = gradients(plain or function, tensors, g, True)
        near(out, general, what)
        for a, b in zip(quick, wanted, strict=True):
            near(a, b, what)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["logsumexp", "var", "std", "norm1", "norm2", "norm3", "max", "min", "sum", "mean", "prod"])
def test_reductions(name, dtype):
    for shape in SHAPES:
        x = values(dtype, *shape)
        for dim in range(-1, len(shape) - 1):
            for keepdim in (False, True):
                if name in ("var", "std") and shape[dim] < 2:
                    continue
                norm = name.startswith("norm")
                public = getattr(fb, "norm" if norm else name)

                def call(f, x, dim=dim, keepdim=keepdim, norm=norm):
                    return f(x, int(name[-1]), dim, keepdim) if norm else f(x, dim, keepdim=keepdim)

                check(
                    lambda x, public=public, call=call: call(public, x),
                    x,
                    what=(name, shape, dim, keepdim),
                    plain=lambda x, public=public, call=call: call(public.__wrapped__, x),
                )


@pytest.mark.parametrize("name", ["logsumexp", "norm", "std", "max", "prod", "nansum"])
def test_reductions_of_odd_numbers(name):
    rows = (
        [0.0, 0.0, 0.0],
        [np.inf, 1.0, 2.0],
        [-np.inf, -np.inf, -np.inf],
        [np.nan, 1.0, 2.0],
        [-np.inf, 0.0, 1.0],
        [2.0, 2.0, 2.0],
    )
    for row in rows:
        x = fb.tensor([row, [1.0, 2.0, 3.0]])
        public = getattr(fb, name)
        call = (lambda f, x: f(x, 2.0, -1)) if name == "norm" else (lambda f, x: f(x, -1))
        found, wanted = (first(call(f, x)) for f in (public, public.__wrapped__))
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6, err_msg=str(row))
        _, quick = gradients(lambda x, call=call, public=public: call(public, x), [x], None, False)
        _, general = gradients(lambda x, call=call, public=public: call(public.__wrapped__, x), [x], None, True)
        np.testing.assert_allclose(quick[0].numpy(), general[0].numpy(), rtol=1e-5, atol=1e-6, err_msg=str(row))


def test_sums_over_dims_that_are_apart():
    for dtype in FLOATS:
        x = values(dtype, 3, 4, 5)
        for dim in ((0, 2), (2, 0), (-1, 0), (0, 1, 2), ()):
            for f in (fb.sum, fb.mean):
                check(lambda x, f=f, dim=dim: f(x, dim), x, what=dim, plain=lambda x, f=f, dim=dim: f.__wrapped__(x, dim))


@pytest.mark.parametrize("dtype", FLOATS)
def test_indexing(dtype):
    x = values(dtype, 6)
    table = values(dtype, 5, 4, 3)
    k, mask = places(6, 9), fb.tensor([True, False, True, True, False, False])
    general = OPS["index"]
    check(lambda x: x[k], x, plain=lambda x: general(x, (k,), (0,)))
    check(lambda x: x[k - 6], x, plain=lambda x: general(x, (k - 6,), (0,)))
    check(lambda x: x[mask], x, plain=lambda x: general(x, (mask.nonzero()[:, 0],), (0,)))
    check(lambda x: x.masked_select(mask), x, plain=lambda x: fb.masked_select.__wrapped__(x, mask))
    check(lambda x: x.take(k), x, plain=lambda x: fb.take.__wrapped__(x, k))
    i, j = places(5, 2, 3), places(4, 2, 3, seed=2)
    check(lambda t: t[i], table, plain=lambda t: general(t, (i,), (0,)))
    check(lambda t: t[i, j], table, plain=lambda t: general(t, (i, j), (0, 1)))
    check(
        lambda t: t[(table > 0)[:, :, 0]],
        table,
        plain=lambda t: general(t, tuple((table > 0)[:, :, 0].nonzero(as_tuple=True)), (0, 1)),
    )


def test_an_index_that_is_written_to_is_missed():
    x, k = fb.randn(5, requires_grad=True), places(5, 3)
    out = x[k]
    k.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_indices_out_of_range():
    for x in (fb.randn(4), fb.randn(4, requires_grad=True)):
        for k in (fb.tensor([4]), fb.tensor([-5])):
            with pytest.raises(IndexError):
                x[k]
            with pytest.raises(IndexError):
                x.view(2, 2)[k % 2, k]


@pytest.mark.parametrize("dtype", FLOATS)
def test_norms(dtype):
    for shape, own in (((5, 4), (4,)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (4,)), ((1, 1), (1,))):
        x, w, v = values(dtype, *shape), values(dtype, *own), values(dtype, *own, seed=3)
        check(
            lambda x, w, v, own=own: F.layer_norm(x, own, w, v),
            x,
            w,
            v,
            what=shape,
            plain=lambda x, w, v, own=own: F.layer_norm.__wrapped__(x, own, w, v),
        )
        check(lambda x, own=own: F.layer_norm(x, own), x, plain=lambda x, own=own: F.layer_norm.__wrapped__(x, own))
    if dtype != "float32":
        return
    for shape in ((4, 6), (2, 6, 3), (2, 6, 3, 2)):
        x, w, v = values(dtype, *shape), values(dtype, 6), values(dtype, 6, seed=3)
        m, q = values(dtype, 6, seed=4), values(dtype, 6, seed=5).abs()
        for f in (lambda f, x, w, v: f(x, 3, w, v),):
            check(
                lambda x, w, v, f=f: f(F.group_norm, x, w, v),
                x,
                w,
                v,
                plain=lambda x, w, v, f=f: f(F.group_norm.__wrapped__, x, w, v),
            )
        for training in (True, False):
            check(
                lambda x, w, v, t=training: F.batch_norm(x, m.clone(), q.clone(), w, v, t),
                x,
                w,
                v,
                plain=lambda x, w, v, t=training: F.batch_norm.__wrapped__(x, m.clone(), q.clone(), w, v, t),
            )
            check(
                lambda x, t=training: F.batch_norm(x, m.clone(), q.clone(), None, None, t),
                x,
                plain=lambda x, t=training: F.batch_norm.__wrapped__(x, m.clone(), q.clone(), None, None, t),
            )


def test_the_running_moments_of_recorded_calls():
    x = values("float32", 4, 3, 2).requires_grad_()
    found, wanted = ([fb.zeros(3), fb.ones(3)] for _ in range(2))
    F.batch_norm(x, *found, None, None, True)
    F.batch_norm.__wrapped__(x, *wanted, None, None, True)
    for a, b in zip(found, wanted):
        near(a, b, "moments")


def test_transforms():
    for shape in ((10,), (4, 6), (3, 4, 5), (2, 9)):
        x = values("float32", *shape)
        for name, *args in (
            ("fft",),
            ("ifft",),
            ("fft2",),
            ("ifft2",),
            ("fftn",),
            ("ifftn",),
            ("rfft",),
            ("rfft2",),
            ("rfftn",),
            ("fft", None, 0),
            ("fftn", None, (0,)),
            ("fft", None, -1),
        ):
            if name.endswith("2") and len(shape) < 2:
                continue
            f = getattr(fb.fft, name)
            for y in [x] if name.startswith("r") else [x, fb.complex(x, x.flip(0))]:
                check(
                    lambda y, f=f, args=args: f(y, *args),
                    y,
                    what=(name, shape),
                    plain=lambda y, f=f, args=args: f.__wrapped__(y, *args),
                )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(dtype):
    for equation, left, right in (
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        ("i,j->ij", (3,), (4,)),
        ("ij,jk->ik", (3, 4), (4, 5)),
        ("ij, jk -> ki", (3, 4), (4, 5)),
        ("i,i->", (5,), (5,)),
        ("bi,bi->b", (3, 4), (3, 4)),
        ("bi,bj->bij", (3, 4), (3, 2)),
        ("i,i->i", (5,), (5,)),
        ("ij,i->j", (3, 4), (3,)),
        ("ij,k->ik", (3, 4), (2,)),
        ("ij,ij->i", (3, 1), (3, 4)),
    ):
        check(
            lambda x, y, e=equation: fb.einsum(e, x, y),
            values(dtype, *left),
            values(dtype, *right, seed=2),
            what=equation,
            plain=lambda x, y, e=equation: fb.einsum.__wrapped__(e, x, y),
        )
    a, b = values(dtype, 3, 4), values(dtype, 4, 5)
    check(lambda x, y: fb.tensordot(x, y, 1), a, b, plain=lambda x, y: fb.tensordot.__wrapped__(x, y, 1))
    check(lambda x, y: fb.kron(x, y), a, b, plain=fb.kron.__wrapped__)
    check(lambda x, y: fb.cross(x, y), values(dtype, 4, 3, 2), values(dtype, 4, 3, 2, seed=2), plain=fb.cross.__wrapped__)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_extremes_at_places(reduce):
    for shape, index, d in (((6,), (9,), 0), ((4, 3), (5, 3), 0), ((4, 3), (4, 2), 1)):
        x, y = values("float32", *shape).round(), values("float32", *index, seed=7).round()  # (some tie)
        k = places(shape[d], *index)
        check(
            lambda x, y, d=d, k=k: x.scatter_reduce(d, k, y, reduce),
            x,
            y,
            what=(shape, d),
            plain=lambda x, y, d=d, k=k: fb.scatter_reduce.__wrapped__(x, d, k, y, reduce),
        )
    with pytest.raises(RuntimeError):
        fb.randn(3).scatter_reduce(0, fb.tensor([3]), fb.ones(1), reduce)


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions(dtype):
    for n, sizes, taps in ((1, (6,), (3,)), (2, (5, 4), (2, 3)), (3, (3, 4, 3), (2, 1, 2))):
        x, w, b = values(dtype, 2, 4, *sizes), values(dtype, 6, 2, *taps, seed=2), values(dtype, 6, seed=3)
        for name, weight in ((f"conv{n}d", w), (f"conv_transpose{n}d", values(dtype, 4, 3, *taps, seed=2))):
            f = getattr(F, name)
            check(
                lambda x, w, b, f=f: f(x, w, b, 2, 1, groups=2),
                x,
                weight,
                b,
                what=name,
                plain=lambda x, w, b, f=f: f.__wrapped__(x, w, b, 2, 1, groups=2),
            )
            check(
                lambda x, w, f=f: f(x, w, groups=2), x, weight, what=name, plain=lambda x, w, f=f: f.__wrapped__(x, w, groups=2)
            )


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    for q, k, v in (
        ((1, 4, 1, 16), (1, 4, 32, 16), (1, 4, 32, 16)),
        ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)),
        ((1, 1, 60, 3), (1, 1, 60, 3), (1, 1, 60, 2)),
    ):
        tensors = [values("float32", *shape, seed=s) for s, shape in enumerate((q, k, v))]
        check(
            lambda *t: F.scaled_dot_product_attention(*t, is_causal=causal),
            *tensors,
            what=(q, k, v),
            plain=lambda *t: F.scaled_dot_product_attention.__wrapped__(*t, is_causal=causal),
        )
        for leads in range(3):  # some of them without a gradient
            x = [t.clone().requires_grad_(j == leads) for j, t in enumerate(tensors)]
            y = [t.clone().requires_grad_(j == leads) for j, t in enumerate(tensors)]
            F.scaled_dot_product_attention(*x, is_causal=causal).square().sum().backward()
            F.scaled_dot_product_attention.__wrapped__(*y, is_causal=causal).square().sum().backward()
            assert [t.grad is None for t in x] == [j != leads for j in range(3)]
            near(x[leads].grad, y[leads].grad, leads)


def test_windows_added_back():
    for shape, d, size, step in (
        ((9,), 0, 4, 2),
        ((3, 11), 1, 3, 4),
        ((11, 3), 0, 5, 1),
        ((2, 8, 3), 1, 8, 3),
        ((4, 4), 1, 1, 1),
    ):
        for dtype in FLOATS:
            check(
                lambda x, d=d, size=size, step=step: x.unfold(d, size, step), values(dtype, *shape), what=(shape, d, size, step)
            )
            windows = values(dtype, *shape).unfold(d, size, step)
            found = OPS["unfold_backward"](shape, windows, d, size, step)
            np.testing.assert_allclose(
                numbers(found),
                OPS["unfold_backward"].kernels["numpy"](shape, numbers(windows), d, size, step),
                rtol=3e-2,
                atol=6e-2,
            )


def test_orthogonal_factors():
    for shape in ((1, 1), (3, 3), (5, 2), (2, 5), (32, 7), (7, 32), (33, 2), (0, 2)):
        for seed in range(3):
            x = values("float32", *shape, seed=seed)
            if seed == 1 and min(shape) > 1:
                x[:, 1] = x[:, 0]
            if seed == 2 and x.numel():
                x[0] = 0
            for a, b in zip(fb.linalg.qr(x), fb.linalg.qr.__wrapped__(x), strict=True):
                assert a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype
            q, r = fb.linalg.qr(x)
            assert type(fb.linalg.qr(x)) is type(fb.linalg.qr.__wrapped__(x)) and not r.tril(-1).any()
            np.testing.assert_allclose((q @ r).numpy(), x.numpy(), atol=2e-5)
            np.testing.assert_allclose((q.mT @ q).numpy(), np.eye(q.shape[1]), atol=2e-6)
            if seed == 0:
                near(r, fb.linalg.qr.__wrapped__(x)[1], shape)
                near(q, fb.linalg.qr.__wrapped__(x)[0], shape)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        fb.linalg.qr(fb.ones(3))
    odd = fb.tensor([[1.0, np.nan], [2.0, np.inf]])
    np.testing.assert_array_equal(fb.linalg.qr(odd)[1].numpy(), fb.linalg.qr.__wrapped__(odd)[1].numpy())


def test_orthogonal_factors_of_large_matrices():
    """Floats go to LAPACK's own functions of floats, beyond 32 rows and columns: the signs are those of the factors in doubles."""
    if native.get_blas_threads():  # (an OpenBLAS is loaded)
        assert lapack.qr(values("float32", 40, 33).numpy()) is not None
    for shape in ((33, 33), (65, 65), (130, 70), (70, 130), (300, 40)):
        x = values("float32", *shape)
        for given in (x, values("float32", *shape[::-1], seed=1).t(), values("float32", shape[0], 2 * shape[1])[:, ::2]):
            before = given.clone()
            q, r = fb.linalg.qr(given)
            assert fb.equal(given, before) and not r.tril(-1).any()
            assert q.shape == (shape[0], min(shape)) and q.is_contiguous() and r.is_contiguous()
            in_doubles = [part.float() for part in fb.linalg.qr(given.double())]
            np.testing.assert_allclose(q.numpy(), in_doubles[0].numpy(), atol=2e-4)
            np.testing.assert_allclose(r.numpy(), in_doubles[1].numpy(), atol=2e-3)
            np.testing.assert_allclose((q @ r).numpy(), given.numpy(), atol=1e-4)
            np.testing.assert_allclose((q.mT @ q).numpy(), np.eye(q.shape[1]), atol=5e-6)
    odd = values("float32", 80, 80)
    odd[3, 4] = np.nan
    assert fb.linalg.qr(odd)[1].isnan().any()
    alike = fb.ones(100, 80)
    q, r = fb.linalg.qr(alike)
    np.testing.assert_allclose((q @ r).numpy(), alike.numpy(), atol=1e-5)
    assert fb.linalg.qr(alike, "complete")[0].shape == (100, 100)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_maxima_of_windows(dtype):
    for shape, sizes in (
        ((2, 3, 7), (3,)),
        ((2, 3, 5, 7), (3, 4)),
        ((1, 2, 4, 4), (2, 2)),
        ((2, 2, 5, 4, 6), (2, 3, 5)),
        ((3, 5, 6), (1, 1)),
    ):
        n = len(sizes)
        check(
            lambda x, n=n, sizes=sizes: getattr(F, f"adaptive_max_pool{n}d")(x, sizes), values(dtype, *shape), what=(shape, sizes)
        )
        if n > 1:
            room = [max(m - 2, 1) for m in shape[-n:]]
            drawn = fb.rand(
                *((1,) if len(shape) == n + 1 else shape[:1]), shape[-n - 1], n, generator=fb.Generator().manual_seed(1)
            )
            check(
                lambda x, n=n, room=room, drawn=drawn: getattr(F, f"fractional_max_pool{n}d")(
                    x, 2, room, _random_samples=drawn.to(x.dtype)
                ),
                values(dtype, *shape),
                what=(shape, room),
            )


def test_running_logsumexp():
    for shape in SHAPES:
        x = values("float32", *shape)
        for d in range(len(shape)):
            near(x.logcumsumexp(d), fb.logcumsumexp.__wrapped__(x, d), (shape, d))
    odd = fb.tensor([-np.inf, -np.inf, 1.0, 1.0, -np.inf, np.inf, 2.0, np.nan, 1.0])
    np.testing.assert_allclose(odd.logcumsumexp(0).numpy(), fb.logcumsumexp.__wrapped__(odd, 0).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_draws_the_same(name):
    f = getattr(F, name)
    for shape in ((3, 4, 5), (2, 3, 4, 5), (2, 3, 2, 2, 2), (4, 5)):
        for p in (0.5, 0.1, 0.0, 1.0):
            for tracked in (False, True):
                told = []
                for g in (f, f.__wrapped__):
                    fb.manual_seed(3)
                    x = values("float32", *shape).requires_grad_(tracked)
                    try:
                        out = g(x, p, True)
                    except Exception as error:
                        told.append((type(error), str(error)))
                        continue
                    if tracked:
                        out.sum().backward()
                    told.append(
                        (out.detach().numpy().tobytes(), x.grad.numpy().tobytes() if tracked else None, fb.rand(1).item())
                    )
                assert told[0] == told[1], (shape, p, tracked)


@pytest.mark.parametrize("again", [False, True])
def test_a_second_backward(again):
    """What saves nothing may be run again; the rest raises."""
    x = fb.randn(3, 4, requires_grad=True)
    for f, saves in ((lambda: x.sum((0, 1)), False), (lambda: x.logsumexp(1), True), (lambda: x.max(1)[0], True)):
        out = f()
        out.sum().backward(retain_graph=again)
        if again or not saves:
            out = out.sum()
            out.backward()


def test_hooks_and_versions_of_outputs():
    x = fb.randn(3, 4, requires_grad=True)
    out = x.logsumexp(1)
    out.register_hook(lambda g: g * 2)
    out.sum().backward()
    wanted = fb.softmax(x.detach(), 1) * 2
    np.testing.assert_allclose(x.grad.numpy(), wanted.numpy(), rtol=1e-5)
    values_, indices = x.max(1)
    indices.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values_.sum().backward()


def test_the_native_step_is_taken():
    """What these calls would do in Python is not asked."""
    names = [
        ("logsumexp", lambda x: x.logsumexp(1)),
        ("std", lambda x: x.std(1)),
        ("norm", lambda x: x.norm(2.0, 1)),
        ("max_dim", lambda x: x.max(1)[0]),
        ("index", lambda x: x[fb.tensor([1, 2])]),
        ("cross", lambda x: fb.cross(x, x, dim=1)),
        ("contract", lambda x: fb.einsum("ij,kj->ik", x, x)),
        ("layer_norm", lambda x: F.layer_norm(x, (3,))),
        ("group_norm", lambda x: F.group_norm(x, 1)),
        ("batch_norm", lambda x: F.batch_norm(x, fb.zeros(3), fb.ones(3), None, None, True)),
        ("kron", lambda x: fb.kron(x, x)),
        ("attention", lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3)),
        ("adaptive_max_pool", lambda x: F.adaptive_max_pool1d(x, 2)),
        ("fractional_max", lambda x: F.fractional_max_pool2d(x[None], 2, 2)[0]),
        ("scatter_extreme", lambda x: x.scatter_reduce(0, fb.zeros(3, 3, dtype=fb.int64), x, "amax")),
    ]
    for name, f in names:
        x = values("float32", 3, 3).requires_grad_()
        out = f(x)
        asked, formulas = [], OPS[name].grads
        kept = dict(formulas)
        formulas.clear()
        formulas.update({k: Asked(asked, v) for k, v in kept.items()})
        try:
            out.backward(fb.ones_like(out))
        finally:
            formulas.clear()
            formulas.update(kept)
        assert not asked and x.grad is not None, name


class Asked:
    """A formula that tells that it was called."""

    def __init__(self, asked, formula):
        self.asked, self.formula, self.sources = asked, formula, formula.sources

    def fn(self, *args):
        self.asked.append(1)
        return self.formula.fn(*args)

    def __call__(self, *args):
        self.asked.append(1)
        return self.formula(*args)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_hooks_keep_is_asked_for_once(dtype):
    """A native step that declines leaves the formula its one look at what was packed."""
    kept, asked = [], []

    def pack(t):
        kept.append(t)
        return len(kept) - 1

    def unpack(k):
        assert k not in asked
        asked.append(k)
        return kept[k]

    x = values(dtype, 1, 2, 4, 8).requires_grad_()
    with fb.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = F.scaled_dot_product_attention(x, x, x).sum() + F.batch_norm(x, None, None, training=True).square().sum()
    loss.backward()
    assert sorted(asked) == list(range(len(kept)))
