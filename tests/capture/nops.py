"""Every frame of a test run on code that our assembler wrote, with a NOP before each instruction.

`python -m tests.capture.nops plain|nops unittest test.test_with` or `... pytest tests/eager/test_nn.py` prints one JSON object: name of a
test -> outcome, and how many code objects were rewritten. The frame hook rewrites each function when it is first called;
its code then switches the hook on again for the frames that it calls. A generator's frame cannot be swapped: the code of
generators, classes and coroutines is rewritten with the function or the test module that holds it.
"""

import importlib.util
import io
import json
import sys
import types
import unittest

from .cpython_tests import Result

from flambeau.capture import _capture as native
from flambeau.capture.bytecode.assemble import assemble
from flambeau.capture.bytecode.emitter import Emitter
from flambeau.capture.bytecode.instructions import Instr, decode

NEAR = ("COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR")  # what CPython expects at the start of a code object


def with_nops(code, hooked=False, made=None):
    """The same program with NOPs, and all code objects inside it; `hooked`: it switches the frame hook on."""
    consts = {id(c): with_nops(c, made=made) for c in code.co_consts if isinstance(c, types.CodeType)}
    instrs = []
    for instr in decode(code):
        if instr.op == "LOAD_CONST":
            instr.argval = consts.get(id(instr.argval), instr.argval)
        if instr.op not in NEAR and instr.op != "RESUME":
            instrs.append(Instr("NOP", None, None, instr.position, instr.handler))
        instrs.append(instr)
        if hooked and instr.op == "RESUME":
            instrs += switch(instr.position)
            hooked = False
    written = assemble(instrs, code)
    if made is not None:
        made.add(written)
    return written


def switch(position):
    e = Emitter(position)
    e.load_const(native.hook_on)
    e.as_callable()
    e.call(0)
    e.pop()
    return e.instrs


class Nops(native.Cache):
    """Rewrites every function that is called."""

    def __init__(self):
        self.made, self.count = set(), 0

    def frame(self, code, globals):
        return not any(code is known for known in self.made if known == code)

    def special(self):
        pass

    def miss(self, door, code, globals, builtins, closure, slots):
        self.count += 1
        entry = native.Entry(native.GuardTree(), with_nops(code, hooked=True, made=self.made))
        door.add(entry)
        return entry


def unit_tests(name, cache):
    """Tests of a module, whose own code is rewritten before it runs."""
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    code = spec.loader.get_code(name)
    exec(with_nops(code, made=cache.made) if cache else code, module.__dict__)
    result = Result()
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    return lambda: suite.run(result), result.outcomes


def py_tests(path):
    import pytest

    outcomes = {}

    class Plugin:
        def pytest_runtest_logreport(self, report):
            if report.when == "call" or report.outcome != "passed":
                outcomes[report.nodeid.split("/")[-1]] = (
                    report.outcome if report.outcome != "failed" else str(report.longrepr)[-3000:]
                )

    arguments = [path, "-q", "--import-mode=importlib", "-p", "no:cacheprovider"]
    return lambda: pytest.main(arguments, plugins=[Plugin()]), outcomes


def main(how, kind, name):
    cache = Nops() if how == "nops" else None
    run, outcomes = unit_tests(name, cache) if kind == "unittest" else py_tests(name)
    sys.stdout = sys.stderr = io.StringIO()
    native.call("running", cache, run, ()) if cache else run()
    if cache:
        outcomes["rewritten"] = cache.count
    sys.__stdout__.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
