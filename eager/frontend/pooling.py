"""Pooling functions for one to three dims under PyTorch's names: arguments as numbers or tuples, errors, None as stride."""

import functools
from types import NoneType
from typing import Any

from ..autograd import is_grad_enabled
from ..dispatch import small, type_name
from ..op.op import specialise
from ..ops import adaptive, pooling as records
from ..ops.checks import check_within
from ..ops.fractional_max_pool import fractional_max
from ..sizes import is_int, numel
from .arguments import settings, size_of

_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}


def window_of(value, n, name, what):
    """`n` ints from a number or a tuple of one or n."""
    if is_int(value) or not hasattr(value, "__len__"):
        return (size_of(value),) * n
    if len(value) == 1:
        return (size_of(value[0]),) * n
    if len(value) != n:
        raise RuntimeError(f"{name}: {what} must either be a single int, or a tuple of {_WORDS[n]}")
    return tuple(map(size_of, value))


def _window(input, n, name, kernel_size, stride, padding, dilation=1, ceil_mode=False):
    """The canonical window, checked against the input; known ones are remembered."""
    asked = tuple(input.shape), n, name, kernel_size, stride, padding, dilation, ceil_mode
    return (_known_window if _are_plain(asked) else _checked_window)(*asked)


def _are_plain(values):
    """Numbers, names and tuples of numbers, none symbolic."""
    for v in values:
        if type(v) is tuple:
            for m in v:
                if type(m) is not int:
                    return False
        elif type(v) not in (int, bool, str, NoneType):
            return False
    return True


def _checked_window(shape, n, name, kernel_size, stride, padding, dilation, ceil_mode):
    kernel = window_of(kernel_size, n, name, "kernel_size")
    given = stride is not None and (is_int(stride) or len(stride))
    stride = window_of(stride, n, name, "stride") if given else kernel
    padding, dilation = window_of(padding, n, name, "padding"), window_of(dilation, n, name, "dilation")
    if any(type(k) is int and k <= 0 for k in kernel) and given:
        raise RuntimeError(f"kernel size should be greater than zero, but got {_named(kernel, 'k')}")
    if any(type(k) is int and k <= 0 for k in stride):
        raise RuntimeError("stride should not be zero")
    if any(type(k) is int and k <= 0 for k in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {_named(dilation, 'dilation')}")
    for k, p, d in zip(kernel, padding, dilation):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            )
    _check_rank(shape, n, name)
    sizes = records.pooled_sizes(shape, kernel, stride, padding, dilation, ceil_mode)[-n:]
    if any(m < 1 for m in sizes):
        shown = shape[-n - 1 :]
        raise RuntimeError(
            f"Given input size: ({_times(shown)}). Calculated output size: "
            f"({_times(shown[:1] + sizes)}). Output size is too small"
        )
    return kernel, stride, padding, dilation


_known_window = functools.lru_cache(512)(_checked_window)


def _named(sizes, what):
    return " ".join(f"{what}{letter}: {n}" for letter, n in zip("TDHW"[-len(sizes) :], sizes))


def _times(sizes):
    return "x".join(map(str, sizes))


def _check_rank(shape, n, name):
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}: non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input, but got: {list(shape)}"
        )
    if any(type(m) is int and m == 0 for m in shape[-n - 1 :]):
        raise RuntimeError(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(shape)}"
        )


def _refuse_bool(input, name):
    if input.dtype.category == 0 or input.dtype.is_complex:
        raise NotImplementedError(f'"{name}" not implemented for {type_name(input.dtype)!r}')


# -- maxima


def _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    name = f"max_pool{n}d"
    window = _window(input, n, name, kernel_size, stride, padding, dilation, ceil_mode)
    _refuse_bool(input, name)
    if return_indices:
        values, place = records.max_pool(input, *window, bool(ceil_mode))
        return values, records.max_indices(place, tuple(input.shape)[-n:], *window)
    if input.requires_grad and is_grad_enabled():  # (the gradient needs the places)
        return records.max_pool(input, *window, bool(ceil_mode))[0]
    return records.max_pool_values(input, *window, bool(ceil_mode))


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


# -- averages


def _avg_pool(n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor=None):
    kernel, stride, padding, _ = _window(input, n, f"avg_pool{n}d", kernel_size, stride, padding, 1, ceil_mode)
    if divisor is not None and divisor == 0:
        raise RuntimeError("divisor must be not zero")
    _refuse_bool(input, f"avg_pool{n}d")
    return records.avg_pool(input, kernel, stride, padding, bool(ceil_mode), bool(count_include_pad), divisor)


def avg_pool1d(input, kernel_size, stride=None, padding: Any = 0, ceil_mode=False, count_include_pad=True):
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(n, input, norm_type, kernel_size, stride, ceil_mode):
    """(sum over the window of x**p) ** (1/p), by way of the average; what is negative gives zero."""
    (norm_type,) = settings(input, norm_type)
    count = numel(window_of(kernel_size, n, f"lp_pool{n}d", "kernel_size"))
    mean = _avg_pool(n, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True)
    return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# -- adaptive


