"""What only data can tell: records that refuse it, and do nothing else.

A spelling calls one where PyTorch looks at the numbers that it was given. Eager raises there; a compiled graph keeps the
call, whoever reads its result, looks at the numbers in a kernel, and gives a call that fails back to eager, whose error
is the user's.
"""

import numpy as np

from .. import _call, dtypes
from ..op.op import indexed, mask, scalar, static


class LinAlgError(RuntimeError):
    """A matrix has no factorisation or inverse of the kind asked for."""


REFUSALS = {kind.__name__: kind for kind in (RuntimeError, ValueError, IndexError, LinAlgError)}


def _answer(*operands):
    return None, dtypes.bool


@indexed(meta=lambda x, *rest: x.shape, promote=_answer, refuses=True)
def all_within(s, i, x: mask, low: scalar, high: scalar, text: static, error: static = "RuntimeError", but: static = None):
    """Refuses x unless each element lies in [low, high] (None: no such end) or equals `but`; NaN lies nowhere. `text` may name
    the first one that is wrong as {bad}."""
    value = x(*i)
    inside = [s.ge(value, low)] if low is not None else []
    inside += [s.le(value, high)] if high is not None else []
    good = inside[0] if len(inside) == 1 else s.logical_and(*inside)
    good = good if but is None else s.logical_or(good, s.eq(value, but))
    return s.eq(s.index(s.indirect(s.cast(s.logical_not(good), dtypes.int64), 1, text)), 0)


@all_within.numpy
def _(x, low, high, text, error, but):
    good = np.ones(x.shape, bool) if low is None else x >= low
    good = good if high is None else good & (x <= high)
    good = good if but is None else good | (x == but)
    if not good.all():
        raise REFUSALS[error](text.format(bad=x[~good].flat[0]))
    return good


def check_within(x, low, high, text, error="RuntimeError", but=None):
    """The record's call, unless a look at a real tensor outside of all modes shows that it would refuse nothing."""
    if not _call.within(x, low, high, but):
        all_within(x, low, high, text, error, but)


@indexed(meta=lambda info, *rest: info.shape, promote=_answer, refuses=True)
def all_solved(s, i, info: mask, text: static, error: static):
    """Refuses unless each element of `info` is 0: those of matrices that have no solution. `text` names the first such as {}, and
    its place in a batch goes before what follows the colon."""
    return s.eq(s.index(s.indirect(s.cast(s.ne(info(*i), 0), dtypes.int64), 1, text)), 0)


@all_solved.numpy
def _(info, text, error):
    wrong = info.reshape(-1)
    if wrong.any():
        at = int(wrong.nonzero()[0][0])
        place = f"(Batch element {at}): " if info.ndim else ""
        name, colon, rest = text.partition(": ")
        raise REFUSALS[error](name + colon + place + rest.format(wrong[at], wrong[at]))
    return info == 0


all_within.samples(
    lambda make: [
        (make.probabilities(3, 4), 0, 1, "no"),
        (make.ints(3, 5), 0, None, "no"),
        (make.ints(3, 5), 1, 2, "no", "IndexError", 0),
        (make.probabilities(0, 2), 0.0, None, "no"),
        (make.probabilities(), None, 1.0, "no"),
    ]
)
all_solved.samples(lambda make: [(make.ints(1, 3), "f: {}", "RuntimeError"), (make.ints(1), "f: {}", "ValueError")])
