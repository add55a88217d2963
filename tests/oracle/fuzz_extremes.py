"""Calls at the edges of their formulas: every entry of the tables of random calls, with extreme numbers in its tensors.

In: an entry and a seed. Out: a `Case` in one floating type (now and then two), whose tensors hold zeros of both signs, ones,
infinities, NaN, the largest and the smallest numbers of the type, ties, or what saturates a sigmoid. Two libraries are
compared with NaN and infinity at exactly the same places, in results and first derivatives. What the tables do not list
cannot be missed: `unlisted` names public functions that no entry calls.
"""

import dataclasses
import inspect
import math
import re

import numpy as np

import flambeau
from flambeau.runtime.config import config

from . import fuzz, fuzz_deviations
from .fuzz import FLOATS, Spec, mapped, specs_of
from .fuzz_draw import TABLE, Draw

KINDS = ("any", "any", "finite", "saturated", "ties", "ties", "unit", "flat", "lowest")
LIMITS = {
    "float16": (65504.0, 2.0**-14, 2.0**-24),
    "bfloat16": (3.3895313892515355e38, 2.0**-126, 2.0**-133),
    "float32": (float(np.finfo(np.float32).max), 2.0**-126, 2.0**-149),
    "float64": (float(np.finfo(np.float64).max), 2.0**-1022, 5e-324),
}
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
STRUCTURED = ("index", "regular", "definite", "ascending")
# sums of products in an order that each library chooses, and functions of whole matrices: numbers that none of them overflows
MILD = re.compile(
    r"conv|channels_last|fft|short_time|linalg|torch\.(mm|bmm|mv|addmm|addmv|addr|addbmm|baddbmm|matmul|dot|inner|vdot|"
    r"einsum|tensordot|cdist|chain_matmul|kron|trapz|trapezoid|cumulative_trapezoid|cov|corrcoef|cumprod|outer|ger|"
    r"logcumsumexp|vander|cross|pinverse|inverse|det|slogdet|logdet|matrix|lu|svd|qr|cholesky|pdist)|F\.(bilinear|linear|"
    r"scaled_dot|embedding|pdist|interpolate|upsample|fold|unfold|local_resp|lp_pool|avg_pool|adaptive_avg|affine|grid)|"
    r"program\.(recurrent|cell|multihead|stepped|decomposed|told|drawn|connectionist|convolution|.*product)|fake_quantize"
)


def pool(kind, dtype):
    """The numbers that a tensor of this kind is made of, and how many of its elements are plain instead."""
    most, least, denormal = LIMITS.get(dtype, LIMITS["float32"])
    eps = EPSILON.get(dtype, EPSILON["float32"])
    finite = (0.0, -0.0, 1.0, -1.0, most, -most, least, -least, denormal, 1 - eps, 1 + eps)
    return {
        "any": ((*finite, math.inf, -math.inf, math.nan), 0.4),
        "finite": (finite, 0.5),
        "saturated": ((17.0, -17.0, 100.0, -100.0, 20000.0, -20000.0, 0.0, 3.0, -3.0, 6.0), 0.2),
        "ties": ((0.0, 1.0, -1.0), 0.0),
        "unit": ((0.0, 1.0, 1.0, eps, 1 - eps / 2, least, 0.5), 0.3),
        "flat": ((2.0,), 0.0),
        "lowest": ((-math.inf,) * 9 + (1.0,), 0.0),
        "positive": ((0.0, least, most, 1.0, math.inf, eps), 0.5),
        "mild": ((0.0, 1.0, -1.0, eps, -eps), 0.4),
        "mild positive": ((1.0, eps, 0.5), 0.4),
    }[kind]


def numbers(spec, shape, rng):
    kind = spec.values.partition(":")[2]
    chosen, plain = pool(kind, {"complex64": "float32", "complex128": "float64"}.get(spec.dtype, spec.dtype))
    ordinary = rng.integers(1, 16, shape) / 16 if kind == "unit" else np.rint(rng.standard_normal(shape) * 24) / 16
    ordinary = np.abs(ordinary) + (kind != "positive") / 16 if "positive" in kind else ordinary
    return np.where(rng.random(shape) < plain, ordinary, rng.choice(chosen, shape))


fuzz.EXTREMES.append(numbers)


