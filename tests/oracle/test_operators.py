"""The operators below PyTorch's layers, copies of views, factorisations and rare methods: values, gradients and errors as
PyTorch's, eagerly and (what records make up) compiled."""

import warnings

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")

from .test_names import compare, flat, gradients, tensors

RNG = np.random.default_rng(11)
A, W, V = (RNG.standard_normal(s) for s in ((2, 3, 4), (6, 3), (5, 4)))
IMAGE, VOLUME = RNG.standard_normal((2, 4, 5, 6)), RNG.standard_normal((1, 2, 3, 4, 3))
GRID, GRID3 = RNG.uniform(-1.1, 1.1, (2, 3, 4, 2)), RNG.uniform(-1.1, 1.1, (1, 2, 2, 3, 3))
KERNEL, KERNEL1, UP = (RNG.standard_normal(s) for s in ((6, 2, 3, 3), (5, 3, 2), (4, 3, 2, 2)))
SPD = (lambda x: x @ x.T + np.eye(12))(RNG.standard_normal((12, 12)))
INDEX, STARTS = np.array([0, 2, 2, 5, 1, 3]), np.array([0, 2, 2])
SIX = RNG.standard_normal((3, 6))

CASES, EAGER = {}, set()


def case(name, fn, *arrays, compiled=True):
    key = f"{name}-{len(CASES)}"
    CASES[key] = fn, arrays
    if not compiled:
        EAGER.add(key)


# -- copies of views
for _name, _args in [
    ("alias", ()),
    ("as_strided", ((3, 2), (1, 5), 2)),
    ("diagonal", (1, 0, 2)),
    ("expand", ((2, 2, 3, 4),)),
    ("narrow", (2, 1, 2)),
    ("permute", ((2, 0, 1),)),
    ("select", (1, -1)),
    ("slice", (2, 1, None, 2)),
    ("slice", ()),
    ("split", (2, 2)),
    ("split_with_sizes", ((1, 2), 1)),
    ("squeeze", ()),
    ("squeeze", (0,)),
    ("transpose", (0, 2)),
    ("unbind", (1,)),
    ("unfold", (2, 2, 1)),
    ("unsqueeze", (-1,)),
    ("view", ((4, 6),)),
]:
    case(_name + "_copy", lambda L, x, n=_name, a=_args: getattr(L, n + "_copy")(x, *a), A)
case("t_copy", lambda L, x: L.t_copy(x), W)
case("view_as_real_copy", lambda L, x: L.view_as_real_copy(L.view_as_complex_copy(x.detach().reshape(2, 3, 2, 2)) * 2), A)
case("detach_copy", lambda L, x: L.detach_copy(x).detach(), A)
case("view_copy", lambda L, x: L.view_copy(x.detach(), dtype=L.int64), A)
case("narrow_copy", lambda L, x: x.narrow_copy(0, 1, 1), A)

# -- operators
for _mode in (0, 1, 2):
    case("embedding_bag", lambda L, w, i, o, m=_mode: L.embedding_bag(w, i, o, False, m), W, INDEX, STARTS)
    case(
        "embedding_bag",
        lambda L, w, i, o, m=_mode: L.embedding_bag(w.float(), i, o, False, m, False, None, True),
        W,
        INDEX,
        np.array([0, 2, 6]),
    )
    case(
        "embedding_bag",
        lambda L, w, i, o, m=_mode: L.embedding_bag(w.float(), i, o, False, m, False, None, False, 2),
        W,
        INDEX,
        STARTS,
    )
