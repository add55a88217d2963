"""Conditions on data that a call of the library insists on.

In: a boolean tensor. Out: whether it holds throughout. A captured program takes for granted that it does, and asks when the data
is there, so that checks of arguments do not cut graphs; where it does not hold, the program runs as it stands, and raises.
"""

from .tensor import Tensor


def holds(condition: Tensor) -> bool:
    return bool(condition.all())
