"""The loop of each kind of record: what an element of the output is, in terms of loads and index expressions.

In: a record. Out: `loop(s, i, r, *args)`: `s` the vocabulary, `i` the output index, `r` the reduction index (tuples
of index expressions), tensors as loaders (`x(*index) -> value`, `x.shape`, `x.dtype`), other arguments as they are.
Sizes and indices may be any algebra with + - *. Operands are cast to the computation type, the result once to its
type; Python numbers stay weak. A Random loop asks the vocabulary for `s.draw()` -> (seed, ordinal).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import dtypes
from .prims import COMBINES
from ..sizes import contiguous_strides, is_number, numel


def derive_loop(op) -> Callable | None:
    """The loop that the record's kind gives; None for kinds that have none (extern, composite)."""
    derive = {"MAP": map_loop, "REDUCE": reduce_loop, "SCAN": map_loop, "RANDOM": random_loop, "VIEW": view_loop}.get(
        op.kind.name
    )
    return derive(op) if derive else None


def broadcast_index(shape, index) -> tuple:
    """`index` into a broadcast result, as an index into an operand of this shape."""
    skip = len(index) - len(shape)
    return tuple(0 if type(n) is int and n == 1 else i for n, i in zip(shape, index[skip:]))


def is_loader(x) -> bool:
    return x is not None and not is_number(x)


def load(s, x, index, compute):
    """The value of an operand at `index` (of the result), in the computation type."""
    value = x(*broadcast_index(x.shape, index))
    return value if compute is None or x.dtype is compute else s.cast(value, compute)


def operands(op, s, index, args, compute, result):
    """The record's arguments as a formula takes them: tensors loaded at `index`, numbers weak, the rest as they are."""
    strong = any(p.is_tensor and p.promotes and is_loader(a) for p, a in zip(op.params, args))
    for p, a in zip(op.params, args):
        if p.role == "tensors":
            yield tuple(load(s, x, index, compute) for x in a)
        elif not p.is_tensor or a is None:
            yield a
        elif is_loader(a):
            yield load(s, a, index, compute if p.promotes else None)
        else:
            yield a if strong or not isinstance(a, (int, float)) else s.const(a, compute or result)


def computation(op, args):
    """(type in which operands meet or None, types of the outputs)."""
    compute, result = op.types(*args)
    return op.compute or compute, result_types(op, result)


def result_types(op, result) -> tuple:
    """The types of all outputs, from that of the first: positions of extremes are int64."""
    rest = dtypes.int64 if (op.combine or "").startswith("arg") else result
    return (result,) + (rest,) * (len(op.outputs) - 1)


def cast_results(s, values, types):
    if len(types) == 1:
        return s.cast(values, types[0])
    return tuple(s.cast(v, t) for v, t in zip(values, types))


# -- Map and Scan


def map_loop(op) -> Callable:
    def loop(s, i, r, *args):
        compute, types = computation(op, args)
        count = len(args) - (op.kind.name == "SCAN")  # a scan's `dim` is no business of its prologue
        value = op.fn(s, *list(operands(op, s, i, args, compute, types[0]))[:count])
        return value if op.kind.name == "SCAN" else cast_results(s, value, types)

    return loop


# -- Reduce


def argument(op, args, name, default=None) -> Any:
    """The argument of a call by its parameter's name."""
    k = op.names.get(name)
    return default if k is None else args[k]


def reduced_sizes(op) -> Callable:
    """The extents of the reduction index: sizes of the reduced dimensions of the first operand."""
    return lambda *args: tuple(args[0].shape[d] for d in argument(op, args, "dim"))


def reduce_loop(op) -> Callable:
    def loop(s, i, r, *args):
        compute, types = computation(op, args)
        index = source_index(i, r, argument(op, args, "dim"), argument(op, args, "keepdim", False), len(args[0].shape))
        return op.fn(s, *prologue_operands(op, s, index, args, compute, types[0]))

    return loop


def prologue_operands(op, s, index, args, compute, result):
    """A prologue takes the record's parameters but `dim` and `keepdim`."""
    return [v for p, v in zip(op.params, operands(op, s, index, args, compute, result)) if p.name not in ("dim", "keepdim")]


def source_index(i, r, dims, keepdim, ndim) -> tuple:
    """The input's index from the output's and the reduction's."""
    kept, reduced = iter(i), dict(zip(dims, r))
    index = []
    for d in range(ndim):
        if d in reduced:
            index.append(reduced[d])
            if keepdim:
                next(kept)
        else:
            index.append(next(kept))
    return tuple(index)


def finish(op, s, acc, args):
    """The outputs' values from the combined accumulator(s), each in its type."""
    compute, types = computation(op, args)
    if op.finish is not None:
        acc = op.finish(s, acc, count(op, s, args, compute or types[0]), **finish_arguments(op, args))
    elif COMBINES[op.combine].n_outputs > 1 and len(types) == 1:
        acc = acc[0]
    return cast_results(s, acc, types)


def count(op, s, args, dtype):
    """The number of reduced elements, as a Python int or a value."""
    n = numel(op.ranges(*args))
    return n if type(n) is int else s.cast(s.index(n), dtype)


