"""Runs a program that was written for PyTorch, as it is: its `import torch`, and that of the packages it uses, gives flambeau.

The program runs as `python SCRIPT ARGUMENTS` would run it, processes that it forks or spawns included, and ends with its own
exit status.
"""

from __future__ import annotations

import contextlib
import multiprocessing.spawn as spawn
import os
import sys
from typing import Any

from . import scripts
from .answer import DONE, Answer, ScriptFailed

HELP = "run a program that was written for PyTorch, as it is"
EXAMPLES = """
    python -m flambeau run train.py --epochs 3         # arguments behind the script are the script's
    python -m flambeau run --counts train.py           # at the end: graphs, breaks, recompiles, seconds of compiling
    python -m flambeau run --json train.py 2>log       # the counters as data; what the program prints goes to stderr
"""


def add(parser: Any) -> None:
    parser.add_argument("--counts", action="store_true", help="tell at the end what was compiled")
    scripts.add_script(parser)


def run(options: Any) -> Answer:
    from ..runtime import counters
    scripts.alias(True)
    status = DONE
    with spawning(os.path.abspath(options.script)):
        try:
            scripts.run(options.script, options.arguments)
        except ScriptFailed as failed:
            status = failed.status
    facts = {"status": status, "counters": counters.snapshot()}
    told = ", ".join(f"{name} {value}" for name, value in facts["counters"].items())
    return Answer(facts, told if options.counts else "", status)


@contextlib.contextmanager
def spawning(path: str):
    """Spawned children import the program through `spawned.py`, which aliases torch first."""
    before = spawn.get_preparation_data

    def prepared(name):
        data = before(name)
        if data.pop("init_main_from_path", None) is not None:
            data.update(init_main_from_name=f"{__package__}.spawned", sys_argv=[path, path, *sys.argv[1:]])
        return data
    spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = before
