"""Custom gradients: `Function` (forward and backward written by the user), and `attach` for compiled calls.

Both make one node over several outputs. The context that a Function's methods get belongs to the node.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from .. import _call
from ..op.gradient import Meta
from ..op.op import zeros
from ..autograd_node import CUSTOM, Node, Packed, SavedOutput, edge_of, metas_of, raise_released, raise_version, rebase
from ..state import recording, state
from ..tensor import Tensor, View


class SavedList:
    """Tensors kept for backward with their versions; those that are outputs of the node itself without a reference
    cycle.
    """

    __slots__ = ("items", "versions", "private")

    def __init__(self, node, tensors, outputs=()):
        if state.packer is None:
            self.items = list(tensors)
            self.versions = _call.versions(self.items, node)
            self.private = True
            if self.versions is not False:
                return
        numbers = {id(t): k for k, t in enumerate(outputs)} if tensors else {}
        pack = state.packer
        self.private = pack is None
        self.items = []
        for t in tensors:
            if t is None:
                self.items.append(None)
            elif pack is not None:
                own = numbers.get(id(t)) if t._grad_fn is node else None
                self.items.append(Packed(t if own is None else t._fl_alias(), pack, own))
            elif id(t) in numbers and t._grad_fn is node:
                self.items.append((SavedOutput(t), numbers[id(t)]))
            else:
                self.items.append(t)
        self.versions = [None if t is None else t._version for t in tensors]

    def get(self, node, read=None) -> tuple:
        """`read`: the numbers of those that will be read, where it is not all of them; others may have changed."""
        same = _call.unchanged(self.items, self.versions)
        if same is not False:
            return same
        found = []
        for k, (item, version) in enumerate(zip(self.items, self.versions)):
            if read is not None and k not in read:
                found.append(None)
                continue
            if type(item) is Packed:
                item = item.unpack(node)
            else:
                if type(item) is tuple:
                    item = item[0].get(node, item[1])
                if item is not None and item._version != version:
                    raise_version(node, item, version)
            found.append(item)
        return tuple(found)


class FunctionCtx:
    """What the methods of a Function get as `ctx`: users put attributes of any name on it."""

    _node = staticmethod(lambda: None)  # a weak reference to the node, once there is one
    _saved: Any = None
    _released = False

    def __init__(self, needs_input_grad=()):
        self.needs_input_grad = needs_input_grad
        self.to_save = self.dirty_tensors = self.non_differentiable = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors) -> None:
        """Keep tensors (inputs, outputs or others; None is allowed) for `ctx.saved_tensors` in backward."""
        self.to_save = tensors

    def save_for_forward(self, *tensors) -> None:
        for t in tensors:
            if not (isinstance(t, Tensor) or t is None):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors) -> None:
        """These inputs were changed in place; they have to be returned too."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors) -> None:
        """These outputs get no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward sees zeros (the default) or None where no gradient came."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple:
        if self._released:
            raise_released()
        return tuple(self.to_save) if self._saved is None else self._saved.get(self._node())

    def __getattr__(self, name: str):
        """What the node has: `name()`, `next_functions`, `metadata`, hooks."""
        node = None if name.startswith("__") else self._node()
        if node is not None and (name in _OF_THE_NODE):
            return getattr(node, name)
        label = node.name() if node is not None else type(self).__name__
        raise AttributeError(f"'{label}' object has no attribute '{name}'")


_OF_THE_NODE = {"name", "next_functions", "metadata", "register_hook", "register_prehook", "_sequence_nr"}


class FunctionNode(Node):
    """The node of one call of a custom function; each Function has a subclass of its own. What it lacks it looks up in
    the call's `ctx`."""

    function: Any = None
    always = True

    def __init__(self, ctx, edges, at):
        super().__init__(None, None, None, edges, ())
        self.ctx, self.at = ctx, at
        ctx._node = weakref.ref(self)

    def __getattr__(self, name: str):
        if name.startswith("__") or name == "ctx":
            raise AttributeError(name)
        return getattr(self.ctx, name)

    def name(self) -> str:
        return type(self).__name__

    def flat_edges(self) -> list:
        return [self.edges[k] for k in self.at]

    def flat_results(self, results) -> list:
        return [results[k] for k in self.at]

    def shaped_results(self, flat, results) -> list:
        results = list(results)
        for k, g in zip(self.at, flat):
            results[k] = g
        return results

    # -- running

    def apply(self, grads, needs):
        if self.released:
            raise_released()
        if self.ctx.materialize_grads:
            grads = [zeros(Meta(*meta)) if g is None and meta[1] is not None else g for g, meta in zip(grads, self.metas)]
        found = self.checked(self.function._fl_backward()(self.ctx, *grads))
        return [g if need else None for g, need in zip(found, needs)]

    def checked(self, found) -> list:
        """The results of a user's backward: one per argument of forward."""
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        while len(found) > len(self.edges) and found[-1] is None:
            found.pop()
        if len(found) != len(self.edges):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {len(self.edges)}, got {len(found)})"
            )
        for k, g in enumerate(found):
            if g is not None and k not in self.at:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{k + 1}, but the corresponding forward input was not a Variable"
                )
            if not (g is None or isinstance(g, Tensor)):
                raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
        return found

    def release(self) -> None:
        saved = self.ctx._saved
        if saved is not None and saved.items:
            self.ctx._saved, self.ctx._released, self.released = None, True, True


