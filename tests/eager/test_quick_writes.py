"""Writes into strided memory, tensors of nested lists and counted numbers, each against the Python path behind it."""

import itertools

import numpy as np
import pytest

import flambeau as fb

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")


def values(dtype, *shape, seed=0):
    x = np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 6
    return fb.tensor(x > 0) if dtype == "bool" else fb.tensor(np.abs(x) if dtype == "uint8" else x).to(getattr(fb, dtype))


def raw(x):
    return x.detach().to(fb.float64).numpy() if x.dtype is fb.bfloat16 else x.detach().numpy()


def told(function, *args, **kw):
    """The result, or what was raised."""
    try:
        return function(*args, **kw)
    except Exception as error:
        return type(error), str(error)


# views of a fresh (4, 5, 6) tensor
VIEWS = {
    "whole": lambda x: x,
    "column": lambda x: x[..., 1],
    "row": lambda x: x[2],
    "steps": lambda x: x[::2, 1:, ::3],
    "turned": lambda x: x.transpose(0, 2),
    "one": lambda x: x[1, 2, 3],
    "empty": lambda x: x[:0],
    "expanded": lambda x: x[:1].expand(4, 5, 6),
    "alias": lambda x: x.detach(),
    "pieces": lambda x: x.split(2)[1],
}


def written(base, view, write):
    """(the whole memory afterwards, how often it was written), or what was raised."""
    target = VIEWS[view](base)
    found = told(write, target)
    if isinstance(found, tuple):
        return found
    assert found is target
    return raw(base), base._version


def compare(dtype, view, name, argument, grad):
    public = getattr(fb.Tensor, name)
    results = []
    for function in (public, public.__wrapped__):
        with fb.set_grad_enabled(grad):
            base = values(dtype, 4, 5, 6)
            results.append(written(base, view, lambda target, f=function: f(target, argument(target))))
    a, b = results
    if isinstance(a[0], np.ndarray) and isinstance(b[0], np.ndarray):
        np.testing.assert_array_equal(a[0], b[0], err_msg=str((dtype, view, name)))
        assert a[1] == b[1]
    else:
        assert a == b


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_copies_into_views(dtype, view):
    sources = [lambda t, d=d: values(d, *t.shape, seed=3) for d in TYPES]
    sources += [
        lambda t: values(dtype, *t.shape[-1:], seed=4),
        lambda t: values(dtype, *t.shape[:-1], 1, seed=5),
        lambda t: values(dtype),
        lambda t: values(dtype, *t.shape[::-1]).permute(*range(t.ndim - 1, -1, -1)),
        lambda t: values(dtype, 7, *t.shape),
        lambda t: t,
        lambda t: 1,
        lambda t: values(dtype, 1, *t.shape),
    ]
    for source, grad in itertools.product(sources, (True, False)):
        compare(dtype, view, "copy_", source, grad)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_fills_of_views(dtype, view):
    for value, grad in itertools.product((0, 1, -3, 2.5, True, 300, 1e39, float("nan"), 2**70), (True, False)):
        compare(dtype, view, "fill_", lambda t, value=value: value, grad)


def test_sources_in_the_same_memory():
    for move in (
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x[:, 0].copy_(x[:, 1]),
        lambda x: x.t().copy_(x[:, :4]),
        lambda x: x[:2].copy_(x[2:4]),
    ):

        def run(swap):
            x = values("float32", 4, 4)
            old = fb.Tensor.copy_
            if swap:
                fb.Tensor.copy_ = old.__wrapped__
            try:
                return told(move, x), x
            finally:
                fb.Tensor.copy_ = old

        (a, x), (b, y) = run(False), run(True)
        assert isinstance(a, tuple) == isinstance(b, tuple) and (not isinstance(a, tuple) or a == b)
        np.testing.assert_array_equal(raw(x), raw(y))
    shared = np.arange(8, dtype=np.float32)
    fb.from_numpy(shared[1:]).copy_(fb.from_numpy(shared[:-1]))
    np.testing.assert_array_equal(shared, [0, 0, 1, 2, 3, 4, 5, 6])


WRITES = {
    "copy_": lambda t: t.copy_(fb.ones(3)),
    "fill_": lambda t: t.fill_(2),
    "zero_": lambda t: t.zero_(),
    "add_": lambda t: t.add_(1),
    "mul_": lambda t: t.mul_(fb.ones(3)),
    "div_": lambda t: t.div_(2),
    "sub_": lambda t: t.sub_(1),
}


