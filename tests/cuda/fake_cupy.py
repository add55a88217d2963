"""A stand-in for cupy on machines without a GPU: arrays over numpy that behave, and refuse, as cupy's do.

In: nothing. Out: `install()` puts `cupy`, `cupyx` and `cupy_backends` into sys.modules. Only names of LISTED exist; each was
looked up in cupy 14.2. Strict where cupy is: numpy arrays are no operands and nothing converts to them unasked; ufuncs
take the types that cupy has loops for; an index out of range wraps around; sums at repeated indices exist for the types
with atomics; arrays of another GPU than the current one are refused; freed blocks stay in a pool; cuBLAS sees addresses.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import types
import weakref

import numpy as np
import numpy.lib.array_utils

TOTAL, COUNT = 1 << 30, 2
state = threading.local()


class OutOfMemoryError(MemoryError):
    pass


class CUDARuntimeError(RuntimeError):
    pass


def current() -> int:
    return getattr(state, "device", 0)


# -- memory


class Pool:
    def __init__(self):
        self.used = [0] * COUNT
        self.total = [0] * COUNT
        self.limit = [None] * COUNT

    def take(self, memory):
        k, n = memory.device, memory.nbytes
        if self.used[k] + n > (self.limit[k] or TOTAL):
            raise OutOfMemoryError(f"Out of memory allocating {n:,} bytes (allocated so far: {self.used[k]:,} bytes).")
        self.used[k] += n
        self.total[k] = max(self.total[k], self.used[k])
        weakref.finalize(memory, self.back, k, n).atexit = False

    def back(self, k, n):
        self.used[k] -= n

    def used_bytes(self):
        return self.used[current()]

    def total_bytes(self):
        return self.total[current()]

    def free_all_blocks(self):
        self.total = list(self.used)

    def set_limit(self, size=None, fraction=None):
        self.limit[current()] = size if fraction is None else int(fraction * TOTAL)

    def get_limit(self):
        return self.limit[current()] or 0


pool, pinned_pool = Pool(), Pool()


class Memory:
    """A block: numpy bytes that stand for a GPU's."""

    def __init__(self, nbytes):
        self.device, self.nbytes = current(), nbytes
        pool.take(self)
        self.bytes = np.full(max(nbytes, 1), 0xA5, np.uint8)  # fresh memory is garbage
        self.ptr = self.bytes.ctypes.data


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.offset = mem, offset

    @property
    def ptr(self):
        return self.mem.ptr + self.offset

    def __add__(self, more):
        return MemoryPointer(self.mem, self.offset + int(more))


def on_this_device(x):
    if x.data.mem.device != current():
        raise ValueError(
            f"Array device must be same as the current device: array device = {x.data.mem.device} while current = {current()}"
        )
    return x


# -- arrays


class Flags:
    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous


