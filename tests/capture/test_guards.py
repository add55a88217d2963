"""Guard trees: every kind of path and check holds and fails where it should, and explains itself."""

import collections
import gc
import math
import threading
import weakref

import numpy as np
import pytest

from . import doors_support  # noqa: F401  (configures the native module)

from flambeau.capture import _capture as native
from flambeau.eager import dtypes
from flambeau.eager.state import setting
from flambeau.eager.tensor import Tensor

F32 = dtypes.float32


def tensor(*shape, dtype=np.float32):
    return wrap(np.zeros(shape, dtype))


def wrap(array):
    return Tensor._fl_from_array(array, dtypes.from_numpy(array.dtype))


def tree_of(kind, payload=None, path=()):
    tree = native.GuardTree()
    node = tree.child("arg", "x")
    for step in path:
        node = node.child(*step)
    node.check(kind, payload, f"describe {kind}", "user line")
    return tree


def holds(tree, x, **surroundings):
    """evaluate and explain must agree."""
    answer = tree.evaluate({"x": x}, **surroundings)
    assert answer == (tree.explain({"x": x}, **surroundings) == [])
    return answer


def failure(tree, x):
    (only,) = tree.explain({"x": x})
    return only


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Child(Plain):
    pass


CONSTANTS = [
    0,
    1,
    True,
    False,
    None,
    1.0,
    0.0,
    -0.0,
    math.nan,
    math.inf,
    1j,
    "a",
    "b",
    b"a",
    (1, "a"),
    (1.0, "a"),
    (),
    2**70,
    ...,
]


@pytest.mark.parametrize("i", range(len(CONSTANTS)))
def test_equals_keeps_all_constants_apart(i):
    tree = tree_of("equals", CONSTANTS[i])
    for j, other in enumerate(CONSTANTS):
        fresh = float(str(other)) if isinstance(other, float) else other
        assert holds(tree, fresh) == (i == j), (CONSTANTS[i], other)


def test_type_is_exact():
    tree = tree_of("type_is", Plain)
    assert holds(tree, Plain()) and not holds(tree, Child()) and not holds(tree, Plain)
    assert failure(tree, 3)[:6] == ("type_is", "x", "describe type_is", Plain, int, "user line")


def test_identity_is_weak_and_safe():
    value = Plain()
    tree = tree_of("is", value)
    assert holds(tree, value) and not holds(tree, Plain())
    gone = weakref.ref(value)
    del value
    gc.collect()
    assert gone() is None
    assert not any(tree.evaluate({"x": Plain()}) for _ in range(100))  # also not at the old address


def test_identity_of_what_has_no_weak_reference():
    tree = tree_of("is", None)
    assert holds(tree, None) and not holds(tree, 0)


