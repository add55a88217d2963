"""The universal op test, compiled: every sample of every record through capture, both backends, static and dynamic.

Records are compiled in batches (one function calls all samples of some records, so one shared object serves them); a
difference is reported by record and sample. Values, types, sizes, strides, mutated arguments and gradients are compared
with eager's; each final graph also runs as C++ and in the loop interpreter, whose results are compared with each other.
"""

from dataclasses import replace

import numpy as np
import pytest

import flambeau
from flambeau import compiler
from flambeau.eager import dtypes
from flambeau.eager.op.op import OPS, Kind
from flambeau.eager.tensor import Tensor
from flambeau.inductor import driver, targets
from flambeau.inductor.pass_manager import Target
from flambeau.inductor.runtime.runtime_wrapper import FunctionExecutable
from flambeau.inductor.runtime.compare_stages import own_copy
from flambeau.runtime.config import config
from .test_ops import NAMES, described, flat, samples


def _pairs(make, *shape):
    """Complex numbers."""
    return OPS["view_as_complex"](make(*shape, 2))


def _positive(make, n):
    x = make(n, n)
    return x @ x.t() + flambeau.eye(n)


# Arguments of records that the other op tests leave out: those need numbers that may be moved one by one, a gradient that
# differences show, or a loop that gives whole elements.
MORE = {
    "view_as_real": lambda make: [(_pairs(make, 3, 4),), (_pairs(make),)],
    "view_as_complex": lambda make: [(make(3, 2),)],
    "real": lambda make: [(_pairs(make, 3, 4),)],
    "imag": lambda make: [(_pairs(make, 3, 4),)],
    "as_strided": lambda make: [(make(4, 5), (2, 3), (5, 1), 1), (make(6), (3, 2), (1, 1), 0)],
    "detach": lambda make: [(make(3),)],
    "cholesky": lambda make: [(_positive(make, 3),)],
    "cholesky_ex": lambda make: [(_positive(make, 3),)],
    "cholesky_solve": lambda make: [(make(3, 2), _positive(make, 3))],
    "eigh": lambda make: [(_positive(make, 3),)],
    "svd": lambda make: [(make(3, 4), False), (make(4, 3), False)],
    "eig": lambda make: [(_positive(make, 3),)],
    "fft_c2c": lambda make: [(_pairs(make, 3, 4), (0, 1), True, 1.0), (_pairs(make, 5), (0,), False, 0.2)],
    "fft_c2r": lambda make: [(_pairs(make, 3, 4), (1,), False, 0.5, 6), (_pairs(make, 3), (0,), True, 1.0, 5)],
    "gamma_draw": lambda make: [(make.positive(4), 3, 1)],
    "gamma_slope": lambda make: [(make.positive(4), make.positive(4))],
    "zeta": lambda make: [(make.positive(4) + 1.0, make.positive(4))],
    "empty": lambda make: [((2, 3), dtypes.float32, None)],
    "randperm": lambda make: [(7, dtypes.int64, None, None)],
    "multinomial": lambda make: [(make.positive(2, 5), 3, False, None), (make.positive(5), 4, True, None)],
    "antialias_weights": lambda make: [(7, 3, "linear", None, False, dtypes.float32, None)],
    "antialias_window": lambda make: [(7, 3, "linear", None, False, dtypes.float32, None)],
    "sgd_step": lambda make: [(make(3), make(3), 0.1, 0.01, False)],
    "sgd_momentum_step": lambda make: [(make(3), make(3), make(3), 0.1, 0.9, 0.0, 0.01, True, False)],
    "adam_step": lambda make: [
        (make(3), make(3), make(3), make.positive(3), make.positive(), 0.1, 0.9, 0.99, 1e-8, 0.1, True, False)
    ],
    "amsgrad_step": lambda make: [
        (make(3), make(3), make(3), make.positive(3), make.positive(3), make.positive(), 0.1, 0.9, 0.99, 1e-8, 0.1, False, True)
    ],
    "update_running": lambda make: [(make(3), make.positive(3), make(3), make.positive(3), 0.1, 1.25)],
}
THROUGH = {  # derivatives that are called by their record's gradient alone
    "cross_entropy_backward",
    "layer_norm_backward",
    "rms_norm_backward",
    "avg_pool_backward",
    "lstm_sequence_backward",
    "gru_sequence_backward",
    "rnn_sequence_backward",
    "ctc_loss_backward",
    "nll_loss_backward",
    "multi_margin_loss_backward",
    "multilabel_margin_loss_backward",
    "bag_sum_backward",
    "bag_max_backward",
    "cosine_similarity_backward",
    "row_distance_backward",
}
EVERY = sorted({*NAMES, *MORE})
BATCH = 15
COMPLEX = [
    "angle",
    "complex",
    "conj",
    "eig",
    "fft_c2c",
    "fft_c2r",
    "fft_r2c",
    "imag",
    "real",
    "sgn",
    "view_as_complex",
    "view_as_real",
]
ALONE = ["update_running"]  # a fault of tests/faults.py names this batch: no other record moves it
REAL = [name for name in EVERY if name not in COMPLEX + ALONE]
BATCHES = [*(REAL[k : k + BATCH] for k in range(0, len(REAL), BATCH)), COMPLEX, ALONE]
NO_LOWERING = {  # record -> why eager runs it between the kernels
    "acos": "no scalar primitive",
    "asin": "no scalar primitive",
    "atan": "no scalar primitive",
    "erfinv": "of no elements",
    "cumsum": "of whole numbers",
    "searchsorted": "the loop IR has no search",
    "grouped_mm": "sizes of groups are data",
    **dict.fromkeys(
        "roi_align roi_align_backward roi_pool roi_pool_backward ps_roi_pool ps_roi_pool_backward".split(),
        "bins of boxes are data",
    ),
    "unsuppressed": "steps that depend on each other",
    "moved_columns": "the eager kernel's taps",
    "moved_columns_backward": "the eager kernel's taps",
    "ctc_loss": "steps that depend on each other",
    "ctc_loss_backward": "steps that depend on each other",
    "lstm_sequence": "with a projection",
    "lstm_sequence_backward": "with a projection",
    "gru_sequence_backward": "with a gradient of the gates",
    "atan2": "no scalar primitive",
    "cummax": "the loop IR has no scans",
    "cummin": "the loop IR has no scans",
    "cumprod": "the loop IR has no scans",
    "logcumsumexp": "the loop IR has no scans",
    "linear_scan": "steps that depend on each other",
    "lgamma": "of no elements",
    "ndtri": "of no elements",
    "digamma": "of no elements",
    "polygamma": "of no elements",
    "zeta": "no scalar primitive",
    "i0": "of no elements",
    "i0e": "of no elements",
    "i1": "of no elements",
    "i1e": "of no elements",
    "erfcx": "of no elements",
    "igamma": "no scalar primitive",
    "igammac": "no scalar primitive",
    "complex": "no complex loops",
    "conj": "no complex loops",
    "angle": "no complex loops",
    "sgn": "no complex loops",
    "inv": "a factorisation",
    "det": "a factorisation",
    "adjugate": "a factorisation",
    "slogdet": "a factorisation",
    "solve": "a factorisation",
    "solve_triangular": "a factorisation",
    "cholesky": "a factorisation",
    "cholesky_ex": "a factorisation",
    "inv_ex": "a factorisation",
    "solve_ex": "a factorisation",
    "qr": "a factorisation",
    "lu_factor": "a factorisation",
    "row_order": "a factorisation",
    "eigh": "a factorisation",
    "svd": "a factorisation",
    "eig": "a factorisation",
    "matrix_exp": "a factorisation",
    "fft_c2c": "a Fourier transform",
    "fft_r2c": "a Fourier transform",
    "fft_c2r": "a Fourier transform",
    "gamma_draw": "draws by rejection",
    "gamma_slope": "draws by rejection",
    "real": "no complex loops",
    "imag": "no complex loops",
    "view_as_real": "no complex loops",
    "view_as_complex": "no complex loops",
    "sort": "along other dims than the last, doubles and whole numbers",
    "topk": "along other dims than the last",
}
UNDEFINED = {"empty"}  # values of uninitialised memory


