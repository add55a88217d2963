"""The matrix of matrix*.py: every construct with every kind of variable it takes, in every position, static and dynamic."""

import pytest

import flambeau as torch
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime.config import config

from .matrix import CONSTRUCTS, KINDS, POSITIONS, SOURCES, cells, check_case
from . import matrix_data  # noqa: F401
from . import matrix_exceptions  # noqa: F401
from . import matrix_language  # noqa: F401
from . import matrix_objects  # noqa: F401
from . import matrix_torch  # noqa: F401

ROWS = [(construct, kind) for construct in CONSTRUCTS for kind in construct.kinds]


@pytest.mark.parametrize(
    "construct, kind, shift",
    [(*row, n) for n, row in enumerate(ROWS)],
    ids=[f"{construct.name}-{kind}" for construct, kind in ROWS],
)
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
    assert len(used) > 7_500


def test_a_number_that_changes_every_step_costs_two_graphs():
    """A branch on it: 500 steps of a training loop, two ways through."""
    graphs = []

    def step(x, before, a, b):
        weight = a if before < 5.0 else b
        return (x * weight).sum()

    def backend(graph, example_inputs):
        graphs.append(graph)
        return Interpreter(graph).run

    compiled = torch.compile(step, backend=backend)
    x, a, b = torch.ones(3), torch.ones(3), torch.ones(3) * 2
    with config.patch(strict=True):
        for k in range(500):
            before = 10.0 - k * 0.017 if k % 3 else 5.5 + k * 0.001
            assert compiled(x, before, a, b).tolist() == step(x, before, a, b).tolist()
    assert len(graphs) == 2
