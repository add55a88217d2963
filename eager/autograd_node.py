"""Nodes of the autograd graph, and how a call adds one.

A node keeps what its gradient formulas name (inputs, outputs, or only their meta), with the storage versions at that
time; its edges lead to the nodes of its inputs, or straight to a leaf tensor. Nothing here computes: the engine runs
nodes.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, NoReturn

from . import _call, node_names
from .op.gradient import Meta
from .hook_handle import RemovableHandle, add_hook
from .op.op import find, zeros
from .state import setting, state
from .tensor import Tensor, View, install_methods

_new = object.__new__
next_sequence = _call.next_sequence


class SavedOutput:
    """An output that its own node needs: the tensor while it lives, else rebuilt from its bytes (no reference
    cycle).
    """

    __slots__ = ("ref", "array", "dtype", "device", "storage", "geometry")
    geometry: Any

    def __init__(self, t: Tensor):
        self.ref, self.array, self.dtype, self.device, self.storage = (
            weakref.ref(t),
            t._fl_array,
            t._fl_dtype,
            t._fl_device,
            t._fl_storage,
        )
        self.geometry = None if t._fl_storage is None else t._fl_geometry

    def bytes_shared(self, t: Tensor) -> None:
        """The tensor got a storage, and with it a version, after it was saved."""
        self.storage, self.geometry = t._fl_storage, t._fl_geometry

    def get(self, node, number: int) -> Tensor:
        tensor = self.ref()
        if tensor is None:
            tensor = self.rebuilt()
            if node.op is None or number >= len(node.op.outputs) or node.op.outputs[number].differentiable:
                tensor._grad_fn, tensor._fl_output_nr = node, number
        return tensor

    def rebuilt(self) -> Tensor:
        t = Tensor._fl_from_array(self.array, self.dtype)
        t._fl_device, t._fl_storage = self.device, self.storage
        if self.storage is not None:
            t._fl_geometry = self.geometry
        return t


class NodeType(type):
    """The class of Node's subclasses that are names alone."""


