"""torch._tensor_str: what prints tensors, by PyTorch's private names for it."""

import contextlib

from ..printing import Options as PRINT_OPTS
from ..printing import set_printoptions, text

_NAMES = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


def get_printoptions():
    return {name: getattr(PRINT_OPTS, name) for name in _NAMES}


@contextlib.contextmanager
def printoptions(**options):
    """These options inside of a `with`."""
    kept = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(PRINT_OPTS, name, value)


def _str(self, *, tensor_contents=None):
    """The text of a tensor."""
    return text(self) if tensor_contents is None else str(tensor_contents)


__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]
