"""From a frame to an entry: trace it, compile the graph, write guards and new bytecode.

In: a code object with its globals, closure and argument values. Out: an Entry of the native cache, or None when the frame is
to run plain. A graph break traces the frame again and stops before the instruction that failed; the prefix is compiled, the
instruction runs in Python, and resume functions, doors of their own, go on from there.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from typing import Any

from ...eager import dispatch, random
from ...eager.amp import autocast_mode
from ...eager.errors import DataDependent
from ...eager.state import setting
from ...eager.tensor import Tensor
from ...runtime import counters, log, compile_log
from ...runtime.config import config
from ...runtime.dataclass import data
from ...runtime.errors import InternalError, Unsupported
from ...runtime.identity import WeakIdKeyDictionary
from ..breaks import Assumptions, GraphBreak, RestartTrace, SkipFrame, UserRaise, tell_break, unsupported
from .codegen import Codegen
from .trace_context import TraceContext
from ..bytecode.emitter import Emitter
from ..guards.growth import Growth, History, Watch
from ..guards.guard_builder import build_tree, tree_text
from ..bytecode.instructions import NOWHERE, decode, text
from .symbolic_convert import Frame, StopTrace, inline, load_global
from ..bytecode.code_cache import listing
from ..bytecode.liveness import SYNTHETIC, is_local
from ..skipfiles import line_of_program
from ..graph.data_dependent import split_at_reads
from ..guards.recompiles import AutomaticDynamic
from ..bytecode.resume import check_splittable, emit_break, exit_sequence, first_own, is_resume, split, write_taken
from ..guards.source import Free, Local, LocalCell, rest_local
from ..state import is_library_file, native
from ..variables.backward import refuse_escaped, free_used_history, with_freed_history
from ..variables.base import NULL, LazyVariable, NotPlain, Variable
from ..variables.constant import ConstantVariable, is_open_text
from ..variables.dicts import DictVariable
from ..variables.functions import CellVariable
from ..variables.iterators import rest_of
from ..variables.objects import lookups
from ..variables.sequences import ListVariable, TupleVariable
from ..variables.tensor import TensorVariable

HOOKED = ("CALL", "CALL_FUNCTION_EX", "BEFORE_WITH", "LOAD_ATTR", "BINARY_OP", "BINARY_SUBSCR", "STORE_ATTR")
MAX_RESTARTS = 5

# resume code -> (the code it was cut from, its instructions' indices there): cuts of cuts are cuts of the original,
# so that a loop that breaks in every iteration comes back to the same resume functions. By identity: equal code is cut alike,
# but its resume codes live and die apart
ORIGINS = WeakIdKeyDictionary()


@data
class Conversion:
    """What converting one frame needs to know."""

    code: types.CodeType
    globals: dict
    closure: tuple
    slots: dict
    options: Any
    cache: Any

    def __post_init__(self) -> None:
        self.listing = listing(self.code)
        self.instrs = self.listing.instrs


def convert(
    code: types.CodeType, globals: dict, builtins: dict, closure: tuple | None, slots: dict, options: Any, cache: Any
) -> Any:
    """An Entry for this frame, or None: run it plain. Raises Unsupported only under fullgraph."""
    job = Conversion(code, globals, closure or (), slots, options, cache)
    record = compile_log.current()
    try:
        return trace_frame(job, record)
    except SkipFrame as plain:
        if options.fullgraph:
            keep_break(job, plain.reason, record, plain=True)
            raise fullgraph_error(plain.reason) from None
        report_break(job, plain.reason, record, plain=True)
        return None


def fullgraph_error(reason: GraphBreak) -> Unsupported:
    """The error of fullgraph=True: the text of the break with the user's line."""
    stack = reason.stack
    where = f"\n  at {stack[-1][0]}:{stack[-1][1]}: {stack[-1][2]}" if stack else ""
    return Unsupported(reason.code, reason.text + where, reason.fix)


# -- tracing ---------------------------------------------------------------------------------------------------------


