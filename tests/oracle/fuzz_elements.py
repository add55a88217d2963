"""Random calls of functions of elements: unary, binary, ternary, activations, conversions."""

from .fuzz import EVERY, Type
from .fuzz_draw import calls

DOMAIN = {
    "acos": "open",
    "arccos": "open",
    "asin": "open",
    "arcsin": "open",
    "atanh": "open",
    "arctanh": "open",
    "erfinv": "open",
    "logit": "unit",
    "acosh": "above",
    "arccosh": "above",
    "digamma": "positive",
    "lgamma": "positive",
    "psi": "positive",
    "gammaln": "positive",
    "ndtri": "unit",
    "entr": "positive",
    "polygamma": "positive",
    "log": "positive",
    "log2": "positive",
    "log10": "positive",
}


def values(d, wild=0.25):
    """Numbers of the function's domain, or any."""
    return d.pick("special", "normal") if d.name not in DOMAIN or d.chance(wild) else DOMAIN[d.name]


@calls(
    "torch.abs torch.absolute torch.neg torch.negative torch.square torch.sgn torch.reciprocal torch.exp torch.sin "
    "torch.cos torch.tan torch.tanh torch.sinh torch.cosh torch.sqrt torch.rsqrt torch.log torch.log2 torch.log10 "
    "torch.sigmoid torch.acos torch.asin torch.atan torch.acosh torch.asinh torch.atanh torch.arccos torch.arcsin "
    "torch.arctan torch.arccosh torch.arcsinh torch.arctanh torch.exp2 torch.expm1 torch.log1p",
    strides=True,
)
def unary_of_every_type(d):
    return {"input": d.tensor(kinds="fffffib" + "c" * d.chance(0.2), values=values(d))}


@calls(
    "torch.erf torch.erfc torch.erfinv torch.digamma torch.lgamma torch.deg2rad torch.rad2deg torch.sinc "
    "torch.i0 torch.floor torch.ceil torch.trunc torch.fix torch.frac torch.sign torch.signbit torch.relu "
    "special.entr special.erfcx special.i0e special.i1 special.i1e special.ndtr special.ndtri special.log_ndtr "
    "special.psi special.gammaln special.expit special.erf special.exp2 special.expm1 special.log1p special.sinc "
    "special.digamma special.erfinv special.erfc special.i0",
    strides=True,
    tolerance=20,
)
def unary_of_real_types(d):
    return {"input": d.tensor(kinds="fffib", values=values(d))}


@calls(
    "torch.isnan torch.isinf torch.isfinite torch.isneginf torch.isposinf torch.isreal torch.logical_not torch.positive",
    strides=True,
)
def tests_of_elements(d):
    return {"input": d.tensor(kinds="fibc" if d.name not in ("isneginf", "isposinf") else "fib", values="special")}


@calls("torch.bitwise_not", strides=True)
def bits(d):
    return {"input": d.tensor(kinds="ib")}


@calls("torch.round special.round", strides=True)
def rounding(d):
    return {"input": d.tensor(kinds="fi", values="special"), "*decimals": d.maybe(0.4, d.pick(0, 1, 2, -1))}


@calls("torch.angle torch.conj torch.conj_physical torch.resolve_conj torch.resolve_neg", strides=True)
def complex_parts(d):
    return {"input": d.tensor(kinds="ccf", values="normal")}


@calls("torch.nan_to_num", strides=True)
def replacing(d):
    return {
        "input": d.tensor(kinds="fib", values="special"),
        "nan": d.maybe(0.5, d.pick(0.0, 2.0, None)),
        "posinf": d.maybe(0.5, 3.0),
        "neginf": d.maybe(0.5, d.pick(None, -4.0)),
    }


@calls("torch.logit special.logit", strides=True, tolerance=5)
def logit(d):
    return {"input": d.tensor(kinds="f", values=d.pick("unit", "open")), "eps": d.maybe(0.5, d.pick(1e-3, 0.1, None))}


@calls("torch.polygamma special.polygamma", ("function",), tolerance=50)
def polygamma(d):
    return {"n": d.int(0, 3), "input": d.tensor(values="positive")}


@calls("torch.mvlgamma special.multigammaln", tolerance=20)
def mvlgamma(d):
    return {"input": d.tensor(values=d.pick("positive", "above")), "p": d.int(1, 2)}


@calls("torch.frexp", order=0)
def frexp(d):
    return {"input": d.tensor()}


# -- two operands

ARITHMETIC = "fffib"


