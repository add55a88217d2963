"""Type promotion: PyTorch's three classes, numbers, reductions, defaults (expected values from PyTorch 2.13)."""

import numpy as np
import pytest

from flambeau.eager import dtypes as d
from flambeau.eager.op.op import OPS
from flambeau.eager.op.promote import promote_types, result_type

from .core_support import T, V  # noqa: E402

add, mul, div, gt = OPS["add"], OPS["mul"], OPS["div"], OPS["gt"]

TABLE = [
    (d.uint8, d.int8, d.int16),
    (d.int32, d.int64, d.int64),
    (d.bool, d.uint8, d.uint8),
    (d.int64, d.float16, d.float16),
    (d.float16, d.bfloat16, d.float32),
    (d.bfloat16, d.float32, d.float32),
    (d.float32, d.float64, d.float64),
    (d.int64, d.complex64, d.complex64),
    (d.float64, d.complex64, d.complex128),
    (d.bool, d.bool, d.bool),
    (d.uint8, d.int16, d.int16),
    (d.int8, d.bfloat16, d.bfloat16),
]


@pytest.mark.parametrize("a,b,expected", TABLE)
def test_promote_types(a, b, expected):
    assert promote_types(a, b) is expected and promote_types(b, a) is expected


def one(dtype, dims=1):
    return T(np.ones((2,) * dims), dtype=dtype)


CLASSES = [
    (one(d.float16), one(d.float64, 0), d.float16),
    (one(d.int32), 2.5, d.float32),
    (one(d.int64), one(d.float16, 0), d.float16),
    (one(d.int32), one(d.int64, 0), d.int32),
    (one(d.int32), one(d.float64, 0), d.float64),
    (one(d.bool), 1, d.int64),
    (one(d.bool), True, d.bool),
    (one(d.uint8), 1, d.uint8),
    (one(d.float32), 2, d.float32),
    (one(d.int8, 0), 5, d.int8),
    (one(d.float64, 0), one(d.float32), d.float32),
    (one(d.float16, 0), one(d.float32, 0), d.float32),
    (one(d.bfloat16), 1e30, d.bfloat16),
    (one(d.float32), 1j, d.complex64),
    (one(d.bool), one(d.uint8, 0), d.uint8),
    (3, 2.5, d.float32),
    (3, 4, d.int64),
]


@pytest.mark.parametrize("a,b,expected", CLASSES)
def test_three_classes(a, b, expected):
    assert result_type((a, b)) is expected
    if not expected.is_complex and (hasattr(a, "dtype") or hasattr(b, "dtype")):
        assert add(a, b).dtype is expected


def test_unsigned_words_are_refused():
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
        promote_types(d.uint16, d.int32)


def test_values_follow_the_types():
    assert V(mul(T([7, 8], dtype=d.int32), 2.5)) == [17.5, 20.0]
    assert V(div(T([7, -7]), T([2, 2]))) == [3.5, -3.5] and div(T([7]), 2).dtype is d.float32
    assert V(add(T([255], dtype=d.uint8), 1)) == [0]
    assert V(add(T([127], dtype=d.int8), 1)) == [-128]
    assert V(add(T([1], dtype=d.uint8), 300)) == [45]
    assert V(gt(T([1, 2]), 1.5)) == [False, True]
    assert V(gt(T([2049.0], dtype=d.float16), T([2048], dtype=d.int64))) == [False]


def test_halves_compute_in_float32_and_round_once():
    x = T([2048.0], dtype=d.float16)
    assert V(add(x, 1.0)) == [2048.0]  # 2049 has no float16
    silu = OPS["silu"]
    values = np.linspace(-4, 4, 101).astype(np.float16)
    exact = values.astype(np.float32)
    expected = (exact / (1 + np.exp(-exact))).astype(np.float16)
    assert V(silu(T(values, dtype=d.float16))) == expected.tolist()
    b = T(values, dtype=d.bfloat16)
    assert silu(b).dtype is d.bfloat16 and V(gt(b, 0.0)) == (values > 0).tolist()


def test_default_dtype():
    try:
        d.set_default_dtype(d.float64)
        assert add(T([1]), 1.5).dtype is d.float64 and div(T([1]), T([2])).dtype is d.float64
        assert OPS["exp"](T([0])).dtype is d.float64
    finally:
        d.set_default_dtype(d.float32)
    assert OPS["exp"](T([0])).dtype is d.float32 and add(T([1]), 1.5).dtype is d.float32
    with pytest.raises(TypeError, match="only floating-point types"):
        d.set_default_dtype(d.int64)


def test_sums_of_integers_are_long():
    total = OPS["sum"]
    for kind in (d.bool, d.uint8, d.int32):
        out = total(T([1, 1, 1], dtype=kind), (0,), False)
        assert out.dtype is d.int64 and V(out) == 3
    assert total(T([1.0, 2.0], dtype=d.float16), (0,), False).dtype is d.float16
    assert V(total(T([60000.0] * 4, dtype=d.float32), (0,), False)) == 240000.0


def test_no_warnings_and_numpy_settings_stay(recwarn):
    before = np.geterr()
    x = T([1e38, 0.0, -1.0])
    mul(x, 1e10), div(x, 0.0), OPS["log"](x), OPS["sqrt"](x), add(mul(x, 1e38), T([1.0, 2.0, 3.0]))
    assert not recwarn.list and np.geterr() == before


def test_limits_and_names():
    info = d.finfo(d.float32)
    assert (info.max, info.eps, info.bits) == (3.4028234663852886e38, 1.1920928955078125e-07, 32) and info.min == -info.max
    assert d.finfo(d.bfloat16).max == 3.3895313892515355e38 and d.iinfo(d.int8).min == -128
    assert repr(d.float32) == "torch.float32" and d.BY_NAME["long"] is d.int64 and d.BY_NAME["half"] is d.float16
    with pytest.raises(TypeError):
        d.finfo(d.int32)