class Node:
    """`args`: the call's arguments as saved (a tensor, its Meta, None, or a plain value); `versions` of the saved
    tensors; `edges` per parameter: None, (node, output number), (leaf, 0), or a list of these for a tuple of tensors;
    `metas` per output: (sizes, dtype, device); `outs`: None, or (saved outputs, their versions).
    """

    __slots__ = ("op", "args", "versions", "edges", "metas", "outs", "sequence", "__weakref__", "__dict__")
    op: Any
    args: Any  # a tuple; None once released
    versions: Any
    edges: Any
    metas: tuple
    outs: Any
    hooks: NodeHooks | None = None  # rarely set
    stack: Any = None  # ditto: where the call was recorded (anomaly mode)
    packed = released = False
    always = False  # runs even if no gradient reached it
    joined = False  # stands for several nodes: a hook of an output that no gradient reached is not called
    final: bool | None = None  # for nodes that ask: whether the run about to come is the last

    def __init__(self, op, args, versions, edges, metas):
        self.op, self.args, self.versions, self.edges, self.metas = op, args, versions, edges, metas
        self.outs, self.sequence = None, next_sequence()

    # -- the face of grad_fn

    def name(self) -> str:
        return type(self).__name__ if type(type(self)) is NodeType else node_names.name_of(self)

    @property
    def next_functions(self) -> tuple:
        return tuple(
            (AccumulateGrad(target) if isinstance(target, Tensor) else named(target), number)
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

    def flat_results(self, results) -> list:
        """Of what `apply` gave per edge, the gradients of the tensors among the arguments."""
        params = self.op.params if self.op is not None else results
        kept = [r for p, r, edge in zip(params, results, self.edges) if p is r or p.is_tensor or type(edge) is list]
        return [g for r in kept for g in (r if isinstance(r, (list, tuple)) else (r,))]

    def shaped_results(self, flat, results) -> list:
        """`flat_results` undone, with new gradients."""
        params = self.op.params if self.op is not None else results
        rest = iter(flat)
        return [
            [next(rest) for _ in r]
            if isinstance(r, (list, tuple))
            else next(rest)
            if p is r or p.is_tensor or type(edge) is list
            else r
            for p, r, edge in zip(params, results, self.edges)
        ]

    def make_hooks(self) -> NodeHooks:
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

    @property
    def requires_grad(self) -> bool:
        return True

    def _sequence_nr(self) -> int:
        return self.sequence

    def __getattr__(self, name: str):
        """`_saved_<name>`: what was saved of an argument or of an output."""
        op = self.op if name.startswith("_saved_") else None
        if op is not None:
            name = name[len("_saved_") :]
            tensors = [p.name for p in op.params if p.is_tensor]
            faces: dict[str, str] = dict(zip(("self", "other"), tensors))
            name = faces.get(name, name)
            for k, p in enumerate(op.params):
                if p.name == name:
                    saved = self.saved_args()[k]
                    return None if isinstance(saved, Meta) else saved
            outs = [o.name for o in op.outputs]
            if name in (*outs, "result") and self.saved_outs() is not None:
                return self.saved_outs()[outs.index(name) if name in outs else 0]
        raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")

    def __repr__(self):
        return f"<{self.name().rpartition(':')[2]} object at {id(self):#x}>"

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
        if self.args is None:
            raise_released()
        args = self.args
        if self.versions is not None:
            check_versions(self, args, self.versions)
            if self.packed:
                return tuple([unpacked(a) for a in args])
        return args

    def saved_outs(self) -> Any:
        if self.outs is None:
            return None
        found = []
        for k, (out, version) in enumerate(zip(*self.outs)):
            if type(out) is SavedOutput:
                out = out.get(self, k)
                if out._version != version:
                    raise_version(self, out, version, k)
            elif type(out) is Packed:
                out = out.unpack(self)
            found.append(out)
        return found

    def tell_saved(self, t: Tensor) -> None:
        out = self.outs[0][t._fl_output_nr]
        if type(out) is SavedOutput:
            out.bytes_shared(t)

    @property
    def saves(self) -> bool:
        """Whether it keeps tensors for its backward."""
        return self.versions is not None or self.outs is not None

    def release(self) -> None:
        """Free what was saved; a second backward through this node raises (unless it saved nothing)."""
        if self.saves:
            self.args = self.outs = None


_kinds: dict[str, NodeType] = {}


def named(node: Any) -> Any:
    """A node as programs see it: of a class of its name, `MulBackward0`, from the first look on."""
    if type(node) is Node:
        name = node.name()
        if name not in _kinds:
            _kinds[name] = NodeType(name, (Node,), {"__slots__": (), "__module__": __name__})
        setattr(node, "__class__", _kinds[name])  # noqa: B010 (type checkers know no such assignment)
    return node


install_methods({"grad_fn": property(lambda self: named(self._grad_fn))})


def raise_released() -> NoReturn:
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have "
        "already been freed). Saved intermediate values of the graph are freed when you call .backward() "
        "or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
        "time or if you need to access saved tensors after calling backward."
    )


class NodeHooks:
    """Hooks of a node, in the order in which they run: `tensor` (per output number), `retain` (ditto), `pre`,
    `accumulated` (leaves: after the gradient was added), `post`. `node`: the AccumulateGrad of a leaf, weakly.
    """

    __slots__ = ("tensor", "retain", "pre", "accumulated", "post", "node", "__weakref__")
    node: weakref.ref | None

    def __init__(self):
        self.tensor, self.retain, self.node = {}, {}, None
        self.pre, self.accumulated, self.post = OrderedDict(), OrderedDict(), OrderedDict()

    def add(self, kind: str, hook) -> RemovableHandle:
        return add_hook(getattr(self, kind), hook)

    def add_tensor(self, number: int, hook) -> RemovableHandle:
        return add_hook(self.tensor.setdefault(number, OrderedDict()), hook)


class AccumulateGrad(Node):
    """What `next_functions` shows for a leaf: made once, as long as somebody holds it. The engine itself goes to the
    leaf."""

    __slots__ = ("variable",)
    next_functions = property(lambda self: ())
    edges = ()

    def __new__(cls, variable: Tensor):
        hooks = leaf_hooks(variable)
        self = hooks.node and hooks.node()
        if self is None:
            self = _new(cls)
            self.variable, hooks.node = variable, weakref.ref(self)
        return self

    def __init__(self, variable: Tensor):
        self.metas, self.sequence = metas_of((variable,)), _LAST

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def make_hooks(self) -> NodeHooks:
        return leaf_hooks(self.variable)


_LAST = 2**64 - 1


