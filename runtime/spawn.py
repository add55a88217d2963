"""What a freshly started child process does before it unpickles its work: `setup` holds functions that can be pickled by
name. `PickledValue` wraps a value for a process argument: a forked child gets the object itself, a spawned one unpickles it only
after the setup has run."""

from __future__ import annotations

import pickle

setup: list = []


class PickledValue:
    """`open()` gives the value."""

    def __init__(self, value):
        self.value, self.raw, self.before = value, None, ()

    def __getstate__(self):
        from multiprocessing.reduction import ForkingPickler

        return tuple(setup), bytes(ForkingPickler.dumps(self.value))

    def __setstate__(self, state):
        self.before, self.raw = state
        self.value = None

    def open(self):
        if self.raw is None:
            return self.value
        for function in self.before:
            function()
        return pickle.loads(self.raw)
