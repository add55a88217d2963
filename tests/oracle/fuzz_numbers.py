"""Random calls of reductions, scans, products, linear algebra, transforms and special sums."""

import dataclasses

from .fuzz import Type
from .fuzz_draw import OMIT, calls


def rank(x):
    return len(x.shape)


# -- reductions


@calls("torch.sum torch.nansum", weight=2, tolerance=3)
def sums(d):
    x = d.tensor(kinds="ffib" + "c" * (d.name == "sum" and d.chance(0.2)), values="special" if d.name == "nansum" else "normal")
    dim = d.some_dims(rank(x))
    return {
        "input": x,
        "dim": dim,
        "keepdim": d.maybe(0.5, True) if dim is not OMIT else OMIT,
        "*dtype": d.maybe(0.2, Type(d.pick("float64", "float32", "int64", "int32", "int8", "float16"))),
    }


@calls("torch.mean torch.nanmean", weight=2, tolerance=3)
def means(d):
    x = d.tensor(kinds="ffffi")
    dim = d.some_dims(rank(x))
    return {
        "input": x,
        "dim": dim,
        "keepdim": d.maybe(0.5, True) if dim is not OMIT else OMIT,
        "*dtype": d.maybe(0.2, Type(d.pick("float64", "float32"))),
    }


@calls("torch.prod", tolerance=5)
def prod(d):
    x = d.tensor(kinds="fib", values=d.pick("normal", "unit"))
    dim = d.maybe(0.6, d.dim(rank(x)))
    return {
        "input": x,
        "dim": dim,
        "keepdim": d.maybe(0.5, True) if dim is not OMIT else OMIT,
        "*dtype": d.maybe(0.2, Type(d.pick("float64", "float32", "int64", "int32", "int8", "float16"))),
    }


@calls("torch.amax torch.amin", weight=1.5)
def extremes(d):
    x = d.tensor(kinds="ffib", values=d.pick("normal", "special"))
    return {"input": x, "dim": d.pick(OMIT, d.dim(rank(x)), d.dims(rank(x))), "keepdim": d.maybe(0.5, True)}


@calls("torch.aminmax")
def aminmax(d):
    x = d.tensor(kinds="ffib", values=d.pick("normal", "special"))
    return {"input": x, "*dim": d.maybe(0.6, d.dim(rank(x))), "*keepdim": d.maybe(0.5, True)}


@calls("torch.all torch.any", order=0)
def truth(d):
    x = d.tensor(kinds="bfi")
    dim = d.some_dims(rank(x))
    return {"input": x, "dim": dim, "keepdim": d.maybe(0.5, True) if dim is not OMIT else OMIT}


@calls("torch.argmax torch.argmin", order=0)
def places(d):
    x = d.tensor(kinds="fi", values="distinct")
    return {"input": x, "dim": d.pick(OMIT, None, d.dim(rank(x))), "keepdim": d.maybe(0.4, True)}


@calls("torch.max torch.min", weight=2)
def max_of(d):
    x = d.tensor(kinds="ffi", values="distinct")
    if d.chance(0.3):
        return {"input": x, "other": d.tensor(d.broadcast(x.shape), "ffi")}
    dim = d.maybe(0.7, d.dim(rank(x)))
    return {"input": x, "dim": dim, "keepdim": d.maybe(0.5, True) if dim is not OMIT else OMIT}


@calls("torch.median torch.nanmedian torch.mode")
def middles(d):
    x = d.tensor(kinds="ffi", values="distinct" if d.name != "mode" else "normal")
    dim = d.maybe(0.7, d.dim(rank(x)))
    return {"input": x, "dim": dim, "keepdim": d.maybe(0.5, True) if dim is not OMIT else OMIT}


@calls("torch.quantile torch.nanquantile", tolerance=3)
def quantiles(d):
    x = d.tensor(d.full_shape(0), dtype=d.pick("float32", "float64"), values="distinct", plain=True)
    q = d.pick(0.5, 0.25, 1.0, d.tensor(d.pick((), (3,)), dtype=x.dtype, values="unit", grad=False))
    return {
        "input": x,
        "q": q,
        "dim": d.pick(OMIT, d.dim(rank(x))),
        "keepdim": d.maybe(0.4, True),
        "*interpolation": d.maybe(0.6, d.pick("linear", "lower", "higher", "nearest", "midpoint")),
    }