def leaf_hooks(leaf: Tensor) -> NodeHooks:
    try:
        return leaf._fl_hooks
    except AttributeError:
        leaf._fl_hooks = NodeHooks()
        return leaf._fl_hooks


class Packed:
    """A saved tensor that saved-tensor hooks have turned into something else; it keeps the tensor's place in the
    graph, which what comes back is given. `own`: the number of the output of the node itself that was saved."""

    __slots__ = ("value", "unpacker", "edge", "own")
    edge: tuple[Any, Any] | None

    def __init__(self, t: Tensor, packer, own: int | None = None):
        self.edge = None if own is not None else edge_of(t)
        self.own = own
        given = t._fl_alias() if own is None else t
        version = given._version
        with setting(grad=False, packer=None):
            self.value = packer[0](given)
        if given._version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
                "to pack hook can not be modified by in-place operations as this can lead to "
                "unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )
        self.unpacker = packer[1]

    def unpack(self, node: Any = None) -> Tensor:
        found = self.unpacker(self.value)
        if not isinstance(found, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(found).__name__}"
            )
        edge = self.edge if self.own is None else (node, self.own)
        if found._grad_fn is None and not found._fl_requires_grad and (edge is None or not state.grad):
            return found
        found = found._fl_alias()
        if edge is not None:
            found._grad_fn, found._fl_output_nr = edge if isinstance(edge[0], Node) else (ToLeaf(edge[0]), 0)
        return found


class ToLeaf(Node):
    """Hands its gradient to a leaf: the history of a tensor that stands for that leaf."""

    __slots__ = ()

    def __init__(self, leaf: Tensor):
        super().__init__(None, (), None, ((leaf, 0),), metas_of((leaf,)))

    def name(self) -> str:
        return "AliasBackward0"

    def flat_edges(self) -> list:
        return list(self.edges)

    def apply(self, grads, needs):
        return grads


class Erasure(Node):
    """An in-place call of a record without a gradient (draws, comparisons): nothing of what was written over is left."""

    __slots__ = ()

    def apply(self, grads, needs):
        return [zeros(Meta(*self.metas[0])) if k == 0 and need else None for k, need in enumerate(needs)]


def check_versions(node, args, versions) -> None:
    for a, version in zip(args, versions):
        if version is not None and type(a) is not Packed:
            if type(version) is tuple:
                for x, v in zip(a, version):
                    if type(x) is not Packed and x._version != v:
                        raise_version(node, x, v)
            elif a._version != version:
                raise_version(node, a, version)


def raise_version(node, tensor, expected, number: int | None = None) -> None:
    """`node` needs `tensor` as it was; `number`: it is that output of the node itself."""
    maker, number = (node, number) if number is not None else (tensor._grad_fn, tensor.output_nr)
    which = "" if maker is None else f", which is output {number} of {maker.name().removesuffix('Backward0')},"
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{type_text(tensor._fl_dtype)} {list(tensor._fl_sizes)}]{which} is at version {tensor._version}; expected version "
        f"{expected} instead. Hint: "
        + (
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
            if state.anomaly is None
            else "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
            "question was changed in there or anywhere later. Good luck!"
        )
    )


def type_text(dtype) -> str:
    """`torch.FloatTensor`: how messages of the engine name a type."""
    return f"torch.{dtype.scalar_type}Tensor"


# -- recording


def edge_of(t: Tensor) -> tuple[Any, int] | None:
    """Where the gradient of this input goes: (node, output number), (leaf, 0), or None."""
    if t._grad_fn is not None:
        return t._grad_fn, t._fl_output_nr
    return (t, 0) if t._fl_requires_grad else None


def edges_of(op, args) -> tuple:
    edges = []
    for code, a in zip(op.codes, args):
        if code == 0 or a is None:
            edges.append(None)
        elif code == 2:
            edges.append([edge_of(x) for x in a])
        elif isinstance(a, Tensor):
            node = a._grad_fn
            edges.append((node, a._fl_output_nr) if node is not None else (a, 0) if a._fl_requires_grad else None)
        else:
            edges.append(None)
    return tuple(edges)


def plan(op, edges) -> tuple:
    """What the formulas that these edges will run need: ({param: "save" | "meta"}, {outputs})."""
    return plan_of_mask(op, tuple([e is not None if type(e) is not list else any(x is not None for x in e) for e in edges]))


def plan_of_mask(op, mask: tuple) -> tuple:
    """`plan` by which parameters lead to a gradient."""
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


