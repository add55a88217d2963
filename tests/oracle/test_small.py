"""Small reductions, joins, factories and fills against PyTorch: values, types, sizes."""

import itertools

import numpy as np
import pytest

import flambeau as fb

torch = pytest.importorskip("torch")

REDUCTIONS = "sum mean amax amin max argmax argmin any all softmax log_softmax".split()
FORMS = [{}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": (0, 1)}, {"dim": (1,), "keepdim": True}]
SHAPES = [(1,), (4,), (3, 4), (2, 3, 4), (5, 1, 2)]


def outcome(call):
    try:
        found = call()
    except (RuntimeError, TypeError, IndexError, ValueError):
        return None
    return [x.numpy() for x in (found if isinstance(found, tuple) else (found,))]


def agree(ours, theirs, what):
    assert (ours is None) == (theirs is None), what
    for a, b in zip(ours or (), theirs or ()):
        assert a.shape == b.shape and a.dtype == b.dtype, what
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=str(what))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    rng = np.random.default_rng(0)
    for shape, dtype, form in itertools.product(SHAPES, ("float32", "float64", "int64", "uint8"), FORMS):
        if name.startswith("arg") and isinstance(form.get("dim"), tuple):
            continue
        x = (rng.standard_normal(shape) * 4).astype(dtype)
        if dtype[0] == "f" and x.size > 3:
            x.flat[2] = np.nan
        ours, theirs = fb.tensor(x), torch.tensor(x)
        agree(
            outcome(lambda: getattr(ours, name)(**form)),
            outcome(lambda: getattr(theirs, name)(**form)),
            (name, shape, dtype, form),
        )


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joins(name):
    rng = np.random.default_rng(1)
    pairs = [((2, 3), (4, 3)), ((2, 3), (2, 3)), ((4,), (4,)), ((), ()), ((2, 3, 2), (2, 1, 2)), ((2, 3), (0,))]
    for (a, b), dim, types in itertools.product(pairs, (0, 1, -1, 2), (("float32",) * 2, ("float32", "int64"), ("bool",) * 2)):
        x, y = (np.asarray(rng.standard_normal(s) * 3).astype(t) for s, t in zip((a, b), types))
        agree(
            outcome(lambda: getattr(fb, name)([fb.tensor(x), fb.tensor(y)], dim)),
            outcome(lambda: getattr(torch, name)([torch.tensor(x), torch.tensor(y)], dim)),
            (name, a, b, dim, types),
        )


@pytest.mark.parametrize(
    "call",
    [
        "zeros(3)",
        "zeros((2, 0))",
        "zeros([2, 2], dtype=M.int64)",
        "zeros(())",
        "ones(3, dtype=M.bool)",
        "ones(2, dtype=M.int32)",
        "full((2,), 1.5)",
        "full((2,), 3)",
        "full([2, 2], True)",
        "full((2,), 2.7, dtype=M.int64)",
        "zeros(-1)",
        "zeros(2.5)",
        "zeros_like(M.ones(2, 3).t())",
        "ones_like(M.ones(2), dtype=M.int64)",
        "ones(2).new_zeros((4, 1), dtype=M.int64)",
        "ones(3).fill_(2.5)",
        "ones(3, dtype=M.int64).fill_(2.0)",
        "ones(3).bool().fill_(5)",
        "ones(2, 3).t().zero_()",
        "ones(2, 3).copy_(M.zeros(3))",
        "ones(2, 3).copy_(M.zeros(2, 3, dtype=M.int64))",
        "ones(3).fill_(M.tensor(2.0))",
    ],
)
def test_factories_and_fills(call):
    agree(*(outcome(lambda: eval("M." + call, {"M": m})) for m in (fb, torch)), call)
