"""Tuples from a number or a sequence: `_pair(3) == (3, 3)`; what modules ask of their inputs."""

import itertools
from collections.abc import Iterable
from typing import Any


def _ntuple(n, name):
    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(itertools.repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _check_rank(input, *ranks):
    if input.ndim not in ranks:
        raise ValueError(f"expected {' or '.join(f'{n}D' for n in ranks)} input (got {input.ndim}D input)")


def _reverse_repeat_tuple(t, n):
    """(1, 2), 2 -> (2, 2, 1, 1)"""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """Sizes with None replaced by the last defaults."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [v if v is not None else d for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes `prefix` off the names of a state_dict (of DataParallel, say), in place."""
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata: Any = getattr(state_dict, "_metadata", None)
    for key in [k for k in metadata or () if k]:
        if key == prefix.rstrip(".") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
