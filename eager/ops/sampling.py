"""Draws that need rejection: gamma, with gradients through the draws. The key (seed, ordinal) is an argument, so a call
draws the same numbers whenever it runs."""

import numpy as np

from ..op import extern, static
from .arithmetic import mul
from .special import _incomplete, log_gamma


def numpy_generator(seed, ordinal):
    """numpy's generator for one draw of ours."""
    return np.random.Generator(np.random.Philox(key=int(seed) & (2 ** 64 - 1), counter=int(ordinal) & (2 ** 64 - 1)))


@extern(meta=lambda concentration, seed, ordinal: concentration.shape)
def gamma_draw(concentration, seed: static, ordinal: static):
    """Draws from the gamma distribution with rate 1."""
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
