"""Runs a program that was written for PyTorch, as it is: its `import torch`, and that of the packages it uses, gives flambeau.

The program runs as `python SCRIPT ARGUMENTS`, `python -m MODULE ARGUMENTS` or `python -c TEXT ARGUMENTS` would run it, processes
that it forks or spawns included, and ends with its own exit status.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from . import run_program
from .result import DONE, Answer, ScriptFailed, Wrong

HELP = "run a program that was written for PyTorch, as it is"
EXAMPLES = """
    python -m flambeau run train.py --epochs 3         # arguments behind the script are the script's
    python -m flambeau run -m pytest tests             # a module; -c "import torch; ..." runs statements
    python -m flambeau run --counts train.py           # at the end: graphs, breaks, recompiles, seconds of compiling
    python -m flambeau run --json train.py 2>log       # the counters as data; what the program prints goes to stderr
"""


def add(parser: Any) -> None:
    parser.add_argument("--counts", action="store_true", help="tell at the end what was compiled")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="a module with its arguments")
    parser.add_argument("-c", dest="text", nargs=argparse.REMAINDER, metavar="TEXT", help="statements with their arguments")
    run_program.add_script(parser, needed=False)


def run(options: Any) -> Answer:
    from ..runtime import counters

    start = program(options)
    run_program.alias(True)
    status = DONE
    try:
        start()
    except ScriptFailed as failed:
        status = failed.status
    facts = {"status": status, "counters": counters.snapshot()}
    told = ", ".join(f"{name} {value}" for name, value in facts["counters"].items())
    return Answer(facts, told if options.counts else "", status)


def program(options: Any) -> Callable[[], Any]:
    """What runs the program that the options name."""
    for given, runs, what in (
        (options.module, run_program.run_module, "-m MODULE"),
        (options.text, run_program.run_text, "-c TEXT"),
    ):
        if given is not None:
            if not given:
                raise Wrong(f"{what}: the {what[3:].lower()} is missing")
            return lambda: runs(given[0], given[1:])
    if options.script is None:
        raise Wrong("name a program: SCRIPT, -m MODULE or -c TEXT")
    return lambda: run_program.run(options.script, options.arguments)
