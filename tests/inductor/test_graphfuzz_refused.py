"""Drawn programs that eager refuses are refused alike when compiled: in the loop interpreter and in C++.

GRAPHS and GRAPHS_SEED as in test_graphfuzz.py; a tenth as many programs are drawn.
"""

import pytest

from .graphfuzz_check import COMPILER, COUNT, SEED
from .graphfuzz_refused import problems, refused

SIZE = 50
BATCHES = range(max(COUNT // 10 // SIZE, 1))


def told(found):
    program, words = found[0]
    return f"{len(found)} of {SIZE} programs: {words}\n\n{program.printed() if program else ''}"


@pytest.mark.parametrize("number", BATCHES)
def test_drawn_refusals(number):
    """Every third batch in C++ as well."""
    found = problems(refused(SEED + number * 1000, SIZE), COMPILER and number % 3 == 0)
    assert not found, told(found)


def test_refusals_are_of_all_kinds():
    """Half of the results are not read; indices and values, known and unknown sizes, computed indices."""
    drawn = refused(SEED, 300)
    share = lambda holds: sum(map(holds, drawn)) / len(drawn)
    texts = [str(next(line for line in p.lines if line.name == "v99")) for p in drawn]
    assert 0.3 < share(lambda p: "v98" in p.outputs) < 0.7
    assert share(lambda p: p.dynamic) > 0.15
    for kind in (
        "gather",
        "index_select",
        "index_add",
        "scatter",
        "embedding_lookup",
        "index_put",
        "arange",
        "full",
        "expand",
        "bernoulli",
        "binary_cross_entropy",
        "normal",
        "one_hot",
        "//",
    ):
        assert any(kind in text for text in texts), kind
