"""The less common distributions, divergences between kinds, and transforms found for constraints, against PyTorch."""

import warnings

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(3)
R, P, Q = RNG.standard_normal((2, 3)), RNG.uniform(0.6, 2.0, (2, 3)), RNG.uniform(0.1, 0.9, (2, 3))
Q[0, 0] = 0.5003
C = np.array([0.3, -0.4, 0.2], "float32")
W, D = RNG.standard_normal((2, 3, 2)), RNG.uniform(0.5, 2.0, (2, 3))
V = (lambda x: x @ np.swapaxes(x, -1, -2) + np.eye(3))(RNG.standard_normal((2, 3, 3)))

DISTRIBUTIONS = {
    "ContinuousBernoulli": (Q,),
    "GeneralizedPareto": (R, P, C.astype("float64")),
    "InverseGamma": (P + 2, P),
    "LogisticNormal": (R, P),
    "LowRankMultivariateNormal": (R, W, D),
    "Wishart": (np.array([4.5, 6.0]), V),
    "LKJCholesky": (3, P[0]),
}


def made(library, name, given=None, **kw):
    args = [library.tensor(a, requires_grad=True) if isinstance(a, np.ndarray) else a for a in given or DISTRIBUTIONS[name]]
    return getattr(library.distributions, name)(*args, **kw), [a for a in args if not isinstance(a, int)]


def answer(library, name, ask):
    """Values and gradients with respect to the parameters; None where there is no formula."""
    d, params = made(library, name)
    try:
        found = ask(d, library)
    except (NotImplementedError, AttributeError):
        return None
    if not hasattr(found, "detach"):
        return [np.asarray(found)]
    finite = library.where(library.isfinite(found), found, library.zeros_like(found))
    grads = library.autograd.grad(finite.sum(), params, allow_unused=True) if found.requires_grad else []
    return [found.detach().numpy()] + [np.zeros(tuple(p.shape)) if g is None else g.numpy() for g, p in zip(grads, params)]


@pytest.fixture
def doubles():
    """PyTorch's GeneralizedPareto compares its parameters with numbers of the default type."""
    for library in (flambeau, torch):
        library.set_default_dtype(library.float64)
    yield
    for library in (flambeau, torch):
        library.set_default_dtype(library.float32)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_formulas(name, doubles):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = made(torch, name)[0].sample((4,)).numpy()
    middle = RNG.uniform(0.1, 0.9, (4, 2, 3)).astype(values.dtype)
    asked = {
        "log_prob": lambda d, L: d.log_prob(L.tensor(values)),
        "cdf": lambda d, L: d.cdf(L.tensor(values)).detach(),
        "icdf": lambda d, L: d.icdf(L.tensor(middle)),
        "entropy": lambda d, L: d.entropy(),
        "batch": lambda d, L: d.batch_shape,
        "event": lambda d, L: d.event_shape,
        "sample": lambda d, L: d.sample((2,)).shape,
        "mean": lambda d, L: d.mean,
        "expand": lambda d, L: d.expand((4, *d.batch_shape)).sample().shape,
        "expanded": lambda d, L: d.expand((4, *d.batch_shape)).log_prob(L.tensor(values)),
        "variance": lambda d, L: d.variance,
        "mode": lambda d, L: d.mode,
        "stddev": lambda d, L: d.stddev,
        "covariance": lambda d, L: d.covariance_matrix,
        "precision": lambda d, L: d.precision_matrix,
        "factor": lambda d, L: d.scale_tril,
    }
    for what, ask in asked.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = answer(torch, name, ask)
        if expected is not None:
            for a, b in zip(answer(flambeau, name, ask), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7, err_msg=what)
    mine, theirs = made(flambeau, name)[0], made(torch, name)[0]
    assert mine.has_rsample == theirs.has_rsample and repr(mine) == repr(theirs)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_have_the_moments(name):
    flambeau.manual_seed(1)
    d, _ = made(flambeau, name)
    count = 4000
    drawn = d.sample((count,))
    assert bool(d.support.check(drawn).all()) or name == "LKJCholesky"
    if name == "LKJCholesky":
        matrix = drawn @ drawn.mT
        assert flambeau.allclose(matrix.diagonal(dim1=-2, dim2=-1), flambeau.ones(count, 3, 3, dtype=matrix.dtype))
        c = d.concentration.detach()  # each entry is 2 Beta(c + 1/2, c + 1/2) - 1
        assert matrix.mean(0).sub(flambeau.eye(3)).abs().max() < 0.06
        assert (matrix[..., 2, 0].var(0) - 1 / (2 * c + 2)).abs().max() < 0.03
    elif name == "LogisticNormal":
        normal = d.transforms[0].inv(drawn)
        assert (normal.mean(0) - d.loc).abs().max() < 0.12 and (normal.std(0) - d.scale).abs().max() < 0.1
    else:
        fitting = d.variance < 1e6
        error = ((drawn.mean(0) - d.mean) / (d.variance / count).sqrt())[fitting]
        assert error.abs().max() < 5
    if d.has_rsample:
        assert d.rsample((2,)).requires_grad and d.rsample((2,)).shape == (2, *d.batch_shape, *d.event_shape)


