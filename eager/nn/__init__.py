"""nn: modules, parameters, their functions and initialisers, under PyTorch's names."""

from . import functional, init, modules, utils
from .modules import *
from .parameter import Buffer, Parameter