@calls("torch.add torch.sub torch.subtract", weight=4, strides=True)
def sums(d):
    shape = d.shape()
    kinds = "fffib" + "c" * d.chance(0.2)
    x = d.tensor(shape, kinds, d.pick("normal", "special"))
    return {"input": x, "other": d.operand(shape, kinds), "*alpha": d.maybe(0.3, d.pick(2, -1, 0.5, 1, True))}


@calls(
    "torch.mul torch.multiply torch.true_divide torch.eq torch.ne torch.not_equal torch.pow torch.float_power",
    weight=3,
    strides=True,
    tolerance=3,
)
def products(d):
    shape = d.shape()
    kinds = "fffib" + "c" * d.chance(0.15)
    power = "pow" in d.name
    x = d.tensor(shape, kinds, "positive" if power and d.chance(0.6) else d.pick("normal", "special"))
    other = d.operand(shape, kinds)
    return {"input": x, "other" if not power else "exponent": other}


@calls("torch.div torch.divide", weight=4, strides=True)
def division(d):
    shape = d.shape()
    kinds = "ffib" + "c" * d.chance(0.1)
    return {
        "input": d.tensor(shape, kinds, d.pick("normal", "special")),
        "other": d.operand(shape, kinds, d.pick("normal", "positive")),
        "*rounding_mode": d.maybe(0.6, d.pick("floor", "trunc", None)),
    }


@calls(
    "torch.floor_divide torch.remainder torch.fmod torch.maximum torch.minimum torch.lt torch.le torch.gt torch.ge "
    "torch.less torch.less_equal torch.greater torch.greater_equal torch.logical_and torch.logical_or "
    "torch.logical_xor",
    weight=2,
    strides=True,
)
def comparisons(d):
    shape = d.shape()
    return {
        "input": d.tensor(shape, "ffib", d.pick("normal", "special")),
        "other": d.operand(shape, "ffib", d.pick("normal", "positive", "special")),
    }


@calls(
    "torch.fmax torch.fmin torch.atan2 torch.arctan2 torch.copysign torch.hypot torch.logaddexp torch.logaddexp2 "
    "torch.nextafter torch.heaviside torch.xlogy special.xlogy special.xlog1py torch.ldexp torch.rsub",
    strides=True,
)
def binary_of_floats(d):
    shape = d.shape()
    return {
        "input": d.tensor(shape, "fffi", d.pick("normal", "special")),
        "other": d.operand(shape, "fffi", d.pick("normal", "positive")),
    }


@calls("torch.igamma torch.igammac special.gammainc special.gammaincc", order=0, strides=True, tolerance=50)
def incomplete_gamma(d):
    shape = d.shape()
    return {"input": d.tensor(shape, values="positive"), "other": d.tensor(d.broadcast(shape), values="positive")}


@calls("special.zeta", order=0, strides=True, tolerance=50)
def zeta(d):
    shape = d.shape()
    return {"input": d.tensor(shape, values="above"), "other": d.tensor(d.broadcast(shape), values="positive")}


@calls("torch.bitwise_and torch.bitwise_or torch.bitwise_xor torch.gcd torch.lcm", strides=True)
def binary_of_integers(d):
    shape = d.shape()
    return {"input": d.tensor(shape, "ib"), "other": d.operand(shape, "ib")}


@calls("torch.bitwise_left_shift torch.bitwise_right_shift", strides=True)
def shifts(d):
    shape = d.shape()
    return {"input": d.tensor(shape, "i"), "other": d.pick(1, 2, d.index(d.broadcast(shape), 5))}


@calls("torch.isclose torch.allclose torch.equal", order=0)
def closeness(d):
    x = d.tensor(kinds="fi" + "c" * d.chance(0.2), values=d.pick("normal", "special"))
    tolerances = {"rtol": d.maybe(0.4, 0.1), "atol": d.maybe(0.4, 0.5), "equal_nan": d.maybe(0.4, True)}
    return {"input": x, "other": d.pick(x, d.like(x, values="normal")), **(tolerances if d.name != "equal" else {})}


def add_operator(lib, x, y):
    return x + y


def reflected_operators(lib, x, n):
    return n - x, n * x, n + x, n / (x + 20), (x + 20) ** 2, x > n, n <= x


def integer_operators(lib, x, y):
    powers = (2 ** x.abs()).contiguous()
    return x & y, x | y, x ^ y, ~x, x // 3, x % 3, -7 // (x.abs() + 1), 7 % (x.abs() + 1), powers


def augmented(lib, x, y):
    z = x * 1
    z += y
    z *= 2
    z -= y
    return z


