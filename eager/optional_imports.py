"""Packages that a few functions are made of: imported when such a function is called, never by `import flambeau`.

In: a module, the function that asks for it, and the extra of pyproject.toml that installs it. Out: the module, or an
ImportError that says all three.
"""

from __future__ import annotations

import importlib
from typing import Any


def extra(module: str, asker: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{asker} needs {package} ({error}): pip install flambeau[{name}]", name=package) from error
