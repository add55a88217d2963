"""Random programs of control flow and data structures around tensors: plain and captured runs show the same.

The seeds are fixed. Two processes share them, because making a program, running it plainly and capturing it takes 40 ms.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from . import fuzzing

from flambeau.runtime import counters

PROGRAMS, PARTS = (5000, 20) if sys.version_info < (3, 12) else (500, 4)  # every program on one Python, a tenth on the others
THROUGH_CPP = 12
CHANGES = 120


def part(first, last, **settings):
    """What is found among these seeds, and how much of it was captured."""
    counters.reset()
    frames, found = 0, []
    for seed in range(first, last):
        told = fuzzing.differing(seed, **settings)
        found += [told] if told else []
        frames += counters.snapshot()["frames"]
    return found, frames


@pytest.fixture(scope="module")
def results():
    """All parts, computed by two processes."""
    size = PROGRAMS // PARTS
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield [pool.submit(part, k * size, (k + 1) * size, calls=3 if k % 5 == 0 else 2) for k in range(PARTS)]


@pytest.mark.parametrize("k", range(PARTS))
def test_captured_programs_do_what_plain_ones_do(results, k):
    found, frames = results[k].result(timeout=600)
    assert not found, "\n\n".join(found[:3])
    assert frames > PROGRAMS // PARTS


def test_through_the_whole_compiler():
    found, frames = part(100000, 100000 + THROUGH_CPP, backend="inductor", close=True)
    assert not found, "\n\n".join(found[:3])
    assert frames > THROUGH_CPP


def test_symbolic_sizes_from_the_first_call():
    found, frames = part(200000, 200100, dynamic=True)
    assert not found, "\n\n".join(found[:3])
    assert frames > 100


def test_cached_entries_agree_with_fresh_compilations():
    """Whatever the arguments, an entry that accepts them gives what a compilation for them alone would give."""
    found = [told for seed in range(300000, 300000 + CHANGES) if (told := fuzzing.unsound(seed))]
    assert not found, "\n\n".join(found[:3])


def test_the_fuzzer_sees_a_wrong_result():
    """A backend that changes one number is found, and the program is made small."""

    def wrong(graph, example_inputs):
        run = fuzzing.interpreted(graph, example_inputs)
        return lambda *args: tuple(
            out + 1 if hasattr(out, "dtype") and out.dtype.is_floating_point else out for out in run(*args)
        )

    found = [told for seed in range(6) if (told := fuzzing.differing(seed, backend=wrong))]
    assert len(found) >= 3 and min(len(told.split("plain:")[0].splitlines()) for told in found) < 30