def test_generalized_pareto_without_a_shape_is_exponential():
    c = flambeau.tensor([0.0, 1e-4], dtype=flambeau.float64, requires_grad=True)
    d, x = (
        flambeau.distributions.GeneralizedPareto(flambeau.tensor(1.0).double(), flambeau.tensor(2.0).double(), c),
        flambeau.tensor(4.0).double(),
    )
    assert abs(d.log_prob(x)[0] - flambeau.distributions.Exponential(flambeau.tensor(0.5).double()).log_prob(x - 1)) < 1e-12
    for value in (d.log_prob(x), d.icdf(flambeau.tensor(0.7).double())):
        at_zero, near = flambeau.autograd.grad(value.sum(), c)[0].tolist()
        assert abs(at_zero - near) < 1e-3 and abs(near) > 0.1


def test_a_generalized_pareto_of_floats(doubles):
    """Values are PyTorch's; gradients, in which terms of about 10 cancel, are those of doubles within a few of their roundings."""
    torch.manual_seed(0)
    values = made(torch, "GeneralizedPareto")[0].sample((400,)).numpy()

    def answers(library, kind):
        library.set_default_dtype(getattr(library, kind))
        d, parameters = made(library, "GeneralizedPareto", [x.astype(kind) for x in (R, P, C)], validate_args=False)
        told = d.log_prob(library.tensor(values.astype(kind)))
        return [told.detach().numpy(), *(g.numpy() for g in library.autograd.grad(told.mean(), parameters))]

    mine, exact = answers(flambeau, "float32"), answers(torch, "float64")
    np.testing.assert_allclose(mine[0], answers(torch, "float32")[0], rtol=2e-6, atol=1e-6)
    for found, right in zip(mine[1:], exact[1:], strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-6)


def test_a_generalized_pareto_of_concentration_minus_one_is_uniform_up_to_its_end():
    told = [
        L.distributions.GeneralizedPareto(*map(L.tensor, (0.5, 2.0, -1.0))).log_prob(L.tensor([0.75, 2.0, 2.5])).tolist()
        for L in (flambeau, torch)
    ]
    assert told[0] == told[1] == [-float(np.float32(np.log(2.0)))] * 3


PAIRS = [
    ("ContinuousBernoulli", (Q,), "ContinuousBernoulli", (1 - Q,)),
    ("Beta", (P, D), "ContinuousBernoulli", (Q,)),
    ("ContinuousBernoulli", (Q,), "Pareto", (P, D)),
    ("ContinuousBernoulli", (Q,), "Exponential", (P,)),
    ("ContinuousBernoulli", (Q,), "Normal", (R, P)),
    ("ContinuousBernoulli", (Q,), "Uniform", (-P, P + 0.2)),
    ("Uniform", (Q / 2, Q), "ContinuousBernoulli", (Q,)),
    ("Uniform", (R, R + 1), "ContinuousBernoulli", (Q,)),
    *(
        (name, args, "ContinuousBernoulli", (Q,))
        for name, args in (
            ("Exponential", (P,)),
            ("Gamma", (P, D)),
            ("Gumbel", (R, P)),
            ("Laplace", (R, P)),
            ("Normal", (R, P)),
            ("Pareto", (P, D)),
        )
    ),
    ("LowRankMultivariateNormal", (R, W, D), "LowRankMultivariateNormal", (R * 2, W + 1, D * 2)),
    ("LowRankMultivariateNormal", (R, W, D), "MultivariateNormal", (R * 2, V)),
    ("MultivariateNormal", (R, V), "LowRankMultivariateNormal", (R * 2, W, D)),
    ("MultivariateNormal", (R, V), "MultivariateNormal", (R * 2, V + np.eye(3))),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[2]}")
def test_divergences(pair):
    a, b = (
        library.distributions.kl_divergence(made(library, pair[0], pair[1])[0], made(library, pair[2], pair[3])[0])
        .detach()
        .numpy()
        for library in (flambeau, torch)
    )
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


