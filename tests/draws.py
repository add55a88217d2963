"""Drawn programs of every generator of the tests, as many as one likes: python -m tests.draws KIND --count N --first SEED

Prints what is wrong as it is found, each with its seed and the text of its program, and a line for all: `KIND: N drawn, W wrong,
S seconds`. The status is 1 if any is wrong, and 2 where a kind cannot be drawn. Kinds that compare with PyTorch need it.
"""

import argparse
import contextlib
import dataclasses
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator

import numpy as np

STEP = 7  # of tables of calls: neighbours are alike
KINDS: dict = {}


@dataclasses.dataclass(frozen=True)
class Kind:
    """`start()` gives a function of a seed that tells what is wrong with its program (text, or nothing)."""

    name: str
    what: str
    start: Callable


def kind(name, what):
    def enter(start):
        KINDS[name] = Kind(name, what, start)
        return start

    return enter


# -- against PyTorch ------------------------------------------------------------------------------------------------------


def table():
    """(names of the calls in a mixed order, their entries, the forms that PyTorch has of one)."""
    from tests.oracle import fuzz_elements, fuzz_layers, fuzz_numbers, fuzz_shapes  # noqa: F401 (the tables)
    from tests.oracle.fuzz_draw import TABLE

    names = sorted(TABLE)
    step = STEP if len(names) % STEP else STEP + 1
    return [names[k * step % len(names)] for k in range(len(names))], TABLE


def seeded(names, seed):
    return names[seed % len(names)], seed // len(names)


@kind("calls", "calls of public functions, values and derivatives as in PyTorch")
def calls():
    from tests.oracle.test_fuzz import check, forms, fuzz

    names, entries = table()

    def told(seed):
        name, number = seeded(names, seed)
        case = entries[name].case(number, forms(entries[name].call))
        text = check(case)
        return text and f"{name}: {text}\n{fuzz.program(case)}"

    return told


@kind("extremes", "the same at the edges: infinite, saturated, empty, equal, in halves")
def extremes():
    import flambeau
    import torch
    from tests.oracle import fuzz, fuzz_extremes
    from tests.oracle.test_fuzz import forms

    names, entries = table()

    def told(seed):
        name, number = seeded(names, seed)
        entry = entries[name]
        case = fuzz_extremes.case_of(entry, number, forms(entry.call))
        text = fuzz_extremes.check_of(entry, flambeau, torch)(case)
        return text and f"{name}: {text}\n{fuzz.program(case)}"

    return told


@kind("bad-calls", "calls with one argument spoilt: errors in words of our own")
def bad_calls():
    from tests.oracle.test_bad_calls import bad_call, complaint_of

    return lambda seed: complaint_of(bad_call(seed))


@kind("keys", "keys in every spelling, read, written and differentiated, as in PyTorch")
def keys():
    from tests.index_programs import drawn
    from tests.oracle.test_indexing import difference

    return lambda seed: difference(drawn(seed))


def callers_in_pytorch(module):
    from tests.oracle.test_callers import differs

    return lambda seed: differs(module.draw(seed))


@kind("functions", "custom autograd functions, as in PyTorch")
def functions():
    from tests.inductor import functionfuzz

    return callers_in_pytorch(functionfuzz)


@kind("results", "what callers see of results, as in PyTorch")
def results():
    from tests.inductor import resultfuzz

    return callers_in_pytorch(resultfuzz)


# -- compiled, against eager ----------------------------------------------------------------------------------------------


def callers_compiled(module):
    from tests.inductor.callers import BACKENDS, check

    def told(seed):
        try:
            check(module.draw(seed), (*BACKENDS, "inductor") if seed % 45 == 0 else BACKENDS)
        except AssertionError as error:
            return str(error)

    return told


@kind("functions-compiled", "custom autograd functions in every backend, as eagerly")
def functions_compiled():
    from tests.inductor import functionfuzz

    return callers_compiled(functionfuzz)


@kind("results-compiled", "what callers see of results of compiled functions")
def results_compiled():
    from tests.inductor import resultfuzz

    return callers_compiled(resultfuzz)


