"""Blocks in which Python collects no garbage: most of what they make stays, and a collection only walks over it.

`with uncollected:` around a compilation, from any thread, also nested. Collecting goes on when the last such block ends, if
it was on before the first; a forked child knows no blocks of other threads. Imports (`enter(stays=True)`) make no
garbage: what there is when they end counts as old, so that the next collection does not walk over it either. So it is with
the first compilation of a process, which imports the compiler (6 ms of 100); others leave garbage, which is to be found soon.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

FEW = 1000  # Python 3.12 freezes 375 objects when it starts; a program that does freezes thousands


class Uncollected:
    """The blocks that are open now, by thread."""

    def __init__(self):
        self.lock, self.open = threading.Lock(), {}
        self.collects = self.stays = False
        self.first = True

    def __enter__(self) -> None:
        first, self.first = self.first, False
        self.enter(stays=first)

    def enter(self, stays: bool) -> None:
        me = threading.get_ident()
        with self.lock:
            if not self.open:
                self.collects = gc.isenabled()
                gc.disable()
            self.stays = stays and (self.stays or not self.open)
            self.open[me] = self.open.get(me, 0) + 1

    def __exit__(self, *error: Any) -> None:
        me = threading.get_ident()
        with self.lock:
            self.open[me] -= 1
            if not self.open[me]:
                del self.open[me]
                self._go_on()

    def blocks(self) -> int:
        """How many are open on this thread."""
        return self.open.get(threading.get_ident(), 0)

    def settle(self, blocks: int, collected: bool) -> None:
        """So many are open on this thread, whatever cut off others; before them, Python collected garbage or not."""
        me = threading.get_ident()
        with self.lock:
            if blocks:
                self.open[me] = blocks
            elif self.open.pop(me, None) or collected:
                self.collects = self.collects or collected
                self._go_on()

    def _go_on(self) -> None:
        if self.open or not self.collects:
            return
        if self.stays and gc.get_freeze_count() < FEW:  # the program has frozen nothing that must stay frozen
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        gc.enable()

    def forked(self) -> None:
        """In a child: only the thread that forked goes on, and the lock may have been another's."""
        me, self.lock = threading.get_ident(), threading.Lock()
        others = [ident for ident in self.open if ident != me]
        for ident in others:
            del self.open[ident]
        if others:
            self._go_on()


uncollected = Uncollected()
os.register_at_fork(after_in_child=uncollected.forked)