CONSTRAINTS = {
    "real": (lambda c: c.real, (3,)),
    "positive": (lambda c: c.positive, (3,)),
    "nonnegative": (lambda c: c.nonnegative, (3,)),
    "greater": (lambda c: c.greater_than(2.0), (3,)),
    "at least": (lambda c: c.greater_than_eq(-1.0), (3,)),
    "less": (lambda c: c.less_than(3.0), (3,)),
    "unit": (lambda c: c.unit_interval, (3,)),
    "interval": (lambda c: c.interval(1.0, 3.0), (3,)),
    "half open": (lambda c: c.half_open_interval(1.0, 3.0), (3,)),
    "simplex": (lambda c: c.simplex, (3,)),
    "corr": (lambda c: c.corr_cholesky, (3,)),
    "vector": (lambda c: c.real_vector, (3,)),
    "lower": (lambda c: c.lower_cholesky, (3, 3)),
    "definite": (lambda c: c.positive_definite, (3, 3)),
    "semidefinite": (lambda c: c.positive_semidefinite, (3, 3)),
    "events": (lambda c: c.independent(c.positive, 1), (3,)),
    "cat": (lambda c: c.cat([c.positive, c.real], -1, [1, 2]), (3,)),
    "stack": (lambda c: c.stack([c.positive, c.unit_interval], -1), (2,)),
    "triangular": (lambda c: c.lower_triangular, (3, 3)),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_of_constraints(registry, name):
    make, shape = CONSTRAINTS[name]
    array, found = RNG.standard_normal((2, *shape)), []
    for library in (flambeau, torch):
        constraint = make(library.distributions.constraints)
        try:
            transform = getattr(library.distributions, registry)(constraint)
        except NotImplementedError as error:
            found.append(str(error))
            continue
        x = library.tensor(array)
        y = transform(x)
        assert bool(constraint.check(y).all()) and type(transform).__name__ in repr(type(transform))
        parts = [y.numpy(), transform.inv(y).numpy()]
        if registry == "biject_to":
            parts.append(transform.log_abs_det_jacobian(x, y).numpy())
        found.append((type(transform).__name__, parts))
    if isinstance(found[1], str):
        assert found[0] == found[1]
        return
    assert found[0][0] == found[1][0]
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_registries_take_more():
    c = flambeau.distributions.constraints
    registry = flambeau.distributions.constraint_registry.ConstraintRegistry()

    @registry.register(c.simplex)
    def _(constraint):
        return "found"

    assert registry(c.simplex) == "found" and "register" in dir(registry)
    with pytest.raises(TypeError, match="either a Constraint subclass or instance"):
        registry.register(3, 4)
    with pytest.raises(NotImplementedError, match="Cannot transform _Real constraints"):
        registry(c.real)


BAD = [
    lambda d, t: d.LKJCholesky(1),
    lambda d, t: d.Wishart(t(1.0), t(np.eye(3))),
    lambda d, t: d.Wishart(t(5.0)),
    lambda d, t: d.Wishart(t(5.0), t(np.ones(3))),
    lambda d, t: d.LowRankMultivariateNormal(t(0.0), t(W[0]), t(D[0])),
    lambda d, t: d.LowRankMultivariateNormal(t(R[0]), t(D[0]), t(D[0])),
    lambda d, t: d.LowRankMultivariateNormal(t(R[0]), t(np.ones((4, 2))), t(D[0])),
    lambda d, t: d.LowRankMultivariateNormal(t(R[0]), t(W[0]), t(np.ones(4))),
    lambda d, t: d.ContinuousBernoulli(),
    lambda d, t: d.GeneralizedPareto(t(0.0), t(1.0), t(0.2)).log_prob(t(-1.0)),
    lambda d, t: d.InverseGamma(t(-1.0), t(1.0)),
]


@pytest.fixture
def validated():
    """Parameters and values are checked, whatever other tests of this process have set."""
    before = [L.distributions.Distribution._validate_args for L in (torch, flambeau)]
    for L in (torch, flambeau):
        L.distributions.Distribution.set_default_validate_args(True)
    yield
    for L, value in zip((torch, flambeau), before):
        L.distributions.Distribution.set_default_validate_args(value)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors(number, validated):
    told = []
    for library in (flambeau, torch):
        with pytest.raises(Exception) as caught:
            BAD[number](library.distributions, library.tensor)
        told.append((caught.type, str(caught.value).splitlines()[0]))
    assert told[0] == told[1]
