"""Nested tuples, lists and dicts of tensors: their leaves, and the same nest around other leaves."""

from __future__ import annotations


def leaves(tree) -> list:
    if isinstance(tree, dict):
        return [x for v in tree.values() for x in leaves(v)]
    if isinstance(tree, (tuple, list)):
        return [x for v in tree for x in leaves(v)]
    return [tree]


def rebuild(tree, new):
    """`tree` with its leaves taken from the iterator `new`."""
    if isinstance(tree, dict):
        return type(tree)((k, rebuild(v, new)) for k, v in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[rebuild(v, new) for v in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)([rebuild(v, new) for v in tree])
    return next(new)


def map_leaves(f, tree):
    return rebuild(tree, iter([f(x) for x in leaves(tree)]))


def broadcast(prefix, tree, what: str) -> list:
    """The leaf of `prefix` (a nest that is the upper part of `tree`) over each leaf of `tree`."""
    if isinstance(prefix, (tuple, list, dict)):
        if type(prefix) is not type(tree) and not (isinstance(prefix, (tuple, list)) and isinstance(tree, (tuple, list))):
            raise ValueError(f"{what} does not have the structure of the values it describes: {prefix} for {type(tree)}")
        if len(prefix) != len(tree):
            raise ValueError(f"{what} has {len(prefix)} entries for {len(tree)} values")
        pairs = [(prefix[k], tree[k]) for k in prefix] if isinstance(prefix, dict) else zip(prefix, tree)
        return [x for p, t in pairs for x in broadcast(p, t, what)]
    return [prefix] * len(leaves(tree))
