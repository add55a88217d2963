"""Optimizers, schedules, distributions, scalers and einsum forms against PyTorch."""

import warnings

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
W, B, X = (RNG.standard_normal(s).astype("float32") for s in ((4, 3), (3,), (5, 4)))

OPTIMIZERS = [
    ("RMSprop", {}),
    ("RMSprop", dict(momentum=0.9)),
    ("RMSprop", dict(centered=True, weight_decay=0.1)),
    ("RMSprop", dict(centered=True, momentum=0.5, maximize=True, alpha=0.9)),
    ("Adagrad", {}),
    ("Adagrad", dict(lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)),
    ("Adadelta", {}),
    ("Adadelta", dict(rho=0.8, weight_decay=0.1, lr=0.5)),
    ("Adamax", dict(weight_decay=0.1)),
    ("NAdam", {}),
    ("NAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)),
    ("RAdam", {}),
    ("RAdam", dict(weight_decay=0.1, betas=(0.8, 0.9))),
    ("ASGD", dict(t0=3, lambd=0.01, weight_decay=0.1)),
    ("Rprop", dict(etas=(0.3, 1.5))),
    ("LBFGS", {}),
    ("LBFGS", dict(line_search_fn="strong_wolfe")),
    ("LBFGS", dict(lr=0.5, history_size=3, max_iter=5)),
]


def trained(library, name, options):
    dtype = (
        library.float64 if name == "LBFGS" else library.float32
    )  # (whose steps divide differences of gradients that are nearly 0)
    w, b = (library.tensor(a, dtype=dtype).requires_grad_() for a in (W, B))
    x, optimizer = library.tensor(X, dtype=dtype), getattr(library.optim, name)([w, b], **options)

    def closure():
        optimizer.zero_grad()
        loss = ((x @ w + b).tanh() ** 2).sum() + (w**4).sum() * 0.1
        loss.backward()
        return loss

    for _ in range(12):
        optimizer.step(closure)
    return w.detach().numpy(), b.detach().numpy(), optimizer.state_dict()


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_optimizers(name, options):
    mine, theirs = trained(flambeau, name, options), trained(torch, name, options)
    for a, b in zip(mine[:2], theirs[:2]):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert mine[2]["param_groups"] == theirs[2]["param_groups"]
    if name != "LBFGS":
        assert sorted(mine[2]["state"][0]) == sorted(theirs[2]["state"][0])


SCHEDULES = {
    "step": lambda S, o: S.StepLR(o, 3),
    "multi": lambda S, o: S.MultiStepLR(o, [3, 7, 7], 0.5),
    "constant": lambda S, o: S.ConstantLR(o, 0.5, 4),
    "linear": lambda S, o: S.LinearLR(o, 0.3, 0.9, 6),
    "polynomial": lambda S, o: S.PolynomialLR(o, 8, 2.0),
    "cosine": lambda S, o: S.CosineAnnealingLR(o, 7, 0.01),
    "lambda": lambda S, o: S.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "multiplicative": lambda S, o: S.MultiplicativeLR(o, lambda e: 0.95),
    "restarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "cyclic": lambda S, o: S.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 4, mode="triangular2"),
    "cyclic exp": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 4, 3, mode="exp_range", gamma=0.95),
    "one cycle": lambda S, o: S.OneCycleLR(o, 0.5, 30),
    "one cycle linear": lambda S, o: S.OneCycleLR(
        o, [0.5, 0.3], epochs=5, steps_per_epoch=6, three_phase=True, anneal_strategy="linear"
    ),
    "sequential": lambda S, o: S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9), S.CosineAnnealingLR(o, 5)], [4, 9]
    ),
    "chained": lambda S, o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)]),
    "plateau": lambda S, o: S.ReduceLROnPlateau(o, patience=2, cooldown=2),
    "plateau max": lambda S, o: S.ReduceLROnPlateau(o, "max", 0.5, 1, 1e-2, "abs", 0, [0.001, 0.002]),
    "swa": lambda S, o: None,
}


def rates(library, name):
    params = [library.zeros(2, requires_grad=True) for _ in range(2)]
    optimizer = library.optim.SGD([{"params": [params[0]]}, {"params": [params[1]], "lr": 0.05}], lr=0.1, momentum=0.9)
    schedule = SCHEDULES[name](library.optim.lr_scheduler, optimizer) or library.optim.swa_utils.SWALR(optimizer, 0.05, 5)
    seen = []
    for k in range(25):
        seen.append([(group["lr"], group["momentum"]) for group in optimizer.param_groups])
        optimizer.step()
        schedule.step(*((float(np.sin(k) + (k > 8) * 3),) if name.startswith("plateau") else ()))
    return np.array(seen)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(rates(flambeau, name), rates(torch, name), rtol=1e-12, atol=1e-15)


P, R, Q = np.abs(RNG.standard_normal((2, 3))) + 0.5, RNG.standard_normal((2, 3)), RNG.uniform(0.1, 0.9, (2, 3))
S, C = Q / Q.sum(-1, keepdims=True), np.stack([np.eye(3) * 2 + 0.3] * 2)
DISTRIBUTIONS = {
    "Normal": (R, P),
    "Uniform": (R, R + P),
    "Bernoulli": (Q,),
    "Categorical": (S,),
    "OneHotCategorical": (S,),
    "Gamma": (P, P + 1),
    "Chi2": (P,),
    "Dirichlet": (P,),
    "Beta": (P, P + 1),
    "Exponential": (P,),
    "Laplace": (R, P),
    "Cauchy": (R, P),
    "HalfNormal": (P,),
    "HalfCauchy": (P,),
    "StudentT": (P + 4, R, P),
    "VonMises": (R, P),
    "FisherSnedecor": (P * 3, P * 9),
    "LogNormal": (R, P),
    "Gumbel": (R, P),
    "Weibull": (P, P + 1),
    "Poisson": (P,),
    "Pareto": (P, P + 3),
    "Geometric": (Q,),
    "Binomial": (5, Q),
    "NegativeBinomial": (P * 3, Q),
    "Multinomial": (4, S),
    "MultivariateNormal": (R, C),
    "RelaxedBernoulli": (np.array(0.7), Q),
    "RelaxedOneHotCategorical": (np.array(0.7), S),
}


