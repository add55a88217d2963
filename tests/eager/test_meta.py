"""Meta rules: fakes have the sizes, type and strides that eager has, for every sample of every record; errors agree
too.
"""

import numpy as np
import pytest

import flambeau
from flambeau.eager import dispatch, dtypes
from flambeau.eager.autograd import no_grad
from flambeau.eager.op.meta import broadcast_shapes
from flambeau.eager.op.op import OPS, Kind
from flambeau.eager.storage import Storage
from flambeau.eager.tensor import Tensor, fake_tensor

WITH_SAMPLES = sorted(name for name, op in OPS.items() if op.sample_rule is not None)


def faked(args):
    """The arguments with fakes for tensors."""

    def one(a):
        if isinstance(a, Tensor):
            return fake_tensor(a._fl_sizes, a._fl_strides, a.dtype, storage=Storage(None))
        return type(a)(one(x) for x in a) if type(a) in (tuple, list) else a

    return tuple(one(a) for a in args)


def geometry(out):
    outs = out if isinstance(out, (tuple, list)) else (out,)
    return [(tuple(t.shape), t.dtype, t.stride()) for t in outs]


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_fakes_agree_with_eager(name, make):
    op = OPS[name]
    with no_grad():
        for args in op.sample_rule(make):
            args = op.bind(tuple(args), {})
            fakes = faked(args)
            real = op(*args)
            with dispatch.setting(fake=True):
                fake = op(*fakes)
            flat = [t for t in (fake if isinstance(fake, (tuple, list)) else (fake,))]
            assert all(t._fl_array is None for t in flat), f"{name} computed on fakes"
            assert geometry(fake) == geometry(real), f"{name}{[getattr(a, 'shape', a) for a in args]}"


@pytest.mark.parametrize("name", [n for n in WITH_SAMPLES if OPS[n].kind is Kind.VIEW])
def test_views_alias_and_others_do_not(name, make):
    for args in OPS[name].sample_rule(make):
        args = OPS[name].bind(tuple(args), {})
        out, fakes = OPS[name](*args), faked(args)
        assert out.untyped_storage() is args[0].untyped_storage()
        fake = OPS[name](*fakes)
        assert fake.untyped_storage() is fakes[0].untyped_storage()
        assert (
            fake.storage_offset() - fakes[0].storage_offset() == out.storage_offset() - args[0].storage_offset()
            or not out.numel()
        )


def test_broadcasting():
    assert broadcast_shapes([(2, 1, 3), (4, 1)]) == (2, 4, 3)
    assert broadcast_shapes([(), (3,)]) == (3,)
    assert broadcast_shapes([(0,), (1,)]) == (0,)
    with pytest.raises(
        RuntimeError,
        match=r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton "
        r"dimension 1.*\[2, 3\] and \[2, 4\]",
    ):
        broadcast_shapes([(2, 3), (2, 4)], "add")


def f(*sizes, order=None, dtype=dtypes.float32):
    x = fake_tensor(sizes, None, dtype)
    return OPS["permute"](x, order) if order else x


def test_strides_of_maps_follow_the_first_operand_that_orders_dimensions():
    mul, add = OPS["mul"], OPS["add"]
    assert mul(f(2, 3, 4, order=(2, 0, 1)), 2.0).stride() == (1, 12, 4)
    t = f(4, 3, order=(1, 0))
    assert add(t, f(3, 4)).stride() == (1, 3)
    assert add(f(3, 4), t).stride() == (4, 1)
    assert add(f(3, 1), t).stride() == (1, 3)
    wide = OPS["expand"](f(2, 1, 4), (2, 3, 4))
    assert mul(wide, 2.0).stride() == (12, 4, 1)


def test_eager_strides_are_the_rule_s(make):
    add = OPS["add"]
    t, c = OPS["permute"](make(4, 3), (1, 0)), make(3, 4)
    assert add(t, c).stride() == (1, 3) and add(c, t).stride() == (4, 1)
    assert add(make(3, 1), t).stride() == (1, 3)
    assert OPS["sum"](OPS["permute"](make(2, 3, 4), (2, 0, 1)), (1,), False).stride() == (3, 1)


def drawn_layout(rng, sizes):
    """A tensor of these sizes, or of sizes that broadcast to them: permuted, expanded, cut out of a larger one."""
    own = [1 if rng.random() < 0.25 else n for n in sizes[rng.integers(0, 2) :]]
    order = rng.permutation(len(own))
    spare = rng.integers(0, 2, len(own))
    base = flambeau.zeros([own[d] + int(spare[d]) for d in order])
    x = base[tuple(slice(int(spare[d]), None) for d in order)].permute([int(d) for d in np.argsort(order)])
    return x.expand(list(sizes)) if rng.random() < 0.2 else x


@pytest.mark.parametrize("seed", range(40))
def test_the_native_rule_of_strides_is_the_one_of_fakes(seed):
    """The rule stands in meta.py for sizes that may be symbols, and in C++ for arrays."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        sizes = [int(n) for n in rng.integers(1, 4, rng.integers(1, 5))]
        operands = [drawn_layout(rng, sizes) for _ in range(rng.integers(1, 4))]
        name = ("exp", "add", "lerp")[len(operands) - 1]
        fakes = [fake_tensor(tuple(x.shape), tuple(x.stride()), x.dtype) for x in operands]
        assert OPS[name](*operands).stride() == OPS[name](*fakes).stride(), [(x.shape, x.stride()) for x in operands]


def test_zero_sizes_have_positive_strides(make):
    assert OPS["add"](make(2, 0, 3), 1.0).stride() == (3, 3, 1)


def test_fakes_refuse_to_be_read():
    from flambeau.eager.errors import DataDependent

    x = f(1)
    for read in (x.item, x.tolist, x.numpy, lambda: bool(x), lambda: float(x)):
        with pytest.raises(DataDependent):
            read()
    assert "size=(1,)" in repr(x)


def test_fakes_record_like_tensors():
    x = fake_tensor((2, 3), requires_grad=True)
    y = OPS["mul"](x, fake_tensor((3,)))
    assert y.requires_grad and y.grad_fn.name() == "MulBackward0" and not x._fl_fake is False
