"""Distributions where their formulas bend: parameters and values at 0, at ties and at the ends, values and gradients as in PyTorch."""

import warnings

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")

LOGITS = [0.0, -0.0, 1.0, -1.0, 30.0, -30.0]
PROBS = [0.5, 0.25, 0.001, 0.75]
BINARY = [0.0, 1.0]
FAMILIES = {  # (name, fixed arguments) -> (parameter by name: its numbers), values
    ("Bernoulli",): ({"logits": LOGITS, "probs": PROBS}, BINARY),
    ("Geometric",): ({"logits": LOGITS[:-2], "probs": PROBS}, [0.0, 1.0, 3.0]),
    ("ContinuousBernoulli",): ({"logits": [0.0, 1.0, -1.0, 8.0], "probs": [0.5, 0.25, 0.4995]}, [0.0, 0.5, 1.0]),
    ("Binomial", 3): ({"logits": LOGITS, "probs": PROBS}, [0.0, 1.0, 3.0]),
    ("NegativeBinomial", 3): ({"logits": LOGITS[:-2], "probs": PROBS}, [0.0, 1.0, 3.0]),
    ("RelaxedBernoulli", 0.7): ({"logits": LOGITS[:-2], "probs": PROBS}, [0.25, 0.5]),
    ("Laplace", 0.0): ({"scale": [1.0, 0.5]}, [0.0, 1.0]),
    ("Normal", 0.0): ({"scale": [1.0, 0.5]}, [0.0, 1.0]),
    ("Cauchy", 0.0): ({"scale": [1.0, 0.5]}, [0.0, 1.0]),
    ("Gumbel", 0.0): ({"scale": [1.0, 0.5]}, [0.0, 1.0]),
    ("LogNormal", 0.0): ({"scale": [1.0, 0.5]}, [1.0, 2.0]),
    ("HalfNormal",): ({"scale": [1.0, 0.5]}, [0.0, 1.0]),
    ("HalfCauchy",): ({"scale": [1.0, 0.5]}, [0.0, 1.0]),
    ("Exponential",): ({"rate": [1.0, 2.0]}, [0.0, 1.0]),
    ("Poisson",): ({"rate": [0.5, 1.0, 4.0]}, [0.0, 1.0, 2.0]),
    ("Gamma", 1.0): ({"rate": [1.0, 2.0]}, [0.5, 1.0]),
    ("Beta", 1.0): ({"concentration0": [1.0, 2.0]}, [0.25, 0.5]),
    ("StudentT", 3.0): ({"scale": [1.0, 2.0]}, [0.0, 1.0]),
    ("Pareto", 1.0): ({"alpha": [1.0, 2.0]}, [1.0, 2.0]),
    ("Weibull", 1.0): ({"concentration": [1.0, 2.0]}, [0.5, 1.0]),
    ("VonMises", 0.0): ({"concentration": [0.5]}, [0.0, 1.0]),
}
CASES = [(*family, name) for family, (given, _) in FAMILIES.items() for name in given]


def asked(L, family, parameter, ask):
    """The answer's number, and its slopes in the parameter and, where there is one, in the value; None where there is no formula."""
    given, values = FAMILIES[family]
    found = []
    for number in given[parameter]:
        for value in values if ask in ("log_prob", "cdf") else (None,):
            p = L.tensor(number, dtype=L.float64, requires_grad=True)
            fixed = [L.tensor(x, dtype=L.float64) for x in family[1:]]
            x = None if value is None else L.tensor(value, dtype=L.float64, requires_grad=True)
            try:
                d = getattr(L.distributions, family[0])(*fixed, validate_args=False, **{parameter: p})
                out = L.distributions.kl_divergence(d, other(L, family, parameter)) if ask == "kl" else getattr(d, ask)
                out = out(x) if value is not None else out() if callable(out) else out
            except NotImplementedError:
                return None
            slopes = L.autograd.grad(out, [p] if x is None else [p, x], allow_unused=True) if out.requires_grad else []
            found.append([out.item()] + [0.0 if g is None else g.item() for g in slopes])
    return found


def other(L, family, parameter):
    """A distribution of the family to compare with."""
    number = {"logits": 0.0, "probs": 0.5}.get(parameter, 1.0)
    fixed = [L.tensor(x, dtype=L.float64) for x in family[1:]]
    return getattr(L.distributions, family[0])(*fixed, validate_args=False, **{parameter: L.tensor(number, dtype=L.float64)})


@pytest.mark.parametrize("ask", ("log_prob", "entropy", "kl", "cdf", "mean", "variance"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_values_and_slopes(case, ask):
    *family, parameter = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = asked(torch, tuple(family), parameter, ask)
        if theirs is None:
            pytest.skip("no formula in PyTorch")
        ours = asked(flambeau, tuple(family), parameter, ask)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), 1e-6, 1e-9, equal_nan=True)


POINTS = {
    "Bernoulli": [(0.3,), (0.5,)],
    "Beta": [(1.0, 2.0), (2.5, 0.5)],
    "Binomial": [(3.0, 0.3), (3.0, 0.5), (2.0, 0.25)],
    "Exponential": [(0.5,), (2.0,)],
    "Gamma": [(0.5, 2.0), (3.0, 1.0)],
    "Gumbel": [(0.0, 1.0), (1.0, 2.5)],
    "Laplace": [(0.0, 1.0), (1.0, 0.5)],
    "Normal": [(0.0, 1.0), (1.5, 0.5)],
    "Pareto": [(1.0, 0.5), (1.0, 3.0), (2.0, 2.0)],
    "Poisson": [(0.5,), (3.0,)],
    "Uniform": [(0.0, 1.0), (0.25, 0.5), (-1.0, 2.0), (2.0, 3.0)],
}
KINDS = [(a, b) for a in POINTS for b in POINTS]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_divergences_between_kinds(kinds):
    """All pairs that PyTorch has, with their slopes in the parameters of both."""

    def all_of(L):
        found = []
        for p_at in POINTS[kinds[0]]:
            for q_at in POINTS[kinds[1]]:
                given = [[L.tensor(x, dtype=L.float64, requires_grad=True) for x in at] for at in (p_at, q_at)]
                p, q = (getattr(L.distributions, kind)(*at, validate_args=False) for kind, at in zip(kinds, given))
                try:
                    out = L.distributions.kl_divergence(p, q)
                except NotImplementedError:
                    found.append(None)
                    continue
                slopes = [0.0] * (len(p_at) + len(q_at))
                if out.requires_grad and np.isfinite(out.item()):
                    grads = L.autograd.grad(out, [*given[0], *given[1]], allow_unused=True)
                    slopes = [0.0 if g is None else g.item() for g in grads]
                found.append([out.item(), *slopes])
        return found

    theirs, ours = all_of(torch), all_of(flambeau)
    for a, b in zip(ours, theirs):
        assert (a is None) <= (b is None), f"PyTorch has {b}"
        if b is not None:
            np.testing.assert_allclose(a, b, 1e-6, 1e-8, equal_nan=True)
