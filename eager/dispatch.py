"""The one way through which every op call goes.

In: a record and its canonical arguments. The top mode of the thread's stack gets the call, if there is one; else
fakes take the meta rules, real tensors the kernels, and the call is recorded for autograd. Pointwise maps of real
tensors have a path of their own in C++ (`fast_map`), which comes here for all that is unusual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime import native
from ..runtime.errors import Unsupported
from . import _call, device as devices, dtypes, overrides
from .op import op as ops
from .device import cpu as _cpu, meta as meta_device
from .op.gradient import Meta
from .op.numpy_kernels import array_of, run_kernel, simple_function, wrap_outputs
from .op.loop_rules import computation
from .op.meta import check_expandable, device_of, infer, run_meta, tensors_of
from .op.op import TENSOR, TENSORS, Kind, Op
from .op.ufunc_program import program_of
from .autograd_node import (
    Erasure,
    Node,
    SavedOutput,
    add_node,
    check_views,
    check_write,
    edges_of,
    mark_view,
    metas_of,
    plan,
    plan_of_mask,
    rebase,
    save_args,
    save_outs,
)
from .sizes import Size, is_number, static
from .state import Mode, below, no_modes, recording, setting, state
from .storage import Storage
from .tensor import DATA, INFERENCE, Tensor, View

__all__ = [
    "call",
    "execute",
    "run_meta",
    "state",
    "Mode",
    "no_modes",
    "below",
    "recording",
    "setting",
    "operator",
    "store",
    "become_view",
]
_ndarray = np.ndarray


# -- the general path


class HasScalars(TypeError):
    """A call was given numpy's scalars, which count as numbers."""


def numbers(args) -> tuple:
    """Arguments with Python's numbers for numpy's scalars; a numpy.bool counts as a float, as in PyTorch."""
    return tuple([number_of(a) for a in args])


def number_of(a):
    """A Python number for a numpy scalar that is one; all else as it is."""
    if not isinstance(a, np.generic) or a.dtype.kind not in "biufc":
        return a
    return float(a) if a.dtype.kind == "b" else a.item()


def call(op: Op, args: tuple):
    """Run an op. Returns its output, or a tuple of them where the record has several."""
    try:
        return called(op, args)
    except HasScalars:
        return called(op, numbers(args))


def called(op: Op, args: tuple):
    if state.quick is None:
        if state.autocast is not None and op.autocast is not None:
            args = state.autocast(op, args)
        if state.modes:
            return state.modes[-1].dispatch(op, args)
    if _call.foreign(args):
        found = overrides.overridden(op, args, execute)
        if found is not NotImplemented:
            return found
    return execute(op, args)


def execute(op: Op, args: tuple) -> Any:
    """Run an op here and now, whatever modes are active."""
    if op.mutates:
        return execute_mutating(op, args)
    fake, needs = inspect_args(op, args)
    if op.kind is Kind.COMPOSITE:
        return execute_composite(op, args, fake, needs)
    outs = run_fake(op, args) if fake else run_kernel(op, args)
    finish_outputs(op, args, outs, needs)
    return outs if len(outs) != 1 else outs[0]


def run_fake(op: Op, args: tuple) -> tuple:
    """Outputs without bytes; on a device that a library brought, the device fills them."""
    outs = run_meta(op, args)
    if devices.runtimes and not state.fake and op.kind is not Kind.VIEW:
        runtime = next((r for t in (*outs, *tensors_of(op, args)) if (r := runtime_of(t)) is not None), None)
        if runtime is not None:
            runtime.fill(op, args, outs)
    return outs


def runtime_of(t: Tensor):
    """What runs the ops of the device that a tensor is on; None of cpu, meta and fakes of a trace."""
    return devices.runtimes.get(t._fl_device.type)


