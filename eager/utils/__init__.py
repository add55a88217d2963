"""Utilities: datasets and loaders, hook handles, checkpoints."""

from ..later import submodules

__getattr__ = submodules(__name__, "checkpoint", "data", "dlpack", "hooks")
