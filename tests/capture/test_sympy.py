"""sympy beside our index algebra: conversion both ways, sympy as its judge, proofs, and that nobody imports it unasked."""

import math
import operator
import subprocess
import sys
import textwrap

import pytest
import sympy
from hypothesis import given, settings, strategies as st

import flambeau as torch
from flambeau.capture.shapes import expr as E
from flambeau.capture.shapes import proofs, solutions, sympy_bridge
from flambeau.capture.shapes.expr import maximum, minimum, var
from flambeau.capture.shapes.relations import Relation
from flambeau.capture.shapes.symbolic_shapes import ShapeEnv, SymBool
from flambeau.capture.shapes.value_ranges import Bounds, simplify

from flambeau.runtime.errors import ConstraintViolation

from .test_expr import build, trees

KINDS = {"a": "int", "b": "index", "n": "size"}
VARS = {name: var(name, kind) for name, kind in KINDS.items()}
SYMBOLS = {name: sympy_bridge.symbol(name, kind) for name, kind in KINDS.items()}
VALUES = st.fixed_dictionaries({"a": st.integers(-20, 20), "b": st.integers(0, 20), "n": st.integers(2, 30)})


def expression(tree):
    """None where the program divides by what is 0 for all sizes."""
    try:
        e = E.lift(build(tree, VARS, maximum, minimum))
        return e, sympy_bridge.to_sympy(e)
    except ZeroDivisionError:
        return None


def value(e, values):
    try:
        return e.evaluate(values)
    except ZeroDivisionError:
        return None


def put(s, values):
    return s.subs({SYMBOLS[name]: n for name, n in values.items()})


# -- conversion


@settings(max_examples=150, deadline=None)
@given(trees(), st.lists(VALUES, min_size=4, max_size=4))
def test_both_ways_mean_the_same_at_all_points(tree, points):
    made = expression(tree)
    if made is None:
        return
    e, s = made
    back = sympy_bridge.from_sympy(s, VARS.values())
    called = sympy.lambdify(list(SYMBOLS.values()), s, "math")
    for values in points:
        expected = value(e, values)
        if expected is not None:
            assert back.evaluate(values) == put(s, values) == called(*(values[name] for name in SYMBOLS)) == expected


