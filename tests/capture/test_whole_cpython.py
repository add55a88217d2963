"""CPython's own tests pass captured, and with every frame rewritten by our assembler, where they pass plainly."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
MODULES = (
    "generators",
    "genexps",
    "contextlib",
    "dataclasses",
    "functools",
    "with",
    "listcomps",
    "dictcomps",
    "setcomps",
    "exceptions",
)
# CPYTHON_TESTS=all runs everything on each Python; else, for the time CI takes, the slowest only where they are cheap
EVERYTHING = os.environ.get("CPYTHON_TESTS") == "all"
BY_HAND = ("itertools",)  # 25 to 30 s

# How often a function is compiled again before it runs plain: on one Python as often as for users, on the others less, for the time
RECOMPILE_LIMIT = "8" if sys.version_info < (3, 12) else "3"


def captured_here():
    """The modules that this Python's CI captures, or all."""
    return (*MODULES, *BY_HAND) if EVERYTHING else MODULES


def outcomes(program, *arguments, limit=RECOMPILE_LIMIT):
    """Name of a test -> outcome, of a run in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.capture.{program}", *arguments],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "FLAMBEAU_RECOMPILE_LIMIT": limit},
    )
    assert done.returncode == 0 and done.stdout, done.stderr[-3000:]
    return json.loads(done.stdout)


def failures(plain, other):
    """Tests that pass plainly and not otherwise, with what they tell."""
    return {
        name: other.get(name, "it did not run")
        for name, outcome in plain.items()
        if outcome in ("ok", "passed") and other.get(name) != outcome
    }


@pytest.mark.parametrize("module", captured_here())
def test_captured(module):
    plain = outcomes("cpython_tests", f"test.test_{module}", "plain")
    captured = outcomes("cpython_tests", f"test.test_{module}", "captured", limit="3" if module in BY_HAND else RECOMPILE_LIMIT)
    seen = captured.pop("counters")
    bad = failures(plain, captured)
    assert not bad, "\n\n".join(f"{name}\n{told}" for name, told in list(bad.items())[:5]) + f"\n{len(bad)} tests"
    assert len(plain) > 0 and seen["frames"] >= min(len(plain), 8)


REWRITTEN = (
    ("unittest", "test.test_generators"),
    ("unittest", "test.test_contextlib"),
    ("unittest", "test.test_functools"),
    ("unittest", "test.test_dataclasses"),
    ("unittest", "test.test_exceptions"),
    ("unittest", "test.test_coroutines"),
    ("unittest", "test.test_with"),
    ("unittest", "test.test_dictcomps"),
    ("unittest", "test.test_itertools"),
    ("pytest", "eager/test_autograd.py"),
    ("pytest", "capture/test_expr.py"),
    ("pytest", "capture/test_bytecode.py"),
)
REWRITTEN_BY_HAND = (
    "test.test_dataclasses",
    "test.test_exceptions",
    "test.test_itertools",
    "eager/test_autograd.py",
    "capture/test_expr.py",
    "capture/test_bytecode.py",
)  # 6 to 16 s
if sys.version_info >= (3, 12) and not EVERYTHING:
    REWRITTEN = tuple((kind, name) for kind, name in REWRITTEN if name not in REWRITTEN_BY_HAND)


@pytest.mark.parametrize("kind, name", REWRITTEN, ids=[name for _, name in REWRITTEN])
def test_with_nops_in_every_frame(kind, name):
    name = str(HERE.parent / name) if kind == "pytest" else name
    plain = outcomes("nops", "plain", kind, name)
    rewritten = outcomes("nops", "nops", kind, name)
    assert rewritten.pop("rewritten") > 50
    bad = failures(plain, rewritten)
    assert not bad, "\n\n".join(f"{name}\n{told}" for name, told in list(bad.items())[:5]) + f"\n{len(bad)} tests"
    assert sum(outcome in ("ok", "passed") for outcome in plain.values()) > 5