class Function:
    """Subclass it with static `forward(ctx, ...)` and `backward(ctx, *grads)` (or `forward(...)` and
    `setup_context(ctx, inputs, output)`), and call `apply`."""

    generate_vmap_rule = False
    _backward_cls = FunctionNode

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        cls._backward_cls = type(cls.__name__ + "Backward", (FunctionNode,), {"function": cls, "__module__": cls.__module__})

    def __call__(self, *args, **kw):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            "autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kw):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it "
            "with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def _fl_backward(cls):
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
                "only implement one of them."
            )
        return cls.vjp

    @classmethod
    def apply(cls, *args, **kw):
        at = tuple([k for k, a in enumerate(args) if isinstance(a, Tensor)])
        needs = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])
        record = state.grad and any(needs)
        edges = tuple([edge_of(a) if record and isinstance(a, Tensor) else None for a in args])
        ctx = FunctionCtx(needs)
        with recording(False):
            out = cls._fl_forward(ctx, args, kw)
        outs = out if isinstance(out, tuple) else (out,)
        check_dirty(ctx, outs, record)
        node = None
        if record:
            node = cls._backward_cls(ctx, edges, at)
            outs = connect(node, args, outs)
            if state.anomaly:
                node.stack = state.anomaly()
        else:
            given = {id(t) for t in args}.difference(map(id, ctx.dirty_tensors))
            outs = tuple([apart(t) if id(t) in given else t for t in outs])
        ctx._saved = SavedList(node, checked_saved(ctx.to_save), [t for t in outs if isinstance(t, Tensor)])
        ctx.to_save = ()
        return outs if isinstance(out, tuple) else outs[0]

    @classmethod
    def _fl_forward(cls, ctx, args, kw):
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args, **kw)
        out = cls.forward(*args, **kw)
        cls.setup_context(ctx, args, out)
        return out


class InplaceFunction(Function):
    """A Function whose instances remember whether they work in place."""

    def __init__(self, inplace: bool = False):
        self.inplace = inplace


def checked_saved(tensors) -> tuple:
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    for k, t in enumerate(tensors):
        if not (t is None or isinstance(t, Tensor)):
            raise TypeError(f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}")
    return tensors


def check_dirty(ctx, outs, record: bool) -> None:
    """What was changed in place is returned, and is no leaf that requires grad; its version moves."""
    returned = {id(t) for t in outs}
    if any(id(t) not in returned for t in ctx.dirty_tensors):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The "
            "inputs that are modified inplace must all be outputs of the Function."
        )
    if record and any(t._grad_fn is None and t._fl_requires_grad for t in ctx.dirty_tensors):
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    for t in ctx.dirty_tensors:
        t._fl_ensure_storage().bump()


def connect(node, inputs, outs: tuple) -> tuple:
    """Hang the outputs on the node; an input that is returned unchanged becomes another tensor."""
    constant, dirty = {id(t) for t in node.ctx.non_differentiable}, {id(t) for t in node.ctx.dirty_tensors}
    given = {id(t): t for t in inputs if isinstance(t, Tensor)}
    constant = {k for k, t in enumerate(outs) if id(t) in constant}
    same = {k: given[id(t)] for k, t in enumerate(outs) if id(t) in given and id(t) not in dirty}
    outs = tuple([t._fl_alias() if k in same else t for k, t in enumerate(outs)])
    node.metas = tuple([(t._fl_sizes, t._fl_dtype, t._fl_device) if isinstance(t, Tensor) else ((), None, None) for t in outs])
    for k, t in enumerate(outs):
        if not isinstance(t, Tensor) or k in constant or t._fl_dtype.category < 2:
            continue
        if id(t) in dirty and t._fl_view is not None and t._fl_view.parent is not None:
            rebase(t, node)
        else:
            base = None if id(t) in dirty else same[k] if k in same else viewed(t, given)
            t._grad_fn, t._fl_output_nr, t._fl_requires_grad = node, k, False
            t._fl_view = None if base is None else View(base, CUSTOM, (node.function.__name__, k))
            if base is not None:
                t._fl_ensure_storage().add_view(t)  # a recorded write into the base ends its history
    return outs


def apart(t):
    """What stands for an argument that is returned as it came, by a call that is not recorded: another tensor over its memory,
    without its history; of one without any, a view as they are made under no_grad."""
    if not isinstance(t, Tensor):
        return t
    with recording(False):
        return t.detach() if t.requires_grad else t.view_as(t)


def viewed(t: Tensor, given: dict):
    """The input that an output of a custom function is a view of (or a view like it)."""
    base = t._base
    if base is None or id(base) in given:
        return base
    return next((x for x in given.values() if x._base is base), None)


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
                t._grad_fn, t._fl_output_nr = node, k
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


