"""Small models in the ways that popular repositories write them, each with its own idioms: `import torch` is the point.

In: nothing. Out: `MODELS`, {name: function () -> (module, inputs, loss of the output or None)}; a process runs them under
`alias_torch()` or with PyTorch.
"""

import math

import torch

MODELS = {}


def model(fn):
    MODELS[fn.__name__] = fn
    return fn


def ramp(*shape, salt=0):
    """Numbers in (-1, 1) from integer arithmetic."""
    n = math.prod(shape)
    return ((torch.arange(n) * 7919 + 104729 * (salt + 1)) % 10007).float().reshape(shape) / 5003.5 - 1


def whole(top, *shape):
    """Whole numbers below `top`."""
    return (torch.arange(math.prod(shape)) * 31 % 97 % top).reshape(shape)


def exists(x):
    return x is not None


def default(value, other):
    if exists(value):
        return value
    return other() if callable(other) else other