def inspect_args(op: Op, args: tuple) -> tuple:
    """(any fake among the tensors, recording is on and a tensor requires grad); refuses what is no operand."""
    fake, needs = state.fake, False
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            if a._fl_array is None:
                fake = True
            if a._grad_fn is not None or a._fl_requires_grad:
                needs = True
        elif op.codes[k] == TENSORS and a is not None:
            for x in a:
                if not isinstance(x, Tensor):
                    raise TypeError(
                        f"{op.name}(): argument '{op.params[k].name}' must be tuple of Tensors, but found {type(x).__name__}"
                    )
                fake = fake or x._fl_array is None
                needs = needs or x._grad_fn is not None or x._fl_requires_grad
        elif op.codes[k] == TENSOR and a is not None and not is_number(a):
            kind = HasScalars if isinstance(a, np.generic) and a.dtype.kind in "biufc" else TypeError
            raise kind(f"{op.name}(): argument '{op.params[k].name}' must be Tensor, not {type(a).__name__}")
        elif a is meta_device or type(a) is devices.device and a.type in devices.runtimes:
            fake = True
    return fake, needs and state.grad


def finish_outputs(op: Op, args: tuple, outs: tuple, needs: bool) -> None:
    """Views remember what they view; recorded calls get a node."""
    if needs and op.grads:
        node = add_node(op, args, outs, state.packer)
        if node is not None and state.anomaly:
            node.stack = state.anomaly()
    if op.kind is Kind.VIEW:
        if op.outputs[0].differentiable:
            mark_view(outs[0], args[0], op, args[1:], state.grad)
        else:
            outs[0]._fl_view = INFERENCE if args[0].is_inference() else None


def execute_composite(op: Op, args: tuple, fake: bool, needs: bool):
    """The decomposition; or, where the record has its own gradient or kernel, one step."""
    own_gradient = needs and op.grads
    if not own_gradient and (needs or not has_kernel(op, fake)):
        return op.fn(*args)
    with recording(False):
        if has_kernel(op, fake):
            outs = run_fake(op, args) if fake else run_kernel(op, args)
        else:
            outs = op.fn(*args)
            outs = outs if isinstance(outs, tuple) else (outs,)
            outs = tuple([t._fl_alias() if any(t is a for a in args) else t for t in outs])
    finish_outputs(op, args, outs, needs)
    return outs if len(outs) != 1 else outs[0]


def has_kernel(op: Op, fake: bool) -> bool:
    return op.meta_rule is not None if fake else bool(op.kernels)


# -- in-place


def execute_mutating(op: Op, args: tuple):
    if op.functional is not None and op.functional.cache.get("inplace") is op:
        return execute_inplace(op, args)
    fake, needs = inspect_args(op, args)
    if not fake and "inplace" in op.kernels:
        return write_in_place(op, args)
    for p, a in zip(op.params, args):
        if p.name in op.mutates and a is not None:
            check_write(a, needs)
    pure = op.pure
    visible = len(op.outputs)
    outs = run_fake(pure, args) if fake else run_kernel(pure, args)
    finish_outputs(op, args, outs[:visible], needs)
    names = {p.name: a for p, a in zip(op.params, args)}
    for name, new in zip(op.mutates, outs[visible:]):
        target = names[name]
        if target is not None:
            if not fake:
                np.copyto(target._fl_array, new._fl_array, casting="unsafe")
            elif target._fl_array is None and target._fl_storage.runtime is not None:
                target._fl_storage.runtime.copy(target, new)
            elif target._fl_array is not None and new._fl_array is not None:  # a number of the host beside a device's tensors
                np.copyto(target._fl_array, new._fl_array, casting="unsafe")
            bump(target)
    return outs[:visible] if visible != 1 else outs[0]


def write_in_place(op: Op, args: tuple):
    """The kernel that writes what the record mutates; such records have no outputs and no gradient."""
    for p, a in zip(op.params, args):
        if p.name in op.mutates:
            check_write(a, False)
        if p.name in op.mutates and not a._fl_array.flags.writeable:
            raise RuntimeError(f"{op.name}: the memory of '{p.name}' is read-only (it was made from a read-only numpy array)")
    state.run(op.kernels["inplace"], *[array_of(a) for a in args])
    for p, a in zip(op.params, args):
        if p.name in op.mutates:
            bump(a)
    return ()


