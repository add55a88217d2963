"""Symbolic sizes: answers agree with the hints, guards are recorded once and hold exactly where the answer does."""

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from flambeau.capture.shapes import symbolic_shapes
from flambeau.capture.shapes.expr import const
from flambeau.capture.shapes.relations import Relation, compile_guard, run_guard
from flambeau.capture.shapes.symbolic_shapes import ShapeEnv, SymBool, SymFloat, SymInt
from flambeau.runtime.errors import Unsupported


def make(*hints):
    env = ShapeEnv()
    return env, [env.create_symbol(h, f"x.size({k})", duck=False) for k, h in enumerate(hints)]


def recorded(env):
    return [str(g.relation) for g in env.guards if not g.reason.endswith("of their own")]


def test_zero_and_one_stay_ints_and_others_get_a_lower_bound():
    env, (a, b, c) = make(0, 1, 5)
    assert (a, b) == (0, 1) and type(a) is int and isinstance(c, SymInt)
    assert [str(g.relation) for g in env.guards] == ["2 <= s0"]


def test_duck_sharing_binds_both_sources():
    env = ShapeEnv()
    a, b = env.create_symbol(4, "x.size(0)"), env.create_symbol(4, "y.size(0)")
    assert (a == b) is True and env.symbols["s0"].sources == ["x.size(0)", "y.size(0)"]


