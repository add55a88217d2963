"""Processes of pytest that cost no imports: each is forked from one that has imported what all of them begin with.

In: lines of JSON on the standard input, each a file and a command line of pytest. Out: what pytest says goes to the
file, its exit status is printed, one line for each. `Runner` is the other side. A run imports flambeau's tests, and of
flambeau whatever `import flambeau` does not, by itself: what a fault changes is changed before anything asks for it.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile

import pytest

SMALL = "test_layers.py"  # asks for nothing of flambeau


def main():
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main(["-q", "-p", "no:cacheprovider", "--collect-only", f"tests/{SMALL}"])
    importlib.import_module("flambeau")
    for line in sys.stdin:
        path, arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            return run(path, arguments)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return 0


def run(path, arguments):
    """pytest in this process, which has a standard input and outputs of its own."""
    for number, place in ((0, os.open(os.devnull, os.O_RDONLY)), (1, os.open(path, os.O_WRONLY))):
        os.dup2(place, number)
    os.dup2(1, 2)
    return pytest.main(arguments)


class Runner:
    """One such process; `runner(arguments)` is what subprocess.run would give. Runs of one runner follow each other."""

    def __init__(self, root):
        self.process = subprocess.Popen(
            [sys.executable, __file__], cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __call__(self, *arguments):
        with tempfile.NamedTemporaryFile("r+", errors="replace") as said:
            self.process.stdin.write(json.dumps([said.name, arguments]) + "\n")
            self.process.stdin.flush()
            code = int(self.process.stdout.readline())
            return subprocess.CompletedProcess(arguments, code, said.read())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
