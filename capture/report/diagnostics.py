"""What a report has to complain of: what runs in Python or in eager, breaks, recompilations, guards without end.

In: `data.Report`. Out: a list of `Finding`, what costs most first: what happened, at which of your lines, why, and what to do.
Nothing here is measured, so the same program gives the same text.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MANY_GUARDS = 400  # facts that a call is compared with, from which on the comparison is worth a word
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
CARRIED = re.compile(r"%\w+")  # a value that an earlier break carried over
FAILED = re.compile(r"^(?P<kind>[\w ]+?) of (?P<name>.+?)(?: in dimension (?P<dim>\d+))?: was (?P<old>.*), is (?P<new>.*)$")
CHANGES = {
    "size": "mark the dimension with mark_dynamic(tensor, dim), or compile with dynamic=True: one version serves all sizes",
    "stride": "pass tensors of one memory layout: call contiguous() before the compiled function",
    "rank": "pass tensors of one number of dimensions, or compile one function for each",
    "dtype": "pass tensors of one type: convert before the compiled function",
    "device": "move the tensors to one device before the compiled function",
    "requires_grad": "call it either always with inputs that require gradients or never; data needs none",
    "class attribute": "leave classes as they are while compiled functions use them",
    "int": "compile with dynamic=True, or pass the number as a tensor",
    "float": "pass the number as a tensor",
    "type": "pass objects of one class (2 and 2.0 have two)",
    "length": "pass as many items in each call, or put them into one tensor",
}
NO_LOOP = "the operation has no loop that could be compiled", "write it with other operations where it takes much of the time"
COMPLEX = "kernels have no complex numbers", "where it takes much of the time, compute with the real and imaginary parts"
OTHERWISE = "the function reads it: choose outside of the compiled function, or make a number that changes a tensor"


class Finding(NamedTuple):
    """`place`: `file.py:12` of the user's (or nothing); `source`: that line's text."""

    what: str
    place: str
    source: str
    why: str
    fix: str

    def text(self) -> str:
        head = f"{self.place}: {self.what}" if self.place else self.what
        rows = [("", self.source), ("why: ", self.why), ("fix: ", self.fix)]
        return "\n".join([head, *(f"    {name}{text}" for name, text in rows if text)])


def findings(report: Any) -> list[Finding]:
    """Everything that there is to say, each once."""
    found = [*uncompiled_functions(report), *breaks(report), *slow(report), *recompiled(report), *guards(report)]
    return list(dict.fromkeys(found))


def location_text(file: str, line: int) -> str:
    return f"{os.path.basename(file)}:{line}" if line else ""


def source(file: str, line: int) -> str:
    return linecache.getline(file, line).strip() if line else ""


def function_start(frame: Any) -> tuple[str, str]:
    """Where a frame's function begins."""
    return location_text(frame.file, frame.line), source(frame.file, frame.line)


# -- breaks ------------------------------------------------------------------------------------------------------------


def breaks(report: Any) -> Iterator[Finding]:
    """What made the graphs end; not what follows from an earlier break on the same line, or in the package's own code behind
    one."""
    told: set[tuple] = set()
    for frame in report.frames:
        for one in frame.breaks:
            own = one.file.startswith(PACKAGE)
            if (one.file, one.line) in told or told and (own or CARRIED.search(one.text)):
                continue
            told.add((one.file, one.line))
            what = f"{frame.function} runs in Python" if one.plain else "the graph ends here, and Python runs the line"
            yield Finding(
                f"{what} [{one.code}]",
                location_text(one.file, one.line),
                one.source or source(one.file, one.line),
                one.text,
                one.fix,
            )


# -- recompilations ----------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A guard that the call of one conversion failed: `kind` of `name`; `line`: the user's line that needs it."""

    function: str
    kind: str
    name: str
    text: str
    line: str


def changes(frame: Any) -> list[Change]:
    """The guards of earlier versions that a call failed, each once."""
    found: dict[tuple, Change] = {}
    for line in "\n".join(frame.failed).splitlines():
        told, _, where = line.strip().partition("   # ")
        parts = FAILED.match(told)
        kind, name = (parts["kind"], parts["name"]) if parts else ("", told)
        if not CARRIED.search(told):
            found.setdefault((kind, name), Change(frame.function, kind, name, told, where))
    return list(found.values())


def recompiled(report: Any) -> Iterator[Finding]:
    """Each thing that changed, with how often."""
    counted: dict[tuple, list[Change]] = {}
    for frame in report.frames:
        for change in changes(frame):
            counted.setdefault(change[:3], []).append(change)
    for (function, kind, _), rows in counted.items():
        file, _, line = rows[0].line.rpartition(":")
        number = int(line) if line.isdigit() else 0
        times = f" {len(rows)} times" if len(rows) > 1 else ""
        yield Finding(
            f"{function} was compiled again{times}",
            location_text(file, number),
            source(file, number),
            rows[0].text,
            CHANGES.get(kind, OTHERWISE),
        )


def uncompiled_functions(report: Any) -> Iterator[Finding]:
    """Functions that are not compiled, or not any more."""
    for one in report.plain:
        function, reason = one.function, one.reason
        at = location_text(one.file, one.line), source(one.file, one.line)
        if reason == "recompile limit":
            changed = dict.fromkeys(
                f"{c.kind} of {c.name}" if c.kind else c.name
                for frame in report.frames
                for c in changes(frame)
                if c.function == function
            )
            why = "every call changed: " + (", ".join(changed) or "something")
            yield Finding(
                f"{function} was compiled as often as the limit allows, and runs in Python where no version fits",
                *at,
                why,
                "keep what changes out of the function, or make it an argument: sizes with mark_dynamic, "
                "numbers as tensors; or raise FLAMBEAU_RECOMPILE_LIMIT",
            )
        elif reason == "generator":
            yield Finding(
                f"{function} runs in Python [generator frame]",
                *at,
                "a generator or coroutine is no function that could be captured as a whole",
                "compile the function that calls it, or return a list",
            )


# -- slow code ---------------------------------------------------------------------------------------------------------


def slow(report: Any) -> Iterator[Finding]:
    """Graphs without generated code, and operations that eager runs between the kernels."""
    if any("no C++ compiler" in note or "C++ compiler failed" in note for note in report.notes):
        yield Finding(
            "compiled functions run in the loop interpreter, slower than eager",
            "",
            "",
            "no C++ compiler was found",
            "install g++ (apt-get install g++), or set CXX; python -m flambeau doctor tells what is there",
        )
    for graph in report.graphs:
        for program in graph.programs:
            for kernel in program.kernels:
                if kernel.kind == "eager":
                    file, line = kernel.lines[0] if kernel.lines else ("", 0)
                    op = graph.nodes[kernel.nodes[0]].op if kernel.nodes else kernel.name
                    is_complex = any(" complex" in buffer for buffer in kernel.reads)
                    yield Finding(
                        f"{op} is called in eager, between the kernels",
                        location_text(file, line),
                        source(file, line),
                        *(COMPLEX if is_complex else NO_LOOP),
                    )


def guards(report: Any) -> Iterator[Finding]:
    """Facts that every call is compared with, where they are very many."""
    for frame in report.frames:
        if len(frame.guards) > MANY_GUARDS:
            yield Finding(
                f"every call of {frame.function} is compared with {len(frame.guards)} facts",
                *function_start(frame),
                "it reads many values from outside: long lists, dictionaries, or attributes",
                "read them once outside of the compiled function, or put the numbers into one tensor",
            )