@pytest.mark.parametrize(
    "kind, payload, good, bad",
    [
        ("len", 2, [[1, 2], (1, 2), {1: 1, 2: 2}, "ab", {1, 2}], [[1], (), {}, 5, None]),
        ("bool", True, [1, [0], "a", True], [0, [], "", None]),
        ("bool", False, [0, [], ""], [1, "x"]),
        ("dict_keys", ("a", 1), [{"a": 0, 1: 5}], [{1: 5, "a": 0}, {"a": 0}, {"a": 0, True: 5}, {"a": 0, 1: 1, 2: 2}, [1]]),
        ("no_item", "a", [{}, {"b": 1}, ["b"]], [{"a": 1}, ["a"]]),
        ("has_item", "a", [{"a": 1}], [{}, {"b": 1}]),
        ("no_dict_attr", "a", [Plain(), Plain(b=1)], [Plain(a=1)]),
        ("no_attr", "a", [Plain(), 3], [Plain(a=1)]),
        ("predicate", lambda v: v > 3, [4, 5], [3, "a"]),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_value_checks(kind, payload, good, bad):
    tree = tree_of(kind, payload)
    for value in good:
        assert holds(tree, value), value
    for value in bad:
        if not (kind == "no_item" and value is None):
            assert not holds(tree, value), value


def test_ordered_dict_has_its_own_order():
    ordered = collections.OrderedDict(a=1, b=2)
    tree = tree_of("dict_keys", ("a", "b"))
    assert holds(tree, ordered)
    ordered.move_to_end("a")
    assert not holds(tree, ordered)


def test_no_hooks():
    tree = tree_of("no_hooks", ("_forward_hooks", "_pre_hooks"))
    assert holds(tree, Plain(_forward_hooks={}, _pre_hooks=collections.OrderedDict()))
    assert holds(tree, Plain(_forward_hooks={}))
    assert not holds(tree, Plain(_forward_hooks={1: print}))


@pytest.mark.parametrize(
    "path, good, bad",
    [
        ([("attr", "a")], Plain(a=1), [Plain(a=2), Plain(), 3]),
        ([("dict_attr", "a")], Plain(a=1), [Plain(a=2), Plain()]),
        ([("item", 0)], [1], [[2], [], (), {1: 1}]),
        ([("item", 0)], (1,), [(2,)]),
        ([("item", -1)], [0, 1], [[1, 0], []]),
        ([("item", "k")], {"k": 1}, [{"k": 2}, {}, [1]]),
        ([("item", 2.5)], {2.5: 1}, [{2.5: 2}, {}]),
        ([("item", 0), ("attr", "a"), ("item", "k")], [Plain(a={"k": 1})], [[Plain(a={})], [Plain()], []]),
    ],
    ids=range(8),
)
def test_paths(path, good, bad):
    tree = tree_of("equals", 1, path)
    assert holds(tree, good)
    for value in bad:
        assert not holds(tree, value), value


def test_paths_of_types_and_classes():
    class Base:
        def forward(self):
            return 1

    class Derived(Base):
        pass

    tree = tree_of("is", Base.forward, [("type",), ("type_attr", "forward")])
    assert holds(tree, Derived())
    Derived.forward = lambda self: 2
    assert not holds(tree, Derived())
    own = tree_of("is", Derived.__dict__["forward"], [("type",), ("dict_attr", "forward")])
    assert holds(own, Derived()) and not holds(own, Base())


def test_globals_builtins_closures_and_objects():
    tree = native.GuardTree()
    tree.child("global", "g").check("equals", 1)
    tree.child("builtin", "len").check("is", len)
    tree.child("closure", 0).child("cell").check("equals", "c")
    shared = {"key": 5}
    tree.child("object", shared).child("item", "key").check("equals", 5)
    cell = (lambda c: lambda: c)("c").__closure__
    good = dict(globals={"g": 1}, builtins={"len": len}, closure=cell)
    assert tree.evaluate([], **good) and tree.explain([], **good) == []
    assert not tree.evaluate([], **{**good, "globals": {"g": 2}})
    assert not tree.evaluate([], **{**good, "globals": {}})
    assert not tree.evaluate([], **{**good, "builtins": {"len": max}})
    assert not tree.evaluate([], **{**good, "closure": (lambda c: lambda: c)("d").__closure__})
    assert not tree.evaluate([], globals={"g": 1}, builtins={"len": len})
    shared["key"] = 6
    assert not tree.evaluate([], **good)
    assert [f.kind for f in tree.explain([], **good)] == ["int"]


def test_prefixes_are_shared_and_checks_deduplicated():
    tree = native.GuardTree()
    a, b = tree.child("arg", "x").child("attr", "m"), tree.child("arg", "x").child("attr", "m")
    a.check("type_is", dict)
    b.check("type_is", dict)
    assert len(tree.lines()) == 1
    assert tree.child("arg", "x").child("item", 1).name == "x[1]"
    assert tree.child("arg", "x").child("item", True).name == "x[True]"


class CountingProperty:
    reads = 0

    @property
    def value(self):
        CountingProperty.reads += 1
        return {"a": 1, "b": 2}


def test_a_shared_place_is_read_once():
    tree = native.GuardTree()
    node = tree.child("arg", "x").child("attr", "value")
    node.child("item", "a").check("equals", 1)
    node.child("item", "b").check("equals", 2)
    assert tree.evaluate({"x": CountingProperty()}) and CountingProperty.reads == 1


def test_properties_that_raise_fail_the_guard():
    class Bad:
        @property
        def value(self):
            raise KeyError("no")

    assert not holds(tree_of("equals", 1, [("attr", "value")]), Bad())


def tensor_tree(x, **changes):
    tree = native.GuardTree()
    payload = dict(
        type=type(x),
        dtype=x._fl_dtype,
        device=x._fl_device,
        requires_grad=x.requires_grad,
        sizes=tuple(x._fl_array.shape),
        strides=tuple(s // x._fl_array.itemsize for s in x._fl_array.strides),
    )
    tree.child("arg", "x").check("tensor", {**payload, **changes}, "x is as it was")
    return tree


def test_tensor_holds_and_each_part_fails():
    x = tensor(2, 3)
    tree = tensor_tree(x)
    assert holds(tree, tensor(2, 3))
    grad = tensor(2, 3)
    grad._fl_requires_grad = True
    kinds = {"dtype": tensor(2, 3, dtype=np.float64), "rank": tensor(6), "requires_grad": grad, "type": np.zeros((2, 3))}
    for kind, other in kinds.items():
        assert not holds(tree, other)
        assert failure(tree, other).kind == kind
    wider = failure(tree, wrap(np.zeros((2, 4), np.float32)[:, :3]))
    assert (wider.kind, wider.old, wider.new, wider.dim) == ("stride", 3, 4, 0)
    size = tree.explain({"x": tensor(5, 3)})
    assert [(f.kind, f.old, f.new, f.dim) for f in size] == [("size", 2, 5, 0)]
    device = tensor_tree(x, device="elsewhere")
    assert not holds(device, x) and failure(device, x).kind == "device"


def test_tensor_with_a_gradient_function_requires_grad():
    x = tensor(2)
    tree = tensor_tree(x, requires_grad=True)
    assert not holds(tree, x)
    x._grad_fn = object()
    assert holds(tree, x)


def test_leaves_are_told_from_results():
    x = tensor(2)
    x._fl_requires_grad = True
    tree = tensor_tree(x, leaf=True)
    assert holds(tree, x)
    x._grad_fn = object()
    assert not holds(tree, x) and failure(tree, x).kind == "is_leaf" and holds(tensor_tree(x, leaf=False), x)


def test_strides_of_single_and_empty_dimensions_are_free():
    one = tensor_tree(tensor(1, 3))
    assert holds(one, wrap(np.zeros((4, 3), np.float32)[::4]))
    empty = tensor_tree(tensor(0, 3))
    assert holds(empty, wrap(np.zeros((3, 0), np.float32).T))


def test_symbolic_sizes_and_relations():
    tree = native.GuardTree()
    x, y, n = (tree.child("arg", name) for name in "xyn")
    for node in (x, y):
        node.check("tensor", dict(type=Tensor, dtype=F32, sizes=(None, 3), strides=(None, 1)))
    x.bind(0, "size", 0)
    y.bind(0, "size", 0)  # shared symbol: the sizes are equal
    x.bind(1, "stride", 0)
    n.bind(2, "int")
    tree.relation([0, 2, 1, 0, 11], "2 <= s0", "line of s0")
    tree.relation([1, 1, 0, 3, 8], "stride is 3")
    tree.relation([1, 2, 0, 4, 5, 1, 0, 10], "n % 4 < s0")

    def call(x, y, n):
        answer = tree.evaluate({"x": x, "y": y, "n": n})
        explained = [f.kind for f in tree.explain({"x": x, "y": y, "n": n})]
        assert answer == (explained == [])
        return explained

    assert call(tensor(5, 3), tensor(5, 3), 7) == []
    assert call(tensor(5, 3), tensor(4, 3), 7) == ["size"]
    assert call(tensor(1, 3), tensor(1, 3), 4) == ["relation"]
    assert call(tensor(2, 3), tensor(2, 3), 3) == ["relation"]
    assert call(tensor(2, 3), tensor(2, 3), "a") == ["symbol"]
    assert call(tensor(2, 3), tensor(2, 3), 2**80) == ["symbol"]
    wide = wrap(np.zeros((5, 4), np.float32)[:, :3])
    assert call(wide, tensor(5, 3), 4) == ["relation"]


PUSH, SYMBOL, ADD, MUL, FLOORDIV, MOD, MAX, MIN, EQ, NE, LT, LE = range(12)


@pytest.mark.parametrize(
    "opcode, function",
    [
        (ADD, lambda a, b: a + b),
        (MUL, lambda a, b: a * b),
        (FLOORDIV, lambda a, b: a // b),
        (MOD, lambda a, b: a % b),
        (MAX, max),
        (MIN, min),
        (EQ, lambda a, b: a == b),
        (NE, lambda a, b: a != b),
        (LT, lambda a, b: a < b),
        (LE, lambda a, b: a <= b),
    ],
)
def test_stack_code_means_what_python_means(opcode, function):
    values = [-7, -2, -1, 0, 1, 2, 3, 7, 2**62, -(2**63), 2**63 - 1]
    for a in values:
        for b in values:
            tree = native.GuardTree()
            tree.child("arg", "x").bind(0, "int")
            tree.child("arg", "y").bind(1, "int")
            try:
                expected = int(function(a, b))
            except ZeroDivisionError:
                expected = None
            fits = expected is not None and -(2**63) <= expected < 2**63
            tree.relation([SYMBOL, 0, SYMBOL, 1, opcode, PUSH, expected if fits else 0, EQ])
            assert tree.evaluate({"x": a, "y": b}) == fits, (a, b)


@pytest.mark.parametrize(
    "code, problem",
    [
        ([ADD], "too few"),
        ([], "exactly one"),
        ([PUSH], "operand"),
        ([PUSH, 1, PUSH, 2], "exactly one"),
        ([SYMBOL, 3], "binding"),
        ([99], "unknown"),
        ([PUSH, 1] * 65, "deep"),
    ],
)
def test_bad_stack_code_is_refused(code, problem):
    tree = native.GuardTree()
    tree.child("arg", "x").bind(0, "int")
    with pytest.raises(ValueError, match=problem):
        tree.relation(code)


def test_same_object():
    tree = native.GuardTree()
    x, y, z = (tree.child("arg", name) for name in "xyz")
    x.same_as(y)
    x.not_same(z)
    a, b = Plain(), Plain()
    assert tree.evaluate(dict(x=a, y=a, z=b))
    assert not tree.evaluate(dict(x=a, y=b, z=b)) and not tree.evaluate(dict(x=a, y=a, z=a))
    assert [f.kind for f in tree.explain(dict(x=a, y=b, z=a))] == ["same_object", "not_same"]


def test_memory_of_arguments():
    base = np.zeros(100, np.float32)

    def tree_for(*members):
        tree = native.GuardTree()
        tree.alias([(tree.child("arg", n), *member) for n, member in zip("xyz", members)])
        return tree

    def check(tree, *arrays):
        slots = dict(zip("xyz", map(wrap, arrays)))
        answer = tree.evaluate(slots)
        assert answer == (tree.explain(slots) == [])
        return answer

    apart = tree_for((0,), (1,), (2,))
    assert check(apart, base[:10], base[10:20], base[20:])
    assert check(apart, base[20:], base[:10], base[10:20])  # in any order of addresses
    assert not check(apart, base[:10], base[9:20], base[20:])
    assert not check(apart, base[:40], base[10:20], base[50:])  # inside one another
    assert check(apart, base[:40][::-1], base[40:50], base[:0])  # negative strides; empty arrays cover nothing
    assert not check(apart, base[:40][::-1], base[39:50], base[:0])
    foreign = wrap(base), wrap(np.frombuffer(base.data, np.float32))  # two owners of the same bytes
    assert not apart.evaluate(dict(zip("xyz", [*foreign, tensor(3)])))
    shared = tree_for((0, 0), (0, 40), (1,))
    assert check(shared, base[:20], base[10:30], base[30:])
    assert not check(shared, base[:20], base[11:30], base[30:])  # another distance
    assert not check(shared, base[:20], base[10:30], base[29:])  # a stranger inside the group


def test_memory_of_many_moving_tensors():
    rng = np.random.default_rng(0)
    base = np.zeros(4000, np.float32)
    tree = native.GuardTree()
    tree.alias([(tree.child("arg", k), k) for k in range(40)])
    for _ in range(50):
        order = rng.permutation(40)
        tensors = [wrap(base[100 * k : 100 * k + 100]) for k in order]
        assert tree.evaluate(tensors)
        tensors[3] = wrap(base[100 * order[3] + 1 : 100 * order[3] + 101])
        overlapping = order[3] != 39
        assert tree.evaluate(tensors) == (not overlapping)


def test_grad_mode():
    tree = native.GuardTree()
    tree.root.check("grad_mode", True, "recording")
    assert tree.evaluate([])
    with setting(grad=False):
        assert not tree.evaluate([])
        assert [(f.kind, f.name, f.old, f.new) for f in tree.explain([])] == [("is", "grad", True, False)]


def test_state_is_that_of_the_thread():
    tree = native.GuardTree()
    tree.root.check("grad_mode", False)
    tree.child("state", "modes").check("equals", ())
    seen = []
    with setting(grad=False):

        def work():
            seen.append(tree.evaluate([]))
            with setting(grad=False):
                seen.append(tree.evaluate([]))

        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert tree.evaluate([])
    assert seen == [False, True] * 3


def test_explain_lists_all_failures():
    tree = native.GuardTree()
    x = tree.child("arg", "x")
    x.child("attr", "a").check("equals", 1)
    x.child("attr", "b").check("equals", "s")
    x.child("attr", "c").child("attr", "d").check("equals", 1)
    failures = tree.explain({"x": Plain(a=2, b="t")})
    assert [(f.kind, f.name, f.old, f.new) for f in failures] == [
        ("int", "x.a", 1, 2),
        ("equals", "x.b", "s", "t"),
        ("missing", "x.c", None, None),
    ]


def test_trees_are_complete_once_an_entry_has_them():
    tree = native.GuardTree()
    wrapper = native.Wrapper(doors_support.Recorder(), lambda x: x)
    tree.child("arg", "x")
    wrapper.add(native.Entry(tree, wrapper.code))
    with pytest.raises(RuntimeError, match="complete"):
        tree.child("arg", "y")
    with pytest.raises(RuntimeError, match="complete"):
        tree.child("arg", "x").check("len", 1)


@pytest.mark.parametrize(
    "build",
    [
        lambda t: t.child("nowhere", 1),
        lambda t: t.child("attr", 1),
        lambda t: t.child("arg", 1.5),
        lambda t: t.root.check("odd"),
        lambda t: t.root.bind(0, "weight"),
        lambda t: t.root.check("len", "a"),
        lambda t: t.root.check("tensor", {}),
        lambda t: t.root.check("tensor", dict(type=Tensor, sizes=(1, 2), strides=(1,))),
        lambda t: t.alias([(1, 2)]),
        lambda t: t.root.same_as(native.GuardTree().root),
        lambda t: t.child("slot", "no_such_slot"),
        lambda t: t.child("item", []),
    ],
)
def test_building_errors(build):
    with pytest.raises((TypeError, ValueError, AttributeError)):
        build(native.GuardTree())


def test_slot_path_reads_tensor_slots():
    tree = native.GuardTree()
    tree.child("arg", "x").child("slot", "_grad").check("is", None)
    x = tensor(2)
    x._grad = None
    assert holds(tree, x)
    x._grad = tensor(2)
    assert not holds(tree, x) and not holds(tree, 3)


def test_unknown_argument_names_are_told():
    tree = tree_of("len", 1)
    with pytest.raises(KeyError, match="y"):
        tree.evaluate({"y": 1})
    with pytest.raises(TypeError, match="by name"):
        tree_of("len", 1).evaluate([1])
    with pytest.raises(KeyError):
        native.Wrapper(doors_support.Recorder(), lambda z: z).add(native.Entry(tree, (lambda z: z).__code__))


def test_trees_take_part_in_garbage_collection():
    class Holder:
        pass

    holder = Holder()
    tree = native.GuardTree()
    tree.child("object", holder).check("predicate", lambda v, h=holder: True)
    holder.tree = tree
    gone = weakref.ref(holder)
    del holder, tree
    gc.collect()
    assert gone() is None


def test_places_below_a_node_are_found_however_many_there_are():
    tree = native.GuardTree()
    owner = tree.root.child("arg", 0)
    keys = [*range(300), *map(str, range(300)), *(float(k) for k in range(300)), (1, "a"), (1.0, "a"), True, None]
    made = [owner.child("item", key, f"n{i}") for i, key in enumerate(keys)]
    again = [owner.child("item", key, "other") for key in keys]
    assert [node.name for node in again] == [node.name for node in made] == [f"n{i}" for i in range(len(keys))]
    assert owner.child("attr", "1", "attribute").name == "attribute"
