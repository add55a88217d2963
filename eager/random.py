"""Random numbers: counter-based generators that hand out ordinals, one per random op whatever its size.

An element's bits are Philox4x32-10 of (seed; element index, ordinal), so a value depends on nothing but these three:
eager and compiled code draw the same numbers, and a draw that is not needed can be left out without moving the
others.

Where PyTorch's own numbers are asked for (`use("torch")`, FLAMBEAU_RANDOM=torch), a generator has a Mersenne Twister as well,
and draws on the CPU are those of mersenne.py, one after the other; ordinals are left to GPUs, and to the distributions that
PyTorch draws by other methods.
"""

from __future__ import annotations

import importlib
import os
import struct
import threading
import typing
from contextlib import contextmanager

import numpy as np

from ..runtime import config as settings, locks
from . import _call, device as devices
from . import dtypes
from .tensor import Tensor

_MASK = 2**64 - 1
_STATE = struct.Struct("<QQ")

in_order: typing.Any = None  # the module that draws PyTorch's numbers, where they are asked for


def use(numbers: str) -> None:
    """Whose numbers all draws on the CPU give from now on: "philox" (the default), or "torch": PyTorch's for the same seed.
    Generators go on where their last draw of this kind left them, or begin at their seed."""
    global in_order
    from ..runtime import spawn

    if numbers not in ("philox", "torch"):
        raise ValueError(f"random numbers are 'philox' or 'torch', not {numbers!r}")
    in_order = importlib.import_module(".mersenne", __package__) if numbers == "torch" else None
    _call.draw_in_order(in_order is not None)
    if in_order is None and _use_torch in spawn.setup:
        spawn.setup.remove(_use_torch)
    elif in_order is not None and _use_torch not in spawn.setup:
        spawn.setup.append(_use_torch)


def _use_torch() -> None:
    """What a process of a loader that was spawned does first."""
    use("torch")


def used() -> str:
    """Whose numbers draws on the CPU give: "philox" or "torch"."""
    return "philox" if in_order is None else "torch"


class Generator:
    """A seed and the next ordinal; and the state of a Mersenne Twister, once PyTorch's numbers were drawn."""

    def __init__(self, device: devices.device | str | int = "cpu"):
        self._device = devices.device(device)
        if self._device.type != "cpu" and not devices.usable(self._device.type) or self._device.type == "meta":
            raise RuntimeError(f"Generator(): there is no generator for {self._device}: no such device can be used here")
        self._seed, self._next, self._twister = 67280421310721, 0, None
        self._lock = locks.fresh()

    @property
    def device(self):
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(2**63) <= seed <= _MASK:
            raise ValueError(f"Overflow when unpacking long long: manual_seed() takes -2**63 to 2**64 - 1, but got {seed}")
        self._seed, self._next, self._twister = int(seed) & _MASK, 0, None
        return self

    def seed(self) -> int:
        """Seed from the operating system; returns the seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def reserve(self, n: int = 1) -> tuple[int, int]:
        """Take `n` ordinals: (seed, the first of them)."""
        with self._lock:
            base = self._next
            self._next = base + n
        return self._seed, base

    def give_back(self, base: int) -> None:
        """Ordinals from `base` on are there to be taken again."""
        with self._lock:
            self._next = base

    @property
    def mersenne(self) -> np.ndarray:
        """The state of the Mersenne Twister, which draws of PyTorch's numbers move on."""
        if self._twister is None:
            self._twister = in_order.seeded(self._seed)
        return self._twister

    def get_state(self) -> Tensor:
        if in_order is not None:
            raw = in_order.with_ordinal(self.mersenne, self._next)
        else:
            raw = np.frombuffer(_STATE.pack(self._seed, self._next), np.uint8).copy()
        return Tensor._fl_from_array(raw, dtypes.uint8)

    def set_state(self, state: Tensor) -> Generator:
        if not isinstance(state, Tensor):
            raise TypeError(f"set_state(): expected a torch.ByteTensor, but got {type(state).__name__}")
        if state.dtype is not dtypes.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, got {state.dtype}")
        raw = np.ascontiguousarray(state._values("set_state()"))
        wanted = _STATE.size if in_order is None else in_order.BYTES
        if raw.dtype != np.uint8 or raw.size != wanted:
            raise RuntimeError(
                f"RNG state must be a uint8 tensor of {wanted} elements, got {state.dtype} of {raw.size} (draws give the numbers "
                f"of {used()})"
            )
        if in_order is not None:
            self._seed, self._next = in_order.numbers_of(raw)
            self._twister = raw.copy()
        else:
            self._seed, self._next = _STATE.unpack(raw.tobytes())
        return self

    def clone_state(self) -> Generator:
        return Generator(self._device).set_state(self.get_state())

    def __getstate__(self):
        twister = () if self._twister is None else (self._twister,)
        return str(self._device), self._seed, self._next, *twister

    def __setstate__(self, state):
        self.__init__(state[0])
        self._seed, self._next = state[1:3]
        self._twister = state[3] if len(state) > 3 else None

    def __repr__(self):
        return f"<Generator seed={self._seed} next={self._next}>"


default_generator = Generator()


class _Forced(threading.local):
    """(seed, ordinal) that the next random ops of this thread use instead of drawing."""

    key: tuple | None = None


_forced = _Forced()


@contextmanager
def at(seed: int, ordinal: int):
    """The random op inside uses exactly this ordinal, and draws nothing."""
    previous, _forced.key = _forced.key, (seed, ordinal)
    try:
        yield
    finally:
        _forced.key = previous


def draw(generator: Generator | None = None) -> tuple[int, int]:
    """(seed, ordinal) for one random op."""
    return _forced.key or (generator or default_generator).reserve()


_call.draws(draw)
if settings.config.random != "philox":
    use(settings.config.random)


# -- the module functions of `torch.random`


def manual_seed(seed: int) -> Generator:
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    return default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices=None, enabled: bool = True, device_type: str = "cpu"):
    """Draws inside leave the default generator as it was."""
    saved = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(saved)
