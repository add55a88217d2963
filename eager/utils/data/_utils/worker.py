"""What a worker knows of itself, by PyTorch's path."""

from ..workers import WorkerInfo as WorkerInfo
from ..workers import get_worker_info as get_worker_info