def case_of(entry, seed, forms):
    """The case of a seed with its numbers and types exchanged."""
    case = entry.case(seed, tuple(f for f in forms if f != "out") or forms)
    d = Draw((seed, 77), entry.name)
    mild = bool(MILD.search(entry.name))
    dtype, kind = d.pick(*FLOATS), d.pick("mild", "ties") if mild else d.pick(*KINDS)
    whole = any(s.values in ("regular", "definite") for s in specs_of((case.args, dict(case.kwargs))))  # (matrices keep types)
    mixed = entry.make.__module__.endswith("fuzz_elements") and "prelu" not in entry.name

    def exchanged(spec):
        if not isinstance(spec, Spec) or spec.dtype not in FLOATS and not spec.dtype.startswith("complex"):
            return spec
        values = spec.values
        if values == "unit":
            values = "extreme:unit" if d.chance(0.8) else f"extreme:{kind}"
        elif values in ("positive", "above"):
            values = f"extreme:{'mild ' * mild}positive" if mild or d.chance(0.6) else f"extreme:{kind}"
        elif values == "distinct":
            values = "extreme:lowest" if "max_pool" in entry.name and d.chance(0.3) else "distinct with NaN"
        elif values not in STRUCTURED and not (values == "ones" and d.chance(0.8)):
            values = f"extreme:{kind if mild or d.chance(0.8) else 'any'}"
        wide = spec.dtype not in FLOATS or whole or mixed and d.chance(0.05)
        return dataclasses.replace(spec, dtype=spec.dtype if wide else dtype, values=values)

    args, kwargs = mapped((list(case.args), dict(case.kwargs)), exchanged)
    order = min(1, entry.order) if case.form != "out" else 0
    return dataclasses.replace(case, args=tuple(args), kwargs=tuple(kwargs.items()), order=order, strides=False)


def unlisted(space, home):
    """Public functions of a module that no entry of the tables calls."""
    listed = {name.partition(".")[2] for name in TABLE if name.startswith(space + ".")}
    inside = " ".join(inspect.getsource(e.make) + (inspect.getsource(e.call) if callable(e.call) else "") for e in TABLE.values())
    return {
        name
        for name, f in vars(home).items()
        if callable(f)
        and not isinstance(f, type)
        and not name.startswith("_")
        and name not in listed
        and f".{name}(" not in inside
    }


# -- what is meant

