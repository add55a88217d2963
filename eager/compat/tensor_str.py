"""torch._tensor_str: what prints tensors, by PyTorch's private names for it."""

import contextlib

from ..printing import Options as PRINT_OPTS
from ..printing import join, set_printoptions, text, values

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
    """The text of a tensor; `tensor_contents` stands for its elements."""
    return text(self, tensor_contents)


_str_intern = _str


def _tensor_str(self, indent):
    """The elements alone, lines behind the first indented so far."""
    return values(self.detach().cpu().numpy(), self.dtype, indent) if self.numel() else "[]"


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """`tensor(...` closed, with what is told behind the elements; `force_newline`: on a line of its own."""
    if not force_newline or not suffixes:
        return join(tensor_str, suffixes, indent)
    return join(f"{tensor_str},\n{' ' * indent}{suffixes[0]}", suffixes[1:], indent)


__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]