@pytest.mark.parametrize("modules", ["math", "numpy"])
def test_divisions_among_products_are_called_as_they_are(modules):
    """-2*((-n)%3) was printed as -2*(-n) % 3."""
    N, n = VARS["n"], SYMBOLS["n"]
    for e in ((N % -3) * 2, -2 * ((-N) % 3), 5 - 3 * (-N // 4), (N % 3) * (N // 2) ** 2):
        called = sympy.lambdify(n, sympy_bridge.to_sympy(e), modules)
        assert [called(k) for k in range(1, 9)] == [value(e, {"n": k}) for k in range(1, 9)]


def test_sympys_own_divisions_come_back():
    n, b = SYMBOLS["n"], SYMBOLS["b"]
    N, B = VARS["n"], VARS["b"]
    assert sympy_bridge.from_sympy(sympy.floor((n * b + 3) / 4)) == (N * B + 3) // 4
    assert sympy_bridge.from_sympy(sympy.ceiling(n / 8) * 8) == -(-N // 8) * 8
    assert sympy_bridge.from_sympy(sympy.Mod(b, n) + n**2) == B % N + N**2
    s = sympy_bridge.to_sympy((N + 1) // 2 + B % N)
    assert str(s) == "((n + 1)//2) + (b%n)" and s.rewrite(sympy.floor).subs({n: 7, b: 12}) == 4 + 5
    for wrong in (n / 2, sympy.sqrt(n), sympy.Rational(1, 3)):
        with pytest.raises(ValueError, match="no integer expression"):
            sympy_bridge.from_sympy(wrong)


def test_symbols_are_the_same_whatever_is_learned():
    env = ShapeEnv()
    size = env.create_symbol(12, "x.size(0)")
    before = size.node.expr
    assert size > 7 and size.node.expr == before and before.is_positive and before.is_integer


# -- sympy as a judge


@settings(max_examples=100, deadline=None)
@given(trees(), trees())
def test_equal_canonical_forms_are_equal_for_sympy(left, right):
    """`(left + right) ** 2` multiplied out by us is what sympy multiplies out."""
    made = expression(left), expression(right)
    if None in made:
        return
    (e, s), (f, t) = made
    ours = sympy_bridge.to_sympy((e + f) ** 2 - e * e - f * f)
    assert sympy.expand(ours - 2 * s * t) == 0 or _same_at_many_points(ours, 2 * s * t)
    if e == f:
        assert s == t


def _same_at_many_points(s, t):
    """Inside of divisions and extremes the two may be multiplied out differently."""
    for k in range(12):
        values = {"a": 3 * k - 14, "b": 5 * k % 17, "n": 2 + 7 * k % 19}
        try:
            assert put(s, values) == put(t, values)
        except ZeroDivisionError:
            continue
    return True


POLYNOMIALS = st.recursive(
    st.one_of(st.integers(-9, 9), st.sampled_from(("a", "b", "n"))),
    lambda t: st.tuples(st.sampled_from(["+", "-", "*"]), t, t),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(POLYNOMIALS, POLYNOMIALS)
def test_polynomials_are_equal_exactly_where_sympy_says_so(left, right):
    (e, s), (f, t) = expression(left), expression(right)
    assert (e == f) == (sympy.expand(s - t) == 0)
    assert sympy_bridge.to_sympy(e) == sympy.expand(build(left, SYMBOLS, sympy.Max, sympy.Min))


@settings(max_examples=100, deadline=None)
@given(POLYNOMIALS, st.integers(0, 9), st.integers(0, 9))
def test_bounds_contain_what_sympy_finds_at_the_ends_and_between(tree, low, width):
    e = E.lift(build(tree, {**VARS, "a": VARS["n"], "b": VARS["n"]}, maximum, minimum))
    bounds = Bounds({"n": (low, low + width)})
    least, greatest = bounds.interval(e)
    found = [int(sympy_bridge.to_sympy(e).subs(SYMBOLS["n"], n)) for n in range(low, low + width + 1)]
    assert least <= min(found) and max(found) <= greatest
    exact = sympy_bridge.nonnegative(e, bounds)
    assert exact == (min(found) >= 0) and (exact or not bounds.nonnegative(e))


@settings(max_examples=100, deadline=None)
@given(trees(), VALUES)
def test_simplified_is_equal_for_sympy(tree, values):
    made = expression(tree)
    if made is None or value(made[0], values) is None:
        return
    try:
        simpler = sympy_bridge.to_sympy(simplify(made[0]))
    except ZeroDivisionError:
        return
    assert put(simpler, values) == put(made[1], values)


# -- proofs

n, m, k = var("n"), var("m"), var("k", "int")


@pytest.mark.parametrize(
    "op, e, expected",
    [
        ("==", n * (n + 1) % 2, True),
        ("==", (n**3 - n) % 6, True),
        ("==", n * n % 4 - 2, False),
        ("!=", n * n % 4 - 2, True),
        (">=", n * n - 10 * n + 30, True),
        (">=", n * n - 10 * n + 20, None),
        (">=", n * n - 5 * n + 6, True),  # its roots are 2 and 3
        (">=", k * k - k, True),
        (">=", k * k + m * m - 2 * k * m, True),
        (">=", 2 * k * m - k * k - m * m - 1, False),
        (">=", n + 7 - (n + 7) // 8 * 8, True),
        (">=", n // 4 * 4 - n, None),
        ("==", n % 8, None),
        ("==", n * m - 640, None),
        ("==", (n + 1) // 2 + n // 2 - n, True),
    ],
)
def test_proofs_beyond_bounds(op, e, expected):
    assert proofs.is_worth_proving(e) and proofs.proved(op, e, Bounds()) is expected


def test_a_fact_and_a_range_help():
    assert proofs.proved(">=", n * n - 10 * n, Bounds({"n": (10, None)})) is True
    assert proofs.proved(">=", 99 - n * n, Bounds({"n": (2, 9)})) is True
    assert proofs.proved(">=", 99 - n * n, Bounds({"n": (2, 10)})) is None
    assert proofs.proved("==", n // 4 * 4 - n, Bounds(), [("==", n % 4)]) is True
    assert proofs.proved(">=", 10 // (n % 2) - 10, Bounds(), [("!=", n % 2)]) is True
    assert proofs.proved(">=", 10 // (n % 2) - 10, Bounds()) is None


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([">=", "==", "!="]), trees(), st.lists(VALUES, min_size=10, max_size=10))
def test_what_is_proved_holds(op, tree, points):
    made = expression(tree)
    if made is None or not proofs.is_worth_proving(made[0]):
        return
    answer = proofs.proved(op, made[0], Bounds())
    compute = {">=": operator.ge, "==": operator.eq, "!=": operator.ne}[op]
    for values in points:
        got = value(made[0], values)
        assert answer is None or got is None or compute(got, 0) is answer, (made[0], values)


def test_what_is_proved_is_no_guard():
    env = ShapeEnv()
    size = env.create_symbol(12, "x.size(0)")
    before = len(env.guards)
    assert (size * (size + 1)) % 2 == 0 and size * size + 30 > 10 * size
    assert len(env.guards) == before
    assert size % 4 == 0 and len(env.guards) == before + 1
    assert size // 4 * 4 == size and (size * size) % 16 == 0 and len(env.guards) == before + 1  # which follows
    with env.sealed():  # no guard can be added: only a proof answers
        assert (size * size * size - size) % 6 == 0


def test_a_number_that_only_the_data_knows_needs_no_value_for_a_proof():
    env = ShapeEnv()
    number = env.create_unbacked()
    assert bool((number * (number + 1)) % 2 == 0)


# -- nodes


def test_nodes_are_those_of_pytorch():
    env = ShapeEnv()
    rows, x = env.create_symbol(12, "x.size(0)"), env.create_float(0.5, "x")
    s0 = rows.node.expr
    assert s0.is_Symbol and s0.name == "s0" and (rows * rows + 1).node.expr == s0**2 + 1
    assert rows.node.shape_env is env and rows.node.hint == 12 and rows.node.pytype is int and rows.node.has_hint()
    asked = rows <= 100
    assert isinstance(asked, SymBool) and asked.node.expr == sympy.Le(s0, 100) and asked.node.hint is True
    assert len(env.guards) == 1  # looking is not asking
    assert float((x * rows).node.expr.subs({"f0": 0.25, s0: 8}).subs(sympy.Symbol("f0", real=True), 0.25)) == 2.0
    assert math.isclose((rows.as_float() * 2.0).node.expr.subs(s0, 3), 6.0)


def test_a_backend_reads_sizes_as_sympy():
    found = []

    def backend(graph, inputs, **_):
        found.extend(n.value.shape[0] for n in graph.inputs)
        return graph

    torch.compile(lambda a, b: torch.cat([a, b]) * 2, backend=backend, dynamic=True)(torch.ones(5, 2), torch.ones(7, 2))
    total = found[0].node.expr + found[1].node.expr
    assert total.subs(dict(zip(sorted(total.free_symbols, key=str), (5, 7)))) == 12


# -- who pays

COLD = """
    import sys
    import flambeau as torch
    assert "sympy" not in sys.modules, "import"
    torch.compile(lambda x: x + 1)(torch.ones(3))
    f = torch.compile(lambda x: x.reshape(-1, 2) * x.shape[0] if x.shape[0] % 2 == 0 else x, dynamic=True)
    f(torch.ones(8)), f(torch.ones(7)), f(torch.ones(10))
    assert "sympy" not in sys.modules, "compile"
"""


def test_neither_import_nor_compilation_needs_sympy():
    subprocess.run([sys.executable, "-c", textwrap.dedent(COLD)], check=True, timeout=120)


def test_relations_compare_as_relations():
    assert sympy_bridge.relation("<", n, n + 1) is sympy.true
    assert Relation("==", n, m).negated().op == "!="


# -- which sizes


@pytest.mark.parametrize(
    "facts, expected",
    [
        ([], "n >= 2"),
        ([(">=", 64 - n)], "2 <= n <= 64"),
        ([("==", n % 8)], "n is a multiple of 8"),
        ([("==", n % 8), (">=", 64 - n)], "n is a multiple of 8, up to 64"),
        ([("==", n % 4), ("==", n % 6), (">=", n - 30)], "n is a multiple of 12 from 36 on"),
        ([("==", (n - 3) % 8)], "n is 8*k + 3"),
        ([("==", n // 4 - 1), ("==", n % 4)], "n is 4"),
        ([("==", n * n - 5 * n + 6)], "n is 2 or 3"),
        ([("==", n * n - n - 12)], "n is 4"),
        ([("!=", n - 5), (">=", 7 - n)], "n is 2 or 3 or 4 or 6 or 7"),
        ([("!=", n - 5)], ""),
        ([(">=", n - 9), (">=", 8 - n)], "n is no number at all"),
        ([(">=", 100 - n * n)], "2 <= n <= 10"),
        ([(">=", n // 2 * 2 - n)], "n is a multiple of 2"),
    ],
)
def test_solutions_in_words(facts, expected):
    assert solutions.solutions(n.atom, facts).text("n") == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([">=", "==", "!="]), trees()), min_size=1, max_size=2))
def test_solutions_are_what_meets_the_relations(drawn):
    facts = []
    for op, tree in drawn:
        try:
            e = E.lift(build(tree, dict.fromkeys(KINDS, n), maximum, minimum))
        except ZeroDivisionError:
            return
        facts.append((op, e))
    found = solutions.solutions(n.atom, facts)
    for x in range(2, 60) if found is not None else ():
        try:
            met = all(proofs.meets(op, e.evaluate({"n": x})) for op, e in facts)
        except ZeroDivisionError:
            met = False  # no call has this size
        k, r = divmod(x, found.period)
        assert met == any(first <= k <= last for first, last in found.intervals.get(r, ())), (facts, x)


def test_a_mark_is_refused_where_one_size_alone_meets_the_guards():
    def fn(a):
        return a * 2 if a.shape[0] // 4 == 1 and a.shape[0] % 4 == 0 else a

    a = torch.ones(4, 3)
    torch.compiler.mark_dynamic(a, 0)
    with pytest.raises(ConstraintViolation, match=r"always 4 here: the program needs .*s0//4.* and .*s0%4"):
        torch.compile(fn, backend="eager")(a)
    b = torch.ones(9, 3)
    torch.compiler.mark_dynamic(b, 0, min=2, max=8)
    with pytest.raises(ConstraintViolation, match=r"mark_dynamic\(a, 0, min=2, max=9\)"):
        torch.compile(fn, backend="eager")(b)


def test_a_report_says_which_sizes_its_code_takes():
    def fn(a):
        return a.reshape(-1, 4) + 1 if a.shape[0] % 4 == 0 and a.shape[0] <= 64 else a

    compiled = torch.compile(fn, dynamic=True)
    compiled(torch.ones(8))
    (symbol,) = torch.compiler.report(compiled).graphs[0].symbols
    assert symbol.takes == "s0 is a multiple of 4 from 8, up to 64"