def save_args(op, args, wanted) -> tuple[tuple, tuple | None]:
    """(saved arguments, versions or None): tensors that no formula names are dropped."""
    saved: list[Any] = list(args)
    versions: list[Any] | None = None
    for k, code in enumerate(op.codes):
        a = saved[k]
        if code == 0 or a is None or (code == 1 and not isinstance(a, Tensor)):
            continue
        how = wanted.get(k)
        if how == "save":
            if versions is None:
                versions = [None] * len(saved)
            versions[k] = saved_version(a) if code == 1 else tuple([saved_version(x) for x in a])
        elif code == 1:
            saved[k] = Meta.of(a) if how == "meta" else None
        else:
            saved[k] = tuple([Meta.of(x) for x in a])
    return tuple(saved), None if versions is None else tuple(versions)


def saved_version(t: Tensor) -> int:
    if t._fl_view is not None and t.is_inference():
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
            "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it "
            "in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
        )
    return t._version


def metas_of(outs) -> tuple:
    return tuple([(t._fl_sizes, t._fl_dtype, t._fl_device) for t in outs])


def differentiable_out(op, k, t) -> bool:
    return (k >= len(op.outputs) or op.outputs[k].differentiable) and t._fl_dtype.category >= 2


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
            t._grad_fn, t._fl_output_nr, t._fl_requires_grad = node, k, False
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
    node.packed = True
    node.args = tuple([packed(a, packer) for a in node.args])
    if node.outs is not None:
        outs, versions = node.outs
        node.outs = [Packed(o.rebuilt(), packer, k) if type(o) is SavedOutput else o for k, o in enumerate(outs)], versions


def packed(a, packer):
    if isinstance(a, Tensor):
        return Packed(a, packer)
    return tuple([packed(x, packer) for x in a]) if holds(a, Tensor) else a


def unpacked(a):
    if type(a) is Packed:
        return a.unpack()
    return tuple([unpacked(x) for x in a]) if holds(a, Packed) else a


def holds(a, kind) -> bool:
    return type(a) is tuple and any(isinstance(x, kind) for x in a)


# -- views and in-place writes


def mark_view(out: Tensor, parent: Tensor, op, args, recorded: bool) -> None:
    """`out` is `op(parent, *args)` over the same bytes."""
    above = parent._fl_view
    how = above.how if above is not None and above.how else None if recorded else _unrecorded()
    out._fl_view = View(parent, op, args, how)
    if recorded:
        parent._fl_ensure_storage().add_view(out)


def _unrecorded() -> str:
    return "inference" if state.inference else "no_grad"


def mark_multiple(outs: tuple) -> tuple:
    """Views that one call gives together."""
    for t in outs:
        view = t._fl_view
        if view is not None and view.how is None:
            t._fl_view = view._replace(how="multiple")
    return outs


class Refusing(Node):
    """The history of a custom function's view whose base was written: what its backward is then, nobody knows."""

    def __init__(self, made: tuple, edges: tuple, metas):
        super().__init__(None, None, None, edges, metas)
        self.made = made

    def name(self) -> str:
        return f"{self.made[0]}Backward"

    def apply(self, grads, needs):
        name, number = self.made
        raise RuntimeError(
            f"Output {number} of {name} is a view and its base or another view of its base has been modified inplace. This view "
            "was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
            "view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
            "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
        )


class Custom:
    """Stands for the record where a custom function made the view: its gradient is not known, nor is `put`."""

    name = "a custom Function"


CUSTOM = Custom()


_REFUSED = {
    "no_grad": "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
    "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
    "either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the "
    "inplace to be tracked).",
    "inference": "A view was created in inference mode and is being modified inplace in normal mode. Given that this use "
    "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace "
    "either both inside the inference_mode block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked).",
    "multiple": "{which} is a view and is being modified inplace. This view is the output of a function that returns multiple "
    "views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by "
    "an out-of-place one.",
}


def check_write(target: Tensor, needs: bool, shown: Tensor | None = None) -> None:
    """Refuse an in-place write to an inference tensor outside of that mode, and one that would be recorded through a view
    that was made where it should not be. `needs`: an operand requires a gradient, and calls are recorded; `shown`: a view
    of the target, which the error speaks of."""
    view = target._fl_view
    if view is None:
        return
    if target.is_inference():
        if not state.inference:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
                "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
            )
    elif view.how is not None and state.grad and (needs or root_of(target)[0].requires_grad):
        shown = target if shown is None else shown
        made = shown._grad_fn
        which = "This" if made is None else f"Output {shown.output_nr} of {made.name().removesuffix('Backward0')}"
        raise RuntimeError(_REFUSED[view.how].format(which=which))


