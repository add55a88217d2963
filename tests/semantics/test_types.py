"""Types and construction (items 25-33)."""

import numpy as np
import pytest


def test_25_promotion(lib):
    f16, f64 = lib.zeros(2, dtype=lib.float16), lib.zeros((), dtype=lib.float64)
    assert (f16 * f64).dtype == lib.float16
    assert (lib.zeros(2, dtype=lib.int32) * 2.5).dtype == lib.float32
    assert (lib.zeros(2, dtype=lib.int64) + lib.zeros((), dtype=lib.float16)).dtype == lib.float16
    assert (lib.zeros(2, dtype=lib.bfloat16) + lib.zeros(2, dtype=lib.float16)).dtype == lib.float32
    assert (lib.zeros(2, dtype=lib.uint8) + lib.zeros(2, dtype=lib.int8)).dtype == lib.int16
    assert lib.result_type(lib.zeros(2, dtype=lib.int32), 1.0) == lib.float32
    assert lib.promote_types(lib.int32, lib.float16) == lib.float16


def test_26_division(lib):
    a, b = lib.tensor([-7, 7]), lib.tensor([2, -2])
    assert (a / b).dtype == lib.float32
    assert (a // b).tolist() == [-4, -4] and (a % b).tolist() == [1, -1]
    assert lib.fmod(a, b).tolist() == [-1, 1]
    assert lib.div(a, b, rounding_mode="floor").tolist() == [-4, -4]
    assert lib.div(a, b, rounding_mode="trunc").tolist() == [-3, -3]


def test_27_integer_reductions(lib):
    assert lib.tensor([True, True]).sum().dtype == lib.int64
    assert lib.ones(2, dtype=lib.int8).cumsum(0).dtype == lib.int64 and lib.ones(2, dtype=lib.uint8).prod().dtype == lib.int64
    with pytest.raises(RuntimeError, match="mean"):
        lib.arange(3).mean()
    assert (lib.tensor([255], dtype=lib.uint8) + 1).tolist() == [0]


def test_28_types_of_constructors(lib):
    assert lib.tensor([1.0]).dtype == lib.float32 and lib.tensor(np.float64(1)).dtype == lib.float64
    assert lib.tensor(np.zeros(2)).dtype == lib.float64
    assert lib.arange(3).dtype == lib.int64 and lib.arange(0, 1, 0.25).dtype == lib.float32
    assert lib.full((1,), 1).dtype == lib.int64 and lib.full((1,), True).dtype == lib.bool


def test_28_old_constructors(lib):
    assert lib.Tensor(3).shape == (3,) and lib.Tensor(2, 3).shape == (2, 3) and lib.Tensor([3]).tolist() == [3]
    assert lib.FloatTensor([1, 2]).dtype == lib.float32 and lib.LongTensor([1, 2]).dtype == lib.int64
    assert isinstance(lib.zeros(1), lib.FloatTensor) and not isinstance(lib.zeros(1), lib.LongTensor)
    assert isinstance(lib.zeros(1, dtype=lib.int64), lib.LongTensor)


def test_29_to(lib):
    x = lib.zeros(2)
    assert x.to(lib.float32) is x and x.to("cpu") is x and x.to(x) is x and x.float() is x
    assert x.to(lib.float32, copy=True) is not x
    assert x.to("cpu", lib.float64).dtype == lib.float64 and x.to(lib.zeros(1, dtype=lib.int32)).dtype == lib.int32
    assert x.to(dtype=lib.float16, non_blocking=True).dtype == lib.float16
    assert x.type_as(lib.zeros(1, dtype=lib.float64)).dtype == lib.float64
    assert x.new_zeros(3).shape == (3,) and x.new_tensor([1]).dtype == lib.float32 and x.new_ones((2, 2)).sum() == 4
    assert x.new_empty(2, dtype=lib.int64).dtype == lib.int64 and x.new_full((2,), 3).tolist() == [3, 3]


def test_30_half_types_compute(lib):
    for dtype in (lib.float16, lib.bfloat16):
        x = lib.arange(4, dtype=dtype).reshape(2, 2)
        assert (x @ x).dtype == dtype and (x @ x).float().tolist() == [[2, 3], [6, 11]]
        assert lib.softmax(x, -1).dtype == dtype
    assert lib.tensor([1.1, 300.0]).to(lib.float8_e4m3fn).float().tolist() == [1.125, 288.0]


def test_31_size(lib):
    s = lib.zeros(2, 3).shape
    assert isinstance(s, tuple) and isinstance(s, lib.Size) and s.numel() == 6 and s == (2, 3)
    a, b = s
    assert (a, b) == (2, 3) and s[:-1] + (7,) == (2, 7) and lib.zeros(*s).shape == s and isinstance(s[:1], lib.Size)
    assert repr(s) == "torch.Size([2, 3])"


def test_32_truth_and_identity(lib):
    t = lib.zeros(2)
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(t)
    assert (t == None) is False and (t != None) is True  # noqa: E711
    assert len({t, t.clone()}) == 2 and (t == t).all()
    assert 2.0 in lib.tensor([1.0, 2.0]) and len(lib.zeros(3, 2)) == 3 and len(list(lib.zeros(3, 2))) == 3


def test_33_defaults(lib):
    lib.set_default_dtype(lib.float64)
    try:
        assert lib.zeros(1).dtype == lib.float64 and lib.tensor(1.0).dtype == lib.float64
        assert (lib.tensor([1]) / 2).dtype == lib.float64 and lib.get_default_dtype() == lib.float64
    finally:
        lib.set_default_dtype(lib.float32)
    with lib.device("cpu"):
        assert lib.zeros(1).device.type == "cpu"
    with lib.device("meta"):
        assert lib.zeros(1).is_meta


def test_lists_of_tensors_and_numbers_promote(lib):
    half, whole = lib.tensor(0.5), lib.tensor(2, dtype=lib.int8)
    for data, wanted in (
        ([half, 0.25], lib.float32),
        ([1.0, half.double()], lib.float64),
        ([whole, 2.5], lib.float32),
        ([half.half(), 1.0], lib.float32),
        ([half.half(), 1], lib.float16),
        ([whole, whole], lib.int8),
        ([whole, 1], lib.int64),
        ([half.half(), half.bfloat16()], lib.float32),
        ([whole, half.half()], lib.float16),
        ([half.bfloat16(), half.bfloat16()], lib.bfloat16),
        ([lib.tensor(True), 2], lib.int64),
        ([np.float32(1), 2.0], lib.float32),
        ([np.float64(1), half], lib.float64),
        ([np.int8(1), 2], lib.int64),
    ):
        made = lib.tensor(data)
        assert made.dtype == wanted and made.tolist() == [float(each) for each in data], data
