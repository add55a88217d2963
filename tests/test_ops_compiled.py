"""The universal op test, compiled: every sample of every record through capture and the C++ backend, static and dynamic.

Records are compiled in batches (one function calls all samples of some records, so one shared object serves them); a
difference is reported by record and sample. Values, types, sizes, strides, mutated arguments and gradients are compared.
"""

import numpy as np
import pytest

import flambeau
from flambeau import compiler
from flambeau.eager.op import OPS, Kind
from flambeau.eager.tensor import Tensor
from flambeau.runtime.config import config
from .test_ops import NAMES, described, flat, samples

BATCH = 25
BATCHES = [NAMES[k: k + BATCH] for k in range(0, len(NAMES), BATCH)]
NO_LOWERING = {                             # record -> why eager runs it between the kernels
    "acos": "no scalar primitive", "asin": "no scalar primitive", "atan": "no scalar primitive", "erfinv": "no scalar primitive",
    "convolution": "windows are gathered by native kernels", "convolution_weight": "windows are gathered by native kernels",
    "cumsum": "the loop IR has no scans", "searchsorted": "the loop IR has no search",
    "ctc_loss": "steps that depend on each other", "ctc_loss_backward": "steps that depend on each other",
    "lstm_sequence": "steps that depend on each other", "lstm_sequence_backward": "steps that depend on each other",
    "gru_sequence": "steps that depend on each other", "gru_sequence_backward": "steps that depend on each other",
    "rnn_sequence": "steps that depend on each other", "rnn_sequence_backward": "steps that depend on each other",
    "atan2": "no scalar primitive", "cummax": "the loop IR has no scans", "cummin": "the loop IR has no scans",
    "cumprod": "the loop IR has no scans", "logcumsumexp": "the loop IR has no scans",
    "linear_scan": "steps that depend on each other", "lgamma": "no scalar primitive",
    "digamma": "no scalar primitive", "polygamma": "no scalar primitive", "zeta": "no scalar primitive",
    "i0": "no scalar primitive", "i0e": "no scalar primitive", "i1": "no scalar primitive",
    "i1e": "no scalar primitive", "erfcx": "no scalar primitive", "igamma": "no scalar primitive",
    "igammac": "no scalar primitive", "complex": "no complex loops", "conj": "no complex loops",
    "angle": "no complex loops", "sgn": "no complex loops",
    "inv": "a factorisation",
    "det": "a factorisation",
    "adjugate": "a factorisation",
    "slogdet": "a factorisation",
    "solve": "a factorisation",
    "solve_triangular": "a factorisation",
    "cholesky": "a factorisation",
    "qr": "a factorisation",
    "lu_factor": "a factorisation",
    "eigh": "a factorisation",
    "svd": "a factorisation",
    "eig": "a factorisation",
    "matrix_exp": "a factorisation",
    "fft_c2c": "a Fourier transform",
    "fft_r2c": "a Fourier transform",
    "fft_c2r": "a Fourier transform",
    "gamma_draw": "draws by rejection",
    "gamma_slope": "draws by rejection",
    "real": "no complex loops", "imag": "no complex loops", "view_as_real": "no complex loops",
    "view_as_complex": "no complex loops",
    "sort": "the loop IR has no sorting", "topk": "the loop IR has no sorting",
}
ON_COMPLEX = {"pad"}                        # lowered, but not for complex tensors, which gradients of transforms are
UNDEFINED = {"empty"}                       # values of uninitialised memory


class Program:
    """One function over a flat list of tensors that calls every sample of some records, written as source text."""

    def __init__(self, names, make):
        self.tensors, self.scope, self.labels, lines = [], {}, [], []
        for name in names:
            for args in samples(name, make):
                k = len(self.labels)
                self.scope[f"op{k}"] = OPS[name]
                self.labels.append((name, described(args)))
                spelled = ", ".join(self.spell(a, f"c{k}_{n}") for n, a in enumerate(args))
                lines.append(f"    out{k} = op{k}({spelled})\n")
        text = "def call(*t):\n" + "".join(lines) + "    return (" + "".join(f"out{k}, " for k in range(len(self.labels))) + ")\n"
        exec(compile(text, f"<samples of {names[0]} to {names[-1]}>", "exec"), self.scope)
        self.call = self.scope["call"]

    def spell(self, value, name):
        """An argument as source text; its tensors become parameters."""
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return f"t[{len(self.tensors) - 1}]"
        if type(value) in (tuple, list) and any(isinstance(v, Tensor) for v in value):
            return "(" + "".join(self.spell(v, f"{name}_{k}") + ", " for k, v in enumerate(value)) + ")"
        self.scope[name] = value
        return name

    def inputs(self, gradients):
        """Fresh copies with the same strides, requiring gradients where they can."""
        return [copy_of(t).requires_grad_(gradients and t.dtype.is_floating_point) for t in self.tensors]


