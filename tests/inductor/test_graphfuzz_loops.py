"""Drawn programs in the loop interpreter equal eager, and their graphs in C++ the loop interpreter: the other programs of
test_graphfuzz.py."""

import pytest

from .graphfuzz_check import BATCHES, WHOLE, check


@pytest.mark.parametrize("number", [k for k in BATCHES if k not in WHOLE])
def test_drawn_programs_in_the_loop_interpreter(number):
    check(number)
