"""torch.utils.data.datapipes._decorator: the mark of pipes, by PyTorch's private path."""

from .datapipe import functional_datapipe

__all__ = ["functional_datapipe"]
