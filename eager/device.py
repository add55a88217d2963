"""Devices: where a tensor's bytes are. `cpu` and `meta` exist here; others are named so that programs can ask for
them.
"""

from __future__ import annotations

from typing import Any

TYPES = ("cpu", "cuda", "meta", "mps", "xpu")


runtimes: dict = {}  # device types that shared libraries bring: name -> what runs their ops (plugin.py)


def add_type(name: str, runtime) -> None:
    """A device type of somebody's from here on exists."""
    global TYPES
    if name in TYPES:
        raise ValueError(f"a device type {name!r} exists already")
    TYPES = (*TYPES, name)
    runtimes[name] = runtime


class device:
    """`device("cpu")`, `device("cuda", 1)`, `device("cuda:1")`; equal by type and index; interned. A context sets the
    default.
    """

    __slots__ = ("type", "index", "_previous", "__weakref__")
    _known: dict = {}
    type: str
    index: int | Any  # None: no particular one
    _previous: list[device]

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        found = cls._known.get((type, index))
        return found if found is not None else cls._make(type, index)

    @classmethod
    def _make(cls, type: Any, index: Any) -> device:
        if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        if isinstance(type, int) and index is None:
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        name, colon, number = type.partition(":")
        if name not in TYPES or (colon and not number.isdigit()):
            raise RuntimeError(f"Expected one of {', '.join(TYPES)} device type at start of device string: {type}")
        if colon and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        key = (name, int(number) if colon else index)
        if key not in cls._known:
            cls._known[key] = self = object.__new__(cls)
            self.type, self.index = key
            self._previous = []
        return cls._known[key]

    def __repr__(self):
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self):
        return device, (self.type, self.index)

    def __enter__(self):
        self._previous.append(set_default_device(self))
        return self

    def __exit__(self, *_):
        set_default_device(self._previous.pop())


cpu = device("cpu")
meta = device("meta")
_default = cpu


def get_default_device() -> device:
    return _default


def set_default_device(d) -> device:
    """Sets where factories make tensors (None: cpu); returns the previous one."""
    global _default
    previous, _default = _default, cpu if d is None else device(d)
    return previous


_drivers: dict[str, tuple] = {}


def register_driver(kind: str, found, start) -> None:
    """Say how a device type comes to be: `found()` tells whether it is here, `start()` enters its runtime. Once for each type."""
    if kind in _drivers:
        raise RuntimeError(f"there is a driver for {kind} devices already")
    _drivers[kind] = found, start


def usable(kind: str) -> bool:
    """Whether tensors of a device type can be made here."""
    if kind in _drivers and kind not in runtimes:
        return _drivers[kind][0]()
    return kind in ("cpu", "meta") or kind in runtimes


def resolve_device(d) -> device:
    """Where tensors are made for a `device=` argument (None: the default). CUDA is started at the first question, and its
    devices have their numbers from here on."""
    d = _default if d is None else device(d)
    if d.type == "cuda":
        if "cuda" not in runtimes:
            _drivers["cuda"][1]()
        return runtimes["cuda"].place(d)
    return d