class ndarray:
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        dtype = checked_type(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
        if memptr is None:
            memptr = MemoryPointer(Memory(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize), 0)
        held = memptr.mem.bytes
        if strides is None:
            strides = np.empty(0, dtype).strides if 0 in shape else _dense(shape, dtype.itemsize)
        self.data, self.base = memptr, None
        if 0 in shape:
            self._a = np.empty(shape, dtype)
        else:
            low, high = numpy.lib.array_utils.byte_bounds(np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides))
            if memptr.offset + (high - low) > max(memptr.mem.nbytes, 1):
                raise ValueError("an array reaches beyond its block of memory")
            self._a = np.ndarray(shape, dtype, held, memptr.offset, strides)

    @classmethod
    def fresh(cls, a):
        a = np.asarray(a)
        out = cls(a.shape, a.dtype, None, None if a.flags.c_contiguous or not a.size else _keeping(a))
        out._a[...] = a
        return out

    def part(self, a):
        """A view of this array's memory."""
        out = ndarray.__new__(ndarray)
        out._a, out.base = a, self if self.base is None else self.base
        shift = a.__array_interface__["data"][0] - self.data.mem.ptr if a.size else 0
        out.data = MemoryPointer(self.data.mem, shift)
        return out

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    strides = property(lambda self: self._a.strides)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    itemsize = property(lambda self: self._a.itemsize)
    flags = property(lambda self: Flags(self._a.flags))
    T = property(lambda self: self.part(self._a.T))
    real = property(lambda self: self.part(self._a.real) if self.dtype.kind == "c" else self)
    device = property(lambda self: Device(self.data.mem.device))

    @property
    def imag(self):
        return self.part(self._a.imag) if self.dtype.kind == "c" else ndarray.fresh(np.zeros_like(self._a))

    # -- to and from the host

    def get(self, stream=None, order="C", out=None, blocking=True):
        on_this_device(self)
        return self._a.copy("C")

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self._a.flags.c_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        on_this_device(self)._a[...] = arr

    def item(self):
        return on_this_device(self)._a.item()

    def __array__(self, *args, **kw):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kw):
        if method != "__call__" or kw:
            return NotImplemented
        return getattr(cupy, ufunc.__name__)(*inputs)

    def __array_function__(self, func, kinds, args, kw):
        raise TypeError(f"the stand-in takes no numpy.{func.__name__}: use cupy's")

    @property
    def __cuda_array_interface__(self):
        return {"version": 2, "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "strides": None}

    def __bool__(self):
        return bool(self._a)

    def __int__(self):
        return int(self._a)

    def __float__(self):
        return float(self._a)

    def __index__(self):
        return self._a.__index__()

    def __len__(self):
        return len(self._a)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    # -- parts

    def __getitem__(self, key):
        on_this_device(self)
        key, advanced = _key(key, self.shape)
        found = self._a[key]
        return (
            ndarray.fresh(found)
            if advanced
            else self.part(np.asarray(found) if isinstance(found, np.ndarray) else self._a[_slices(key, self.ndim)].reshape(()))
        )

    def __setitem__(self, key, value):
        on_this_device(self)
        key, _ = _key(key, self.shape)
        value = plain(value)
        if isinstance(value, np.ndarray) and value.dtype.kind == "c" and self.dtype.kind != "c":
            raise TypeError("complex values into a real array")
        with np.errstate(all="ignore"):
            self._a[key] = value

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        dtype = checked_type(dtype)
        if not copy and dtype == self.dtype:
            return self
        with np.errstate(all="ignore"):
            return ndarray.fresh(on_this_device(self)._a.astype(dtype))

    def copy(self, order="C"):
        return ndarray.fresh(self._a.copy(order))  # from any GPU to the current one

    def view(self, dtype):
        return self.part(self._a.view(checked_type(dtype)))

    def reshape(self, *shape, order="C"):
        a = self._a.reshape(shape[0] if len(shape) == 1 else shape)
        return self.part(a) if np.may_share_memory(a, self._a) or not a.size else ndarray.fresh(a)

    def ravel(self, order="C"):
        return self.reshape(-1)

    def transpose(self, *axes):
        return self.part(self._a.transpose(*axes))

    def swapaxes(self, a, b):
        return self.part(self._a.swapaxes(a, b))

    def squeeze(self, axis=None):
        return self.part(self._a.squeeze(axis))

    def fill(self, value):
        self._a.fill(plain(value))

    def conj(self):
        return ndarray.fresh(self._a.conj()) if self.dtype.kind == "c" else self

    conjugate = conj

    def __matmul__(self, other):
        return cupy.matmul(self, other)


def _dense(shape, step):
    out = []
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))


def _keeping(a):
    """Strides without gaps in the array's own order."""
    return a.copy(order="K").strides


