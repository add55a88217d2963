"""Modules whose parameters get their sizes from the first input.

In: a module class with uninitialized parameters and `initialize_parameters(*args)`, which materializes them. Out: after
the first call the module is one of `cls_to_become`, and nothing of the mixin is left but the sizes it found.
"""

from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ..parameter import is_lazy


if TYPE_CHECKING:
    from .module import Module  # that the mixin stands before
else:
    Module = object


class LazyModuleMixin(Module):
    """Put before the module class: `class LazyConv2d(LazyModuleMixin, Conv2d)`."""

    cls_to_become: Any = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args, **kwargs):
        raise TypeError(f"initialize_parameters is not defined for {type(self).__name__}")

    def has_uninitialized_params(self):
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Before loading: uninitialized parameters take the sizes of what is loaded."""
        for name, param in (*self._parameters.items(), *self._buffers.items()):
            value = state_dict.get(prefix + name)
            if param is not None and value is not None and is_lazy(param) and not is_lazy(value):
                with no_grad():
                    param.materialize(value.shape)

    def _infer_parameters(self, module, args, kwargs=None):
        """Before the first call: sizes from the inputs, then the class without laziness."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward "
            "pass to correctly initialize the modules"
        )
