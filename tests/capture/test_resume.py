"""Functions cut at every legal instruction, without any tracer: result, exception and effects equal the plain run's.

Three harnesses: `arriving` cuts before an instruction when it is first reached, its state read at run time;
`with_break` runs one instruction the way a graph break does, on the state that `arriving` learned; `stepped` runs every
single instruction in a frame of its own, with tail calls as the native door makes them.
"""

import copy
import importlib.util
import pathlib
import random
import types

import pytest

from flambeau.capture.bytecode import opcodes
from flambeau.capture.bytecode.assemble import assemble
from flambeau.capture.bytecode.emitter import Emitter
from flambeau.capture.bytecode.instructions import clone, decode, stack_depths
from flambeau.capture.bytecode.liveness import SYNTHETIC, Liveness, is_local
from flambeau.capture.bytecode.resume import check_splittable, emit_break, exit_sequence, first_own, split
from flambeau.runtime.errors import InternalError, Unsupported

PROGRAMS = pathlib.Path(__file__).with_name("resume_programs.py")
spec = importlib.util.spec_from_file_location("resume_programs", PROGRAMS)
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)


# ---- what a run shows ----


def shown(value):
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, dict):
        return [(shown(k), shown(v)) for k, v in value.items()]
    return "function" if isinstance(value, types.FunctionType) else (type(value).__name__, repr(value))


