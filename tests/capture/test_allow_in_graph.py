"""compiler.allow_in_graph: functions that are called on symbolic tensors while a graph is captured."""

import functools
import types

import pytest

import flambeau
from flambeau import compiler
from flambeau.runtime import counters


class Key:
    """An object whose hash and equality are Python's to compute: capture breaks at a dictionary of such keys."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


TABLE = {Key("twice"): 2.0}


def looked_up(x, name="twice", more=None):
    return {"out": x * TABLE[Key(name)], "sums": [x.sum(), *(part + 1 for part in more or ())]}


def caller(x, function=looked_up):
    told = function(x.sin(), more=[x])
    return told["out"] + told["sums"][0] + told["sums"][1]


def compiled_twice(function, *args):
    """Results of two compiled calls, and what was counted."""
    counters.reset()
    compiled = compiler.compile(function, backend="aot_eager")
    return [compiled(*args), compiled(*args)], counters.snapshot()


def test_what_capture_cannot_read_is_one_graph():
    x = flambeau.randn(3, 4, requires_grad=True)
    assert compiled_twice(caller, x)[1]["breaks"]
    own = types.FunctionType(looked_up.__code__, globals(), "own", looked_up.__defaults__)
    assert compiler.allow_in_graph(own) is own
    results, told = compiled_twice(lambda x: caller(x, own), x)
    assert told["graphs"] == 1 and not told["breaks"] and not told["fallbacks"]
    (want,) = flambeau.autograd.grad(caller(x).sum(), x)
    for found in results:
        assert flambeau.equal(found, caller(x))
        assert flambeau.equal(flambeau.autograd.grad(found.sum(), x)[0], want)


def test_it_is_called_once_per_capture_and_sizes_that_change_stay_symbolic():
    called = []

    @compiler.allow_in_graph
    def scaled(x, factor):
        called.append(tuple(x.shape))
        return x * factor

    compiled = compiler.compile(lambda x: scaled(x, 3) + 1, backend="aot_eager")
    for n in (4, 4, 5, 6, 7):
        assert flambeau.equal(compiled(flambeau.ones(n)), flambeau.full((n,), 4.0))
    assert len(called) == 2


def test_writes_to_arguments_and_gradients_of_tensors_it_closes_over():
    weight = flambeau.ones(3, requires_grad=True)

    @compiler.allow_in_graph
    def step(x):
        x.add_(1)
        return x * weight

    compiled = compiler.compile(lambda x: step(x).sum())
    x = flambeau.zeros(3)
    compiled(x).backward()
    assert x.tolist() == [1.0] * 3 and weight.grad.tolist() == [1.0] * 3
    compiled(x).backward()
    assert x.tolist() == [2.0] * 3 and weight.grad.tolist() == [3.0] * 3


def test_functions_with_the_same_code_are_told_apart():
    def maker(n):
        return compiler.allow_in_graph(lambda x: x + n)

    compiled = compiler.compile(lambda x, f: f(x) * 2, backend="aot_eager")
    x = flambeau.zeros(2)
    assert [compiled(x, maker(n)).tolist() for n in (1, 2, 1)] == [[2.0] * 2, [4.0] * 2, [2.0] * 2]


def test_arguments_without_a_plain_value_are_captured_through():
    class Holder:
        factor = 2

    @compiler.allow_in_graph
    def scaled(x, holder):
        return x * holder.factor

    holder = Holder()
    compiled = compiler.compile(lambda x: scaled(x, holder), backend="aot_eager", fullgraph=True)
    assert compiled(flambeau.ones(2)).tolist() == [2.0, 2.0]
    Holder.factor = 3
    assert compiled(flambeau.ones(2)).tolist() == [3.0, 3.0]


def test_what_needs_data_is_a_break_there_and_right():
    @compiler.allow_in_graph
    def chosen(x):
        return x * 2 if x.sum() > 0 else x * 3

    compiled = compiler.compile(lambda x: chosen(x + 0) + 1, backend="aot_eager")
    for value in (1.0, -1.0, 2.0):
        x = flambeau.full((2,), value)
        assert flambeau.equal(compiled(x), chosen(x) + 1)


def test_lists_methods_and_what_is_no_callable():
    def one(x):
        return x

    assert compiler.allow_in_graph([one, flambeau.sin]) == [one, flambeau.sin]
    partial = functools.partial(one)
    assert compiler.allow_in_graph(partial) is partial
    with pytest.raises(TypeError, match=r"allow_in_graph\(\) takes a callable or a list of them, not int"):
        compiler.allow_in_graph(3)
