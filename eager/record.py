"""Nodes of the autograd graph, and how a call adds one.

A node keeps what its gradient formulas name (inputs, outputs, or only their meta), with the storage versions at that
time; its edges lead to the nodes of its inputs, or straight to a leaf tensor. Nothing here computes: the engine runs
nodes.
"""

from __future__ import annotations

import itertools
import weakref

from .grads import Meta
from .tensor import DATA, Tensor, View

_new = object.__new__
next_sequence = itertools.count().__next__


class SavedOutput:
    """An output that its own node needs: the tensor while it lives, else rebuilt from its bytes (no reference
    cycle).
    """

    __slots__ = ("ref", "array", "dtype", "device", "storage", "geometry")

    def __init__(self, t: Tensor):
        self.ref, self.array, self.dtype, self.device, self.storage = (
            weakref.ref(t),
            t._array,
            t._dtype,
            t._device,
            t._storage,
        )
        self.geometry = None if t._storage is None else t._geometry

    def bytes_shared(self, t: Tensor) -> None:
        """The tensor got a storage, and with it a version, after it was saved."""
        self.storage, self.geometry = t._storage, t._geometry

    def get(self, node, number: int) -> Tensor:
        tensor = self.ref()
        if tensor is None:
            tensor = self.rebuilt()
            if node.op is None or node.op.outputs[number].differentiable:
                tensor._grad_fn, tensor._output_nr = node, number
        return tensor

    def rebuilt(self) -> Tensor:
        t = Tensor._from_array(self.array, self.dtype)
        t._device, t._storage = self.device, self.storage
        if self.storage is not None:
            t._geometry = self.geometry
        return t


class Node:
    """`args`: the call's arguments as saved (a tensor, its Meta, None, or a plain value); `versions` of the saved
    tensors; `edges` per parameter: None, (node, output number), (leaf, 0), or a list of these for a tuple of tensors;
    `metas` per output: (sizes, dtype, device); `outs`: None, or (saved outputs, their versions).
    """

    __slots__ = ("op", "args", "versions", "edges", "metas", "outs", "sequence", "__weakref__", "__dict__")
    hooks = stack = None  # rarely set: NodeHooks; where the call was recorded (anomaly mode)
    released = False
    final = None  # for nodes that ask: whether the run about to come is the last

    def __init__(self, op, args, versions, edges, metas):
        self.op, self.args, self.versions, self.edges, self.metas = op, args, versions, edges, metas
        self.outs, self.sequence = None, next_sequence()

    # -- the face of grad_fn

    def name(self) -> str:
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    @property
    def next_functions(self) -> tuple:
        return tuple(
            (AccumulateGrad(target) if isinstance(target, Tensor) else target, number)
            for target, number in (edge or (None, 0) for edge in self.flat_edges())
        )

    def flat_edges(self) -> list:
        flat = []
        for p, edge in zip(self.op.params, self.edges):
            if type(edge) is list:
                flat.extend(edge)
            elif p.is_tensor:
                flat.append(edge)
        return flat

    def make_hooks(self):
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks

    def register_hook(self, hook):
        """`hook(grad_inputs, grad_outputs)` after the node ran; may return new grad_inputs."""
        return self.make_hooks().add("post", hook)

    def register_prehook(self, hook):
        """`hook(grad_outputs)` before the node runs; may return new ones."""
        return self.make_hooks().add("pre", hook)

    @property
    def metadata(self) -> dict:
        return self.__dict__.setdefault("_metadata", {})

    def __repr__(self):
        return f"<{self.name()}>"

    # -- running

    def apply(self, grads: list, needs: list) -> list:
        """Gradients per edge (lists for tuples of tensors); None where not needed or zero. `needs`: per edge, bools."""
        op, formulas = self.op, self.op.grads
        args, outs = self.saved_args(), self.saved_outs()
        star = formulas.get("*")
        if star is not None:
            names = {p.name for p, need in zip(op.params, needs) if need}
            found = star(grads, args, outs, names)
            return [found.get(p.name) if need else None for p, need in zip(op.params, needs)]
        result = []
        for p, need in zip(op.params, needs):
            formula = formulas.get(p.name) if need else None
            result.append(None if formula is None else formula(grads, args, outs, None))
        return result

    def saved_args(self) -> tuple:
        if self.released:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are freed when you call .backward() "
                "or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
                "time or if you need to access saved tensors after calling backward."
            )
        args = self.args
        if self.versions is not None:
            check_versions(self, args, self.versions)
            if any(type(a) is Packed for a in args):
                return tuple(a.unpack() if type(a) is Packed else a for a in args)
        return args

    def saved_outs(self):
        if self.outs is None:
            return None
        found = []
        for k, (out, version) in enumerate(zip(*self.outs)):
            if type(out) is SavedOutput:
                out = out.get(self, k)
                if out._version != version:
                    raise_version(self, out, version, f"output {k} of ")
            elif type(out) is Packed:
                out = out.unpack()
            found.append(out)
        return found

    def tell_saved(self, t: Tensor) -> None:
        out = self.outs[0][t._output_nr]
        if type(out) is SavedOutput:
            out.bytes_shared(t)

    def release(self) -> None:
        """Free what was saved; a second backward through this node raises (unless it saved nothing)."""
        if self.versions is not None or self.outs is not None:
            self.args = self.outs = None
            self.released = True