def trace_frame(job: Conversion, record: compile_log.CompileRecord) -> Any:
    """Trace to the end; or to the first break, then again up to there. An assumption that does not hold starts it all again.

    A break while the traced program handles an exception is one at the instruction that raised it (`step` of the error).
    """
    reason: GraphBreak | None = None
    stop, assumptions = None, Assumptions()
    for _ in range(MAX_RESTARTS):
        trace = Trace(job, stop, reason, assumptions)
        try:
            with record.stage("trace"):
                trace.run()
            return trace.finish(record)
        except RestartTrace as again:
            without_frames(again)
            reason, stop, assumptions = None, None, again.assumptions
        except Unsupported as lack:
            error = GraphBreak.of(lack)
            without_frames(error)
            earlier = error.step
            if job.options.fullgraph or stop is not None and (earlier is None or earlier >= stop):
                raise SkipFrame(with_user_stack(error, trace) if reason is None else combine_breaks(reason, error)) from error
            reason = reason or with_user_stack(error, trace)
            stop = trace.root.step - 1 if earlier is None else earlier
            check_break(job, reason, trace)
        finally:
            trace.forget()
    raise SkipFrame(reason or unsupported("resume", f"{MAX_RESTARTS} traces of the frame took for granted what does not hold"))


def without_frames(error: BaseException | None) -> None:
    """A break is kept, the frames of the compiler that it went through are not: they hold the program's values. An exception
    of the program's own, which it may be handling, keeps its frames."""
    while isinstance(error, (Unsupported, RestartTrace, UserRaise, NotPlain, DataDependent)):
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def combine_breaks(reason: GraphBreak, error: GraphBreak) -> GraphBreak:
    """A break whose state cannot be carried over."""
    made = GraphBreak("resume", f"{reason.text}; and the frame cannot go on behind it: {error.text}", reason.fix)
    made.stack = reason.stack
    return made


def with_user_stack(error: GraphBreak, trace: Trace) -> GraphBreak:
    """The error with the user's stack where it happened."""
    error.stack = error.stack or trace.failed_at
    return error


def check_break(job: Any, reason: GraphBreak, trace: Any) -> None:
    try:
        check_splittable(job.code, job.instrs)
    except Unsupported as lack:
        error = GraphBreak.of(lack)
        error.stack = reason.stack
        raise SkipFrame(error) from reason
    if trace.root.instr.index < first_own(job.code, job.instrs) or job.listing.reads_frame or reason.whole_frame:
        raise SkipFrame(reason)


