"""Where flambeau differs from PyTorch on purpose: all of it, with reasons. `deviation(case, text)` names one or "".

Most are refusals: PyTorch raises because a kernel lacks a type or a derivative, and flambeau computes.
"""

import math
import re

import numpy as np

import flambeau

from .fuzz import EVERY, build, specs_of

# what PyTorch's error says, for cases where flambeau raises none -> why that is right
REFUSED = {
    r"not implemented for|not supported for complex|does not support automatic differentiation for outputs with complex|"
    r"not intended to support complex|Bool(ean)? inputs not supported|may not be a boolean tensor|not support complex|not supported for Bool": "a kernel of PyTorch's lacks the type; loops here are written once for all types",
    r"gradient raises .*(is not implemented|undefined Tensor|does not have a device|Autograd not support dtype|"
    r"not differentiable|modified by an inplace operation|isFloatingType)|derivative for|"
    r"Autograd not support dtype|undefined Tensor|does not have a device|isFloatingType|bool tensor is not supported|"
    r"not differentiable with respect to argument|gradient does not raise.*input tensors must have the same dtype": "PyTorch has no derivative there, or fails inside it",
    r"returned an invalid gradient|grad_input must be contiguous|gradient does not raise, torch .*shape '\[0\]' is invalid": "PyTorch's gradient fails (sources larger than their index, transposed images, a bias without weight)",
    r"INTERNAL ASSERT FAILED": "an error of PyTorch's own",
    r"must be Tensor, not (int|float|bool)": "a number is as good as a 0-dim tensor",
}
OUT = (
    "out=: a result goes to any type that it can be cast to; some functions of PyTorch want the exact type, others not",
    re.compile(r"call does not raise, torch (Runtime|Type|NotImplemented)Error"),
)


def refusal(text):
    if not text.startswith("error: ") or "does not raise" not in text:
        return ""
    return next((why for pattern, why in REFUSED.items() if re.search(pattern, text)), "")


# error types of two refusals that may differ: PyTorch's says what its kernels or its argument parser lack
REFUSED_ANYWAY = re.compile(
    r"^error type: .*torch .*(not implemented for|not supported for complex|must be Tensor, not|out=tuple|arguments: .dim.|"
    r"expected scalar_type Long but found)",
    re.S,
)
POLES = r"acosh|logit|digamma|psi|float_power|fmod|copysign|div|entr|i1|erfcx|ndtr|hypot|vector_norm|decomposed|std|var_mean"

