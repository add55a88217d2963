"""The main module of a process that a program under `python -m flambeau run` spawned: the program itself, with torch aliased.
multiprocessing runs it by name, as `__mp_main__`, and puts this file into `sys.argv[0]`; the program stands in `sys.argv[1]`."""

import sys

from . import scripts

if __name__ == "__mp_main__":
    scripts.alias(True)
    __file__ = sys.argv[0] = sys.argv.pop(1)
    exec(scripts.compiled(__file__), globals())
