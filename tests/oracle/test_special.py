"""Bessel and Airy functions and orthogonal polynomials: against PyTorch, and against numbers of 30 digits."""

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")
BESSEL = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
).split()
POLYNOMIALS = [name for name in dir(torch.special) if "polynomial" in name]
EDGES = [0.0, -0.0, -1.0, float("nan"), float("-inf"), 800.0]
RNG = np.random.default_rng(5)
POSITIVE = np.concatenate([10 ** RNG.uniform(-7, 2.7, 25), RNG.uniform(0, 40, 40), [1.5, 2.0, 20.0, 25.0, 500.0]])


def asked(library, name, *arrays):
    found = getattr(library.special, name)(*[library.tensor(a) for a in arrays])
    assert not found.requires_grad
    return found


def amplitude(name, x, values):
    """What a function's zeros are measured against."""
    if name.startswith("bessel"):
        return np.maximum(np.abs(values), np.sqrt(2 / np.pi / np.maximum(np.abs(x), 1)))
    if name == "airy_ai":
        return np.where(x < 0, np.maximum(np.abs(values), np.maximum(np.abs(x), 1) ** -0.25 / np.sqrt(np.pi)), np.abs(values))
    return np.abs(values)


@pytest.mark.parametrize("name", BESSEL)
def test_against_torch(name):
    x = np.concatenate([POSITIVE, -POSITIVE, EDGES])
    # (PyTorch's J, Y and Ai have seven digits in places)
    for kind, tolerance in (("float64", 1e-6 if name.startswith("bessel") or name == "airy_ai" else 5e-11), ("float32", 2e-4)):
        a, b = (asked(library, name, x.astype(kind)).numpy() for library in (flambeau, torch))
        assert a.dtype == b.dtype == kind
        finite = np.isfinite(b) & (np.abs(b) > 1e-30) & (np.abs(x) < 50)  # (PyTorch's sines of large numbers are rough)
        np.testing.assert_array_equal(np.isnan(a[-len(EDGES) :]), np.isnan(b[-len(EDGES) :]))
        np.testing.assert_array_equal(np.isinf(a[-len(EDGES) : -1]), np.isinf(b[-len(EDGES) : -1]))
        error = np.abs(a - b)[finite] / amplitude(name, x, b)[finite]
        assert error.max() < tolerance, (kind, x[finite][error.argmax()])


@pytest.mark.parametrize("name", BESSEL)
def test_digits(name):
    mp = pytest.importorskip("mpmath")
    exact = {"airy_ai": mp.airyai, "spherical_bessel_j0": lambda v: mp.sin(v) / v}
    for letter, function in (("j", mp.besselj), ("y", mp.bessely), ("i", mp.besseli), ("k", mp.besselk)):
        for n in (0, 1):
            exact[f"bessel_{letter}{n}"] = exact[f"modified_bessel_{letter}{n}"] = lambda v, n=n, f=function: f(n, v)
            exact[f"scaled_modified_bessel_{letter}{n}"] = lambda v, n=n, f=function: f(n, v) * mp.exp(v)
    x = np.concatenate([POSITIVE[::2], -POSITIVE[::2]]) if name in ("airy_ai", "bessel_j0", "bessel_j1") else POSITIVE
    x = x[::4] if "_k" in name else x[::2]
    with mp.workdps(30):
        wanted = np.array([float(exact[name](mp.mpf(float(v)))) for v in x])
    kept = np.abs(wanted) > 1e-290
    error = np.abs(asked(flambeau, name, x).numpy() - wanted)[kept] / amplitude(name, x, wanted)[kept]
    assert error.max() < 1e-12, x[kept][error.argmax()]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    x = np.array([-2.0, -1.0, -0.7, -0.3, 0.0, 0.2, 0.45, 0.9, 1.0, 1.6])[:, None]
    n = np.array([-2, -0.5, 0, 1, 2, 2.7, 3, 4, 5, 6, 7, 9, 12, 20])
    for kind, tolerance in (("float64", 1e-11), ("float32", 2e-3)):
        a, b = (asked(library, name, x.astype(kind), n.astype(kind)).numpy() for library in (flambeau, torch))
        assert a.dtype == b.dtype == kind and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    many = np.linspace(0.05, 0.95, 9), np.array([70.0, 101.0, 400.0])[:, None]
    a, b = (asked(library, name, *many).numpy() for library in (flambeau, torch))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * max(1.0, np.abs(b).max()))


@pytest.mark.parametrize("name", ["chebyshev_polynomial_u", "hermite_polynomial_he"])
def test_numbers_and_types(name):
    for make in (
        lambda L: (L.ones(2), 3),
        lambda L: (L.ones(2).long(), 3),
        lambda L: (0.5, L.arange(3)),
        lambda L: (0.5, L.arange(3.0).double()),
        lambda L: (L.ones(2, 1), L.arange(3)),
        lambda L: (L.ones(0), 2),
    ):
        a, b = (getattr(library.special, name)(*make(library)) for library in (flambeau, torch))
        assert str(a.dtype) == str(b.dtype) and a.tolist() == b.tolist()
    out = flambeau.empty(2)
    assert getattr(flambeau.special, name)(flambeau.ones(2), 3, out=out) is out


def test_refusals():
    for ask in (
        lambda L: L.special.bessel_j0(L.ones(2).half()),
        lambda L: L.special.airy_ai(L.ones(2).cfloat()),
        lambda L: L.special.chebyshev_polynomial_t(L.ones(2).half(), 3),
    ):
        told = []
        for library in (flambeau, torch):
            with pytest.raises(NotImplementedError) as caught:
                ask(library)
            told.append(str(caught.value))
        assert told[0] == told[1]
    for library in (flambeau, torch):
        with pytest.raises(TypeError, match="received an invalid combination"):
            library.special.hermite_polynomial_h(1.0, 3)
        with pytest.raises(TypeError, match="must be Tensor, not float"):
            library.special.bessel_j0(1.0)
    assert flambeau.special.bessel_j1(flambeau.tensor([1, 2])).dtype is flambeau.float32


def test_small_numbers_of_i1():
    x = flambeau.tensor([1e-8, 1e-4, 0.3, -1e-6], dtype=flambeau.float64)
    assert flambeau.allclose(flambeau.special.i1(x) / (x / 2), 1 + x * x / 8 + x**4 / 192, rtol=1e-6, atol=0)
    assert abs(flambeau.special.i1(x)[0] / 5e-9 - 1) < 1e-14
