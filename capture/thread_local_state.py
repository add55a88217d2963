"""What a thread's calls depend on besides their arguments: kept before a compilation, put back behind it.

An exception may come between any two instructions (Ctrl-C, a handler of any signal), so a `with` or `finally` that sets a field
back is not enough: it may be cut off before it began. The native door calls `save_state` before it asks the compiler, and
`restore_state` when that has ended, however it did, again and again until it ends by itself: doing it twice is doing it once.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

from ..eager import _call
from ..eager.amp import autocast_mode
from ..eager.state import state
from ..runtime import locks, compile_log
from ..runtime.dataclass import data
from ..runtime.gc_pause import uncollected

LOCALS: list[threading.local] = [state, autocast_mode._settings, compile_log._local]  # the tracer adds its own


@data
class SavedState:
    """`fields`: of each thread-local object; `blocks`: how many blocks without garbage collection are open on this thread;
    `collects`: whether Python collected garbage; `imports`: whether this thread holds the lock of late imports."""

    fields: list
    blocks: int
    collects: bool
    imports: bool


def copy_containers(value: Any) -> Any:
    """Tables and lists as they are now: they are changed in place."""
    return value.copy() if type(value) in (dict, list) else value


def fields_of(local: threading.local) -> dict:
    return {name: copy_containers(value) for name, value in vars(local).items()}


def save_state() -> SavedState:
    return SavedState(
        [(local, fields_of(local)) for local in LOCALS], uncollected.blocks(), gc.isenabled(), locks.importing.held()
    )


def restore_state(kept: SavedState) -> None:
    before = {id(local): fields for local, fields in kept.fields}
    for local in LOCALS:
        fields, now = before.get(id(local), {}), vars(local)
        for name in now.keys() - fields.keys():
            now.pop(name, None)
        now.update({name: copy_containers(value) for name, value in fields.items()})
    _call.inference(state.inference)
    uncollected.settle(kept.blocks, kept.collects)
    if not kept.imports:
        locks.importing.let_go()
