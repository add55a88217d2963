"""Attention as one kernel forward and two backward: values and gradients are eager's, for every mask, for sizes that blocks divide
and that they do not; no array of weights is ever in memory."""

import pytest
import flambeau
from flambeau.eager.op.op import OPS
from flambeau.inductor.triton import aot
from flambeau.inductor.triton.codegen import generate
from flambeau.nn import functional as F
from flambeau.runtime.config import config

from ..test_ops_compiled import near

ADDED, HIDDEN = flambeau.linspace(-3, 3, 33 * 40).view(33, 40), flambeau.arange(33)[:, None] > 32
CASES = {  # q, k, v, and what else the call is given
    "plain": ((2, 2, 33, 12), (2, 2, 40, 12), (2, 2, 40, 20), {}),
    "blocks": ((1, 2, 64, 16), (1, 2, 64, 16), (1, 2, 64, 16), {}),
    "causal": ((1, 2, 75, 16), (1, 2, 75, 16), (1, 2, 75, 16), {"is_causal": True}),
    "long": ((2, 70, 16), (2, 40, 16), (2, 40, 16), {"is_causal": True}),
    "wide": ((2, 40, 16), (2, 70, 16), (2, 70, 16), {"is_causal": True}),
    "bool": ((2, 1, 33, 12), (2, 1, 40, 12), (2, 1, 40, 12), {"attn_mask": ADDED[None, None] > 0.5}),
    "added": ((2, 1, 33, 12), (2, 1, 40, 12), (2, 1, 40, 12), {"attn_mask": ADDED, "scale": 0.7}),
    "dropped": ((2, 2, 33, 12), (2, 2, 40, 12), (2, 2, 40, 20), {"dropout_p": 0.3}),
    "dropped causal": ((2, 70, 16), (2, 40, 16), (2, 40, 16), {"dropout_p": 0.6, "is_causal": True}),
    "hidden": ((2, 1, 33, 12), (2, 1, 40, 12), (2, 1, 40, 12), {"attn_mask": HIDDEN}),
}
SAMPLE = ["plain", "causal", "added", "hidden", "dropped causal"]


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames and metafunc.function is test_equals_eager:
        from .conftest import EVERYTHING

        metafunc.parametrize("case", list(CASES) if EVERYTHING else SAMPLE)


def results(f, inputs):
    flambeau.manual_seed(1)
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    (y * flambeau.linspace(-1, 2, y.shape[-1]).to(y.dtype)).sum().backward()
    return [y.detach(), *(x.grad for x in inputs)]


def check(case, programs, dtype=flambeau.float32, dynamic=None, **tolerance):
    *shapes, given = CASES[case]
    f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **given)
    flambeau.manual_seed(0)
    inputs = [flambeau.randn(*s).to(dtype) for s in shapes]
    if dynamic:
        for x in inputs:
            flambeau._dynamo.mark_dynamic(x, x.ndim - 2)
    wanted = results(f, inputs)
    with config.patch(strict=True, verify=True):
        found = results(flambeau.compile(f, backend="triton"), inputs)
    for k, (a, b) in enumerate(zip(found, wanted)):
        if tolerance:
            assert (a.float() - b.float()).abs().max() <= tolerance["share"] * b.float().abs().max(), f"{case}: value {k}"
        else:
            near(a, b, f"{case}: value {k}", strided=False)
    kernels = [k for p in programs for k in generate(p).kernels]
    first = "k_dropped_attention" if "dropped" in case else "k_attention"
    assert [k for k in kernels if "attention" in k] == [first, "k_attention_backward_queries", "k_attention_backward_keys"]
    assert not any("keep" in k for k in kernels)  # what dropout keeps is drawn where it is used
    length, width = shapes[0][-2], shapes[1][-2]
    assert all(b.sizes[-2:] != (length, width) for p in programs for b in p.buffers if b.kind != "const" and b.kind != "input")


def test_equals_eager(case, programs):
    check(case, programs)


@pytest.mark.parametrize("case", ["causal", "dropped"])
def test_sizes_that_are_not_known(case, programs):
    check(case, programs, dynamic=True)


def test_a_mask_of_dropout_that_others_read_lies_in_memory(programs):
    """Drawn once, as eager's: the same values where a second derivative reads it."""
    q, k, v = (flambeau.randn(1, 2, n, 8) for n in (20, 24, 24))

    def f(q, k, v):
        out, _, keep = OPS["attention"](q, k, v, None, 0.4, False, 0.3)
        return out * (keep.sum() * 0.01)

    for a, b in zip(results(flambeau.compile(f, backend="triton"), (q, k, v)), results(f, (q, k, v))):
        near(a, b, "value", strided=False)


def test_halves(programs):
    """Weights are rounded before they are divided by their sum; eager's after it."""
    check("causal", programs, flambeau.bfloat16, share=2**-6)


def test_deep_rows_are_computed_with_their_weights_in_memory(programs):
    """What no block holds is opened into products and a softmax."""
    q = flambeau.randn(1, 8, 300)
    with config.patch(strict=True):
        near(
            flambeau.compile(F.scaled_dot_product_attention, backend="triton")(q, q, q),
            F.scaled_dot_product_attention(q, q, q),
            "out",
        )
    assert not any("attention" in k for k in generate(programs[-1]).kernels)


@pytest.mark.parametrize("capability", [80, 90])
def test_cubins(programs, everything, capability):
    if not everything:
        pytest.skip("compiled where all tests are run")
    half, single = flambeau.bfloat16, flambeau.float32
    for dtype, depth, p in ((half, 64, 0.0), (half, 64, 0.1), (half, 128, 0.0), (flambeau.float16, 256, 0.0), (single, 64, 0.0)):
        programs.clear()
        x = flambeau.zeros(1, 1, 128, depth, dtype=dtype, requires_grad=True)
        f = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)
        flambeau.compile(f, backend="triton")(x, x, x)
        for binary in (b for p in programs for b in aot.compile_program(p, capability)):
            assert binary.facts["shared"] <= 99 * 1024
            if "attention" in binary.launched.kernel and dtype is not flambeau.float32:
                assert "mma.sync" in binary.ptx or capability == 90 and "wgmma" in binary.ptx
