"""Custom gradients: `Function` (forward and backward written by the user), and `attach` for compiled calls.

Both make one node over several outputs. The context that a Function's methods get *is* the node.
"""

from __future__ import annotations

import functools

from ..grads import Meta
from ..op import zeros
from ..record import DATA, Node, Packed, SavedOutput, edge_of, metas_of, raise_version, rebase
from ..state import recording, state
from ..tensor import Tensor


class SavedList:
    """Tensors kept for backward with their versions; those that are outputs of the node itself without a reference
    cycle.
    """

    __slots__ = ("items", "versions", "private")

    def __init__(self, node, tensors, outputs=()):
        numbers = {id(t): k for k, t in enumerate(outputs)}
        pack = state.packer
        self.private = pack is None
        self.items = []
        for t in tensors:
            if t is None:
                self.items.append(None)
            elif pack is not None:
                own = numbers.get(id(t)) if t._grad_fn is node else None
                self.items.append(Packed(t if own is None else t._alias(), pack, own))
            elif id(t) in numbers and t._grad_fn is node:
                self.items.append((SavedOutput(t), numbers[id(t)]))
            else:
                self.items.append(t)
        self.versions = [None if t is None else t._version for t in tensors]

    def get(self, node) -> tuple:
        found = []
        for item, version in zip(self.items, self.versions):
            if type(item) is Packed:
                item = item.unpack(node)
            else:
                if type(item) is tuple:
                    item = item[0].get(node, item[1])
                if item is not None and item._version != version:
                    raise_version(node, item, version)
            found.append(item)
        return tuple(found)


class FunctionNode(Node):
    """The node of one call of a custom function, and the `ctx` of its methods."""

    def __init__(self, function, edges, needs):
        super().__init__(None, None, None, edges, ())
        self.function = function
        self.needs_input_grad = needs
        self.to_save = ()
        self.saved = None
        self.dirty = self.constant = ()
        self.materialize = True

    def name(self) -> str:
        return self.function.__name__ + "Backward"

    def flat_edges(self) -> list:
        return list(self.edges)

    # -- the face of ctx

    def save_for_backward(self, *tensors) -> None:
        self.to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors) -> None:
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors) -> None:
        self.constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize = value

    @property
    def saved_tensors(self) -> tuple:
        if self.released:
            self.saved_args()
        return self.to_save if self.saved is None else self.saved.get(self)

    # -- running

    def apply(self, grads, needs):
        if self.released:
            self.saved_args()
        if self.materialize:
            grads = [zeros(Meta(*meta)) if g is None else g for g, meta in zip(grads, self.metas)]
        found = self.function.backward(self, *grads)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        while len(found) > len(self.edges) and found[-1] is None:
            found.pop()
        if len(found) != len(self.edges):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {len(self.edges)}, "
                f"got {len(found)})"
            )
        return [g if need else None for g, need in zip(found, needs)]

    def release(self) -> None:
        if self.saved is not None and self.saved.items:
            self.saved, self.released = None, True


class Function:
    """Subclass it with static `forward(ctx, ...)` and `backward(ctx, *grads)` (or `forward(...)` and
    `setup_context(ctx, inputs, output)`), and call `apply`."""

    generate_vmap_rule = False

    @staticmethod
    def forward(*args, **kw):
        raise TypeError("a custom autograd.Function must define forward")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise TypeError("a custom autograd.Function must take ctx in forward or define setup_context")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it "
            "with backward mode AD."
        )

    @classmethod
    def apply(cls, *args, **kw):
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        record = state.grad and any(needs)
        edges = tuple(edge_of(a) if isinstance(a, Tensor) else None for a in args)
        node = FunctionNode(cls, edges if record else (None,) * len(args), needs)
        with recording(False):
            out = cls._forward(node, args, kw)
        outs = out if isinstance(out, tuple) else (out,)
        if record:
            outs = connect(node, args, outs)
        tensors = [t for t in outs if isinstance(t, Tensor)]
        node.saved = SavedList(node, node.to_save, tensors)
        node.to_save = ()
        return outs if isinstance(out, tuple) else outs[0]

    @classmethod
    def _forward(cls, node, args, kw):
        if cls.setup_context is Function.setup_context:
            return cls.forward(node, *args, **kw)
        out = cls.forward(*args, **kw)
        cls.setup_context(node, args, out)
        return out

    vjp = backward


