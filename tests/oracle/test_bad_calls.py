"""Calls of every public function with one argument spoilt: no error is in the words of numpy, or an accident.

Right calls are drawn by the tables of fuzz*.py; then one argument becomes text, nothing, a fraction, a list, a negative or a
large number, or a tensor of another rank or type. BAD_CALLS: how many (default 1000); BAD_CALLS_SEED: where they start.
"""

import dataclasses
import os
import random
import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau
from flambeau.eager.error_messages import NUMPY

from . import fuzz, fuzz_elements, fuzz_layers, fuzz_numbers, fuzz_shapes  # noqa: F401 (the tables)
from .fuzz_draw import TABLE
from .test_fuzz import forms

COUNT = int(os.environ.get("BAD_CALLS", 1000))
SEED = int(os.environ.get("BAD_CALLS_SEED", 0)) * 10**6
FOREIGN = (AttributeError, KeyError, AssertionError, UnboundLocalError, NameError, StopIteration, MemoryError)
WORDS = re.compile(NUMPY + r"|numpy\.|ndarray")
REFUSED = re.compile("without overflow|int too big to convert|is out of bounds for")
NAMES = list(TABLE)
AVAILABLE = {name: forms(entry.call) for name, entry in TABLE.items()}


def spoilt(value, rng):
    """Something else in an argument's place."""
    if isinstance(value, fuzz.Spec):
        choice = rng.random()
        if choice < 0.4:
            return rng.choice(("a", None, 2.5, [1, 2], 3, {}))
        if choice < 0.7:
            rank = rng.choice((0, 1, 2, 3, 4))
            return dataclasses.replace(value, shape=tuple(rng.choice((0, 1, 2, 3)) for _ in range(rank)), layout=("contiguous",))
        return dataclasses.replace(value, dtype=rng.choice(("bool", "int32", "complex64", "float16", "uint8")), grad=False)
    if isinstance(value, bool):
        return rng.choice(("a", [], 2.5))
    if isinstance(value, int):
        return rng.choice((-7, 9, "a", 2.5, None, -1, [0, 0], 2**70))
    if isinstance(value, float):
        return rng.choice(("a", {}, [1], 1e300, 2**70))
    if isinstance(value, (tuple, list)):
        return rng.choice(("a", (9,), (-7, 1), (0, 0), None, 2.5, ("a", "b")))
    return rng.choice(("a", {}, [1]))


def beyond(value):
    """A number that few types hold."""
    return type(value) in (int, float) and abs(value) >= 1e300 or type(value) is int and abs(value) >= 2**64


def bad_call(seed):
    rng = random.Random(seed)
    name = rng.choice(NAMES)
    case = TABLE[name].case(seed, AVAILABLE[name])
    args, kwargs = list(case.args), dict(case.kwargs)
    places = [*range(len(args)), *kwargs]
    if places:
        place = rng.choice(places)
        holder = args if isinstance(place, int) else kwargs
        holder[place] = spoilt(holder[place], rng)
    return dataclasses.replace(case, args=tuple(args), kwargs=type(case.kwargs)(kwargs.items()), order=0)


def complaint_of(case):
    """What is wrong with our error, or with none, or ""."""
    ours = fuzz.run(flambeau, case).error
    if ours is None and any(beyond(value) for value in (*case.args, *dict(case.kwargs).values())):
        theirs = fuzz.run(torch, case).error
        return f"{case}\naccepted\nPyTorch: {theirs}" if REFUSED.search(str(theirs)) else ""
    if ours is None or not (isinstance(ours, FOREIGN) or type(ours).__module__.startswith("numpy") or WORDS.search(str(ours))):
        return ""
    theirs = fuzz.run(torch, case).error
    if type(theirs) is type(ours) and (str(ours) == str(theirs) or not re.search(NUMPY, str(ours))):
        return ""
    return f"{case}\n{type(ours).__name__}: {ours}\nPyTorch: {type(theirs).__name__}: {str(theirs)[:200]}"


@pytest.mark.parametrize("part", range(5))
def test_errors_are_our_own(part):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = list(filter(None, (complaint_of(bad_call(SEED + k)) for k in range(part, COUNT, 5))))
    assert not found, f"{len(found)} of {COUNT // 5} calls; the first:\n{found[0]}"