# (name and types, what the difference says) -> why; "of torch": only PyTorch has NaN or infinity there
MEANT = {
    (
        r"float16",
        r"(result|gradient 1\.\d): values \(infinity of torch\)",
    ): "halves compute in float32 here: what PyTorch rounds to a half in between overflows",
    (
        r"(poly|di)gamma|psi|mvlgamma|multigammaln",
        r"values",
    ): "poles: PyTorch's rounded reflection gives numbers or NaN there, and polygamma of infinity is its limit 0 here",
    (r"gammainc|igamma", r"result: values\n"): "of denormal exponents",
    (
        r"copysign|hypot|polar|angle|rsqrt.*complex|atanh.*complex|arctanh.*complex",
        r"gradient|result: values \(NaN\)",
    ): "derivatives that PyTorch takes from the result divided by the argument: NaN at zero and infinity",
    (r"special\.i1", r"gradient 1.*values"): "PyTorch's derivative forgets NaN",
    (r"xlog1?p?y", r"gradient 1.1: values \(infinity\)"): "a product that is 0 by definition next to one that is not",
    (r"logit .*(bfloat16|float16)", r"values"): "the bounds eps and 1 - eps are not rounded to the type",
    (
        r"(add|sub|rsub|diff|subtract|add_operator|sub_operator) .*complex",
        r"result: values \(NaN of torch\)",
    ): "PyTorch multiplies one operand by a complex 1: infinite parts become NaN",
    (r"addcmul|addcdiv|lerp", r"result: values \((NaN|infinity)\)"): "at overflow: PyTorch's vectors fuse product and sum",
    (r"float16", r"ComplexHalf"): "halves make complex numbers of floats: there is no complex32",
    (r"fake_quantize|vander", r"Scale must be|supports floating point"): "more types are taken",
    (r"log_ndtr", r"gradient 1.0: values\n"): "far below, PyTorch divides exponentials that underflow",
    (
        r"erfcx|index_reduce|scatter_reduce|prod",
        r"gradient 1.\d: values \(infinity of torch\)",
    ): "at overflow: products in another order",
    (
        r"(sinh|cosh|log10|sin|cos|tan|exp|sqrt|log|log1p|expm1|asinh|acosh|a(rc)?(sin|cos|tan)h?) .*complex",
        r"values \((NaN|infinity)\)",
    ): "complex numbers with one part infinite or NaN",
    (
        r"sgn .*complex",
        r"result: values \(NaN\)",
    ): "of one part NaN, PyTorch's vector kernel keeps the other part 0, its scalar kernel gives NaN for both, as here",
    (
        r"addcdiv .*complex",
        r"gradient 1.2: values \(NaN of torch\)",
    ): "PyTorch squares the divisor, and an infinite complex number times itself is NaN; the slope there is 0",
    (r"arg(max|min) .*complex", r"error type"): "of two refusals the other one",
    (
        r"nan_to_num .*(bool|int)",
        r"more than one element",
    ): "writing in place to a tensor that overlaps itself is refused everywhere",
    (r"prod", r"gradient 1.0: values \(NaN"): "with a NaN in a row PyTorch's gradient depends on zeros in other rows",
    (
        r"std|var",
        r"gradient 1.0: values \(NaN\)",
    ): "of equal elements whose variance one library rounds to 0 and the other does not",
    (r"nan_to_num .*complex", r"gradient"): "PyTorch differentiates it for complex numbers only in place",
    (r"ldexp", r"gradient 1.\d: values \((NaN|infinity)"): "at overflow: products in another order",
    (
        r"(scatter|index)_reduce .*(?<!b)float16",
        r"result: values \((NaN|infinity)",
    ): "at overflow: products and sums in another order",
    (r"fmod|remainder", r"gradient 1.1: values \(infinity"): "at overflow: sums of quotients in another order",
    (
        r"soft_margin_loss",
        r"result: values \(infinity of torch\)",
    ): "log(1 + exp(z)) is z where the exponential overflows; PyTorch's is infinite",
    (r"addcdiv", r"gradient 1.1: values \(infinity of torch\)"): "the square of a denominator has no digits left",
    (
        r"i0 .*float64",
        r"result: values \(NaN\)",
    ): "at the largest double and at infinity PyTorch's vectors and the elements left over differ",
    (r"histc .*(bfloat16|float16)", r"result: values"): "the bins of halves are counted in float32",
}
# the same where some operand has a number of this kind
MEANT_FOR = {
    (r"F\.(celu|selu|elu|hardswish)", r"gradient 1.0: values \(NaN of torch\)"): (
        np.isnan,
        "PyTorch's vectors give the slope of a NaN as NaN, the elements left over as that of a positive number",
    ),
    (r"(?<!b)float16", r"(result|gradient 1\.\d): values \(NaN of torch\)"): (
        lambda x: (np.abs(x) > 255) & np.isfinite(x),
        "halves compute in float32 here: what overflows in PyTorch's halves was infinite in between",
    ),
    (r"logit ", r"gradient 1.0: values \(NaN"): (
        np.isnan,
        "PyTorch's vectors give NaN the gradient 0, the elements left over NaN",
    ),
    (r"logit ", r"gradient 1.0: values \(infinity\)"): (
        lambda x: (x == 0) & np.signbit(x),
        "at -0.0 the slope is -inf in PyTorch's vectors and inf in its elements left over, as here",
    ),
    (r"F\.mish", r"gradient 1.0: values \(NaN of torch\)"): (
        np.isinf,
        "PyTorch's vector kernel gives inf / inf for the slope of mish at infinity, its scalar kernel the limit, 1",
    ),
    (r"(pairwise_distance|triplet_margin_loss|vector_norm) .*(?<!b)float16", r"gradient 1.\d: values \(NaN of torch\)"): (
        np.isfinite,
        "powers of small numbers, as those that eps = 1e-6 gives equal vectors, are 0 in PyTorch's halves: 0 / 0",
    ),
    (r"(float_power|pow) .*complex", r"result: values \(NaN of torch\)"): (
        lambda x: x == 0,
        "a power of 0 is 1, as in Python and numpy, of infinite complex bases, too, of which PyTorch's is NaN",
    ),
    (r"(float_power|pow) .*complex", r"gradient 1.\d: values \(NaN of torch\)"): (
        lambda x: x == 0,
        "a power of 0 has the slope 0",
    ),
    (r"^(summed|torch\.(sum|mean|nansum|nanmean)|F\.(nll_loss|cross_entropy)) ", r"result: values"): (
        lambda x: (np.abs(x) > 1e37) & (np.abs(x) < 3.5e38) | (np.abs(x) > 1e307),
        "what is left of a sum of the largest numbers depends on its order",
    ),
    (r"F\.gelu", r"result: values \(NaN of torch\)"): (
        lambda x: x == np.inf,
        "PyTorch's vector kernel gives NaN for gelu(inf), its scalar kernel inf",
    ),
    (r"index_add", r"result: values \((NaN|infinity)\)"): (
        lambda x: np.isfinite(x) & (np.abs(x) > 3e4),
        "at overflow: PyTorch fuses the product with alpha and the sum",
    ),
    (r"instance_norm", r"result: values$"): (lambda x: np.abs(x) > 1e4, "PyTorch scales and shifts apart: the digits cancel"),
    (r"torch\.(mul|multiply|div|divide|true_divide|prelu)|xlog1?p?y", r"gradient 1.\d: values \((NaN|infinity)"): (
        lambda x: (np.abs(x) > 1e37) & (np.abs(x) < 3.5e38) | (np.abs(x) > 1e307),
        "sums over what was broadcast, in another order",
    ),
    (r"max_pool", r"result: values$"): (np.isnan, "of several NaN PyTorch takes the last"),
    (r"lstsq", r"result: values$"): (lambda x: (x != 0) & (np.abs(x) < 1e-3), "columns that are nearly dependent"),
    (r"erfcx", r"gradient 1.0: values \(NaN of torch\)"): (lambda x: np.abs(x) > 1e30, "infinite far away"),
    (r"fmod|remainder", r"result: values \(NaN of torch\)"): (
        lambda x: (x != 0) & (np.abs(x) <= 2.0**-126),
        "PyTorch's vectors give NaN where a quotient by so small a divisor overflows, the elements left over a number",
    ),
    (r"\.(std|var)", r"gradient 1.0: values"): (
        lambda x: (x != 0) & (np.abs(x) < 1e-18),
        "the square of the deviation underflows",
    ),
    (r"histc", r"result: values$"): (
        lambda x: (np.abs(x) > 1e37) & (np.abs(x) < 3.5e38) | (np.abs(x) > 1e300),
        "the width of all bins together overflows, or a distance times their number",
    ),
    (r"cross_entropy", r"gradient 1.0: values$"): (
        lambda x: np.abs(x) > 1e6,
        "the logarithm of a row's sum of exponentials is rounded as a number of the scores' size",
    ),
    (r"renorm", r"gradient 1.0: values \(NaN\)"): (np.isnan, "the norm of a NaN has no slope"),
    (r"torch\.mode", r"result: values"): (np.isnan, "PyTorch sorts with <, which NaN has no place in"),
    (r"cosine_similarity .*(?<!b)float16", r"gradient 1.\d: values \(NaN of torch\)"): (
        lambda x: x == 0,
        "in PyTorch's halves eps, 1e-8, is 0",
    ),
    (r"stepped .*(?<!b)float16", r"result: values \(NaN of torch\)"): (
        lambda x: np.abs(x) < 0.01,
        "in PyTorch's halves eps, 1e-8, and squares of small gradients are 0",
    ),
    (r"log_ndtr", r"gradient 1.0: values \(NaN of torch\)"): (
        lambda x: x < -1e37,
        "far below, the slope is -x, and infinite at minus infinity: PyTorch divides by an erfcx without digits",
    ),
    (r"igamma|gammainc", r"result: values \(NaN of torch\)"): (
        lambda x: np.abs(x) > 1e30,
        "PyTorch's series overflows, the limit is known",
    ),
    (r"(index|scatter)_reduce", r"gradient 1.\d: values \(NaN of torch\)"): (
        lambda x: (x == 0) | np.isinf(x),
        "PyTorch divides a product by its factors: 0 / 0",
    ),
    (r"sinc float16", r"gradient 1.0: values \(NaN of torch\)"): (
        lambda x: np.abs(x) > 2e4,
        "pi times the number overflows in PyTorch's halves",
    ),
    (r"signbit .*bfloat16", r"result: values$"): (np.isnan, "a NaN that PyTorch converts to a bfloat16 has a sign"),
    (r"softshrink", r"gradient 1.0: values$"): (np.isnan, "PyTorch's vectors give NaN the gradient 0, the elements left over 1"),
    (r"\.(std|var).*float16", r"gradient 1.0: values"): (
        lambda x: np.abs(x) > 255,
        "PyTorch's half of the squared deviation overflows on the way to its gradient",
    ),
    (r"hardshrink|hardtanh|relu6|hardswish|hardsigmoid|max_pool", r"gradient 1.*values"): (
        np.isnan,
        "at NaN PyTorch's vector and scalar kernels differ; of several NaN it takes the last",
    ),
    (r"torch\.prod", r"gradient 1.0: values$"): (
        lambda x: (x != 0) & (np.abs(x) < 2.0**-126),
        "PyTorch divides a product by its factors, of which denormal ones have few digits",
    ),
    (r"F\.kl_div", r"gradient 1.1: values \(NaN of torch\)"): (lambda x: x == 0, "a target of 0: PyTorch's gradient is 0 / 0"),
    (r"sinc .*float16", r"gradient 1.0: values \(NaN of torch\)"): (
        lambda x: np.abs(x) > 250,
        "its square overflows in PyTorch's halves",
    ),
    (r"binary_cross_entropy .*float16", r"gradient 1.0: values \(NaN of torch\)"): (
        lambda x: (x == 0) | (x == 1),
        "in PyTorch's halves eps, 1e-12, is 0",
    ),
    (r"special\.zeta", r"result: values \(NaN of torch\)"): (lambda x: np.abs(x) > 1e38, "the limit is 0"),
    (r"F\.normalize", r"gradient 1.0: values \(NaN of torch\)"): (
        lambda x: (x != 0) & (np.abs(x) < 1e-18),
        "powers of the norm underflow",
    ),
    (r"F\.normalize.*float16", r"gradient 1.0: values"): (lambda x: x == 0, "in PyTorch's halves eps, 1e-12, is 0"),
    (r"F\.gelu .*bfloat16", r"(result|gradient 1.0): values \(NaN of torch\)"): (
        np.isinf,
        "PyTorch's vector kernel gives NaN for gelu of infinity",
    ),
    (r"poisson_nll_loss", r"result: values$"): (lambda x: np.abs(x) > 1e30, "what is left of a sum depends on its order"),
    (r"unpooled", r"(result|gradient 1.0): values"): (np.isnan, "of several NaN PyTorch takes the last"),
    (r"cdist|pdist", r"gradient 1.\d: values \(NaN of torch\)"): (np.isnan, "the distance of a NaN has no slope"),
    (r"special\.i1 .*float64", r"result: values \(NaN\)"): (
        lambda x: np.abs(x) > 1e300,
        "near the largest double PyTorch's vectors and the elements left over differ",
    ),
}
# where partial sums overflow, infinities of both signs meet or not
SUMS = re.compile(r"sum|mean|loss|kl_div|cross_entropy")


