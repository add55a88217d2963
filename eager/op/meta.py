"""Shape, type and stride of every op's results, without bytes and with sizes that may be symbolic.

In: a record and its arguments (fakes or real tensors). Out: one `Spec` per output, or fakes (`run_meta`). The rules
are those that eager follows: broadcasting; strides of maps follow the first operand that orders a pair of dimensions;
reductions and everything else are contiguous unless the record's own rule says otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import device as devices
from .. import dtypes
from .loop_rules import argument, computation, random_sizes
from ..sizes import SymInt, contiguous_strides, is_int, is_row_major
from ..tensor import Tensor, fake_tensor, is_dense


class Spec(NamedTuple):
    """What is known of an output before it is computed. `strides=None`: contiguous."""

    sizes: tuple
    dtype: Any
    strides: tuple | None = None
    device: Any = None


# -- broadcasting


def broadcast_shapes(shapes, op="broadcast") -> tuple:
    """The common shape; error and text as PyTorch's."""
    out: tuple | list = ()
    for shape in shapes:
        if len(shape) == len(out) and shape == out:  # (tuples of unlike length would ask whether their members are equal)
            continue
        if not out:
            out = tuple(shape)
        else:
            out = _broadcast(out, shape, op, shapes)
    return tuple(out)


def _broadcast(a, b, op, shapes) -> tuple:
    if len(a) < len(b):
        return _broadcast(b, a, op, shapes)
    out, skip = list(a), len(a) - len(b)
    for k, m in enumerate(b, skip):
        n = out[k]
        if n is m or (type(m) is int and m == 1):
            continue
        if type(n) is int and n == 1:
            out[k] = m
        elif n != m:
            raise_mismatch(op, k, n, m, shapes)
        elif type(m) is int:
            out[k] = m
    return tuple(out)


def raise_mismatch(op, k, n, m, shapes):
    shown = " and ".join(str(list(s)) for s in shapes)
    raise RuntimeError(
        f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton dimension {k} ({op}: shapes {shown})"
    )


def check_expandable(op, target, value) -> None:
    """In-place: the result must have the target's sizes; the left side never grows."""
    shape = broadcast_shapes((target, value), op)
    if len(shape) != len(target) or any(n is not m and n != m for n, m in zip(shape, target)):
        raise RuntimeError(f"output with shape {list(target)} doesn't match the broadcast shape {list(shape)} ({op})")


# -- strides of maps


def map_strides(sizes, operands) -> tuple | None:
    """Strides of a map's result: dimensions ordered as in the first operand that orders them. None: contiguous."""
    order = map_order(sizes, operands)
    if order is None:
        return None
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        if type(sizes[d]) is not int or sizes[d] > 1:
            step = step * sizes[d]
    return tuple(strides)


def map_order(sizes, operands) -> list | None:
    """The dimensions of a map's result from the slowest to the fastest; None where they are in order."""
    ndim = len(sizes)
    if ndim < 2 or all([is_plain(x) for x in operands]):
        return None
    known = [s for x in operands if (s := _aligned_strides(x, sizes)) is not None]
    if not known or _row_major(known[0]):
        return None
    order = _order(ndim, known)
    return None if order == list(range(ndim)) else order


def is_plain(x) -> bool:
    """Row-major for sure, so that it orders dimensions as they are or not at all."""
    a = x._fl_array
    return a.flags.c_contiguous if a is not None else is_row_major(x._fl_geometry[1])


def cached_computation(op, args):
    """`computation` by the classes of the operands."""
    key: Any = [dtypes._default]
    for code, a in zip(op.codes, args):
        if isinstance(a, Tensor):
            key.append(a._fl_dtype if a.ndim else (a._fl_dtype,))
        elif code == 2 and a is not None:
            key.append(tuple([(x._fl_dtype, x.ndim == 0) for x in a]))
        elif a.__class__ is int:
            dtypes.of_number(a)  # (refuses one that 64 bits do not hold)
            key.append(int)
        else:
            key.append(a if a.__class__ is dtypes.dtype else a.__class__)
    key = tuple(key)
    plans = op.cache.get("plans")
    if plans is None:
        plans = op.cache["plans"] = {}
    found = plans.get(key)
    if found is None:
        found = plans[key] = computation(op, args)
    return found


def _aligned_strides(x, sizes):
    """The operand's strides per dimension of the result; 0 where it is broadcast or of size 1. None: it orders
    nothing.
    """
    own = x._fl_sizes
    if not own or (x._fl_array is None and is_row_major(x._fl_geometry[1]) and len(own) == len(sizes) and own == sizes):
        return contiguous_strides(sizes) if own else None
    skip = len(sizes) - len(own)
    return (0,) * skip + tuple([0 if type(n) is int and n == 1 else s for n, s in zip(own, x._fl_strides)])


def _row_major(strides) -> bool:
    """True if every dimension has a stride and they fall: then no other operand has a say."""
    return all(type(a) is int and type(b) is int and a >= b > 0 for a, b in zip(strides, strides[1:]))


def _order(ndim: int, known) -> list:
    """Dimensions, outermost first: insertion by the first operand with two nonzero strides that differ."""
    order: list[int] = []
    for d in reversed(range(ndim)):  # `order` is innermost first while it is built
        at = len(order)
        for k in reversed(range(len(order))):
            verdict = _compare(order[k], d, known)
            if verdict > 0:
                at = k
            elif verdict < 0:
                break
        order.insert(at, d)
    return order[::-1]


