"""What a thread's op calls depend on: recording, modes, autocast, saved-tensor hooks; and modes themselves."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np


class State(threading.local):
    """`grad` (recording), `inference`, `modes` (stack, top last), `autocast` (a function (op, args) -> args, or None),
    `packer` (saved-tensor hooks: pack, unpack), `anomaly` (a function that tells the present stack, or None),
    `fake` (factories make tensors without bytes). `task`, `node`: the run of the engine that is under way, and the
    node that it runs; `check_nan`: anomaly mode looks for NaN; `no_packer`: why saved-tensor hooks are refused.

    `run(f, *args)` calls a numpy function without floating-point warnings, and leaves numpy's own settings alone.
    `quick` is the same, but None while a call needs more than the fast paths know: a mode, autocast, saved-tensor
    hooks, anomaly mode, a function mode. `special`: one of these but autocast, of which `casting` tells all settings (None:
    as a thread starts), and but modes that only look on (`passive`): compiled code does not run where it holds. `again`: what
    runs now will run on the same graphs again, so that they are kept (`vmap`).
    """

    grad = True
    inference = False
    again = False
    modes: tuple = ()
    autocast: Callable | None = None
    casting: Any = None
    special = False
    packer: Any = None
    anomaly: Callable | None = None
    fake = False
    unasked: Any = None  # whose `__torch_function__` goes unasked (overrides.py)
    function_modes: tuple = ()  # stack, top last
    task: Any = None
    node: Any = None
    no_packer: str | None = None
    check_nan = True
    quick: Callable | None

    def __init__(self):
        self.run = contextvars.Context().run
        self.run(np.seterr, all="ignore")
        self.quick = self.run

    def refresh(self) -> None:
        changing = self.modes and not all(mode.passive for mode in self.modes)
        self.special = bool(changing or self.packer is not None or self.anomaly is not None or self.function_modes)
        self.quick = None if self.special or self.modes or self.autocast is not None else self.run

    def set(self, **values) -> dict:
        """Set fields; returns their previous values."""
        previous = {name: getattr(self, name) for name in values}
        for name, value in values.items():
            setattr(self, name, value)
        self.refresh()
        return previous


state = State()


def keep_graphs(again: bool) -> bool:
    """Whether what runs from now on will run on the same graphs again; what held before."""
    before, state.again = state.again, again
    return before


class setting:
    """`with setting(grad=False): ...` for any fields of the state."""

    __slots__ = ("values", "previous")

    def __init__(self, **values):
        self.values = values

    def __enter__(self):
        self.previous = state.set(**self.values)
        return self

    def __exit__(self, *_):
        state.set(**self.previous)


class recording:
    """Sets grad mode for a block, at the cost of two attribute stores."""

    __slots__ = ("mode", "previous")

    def __init__(self, mode: bool):
        self.mode = mode

    def __enter__(self):
        self.previous, state.grad = state.grad, self.mode

    def __exit__(self, *_):
        state.grad = self.previous


class Mode:
    """`with mode:` sends this thread's op calls to `dispatch`, which may run them with `dispatch.execute` or under
    `no_modes`. A `passive` mode changes nothing of what ops mean.
    """

    passive = False

    def __enter__(self):
        state.set(modes=state.modes + (self,))
        return self

    def __exit__(self, *_):
        state.set(modes=state.modes[:-1])

    def dispatch(self, op, args: tuple):
        raise TypeError(f"{type(self).__name__} does not define dispatch(op, args)")


class no_modes(setting):
    """Calls inside run as if no mode were active."""

    __slots__ = ()

    def __init__(self):
        super().__init__(modes=())


class below(setting):
    """Calls inside go to the modes under the top one."""

    __slots__ = ()

    def __init__(self):
        super().__init__(modes=state.modes[:-1])
