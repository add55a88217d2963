"""`torch.utils.hooks`: handles of hooks, and what hooks mean to pickling.

A hook marked with `unserializable_hook` is dropped with a warning when the tensor that carries it is pickled.
"""

import warnings

from ..hook_handle import RemovableHandle, add_hook

__all__ = ["RemovableHandle", "add_hook", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(hook):
    """Mark a hook as not to be warned about when its tensor is pickled."""
    hook.__torch_unserializable__ = True
    return hook


def warn_if_has_hooks(tensor):
    """Warn of backward hooks that pickling leaves behind."""
    hooks = getattr(tensor, "_fl_hooks", None)
    for hook in () if hooks is None else [h for table in hooks.tensor.values() for h in table.values()]:
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=3,
            )
