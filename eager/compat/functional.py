"""torch.functional: functions of torch's top level by the path of the file in which PyTorch writes them."""

from .. import api

__all__ = """
atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist
chain_matmul einsum istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique
unique_consecutive unravel_index
""".split()


def __getattr__(name):
    """What lies at the top level: some of it is imported when first asked for."""
    if name not in __all__ and name != "Tensor":
        raise AttributeError(f"module 'torch.functional' has no attribute {name!r}; it has: {', '.join(__all__)}")
    from .. import torch_functions

    value = globals()[name] = getattr(api, name, None) or getattr(torch_functions, name)
    return value
