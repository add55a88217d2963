"""`view_copy`, `permute_copy`, ...: the functions of shape whose results are memory of their own, contiguous.

In: the functions that give views. Out: `FUNCTIONS`, one per row of the table; those that give several tensors give a tuple.
"""

from ..memory_formats import contiguous_format
from ..ops.views import alias, detach
from ..tensor import Tensor
from . import complex_numbers, indexing, shapes
from .arguments import dim_of, give


def _slice(input, dim=0, start=None, end=None, step=1):
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return indexing.getitem(input, (slice(None),) * dim_of(input, dim) + (slice(start, end, step),))


def _split(input, split_size, dim=0):
    if isinstance(split_size, (tuple, list)):
        raise TypeError(f"split_copy(): argument 'split_size' (position 2) must be int, not {type(split_size).__name__}")
    return shapes.split(input, split_size, dim)


def _split_with_sizes(input, split_sizes, dim=0):
    return shapes.split(input, list(split_sizes), dim)


def _view(input, size=None, dtype=None):
    return shapes.view(input, size, dtype=dtype) if dtype is None else shapes.view(input, dtype=dtype)


def _unfold(input, dimension, size, step):
    return input.unfold(dimension, size, step)


def _alias(input):
    return alias(input)


def _detach(input):
    return detach(input)


_VIEWS = dict(
    alias=_alias,
    as_strided=shapes.as_strided,
    detach=_detach,
    diagonal=shapes.diagonal,
    expand=shapes.expand,
    narrow=shapes.narrow,
    permute=shapes.permute,
    select=shapes.select,
    slice=_slice,
    split=_split,
    split_with_sizes=_split_with_sizes,
    squeeze=shapes.squeeze,
    t=shapes.t,
    transpose=shapes.transpose,
    unbind=shapes.unbind,
    unfold=_unfold,
    unsqueeze=shapes.unsqueeze,
    view=_view,
    view_as_complex=complex_numbers.view_as_complex,
    view_as_real=complex_numbers.view_as_real,
)


def _own(t):
    return t.clone(memory_format=contiguous_format)


def _copying(name, view):
    def function(input, *args, out=None, **kw):
        found = view(input, *args, **kw)
        if isinstance(found, Tensor):
            return give(_own(found), out)
        found = tuple(map(_own, found))
        return found if out is None else _all_given(found, out)

    function.__name__ = function.__qualname__ = name + "_copy"
    return function


def _all_given(found, out):
    """Into the tensors of a list; nothing comes back."""
    if len(out) != len(found):
        raise RuntimeError(f"split_copy_Tensor_out() expected an out= argument of size {len(found)}, got size {len(out)}")
    for part, target in zip(found, out):
        target.copy_(part)


FUNCTIONS = {name + "_copy": _copying(name, view) for name, view in _VIEWS.items()}
