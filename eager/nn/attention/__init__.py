"""nn.attention: choice among ways to compute scaled dot product attention. There is one here, so a choice only is kept
and checked."""

import enum
from contextlib import contextmanager


class SDPBackend(enum.IntEnum):
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_ALL = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION]
_chosen = [_ALL]


def _cur_sdpa_kernel_backends(with_priority=False):
    """What the innermost `sdpa_kernel` allows."""
    return list(_chosen[-1])


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Inside, attention may be computed in these ways; all give the same result here."""
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    _chosen.append(list(dict.fromkeys(given)))
    try:
        yield
    finally:
        _chosen.pop()
