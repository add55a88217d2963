"""The table of workloads and what their builders get: inputs and parameters that are the same for every library.

A builder takes the library, its `Inputs` and the wrapper (identity, or the library's `compile`) and returns one step to call.
"""

import math

import numpy as np

WORKLOADS = {}


def workload(name, *, unit="ms", work=None, note="", **settings):
    """`work`: items per step, when the row quotes a rate; `settings` go to the builder."""

    def register(build):
        WORKLOADS[name] = {"build": lambda *given: build(*given, **settings), "unit": unit, "work": work, "note": note}
        return build

    return register


class Inputs:
    """Random arrays from fixed seeds, and parameters filled alike for every library."""

    def __init__(self, lib):
        self.lib, self.rng = lib, np.random.default_rng(1234)

    def floats(self, *shape, scale=1.0):
        return self.lib.tensor(self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale))

    def integers(self, high, *shape):
        return self.lib.tensor(self.rng.integers(0, high, shape, dtype=np.int64))

    def fill(self, model):
        rng = np.random.default_rng(7)
        with self.lib.no_grad():
            for name, p in model.named_parameters():
                shape = tuple(p.shape)
                if len(shape) >= 2:
                    values = rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(np.prod(shape[1:])))
                elif name.endswith("weight"):
                    values = np.ones(shape, np.float32)
                else:
                    values = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
                p.copy_(self.lib.tensor(values))
        return model


def inference(lib, f, *inputs):
    """A step that calls `f` without gradients."""

    def step():
        with lib.no_grad():
            return f(*inputs)

    return step


def training(optimizer, loss):
    """A step of an optimizer: `loss()` runs the forward and gives the loss."""

    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return step
