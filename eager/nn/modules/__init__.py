"""All modules, by name."""

from .activation import *
from .adaptive import *
from .batchnorm import *
from .channelshuffle import *
from .container import *
from .conv import *
from .distance import *
from .dropout import *
from .flatten import *
from .fold import *
from .instancenorm import *
from .lazynorm import *
from .linear import *
from .loss import *
from .module import Module
from .normalization import *
from .padding import *
from .pixelshuffle import *
from .pooling import *
from .rnn import *
from .upsampling import *
from .sparse import *
from .transformer import *

__all__ = [name for name, value in dict(globals()).items() if isinstance(value, type) and issubclass(value, Module)]
