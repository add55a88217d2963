"""Ranges of symbolic floats hold for every size, and schedules over a counter are code for all of its values."""

import math
import random

import flambeau as torch
from flambeau.capture.shapes import expr as E
from flambeau.capture.shapes.float_ranges import finite, float_range
from flambeau.capture.shapes.symbolic_shapes import FLOAT_OPS, ShapeEnv, _evaluate_tree
from flambeau.runtime import counters

KINDS = ("add", "sub", "mul", "truediv", "neg", "abs", "sin", "cos", "tanh", "exp", "sqrt")


def drawn(rng, symbols, depth=3):
    kind = rng.choice(KINDS) if depth else rng.choice(("int", "const"))
    if kind == "int":
        return "int", rng.choice(symbols) * rng.choice((1, 2, -3)) + rng.randint(-3, 3)
    if kind == "const":
        return "const", rng.choice((0.5, -2, 3, 0.1, -0.0, 7.25))
    count = 2 if kind in ("add", "sub", "mul", "truediv") else 1
    return (kind, *(drawn(rng, symbols, depth - 1) for _ in range(count)))


def test_values_lie_within_their_ranges():
    rng = random.Random(3)
    env = ShapeEnv()
    env.create_symbol(5, "a")
    env.create_symbol(7, "b")
    symbols, told = [E.var("s0", "size"), E.var("s1", "size")], 0
    for _ in range(3000):
        tree = drawn(rng, symbols)
        sure = finite(env, tree)
        low, high = float_range(env, tree)
        told += (low, high) != (-math.inf, math.inf)
        for values in ({"s0": 2, "s1": 2}, {"s0": 9, "s1": 1000}, {"s0": 10**6, "s1": 3}):
            try:
                number = _evaluate_tree(tree, values)
            except (ValueError, ZeroDivisionError, OverflowError):
                assert not sure
                continue
            assert math.isfinite(number) or not sure
            assert low <= number <= high or number != number and (low, high) == (-math.inf, math.inf)
    assert told > 500 and set(KINDS) < set(FLOAT_OPS)


def test_a_schedule_is_one_graph_for_all_steps():
    def fn(x, step):
        warm, total = 2, 40
        if step < warm:
            return x * step / warm
        rate = 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))
        assert 0 <= rate <= 1
        return x * rate * math.exp(-0.1 * step) + math.sin(step)

    compiled, x = torch.compile(fn, backend="eager"), torch.ones(2, dtype=torch.float64)
    counters.reset()
    for step in (3, 4, 7, 20, 33, 39):
        assert torch.allclose(compiled(x, step), fn(x, step))
    assert counters.snapshot()["recompiles"] == 1
