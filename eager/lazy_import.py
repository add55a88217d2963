"""Submodules that few programs need, imported when they are first asked for, so that `import flambeau` stays short."""

from __future__ import annotations

import importlib
import sys
from typing import Any
from collections.abc import Callable


def submodules(package: str, *names: str, **attributes: str) -> Callable[[str], Any]:
    """The package's `__getattr__`: its submodules `names`, and `attributes` of its submodules (name -> the submodule that
    has it). What was asked for once is an attribute of the package and is not asked for again. With attributes
    it is called last in the package: `from package import *` gives what is there by then, and them."""

    def __getattr__(name: str) -> Any:
        if name in attributes:
            value = getattr(importlib.import_module(f"{package}.{attributes[name]}"), name)
        elif name in names:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    scope = vars(sys.modules[package])
    scope.update(__late_attributes__=attributes, __dir__=lambda: sorted({*scope, *names, *attributes}))
    if attributes:
        scope.setdefault("__all__", [name for name in (*scope, *attributes) if not name.startswith("_")])
    return __getattr__
