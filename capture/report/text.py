"""A report for a terminal: a summary, then tables and source lines.

In: a `Report`. Out: plain text, or the same tables by rich where that package is installed. Both are made of `sections`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .data import Facts, Frame, Graph, Kernel, Program, Source
from .diagnostics import findings
from .format import amount, count, percent, seconds

STACK = re.compile(r"%stack_(\d+)")
MARKS = {"graph": "+", "break": "!", "python": "p", "none": " "}
MOST_KERNELS, MOST_GUARDS, LONGEST_FORMULA = 40, 12, 90
STYLES = {"graph": "green", "break": "bold red", "python": "yellow", "none": "dim"}


@dataclass
class Section:
    """A title over lines, or over a table with headers; style: of each line, for terminals with colours."""

    title: str
    headers: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)


def text(report: Facts) -> str:
    """Plain text without colours."""
    return "\n\n".join("\n".join(plain_lines(section)) for section in sections(report)) + "\n"


def show(report: Facts) -> None:
    try:
        from rich.console import Console
    except ImportError:
        print(text(report), end="")
    else:
        Console().print(*map(rich_section, sections(report)), sep="\n")


def sections(report: Facts) -> Iterator[Section]:
    yield Section(summary(report), rows=[(note,) for note in report.notes])
    if found := findings(report):
        yield Section("What to do", rows=[(line,) for one in found for line in one.text().splitlines()])
    yield Section("Frames", ("", "function", "place", "graphs", "guards", "compiled in", ""), [*map(frame_row, report.frames)])
    if report.recompiles:
        yield Section("Recompiled because", rows=[row for frame in report.recompiles for row in failed_rows(frame)])
    for source in report.sources:
        yield source_section(source, report)
    for graph in report.graphs:
        for program in graph.programs:
            yield program_section(graph, program)
        if graph.symbols and graph.programs:
            yield formulas(graph)
        if graph.note:
            yield Section(f"{graph.name}: {graph.note}")
        if graph.symbols:
            yield Section(
                f"Symbols of {graph.name}",
                ("", "read from", "first call", "code for"),
                [(s.name, s.places, s.hint, s.takes) for s in graph.symbols],
            )
    yield memory_section(report)
    yield Section("Compile time", ("stage", "time", "share"), stages(report))
    for frame in report.frames:
        rows = [(readable(f"{guard.text}   # {guard.line}"),) for guard in frame.guards[:MOST_GUARDS]]
        more = len(frame.guards) - len(rows)
        rows += [(f"... and {more} more",)] if more > 0 else []
        yield Section(f"Guards of {frame.function}, version {frame.version}", rows=rows)


def summary(report: Facts) -> str:
    machine = report.machine
    facts = [
        count(len(report.frames), "frame"),
        count(len(report.graphs), "graph"),
        count(len(report.breaks), "break"),
        count(len(report.recompiles), "recompile"),
        count(len(report.kernels), "kernel"),
    ]
    roof = f"{amount(machine.flops, 'FLOP/s')}, {amount(machine.bandwidth, 'B/s')}"
    return (
        f"{report.title}: {', '.join(facts)}; compiled in {seconds(report.compile_seconds)}\n"
        f"{report.backend}, {count(machine.threads, 'thread')}, {machine.isa}, at most {roof}"
    )


def readable(told: str) -> str:
    """A guard with the short name of the file, and words for a value that an unfinished expression of the frame holds."""
    told, _, where = told.partition("   # ")
    return STACK.sub(r"the waiting value \1", told) + (f"   # {os.path.basename(where)}" if where else "")


def frame_row(frame: Frame) -> tuple[str, ...]:
    kept = "from the cache" if frame.cached else f"left to Python: {frame.left}" if frame.left else ""
    return (
        str(frame.number),
        frame.function,
        f"{os.path.basename(frame.file)}:{frame.line}",
        ", ".join(map(str, frame.graphs)) or "none",
        str(len(frame.guards)),
        seconds(frame.seconds),
        " ".join(filter(None, (frame.kind, kept))),
    )


def failed_rows(frame: Frame) -> list[tuple[str, ...]]:
    rows = [(f"{frame.function} ({os.path.basename(frame.file)}:{frame.line}), version {frame.version}",)]
    for number, failed in enumerate(frame.failed):
        rows += [(f"    version {number}: {readable(line)}",) for line in failed.splitlines()]
    return rows


def source_section(source: Source, report: Facts) -> Section:
    rows = [(f"{MARKS[line.status]} {line.number:5} {line.text}" + line_note(line, report),) for line in source.lines]
    return Section(
        f"{source.function or 'line'} in {os.path.basename(source.file)}   (+ in a graph, ! break, p in Python)",
        rows=rows,
        styles=[STYLES[line.status] for line in source.lines],
    )


def line_note(line: Any, report: Facts) -> str:
    kernels = {(g, *kernel) for g, k in line.nodes for kernel in report.graphs[g].nodes[k].kernels}
    if line.breaks:
        frame, k = line.breaks[0]
        return f"    <- {report.frames[frame].breaks[k].text}"
    graphs = ", ".join(map(str, sorted({g for g, _ in line.nodes})))
    told = f"    -> graph {graphs}" if line.nodes else ""
    return told + (f", {count(len(kernels), 'kernel')}" if kernels else "")


def program_section(graph: Graph, program: Program) -> Section:
    dear = sorted(program.kernels, key=lambda k: -(k.seconds or 0.0))[:MOST_KERNELS]
    shown = [k for k in program.kernels if any(k is other for other in dear)]
    title = f"{graph.name}, {program.name}: {count(len(program.kernels), 'kernel')}"
    title += f", {count(program.calls, 'call')}" + (f" of {seconds(program.seconds / program.calls)}" if program.calls else "")
    title += f", the {len(shown)} dearest" if len(shown) < len(program.kernels) else ""
    return Section(title, ("kernel", "kind", "moves", "computes", "takes", "of roofline", "what"), [*map(kernel_row, shown)])


def formulas(graph: Graph) -> Section:
    """What depends on the sizes; the rest is in the tables above."""
    costs = [
        *((f"{p.name}, {k.name}", k.cost) for p in graph.programs for k in p.kernels[:MOST_KERNELS]),
        ("all kernels", graph.cost),
    ]
    rows = [(name, shortened(cost.flops), shortened(cost.bytes)) for name, cost in costs if cost.symbols]
    return Section(f"Work of {graph.name} in its sizes", ("", "computes FLOP", "moves B"), rows)


def shortened(formula: object) -> str:
    told = "" if formula is None else str(formula)
    return told if len(told) <= LONGEST_FORMULA else told[:LONGEST_FORMULA] + " ..."


def kernel_row(kernel: Kernel) -> tuple[str, ...]:
    return (
        kernel.name,
        kernel.kind,
        amount(kernel.bytes),
        amount(kernel.flops, "FLOP"),
        seconds(kernel.seconds),
        roofline(kernel),
        kernel.headline,
    )


def roofline(kernel: Kernel) -> str:
    share = kernel.share
    return "" if share is None else "in cache" if share > 1.05 else percent(min(1.0, share))


def memory_section(report: Facts) -> Section:
    memory = report.memory
    rows = [
        ("parameters and buffers", amount(memory.parameters)),
        ("gradients", amount(memory.gradients)),
        ("optimizer state", amount(memory.optimizer)),
        ("activations, at most", amount(memory.activations)),
        ("together, at the peak", amount(memory.peak)),
        ("the allocator's peak in this process", amount(memory.allocator.get("peak"))),
    ]
    return Section("Memory", ("", ""), rows)


def stages(report: Facts) -> list[tuple[str, ...]]:
    total = report.compile_seconds or 1.0
    found: dict[tuple, float] = {}
    for frame in report.frames:
        inside: list[str] = []
        for span in frame.spans:
            inside = [*inside[: span.depth], span.name]
            found[tuple(inside)] = found.get(tuple(inside), 0.0) + span.seconds
    return [("    " * (len(path) - 1) + path[-1], seconds(spent), percent(spent / total)) for path, spent in found.items()]


# -- as plain text


def plain_lines(section: Section) -> Iterator[str]:
    yield section.title
    if not section.headers:
        yield from (row[0] for row in section.rows)
        return
    rows = [section.headers, *section.rows] if any(section.headers) else section.rows
    widths = [max(len(row[k]) for row in rows) for k in range(len(section.headers))] if rows else []
    for row in rows:
        yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))).rstrip()


# -- by rich


def rich_section(section: Section) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text(section.title, style="bold")
    if not section.headers:
        styles = section.styles or [""] * len(section.rows)
        return Group(title, *(Text(row[0], style=style) for row, style in zip(section.rows, styles)), Text())
    table = Table(show_header=any(section.headers), box=None, header_style="dim")
    for header in section.headers:
        table.add_column(header, no_wrap=True, overflow="ellipsis")
    for row in section.rows:
        table.add_row(*map(Text, row))
    return Group(title, table, Text())
