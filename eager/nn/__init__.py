"""nn: modules, parameters, their functions and initialisers, under PyTorch's names."""

from . import attention, functional, grad, init, modules, utils
from .modules import *
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from . import parallel  # noqa: E402  (it wraps modules)
from .parallel import DataParallel  # noqa: E402
