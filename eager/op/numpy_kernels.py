"""Eager kernels on numpy arrays: the record's own, or one derived from its kind by running the formula on arrays.

In: a pure record and canonical arguments with real tensors. Out: a tuple of fresh tensors (views share their input's
bytes). Operands are cast to the computation type, the result once to its type. A record with an explicit loop and no
kernel runs that loop over index grids: slow, and exactly what the compiler lowers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ...runtime import copy_gather, native
from .. import dtypes
from .loop_rules import Draw, argument, cast_results, computation, finish, operands
from .meta import broadcast_shapes, cached_computation, infer, map_strides, tensors_of
from .prims import COMBINES, NUMPY, OPERATORS, PRIMS
from .. import random
from ..random import draw
from ..sizes import contiguous_strides, is_number
from ..state import state
from ..tensor import Tensor

wrap = Tensor._fl_from_array


def run_kernel(op, args) -> tuple[Tensor, ...]:
    """The outputs of a pure record."""
    if op.kernels and op.kind.name != "VIEW":  # a view is nothing but its stride rule
        outs = explicit(op, args)
        if outs is not None:
            return outs
    return _DERIVED[op.kind.name](op, args)


def array_of(a):
    """An argument as kernels take it: arrays for tensors, Python numbers for numpy's scalars."""
    if isinstance(a, Tensor):
        return a._fl_array
    if isinstance(a, np.generic):
        return a.item()
    if type(a) in (tuple, list) and a and isinstance(a[0], Tensor):
        return type(a)(x._fl_array for x in a)
    return a


# -- explicit kernels


def explicit(op, args):
    """Try the record's kernels, native first; None if none took the call."""
    arrays = [array_of(a) for a in args]
    for name in ("native", "numpy"):
        kernel = op.kernels.get(name)
        if kernel is not None:
            found = state.run(kernel, *arrays) if name == "numpy" else kernel(*arrays)
            if found is not NotImplemented:
                return wrap_outputs(op, args, found)
    return None


_BLOCK = type(native.empty((1 << 16,), np.dtype(np.float32)).base)  # what memory of the package's own belongs to


def wrap_outputs(op, args, found) -> tuple[Tensor, ...]:
    found = found if isinstance(found, tuple) else (found,)
    own = [a._fl_array for a in args if isinstance(a, Tensor)]
    return tuple([wrap_output(op, args, own, k, np.asarray(a)) for k, a in enumerate(found)])


def wrap_output(op, args, own, k, array) -> Tensor:
    """An output of a kernel: never an operand's bytes, strides as the meta rule says."""
    if any([may_alias(array, a) for a in own]):
        array = array.copy(order="K")
    if not array.flags.c_contiguous:
        array = restride(array, infer(op, args)[k].strides)
    return wrap(array, dtypes.from_numpy(array.dtype))


def may_alias(array, operand) -> bool:
    base = array.base
    if array is operand or base is None or operand is None:
        return array is operand
    return operand.base is base if type(base) is _BLOCK else np.may_share_memory(array, operand)


def restride(array, strides) -> np.ndarray:
    """A copy with the given strides in elements (None: contiguous) unless it has them."""
    wanted = strides or contiguous_strides(array.shape)
    if array.size == 0 or tuple(s // array.itemsize for s in array.strides) == tuple(wanted):
        return array
    order = sorted(range(array.ndim), key=lambda d: -wanted[d])
    out = np.empty([array.shape[d] for d in order], array.dtype).transpose(np.argsort(order))
    out[...] = array
    return out


# -- Map


@functools.lru_cache(None)
def simple_function(op):
    """The numpy function that a formula of one primitive amounts to; else the formula with numpy's vocabulary bound."""
    if op.fn is None or op.explicit_loop:
        return None
    names = [p.name for p in op.params]
    try:
        found = op.fn(_Tracer(), *[_Traced(name) for name in names])
    except Exception:  # the formula does more than apply primitives to its operands
        found = None
    if isinstance(found, _Traced) and found.args == tuple(names):
        return PRIMS[found.name].numpy
    return functools.partial(op.fn, NUMPY)


class _Traced:
    """An operand, or a primitive applied to operands, by name."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args


class _Tracer:
    def __getattr__(self, name):
        if name not in PRIMS:
            raise AttributeError(name)
        return lambda *args: _Traced(name, tuple([a.name if isinstance(a, _Traced) and a.args is None else None for a in args]))


def _operator(name):
    return lambda *args: getattr(_Tracer(), name)(*args)


for _special, _name in OPERATORS.items():
    setattr(_Traced, f"__{_special}__", _operator(_name))


def operand_arrays(op, args, compute) -> list:
    """Arrays in the computation type; numbers stay weak."""
    arrays = []
    for p, a in zip(op.params, args):
        if isinstance(a, Tensor):
            x = a._fl_array
            if compute is not None and p.promotes and a._fl_dtype is not compute:
                x = x.astype(compute.numpy)
            arrays.append(x)
        elif p.role == "tensors" and a is not None:
            arrays.append(
                tuple(
                    x._fl_array if compute is None or not p.promotes else x._fl_array.astype(compute.numpy, copy=False) for x in a
                )
            )
        elif p.is_tensor and a is not None:
            arrays.append(weak_number(array_of(a), compute))
        else:
            arrays.append(array_of(a))
    return arrays


def weak_number(a, compute):
    """A Python number beside arrays of `compute`; integers beyond its range wrap around, as in C."""
    if compute is not None and type(a) is int and compute.category == 1:
        info = dtypes.iinfo(compute)
        if not info.min <= a <= info.max:
            a = (a - info.min) % 2**info.bits + info.min
    return a


_DIVISIONS = frozenset(("floor_divide", "trunc_divide", "remainder", "fmod"))  # (compiled, n // 0 is 0)


def run_map(op, args) -> tuple[Tensor, ...]:
    if op.explicit_loop or op.meta_rule is not None:
        return run_loop(op, args)
    compute, types = cached_computation(op, args)
    tensors = tensors_of(op, args)
    sizes = broadcast_shapes([t._fl_array.shape for t in tensors], op.name)
    arrays = operand_arrays(op, args, compute)
    if not tensors:
        arrays = [
            np.asarray(a, (compute or types[0]).numpy) if p.is_tensor and is_number(a) else a for p, a in zip(op.params, arrays)
        ]
    if op.name in _DIVISIONS and compute.category == 1 and 0 not in sizes and not np.all(arrays[1]):
        raise RuntimeError("ZeroDivisionError")
    values = state.run(op.fn, NUMPY, *arrays)
    if len(op.outputs) == 1:
        values = (values,)
    strides = map_strides(sizes, tensors)
    return tuple([wrap(fresh(v, t, sizes, strides, tensors), t) for v, t in zip(values, types)])


def fresh(value, dtype, sizes, strides, tensors) -> np.ndarray:
    """A formula's value as an array of its own, of the result's type, sizes and strides."""
    r = np.asarray(value)
    if r.dtype != dtype.numpy:
        r = state.run(r.astype, dtype.numpy)
    if r.shape != sizes:
        r = np.broadcast_to(r, sizes)
    if r.base is not None or any(r is t._fl_array for t in tensors):
        r = r.copy(order="K")
    if strides is not None or not r.flags.c_contiguous:
        r = restride(r, strides)
    return r


# -- explicit loops over index grids


class GridLoader:
    """A tensor as a loader: broadcastable index arrays in, values out."""

    def __init__(self, t: Tensor):
        self.array, self.shape, self.dtype = t._fl_array, t._fl_array.shape, t._fl_dtype

    def __call__(self, *index, mask=None, other=0):
        if mask is None:
            return np.asarray(self.array[tuple(index)])
        mask = np.asarray(mask)
        if not self.array.size:
            return np.broadcast_to(np.asarray(other, self.array.dtype), np.broadcast(mask, *index).shape if index else mask.shape)
        inside = tuple(np.where(mask, i, 0) for i in index)
        return np.where(mask, self.array[inside], np.asarray(other, self.array.dtype))


class WholeLoader:
    """A tensor as a loader that ignores the index: numpy broadcasts."""

    def __init__(self, t: Tensor):
        self.array, self.shape, self.dtype = t._fl_array, t._fl_array.shape, t._fl_dtype

    def __call__(self, *index, mask=None, other=0):
        return self.array


def loaders(op, args, kind: Callable = GridLoader) -> list:
    return [
        kind(a) if isinstance(a, Tensor) else tuple(kind(x) for x in a) if p.role == "tensors" and a is not None else array_of(a)
        for p, a in zip(op.params, args)
    ]


def grid(sizes, before: int = 0, after: int = 0) -> tuple:
    """Broadcastable int64 index arrays over `sizes`, among `before` + len + `after` dimensions."""
    ndim = before + len(sizes) + after
    return tuple(
        np.arange(n, dtype=np.int64).reshape([-1 if k == before + d else 1 for k in range(ndim)]) for d, n in enumerate(sizes)
    )


def run_loop(op, args) -> tuple[Tensor, ...]:
    specs = infer(op, args)
    values = state.run(op.loop, NUMPY, grid(specs[0].sizes), (), *loaders(op, args))
    values = values if isinstance(values, tuple) else (values,)
    tensors = [a for a in args if isinstance(a, Tensor)]
    return tuple([wrap(fresh(v, s.dtype, tuple(s.sizes), s.strides, tensors), s.dtype) for v, s in zip(values, specs)])


# -- Reduce, Scan


def run_reduce(op, args) -> tuple[Tensor, ...]:
    if op.explicit_loop or op.meta_rule is not None:
        return run_windows(op, args)
    compute, types = cached_computation(op, args)
    dims, keepdim = argument(op, args, "dim"), argument(op, args, "keepdim", False)
    arrays = [a for p, a in zip(op.params, operand_arrays(op, args, compute)) if p.name not in ("dim", "keepdim")]
    return state.run(_reduce, op, args, arrays, tuple(dims), keepdim, compute)


def _reduce(op, args, arrays, dims, keepdim, compute):
    value = np.broadcast_to(op.fn(NUMPY, *arrays), args[0]._fl_array.shape)
    acc = COMBINES[op.combine].reduce(value, dims)
    values = finish(op, NUMPY, acc if len(acc) > 1 else acc[0], args)
    values = values if isinstance(values, tuple) else (values,)
    sizes = infer(op, args)[0].sizes if keepdim else None
    return tuple([wrap(contiguous(v, sizes), dtypes.from_numpy(v.dtype)) for v in values])


def contiguous(value, sizes=None) -> np.ndarray:
    r = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
    return r if sizes is None else r.reshape(sizes)


def run_windows(op, args) -> tuple[Tensor, ...]:
    """A reduction with its own loop: values over (output index, reduction index), combined over the latter."""
    specs = infer(op, args)
    sizes, extents = tuple(specs[0].sizes), tuple(op.ranges(*args))
    n, m = len(sizes), len(extents)
    value = state.run(op.loop, NUMPY, grid(sizes, 0, m), grid(extents, n, 0), *loaders(op, args))
    value = np.broadcast_to(value, sizes + extents)
    acc = state.run(COMBINES[op.combine].reduce, value, tuple(range(n, n + m)))
    values = state.run(finish, op, NUMPY, acc if len(acc) > 1 else acc[0], args)
    values = values if isinstance(values, tuple) else (values,)
    return tuple([wrap(restride(contiguous(v), s.strides), s.dtype) for v, s in zip(values, specs)])


SCANS = {
    "sum": np.add.accumulate,
    "prod": np.multiply.accumulate,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
    "any": np.logical_or.accumulate,
    "all": np.logical_and.accumulate,
    "logsumexp": np.logaddexp.accumulate,
}


def run_scan(op, args) -> tuple[Tensor, ...]:
    compute, types = cached_computation(op, args)
    arrays = operand_arrays(op, args, compute)
    dim = argument(op, args, "dim")
    value = np.asarray(state.run(op.fn, NUMPY, *arrays[:-1]))
    if op.combine in ("argmax", "argmin"):
        values = state.run(extreme_scan, op.combine, value, dim)
    else:
        values = (state.run(SCANS[op.combine], value, dim, value.dtype) if value.ndim else value,)
    values = state.run(cast_results, NUMPY, values if len(types) > 1 else values[0], types)
    values = values if isinstance(values, tuple) else (values,)
    return tuple([wrap(contiguous(np.asarray(v)), t) for v, t in zip(values, types)])


def extreme_scan(combine, value, dim):
    """Running extreme and where it stands; of equals the last, as PyTorch's cummax has it."""
    best = SCANS[combine[3:]](value, dim)
    steps = np.arange(value.shape[dim]).reshape([-1 if d == dim else 1 for d in range(value.ndim)])
    hit = (value == best) | (np.isnan(value) if value.dtype.kind == "f" else False)
    return best, np.maximum.accumulate(np.where(hit, steps, 0), dim).astype(np.int64)


# -- Scatter


def run_scatter(op, args) -> tuple[Tensor, ...]:
    base = args[0]
    if isinstance(base, Tensor):
        x = base._fl_array
        out = copy_gather.copied(x) if x.flags.c_contiguous else restride(x.copy(order="K"), infer(op, args)[0].strides)
        dtype = base._fl_dtype
    else:
        spec = infer(op, args)[0]
        out, dtype = copy_gather.zeros(spec.sizes, spec.dtype.numpy), spec.dtype
    state.run(scatter_into, op, out, args)
    return (wrap(out, dtype),)


def scatter_into(op, out, args) -> None:
    view = op.cache.get("view")
    if view is not None:  # a derived write through a view: assign to the view of the output
        value = args[1]._fl_array if isinstance(args[1], Tensor) else args[1]
        view_of(view, wrap(out, args[0]._fl_dtype), args[2:])._fl_array[...] = value
        return
    sizes = tuple(op.ranges(*args))
    index, value = op.loop(NUMPY, grid(sizes), (), *loaders(op, args))
    index = tuple(np.broadcast_arrays(*index, np.empty(sizes, bool))[:-1]) if sizes else index
    value = np.broadcast_to(np.asarray(value), sizes).astype(out.dtype)
    if op.mode == "set":
        out[index] = value
    else:
        COMBINED[op.mode].at(out, index, value)


COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


# -- Random


class NumpyDraw(Draw):
    """A whole draw at once, by the native generator."""

    def __init__(self, seed, ordinal, sizes, dtype):
        super().__init__(NUMPY, seed, ordinal, None, dtype)
        self.sizes = sizes

    def filled(self, kind, word=0) -> np.ndarray:
        out = native.empty(tuple(self.sizes), np.dtype(kind))
        native.philox(out, *self.key[:2], word)
        return out

    def bits(self, word: int = 0):
        return self.filled(np.uint32, word).astype(np.int64)

    def normal(self):
        """Doubles by numpy's functions, floats by those that compiled code has."""
        return self.filled(np.float32, 4) if self.dtype is dtypes.float32 else super().normal()

    def uniform(self, pair: int = 0):
        return self.filled(self.dtype.numpy) if pair == 0 else super().uniform(pair)


def run_random(op, args) -> tuple[Tensor, ...]:
    specs = infer(op, args)
    if random.in_order is not None:
        return (wrap(ordered_draw(op, args), specs[0].dtype),)
    sizes = tuple(specs[0].sizes)
    key = draw(args[-1])
    values = state.run(random_arrays, op, args, sizes, key)
    values = values if isinstance(values, tuple) else (values,)
    return tuple([wrap(fresh(v, s.dtype, sizes, None, ()), s.dtype) for v, s in zip(values, specs)])


def ordered_draw(op, args) -> np.ndarray:
    """PyTorch's numbers."""
    return np.ascontiguousarray(random.in_order.draw(op, args[:-1], args[-1] or random.default_generator))


def random_arrays(op, args, sizes, key: tuple[int, int]):
    compute, types = computation(op, args)
    inner = types[0].compute if types[0].is_floating_point else compute or dtypes.float32
    rng = NumpyDraw(*key, sizes, inner)
    values = list(operands(op, NUMPY, sizes, loaders(op, args[:-1], WholeLoader), compute, inner))
    return cast_results(NUMPY, op.fn(NUMPY, rng, *values), types)


# -- View


def view_of(op, x: Tensor, args) -> Tensor:
    """The view by the record's stride rule, over the same storage."""
    sizes, strides, offset = op.fn(x._fl_sizes, x._fl_strides, *args)
    storage = x._fl_ensure_storage()
    if op.promote == "keep":
        return Tensor._fl_over(storage, x._fl_dtype, sizes, strides, x._fl_geometry[2] + offset)
    dtype = op.types(x, *args)[1]
    start = x._fl_geometry[2] * x._fl_dtype.itemsize // dtype.itemsize
    return Tensor._fl_over(storage, dtype, sizes, strides, start + offset)


def run_view(op, args) -> tuple[Tensor, ...]:
    return (view_of(op, args[0], args[1:]),)


# -- Extern


def run_extern(op, args) -> tuple[Tensor, ...]:
    return wrap_outputs(op, args, state.run(op.fn, *[array_of(a) for a in args]))


def run_composite(op, args) -> tuple[Tensor, ...]:
    """The decomposition, for arguments that the record's own kernel does not take."""
    outs = op.fn(*args)
    outs = outs if isinstance(outs, tuple) else (outs,)
    return tuple([t._fl_alias() if any(t is a for a in args) else t for t in outs])


_DERIVED = {
    "MAP": run_map,
    "REDUCE": run_reduce,
    "SCAN": run_scan,
    "SCATTER": run_scatter,
    "RANDOM": run_random,
    "VIEW": run_view,
    "EXTERN": run_extern,
    "COMPOSITE": run_composite,
}
