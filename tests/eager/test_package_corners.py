"""Small things that packages meet: arrays of other classes, modules that are transforms, lazily sized parameters, keywords."""

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.distributions import Categorical, Normal, constraints, transforms
from flambeau.utils import _pytree as pytree


def test_elements_of_a_matrix_are_multiplied_one_by_one():
    """numpy's own operators of a subclass (matrix products) are not asked."""
    m = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    x, ones = flambeau.from_numpy(m), flambeau.ones(2, 2, dtype=flambeau.float64)
    assert type(x.numpy()) is np.ndarray and x.tolist() == m.tolist()
    assert (x * ones).tolist() == m.tolist() and (x**2).tolist() == [[1, 4], [9, 16]] and x.sum(0).shape == (2,)
    x.mul_(2)
    assert m.tolist() == [[2, 4], [6, 8]]  # the same memory
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    assert flambeau.from_numpy(masked).add(1).tolist() == [2, 3]
    assert flambeau.compile(lambda a, b: a * b)(flambeau.from_numpy(np.matrix([[1.0, 2.0]])), flambeau.ones(1, 2)).tolist() == [
        [1, 2]
    ]


def test_a_transform_that_is_a_module():
    class Shift(transforms.Transform, nn.Module):
        domain = codomain = constraints.real
        bijective = True

        def __init__(self):
            super().__init__(cache_size=1)
            self.by = nn.Parameter(flambeau.ones(()))

        def _call(self, x):
            return x + self.by

        def _inverse(self, y):
            return y - self.by

        def log_abs_det_jacobian(self, x, y):
            assert self._cached_x_y[1] is y
            return flambeau.zeros_like(x)

    shift = Shift()
    assert [name for name, _ in shift.named_parameters()] == ["by"]
    d = flambeau.distributions.TransformedDistribution(Normal(0.0, 1.0), [shift])
    d.log_prob(flambeau.full((3,), 3.0)).sum().backward()
    assert shift.by.grad.item() == 6  # (the slope of -x**2 / 2 at 2, three times)


def test_expand_of_a_subclass_that_is_made_of_others():
    class Ordered(Categorical):
        arg_constraints = {"predictor": constraints.real}

        def __init__(self, predictor):
            self.predictor = predictor
            super().__init__(logits=flambeau.stack([predictor, -predictor], -1), validate_args=False)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Ordered, _instance)
            new.predictor = self.predictor.expand(batch_shape)
            return super().expand(batch_shape, new)

    d = Ordered(flambeau.tensor([0.5, -1.0]))
    assert d.expand((3, 2)).log_prob(flambeau.tensor([0, 1])).allclose(d.log_prob(flambeau.tensor([0, 1])).expand(3, 2))


def test_slopes_at_even_odds():
    def ask(z):
        return flambeau.distributions.Bernoulli(logits=z).log_prob(flambeau.tensor([0.0, 1.0]))

    for call in (ask, flambeau.compile(ask)):
        z = flambeau.zeros(2, requires_grad=True)
        call(z).sum().backward()
        assert z.grad.tolist() == [-0.5, 0.5]


def test_loading_what_has_no_size_yet():
    a, b = nn.LazyLinear(3), nn.LazyLinear(3)
    b.load_state_dict(a.state_dict())
    assert nn.parameter.is_lazy(b.weight)
    c = nn.LazyLinear(3)
    known = nn.Linear(2, 3)
    c.load_state_dict(known.state_dict())
    assert c.weight.tolist() == known.weight.tolist()
    with pytest.raises(RuntimeError, match="uninitialized"):
        known.load_state_dict(a.state_dict())


def test_keywords_and_names():
    assert flambeau.randint(high=3, size=(50,)).unique().tolist() == [0, 1, 2]
    x = flambeau.ones(2)
    assert flambeau.ones(2, dtype=flambeau.int64).type(flambeau.Tensor).dtype is x.dtype and x.type(flambeau.Tensor) is x
    assert x._cdata == x._cdata and x._cdata != flambeau.ones(2)._cdata
    leaves, spec = pytree.tree_flatten({"a": flambeau.Size((2, 3))})
    assert leaves == [2, 3] and pytree.tree_unflatten(leaves, spec)["a"] == flambeau.Size((2, 3))
    assert type(pytree.tree_unflatten(leaves, spec)["a"]) is flambeau.Size


def test_a_linear_layer_of_sparse_rows():
    x = flambeau.tensor([[0.0, 2.0], [1.0, 0.0]])
    layer = nn.Linear(2, 3)
    assert layer(x.to_sparse()).allclose(layer(x)) and layer(x.to_sparse_csr()).allclose(layer(x))
    layer(x.to_sparse()).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 2.0]] * 3
    places = flambeau.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
    assert not places.is_coalesced() and places._coalesced_(True).is_coalesced()


def test_the_angle_at_a_negative_zero():
    y = flambeau.tensor([2.0, -2.0])
    for n in (2, 40):
        up = flambeau.atan2(y.repeat(n), flambeau.full((2 * n,), -0.0))
        assert (
            up.tolist()
            == flambeau.atan2(y.repeat(n), flambeau.zeros(2 * n)).tolist()
            == [np.float32(np.pi / 2), -np.float32(np.pi / 2)] * n
        )