class Trace:
    """One pass over the frame, and the entry that comes of it."""

    result: Variable | None  # None: it stopped before a break
    final_grad_mode: bool

    def __init__(self, job: Conversion, stop: int | None, reason: GraphBreak | None, assumptions: Assumptions):
        self.job, self.stop, self.reason = job, stop, reason
        self.tx = TraceContext(inline, load_global, job.options, getattr(job.options, "symbolic", None) or {}, assumptions)
        self.root = Frame(self.tx, job.code, job.globals, self.arguments(), self.free_cells(), job.instrs, stop, root=True)
        self.root.trusted, self.tx.watch = False, self.watch()
        self.tx.env.relies = self.tx.watch.relies
        self.failed_at: tuple = ()
        self.compiled = None

    def watch(self) -> Watch:
        options, first = self.job.options, ORIGINS.get(self.job.code, (self.job.code,))[0]
        given = frozenset(first.co_varnames[: arguments_of(first)])
        return Watch(
            getattr(self.job.cache, "growth", None) or Growth(),
            getattr(options, "history", None) or History(),
            functools.partial(original_position, self.tx.frames),
            given,
            not options.fullgraph,
        )

    def arguments(self) -> dict[str, Variable]:
        cells = self.job.code.co_cellvars
        return {
            name: LazyVariable(self.tx, value, LocalCell(name) if name in cells else Local(name))
            for name, value in self.job.slots.items()
            if name not in self.job.code.co_freevars
        }

    def free_cells(self) -> list[CellVariable]:
        names = self.job.code.co_freevars
        return [self.tx.cell(cell, Free(name, i)) for i, (name, cell) in enumerate(zip(names, self.job.closure))]

    def run(self) -> None:
        """Interpret; the outcome is a result variable or the state at the break."""
        mode = dispatch.state.grad
        self.tx.guards.add(None, "grad_mode", mode)
        self.tx.guards.add(None, "casting", dispatch.state.casting)
        settings = autocast_mode.settings()
        self.result, lookups.seen, lookups.edits = None, self.tx.lookups, self.tx.class_edits
        try:
            self.result = self.root.run()
            self.refuse_unfinished()
        except StopTrace:
            self.refuse_unfinished()
        except UserRaise as error:
            self.failed_at = error.stack or self.where()
            raise error.variable.made_by_python(f"the program raises: {error.text or error.variable.describe()}") from error
        except GraphBreak as error:
            self.failed_at = error.stack or self.where()
            raise
        except RecursionError as error:
            self.failed_at = self.where()
            raise unsupported("recursion", f"{self.job.code.co_qualname} nests too deeply") from error
        finally:
            lookups.seen = lookups.edits = None
            self.final_grad_mode = dispatch.state.grad
            dispatch.state.grad = mode
            autocast_mode.restore(settings)

    def refuse_unfinished(self) -> None:
        for generator in self.tx.generators:
            generator.refuse_unfinished()

    def where(self) -> tuple:
        place = self.root.place()
        return (place,) if place else ()

    def forget(self) -> None:
        """Let go of the program's values, which live no longer for having been looked at."""
        self.root.slots, self.root.stack = {}, []
        self.tx.memory.clear()
        self.tx.frames.clear()
        self.tx.generators.clear()
        self.tx.effects.forget()
        self.tx.env.relies = None

    # -- the entry -------------------------------------------------------------------------------------------------

    def finish(self, record: compile_log.CompileRecord) -> Any:
        """Graph to callable, guards to tree, state to bytecode."""
        body = Emitter(self.root.instr.position if self.root.instr else NOWHERE)
        gen = Codegen(self.tx, body)
        self.tx.watch.note_writes(self.tx.effects)
        if self.reason is not None and self.reason.guard is not None:
            self.tx.guard(*self.reason.guard)
        with record.stage("bytecode"):
            self.write_tail(gen)
        refuse_escaped(self.tx, gen.outputs)
        outputs, spent = free_used_history(self.tx, gen.outputs)
        inputs = self.tx.tracer.finish(outputs)
        work = self.tx.tracer.has_work()
        if work and self.stop is None and (why := self.backend_leaves(inputs)):
            return self.left(record, why)
        if work:
            self.compiled = with_freed_history(self.tx, self.compile_graph(record, inputs), spent, inputs)
        self.tx.tracer.check_marks()
        if self.stop is None and not work and not gen.outputs and self.tx.effects.empty():
            return self.untouched(record)
        code = self.write_code(gen, body, inputs, work)
        tree, nodes = build_tree(self.tx, inputs)
        self.describe(record, code)
        if self.reason is not None:
            report_break(self.job, self.reason, record)
        direct = self.direct_output(gen, inputs) if work else None
        return native.Entry(
            guards=tree,
            code=code,
            keepalive=self.compiled,
            direct=self.compiled if direct is not None else None,
            inputs=nodes,
            output=direct[0] if direct is not None else None,
            breaks=self.stop is not None,
            fallible=work,
        )

    def untouched(self, record: compile_log.CompileRecord, left: bool = False) -> Any:
        """Nothing for a graph to do: the original code is the best code."""
        tree, _ = build_tree(self.tx, [])
        self.describe(record, self.job.code)
        return native.Entry(guards=tree, code=self.job.code, breaks=False, fallible=False, left=left)

    def backend_leaves(self, inputs: list) -> str | None:
        """Why a backend leaves a whole frame to Python, or None. Its own code is right for every call that the guards accept."""
        ask = self.job.options.backend.leaves
        return ask and ask(self.tx.tracer.graph, [value for _, _, value in inputs], self.job.options.options)

    def left(self, record: Any, why: str) -> Any:
        """Compiled code could do nothing but what the frame's own code does."""
        self.tx.tracer.check_marks()
        self.tell_graph(record)
        counters.add("left", why)
        record.left = why
        record.note(f"left to Python: {why}")
        return self.untouched(record, left=True)

    def tell_graph(self, record: compile_log.CompileRecord) -> None:
        graph = self.tx.tracer.graph
        if config.verify:
            graph.lint()
        if compile_log.wanted():
            text = graph.print_python()
            record.text("graph.py", text)
            log.channel("graph")(text)

    def compile_graph(self, record: compile_log.CompileRecord, inputs: list) -> Any:
        graph = self.tx.tracer.graph
        self.tell_graph(record)
        counters.add("graphs")
        values = [value for _, _, value in inputs]
        record.inputs = tuple(weakref.ref(value) if isinstance(value, Tensor) else None for value in values)
        try:
            with record.stage("backend"):
                backend = self.job.options.backend
                if graph.draws and random.in_order is not None:
                    from ..graph.functionalize_rng import FunctionalizeRng

                    backend = FunctionalizeRng(backend)
                with setting(autocast=None):
                    compiled = split_at_reads(graph, backend) or backend(graph, values)
                record.graphs.append((graph, backend, compiled))
                return compiled if dispatch.state.autocast is None else WithoutCasts(compiled)
        except Unsupported as error:
            raise SkipFrame(GraphBreak.of(error)) from error

    def describe(self, record: compile_log.CompileRecord, code: types.CodeType) -> None:
        record.text("guards.txt", tree_text(self.tx))
        if config.dump or log.enabled("bytecode"):
            both = f"before\n{text(self.job.instrs)}\n\nafter\n{text(decode(code))}\n"
            record.text("bytecode.txt", both)
            log.channel("bytecode")(f"{code.co_qualname}\n{both}")

    # -- bytecode --------------------------------------------------------------------------------------------------

    def write_code(self, gen: Codegen, body: Emitter, inputs: list, work: bool) -> types.CodeType:
        e = Emitter(next((i.position for i in self.job.instrs if i.position[0] is not None), NOWHERE))
        e.prologue(self.job.instrs)
        for name in self.job.code.co_cellvars:
            if name in self.job.slots:
                e.load_deref(name)
                e.store_fast(cell_argument(name))
        self.write_rests(e)
        if work:
            e.load_const(self.compiled)
            e.as_callable()
            for _, source, _ in inputs:
                source.reconstruct(e)
            e.call(len(inputs))
            e.store_fast(gen.results)
        elif gen.outputs:
            raise InternalError("a graph without operations has outputs that are no inputs")
        if work and self.stop is not None or is_resume(self.job.code):
            write_taken(e)
        e.extend(body.instrs)
        return e.assemble(self.job.code)

    def write_rests(self, e: Emitter) -> None:
        """What iterators from outside have still to give, before they are moved on."""
        for iterator in self.tx.effects.iterators:
            e.load_const(rest_of)
            e.as_callable()
            iterator.known_source.reconstruct(e)
            e.call(1)
            e.store_fast(rest_local(iterator.known_source))

    def write_tail(self, gen: Codegen) -> None:
        """Everything behind the graph call."""
        if self.stop is None:
            self.write_return(gen)
        else:
            self.write_break(gen)

    def write_return(self, gen: Codegen) -> None:
        assert self.result is not None
        if not self.tx.effects.empty() or self.final_grad_mode != self.tx.initial_grad_mode:
            gen.keep(self.result)
            self.tx.effects.replay(gen)
            self.write_grad_mode(gen)
        gen.load(self.result)
        gen.emit.return_value()

    def write_grad_mode(self, gen: Codegen) -> None:
        if self.final_grad_mode != self.tx.initial_grad_mode:
            gen.load_call(set_grad, [gen.constant(self.final_grad_mode)])
            gen.emit.pop()

    def write_break(self, gen: Codegen) -> None:
        """Locals, cells and stack as Python would have them, the instruction, and a resume door for each way on."""
        root, code, index = self.root, self.job.code, self.root.ip
        if self.tx.exception_now is not None:
            raise self.tx.exception_now.made_by_python("an exception that only the trace raised is being handled")
        live = self.job.listing.live
        bound = {name: value for name, value in root.slots.items() if self.crosses(name, value, live.before(index))}
        gen.keep_all(v for n, v in bound.items() if v.resolved().source != Local(n))
        gen.keep_all(v for v in root.stack if v is not NULL)
        self.dead = self.keep_dead(gen, bound)
        self.tx.effects.replay(gen)
        self.write_grad_mode(gen)
        for name, value in (bound | self.dead).items():
            self.write_slot(gen, name, value)
        for value in root.stack:
            gen.load(value)
        for name in self.job.slots:
            if name not in bound and name not in self.dead and name in code.co_varnames and name not in code.co_cellvars:
                gen.emit.delete_fast(name)  # an argument that the program deleted, or that has another value now
        gen.emit.forget_temps()
        for iterator in self.tx.effects.iterators:
            gen.emit.delete_fast(rest_local(iterator.known_source))
        nulls = frozenset(i for i, value in enumerate(root.stack) if value is NULL)
        instr = self.job.instrs[index]
        before = write_hook_on if instr.op in HOOKED else None
        emit_break(gen.emit, self.job.instrs, index, len(root.stack), nulls, self.unbound(), self.leave, before=before)

    def keep_dead(self, gen: Codegen, bound: dict) -> dict[str, Variable]:
        """Locals that are not read again live as long as their frame: those that exist outside of the trace. What only the graph
        would compute, nobody can miss."""
        code = self.job.code
        names = [n for n in self.root.slots if n not in bound and n[0] != SYNTHETIC and is_local(code, n)]
        dead: dict[str, Variable] = {n: self.root.slots[n].resolved() for n in names}
        dead = {n: v for n, v in dead.items() if isinstance(v, ConstantVariable) or v.source is not None or id(v) in gen.temps}
        gen.keep_all(v for n, v in dead.items() if v.source != Local(n))
        return dead

    def crosses(self, name: str, value: Variable, live: frozenset) -> bool:
        return isinstance(value, CellVariable) and name in self.job.code.co_cellvars or name in live

    def write_slot(self, gen: Codegen, name: str, value: Variable) -> None:
        if value.resolved().source == Local(name):  # as it was given
            return
        if isinstance(value, CellVariable) and value.local == name:
            gen.load(value)  # fills the cell that the prologue made
            gen.emit.pop()
        else:
            gen.load(value)
            gen.emit.store_fast(name)

    def unbound(self) -> frozenset:
        code = self.job.code
        names = {i.argval for i in self.job.instrs if i.op.endswith("_FAST") or i.op.startswith("LOAD_FAST")}
        names |= {*code.co_varnames, *code.co_cellvars}
        return frozenset(n for n in names if n not in self.root.slots)

    def leave(self, e: Emitter, index: int, depth: int, nulls: frozenset, unbound: frozenset) -> None:
        """Write the call of the resume door at an instruction."""
        dead = frozenset(self.dead).difference(unbound)
        point, door = self.door(index, depth, nulls, unbound, dead)
        assert self.reason is not None
        if self.reason.code == "growth" and not door.entries:
            self.hand_on(door, depth)
        exit_sequence(e, point, lambda e: e.load_const(door))

    def hand_on(self, door: Any, depth: int) -> None:
        """Tell the resume function what changes from call to call: the result of the instruction, and what was seen to here."""
        top = f"{SYNTHETIC}stack_{depth - 1}"
        door.__dict__.setdefault("history", History()).own.add(top)
        door.__dict__.setdefault("learned", AutomaticDynamic()).symbolic = dict(self.tx.symbolic) | {top: True}

    def door(self, index: int, depth: int, nulls: frozenset, unbound: frozenset, dead: frozenset) -> tuple:
        code, origin = origin_of(self.job.code, index)
        known = listing(code)
        relevant = frozenset(unbound) & frozenset((*code.co_varnames, *code.co_cellvars, *known.live.names))
        dead -= known.live.before(origin)
        key = (code, id(self.job.globals), origin, depth, nulls, relevant, dead)
        cut = split(code, origin, depth, nulls, unbound, instrs=known.instrs, live=known.live, empty=known.empty_cells, dead=dead)

        def make() -> Any:
            ORIGINS[cut.code] = code, indices_of(cut)
            made = native.Resume(self.job.cache, cut.code, self.job.globals, cut.code.co_qualname)
            made.__dict__.update(origin=code, of_root=is_root(self.job.cache, code))
            return made

        return cut, self.job.cache.resume(key, make)

    # -- direct calls ----------------------------------------------------------------------------------------------

    def direct_output(self, gen: Codegen, inputs: list) -> Any:
        """(output spec,) when the call is nothing but the graph and a plain structure of its results, else None."""
        if (
            self.stop is not None
            or self.result is None
            or not self.tx.effects.empty()
            or self.final_grad_mode != self.tx.initial_grad_mode
        ):
            return None
        places = {source: i for i, (_, source, _) in enumerate(inputs)}
        if self.tx.effects.attributes:
            return None
        spec = output_spec(self.result, gen.outputs, places, set())
        return None if spec is None else (spec,)


