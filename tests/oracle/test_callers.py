"""Drawn custom functions and drawn callers of results show with eager what they show with PyTorch (see tests/inductor/callers.py).

CALLERS: how many programs of each kind (default 60); CALLERS_SEED: where they start.
"""

import dataclasses
import os

import pytest

torch = pytest.importorskip("torch")

import flambeau
from tests.inductor import functionfuzz, resultfuzz
from tests.inductor.callers import SAVED_LESS, TOLERANCE, difference, observe

COUNT = int(os.environ.get("CALLERS", 60))
SEED = int(os.environ.get("CALLERS_SEED", 0)) * 10**6
DRAWN = ("uniform_", "normal_", "bernoulli_")  # other numbers than PyTorch's are meant
# changes of a tensor's own geometry or history: what its base and its views tell afterwards differs in known corners
GEOMETRY = (".t_()", ".unsqueeze_(", ".resize_(", ".set_(", ".requires_grad_()", ".detach_()")


def acts(program):
    """A caller's lines, without those that make arguments."""
    return [line for line in program.caller if "numbers(" not in line]


def recorded(program):
    """With gradients on throughout: a view that is made without them says False to `requires_grad` here, as PyTorch's page on
    no_grad has it, where PyTorch says True and gives it no `grad_fn`."""
    on = lambda text: text.replace("torch.no_grad()", "torch.enable_grad()")
    return dataclasses.replace(program, source=on(program.source), caller=tuple(map(on, program.caller)))


def differs(program):
    """What PyTorch shows otherwise, or nothing. Programs in float32 that agree in float64 have only lost digits."""
    if any(name in program.source for name in DRAWN) or any(name in line for name in GEOMETRY for line in acts(program)):
        return None
    program = recorded(program)
    found = difference(observe(torch, program), observe(flambeau, program), TOLERANCE[program.dtype], SAVED_LESS)
    if found and program.dtype == "float32":
        return found if differs(dataclasses.replace(program, dtype="float64")) else None
    return found and f"{found}\n{program}"


@pytest.mark.parametrize("kind", [functionfuzz, resultfuzz], ids=["functions", "results"])
def test_eager_shows_what_pytorch_shows(kind):
    for k in range(SEED, SEED + COUNT):
        found = differs(kind.draw(k))
        assert found is None, found
