"""A loop program as C++: readable kernels, one entry point that runs them in order, one that plans memory.

In: a scheduled `Program` with its memory plan. Out: `CppSource`: translation units (kernels spread over as many as
there are cores) and what the wrapper must know. Equal kernels are emitted once. The text depends on nothing but the
program.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

from ...capture.shapes.expr import Expr, ExprLike
from ...capture.shapes.symbolic_shapes import SymFloat
from ...runtime.config import config
from ...runtime.dataclass import data
from ...runtime.errors import InternalError
from ..loops.body import Buffer, is_zero
from ..loops.ir import ExternCall, Program, View, leaves
from .extern_calls import PointerText, call_lines, call_work, list_lines, real, rounds
from .headers import needed
from .prims import type_of
from .templates import write_kernel
from .cpp_text import Lines, Names, cpp, factor, identifier, prelude
from .kernel_writer import CppKernel, describe

SMALL = 6  # functions that one translation unit may have before a second one pays
EACH = 6500  # characters that take the C++ compiler as long as any function does, however short it is: 20 ms
LONG = 16  # calls from which on an entry point is compiled in a hurry: it only fills in structs, once a call
HURRY = ' __attribute__((optimize("O0")))'
EXPORT = 'extern "C" __attribute__((visibility("default")))'


@data
class CppSource:
    """C++ texts, and the order of fresh outputs, externs and kernels that the entry point uses."""

    sources: list[str]
    outputs: list[Buffer]
    externs: list[ExternCall]
    kernels: list[str]
    numbers: list[ExprLike]  # symbolic results, at the end of the plan
    lines: list[tuple[str, ...]]  # of each kernel: the user's lines
    regions: list[tuple[str, ...]]  # of each kernel: the `record_function` blocks, outermost first

    @property
    def text(self) -> str:
        """All of it as one readable file, the prelude left out."""
        return "\n".join(source.split(MARK, 1)[-1].lstrip() for source in self.sources)


def all_origins(kernel: Any) -> list:
    """With what was computed on the way, in that order."""
    return [each for origin in kernel.origins for each in (*origin.within, origin)]


def user_lines(kernel: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(origin.line for origin in all_origins(kernel) if origin.line))


def regions_of(kernel: Any) -> tuple[str, ...]:
    """A kernel that was fused across blocks counts for the innermost one."""
    return max((origin.regions for origin in all_origins(kernel)), key=len, default=())


MARK = "// ---- end of the prelude ----\n"


def generate(program: Program) -> CppSource:
    return Writer(program).generate()


class Writer:
    """Collects functions by their text, and the lines of the entry point."""

    def __init__(self, program: Program):
        self.program = program
        self.names = Names()
        self.functions: dict[str, str] = {}  # text with placeholders -> name
        self.printed: list[tuple[str, str]] = []  # (name, readable text)
        self.outputs = [b for b in program.buffers if b.kind == "output"]
        self.constants = [b for b in program.buffers if b.kind == "const"]
        given = [*program.inputs, *self.constants, *self.outputs]
        self.positions = {b.name: k for k, b in enumerate(given) if isinstance(b, Buffer)}
        self.externs: list[ExternCall] = []
        self.kernels: list[str] = []
        self.lines: list[tuple[str, ...]] = []
        self.regions: list[tuple[str, ...]] = []
        self.called: dict[str, str] = {}  # kernel -> the function that it calls
        self.work: list[str] = []
        self.numbers = [o for o in program.outputs if isinstance(o, (Expr, int)) and not isinstance(o, bool)]

    def generate(self) -> CppSource:
        run = Lines(1)
        for kernel in self.program.kernels:
            if isinstance(kernel, ExternCall):
                (self.call_extern if kernel.calls is None else self.call_runtime)(run, kernel)
            else:
                self.call_kernel(run, kernel)
        entry = "\n\n".join([self.entry(run), self.plan()])
        return CppSource(self.units(entry), self.outputs, self.externs, self.kernels, self.numbers, self.lines, self.regions)

    # -- functions

    def call_kernel(self, run: Lines, kernel: Any) -> None:
        self.call_written(run, write_kernel(self.program, kernel))

    def call_written(self, run: Lines, written: CppKernel) -> None:
        for earlier in written.extra:
            self.call_written(run, earlier)
        shared = written.code in self.functions
        name = self.function(written) if written.code else ""
        number = len(self.kernels)
        self.kernels.append(written.kernel.name)
        self.lines.append(user_lines(written.kernel))
        self.regions.append(regions_of(written.kernel))
        self.called[written.kernel.name] = name
        self.work.append(written.work)
        for line in self.heading(written, name, shared):
            run(f"// {line}")
        run.open("")
        run(f"Timer timer(rt, {number});")
        pointers = [self.moved(b, written.starts.get(b.name, 0)) for b in written.buffers]
        run(f"void* p[] = {{{', '.join(pointers) or 'nullptr'}}};")
        for line in written.call:
            run(line.replace("{fn}", name))
        run.close()
        if written.fallible:
            run("if (error) return error;")

    @staticmethod
    def heading(written: CppKernel, name: str, shared: bool) -> list[str]:
        """The comment of a call; one of a function that was printed for an equal kernel tells its own origins."""
        told = describe(written.kernel)
        if not written.code:
            return told
        return [f"{written.kernel.name}: {name}", *(told[1 : 1 + len(written.kernel.origins)] if shared else [])]

    def function(self, written: CppKernel) -> str:
        """The name of the function with this text; a new text is printed with the names of its first buffers."""
        name = self.functions.get(written.code)
        if name is None:
            name = self.functions[written.code] = self.names.fresh("kernel_" + identifier(written.kernel.name).rstrip("_"))
            comment = "\n".join(f"// {line}" for line in describe(written.kernel))
            self.printed.append((name, f"{comment}\n{readable(written, name)}"))
        return name

    # -- the entry point

    def pointer(self, buffer: Buffer) -> str:
        return self.names(buffer.name, buffer.name)

    def moved(self, buffer: Buffer, start: ExprLike) -> str:
        """The address `start` elements into a buffer."""
        name = self.pointer(buffer)
        return name if is_zero(start) else f"({type_of(buffer.dtype).c}*){name} + {factor(start)}"

    def entry(self, run: Lines) -> str:
        out = Lines()
        arguments = "void** buffers, const i64* sym, const double* fsym, char* arena, const FbRuntime* rt"
        out.open(f"{EXPORT}{self.effort()} int fb_run({arguments})")
        out("int error = 0;")
        self.symbols(out)
        for k, buffer in enumerate([*self.program.inputs, *self.constants, *self.outputs]):
            if isinstance(buffer, Buffer):
                out(f"void* const {self.pointer(buffer)} = buffers[{k}];   // {buffer.text()}")
        for buffer in self.program.buffers:
            if buffer.kind == "temp":
                place = f"{self.home(buffer)} + {factor(self.place(buffer))}"
                out(f"void* const {self.pointer(buffer)} = {place};   // {buffer.text()}")
        out("")
        out.extend(line[4:] if line.startswith("    ") else line for line in run.lines)
        out("return error;")
        out.close()
        return out.text()

    def effort(self) -> str:
        """GCC's passes take longer for a long straight line of calls than for all the kernels: 12 layers of a GPT's
        backward 2.9 s, without optimisation 0.9 s."""
        return HURRY if len(self.kernels) + len(self.externs) >= LONG else ""

    def home(self, buffer: Buffer) -> str:
        """The arena, or the donated input that the temp lies in."""
        name = self.program.homes.get(buffer.name)
        return "arena" if name is None else f"(char*){self.names(name, name)}"

    def place(self, buffer: Buffer) -> ExprLike:
        if buffer.name not in self.program.arena:
            raise InternalError(
                f"temp {buffer.name} has no place in the arena: memory.plan has not run on program {self.program.name}"
            )
        return self.program.arena[buffer.name]

    def symbols(self, out: Lines) -> None:
        for k, symbol in enumerate(self.program.symbols):
            out(f"const i64 {symbol.name} = sym[{k}];")

    def call_extern(self, run: Lines, kernel: ExternCall) -> None:
        number = len(self.externs)
        self.externs.append(kernel)
        regions = [*leaves(kernel.args, View), *kernel.outputs]
        numbers = [cpp(e) for region in regions for e in (*region.sizes, *region.strides)]
        for e in leaves(kernel.args, (Expr, SymFloat)):
            numbers.append(f"__builtin_bit_cast(i64, (double)({real(e, self.scalar)}))" if isinstance(e, SymFloat) else cpp(e))
        pointers = [self.region(region) for region in regions]
        for line in (f"{kernel.name}: eager call of {kernel.op.name}", *(f"  {o.node}   {o.line}" for o in kernel.origins)):
            run(f"// {line}")
        run.open("")
        run(f"void* p[] = {{{', '.join(pointers)}}};")
        run(f"const i64 numbers[] = {{{', '.join([*numbers, '0'])}}};")
        run(f"if (rt->extern_call(rt->context, {number}, p, numbers)) return -1;")
        run.close()
        self.work.append("1")

    def call_runtime(self, run: Lines, kernel: ExternCall) -> None:
        """The runtime's kernels, called in place."""
        number = len(self.kernels)
        self.kernels.append(kernel.name)
        self.lines.append(user_lines(kernel))
        self.regions.append(regions_of(kernel))
        for line in (f"{kernel.name}: {kernel.op.name}", *(f"  {o.node}   {o.line}" for o in kernel.origins)):
            run(f"// {line}")
        run.open("")
        run(f"Timer timer(rt, {number});")
        for calls in rounds(kernel.calls or ()):
            run.open("")
            single = len(calls) == 1
            run.extend(call_lines(calls[0], self.region, self.scalar) if single else list_lines(calls, self.region, self.scalar))
            run.close()
            self.work += map(call_work, calls)
        run.close()

    def scalar(self, name: str) -> str:
        """A float input."""
        return f"fsym[{[s.name for s in self.program.floats].index(name)}]"

    def region(self, region: View | Buffer) -> str:
        """The address of a region's first element."""
        buffer = region.buffer if isinstance(region, View) else region
        if is_zero(region.offset) and buffer.name in self.positions:
            return PointerText.of(self.pointer(buffer), self.positions[buffer.name])
        return self.moved(buffer, region.offset)

    def plan(self) -> str:
        """plan[0]: arena bytes, plan[1]: work; then sizes and strides of each output, then symbolic results."""
        out = Lines()
        out.open(f"{EXPORT}{self.effort()} void fb_plan(const i64* sym, i64* plan)")
        self.symbols(out)
        out(f"i64 work = {sum(int(w) for w in self.work if w.isdigit())};")
        for text, times in Counter(w.replace(", rt)", ")") for w in self.work if not w.isdigit()).items():
            out(f"work += {times} * ({text});")
        values = [cpp(self.program.arena_size), "work"]
        values += [cpp(e) for b in self.outputs for e in (*b.sizes, *b.strides)] + [cpp(e) for e in self.numbers]
        if all(value.isdigit() for value in values[2:]) and len(values) > 2:
            out(f"static const i64 fixed[] = {{{', '.join(values[2:])}}};")
            out("for (int k = 0; k < (int)(sizeof fixed / sizeof *fixed); k++) plan[k + 2] = fixed[k];")
            values = values[:2]
        for k, value in enumerate(values):
            out(f"plan[{k}] = {value};")
        out.close()
        return out.text()

    # -- translation units

    def units(self, entry: str) -> list[str]:
        """Functions dealt out by length; the entry point, which needs them all declared, goes with the first unit."""
        count = 1 if len(self.printed) <= SMALL else min(config.threads or os.cpu_count() or 1, 1 + len(self.printed) // SMALL)
        piles: list[list[tuple[str, str]]] = [[] for _ in range(count)]
        loads = [len(entry) // 2, *[0] * (count - 1)]  # the entry point is long but quick to compile
        for item in sorted(self.printed, key=lambda item: -len(item[1])):
            number = loads.index(min(loads))
            piles[number].append(item)
            loads[number] += EACH + len(item[1])
        order = {name: k for k, (name, _) in enumerate(self.printed)}
        sources = []
        for number, pile in enumerate(piles):
            parts = [text for _, text in sorted(pile, key=lambda item: order[item[0]])]
            if number == 0:
                parts = [*self.declarations(pile), *parts, entry]
            text = "\n\n".join(part if count == 1 else exported(part) for part in parts)
            sources.append(f"{needed(prelude(), text)}{MARK}\n\n{text}\n")
        return sources

    def declarations(self, here: list[tuple[str, str]]) -> list[str]:
        names = {name for name, _ in here}
        return (
            ["\n".join(header(text) + ";" for name, text in self.printed if name not in names)]
            if len(names) < len(self.printed)
            else []
        )


def readable(written: CppKernel, name: str) -> str:
    """The function with buffers' names for placeholders; none hides a name of the function's own."""
    text = written.code.replace("{fn}", name)
    names = Names()
    names.used.update(re.findall(r"[A-Za-z_]\w*", re.sub(r"@\d+@", "", text)))
    for k, buffer in enumerate(written.buffers):
        text = text.replace(f"@{k}@", names(buffer.name, buffer.name))
    return text


def header(text: str) -> str:
    return exported(next(line for line in text.splitlines() if line.startswith("static void"))).removesuffix(" {")


def exported(text: str) -> str:
    """A function that the other translation units call (hidden outside of the shared object)."""
    return (
        text.replace("\nstatic void ", '\nextern "C" void ')
        if not text.startswith("static void ")
        else 'extern "C" ' + text.removeprefix("static ")
    )
