"""torch.serialization: objects with tensors in files. `files` saves and loads, `archive` is the container, `pickler`
and `unpickler` are the two directions of the object, `names` and `rebuild` what a file may mention, `legacy` the
old format.
"""

from collections.abc import Callable

from ..device import device
from ..storage import UntypedStorage
from .files import (
    add_safe_globals,
    clear_safe_globals,
    get_crc32_options,
    get_default_mmap_options,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    load,
    safe_globals,
    save,
    set_crc32_options,
    set_default_mmap_options,
)
from .locations import default_restore_location, location_tag, normalize_storage_type, register_package


MAP_LOCATION = Callable[[UntypedStorage, str], UntypedStorage] | device | str | dict[str, str] | None  # what `map_location` is


class SourceChangeWarning(Warning):
    """The source of a pickled class changed since (not checked here; for filters that name it)."""


__all__ = [
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_mmap_options",
]