def test_arithmetic_collapses_to_ints():
    env, (n, m) = make(6, 4)
    assert type(n - n) is int and n - n == 0
    assert (n * m // m + 2 - n) == 2 and type(n * m // m + 2 - n) is int
    assert ((n + 1) ** 2 == n * n + 2 * n + 1) is True and not recorded(env)
    assert repr(7 - n) == "-s0 + 7" and (7 - n).hint == 1 and (20 // n).hint == 3 and (20 % n).hint == 2


def test_questions_become_guards_once():
    env, (n, m) = make(6, 4)
    assert bool(n > m) and not bool(n <= m) and bool(n != m)
    assert recorded(env) == ["s1 < s0"]  # the other two follow from it
    assert bool(n >= 2) and bool(n * m > 3) and len(recorded(env)) == 1


def test_ranges_follow_from_guards():
    env, (n,) = make(6)
    assert n < 100 and n < 200 and n >= 1 and not n > 150
    assert recorded(env) == ["s0 < 100"]


def test_equality_replaces_a_symbol():
    env, (n, m) = make(6, 6)
    assert n == m and recorded(env) == ["s0 == s1"]
    assert repr(m) == "s0" and type(n - m) is int
    assert int(n) == 6 and repr(m + 1) == "7"


def test_specialisation_by_int_hash_and_index():
    for ask in (int, hash, lambda s: [0] * 10 and range(10)[s], float):
        env, (n,) = make(6)
        assert ask(n) == ask(6) and recorded(env) == ["s0 == 6"] and n == 6


def test_unbacked_is_never_assumed():
    env = ShapeEnv()
    u = env.create_unbacked("x.nonzero()")
    assert bool(u >= 0) and u.hint is None and not recorded(env)
    with pytest.raises(Unsupported, match="u0"):
        bool(u == 1)
    with pytest.raises(Unsupported, match="only the data knows"):
        int(u)
    env.learn((u >= 2).relation)
    assert bool(u != 1) and bool(u * 2 >= 4)


def test_unbacked_is_replaced_by_what_it_equals():
    env, (n,) = make(6)
    u = env.create_unbacked()
    env.learn(symbolic_shapes.Relation("==", u.expr, n.expr))
    assert repr(u + 1) == "s0 + 1"


def test_floats_stay_symbolic_until_asked():
    env, (n,) = make(8)
    scale = n**-0.5
    assert isinstance(scale, SymFloat) and abs(scale.hint - 8**-0.5) < 1e-12 and not recorded(env)
    assert abs(scale.evaluate({"s0": 16}) - 0.25) < 1e-12
    lr = env.create_float(0.1, "lr")
    step = lr * 0.5 + n / 2
    assert abs(step.evaluate({"f0": 1.0, "s0": 10}) - 5.5) < 1e-12 and eval(repr(step), {"f0": 1.0, "s0": 10}) == 5.5
    assert lr < 0.5 and not 2 * lr > 1.0 and not env.specialised_floats
    assert [str(each) for each in env.float_guards] == ["f0 < 0.5", "not (2 * f0) > 1.0"]
    assert [each(0.3) for each in env.float_guards] == [True, True] and [each(0.9) for each in env.float_guards] == [False] * 2
    with env.sealed():
        assert lr < 0.5
        for late in (lambda: lr < 0.7, lambda: float(lr)):
            with pytest.raises(Unsupported, match="after the guards"):
                late()
    assert float(lr) == 0.1 and env.specialised_floats == {"f0": 0.1}
    assert float(n / 2) == 4.0 and recorded(env) == ["s0 == 8"]


def test_guard_keeps_the_users_stack():
    env = ShapeEnv(where=lambda: (("model.py", 3, "if n > 4:", "forward"),))
    n = env.create_symbol(6, "x.size(0)")
    assert n > 4 and env.guards[-1].stack[0][1] == 3


def test_max_min():
    env, (n, m) = make(6, 4)
    assert n.sym_max(m).hint == 6 and n.sym_min(3).hint == 3 and repr(n.sym_max(1)) == "max(s0, 1)"


OPS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
TREES = st.recursive(
    st.one_of(st.integers(-6, 6), st.sampled_from(["n", "m"])),
    lambda t: st.tuples(st.sampled_from(list(OPS)), t, t),
    max_leaves=5,
)
RELATIONS = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b}


def run(tree, values):
    return (
        tree
        if isinstance(tree, int)
        else values[tree]
        if isinstance(tree, str)
        else OPS[tree[0]](run(tree[1], values), run(tree[2], values))
    )


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(list(RELATIONS)), TREES, TREES), min_size=1, max_size=4),
    st.integers(2, 9),
    st.integers(2, 9),
)
def test_where_the_guards_hold_the_answers_hold(questions, n, m):
    """The soundness of the whole file: any sizes that pass the guards get the same answers as the hints got."""
    env, (sn, sm) = make(n, m)
    try:
        answers = [bool(RELATIONS[op](run(a, {"n": sn, "m": sm}), run(b, {"n": sn, "m": sm}))) for op, a, b in questions]
        expected = [RELATIONS[op](run(a, {"n": n, "m": m}), run(b, {"n": n, "m": m})) for op, a, b in questions]
    except (ZeroDivisionError, ValueError):
        return
    assert answers == expected
    codes = [(compile_guard(g.relation, ["s0", "s1"]), g) for g in env.guards]
    for p, q in itertools.product(range(0, 11), repeat=2):
        try:
            passed = [run_guard(code, (p, q)) for code, _ in codes]
        except ZeroDivisionError:
            continue
        assert passed == [g.relation.evaluate({"s0": p, "s1": q}) for _, g in codes]
        if all(passed):
            assert [RELATIONS[op](run(a, {"n": p, "m": q}), run(b, {"n": p, "m": q})) for op, a, b in questions] == expected


def test_unknown_symbol_in_a_guard_is_an_error():
    env, (n,) = make(6)
    with pytest.raises(KeyError, match="s0"):
        compile_guard(env.guards[0].relation, ["s9"])


def test_symbool_asks_only_when_asked():
    env, (n,) = make(6)
    question = n > 4
    assert isinstance(question, SymBool) and not recorded(env)
    assert not bool(~question) and recorded(env) == ["4 < s0"]


def test_a_sealed_environment_answers_only_what_is_known():
    env, (n,) = make(6)
    assert n > 4
    with env.sealed():
        assert n > 3 and n != 2
        with pytest.raises(Unsupported, match="after the guards"):
            bool(n > 5)
    assert n > 5


def test_what_is_learned_of_a_size_from_data_gives_it_no_value():
    env = ShapeEnv()
    u = env.create_unbacked("nonzero()", "unbacked")
    env.learn(Relation("==", (u * u).expr, const(16)))  # of a size with a hint the root would be known
    assert env.symbols["u0"].hint is None and isinstance(u + 1, SymInt)
