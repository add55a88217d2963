"""The `weight` and `bias` of a module: made, or None where they are not wanted, and given their first values."""

import math

from ...api import empty
from .. import init
from ..parameter import Parameter


def register(module, sizes, weight, bias, device, dtype):
    """Parameters `weight` and `bias` of the same sizes, each None unless it is wanted."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        module.register_parameter(name, Parameter(empty(sizes, device=device, dtype=dtype)) if wanted else None)


def register_map(module, weight_sizes, bias_size, bias, device, dtype):
    """A weight, and a bias that is None unless it is wanted."""
    module.weight = Parameter(empty(weight_sizes, device=device, dtype=dtype))
    module.register_parameter("bias", Parameter(empty(bias_size, device=device, dtype=dtype)) if bias else None)


def start_as_identity(module):
    """Ones and zeros."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


def start_uniform(module):
    """Both uniform in +-1/sqrt(fan_in): kaiming_uniform with a = sqrt(5) has that bound."""
    init.kaiming_uniform_(module.weight, a=math.sqrt(5))
    if module.bias is not None:
        fan_in, _ = init._calculate_fan_in_and_fan_out(module.weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
        init.uniform_(module.bias, -bound, bound)
