"""What packages do with classes of ours: `expand` of distributions, parameters with other arguments, gradients within vmap."""

import pytest

import flambeau as fb
from flambeau import distributions as d


class Diagonal(d.Independent):
    """An `expand` of its own, which hands the object to fill to the class above."""

    def __init__(self, loc, scale):
        super().__init__(d.Normal(loc, scale), 1)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(Diagonal, _instance))


def test_expand_fills_the_instance():
    made = Diagonal(fb.zeros(3), fb.ones(3)).expand((4,))
    assert type(made) is Diagonal and made.batch_shape == (4,) and made.event_shape == (3,)
    assert made.sample().shape == (4, 3) and made.log_prob(fb.zeros(4, 3)).shape == (4,)


@pytest.mark.parametrize(
    "make",
    [
        lambda cls: cls(d.Weibull)(fb.ones(2), fb.ones(2)),
        lambda cls: cls(d.Pareto)(fb.ones(2), fb.ones(2)),
        lambda cls: cls(d.Kumaraswamy)(fb.ones(2), fb.ones(2)),
        lambda cls: cls(d.MultivariateNormal)(fb.zeros(2, 3), fb.eye(3)),
        lambda cls: cls(d.Wishart)(fb.tensor([4.0, 5.0]), fb.eye(3)),
        lambda cls: cls(d.MixtureSameFamily)(d.Categorical(fb.ones(2, 3)), d.Normal(fb.zeros(2, 3), fb.ones(2, 3))),
        lambda cls: cls(d.Independent)(d.Normal(fb.zeros(2, 3), fb.ones(2, 3)), 1),
    ],
)
def test_expand_of_subclasses(make):
    subclass = lambda base: type("Mine", (base,), {})
    one = make(subclass)
    wide = one.expand((5, 2))
    assert type(wide) is type(one) and wide.batch_shape == (5, 2) and wide._validate_args == one._validate_args
    x = one.sample()
    assert fb.allclose(wide.log_prob(x.expand(5, *x.shape)), one.log_prob(x).expand(5, 2), equal_nan=True)
    other = lambda base: type("Other", (base,), {"__init__": lambda self, *args: base.__init__(self, *args)})
    with pytest.raises(NotImplementedError, match=r"must also define a custom \.expand\(\) method"):
        make(other).expand((5, 2))


def test_parameters_of_other_arguments():
    class Placed(fb.nn.Parameter):
        def __new__(cls, data, place=None, requires_grad=True):
            made = super().__new__(cls, data, requires_grad)
            made.place = place
            return made

    made = Placed(fb.ones(2), place="here")
    assert made.place == "here" and made.requires_grad and type(made) is Placed
    with pytest.raises(TypeError):
        fb.nn.Parameter(fb.ones(2), place="here")


def test_gradients_within_vmap_go_through_a_graph_once():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = x**3
    rows = fb.func.vmap(lambda g: fb.autograd.grad(y, x, g)[0])(fb.eye(2))
    assert rows.tolist() == [[3, 0], [0, 12]]
    with pytest.raises(RuntimeError, match="a second time"):
        fb.autograd.grad(y.sum(), x)


def test_gradients_within_two_vmaps_go_through_a_graph_once():
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = x**3
    inner = fb.func.vmap(lambda g: fb.autograd.grad(y, x, g)[0])
    assert fb.func.vmap(inner)(fb.eye(2).expand(3, 2, 2)).tolist() == [[[3, 0], [0, 12]]] * 3
    with pytest.raises(RuntimeError, match="a second time"):
        fb.autograd.grad(y.sum(), x)


def test_reparametrized_modules():
    from flambeau.nn.utils.stateless import _reparametrize_module

    layer = fb.nn.Linear(2, 1, bias=False)
    before = layer.weight
    with _reparametrize_module(layer, {"weight": fb.ones(1, 2)}):
        assert layer(fb.ones(1, 2)).tolist() == [[2]]
    assert layer.weight is before