class WithoutCasts:
    """A compiled graph that is called while autocast is active: its casts are nodes already."""

    def __init__(self, compiled: Any):
        self.compiled = compiled

    def __call__(self, *inputs: Any) -> Any:
        with setting(autocast=None):
            return self.compiled(*inputs)


def output_spec(variable: Variable, outputs: list, places: dict, made: set) -> tuple | int | None:
    """The native entry's description of a result, or None where it has no word for it; `made`: containers so far."""
    variable = variable.resolved()
    if variable.source is not None:
        return (
            ("input", places[variable.source])
            if variable.source in places
            else ("const", variable.value)
            if isinstance(variable, ConstantVariable) and not is_open_text(variable)
            else None
        )
    if isinstance(variable, TensorVariable):
        return next(i for i, fake in enumerate(outputs) if fake is variable.fake)
    if isinstance(variable, ConstantVariable):
        return "const", variable.value
    if id(variable) in made:  # one list in two places: a description would make two
        return None
    made.add(id(variable))
    if getattr(variable, "known", made) is None:  # nobody has looked at its keys: that would be one more guard
        return None
    if isinstance(variable, (TupleVariable, ListVariable)) and variable.cls in (tuple, list):
        parts = [output_spec(item, outputs, places, made) for item in variable.items]
        return None if None in parts else (variable.cls.__name__, parts)
    if isinstance(variable, DictVariable) and variable.cls is dict and all(k.is_constant() for k in variable.keys()):
        parts = [output_spec(value, outputs, places, made) for _, value in variable.entries.values()]
        return None if None in parts else ("dict", [k.plain() for k in variable.keys()], parts)
    return None


