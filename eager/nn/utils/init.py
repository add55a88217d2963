"""skip_init: a module whose parameters are not initialised."""

import inspect

from ..modules.module import Module


def skip_init(module_cls, *args, **kwargs):
    """`module_cls(*args, **kwargs)` without the time that initialising its parameters takes; their values are
    undefined and no random number is drawn."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    final = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=final)
