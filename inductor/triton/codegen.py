"""A loop program as one file of Triton kernels that a person can run and edit.

In: a scheduled program with its memory plan. Out: `TritonSource`: the text, and for each launch what its arguments are. The
file holds the functions of `library.py` that it needs, the kernels, and `run`, which launches them in order; `run` is what
everything that executes or compiles the file calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...capture.shapes.expr import ExprLike, int_if_const, product, var
from ..loops.ir import GemmKernel, Kernel, LoopKernel, Program, ScatterKernel
from ..loops.lower import hint
from . import fallbacks
from .attention import has_template, write_attention
from .float8 import write_cast
from .helpers import library, needed
from .bitonic_sort import write_order
from .products import write_convolution, write_product
from .row_kernels import write_loops
from .scans import write_scan
from .scatters import write_scatter
from .triton_text import TAKEN, Lines, Names, expression
from .block_values import Argument, TritonKernel, describe

WIDE = 1 << 31


@dataclass
class TritonSource:
    """text: the file; kernels: names in launch order; names: buffer -> attribute of `t`; rows: attribute -> (type, elements)
    of the memory for local rows; choices: of each launch, changes of its blocks that can be tried; pauses: (number of
    launches before it, which kernel of the program) for calls that eager runs."""

    text: str
    kernels: list[str]
    names: dict[str, str]
    rows: dict[str, tuple[Any, ExprLike]]
    choices: list[tuple[dict, ...]] = field(default_factory=list)
    pauses: list[tuple[int, int]] = field(default_factory=list)


def generate(program: Program) -> TritonSource:
    return Writer(program).generate()


class Writer:
    """Collects kernels by their text, and the lines of `run`."""

    def __init__(self, program: Program):
        self.program = program
        self.names = Names(TAKEN | set(library()))
        self.memory = Names({"error", "seed", "base", "eager", *(s.name for s in (*program.symbols, *program.floats))})
        self.functions: dict[str, str] = {}  # canonical code -> name
        self.printed: list[str] = []
        self.called: dict[str, str] = {}  # kernel of the program -> the first function that is launched for it
        self.run = Lines(1)
        self.kernels: list[str] = []
        self.choices: list[tuple[dict, ...]] = []
        self.pauses: list[tuple[int, int]] = []
        self.rows: dict[str, tuple[Any, ExprLike]] = {}

    def generate(self) -> TritonSource:
        for number, kernel in enumerate(self.program.kernels):
            found = write(self.program, kernel)
            if found is None:
                self.pause(number, kernel)
            for written in found or ():
                self.launch(written)
        names = {b.name: self.memory(b.name, b.name) for b in self.program.buffers}
        return TritonSource(self.file(), self.kernels, names, self.rows, self.choices, self.pauses)

    # -- kernels

    def launch(self, written: TritonKernel) -> None:
        """One line of `run`; a kernel with a text that was printed before is not printed again."""
        wide = self.is_wide(written)
        parameters = [
            *written.arguments,
            "INDEX: tl.constexpr",
            *(f"{name}: tl.constexpr" for name in written.blocks if not name.startswith("num_")),
        ]
        code = "\n".join([f"({', '.join(parameters)}):", *written.body])
        meaning = canonical(code, written.arguments)
        name = self.functions.get(meaning)
        if name is None:
            name = self.functions[meaning] = self.names.fresh(written.name)
            comments = "\n".join(f"# {line}" for line in describe(written.kernel))
            self.printed.append(f"{comments}\n@triton.jit\ndef {name}{wrapped(code)}")
        else:
            self.run.extend(f"# {o.node}" + (f"   {o.line}" if o.line else "") for o in written.kernel.origins)
        self.kernels.append(name)
        self.choices.append(written.choices)
        self.called.setdefault(written.kernel.name, name)
        given = [
            *(self.argument(written, key) for key in written.arguments),
            f"INDEX={wide}",
            *(f"{key}={block(value)}" for key, value in written.blocks.items()),
        ]
        call = f"launch({name}, lambda b: {written.grid}, {', '.join(given)})"
        for line in folded(call):
            self.run(line)

    def pause(self, number: int, kernel: Kernel) -> None:
        """A call that eager runs between launches."""
        self.pauses.append((len(self.kernels), number))
        self.run(f"# {fallbacks.fallback_note(kernel)}")
        self.run(f"t.eager({number})")

    def argument(self, written: TritonKernel, name: str) -> str:
        argument: Argument = written.arguments[name]
        if argument.kind == "buffer":
            return f"t.{self.memory(argument.key.name, argument.key.name)}"
        if argument.kind == "scratch":
            made = self.memory((written.kernel.name, name), name)
            self.rows[made] = argument.key.dtype, written.rows[name]
            return f"t.{made}"
        return "t.error" if argument.kind == "error" else f"t.{argument.key}" if argument.kind != "size" else argument.key

    def is_wide(self, written: TritonKernel) -> str:
        """The type of positions: 32 bits where every array and the number of points allow it."""
        buffers = [a.key for a in written.arguments.values() if a.kind in ("buffer", "scratch")]
        sizes = [int_if_const(b.extent()) for b in buffers] + [int_if_const(product(written.points[:1])), *written.points[1:]]
        known = [n for n in sizes if isinstance(n, int)]
        largest = max(known, default=0)
        if len(known) == len(sizes):
            return "tl.int64" if largest >= WIDE else "tl.int32"
        shown = dict.fromkeys(expression(n, host=True) for n in sizes if not isinstance(n, int))
        return f"index({', '.join([*shown, str(largest)])})"

    # -- the file

    def file(self) -> str:
        body = "\n\n\n".join(self.printed)
        helpers = needed(body)
        symbols = "".join(f", {s.name}" for s in self.program.symbols)
        lines = [
            f'"""{self.program.name}: {len(self.kernels)} launches of {len(self.printed)} kernels. '
            'Run this file to see it at work."""',
            "",
            "import triton",
            "import triton.language as tl",
        ]
        if "libdevice." in body or any("libdevice." in h for h in helpers):
            lines.append("from triton.language.extra import libdevice")
        if self.program.kernels:
            lines += ["", "", *"\n\n\n".join(helpers).split("\n")] if helpers else []
        lines += [
            "",
            "",
            body,
            "",
            "",
            f"def run(launch, t{symbols}):",
            '    """Launch the kernels in order. `t` has the arrays; launch(kernel, grid over block sizes, *arguments)."""',
            *(self.run.lines or ["    pass"]),
            "",
            "",
            "def cdiv(a, b):",
            "    return (a + b - 1) // b",
            "",
            "",
            "def index(*sizes):",
            '    """The type of positions in arrays of these sizes."""',
            "    return tl.int64 if max(sizes) >= 1 << 31 else tl.int32",
            "",
            "",
            self.table(),
            "",
            "",
            'if __name__ == "__main__":',
            "    from flambeau.inductor.triton.run_file import main",
            "    main(run, buffers)",
            "",
        ]
        return "\n".join(lines)

    def table(self) -> str:
        """The arrays, as a function of the sizes."""
        out = Lines()
        symbols = ", ".join(f"{s.name}={hint_of(self.program, s.name)}" for s in self.program.symbols)
        with out.block(f"def buffers({symbols}):"):
            out('"""name -> (kind, type, sizes, elements of memory)."""')
            with out.block("return {"):
                for b in self.program.buffers:
                    sizes = "".join(f"{expression(n, host=True)}, " for n in b.sizes)
                    extent = expression(b.extent(), host=True)
                    out(f'"{self.memory(b.name, b.name)}": ("{b.kind}", "{b.dtype.name}", ({sizes.strip()}), {extent}),')
                for name, (dtype, elements) in self.rows.items():
                    extent = expression(elements, host=True)
                    out(f'"{name}": ("row", "{dtype.name}", ({extent},), {extent}),')
            out("}")
        return out.text()