@calls(add_operator, weight=4, strides=True)
def operands(d):
    shape = d.shape()
    kinds = "fibc" if d.chance(0.1) else "ffib"
    return {"/x": d.tensor(shape, kinds), "/y": d.operand(shape, kinds)}


@calls(reflected_operators, strides=True)
def number_first(d):
    return {"/x": d.tensor(kinds="ffi"), "/n": d.number()}


@calls(integer_operators, order=0, strides=True)
def integers(d):
    shape = d.shape()
    return {"/x": d.tensor(shape, "i"), "/y": d.tensor(d.broadcast(shape), "i")}


@calls(augmented)
def augmented_operands(d):
    shape = d.shape()
    return {"/x": d.tensor(shape, "ffi"), "/y": d.operand(shape, "ffi")}


# -- three operands


@calls("torch.addcmul torch.addcdiv", strides=True)
def fused(d):
    shape = d.shape()
    dtype = d.dtype("ffi" if d.name == "addcmul" else "f")
    x, a, b = (
        d.tensor(s, dtype=dtype if d.chance(0.9) else None, values=v)
        for s, v in ((shape, "normal"), (d.broadcast(shape), "normal"), (d.broadcast(shape), "positive"))
    )
    return {"input": x, "tensor1": a, "tensor2": b, "*value": d.maybe(0.5, d.pick(2, 0.5, -1))}


@calls("torch.lerp", weight=2, strides=True)
def lerp(d):
    shape, dtype = d.shape(), d.dtype("f")
    return {
        "input": d.tensor(shape, dtype=dtype),
        "end": d.tensor(d.broadcast(shape), dtype=dtype),
        "weight": d.pick(0.3, 0.75, d.tensor(d.broadcast(shape), dtype=dtype, values="unit")),
    }


@calls("torch.where", weight=2, strides=True)
def where(d):
    shape = d.shape()
    return {
        "condition": d.tensor(shape, dtype="bool", grad=False),
        "input": d.operand(shape, "ffibc"),
        "other": d.operand(shape, "ffibc"),
    }


@calls("torch.clamp torch.clip", weight=2, strides=True)
def clamp(d):
    shape = d.shape()
    x = d.tensor(shape, "ffi", d.pick("normal", "special"))
    numbers = d.chance(0.6)
    low = d.maybe(0.7, d.pick(-1, 0.5, 0, None) if numbers else d.tensor(d.broadcast(shape), "fffi"))
    high = d.maybe(0.7, d.pick(1, 0.25, 2) if numbers else d.tensor(d.broadcast(shape), "fffi"))
    return {"input": x, "min": low, "max": high}


@calls("torch.clamp_min torch.clamp_max", strides=True)
def clamp_one(d):
    shape = d.shape()
    return {
        "input": d.tensor(shape, "ffi", d.pick("normal", "special")),
        d.name[6:]: d.pick(1, 0.5, d.tensor(d.broadcast(shape), "fi")),
    }


@calls("torch.masked_fill", weight=2, strides=True)
def masked_fill(d):
    shape = d.shape()
    return {
        "input": d.tensor(shape, "fffibc"),
        "mask": d.tensor(d.broadcast(shape), dtype="bool"),
        "value": d.pick(d.number(), -float("inf"), d.tensor((), "fi")),
    }


# -- activations

SCALARS = {
    "elu": {"alpha": 1.5},
    "celu": {"alpha": 2.0},
    "leaky_relu": {"negative_slope": 0.2},
    "softplus": {"beta": 2.0, "threshold": 3.0},
    "hardshrink": {"lambd": 0.7},
    "softshrink": {"lambd": 0.3},
    "hardtanh": {"min_val": -0.5, "max_val": 2.0},
    "gelu": {"*approximate": "tanh"},
}


@calls(
    "F.elu F.celu F.selu F.leaky_relu F.softplus F.hardshrink F.softshrink F.hardtanh F.gelu F.silu F.mish F.relu6 "
    "F.hardsigmoid F.hardswish F.logsigmoid F.tanhshrink F.softsign F.relu F.sigmoid F.tanh",
    strides=True,
    forms=("function",),
    weight=1.5,
    tolerance=2,
)
def activations(d):
    options = {k: d.maybe(0.5, v) for k, v in SCALARS.get(d.name, {}).items()}
    inplace = d.name in (
        "elu",
        "celu",
        "selu",
        "leaky_relu",
        "hardtanh",
        "relu6",
        "hardsigmoid",
        "hardswish",
        "relu",
        "silu",
        "mish",
    ) and d.chance(0.1)
    x = d.tensor(values=d.pick("normal", "special") if d.name not in ("mish", "softsign") else "normal")
    return {"input": x, **options, **({"*inplace": True} if inplace else {})}