def check_views(target: Tensor) -> None:
    """Refuse an in-place write, recorded, through a view whose history cannot be made again."""
    view = target._fl_view
    while view is not None and view.parent is not None:
        if view.op is CUSTOM and (view.parent.requires_grad or target.requires_grad):
            name, number = view.args
            raise RuntimeError(
                f"Output {number} of {name} is a view and is being modified inplace. This view was created inside a "
                "custom Function (or because an input was returned as-is) and the autograd logic to handle "
                "view+inplace would override the custom backward associated with the custom Function, leading to "
                "incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
                "Function."
            )
        view = view.parent._fl_view


def root_of(t: Tensor) -> tuple:
    """(base, chain of views from the base to `t`, innermost last)."""
    chain = []
    while t._fl_view is not None and t._fl_view.parent is not None:
        chain.append(t)
        t = t._fl_view.parent
    return t, chain[::-1]


def rebase(target: Tensor, node: Node) -> None:
    """After an in-place write recorded as `node`: `target` and everything that views the same base get their new
    history.

    For a view, the write is `put` into the base: base' = put(base, view'), whose gradients are again a put and a view.
    """
    base, chain = root_of(target)
    edge = (node, 0)
    for parent, op, args in reversed(steps_of(base, chain)):
        parent_edge = edge_of(parent)
        if node is not None:
            put = Node(op.put, (None, None, *args), None, (parent_edge, edge) + (None,) * len(args), metas_of((parent,)))
            edge = (put, 0)
    give_history(base, edge[0], edge[1])
    refresh_views(base, target if not chain else None)


def steps_of(base: Tensor, chain: list) -> list:
    """(parent, op, args) of each view from the base on. Where a part was written of a view that shows elements several
    times, one step over the base's memory: what is not written of such a view must not undo what is."""
    if not any(repeats(each) for each in chain[:-1]):
        return [(each._fl_view.parent, each._fl_view.op, each._fl_view.args) for each in chain]
    part = chain[-1]
    where = part._fl_sizes, part._fl_strides, part.storage_offset() - base.storage_offset()
    if base.is_contiguous():
        return [(base, find("as_strided"), where)]
    return [(base, find("restrided"), (*where, base._fl_strides))]


def repeats(view: Tensor) -> bool:
    """Whether its strides may show an element several times. (Of a trace, the graph has its own rule.)"""
    return not view._fl_fake and overlaps(view._fl_sizes, view._fl_strides)


def overlaps(sizes, strides) -> bool:
    """Whether elements of these sizes and strides may share a place."""
    reach = 0  # of the dims with smaller steps, in elements
    for step, n in sorted((step, n) for step, n in zip(strides, sizes) if n > 1):
        if step <= reach:
            return True
        reach += (n - 1) * step
    return False


def refresh_views(base: Tensor, done=None) -> None:
    """Give the recorded views of `base` gradient functions that lead to its present history."""
    storage = base._fl_storage
    if storage is None or storage.views is None:
        return
    for each in storage.live_views():
        if each._fl_view is not None and each._fl_view.parent is not None and root_of(each)[0] is base:
            parent, op, args, _ = each._fl_view
            if op is CUSTOM:
                if each is not done:
                    give_history(each, Refusing(args, (edge_of(parent),), metas_of((each,))), 0)
                continue
            give_history(each, view_node(op, parent, args, each), 0)


def give_history(t: Tensor, node, number: int) -> None:
    """`t` was written: its gradient now comes from `node`. A gradient that is to be retained moves along."""
    old = t._grad_fn
    if old is not None and old.hooks is not None and t._fl_output_nr in old.hooks.retain:
        node.make_hooks().retain[number] = old.hooks.retain.pop(t._fl_output_nr)
    t._grad_fn, t._fl_output_nr, t._fl_requires_grad = node, number, False


def view_node(op, parent, args, out) -> Node:
    args = (parent, *args)
    edges = edges_of(op, args)
    saved, versions = save_args(op, args, plan(op, edges)[0])
    return Node(op, saved, versions, edges, metas_of((out,)))