def cell_argument(name: str) -> str:
    return f".arg_{name}"


def set_grad(mode: bool) -> None:
    dispatch.state.grad = mode


def write_hook_on(e: Emitter) -> None:
    e.run(native.hook_on)


# -- resume functions of resume functions ------------------------------------------------------------------------------


def origin_of(code: types.CodeType, index: int) -> tuple:
    """The code that was cut first, and where this instruction is in it."""
    first, indices = ORIGINS.get(code, (None, None))
    return (code, index) if first is None or indices[index] is None else (first, indices[index])


def is_root(cache: Any, code: types.CodeType) -> bool:
    """Whether it is the code of the compiled function itself."""
    wrapper = getattr(cache, "wrapper", lambda: None)()
    return wrapper is not None and wrapper.code is code


def original_position(frames: list) -> tuple:
    """(code, index) of the instruction that is interpreted, in the code that was cut first; (None, 0) outside of any."""
    if not frames or frames[-1].instr is None:
        return None, 0
    return origin_of(frames[-1].code, frames[-1].instr.index)


def arguments_of(code: types.CodeType) -> int:
    """How many of a function's variables callers give."""
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + starred


def indices_of(cut: Any) -> list:
    """For every instruction of the resume code, its index in the original (None: written by us)."""
    made = listing(cut.code).instrs
    offset = next(i for i, instr in enumerate(made) if instr.op == "JUMP") + 1
    same = len(cut.kept) == len(made) - offset
    return [None] * offset + (list(cut.kept) if same else [None] * (len(made) - offset))