def connect(node, inputs, outs: tuple) -> tuple:
    """Hang the outputs on the node; an input that is returned unchanged becomes another tensor."""
    constant, dirty = {id(t) for t in node.constant}, {id(t) for t in node.dirty}
    given = {id(t) for t in inputs if isinstance(t, Tensor)}
    outs = tuple([t._alias() if isinstance(t, Tensor) and id(t) in given and id(t) not in dirty else t for t in outs])
    node.metas = tuple([(t._sizes, t._dtype, t._device) if isinstance(t, Tensor) else ((), None, None) for t in outs])
    for k, t in enumerate(outs):
        if not isinstance(t, Tensor) or id(t) in constant or t._dtype.category < 2:
            continue
        if id(t) in dirty and t._view is not None and t._view is not DATA:
            rebase(t, node)
        else:
            t._grad_fn, t._output_nr, t._requires_grad, t._view = node, k, False, None
    return outs


def once_differentiable(backward):
    """The backward of a custom function is not itself differentiable."""

    @functools.wraps(backward)
    def run(ctx, *grads):
        with recording(False):
            found = backward(ctx, *grads)
        if state.grad and any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            results = found if isinstance(found, tuple) else (found,)
            node = ErrorNode(
                [edge_of(g) for g in grads if isinstance(g, Tensor)], metas_of([t for t in results if t is not None])
            )
            for k, t in enumerate([t for t in results if t is not None]):
                t._grad_fn, t._output_nr = node, k
        return found

    return run


class ErrorNode(Node):
    """Refuses a second differentiation."""

    def __init__(self, edges, metas):
        super().__init__(None, None, None, tuple(edges), metas)

    def name(self):
        return "Error"

    def apply(self, grads, needs):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


# -- compiled calls


class AttachedNode(Node):
    """One node over the outputs of a compiled call."""

    def __init__(self, edges, backward_fn, name, with_saved):
        super().__init__(None, None, None, edges, ())
        self.backward_fn, self.label, self.with_saved, self.saved = backward_fn, name, with_saved, None
        self.final = False

    def name(self) -> str:
        return self.label

    def flat_edges(self) -> list:
        return list(self.edges)

    def apply(self, grads, needs):
        if self.released:
            self.saved_args()
        saved = self.saved.get(self)
        needs = tuple(map(bool, needs))
        if not self.with_saved:
            return self.backward_fn(*grads, needs=needs)
        backward_fn, private = self.backward_fn, self.final and self.saved.private
        if private:
            self.release()                  # what is saved may be overwritten, even by a run that fails
        return backward_fn(*grads, needs=needs, saved=saved, private=private)

    def release(self) -> None:
        if self.saved is not None and self.saved.items:
            self.saved, self.released, self.backward_fn = None, True, None


def attach(
    outputs, inputs, backward_fn, saved_tensors=(), name: str = "CompiledBackward", with_saved: bool = False
) -> Node | None:
    """Make one node over `outputs` (fresh tensors, or None for those without a gradient) whose inputs are `inputs`.

    `backward_fn(*grads, needs=...)`: a gradient (or None) per output in, one (or None) per input out; `saved_tensors`
    are version-checked and pass saved-tensor hooks. `with_saved` hands them to backward_fn as `saved=`, and `private=`:
    this is the last run, and no hook has seen them. None when nothing is recorded.
    """
    edges = tuple([edge_of(t) if isinstance(t, Tensor) else None for t in inputs])
    if not state.grad or all(edge is None for edge in edges):
        return None
    node = AttachedNode(edges, backward_fn, name, with_saved)
    node.metas = tuple([(t._sizes, t._dtype, t._device) if t is not None else ((), None, None) for t in outputs])
    for k, t in enumerate(outputs):
        if t is not None and t._dtype.category >= 2:
            t._grad_fn, t._output_nr, t._requires_grad = node, k, False
    node.saved = SavedList(node, saved_tensors, [t for t in outputs])
    return node
