"""numpy's names over cupy: what kernels that were written with numpy find in its place.

In: an attribute of numpy. Out: cupy's function of that name, or one of ours where cupy's differs: reductions and running
results of ufuncs, sums at repeated indices for all types, factorisations that tell singular matrices, and what is asked
of Python's numbers only, which stays on the host. A name that neither has is an AttributeError.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

import numpy as np

from .find_cupy import cupy


def is_array(x) -> bool:
    return isinstance(x, cupy().ndarray)


def on_device(*values) -> bool:
    return any(is_array(v) or isinstance(v, (list, tuple)) and on_device(*v) for v in values)


class Ufunc:
    """One of cupy's ufuncs with the methods of numpy's."""

    def __init__(self, name, reduce: Any = None):
        self.name, self.__name__, self._reduce = name, name, reduce

    def __call__(self, *args, **kw):
        return getattr(cupy(), self.name)(*args, **kw)

    def reduce(self, x, axis=0, dtype=None, keepdims=False, initial=None):
        if isinstance(x, (list, tuple)):
            x = cupy().stack(x)
        if axis == ():
            return x.astype(dtype or (np.bool_ if self._reduce in ("any", "all") else x.dtype))
        if initial is not None and (x.size == 0 or self.name in ("maximum", "minimum")):
            return self._with(x, axis, keepdims, initial)
        if x.size == 0 and self.name in ("maximum", "minimum"):  # cupy refuses even where nothing is reduced to nothing
            return self._with(x, axis, keepdims, 0)
        more = {} if dtype is None else {"dtype": dtype}
        return getattr(cupy(), self._reduce)(x, axis=axis, keepdims=keepdims, **more)

    def _with(self, x, axis, keepdims, initial):
        if x.size:
            return self(self.reduce(x, axis, None, keepdims), x.dtype.type(initial))
        axes = range(x.ndim) if axis is None else [d % x.ndim for d in (axis if isinstance(axis, tuple) else (axis,))]
        sizes = [1 if d in axes else n for d, n in enumerate(x.shape) if keepdims or d not in axes]
        return cupy().full(tuple(sizes), initial, x.dtype)

    def accumulate(self, x, axis=0, dtype=None):
        if dtype is not None:
            x = x.astype(dtype, copy=False)
        if self.name in ("add", "multiply") and x.dtype.kind != "b":
            return (cupy().cumsum if self.name == "add" else cupy().cumprod)(x, axis=axis, dtype=x.dtype)
        return doubled(self, x, axis)

    def at(self, x, index, value):
        if self.name == "add":
            return add_at(x, index, value)
        if self.name == "multiply":
            return multiply_at(x, index, value)
        return extreme_at(self, x, index, value)

    def outer(self, a, b):
        return self(a.reshape(a.shape + (1,) * b.ndim), b)

    def reduceat(self, x, starts, axis=0):
        ends = [int(s) for s in starts[1:]] + [x.shape[axis]]
        pieces = [slice(int(s), max(e, int(s) + 1)) for s, e in zip(starts, ends)]
        front = (slice(None),) * (axis % x.ndim)
        return cupy().stack([self.reduce(x[(*front, p)], axis) for p in pieces], axis)


def doubled(function, x, axis):
    """Running results of any associative function: after k rounds each holds that of the last 2**k elements."""
    n, step = x.shape[axis], 1
    front = (slice(None),) * (axis % x.ndim)
    out = x.copy()
    while step < n:
        grown = out.copy()
        grown[(*front, slice(step, None))] = function(out[(*front, slice(step, None))], out[(*front, slice(None, -step))])
        out, step = grown, 2 * step
    return out


# atomic additions exist for these; other types are added in one that holds their numbers
_WIDER = {"bool": np.int32, "int8": np.int32, "uint8": np.int32, "int16": np.int32, "uint16": np.int32}


def add_at(x, index, value):
    """x[index] += value, where repeated indices add up."""
    kind = x.dtype
    if kind == np.int64:
        return _add_at(x.view(np.uint64), index, cupy().asarray(value).astype(np.int64).view(np.uint64))
    if kind.kind == "c":
        parts = cupy().asarray(value).astype(kind)
        real, imag = add_parts(x)
        _add_at(real, index, cupy().ascontiguousarray(parts.real))
        return _add_at(imag, index, cupy().ascontiguousarray(parts.imag))
    wide = np.float32 if kind == np.float16 else _WIDER.get(kind.name)
    if wide is None:
        return _add_at(x, index, cupy().asarray(value).astype(kind))
    held = x.astype(wide)
    _add_at(held, index, cupy().asarray(value).astype(wide))
    x[...] = held.astype(kind)


def add_parts(x):
    """Views of the real and the imaginary parts."""
    half = x.real.dtype
    memory = [cupy().ndarray(x.shape, half, x.data + shift, tuple(x.strides)) for shift in (0, half.itemsize)]
    return memory


def _add_at(x, index, value):
    cupy().add.at(x, index, value)


class _Namespace:
    """Functions under names, and cupy's for all others."""

    def __init__(self, module, **own):
        self._module, self._own = module, own

    def __getattr__(self, name):
        own = self._own.get(name)
        return own if own is not None else getattr(self._module(), name)


def _checked(name):
    """A factorisation that raises for matrices that have none."""

    def run(*args, **kw):
        import cupyx

        with cupyx.errstate(linalg="raise"):
            return getattr(cupy().linalg, name)(*args, **kw)

    run.__name__ = name
    return run


