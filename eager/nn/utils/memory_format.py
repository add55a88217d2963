"""Weights of convolutions in channels_last order."""


def _converted(module, memory_format, rank, kinds):
    for each in module.modules():
        if type(each).__name__ in kinds and each.weight is not None and each.weight.dim() == rank:
            each.weight.data = each.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """All (transposed) 2-d convolution weights of the module in this memory format."""
    return _converted(module, memory_format, 4, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module, memory_format):
    return _converted(module, memory_format, 5, ("Conv3d", "ConvTranspose3d"))
