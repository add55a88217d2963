"""Runs a program, and writes the report of everything that it compiled as one page.

The program runs as `python SCRIPT ARGUMENTS` would run it. The page (or with several compiled functions, one page each)
needs no network: source beside graphs beside kernels, guards, breaks, recompiles, memory, times. A program that fails still gets
the page of what it compiled until then.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import re
from typing import Any

from . import scripts
from .answer import FAILED, FOUND, Answer, ScriptFailed

HELP = "run a program, and write the report of what it compiled as a page"
EXAMPLES = """
    python -m flambeau report examples/gpt.py --steps 20        # arguments behind the script are the script's
    python -m flambeau report --out page.html --text train.py
    python -m flambeau report --json train.py > report.json     # the same as data; no page
"""


def add(parser: Any) -> None:
    parser.add_argument("--out", metavar="FILE", help="the page (default: <script>_report.html, here)")
    parser.add_argument("--text", action="store_true", help="also print the reports")
    scripts.add_torch(parser)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def run(options: Any) -> Answer:
    from ..capture.report import last_reports
    scripts.alias(options.torch)
    failure = None
    with kept() as held:
        try:
            names = scripts.run(options.script, options.arguments)
        except ScriptFailed as failed:
            names, failure = {}, str(failed)
        reports = last_reports()
    del held, names                     # until here, so that models and optimizers are alive while they are told of
    return answer(reports, options, failure)


@contextlib.contextmanager
def kept():
    """What is compiled in this block stays alive with its tensors and optimizers, when the program has ended as well."""
    from ..capture import compile as compiling
    from ..eager.optim.optimizer import Optimizer
    held: list[Any] = []

    def hold(compiled: Any, record: Any) -> None:
        held.append((compiled, compiled.wrapper(), [ref() for ref in record.inputs if ref is not None]))
        held.append([o for o in gc.get_objects() if isinstance(o, Optimizer)])

    compiling.listeners.append(hold)
    try:
        yield held
    finally:
        compiling.listeners.remove(hold)


def answer(reports: list, options: Any, failure: str | None) -> Answer:
    facts = {"reports": [one.to_dict() for one in reports], "pages": [], "failure": failure}
    status = FAILED if failure else FOUND if any(one.breaks for one in reports) else 0
    lines = [] if failure is None else [failure]
    if not options.json:
        facts["pages"] = pages(reports, options)
    if not reports:
        lines.append(f"{options.script} compiled nothing: no call of a function or module that flambeau.compile returned")
    for one, path in zip(reports, facts["pages"]):
        lines += [str(one)] if options.text else []
        lines.append(f"{path}: {one.title}, {len(one.graphs)} graphs, {len(one.breaks)} breaks, {len(one.kernels)} kernels, "
                     f"{len(one.recompiles)} recompiles")
    return Answer(facts, "\n".join(lines), status)


def pages(reports: list, options: Any) -> list[str]:
    """One page a compiled function; the first has the name that was asked for."""
    path = options.out or os.path.splitext(os.path.basename(options.script))[0] + "_report.html"
    stem, suffix = os.path.splitext(path)
    written = []
    for number, one in enumerate(reports):
        title = re.sub(r"\W+", "_", one.title).strip("_")
        written.append(one.html(path if number == 0 else f"{stem}_{number}_{title}{suffix}"))
    return written