def sums_overflow(x):
    return (np.abs(x) > 1e37) & (np.abs(x) < 3.5e38) | (np.abs(x) > 1e307) & np.isfinite(x)


PLAIN_SUMS = re.compile(r"^torch\.(nan)?(sum|mean)$")


def cancels(case):
    """Whether an operand has the largest numbers of both signs."""
    return any_number(case, lambda x: sums_overflow(x) & (x > 0)) and any_number(case, lambda x: sums_overflow(x) & (x < 0))


# where sums of squares overflow, one library's formula gives NaN, the other's 0
SQUARED = re.compile(r"norm|cosine|pairwise|triplet|std|var|dist")


def squares_overflow(case, halves=1e18):
    """Whether some number has no square in the type that it computes in, which for float16 has those up to `halves`."""
    for s in specs_of((case.args, dict(case.kwargs))):
        top = 1e150 if s.dtype in ("float64", "complex128") else halves if s.dtype == "float16" else 1e18
        if s.dtype in FLOATS or s.dtype.startswith("complex"):
            x = fuzz.array_of(s)
            x = x.astype(np.complex128 if s.dtype.startswith("complex") else np.float64)
            if np.any(np.abs(np.nan_to_num(x, posinf=1e300, neginf=-1e300)) > top):
                return True
    return False


