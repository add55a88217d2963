"""Random calls of views, rearrangements, indexing, sorting and creation."""

import dataclasses

from .fuzz import EVERY, Type
from .fuzz_draw import OMIT, calls

ALL = "ffibc"


def any_tensor(d, low=0, high=4):
    return d.tensor(d.shape(low, high), ALL)


def rank(x):
    return len(x.shape)


# -- views


@calls("torch.transpose torch.swapaxes torch.swapdims torch.movedim torch.moveaxis", strides=True, view=True)
def two_dims(d):
    x = any_tensor(d)
    first, second = {"t": ("dim0", "dim1"), "a": ("axis0", "axis1"), "d": ("dim0", "dim1")}.get(
        d.name[0] if d.name == "transpose" else d.name[4] if d.name.startswith("swap") else "", ("source", "destination")
    )
    return {"input": x, first: d.dim(rank(x)), second: d.dim(rank(x))}


@calls("torch.permute", strides=True, view=True)
def permute(d):
    x = any_tensor(d)
    dims = tuple(int(k) - (rank(x) if d.chance(0.3) else 0) for k in d.rng.permutation(rank(x)))
    return {"input": x, "dims": dims}


@calls("torch.t torch.ravel torch.atleast_1d torch.atleast_2d torch.atleast_3d torch.detach torch.adjoint", strides=True)
def no_arguments(d):
    return {"input": any_tensor(d, high=2 if d.name == "t" else 3)}


@calls("torch.view_as_real torch.real torch.imag", strides=True, view=True)
def parts(d):
    return {"input": d.tensor(kinds="ccccf")}


@calls("torch.view_as_complex", strides=True, view=True)
def as_complex(d):
    return {"input": d.tensor((*d.shape(0, 3), 2), dtype=d.pick("float32", "float64"))}


@calls("torch.squeeze", strides=True, view=True)
def squeeze(d):
    x = any_tensor(d)
    return {"input": x, "dim": d.pick(OMIT, d.dim(rank(x)), d.dims(rank(x)))}


@calls("torch.unsqueeze", strides=True, view=True)
def unsqueeze(d):
    x = any_tensor(d, high=3)
    return {"input": x, "dim": d.dim(rank(x), 1)}


@calls("torch.select", strides=True, view=True)
def select(d):
    x = any_tensor(d, 1)
    dim = d.dim(rank(x))
    n = x.shape[dim] if -rank(x) <= dim < rank(x) else 1
    return {"input": x, "dim": dim, "index": d.int(-n, max(n - 1, 0))}


@calls("torch.narrow", strides=True, view=True)
def narrow(d):
    x = any_tensor(d, 1)
    dim = d.int(-rank(x), rank(x) - 1)
    start = d.int(0, x.shape[dim])
    return {"input": x, "dim": dim, "start": start, "length": d.int(0, x.shape[dim] - start + d.chance(0.05))}


@calls("torch.diagonal", strides=True, view=True)
def diagonal(d):
    x = any_tensor(d, 2)
    return {
        "input": x,
        "offset": d.maybe(0.5, d.int(-2, 2)),
        "dim1": d.maybe(0.6, d.pick(0, -1)),
        "dim2": d.maybe(0.6, d.pick(1, -2)),
    }


@calls("torch.tril torch.triu", ("function", "method", "inplace"), weight=1.5)  # (PyTorch writes past a strided out)
@calls("torch.diag")
def triangles(d):
    x = any_tensor(d, 1 if d.name == "diag" else 2, 2 if d.name == "diag" else 4)
    return {"input": x, "diagonal": d.maybe(0.6, d.int(-3, 3))}


@calls("torch.diag_embed")
def diag_embed(d):
    x = any_tensor(d, 1, 3)
    return {"input": x, "offset": d.maybe(0.5, d.int(-2, 2)), "dim1": d.maybe(0.3, 0), "dim2": d.maybe(0.3, -1)}


@calls("torch.diagflat torch.trace")
def flat_diagonal(d):
    x = any_tensor(d, 2 if d.name == "trace" else 0, 2)
    return {"input": x, **({"offset": d.maybe(0.5, d.int(-2, 2))} if d.name == "diagflat" else {})}


@calls("torch.flatten", strides=True, view=True)
def flatten(d):
    x = any_tensor(d)
    return {"input": x, "start_dim": d.maybe(0.5, d.dim(rank(x))), "end_dim": d.maybe(0.5, d.dim(rank(x)))}


