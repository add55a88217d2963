"""The public functions of the library and the methods of Tensor, as one list of names.

Regular spellings are made from records, the others are in spellings/. Importing this module installs the methods.
"""

import builtins
import sys
from types import FunctionType
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
from .ops import activations as _activations, arithmetic as _a, creation as _creation, indexing as _indexing
from .ops import sorting as _order, rearrange as _rearrange, reduce as _reduce
from .ops.views import alias as _alias, detach as _detach
from .op.promote import promote_types, result_type as _result_type
from .random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .sizes import Size
from .frontend import convolution, creation, elementwise, indexing, interop, products, random, recurrent, reductions, shapes
from .frontend import less_common
from .frontend.argument_aliases import also_named
from .frontend.arguments import numpy_names, takes_dim, written
from .frontend import resize, vision
from .tensor import DATA, Tensor, install_methods

_METHODS_ONLY = set(
    """
to cpu cuda type_as type_of legacy_tensor to_device unary binary binary_of_tensors refuse_number fill_value finished
getitem setitem iterate contains view view_as
reshape_as expand expand_as repeat new_empty new_zeros new_ones new_full new_tensor split_with_sizes contiguous
vector_norm one_hot unfold
""".split()
)

# public functions whose small calls run natively -> the records that such calls are recorded as
_SMALL = dict(
    sum=_reduce.sum,
    mean=_reduce.mean,
    nansum=_reduce.nansum,
    amax=_reduce.amax,
    amin=_reduce.amin,
    max=_reduce.max_of_all,
    min=_reduce.min_of_all,
    argmax=_reduce.argmax,
    argmin=_reduce.argmin,
    any=_reduce.any_,
    all=_reduce.all_,
    softmax=_activations.softmax,
    log_softmax=_activations.log_softmax,
    cat=_rearrange.cat,
    stack=_rearrange.stack,
    gather=_indexing.gather,
    take_along_dim=_indexing.gather,
    index_select=_indexing.index_select,
    scatter=_indexing.scatter_set,
    scatter_add=_indexing.scatter_add,
    index_add=_indexing.index_add,
    index_copy=_indexing.index_copy,
    cumsum=_order.cumsum,
    tril=_creation.tril,
    triu=_creation.triu,
    flip=_rearrange.flip,
)
_SMALL.update(
    logsumexp=_reduce.logsumexp,
    var=_reduce.var,
    std=_reduce.std,
    norm=_reduce.norm,
    prod=_reduce.prod,
    logcumsumexp=OPS["logcumsumexp"],
)
# those that call a record's own path
_SMALL.update(
    addcmul=specialise(_a.addcmul), addcdiv=specialise(_a.addcdiv), **dict.fromkeys(("clamp", "clip"), specialise(_a.clamp))
)
# those that record nothing natively
_UNRECORDED = """fill_ zero_ copy_ zeros ones empty full zeros_like ones_like empty_like new_zeros new_ones new_empty take
masked_select roll count_nonzero aminmax rand randn randint uniform_ normal_ exponential_ random_ bernoulli bernoulli_ poisson
normal randperm multinomial diag diag_embed one_hot bmm addmm baddbmm cross kron kthvalue median mode lerp copysign nextafter
nan_to_num gcd var_mean std_mean nansum einsum tensordot scatter_reduce sort argsort topk unique diff
index_put_ masked_scatter_ index_fill rot90 tensor linspace arange""".split()

_call.keep(OPS)

_PAIRS = {
    **reductions.PAIRS,
    "median": return_types.median,
    "kthvalue": return_types.kthvalue,
    "mode": return_types.mode,
    "sort": return_types.sort,
    "topk": return_types.topk,
}


_QUICK = type(convolution.conv2d)  # a function with a native path in front


def _functions_of(module):
    """The public functions that a module of spellings defines."""
    return {
        name: f
        for name, f in vars(module).items()
        if isinstance(f, FunctionType | _QUICK) and f.__module__ == module.__name__ and not name.startswith("_")
    }


_FUNCTIONS = {}
for _module in (convolution, creation, elementwise, indexing, products, random, recurrent, reductions, shapes):
    _FUNCTIONS.update(_functions_of(_module))
_FUNCTIONS.update(less_common.FUNCTIONS)
_FUNCTIONS = also_named({name: numpy_names(f) if takes_dim(f) else f for name, f in _FUNCTIONS.items()})
_FUNCTIONS["frombuffer"] = interop.frombuffer
_FUNCTIONS.update(vision.FUNCTIONS)
for _name in (
    "chunk",
    "split",
    "unbind",
    "view",
    "reshape",
    "flatten",
    "transpose",
    "t",
    "permute",
    "unsqueeze",
    "squeeze",
    "expand",
    "select",
    "narrow",
    "getitem",
):
    _FUNCTIONS[_name] = spelled(_name, _FUNCTIONS[_name])
    _FUNCTIONS[_name].__module__ = __name__  # where it is found by name
