"""What each stage leaves for readers: the graphs as Python text in the record of the compilation, under fixed names.

Texts are made where somebody can read them: with a dump folder, a log channel or the checks between stages switched
on. They take a tenth of the passes' time.
"""

from __future__ import annotations

from ...capture.graph.graph import Graph
from ...runtime import log, compile_log
from ..loops.ir import Program
from ..pass_manager import Facts
from .functionalize import FunctionalGraph
from .joint_graph import JointGraph
from .partition import Partition


def captured(graph: Graph, facts: Facts | None = None) -> None:
    if not compile_log.wanted():
        return
    text = graph.print_python()
    if graph.env is not None:
        text = "".join(f"# guard: {g}\n" for g in graph.env.guards) + text
    compile_log.current().text("graph.py", text)


def functional(result: FunctionalGraph, facts: Facts) -> None:
    if not compile_log.wanted():
        return
    comments = "".join(f"# {line}\n" for line in result.lines())
    compile_log.current().text("functional.py", comments + result.graph.print_python())


def joint(result: JointGraph, facts: Facts) -> None:
    """Where there is a backward; that for all gradients, and no late one."""
    if facts.late or not result.tangents or not compile_log.wanted():
        return
    text = result.graph.print_python()
    compile_log.current().text("joint.py", text)
    log.channel("joint")(text)


def partitioned(pair: Partition, facts: Facts) -> None:
    """What crosses from forward to backward, and why it may."""
    if facts.late or not compile_log.wanted():
        return
    lines = [
        f"# saved {name}" + (f": input {pair.saved_inputs[name]}" if name in pair.saved_inputs else "") for name in pair.saved
    ]
    compile_log.current().note("\n".join(lines))


def final(graph: Graph, facts: Facts) -> None:
    if not compile_log.wanted():
        return
    compile_log.current().text(f"{facts.name}.py", graph.print_python())


def lowered(program: Program, facts: Facts) -> None:
    """The loop IR of one graph before fusion, in one file with that of the other graphs of the compilation."""
    if compile_log.wanted():
        _append("loops.txt", f"# {facts.name}, before fusion\n{program.text()}\n")


def scheduled(program: Program, facts: Facts) -> None:
    """The same after fusion, and why kernels were fused."""
    if not compile_log.wanted():
        return
    name, text = facts.name, program.text()
    _append("loops.txt", f"# {name}, after fusion\n{text}\n")
    log.channel("loops")(f"{name}, after fusion\n{text}")
    for kernel in program.kernels if log.enabled("schedule") else ():
        log.channel("schedule")(
            "\n".join(
                [
                    f"{name}, {kernel.name}",
                    *(f"    {o.node}   {o.line}" for o in kernel.origins),
                    *(f"    why: {note}" for note in kernel.notes),
                ]
            )
        )


def native(name: str, source: str, program: Program) -> None:
    """The C++ of one graph, and its memory plan and call order."""
    if not compile_log.wanted():
        return
    _append("kernels.cpp", f"// {name}\n{source}\n")
    lines = [f"{name}: {len(program.kernels)} kernels, workspace {program.arena_size} bytes"]
    lines += [f"  call {k}: {kernel.name}" for k, kernel in enumerate(program.kernels)]
    lines += [
        f"  {temp} at byte {offset} of {program.homes.get(temp, 'the workspace')}" for temp, offset in program.arena.items()
    ]
    lines += [f"  {out} takes over {home}" for out, home in program.homes.items() if out not in program.arena]
    _append("wrapper.txt", "\n".join(lines) + "\n")
    log.channel("memory")("\n".join(lines))


def triton(name: str, source: str, machine_code: str = "") -> None:
    """The Triton kernels of one graph: a file that runs by itself, and what they were compiled to."""
    if not compile_log.wanted():
        return
    record = compile_log.current()
    prefix = "" if name == "forward" else f"{name}_"
    record.text(f"{prefix}kernels.py", source)
    if machine_code:
        record.text(f"{prefix}kernels.ptx", machine_code)
    log.channel("kernels")(source)


def _append(filename: str, text: str) -> None:
    record = compile_log.current()
    record.text(filename, record.texts.get(filename, "") + text)