def bump(t: Tensor) -> None:
    """A write went into `t`'s bytes."""
    view = t._fl_view
    storage = t._fl_ensure_storage()
    storage.data_version += 1
    if view is None or t._fl_root_view() is not DATA:
        storage._version += 1


def execute_inplace(op: Op, args: tuple):
    """A derived in-place record: the pure one's result goes into the first argument."""
    target, pure = args[0], op.functional
    if devices.runtimes:
        args = beside(pure, args)
    fake, needs = inspect_args(op, args)
    check_write(target, needs)
    if needs:
        check_leaf(target)
    spec = infer(pure, args)[0] if pure.kind is not Kind.SCATTER else None
    if spec is not None:
        check_target(op, target, spec)
    check_overlap(op, target, args)
    edges, kept = None, ()
    saved = (None, None)
    if needs:
        edges = edges_of(pure, args)
        wanted, kept, any_formula = plan(pure, edges)
        saved = save_args(pure, (old_value(target), *args[1:]) if wanted.get(0) == "save" else args, wanted)
    if not fake:
        write(op, pure, args, target)
    elif target._fl_array is None and target._fl_storage.runtime is not None:
        target._fl_storage.runtime.copy(target, run_fake(pure, args)[0])
    bump(target)
    if needs and target._fl_dtype.category >= 2:
        node = (Node if pure.grads else Erasure)(pure, *saved, edges, metas_of((target,)))
        if state.anomaly:
            node.stack = state.anomaly()
        rebase(target, node)
        if kept:
            save_outs(node, (target,), kept)
    return target


def beside(pure, args: tuple) -> tuple:
    """The arguments of an in-place call on one device: what is copied is brought to the target's, others must be there."""
    target = args[0]
    if pure is ops.OPS["copy"]:
        source = args[1]
        if isinstance(source, Tensor) and source._fl_device is not target._fl_device and not state.fake:
            return target, ops.OPS["transfer"](source, target._fl_device)
    elif device_of(pure, args) is not target._fl_device:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{device_of(pure, args)} and {target._fl_device}!"
        )
    return args


def write(op, pure, args, target) -> None:
    """The kernel's result into the target's bytes, through `out=` of the numpy function where types allow."""
    array = target._fl_array
    if not array.flags.writeable:
        raise RuntimeError(f"{op.name}: the tensor's memory is read-only (it was made from a read-only numpy array)")
    inplace = op.kernels.get("numpy")
    if inplace is not None:
        inplace(*[array_of(a) for a in args])
        return
    if not fill(pure, args, target):
        np.copyto(array, run_kernel(pure, args)[0]._fl_array, casting="unsafe")


def fill(op, args, target: Tensor) -> bool:
    """The values of a map into the target's bytes, where one numpy function makes them of operands of this very type."""
    # numpy 2.4's negative misreads strided memory that it also writes: only contiguous memory is given
    function = target._fl_array.flags.c_contiguous and direct_function(op, args, target._fl_dtype)
    if function:
        state.run(function, *[a._fl_array if isinstance(a, Tensor) else a for a in args], out=target._fl_array)
    return bool(function)


def direct_function(op, args, dtype):
    """The numpy function that makes a map's values, all in one type; None where more is to be done."""
    function = simple_function(op)
    plain = (
        type(function) is np.ufunc
        and len(args) == function.nin
        and dtype.compute is dtype
        and dtype.category >= 2
        and all(not isinstance(a, Tensor) or a._fl_dtype is dtype for a in args)
    )
    return function if plain and computation(op, args)[1][0] is dtype else None


def check_leaf(target: Tensor) -> None:
    if target._grad_fn is None and target._fl_requires_grad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    check_views(target)
    view = target._fl_view
    while view is not None and view.parent is not None:
        parent = view.parent
        if parent._grad_fn is None and parent._fl_requires_grad:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        view = parent._fl_view


