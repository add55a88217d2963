"""Runs a program, and compares every stage of each of its compilations on the real inputs.

The first graph with a stage that computes something else than eager ends the program: the stage, the kernel, the node and your
line are named, and a file is written that shows the same alone (its exit status is 1 while the fault is there). Each graph
is compared on the inputs of the call that compiles it, and of the next ones (`--calls`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..capture.report.format import count
from . import run_program
from .result import DONE, FAILED, FOUND, Answer, ScriptFailed

HELP = "the first stage, kernel and node of a program that computes something else than eager"
EXAMPLES = """
    python -m flambeau bisect train.py --steps 3          # arguments behind the script are the script's
    python -m flambeau bisect --out small.py train.py
    python small.py                                       # exit status 1 while the fault is there
"""


def add(parser: Any) -> None:
    parser.add_argument("--calls", type=int, default=3, metavar="N", help="compare the first N calls of each graph (default 3)")
    run_program.add_program(parser, "where the small program goes (default: <script>_repro.py, here)")


def run(options: Any) -> Answer:
    from ..capture.frontend import backends
    from ..inductor.tools import bisect

    run_program.alias(options.torch)
    path = run_program.target(options, "_repro.py")
    compared = bisect.ComparingBackend(max(1, options.calls))
    try:
        with backends.replaced("inductor", compared):
            run_program.run(options.script, options.arguments)
    except bisect.DifferenceFound as found:
        return difference_answer(found.finding, path)
    except ScriptFailed as failed:
        return nothing(compared.graphs, str(failed))
    return nothing(compared.graphs, None)


def nothing(graphs: int, failure: str | None) -> Answer:
    """No stage differs in what was compiled, until the program ended or failed."""
    lines = [failure] if failure else []
    lines.append(f"{count(graphs, 'graph')}: no stage differs from eager" if graphs else "nothing was compiled")
    return Answer({"graphs": graphs, "found": None, "failure": failure}, "\n".join(lines), FAILED if failure else DONE)


def difference_answer(finding: Any, path: str) -> Answer:
    """The finding, and its small program written."""
    lines = ["a stage computes something else than eager", "", finding.text()]
    if finding.repro:
        with open(path, "w", encoding="utf-8") as file:
            file.write(finding.repro)
        lines.append(f"repro    {path} (exit status 1 while the fault is there)")
    if finding.code:
        lines += ["", finding.code.rstrip()]
    return Answer({"found": dataclasses.asdict(finding) | {"file": path if finding.repro else None}}, "\n".join(lines), FOUND)
