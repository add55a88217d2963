"""The table of benchmarks/README.md, measured on this machine: runs benchmarks/run.py with the arguments given.

The benchmarks lie beside the sources; an installation without them says where to find them. What follows `bench` goes to
benchmarks/run.py as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from .result import DONE, FAILED, WRONG, Answer, Wrong

HELP = "the benchmark table, measured on this machine"
EXAMPLES = """
    python -m flambeau bench --rounds 1 --workloads softmax,layernorm
    python -m flambeau bench --peer-python ~/venvs/torch/bin/python      # next to torch and torch.compile
"""
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "benchmarks", "run.py")


def add(parser: Any) -> None:
    parser.usage = "%(prog)s [-h] [--json] [arguments of benchmarks/run.py]"
    parser.set_defaults(takes_rest=True, rest=[])


def run(options: Any) -> Answer:
    if not os.path.exists(PROGRAM):
        raise Wrong(f"the benchmarks are not installed with the package: run it in the folder of the sources ({PROGRAM})")
    command = [sys.executable, PROGRAM, *options.rest]
    status = subprocess.run(command).returncode
    return Answer({"command": command, "status": status}, "", {0: DONE, 2: WRONG}.get(status, FAILED))  # 2: its arguments
