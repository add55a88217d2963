"""Submodules that few programs need, imported when they are first asked for, so that `import flambeau` stays short."""

from __future__ import annotations

import importlib
from types import ModuleType
from collections.abc import Callable


def submodules(package: str, *names: str) -> Callable[[str], ModuleType]:
    """The package's `__getattr__`: its submodules `names` as attributes. The import binds each, so it is asked once."""

    def __getattr__(name: str) -> ModuleType:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__
