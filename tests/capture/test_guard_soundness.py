"""An entry that accepts a call gives what a fresh compilation and plain Python give, whatever changed since it was made."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))   # pytest's importlib mode does not
import guard_programs

from flambeau.capture import install
from flambeau.runtime import counters

CASES = 1000 if sys.version_info < (3, 12) else 400            # all of them on one Python


def test_entries_agree_with_fresh_compilations_and_with_python():
    counters.reset()
    found, cases, seed = [], 0, 0
    while cases < CASES:
        told, calls = guard_programs.unsound(seed)
        found += [told] if told else []
        cases, seed = cases + calls, seed + 1
    assert not found, "\n\n".join(found[:3])
    seen = counters.snapshot()
    assert seen["graphs"] > CASES and seen["recompiles"] > CASES / 6


@pytest.mark.parametrize("kind", ["equals", "len", "type_is"])
def test_a_guard_that_is_left_out_is_found(kind, monkeypatch):
    add = install.add
    monkeypatch.setattr(install, "add", lambda tree, guard, known: None if guard.kind == kind else add(tree, guard, known))
    assert any(guard_programs.unsound(seed)[0] for seed in range(100))
