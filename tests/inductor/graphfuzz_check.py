"""One batch of drawn programs as a test, and what the two test files share."""

import os

from .graphfuzz_batch import run
from .graphfuzz_draw import draw
from .graphfuzz_small import minimized

COUNT = int(os.environ.get("FLAMBEAU_GRAPHS", 5000))
SEED = int(os.environ.get("FLAMBEAU_GRAPHS_SEED", 0)) * 10**6
SIZE = 100                              # programs in one unit
BATCHES = range(COUNT // SIZE)
NATIVE = [k for k in BATCHES if k % 12 in (0, 3, 6)]     # those through C++ as well: a quarter, half of the time


def check(first, native, plain=False):
    """Programs `first` to `first + SIZE` show what eager shows; the first that does not is made small and printed."""
    trials, unit = run([draw(first + k) for k in range(SIZE)], native, plain)
    failed = [t for t in trials if t.problem]
    assert not failed, told(failed, native, plain)
    assert len(unit.twins) >= SIZE and not unit.refused, f"{len(unit.twins)} graphs, {unit.refused}"


def told(failed, native, plain):
    """The first failure, its program as it was drawn and as a small program that can be run."""
    program = failed[0].program
    return (f"program {program.label}: {failed[0].problem}\n\n{program.text()}\n{len(failed)} of {SIZE} programs fail; the "
            f"first, made small:\n\n{smallest(program, native, plain).printed()}")


def smallest(program, native=True, plain=False):
    return minimized(program, lambda p: run([p], native, plain)[0][0].problem)
