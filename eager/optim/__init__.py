"""Optimizers and learning rate schedules, under PyTorch's names."""

from . import lr_scheduler, swa_utils
from .adagrad import Adadelta, Adagrad
from .adam import Adam, AdamW
from .adam_variants import Adamax, NAdam, RAdam, SparseAdam
from .asgd_rprop import ASGD, Rprop
from .adafactor_muon import Adafactor, Muon
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD
