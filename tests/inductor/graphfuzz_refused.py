"""Drawn programs that eager refuses: an index outside of its dim, or a value outside of its range, somewhere in a drawn program.

In: a seed. Out: a `Program` with one more line, for which eager raises; half of them have results that nobody reads. A compiled
call raises the same error, in the loop interpreter and in C++, and has written what eager has.
"""

import dataclasses
import warnings

import numpy as np

import flambeau
from flambeau import compiler

from .graphfuzz import Input, Line
from .graphfuzz_batch import REFUSALS, Unit, settings, without_collection
from .graphfuzz_draw import Drawer


def refusing_program(seed):
    """A drawn program with a line that eager refuses, or None where the draw has no such line."""
    drawer = Drawer(seed)
    program = drawer.program()
    r = drawer.random
    at = r.randrange(len(program.lines) + 1)
    there = [i.name for i in program.inputs] + [line.name for line in program.lines[:at] if line.name]
    fit = [name for name in there if fits(drawer.values.get(name))]
    if not fit:
        return None
    text, inputs = refused_line(r, drawer, r.choice(fit), len(drawer.inputs))
    lines = [*program.lines[:at], Line("v99", text), *program.lines[at:]]
    outputs = program.outputs if r.random() < 0.5 else (*program.outputs, "v98")
    if "v98" in outputs:
        lines.append(Line("v98", r.choice(("v99", "v99 + 0", "v99[:1] * 2", "v99.sum()"))))
    made = dataclasses.replace(program, inputs=(*program.inputs, *inputs), lines=tuple(lines), outputs=tuple(outputs), other=())
    return made if refusal(made.function(), made)[0] is not None else None


def fits(t):
    return t is not None and 0 < t.dim() <= 3 and 0 < t.numel() < 2000 and not t.dtype.is_complex


def refused_line(r, drawer, x, count):
    """(a line that reads x and one wrong index or value, the inputs it needs)"""
    t = drawer.values[x]
    d = r.randrange(t.dim())
    n = t.shape[d]
    if r.random() < 0.25:
        return refused_value(r, x, t), ()
    if r.random() < 0.2:
        return computed_index(r, x, t.shape[0]), ()
    many = r.choice((1, 3, 9, 20))
    whole = r.random() < 0.3
    shape = tuple(many if k == d else m for k, m in enumerate(t.shape)) if whole else (many,)
    size = 3 if not whole and r.random() < 0.2 and t.shape[0] == 1 else n
    index = np.asarray(r.choices(range(size), k=int(np.prod(shape))), np.int64)
    index[r.randrange(index.size)] = r.choice((size, size + 3, 1 << 40, -size - 1))
    given = Input(f"x{count}", shape, "int64", "rows", index.reshape(shape))
    i = given.name
    if whole:
        forms = [
            f"op_gather({x}, {d}, {i})",
            f"{x}.scatter({d}, {i}, 1)",
            f"{x}.scatter_add({d}, {i}, op_gather({x}, {d}, {i} * 0))",
        ]
    elif size != n:
        forms = [f"{x}.expand([3, {', '.join(map(str, t.shape[1:]))}])[{i}]"]
    else:
        rows = f"{x}.index_select({d}, {i} * 0)"
        forms = [
            f"{x}.index_select({d}, {i})",
            f"{x}[{':, ' * d}{i}]",
            f"{x}.index_add({d}, {i}, {rows})",
            f"{x}.index_copy({d}, {i}, {rows})",
            f"{x}.index_fill({d}, {i} + {2 * n} * ({i} < 0), 1)",
            f"op_embedding_lookup({x}.movedim({d}, 0), {i})",
            f"op_index_put({x}.movedim({d}, 0), ({i},), {x}.flatten()[0], (0,))",
        ]
    return r.choice(forms), (given,)


def computed_index(r, x, n):
    """An index that no memory holds."""
    return f"{x}[{r.choice((f'flambeau.arange({n + 2})', f'flambeau.full((2,), {n})', f'flambeau.arange({n}) + 1', f'flambeau.tensor([{n}])'))}]"


def refused_value(r, x, t):
    if t.dtype.is_floating_point:
        wrong = f"({x} * 0 + {r.choice((2, -1))})"
        return r.choice(
            (
                f"{wrong}.bernoulli()",
                f"flambeau.nn.functional.binary_cross_entropy({wrong}, {wrong} * 0)",
                f"flambeau.normal({x}, {wrong} * 0 - 1)",
                f"flambeau.nn.functional.one_hot({wrong}.long().flatten(), 2)",
            )
        )
    return r.choice(
        (
            f"{x}.long() // ({x}.long() * 0)",
            f"{x}.long() % ({x}.long() * 0)",
            f"flambeau.nn.functional.one_hot({x}.long().flatten() * 0 + 5, 4)",
        )
    )


def refusal(call, program):
    """(the error's type and words, or None; the inputs afterwards)"""
    flambeau.manual_seed(5)
    given = [i.tensor()[1] for i in program.inputs]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            call(*given)
            error = None
        except REFUSALS as raised:
            error = type(raised).__name__, str(raised)
    return error, [x.detach().numpy().copy() if x.dtype.name != "bfloat16" else x.detach().float().numpy() for x in given]


def refused(seed, count):
    """That many programs, from a seed on."""
    found = []
    while len(found) < count:
        program = refusing_program(seed)
        seed += 1
        if program is not None:
            found.append(program)
    return found


def problems(programs, native):
    """What is wrong, by program: [(program, words)]."""
    unit, found, calls = Unit(), [], []
    compiler.reset()
    with settings(), without_collection():
        for program in programs:
            expected = refusal(program.function(), program)
            before = len(unit.twins)
            call = flambeau.compile(program.function(), backend=unit.backend, dynamic=program.dynamic)
            calls.append((program, expected, call, before))
            found += differences(program, expected, call, "loops")
        if native and not found and unit.build(False):
            for program, expected, call, before in calls:
                found += differences(program, expected, call, "C++")
            found += [(None, problem) for twin in unit.twins for problem in twin.problems]
    return found


def differences(program, expected, call, stage):
    try:
        actual = refusal(call, program)
    except Exception as error:
        return [(program, f"{stage}: {type(error).__name__}: {error}")]
    if actual[0] != expected[0]:
        return [(program, f"{stage}: {actual[0]} instead of {expected[0]}")]
    if not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(expected[1], actual[1])):
        return [(program, f"{stage}: inputs afterwards differ")]
    return []