@pytest.mark.parametrize("name", WRITES)
def test_views_made_without_recording(name):
    """Written without recording they are plain memory; with it they are refused where a gradient could be lost."""
    write = WRITES[name]
    for leaf in (False, True):
        base = fb.ones(2, 3, requires_grad=leaf)
        with fb.no_grad():
            column, row = base.t()[:, 0], base[1]
            write(column), write(row)
            assert base._version == 2
        if leaf:
            with pytest.raises(RuntimeError, match="created in no_grad mode"):
                write(row)
        else:
            write(row)
            assert base._version == 3
    base = fb.arange(6.0).reshape(2, 3)
    with fb.inference_mode():
        view = base[0]
        write(view)
        own = fb.ones(2, 3)
        write(own[0])
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        write(own)
    with fb.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        write(own[0])


def test_a_write_through_a_view_is_seen_by_what_was_saved():
    x = fb.ones(2, 3, requires_grad=True)
    y = x * 2
    z = y.square()
    with fb.no_grad():
        y.t()[:, 0].fill_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# -- new tensors

DATA = [
    1,
    1.5,
    True,
    [],
    [[]],
    [1, 2],
    [1, 2.5],
    [True, False],
    [True, 2],
    [True, 2.5],
    [[1, 2], [3, 4]],
    ((1, 2.0), [3, 4]),
    [1, [2]],
    [[1, 2], [3]],
    [[1], 2],
    [1e39],
    [float("inf"), float("nan"), -0.0],
    [2**53 + 1],
    [2**62],
    [2**70],
    [-1],
    [300],
    [1 + 2j],
    [[[[1.0]]]],
    list(range(100)),
    ["a"],
    [None],
    [np.float32(1)],
    [[1.0] * 8] * 8,
    3 - 2j,
    [1, 2.0, 3e300],
]


@pytest.mark.parametrize("dtype", [None, *TYPES])
def test_tensors_of_lists(dtype):
    kind = None if dtype is None else getattr(fb, dtype)
    for data in DATA:
        a, b = (told(f, data, dtype=kind) for f in (fb.tensor, fb.tensor.__wrapped__))
        if isinstance(b, tuple):
            assert a == b, data
            continue
        assert a.dtype is b.dtype and a.shape == b.shape and not a.requires_grad, data
        np.testing.assert_array_equal(raw(a), raw(b), err_msg=str(data))


def test_tensors_of_lists_follow_the_defaults():
    fb.set_default_dtype(fb.float64)
    try:
        assert fb.tensor([1, 2.5]).dtype is fb.float64 and fb.linspace(0, 1, 3).dtype is fb.float64
    finally:
        fb.set_default_dtype(fb.float32)
    assert fb.tensor([1.0, 2], requires_grad=True).requires_grad and fb.tensor([1.0]).is_leaf
    assert fb.tensor([1.0], device="meta").device.type == "meta"
    with fb.device("meta"):
        assert fb.tensor([1.0]).device.type == "meta" and fb.linspace(0, 1, 3).device.type == "meta"


def test_counted_numbers():
    ends = [0, 1, -2.5, 3, 1e-3, 1e38, -1e38, 1e39, float("inf"), float("nan"), 2**60, True]
    for start, end in itertools.product(ends, ends):
        for n, kind in itertools.product((0, 1, 2, 3, 10, 101), (None, fb.float64, fb.float16, fb.int64, fb.complex64)):
            a, b = (told(f, start, end, n, dtype=kind) for f in (fb.linspace, fb.linspace.__wrapped__))
            if isinstance(b, tuple):
                assert a == b
                continue
            assert a.dtype is b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(raw(a), raw(b), err_msg=str((start, end, n, kind)))
    assert fb.linspace(0, 1, steps=3).tolist() == [0.0, 0.5, 1.0] and fb.linspace(start=1, end=0, steps=2).tolist() == [1.0, 0.0]
    for wrong in ((0, 1, -1), (0, 1, 2.5)):
        assert told(fb.linspace, *wrong) == told(fb.linspace.__wrapped__, *wrong)


def test_counted_whole_numbers():
    for args in (
        (5,),
        (0,),
        (-3,),
        (2, 7),
        (7, 2),
        (7, 2, -2),
        (0, 10, 3),
        (0, 10, 0),
        (0, 9, -1),
        (1.5,),
        (2**21,),
        (True,),
        (0, 1, 2**30),
    ):
        for kind in (None, fb.int32, fb.float32, fb.float16, fb.uint8):
            a, b = (told(f, *args, dtype=kind) for f in (fb.arange, fb.arange.__wrapped__))
            if isinstance(b, tuple):
                assert a == b
                continue
            assert a.dtype is b.dtype
            np.testing.assert_array_equal(raw(a), raw(b), err_msg=str((args, kind)))
    assert fb.arange(3, requires_grad=False).tolist() == [0, 1, 2] and fb.arange(end=3).tolist() == [0, 1, 2]