# -- telling -----------------------------------------------------------------------------------------------------------


def report_break(job: Conversion, reason: GraphBreak, record: compile_log.CompileRecord, plain: bool = False) -> None:
    """Count a break and keep it with its line and advice; a line of the program hears once of what libraries do below it."""
    place = keep_break(job, reason, record, plain)
    below = line_of_program(reason.stack) if is_library_file(place.rpartition(":")[0]) else None
    tries = getattr(job.cache, "tries", None)
    tell_break(reason, place, below, silent=tries is not None and not tries.first_under(below, place))


def keep_break(job: Conversion, reason: GraphBreak, record: compile_log.CompileRecord, plain: bool) -> str:
    """What the record and its texts say of a break; gives the place."""
    stack = reason.stack
    where = f"{stack[-1][0]}:{stack[-1][1]}" if stack else f"{job.code.co_filename}:{job.code.co_firstlineno}"
    file, _, line = where.rpartition(":")
    record.breaks.append(compile_log.Break(reason.code, reason.text, file, int(line), reason.fix, plain))
    what = "runs plain" if plain else "graph break"
    source = stack[-1][2] if stack else job.code.co_qualname
    record.note(f"{what} [{reason.code}] {where}: {reason.text}")
    record.text("break.txt", f"{what} [{reason.code}]\n{where}: {source}\n{reason.text}\nwhat to do: {reason.fix}\n")
    return where
