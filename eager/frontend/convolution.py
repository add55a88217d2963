"""conv1d, conv2d, conv3d and their transposed forms: what programs write, checked as PyTorch checks it, to the record.

In: unbatched or batched inputs, numbers or one number per spatial dim, padding also "same" and "valid". Out: the record's
canonical arguments; errors carry PyTorch's types and texts.
"""

import warnings

from .. import dtypes
from ..dispatch import small
from ..op.op import specialise
from ..ops.convolution import convolution, unwindowed_sizes
from ..ops.rearrange import pad as pad_dims
from ..ops.views import squeeze, unsqueeze
from ..sizes import is_int
from ..state import state
from ..tensor import Tensor
from . import public
from .arguments import size_of


def _numbers(value, n, what, name):
    """One number per spatial dim."""
    if is_int(value):
        return (value,) * n
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name}(): argument '{what}' must be tuple of ints, not {type(value).__name__}")
    for v in value:
        if isinstance(v, float):
            raise TypeError(f"{name}(): argument '{what}' must be tuple of ints, but found element of type float")
    value = tuple([size_of(v) for v in value])
    if len(value) == 1:
        return value * n
    if len(value) != n:
        raise RuntimeError(
            f"expected {what} to be a single integer value or a list of {n} values to match the "
            f"convolution dimensions, but got {what}={list(value)}"
        )
    return value


def _check_tensors(name, input, weight, bias):
    for what, x in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(x, Tensor) and not (what == "bias" and x is None):
            raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(x).__name__}")
    for what, x in (("weight", weight), ("bias", bias)):
        if x is not None and x.dtype is not input.dtype and not (state.autocast is not None and _cast(x) and _cast(input)):
            raise RuntimeError(f"Input type ({input.dtype.c_name}) and {what} type ({x.dtype.c_name}) should be the same")
    if input.dtype.category == 0:
        raise RuntimeError(f"\"{name}\" not implemented for 'Bool'")


def _cast(x):
    """Whether autocast gives the tensor its own type."""
    return x.dtype in (dtypes.float32, dtypes.bfloat16, dtypes.float16)


def _batched(name, input, n):
    """The input with a batch dim, and whether it had one."""
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}"
        )
    return (input, True) if input.ndim == n + 2 else (unsqueeze(input, 0), False)


def _check_numbers(stride, padding, dilation, output_padding, groups):
    if any(v < 0 for v in padding):
        raise RuntimeError("negative padding is not supported")
    if any(v < 0 for v in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(v <= 0 for v in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(v <= 0 for v in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def _check_weight(input, weight, bias, transposed, groups):
    shape, first = list(weight.shape), f"transposed={int(transposed)}" if transposed else f"groups={groups}"
    if shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got "
            f"weight of size {shape} instead"
        )
    if shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            f"weight of size [{shape}] instead"
        )
    wanted = shape[0] if transposed else shape[1] * groups
    if input.shape[1] != wanted:
        raise RuntimeError(
            f"Given {first}, weight of size {shape}, expected input{list(input.shape)} to have {wanted} "
            f"channels, but got {input.shape[1]} channels instead"
        )
    made = shape[1] * groups if transposed else shape[0]
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != made):
        given = f"Given {first}, weight" if transposed else "Given weight"
        raise RuntimeError(
            f"{given} of size {shape}, expected bias to be 1-dimensional with {made} elements, but got "
            f"bias of size {list(bias.shape)} instead"
        )


def _by(sizes):
    return " x ".join(map(str, sizes))


def _check_windows(input, weight, padding, dilation):
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:])]
    sizes = [m + 2 * p for m, p in zip(input.shape[2:], padding)]
    if any(m < span for m, span in zip(sizes, spans)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_by(sizes)}). Kernel size: ({_by(spans)}). Kernel "
            "size can't be greater than actual input size"
        )
    if any(k == 0 for k in weight.shape[2:]):
        raise RuntimeError(f"kernel size should be greater than zero, but got weight of size {list(weight.shape)}")


def _same(name, input, weight, stride, dilation):
    """Padding that keeps the sizes; where it is odd the input gets the extra element at its end."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(total % 2 for total in totals):
        warnings.warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of "
            "the input be created",
            stacklevel=4,
        )
        input = pad_dims(input, ((0, 0), (0, 0), *((0, total % 2) for total in totals)), 0)
    return input, tuple([total // 2 for total in totals])


def _weight_rank(name, weight, n):
    if weight.ndim != n + 2:
        if n == 1 and weight.ndim < 3:
            raise RuntimeError("weight should have at least three dimensions")
        raise RuntimeError(f"Expected {n + 2}-dimensional weight for {name}, but got weight of size {list(weight.shape)}")


def _conv(name, n, input, weight, bias, stride, padding, dilation, groups):
    _check_tensors(name, input, weight, bias)
    input, batched = _batched(name, input, n)
    _weight_rank(name, weight, n)
    stride, dilation = _numbers(stride, n, "stride", name), _numbers(dilation, n, "dilation", name)
    zeros = (0,) * n
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    own = zeros if isinstance(padding, str) else _numbers(padding, n, "padding", name)
    _check_numbers(stride, own, dilation, zeros, groups)
    _check_weight(input, weight, bias, False, groups)
    if padding == "same":
        input, own = _same(name, input, weight, stride, dilation)
    _check_windows(input, weight, own, dilation)
    out = convolution(input, weight, bias, stride, own, dilation, False, zeros, groups)
    return out if batched else squeeze(out, (0,))


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


# -- transposed

_AXES = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def _check_unwindowed(input, weight, stride, padding, dilation, output_padding):
    n = len(stride)
    if any(extra >= s and extra >= d for extra, s, d in zip(output_padding, stride, dilation)):
        told = [
            f"{what}_{axis}: {v}"
            for what, values in (("output_padding", output_padding), ("stride", stride), ("dilation", dilation))
            for axis, v in zip(_AXES[n], values)
        ]
        raise RuntimeError("output padding must be smaller than either stride or dilation, but got " + " ".join(told))
    made = unwindowed_sizes(input.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding)
    if any(m < 1 for m in made):
        raise RuntimeError(
            f"Given input size per channel: ({_by(input.shape[2:])}). Calculated output size per channel: "
            f"({_by(made)}). Output size is too small"
        )


def _conv_transpose(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    _check_tensors(name, input, weight, bias)
    input, batched = _batched(name, input, n)
    _weight_rank(name, weight, n)
    stride, dilation = _numbers(stride, n, "stride", name), _numbers(dilation, n, "dilation", name)
    padding = _numbers(padding, n, "padding", name)
    output_padding = _numbers(output_padding, n, "output_padding", name)
    _check_numbers(stride, padding, dilation, output_padding, groups)
    _check_weight(input, weight, bias, True, groups)
    _check_unwindowed(input, weight, stride, padding, dilation, output_padding)
    out = convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return out if batched else squeeze(out, (0,))


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _conv_transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _conv_transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return _conv_transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# dense tensors go to the runtime at once, and are recorded as these
for _n in (1, 2, 3):
    for _name in (f"conv{_n}d", f"conv_transpose{_n}d"):
        globals()[_name] = small(_name, globals()[_name], specialise(convolution))


public.each(globals(), function="conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
