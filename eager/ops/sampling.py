"""Draws that need rejection: gamma, with gradients through the draws. The key (seed, ordinal) is an argument, so a call
draws the same numbers whenever it runs."""

import threading

import numpy as np

from ..op.op import extern, static
from .arithmetic import mul
from .special import _incomplete, log_gamma


_held = threading.local()


def numpy_generator(seed, ordinal):
    """numpy's generator for one draw of ours, the thread's own: it is set anew for the next draw."""
    if not hasattr(_held, "generator"):
        _held.generator = np.random.Generator(np.random.Philox(key=0))
    key, counter = np.zeros(2, np.uint64), np.zeros(4, np.uint64)
    key[0], counter[0] = int(seed) & (2**64 - 1), int(ordinal) & (2**64 - 1)
    _held.generator.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": counter, "key": key},
        "buffer": _NOTHING,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return _held.generator


_NOTHING = np.zeros(4, np.uint64)


@extern(meta=lambda concentration, seed, ordinal: concentration.shape)
def gamma_draw(concentration, seed: static, ordinal: static):
    """Draws from the gamma distribution with rate 1. With a `mersenne.Stream` for a seed, and no ordinal: PyTorch's."""
    if ordinal is None:
        values = seed.transformed("gamma", concentration)
        return np.maximum(np.asarray(values, concentration.dtype), np.finfo(concentration.dtype).tiny)
    values = numpy_generator(seed, ordinal).standard_gamma(concentration.astype(np.float64))
    return np.asarray(values, concentration.dtype)


@extern(meta=lambda concentration, value: concentration.shape)
def gamma_slope(concentration, value):
    """d value / d concentration at a fixed probability: minus dP/da over the density."""
    a, x = (v.astype(np.float64) for v in (concentration, np.maximum(value, np.finfo(np.float32).tiny)))
    step = 1e-4 * np.maximum(a, 1e-2)
    with np.errstate(all="ignore"):
        change = (_incomplete(a + step, x, False) - _incomplete(a - step, x, False)) / (2 * step)
        density = np.exp((a - 1) * np.log(x) - x - log_gamma(a))
        slope = -change / density
    return np.asarray(np.where(np.isfinite(slope), slope, 0.0), concentration.dtype)


@gamma_draw.grad("concentration")
def _(g, concentration, out):
    return mul(g, gamma_slope(concentration, out))