@calls("torch.var torch.std", weight=2, tolerance=5)
def spread(d):
    x = d.tensor(kinds="fffff" + "c" * d.chance(0.05))
    return {
        "input": x,
        "dim": d.some_dims(rank(x)),
        "*keepdim": d.maybe(0.5, True),
        "*" + d.pick("correction", "unbiased"): d.maybe(0.6, d.pick(0, 1, True, False)),
    }


@calls("torch.var_mean torch.std_mean", tolerance=5)
def spread_and_mean(d):
    x = d.tensor()
    return {"input": x, "dim": d.some_dims(rank(x)), "*keepdim": d.maybe(0.5, True), "*correction": d.maybe(0.5, d.pick(0, 2))}


@calls("torch.logsumexp special.logsumexp", tolerance=3)
def logsumexp(d):
    x = d.tensor(kinds="ffffi", values=d.pick("normal", "special"))
    return {"input": x, "dim": d.pick(d.dim(rank(x)), d.dims(rank(x), 1)), "keepdim": d.maybe(0.5, True)}


@calls("torch.norm", weight=1.5, tolerance=5)
def norm(d):
    x = d.tensor(kinds="fffff" + "c" * d.chance(0.1))
    return {
        "input": x,
        "p": d.maybe(0.7, d.pick(1, 2, 3, 0, float("inf"), -float("inf"), 0.5, "fro")),
        "dim": d.some_dims(rank(x)),
        "keepdim": d.maybe(0.4, True),
    }


@calls("linalg.vector_norm linalg.norm", weight=1.5, tolerance=5)
def vector_norm(d):
    x = d.tensor(d.full_shape(1, 2) if d.name == "norm" else d.shape(), "ffff" + "c" * d.chance(0.1))
    ords = (1, 2, 3, 0, float("inf"), -float("inf"), -1, 2.5)
    if d.name == "norm" and rank(x) == 2:
        ords = (1, 2, -2, float("inf"), -float("inf"), -1, "fro", "nuc", None)
    dim = OMIT if d.name == "norm" and rank(x) == 2 else d.some_dims(rank(x))
    return {
        "x" if d.name == "vector_norm" else "A": x,
        "ord": d.maybe(0.7, d.pick(*ords)),
        "dim": dim,
        "keepdim": d.maybe(0.4, True),
    }


@calls("torch.cumsum torch.cumprod torch.logcumsumexp torch.cummax torch.cummin", weight=1.5, tolerance=5)
def scans(d):
    x = d.tensor(kinds="ffi" if d.name != "logcumsumexp" else "f", values="normal")
    typed = d.name in ("cumsum", "cumprod")
    return {"input": x, "dim": d.dim(rank(x)), **({"*dtype": d.maybe(0.2, Type(d.pick("float64", "int32")))} if typed else {})}


@calls("torch.trapezoid torch.trapz torch.cumulative_trapezoid")
def trapezoids(d):
    y = d.tensor(d.full_shape(1))
    return {"y": y, **({"x": d.maybe(0.5, d.like(y))} if d.chance(0.5) else {"*dx": 0.5}), "*dim": d.maybe(0.5, -1)}


@calls("torch.cov torch.corrcoef", order=1, tolerance=10)
def covariance(d):
    x = d.tensor((d.int(1, 3), d.int(3, 5)), dtype=d.pick("float32", "float64"))
    return {"input": x, **({"*correction": d.maybe(0.5, 0)} if d.name == "cov" else {})}


@calls("torch.dist torch.renorm", tolerance=5, order=1)
def distances(d):
    x = d.tensor(d.full_shape(1 if d.name == "dist" else 2, 3))
    if d.name == "dist":
        return {"input": x, "other": d.tensor(d.broadcast(x.shape), dtype=x.dtype), "p": d.maybe(0.5, d.pick(1, 2, 3))}
    return {"input": x, "p": d.pick(1, 2), "dim": d.int(0, rank(x) - 1), "maxnorm": d.pick(0.5, 2.0)}


# -- products


def pair(d, first, second, kinds="fffi"):
    dtype = d.dtype(kinds + "c" * d.chance(0.1))
    return d.tensor(first, dtype=dtype), d.tensor(second, dtype=dtype if d.chance(0.95) else None)


@calls("torch.matmul linalg.matmul", weight=3, tolerance=3)
def matmul(d):
    n, m, k = d.size(), d.size(), d.size()
    batch = d.shape(0, 2)
    a, b = d.pick(
        ((n, k), (k, m)),
        ((k,), (k, m)),
        ((n, k), (k,)),
        ((k,), (k,)),
        ((*batch, n, k), (k, m)),
        ((*batch, n, k), (*d.broadcast(batch), k, m)),
        ((n, k), (*batch, k, m)),
        ((*batch, n, k), (k,)),
        ((k,), (*batch, k, m)),
        ((n, k), (k + 1, m)),
    )
    x, y = pair(d, a, b)
    return {"input": x, "other": y}


