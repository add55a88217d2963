"""Memory over time: what is in use while each kernel runs.

In: graphs with the blocks of their programs. Out: `Moment`s in the order of a call: forward, then backward. Blocks at one
place that follow each other count once; gradients are told apart from everything else, which is activations.
"""

from __future__ import annotations

from collections.abc import Iterator

from .data import Block, Graph, Moment, Program


def moments(graphs: list[Graph]) -> list[Moment]:
    return [moment for graph in graphs for number in range(len(graph.programs)) for moment in of_program(graph, number)]


def of_program(graph: Graph, number: int) -> Iterator[Moment]:
    program = graph.programs[number]
    for at, kernel in enumerate(program.kernels):
        alive = [block for block in program.blocks if block.start <= at <= block.end]
        gradients = in_use([block for block in alive if block.kind == "gradient"])
        others = in_use([block for block in alive if block.kind != "gradient"])
        yield Moment(graph.number, number, at, kernel.name, others, gradients, program.held)


def in_use(blocks: list[Block]) -> int:
    """Bytes of blocks, those at one place of one memory once."""
    own = sum(block.bytes for block in blocks if block.place == "own")
    places: dict[tuple, int] = {}
    for block in blocks:
        if block.place != "own":
            places[block.place, block.offset] = max(block.bytes, places.get((block.place, block.offset), 0))
    return own + sum(places.values())


def held(program: Program) -> int:
    """What is allocated for a whole run: results, what was saved for it, the arena."""
    return program.arena + sum(block.bytes for block in program.blocks if block.place == "own")
