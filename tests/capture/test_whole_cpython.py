"""CPython's own tests pass captured, and with every frame rewritten by our assembler, where they pass plainly."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
MODULES = ("generators", "genexps", "contextlib", "dataclasses", "functools", "with", "listcomps", "dictcomps", "setcomps",
           "exceptions")
# FLAMBEAU_CPYTHON_TESTS=all runs everything on each Python; else, for the time CI takes, the slowest only where they are cheap
EVERYTHING = os.environ.get("FLAMBEAU_CPYTHON_TESTS") == "all"
BY_HAND = ("itertools",)           # 25 to 30 s

LIFETIME = "values that crossed a graph break live until the resumed frame ends: a weak reference to one lives as long"
DEAD_LOCALS = "a local that is not read again ends at a graph break, not with its frame"
LINES = "a frame that a graph break ended keeps the line of the break in f_lineno; the traceback has the right lines"
REUSED = "C code fills a tuple again that nobody else holds; captured, every tuple is a new one, which the id of a dead one tells"
DEPTH = "from 3.13 on every frame that passes a frame hook counts against the depth of C calls"
# test -> why it may fail captured
MEANT = {
    "TestPartialC.test_weakref": LIFETIME,
    "TestPartialCSubclass.test_weakref": LIFETIME,
    "TestPartialPy.test_weakref": LIFETIME,
    "TestPartialPySubclass.test_weakref": LIFETIME,
    "TestLRUC.test_lru_cache_weakrefable": LIFETIME,
    "TestLRUPy.test_lru_cache_weakrefable": LIFETIME,
    "FinalizationTest.test_refcycle": LIFETIME,
    "ExceptionTests.testExceptionCleanupState": LIFETIME,
    "ExceptionTests.test_3114": LIFETIME,
    "ExceptionTests.test_unraisable": LIFETIME,
    "TestBasicOps.test_combinations_tuple_reuse": REUSED,
    "TestBasicOps.test_combinations_with_replacement_tuple_reuse": REUSED,
    "TestBasicOps.test_permutations_tuple_reuse": REUSED,
    "TestBasicOps.test_product_tuple_reuse": REUSED,
    "TestBasicOps.test_zip_longest_tuple_reuse": REUSED,
    "TestBasicOps.test_zip_tuple_reuse": REUSED,
    "ExceptionTests.test_memory_error_cleanup": DEAD_LOCALS,
    "ExceptionTests.test_recursion_error_cleanup": DEAD_LOCALS,
    "PEP626Tests.test_lineno_after_other_except": LINES,
    "PEP626Tests.test_lineno_in_try": LINES,
}
if sys.version_info >= (3, 13):
    MEANT["TestLRUPy.test_lru_recursion"] = DEPTH
# test -> why it may fail on rewritten code
MEANT_WITH_NOPS = {
    "PEP626Tests.test_missing_lineno_shows_as_none": "a line table that is cut short by hand is written out in full",
    "TestLRUPy.test_lru_recursion": DEPTH,
}


# How often a function is compiled again before it runs plain: on one Python as often as for users, on the others less, for the time
RECOMPILE_LIMIT = "8" if sys.version_info < (3, 12) else "3"


def captured_here():
    """The modules that this Python's CI captures, or all."""
    return (*MODULES, *BY_HAND) if EVERYTHING else MODULES


def outcomes(script, *arguments, limit=RECOMPILE_LIMIT):
    """Name of a test -> outcome, of a run in its own process."""
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "FLAMBEAU_RECOMPILE_LIMIT": limit})
    assert done.returncode == 0 and done.stdout, done.stderr[-3000:]
    return json.loads(done.stdout)


def failures(plain, other, meant):
    """Tests that pass plainly and not otherwise, with what they tell."""
    bad = {name: other.get(name, "it did not run") for name, outcome in plain.items()
           if outcome in ("ok", "passed") and other.get(name) != outcome}
    return {name: told for name, told in bad.items() if not name.endswith(tuple(meant))}


@pytest.mark.parametrize("module", captured_here())
def test_captured(module):
    plain = outcomes("cpython_tests.py", f"test.test_{module}", "plain")
    captured = outcomes("cpython_tests.py", f"test.test_{module}", "captured", limit="3" if module in BY_HAND else RECOMPILE_LIMIT)
    seen = captured.pop("counters")
    bad = failures(plain, captured, MEANT)
    assert not bad, "\n\n".join(f"{name}\n{told}" for name, told in list(bad.items())[:5]) + f"\n{len(bad)} tests"
    assert len(plain) > 0 and seen["frames"] >= min(len(plain), 8)


REWRITTEN = (("unittest", "test.test_generators"), ("unittest", "test.test_contextlib"), ("unittest", "test.test_functools"),
             ("unittest", "test.test_dataclasses"), ("unittest", "test.test_exceptions"), ("unittest", "test.test_coroutines"),
             ("unittest", "test.test_with"), ("unittest", "test.test_dictcomps"),
             ("unittest", "test.test_itertools"), ("pytest", "eager/test_autograd.py"),
             ("pytest", "capture/test_expr.py"), ("pytest", "capture/test_bytecode.py"))
REWRITTEN_BY_HAND = ("test.test_dataclasses", "test.test_exceptions", "test.test_itertools", "eager/test_autograd.py")    # 6 to 16 s
if sys.version_info >= (3, 12) and not EVERYTHING:
    REWRITTEN = tuple((kind, name) for kind, name in REWRITTEN if name not in REWRITTEN_BY_HAND)


@pytest.mark.parametrize("kind, name", REWRITTEN, ids=[name for _, name in REWRITTEN])
def test_with_nops_in_every_frame(kind, name):
    name = str(HERE.parent / name) if kind == "pytest" else name
    plain = outcomes("nops.py", "plain", kind, name)
    rewritten = outcomes("nops.py", "nops", kind, name)
    assert rewritten.pop("rewritten") > 50
    bad = failures(plain, rewritten, MEANT_WITH_NOPS)
    assert not bad, "\n\n".join(f"{name}\n{told}" for name, told in list(bad.items())[:5]) + f"\n{len(bad)} tests"
    assert sum(outcome in ("ok", "passed") for outcome in plain.values()) > 5