@calls(
    "torch.mm torch.bmm torch.mv torch.dot torch.vdot torch.inner torch.outer torch.ger linalg.vecdot torch.cross linalg.cross",
    tolerance=3,
)
def named_products(d):
    n, m, k, b = d.size(), d.size(), d.size(), d.size()
    shapes = {
        "mm": ((n, k), (k, m)),
        "bmm": ((b, n, k), (b, k, m)),
        "mv": ((n, k), (k,)),
        "dot": ((k,), (k,)),
        "vdot": ((k,), (k,)),
        "inner": ((b, n, k), (m, k)),
        "outer": ((n,), (m,)),
        "ger": ((n,), (m,)),
        "vecdot": ((n, k), (n, k)),
        "cross": ((n, 3), (n, 3)),
    }[d.name]
    x, y = pair(d, *shapes, kinds="fffi" if d.name not in ("vecdot",) else "f")
    names = {
        "mm": ("input", "mat2"),
        "bmm": ("input", "mat2"),
        "mv": ("input", "vec"),
        "dot": ("input", "tensor"),
        "outer": ("input", "vec2"),
        "ger": ("input", "vec2"),
        "vecdot": ("x", "y"),
    }.get(d.name, ("input", "other"))
    dim = {"*dim": -1} if d.name in ("cross",) else {}
    return {names[0]: x, names[1]: y, **dim}


@calls("torch.addmm torch.addmv torch.addbmm torch.baddbmm torch.addr", weight=1.5, tolerance=3)
def added_products(d):
    n, m, k, b = d.size(), d.size(), d.size(), d.size()
    base, first, second, names = {
        "addmm": ((n, m), (n, k), (k, m), ("mat1", "mat2")),
        "addmv": ((n,), (n, k), (k,), ("mat", "vec")),
        "addbmm": ((n, m), (b, n, k), (b, k, m), ("batch1", "batch2")),
        "baddbmm": ((b, n, m), (b, n, k), (b, k, m), ("batch1", "batch2")),
        "addr": ((n, m), (n,), (m,), ("vec1", "vec2")),
    }[d.name]
    x, y = pair(d, first, second, "fff")
    return {
        "input": d.tensor(d.broadcast(base), dtype=x.dtype),
        names[0]: x,
        names[1]: y,
        "*beta": d.maybe(0.4, d.pick(0, 0.5, 2)),
        "*alpha": d.maybe(0.4, d.pick(0.5, 2)),
    }


EQUATIONS = (
    "ij,jk->ik",
    "ij,jk",
    "bij,bjk->bik",
    "i,j->ij",
    "ii->i",
    "ii",
    "ij->ji",
    "ij->",
    "i,i->",
    "bi,bj->bij",
    "...i,...i->...",
    "...ij,...jk->...ik",
    "ij,ij->ij",
    "bhqd,bhkd->bhqk",
    "ij,kj->ik",
    "abc,cd->abd",
    "i...->...",
    "ij,jk,kl->il",
    "ij,j->i",
    "ab,cd->abcd",
    " i j , j -> i ",
)


def summed(lib, equation, tensors):
    return lib.einsum(equation, *tensors)


@calls(summed, order=2, weight=3, tolerance=5)
def einsum(d):
    equation = d.pick(*EQUATIONS)
    sizes, dots = {}, tuple(max(1, d.size()) for _ in range(d.int(0, 2)))
    dtype = d.dtype("fffi")
    tensors = []
    for part in equation.replace(" ", "").partition("->")[0].split(","):
        before, _, after = part.partition("...")
        letters = [tuple(sizes.setdefault(c, d.size()) for c in text) for text in (before, after)]
        tensors.append(d.tensor((*letters[0], *(dots if "..." in part else ()), *letters[1]), dtype=dtype))
    return {"/e": equation, "/t": tensors}


@calls("torch.tensordot", ("function",), tolerance=3)
def tensordot(d):
    x, y = pair(d, (2, 3, 4), (4, 3, 2), "fff")
    return {"a": x, "b": y, "dims": d.pick(1, 0, ([1], [1]), ([2, 1], [0, 1]), ([0], [2]))}