def arguments(name, make):
    """The samples of a record, with those of this file."""
    more = [OPS[name].bind(tuple(args), {}) for args in MORE.get(name, lambda make: [])(make)]
    return more + (samples(name, make) if OPS[name].sample_rule is not None else [])


class Program:
    """One function over a flat list of tensors that calls every sample of some records, written as source text."""

    def __init__(self, names, make):
        self.tensors, self.scope, self.labels, lines = [], {"twice": lambda x: OPS["add"](x, x)}, [], []
        for name in names:
            for args in arguments(name, make):
                k = len(self.labels)
                self.scope[f"op{k}"] = OPS[name]
                self.labels.append((name, described(args)))
                spelled = ", ".join(self.spell(a, f"c{k}_{n}") for n, a in enumerate(args))
                lines.append(f"    out{k} = op{k}({spelled})\n")
                if OPS[name].kind is Kind.VIEW:  # a view of an argument is made anew beside the kernels: this one is read
                    self.labels.append((name, [*described(args), "read"]))
                    lines.append(f"    out{k + 1} = twice(out{k})\n")
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
    array = t._fl_array
    order = np.argsort([-s for s in array.strides], kind="stable")
    dense = array.size and all(s > 0 for s, n in zip(array.strides, array.shape) if n > 1)
    made = array.transpose(order).copy().transpose(np.argsort(order)) if dense else array.copy()
    return Tensor._fl_from_array(made, t.dtype)


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