for _name, _record in {**dict.fromkeys(_UNRECORDED), **_SMALL}.items():
    _FUNCTIONS[_name] = small(_name, _FUNCTIONS[_name], _record, _PAIRS.get(_name))
    _FUNCTIONS[_name].__module__ = __name__
globals().update(_FUNCTIONS)
globals().update(less_common.NAMES)

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


detach = spelled("detach", detach)


def detach_(self):
    if self._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self._grad_fn, self._requires_grad = None, False
    return self


def get_data(self):
    """The same memory without history; writes to it do not move the version that autograd checks."""
    t = self._alias()
    if t._view is None:
        t._view = DATA
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
        if a._dtype is dtypes.bool or b.__class__ is builtins.bool or getattr(b, "_dtype", None) is dtypes.bool:
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


_FUNCTION_METHODS = """
add sub subtract div divide true_divide pow float_power clamp clip clamp_min clamp_max round where masked_fill erfc
addcmul addcdiv lerp logaddexp hypot nan_to_num softmax log_softmax isclose allclose equal
reshape flatten ravel unflatten transpose swapaxes swapdims t permute movedim moveaxis squeeze unsqueeze broadcast_to
narrow select split split_with_sizes chunk tensor_split unbind diagonal diag diag_embed as_strided flip fliplr flipud
roll rot90 tile repeat_interleave view view_as reshape_as expand expand_as repeat unfold
sum nansum mean prod any all logsumexp count_nonzero max min amax amin aminmax argmax argmin var std norm dist cumsum
sort argsort topk kthvalue median
nonzero argwhere masked_select gather take_along_dim take scatter scatter_ scatter_add scatter_add_ index_select
index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ masked_scatter masked_scatter_
matmul mm bmm mv dot inner outer addmm addmv baddbmm addbmm trace tril triu
multinomial bernoulli uniform_ normal_ exponential_ bernoulli_ random_
add_ sub_ div_ pow_ clamp_ clamp_min_ clamp_max_ round_ copy_ fill_ zero_ addcmul_ addcdiv_ lerp_ masked_fill_
new_empty new_zeros new_ones new_full new_tensor to contiguous clone type_as cpu cuda detach detach_
""".split()


def _methods():
    scope = globals()
    table = {name: scope[name] for name in _FUNCTION_METHODS}
    table.update(elementwise.FUNCTIONS)
    table.update(creation.CASTS)
    for name, record in {**elementwise.UNARY, **elementwise.BINARY}.items():
        table.setdefault(name + "_", _inplace(record))
    table.update(
        where=_where_self,
        type=creation.type_of,
        data=property(get_data, set_data),
        T=property(shapes._reversed),
        H=property(shapes._matrix_transpose),
        mT=property(shapes._matrix_transpose),
        subtract_=elementwise.sub_,
        divide_=elementwise.div_,
        neg_=elementwise.neg_,
        negative_=elementwise.neg_,
        square_=elementwise.square_,
        sign_=elementwise.sign_,
        clip_=elementwise.clamp_,
        squeeze_=_reshaping(shapes.squeeze),
        unsqueeze_=_reshaping(shapes.unsqueeze),
        t_=_reshaping(shapes.t),
        transpose_=_reshaping(shapes.transpose),
        alias=_alias,
        triu_=written(creation.triu, "triu_"),
        tril_=written(creation.tril, "tril_"),
        cumsum_=reductions._in_place(reductions.cumsum),
        swapaxes_=_reshaping(shapes.swapaxes),
        swapdims_=_reshaping(shapes.swapdims),
        __new__=staticmethod(creation.legacy_tensor),
    )
    return {**less_common.methods(scope), **table}


def _where_self(self, condition=None, other=None):
    """Elements of this tensor where the condition holds, of `other` elsewhere."""
    if condition is None or other is None:
        given = "" if condition is None else type(condition).__name__
        raise TypeError(
            f"where() received an invalid combination of arguments - got ({given}), but expected one of: (Tensor "
            "condition, Tensor other), (Tensor condition, Number other)"
        )
    return elementwise.where(condition, self, other)


def _reshaping(function):
    """In-place views: this tensor takes the geometry of the view."""

    def method(self, *args, **kw):
        return become_view(self, lambda t: function(t, *args, **kw))

    method.__name__ = function.__name__ + "_"
    return method


install_methods({**interop.METHODS, **resize.METHODS})
install_methods(_methods())
install_methods(_operators())
_INPLACE = less_common.inplace_functions(vars(Tensor))
globals().update(_INPLACE)

__all__ = (
    [*less_common.NAMES, *_INPLACE]
    + sorted(name for name in _FUNCTIONS if not name.endswith("_") and name not in _METHODS_ONLY)
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

_UNASKED = set("is_tensor is_storage tensor as_tensor asarray from_numpy frombuffer manual_seed seed".split())
overrides.publish(
    globals(),
    [name for name in {**_FUNCTIONS, **_INPLACE, "detach": 0, "result_type": 0, "promote_types": 0} if name not in _UNASKED],
)
overrides.publish_methods([*interop.METHODS, *resize.METHODS, *_methods(), *_operators()])
overrides.namespaces.append(sys.modules[__name__])