def finish_arguments(op, args) -> dict:
    code = op.finish.__code__
    names = code.co_varnames[3 : code.co_argcount + code.co_kwonlyargcount]
    return {name: argument(op, args, name) for name in names}


# -- Random


class Draw:
    """The `rng` of a Random formula: four words per element, from (seed, ordinal, element index)."""

    def __init__(self, s, seed, ordinal, index, dtype):
        self.s, self.key, self.dtype = s, (seed, ordinal, index), dtype

    def bits(self, word: int = 0):
        """An int64 value in [0, 2**32)."""
        return self.s.philox(*self.key, word)

    def uniform(self, pair: int = 0):
        """In [0, 1): 24 bits for float32, 53 bits (two words) for float64."""
        if self.dtype is dtypes.float64:
            high, low = self.bits(2 * pair) >> 5, self.bits(2 * pair + 1) >> 6
            return self.s.cast(high * 67108864 + low, dtypes.float64) * 2.0**-53
        return self.s.cast(self.bits(pair) >> 8, dtypes.float32) * 2.0**-24

    def normal(self):
        """Box-Muller; the first uniform is shifted into (0, 1]."""
        s = self.s
        shift = 2.0**-53 if self.dtype is dtypes.float64 else 2.0**-24
        radius = s.sqrt(s.log(self.uniform(0) + shift) * -2.0)
        return radius * s.cos(self.uniform(1) * (2 * math.pi))


def random_sizes(op, args) -> tuple:
    """The sizes of a Random record's output: its `size` argument, else those of its operands, broadcast."""
    size = argument(op, args, "size")
    if size is not None:
        return tuple(size)
    shapes = [a.shape for p, a in zip(op.params, args) if p.is_tensor and is_loader(a)]
    out = list(max(shapes, key=len, default=()))
    for shape in shapes:
        for k, n in enumerate(reversed(shape), 1):
            if type(out[-k]) is int and out[-k] == 1:
                out[-k] = n
    return tuple(out)


def linear_index(index, sizes):
    total = 0
    for i, step in zip(index, contiguous_strides(sizes)):
        total = total + i * step
    return total


def random_loop(op) -> Callable:
    def loop(s, i, r, *args):
        return random_value(op, s, i, s.index(linear_index(i, random_sizes(op, args))), s.draw(), args)

    return loop


def random_value(op, s, i, element, draw: tuple[Any, Any], args):
    """The formula's value at index `i`, which is the `element`-th in row-major order, for draw = (seed, ordinal)."""
    compute, types = computation(op, args)
    inner = types[0].compute if types[0].is_floating_point else compute or dtypes.float32
    rng = Draw(s, *draw, element, inner)
    values = list(operands(op, s, i, args[:-1], compute, inner))
    return cast_results(s, op.fn(s, rng, *values), types)


# -- View


class Linear:
    """A linear combination of a tensor's strides, which a stride rule may add, subtract, and multiply by integers."""

    __slots__ = ("terms",)

    def __init__(self, terms: dict):
        self.terms = terms

    def __add__(self, other):
        if not isinstance(other, Linear):
            if type(other) is int and other == 0:
                return self
            return NotImplemented
        terms = dict(self.terms)
        for k, c in other.terms.items():
            terms[k] = terms[k] + c if k in terms else c
        return Linear(terms)

    __radd__ = __add__

    def __mul__(self, factor):
        return NotImplemented if isinstance(factor, Linear) else Linear({k: c * factor for k, c in self.terms.items()})

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return (-self) + other

    def coefficient(self, k):
        return self.terms.get(k, 0)


def unit_strides(ndim: int) -> tuple:
    return tuple(Linear({k: 1}) for k in range(ndim))


def view_index(op, shape, index, args) -> tuple:
    """The index into the viewed tensor for an index into the view: the stride rule, run on unit strides."""
    _, strides, offset = op.fn(tuple(shape), unit_strides(len(shape)), *args)
    source = []
    for k in range(len(shape)):
        at = offset.coefficient(k) if isinstance(offset, Linear) else 0
        for i, stride in zip(index, strides):
            if isinstance(stride, Linear) and k in stride.terms:
                at = at + i * stride.terms[k]
        source.append(at)
    return tuple(source)


def view_loop(op) -> Callable:
    def loop(s, i, r, x, *args):
        return x(*view_index(op, x.shape, i, args))

    return loop


class IndexRecorder:
    """A loader that answers with the index it is asked for."""

    def __init__(self, like):
        self.shape, self.dtype = like.shape, like.dtype

    def __call__(self, *index, mask=None, other=0):
        return index


def put_loop(view) -> Callable:
    """The scatter that writes `value` through a view into `base`: where the view's elements lie, and what goes
    there.
    """

    def loop(s, i, r, base, value, *args):
        target = view.loop(s, i, r, IndexRecorder(base), *args)
        if is_loader(value):
            return target, load(s, value, i, base.dtype)
        return target, s.const(value, base.dtype)

    return loop