def hint_of(program: Program, name: str) -> int:
    return hint(var(name))


def block(value: Any) -> str:
    return f'"{value}"' if value in ("ieee", "tf32") else str(value)


def write(program: Program, kernel: Any) -> list[TritonKernel] | None:
    """The launches of a kernel; None: there is no text for it."""
    if isinstance(kernel, LoopKernel):
        return [write_loops(program, kernel)]
    if isinstance(kernel, GemmKernel):
        return [write_product(program, kernel)]
    if isinstance(kernel, ScatterKernel):
        return write_scatter(program, kernel)
    if kernel.calls is not None:
        return write_attention(program, kernel) if has_template(kernel.calls[0]) else [write_convolution(program, kernel)]
    made = write_scan(program, kernel) or write_cast(program, kernel)
    return write_order(program, kernel) if made is None else [made]


# -- text


def canonical(code: str, arguments: Iterable[str]) -> str:
    """The code with parameters and variables numbered as they appear: two kernels that differ in names only are one."""
    mine = set(arguments)
    for names in re.findall(r"^ *(\w+(?:, \w+)*) = ", code, re.MULTILINE):
        mine.update(names.split(", "))
    seen: dict[str, str] = {}
    number = lambda word: seen.setdefault(word, f"v{len(seen)}") if word in mine else word
    return re.sub(r"(?<![.\w\"])[A-Za-z_]\w*", lambda match: number(match[0]), code)


def wrapped(code: str) -> str:
    """A definition whose parameters stand on lines of readable length."""
    head, _, rest = code.partition("\n")
    if len(head) <= 100:
        return code
    return "(\n        " + "\n        ".join(pieces(head[1:-2], 108)) + "):\n" + rest


def folded(call: str) -> list[str]:
    if len(call) <= 116:
        return [call]
    head, _, rest = call.partition(", ")
    lines = [f"{head},", *("       " + line for line in pieces(rest[:-1], 108))]
    return [*lines[:-1], lines[-1] + ")"]


def pieces(text: str, width: int) -> list[str]:
    """A row of arguments, broken at commas outside of parentheses."""
    lines, line, depth, word = [], "", 0, ""
    for ch in text + ",":
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0:
            word = word.strip()
            if line and len(line) + len(word) + 2 > width:
                lines.append(line + ",")
                line = word
            else:
                line = f"{line}, {word}" if line else word
            word = ""
        else:
            word += ch
    return [*lines, line]
