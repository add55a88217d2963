"""Runs a program, and writes the report of everything that it compiled as one page.

The program runs as `python SCRIPT ARGUMENTS` would run it; Python processes that it starts are reported on as well. The page (or
one for each compiled function) needs no network: source beside graphs beside kernels, guards, breaks, recompiles,
memory, times. A program that fails still gets the page of what it compiled until then.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile
from typing import Any

from ..capture.report.format import count
from . import run_program
from .result import DONE, FAILED, FOUND, Answer, ScriptFailed

HELP = "run a program, and write the report of what it compiled as a page"
EXAMPLES = """
    python -m flambeau report examples/lstm.py --steps 20       # arguments behind the script are the script's
    python -m flambeau report --out page.html --text train.py
    python -m flambeau report --json train.py > report.json     # the same as data; no page
    FLAMBEAU_REPORT=reports python train.py                     # without this command: pages when the process ends
"""


def add(parser: Any) -> None:
    parser.add_argument("--text", action="store_true", help="also print the reports")
    run_program.add_program(parser, "the page (default: <script>_report.html, here)")


def run(options: Any) -> Answer:
    from ..capture.frontend import report_at_exit

    run_program.alias(options.torch)
    path = None if options.json else run_program.target(options, "_report.html")
    with tempfile.TemporaryDirectory(prefix="flambeau-report-") as folder, report_at_exit.keep_compiled() as held:
        failure = ran(options, folder)
        found = sorted([*held.reports(), *map(Left, left(folder))], key=lambda one: -len(one.kernels))
        del held
        texts = [str(one) for one in found] if options.text else []
        pages = report_at_exit.write(found, path) if path else []
        facts = {"reports": [one.to_dict() for one in found], "pages": pages, "failure": failure}
    return answer(facts, texts, options.script)


def ran(options: Any, folder: str) -> str | None:
    """Run the program; how it failed, in words. Processes that it starts leave their reports in the folder."""
    before = os.environ.get("FLAMBEAU_REPORT")
    os.environ["FLAMBEAU_REPORT"] = folder
    try:
        run_program.run(options.script, options.arguments)
    except ScriptFailed as failed:
        return str(failed)
    finally:
        if before is None:
            del os.environ["FLAMBEAU_REPORT"]
        else:
            os.environ["FLAMBEAU_REPORT"] = before
    return None


def left(folder: str) -> list[str]:
    """What other processes left, in order."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.json")), key=os.path.getmtime)


class Left:
    """A report that another process made: its data, and its page to be moved."""

    def __init__(self, path: str):
        self.page = path.removesuffix(".json") + ".html"
        with open(path, encoding="utf-8") as file:
            self.data = json.load(file)
        self.title = self.data["title"]
        self.kernels = kernels_of(self.data)

    def to_dict(self) -> dict[str, Any]:
        return self.data

    def html(self, path: str) -> str:
        return shutil.move(self.page, path)

    def __str__(self) -> str:
        return f"{self.title}: {len(self.kernels)} kernels, compiled by another process: its page has the rest"


def kernels_of(data: dict[str, Any]) -> list:
    return [kernel for graph in data["graphs"] for program in graph["programs"] for kernel in program["kernels"]]


def answer(facts: dict[str, Any], texts: list[str], script: str) -> Answer:
    lines = [*texts, *([facts["failure"]] if facts["failure"] else [])]
    if not facts["reports"]:
        lines.append(f"{script} compiled nothing: no call of a function or module that flambeau.compile returned")
        if not hasattr(sys.modules.get("torch"), "__flambeau__") and "torch" in sys.modules:
            lines.append("it uses the installed torch: with --torch its `import torch` gives flambeau")
    for one, page in zip(facts["reports"], facts["pages"]):
        breaks = sum(len(frame["breaks"]) for frame in one["frames"])
        told = (
            count(len(one["frames"]), "frame"),
            count(len(one["graphs"]), "graph"),
            count(breaks, "break"),
            count(len(kernels_of(one)), "kernel"),
        )
        lines.append(f"{page}: {one['title']}, {', '.join(told)}")
    broken = any(frame["breaks"] for one in facts["reports"] for frame in one["frames"])
    return Answer(facts, "\n".join(lines), FAILED if facts["failure"] else FOUND if broken else DONE)
