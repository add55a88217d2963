"""Tuples from a number or a sequence: `_pair(3) == (3, 3)`."""

import itertools
from collections.abc import Iterable


def _ntuple(n, name):
    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(itertools.repeat(x, n))
    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
