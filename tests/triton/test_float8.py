"""float8 in Triton's kernels: every byte is read, and all numbers of 16 bits are written, as eager does it; products of such matrices."""

import flambeau
import numpy as np
import pytest
from flambeau import compiler
from flambeau.inductor.triton import aot
from flambeau.runtime.config import config

KINDS = (flambeau.float8_e4m3fn, flambeau.float8_e5m2)


def compiled(f, *inputs):
    """The result, from kernels only."""
    compiler.reset()
    with config.patch(strict=True, verify=True):
        made = flambeau.compile(f, backend="triton")(*inputs)
    assert compiler.counters()["fallbacks"] == {}
    return made


def bits(t):
    """Bytes, with one for all NaN."""
    found = t.view(flambeau.uint8)
    return flambeau.where(t.float().isnan(), flambeau.tensor(0x7F, dtype=flambeau.uint8), found)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_numbers(kind):
    every = flambeau.arange(256, dtype=flambeau.uint8).view(kind)
    for wide in (flambeau.float32, flambeau.bfloat16, flambeau.float16):
        found, wanted = compiled(lambda x: x.to(wide), every), every.to(wide)
        assert np.array_equal(found.double().numpy(), wanted.double().numpy(), equal_nan=True)
    for narrow in (flambeau.bfloat16, flambeau.float16):
        x = flambeau.arange(-32768, 32768).to(flambeau.int16).view(narrow)
        assert flambeau.equal(bits(compiled(lambda x: x.to(kind), x)), bits(x.to(kind)))
        x = x.float() * 1.0009765625  # not all of them halves, some beside a tie
        assert flambeau.equal(bits(compiled(lambda x: (x * 1).to(kind), x)), bits(x.to(kind)))


def test_views_and_sizes():
    x = flambeau.randn(6, 5).t()[1:]
    for dynamic in (None, True):
        f = flambeau.compile(lambda x: x.to(KINDS[0]).float() * 2, backend="triton", dynamic=dynamic)
        for given in (x, x[:, :3], flambeau.randn(()), flambeau.zeros(0, 3)):
            assert flambeau.equal(f(given), given.to(KINDS[0]).float() * 2)


def test_scaled_products(programs):
    a, b = flambeau.randn(16, 32).to(KINDS[0]), flambeau.randn(16, 32).to(KINDS[0]).t()
    one = flambeau.tensor(0.5)
    f = lambda a, b: flambeau._scaled_mm(a, b, one, one, out_dtype=flambeau.bfloat16)
    assert (compiled(f, a, b).float() - f(a, b).float()).abs().max() <= 2**-7 * f(a, b).float().abs().max()
    for capability in aot.CAPABILITIES:  # sm_80 has no instructions for them
        assert all(made.cubin[:4] == b"\x7fELF" for program in programs for made in aot.compile_program(program, capability))


def test_other_types_are_eagers():
    compiler.reset()
    x = flambeau.randn(4).double()
    assert flambeau.equal(bits(flambeau.compile(lambda x: x.to(KINDS[1]), backend="triton")(x)), bits(x.to(KINDS[1])))
    (reason,) = compiler.counters()["fallbacks"]
    assert reason.startswith("triton: cast(float64[4]): ") and "float8 from and to float32 and halves only" in reason
