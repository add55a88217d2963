"""The loop of every record, run over index grids with numpy's vocabulary, against the record's eager result."""

import numpy as np
import pytest

from flambeau.eager import random
from flambeau.eager.autograd import no_grad
from flambeau.eager.op.numpy_kernels import GridLoader, grid
from flambeau.eager.op.loop_rules import Linear, broadcast_index, unit_strides, view_index
from flambeau.eager.op.op import OPS, Kind
from flambeau.eager.op.prims import COMBINES, NumpyVocabulary
from flambeau.eager.tensor import Tensor
from flambeau.eager.op.meta import infer

WITH_SAMPLES = [name for name, op in sorted(OPS.items()) if op.sample_rule is not None and op.loop is not None and not op.mutates]


class Drawing(NumpyVocabulary):
    """numpy's vocabulary with a draw of its own."""

    def __init__(self, key):
        self.key = key

    def draw(self):
        return self.key


def loaded(args):
    return tuple(
        GridLoader(a)
        if isinstance(a, Tensor)
        else tuple(GridLoader(x) for x in a)
        if isinstance(a, (tuple, list)) and a and isinstance(a[0], Tensor)
        else a
        for a in args
    )


def by_loop(op, args, key=(0, 0)):
    """Outputs of a record by nothing but its loop, `ranges`, combine and finish."""
    s = Drawing(key)
    with np.errstate(all="ignore"):
        if op.kind is Kind.SCATTER:
            return by_scatter(op, s, args)
        sizes = (
            tuple(args[0].shape)
            if op.kind is Kind.SCAN
            else tuple(op(*args).shape)
            if op.kind is Kind.VIEW
            else infer(op, args)[0].sizes
        )
        if op.kind is not Kind.REDUCE:
            found = op.loop(s, grid(sizes), (), *loaded(args))
            if op.kind is Kind.SCAN:
                return scanned(op, found, args)
            return [np.broadcast_to(v, sizes) for v in (found if isinstance(found, tuple) else (found,))]
        extents = tuple(op.ranges(*args))
        n, m = len(sizes), len(extents)
        value = np.broadcast_to(op.loop(s, grid(sizes, 0, m), grid(extents, n, 0), *loaded(args)), tuple(sizes) + extents)
        acc = COMBINES[op.combine].reduce(value, tuple(range(n, n + m)))
        found = op.finished(s, acc if len(acc) > 1 else acc[0], *loaded(args))
        return [np.reshape(v, sizes) for v in (found if isinstance(found, tuple) else (found,))]


def scanned(op, value, args):
    """Prefix by prefix, with the combine of the reduction."""
    value, dim = np.broadcast_to(value, args[0].shape), op.bind(args, {})[op.names["dim"]]
    if not value.ndim or not value.size:
        return []
    parts = [COMBINES[op.combine].reduce(np.take(value, range(k + 1), dim), (dim,)) for k in range(value.shape[dim])]
    return [np.stack(p, dim).astype(t.numpy) for p, t in zip(zip(*parts), op.result_types(*args))][:1]


MODES = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def by_scatter(op, s, args):
    base = args[0]
    spec = infer(op, args)[0]
    out = base._fl_array.copy() if isinstance(base, Tensor) else np.zeros(spec.sizes, spec.dtype.numpy)
    sizes = tuple(op.ranges(*args))
    index, value = op.loop(s, grid(sizes), (), *loaded(args))
    value = np.broadcast_to(value, sizes)
    for at in np.ndindex(*sizes):
        where = tuple(int(np.broadcast_to(i, sizes)[at]) for i in index)
        out[where] = value[at] if op.mode == "set" else MODES[op.mode](out[where], value[at])
    return [out]


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_loop_means_what_eager_does(name, make):
    op = OPS[name]
    with no_grad():
        for args in op.sample_rule(make):
            args = op.bind(tuple(args), {})
            key = (random.default_generator.initial_seed(), random.default_generator._next)
            real = op(*args)
            real = real if isinstance(real, tuple) else (real,)
            found = by_loop(op, args, key)
            for value, out in zip(found, real):
                assert tuple(value.shape) == tuple(out.shape) and np.asarray(value).dtype == out._fl_array.dtype, (name, args)
                a, b = np.asarray(value), out._fl_array
                if a.dtype.kind == "V" or a.dtype.kind == "f":
                    np.testing.assert_allclose(
                        a.astype(np.float64), b.astype(np.float64), rtol=2e-5, atol=2e-6, err_msg=str(args)
                    )
                elif name != "empty":
                    np.testing.assert_array_equal(a, b, err_msg=str(args))


def test_broadcast_index():
    assert broadcast_index((3, 1, 4), ("a", "b", "c", "d")) == ("b", 0, "d") and broadcast_index((), ("a",)) == ()


def test_linear_combinations_of_strides():
    a, b = unit_strides(2)
    total = a * 3 + 2 * b - a + 0
    assert total.terms == {0: 2, 1: 2} and (-a).terms == {0: -1} and sum([a, b]).terms == {0: 1, 1: 1}
    with pytest.raises(TypeError):
        a * b
    assert isinstance(total, Linear)


class Name:
    """A stand-in for index algebra: text with + - *."""

    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return self if other == 0 else Name(f"({self.text} + {getattr(other, 'text', other)})")

    def __radd__(self, other):
        return self if type(other) is int and other == 0 else Name(f"({other} + {self.text})")

    def __mul__(self, other):
        return self if type(other) is int and other == 1 else Name(f"{self.text}*{getattr(other, 'text', other)}")

    __rmul__ = __mul__

    def __eq__(self, other):
        return isinstance(other, Name) and self.text == other.text

    __hash__ = None


def test_view_indices_are_found_on_symbols():
    i, j = Name("i"), Name("j")
    texts = [getattr(e, "text", e) for e in view_index(OPS["permute"], (3, 4), (i, j), ((1, 0),))]
    assert texts == ["j", "i"]
    start = Name("k")
    texts = [getattr(e, "text", e) for e in view_index(OPS["select"], (3, 4), (j,), (0, start))]
    assert texts == ["k", "j"]
    texts = [getattr(e, "text", e) for e in view_index(OPS["expand"], (1, 4), (i, j), ((3, 4),))]
    assert texts[1] == "j"