# (name of the function, what the difference says) -> why
SINGLE = {
    (
        r"^torch\.(clamp|clip) ",
        r"error: gradient does not raise.*doesn't match the broadcast shape",
    ): "PyTorch's gradient writes the part of a bound that is larger than the tensor into the smaller one",
    (
        r"^torch\.index_fill .*(shape=\(0,|layout=\('expanded')",
        r"error: gradient does not raise.*more than one element of the written-to tensor",
    ): "at no index, or of expanded memory, PyTorch's gradient writes into what is expanded",
    (
        r"F\.gelu",
        r"values \((NaN, infinity|NaN of torch)\)",
    ): "PyTorch's vector kernel gives NaN for gelu(inf), its scalar kernel inf",
    (r"F\.batch_norm|F\.instance_norm", r"version: "): "running statistics count a version when they change",
    (r"^torch\.(var|std) ", r"unbiased="): "unbiased= goes with every other argument, also as 0 and 1",
    (r"logical_", r"gradient|requires_grad"): "truth has no gradient, also in place (PyTorch passes the old one on)",
    (
        r"slogdet|logdet",
        r"gradient does not raise, torch _LinAlgError.*input matrix is singular",
    ): "where a determinant is exactly 0, PyTorch's second derivative fails; the slopes here are infinite",
    (r"nextafter", r"gradient"): "a neighbour has no gradient",
    (
        r"a(rc)?tan2 .*dtype='uint8'",
        r"gradient 1.\d: values",
    ): "the negative of an unsigned number is another unsigned one in PyTorch's gradient",
    (
        r"heaviside",
        r"gradient 1\.\d: some",
    ): "PyTorch has no derivative of it; written in place through a view, it says none without an error",
    (
        r"logaddexp2? .*float16",
        r"gradient 2\.\d: values \(NaN, infinity\)",
    ): "PyTorch rounds exponentials to halves in between: 0 * inf",
    (
        r"special\.entr",
        r"gradient 2\.\d: values",
    ): "beyond the domain, where entr is -inf, its second derivative is 0; PyTorch's is -1/x",
    (r"masked_fill|logsigmoid", r"strides|more than one element"): "strides as of any map; memory is not shared with itself",
    (
        r"torch\.a(rc|tan|sin|cos)|special\.|gamma|erf|conj|i0|isreal|copysign|gcd|lcm",
        r"strides",
    ): "functions that call back into numpy, and conjugates, give dense rows",
    (
        r"float16",
        r"error: call does not raise, torch TypeError\('Got unsupported ScalarType ComplexHalf",
    ): "halves make complex numbers of floats: there is no complex32",
    (r"result_type", r"result: str complex64, torch str complex32"): "there is no complex32",
    (r"addbmm|addmv|addr", r"raises RuntimeError\(.result type"): "out= never loses a kind of number",
    (
        r"cumm(in|ax) .*shape=\((\d, )*0,",
        r"call raises IndexError.*Dimension out of range",
    ): "a dim is checked for empty tensors too",
    (
        r"bmm|matmul .*shape=\((\d, )*0,?",
        r"error: call raises RuntimeError\('expected m1 and m2 to have the same dtype",
    ): "types are compared if there are no elements, too",
    (
        r"addmv",
        r"gradient does not raise, torch .*(size mismatch|outer: Expected 1-D argument self, but got 0-D|vector \+ matrix @ vector expected)",
    ): "PyTorch's gradient fails where the product is empty",
    (
        r"rsub .*complex.*special|rsub .*special.*complex",
        r"values",
    ): "numbers less an infinite one: PyTorch gives it an imaginary part, NaN",
    (
        r"(addmm|baddbmm|addbmm) .*shape=\((\d+, )+0\).*beta",
        r"call does not raise, torch .*result type Float can't be cast",
    ): "integers are scaled by whole parts where the product is empty, too",
    (r"created.*logspace", r"without overflow"): "exponents are no numbers of the result",
    (r"addbmm", r"error: call raises .*doesn't match the broadcast"): "PyTorch enlarges the tensor that is written in place",
    (r"matmul", r"error: call does not raise.*The size of tensor"): "out= may have any strides",
    (r"cross", r"expected scalar type"): "types promote",
    (r"logdet", r"values \(NaN, infinity\)"): "the determinant of a singular matrix is rounded",
    (r"logsumexp", r"result: values\n.*\dj"): "the imaginary part is known but for whole turns",
    (r"linalg\.cond", r"gradient does not raise"): "PyTorch cannot differentiate it",
    (
        r"lstsq .*expanded",
        r"result: values\n.*\ntorch\n\[(\s*\[( *-?0\. *)+\])+\]",
    ): "of equal rows with a column of -0.0 gelsy gives 0 in PyTorch, gelsd and gelss do not",
    (r"lstsq", r"missing"): "the documented name of the argument works",
    (r"linalg_norm|torch\.norm", r"does not raise.*2-tuple"): "more than two dims are a vector",
    (r"exp2|float_power|pow", r"values \(NaN\)"): "complex powers at infinity, of which C says nothing",
    (r"kron|isin", r"error: call does not raise, .*view size is not compatible"): "PyTorch takes only some layouts there",
    (
        r"(hardshrink|softshrink|hardtanh|relu6) .*special",
        r"gradient 1.*values",
    ): "PyTorch's vector and scalar kernels differ at NaN",
    (r"signbit.*bfloat16.*special", r"values"): "the sign of NaN",
    (r"(sinh|cosh|log10) .*complex.*special", r"values"): "complex numbers with one part infinite or NaN",
    (r"F\.batch_norm .*permuted", r"gradient"): "PyTorch's gradient is in the wrong order for one image of permuted memory",
    (r"F\.instance_norm", r"select\(\): index 0 out of range"): "PyTorch fails without images",
    (r"taken", r"call raises IndexError"): "indices into an empty dim are refused even if no element is asked for",
    (r"created.*linspace.*uint8", r"values"): "bytes from a negative number on: PyTorch wraps the ends first",
    (r"ldexp|nextafter|atan2|copysign", r"strides"): "of mixed types, and of powers of a number, PyTorch has other orders",
    (r"addcdiv|addcmul", r"gradient does not raise, torch .*can't be cast"): "PyTorch's gradient of mixed types fails",
    (r"antialias", r"result: values"): "results of one row or column: PyTorch gives the same value for all",
    (r"ldexp.*int", r"gradient"): "PyTorch's gradient raises 2 to integers in integers",
    (r"stored.*uint8", r"without overflow"): "negative numbers stored as bytes wrap around, fractions too",
    (
        r"F\.interpolate.*bicubic.*(antialias|, True\) \(\)$)",
        r"result: values|gradient",
    ): "PyTorch reads one row only where the result has one column",
    (r"atan2.*uint8", r"gradient 1"): "PyTorch's gradient negates and squares bytes",
    (r"max_pool3d", r"does not raise, torch .*Unsupported memory format"): "PyTorch takes only some layouts there",
    (r"torch\.(where|searchsorted)", r"invalid combination of arguments"): "a number goes by keyword and with out= too",
    (r"cosine_similarity|normalize", r"gradient 2"): "of a vector of zeros it is NaN or a rounding error of 1e8 in PyTorch",
    (r"conv_transpose", r"error: call raises .*Output size is too small"): "PyTorch refuses no elements for some batches only",
    (r"taken", r"result: strides"): "what indices pick is contiguous; PyTorch's result may follow the order of the input",
    (
        r"layer_norm .*float16.*, \[(1, )*1\]",
        r"gradient 2\.\d: values \(NaN",
    ): "of one element: the cube of its scale, 316, overflows in PyTorch's half",
    (r"adjoint", r"result: strides"): "the conjugate is a contiguous copy, in PyTorch a view",
    (
        r"(adjoint|conj)\b",
        r"memory: results share that of \[\[\]\], torch \[\[0\]\]",
    ): "the conjugate is a copy, in PyTorch a view",
    (
        r"tri[lu]|addmv|bmm|index_fill|index_|nan_to_num",
        r"error: call raises RuntimeError\('unsupported operation: more than one element",
    ): "writing in place to a tensor that overlaps itself is refused everywhere",
    (r"xlog1?p?y", r"gradient 1.1: values \(NaN, infinity\)"): "0 * log(0) is 0 for every 0 that moves, too: PyTorch says 0 / 0",
    (
        r"F\.silu .*complex.*inplace",
        r"gradient",
    ): "PyTorch refuses this gradient but for the in-place form, which conjugates nothing",
    (
        r"conv_transpose",
        r"error: call raises .*output padding must be smaller",
    ): "PyTorch does not look at what is wrong with an empty batch",
    (
        r"softm",
        r"error: call raises RuntimeError\('\"softmax_lastdim_kernel_impl\" not implemented",
    ): "integers are refused if there are none, too",
    (r"addmv", r"shape \(\d,\), torch \((1,)?\)"): "one number is added to every row, also where the product is empty",
    (
        r"stored",
        r"error type: RuntimeError\('Index put requires the source and destination dtypes match",
    ): "of two errors the other one",
    (
        r"_reduce .*'ama?[xi]n?'.*include_self', False",
        r"gradient",
    ): "PyTorch counts the old value among equal extremes without include_self",
}


