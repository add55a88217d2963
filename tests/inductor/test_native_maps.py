"""runtime/csrc/formulas.h is what the records' formulas give, and a map of it gives what the formula gives."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.eager.op.op import OPS
from flambeau.inductor.tools import formulas

FAST = formulas.fast_ops()


def test_the_file_is_up_to_date():
    assert formulas.text() == formulas.PATH.read_text(), "run python -m flambeau.inductor.tools.formulas"


def test_records_that_are_asked_for():
    assert {"relu", "silu", "silu_backward", "gelu", "hardswish", "bent_square"} <= {op.name for op in FAST}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", [op.name for op in FAST])
def test_a_map_gives_what_numpy_gives(name, dtype):
    op = OPS[name]
    tensors = sum(p.is_tensor for p in op.params)
    reals = tuple(0.25 + k for k in range(len(op.params) - tensors))
    x = np.concatenate([np.linspace(-9, 9, 1001), [0.0, -0.0, np.inf, -np.inf, np.nan, 0.25, -0.25]])
    arrays = [torch.tensor(x, dtype=getattr(torch, dtype)), torch.tensor(x[::-1].copy(), dtype=getattr(torch, dtype))][:tensors]
    made = op.kernels["native"](*(a._fl_array for a in arrays), *reals)
    if dtype == "float64" and not formulas.in_double(op):
        assert made is NotImplemented
        return
    with np.errstate(all="ignore"):
        want = op(*(a.double() for a in arrays), *reals)
    tolerance = {"float32": 5e-6, "float64": 1e-14, "bfloat16": 1e-2, "float16": 1e-3}[dtype]
    np.testing.assert_allclose(np.asarray(made, np.float64), want._fl_array, rtol=tolerance, atol=tolerance)


def test_other_operands_go_to_numpy():
    silu, square = OPS["silu"].kernels["native"], OPS["bent_square"].kernels["native"]
    x = np.ones((4, 4), np.float32)
    assert silu(x.T[:2]) is NotImplemented and silu(x[:0]) is NotImplemented and silu(x.astype(np.int64)) is NotImplemented
    assert (
        square(x, x[:2], 1.0, 0.5, 1.0, 1.0) is NotImplemented
        and square(x, x.astype(np.float64), 1.0, 0.5, 1.0, 1.0) is NotImplemented
    )