def refused_write(target: Tensor, needs: bool, shown: Tensor | None = None) -> str | None:
    """What an in-place write would raise because of what the target is a view of; `needs`: it would be recorded; `shown`:
    the view of the target that is written."""
    if target._fl_view is None or target._fl_view.parent is None or target._fl_requires_grad and target._grad_fn is None:
        return None
    try:
        with setting(grad=True):
            check_write(target, needs, shown)
            if needs:
                check_leaf(target)
    except RuntimeError as error:
        return str(error)
    return None


def check_target(op, target: Tensor, spec) -> None:
    check_expandable(op.name, target._fl_sizes, spec.sizes)
    if spec.dtype.category > target._fl_dtype.category:
        wanted = type_name(target._fl_dtype)
        raise RuntimeError(f"result type {type_name(spec.dtype)} can't be cast to the desired output type {wanted} ({op.name})")


def type_name(d: Any) -> str:
    """PyTorch's name of an element type, ours or numpy's."""
    return dtypes.BY_NAME[d.name].scalar_type


def old_value(target: Tensor) -> Tensor:
    """What an in-place op's own gradient needs of the tensor that it overwrites: a copy with the history so far."""
    if target._fl_array is None:
        copy = target._fl_alias()
        copy._fl_storage = type(target._fl_storage)(None, device=target._fl_device)
    else:
        copy = Tensor._fl_from_array(target._fl_array.copy(order="K"), target._fl_dtype)
    copy._grad_fn, copy._fl_requires_grad = target._grad_fn, target._fl_requires_grad
    if target._grad_fn is not None:
        copy._fl_output_nr = target._fl_output_nr
    return copy


def check_overlap(op, target: Tensor, args: tuple) -> None:
    """The written memory holds each element once, and no operand lies across it."""
    if repeats(target):
        if not may_overlap(op.functional, target, args):
            refuse_repeats(op.name, target)
        return
    storage = target._fl_storage
    for a in args[1:]:
        if isinstance(a, Tensor) and a._fl_storage is storage is not None and a is not target and lies_across(target, a):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                f"memory location. Please clone() the tensor before performing the operation. ({op.name})"
            )


def repeats(target: Tensor) -> bool:
    """Whether several elements share a place."""
    for n, step in zip(target._fl_sizes, target._fl_strides):
        if type(step) is int and step == 0 and not (type(n) is int and n <= 1):
            return not any([type(m) is int and m == 0 for m in target._fl_sizes])
    return False


def refuse_repeats(name: str, target: Tensor) -> None:
    if repeats(target):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            f"location. Please clone() the tensor before performing the operation. ({name})"
        )


def may_overlap(pure, target: Tensor, args: tuple) -> bool:
    """Writes that mean something in memory whose elements share places: of the tensor itself, and by index, one by one."""
    if pure is ops.OPS["copy"]:
        source = args[1]
        return (
            source is target
            or isinstance(source, Tensor)
            and source._fl_storage is target._fl_storage is not None
            and static(target._fl_sizes)
            and same_places(target, source)
        )
    return pure is ops.OPS["index_put"] and target._fl_array is not None


def same_places(a: Tensor, b: Tensor) -> bool:
    return (tuple(a._fl_sizes), tuple(a._fl_strides), a.storage_offset(), a._fl_dtype) == (
        tuple(b._fl_sizes),
        tuple(b._fl_strides),
        b.storage_offset(),
        b._fl_dtype,
    )


def lies_across(target: Tensor, other: Tensor) -> bool:
    """Two tensors without gaps in one storage that overlap without being the same elements in the same order. (Of memory
    with gaps nothing is said, as in PyTorch.)"""
    if not (static(target._fl_sizes) and static(other._fl_sizes) and is_dense(target) and is_dense(other)):
        return False
    a, b = target.storage_offset(), other.storage_offset()
    n, m = target.numel(), other.numel()
    if type(a) is not int or type(b) is not int or not n or not m:
        return False
    if (a, n) == (b, m):
        return len(target._fl_sizes) != len(other._fl_sizes) or any(
            [s != r and k != 1 for k, s, r in zip(target._fl_sizes, target._fl_strides, other._fl_strides)]
        )
    return a < b + m and b < a + n


