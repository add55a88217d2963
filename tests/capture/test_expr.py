"""Index algebra: the canonical form agrees with evaluation, simplification with bounds is sound, text means the same."""

import pickle

import pytest
from hypothesis import given, settings, strategies as st

from flambeau.capture.shapes import expr as E
from flambeau.capture.shapes.value_ranges import Bounds, simplify
from flambeau.capture.shapes.expr import const, maximum, minimum, var

NAMES = ("a", "b", "n")


def trees(depth=3):
    leaf = st.one_of(st.integers(-9, 9), st.sampled_from(NAMES))
    return st.recursive(leaf, lambda t: st.tuples(st.sampled_from(["+", "-", "*", "//", "%", "max", "min"]), t, t), max_leaves=7)


def build(tree, table, high, low):
    """Run a tree with Python operators over whatever `table` holds."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return table[tree]
    op, a, b = tree[0], build(tree[1], table, high, low), build(tree[2], table, high, low)
    if op in ("max", "min"):
        return (high if op == "max" else low)(a, b)
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b}[op]()


VARS = {n: var(n, "int") for n in NAMES}
VALUES = st.fixed_dictionaries({n: st.integers(-20, 20) for n in NAMES})


def both(tree, values):
    """(expression, int) or None where the program divides by zero."""
    try:
        return E.lift(build(tree, VARS, maximum, minimum)), build(tree, values, max, min)
    except ZeroDivisionError:
        return None


@settings(max_examples=400, deadline=None)
@given(trees(), VALUES)
def test_canonical_form_agrees_with_evaluation(tree, values):
    pair = both(tree, values)
    if pair is None:
        return
    e, expected = pair
    try:
        assert e.evaluate(values) == expected
    except ZeroDivisionError:
        assert False, f"{e} divides by zero where {tree} does not"
    assert eval(str(e), {"max": max, "min": min}, values) == expected
    assert E.from_tuple(e.to_tuple()) == e
    assert pickle.loads(pickle.dumps(e)) == e


@settings(max_examples=300, deadline=None)
@given(trees(), st.fixed_dictionaries({"a": st.integers(0, 7), "b": st.integers(0, 3), "n": st.integers(2, 30)}))
def test_simplify_is_sound(tree, values):
    try:
        table = {"a": var("a", "index"), "b": var("b", "index"), "n": var("n")}
        e = E.lift(build(tree, table, maximum, minimum))
        expected = e.evaluate(values)
    except ZeroDivisionError:
        return
    bounds = Bounds({"a": (0, 7), "b": (0, 3)})
    assert E.evaluate(simplify(e, bounds), values) == expected
    low, high = bounds.interval(e)
    assert low <= expected <= high
    assert not bounds.nonnegative(e) or expected >= 0


@settings(max_examples=200, deadline=None)
@given(trees(), trees(), VALUES)
def test_substitution_commutes_with_evaluation(tree, inner, values):
    outer, replaced = both(tree, values), both(inner, values)
    if outer is None or replaced is None:
        return
    shifted = {**values, "a": replaced[1]}
    try:
        expected = outer[0].evaluate(shifted)
        got = outer[0].substitute({"a": replaced[0]}).evaluate(values)
    except ZeroDivisionError:
        return
    assert got == expected


def test_equal_polynomials_are_one_object():
    b = var("B")
    assert (b + 1) ** 2 == b**2 + 2 * b + 1 and (b + 1) ** 2 is b**2 + 2 * b + 1
    assert b - b == 0 and hash(b - b) == hash(0) and {0: "x"}[b - b] == "x"
    assert const(3) == 3 and int(const(3) + 1) == 4
    assert (b == 1) is False


@pytest.mark.parametrize(
    "text, expected",
    [
        ("(4*i + j)//4", "i"),
        ("(4*i + j)%4", "j"),
        ("(8*i + j)//16", "(i//2)"),
        ("(8*i + 2*j)//2", "4*i + j"),
        ("(i*n + k)//n", "i"),
        ("(i*n + k)%n", "k"),
        ("(i*n*m + k)//(n*m)", "i"),
        ("(k + n*i)//(n*m)", "(i//m)"),
        ("(i*n + k)%(n*m)", "n*(i%m) + k"),
        ("n*(p//n) + p%n", "p"),
        ("4*((i + 3*j)//4) + (i + 3*j)%4", "i + 3*j"),
        ("4*((p//4)%3) + p%4", "(p%12)"),
        ("m*(24*(p//12) + 8*((p//4)%3)) + 2*m*(p%4) + i", "2*m*p + i"),
        ("((p//4)//2)", "(p//8)"),
        ("((p%8)%4)", "(p%4)"),
        ("max(n, 1)", "n"),
        ("min(j, 9)", "j"),
        ("(j - 4)//4", "-1"),
        ("(j - 4)%4", "j"),
        ("(6*p + 4)//2", "3*p + 2"),
        ("(n*n + n)//(n + 1)", "n"),
        ("7//2", "3"),
        ("(0 - 7)//2", "-4"),
        ("(0 - 7)%4", "1"),
    ],
)
def test_simplified_text(text, expected):
    names = {
        "i": var("i", "index"),
        "j": var("j", "index"),
        "k": var("k", "index"),
        "n": var("n"),
        "m": var("m"),
        "p": var("p", "int"),
    }
    bounds = Bounds({"i": (0, 99), "j": (0, 3), "k": (0, var("n") - 1)})
    e = eval(text, {"max": maximum, "min": minimum}, names)
    assert str(simplify(e, bounds)) == expected


def test_proofs_over_symbols():
    n, m, i, k = var("n"), var("m"), var("i", "index"), var("k", "index")
    bounds = Bounds({"i": (0, n - 1), "k": (0, m - 1)})
    assert bounds.nonnegative(n * m - 1 - i * m - k)  # a row-major index stays inside
    assert not bounds.nonnegative(n * m - 2 - i * m - k)
    assert bounds.less(i // 2, n) and bounds.less(k % 5, 5) and bounds.nonnegative(n * m - n)
    assert not bounds.nonnegative(n - m)
    assert not Bounds().nonnegative(var("u", "unbacked") - 1) and Bounds().nonnegative(var("u", "unbacked"))


def test_coefficients_and_affine_form():
    i, j, n = var("i", "index"), var("j", "index"), var("n")
    e = i * n + 3 * j + n - 2
    assert e.coeff(i) == n and e.coeff("j") == 3
    coeffs, rest = e.affine([i, j])
    assert coeffs == {i: n, j: 3} and rest == n - 2
    assert (i * j).affine([i, j]) is None and (i // n).affine([i]) is None
    assert {v.name for v in e.free_vars()} == {"i", "j", "n"}


def test_c_text():
    i, n = var("i", "index"), var("n")
    assert (i // 3).cpp() == "fb_floordiv(i, 3)"
    assert ((i + 1) % n).cpp(Bounds()) == "((i + 1) % (n))"
    assert maximum(i, n, 4).cpp().count("fb_max") == 2
    assert (const(2) ** 40 * n).cpp() == "1099511627776LL*n"


def test_errors():
    with pytest.raises(ZeroDivisionError):
        var("n") // 0
    with pytest.raises(ValueError, match="not a constant"):
        var("n").value
    with pytest.raises(KeyError, match="no value for n"):
        var("n").evaluate({})
    with pytest.raises(TypeError, match="truth"):
        bool(var("n"))


def test_arrays_evaluate():
    import numpy as np

    i = var("i", "index")
    points = np.arange(12)
    assert (maximum(i // 4, 1) * 3 + i % 4).evaluate({"i": points}).tolist() == [max(p // 4, 1) * 3 + p % 4 for p in range(12)]
