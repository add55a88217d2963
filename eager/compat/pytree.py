"""torch.utils._pytree: nested lists, tuples, dicts and named tuples as a list of leaves and a description.

`register_pytree_node` adds containers. Dicts keep their order; None is a leaf, as in PyTorch.
"""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

from ..sizes import Size

PyTree, Context = Any, Any  # names for annotations
NodeDef = namedtuple("NodeDef", "type flatten_fn unflatten_fn flatten_with_keys_fn")
SUPPORTED_NODES = {}


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


@dataclass(frozen=True)
class SequenceKey:
    """The step from a sequence to its item `idx`."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The step from a mapping to its value at `key`."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The step from an object to its attribute `name`."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keystr(kp):
    """A path of keys as Python would write it: `[0]['a'].b`."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """What lies at the end of a path of keys."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _keys(flatten, key):
    """A flatten_with_keys function: children by `key` of what names them."""

    def flatten_with_keys(tree):
        children, context = flatten(tree)
        return [(key(name), child) for name, child in zip(_names(tree), children)], context

    return flatten_with_keys


def _names(tree):
    return tree._fields if hasattr(tree, "_fields") else list(tree) if hasattr(tree, "keys") else range(len(tree))


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """flatten_fn(x) -> (children, context); unflatten_fn(children, context) -> x; flatten_with_keys_fn(x) -> (pairs of
    key and child, context). ValueError if the class is known already."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(cls, flatten_fn, unflatten_fn, **options):
    SUPPORTED_NODES.pop(cls, None)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _list_flatten(x):
    return list(x), None


def _dict_flatten(x):
    return list(x.values()), list(x)


def _dict_unflatten(values, keys):
    return dict(zip(keys, values))


def _defaultdict_flatten(x):
    return list(x.values()), (x.default_factory, list(x))


def _deque_flatten(x):
    return list(x), x.maxlen


def _namedtuple_flatten(x):
    return list(x), type(x)


def _known(cls, flatten, unflatten, key):
    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=_keys(flatten, key))


_dict_flatten_with_keys = _keys(_dict_flatten, MappingKey)
_known(list, _list_flatten, lambda c, _: list(c), SequenceKey)
_known(tuple, _list_flatten, lambda c, _: tuple(c), SequenceKey)
_known(Size, _list_flatten, lambda c, _: Size(c), SequenceKey)
_known(dict, _dict_flatten, _dict_unflatten, MappingKey)
_known(OrderedDict, _dict_flatten, lambda c, keys: OrderedDict(zip(keys, c)), MappingKey)
_known(defaultdict, _defaultdict_flatten, lambda c, about: defaultdict(about[0], zip(about[1], c)), MappingKey)
_known(deque, _deque_flatten, lambda c, maxlen: deque(c, maxlen), SequenceKey)
_known(namedtuple, _namedtuple_flatten, lambda c, kind: kind(*c), GetAttrKey)


def _get_node_type(tree):
    """The class whose node the tree is: `namedtuple` for all of those."""
    named = type(tree) not in SUPPORTED_NODES and isinstance(tree, tuple) and hasattr(tree, "_fields")
    return namedtuple if named else type(tree)


def tree_is_leaf(tree, is_leaf=None):
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree, is_leaf=None):
    """(leaves, TreeSpec)."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree, leaves, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return LeafSpec()
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(c, leaves, is_leaf) for c in children])


def tree_unflatten(leaves, treespec):
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(leaves)} leaves for a tree of {treespec.num_leaves}")
    return _unflatten(iter(leaves), treespec)


def _unflatten(leaves, spec):
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_unflatten(leaves, c) for c in spec.children_specs], spec.context)


def tree_flatten_with_path(tree, is_leaf=None):
    """(pairs of path and leaf, TreeSpec); a path is a tuple of keys."""
    return list(_with_path(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    return list(_with_path(tree, (), is_leaf))


def _with_path(tree, path, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _get_node_type(tree)
    flatten = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if flatten is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn "
            "argument to register_pytree_node."
        )
    for key, child in flatten(tree)[0]:
        yield from _with_path(child, (*path, key), is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """The tree of func(path, leaf, leaves of the other trees...)."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    rows = zip(found, *(tree_leaves(r, is_leaf) for r in rests))
    return tree_unflatten([func(path, leaf, *others) for (path, leaf), *others in rows], spec)


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