class NodeHooks:
    """Hooks of a node, in the order in which they run: `tensor` (per output number), `retain` (ditto), `pre`,
    `post`.
    """

    __slots__ = ("tensor", "retain", "pre", "post", "__weakref__")

    def __init__(self):
        self.tensor, self.retain, self.pre, self.post = {}, {}, {}, {}

    def add(self, kind: str, hook) -> Handle:
        return Handle(getattr(self, kind), hook)

    def add_tensor(self, number: int, hook) -> Handle:
        return Handle(self.tensor.setdefault(number, {}), hook)


class Handle:
    """Returned when a hook is registered; `remove()`, or leaving its `with` block, takes the hook out."""

    _ids = itertools.count()

    def __init__(self, table: dict, hook):
        self.table, self.id = table, next(Handle._ids)
        table[self.id] = hook

    def remove(self) -> None:
        self.table.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class AccumulateGrad:
    """What `next_functions` shows for a leaf; equal for the same leaf."""

    __slots__ = ("variable",)
    next_functions = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def register_prehook(self, hook) -> Handle:
        return leaf_hooks(self.variable).add("pre", hook)

    def register_hook(self, hook) -> Handle:
        return leaf_hooks(self.variable).add("post", lambda leaf: hook((), (leaf.grad,)))

    def __eq__(self, other):
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self):
        return hash(self.variable)

    def __repr__(self):
        return "<AccumulateGrad>"


def leaf_hooks(leaf: Tensor) -> NodeHooks:
    try:
        return leaf._hooks
    except AttributeError:
        leaf._hooks = NodeHooks()
        return leaf._hooks


class Packed:
    """A saved tensor that saved-tensor hooks have turned into something else."""

    __slots__ = ("value", "unpacker")

    def __init__(self, value, unpacker):
        self.value, self.unpacker = value, unpacker

    def unpack(self) -> Tensor:
        return self.unpacker(self.value)


def check_versions(node, args, versions) -> None:
    for a, version in zip(args, versions):
        if version is not None and type(a) is not Packed:
            if type(version) is tuple:
                for x, v in zip(a, version):
                    if x._version != v:
                        raise_version(node, x, v)
            elif a._version != version:
                raise_version(node, a, version)


def raise_version(node, tensor, expected, which="") -> None:
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor._dtype} {list(tensor._sizes)}], which is {which}{node.name()}, is at version {tensor._version}; "
        f"expected version {expected} instead. Hint: enable anomaly detection to find the operation that failed to "
        "compute its gradient, with torch.autograd.set_detect_anomaly(True)."
    )


# -- recording


def edge_of(t: Tensor):
    """Where the gradient of this input goes: (node, output number), (leaf, 0), or None."""
    if t._grad_fn is not None:
        return t._grad_fn, t._output_nr
    return (t, 0) if t._requires_grad else None


def edges_of(op, args) -> tuple:
    edges = []
    for code, a in zip(op.codes, args):
        if code == 0 or a is None:
            edges.append(None)
        elif code == 2:
            edges.append([edge_of(x) for x in a])
        elif isinstance(a, Tensor):
            node = a._grad_fn
            edges.append((node, a._output_nr) if node is not None else (a, 0) if a._requires_grad else None)
        else:
            edges.append(None)
    return tuple(edges)


def plan(op, edges) -> tuple:
    """What the formulas that these edges will run need: ({param: "save" | "meta"}, {outputs})."""
    mask = tuple([e is not None if type(e) is not list else any(x is not None for x in e) for e in edges])
    found = op.cache.get(mask)
    if found is None:
        found = op.cache[mask] = _plan(op, mask)
    return found


