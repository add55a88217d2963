"""Every record's samples as Triton kernels, in triton's interpreter: values, types, strides, written arguments and gradients are eager's,
for known and for symbolic sizes. What has no kernel is listed, and refused by an error that names it."""

import pytest
import flambeau
from flambeau import compiler
from flambeau.eager.op import OPS
from flambeau.inductor.triton import target
from flambeau.runtime.config import config
from flambeau.runtime.errors import BackendError

from ..test_ops_compiled import EVERY, NO_LOWERING, UNDEFINED, Program, flat, near, run

SAMPLE = 9
NO_TRITON = {name: why for name, why in NO_LOWERING.items() if name != "cumsum"} | {
    "sort": "the loop IR has no sort", "topk": "the loop IR has no sort", "multinomial": "its draw takes the largest keys",
    "randperm": "its draw sorts keys", "gru_sequence": "steps that depend on each other", "lstm_sequence": "steps that depend on "
    "each other", "rnn_sequence": "steps that depend on each other", "cumprod": "its gradient is a scan of two arrays"}
THROUGH = {"gru_sequence_backward", "lstm_sequence_backward", "ctc_loss_backward"}           # have no samples of their own
RECORDS = [name for name in EVERY if name not in NO_TRITON and OPS[name].sample_rule is not None]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_interpreted_equals_eager(record, dynamic, make):
    program = Program([record], make)
    gradients = not OPS[record].mutates
    wanted_inputs, inputs = program.inputs(gradients), program.inputs(gradients)
    wanted, wanted_grads = run(program.call, wanted_inputs, gradients)
    compiler.reset()
    compiled = flambeau.compile(program.call, dynamic=dynamic, backend=target.triton_backend)
    with config.patch(strict=True):
        actual, grads = run(compiled, inputs, gradients)
    seen = compiler.counters()
    assert (seen["graphs"], seen["breaks"], seen["fallbacks"]) == (1, {}, {})
    for (name, args), a, b in zip(program.labels, actual, wanted, strict=True):
        for k, (x, y) in enumerate(zip(flat(a), flat(b), strict=True)):
            if name not in UNDEFINED:
                near(x, y, f"{name}{args} output {k}")
    for k, (a, b) in enumerate(zip(inputs, wanted_inputs)):
        near(a.detach(), b.detach(), f"argument {k} after the call")
    for k, (a, b) in enumerate(zip(grads, wanted_grads)):
        near(a, b, f"gradient of argument {k}")


def refused(name, make):
    program = Program([name], make)
    compiler.reset()
    compiled = flambeau.compile(program.call, backend="triton")
    gradients = not OPS[name].mutates
    with pytest.raises(BackendError, match="Triton"):
        run(compiled, program.inputs(gradients), gradients)


def test_what_has_no_kernel_is_refused(everything, make):
    """Also without `strict`: eager never runs instead."""
    for name in sorted(NO_TRITON.keys() - THROUGH)[::1 if everything else 12]:
        refused(name, make)


def test_the_refusal_names_op_shapes_line_and_fix():
    compiled = flambeau.compile(lambda x: flambeau.linalg.inv(x) * 2, backend="triton")
    with pytest.raises(BackendError) as caught:
        compiled(flambeau.eye(4))
    text = str(caught.value)
    assert "inv(float32[4, 4])" in text and "test_records.py" in text and "what to do:" in text