def made(library, name, factor=1.0):
    args = [library.tensor(a) if isinstance(a, np.ndarray) else a for a in DISTRIBUTIONS[name]]
    return getattr(library.distributions, name)(*args[:-1], args[-1] * factor if factor != 1.0 else args[-1])


def answer(fn):
    """As an array; None where PyTorch has no formula."""
    try:
        found = fn()
    except NotImplementedError:
        return None
    return found.numpy() if hasattr(found, "numpy") else np.asarray(found)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name):
    mine, theirs = made(flambeau, name), made(torch, name)
    torch.manual_seed(0)
    values = theirs.sample((5,))
    asked = {
        "log_prob": lambda d, L: d.log_prob(L.tensor(values.numpy())),
        "cdf": lambda d, L: d.cdf(L.tensor(values.numpy())),
        "entropy": lambda d, L: d.entropy(),
        "batch": lambda d, L: d.batch_shape,
        "event": lambda d, L: d.event_shape,
        "sample": lambda d, L: d.sample((2,)).shape,
        "expand": lambda d, L: (
            d.expand(
                (4, 2)
                if name
                in (
                    "Categorical",
                    "OneHotCategorical",
                    "Dirichlet",
                    "Multinomial",
                    "MultivariateNormal",
                    "RelaxedOneHotCategorical",
                )
                else (4, 2, 3)
            )
            .sample()
            .shape
        ),
    }
    asked.update((each, lambda d, L, each=each: getattr(d, each)) for each in ("mean", "variance", "mode", "stddev"))
    for what, ask in asked.items():
        expected = answer(lambda: ask(theirs, torch))
        if expected is not None:
            np.testing.assert_allclose(answer(lambda: ask(mine, flambeau)), expected, rtol=1e-5, atol=1e-6, err_msg=what)
    assert mine.has_rsample == theirs.has_rsample and repr(mine) == repr(theirs)


@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "Bernoulli",
        "Gamma",
        "Beta",
        "Exponential",
        "Laplace",
        "Cauchy",
        "HalfNormal",
        "LogNormal",
        "Gumbel",
        "Poisson",
        "Uniform",
        "MultivariateNormal",
        "Dirichlet",
    ],
)
def test_divergences(name):
    mine, theirs = (
        library.distributions.kl_divergence(made(library, name), made(library, name, 1.05)) for library in (flambeau, torch)
    )
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-7)


EINSUM = [
    "ij,jk->ik",
    "b h i d, b h j d -> b h i j",
    "...ij,...jk->...ik",
    "ii->i",
    "ii",
    "i,j->ij",
    "bij,bkj,bk->bi",
    "nchw,cd->ndhw",
    "abc->",
    "ij->ji",
    "bhqd,bhkd->bhqk",
    "a b, b c, c d -> a d",
    "ij,ij->i",
    "Bn,Bm->Bnm",
    "ij,jk",
    "...d,d->...",
    "bnij,bnjk->bnik",
    "i...,i...->...",
]


@pytest.mark.parametrize("equation", EINSUM)
def test_einsum(equation):
    sizes = {c: 2 + k % 3 for k, c in enumerate(sorted(set(equation) - set(" ,->.")))}
    arrays = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        shape = [n for c in term.replace("...", "*") for n in ((2, 3) if c == "*" else (sizes[c],))]
        arrays.append(RNG.standard_normal(shape))
    mine, theirs = (library.einsum(equation, *map(library.tensor, arrays)) for library in (flambeau, torch))
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-10)


def test_grad_scaler():
    seen = {}
    for library in (flambeau, torch):
        p = library.ones(2, requires_grad=True)
        optimizer = library.optim.SGD([p], lr=0.1)
        scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        rows = []
        for k in range(6):
            optimizer.zero_grad()
            scaler.scale((p * p).sum() * (float("inf") if k == 3 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            rows.append((scaler.get_scale(), *p.tolist()))
        seen[library] = rows, scaler.state_dict()
    assert seen[flambeau] == seen[torch]


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", dict(momentum=0.9, weight_decay=0.1, nesterov=True)),
        ("Adam", dict(amsgrad=True)),
        ("AdamW", dict(weight_decay=0.1)),
        ("RMSprop", dict(centered=True)),
        ("Adagrad", {}),
        ("Adadelta", {}),
        ("NAdam", {}),
        ("RAdam", {}),
        ("Adamax", {}),
    ],
)
def test_gradients_through_a_step(name, options):
    found = []
    for library in (flambeau, torch):
        start, h = (
            library.tensor(v, dtype=library.float64, requires_grad=True)  # in float32 a difference of near ones: noise
            for v in ([1.0, -2.0, 3.0], [0.5, 0.3, -0.2])
        )
        p = start.clone()
        p.grad = h * 1
        optimizer = getattr(library.optim, name)([p], lr=0.1, differentiable=True, **options)
        optimizer.step()
        (p**2).sum().backward()
        found.append(np.concatenate([start.grad.numpy(), h.grad.numpy()]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-11)
