"""The public functions of the library and the methods of Tensor, as one list of names.

Regular spellings are made from records, the others are in spellings/. Importing this module installs the methods.
"""

import builtins
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _call, autograd, overrides, return_types, device as devices, dtypes, memory_formats
from . import dlpack as _dlpack, shared_tensors as _shared_tensors  # noqa: F401  (they give tensors methods)
from . import typed_storage as _typed_storage  # noqa: F401  (this, too)
from .autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .dispatch import become_view, operator, set_data, small, spelled
from .dtypes import (
    bfloat16,
    complex64,
    complex128,
    finfo,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .op.op import OPS, specialise
from .ops import arithmetic as _a
from .ops.views import detach as _detach
from .op.promote import promote_types, result_type as _result_type
from .random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .sizes import Size
from .frontend import elementwise, foreach, indexing, legacy, products, public, quantized, reductions, sampling, shapes
from .frontend import complex_numbers, composition, convolution, creation, interop, linalg  # noqa: F401 (they declare names)
from .frontend import random, recurrent, resize, special, statistics, vision  # noqa: F401 (these, too)
from .frontend.argument_aliases import also_named
from .frontend.arguments import numpy_names, takes_dim, written
from .tensor import DATA, Tensor

_call.keep(OPS)

_PAIRS = {
    **reductions.PAIRS,
    "median": return_types.median,
    "kthvalue": return_types.kthvalue,
    "mode": return_types.mode,
    "sort": return_types.sort,
    "topk": return_types.topk,
}


_FUNCTIONS = {  # those that are methods alone, too
    name: numpy_names(f) if takes_dim(f) else f
    for name, f in {**public.VIEWS, **public.METHODS, **public.FUNCTIONS}.items()
    if callable(f) and not isinstance(f, staticmethod)
}
_FUNCTIONS = also_named(_FUNCTIONS)


def _native(name, method=False):
    """The function of a name behind its native path for a few views or small tensors, if it has one, or the method, an object
    of its own."""
    made = _FUNCTIONS[name]
    if name in public.VIEWS:
        made = spelled(name, made)
    elif name in public.SMALL:
        made = small(name, made, public.SMALL[name], _PAIRS.get(name))
    if made is not _FUNCTIONS[name]:
        made.__module__ = Tensor.__module__ if method else __name__  # where it is found by name
        made.__qualname__ = f"Tensor.{name}" if method else made.__qualname__
    return made


_METHODS = {_name: _native(_name, method=True) for _name in public.METHODS if _name in _FUNCTIONS}
_FUNCTIONS = {_name: _native(_name) for _name in _FUNCTIONS}
globals().update({_name: _FUNCTIONS[_name] for _name in public.FUNCTIONS})
_NAMES = {  # constants, types, private functions that programs use
    **legacy.CONSTANTS,
    **legacy.TENSOR_TYPES,
    **legacy.PRIVATE,
    **foreach.FUNCTIONS,
    **quantized.PRIVATE,
    "_standard_gamma": sampling._standard_gamma,
    "_sample_dirichlet": sampling._sample_dirichlet,
}
globals().update(_NAMES)

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
bool = dtypes.bool
cfloat, cdouble = complex64, complex128
device, dtype = devices.device, dtypes.dtype
globals().update({_name: getattr(memory_formats, _name) for _name in memory_formats.NAMES})


if TYPE_CHECKING:  # most names are made from the lists below

    def __getattr__(name: str) -> Any: ...


def result_type(tensor, other):
    return _result_type((tensor, other))


def detach(input):
    return _detach(input)


_METHODS["detach"] = spelled("detach", detach)
_METHODS["detach"].__module__, _METHODS["detach"].__qualname__ = Tensor.__module__, "Tensor.detach"
detach = spelled("detach", detach)


def detach_(self):
    if self._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self._grad_fn, self._fl_requires_grad = None, False
    return self


def get_data(self):
    """The same memory without history; writes to it do not move the version that autograd checks."""
    t = self._fl_alias()
    if t._fl_view is None:
        t._fl_view = DATA
    if type(self) is not Tensor and overrides.takes_part(type(self)):
        t.__class__ = type(self)
    return t


def _inplace(record):
    second = record.params[1].name if len(record.params) > 1 else "other"

    def method(self, *args, **kw):
        if "other" in kw:
            kw[second] = kw.pop("other")
        return record.inplace(self, *args, **kw)

    method.__name__ = method.__qualname__ = record.name + "_"
    return method


_DUNDERS = dict(
    add=_a.add,
    sub=_a.sub,
    mul=_a.mul,
    truediv=_a.div,
    floordiv=_a.floor_divide,
    mod=_a.remainder,
    lshift=_a.left_shift,
    rshift=_a.right_shift,
    xor=_a.bitwise_xor,
    matmul=products.p.matmul,
)
_DUNDERS["and"], _DUNDERS["or"] = _a.bitwise_and, _a.bitwise_or
_COMPARISONS = dict(lt=_a.lt, le=_a.le, gt=_a.gt, ge=_a.ge, eq=_a.eq, ne=_a.ne)
_INPLACE_DUNDERS = dict(_DUNDERS)
del _INPLACE_DUNDERS["matmul"]


def _power(a, b):
    return elementwise.pow(a, b) if isinstance(b, (Tensor, *_NUMBERS)) else NotImplemented


def _reflected_power(b, a):
    return elementwise.pow(a, b) if isinstance(a, (Tensor, *_NUMBERS)) else NotImplemented


def _checked_sub(record_call):
    """The minus sign: numpy would refuse bools with another text."""

    def method(a, b):
        if a._fl_dtype is dtypes.bool or b.__class__ is builtins.bool or getattr(b, "_fl_dtype", None) is dtypes.bool:
            elementwise._no_bools(a, b)
        return record_call(a, b)

    return method


def _backwards(self):
    """reversed(t): a tensor, along the first dim."""
    return shapes.flip(self, 0) if self.ndim else self


def _positive(self):
    return self


_NUMBERS = (builtins.int, builtins.float, builtins.complex, np.generic)


def _operators():
    table = {}
    for name, record in _DUNDERS.items():
        table[f"__{name}__"] = operator(record)
        table[f"__r{name}__"] = operator(record, swapped=True)
    for name, record in _INPLACE_DUNDERS.items():
        table[f"__i{name}__"] = _inplace(record)
    table["__sub__"], table["__rsub__"] = _checked_sub(table["__sub__"]), _checked_sub(table["__rsub__"])
    for name, record in _COMPARISONS.items():
        table[f"__{name}__"] = operator(record)
    table.update(
        __pow__=_power,
        __rpow__=_reflected_power,
        __ipow__=elementwise.pow_,
        __neg__=elementwise.neg,
        __pos__=_positive,
        __abs__=specialise(_a.absolute),
        __invert__=specialise(_a.bitwise_not),
        __getitem__=_FUNCTIONS["getitem"],
        __setitem__=indexing.setitem,
        __iter__=indexing.iterate,
        __reversed__=_backwards,
        __contains__=indexing.contains,
    )
    return table


_NEW_ONLY = {"isfinite", "isinf", "isnan", "maximum", "minimum"}  # PyTorch has no form in place of these


def _methods():
    table = {
        name: value if public.FUNCTIONS.get(name, value) is not value else _METHODS.get(name, value)
        for name, value in public.METHODS.items()
    }
    for name, record in {**elementwise.UNARY, **elementwise.BINARY}.items():
        if name not in _NEW_ONLY:
            table.setdefault(name + "_", _inplace(record))
    for name in public.IN_PLACE:
        table[name + "_"] = written(table.get(name) or _FUNCTIONS[name], name + "_")
    for name, function in public.IN_PLACE_VIEWS.items():
        table[name + "_"] = _reshaping(function)
    table.update(detach=_METHODS["detach"], detach_=detach_, data=property(get_data, set_data))
    return table


def _reshaping(function):
    """In-place views: this tensor takes the geometry of the view."""

    def method(self, *args, **kw):
        return become_view(self, lambda t: function(t, *args, **kw))

    method.__name__ = function.__name__ + "_"
    return method


def _method_call(name):
    def function(input, *args, **kw):
        return getattr(input, name)(*args, **kw)

    function.__name__ = function.__qualname__ = name
    return function


_OWN = {**_methods(), **_operators()}  # (before the functions in place, one of which has the name of a method)
_INPLACE = {name + "_": _method_call(name + "_") for name in [*public.IN_PLACE_FUNCTIONS, "detach"]}
globals().update(_INPLACE)

__all__ = (
    [*_NAMES, *_INPLACE]
    + sorted(public.FUNCTIONS)
    + [
        "Tensor",
        "Size",
        "Generator",
        "device",
        "default_generator",
        "manual_seed",
        "seed",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "enable_grad",
        "no_grad",
        "inference_mode",
        "is_grad_enabled",
        "set_grad_enabled",
        "is_anomaly_enabled",
        "is_anomaly_check_nan_enabled",
        "is_inference_mode_enabled",
        "autograd",
        "detach",
        "result_type",
        "promote_types",
        "finfo",
        "iinfo",
        "get_default_dtype",
        "set_default_dtype",
        "bool",
        "uint8",
        "int8",
        "int16",
        "short",
        "int32",
        "int",
        "int64",
        "long",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "half",
        "bfloat16",
        "float32",
        "float",
        "float64",
        "double",
        "complex64",
        "cfloat",
        "complex128",
        "cdouble",
        "float8_e4m3fn",
        "float8_e5m2",
        "dtype",
        *memory_formats.NAMES,
    ]
)

_BOUND = set(  # what PyTorch has in Python
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum meshgrid norm split "
    "tensordot unique unique_consecutive unravel_index".split()
)
_UNASKED = set("is_tensor is_storage tensor as_tensor asarray from_numpy frombuffer manual_seed seed".split())
overrides.publish(
    globals(),
    [
        name
        for name in {**public.FUNCTIONS, **_INPLACE, "detach": 0, "result_type": 0, "promote_types": 0}
        if name not in _UNASKED
    ],
    bound=_BOUND,
)
for _name in ("tensor", "as_tensor"):
    _call.function(_FUNCTIONS[_name])
overrides.publish_methods(_OWN)
overrides.namespaces.append(sys.modules[__name__])
