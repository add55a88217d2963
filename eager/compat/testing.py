"""torch.testing: comparing tensors with tolerances by type, and making inputs."""

import math

import numpy as np

from .. import dtypes
from ..frontend import creation
from ..tensor import Tensor

_TOLERANCE = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere; containers go by element.
    Default tolerances by type: https://pytorch.org/docs/stable/testing.html."""
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    options = dict(
        rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype, check_stride=check_stride
    )
    try:
        _compare(actual, expected, "", options)
    except AssertionError as failed:
        if msg is None:
            raise
        raise AssertionError(msg(str(failed)) if callable(msg) else msg) from None


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The older name: types may differ, NaN equals NaN."""
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, check_device=False, msg=msg or None
    )


def _compare(actual, expected, where, options):
    if isinstance(actual, dict) and isinstance(expected, dict):
        assert set(actual) == set(expected), f"{where}: the keys differ: {set(actual) ^ set(expected)}"
        for key in expected:
            _compare(actual[key], expected[key], f"{where}[{key!r}]", options)
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), f"{where}: {len(actual)} elements, expected {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected)):
            _compare(a, e, f"{where}[{i}]", options)
    else:
        _compare_leaves(actual, expected, where, options)


def _compare_leaves(actual, expected, where, options):
    if actual is None or expected is None:
        assert actual is expected, f"{where}: {actual} is not {expected}"
        return
    tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if not tensors and (isinstance(actual, Tensor) or isinstance(expected, Tensor)):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    a, e = (x.detach() if isinstance(x, Tensor) else creation.as_tensor(x) for x in (actual, expected))
    _check_attributes(a, e, where, options, tensors)
    rtol, atol = (
        _tolerances(a.dtype, e.dtype, options)
        if tensors or options["rtol"] is not None
        else _tolerances(dtypes.float64 if e.dtype.is_floating_point else e.dtype, e.dtype, options)
    )
    _check_values(_widened(a), _widened(e), rtol, atol, where, options)


def _check_attributes(a, e, where, options, tensors):
    assert a.shape == e.shape, f"{where}The values for attribute 'shape' do not match: {a.shape} != {e.shape}."
    if tensors and options["check_dtype"]:
        assert a.dtype == e.dtype, f"{where}The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}."
    if tensors and options["check_device"]:
        assert a.device == e.device, f"{where}The values for attribute 'device' do not match: {a.device} != {e.device}."
    if options["check_stride"]:
        assert a.stride() == e.stride(), f"{where}The values for attribute 'stride()' do not match."


def _tolerances(first, second, options):
    if options["rtol"] is not None:
        return options["rtol"], options["atol"]
    pairs = [_TOLERANCE.get(str(t).rpartition(".")[2], (0.0, 0.0)) for t in (first, second)]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _widened(t):
    wide = dtypes.complex128 if t.dtype.is_complex else dtypes.float64 if t.dtype.is_floating_point else t.dtype
    return t.to(wide).numpy()


def _check_values(a, e, rtol, atol, where, options):
    if a.dtype.kind in "biu":
        a, e = a.astype(np.int64), e.astype(np.int64)
    with np.errstate(all="ignore"):
        same = (a == e) | (np.abs(a - e) <= atol + rtol * np.abs(e)) & np.isfinite(e)
        if options["equal_nan"]:
            same |= np.isnan(a) & np.isnan(e)
        if same.all():
            return
        off = np.where(same, 0.0, np.abs(a - e))
    worst = np.unravel_index(np.nanargmax(off) if not np.isnan(off).all() else 0, off.shape)
    raise AssertionError(
        f"{where}Tensor-likes are not close!\n\nMismatched elements: {(~same).sum()} / {same.size} "
        f"({100 * (~same).mean():.1f}%)\nGreatest absolute difference: {off[worst]} at index "
        f"{tuple(map(int, worst))} (up to {atol} allowed; relative: up to {rtol} allowed)"
    )


def make_tensor(
    *shape,
    dtype,
    device="cpu",
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """Uniform random values of a shape and type; floats in [-9, 9) and integers in [-9, 10) unless told."""
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    sizes = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
    if dtype == dtypes.bool:
        out = creation.empty(sizes, dtype=dtypes.float32).uniform_() < 0.5
    else:
        low = (0 if str(dtype).startswith("torch.uint") else -9) if low is None else low
        high = (9 if dtype.is_floating_point or dtype.is_complex else 10) if high is None else high
        out = creation.empty(sizes, dtype=dtypes.float64).uniform_(low, high)
        out = out.floor().to(dtype) if not (dtype.is_floating_point or dtype.is_complex) else out.to(dtype)
        if exclude_zero:
            out[out == 0] = 1 if math.isfinite(high) else low
    if noncontiguous and memory_format is not None:
        raise ValueError(f"make_tensor: noncontiguous and memory_format={memory_format} exclude each other")
    out = out[..., ::2] if noncontiguous and shape else out
    out = out if memory_format is None else creation.clone(out, memory_format=memory_format)
    return out.to(device).requires_grad_(requires_grad)
