"""repr of tensors against PyTorch's, character for character."""

import math

import numpy as np
import pytest

import flambeau as fb

torch = pytest.importorskip("torch")
NAN, INF = math.nan, math.inf

VALUES = [
    1.0,
    -0.5,
    3,
    True,
    1 + 2j,
    NAN,
    INF,
    -INF,
    1e10,
    1e-10,
    123456789.0,
    0.0,
    -0.0,
    [],
    [[]],
    [1.0, 2.0],
    [1.5, 2.0],
    [1, -20, 300],
    [True, False],
    [0.0, 0.0],
    [1.0, NAN],
    [1.5, NAN],
    [NAN, NAN],
    [1.0, INF, -INF],
    [0.001, 1.0],
    [0.0001, 1.5],
    [1e-5, 1.0],
    [1e-5, 1e-6],
    [1e8, 1.0],
    [1e9, 2.5],
    [1000.0, 1.0],
    [1001.0, 1.0],
    [1000.5, 1.0],
    [99999.0, 99.5],
    [1e-8],
    [123456.789],
    [1.23456789],
    [-1.0, 1.0],
    [0.5, -1e-9],
    [1 + 2j, 3.5 - 4j],
    [1 + 0j, NAN],
    [1e10 + 1j],
    [-1 - 1j, 10 + 20.25j],
    [1e-5 + 1e5j, 1j],
    [complex(INF, -0.0)],
    [[1.0, 2.0], [3.0, 4.0]],
    [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    [[1.5], [-200.25]],
    [10**15, 1],
    [[True], [False]],
    [2.0**31, 1.0],
    [1e38],
    [1.0, 1e-3],
    [16777216.0],
    [-0.0, 1.0],
    [1e-45, 1.0],
]
MADE = {
    "arange(30)": lambda lib: lib.arange(30),
    "arange(2000)": lambda lib: lib.arange(2000),
    "arange(1000)": lambda lib: lib.arange(1000),
    "arange(1001).float()": lambda lib: lib.arange(1001).float(),
    "matrix": lambda lib: lib.arange(10000).reshape(100, 100) / 7,
    "cube": lambda lib: lib.arange(60.0).reshape(3, 4, 5),
    "summarised cube": lambda lib: lib.arange(3000.0).reshape(3, 10, 100) * 0.5,
    "four": lambda lib: lib.ones(2, 1, 2, 3),
    "tall": lambda lib: lib.arange(3000).reshape(1500, 2),
    "wide": lambda lib: lib.arange(50.0).reshape(1, 50) / 3,
    "empty 0x3": lambda lib: lib.zeros(0, 3),
    "empty 2x0": lambda lib: lib.zeros(2, 0),
    "empty int": lambda lib: lib.zeros(0, dtype=lib.int64),
    "requires grad": lambda lib: lib.ones(2, requires_grad=True),
    "grad_fn": lambda lib: lib.ones(2, requires_grad=True) * 2,
    "grad_fn view": lambda lib: lib.ones(2, 3, requires_grad=True).transpose(0, 1),
    "sum": lambda lib: lib.ones(2, requires_grad=True).sum(),
    "long grad": lambda lib: lib.arange(24.0).requires_grad_() + 0.25,
    "parameter": lambda lib: lib.nn.Parameter(lib.ones(2)),
    "frozen parameter": lambda lib: lib.nn.Parameter(lib.ones(2), requires_grad=False),
    "meta": lambda lib: lib.ones(2, 3, device="meta"),
    "meta int": lambda lib: lib.ones(2, dtype=lib.int32, device="meta"),
    "size": lambda lib: lib.ones(2, 3).shape,
    "device": lambda lib: lib.device("cpu"),
    "dtype": lambda lib: lib.float16,
    "complex grad": lambda lib: lib.ones(2, dtype=lib.complex64).requires_grad_(),
    "transposed": lambda lib: lib.arange(6).reshape(2, 3).t(),
    "expanded": lambda lib: lib.ones(1).expand(3),
    "long complex": lambda lib: lib.arange(40).to(lib.complex64) * (1.5 - 0.25j),
    "buffer": lambda lib: lib.nn.Buffer(lib.ones(1)),
}
for _name in (
    "bool uint8 int8 int16 int32 int64 uint16 float16 bfloat16 float32 float64 complex64 complex128 float8_e5m2"
).split():
    MADE[_name] = lambda lib, n=_name: lib.tensor([0, 1, 3]).to(getattr(lib, n))
OPTIONS = [
    dict(precision=2),
    dict(sci_mode=True),
    dict(sci_mode=False),
    dict(linewidth=40),
    dict(threshold=5, edgeitems=1),
    dict(profile="short"),
    dict(profile="full"),
]


def made(lib, value):
    return lib.tensor(value)


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values(value):
    assert repr(fb.tensor(value)) == repr(torch.tensor(value))
    if np.array(value).dtype.kind == "f":
        for name in ("float64", "bfloat16", "float16"):
            assert repr(fb.tensor(value).to(getattr(fb, name))) == repr(torch.tensor(value).to(getattr(torch, name)))


@pytest.mark.parametrize("name", MADE)
def test_made(name):
    assert repr(MADE[name](fb)) == repr(MADE[name](torch)) and str(MADE[name](fb)) == str(MADE[name](torch))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options):
    try:
        for lib in (fb, torch):
            lib.set_printoptions(**options)
        for make in [
            lambda lib: lib.arange(20) / 3,
            lambda lib: lib.arange(3000.0).reshape(30, 100),
            lambda lib: lib.tensor([1e-9, 1.0]),
            lambda lib: lib.tensor([1 + 2j, 0.5j]),
            lambda lib: lib.tensor([1.0, 2.0]),
        ]:
            assert repr(make(fb)) == repr(make(torch))
    finally:
        for lib in (fb, torch):
            lib.set_printoptions(profile="default")


def test_a_default_of_float64():
    try:
        for lib in (fb, torch):
            lib.set_default_dtype(lib.float64)
        for name in ("float32", "float64", "complex64", "complex128"):
            assert repr(fb.ones(2, dtype=getattr(fb, name))) == repr(torch.ones(2, dtype=getattr(torch, name)))
    finally:
        for lib in (fb, torch):
            lib.set_default_dtype(lib.float32)


def test_format():
    for value, spec in [(1.5, ".3f"), (3, "5d"), (1.5, ""), (2.0, "e")]:
        assert format(fb.tensor(value), spec) == format(torch.tensor(value), spec)
    with pytest.raises(TypeError):
        format(fb.ones(2), ".3f")
