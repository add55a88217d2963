"""Utilities: datasets and loaders, hook handles, checkpoints."""

import importlib

from ..lazy_import import submodules

_modules = submodules(
    __name__, "benchmark", "checkpoint", "collect_env", "data", "dlpack", "flop_counter", "hooks", "model_zoo", "tensorboard"
)


def __getattr__(name):
    if name == "_pytree":
        from ..compat import pytree

        return pytree
    if name in ("cpp_extension", "mobile_optimizer"):
        return importlib.import_module(f"..compat.absent.{name}", __package__)
    if name == "swap_tensors":
        from .swap import swap_tensors

        return swap_tensors
    return _modules(name)