def is_dense(t: Tensor) -> bool:
    """Whether the elements fill a stretch of memory, each at a place of its own."""
    expected = 1
    for step, n in sorted((s, n) for n, s in zip(t._fl_sizes, t._fl_strides) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True


def store(out, result: Tensor) -> Tensor:
    """`out=`: copy a result into a given tensor; a tensor of another size is given new memory. (`complaints` puts the name
    of the function that was called in the place of "out=".)"""
    if result._fl_dtype.category > out._fl_dtype.category:
        raise RuntimeError(
            f"result type {type_name(result._fl_dtype)} can't be cast to the desired output type {type_name(out._fl_dtype)}"
        )
    if state.grad and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            "out=(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if out._fl_sizes != result._fl_sizes:
        if state.modes and out._fl_array is None:
            raise Unsupported("in-place view", "out=: a tensor takes other sizes in place", "use the result")
        set_data(
            out,
            ops.OPS["empty"](tuple(result._fl_sizes), out._fl_dtype, out._fl_device)
            if out._fl_array is None
            else Tensor._fl_from_array(np.empty(result._fl_sizes, out._fl_dtype.numpy), out._fl_dtype),
        )
    return ops.OPS["copy"].inplace(out, result)


OUT_BLOCK, OUT_FROM = 1 << 16, 1 << 21  # elements


def store_map(call, out: Tensor, *args) -> Tensor:
    """`out=` of a map: `store` of its result, which large calls compute and copy block by block, in memory that stays near."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    if not _by_blocks(out, tensors):
        return store(out, call(*args))
    to, flat = out._fl_array.reshape(-1), [a._fl_array.reshape(-1) if isinstance(a, Tensor) else a for a in args]
    for start in range(0, to.size, OUT_BLOCK):
        block = slice(start, start + OUT_BLOCK)
        part = call(*[Tensor._fl_from_array(x[block], a._fl_dtype) if isinstance(a, Tensor) else a for x, a in zip(flat, args)])
        if part._fl_dtype is not out._fl_dtype:  # found at the first one
            return store(out, call(*args))
        to[block] = part._fl_array
    bump(out)
    return out


def _by_blocks(out, tensors) -> bool:
    """Whether a map of real numbers may write one part of `out` after the other: nothing is recorded, and no operand is
    broadcast, has gaps or lies across `out`."""
    to = out._fl_array if type(out) is Tensor else None
    return (
        type(to) is np.ndarray
        and to.size >= OUT_FROM
        and state.quick is not None
        and out._fl_view is None
        and not out.requires_grad
        and out._fl_dtype.category >= 2
        and to.flags.c_contiguous
        and to.flags.writeable
        and all(_goes_along(t, out) for t in tensors)
    )


def _goes_along(t: Tensor, out: Tensor) -> bool:
    array, to = t._fl_array, out._fl_array
    return t is out or (
        type(t) is Tensor
        and type(array) is np.ndarray
        and not t.requires_grad
        and t._fl_dtype is out._fl_dtype
        and array.shape == to.shape
        and array.flags.c_contiguous
        and not np.may_share_memory(array, to)
    )


def become_view(t: Tensor, make) -> Tensor:
    """`t` takes the geometry of `make(t)`, a view of it (transpose_, squeeze_, ...), and the history that goes with it.

    What `t` was goes on as a hidden tensor, which `t` and the earlier views of `t` are views of.
    """
    if state.modes:
        raise Unsupported("in-place view", "a tensor changes its geometry in place", "use the form without underscore")
    check_write(t, state.grad and t.requires_grad)
    if state.grad and t.requires_grad:
        check_leaf(t)
    storage = t._fl_ensure_storage()
    old = t._fl_alias()
    old._grad_fn, old._fl_requires_grad, old._fl_view = t._grad_fn, t._fl_requires_grad, t._fl_view
    if t._grad_fn is not None:
        old._fl_output_nr = t._fl_output_nr
    new = make(old)
    t._fl_array, t._fl_geometry = new._fl_array, new._fl_geometry
    if state.grad:
        for each in storage.live_views():
            if each._fl_view is not None and each._fl_view.parent is t:
                each._fl_view = each._fl_view._replace(parent=old)
        t._fl_view, t._grad_fn = new._fl_view, new._grad_fn
        if new._grad_fn is not None:
            t._fl_output_nr, t._fl_requires_grad = new._fl_output_nr, False
        storage.add_view(t)
    bump(t)
    return t


def set_data(t: Tensor, source: Tensor) -> None:
    """`t.data = source`: other bytes, shape and type under the same tensor."""
    if not isinstance(source, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(source).__name__}")
    if t.requires_grad and source._fl_dtype.category < 2:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    t._fl_array, t._fl_dtype, t._fl_device = source._fl_array, source._fl_dtype, source._fl_device
    t._fl_storage, t._fl_view = source._fl_ensure_storage(), None
    t._fl_geometry = source._fl_geometry


# -- fast paths


def make_entry(op: Op):
    """The call path of a record, for complete positional arguments or keywords."""
    pure = op.functional
    if plain_map(op):
        return named(fast_map(op), op)
    if pure is not None and pure.cache.get("inplace") is op and plain_map(pure) and not op.kernels:
        return named(fast_map(op, inplace=True), op)
    if op.kind is Kind.VIEW and op.promote == "keep" and not op.mutates and len(op.params) <= 6:
        shown = op.outputs[0].differentiable
        return named(_call.view(op, general(op), op.fn, len(op.params), op.name, shown), op)
    if has_eager_kernel(op):
        return named(kernel_call(op), op)
    if "small" in op.cache:
        return named(_call.small(op.cache["small"], general(op), None, None, False), op)
    return named(general(op), op)


def has_eager_kernel(op: Op) -> bool:
    """Arrays in, arrays out: `_call` makes the tensors and the node around the kernel."""
    return (
        op.kind not in (Kind.VIEW, Kind.RANDOM)
        and not op.mutates
        and bool(op.kernels or op.kind is Kind.EXTERN)
        and len(op.params) <= 24
        and len(op.outputs) <= 8
    )


def kernel_call(op: Op):
    plain = op.kernels.get("numpy") or (op.fn if op.kind is Kind.EXTERN else None)
    composite, differentiable = op.kind is Kind.COMPOSITE, bool(op.grads)
    return _call.kernel(op, general(op), op.codes, op.kernels.get("native"), plain, wrap_outputs, composite, differentiable)


def plain_map(op: Op) -> bool:
    """A formula per element of tensors and numbers, with one output: `_call` runs it where types allow."""
    return (
        op.kind is Kind.MAP
        and not op.mutates
        and not op.explicit_loop
        and op.meta_rule is None
        and len(op.outputs) == 1
        and "numpy" not in op.kernels
        and 1 <= len(op.params) <= 6
        and all(p.role in ("tensor", "tensor?", "scalar") for p in op.params)
    )


def named(entry, op: Op):
    entry.__name__ = entry.__qualname__ = op.name
    entry.__doc__ = op.doc or None
    entry.__wrapped__ = op.fn
    entry.op = op
    return entry


def general(op: Op):
    count = len(op.params)

    def entry(*args, **kw):
        if kw or len(args) != count:
            args = op.bind(args, kw)
        return call(op, args)

    return entry


_NATIVE_FROM = 16384  # elements from which a record's own native kernel is called
# Records whose formula takes numpy a loop or two, so that it is as quick as the kernel, with the same bits, but of halves.
_FORMULA_AS_QUICK = frozenset("clamp relu hardtanh exp sqrt rsqrt floor ceil trunc round sin cos".split())
_maps: list = []  # all fast maps, whose plans depend on the default type


def fast_map(op: Op, inplace: bool = False, operator: bool = False, swapped: bool = False):
    """A native callable for a pointwise record. What it does not know goes to `slow`, which learns a plan for operands
    of these types. As an `operator`, foreign operands give NotImplemented; `swapped` is the reflected one.
    """
    pure = op.functional if inplace else op
    count = len(op.params)

    def slow(*args, **kw):
        if kw or len(args) != count:
            args = op.bind(args, kw)
        if operator and not (is_operand(args[0]) and is_operand(args[1])):
            args = tuple(map(foreign, args))
            if any(a is NotImplemented for a in args):
                return NotImplemented
        if swapped:
            args = args[::-1]
        if any(isinstance(a, np.generic) for a in args):
            args = numbers(args)
        learn(fast, pure, args)
        return call(op, args)

    fast = _call.map(op, slow, count, swapped, inplace)
    if "native" in pure.kernels:
        fast.native_from(_NATIVE_FROM, pure.kernels["native"], pure.name in _FORMULA_AS_QUICK)
    _maps.append(fast)
    return fast


def learn(fast, op: Op, args) -> None:
    """Make the plan for operands of these types, once. A plan may be None: they take the Python path."""
    key = fast.key(args)
    if key is not None and state.quick is not None:
        fast.learn(key, program_of(op, args))


def forget_plans() -> None:
    """The default type has changed, and with it the results of integers."""
    for fast in _maps:
        fast.forget()


dtypes.on_default_change.append(forget_plans)


def spelled(name: str, function) -> Any:
    """A public function that amounts to a few views, with a native path for the usual arguments."""
    return _dressed(_call.spelling(name, function), function)


def small(name: str, function, op: Op | Callable | tuple | None = None, pair=None) -> Any:
    """A public function with a native path for small tensors in plain memory. `op`: the record behind it; `pair`: the
    named tuple of two results."""
    return _dressed(_call.small(name, function, op, pair, _takes_out(function)), function)


def _takes_out(function) -> bool:
    """Whether it has a parameter `out`."""
    while function is not None:
        code = function.__code__
        if "out" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _dressed(fast, function) -> Any:
    """The native object in front of a function, with the function's names."""
    for field in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(fast, field, getattr(function, field))
    fast.__wrapped__ = function
    return fast


def is_operand(x) -> bool:
    return isinstance(x, Tensor) or (is_number(x) and not isinstance(x, np.generic))


def foreign(x):
    """numpy's scalars and arrays as operands of an operator; NotImplemented for what is none."""
    if isinstance(x, np.generic) and x.dtype.kind in "biufc":
        return x.item()
    if isinstance(x, _ndarray):
        return Tensor._fl_from_array(x, dtypes.from_numpy(x.dtype))
    return x if is_operand(x) or hasattr(type(x), "__torch_function__") else NotImplemented


def operator(op: Op, swapped: bool = False):
    """A special method (`__add__`, or `__radd__` with `swapped`) from a record of two operands."""
    if plain_map(op) and len(op.params) == 2:
        return named(fast_map(op, operator=True, swapped=swapped), op)

    def entry(a, b):
        if not (is_operand(a) and is_operand(b)):
            a, b = foreign(a), foreign(b)
            if a is NotImplemented or b is NotImplemented:
                return NotImplemented
        return op(b, a) if swapped else op(a, b)

    return named(entry, op)


def learn_needs(op: Op, mask: tuple) -> tuple:
    """For `_call`: (some formula runs, codes, per operand DROP 0, SAVE 1 or META 2, outputs that are saved, constant outputs)."""
    wanted, kept, any_formula = plan_of_mask(op, mask)
    how = tuple([{"save": 1, "meta": 2, None: 0}[wanted.get(k)] for k in range(len(mask))])
    return any_formula, op.codes, how, kept, tuple([k for k, out in enumerate(op.outputs) if not out.differentiable])


_call.defaults(vars(devices), vars(dtypes))
_call.bind(
    Tensor,
    Node,
    Storage(None, device=_cpu),
    Size,
    View,
    Meta,
    dtypes.ALL,
    state,
    _cpu,
    SavedOutput,
    learn_needs,
    DATA,
    INFERENCE,
    native.api,
)
ops.on_first_call(make_entry)