@calls("F.linear", ("function",), weight=2, tolerance=3)
def linear(d):
    n, m, dtype = d.size(), d.size(), d.dtype("f")
    x = d.tensor((*d.shape(0, 3), n), dtype=dtype)
    return {"input": x, "weight": d.tensor((m, n), dtype=dtype), "bias": d.maybe(0.6, d.tensor((m,), dtype=dtype))}


@calls("F.bilinear", ("function",), tolerance=5)
def bilinear(d):
    dtype, n = d.pick("float32", "float64"), d.int(1, 3)
    return {
        "input1": d.tensor((n, 2), dtype=dtype),
        "input2": d.tensor((n, 3), dtype=dtype),
        "weight": d.tensor((4, 2, 3), dtype=dtype),
        "bias": d.maybe(0.5, d.tensor((4,), dtype=dtype)),
    }


@calls("torch.cdist torch.pdist", ("function",), order=1, tolerance=20)
def pair_distances(d):
    dtype = d.pick("float32", "float64")
    x = d.tensor((d.int(1, 4), 3), dtype=dtype, values="distinct")
    if d.name == "pdist":
        return {"input": x, "p": d.maybe(0.6, d.pick(1.0, 2.0, 3.0))}
    return {"x1": x, "x2": d.tensor((d.int(1, 4), 3), dtype=dtype, values="positive"), "p": d.maybe(0.6, d.pick(1.0, 2.0, 3.0))}


# -- linear algebra


def matrix(d, values="regular", low=0, square=True, dtype=None):
    n = d.int(1, 3)
    shape = (*d.full_shape(0, 1), n, n if square else d.int(1, 4))
    x = d.tensor(
        shape[1:] if d.chance(0.5) and len(shape) > 2 else shape,
        values=values,
        dtype=dtype or d.pick("float32", "float64", "float64"),
    )
    return x if x.layout[0] != "expanded" else dataclasses.replace(x, layout=("contiguous",))  # (not singular)


@calls(
    "linalg.det torch.det torch.slogdet linalg.slogdet torch.logdet linalg.inv torch.inverse linalg.inv torch.matrix_exp "
    "linalg.matrix_exp linalg.pinv torch.pinverse linalg.eigvalsh linalg.svdvals linalg.cholesky".replace(
        "linalg.inv torch.matrix_exp", "torch.matrix_exp"
    ),
    order=2,
    tolerance=200,
)
def of_matrices(d):
    definite = d.name in ("cholesky", "logdet", "eigvalsh")
    return {"input" if d.name in ("det", "logdet") and False else "/A": matrix(d, "definite" if definite else "regular")}


@calls("linalg.matrix_power torch.matrix_power", tolerance=200)
def matrix_power(d):
    return {"/A": matrix(d), "n": d.int(-2, 4)}


@calls("linalg.solve", ("function", "out"), tolerance=200)
def solve(d):
    a = matrix(d)
    n = a.shape[-1]
    return {"A": a, "B": d.tensor((*a.shape[:-2], n, d.int(1, 2)) if d.chance(0.7) else (n,), dtype=a.dtype)}


@calls("linalg.solve_triangular", ("function",), tolerance=200)
def solve_triangular(d):
    a = matrix(d)
    return {
        "/A": a,
        "/B": d.tensor((*a.shape[:-1], 2), dtype=a.dtype),
        "*upper": d.chance(0.5),
        "*unitriangular": d.maybe(0.3, True),
    }


def told(lib, a, b, name, definite):
    """What the forms with an info give of matrices that may be singular: infos, and solutions where there is one."""
    of = lib.linalg
    out = {
        "solve_ex": lambda: of.solve_ex(a, b),
        "inv_ex": lambda: of.inv_ex(a),
        "cholesky_ex": lambda: of.cholesky_ex(a @ a.mT if definite else a),
        "lu_factor_ex": lambda: of.lu_factor_ex(a),
    }[name]()
    return out[-1], lib.where((out[-1] == 0).unsqueeze(-1).unsqueeze(-1), out[0], 0.0)


@calls(told, order=1, tolerance=500)
def with_infos(d):
    a = matrix(d, values=d.pick("regular", "zeros", "ones"))
    return {
        "/a": a,
        "/b": d.tensor((*a.shape[:-1], 2), dtype=a.dtype),
        "/n": d.pick("solve_ex", "inv_ex", "cholesky_ex", "lu_factor_ex"),
        "/d": a.values == "regular",
    }