case("embedding_bag", lambda L, w, i, o, s: L.embedding_bag(w, i, o, False, 0, False, s), W, INDEX, STARTS, V[0].repeat(2)[:6])
case("embedding_renorm_", lambda L, w, i: L.embedding_renorm_(w.detach().clone(), i, 0.5, 2.0), W, INDEX, compiled=False)
case("convolution", lambda L, x, w: L.convolution(x, w, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2), IMAGE, KERNEL)
case("convolution", lambda L, x, w, b: L.convolution(x, w, b, [1], [0], [1], False, [0], 1), A, KERNEL1, V[:, 0].copy())
case("convolution", lambda L, x, w: L.convolution(x, w, None, [2, 2], [0, 1], [1, 1], True, [1, 0], 1), IMAGE, UP)
case(
    "conv_tbc",
    lambda L, x, w, b: L.conv_tbc(x, w, b, 1),
    RNG.standard_normal((5, 2, 3)),
    RNG.standard_normal((2, 3, 4)),
    V[0].copy(),
)
case("constant_pad_nd", lambda L, x: L.constant_pad_nd(x, (1, -1, 0, 2), 1.5), A)
for _mode in (0, 1, 2):
    case("grid_sampler", lambda L, x, g, m=_mode: L.grid_sampler(x, g, m, m, False), IMAGE, GRID)
case("grid_sampler_2d", lambda L, x, g: L.grid_sampler_2d(x, g, 0, 1, True), IMAGE, GRID)
case("grid_sampler_3d", lambda L, x, g: L.grid_sampler_3d(x, g, 0, 0, True), VOLUME, GRID3)
case("affine_grid_generator", lambda L, x: L.affine_grid_generator(x[:, :2, :3], [2, 1, 3, 2], True), A)
case("native_layer_norm", lambda L, x, w: L.native_layer_norm(x, [4], w, None, 1e-5), A, V[0].copy())
case("native_layer_norm", lambda L, x: L.native_layer_norm(x, [3, 4], None, None, 1e-5), A)
case("native_group_norm", lambda L, x, w: L.native_group_norm(x, w, None, 2, 4, 30, 2, 1e-5), IMAGE, V[0].copy())
case("native_batch_norm", lambda L, x, w: L.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-5), IMAGE, V[0].copy())
case(
    "native_batch_norm",
    lambda L, x, m, v: (L.native_batch_norm(x, None, None, m.detach(), v.detach(), True, 0.1, 1e-5), m, v),
    IMAGE,
    V[0].copy(),
    np.abs(V[1]),
)
case(
    "native_batch_norm",
    lambda L, x, m, v: L.native_batch_norm(x, None, None, m.detach(), v.detach(), False, 0.1, 1e-5),
    IMAGE,
    V[0].copy(),
    np.abs(V[1]),
)
case("native_dropout", lambda L, x: (L.native_dropout(x, 0.4, False), L.native_dropout(x, 1.0, True)), A)
case(
    "celu_",
    lambda L, x: (
        L.celu_(x + 0, 0.7),
        L.threshold_(x + 0, 0.1, 3.0),
        L.rrelu_(x + 0),
        L.selu_(x + 0),
        L.nn.functional.rrelu(x + 0, inplace=True),
    ),
    A,
)
case("frobenius_norm", lambda L, x: (L.frobenius_norm(x, [0, 2]), L.frobenius_norm(x, 1, True), L.frobenius_norm(x, [])), A)
case(
    "nuclear_norm",
    lambda L, x: (
        L.nuclear_norm(x),
        L.nuclear_norm(x, True),
        L.nuclear_norm(x, (0, 2)),
        L.nuclear_norm(x, dim=[1, 0], keepdim=True),
    ),
    A,
)
case("norm_except_dim", lambda L, x: [L.norm_except_dim(x, 2, d) for d in (-1, 0, 1, 2)], A)
case(
    "nonzero_static",
    lambda L, x: (
        L.nonzero_static(x > 0.3, size=20),
        L.nonzero_static(x > 0, size=2, fill_value=9),
        (x > 0).nonzero_static(size=0),
    ),
    A,
)
case("nonzero_static", lambda L, x: (L.nonzero_static(x.sum().detach(), size=2), L.nonzero_static(x[:0], size=2)), A)
case(
    "empty_permuted",
    lambda L: [L.tensor(L.empty_permuted((2, 3, 4), o).stride()) for o in ((2, 0, 1), (0, 1, 2), (1, 2, 0))],
    compiled=False,
)
for _how in "sum mean max min prod".split():
    for _start in (None, 0.5):
        case("segment_reduce", lambda L, x, h=_how, s=_start: L.segment_reduce(x, h, lengths=L.tensor([2, 0, 1]), initial=s), SIX)
    case("segment_reduce", lambda L, x, h=_how: L.segment_reduce(x, h, lengths=L.tensor([[1, 5], [6, 0], [2, 4]]), axis=1), SIX)
    case("segment_reduce", lambda L, x, h=_how: L.segment_reduce(x, h, offsets=L.tensor([0, 2, 3])), SIX)
