"""Where flambeau differs from PyTorch on purpose: all of it, with reasons. `deviation(case, text)` names one or "".

Most are refusals: PyTorch raises because a kernel lacks a type or a derivative, and flambeau computes.
"""

import re

from .fuzz import EVERY

# what PyTorch's error says, for cases where flambeau raises none -> why that is right
REFUSED = {
    r"not implemented for|not supported for complex|does not support automatic differentiation for outputs with complex|"
    r"not intended to support complex|Boolean inputs not supported|not support complex|not supported for Bool":
        "a kernel of PyTorch's lacks the type; loops here are written once for all types",
    r"gradient raises .*(is not implemented|undefined Tensor|does not have a device|Autograd not support dtype|"
    r"not differentiable|modified by an inplace operation|isFloatingType)|derivative for|"
    r"Autograd not support dtype|undefined Tensor|does not have a device|isFloatingType|"
    r"not differentiable with respect to argument":
        "PyTorch has no derivative there, or fails inside it",
    r"returned an invalid gradient|grad_input must be contiguous|gradient does not raise, torch .*shape '\[0\]' is invalid":
        "PyTorch's gradient fails (sources larger than their index, transposed images, a bias without weight)",
    r"must be Tensor, not (int|float|bool)": "a number is as good as a 0-dim tensor",
}
OUT = ("out=: a result goes to any type that it can be cast to; some functions of PyTorch want the exact type, others not",
       re.compile(r"call does not raise, torch (Runtime|Type|NotImplemented)Error"))


def refusal(text):
    if not text.startswith("error: ") or "does not raise" not in text:
        return ""
    return next((why for pattern, why in REFUSED.items() if re.search(pattern, text)), "")


# (name of the function, what the difference says) -> why
SINGLE = {
    (r"F\.gelu", r"values \(NaN, infinity\)"): "PyTorch's vector kernel gives NaN for gelu(inf), its scalar kernel inf",
    (r"F\.batch_norm|F\.instance_norm", r"version: "): "running statistics count a version when they change",
    (r"var_mean|std_mean", r"error: call does not raise"): "out= works here too",
    (r"kron|isin", r"error: call does not raise, .*view size is not compatible"): "PyTorch takes only some layouts there",
    (r"taken", r"result: strides"): "what indices pick is contiguous; PyTorch's result may follow the order of the input",
    (r"adjoint", r"result: strides"): "the conjugate is a contiguous copy, in PyTorch a view",
    (r"tri[lu]", r"error: call raises RuntimeError\('unsupported operation: more than one element"):
        "writing in place to a tensor that overlaps itself is refused everywhere",
    (r"scatter_reduce|index_reduce", r"gradient"): "PyTorch counts the old value among equal extremes without include_self",
}


def deviation(case, text):
    """Why this difference is meant, or ""."""
    found = refusal(text)
    if not found and case.form == "out" and case.out in EVERY and OUT[1].search(text):
        found = OUT[0]
    for (name, pattern), why in SINGLE.items():
        if not found and re.search(name, case.name) and re.search(pattern, text):
            found = why
    return found