def decomposed(lib, x, name):
    """Products of the factors, which are unique."""
    if name == "qr":
        q, r = lib.linalg.qr(x)
        return q @ r, r.abs()
    if name == "svd":
        u, s, vh = lib.linalg.svd(x, full_matrices=False)
        return (u * s.unsqueeze(-2)) @ vh, s
    if name == "eigh":
        values, vectors = lib.linalg.eigh(x)
        return (vectors * values.unsqueeze(-2)) @ vectors.mT, values
    if name == "lu":
        p, l, u = lib.linalg.lu(x)
        return p @ l @ u, l, u
    factor = lib.linalg.cholesky(x)
    return factor @ factor.mT, lib.cholesky_solve(x, factor), lib.cholesky_inverse(factor)


@calls(decomposed, order=1, weight=2, tolerance=500)
def decompositions(d):
    name = d.pick("qr", "svd", "eigh", "lu", "cholesky")
    return {"/x": matrix(d, "definite" if name in ("eigh", "cholesky") else "regular"), "/name": name}


@calls("linalg.lstsq", ("function",), order=0, tolerance=200, invariant=lambda lib, r: r.solution)
def lstsq(d):
    a = d.tensor((4, 2), dtype="float64")
    return {"A": a, "B": d.tensor((4, 2), dtype="float64")}


@calls("linalg.matrix_norm linalg.cond", ("function",), order=1, tolerance=200)
def matrix_norm(d):
    return {
        "A": matrix(d),
        d.pick("ord") if d.name == "matrix_norm" else "p": d.maybe(0.7, d.pick("fro", "nuc", 1, 2, -2, float("inf"), -1)),
    }


@calls("linalg.multi_dot torch.chain_matmul", ("function",), tolerance=10)
def chains(d):
    n, m, k, j = (d.int(1, 4) for _ in range(4))
    parts = [d.tensor(s, dtype="float32") for s in ((n, m), (m, k), (k, j))]
    return {"/t": parts} if d.name == "multi_dot" else {f"/{i}": p for i, p in enumerate(parts)}


@calls("linalg.tensorinv linalg.matrix_rank linalg.diagonal linalg.vander", ("function",), order=0, tolerance=100)
def other_linear_algebra(d):
    if d.name == "tensorinv":
        return {"/A": d.tensor((2, 3, 6), dtype="float64"), "ind": 2}
    return {"/x": d.tensor((d.int(1, 4),), dtype="float64") if d.name == "vander" else matrix(d)}


# -- transforms


@calls("fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft", ("function", "out"), weight=1.5, order=2, tolerance=10)
def transforms(d):
    real = d.name in ("rfft", "ihfft")
    x = d.tensor(
        d.full_shape(1, 3), dtype=d.pick("float32", "float64") if real or d.chance(0.4) else d.pick("complex64", "complex128")
    )
    return {
        "input": x,
        "n": d.maybe(0.4, d.int(1, 6)),
        "dim": d.maybe(0.5, d.int(-rank(x), rank(x) - 1)),
        "norm": d.maybe(0.6, d.pick("forward", "backward", "ortho", None)),
    }


@calls(
    "fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn", ("function", "out"), order=1, tolerance=10
)
def transforms_of_more(d):
    real = d.name.startswith("r")
    x = d.tensor(
        d.full_shape(2, 3), dtype=d.pick("float32", "float64") if real or d.chance(0.4) else d.pick("complex64", "complex128")
    )
    return {
        "input": x,
        "s": d.maybe(0.3, (d.int(1, 5), d.int(1, 5))),
        "dim": d.maybe(0.3, (-2, -1)),
        "norm": d.maybe(0.6, d.pick("forward", "backward", "ortho")),
    }


@calls("fft.fftshift fft.ifftshift", ("function",))
def shifts(d):
    x = d.tensor(d.shape(1, 3), "fci")
    return {"input": x, "dim": d.maybe(0.5, d.dim(rank(x)))}


@calls("fft.fftfreq fft.rfftfreq", ("function",), order=0)
def frequencies(d):
    return {"n": d.int(1, 8), "d": d.maybe(0.5, 0.25)}


def short_time(lib, x, n, hop, center, normalized):
    window = lib.hann_window(n, dtype=x.dtype)
    s = lib.stft(x, n, hop, window=window, center=center, normalized=normalized, return_complex=True)
    return (s, lib.istft(s, n, hop, window=window, center=True, normalized=normalized)) if center else s


@calls(short_time, order=1, tolerance=20)
def stft(d):
    return {
        "/x": d.tensor((*d.pick((), (2,)), 24), dtype=d.pick("float32", "float64")),
        "/n": 8,
        "/hop": d.pick(2, 4),
        "/c": d.chance(0.6),
        "/m": d.chance(0.5),
    }
