"""Utilities: datasets and loaders, hook handles, checkpoints."""

from ..later import submodules

_modules = submodules(__name__, "checkpoint", "data", "dlpack", "flop_counter", "hooks", "model_zoo", "tensorboard")


def __getattr__(name):
    if name == "_pytree":
        from ..compat import pytree
        return pytree
    return _modules(name)
