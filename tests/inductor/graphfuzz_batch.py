"""Many drawn programs in one C++ translation unit.

In: programs. Out: per program what is wrong with it, if anything. Each is captured and compiled with a target of its
own, which keeps the loop programs; the first calls run in the loop interpreter. Then the generated texts of all graphs
are put into namespaces of one unit that the C++ compiler reads once. The calls run again, natively, with the loop
interpreter beside them on copies of what each is given, and the stages write their texts; or the graphs alone do, on what
the first calls gave them, without texts.
"""

import contextlib
import ctypes
import dataclasses
import gc
import types
from unittest import mock

import flambeau
from flambeau import compiler
from flambeau.eager.state import recording
from flambeau.eager.tensor import Tensor
from flambeau.inductor import driver, targets
from flambeau.inductor.pass_manager import Target
from flambeau.inductor.loops.body import Buffer
from flambeau.inductor.cpp import codegen, cpp_text, async_compile
from flambeau.inductor.loops.interpreter import run as run_program
from flambeau.inductor.schedule.memory_planning import overwritten
from flambeau.inductor.runtime.compare_stages import own_copy
from flambeau.runtime import compile_log, toolchain
from flambeau.runtime.config import config
from flambeau.runtime.errors import CheckFailed, Unsupported

from .graphfuzz import arrays_differ, coarsest, coarsest_named, difference, show, spread, strides_told

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, ArithmeticError)
UNDEFINED = {"empty"}


class Twin:
    """One final graph: its loop program, and its native code once the unit is built."""

    def __init__(self, program, name):
        self.program, self.name, self.native, self.problems = program, name, None, []
        self.own = [program.inputs.index(b) if isinstance(b, Buffer) and b in program.inputs else None for b in program.outputs]
        self.overwrites = overwritten(program)
        self.calls = []  # what it was called with, what came out

    def __call__(self, inputs, seed, base):
        if self.native is None:
            given = copies(inputs)
            values = unless_refused(self.looped, inputs, seed, base)
            self.calls.append((given, seed, base, values and copies(values)))
        else:
            wanted = unless_refused(self.looped, copies(inputs), seed, base)
            values = unless_refused(self.native, inputs, seed, base)
            self.compare(wanted, values)
        if values is None:
            raise CheckFailed("a check of a drawn program")
        return values

    def again(self):
        """The calls there were, natively."""
        for given, seed, base, wanted in self.calls:
            self.compare(wanted, unless_refused(self.native, given, seed, base))

    def compare(self, wanted, values):
        if wanted is None or values is None:
            told = (
                f"{self.name}: refused by {'C++' if wanted is not None else 'the loop interpreter'} alone\n{self.program.text()}"
            )
            self.problems += [told] if wanted is not values else []
            return
        coarse = coarsest_named(self.program.text())  # (a float32 made from halves is no more exact for that)
        for k, (a, b) in enumerate(zip(wanted, values, strict=True)):
            if isinstance(a, Tensor):
                problem = arrays_differ(a._fl_array, b._fl_array, coarse)
                problem = problem or (strides_told(a) != strides_told(b) and "strides differ") or None
            else:
                problem = None if a == b else f"{b} instead of {a}"
            if problem:
                self.problems.append(f"{self.name}, output {k}, C++ and loop interpreter: {problem}\n{self.program.text()}")

    def looped(self, inputs, seed, base):
        with recording(False):
            values = run_program(self.program, inputs, {"seed": seed, "base": base})
        return [targets.as_tensor(v) if k is None else inputs[k] for k, v in zip(self.own, values)]


def unless_refused(run, *given):
    """What a run gives, or None where a check fails."""
    try:
        return run(*given)
    except CheckFailed:
        return None


def copies(values):
    return [own_copy(x) if isinstance(x, Tensor) else x for x in values]


class Unit:
    """The graphs that are compiled together."""

    def __init__(self):
        self.twins, self.texts, self.refused = [], [], {}

    def backend(self, graph, inputs, options=None):
        return driver.compile_graph(graph, inputs, options, Target("twin", self.emit))

    def emit(self, program, facts):
        self.twins.append(Twin(program, facts.name))
        return self.twins[-1]

    def build(self, plain):
        """Native code for all graphs; `plain`: as users get it, else quickly made: nothing is inlined."""
        made = []
        with config.patch(threads=1):  # all kernels of a graph in one text
            for twin in self.twins:
                try:
                    made.append((twin, codegen.generate(twin.program)))
                except Unsupported as lack:
                    self.refused[lack.code] = self.refused.get(lack.code, 0) + 1
        if not made:
            return 0
        with config.patch(optimize=config.optimize if plain else 0):
            path = toolchain.build([unit_text([g for _, g in made], plain)])
        library = ctypes.CDLL(path)
        async_compile._bind_tensor()
        for k, (twin, generated) in enumerate(made):
            entry = types.SimpleNamespace(
                fb_run=getattr(library, f"fb_run_{k}"), fb_plan=getattr(library, f"fb_plan_{k}"), library=library
            )
            twin.native = async_compile._launcher(twin.program, generated, entry, True)
        return len(made)


def unit_text(generated, plain):
    head = cpp_text.prelude()
    if not plain:
        head = head.replace("__attribute__((always_inline))", "")
    parts = [head, codegen.MARK]
    for k, each in enumerate(generated):
        body = each.text.replace("fb_run(", f"fb_run_{k}(").replace("fb_plan(", f"fb_plan_{k}(")
        parts.append(f"namespace graph_{k} {{\n{body}\n}}\n")
    return "\n".join(parts)


@dataclasses.dataclass
class Trial:
    """A program, what eager shows of it, and how it is called compiled."""

    program: object
    expected: object
    call: object
    twins: list
    problem: str | None = None
    other: object = None  # the same for other sizes: (program, what eager shows)


@contextlib.contextmanager
def settings():
    with config.patch(strict=True, keep_half_rounding=True):
        yield


def attempt(trial, program, expected, stage):
    """One compiled call, compared with eager's."""
    if trial.problem is not None:
        return
    marks = [len(t.problems) for t in trial.twins]
    try:
        actual = show(trial.call, program)
    except Exception as error:  # whatever it is, it is the finding
        trial.problem = f"{stage}: {type(error).__name__}: {error}"
        return
    judge(trial, program, expected, actual, [p for t, mark in zip(trial.twins, marks) for p in t.problems[mark:]], stage)


def judge(trial, program, expected, actual, told, stage):
    """What eager and a compiled call show, and what was `told` about its graphs: where roundings decide, nothing."""
    coarse = coarsest(program)
    problem = difference(expected, actual, coarse)
    if problem or told:
        slack = spread(program)
        problem = difference(expected, actual, coarse, slack if len(slack) == len(expected.arrays) else None)
        shaky = not problem and any(s is not None and (s[0] != s[1]).any() for s in slack)
        problem = problem or (None if shaky or not told else told[0])
    if problem:
        trial.problem = f"{stage}: {problem}"


def graphs_again(trial):
    """The graphs of a program natively, on what they were called with."""
    if trial.problem is not None:
        return
    try:
        for twin in trial.twins:
            if twin.native is not None:
                twin.again()
    except Exception as error:
        trial.problem = f"C++: {type(error).__name__}: {error}"
        return
    told = [p for t in trial.twins for p in t.problems]
    if told:
        judge(trial, trial.program, trial.expected, trial.expected, told, "C++")


def start(program, unit):
    """Capture, compile, run in the loop interpreter."""
    function = program.function()
    trial = Trial(program, show(function, program), None, [])
    before = len(unit.twins)
    trial.twins = _Since(unit.twins, before)
    trial.call = flambeau.compile(function, backend=unit.backend, dynamic=program.dynamic)
    attempt(trial, program, trial.expected, "loops")
    other = program.resized()
    if other is not None:
        try:
            trial.other = other, show(function, other)
        except REFUSALS:
            trial.other = None
        if trial.other:
            attempt(trial, *trial.other, "loops, other sizes")
    trial.twins = list(unit.twins[before:])
    return trial


class _Since:
    """The end of a growing list."""

    def __init__(self, whole, start):
        self.whole, self.start = whole, start

    def __iter__(self):
        return iter(self.whole[self.start :])


def run(programs, native=True, plain=False, whole=True):
    """The trials of some programs, and their unit; `whole`: native calls from the captured function on, else of graphs."""
    unit = Unit()
    compiler.reset()
    with settings(), without_collection(), texts(whole):
        trials = [start(program, unit) for program in programs]
        if native and not any(t.problem for t in trials) and unit.build(plain):
            for trial in trials:
                if not whole:
                    graphs_again(trial)
                    continue
                attempt(trial, trial.program, trial.expected, "C++")
                if trial.other:
                    attempt(trial, *trial.other, "C++, other sizes")
    return trials, unit


def texts(written):
    """The stages' texts are written as for a reader, or not at all: a tenth of a batch's time."""
    return contextlib.nullcontext() if written else mock.patch.object(compile_log, "wanted", lambda: False)


@contextlib.contextmanager
def without_collection():
    """Nothing is collected in a batch: a sixth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
