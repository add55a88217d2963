"""Every record's samples, forward and backward, compile to cubins for both chips, for known and for symbolic sizes."""

import pytest
import flambeau
from flambeau import compiler
from flambeau.eager.op.op import OPS
from flambeau.inductor.triton import aot
from flambeau.runtime.config import config

from ..test_ops_compiled import Program, run
from .test_records import RECORDS as LOWERED

SAMPLE = 60
RECORDS = list(LOWERED)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_cubins(record, dynamic, make, programs):
    program = Program([record], make)
    gradients = not OPS[record].mutates
    compiler.reset()
    with config.patch(strict=True):
        run(flambeau.compile(program.call, dynamic=dynamic, backend="triton"), program.inputs(gradients), gradients)
    for loops in programs:
        for capability in aot.CAPABILITIES:
            assert all(binary.cubin[:4] == b"\x7fELF" for binary in aot.compile_program(loops, capability))
