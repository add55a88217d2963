"""Every record's samples as Triton kernels, in triton's interpreter: values, types, strides, written arguments and gradients are eager's,
for known and for symbolic sizes. What has no kernel is listed; eager runs it between launches, which is counted with the reason."""

import flambeau
import pytest
from flambeau import compiler
from flambeau.eager.op.op import OPS
from flambeau.inductor.triton import fallbacks, target
from flambeau.runtime.config import config

from ..test_ops_compiled import EVERY, NO_LOWERING, UNDEFINED, Program, flat, near, run

SAMPLE = 9  # (ndtr and log_ndtr are formulas with erfcx)
SCANS = {"cumsum", "cummax", "cummin", "cumprod", "logcumsumexp", "linear_scan"}  # have kernels, for C++ have none
NO_TRITON = (
    NO_LOWERING.keys() - SCANS - {"sort", "topk"}
    | {"gru_sequence", "lstm_sequence", "rnn_sequence", "randperm"}
    | {"ndtr", "log_ndtr"}
    | {"pair_distances", "pair_distances_backward"}  # (searchsorted finds the rows of each pair)
    | {"adjugate_backward", "pseudo_inverse"}  # (made of factorisations)
)
THROUGH = {"gru_sequence_backward", "lstm_sequence_backward", "ctc_loss_backward"}  # have no samples of their own
SORTED = {"sort", "topk", "multinomial"}  # where the length of rows is not known
RECORDS = [name for name in EVERY if OPS[name].sample_rule is not None]


def by_eager(seen):
    """The ops that eager ran."""
    return {reason.removeprefix("triton: ").partition("(")[0] for reason in seen["fallbacks"]}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_interpreted_equals_eager(record, dynamic, make):
    program = Program([record], make)
    gradients = not OPS[record].mutates
    wanted_inputs, inputs = program.inputs(gradients), program.inputs(gradients)
    wanted, wanted_grads = run(program.call, wanted_inputs, gradients)
    compiler.reset()
    compiled = flambeau.compile(program.call, dynamic=dynamic, backend=target.TRITON)
    with config.patch(strict=True):
        actual, grads = run(compiled, inputs, gradients)
    seen = compiler.counters()
    assert (seen["graphs"], seen["breaks"]) == (1, {})
    assert bool(by_eager(seen)) == (record in NO_TRITON or dynamic and record in SORTED), by_eager(seen)
    for (name, args), a, b in zip(program.labels, actual, wanted, strict=True):
        for k, (x, y) in enumerate(zip(flat(a), flat(b), strict=True)):
            if name not in UNDEFINED:
                near(x, y, f"{name}{args} output {k}")
    for k, (a, b) in enumerate(zip(inputs, wanted_inputs)):
        near(a.detach(), b.detach(), f"argument {k} after the call")
    for k, (a, b) in enumerate(zip(grads, wanted_grads)):
        near(a, b, f"gradient of argument {k}")


def test_what_eager_runs_is_told():
    """In the counters, in the record, and in the file, where the call stands."""
    compiler.reset()
    compiled = flambeau.compile(lambda x: flambeau.linalg.inv(x * 2) + 1, backend="triton")
    x = flambeau.eye(4)
    near(compiled(x), flambeau.linalg.inv(x * 2) + 1, "result")
    reason = "factorisations are the vendor's library's"
    assert compiler.counters()["fallbacks"] == {f"triton: inv(float32[4, 4]): {reason}": 1}
    (graph,) = compiler.report(compiled).graphs
    lines = [line.strip() for line in graph.texts["kernels.py"].splitlines()]
    told = next(k for k, line in enumerate(lines) if line.startswith("# inv(float32[4, 4]) at ") and line.endswith(reason))
    assert "test_records.py:" in lines[told] and lines[told + 1].startswith("t.eager(")


def test_reasons_are_of_ops_that_there_are():
    assert fallbacks.REASONS.keys() <= OPS.keys()
