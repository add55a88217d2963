"""The graph: lint finds what is wrong, the printed text runs and means the same, the Interpreter binds sizes, grads
and draws."""

import operator

import numpy as np
import pytest

import flambeau.eager.ops  # noqa: F401  the records
from flambeau.capture.graph.graph import Graph, Interpreter, describe, map_args, ops
from flambeau.capture.shapes.symbolic_shapes import ShapeEnv
from flambeau.eager import dtypes, random
from flambeau.eager.state import no_modes, setting
from flambeau.eager.tensor import Tensor, fake_tensor
from flambeau.runtime.errors import InternalError


def tensor(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return Tensor._fl_from_array(values, dtypes.float32)


class Builder:
    """Adds calls with values made by the meta rules."""

    def __init__(self, env=None):
        self.graph = Graph(env)

    def input(self, name, sizes, **kw):
        return self.graph.placeholder(name, fake_tensor(sizes, **kw), name)

    def call(self, op, *args, **marks):
        fakes = map_args(args, lambda v: getattr(v, "value", v))
        with setting(fake=True, modes=(), grad=False):
            return self.graph.call(op, args, op(*fakes), **{"grad": True, **marks})


def small(env=None, rows=3):
    b = Builder(env)
    x, w = b.input("self.x", (rows, 4)), b.input("w", (4,))
    y = b.call(ops.mul, x, w, stack=(("/home/me/model.py", 12, "  y = x * w", "forward"),))
    z = b.call(ops.add_, y, 1.0)
    v = b.call(ops.permute, y, (1, 0), grad=False)
    b.graph.set_output((z, {"v": v}, 7))
    return b.graph


def test_prints_readable_text():
    text = small().print_python()
    assert "def forward(self_x, w, *, constants={}, seed=None, base=0):" in text
    assert "    # model.py:12 in forward: y = x * w\n    mul = ops.mul(self_x, w)    # f32[3, 4]\n" in text
    assert "    add = ops.add_(mul, 1.0)" in text or "add_1 = ops.add_" in text
    assert "with marks(grad=False):\n        permute = ops.permute(mul, (1, 0))    # f32[4, 3] strides (1, 4)" in text


def test_text_and_interpreter_agree():
    graph = small()
    x, w = tensor(3, 4), tensor(4)
    first, second = Interpreter(graph).run(x, w), graph.compile_python()(x, w)
    assert np.array_equal(first[0]._fl_array, second[0]._fl_array) and first[2] == second[2] == 7
    assert np.array_equal(first[1]["v"]._fl_array, (x._fl_array * w._fl_array + 1).T)


def test_symbols_are_bound_from_sizes():
    env = ShapeEnv()
    n = env.create_symbol(3, "x.size(0)")
    b = Builder(env)
    x = b.input("x", (n, 4))
    y = b.call(ops.expand, b.call(ops.unsqueeze, x, 0), (n * 2, n, 4))
    b.graph.set_output((y, n + 1))
    assert b.graph.symbol_sources() == {"s0": (0, "size", 0)} and "s0 = x.shape[0]" in str(b.graph)
    for rows in (3, 5):
        for run in (Interpreter(b.graph).run, b.graph.compile_python()):
            result, number = run(tensor(rows, 4))
            assert tuple(result.shape) == (2 * rows, rows, 4) and number == rows + 1


def test_number_inputs_bind_symbols():
    env = ShapeEnv()
    n, scale = env.create_symbol(5, "n"), env.create_float(0.5, "scale")
    b = Builder(env)
    b.graph.placeholder("n", n), b.graph.placeholder("scale", scale)
    y = b.call(ops.mul, b.call(ops.full, (n,), 2.0, dtypes.float32, None), scale * 2)
    b.graph.set_output(y)
    assert Interpreter(b.graph).run(3, 0.25)._fl_array.tolist() == [1.0] * 3
    assert b.graph.compile_python()(3, 0.25)._fl_array.tolist() == [1.0] * 3


def test_draws_use_their_ordinal():
    b = Builder()
    x = b.input("x", (3, 4))
    drawn = b.call(ops.uniform, x, 0.0, 1.0, None, draw=1)
    b.graph.draws = 2
    b.graph.set_output(drawn)
    with random.at(9, 5):
        expected = ops.uniform(tensor(3, 4), 0.0, 1.0, None)._fl_array
    for run in (Interpreter(b.graph).run, b.graph.compile_python()):
        assert np.array_equal(run(tensor(3, 4), seed=9, base=4)._fl_array, expected)


def test_grad_marks_decide_what_is_recorded():
    b = Builder()
    x = b.input("x", (3,))
    b.graph.set_output((b.call(ops.exp, x), b.call(ops.sin, x, grad=False)))
    for run in (Interpreter(b.graph).run, b.graph.compile_python()):
        recorded, silent = run(tensor(3).requires_grad_())
        assert recorded.requires_grad and not silent.requires_grad


def test_several_outputs_and_constants():
    b = Builder()
    x = b.input("x", (3, 4))
    c = b.graph.get_attr("table", tensor(4))
    both = b.call(ops.max_dim, b.call(ops.add, x, c), (1,), False)
    values = b.graph.call(operator.getitem, (both, 0), both.value[0])
    b.graph.set_output((values,))
    b.graph.lint()
    expected = (tensor(3, 4)._fl_array + tensor(4)._fl_array).max(1)
    assert np.array_equal(Interpreter(b.graph).run(tensor(3, 4))[0]._fl_array, expected)
    assert np.array_equal(b.graph.compile_python()(tensor(3, 4))[0]._fl_array, expected)


def test_replace_insert_erase():
    graph = small()
    mul = graph.find("mul")
    with graph.inserting_after(mul):
        neg = graph.call(ops.neg, (mul,), mul.value)
    graph.replace_all_uses(mul, neg)
    neg.args = (mul,)
    graph.lint()
    assert [n.name for n in graph.calls][:2] == ["mul", "neg"] and set(mul.users) == {neg}
    with pytest.raises(InternalError, match="erased while"):
        graph.erase(mul)


def test_copy_is_independent():
    graph = small()
    copy, table = graph.copy()
    copy.lint()
    assert str(copy) == str(graph) and table[graph.find("mul")].graph is copy


def broken(change):
    graph = small()
    change(graph)
    with pytest.raises(InternalError) as error:
        graph.lint()
    return str(error.value)


def test_lint_names_what_is_wrong():
    def use_before_definition(g):
        g.move_before(g.find("permute"), g.find("mul"))

    def forget_user(g):
        g.find("mul").users.pop(g.find("permute"))

    def foreign_target(g):
        g.find("mul").target = print

    def bad_draw(g):
        g.find("mul").draw = 3

    def same_name(g):
        g.find("permute").name = "mul"

    def after_output(g):
        g.move_before(g.output, g.find("permute"))

    assert "node permute: reads mul, which is not defined before it" in broken(use_before_definition)
    assert "does not list it as a user" in broken(forget_user)
    assert "not an op record" in broken(foreign_target)
    assert "draw 3 of a graph with 0 draws" in broken(bad_draw)
    assert "name is taken" in broken(same_name)
    assert "stands after the output" in broken(after_output) or "not defined before" in broken(after_output)


def test_wrong_number_of_inputs():
    with pytest.raises(TypeError, match=r"takes 2 inputs \(self_x, w\), got 1"):
        Interpreter(small()).run(tensor(3, 4))


def test_names_are_words_of_python():
    g = Graph()
    names = [g.fresh_name(n) for n in ("x", "x", "x_1", "self.fc.weight", "class", "3d", "s0", "ops", "")]
    assert len(set(names)) == len(names) and all(n.isidentifier() for n in names)
    assert names[3] == "self_fc_weight" and not {"class", "s0", "ops"} & set(names)


def test_values_are_freed_after_their_last_use():
    graph = small()
    seen = []

    class Watch(Interpreter):
        def run_node(self, node, args):
            seen.append(len(self.values))
            return super().run_node(node, args)

    with no_modes():
        Watch(graph).run(tensor(3, 4), tensor(4))
    assert max(seen) <= 3


def test_describe():
    assert describe(fake_tensor((2, 3), dtype=dtypes.bfloat16)) == "bf16[2, 3]"
    assert describe((fake_tensor((2,), dtype=dtypes.int64), None)) == "(i64[2], )"
