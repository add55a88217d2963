"""The text of the kernels of eleven graphs. Each also runs, and equals eager."""

import pytest
import flambeau
from flambeau.inductor.triton.codegen import generate
from flambeau.runtime.config import config

from ..test_ops_compiled import near
from .graphs import GRAPHS


@pytest.mark.parametrize("name", GRAPHS)
def test_text(name, programs, golden):
    f, shapes = GRAPHS[name]
    inputs = [flambeau.randn(*s) for s in shapes]
    compiled = flambeau.compile(f, backend="triton")
    flambeau.manual_seed(1)
    wanted = f(*inputs)
    flambeau.manual_seed(1)
    with config.patch(strict=True):
        found = compiled(*inputs)
    for a, b in zip(found if isinstance(found, tuple) else (found,), wanted if isinstance(wanted, tuple) else (wanted,)):
        near(a, b, name, strided=False)
    text = generate(programs[-1]).text
    golden(f"{name}.txt", text[text.index("\n# ") + 1 : text.index("\n\n\ndef cdiv")] + "\n")


def test_kernels_that_differ_in_names_only_are_one(programs):
    """Three equal layers: each kind of kernel is printed once, launched three times, and later launches tell their lines."""

    def f(x, a, b, c):
        for w in (a, b, c):
            x = flambeau.nn.functional.layer_norm((x @ w).relu(), (16,))
        return x

    inputs = [flambeau.randn(8, 16), *(flambeau.randn(16, 16) for _ in range(3))]
    near(flambeau.compile(f, backend="triton")(*inputs), f(*inputs), "layers")
    made = generate(programs[-1])
    assert len(made.kernels) == 6 and len(set(made.kernels)) == 2 and made.text.count("@triton.jit\ndef k_") == 2
    assert made.text.split("def run(")[1].count("test_golden.py") >= 4
