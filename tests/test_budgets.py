"""Budgets: what ten typical programs cost, in counts that are the same on every machine.

In: `budget_programs.py` and the table `budgets.txt`, a row a program. Out: a failure where a count is above its budget, and
another where it is more than a tenth below (so that the table follows what was won). Rewritten by

    .venv/bin/python -m pytest tests/test_budgets.py --update-golden

No column is a time. What is counted:

    graphs breaks guards   of all frames of the report
    kernels calls          loops, products, convolutions, scatters; calls of the runtime's kernels or of eager between them
    bytes                  read and written by all kernels at the sizes of the first call (`report.cost`)
    captured final         nodes of the captured graphs, and of the graphs behind the last graph pass
    passes                 rows of the driver's table that were run, over all graphs: the work of a compilation, in place of its time
    py3.11 py3.12 ...      Python instructions of one warm call as the program makes it, the compiler's and the library's with it: on
                           3.11 by `settrace`, later by `sys.monitoring`. A rewrite on one Python leaves the others' columns
                           as they are; "-" is not compared

One thread and no vector instructions are set, so that no count depends on cores or processors; kernels are compiled without optimisation.
"""

import contextlib
import functools
import pathlib
import sys

import pytest

import flambeau as torch
from flambeau.capture import _capture
from flambeau.inductor import driver, pass_manager
from flambeau.runtime import toolchain
from flambeau.runtime.config import config

from .budget_programs import PROGRAMS, norm_softmax

TABLE = pathlib.Path(__file__).parent / "budgets.txt"
PYTHON = f"py3.{sys.version_info.minor}"
COUNTS = ("graphs", "breaks", "guards", "kernels", "calls", "bytes", "captured", "final", "passes")
COLUMNS = (*COUNTS, "py3.11", "py3.12", "py3.13")
CALLS = ("runtime", "eager")  # kinds of kernels that are no generated code

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


def read_table() -> dict[str, dict[str, str]]:
    """Row -> column -> the text there."""
    if not TABLE.exists():
        return {}
    head, *rows = (line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows}


def write_row(name: str, found: dict[str, int]) -> None:
    table = read_table()
    table[name] = {**table.get(name, {}), **{column: str(count) for column, count in found.items()}}
    lines = [["program", *COLUMNS]]
    for program in (each.__name__ for each in PROGRAMS if each.__name__ in table):
        lines.append([program, *(table[program].get(column, "-") for column in COLUMNS)])
    widths = [max(map(len, column)) for column in zip(*lines)]
    texts = (
        "  ".join(cell.ljust(width) if k == 0 else cell.rjust(width) for k, (cell, width) in enumerate(zip(line, widths)))
        for line in lines
    )
    TABLE.write_text("# Budgets of tests/test_budgets.py, which says what the columns are and how to rewrite them\n")
    with TABLE.open("a") as file:
        file.writelines(f"{text}\n" for text in texts)


def complaints(name: str, found: dict[str, int], budget: dict[str, str]) -> list[str]:
    """In words, what is above its budget, and what is far below it."""
    told = []
    for column, count in found.items():
        if budget.get(column, "-") == "-":
            continue
        allowed = int(budget[column])
        if count > allowed:
            told.append(f"{name}: {column} is above its budget: {count}, not {allowed}")
        elif count < allowed * 0.9:
            told.append(f"{name}: {column} is far below its budget: {count}, not {allowed}: tighten it with --update-golden")
    return told


# -- counting


@contextlib.contextmanager
def passes_counted(monkeypatch):
    """What the passes did inside of this block: {"passes": rows that were run, "final": nodes behind the last graph pass}."""
    seen, run_phase = {"passes": 0, "final": 0}, pass_manager.run_phase

    def counted(phase, ir, facts):
        made = run_phase(phase, ir, facts)
        seen["passes"] += len(phase.passes)
        seen["final"] += len(made.nodes) if phase is driver.FINAL else 0
        return made

    with monkeypatch.context() as patch:
        for module in (driver, pass_manager):
            patch.setattr(module, "run_phase", counted)
        yield seen


def instructions(call) -> int:
    """How many Python instructions `call()` runs, in compiled code as well."""
    _capture.show_compiled(True)
    try:
        return (by_monitoring if sys.version_info >= (3, 12) else by_tracing)(call)
    finally:
        _capture.show_compiled(False)


def by_tracing(call) -> int:
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


def by_monitoring(call) -> int:
    monitoring, tool, count, own = sys.monitoring, 4, 0, by_monitoring.__code__

    def instruction(code, offset):
        nonlocal count
        count += code is not own

    monitoring.use_tool_id(tool, "budgets")
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, instruction)
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        call()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)
    return count


def measured(program, monkeypatch) -> dict[str, int]:
    """Column -> count of one program."""
    compiled, call, warm_up = program()
    with passes_counted(monkeypatch) as seen:
        for k in range(warm_up):
            call(k)
    passes = dict(seen)
    warm = [instructions(functools.partial(call, warm_up + k)) for k in range(2)]
    assert warm[0] == warm[1], f"calls {warm_up} and {warm_up + 1} run {warm} instructions: the program is not warm"
    told = torch.compiler.report(compiled)
    calls = sum(kernel.kind in CALLS for kernel in told.kernels)
    return {
        "graphs": len(told.graphs),
        "breaks": len(told.breaks),
        "guards": sum(len(frame.guards) for frame in told.frames),
        "kernels": len(told.kernels) - calls,
        "calls": calls,
        "bytes": sum(kernel.bytes for kernel in told.kernels),
        "captured": sum(len(graph.nodes) for graph in told.graphs),
        "final": passes["final"],
        "passes": passes["passes"],
        PYTHON: warm[0],
    }


@pytest.fixture
def same_machine():
    """Settings under which the counts are those of any machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with config.patch(threads=1, isa="baseline", optimize=0, strict=True, verify=True):
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_budget(program, same_machine, monkeypatch, request):
    found = measured(program, monkeypatch)
    if request.config.getoption("--update-golden"):
        write_row(program.__name__, found)
        return
    budget = read_table().get(program.__name__)
    assert budget, f"{TABLE} has no row {program.__name__}: run pytest with --update-golden"
    told = complaints(program.__name__, found, budget)
    assert not told, "\n".join(told)


def test_both_sides_are_told():
    budget = {"kernels": "10", "bytes": "100", "py3.99": "-"}
    assert complaints("p", {"kernels": 10, "bytes": 90, "py3.99": 5}, budget) == []
    above, below = complaints("p", {"kernels": 11, "bytes": 89}, budget)
    assert "kernels is above its budget: 11, not 10" in above
    assert "bytes is far below its budget: 89, not 100: tighten it" in below


def test_the_table_has_the_programs_and_no_others():
    assert list(read_table()) == [program.__name__ for program in PROGRAMS]


def test_what_is_counted_is_compiled_code(same_machine):
    """A tracer is shown the original function unless it asks for what runs otherwise."""
    _, call, warm_up = norm_softmax()
    for k in range(warm_up):
        call(k)
    count = by_monitoring if sys.version_info >= (3, 12) else by_tracing
    assert instructions(functools.partial(call, 0)) < 10 < 20 < count(functools.partial(call, 0))