def _plan(op, mask):
    formulas = (
        [op.grads["*"]]
        if "*" in op.grads
        else [op.grads[p.name] for p, needed in zip(op.params, mask) if needed and p.name in op.grads]
    )
    params, outs = {}, set()
    for f in formulas:
        for k in f.params:
            if ("param", k) not in f.metas:
                params[k] = "save"
            else:
                params.setdefault(k, "meta")
        outs |= {k for k in f.outs if ("out", k) not in f.metas}
    return params, tuple(sorted(outs)), bool(formulas)


def save_args(op, args, wanted) -> tuple:
    """(saved arguments, versions or None): tensors that no formula names are dropped."""
    saved, versions = list(args), None
    for k, code in enumerate(op.codes):
        a = saved[k]
        if code == 0 or a is None or (code == 1 and not isinstance(a, Tensor)):
            continue
        how = wanted.get(k)
        if how == "save":
            if versions is None:
                versions = [None] * len(saved)
            versions[k] = a._version if code == 1 else tuple([x._version for x in a])
        elif code == 1:
            saved[k] = Meta.of(a) if how == "meta" else None
        else:
            saved[k] = tuple([Meta.of(x) for x in a])
    return tuple(saved), None if versions is None else tuple(versions)


def metas_of(outs) -> tuple:
    return tuple([(t._sizes, t._dtype, t._device) for t in outs])


def differentiable_out(op, k, t) -> bool:
    return (k >= len(op.outputs) or op.outputs[k].differentiable) and t._dtype.category >= 2


def add_node(op, args, outs, packer=None) -> Node | None:
    """Record a call: make its node and hang the outputs on it. None if no formula leads to an input that needs it."""
    edges = edges_of(op, args)
    wanted, kept_outs, any_formula = plan(op, edges)
    if not any_formula or not any(differentiable_out(op, k, t) for k, t in enumerate(outs)):
        return None
    saved, versions = save_args(op, args, wanted)
    node = Node(op, saved, versions, edges, metas_of(outs))
    for k, t in enumerate(outs):
        if differentiable_out(op, k, t):
            t._grad_fn, t._output_nr, t._requires_grad = node, k, False
    if kept_outs:
        save_outs(node, outs, kept_outs)
    if packer is not None:
        pack(node, packer)
    return node


def save_outs(node, outs, kept) -> None:
    saved = [SavedOutput(t) if k in kept else Meta.of(t) for k, t in enumerate(outs)]
    node.outs = saved, [t._version for t in outs]


def pack(node, packer) -> None:
    """Hand the saved tensors to saved-tensor hooks."""
    packing, unpacking = packer
    node.args = tuple(Packed(packing(a), unpacking) if isinstance(a, Tensor) else a for a in node.args)
    if node.outs is not None:
        outs, versions = node.outs
        node.outs = [Packed(packing(o.rebuilt()), unpacking) if type(o) is SavedOutput else o for o in outs], versions


# -- views and in-place writes


def mark_view(out: Tensor, parent: Tensor, op, args, recorded: bool) -> None:
    """`out` is `op(parent, *args)` over the same bytes."""
    out._view = View(parent, op, args)
    if recorded:
        parent._ensure_storage().add_view(out)


def root_of(t: Tensor) -> tuple:
    """(base, chain of views from the base to `t`, innermost last)."""
    chain = []
    while t._view is not None and t._view is not DATA:
        chain.append(t)
        t = t._view.parent
    return t, chain[::-1]


def rebase(target: Tensor, node: Node) -> None:
    """After an in-place write recorded as `node`: `target` and everything that views the same base get their new
    history.

    For a view, the write is `put` into the base: base' = put(base, view'), whose gradients are again a put and a view.
    """
    base, chain = root_of(target)
    edge = (node, 0)
    for each in reversed(chain):
        parent, op, args = each._view
        parent_edge = edge_of(parent)
        if node is not None:
            put = Node(
                op.put, (None, None, *args), None, (parent_edge, edge) + (None,) * len(args), metas_of((parent,))
            )
            edge = (put, 0)
    base._grad_fn, base._output_nr, base._requires_grad = *edge, False
    refresh_views(base, target if not chain else None)


def refresh_views(base: Tensor, done=None) -> None:
    """Give the recorded views of `base` gradient functions that lead to its present history."""
    storage = base._storage
    if storage is None or storage.views is None:
        return
    for each in storage.live_views():
        if each._view is not None and each._view is not DATA and root_of(each)[0] is base:
            parent, op, args = each._view
            each._grad_fn, each._output_nr, each._requires_grad = view_node(op, parent, args, each), 0, False


def view_node(op, parent, args, out) -> Node:
    args = (parent, *args)
    edges = edges_of(op, args)
    saved, versions = save_args(op, args, plan(op, edges)[0])
    return Node(op, saved, versions, edges, metas_of((out,)))
