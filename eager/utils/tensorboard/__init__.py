"""torch.utils.tensorboard: event files of training runs, written without TensorFlow, TensorBoard or protobuf."""

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