class NothingLeads(Exception):
    """No gradient that is there leads to one that is asked for."""


class AttachedNode(Node):
    """One node over the outputs of a compiled call. The engine calls `run` where nothing watches (csrc/engine.cpp), else
    `apply`."""

    __slots__ = ("backward_fn", "label", "with_saved", "saved", "final", "facts", "done")
    backward_fn: Any
    saved: SavedList | None
    facts: Any
    final: bool
    joined = True
    kept = False  # steps of other outputs may still read what was saved

    def name(self) -> str:
        return self.label

    def flat_edges(self) -> list:
        return list(self.edges)

    def apply(self, grads, needs):
        try:
            return self.gradients(grads, tuple(map(bool, needs)), self.final)
        except NothingLeads:
            return [None] * len(needs)

    def run(self, grads: list, last: bool) -> list:
        """Gradients per edge, all of them needed; `last`: what was saved is given up."""
        found = self.gradients(grads, None, last)
        if last:
            self.release()
        return found

    def gradients(self, grads, needs, last: bool) -> list:
        backward_fn, saved = self.backward_fn, self.saved
        ending = self.ending(grads, last, needs)
        if saved is None:
            values = ()
            if (
                last and self.facts is not None and self.done is None
            ):  # what eager steps had saved is not needed here, and used up
                self.done = self.facts.steps(grads)[0] or None
        else:
            values = saved.get(self, self.facts and self.facts.reads(grads))
        if not self.with_saved:
            return list(backward_fn(*grads, needs=self.all_needed() if needs is None else needs))
        private = ending and (saved is None or saved.private)
        if private:
            self.release()  # what is saved may be overwritten, even by a run that fails
        return backward_fn(grads, needs, values, private)

    def ending(self, grads, last: bool, needs) -> bool:
        """Whether this run is the last that may read what was saved. A run for some of the gradients leaves alone the steps of
        the others, which may run later; a step that runs a second time raises, unless it saved nothing. Where no gradient that
        is there leads to one that is asked for, none of eager's nodes runs, nor gives up what it saved: `NothingLeads`."""
        if self.facts is None:
            if self.released:
                raise_released()
            return last
        if not (self.released or self.done is not None or any([g is None for g in grads])):
            return last
        if needs is not None and not all(needs) and not self.facts.leads(grads, needs):
            self.done, self.kept = self.done or 0, True
            raise NothingLeads
        (steps, others), done = self.facts.steps(grads), self.done or 0
        if steps & done or self.released and (steps or not state.grad and self.facts.reads(grads) != set()):
            raise_released()
        if last:
            self.done = done | steps
            self.kept = any([each and not each & self.done for each in others])
        return last and not self.kept

    def all_needed(self) -> tuple:
        return tuple([edge is not None for edge in self.edges])

    def release(self) -> None:
        if self.saved is not None and not self.kept:
            self.saved, self.released = None, True
            if self.facts is None:
                self.backward_fn = None


_call.attached(AttachedNode)


def _attached(outputs, inputs) -> AttachedNode | None:
    """The same node over tensors in a device's memory."""
    if any(t is not None and t._fl_array is None and t._fl_storage.runtime is None for t in outputs):
        raise TypeError("attach() takes tensors with bytes")
    edges = tuple([edge_of(t) if isinstance(t, Tensor) else None for t in inputs])
    if not any(edges):
        return None
    node = AttachedNode(None, None, None, edges, tuple([((), None, None) if t is None else metas_of((t,))[0] for t in outputs]))
    for k, t in enumerate(outputs):
        if t is not None and t._fl_dtype.category >= 2:
            t._grad_fn, t._fl_output_nr, t._fl_requires_grad = node, k, False
    return node


def attach(
    outputs, inputs, backward_fn, saved_tensors=(), name: str = "CompiledBackward", with_saved: bool = False, facts=None
) -> Node | None:
    """Make one node over `outputs` (fresh tensors, or None for those without a gradient) whose inputs are `inputs`.

    `backward_fn(*grads, needs=...)`: a gradient (or None) per output in, one (or None) per input out; `saved_tensors`
    are version-checked and pass saved-tensor hooks. `with_saved` makes it `backward_fn(grads, needs, saved, private)`
    instead, where needs may be None, for all, and private means: this is the last run, and no hook has seen what is
    saved. `facts.reads(grads)`: the numbers of the saved tensors that are read for these gradients, None for all;
    `facts.steps(grads)`: (the steps that eager code would run for them, of those that save something, as bits of a number;
    the same for each of the other outputs).
    None when nothing is recorded.
    """
    if not state.grad:
        return None
    node = _call.attach(outputs, inputs)
    if node is False:
        node = _attached(outputs, inputs)
    if node is None:
        return None
    node.backward_fn, node.label, node.with_saved, node.final = backward_fn, name, with_saved, False
    node.facts, node.done = facts, None
    node.saved = SavedList(node, saved_tensors, outputs) if saved_tensors else None
    return node
