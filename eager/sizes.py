"""Sizes: plain ints, or symbolic integers while a program is captured.

The marker classes are empty here; the compiler's shape environment subclasses them. Eager code uses operators on
sizes and never converts one without need: `int()`, `hash()` and a branch on a symbolic size cost generality.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any


class SymInt:
    """An integer that is not fixed while a program is captured."""

    __slots__ = ()

    if TYPE_CHECKING:  # the shape environment's class has them

        def _binary(self, other: Any, /) -> Any: ...
        def __float__(self) -> float: ...
        def __int__(self) -> int: ...
        def __index__(self) -> int: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _binary
        __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __lt__ = __le__ = __gt__ = __ge__ = _binary

    def as_size(self):
        """The size of a dimension that it is: itself where that is 2 or more, else the int that it is here."""
        return self


class SymFloat:
    """A float that is not fixed while a program is captured."""

    __slots__ = ()


class SymBool:
    """A comparison of symbolic numbers; `bool()` of it adds a guard."""

    __slots__ = ()


SYMBOLIC = (SymInt, SymFloat, SymBool)


class Size(tuple):
    """A tuple of sizes."""

    __slots__ = ()

    def __new__(cls, sizes=()):
        if type(sizes) is not Size and (type(sizes) is not tuple or not all([type(n) is int for n in sizes])):
            sizes = tuple([n if type(n) is int else _size(k, n) for k, n in enumerate(sizes)])
        return tuple.__new__(cls, sizes)

    def numel(self):
        return numel(self)

    def __add__(self, other):
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple(self) + tuple(other))

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times):
        return Size(tuple(self) * times)

    __rmul__ = __mul__

    def __getitem__(self, key) -> Any:
        item = tuple.__getitem__(self, key)
        return tuple.__new__(Size, item) if type(key) is slice else item

    def __repr__(self):
        return f"torch.Size({list(self)})"

    def __reduce__(self):
        return Size, (tuple(self),)


def _size(k: int, n):
    """A size as Python's int (a symbolic one stays); `k`: its place."""
    if isinstance(n, SymInt):
        return n
    try:
        found = operator.index(n)
    except (TypeError, RuntimeError, ValueError):
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {k} is '{type(n).__name__}')") from None
    return found


def is_int(x) -> bool:
    """True for int (not bool) and SymInt."""
    return type(x) is int or isinstance(x, SymInt) or (isinstance(x, int) and not isinstance(x, bool))


def is_number(x) -> bool:
    """True for what takes part in promotion as a Python number."""
    return isinstance(x, (int, float, complex, SymInt, SymFloat))


def numel(sizes):
    total = 1
    for n in sizes:
        total = total * n
    return total


def contiguous_strides(sizes) -> tuple:
    """Row-major strides in elements; a dimension of size 0 counts as 1, so that strides stay positive."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        if type(n) is not int or n > 1:
            step = step * n
    return tuple(reversed(strides))


class RowMajor(tuple):
    """Contiguous strides that were computed from the sizes: whoever asks whether they are need not compare numbers."""

    __slots__ = ()


def is_row_major(strides) -> bool:
    """Whether strides of a tensor without bytes (None: never asked for) are contiguous for sure."""
    return strides is None or type(strides) is RowMajor


def static(sizes) -> bool:
    """True if no size is symbolic."""
    for n in sizes:
        if type(n) is not int and isinstance(n, SymInt):
            return False
    return True


def settled_sizes(sizes, strides) -> tuple:
    """Sizes and strides of a new tensor while a program is captured: sizes 0 and 1 are ints, which rules of shape rely on (what
    is 1 broadcasts, has no order in memory, and is squeezed away)."""
    settled = tuple([n.as_size() if isinstance(n, SymInt) else n for n in sizes])
    if type(strides) is RowMajor and any(a is not b for a, b in zip(settled, sizes)):
        strides = RowMajor(contiguous_strides(settled))
    return settled, strides
