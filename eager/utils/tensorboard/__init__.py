"""torch.utils.tensorboard: event files of training runs, which the package tensorboard writes; as PyTorch's, this one cannot be
imported without it."""

from ...optional_imports import extra

extra("tensorboard.summary.writer.event_file_writer", "torch.utils.tensorboard", "tensorboard")

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