def copy_of(t):
    array = t._array
    order = np.argsort([-s for s in array.strides], kind="stable")
    dense = array.size and all(s > 0 for s, n in zip(array.strides, array.shape) if n > 1)
    made = array.transpose(order).copy().transpose(np.argsort(order)) if dense else array.copy()
    return Tensor._from_array(made, t.dtype)


def run(call, tensors, gradients):
    flambeau.manual_seed(11)
    outs = call(*tensors)
    grads = [None] * len(tensors)
    if gradients:
        loss = 0.0
        for out in outs:
            for k, o in enumerate(flat(out)):
                if isinstance(o, Tensor) and o.requires_grad:
                    o = flambeau.view_as_real(o) if o.dtype.is_complex else o
                    weights = np.cos(np.arange(o.numel()) + k).reshape(tuple(o.shape))
                    loss = loss + (o.double() * flambeau.tensor(weights, dtype=flambeau.float64)).sum()
        if isinstance(loss, Tensor):
            loss.backward()
            grads = [t.grad for t in tensors]
    return outs, grads


def near(a, b, what):
    if a is None or b is None or not isinstance(a, Tensor):
        assert (a is None) == (b is None), what
        return None if isinstance(a, (Tensor, type(None))) else np.testing.assert_allclose(a, b, err_msg=what)
    assert a.dtype is b.dtype, f"{what}: {a.dtype} and {b.dtype}"
    assert tuple(a.shape) == tuple(b.shape), f"{what}: {list(a.shape)} and {list(b.shape)}"
    strides = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (a, b)]
    assert strides[0] == strides[1], f"{what}: strides"
    x, y = (t.detach()._array.astype(np.complex128 if t.dtype.is_complex else np.float64) for t in (a, b))
    tolerance = 2e-2 if a.dtype.is_floating_point and a.dtype.itemsize < 4 else 1e-9 if a.dtype is flambeau.float64 else 3e-5
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=what)


def check_counters(counters, names):
    """One graph, and eager calls inside of it for what is known to have no lowering, no more and no less."""
    assert counters["graphs"] == 1 and not counters["breaks"], counters
    fallen = set(counters["fallbacks"])
    assert fallen <= NO_LOWERING.keys() | ON_COMPLEX, f"run by eager: {sorted(fallen - NO_LOWERING.keys())}"
    assert fallen >= NO_LOWERING.keys() & set(names), f"lowered by now: {sorted(NO_LOWERING.keys() & set(names) - fallen)}"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("names", BATCHES, ids=lambda names: f"{names[0]}-{names[-1]}")
def test_compiled_equals_eager(names, dynamic, make):
    program = Program(names, make)
    gradients = not any(OPS[n].mutates for n in names)
    wanted_inputs, inputs = program.inputs(gradients), program.inputs(gradients)
    wanted, wanted_grads = run(program.call, wanted_inputs, gradients)
    compiler.reset()
    compiled = flambeau.compile(program.call, dynamic=dynamic)
    with config.patch(strict=True):
        actual, grads = run(compiled, inputs, gradients)
    check_counters(compiler.counters(), names)
    for (name, args), a, b in zip(program.labels, actual, wanted, strict=True):
        for k, (x, y) in enumerate(zip(flat(a), flat(b), strict=True)):
            if name not in UNDEFINED:
                near(x, y, f"{name}{args} output {k}")
    for k, (a, b) in enumerate(zip(inputs, wanted_inputs)):
        near(a.detach(), b.detach(), f"argument {k} {list(b.shape)} after the call")
    for k, (a, b) in enumerate(zip(grads, wanted_grads)):
        near(a, b, f"gradient of argument {k} {list(wanted_inputs[k].shape)}")


def test_draws_of_compiled_code_are_those_of_eager():
    """Several draws a call, several calls: values, and where the generator is left."""
    def noisy(x):
        y = flambeau.nn.functional.dropout(x, 0.5)
        return y + flambeau.rand(5) * flambeau.randn(4, 5)
    x, compiled = flambeau.ones(4, 5), flambeau.compile(noisy)
    flambeau.manual_seed(3)
    wanted = [noisy(x) for _ in range(3)] + [flambeau.rand(2)]
    compiler.reset()
    flambeau.manual_seed(3)
    for a, b in zip([compiled(x) for _ in range(3)] + [flambeau.rand(2)], wanted):
        near(a, b, "draws")
    seen = compiler.counters()
    assert (seen["graphs"], seen["breaks"], seen["fallbacks"]) == (1, {}, {})


def test_every_kind_is_covered():
    assert {OPS[n].kind for n in NAMES} == set(Kind)
