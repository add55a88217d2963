"""Prefixes of an associative operation: in a function of two trees of tensors and one such tree, out the tree of all its
prefixes along a dim. Neighbours are combined, the prefixes of these found in the same way, and the others made of them:
2 n combinations of slices in about 2 log n calls.
"""

from ...frontend import shapes
from ...frontend.arguments import dim_of
from .. import pytree


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """`combine_fn(left, right)` gives a tree like its operands and must be associative along `dim`. Both modes mean the same
    here: `combine_fn` gets slices of whole tensors. Sizes along `dim` must be equal (ValueError otherwise)."""
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    dim = dim_of(leaves[0], dim)
    if any(x.shape[dim] != leaves[0].shape[dim] for x in leaves):
        raise ValueError(f"All xs leaves must have the same size in dim {dim}, got {[x.shape[dim] for x in leaves]}")

    def combine(left, right):
        return pytree.tree_flatten(combine_fn(pytree.tree_unflatten(left, spec), pytree.tree_unflatten(right, spec)))[0]

    if reverse:
        leaves = [x.flip(dim) for x in leaves]
    found = _prefixes(combine, leaves, dim)
    return pytree.tree_unflatten([x.flip(dim) for x in found] if reverse else found, spec)


def _prefixes(combine, xs, dim):
    count = xs[0].shape[dim]
    if count < 2:
        return xs
    pairs = combine([_part(x, dim, 0, count - 1) for x in xs], [_part(x, dim, 1, count) for x in xs])
    odd = _prefixes(combine, pairs, dim)  # prefixes that end at 1, 3, 5, ...
    first = [x.narrow(dim, 0, 1) for x in xs]
    if count == 2:
        return [shapes.cat(pair, dim) for pair in zip(first, odd)]
    rest = [_part(x, dim, 2, count) for x in xs]
    even = combine([x.narrow(dim, 0, rest[0].shape[dim]) for x in odd], rest)
    return [_interleaved(shapes.cat(pair, dim), x, dim) for pair, x in zip(zip(first, even), odd)]


def _part(x, dim, start, stop):
    """Every other element."""
    return x[(slice(None),) * dim + (slice(start, stop, 2),)]


def _interleaved(a, b, dim):
    """a[0], b[0], a[1], ...; a may have one more."""
    count = b.shape[dim]
    both = shapes.stack([a.narrow(dim, 0, count), b], dim + 1).flatten(dim, dim + 1)
    return both if a.shape[dim] == count else shapes.cat([both, a.narrow(dim, count, 1)], dim)