def any_number(case, test):
    """Whether an operand has an element of which this is true."""
    return any(
        bool(np.any(test(fuzz.array_of(s).astype(np.float64))))
        for s in specs_of((case.args, dict(case.kwargs)))
        if s.dtype in FLOATS
    )


def has_one_key(case):
    """Attention over one key, with its options `batch_first` and those that add keys."""
    if case.name != "multihead":
        return False
    y, options = case.args[1], case.args[3]
    return y.shape[1 if options["batch_first"] else 0] == 1 and not (options["add_bias_kv"] or options["add_zero_attn"])


ALL_ZERO = r"gradient 1\.0: values\n[][0. \n-]*\ntorch\n"  # of ours


def normalizes_single_elements(case):
    """A layer norm whose rows have one element."""
    return case.name == "F.layer_norm" and math.prod(dict(case.kwargs).get("normalized_shape", (0,))) == 1


def rounds_at_kinks(case):
    """Whether some sum of `channels_last` is 0, or as large as its neighbour in a pool, but for its last digits."""
    x, w = (flambeau.from_numpy(fuzz.array_of(s).astype(np.float64)) for s in specs_of(case.args))
    if all((t * 16 == (t * 16).round()).all() for t in (x, w)):
        return False  # such sums are exact, in any order
    y = flambeau.nn.functional.conv2d(x, w, padding=1)
    near = 1e3 * EPSILON[specs_of(case.args)[0].dtype] * y.abs().max().item()
    windows = y[..., : y.shape[2] // 2 * 2, : y.shape[3] // 2 * 2].unfold(2, 2, 2).unfold(3, 2, 2).flatten(-2).sort(-1).values
    return bool((y.abs() < near).any() or (windows[..., 3] - windows[..., 2] < near).any())


def deviation(case, text):
    """Why this difference is meant, or ""."""
    found = fuzz_deviations.deviation(case, text, edges=False)
    types = " ".join(s.dtype for s in specs_of((case.args, dict(case.kwargs))))
    for (name, pattern), why in MEANT.items():
        if not found and re.search(name, f"{case.name} {types}") and re.search(pattern, text):
            found = why
    for (name, pattern), (test, why) in MEANT_FOR.items():
        if (
            not found
            and re.search(name, f"{case.name} {types}")
            and re.search(pattern, text.split("\n")[0])
            and any_number(case, test)
        ):
            found = why
    if (
        not found
        and re.search(r"(index|scatter)_reduce", case.name)
        and "'prod'" in repr((case.args, case.kwargs))
        and text.startswith(("gradient 1.0: values\n", "gradient 1.1: values\n"))
        and any_number(case, lambda x: (x != 0) & (np.abs(x) < 2.0**-126))
    ):
        found = "PyTorch's gradient multiplies and divides by elements, of which denormal ones have few digits"
    if not found and re.match(r"gradient 1\.[01]: values\n", text) and "float16" in types and has_one_key(case):
        found = "of one key, scores have no gradient: what is left is the difference of rounded halves"
    if not found and case.name == "told" and re.match(r"gradient 1\.\d: values", text) and fuzz_deviations.any_singular(case):
        found = "solutions of systems that are singular but for a last digit: nobody asks to refuse them, and no digit is left"
    if (
        not found
        and re.search(r"a(rc)?cosh$", case.name)
        and text.startswith("gradient 1.0: values (NaN of torch)")
        and any((fuzz.array_of(s) == 1).any() for s in specs_of(case.args) if s.dtype.startswith("complex"))
    ):
        found = "at 1, the end of the domain, the slope is infinite; PyTorch's of complex numbers is NaN"
    if not found and re.match(ALL_ZERO, text) and normalizes_single_elements(case):
        found = "the gradient of rows of one element is 0: PyTorch's is the difference of two rounded numbers"
    if not found and case.name == "channels_last" and re.match(r"gradient 1\.\d: values\n", text) and rounds_at_kinks(case):
        found = "the slope of relu, or the place of a maximum, at a sum that one library rounds to 0, or to its neighbour"
    if (
        not found
        and case.name == "summed"
        and str(case.args[0]).count(",") == 2
        and re.match(r"gradient \d\.\d: values \(NaN\)", text)
        and any_number(case, np.isinf)
        and any_number(case, lambda x: (x != 0) & (np.abs(x) < 1e-37))
    ):
        found = "a product of three with an infinity, taken in another order: rounded to 0 before it or not"
    if (
        not found
        and re.search(r"torch\.(std|var)", case.name)
        and re.match(r"gradient 1.0: values \((infinity|NaN of torch)\)", text)
        and "correction" in dict(case.kwargs)
    ):
        found = (
            "without a degree of freedom the slope of everything is infinite in PyTorch, and NaN at the mean; that over named "
            "dims is a number with a sign, as here"
        )
    if (
        not found
        and ("values" in text or text.startswith("input"))
        and SQUARED.search(case.name)
        and squares_overflow(case, 255 if text.startswith("gradient") else 1e18)
    ):  # (PyTorch's gradients compute in halves)
        found = "squares that overflow"
    return found


# -- comparing


def of_elements(entry):
    """Whether each element of a result comes from one element of each operand."""
    return entry.make.__module__.endswith("fuzz_elements") and not any(n in entry.name for n in ("softm", "glu", "all", "equal"))


def largest(dtype):
    return LIMITS.get({"complex128": "float64"}.get(dtype, dtype), LIMITS["float32"])[0]


def unequal(a, b, dtype, tolerance, single):
    """What differs between two arrays: NaN and infinities anywhere, numbers by more than the tolerance of their size
    (`single`: each by its own, else by the largest). Where sums are rounded differently, one may overflow and not the other."""
    if a.size == 0 or a.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else "values"
    if a.dtype.kind == "c":
        parts = [unequal(x, y, dtype, tolerance, False) for x, y in ((a.real, b.real), (a.imag, b.imag))]
        return next(filter(None, parts), "")
    x, y = a.astype(np.float64), b.astype(np.float64)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return "values (NaN)" if np.any(np.isnan(x) & ~np.isnan(y)) else "values (NaN of torch)"
    number = ~np.isnan(x)
    x, y = x[number], y[number]
    far = np.isinf(x) | np.isinf(y)
    near_end = (np.minimum(np.abs(x), np.abs(y)) > largest(dtype) * (0.98 if single else 0.2)) & (np.sign(x) == np.sign(y))
    if np.any(far & (x != y) & ~near_end):
        return "values (infinity)" if np.any(np.isinf(x) & (x != y) & ~near_end) else "values (infinity of torch)"
    x, y = x[~far], y[~far]
    size = np.maximum(np.abs(y), 1.0) if single else max(1.0, float(np.abs(y).max(initial=0)))
    with np.errstate(all="ignore"):
        return "values" if np.any(np.abs(x / 4 - y / 4) > tolerance * size / 4) else ""


def check_of(entry, ours, theirs):
    """check(case) -> how the libraries differ, where that is not meant."""
    single = of_elements(entry)
    meant = lambda case, text: deviation(case, text) or digits_lost(ours, theirs, case, text, single)
    return fuzz.checked(ours, theirs, meant, lambda a, b, tolerance, dtype="": unequal(a, b, dtype, tolerance, single))


def digits_lost(ours, theirs, case, text, single):
    """Whether PyTorch's halves have lost digits: for the same numbers as doubles it gives, within the tolerance, what ours gives for
    the halves, or, of a gradient, not what it gives for them itself. single: each number is held to its own size."""
    found = re.match(r"(?:result|gradient 1\.(\d+)): values\n", text)
    halves = any(s.dtype in ("float16", "bfloat16") for s in specs_of((case.args, dict(case.kwargs))))
    if not found or not halves:
        return ""
    here, seen, exact = fuzz.run(ours, case), fuzz.run(theirs, case), fuzz.run(theirs, case, wide=True)
    if here.error or seen.error or exact.error:
        return ""
    own, theirs_, wide = (each.grads[0][int(found[1])] if found[1] else each.results for each in (here, seen, exact))
    if not all(isinstance(value, fuzz.Value) for value in (own, theirs_, wide)):
        return ""
    near = fuzz.tolerance_of(case, (own.dtype,)) * 5
    lost = not unequal(own.array, wide.array, own.dtype, near, single)
    lost = lost or bool(found[1] and unequal(theirs_.array, wide.array, own.dtype, near, False))
    return "sums that cancel: PyTorch's halves have lost the digits" if lost else ""


# -- compiled


def written(case, first):
    """The call of a case as text, with its tensors as t[first], t[first + 1], ..."""
    count = iter(range(first, 10**6))

    def named(x):
        return fuzz.Name(f"t[{next(count)}]" if isinstance(x, Spec) else f"lib.{x.name}")

    args, kwargs = mapped(case.args, named), mapped(dict(case.kwargs), named)
    given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
    if case.form == "method":
        return f"{args[0]}.{case.call.rpartition('.')[2]}({', '.join([*map(repr, args[1:]), *(f'{k}={v!r}' for k, v in kwargs.items())])})"
    space, _, name = case.call.partition(".")
    return f"{ {'torch': 'lib', 'F': 'lib.nn.functional'}.get(space, 'lib.' + space) }.{name}({given})"


def program_of(lib, cases):
    """(function of a list of tensors that makes all these calls, maker of the tensors with their leaves)."""
    lines, specs = [], []
    for case in cases:
        lines.append(written(case, len(specs)))
        specs += specs_of((case.args, dict(case.kwargs)))
    text = "def program(t):\n    return [" + ",\n            ".join(lines) + "]\n"
    scope = {"lib": lib, "inf": math.inf, "nan": math.nan}
    exec(compile(text, "<extremes>", "exec"), scope)

    def tensors():
        built = [fuzz.build(lib, s, s.grad) for s in specs]
        return [view for view, _, _ in built], [leaf for _, _, leaf in built if leaf is not None]

    return scope["program"], tensors, text


def observed(lib, f, tensors):
    """Results and gradients of a program, as arrays with their types."""
    views, leaves = tensors()
    results = [fuzz.tensors_in(lib, r) for r in f(views)]
    losses = []
    for outs in results:
        tracked = [(k, t) for k, t in enumerate(outs) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
        losses += [fuzz.weighed(lib, tracked)] if tracked else []
    grads = lib.autograd.grad(sum(losses), leaves, allow_unused=True) if losses and leaves else ()
    return [[fuzz.summary(lib, t) for t in outs] for outs in results], [
        None if g is None else fuzz.summary(lib, g) for g in grads
    ]


def compiled_differs(lib, cases, backend):
    """How a compiled program of these calls differs from the same program run eagerly, or ""."""
    found = compiled_told(lib, cases, backend, False)
    if found and any(s.dtype.endswith("float16") for case in cases for s in specs_of((case.args, dict(case.kwargs)))):
        return compiled_told(lib, cases, backend, True)  # what is kept in registers is not rounded, and does not overflow
    return found


def compiled_told(lib, cases, backend, rounding):
    """The same; `rounding`: halves are rounded where eager rounds them."""
    f, tensors, text = program_of(lib, cases)
    wanted, slopes = observed(lib, f, tensors)
    lib.compiler.reset()
    try:
        with config.patch(strict=True, keep_half_rounding=rounding):
            found, other = observed(lib, lib.compile(f, backend=backend), tensors)
    except Exception as error:
        return f"raises {error!r}\n{text}"
    pairs = [(case, a, b, f"result of {written(case, 0)}") for case, x, y in zip(cases, found, wanted) for a, b in zip(x, y)]
    owners = [case for case in cases for s in specs_of((case.args, dict(case.kwargs))) if s.grad]
    pairs += [(case, a, b, f"gradient {k} of {written(case, 0)}") for k, (case, a, b) in enumerate(zip(owners, other, slopes))]
    for case, a, b, what in pairs:
        if (a is None) != (b is None):
            return f"{what}: {a} instead of {b}\n{text}"
        if a is None:
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{what}: {a.dtype} {a.shape} instead of {b.dtype} {b.shape}\n{text}"
        wrong = unequal(a.array, b.array, a.dtype, fuzz.tolerance_of(case, (a.dtype,)) * 5, False)
        half = any(s.dtype.endswith("float16") for s in specs_of((case.args, dict(case.kwargs))))
        if wrong and SQUARED.search(case.name) and squares_overflow(case):  # (in the order of one kernel, not in the other's)
            continue
        if "(NaN" in wrong and SUMS.search(case.name) and any_number(case, sums_overflow):
            continue
        if wrong and PLAIN_SUMS.search(case.name) and cancels(case):  # (what is left depends on the order)
            continue
        if wrong and not (half and wrong.endswith("of torch)")):  # (what is kept in registers is not rounded)
            return f"{what}: {wrong}\n{fuzz.short(a.array)}\neager\n{fuzz.short(b.array)}\n{text}"
    return ""
