"""torch.utils.data._utils: the loader's parts by PyTorch's private paths."""

from . import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]