def _either(name):
    """For Python's numbers numpy's own function."""

    def run(x, *args, **kw):
        return getattr(cupy() if on_device(x, *args) else np, name)(x, *args, **kw)

    run.__name__ = name
    return run


def where(condition, a, b):
    condition = condition if is_array(condition) else cupy().asarray(condition)
    return cupy().where(condition, a, b)


def as_strided(x, shape, strides, writeable=True):
    return cupy().lib.stride_tricks.as_strided(x, shape, strides)


def copyto(x, value, casting="unsafe"):
    x[...] = value if not is_array(value) or value.dtype == x.dtype else value.astype(x.dtype)


def asarray(x, dtype=None):
    return cupy().asarray(x if not isinstance(x, (list, tuple)) or not on_device(*x) else cupy().stack(x), dtype)


def array(x, dtype=None):
    return cupy().array(x, dtype) if is_array(x) else asarray(x, dtype)


def delete(x, k, axis):
    kept = [n for n in range(x.shape[axis]) if n != k]
    return cupy().take(x, cupy().asarray(kept, dtype=np.int64), axis=axis)


def _extreme(ufunc):
    def run(x, axis=None, keepdims=False, initial=None):
        return XP.__getattr__(ufunc).reduce(x, axis, None, keepdims, initial)

    return run


def _place(name):
    """argmax or argmin; of rows that do not exist there are none."""

    def run(x, axis=None):
        if x.size == 0 and axis is not None and x.shape[axis]:
            return cupy().empty([n for d, n in enumerate(x.shape) if d != axis % x.ndim], np.int64)
        return getattr(cupy(), name)(x, axis=axis)

    run.__name__ = name
    return run


def multiply_at(x, index, value):
    """x[index] *= value with every element counting: cupy has no atomic products, so in each round one of the elements that
    still wait for a place has its turn."""
    places = cupy().arange(x.size).reshape(x.shape)[index].ravel()
    values, flat = cupy().broadcast_to(value, index[0].shape if index else x.shape).ravel(), x.ravel()
    waiting = cupy().arange(places.size)
    while waiting.size:
        last = cupy().empty(x.size, np.int64)
        last[places[waiting]] = waiting  # whichever is written last
        now = last[places[waiting]] == waiting
        chosen = waiting[now]
        flat[places[chosen]] = flat[places[chosen]] * values[chosen]
        waiting = waiting[~now]
    x[...] = flat.reshape(x.shape)


def extreme_at(extreme, x, index, value):
    """x[index] = extreme(x[index], value) with every element counting: cupy's own knows few types and no NaN. The elements are
    sorted by place and value, NaN behind all numbers; of each place the first and the last are of interest."""
    places = cupy().arange(x.size).reshape(x.shape)[index].ravel()
    values, flat = cupy().broadcast_to(value, index[0].shape if index else x.shape).ravel(), x.ravel()
    if not places.size:
        return
    order = cupy().argsort(values, kind="stable")
    order = order[cupy().argsort(places[order], kind="stable")]
    places, values = places[order], values[order]
    new = places[1:] != places[:-1]
    edge = cupy().ones(1, bool)
    for ends in (cupy().concatenate((edge, new)), cupy().concatenate((new, edge))):
        where = places[ends]
        flat[where] = extreme(flat[where], values[ends])
    x[...] = flat.reshape(x.shape)


def tile(x, repeats):
    """Of a row: copies below each other."""
    rows, _ = repeats
    return cupy().broadcast_to(x, (rows, x.shape[0])).copy()


def chebval(x, c):
    """Clenshaw's recurrence, the coefficients being numbers of the host."""
    c = [float(v) for v in c]
    if len(c) < 3:
        c = c + [0.0] * (3 - len(c))
    c0, c1 = c[-2], c[-1]
    for k in range(3, len(c) + 1):
        c0, c1 = c[-k] - c1, c0 + c1 * (2 * x)
    return c0 + c1 * x


_UFUNCS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "any",
    "logical_and": "all",
    "logaddexp": None,
}
_FACTORS = ("inv", "solve", "cholesky", "eigh", "eig", "svd", "qr", "det", "slogdet")


class Xp(_Namespace):
    """The module `np` of a ported kernel."""

    def __init__(self):
        super().__init__(cupy, **{name: Ufunc(name, reduce) for name, reduce in _UFUNCS.items()})
        self._own.update(
            {f.__name__: f for f in (where, copyto, asarray, array, delete, tile)},
            max=_extreme("maximum"),
            min=_extreme("minimum"),
            argmax=_place("argmax"),
            argmin=_place("argmin"),
            prod=_either("prod"),
            argsort=_either("argsort"),
            broadcast_shapes=np.broadcast_shapes,
            dtype=np.dtype,
            generic=np.generic,
            errstate=lambda **_: contextlib.nullcontext(),
            ufunc=Ufunc,
            finfo=np.finfo,
            iinfo=np.iinfo,
            linalg=_Namespace(lambda: cupy().linalg, LinAlgError=np.linalg.LinAlgError, **{n: _checked(n) for n in _FACTORS}),
            lib=types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=as_strided)),
            polynomial=types.SimpleNamespace(
                chebyshev=types.SimpleNamespace(chebval=chebval, chebinterpolate=np.polynomial.chebyshev.chebinterpolate)
            ),
            shape=lambda x: x.shape if is_array(x) else np.shape(x),
            ndim=lambda x: x.ndim if is_array(x) else np.ndim(x),
        )


XP = Xp()
