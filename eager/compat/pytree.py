"""torch.utils._pytree: nested lists, tuples, dicts and named tuples as a list of leaves and a description.

`register_pytree_node` adds containers. Dicts keep their order; None is a leaf, as in PyTorch.
"""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

_Node = namedtuple("_Node", "flatten unflatten")
_REGISTERED = {}


@dataclass(frozen=True)
class TreeSpec:
    """What surrounds the leaves: container type, its context, the descriptions of its children (a leaf: type None)."""

    type: object
    context: object
    children_specs: list = field(default_factory=list)

    @property
    def num_leaves(self):
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    @property
    def num_children(self):
        return len(self.children_specs)

    @property
    def num_nodes(self):
        return 1 + sum(c.num_nodes for c in self.children_specs)

    def is_leaf(self):
        return self.type is None

    def __hash__(self):
        return hash((self.type, self.num_leaves))


class LeafSpec(TreeSpec):
    """The description of a leaf."""

    def __init__(self):
        super().__init__(None, None)


def register_pytree_node(cls, flatten_fn, unflatten_fn, **options):
    """flatten_fn(x) -> (children, context); unflatten_fn(children, context) -> x."""
    _REGISTERED[cls] = _Node(flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node
register_pytree_node(list, lambda x: (list(x), None), lambda c, _: list(c))
register_pytree_node(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register_pytree_node(dict, lambda x: (list(x.values()), list(x)), lambda c, keys: dict(zip(keys, c)))
register_pytree_node(OrderedDict, lambda x: (list(x.values()), list(x)), lambda c, keys: OrderedDict(zip(keys, c)))
register_pytree_node(defaultdict, lambda x: (list(x.values()), (x.default_factory, list(x))),
                     lambda c, about: defaultdict(about[0], zip(about[1], c)))
register_pytree_node(deque, lambda x: (list(x), x.maxlen), lambda c, maxlen: deque(c, maxlen))
_NAMED = _Node(lambda x: (list(x), type(x)), lambda c, kind: kind(*c))


def _node_of(tree):
    known = _REGISTERED.get(type(tree))
    if known is None and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return namedtuple, _NAMED
    return type(tree), known


def tree_flatten(tree, is_leaf=None):
    """(leaves, TreeSpec)."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree, leaves, is_leaf):
    kind, node = _node_of(tree)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LeafSpec()
    children, context = node.flatten(tree)
    return TreeSpec(kind, context, [_flatten(c, leaves, is_leaf) for c in children])


def tree_unflatten(leaves, treespec):
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(leaves)} leaves for a tree of {treespec.num_leaves}")
    return _unflatten(iter(leaves), treespec)


def _unflatten(leaves, spec):
    if spec.type is None:
        return next(leaves)
    node = _NAMED if spec.type is namedtuple else _REGISTERED[spec.type]
    return node.unflatten([_unflatten(leaves, c) for c in spec.children_specs], spec.context)


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree of func(leaf, leaves of the other trees...)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten([func(*row) for row in zip(leaves, *(tree_leaves(r, is_leaf) for r in rests))], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(types, func, tree, is_leaf=None):
    wanted = types if callable(types) and not isinstance(types, type) else lambda x: isinstance(x, types)
    return tree_map(lambda x: func(x) if wanted(x) else x, tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(types, pred, tree, is_leaf=None):
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def tree_any_only(types, pred, tree, is_leaf=None):
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))
