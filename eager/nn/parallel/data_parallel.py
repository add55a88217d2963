"""DataParallel: on a machine without GPUs the wrapped module itself runs; state_dict keys start with `module.`."""

from ..modules.module import Module


class DataParallel(Module):
    """`device_ids` and `output_device` name GPUs: without GPUs, none are used and calls go to the module."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.dim, self.device_ids, self.output_device = module, dim, [], output_device
        for given in device_ids or ():
            if getattr(given, "type", None) == "cpu" or given == "cpu":
                raise RuntimeError("module must have its parameters and buffers on a GPU for device_ids of type cpu")

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """The module's output for the inputs (a tensor or a tuple)."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    return module(*inputs, **(module_kwargs or {}))
