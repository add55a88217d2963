"""nn: modules, parameters, their functions and initialisers, under PyTorch's names."""

from ..lazy_import import submodules as _submodules
from . import attention, functional, init, modules, utils
from .modules import *
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from . import parallel  # noqa: E402  (it wraps modules)
from .parallel import DataParallel  # noqa: E402

__getattr__ = _submodules(__name__, "grad")