@kind("keys-compiled", "keys in compiled functions")
def keys_compiled():
    from tests.capture.test_indexing import backends, difference
    from tests.index_programs import drawn

    return lambda seed: "\n".join(filter(None, (difference(drawn(seed), backend) for backend in backends(seed // 4))))


@kind("extremes-compiled", "calls at the edges, compiled")
def extremes_compiled():
    import flambeau
    from tests.oracle import fuzz, fuzz_extremes

    names, entries = table()
    names = [n for n in names if isinstance(entries[n].call, str) and not n.startswith(("linalg", "fft"))]

    def told(seed):
        name, number = seeded(names, seed)
        case = fuzz_extremes.case_of(entries[name], number, ("function",))
        if case.form != "function" or fuzz.run(flambeau, case).error is not None:
            return None
        return fuzz_extremes.compiled_differs(flambeau, [case], "inductor" if seed % 45 == 0 else "loops")

    return told


@kind("graphs", "programs of records: views, writes, reductions, products; in the loop interpreter and in C++")
def graphs():
    from flambeau.runtime.config import config
    from tests.inductor.graphfuzz_batch import run
    from tests.inductor.graphfuzz_check import COMPILER, SIZE
    from tests.inductor.graphfuzz_draw import draw

    def several(seeds):
        """Those of one unit at once; every fourth unit's calls run in C++, too."""
        for k in range(0, len(seeds), SIZE):
            with tempfile.TemporaryDirectory() as store, config.patch(cache_dir=store):
                trials, _ = run([draw(seed) for seed in seeds[k : k + SIZE]], COMPILER, False, k // SIZE % 4 == 0)
            for seed, trial in zip(seeds[k : k + SIZE], trials):
                yield seed, trial.problem and f"{trial.problem}\n{trial.program.text()}"

    return several


# -- captured, against plain Python ----------------------------------------------------------------------------------------


@kind("growth", "containers, counters and texts that grow from call to call")
def growth():
    from tests.capture.growth_programs import BACKENDS, differs

    return lambda seed: differs(seed, BACKENDS[seed % len(BACKENDS)])


@kind("language", "corners of the language around tensors")
def language():
    from tests.capture import fuzzing
    from tests.capture import language_draw

    backends = {0: "aot_eager", 7: "loops"}

    def told(seed):
        backend = backends.get(seed % 15, "inductor" if seed % 60 == 31 else fuzzing.interpreted)
        return fuzzing.differing(seed, kind=language_draw, calls=3, backend=backend, close=True)

    return told


@kind("python", "control flow and data structures around tensors")
def python():
    from tests.capture import fuzzing

    return lambda seed: fuzzing.differing(seed, calls=3 if seed % 5 == 0 else 2)


@kind("guards", "functions in worlds that change between calls")
def guards():
    from tests.capture import guard_programs

    return lambda seed: guard_programs.unsound(seed)[0]


@kind("changes", "functions whose arguments change their types, sizes, lengths, keys and identities")
def changes():
    from tests.capture import fuzzing

    return fuzzing.unsound


# -- the command -----------------------------------------------------------------------------------------------------------


def each(told: Callable, seeds: range) -> Iterator:
    """(seed, what is wrong) of every program; an error of the comparison itself is wrong, too."""
    for seed in seeds:
        random.seed(seed)
        try:
            yield seed, told(seed)
        except Exception:
            yield seed, traceback.format_exc()


def run(name: str, first: int, count: int, out=print) -> int:
    """How many are wrong."""
    start, wrong, seeds = time.perf_counter(), 0, range(first, first + count)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        told = KINDS[name].start()
        for seed, text in told(seeds) if name == "graphs" else each(told, seeds):
            if text:
                wrong += 1
                out(f"{name}, seed {seed}\n{text}\n{'-' * 80}")
    out(f"{name}: {count} drawn, {wrong} wrong, {time.perf_counter() - start:.0f} seconds")
    return wrong


def main(arguments=None) -> int:
    kinds = "\n".join(f"  {each.name:<20}{each.what}" for each in KINDS.values())
    parser = argparse.ArgumentParser(
        "python -m tests.draws", description=f"{__doc__}\nkinds:\n{kinds}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS, metavar="KIND")
    parser.add_argument("--count", type=int, default=100, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    given = parser.parse_args(arguments)
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        return int(run(given.kind, given.first, given.count) > 0)
    except BaseException as error:
        if type(error).__name__ != "Skipped" and not isinstance(error, ModuleNotFoundError):
            raise
        print(f"{given.kind}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
