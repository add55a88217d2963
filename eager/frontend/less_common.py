"""The functions and methods of the less common families, collected for api.py: FUNCTIONS (public), METHODS of Tensor,
NAMES (constants, types, private functions that programs use)."""

from types import FunctionType

from ..dispatch import small
from .arguments import written
from .reductions import _in_place
from . import composition, complex_numbers, elementwise, foreach, legacy, linalg, quantized, sampling, special, statistics

_MODULES = (special, complex_numbers, statistics, composition, legacy, sampling, quantized)
_NOT_FUNCTIONS = {
    "new",
    "pin_memory",
    "is_pinned",
    "record_stream",
    "fill_diagonal_",
    "sum_to_size",
    "geometric_",
    "log_normal_",
    "cauchy_",
    "frame",
}
_NOT_METHODS = set(
    """
block_diag cartesian_prod combinations chain_matmul vander column_stack row_stack unravel_index range hann_window
hamming_window blackman_window bartlett_window kaiser_window zeta i0e i1 i1e erfcx ndtr ndtri log_ndtr xlog1py entr
complex polar view_as_real view_as_complex real imag isin histogramdd trapezoid trapz cumulative_trapezoid gradient
can_cast typename is_storage set_default_tensor_type set_default_device get_default_device
set_float32_matmul_precision get_float32_matmul_precision use_deterministic_algorithms
are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode
get_deterministic_debug_mode set_flush_denormal set_warn_always is_warn_always_enabled get_num_interop_threads
set_num_interop_threads compiled_with_cxx11_abi set_printoptions get_device is_signed is_inference fill poisson
binomial is_storage fake_quantize_per_tensor_affine fake_quantize_per_channel_affine
""".split()
)


def _of(module):
    return {
        name: f
        for name, f in vars(module).items()
        if isinstance(f, FunctionType)
        and not name.startswith("_")
        and (f.__module__ == module.__name__ or f.__module__ == elementwise.__name__)
    }


_FOUND = {}
for _module in _MODULES:
    _FOUND.update(_of(_module))
for _name in ("unary", "binary", "refuse_number", "number_of", "give", "takes_out"):
    _FOUND.pop(_name, None)
_FOUND.update(linalg.TOP_LEVEL)
FUNCTIONS = {name: f for name, f in _FOUND.items() if name not in _NOT_FUNCTIONS}


_INPLACE = """
acosh addbmm addmm addmv addr arccosh arcsinh arctan2 arctanh asinh atan2 atanh baddbmm conj_physical copysign
deg2rad digamma erfc gcd heaviside hypot i0 igamma igammac index_reduce lcm ldexp lgamma logit mvlgamma
nan_to_num nextafter polygamma put rad2deg renorm scatter_reduce sgn sinc true_divide xlogy
""".split()


def _polygamma(self, n):
    return special.polygamma(n, self)


def methods(scope):
    """The methods, given all public functions (some in-place forms are of functions in other files)."""
    table = {name: scope.get(name, f) for name, f in _FOUND.items() if name not in _NOT_METHODS}
    table["polygamma"] = _polygamma
    every = {**scope, **table}
    table.update((name + "_", written(every[name], name + "_")) for name in _INPLACE)
    table.update(
        cumprod_=_in_place(statistics.cumprod),
        float_power_=elementwise.float_power_,
        real=property(complex_numbers.real, lambda self, value: complex_numbers.real(self).copy_(value)),
        imag=property(complex_numbers.imag, lambda self, value: complex_numbers.imag(self).copy_(value)),
        mH=property(complex_numbers.adjoint),
    )
    table.update((name, small(name, table[name])) for name in ("cauchy_", "geometric_"))
    return table


def inplace_functions(methods):
    """`torch.relu_(x)` and its like: functions that call the in-place method."""
    return {name + "_": _method_call(name + "_") for name in _INPLACE_FUNCTIONS if name + "_" in methods}


def _method_call(name):
    def function(input, *args, **kw):
        return getattr(input, name)(*args, **kw)

    function.__name__ = function.__qualname__ = name
    return function


_INPLACE_FUNCTIONS = """
abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan atanh ceil clamp clamp_max
clamp_min clip conj_physical cos cosh deg2rad detach erf erfc exp exp2 expm1 fill fix floor frac gcd i0 index_put lcm
ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu resize_as round rsqrt sigmoid sin sinc
sinh sqrt square tan tanh trunc xlogy zero
""".split()
NAMES = {
    **legacy.CONSTANTS,
    **legacy.TENSOR_TYPES,
    **legacy.PRIVATE,
    **foreach.FUNCTIONS,
    **quantized.PRIVATE,
    "_standard_gamma": sampling._standard_gamma,
    "_sample_dirichlet": sampling._sample_dirichlet,
}
