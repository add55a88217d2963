"""What reads the values of tensors on a device, and is computed on the host.

In: host copies of the arguments. Out: the answers that data decides (`READS`), as a device's runtime asks for them; and
`on_host`, which makes a function run on copies where an argument lies on a device, its results brought back. Both are counted.
"""

import functools
import importlib
from typing import Any

from .. import device as devices
from ..tensor import Tensor


def _spelled(module, name):
    def call(*args):
        return getattr(importlib.import_module(f".{module}", __package__), name)(*args)

    return call


def _unique(name):
    def call(x, inverse, counts, dim):
        function = _spelled("statistics", name)
        return function(x, True, inverse, counts, dim) if name == "unique" else function(x, inverse, counts, dim)

    return call


def _classes(x):
    if x.numel() and bool((x < 0).any()):
        raise RuntimeError("Class values must be non-negative.")
    return int(x.max()) + 1


READS = {
    "item": lambda x: x.item(),
    "unique": _unique("unique"),
    "unique_consecutive": _unique("unique_consecutive"),
    "bincount": _spelled("statistics", "bincount"),
    "nonzero": _spelled("indexing", "nonzero"),
    "places": _spelled("shapes", "_places"),
    "classes": _classes,
}


def on_host(function):
    """For functions over the numbers themselves: tensors of a device are copied to the host, results to that device."""

    @functools.wraps(function)
    def wrapper(*args, **kw):
        if not devices.runtimes:
            return function(*args, **kw)
        place = _place((*args, *kw.values()))
        if place is None:
            return function(*args, **kw)
        devices.runtimes[place.type].count_host(function.__name__.strip("_"))
        out = kw.pop("out", None)
        args, kw = [_moved(a, devices.cpu) for a in args], {k: _moved(a, devices.cpu) for k, a in kw.items()}
        found = _moved(function(*args, **kw), place)
        return found if out is None else _given(found, out)

    return wrapper


def _place(values):
    for a in values:
        if isinstance(a, Tensor) and a._fl_array is None and a._fl_storage.runtime is not None:
            return a._fl_device
    return None


def _moved(a, place):
    if isinstance(a, Tensor):
        return a.to(place) if a._fl_device is not place else a
    if isinstance(a, (tuple, list)) and any(isinstance(x, Tensor) for x in a):
        parts = [_moved(x, place) for x in a]
        kind: Any = type(a)
        return kind._make(parts) if hasattr(a, "_make") else kind(parts)
    return a


def _given(found, out):
    from .arguments import give

    return give(found, out)