case(
    "histogramdd",
    lambda L, x: [L.histogramdd(x.detach(), [3, 2, 2]).hist, *L.histogramdd(x.detach(), 2).bin_edges],
    W,
    compiled=False,
)
case(
    "histogramdd",
    lambda L, x: L.histogramdd(x.detach(), [2, 3, 1], [-1.0, 1.0, -2.0, 2.0, 0.0, 1.0], L.arange(6.0, dtype=x.dtype), True).hist,
    W,
    compiled=False,
)
case(
    "histogramdd", lambda L, x: L.histogramdd(x.detach(), [L.tensor([-1.0, 0.0, 3.0], dtype=x.dtype)] * 3).hist, W, compiled=False
)

# -- factorisations
case("geqrf", lambda L, x: tuple(L.geqrf(x.detach())), A, compiled=False)
case("geqrf", lambda L, x: tuple(x.detach().mT.geqrf()), A, compiled=False)
for _left, _turned in ((True, False), (True, True), (False, False), (False, True)):
    case(
        "ormqr",
        lambda L, x, y, s=_left, t=_turned: L.ormqr(*L.geqrf(x.detach()), y if s else y.mT, s, t),
        W,
        SIX.T.copy(),
        compiled=False,
    )
    case("ormqr", lambda L, a, t, y, s=_left, u=_turned: L.ormqr(a, t, y if s else y.mT, s, u), W, V[0, :3].copy(), SIX.T.copy())
case("lu", lambda L, x: L.lu(x), SPD, compiled=False)
case("lu", lambda L, x: (x.lu(), tuple(L.lu(x, get_infos=True))), SPD, compiled=False)
case(
    "svd_lowrank",
    lambda L, x: (L.svd_lowrank(x, 3)[1], (lambda u, s, v: (u * s) @ v.mT)(*L.svd_lowrank(x, q=3))),
    W,
    compiled=False,
)
case("svd_lowrank", lambda L, x, m: L.svd_lowrank(x.mT, 3, M=m.mT)[1], W, W[:1].copy() * 2, compiled=False)
case(
    "pca_lowrank",
    lambda L, x: (L.pca_lowrank(x)[1], L.pca_lowrank(x, 3, center=False)[1], L.pca_lowrank(x, q=3, niter=3)[2] ** 2),
    W,
    compiled=False,
)
case("lobpcg", lambda L, x: (L.lobpcg(x.detach(), 3)[0], L.lobpcg(x.detach(), 1, tol=1e-10)[1] ** 2), SPD, compiled=False)
case(
    "lobpcg",
    lambda L, x: L.lobpcg(x.detach(), 2, B=L.diag(L.arange(1.0, 13.0)).to(x.dtype), largest=False, tol=1e-10)[0],
    SPD,
    compiled=False,
)
case("lobpcg", lambda L, x: L.lobpcg(L.stack([x, x * 2]).detach(), k=2, tol=1e-10)[0], SPD, compiled=False)

