"""Half types inside composites: they compute in float32 and are rounded once at the end."""

from .arithmetic import cast


def single(x):
    """x in the type in which its dtype computes."""
    return x if x.dtype.compute is x.dtype else cast(x, x.dtype.compute)


def back(y, x):
    """y in x's dtype."""
    return y if y.dtype is x.dtype else cast(y, x.dtype)
