"""Where a storage goes when it is loaded: its tag in the file, and `map_location`.

In: a storage in memory and the location that the file names. Out: the storage to use. Only `cpu` and `meta` have a
runtime here; `register_package` adds others.
"""

from __future__ import annotations

import os

from .. import device as devices
from ..device import device, meta
from ..storage import UntypedStorage

_packages: list = []


def register_package(priority: int, tagger, deserializer) -> None:
    """`tagger(storage)` gives a location or None; `deserializer(storage, location)` a storage or None; low priority
    first."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda entry: entry[0])


def location_tag(storage) -> str:
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage, location: str):
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})")


def _tagged(kind):
    return lambda storage: str(storage.device) if storage.device.type == kind else None


def _to_cpu(storage, location):
    return storage if location == "cpu" else None


def _to_meta(storage, location):
    return UntypedStorage(None, storage.nbytes(), meta) if location == "meta" else None


def _to_absent(storage, location):
    """To a GPU, if there is one; other devices are known by name only."""
    kind = location.partition(":")[0]
    if kind == "cuda" and devices.usable(kind):
        place = devices.resolve_device(location)
        return storage if storage.device is place else devices.runtimes[kind].upload(storage, place)
    if kind in ("cuda", "mps", "xpu"):
        name = kind.upper()
        raise RuntimeError(
            f"Attempting to deserialize object on a {name} device but torch.{kind}.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU."
        )
    return None


register_package(10, _tagged("cpu"), _to_cpu)
register_package(20, _tagged("cuda"), _to_absent)
register_package(22, _tagged("meta"), _to_meta)


def restorer(map_location):
    """A function (storage, location) -> storage for any form of `map_location`."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, _name(map_location.get(location, location)))
    if isinstance(map_location, (str, bytes, device)):
        return lambda storage, location: default_restore_location(storage, _name(map_location))
    if not callable(map_location):
        raise TypeError(f"map_location must be a device, a str, a dict or a callable, not {type(map_location).__name__}")

    def restore(storage, location):
        found = map_location(storage, location)
        return default_restore_location(storage, location) if found is None else getattr(found, "_untyped_storage", found)

    return restore


def _name(location) -> str:
    return str(location) if not isinstance(location, bytes) else os.fsdecode(location)


def normalize_storage_type(storage_type):
    """The class of storages on the CPU; there are no others here."""
    return storage_type