# -- methods
case(
    "apply_",
    lambda L, x: (
        x.detach().clone().apply_(lambda v: v * 2),
        x.detach().clone().mT.apply_(lambda v: v + 1),
        (x * 3).detach().int().apply_(lambda v: v * 1.5),
    ),
    A,
    compiled=False,
)
case(
    "map_",
    lambda L, x: (
        x.detach().clone().map_(x[0].detach(), lambda v, w: v + 2 * w),
        x.detach().clone().map2_(x[:1].detach(), x[0, 0].detach(), lambda v, w, u: v * w - u),
    ),
    A,
    compiled=False,
)
case("complex", lambda L, x: (x.cfloat(), x.float().cdouble()), A)
case("as_strided_", lambda L, x: (L.as_strided_(x + 0, (3, 2), (1, 5)), (x + 0).as_strided_((2,), (2,), 3)), A)
case(
    "new_empty_strided",
    lambda L, x: (L.tensor(x.new_empty_strided((2, 3), (1, 2)).stride()), x.new_empty_strided((2, 0), (1, 2), dtype=L.int32)),
    A,
    compiled=False,
)
case(
    "dim_order",
    lambda L: [
        L.tensor(x.dim_order(), dtype=L.int64)
        for x in (
            L.empty(2, 3, 4),
            L.empty(2, 3, 4).permute(2, 0, 1),
            L.empty(2, 3, 4, 5).to(memory_format=L.channels_last),
            L.empty(2, 1, 1, 4),
            L.empty_strided((1, 3, 1, 1), (3, 1, 3, 3)),
            L.empty(()),
            L.empty(3).expand(2, 3),
            L.empty(0, 3),
            L.empty(4, 1, 3).transpose(0, 1),
        )
    ],
    compiled=False,
)
case("const_data_ptr", lambda L, x: L.tensor(x.const_data_ptr() == x.data_ptr()), A, compiled=False)

INDEFINITE = (lambda x: x + np.swapaxes(x, -1, -2))(RNG.standard_normal((4, 7, 7)))
INDEFINITE[1, np.arange(7), np.arange(7)] = 0  # blocks of two
INDEFINITE[2, :3, :3] = 0
for _kind in ("float64", "complex128"):
    case("ldl_factor", lambda L, x, k=_kind: tuple(L.linalg.ldl_factor(x.detach().to(getattr(L, k)))), INDEFINITE, compiled=False)
    case(
        "ldl_solve",
        lambda L, x, b, k=_kind: L.linalg.ldl_solve(
            *L.linalg.ldl_factor(x.detach().to(getattr(L, k))), b.detach().to(getattr(L, k))
        ),
        INDEFINITE,
        RNG.standard_normal((4, 7, 2)),
        compiled=False,
    )
HERMITIAN = (lambda x: x + np.swapaxes(x.conj(), -1, -2))(RNG.standard_normal((2, 6, 6)) + 1j * RNG.standard_normal((2, 6, 6)))
case("ldl_factor", lambda L, x: tuple(L.linalg.ldl_factor(x.detach(), hermitian=True)), HERMITIAN, compiled=False)
case(
    "ldl_solve",
    lambda L, x: L.linalg.ldl_solve(*L.linalg.ldl_factor(x.detach(), hermitian=True), x[..., :2].detach(), hermitian=True),
    HERMITIAN,
    compiled=False,
)
case(
    "ldl_factor_ex",
    lambda L, x: (
        tuple(L.linalg.ldl_factor_ex(x[:, :0, :0].detach())),
        L.linalg.ldl_factor_ex(x.detach() * 0).info,
        *L.linalg.ldl_factor_ex(L.tensor([[0.0, 1.0], [1.0, 0.0]])),
    ),
    INDEFINITE,
    compiled=False,
)


# what breaks graphs: values of other types, products and extremes that are scattered, geometry in place
BREAKING = {"view_copy", "embedding_bag", "segment_reduce", "as_strided_"}