def _adaptive_sizes(n, input, output_size, name):
    """The output sizes; None takes the input's."""
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    own = tuple(input.shape)[-n:]
    if output_size is None or is_int(output_size) or not hasattr(output_size, "__len__"):
        output_size = (output_size,) * n
    elif len(output_size) != n:
        raise RuntimeError(f"{name}: output_size must be {n}")
    sizes = tuple(m if given is None else size_of(given) for given, m in zip(output_size, own))
    if any(m < 0 for m in sizes):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {{{', '.join(map(str, sizes))}}}"
        )
    for d in range(input.ndim - n - (input.ndim == n + 1), input.ndim):
        if d > 0 and type(input.shape[d]) is int and input.shape[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                f"sizes {list(input.shape)} with dimension {d} being empty"
            )
    return sizes


def _divides(n, m):
    return type(n) is int and type(m) is int and m > 0 and n % m == 0


def _adaptive_avg(n, input, output_size):
    name = f"adaptive_avg_pool{n}d"
    sizes = _adaptive_sizes(n, input, output_size, name)
    if all(type(m) is int and m == 1 for m in sizes):
        return input.mean(tuple(range(input.ndim - n, input.ndim)), keepdim=True)
    if any(type(m) is int and m == 0 for m in sizes):
        return input.new_zeros((*input.shape[:-n], *sizes))
    own = tuple(input.shape)[-n:]
    if all(map(_divides, own, sizes)):
        window = tuple(a // b for a, b in zip(own, sizes))
        return records.avg_pool(input, window, window, (0,) * n, False, True, None)
    return adaptive.adaptive_avg_pool(input, sizes)


def adaptive_avg_pool1d(input, output_size):
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input, output_size):
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input, output_size):
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(n, input, output_size, return_indices):
    sizes = _adaptive_sizes(n, input, output_size, f"adaptive_max_pool{n}d")
    own = tuple(input.shape)[-n:]
    if all(map(_divides, own, sizes)):
        window = tuple(a // b for a, b in zip(own, sizes))
        return _max_pool(n, input, window, window, 0, 1, False, return_indices)
    values, place = adaptive.adaptive_max_pool(input, sizes)
    return (values, adaptive.adaptive_indices(place, own)) if return_indices else values


def adaptive_max_pool1d(input, output_size, return_indices=False):
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    return _adaptive_max(2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    return _adaptive_max(3, input, output_size, True)


# -- the way back: values at the indices of their maxima


def _max_unpool(n, input, indices, kernel_size, stride, padding, output_size):
    name = f"max_unpool{n}d"
    kernel = window_of(kernel_size, n, name, "kernel_size")
    stride = kernel if stride is None else window_of(stride, n, name, "stride")
    sizes = _unpooled(tuple(input.shape)[-n:], kernel, stride, window_of(padding, n, name, "padding"), output_size)
    if indices.dtype.numpy.name != "int64":
        raise RuntimeError(f"elements in indices should be type int64 but got: {type_name(indices.dtype)}")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    _check_indices(indices, sizes)
    lead = tuple(input.shape)[:-n]
    flat = input.new_zeros((*lead, numel(sizes)))
    at, values = indices.reshape(*lead, -1), input.reshape(*lead, -1)
    return flat.scatter(len(lead), at, values).reshape(*lead, *sizes)


def _check_indices(indices, sizes):
    check_within(
        indices, 0, numel(sizes) - 1, f"Found an invalid max index: {{bad}} (output volumes are of size {_times(sizes)})"
    )


def _unpooled(sizes, kernel, stride, padding, output_size):
    default = tuple((m - 1) * s + k - 2 * p for m, s, k, p in zip(sizes, stride, kernel, padding))
    if output_size is None:
        return default
    n = len(kernel)
    given = tuple(output_size)[2:] if len(output_size) == n + 2 else tuple(output_size)
    if len(given) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of '{len(output_size)}'"
        )
    for d, (m, own, step) in enumerate(zip(given, default, stride)):
        if not own - step < m < own + step:
            raise ValueError(f'invalid output_size "{given}" (dim {d} must be between {own - step} and {own + step})')
    return given


def max_unpool1d(input, indices, kernel_size, stride=None, padding: Any = 0, output_size=None):
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding: Any = 0, output_size=None):
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding: Any = 0, output_size=None):
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# -- fractional: windows whose starts are drawn


def _fractional(n, input, kernel_size, output_size, output_ratio, return_indices, samples):
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    kernel = window_of(kernel_size, n, name, "kernel_size")
    own = tuple(input.shape)[-n:]
    if output_size is None:
        ratio = output_ratio if hasattr(output_ratio, "__len__") else (output_ratio,) * n
        output_size = tuple(int(m * r) for m, r in zip(own, ratio))
    sizes = window_of(output_size, n, name, "output_size")
    for word, m, k, size in zip(("time", "height", "width")[-n:], own, kernel, sizes):
        if size + k - 1 > m:
            raise RuntimeError(f"{name}(): pool {word} {k} too large relative to input {word} {m}")
    x = input.unsqueeze(0) if input.ndim == n + 1 else input
    if samples is None:
        samples = x.new_empty((*x.shape[:2], n)).uniform_()
    values, indices = fractional_max(x, samples, kernel, sizes)
    if input.ndim == n + 1:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


# small calls run natively, and are recorded as these
for _name, _record in (
    ("max_pool", records.max_pool),
    ("avg_pool", records.avg_pool),
    ("adaptive_avg_pool", records.avg_pool),
    ("adaptive_max_pool", records.max_pool),
):
    for _n in (1, 2, 3):
        globals()[f"{_name}{_n}d"] = small(f"{_name}{_n}d", globals()[f"{_name}{_n}d"], specialise(_record))