def describe(error):
    if error is None:
        return None
    parts = [describe(e) for e in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return (
        type(error).__name__,
        str(error),
        describe(error.__cause__),
        describe(error.__context__),
        error.__suppress_context__,
        parts,
    )


def user_lines(error):
    lines, tb = [], error.__traceback__
    while tb:
        if tb.tb_frame.f_code.co_filename == str(PROGRAMS):
            lines.append(tb.tb_lineno)
        tb = tb.tb_next
    return lines


def observe(function, original, arguments):
    """(what came out, the log), and the traceback's lines. Cells that the function closes over are restored."""
    log = []
    first = programs.first_argument(original, log)
    kept = [(cell, cell.cell_contents) for cell in original.__closure__ or ()]
    try:
        return (shown(function(first, *copy.deepcopy(arguments))), shown(log)), []
    except Exception as error:
        return (describe(error), shown(log)), user_lines(error)
    finally:
        for cell, contents in kept:
            cell.cell_contents = contents


def is_subsequence(short, long):
    rest = iter(long)
    return all(item in rest for item in short)


def assert_same(function, original, arguments, where):
    want, lines = observe(original, original, arguments)
    got, got_lines = observe(function, original, arguments)
    assert got == want, where
    assert is_subsequence(lines, got_lines) and lines[-1:] == got_lines[-1:], (where, lines, got_lines)


def like(original, code):
    made = types.FunctionType(code, original.__globals__, original.__name__, original.__defaults__, original.__closure__)
    made.__kwdefaults__ = original.__kwdefaults__
    return made


def replace_by_pad(code, instrs, index, pad):
    """`code` with instruction `index` replaced by what `pad(emitter)` writes."""
    copies, new = clone(instrs)
    e = Emitter(instrs[index].position)
    label = e.label()
    e.place(label)
    pad(e)
    at = new[instrs[index]]
    at.op, at.argval, at.target, at.handler = "JUMP", None, label, None
    return assemble(copies + e.instrs, code)


# ---- harness 1: cut on first arrival, state read at run time ----


def cells_at(code, instrs, index):
    """Names whose slot holds a cell; inside an inlined comprehension MAKE_CELL may be still to come."""
    absent = {instrs[index].argval} if instrs[index].op == "MAKE_CELL" else set()
    return [name for name in (*code.co_cellvars, *code.co_freevars) if name not in absent]


def arriving(function, index, instrs, live, depths, on_arrival):
    """The function, cut where `index` is first reached. on_arrival(resume, index, depth, nulls, unbound)."""
    code, depth = function.__code__, depths[index]
    slots = [f"{SYNTHETIC}arrive_{k}" for k in range(depth)]
    cells = cells_at(code, instrs, index)

    def arrive(names, closure):
        nulls = {k for k, slot in enumerate(slots) if slot not in names}
        plain = {n for n in (*live.names,) if n not in names}
        unbound = plain | {n for n in code.co_cellvars if n not in cells}
        point = split(code, index, depth, nulls, unbound, instrs=instrs, live=live)
        by_name = dict(zip(cells, closure))
        values = [names[slots[key]] if kind == "stack" else names[key] for kind, key in point.arguments]
        for slot in slots:
            names.pop(slot, None)  # up to 3.12 the program may hold this very dict
        resume = types.FunctionType(point.code, function.__globals__, "resume", None, tuple(by_name[n] for n in point.cells))
        return on_arrival(resume, index, depth, frozenset(nulls), frozenset(unbound))(*values)

    def pad(e):
        for slot in reversed(slots):
            e.store_fast(slot)
        e.load_const(arrive)
        e.as_callable()
        e.load_const(locals)
        e.as_callable()
        e.call(0)
        for name in cells:
            e.load_closure(name)
        e.build_tuple(len(cells))
        e.call(2)
        e.return_value()

    return like(function, replace_by_pad(code, instrs, index, pad))


class Cut:
    """A function with what cutting it needs."""

    def __init__(self, function):
        self.function, self.code = function, function.__code__
        self.instrs = decode(self.code)
        self.live, self.depths = Liveness(self.instrs, self.code), stack_depths(self.instrs)
        self.legal = [i for i in range(first_own(self.code, self.instrs), len(self.instrs)) if self.depths[i] >= 0]

    def at(self, index, on_arrival=lambda resume, *state: resume):
        return arriving(self.function, index, self.instrs, self.live, self.depths, on_arrival)

    def states(self, arguments, index):
        """(depth, nulls, unbound) when `index` is first reached, or None."""
        seen = []

        def note(resume, _, *state):
            seen.append(state)
            return resume

        observe(self.at(index, note), self.function, arguments)
        return seen[0] if seen else None


def arguments_id(value):
    return value.__qualname__ if isinstance(value, types.FunctionType) else None


cases = pytest.mark.parametrize("function,arguments", programs.CASES, ids=arguments_id)


@cases
def test_cut_before_every_instruction(function, arguments):
    cut = Cut(function)
    for index in cut.legal:
        assert_same(cut.at(index), function, arguments, cut.instrs[index])


# ---- harness 2: a break at one instruction ----


def call_now(function, point):
    """A door that runs the resume function inside the caller's call."""

    def door(*arguments):
        split_at = len(point.arguments)
        closure = tuple(arguments[split_at:])
        return types.FunctionType(point.code, function.__globals__, "resume", None, closure)(*arguments[:split_at])

    return door


def with_break(cut, index, state, before=None):
    def leave(e, after, depth, nulls, unbound):
        point = split(cut.code, after, depth, nulls, unbound, instrs=cut.instrs, live=cut.live)
        exit_sequence(e, point, lambda e: e.load_const(call_now(cut.function, point)))

    def pad(e):
        emit_break(e, cut.instrs, index, *state, leave, before)

    return like(cut.function, replace_by_pad(cut.code, cut.instrs, index, pad))


@cases
def test_break_at_every_instruction(function, arguments):
    cut = Cut(function)
    for index in cut.legal:
        state = cut.states(arguments, index)
        if state:
            assert_same(with_break(cut, index, state), function, arguments, cut.instrs[index])


# ---- harness 3: every instruction in a frame of its own ----


class Tail:
    """A call that is still to be made."""

    def __init__(self, point, state, arguments):
        self.point, self.state, self.arguments = point, state, arguments


class Stepper:
    """Runs a function one instruction a frame; frames are cached by (index, state) like a real door's."""

    def __init__(self, function):
        self.cut, self.doors, self.codes, self.frames = Cut(function), {}, {}, 0

    def leave(self, e, index, depth, nulls, unbound):
        state = index, depth, nulls, unbound
        if state not in self.doors:
            point = split(self.cut.code, *state, instrs=self.cut.instrs, live=self.cut.live)
            self.doors[state] = point, lambda *arguments: Tail(point, state, arguments)
        point, door = self.doors[state]
        exit_sequence(e, point, lambda e: e.load_const(door))

    def one_step(self, code, state):
        """`code` up to its first own instruction, that instruction, and the ways on."""
        if state not in self.codes:
            e = Emitter(self.cut.instrs[state[0]].position)
            instrs = decode(code)
            entry = next(i.index for i in instrs if i.op == "JUMP") if code is not self.cut.code else self.cut.legal[0]
            e.extend(clone(instrs[:entry])[0])
            emit_break(e, self.cut.instrs, *state, self.leave)
            self.codes[state] = e.assemble(code)
        return self.codes[state]

    def __call__(self, *arguments):
        code, instrs = self.cut.code, self.cut.instrs
        plain = frozenset(n for n in self.cut.live.names if n not in code.co_varnames[: total_arguments(code)])
        state = self.cut.legal[0], 0, frozenset(), plain
        result = like(self.cut.function, self.one_step(code, state))(*arguments)
        while isinstance(result, Tail):
            self.frames += 1
            point, state = result.point, result.state
            if instrs[state[0]].op == "RETURN_VALUE":
                new_code = point.code
            else:
                new_code = self.one_step(point.code, state)
            count = len(point.arguments)
            closure = tuple(result.arguments[count:])
            result = types.FunctionType(new_code, self.cut.function.__globals__, "step", None, closure)(*result.arguments[:count])
        return result


def total_arguments(code):
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


@pytest.mark.parametrize(
    "function,arguments", [row for row in programs.CASES if row[0] not in programs.EMPTY_CELLS], ids=arguments_id
)  # a step is an uncut instruction, without the question that a cut puts before it
def test_one_instruction_a_frame(function, arguments):
    stepper = Stepper(function)
    want, lines = observe(function, function, arguments)
    got, got_lines = observe(stepper, function, arguments)
    assert got == want and stepper.frames > 0
    assert lines[-1:] == got_lines[-1:]
    assert observe(stepper, function, arguments)[0] == want  # again, with the frames cached


# ---- resume functions are cut again ----


def cut_again(random_, levels):
    def on_arrival(resume, *state):
        if not levels:
            return resume
        cut = Cut(resume)
        return cut.at(random_.choice(cut.legal), cut_again(random_, levels - 1))

    return on_arrival


@cases
def test_resume_functions_are_cut_again(function, arguments):
    cut, random_ = Cut(function), random.Random(0)
    for _ in range(12):
        index = random_.choice(cut.legal)
        assert_same(cut.at(index, cut_again(random_, 3)), function, arguments, cut.instrs[index])


# ---- the rest ----


def test_long_code_needs_extended_arguments():
    function, arguments = programs.LONG
    cut = Cut(function)
    assert len(cut.code.co_code) > 3000
    for index in cut.legal[::97]:
        assert_same(cut.at(index), function, arguments, cut.instrs[index])


def test_resume_code_names_and_arguments():
    def f(a, b):
        c = a + 1
        print(c)
        return c * b

    code = f.__code__
    instrs = decode(code)
    at = next(i.index for i in instrs if i.op == "POP_TOP")
    point = split(code, at + 1, 0)
    line = f.__code__.co_firstlineno + 3
    assert (
        point.code.co_name == "f"
        and point.code.co_qualname == f"<resume f at {line}>"
        and point.code.co_filename == code.co_filename
    )
    assert point.arguments == (("local", "b"), ("local", "c"))
    resumed = types.FunctionType(point.code, {})
    assert resumed(5, 3) == 15
    again = split(point.code, [i.index for i in decode(point.code) if i.op == "BINARY_OP"][0], 2)
    assert again.code.co_name == "f" and again.code.co_qualname == f"<resume f at {line}>"
    assert types.FunctionType(again.code, {})(6, 7) == 42


def test_dead_locals_are_not_passed():
    def f(big, x):
        y = big + x
        z = y * 2
        return z

    code = f.__code__
    instrs = decode(code)
    live = Liveness(instrs, code)
    stores = [i.index for i in instrs if i.op == "STORE_FAST"]
    assert live.before(stores[0] + 1) == {"y"} and live.before(stores[1] + 1) == {"z"}
    assert live.before(stores[0]) == frozenset()


def test_a_local_read_by_a_handler_is_live_inside_it():
    def f(x, y):
        try:
            y = x()
        except ValueError:
            return y
        return 1

    code = f.__code__
    instrs = decode(code)
    store = next(i.index for i in instrs if i.op == "STORE_FAST" and i.argval == "y")
    assert "y" in Liveness(instrs, code).before(store - 1)


def test_before_is_called_and_exception_state_crosses():
    events = []
    function, arguments = programs.nested_handlers, (1,)
    cut = Cut(function)

    def before(e):
        e.load_const(lambda: events.append("hook"))
        e.as_callable()
        e.call(0)
        e.pop()

    for index in cut.legal:
        state = cut.states(arguments, index)
        if state and cut.instrs[index].op == "CALL":
            assert_same(with_break(cut, index, state, before), function, arguments, cut.instrs[index])
    assert events


def test_what_is_not_cut_says_so():
    def gen():
        yield 1

    async def coroutine():
        pass

    body = compile("x = 1", "m", "exec")
    for code in (gen.__code__, coroutine.__code__, body):
        with pytest.raises(Unsupported):
            check_splittable(code, decode(code))
    with pytest.raises(InternalError, match="prologue"):
        split(programs.closures.__code__, 0, 0)


def test_is_local_tells_cells_from_locals():
    code = programs.closures.__code__
    assert is_local(code, "m") and not is_local(code, "n")
    assert opcodes.SUPPORTED
