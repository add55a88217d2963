"""Optimizers and learning rate schedules, under PyTorch's names."""

from . import lr_scheduler, swa_utils
from .adagrad import Adadelta, Adagrad
from .adam import Adam, AdamW
from .adam_kin import Adamax, NAdam, RAdam, SparseAdam
from .averaging import ASGD, Rprop
from .factored import Adafactor, Muon
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD
