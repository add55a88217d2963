"""Keys in every spelling, read, written and differentiated, here and in PyTorch: values, sizes, view or copy, kinds of error.

INDEX_PROGRAMS: how many are drawn (default 1500); INDEX_SEED: where they start.
"""

import os
import re

import pytest

torch = pytest.importorskip("torch")

import flambeau

from ..index_programs import drawn, observed

COUNT = int(os.environ.get("INDEX_PROGRAMS", 1500))
ARRAY_MASK = re.compile(r"np\.array\(\[\[.*dtype=bool\)")
TWO_REST = re.compile(r"\.\.\., .*\.\.\., .*slice")
SEED = int(os.environ.get("INDEX_SEED", 0)) * 10**6


def difference(program):
    ours, theirs = observed(flambeau, program), observed(torch, program)
    if ours[:2] == theirs[:2] if ours[0] == theirs[0] == "error" else ours == theirs:
        return ""
    if ours[0] == "error" and "too many indices" in ours[2] and ARRAY_MASK.search(str(program)):
        return ""  # PyTorch counts an array of truth values as one index and drops one at the end
    if ours[0] == "error" and "too many indices" in ours[2] and TWO_REST.search(str(program)):
        return ""  # each `...` takes all that is left, past the last dim: PyTorch ignores slices there (of 4 dims it raises, too)
    return f"{program}\nhere:    {ours}\nPyTorch: {theirs}"


@pytest.mark.parametrize("part", range(5))
def test_keys(part):
    found = list(filter(None, (difference(drawn(SEED + k)) for k in range(part, COUNT, 5))))
    assert not found, f"{len(found)} of {COUNT // 5} programs differ; the first:\n{found[0]}"