def results(library, name, compiled=False):
    fn, arrays = CASES[name]
    inputs = tensors(library, arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = lambda *given: fn(library, *given)
        whole = name.partition("-")[0] not in BREAKING
        outs = flat((library.compile(run, backend="loops", fullgraph=whole) if compiled else run)(*inputs))
        return outs, gradients(library, outs, inputs)


KEPT = {}


@pytest.mark.parametrize(
    "name, compiled", [(name, how) for name in CASES for how in (False, True) if not how or name not in EAGER]
)
def test_values_and_gradients(name, compiled):
    if name not in KEPT:
        KEPT[name] = results(torch, name)
    (mine, my_grads), (theirs, their_grads) = results(flambeau, name, compiled), KEPT[name]
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        compare(a, b, f"output {k}")
    for k, (a, b) in enumerate(zip(my_grads, their_grads, strict=True)):
        if b is not None or a is not None:
            compare(
                flambeau.zeros(tuple(b.shape), dtype=flambeau.float64) if a is None else a,
                torch.zeros(tuple(a.shape), dtype=torch.float64) if b is None else b,
                f"gradient {k}",
            )


def x(L):
    return L.arange(24.0).reshape(2, 3, 4)


ERRORS = [
    lambda L: L.embedding_bag(x(L)[0], L.tensor([0]), L.tensor([0]), False, 7),
    lambda L: L.embedding_bag(x(L)[0], L.tensor([0]), L.tensor([0]), False, 1, False, L.ones(1)),
    lambda L: L.convolution(x(L)[0], L.ones(3, 2, 3), None, [1], [0], [1], False, [0], 1),
    lambda L: L.convolution(x(L), L.ones(3, 2, 3), None, [1], [0], [1], False, [0], 1),
    lambda L: L.conv_tbc(x(L)[0], L.ones(3, 2, 3), L.ones(3)),
    lambda L: L.constant_pad_nd(x(L), (1, 2, 3)),
    lambda L: L.grid_sampler_2d(L.ones(1, 1, 3, 3), L.zeros(1, 2, 2, 3), 0, 0, False),
    lambda L: L.native_group_norm(x(L), None, None, 2, 3, 4, 2, 1e-5),
    lambda L: L.native_dropout(x(L), 1.5, True),
    lambda L: L.native_dropout(x(L).long(), 0.5, True),
    lambda L: L.narrow_copy(x(L), 2, 1, 9),
    lambda L: L.slice_copy(x(L), 2, 1, None, 0),
    lambda L: L.split_copy(x(L), [1, 1]),
    lambda L: L.frobenius_norm(x(L), [0, 1, 2]),
    lambda L: L.nonzero_static(x(L), size=-2),
    lambda L: L.empty_permuted((2, 3), (0,)),
    lambda L: L.empty_permuted((2, 3), (0, 0)),
    lambda L: L.histogramdd(x(L)[0, 0], 2),
    lambda L: L.histogramdd(x(L), [2]),
    lambda L: L.histogramdd(x(L).long(), 2),
    lambda L: L.segment_reduce(x(L), "sum", lengths=L.tensor([1])),
    lambda L: L.segment_reduce(x(L), "sum", lengths=L.tensor([3, -1])),
    lambda L: L.segment_reduce(x(L), "most", lengths=L.tensor([2])),
    lambda L: L.segment_reduce(x(L), "sum"),
    lambda L: L.segment_reduce(x(L), "sum", lengths=L.tensor([2]), axis=1),
    lambda L: L.segment_reduce(x(L).long(), "sum", lengths=L.tensor([2])),
    lambda L: L.geqrf(x(L)[0, 0]),
    lambda L: L.geqrf(x(L).long()),
    lambda L: L.ormqr(x(L)[0], L.ones(3), L.ones(4, 2)),
    lambda L: L.ormqr(L.ones(5, 3), L.ones(2), L.ones(5, 2)),
    lambda L: L.ormqr(L.ones(5, 3), L.ones(3), L.ones(5, 2).double()),
    lambda L: L.pca_lowrank(x(L)[0], 9),
    lambda L: L.pca_lowrank(x(L)[0], 2, niter=-1),
    lambda L: L.lobpcg(L.eye(4), 2),
    lambda L: L.lobpcg(L.ones(3, 4)),
    lambda L: L.linalg.ldl_factor(x(L)),
    lambda L: L.linalg.ldl_factor(x(L)[0, 0]),
    lambda L: L.linalg.ldl_factor(L.eye(2).long()),
    lambda L: L.linalg.ldl_solve(L.eye(4), L.ones(4).int(), x(L)[0]),
    lambda L: L.linalg.ldl_solve(L.eye(4), L.ones(4).int(), L.ones(4, 2).double()),
    lambda L: L.linalg.ldl_solve(L.eye(4), L.ones(2).int(), L.ones(4, 2)),
    lambda L: L.linalg.ldl_solve(L.eye(4), L.full((4,), 5).int(), L.ones(4, 2)),
    lambda L: x(L).requires_grad_().apply_(lambda v: v),
    lambda L: x(L).apply_(lambda v: "a"),
    lambda L: x(L).map_(L.ones(4).double(), lambda v, w: v),
    lambda L: x(L).map2_(L.ones(4).long(), L.ones(4), lambda v, w, u: v),
    lambda L: x(L).map_(L.ones(5), lambda v, w: v),
    lambda L: x(L)[:1].dim_order(ambiguity_check=True),
    lambda L: L.ones(3).expand(2, 3).dim_order(ambiguity_check=True),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    told = []
    for library in (flambeau, torch):
        with pytest.raises(Exception) as caught:
            ERRORS[number](library)
        told.append((next(k for k in caught.type.__mro__ if k.__module__ == "builtins"), str(caught.value).splitlines()[0]))
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["solve", "lstsq", "eig", "symeig", "matrix_rank"])
def test_removed_functions_say_so(name):
    for library in (flambeau, torch):
        with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed"):
            getattr(library, name)(*[library.ones(2, 2)] * 2)
    with pytest.raises(RuntimeError, match="was removed"):
        flambeau.ones(2).reinforce(1.0)
    with pytest.raises(NotImplementedError, match="complex32"):
        flambeau.ones(2).chalf()


def test_draws():
    ones = flambeau.ones(200, 50, 2)
    values, kept = flambeau.native_dropout(ones, 0.25, None)
    assert abs(kept.double().mean() - 0.75) < 0.02 and flambeau.equal(values, kept.float() / 0.75)
    for name in ("alpha_dropout_", "feature_alpha_dropout_", "feature_dropout_"):
        t = ones.clone()
        assert getattr(flambeau, name)(t, 0.5, True) is t and len(t.unique()) == 2
        if name.startswith("feature"):
            assert bool((t[..., 0] == t[..., 1]).all())
        assert flambeau.equal(getattr(flambeau, name)(ones, 0.5, False), ones)


def test_slopes_drawn_in_place_have_gradients():
    x = flambeau.full((50,), -1.0, requires_grad=True)
    out = flambeau.rrelu_(x + 0, 0.2, 0.4, True)
    (slopes,) = flambeau.autograd.grad(out.sum(), x)
    assert flambeau.equal(slopes, -out) and 0.2 <= slopes.min() < slopes.max() <= 0.4


def test_copies_have_memory_of_their_own_and_take_out():
    x = flambeau.arange(6.0).reshape(2, 3)
    assert not flambeau.alias_copy(x)._is_view() and flambeau.t_copy(x).is_contiguous()
    out = flambeau.empty(3, 2)
    assert flambeau.transpose_copy(x, 0, 1, out=out) is out and out.tolist() == x.T.tolist()
    parts = [flambeau.empty(3), flambeau.empty(3)]
    assert flambeau.unbind_copy(x, out=parts) is None and parts[1].tolist() == [3, 4, 5]
