"""Products of looked-up rows become look-ups in the product of the table, where the table is small, no row of it is without
gradient, and the rows stay whole."""

import pytest

from flambeau.inductor import driver
from flambeau.inductor.graph.functionalize import functionalize
from flambeau.inductor.graph.embedding_linear import look_up_products
from flambeau.inductor.graph.passes import tidy
from flambeau.runtime.errors import CheckFailed

from .tools import capture, check, compiled, dtypes, leaf, no_grad, ops, tensor

cut_one = getattr(ops, "slice")


def places(*shape, seed=0, high=5):
    return tensor(*shape, seed=seed, dtype=dtypes.int64, high=high)


def linear(view=lambda rows: rows, padding=-1):
    return lambda table, index, w, b: (ops.linear(view(ops.embedding(table, index, padding)), w, b),)


def inputs(*sizes):
    return lambda: (leaf(5, 4), places(*(sizes or (3, 6))), leaf(7, 4), leaf(7))


def rows_multiplied(f, *args, dynamic=False):
    """Rows of each product of the functional graph."""
    graph = functionalize(capture(f, *args, dynamic=dynamic)).graph
    tidy(graph)
    look_up_products(graph)
    tidy(graph)
    graph.lint()
    return [
        n.args[0].value.numel() // n.args[0].value.shape[-1]
        for n in graph.calls
        if n.is_op and n.target.name in ("linear", "matmul")
    ]


def rows_without_history(table, index, w, b):
    with no_grad():
        rows = ops.embedding(table, index, -1)
    return (ops.linear(rows, w, b),)


def with_rows(*numbers):
    """A table whose rows 1 and 4 hold `numbers`; places 0, 2 and 3 are looked up."""

    def make():
        table, index, w, b = inputs()()
        table._fl_array[[1, 4], :2] = numbers
        index._fl_array[...] = index._fl_array % 3 + (index._fl_array % 3 > 0)
        return table, index, w, b

    return make


WHOLE = {
    "rows": linear(),
    "steps first": linear(lambda rows: ops.transpose(rows, 0, 1)),
    "a part": linear(lambda rows: cut_one(rows, 1, 1, 1, 4)),
    "a step of the transposed": linear(lambda rows: cut_one(ops.transpose(rows, 0, 1), 0, 0, 1, 4)),
    "without a bias": lambda table, index, w, b: (ops.linear(ops.embedding(table, index, -1), w, None), b),
    "a product": lambda table, index, w, b: (ops.matmul(ops.embedding(table, index, -1), ops.transpose(w, 0, 1)), b),
    "the rows as well": lambda table, index, w, b: (
        ops.linear(ops.embedding(table, index, -1), w, b),
        ops.tanh(ops.embedding(table, index, -1)),
    ),
}
OTHER = {
    "a row without gradient": linear(padding=2),
    "few places": lambda table, index, w, b: (ops.linear(ops.embedding(table, cut_one(index, 1, 0, 1, 3), -1), w, b),),
    "one step": linear(lambda rows: ops.select(rows, 1, 2)),
    "a function of the rows": linear(ops.tanh),
    "rows without history": rows_without_history,
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", WHOLE)
def test_the_table_is_multiplied(name, backend):
    assert rows_multiplied(WHOLE[name], *inputs()()) == [5]
    check(WHOLE[name], inputs(), backend=backend)


@pytest.mark.parametrize("name", OTHER)
def test_the_rows_are_multiplied(name):
    found = rows_multiplied(OTHER[name], *inputs()())
    assert len(found) == 1 and found[0] != 5
    check(OTHER[name], inputs())


@pytest.mark.parametrize("name", ["rows", "a step of the transposed"])
def test_rows_that_nobody_looks_up_have_no_say(name):
    """A NaN or an infinity there, or in the weights, reaches no gradient of them."""
    make = with_rows(float("nan"), float("inf"))
    index = make()[1]._fl_array
    assert 1 not in index and 4 not in index
    assert rows_multiplied(WHOLE[name], *make()) == [5]
    check(WHOLE[name], make)

    table, index, w, b = make()
    w._fl_array[2, 1] = float("inf")
    compiled(WHOLE[name], table, index, w, b, backend="inductor")(table, index, w, b)[0].sum().backward()
    assert (table.grad._fl_array[[1, 4]] == 0).all()


def test_parts_of_the_rows_themselves():
    """Each row of the table halved, then multiplied: the product of whole rows would be another one."""
    f = lambda table, index, w, b: (ops.linear(cut_one(ops.embedding(table, index, -1), 2, 0, 1, 2), cut_one(w, 1, 0, 1, 2), b),)
    assert rows_multiplied(f, *inputs()()) == [18]
    check(f, inputs())
    g = lambda table, index, w, b: (ops.linear(ops.transpose(ops.embedding(table, index, -1), 1, 2), w, b),)
    make = lambda: (leaf(5, 6), places(8, 4), leaf(7, 4), leaf(7))
    assert rows_multiplied(g, *make()) == [48]
    check(g, make)


def test_symbolic_sizes():
    """Decided by the first sizes; right for all, also where fewer places than rows are met later."""
    assert rows_multiplied(WHOLE["steps first"], *inputs()(), dynamic=True)[0] == 5
    check(WHOLE["steps first"], inputs(), dynamic=True, other=inputs(2, 2))


def test_a_place_outside_of_the_table():
    """The call is eager's then, which tells it."""
    f = driver.compile_graph(capture(WHOLE["steps first"], *inputs()()), list(inputs()()))
    table, _, w, b = inputs()()
    with pytest.raises(CheckFailed, match="index out of range"):
        f(table, places(3, 6, high=9), w, b)
