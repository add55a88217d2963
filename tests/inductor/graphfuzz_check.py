"""One batch of drawn programs as a test, and what the two test files share."""

import os

import pytest

from .graphfuzz_batch import run
from .graphfuzz_draw import draw
from .graphfuzz_small import minimized

COUNT = int(os.environ.get("FLAMBEAU_GRAPHS", 5000))
SEED = int(os.environ.get("FLAMBEAU_GRAPHS_SEED", 0)) * 10**6
SIZE = 100                              # programs in one unit
BATCHES = range(COUNT // SIZE)
NATIVE = BATCHES[::3]                   # those through C++, which take most of the time


def check(first, native, plain=False):
    """Programs `first` to `first + SIZE` show what eager shows; the first that does not is made small and printed."""
    trials, unit = run([draw(first + k) for k in range(SIZE)], native, plain)
    failed = [t for t in trials if t.problem]
    if failed:
        program = failed[0].program
        pytest.fail(f"program {program.label}: {failed[0].problem}\n\n{program.text()}\n{len(failed)} of {SIZE} programs "
                    f"fail; the first, made small:\n\n{smallest(program, native, plain).printed()}", pytrace=False)
    assert len(unit.twins) >= SIZE and not unit.refused, f"{len(unit.twins)} graphs, {unit.refused}"


def smallest(program, native=True, plain=False):
    return minimized(program, lambda p: run([p], native, plain)[0][0].problem)
