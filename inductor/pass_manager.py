"""What a table of passes is made of, and what runs it.

In: an IR, and the facts that passes ask for. Out: the IR behind them. The idea: all passes have one shape, `run(ir, facts)`,
whatever IR they take, and a phase says once for its rows how they are timed, tidied after, dumped and checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..runtime import compile_log
from ..runtime.config import config
from ..runtime.dataclass import data
from ..runtime.errors import InternalError


class Executable(Protocol):
    """What runs a final graph. overwrites: numbers of the inputs whose bytes a run uses for something else."""

    overwrites: frozenset[int]

    def __call__(self, inputs: list, seed: int, base: int, /) -> list: ...


@data
class Pass:
    """One row. `run(ir, facts)` gives the IR, changed in place or another; None: there was nothing to do. `tidy`: what it has
    changed is tidied."""

    name: str
    run: Callable[[Any, Facts], Any]
    tidy: bool = False


@data
class Phase:
    """Passes in their order. `stage`: their name in the compile log ("": they are not timed); tidy: cleans the IR behind passes
    that ask for it; dump: leaves it to readers; check: verifies it where `config.verify` is set."""

    stage: str
    passes: tuple[Pass, ...] = ()
    tidy: Callable[[Any], Any] | None = None
    dump: Callable[[Any, Facts], None] | None = None
    check: Callable[[Any], Any] | None = None


@data(eq=False)
class Target:
    """What becomes of a final graph. `emit(ir, facts)` makes the executable, of what the target's own `phases` make of the graph
    (None: of the planned loop program that the driver's make; (): of the graph itself).

    opens(op, args): whether a call is opened before gradients are taken, so that its parts are nodes of their own; takes(calls):
    whether the target can print these calls of the runtime's kernels (None: all).
    """

    name: str
    emit: Callable[[Any, Facts], Executable]
    opens: Callable[[Any, tuple], bool] | None = None
    takes: Callable[[tuple], bool] | None = None
    phases: tuple[Phase, ...] | None = None


def refused(ir: Any, facts: Facts) -> Executable:
    raise InternalError(f"the {facts.name} is to be made for a target, and none was named")


NO_TARGET = Target("no target", refused)


@data(eq=False)
class Facts:
    """What a pass may ask for besides the IR: the target, where what it does depends on it.

    Of the joint graph: `requires`: per input, whether it needs a gradient; `present`: the outputs that receive one (None: all
    that can); `saved`: names of what a forward that is compiled already has kept.
    Of a final graph: its `name`; `writes`: (input, output that is its new value)...; `donated`: numbers of the inputs whose
    memory may be used.
    """

    target: Target = NO_TARGET
    requires: tuple[bool, ...] = ()
    present: frozenset | None = None
    saved: Sequence[str] = ()
    name: str = "forward"
    writes: tuple[tuple[int, int], ...] = ()
    donated: frozenset[int] = frozenset()

    @property
    def late(self) -> bool:
        """Whether this is a backward for some of the gradients, behind a forward that runs already."""
        return self.present is not None


def run_phase(phase: Phase, ir: Any, facts: Facts) -> Any:
    """The IR behind a phase: timed, then dumped and verified, if there was anything to do in it."""
    untouched = bool(phase.passes)
    with compile_log.current().stage(phase.stage) if phase.stage else contextlib.nullcontext():
        for row in phase.passes:
            changed = row.run(ir, facts)
            if changed is None:
                continue
            ir, untouched = changed, False
            if row.tidy and phase.tidy is not None:
                phase.tidy(ir)
    if untouched:
        return ir
    if phase.dump is not None:
        phase.dump(ir, facts)
    if phase.check is not None and config.verify:
        phase.check(ir)
    return ir


def run_phases(phases: Sequence[Phase], ir: Any, facts: Facts) -> Any:
    for phase in phases:
        ir = run_phase(phase, ir, facts)
    return ir
