"""Source lines and what became of them.

In: records of conversions and the nodes of their graphs. Out: one `Source` for each function of the user's that was traced.
A node belongs to the line that made it and to the lines that called that function.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterable

from ...runtime.compile_log import CompileRecord
from ..report.data import Line, Source
from .graph import Node


def sources_of(records: list[CompileRecord], graphs: list[list[Node]]) -> list[Source]:
    """In the order in which the functions were met."""
    nodes: dict[tuple[str, int], list] = {}
    breaks: dict[tuple[str, int], list] = {}
    for g, calls in enumerate(graphs):
        for k, node in enumerate(calls):
            for place in dict.fromkeys(place[:2] for place in node.stack):
                nodes.setdefault(place, []).append((g, k))
    for f, record in enumerate(records):
        for k, one in enumerate(record.breaks):
            breaks.setdefault((one.file, one.line), []).append((f, k))
    starts = [(r.function.co_filename, r.function.co_firstlineno) for r in records]
    plain = {
        span_of(r.function.co_filename, r.function.co_firstlineno)
        for r in records
        if any(one.plain for one in r.breaks) and not r.graphs
    }
    found: dict[tuple, Source] = {}
    for file, line in (*starts, *nodes, *breaks):
        span = span_of(file, line)
        if span not in found and not any(within(span, other) for other in found):
            found[span] = source(span, nodes, breaks, plain)
    return [made for span, made in found.items() if not any(within(span, other) for other in found)]


def within(inner: tuple, outer: tuple) -> bool:
    return inner != outer and inner[0] == outer[0] and outer[2] <= inner[2] and inner[3] <= outer[3]


def source(span: tuple, nodes: dict, breaks: dict, plain: set) -> Source:
    file, function, first, last = span
    lines = []
    for number in range(first, last + 1):
        place, text = (file, number), linecache.getline(file, number).rstrip("\n")
        lines.append(
            Line(number, text, status(text, place, nodes, breaks, span in plain), nodes.get(place, []), breaks.get(place, []))
        )
    return Source(file, function, lines)


def status(text: str, place: tuple, nodes: dict, breaks: dict, plain: bool) -> str:
    if place in breaks:
        return "break"
    if place in nodes:
        return "graph"
    bare = text.strip()
    return "python" if plain and bare and not bare.startswith("#") else "none"


def span_of(file: str, line: int) -> tuple[str, str, int, int]:
    """(file, function, first line, last line) of the innermost function around a line; the line alone outside of any."""
    around = [f for f in functions(file) if f[1] <= line <= f[2]]
    name, first, last = max(around, key=lambda f: f[1], default=("", line, line))
    return file, name, first, last


@functools.lru_cache(64)
def parsed(file: str, text: str) -> tuple:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    return tuple(walk(tree, ""))


def walk(tree: ast.AST, prefix: str) -> Iterable[tuple[str, int, int]]:
    """(name, first line with decorators, last line) of every function."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{prefix}.{node.name}" if prefix else node.name
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield name, min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno
        yield from walk(node, name)


def functions(file: str) -> tuple:
    return parsed(file, "".join(linecache.getlines(file)))
