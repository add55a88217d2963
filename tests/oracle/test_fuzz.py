"""Random calls of every public function that a record stands behind, on flambeau and on PyTorch.

FLAMBEAU_FUZZ_CASES: how many cases (default 20000); FLAMBEAU_FUZZ_SEED: where they start (default 0; told in every
failure). A failure is made smaller and printed as a program of a few lines for both libraries.
"""

import os

import pytest

torch = pytest.importorskip("torch")

import flambeau

from . import fuzz, fuzz_elements, fuzz_layers, fuzz_numbers, fuzz_shapes  # noqa: F401 (the tables)
from .fuzz_deviations import deviation
from .fuzz_draw import TABLE

CASES = int(os.environ.get("FLAMBEAU_FUZZ_CASES", 20000))
SEED = int(os.environ.get("FLAMBEAU_FUZZ_SEED", 0))
TOTAL = sum(entry.weight for entry in TABLE.values())
check = fuzz.checked(flambeau, torch, deviation)


def forms(call):
    """The forms that torch has of a function."""
    if not isinstance(call, str):
        return ("function",)
    space, _, name = call.partition(".")
    found = ["function"]
    if space == "torch":
        found += ["method"] * hasattr(torch.Tensor, name) + ["inplace"] * hasattr(torch.Tensor, name + "_")
    if "out=" in (fuzz.place(torch, call).__doc__ or ""):
        found.append("out")
    return tuple(found)


@pytest.mark.parametrize("name", TABLE)
def test_calls(name):
    entry = TABLE[name]
    available = forms(entry.call)
    count = max(5, round(CASES * entry.weight / TOTAL))
    for k in range(count):
        case = entry.case(SEED * 10**6 + k, available)
        text = check(case)
        if text:
            small, text = fuzz.minimized(case, check)
            pytest.fail(f"{name}, seed {SEED}, case {k} of {count}: {text}\n\n{fuzz.program(small)}", pytrace=False)