def any_values(case, kind):
    """Whether some tensor holds numbers of this kind."""
    return any(s.values == kind for s in specs_of((case.args, dict(case.kwargs))))


def _converts_sparse(specs):
    """Whether some operands have other types and memory with gaps or repetitions: a copy of such has other strides."""
    return len({s.dtype for s in specs}) > 1 and any(s.layout[0] in ("sliced", "expanded") for s in specs)


def deviation(case, text, edges=True):
    """Why this difference is meant, or "". `edges`: derivatives at infinity, NaN and outside the domain are nobody's promise."""
    expanded = any(s.layout[0] == "expanded" for s in specs_of(case.args))
    found = refusal(text) or ("two refusals" if REFUSED_ANYWAY.search(text) else "")
    if (
        edges
        and not found
        and text.startswith("gradient")
        and "values (NaN" in text
        and (re.search(POLES, case.name) or any_values(case, "special") and case.name.startswith("F."))
    ):
        found = "derivatives at infinity, NaN and outside the domain follow the formula at hand; those that are finite agree"
    if not found and case.form == "out" and case.out in EVERY and OUT[1].search(text):
        found = OUT[0]
    if (
        not found
        and case.form == "out"
        and re.search(r"var_mean|median", case.name)
        and text.startswith("error: call does not raise")
    ):
        found = "out= works here too"
    if not found and "strides" in text and case.form != "out" and _converts_sparse(specs_of((case.args, dict(case.kwargs)))):
        found = "strides of operands that are converted: PyTorch looks at those of the converted copies"
    if not found and expanded and "median" in case.name and text.startswith("result: values"):
        found = "PyTorch's median of expanded memory reorders what it shares"
    if not found and re.search(r"\.det$", case.name) and re.search(r"^gradient 1.0: values\n", text) and any_singular(case):
        found = "where LU ends in an exact 0, PyTorch's gradient of a determinant is 0; the matrix of cofactors is not"
    if not found and re.search(r"logdet$", case.name) and text.startswith("gradient 1.0: values (NaN)") and any_singular(case):
        found = "the slope of the logarithm of 0 is infinite times the inverse of a singular matrix: its rounding decides the NaN"
    if not found and case.name == "F.batch_norm" and text.startswith("gradient 1.0: values\n") and has_expanded_weight(case):
        found = "PyTorch's gradient reads an expanded weight as if it were contiguous"
    if not found and "tensorinv" in case.name and "does not raise" in text and "singular" in text and singular_square(case):
        found = "whether a pivot of a singular matrix is 0 or rounding decides"
    for (name, pattern), why in SINGLE.items():
        if not found and re.search(name, f"{case.name} {case.args} {case.kwargs}") and re.search(pattern, text, re.S):
            found = why
    return found


def any_singular(case):
    return any(is_singular(build(flambeau, s, False)[0].numpy()) for s in specs_of((case.args, dict(case.kwargs))))


def has_expanded_weight(case):
    weight = dict(case.kwargs).get("weight", case.args[3] if len(case.args) > 3 else None)
    return weight is not None and "expanded" in repr(weight)


def singular_square(case):
    """Whether the argument of `tensorinv`, as a matrix, has no inverse."""
    x = build(flambeau, specs_of((case.args, dict(case.kwargs)))[0], False)[0].numpy()
    rows = math.isqrt(x.size)
    return rows * rows == x.size and is_singular(x.reshape(rows, rows))


def is_singular(x):
    """Whether some matrix of a batch has no inverse."""
    return x.ndim > 1 and x.shape[-1] == x.shape[-2] and bool(np.any(np.abs(np.linalg.det(x)) < 1e-12))
