"""Drawn programs in the loop interpreter equal eager: the other programs of test_graphfuzz.py."""

import pytest

from .graphfuzz_check import BATCHES, NATIVE, SEED, SIZE, check


@pytest.mark.parametrize("number", [k for k in BATCHES if k not in NATIVE])
def test_drawn_programs_in_the_loop_interpreter(number):
    check(SEED + number * SIZE, native=False)