@calls("F.threshold", ("function",), strides=True)
def threshold(d):
    return {"input": d.tensor(kinds="ffi"), "threshold": d.pick(0, 0.5), "value": d.pick(-1, 2.5)}


@calls("F.prelu torch.prelu", ("function",), strides=True)
def prelu(d):
    shape, dtype = d.shape(), d.dtype("f")
    channels = shape[1] if len(shape) > 1 else 1
    return {"input": d.tensor(shape, dtype=dtype), "weight": d.tensor((d.pick(1, channels),), dtype=dtype)}


@calls("F.glu", ("function",))
def glu(d):
    return {"input": d.tensor(d.full_shape()), "dim": d.maybe(0.7, -1)}


@calls("F.softmax F.log_softmax torch.softmax torch.log_softmax F.softmin", weight=2, tolerance=2)
def softmax(d):
    x = d.tensor(d.shape(0), values=d.pick("normal", "special"))
    return {"input": x, "dim": d.dim(len(x.shape)), "*dtype": d.maybe(0.2, Type(d.pick("float32", "float64")))}


# -- conversions and copies


@calls("torch.clone", strides=True)
def clone(d):
    return {"input": d.tensor(kinds="fibc")}


@calls("torch.zeros_like torch.ones_like", ("function",), order=0, strides=True)
def likes(d):
    return {"input": d.tensor(kinds="fibc"), "*dtype": d.maybe(0.4, Type(d.pick(*EVERY)))}


@calls("torch.full_like", ("function",), order=0, strides=True)
def full_like(d):
    return {"input": d.tensor(kinds="fibc"), "fill_value": d.number(), "*dtype": d.maybe(0.4, Type(d.pick(*EVERY)))}


def convert(lib, x, dtype):
    return x.to(dtype), x.to(dtype, copy=True), x.type(dtype)


def copied(lib, x, y):
    x = x.clone()
    return x.copy_(y)


def contiguous(lib, x):
    return x.contiguous(), x.clone(memory_format=lib.contiguous_format), x.detach()


def filled(lib, x, n):
    z = x * 1
    return z.fill_(n), z.clone().zero_(), (x * 2).mul_(n)


@calls(convert, weight=3, strides=True)
def conversion(d):
    return {"/x": d.tensor(kinds="fibc", values=d.pick("normal", "positive")), "/dtype": Type(d.pick(*EVERY))}


@calls(copied, weight=2, strides=True)
def copies(d):
    shape = d.shape()
    return {"/x": d.tensor(shape, "fib"), "/y": d.tensor(d.broadcast(shape), "fib")}


@calls(contiguous, strides=True)
def dense(d):
    return {"/x": d.tensor(kinds="fibc")}


@calls(filled)
def filling(d):
    return {"/x": d.tensor(kinds="fib"), "/n": d.number()}


@calls("torch.complex torch.polar", ("function", "out"), strides=False)
def complex_of_parts(d):
    shape, dtype = d.shape(), d.pick("float32", "float64")
    first, second = ("real", "imag") if d.name == "complex" else ("abs", "angle")
    return {
        first: d.tensor(shape, dtype=dtype, values="normal" if first == "real" else "positive"),
        second: d.tensor(d.broadcast(shape), dtype=dtype),
    }


@calls("torch.result_type torch.can_cast torch.promote_types", ("function",), order=0)
def types(d):
    if d.name == "result_type":
        return {"/a": d.operand((2,), "fibc"), "/b": d.operand((2,), "fibc")}
    return {"/a": Type(d.pick(*EVERY)), "/b": Type(d.pick(*EVERY))}


@calls("torch.fake_quantize_per_tensor_affine", ("function",), order=1)
def rounded_to_steps(d):
    low = d.pick(0, -8, -128)
    high = low + d.pick(15, 255)
    return {
        "input": d.tensor(dtype=d.pick("float32", "float64")),
        "scale": d.pick(0.125, 0.5, 2.0),
        "zero_point": d.int(low, high),
        "quant_min": low,
        "quant_max": high,
    }


@calls("torch.fake_quantize_per_channel_affine", ("function",), order=1)
def rounded_to_steps_of_channels(d):
    x = d.tensor(d.full_shape(1, 3), dtype="float32")
    axis = d.int(0, len(x.shape) - 1)
    return {
        "input": x,
        "scale": d.tensor((x.shape[axis],), dtype="float32", values="positive", grad=False),
        "zero_point": d.index((x.shape[axis],), 9, "int32"),
        "axis": axis,
        "quant_min": 0,
        "quant_max": d.pick(15, 255),
    }
