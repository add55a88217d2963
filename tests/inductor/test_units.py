"""What translation units hold: the headers' functions that they use, and one function for kernels that differ in a slice's place."""

import subprocess

import numpy as np
import pytest

import flambeau as torch
from flambeau.inductor.cpp.headers import needed, table
from flambeau.inductor.cpp.cpp_text import prelude
from flambeau.runtime import toolchain
from flambeau.runtime.config import config

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


def test_headers_hold_what_is_used_and_no_more():
    text = needed(prelude(), "v_tanh(x); each_vector<1>(a, b, f);")
    assert "vf v_tanh(vf" in text and "vd, tanh," in text and "split_exp(" in text and "void each_vector(" in text
    assert "v_erf" not in text and "scatter_add" not in text and "philox_words" not in text and len(text) < 0.6 * len(prelude())


@pytest.mark.parametrize("isa", toolchain.ISA_FLAGS)
def test_every_function_of_the_headers_brings_what_it_needs(isa, tmp_path):
    """Alone and one after the other, in one compiler run: each in a namespace of its own."""
    names = sorted(table(prelude())[1])
    picked = names[::16]
    assert len(names) > 100
    guards = "\n".join(f"#undef {name}" for name in ("FB_VECTOR_H", "FB_PHILOX_H", "FB_MATH_H", "FB_ABI_H", "FB_LOOPS_H"))
    spaces = "\n".join(f"namespace n{k} {{\n{needed(prelude(), name)}\n}}\n{guards}" for k, name in enumerate(picked))
    (tmp_path / "all.cpp").write_text(spaces)
    flags = [flag for flag in toolchain.BASE_FLAGS if flag != "-shared"]
    done = subprocess.run(
        [toolchain.compiler(), *flags, *toolchain.ISA_FLAGS[isa], "-fsyntax-only", str(tmp_path / "all.cpp")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:2000]


def test_steps_of_a_sequence_are_one_function(tmp_path):
    def f(x, w):
        h = x[:, 0]
        for t in range(1, 9):
            h = torch.tanh(h @ w) * x[:, t]
        return h

    values = np.random.default_rng(0).standard_normal((4, 9, 16)).astype(np.float32)
    x, w = torch.from_numpy(values), torch.eye(16)
    with config.patch(dump=str(tmp_path)):
        made = torch.compile(f)(x, w)
    (text,) = [path.read_text() for path in tmp_path.rglob("kernels.cpp")]
    assert text.count("v_tanh(") == 2 and text.count("rt->gemm(") == 8  # the first reads x as an operand as well
    np.testing.assert_allclose(made.numpy(), f(x, w).numpy(), rtol=1e-5, atol=1e-6)
