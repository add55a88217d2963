"""Long maps in stages: chains of long functions are computed in loops of their own, with the same bits as in one loop."""

import re

import flambeau
import numpy as np
import pytest
from flambeau import compiler
from flambeau.inductor.cpp import loop_codegen
from flambeau.nn import functional as F
from flambeau.runtime.config import config

from .test_moves import kernels_of

randn = flambeau.randn

CHAINS = {  # name -> (function of two tensors, its loops, the values that they hand on)
    "of_two": (lambda a, b: flambeau.logaddexp2(a, b), 2, 1),
    "of_three": (lambda a, b: a.exp().log1p().tanh() + b, 3, 2),
    "kept_twice": (lambda a, b: (a.exp().log1p() * 2, a.exp() + b), 2, 1),
    "quotient_for_both": (lambda a, b: (a / b).exp().log1p() + (a / b), 2, 2),
    "two_chains": (lambda a, b: a.exp().log1p() * b.tanh().exp(), 2, 2),
    "none": (lambda a, b: a.exp() + b.tanh(), 1, 0),
    "masks": (lambda a, b: flambeau.where(a > b, a.sin().exp(), b), 2, 1),
    "softplus": (lambda a, b: F.softplus(a) + b, 2, 1),
    "five_stages": (lambda a, b: a.sin().sin().sin().sin().sin() + b, 1, 0),
}
SIZES = (31, 32, 33, 255, 256, 257, 1000)


def read(f, *args):
    """(loops of one map, values that they hand on) in the generated text."""
    text = kernels_of(f, *args).split("fb_plan")[0]
    return len(re.findall(r"each_vector", text)), len(re.findall(r"float kept_\d+\[", text))


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_long_functions_has_loops_of_its_own(name):
    f, loops, kept = CHAINS[name]
    assert read(f, randn(4000), randn(4000)) == (loops, kept)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "float16", "float64"))
@pytest.mark.parametrize("name", CHAINS)
def test_stages_give_the_bits_of_one_loop(name, dtype, monkeypatch, tmp_path):
    f = CHAINS[name][0]
    inputs = [(randn(n).to(getattr(flambeau, dtype)), randn(n).to(getattr(flambeau, dtype))) for n in SIZES]
    found = [flambeau.compile(lambda a, b: f(a, b), dynamic=False)(*pair) for pair in inputs]
    monkeypatch.setattr(loop_codegen, "STAGED", 10**9)
    compiler.reset()
    with config.patch(cache_dir=str(tmp_path)):
        whole = [flambeau.compile(lambda a, b: f(a, b), dynamic=False)(*pair) for pair in inputs]
    for a, b in zip(found, whole):
        for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,)):
            np.testing.assert_array_equal(x.float().numpy(), y.float().numpy())


def test_rows_strides_and_symbolic_sizes():
    f = lambda a, b: flambeau.logaddexp(a, b) * 2
    for a, b in (
        (randn(40, 300)[:, :70], randn(40, 70)),
        (randn(70, 40).t(), randn(40, 70)),
        (randn(40, 140)[:, ::2], randn(70)),
    ):
        assert (flambeau.compile(f)(a, b) - f(a, b)).abs().max().item() < 1e-6
    free = flambeau.compile(f, dynamic=True)
    for n in (0, 5, 100, 129, 3000):
        a, b = randn(n), randn(n)
        assert free(a, b).shape == (n,) and np.allclose(free(a, b).numpy(), f(a, b).numpy(), 1e-6, 1e-6)


def test_a_result_in_the_place_of_its_operand():
    def f(a, b):
        a.copy_(a.exp().log1p() + a * b)
        return a.sum()

    a, b = randn(1000), randn(1000)
    c = a.clone()
    assert abs(f(c, b).item() - flambeau.compile(f)(a, b).item()) < 1e-3
    assert np.allclose(a.numpy(), c.numpy(), 1e-6, 1e-6)
