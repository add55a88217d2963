"""One batch of drawn programs as a test, and what the two test files share."""

import os
import tempfile

from flambeau.runtime import native, toolchain
from flambeau.runtime.config import config

from .graphfuzz_batch import run
from .graphfuzz_draw import draw
from .graphfuzz_small import minimized

COUNT = int(os.environ.get("GRAPHS", 5000))
SEED = int(os.environ.get("GRAPHS_SEED", 0)) * 10**6
COMPILER = toolchain.compiler() is not None
SIZE = 100  # programs in one unit
BATCHES = range(COUNT // SIZE)
WHOLE = [k for k in BATCHES if k % 12 in (0, 3, 6)]  # those whose calls run in C++; of the others the graphs alone do


def check(number, plain=False):
    """The programs of a batch show what eager shows; the first that does not is made small and printed. All instruction
    sets in turn."""
    isas, first, whole = native.isas(), SEED + number * SIZE, number in WHOLE
    with tempfile.TemporaryDirectory() as store, config.patch(cache_dir=store, isa=isas[number // 3 % len(isas)]):
        trials, unit = run([draw(first + k) for k in range(SIZE)], COMPILER, plain, whole)
        failed = [t for t in trials if t.problem]
        assert not failed, told(failed, COMPILER, plain)
    assert len(unit.twins) >= SIZE and not unit.refused, f"{len(unit.twins)} graphs, {unit.refused}"
    assert not COMPILER or all(t.native is not None for t in unit.twins)


def told(failed, native, plain):
    """The first failure, its program as it was drawn and as a small program that can be run."""
    program = failed[0].program
    return (
        f"program {program.label}: {failed[0].problem}\n\n{program.text()}\n{len(failed)} of {SIZE} programs fail; the "
        f"first, made small:\n\n{smallest(program, native, plain).printed()}"
    )


def smallest(program, native=True, plain=False):
    return minimized(program, lambda p: run([p], native, plain)[0][0].problem)
