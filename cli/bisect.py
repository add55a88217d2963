"""Runs a program, and compares every stage of each of its compilations on the real inputs.

The first graph with a stage that computes something else than eager ends the program: the stage, the kernel, the node and your
line are named, and a file is written that shows the same alone (its exit status is 1 while the fault is there). Each graph
is compared on the inputs of the call that compiles it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from typing import Any

from . import scripts
from .answer import FOUND, Answer

HELP = "the first stage, kernel and node of a program that computes something else than eager"
EXAMPLES = """
    python -m flambeau bisect train.py --steps 3          # arguments behind the script are the script's
    python -m flambeau bisect --out small.py train.py
    python small.py                                       # exit status 1 while the fault is there
"""


def add(parser: Any) -> None:
    parser.add_argument("--out", metavar="FILE", help="where the small program goes (default: <script>_repro.py, here)")
    scripts.add_torch(parser)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def run(options: Any) -> Answer:
    from ..capture import backends
    from ..inductor import bisect
    scripts.alias(options.torch)
    compared = bisect.Comparing()
    try:
        with backends.replaced("inductor", compared):
            scripts.run(options.script, options.arguments)
    except bisect.Found as found:
        return told(found.finding, options)
    return Answer({"graphs": compared.graphs, "found": None}, f"{compared.graphs} graphs: no stage differs from eager")


def told(finding: Any, options: Any) -> Answer:
    """The finding, and its small program written."""
    lines = ["a stage computes something else than eager", "", finding.text()]
    path = None
    if finding.repro:
        path = options.out or os.path.splitext(os.path.basename(options.script))[0] + "_repro.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(finding.repro)
        lines.append(f"repro    {path} (exit status 1 while the fault is there)")
    if finding.code:
        lines += ["", finding.code.rstrip()]
    return Answer({"found": dataclasses.asdict(finding) | {"file": path}}, "\n".join(lines), FOUND)
