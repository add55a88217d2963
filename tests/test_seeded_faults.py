"""The tests bite: with each fault of tests/faults.py switched on, its selection of tests fails by its own assertions.

Every run is a pytest process of its own (forked_pytest.py), two at a time. Without a fault the same tests must pass: those
that this session has itself tell that by themselves, the others in one run.
A fault that is only noticed because something crashes proves little, so a failed assertion must be among the failures.
"""

import concurrent.futures
import contextlib
import pathlib
import queue
import re

import pytest

from .faults import FAULTS
from .forked_pytest import Runner
from .inductor.test_moves import MOVES, inner_loops

ROOT = pathlib.Path(__file__).parent.parent
ASSERTED = re.compile(r"^E +(AssertionError|assert |Failed: DID NOT RAISE)", re.MULTILINE)
EVERYTHING = tuple(dict.fromkeys(test for each in FAULTS.values() for test in each.caught_by))


def prefixes(test: str) -> list[str]:
    """Ways to select this test: its file, its function, itself."""
    return [test.split("::")[0], test.split("[")[0], test]


@pytest.fixture(scope="module")
def pytest_run():
    """pytest_run(selection, *arguments): what became of it; two may be under way."""
    runners = queue.SimpleQueue()

    def run(selection, *arguments):
        runner = runners.get()
        try:
            return runner("-q", "-p", "no:cacheprovider", "-rf", "--tb=short", *arguments, *selection)
        finally:
            runners.put(runner)

    with contextlib.ExitStack() as stack:
        for _ in range(2):
            runners.put(stack.enter_context(contextlib.closing(Runner(ROOT))))
        yield run


@pytest.fixture(scope="module")
def runs(request, pytest_run):
    """runs(None): all selections without a fault that are not in this session; runs(name): the selection of a fault, until a
    test fails."""
    here = {part for item in request.session.items for part in prefixes(item.nodeid.split("@")[0])}
    elsewhere = [test for test in EVERYTHING if test not in here]
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and "name" in getattr(item, "callspec", type("", (), {"params": ()})).params
    ]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = {None: pool.submit(pytest_run, elsewhere)} if elsewhere else {}
        made |= {name: pool.submit(pytest_run, FAULTS[name].caught_by, "-x", "--fault", name) for name in wanted}
        yield lambda name: made[name].result() if name in made else None
        pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught(name, runs):
    found = FAULTS[name]
    done = runs(name)
    assert done.returncode == 1, f"{name} ({found.breaks}) ended with status {done.returncode}:\n{done.stdout[-3000:]}"
    assert "FAILED " in done.stdout and "ERROR collecting" not in done.stdout, done.stdout[-3000:]
    seen = found.error in done.stdout if found.error else ASSERTED.search(done.stdout)
    assert seen, f"{name} makes something crash, and no assertion fails:\n{done.stdout[-3000:]}"
    plain = runs(None)
    if plain is None:
        return
    failures = [line for line in plain.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    mine = [line for line in failures if any(test.partition("[")[0] in line for test in found.caught_by)]
    assert plain.returncode in (0, 1) and not mine, f"without any fault, too:\n{plain.stdout[-3000:]}"


def test_every_test_of_captured_frames_needs_a_compile_that_compiles(pytest_run):
    """With a `compile` that returns its argument none of them passes; `explain` alone goes another way in."""
    done = pytest_run(FAULTS["compile_is_identity"].caught_by, "--fault", "compile_is_identity", "-rEfp", "--tb=no")
    lines = [line.split(" - ")[0].split() for line in done.stdout.splitlines()]
    named = {kind: {line[1] for line in lines if len(line) > 1 and line[0] == kind} for kind in ("PASSED", "FAILED", "ERROR")}
    assert len(named["FAILED"] | named["ERROR"]) > 150, done.stdout[-2000:]
    passed = named["PASSED"] - named["ERROR"]
    assert passed <= {"tests/capture/test_breaks.py::test_explain_lists_breaks"}, f"pass without a compiler: {sorted(passed)}"


def test_faults_are_spread_over_the_product():
    kinds = [each.kind for each in FAULTS.values()]
    assert set(kinds) == {"formula", "gradient", "guard", "capture", "graph", "schedule", "code"}
    assert len(kinds) >= 40 and min(map(kinds.count, kinds)) >= 5


def test_unknown_fault_is_told(pytest_run):
    done = pytest_run(["tests/test_layers.py"], "--fault", "no_such_fault")
    assert done.returncode not in (0, 1) and "no such fault; faults are: formula_of_silu" in done.stdout


def test_no_lane_divides_in_moves():
    """Not in registers, either: what the faults of the schedule cost, where results stay the same."""
    for move, (f, shape) in MOVES.items():
        for text in inner_loops(f, *shape):
            assert not re.search(r"\bv_(floor|rest)_by\b|start = j", text), f"{move}: lanes divide: {text}"
