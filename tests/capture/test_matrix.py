"""The matrix of matrix*.py: every construct with every kind of variable it takes, in every position, static and dynamic."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import captured  # noqa: F401
from matrix import CONSTRUCTS, KINDS, POSITIONS, SOURCES, cells, check_case
import matrix_data  # noqa: F401
import matrix_exceptions  # noqa: F401
import matrix_language  # noqa: F401
import matrix_objects  # noqa: F401
import matrix_torch  # noqa: F401

ROWS = [(construct, kind) for construct in CONSTRUCTS for kind in construct.kinds]


@pytest.mark.parametrize("construct, kind, shift", [(*row, n) for n, row in enumerate(ROWS)],
                         ids=[f"{construct.name}-{kind}" for construct, kind in ROWS])
def test_construct(construct, kind, shift):
    for position, source, dynamic in cells(construct, kind, shift):
        check_case(construct, kind, position, source, dynamic)


def test_the_matrix_is_full():
    """Names are unique; every kind, position and source occurs."""
    names = [construct.name for construct in CONSTRUCTS]
    assert sorted(set(names)) == sorted(names)
    assert {kind for _, kind in ROWS} == set(KINDS)
    used = [cell for n, (construct, kind) in enumerate(ROWS) for cell in cells(construct, kind, n)]
    assert {p for p, _, _ in used} == set(POSITIONS) and {s for _, s, _ in used} == set(SOURCES)
    assert len(used) > 10_000