def _compare(inner, d, known) -> int:
    """1 if dimension `d` must lie inside `inner`, -1 if outside, 0 if no operand tells."""
    for strides in known:
        a, b = strides[inner], strides[d]
        if (type(a) is int and a == 0) or (type(b) is int and b == 0) or a is b:
            continue
        if a == b:
            continue
        return 1 if a > b else -1
    return 0


# -- rules per kind


def infer(op, args) -> tuple[Spec, ...]:
    """Specs of all outputs of a (pure) record."""
    if op.meta_rule is not None:
        return _specs(op, args, op.meta_rule(*args))
    return _RULES[op.kind.name](op, args)


def tensors_of(op, args):
    found = []
    for code, a in zip(op.codes, args):
        if code and a is not None:
            if code == 2:
                found.extend(a)
            elif isinstance(a, Tensor):
                found.append(a)
    return found


def _specs(op, args, answer) -> tuple[Spec, ...]:
    """What a meta rule may answer: sizes, a Spec, a tensor, or one of these per output."""
    many = isinstance(answer, tuple) and not isinstance(answer, Spec) and (not answer or not is_int(answer[0]))
    if not many or answer == ():
        answer = (answer,)
    types = None
    found = []
    for k, each in enumerate(answer):
        if isinstance(each, Tensor):
            each = Spec(each._fl_sizes, each._fl_dtype, each._fl_strides, each._fl_device)
        elif not isinstance(each, Spec):
            types = types or cached_computation(op, args)[1]
            each = Spec(tuple(each), types[min(k, len(types) - 1)])
        found.append(each)
    return tuple(found)


def _map(op, args):
    operands = tensors_of(op, args)
    sizes = operands[0]._fl_sizes if len(operands) == 1 else broadcast_shapes([x._fl_sizes for x in operands], op.name)
    strides = map_strides(sizes, operands)
    return tuple([Spec(sizes, t, strides) for t in cached_computation(op, args)[1]])


def _reduce(op, args):
    sizes, dims, keepdim = args[0]._fl_sizes, argument(op, args, "dim"), argument(op, args, "keepdim", False)
    dims = set(dims)
    out = tuple([1 if d in dims else n for d, n in enumerate(sizes) if keepdim or d not in dims])
    return tuple(Spec(out, t) for t in cached_computation(op, args)[1])


def _scan(op, args):
    return tuple(Spec(args[0]._fl_sizes, t) for t in cached_computation(op, args)[1])


def _scatter(op, args):
    base = args[0]
    if isinstance(base, Tensor):
        dense = map_strides(base._fl_sizes, (base,))
        return (Spec(base._fl_sizes, base._fl_dtype, dense),)
    return (Spec(tuple(base), cached_computation(op, args)[1][0]),)


def _random(op, args):
    return tuple(Spec(random_sizes(op, args), t) for t in cached_computation(op, args)[1])


def _undeclared(op, args):
    raise TypeError(f"the record {op.name} has no meta rule: give one with meta= or @{op.name}.meta")


_RULES = {
    "MAP": _map,
    "REDUCE": _reduce,
    "SCAN": _scan,
    "SCATTER": _scatter,
    "RANDOM": _random,
    "EXTERN": _undeclared,
    "COMPOSITE": _undeclared,
}


def device_of(op, args):
    """The `device` argument if the record has one, else that of the first tensor with dimensions (or the first)."""
    given = argument(op, args, "device")
    if given is not None:
        return devices.device(given)
    found, free = None, False  # `free`: numbers of the host that go along with any device
    for x in placed_tensors(op, args):
        own = x._fl_device
        if found is None or (own is not found and free):
            found, free = own, own is devices.cpu and x.ndim == 0
        elif own is not found and (x.ndim or own.type in devices.runtimes):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {max(found, own, key=str)} and "
                f"{min(found, own, key=str)}!"
            )
        elif own is found and x.ndim:
            free = False
    return found or devices.get_default_device()


def placed_tensors(op, args):
    """The tensors that must be on one device: all but lists of indices, which may lie on the host."""
    for p, code, a in zip(op.params, op.codes, args):
        if code == 2 and a is not None and not p.promotes:
            yield from (x for x in a if x._fl_device is not devices.cpu)
        elif code == 2 and a is not None:
            yield from a
        elif code and isinstance(a, Tensor):
            yield a


def is_contiguous(sizes, strides) -> bool:
    return strides is None or is_dense(sizes, strides, range(len(sizes)))


# -- fakes


def run_meta(op, args) -> tuple[Tensor, ...]:
    """Fake outputs of a pure record; views share the storage of what they view."""
    if op.kind.name == "VIEW":
        return (fake_view(op, args[0], args[1:]),)
    device = device_of(op, args)
    return tuple([fake_tensor(s.sizes, s.strides, s.dtype, s.device or device) for s in infer(op, args)])


def fake_view(op, x, args) -> Tensor:
    sizes, strides, offset = op.fn(x._fl_sizes, x._fl_strides, *args)
    dtype = x._fl_dtype if op.promote == "keep" else op.types(x, *args)[1]
    return fake_tensor(sizes, strides, dtype, x._fl_device, storage=x._fl_storage, offset=x._fl_geometry[2] + offset)


def symbolic(args) -> bool:
    return any(isinstance(a, SymInt) or (isinstance(a, (tuple, list)) and symbolic(a)) for a in args)