def checked_type(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind not in "?biufc" or dtype.char in "gG" or dtype.name in ("float8_e4m3fn", "float8_e5m2", "bfloat16"):
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def plain(x):
    """An operand for numpy; what cupy would not take is refused."""
    if isinstance(x, ndarray):
        return on_this_device(x)._a
    if isinstance(x, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return x


def _key(key, shape):
    """(numpy's key, whether there is an index array); indices out of range wrap around."""
    key = key if isinstance(key, tuple) else (key,)
    count = sum(
        1 if not (isinstance(k, ndarray) and k.dtype == bool) else k.ndim for k in key if k is not None and k is not Ellipsis
    )
    out, dim, advanced = [], 0, False
    for k in key:
        if k is None:
            out.append(k)
            continue
        if k is Ellipsis:
            out.append(k)
            dim = len(shape) - (count - dim)
            continue
        if isinstance(k, (np.ndarray, list)):
            raise IndexError("index arrays must be cupy's")
        if isinstance(k, ndarray):
            a = on_this_device(k)._a
            advanced = True
            if a.dtype == bool:
                out.append(a)
                dim += a.ndim
                continue
            if a.dtype.kind not in "iu":
                raise IndexError("arrays used as indices must be of integer or boolean type")
            out.append(a % shape[dim] if shape[dim] else a)
        else:
            out.append(k)
        dim += 1
    return tuple(out), advanced


def _slices(key, ndim):
    """Integers as slices of length one, so that a view is left."""
    return tuple(slice(k, k + 1 or None) if isinstance(k, (int, np.integer)) else k for k in key)


# -- ufuncs: the loops that cupy has, as its `types` tell them

_INTS = "bb->b BB->B hh->h HH->H ii->i II->I ll->l LL->L qq->q QQ->Q"
_REALS = "ee->e ff->f dd->d"
_COMPLEX = "FF->F DD->D"
_SIGNED_1, _FLOATS_1 = "b->b B->B h->h H->H i->i I->I l->l L->L q->q Q->Q", "e->e f->f d->d"
_ALL_1 = f"?->? {_SIGNED_1} {_FLOATS_1}"
_TESTS = "??->? qq->? qQ->? Qq->? QQ->? ee->? ff->? dd->?"
TYPES = {
    "add": f"??->? {_INTS} {_REALS} {_COMPLEX}",
    "subtract": f"{_INTS} {_REALS} {_COMPLEX}",
    "multiply": f"??->? {_INTS} {_REALS} {_COMPLEX}",
    "true_divide": f"qq->d qQ->d Qq->d QQ->d {_REALS} {_COMPLEX}",
    "floor_divide": f"{_INTS} {_REALS}",
    "remainder": f"{_INTS} {_REALS}",
    "power": f"??->b {_INTS} {_REALS} {_COMPLEX}",
    "maximum": f"??->? {_INTS} {_REALS} {_COMPLEX}",
    "minimum": f"??->? {_INTS} {_REALS} {_COMPLEX}",
    "negative": f"{_ALL_1} F->F D->D",
    "absolute": f"{_ALL_1} F->f D->d",
    "sign": f"{_SIGNED_1} {_FLOATS_1} F->F D->D",
    "floor": _ALL_1,
    "ceil": _ALL_1,
    "rint": f"{_FLOATS_1} F->F D->D",
    "trunc": _ALL_1,
    "isnan": "e->? f->? d->? F->? D->?",
    "isinf": "e->? f->? d->? F->? D->?",
    "isfinite": "e->? f->? d->? F->? D->?",
    "signbit": "e->? f->? d->?",
    "copysign": _REALS,
    "logaddexp": _REALS,
    "arctan2": _REALS,
    "nextafter": _REALS,
    "left_shift": _INTS,
    "right_shift": _INTS,
    "bitwise_and": f"??->? {_INTS}",
    "bitwise_or": f"??->? {_INTS}",
    "bitwise_xor": f"??->? {_INTS}",
    "invert": f"?->? {_SIGNED_1}",
    "square": f"{_SIGNED_1} {_FLOATS_1} F->F D->D",
    "reciprocal": f"{_SIGNED_1} {_FLOATS_1} F->F D->D",
    "conjugate": f"{_SIGNED_1} {_FLOATS_1} F->F D->D",
    **{n: f"{_TESTS} FF->? DD->?" for n in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")},
    "logical_and": _TESTS,
    "logical_or": _TESTS,
    "logical_not": " ".join(f"{c}->?" for c in "?bBhHiIlLqQefd"),
    **{
        n: f"{_FLOATS_1} F->F D->D"
        for n in (
            "exp",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sqrt",
            "sin",
            "cos",
            "tan",
            "tanh",
            "sinh",
            "cosh",
            "arctan",
            "arcsin",
            "arccos",
            "arcsinh",
            "arccosh",
            "arctanh",
        )
    },
}


class ufunc:
    """cupy's: the first loop to which the operands can be cast safely; Python's numbers take the arrays' kind."""

    def __init__(self, name):
        self.name, self._numpy = name, getattr(np, name)
        self.types = [tuple(t.split("->")) for t in TYPES[name].split()]

    def __call__(self, *args, out=None, dtype=None):
        arrays = [plain(a) for a in args]
        wanted = np.result_type(*[a if isinstance(a, (np.ndarray, np.generic)) else a for a in arrays])
        kinds = [a.dtype if isinstance(a, (np.ndarray, np.generic)) else wanted for a in arrays]
        for ins, result in self.types:
            if all(np.can_cast(k, c) for k, c in zip(kinds, ins)):
                with np.errstate(all="ignore"):
                    found = self._numpy(*[np.asarray(a).astype(c) for a, c in zip(arrays, ins)]).astype(result)
                if out is not None:
                    out._a[...] = found
                    return out
                return ndarray.fresh(found)
        raise TypeError(f"Wrong type ({', '.join(map(str, kinds))}) of arguments for cupy_{self.name}")

    def at(self, a, indices, b=None):
        if self.name != "add":
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        if a.dtype.name not in ("int32", "float16", "float32", "float64", "uint32", "uint64", "complex64", "complex128"):
            raise TypeError(
                "cupy.add.at only supports int32, float16, float32, float64, complex64, complex128, uint32, uint64, "
                f"as data type, got {a.dtype}"
            )
        np.add.at(a._a, _key(indices, a.shape)[0], plain(b))


def _operator(name, swapped=False):
    def method(self, other):
        if not isinstance(other, (ndarray, int, float, complex, bool, np.generic)):
            if isinstance(other, np.ndarray):
                raise TypeError("Unsupported type <class 'numpy.ndarray'>")
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        return getattr(cupy, name)(*pair)

    return method


def _in_place(name):
    def method(self, other):
        found = getattr(cupy, name)(self, other)
        if not np.can_cast(found.dtype, self.dtype, "same_kind"):
            raise TypeError(f"output (typecode '{found.dtype.char}') could not be coerced to '{self.dtype.char}'")
        self._a[...] = found._a
        return self

    return method


for _name, _special in dict(
    add="add",
    subtract="sub",
    multiply="mul",
    true_divide="truediv",
    floor_divide="floordiv",
    remainder="mod",
    power="pow",
    left_shift="lshift",
    right_shift="rshift",
    bitwise_and="and",
    bitwise_or="or",
    bitwise_xor="xor",
).items():
    setattr(ndarray, f"__{_special}__", _operator(_name))
    setattr(ndarray, f"__r{_special}__", _operator(_name, True))
    setattr(ndarray, f"__i{_special}__", _in_place(_name))
for _name, _special in dict(less="lt", less_equal="le", greater="gt", greater_equal="ge", equal="eq", not_equal="ne").items():
    setattr(ndarray, f"__{_special}__", _operator(_name))
for _name, _special in dict(negative="neg", absolute="abs", invert="invert").items():
    setattr(ndarray, f"__{_special}__", lambda self, _n=_name: getattr(cupy, _n)(self))


# -- functions: numpy's over device arrays, with cupy's signatures


def wrapped(x):
    if isinstance(x, (tuple, list)):
        return type(x)(map(wrapped, x)) if not hasattr(x, "_fields") else tuple(map(wrapped, x))
    return ndarray.fresh(x) if isinstance(x, (np.ndarray, np.generic)) else x


def over(function, *allowed):
    """A function of device arrays (the first argument, or a list of them); keywords that cupy's has."""

    def run(x, *args, **kw):
        for name in kw:
            if name not in allowed:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'")
        if isinstance(x, (list, tuple)):
            x = [_array(v) for v in x]
        else:
            x = _array(x)
        with np.errstate(all="ignore"):
            return wrapped(function(x, *map(plain, args), **{k: plain(v) for k, v in kw.items()}))

    return run


def _array(x):
    if not isinstance(x, ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    return plain(x)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    a = np.asarray(a, dtype)
    checked_type(a.dtype)
    return ndarray.fresh(np.ascontiguousarray(a) if a.ndim else a)


def array(obj, dtype=None, copy=True):
    return asarray(obj, dtype).copy()


def ascontiguousarray(a, dtype=None):
    a = asarray(a, dtype)
    return a if a.flags.c_contiguous else a.copy()


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype)


def full(shape, fill_value, dtype=None, order="C"):
    fill_value = plain(fill_value)
    out = ndarray(shape, np.asarray(fill_value).dtype if dtype is None else dtype)
    with np.errstate(all="ignore"):
        out._a[...] = fill_value
    return out


def arange(*args, dtype=None):
    return ndarray.fresh(np.arange(*args, dtype=dtype))


def where(condition, x=None, y=None):
    if not isinstance(condition, ndarray):
        raise AttributeError("'bool' object has no attribute 'astype'")
    return ndarray.fresh(np.where(_array(condition).astype(bool), plain(x), plain(y)))


def broadcast_to(a, shape):
    return a.part(np.broadcast_to(_array(a), shape))


def as_strided(x, shape=None, strides=None):
    return x.part(np.lib.stride_tricks.as_strided(_array(x), shape, strides))


def matmul(a, b, out=None):
    a, b = _array(a), _array(b)
    if a.dtype != b.dtype:
        raise TypeError("the stand-in multiplies matrices of one type")
    return ndarray.fresh(np.matmul(a, b))


def argsort(a, axis=-1, kind=None):
    if kind not in (None, "stable"):
        raise ValueError("cupy's sort is stable, and no other")
    return ndarray.fresh(np.argsort(_array(a), axis=axis, kind="stable"))


def searchsorted(a, v, side="left", sorter=None):
    if not isinstance(a, ndarray) or not isinstance(v, ndarray):
        raise NotImplementedError("Only int or ndarray are supported for a")
    if a.ndim > 1:
        raise ValueError("object of too small depth for desired array")
    return ndarray.fresh(np.asarray(np.searchsorted(a._a, v._a, side)))


def nonzero(a):
    if a.ndim == 0:
        raise ValueError("nonzero of an array without dims")
    return tuple(ndarray.fresh(x) for x in np.nonzero(_array(a)))


def rolled(function):
    """Views of numpy's are views here."""

    def run(x, *args, **kw):
        return x.part(function(_array(x), *args, **kw))

    return run


def _reduction(name):
    function = getattr(np, name)

    def run(a, axis=None, dtype=None, out=None, keepdims=False):
        if axis == ():
            raise ValueError("the stand-in reduces over some axis")
        if name in ("max", "min", "argmax", "argmin") and a.size == 0:
            raise ValueError(f"zero-size array to reduction operation cupy_{name} which has no identity")
        if isinstance(axis, tuple) and name in ("argmax", "argmin"):
            raise TypeError("argmax takes one axis")
        kw = {} if dtype is None else {"dtype": dtype}
        with np.errstate(all="ignore"):
            return ndarray.fresh(np.asarray(function(_array(a), axis=axis, keepdims=keepdims, **kw)))

    return run


for _name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean"):

    def _method(self, axis=None, dtype=None, out=None, keepdims=False, _n=_name):
        return getattr(cupy, _n)(self, axis=axis, keepdims=keepdims, **({} if dtype is None else {"dtype": dtype}))

    setattr(ndarray, _name, _method)


def errstate(**kw):
    assert kw == {"linalg": "raise"}
    import contextlib

    return contextlib.nullcontext()


def empty_pinned(shape, dtype=float, order="C"):
    return np.empty(shape, dtype)


# -- kernels from text: the text, compiled for this machine


class ElementwiseKernel:
    def __init__(self, in_params, out_params, operation, name="kernel"):
        (self.ins, (self.out,)), self.name = ([p.split() for p in text.split(",")] for text in (in_params, out_params)), name
        pointers = "".join(f"const {_C[kind]}* p{k}, long s{k}, " for k, (kind, _) in enumerate(self.ins))
        loads = "".join(f"const {_C[kind]} {n} = p{k}[i * s{k}]; " for k, (kind, n) in enumerate(self.ins))
        kind, n = self.out
        text = (
            f'extern "C" __attribute__((visibility("default"))) void run(long count, {pointers}{_C[kind]}* result) {{ for (long i = 0; i < count; i++) {{ '
            f"{loads}{_C[kind]} {n}; {operation} result[i] = {n}; }} }}"
        )
        self.run = ctypes.CDLL(_built(text)).run

    def __call__(self, *args):
        arrays = [np.asarray(plain(a)) for a in args]
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        for a, (kind, n) in zip(arrays, self.ins):
            if a.dtype != kind:
                raise TypeError(f"{self.name}: {n} is {a.dtype}, not {kind}")
        dense = [np.ascontiguousarray(np.broadcast_to(a, shape)) if a.ndim else a.reshape(1) for a in arrays]
        out = ndarray(shape, self.out[0])
        self.run(
            ctypes.c_long(out.size),
            *[v for a, own in zip(dense, arrays) for v in (ctypes.c_void_p(a.ctypes.data), ctypes.c_long(1 if own.ndim else 0))],
            ctypes.c_void_p(out.data.ptr),
        )
        return out


_C = {"uint64": "unsigned long long", "int64": "long long", "int32": "int", "uint32": "unsigned int"}


def _built(text):
    from flambeau.runtime import toolchain

    return toolchain.build([text])


# -- devices, streams, events


class Device:
    def __init__(self, device=None):
        self.id = current() if device is None else int(device)
        self._before = []

    def __enter__(self):
        self._before.append(current())
        state.device = self.id
        return self

    def __exit__(self, *error):
        state.device = self._before.pop()

    def use(self):
        state.device = self.id

    def synchronize(self):
        pass


class Stream:
    _next = 16
    null = None

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        if null:
            self.ptr = 0
        else:
            Stream._next += 16
            self.ptr = Stream._next
        self.log = []

    done = True

    def use(self):
        streams()[current()] = self
        return self

    def synchronize(self):
        self.log.append("synchronize")

    def wait_event(self, event):
        self.log.append(("wait", event))

    def record(self, event=None):
        event.record(self)

    def is_capturing(self):
        return False


class ExternalStream(Stream):
    def __init__(self, ptr, device_id=-1):
        self.ptr, self.log = ptr, []


Stream.null = Stream(null=True)


def streams():
    if not hasattr(state, "streams"):
        state.streams = {k: Stream.null for k in range(COUNT)}
    return state.streams


def get_current_stream(device_id=None):
    return streams()[current() if device_id is None else device_id]


class Event:
    _clock = 0

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.timing, self.time, self.ptr = not disable_timing, None, id(self)

    def record(self, stream=None):
        Event._clock += 1
        self.time, self.stream = Event._clock, stream

    done = True

    def synchronize(self):
        pass


def get_elapsed_time(start, end):
    assert start.timing and end.timing
    return float(end.time - start.time)


def properties(device):
    return {
        "name": b"Stand-in",
        "major": 9,
        "minor": 0,
        "totalGlobalMem": TOTAL,
        "multiProcessorCount": 4,
        "warpSize": 32,
        "maxThreadsPerMultiProcessor": 2048,
        "l2CacheSize": 1 << 20,
        "sharedMemPerBlock": 49152,
        "regsPerMultiprocessor": 65536,
        "integrated": 0,
        "isMultiGpuBoard": 0,
    }


# -- cuBLAS over addresses

_BLAS = {2: np.float16, 0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128, 14: np.uint16}
products: list = []


def _matrix(ptr, kind, rows, columns, lead):
    """A column-major matrix at an address."""
    if lead < rows:
        raise ValueError(f"leading dimension {lead} below {rows} rows")
    kind = np.dtype(kind)
    raw = (ctypes.c_char * ((columns - 1) * lead * kind.itemsize + rows * kind.itemsize)).from_address(ptr)
    flat = np.frombuffer(raw, kind)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (kind.itemsize, lead * kind.itemsize))


def _scalar(ptr, compute, number):
    kind = {68: np.complex64 if number == 4 else np.float32, 77: np.float32, 70: np.complex128 if number == 5 else np.float64}[
        compute
    ]
    return np.frombuffer((ctypes.c_char * np.dtype(kind).itemsize).from_address(ptr), kind)[0]


def _widened(x, number):
    return (x.astype(np.uint32) << 16).view(np.float32) if number == 14 else x.astype(np.float32) if number == 2 else x


def _narrowed(x, number):
    if number != 14:
        return x
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16).view(np.uint16)


def gemmStridedBatchedEx(
    handle,
    transa,
    transb,
    m,
    n,
    k,
    alpha,
    A,
    Atype,
    lda,
    strideA,
    B,
    Btype,
    ldb,
    strideB,
    beta,
    C,
    Ctype,
    ldc,
    strideC,
    batchCount,
    computeType,
    algo,
):
    assert handle == 77 + current() and Atype == Btype == Ctype
    products.append((transa, transb, m, n, k, batchCount, computeType))
    size = np.dtype(_BLAS[Atype]).itemsize
    one, zero = _scalar(alpha, computeType, Atype), _scalar(beta, computeType, Atype)
    for q in range(batchCount):
        a = _matrix(A + q * strideA * size, _BLAS[Atype], *((k, m) if transa else (m, k)), lda)
        b = _matrix(B + q * strideB * size, _BLAS[Btype], *((n, k) if transb else (k, n)), ldb)
        c = _matrix(C + q * strideC * size, _BLAS[Ctype], m, n, ldc)
        a, b = _widened(a, Atype), _widened(b, Btype)
        found = one * ((a.T if transa else a) @ (b.T if transb else b))
        c[...] = _narrowed(found + zero * _widened(c, Ctype) if zero else found, Ctype)


# -- modules

LISTED = (
    """
ndarray asarray array ascontiguousarray empty zeros full zeros_like ones ones_like empty_like full_like arange eye where broadcast_to
matmul argsort searchsorted nonzero sum prod max min any all argmax argmin mean cumsum cumprod concatenate stack take
take_along_axis expand_dims squeeze moveaxis swapaxes transpose tril triu flip roll repeat einsum abs abs conj conjugate angle real
imag isneginf diag trace clip lexsort broadcast_arrays tensordot round divide ElementwiseKernel get_default_memory_pool get_default_pinned_memory_pool
float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_ inf nan pi newaxis e
cuda.Device cuda.Stream cuda.ExternalStream cuda.Event cuda.get_current_stream cuda.get_elapsed_time cuda.get_cublas_handle
cuda.runtime.getDeviceCount cuda.runtime.getDevice cuda.runtime.memGetInfo cuda.runtime.getDeviceProperties
cuda.runtime.deviceCanAccessPeer cuda.runtime.CUDARuntimeError cuda.memory.OutOfMemoryError cuda.nvtx.RangePush cuda.nvtx.RangePop
cuda.nvtx.Mark
linalg.inv linalg.solve linalg.cholesky linalg.eigh linalg.eig linalg.svd linalg.qr linalg.det linalg.slogdet
fft.fftn fft.ifftn fft.rfftn fft.irfftn lib.stride_tricks.as_strided
""".split()
    + list(TYPES)
)
LISTED_BESIDE = """cupyx.errstate cupyx.empty_pinned cupyx.scipy.special.erf cupyx.scipy.special.erfinv cupyx.scipy.special.gammaln
cupyx.scipy.special.digamma cupyx.scipy.special.polygamma cupyx.scipy.special.zeta cupyx.scipy.special.gammainc
cupyx.scipy.special.gammaincc cupyx.scipy.special.i0 cupyx.scipy.special.i0e cupyx.scipy.special.i1 cupyx.scipy.special.i1e
cupyx.scipy.special.erfcx""".split()
METHODS = """get set item astype copy view reshape ravel transpose swapaxes squeeze fill conj conjugate sum prod max min any all
argmax argmin mean shape dtype strides ndim size nbytes itemsize flags T real imag data base device""".split()
OF_STREAMS = "use synchronize wait_event record done is_capturing null".split()
OF_EVENTS = "record synchronize done".split()
OF_POOLS = "used_bytes total_bytes free_all_blocks set_limit get_limit".split()


def _functions() -> dict:
    found = {name: ufunc(name) for name in TYPES}
    found.update({name: _reduction(name) for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean")})
    found.update(
        {
            f.__name__: f
            for f in (
                asarray,
                array,
                ascontiguousarray,
                empty,
                full,
                arange,
                where,
                broadcast_to,
                matmul,
                argsort,
                searchsorted,
                nonzero,
            )
        }
    )
    found.update(
        {
            n: getattr(np, n)
            for n in """float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16
        uint32 uint64 bool_ inf nan pi newaxis e""".split()
        }
    )
    found.update(
        {
            "ndarray": ndarray,
            "divide": found["true_divide"],
            "abs": found["absolute"],
            "conj": found["conjugate"],
            "zeros": lambda shape, dtype=float: full(shape, 0, dtype),
            "ones": lambda shape, dtype=float: full(shape, 1, dtype),
            "eye": lambda N, M=None, k=0, dtype=float, order="C": ndarray.fresh(np.eye(N, M, k, dtype)),
            "get_default_memory_pool": lambda: pool,
            "get_default_pinned_memory_pool": lambda: pinned_pool,
            "ElementwiseKernel": ElementwiseKernel,
            "clip": over(np.clip),
            "round": over(np.round, "decimals"),
        }
    )
    for name, allowed in dict(
        zeros_like="dtype",
        ones_like="dtype",
        empty_like="dtype",
        full_like="dtype",
        cumsum="axis dtype",
        cumprod="axis dtype",
        concatenate="axis",
        stack="axis",
        take="axis",
        take_along_axis="axis",
        tril="k",
        triu="k",
        flip="axis",
        roll="axis",
        repeat="axis",
        angle="",
        isneginf="",
        diag="k",
        trace="axis1 axis2",
        lexsort="",
        tensordot="axes",
    ).items():
        found[name] = over(getattr(np, name), *allowed.split())
    for name in ("expand_dims", "squeeze", "moveaxis", "swapaxes", "transpose"):
        found[name] = rolled(getattr(np, name))
    found["real"], found["imag"] = (lambda x: x.real), (lambda x: x.imag)
    found["broadcast_arrays"] = lambda *xs: [x.part(a) for x, a in zip(xs, np.broadcast_arrays(*map(_array, xs)))]
    found["einsum"] = lambda text, *xs: ndarray.fresh(np.asarray(np.einsum(text, *map(_array, xs))))
    return found


def module(name, **names):
    made = types.ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    return made


def special() -> dict:
    """Functions that scipy has, by this package's own kernels."""
    from flambeau.eager.op import prims
    from flambeau.eager.ops import special as ours
    from flambeau.eager.ops import elementary

    def over_floats(function, kinds):
        def run(*args):
            arrays = np.broadcast_arrays(*[plain(a) for a in args])
            kind = next((k for k in kinds if all(np.can_cast(a.dtype, k) for a in arrays)), None)
            if kind is None:
                raise TypeError("Wrong type of arguments")
            with np.errstate(all="ignore"):
                return ndarray.fresh(np.asarray(function(*[a.astype(np.float64) for a in arrays])).astype(kind))

        return run

    names = dict(
        erf=prims.erf,
        erfinv=elementary._inverse_erf,
        gammaln=ours.log_gamma,
        digamma=ours.psi,
        zeta=ours.hurwitz_zeta,
        gammainc=lambda a, x: ours._incomplete(a, x, False),
        gammaincc=lambda a, x: ours._incomplete(a, x, True),
        i0=lambda x: ours._bessel_scaled(0, x) * np.exp(np.abs(x)),
        i0e=lambda x: ours._bessel_scaled(0, x),
        i1=lambda x: ours._bessel_scaled(1, x) * np.exp(np.abs(x)),
        i1e=lambda x: ours._bessel_scaled(1, x),
        erfcx=ours._erfcx,
    )
    found = {name: over_floats(f, "fd") for name, f in names.items()}
    found["polygamma"] = lambda n, x: ndarray.fresh(ours.polygamma.fn(_array(x), int(_array(n))))
    return found


def _absent(name):
    raise AttributeError(name)


def linear(name):
    function = getattr(np.linalg, name)

    def run(a, *args, **kw):
        if _array(a).dtype.char not in "fdFD":
            raise TypeError(f"{a.dtype} is not supported by cupy.linalg.{name}")
        return wrapped(tuple(r) if isinstance(r := function(_array(a), *map(plain, args), **kw), tuple) else r)

    return run


def install(count: int = COUNT):
    global cupy
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: count,
        getDevice=current,
        memGetInfo=lambda: (TOTAL - pool.used[current()], TOTAL),
        getDeviceProperties=properties,
        deviceCanAccessPeer=lambda a, b: 1,
        CUDARuntimeError=CUDARuntimeError,
    )
    marks = types.SimpleNamespace(RangePush=lambda text: None, RangePop=lambda: None, Mark=lambda text: None)
    cuda = module(
        "cupy.cuda",
        Device=Device,
        Stream=Stream,
        ExternalStream=ExternalStream,
        Event=Event,
        runtime=runtime,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        nvtx=marks,
        get_cublas_handle=lambda: 77 + current(),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    )
    factors = ("inv", "solve", "cholesky", "eigh", "eig", "svd", "qr", "det", "slogdet")
    transforms = {n: over(getattr(np.fft, n), "s", "axes", "norm") for n in ("fftn", "ifftn", "rfftn", "irfftn")}
    cupy = module(
        "cupy",
        __version__="14.2.0",
        cuda=cuda,
        linalg=types.SimpleNamespace(**{n: linear(n) for n in factors}),
        fft=types.SimpleNamespace(**transforms),
        **_functions(),
        lib=types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=as_strided)),
    )
    cupy.cuda = cuda
    module("cupyx", errstate=errstate, empty_pinned=empty_pinned)
    module("cupyx.scipy")
    lazy = module("cupyx.scipy.special")
    lazy.__getattr__ = lambda name: special()[name] if not name.startswith("__") else _absent(name)
    module("cupy_backends")
    module("cupy_backends.cuda")
    module("cupy_backends.cuda.libs", cublas=types.SimpleNamespace(gemmStridedBatchedEx=gemmStridedBatchedEx))
    return cupy