@calls("torch.unflatten", strides=True, view=True)
def unflatten(d):
    x = d.tensor((d.size(), d.pick(4, 6), d.size()), ALL)
    return {"input": x, "dim": d.pick(1, -2), "sizes": d.pick((2, -1), (-1, 2), (2, 1, -1), (3, 2))}


@calls("torch.split torch.tensor_split torch.chunk torch.unbind", strides=True, view=True)
def splits(d):
    x = any_tensor(d, 1)
    dim = d.maybe(0.7, d.dim(rank(x)))
    n = x.shape[dim] if dim is not OMIT and -rank(x) <= dim < rank(x) else x.shape[0]
    if d.name == "split":
        return {"tensor": x, "/sizes": d.pick(1, 2, 3, [1, n - 1] if n > 1 else 1), "dim": dim}
    if d.name == "tensor_split":
        return {"input": x, "/sections": d.pick(1, 2, 3, (1,), (1, 3), (0, 2)), "dim": dim}
    return {"input": x, **({"chunks": d.int(1, 4)} if d.name == "chunk" else {}), "dim": dim}


@calls("torch.hsplit torch.vsplit torch.dsplit", strides=True, view=True)
def named_splits(d):
    return {"input": d.tensor((4, 2, 6)[: d.int(1, 3)], ALL), "/n": d.pick(2, (1,), (1, 2), 3)}