def near(a, b, what, strided=True):
    if a is None or b is None or not isinstance(a, Tensor):
        assert (a is None) == (b is None), what
        return None if isinstance(a, (Tensor, type(None))) else np.testing.assert_allclose(a, b, err_msg=what)
    assert a.dtype is b.dtype, f"{what}: {a.dtype} and {b.dtype}"
    assert tuple(a.shape) == tuple(b.shape), f"{what}: {list(a.shape)} and {list(b.shape)}"
    strides = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (a, b)]
    assert not strided or strides[0] == strides[1], f"{what}: strides"
    x, y = (t.detach()._fl_array.astype(np.complex128 if t.dtype.is_complex else np.float64) for t in (a, b))
    tolerance = 2e-2 if a.dtype.is_floating_point and a.dtype.itemsize < 4 else 1e-9 if a.dtype is flambeau.float64 else 3e-5
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=what)


def both(graph, facts):
    """The target of these tests: C++, and beside it the loop interpreter on copies of what each call is given."""
    run, slow = (
        targets.wait_for_compiler(driver.emit(graph, replace(facts, target=each))) for each in (targets.CPP, targets.LOOPS)
    )
    nodes = graph.output.args[0]

    def execute(inputs, seed, base):
        copies = [own_copy(x) if isinstance(x, Tensor) else x for x in inputs]
        values, wanted = run(inputs, seed, base), slow(copies, seed, base)
        for node, a, b in zip(nodes, values, wanted, strict=True):
            if getattr(getattr(node, "target", None), "name", None) not in UNDEFINED:
                near(a, b, f"{facts.name}: {node} by C++ and by the loop interpreter")
        return values

    return FunctionExecutable(execute, run.overwrites)


def backend(graph, inputs, options=None):
    with config.patch(optimize=1):
        return driver.compile_graph(graph, inputs, options, Target("both", both, phases=()))


def check_counters(counters, names):
    """One graph, and eager calls inside of it for what is known to have no lowering, no more and no less."""
    assert counters["graphs"] == 1 and not counters["breaks"], counters
    fallen = set(counters["fallbacks"])
    complex_too = names is COMPLEX  # whose gradients call any record on complex numbers
    assert complex_too or fallen <= NO_LOWERING.keys(), f"run by eager: {sorted(fallen - NO_LOWERING.keys())}"
    assert fallen >= NO_LOWERING.keys() & set(names), f"lowered by now: {sorted(NO_LOWERING.keys() & set(names) - fallen)}"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("names", BATCHES, ids=lambda names: f"{names[0]}-{names[-1]}")
def test_compiled_equals_eager(names, dynamic, make):
    program = Program(names, make)
    gradients = not any(OPS[n].mutates for n in names)
    wanted_inputs, inputs = program.inputs(gradients), program.inputs(gradients)
    wanted, wanted_grads = run(program.call, wanted_inputs, gradients)
    compiler.reset()
    compiled = flambeau.compile(program.call, dynamic=dynamic, backend=backend)
    with config.patch(strict=True, optimize=1):
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


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "reads, breaks",
    [
        (lambda x: x.as_strided((2, 3), (5, 1), 1), 0),
        (lambda x: (x + 1).as_strided((3, 2), (1, 1)), 0),
        (lambda x: x.t().as_strided((2, 3), (5, 1), 1), 1),
        (lambda x: x[:, ::2].as_strided((5,), (1,), 0), 1),
        (lambda x: x[1:].as_strided((5,), (1,), 0), 1),
        (lambda x: x[:2].as_strided((4, 5), (5, 1)), 1),
    ],
)
def test_memory_is_read_in_graphs_where_it_is_the_tensor_s(reads, breaks, dynamic, make):
    x = make(4, 5)
    compiler.reset()
    compiled = flambeau.compile(lambda x: reads(x) * 2, dynamic=dynamic)
    near(compiled(x), reads(x) * 2, "elements")
    assert len(compiler.counters()["breaks"]) == breaks


def test_every_kind_is_covered():
    assert {OPS[n].kind for n in EVERY} == set(Kind)


def test_every_record_is_run():
    """Derived records (in-place, pure, put) are written by the compiler itself."""
    own = {
        "with_value",
        "restride",  # tests/inductor/test_records.py
        "rounded",
        "kept",  # halves that decide: tests/inductor/test_callers.py
        "restrided",
    }  # below
    covered = {*EVERY, *THROUGH, *own}
    missing = {n for n in OPS.keys() - covered if not n.endswith(("_put", "_", "_pure"))}
    missing.discard("transfer")  # graphs are of one device: tests/cuda
    assert not missing and covered <= OPS.keys()


def test_records_without_lowering_are_those_known():
    """Exactly the records that have neither a loop, a decomposition, a template nor calls of the runtime, those over complex
    numbers, and cases that the runtime's kernels leave out. (Graphs are of one device.)"""
    without = {n for n, op in OPS.items() if op.kind in (Kind.EXTERN, Kind.SCAN) and not n.endswith("_")} - {"gemm", "transfer"}
    called = {n for n, op in OPS.items() if op.call_rule is not None}
    assert without - called == {n for n in NO_LOWERING if OPS[n].kind is not Kind.VIEW} - called
