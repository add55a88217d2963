"""Drawn custom functions and drawn callers of results show with eager what they show with PyTorch (see tests/inductor/callers.py).

CALLERS: how many programs of each kind (default 60); CALLERS_SEED: where they start.
"""

import os

import pytest

torch = pytest.importorskip("torch")

import flambeau
from tests.inductor import functionfuzz, resultfuzz
from tests.inductor.callers import TOLERANCE, difference, observe

COUNT = int(os.environ.get("CALLERS", 60))
SEED = int(os.environ.get("CALLERS_SEED", 0)) * 10**6
DRAWN = ("uniform_", "normal_", "bernoulli_")            # other numbers than PyTorch's are meant
# changes of a tensor's own geometry or history: what its base and its views tell afterwards differs in known corners
GEOMETRY = (".t_()", ".unsqueeze_(", ".resize_(", ".set_(", ".requires_grad_()", ".detach_()")


def acts(program):
    """A caller's lines, without those that make arguments."""
    return [line for line in program.caller if "numbers(" not in line]


@pytest.mark.parametrize("kind", [functionfuzz, resultfuzz], ids=["functions", "results"])
def test_eager_shows_what_pytorch_shows(kind):
    for k in range(SEED, SEED + COUNT):
        program = kind.draw(k)
        if any(name in program.source for name in DRAWN) or any(name in line for name in GEOMETRY for line in acts(program)):
            continue
        found = difference(observe(torch, program), observe(flambeau, program), TOLERANCE[program.dtype])
        assert found is None, f"{found}\n{program}"