@calls("torch.reshape", weight=2, strides=True, view=True)
def reshape(d):
    x = d.tensor(d.full_shape(0), ALL)
    n = 1
    for k in x.shape:
        n *= k
    divisor = d.pick(*[k for k in range(1, n + 1) if n % k == 0])
    return {
        "input": x,
        "shape": d.pick((n,), (-1,), (divisor, n // divisor), (divisor, -1), (1, -1, divisor), tuple(reversed(x.shape))),
    }


def viewed(lib, x, shape):
    return x.view(shape)


@calls(viewed, strides=True, view=True, weight=2)
def view(d):
    return {"/x": (given := reshape(d))["input"], "/shape": given["shape"]}


def expanded(lib, x, sizes):
    return x.expand(sizes), lib.broadcast_to(x, sizes)


@calls(expanded, strides=True, view=True)
def expand(d):
    shape = d.shape()
    x = d.tensor(d.broadcast(shape), ALL)
    return {"/x": x, "/sizes": tuple(-1 if d.chance(0.1) else n for n in shape)}


def properties(lib, x):
    return (
        (x.T if x.dim() == 2 else x.mT if x.dim() > 1 else x),
        x.numel(),
        x.dim(),
        x.stride(),
        x.storage_offset(),
        x.is_contiguous(),
        x.size(),
        x.element_size(),
        len(x) if x.dim() else 0,
        x.nbytes,
    )


@calls(properties, strides=True, view=True)
def geometry(d):
    return {"/x": any_tensor(d)}


def unfolded(lib, x, dim, size, step):
    return x.unfold(dim, size, step)


@calls(unfolded, strides=True, view=True)
def unfold(d):
    x = any_tensor(d, 1)
    dim = d.int(-rank(x), rank(x) - 1)
    return {"/x": x, "/dim": dim, "/size": d.int(0, x.shape[dim]), "/step": d.int(1, 3)}


@calls("torch.as_strided", ("function", "method"), strides=True, view=True)
def as_strided(d):
    x = d.tensor((d.int(6, 12),), ALL, plain=True)
    n = d.int(0, 2)
    return {
        "input": x,
        "size": (2, 3)[:n],
        "stride": d.pick((1, 1), (2, 1), (1, 2))[: n if d.chance(0.95) else 1],
        "storage_offset": d.maybe(0.5, d.int(0, 1)),
    }


def reinterpreted(lib, x, dtype):
    return x.view(dtype)


@calls(reinterpreted, order=0, strides=True)
def reinterpretation(d):
    return {
        "/x": d.tensor((*d.shape(0, 2), 4), dtype=d.pick("int32", "int16", "int64", "uint8")),
        "/dtype": Type(d.pick("int32", "int16", "int64", "uint8")),
    }


# -- joining and rearranging


def alike(d, low=1, count=3, kinds=ALL):
    x = d.tensor(d.shape(low), kinds)
    return x, [x] + [d.like(x) if d.chance(0.9) else d.tensor(x.shape, kinds) for _ in range(d.int(0, count - 1))]


@calls("torch.cat torch.concat torch.concatenate torch.stack", ("function", "out"), weight=2)
def joins(d):
    x, parts = alike(d, 1 if d.name != "stack" else 0)
    if d.name != "stack" and d.chance(0.5):
        dim = d.int(0, rank(x) - 1)
        parts = [d.like(p, shape=(*p.shape[:dim], d.size(), *p.shape[dim + 1 :])) for p in parts]
        return {"tensors": d.pick(parts, tuple(parts)), "dim": dim}
    return {"tensors": parts, "dim": d.maybe(0.7, d.dim(rank(x), d.name == "stack"))}


@calls(
    "torch.hstack torch.vstack torch.dstack torch.column_stack torch.row_stack torch.block_diag "
    "torch.cartesian_prod torch.broadcast_tensors torch.meshgrid",
    ("function",),
)
def stacks(d):
    x, parts = alike(d, 1 if d.name in ("cartesian_prod", "meshgrid") else 0)
    if d.name in ("cartesian_prod", "meshgrid", "block_diag"):
        parts = [d.like(p, shape=p.shape[: 2 if d.name == "block_diag" else 1]) for p in parts]
    if d.name in ("broadcast_tensors", "block_diag", "cartesian_prod"):
        return {f"/{k}": p for k, p in enumerate(parts)}
    return {
        "tensors" if d.name != "meshgrid" else "/t": parts,
        **({"*indexing": d.pick("ij", "xy")} if d.name == "meshgrid" else {}),
    }


@calls("torch.flip")
def flip(d):
    x = any_tensor(d)
    return {"input": x, "dims": d.dims(rank(x))}


@calls("torch.fliplr torch.flipud")
def flips(d):
    return {"input": any_tensor(d, 1)}


@calls("torch.roll")
def roll(d):
    x = any_tensor(d, 1)
    dims = d.pick(OMIT, d.dim(rank(x)), d.dims(rank(x), 1))
    return {"input": x, "shifts": tuple(d.int(-4, 4) for _ in dims) if isinstance(dims, tuple) else d.int(-4, 4), "dims": dims}


@calls("torch.rot90")
def rot90(d):
    x = any_tensor(d, 2)
    return {"input": x, "k": d.maybe(0.7, d.int(-3, 4)), "dims": d.maybe(0.5, d.pick((0, 1), (1, 0), [-1, 0]))}


def repeated(lib, x, times):
    return x.repeat(*times)


@calls(repeated)
def repeat(d):
    x = any_tensor(d, high=3)
    return {"/x": x, "/times": tuple(d.int(0, 3) for _ in range(rank(x) + d.int(0, 2)))}


@calls("torch.tile")
def tile(d):
    return {"input": any_tensor(d, high=3), "dims": tuple(d.int(1, 3) for _ in range(d.int(0, 3)))}


@calls("torch.repeat_interleave", ("function", "method"))
def repeat_interleave(d):
    x = any_tensor(d, 1, 3)
    dim = d.maybe(0.7, d.int(-rank(x), rank(x) - 1))
    n = x.shape[dim] if dim is not OMIT else 1
    many = d.index((n,), 4) if dim is not OMIT else 2
    return {"input": x, "repeats": d.pick(d.int(0, 3), many), "dim": dim}


@calls("torch.kron")
def kron(d):
    return {"input": d.tensor(d.shape(0, 2), "ffic"), "other": d.tensor(d.shape(0, 2), "ffi")}


@calls("torch.combinations", ("function",))
def combinations(d):
    return {"input": d.tensor((d.int(0, 4),), ALL), "r": d.maybe(0.6, d.int(0, 3)), "with_replacement": d.maybe(0.5, True)}


@calls("torch.diagonal_scatter torch.select_scatter torch.slice_scatter")
def written_views(d):
    x = d.tensor((3, 4, 3), ALL)
    if d.name == "diagonal_scatter":
        return {"input": x, "src": d.like(x, shape=(4, 3)), "offset": d.maybe(0.3, 0), "dim1": 0, "dim2": 2}
    if d.name == "select_scatter":
        return {"input": x, "src": d.like(x, shape=(3, 3)), "dim": 1, "index": d.int(-4, 3)}
    return {"input": x, "src": d.like(x, shape=(3, 2, 3)), "dim": 1, "start": d.pick(1, 0), "end": OMIT, "*step": 2}


@calls("torch.diff")
def diff(d):
    x = d.tensor(d.shape(1), "ffi")
    return {"input": x, "n": d.maybe(0.5, d.int(0, 3)), "dim": d.maybe(0.6, d.dim(rank(x)))}


# -- indexing


def taken(lib, x, index):
    return x[index]


def stored(lib, x, index, value):
    z = x.clone()
    z[index] = value
    return z


def one_index(d, n):
    return d.pick(
        lambda: d.int(-n, n - 1) if n else slice(None),
        lambda: slice(d.pick(None, 0, 1, -2), d.pick(None, 2, -1, 9), d.pick(None, 1, 2)),
        lambda: slice(None),
        lambda: None,
        lambda: Ellipsis,
        lambda: d.index((d.pick(2, 3),), n),
        lambda: d.index(d.pick((2,), (2, 1), ()), n),
        lambda: [d.int(-n, n - 1), 0] if n else [],
        lambda: d.tensor((n,), dtype="bool", grad=False),
    )()


def an_index(d, shape):
    parts, ellipsis = [], False
    for n in shape[: d.int(0, len(shape))]:
        part = one_index(d, n)
        if part is Ellipsis:
            if ellipsis:
                continue
            ellipsis = True
        parts.append(part)
        if ellipsis and d.chance(0.5):
            break
    return tuple(parts) if len(parts) != 1 or d.chance(0.5) else parts[0]


@calls(taken, order=2, weight=4, strides=True)
def getitem(d):
    x = any_tensor(d, 0)
    index = d.pick(an_index(d, x.shape), an_index(d, x.shape), d.tensor(x.shape, dtype="bool", grad=False), True)
    return {"/x": x, "/index": index}


@calls(stored, order=2, weight=4)
def setitem(d):
    x = any_tensor(d, 0)
    index = d.pick(an_index(d, x.shape), an_index(d, x.shape), d.tensor(x.shape, dtype="bool", grad=False))
    return {"/x": x, "/index": index, "/value": d.pick(d.number(), d.tensor((), "fi"), d.tensor((1,), dtype=x.dtype))}


def at(d, x, dim):
    return x.shape[dim] if x.shape and -rank(x) <= dim < rank(x) else 1


@calls("torch.index_select")
def index_select(d):
    x = any_tensor(d)
    dim = d.dim(rank(x))
    return {"input": x, "dim": dim, "index": d.index((d.int(0, 4),), at(d, x, dim), d.pick("int64", "int32"))}


@calls("torch.gather")
def gather(d):
    x = any_tensor(d)
    dim = d.dim(rank(x))
    shape = tuple(d.int(0, n) for n in x.shape)
    return {"input": x, "dim": dim, "index": d.index(shape, at(d, x, dim))}


@calls("torch.take_along_dim")
def take_along_dim(d):
    x = d.tensor(d.full_shape(1), ALL)
    dim = d.int(-rank(x), rank(x) - 1)
    return {"input": x, "indices": d.index(tuple(1 if d.chance(0.3) else n for n in x.shape), x.shape[dim]), "dim": dim}


@calls("torch.scatter torch.scatter_add", weight=1.5)
def scatter(d):
    x = d.tensor(d.full_shape(1, 3), "ffi", grad=True)
    dim = d.int(-rank(x), rank(x) - 1)
    shape = tuple(d.int(0, n) for n in x.shape)
    if d.name == "scatter":  # which of several writes wins is not defined: rows of a permutation
        index = d.index((*shape[: dim % rank(x)], min(1, shape[dim]), *shape[dim % rank(x) + 1 :]), x.shape[dim])
        if d.chance(0.3):
            return {"input": x, "dim": dim, "index": index, "value": d.pick(2, 0.5)}
    else:
        index = d.index(shape, x.shape[dim])
    return {"input": x, "dim": dim, "index": index, "src": d.like(x, shape=tuple(n + d.chance(0.2) for n in index.shape))}


@calls("torch.scatter_reduce", weight=2, tolerance=3)
def scatter_reduce(d):
    x = d.tensor(d.full_shape(1, 3), "ffi", values=d.pick("normal", "positive"))
    dim = d.int(-rank(x), rank(x) - 1)
    return {
        "input": x,
        "dim": dim,
        "index": d.index(x.shape, x.shape[dim]),
        "src": d.like(x, values="normal"),
        "reduce": d.pick("sum", "prod", "mean", "amax", "amin"),
        "*include_self": d.maybe(0.5, False),
    }


@calls("torch.index_reduce", order=1, tolerance=3)
def index_reduce(d):
    x = d.tensor(d.full_shape(1, 3), "f", values="positive")
    dim = d.int(-rank(x), rank(x) - 1)
    n = d.int(1, 4)
    shape = list(x.shape)
    shape[dim] = n
    return {
        "input": x,
        "dim": dim,
        "index": d.index((n,), x.shape[dim]),
        "source": d.like(x, shape=tuple(shape)),
        "reduce": d.pick("prod", "mean", "amax", "amin"),
        "*include_self": d.maybe(0.5, False),
    }


@calls("torch.index_add torch.index_copy torch.index_fill", weight=1.5)
def index_writes(d):
    x = d.tensor(d.full_shape(1), "ffibc")
    dim = d.int(-rank(x), rank(x) - 1)
    n = d.int(0, 1 if d.name == "index_copy" else 4)
    index = d.index((n,), x.shape[dim])
    if d.name == "index_fill":
        return {"input": x, "dim": dim, "index": index, "value": d.number()}
    shape = list(x.shape)
    shape[dim] = n
    return {
        "input": x,
        "dim": dim,
        "index": index,
        "source": d.like(x, shape=tuple(shape)),
        **({"*alpha": d.maybe(0.3, d.pick(2, -1))} if d.name == "index_add" else {}),
    }


@calls("torch.index_put")
def index_put(d):
    x = d.tensor((3, 4, 2), "ffi")
    index = (d.index((2, 1), 3), d.index((2,), 4)) if d.chance(0.5) else (d.index((2,), 3),)
    shape = (2, 2, 2) if len(index) == 2 else (2, 4, 2)
    return {"input": x, "indices": index, "values": d.like(x, shape=d.pick(shape, (), (1,))), "accumulate": True}


@calls("torch.take torch.put")
def flat_places(d):
    x = d.tensor(d.full_shape(0), "ffibc")
    n = 1
    for k in x.shape:
        n *= k
    index = d.index((2, 2)[: d.int(0, 2)] if d.name == "take" else (1,), n)
    return {
        "input": x,
        "index": index,
        **({"source": d.like(x, shape=(1,)), "accumulate": d.maybe(0.5, True)} if d.name == "put" else {}),
    }


@calls("torch.nonzero", ("function", "method"), order=0)
def places(d):
    return {"input": any_tensor(d), "*as_tuple": d.maybe(0.5, True)}


@calls("torch.masked_select torch.argwhere torch.count_nonzero", order=1)
def of_truth(d):
    x = any_tensor(d)
    if d.name == "masked_select":
        return {"input": x, "mask": d.tensor(d.broadcast(x.shape), dtype="bool", grad=False)}
    return {"input": x, **({"dim": d.some_dims(rank(x))} if d.name == "count_nonzero" else {})}


@calls("torch.masked_scatter")
def masked_scatter(d):
    x = any_tensor(d)
    n = 1
    for k in x.shape:
        n *= k
    return {"input": x, "mask": d.tensor(d.broadcast(x.shape), dtype="bool", grad=False), "source": d.like(x, shape=(n,))}


# -- order and sets


@calls("torch.sort torch.argsort torch.msort", weight=1.5)
def sort(d):
    x = d.tensor(d.shape(0, 3), "ffi", "distinct")
    if d.name == "msort":
        return {"input": x}
    return {"input": x, "dim": d.maybe(0.7, d.dim(rank(x))), "descending": d.maybe(0.5, True)}


def sorted_stably(lib, x, dim, descending):
    return (lib.sort(x, dim=dim, descending=descending, stable=True), lib.argsort(x, dim=dim, descending=descending, stable=True))


@calls(sorted_stably)
def stable(d):
    x = d.tensor(d.shape(1), "ffib", d.pick("normal", "special"))
    return {"/x": x, "/dim": d.dim(rank(x)), "/descending": d.chance(0.5)}


@calls("torch.topk torch.kthvalue")
def topk(d):
    x = d.tensor(d.full_shape(0, 3), "ffi", "distinct", plain=d.chance(0.5))
    x = dataclasses.replace(x, layout=("contiguous",)) if x.layout[0] == "expanded" else x  # no equal elements
    dim = d.maybe(0.7, d.int(-max(rank(x), 1), max(rank(x), 1) - 1))
    n = x.shape[dim] if dim is not OMIT and x.shape else x.shape[-1] if x.shape else 1
    if d.name == "kthvalue":
        return {"input": x, "k": d.int(1, n), "dim": dim, "keepdim": d.maybe(0.5, True)}
    return {
        "input": x,
        "k": d.int(0, n + d.chance(0.05)),
        "dim": dim,
        "largest": d.maybe(0.5, False),
        "sorted": d.maybe(0.2, True),
    }


@calls("torch.unique torch.unique_consecutive", ("function", "method"), order=0)
def unique(d):
    x = d.tensor(d.shape(0, 2), "ifb", "normal")
    names = ("sorted",) * (d.name == "unique")
    return {
        "input": x,
        **{k: d.maybe(0.3, True) for k in names},
        "*return_inverse": d.maybe(0.5, True),
        "*return_counts": d.maybe(0.5, True),
        "*dim": d.maybe(0.3, 0) if x.shape else OMIT,
    }


def ascending(d, shape):
    return d.tensor(shape, dtype="float32", values="ascending", plain=True, grad=False)


@calls("torch.searchsorted torch.bucketize", ("function", "out"), order=0)
def searchsorted(d):
    shape = d.full_shape(1, 2)
    if d.name == "bucketize":
        return {"input": d.tensor(d.shape(), "fi"), "boundaries": ascending(d, (3,)), "*right": d.maybe(0.5, True)}
    edges = ascending(d, shape)
    return {
        "sorted_sequence": edges,
        "input": d.pick(1.0, 0.5)
        if len(shape) == 1 and d.chance(0.3)
        else d.tensor((*shape[:-1], d.size()), dtype="float32", grad=False),
        "*right": d.maybe(0.5, True),
        "*out_int32": d.maybe(0.3, True),
    }


@calls("torch.isin", ("function",), order=0)
def isin(d):
    return {"elements": d.tensor(kinds="if"), "/test": d.pick(2, d.tensor(kinds="if")), "*invert": d.maybe(0.4, True)}


@calls("torch.bincount", order=0)
def bincount(d):
    x = d.tensor((d.int(0, 6),), dtype=d.pick("uint8", "int64"), values="positive")
    return {"input": x, "weights": d.maybe(0.4, d.tensor(x.shape, "ffi", grad=False)), "minlength": d.maybe(0.5, d.int(0, 9))}


@calls("torch.histc", order=0)
def histc(d):
    return {
        "input": d.tensor(values="normal", dtype=d.pick("float32", "float64")),
        "bins": d.maybe(0.5, d.int(1, 6)),
        "min": d.maybe(0.5, -2),
        "max": d.maybe(0.5, 2),
    }


# -- creation


def created(lib, name, arguments, options):
    return getattr(lib, name)(*arguments, **options)


@calls(created, order=0, strides=True, weight=4)
def creation(d):
    name = d.pick(
        "zeros",
        "ones",
        "full",
        "arange",
        "linspace",
        "logspace",
        "eye",
        "tril_indices",
        "triu_indices",
        "hann_window",
        "hamming_window",
        "blackman_window",
        "bartlett_window",
        "scalar_tensor",
        "vander",
        "kaiser_window",
    )
    kind = {"dtype": Type(d.pick(*EVERY))} if d.chance(0.4) else {}
    if "indices" in name:
        return {"/n": name, "/a": (d.int(0, 4), d.int(0, 4), d.int(-2, 2)), "/o": {}}
    if "window" in name:
        kind = {"dtype": Type(d.pick("float32", "float64"))} if kind else {}
        return {"/n": name, "/a": (d.int(0, 6), *d.pick((), (False,))), "/o": kind}
    if name == "arange" and kind:  # below zero, what unsigned types hold is not defined
        kind = {"dtype": Type(d.pick(*(k for k in EVERY if k != "uint8")))}
    numbers = [d.pick(d.int(-3, 6), d.int(-3, 6) / 2) for _ in range(3)]
    arguments = {
        "full": lambda: (d.shape(), d.number()),
        "arange": lambda: tuple(numbers[: d.int(1, 3)]),
        "linspace": lambda: (*numbers[:2], d.int(0, 5)),
        "logspace": lambda: (*numbers[:2], d.int(0, 5)),
        "eye": lambda: tuple(d.int(0, 4) for _ in range(d.int(1, 2))),
        "scalar_tensor": lambda: (d.number(),),
        "vander": lambda: (d.tensor((d.size(),), "fi"),),
    }.get(name, lambda: (d.shape(),))()
    return {"/n": name, "/a": arguments, "/o": kind if name != "vander" else {}}
