"""CPython's own tests of a module, each plainly or captured, in a process of their own.

`python -m tests.capture.cpython_tests test.test_with plain|captured [pattern]` prints one JSON object: name of a test -> "ok", "skipped", or the end
of its traceback. Captured means: every test method is called through `compile`, and the code of doctests runs with the
frame hook on; code of the tests and of the modules that they test counts as a user's, so that nested frames are captured
too. Graphs run in the Interpreter; internal errors of the compiler raise.
"""

import contextlib
import doctest
import fnmatch
import io
import json
import os
import signal
import sys
import unittest
import warnings

TESTED = ("contextlib.py", "functools.py")
SECONDS = 20  # of processor time for one test
TOO_LONG = "*.test_trashcan_recursion"  # a loop of 100,000 steps, which capture unrolls


class Result(unittest.TestResult):
    """Outcome by name. A subtest that fails is its test's failure."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def startTest(self, test):
        super().startTest(test)
        self.outcomes[test.id()] = "ok"
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_PROF, 0)
        super().stopTest(test)

    def _bad(self, test, error):
        sys.setrecursionlimit(max(1000, sys.getrecursionlimit()))  # as a test may have left it
        try:
            self.outcomes[test.id()] = self._exc_info_to_string(error, test)[-3000:]
        except RecursionError:
            self.outcomes[test.id()] = f"{error[0].__name__}, with a traceback that is too deep to be told"

    def addError(self, test, err):
        self._bad(test, err)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._bad(test, err)

    def addSkip(self, test, reason):
        self.outcomes[test.id()] = "skipped"


def too_slow(signum, frame):
    raise TimeoutError(f"a test takes more than {SECONDS} seconds of the processor")


def capture_everything():
    """From here on test methods and doctests run captured."""
    import flambeau
    from flambeau.capture import state
    from flambeau.capture.frontend.api import Compiled, make_settings
    from flambeau.capture.graph.graph import Interpreter
    from flambeau.runtime.config import config

    def backend(graph, example_inputs):
        return Interpreter(graph).run

    def call_method(self, method):
        if flambeau.compile(method.__func__, backend=backend)(self) is not None:
            raise AssertionError("a test method returned something")

    def captured_exec(code, globs):
        settings = make_settings(False, None, backend, None, None)
        return state.native.call("running", Compiled(settings), exec, (code, globs))

    library = state._file_reason

    def file_reason(filename):
        users = f"{os.sep}test{os.sep}" in filename or os.path.basename(filename) in TESTED
        return None if users else library(filename)

    state._file_reason = file_reason
    unittest.TestCase._callTestMethod = call_method
    doctest.exec = captured_exec
    config.strict = True
    warnings.filterwarnings("ignore", message="(?s).*was compiled .* times")


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def run(name, captured, pattern="*"):
    """Outcomes of the module's tests."""
    result = Result()
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    chosen = unittest.TestSuite(
        t for t in tests_of(suite) if fnmatch.fnmatch(t.id(), pattern) and not fnmatch.fnmatch(t.id(), TOO_LONG)
    )
    if captured:
        capture_everything()
    signal.signal(signal.SIGPROF, too_slow)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        chosen.run(result)
    return result.outcomes


if __name__ == "__main__":
    outcomes = run(sys.argv[1], sys.argv[2] == "captured", *sys.argv[3:])
    if sys.argv[2] == "captured":
        from flambeau.runtime import counters

        seen = counters.snapshot()
        outcomes["counters"] = {key: seen[key] for key in ("frames", "breaks", "fallbacks", "recompiles")}
    sys.__stdout__.write(json.dumps(outcomes))
