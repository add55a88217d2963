"""A program that shows a fault, made smaller: fewer outputs, lines and inputs, plain layouts, no gradients.

In: a program, and what tells its fault (None: it has none). Out: a program that still has it, and no part of which can
be left out.
"""

import dataclasses
import warnings

import numpy as np

from flambeau.eager.tensor import Tensor

from .graphfuzz import SCOPE, Input, Program

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, NameError)


def minimized(program, fault, most=150):
    """The smallest program found; `most`: how many are tried."""
    wanted = kind(fault(program))
    tried, progress = 0, wanted is not None
    while progress and tried < most:
        progress = False
        for smaller in candidates(program):
            smaller = without_unread(smaller)
            tried += 1
            if smaller != program and kind(told(fault, smaller)) == wanted:
                program, progress = smaller, True
                break
            if tried >= most:
                break
    return program


def told(fault, program):
    try:
        return fault(program)
    except REFUSALS:
        return None  # eager does not run it


def kind(problem):
    """The stage that a fault shows in, and whether numbers or an error tell it."""
    return problem and (problem.partition(":")[0], "Error" in problem.partition("\n")[0])


def candidates(program):
    """Programs with a part less, those with a large part less first."""
    change = lambda **parts: dataclasses.replace(program, **parts)
    outputs, lines, inputs = program.outputs, program.lines, program.inputs
    for k in range(len(outputs) if len(outputs) > 1 else 0):
        yield change(outputs=outputs[:k] + outputs[k + 1 :])
    made = {line.name: line for line in lines}
    for k, name in enumerate(outputs):
        for earlier in sorted(made[name].reads if name in made else ()):
            yield change(outputs=(*outputs[:k], earlier, *outputs[k + 1 :]))
    yield from cut(program)
    for k, line in enumerate(lines):
        if line.name is None:
            yield change(lines=lines[:k] + lines[k + 1 :])
    if program.other:
        yield change(other=())
    elif program.dynamic:
        yield change(dynamic=False)
    for k, given in enumerate(inputs):
        for simpler in ({"grad": None}, {"layout": "rows"}, {"values": "grid"}, {"dtype": "float32"}):
            if not isinstance(given.values, (int, np.ndarray)) and any(getattr(given, n) != v for n, v in simpler.items()):
                yield change(inputs=inputs[:k] + (dataclasses.replace(given, **simpler),) + inputs[k + 1 :])


def cut(program):
    """One value becomes an input; late ones first."""
    values = computed(program)
    for k in range(len(program.lines) - 1, -1, -1):
        name = program.lines[k].name
        value = values.get(name)
        if isinstance(value, np.ndarray):
            given = Input(name, value.shape, value.dtype.name, values=value)
            yield dataclasses.replace(program, inputs=(*program.inputs, given), lines=program.lines[:k] + program.lines[k + 1 :])


def computed(program):
    """What eager computes in each line."""
    space = {i.name: i.tensor()[1] for i in program.inputs}
    found = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for line in program.lines:
            exec(str(line), dict(SCOPE), space)
            value = space.get(line.name)
            if isinstance(value, Tensor):
                found[line.name] = np.array(value.detach()._fl_array)
    return found


def without_unread(program):
    """Without lines and inputs that nothing needs."""
    lines, needed = list(program.lines), set(program.outputs)
    while True:
        read = needed.union(*[line.reads for line in lines])
        kept = [line for line in lines if line.name is None or line.name in read]
        if len(kept) == len(lines):
            break
        lines = kept
    return Program(
        tuple(i for i in program.inputs if i.name in read),
        tuple(lines),
        program.outputs,
        program.dynamic,
        program.other,
        program.label,
    )
