"""Optimizers and learning rate schedules, under PyTorch's names."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD
