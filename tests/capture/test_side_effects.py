"""Side effects of captured code: replayed once, in order, after the graph; identity of objects is kept."""

import pytest

import flambeau as torch

from .harness import captured, check, same  # noqa: F401

torch.manual_seed(1)
X = torch.randn(2, 3)
COUNT, NAMES = 0, []


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_attribute_store():
    def fn(a, box):
        box.last = a + 1
        box.n = box.n + 1
        return box.last * 2

    check(fn, X, Box(n=0), ops=2)


def test_attribute_read_after_store():
    def fn(a, box):
        before = box.n
        box.n = a * 2
        box.n = box.n + 1
        return before, box.n

    check(fn, X, Box(n=3), ops=2)


def test_swap_of_attributes():
    def fn(a, box):
        box.p, box.q = box.q, box.p
        return a + 1

    check(fn, X, Box(p=[1], q=[2]), ops=1)


def test_attribute_deleted():
    def fn(a, box):
        del box.n
        return a + 1, hasattr(box, "n")

    check(fn, X, Box(n=1), ops=1)


def test_list_argument_changes():
    def fn(a, items):
        items.append(a + 1)
        items[0] = "first"
        items.pop(1)
        return len(items)

    check(fn, X, [1, 2, 3], ops=1)


def test_list_insert_moves_old_values():
    def fn(a, items):
        items.insert(0, a * 2)
        return items[1] + 1

    check(fn, X, [X, 5], ops=2)


def test_dict_argument_changes():
    def fn(a, d):
        d["new"] = a + 1
        d["old"] += 1
        return d["new"] * d["old"]

    check(fn, X, {"old": 1, "same": 2}, ops=2)


def test_dict_deletion_and_order():
    def fn(a, d):
        value = d.pop("p")
        d["p"] = value
        del d["q"]
        return a * value

    check(fn, X, {"p": 2, "q": 3, "r": 4}, ops=1)


def test_a_set_of_objects_keeps_its_order():
    """The guard compares the objects themselves."""

    class Weight:
        def __init__(self, value):
            self.value = value

    def f(x, weights):
        for k, weight in enumerate(weights):
            x = x + weight.value * 10**k
        return x

    three, two = {Weight(1), Weight(2), Weight(3)}, {Weight(1), Weight(2)}
    torch.compiler.reset()
    compiled = torch.compile(f)
    for weights in (three, three, two):
        assert torch.equal(compiled(torch.ones(2), weights), f(torch.ones(2), weights))
    assert torch.compiler.counters()["fallbacks"] == {} and torch.compiler.counters()["recompiles"] == 1


def test_set_argument_changes():
    def fn(a, s):
        s.add(5)
        s.discard(1)
        return a + len(s)

    check(fn, X, {1, 2}, ops=1)


def test_global_is_written():
    def back():
        global COUNT
        COUNT = 0
        NAMES.clear()

    def fn(a):
        global COUNT
        COUNT += 1
        NAMES.append("n")
        return a + COUNT, COUNT, len(NAMES)

    check(fn, X, ops=1, reset=back)


def test_new_globals_appear_in_the_order_of_the_program():
    scope = {}
    exec("def fn(a):\n    global Z, Y, X\n    Z = a + 1\n    Y = 2\n    X = Z * Y\n    return X", scope)
    before = list(scope)
    result = torch.compile(scope["fn"])(X)
    assert [name for name in scope if name not in before] == ["Z", "Y", "X"] and same(result, (X + 1) * 2)


def test_alias_of_argument():
    def fn(a, p, q):
        p.append(a + 1)
        return len(q), p is q

    items = []
    check(fn, X, items, items, ops=1)
    check(fn, X, [], [], ops=1)


def test_distinct_then_same():
    """An entry made for two lists must not serve a call with one list in both places."""

    def fn(a, p, q):
        p.append(1)
        q.append(2)
        return a + len(p)

    items = [0]
    check(fn, X, [0], [0], again=(X, items, items), ops=1)


def test_new_object_escapes():
    def fn(a):
        box = Box(n=1)
        box.child = Box(parent=box)
        box.t = a + 1
        return box

    check(fn, X, ops=1)


def test_container_that_holds_new_and_old():
    def fn(a, items):
        made = [items, a + 1]
        items.append(made[1])
        return made

    check(fn, X, [], ops=1)


def test_returned_function():
    def fn(a):
        n = 2

        def later(v, k=3):
            return v * n + k

        return a + n, later

    compiled = torch.compile(fn, backend="eager")
    for _ in range(2):
        first, later = compiled(X)
        assert first.tolist() == (X + 2).tolist() and later(5) == 13


def test_returned_counter_keeps_its_cell():
    def fn(a):
        n = 0

        def count():
            nonlocal n
            n += 1
            return n

        count()
        return a + n, count

    compiled = torch.compile(fn, backend="eager")
    for _ in range(2):
        first, count = compiled(X)
        assert first.tolist() == (X + 1).tolist() and (count(), count()) == (2, 3)


def test_side_effects_run_once_per_call():
    log = []

    def fn(a):
        log.append(len(log))
        return a + 1

    compiled = torch.compile(fn, backend="eager")
    for _ in range(3):
        compiled(X)
    assert log == [0, 1, 2]


def test_same_tensor_object_is_returned():
    def fn(a, box):
        box.t = a
        return a.add_(1), box.t

    a, box = X.clone(), Box(t=None)
    first, second = torch.compile(fn, backend="eager")(a, box)
    assert first is a and second is a and box.t is a


def test_repeated_output_is_one_object():
    def fn(a):
        b = a + 1
        return b, [b], {"b": b}

    first, (second,), named = torch.compile(fn, backend="eager")(X)
    assert first is second is named["b"]


def test_attribute_of_new_tensor():
    def fn(a):
        b = a + 1
        b.label = "made"
        return b

    assert torch.compile(fn, backend="eager")(X).label == "made"


def test_grad_mode_outlives_the_call():
    def fn(a):
        torch.set_grad_enabled(False)
        return a + 1

    try:
        torch.compile(fn, backend="eager")(X)
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


class Doubled:
    """Its own __setattr__ runs once for each store."""

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)


class Frozen:
    def __setattr__(self, name, value):
        raise AttributeError("frozen")


def test_own_setattr_runs_once():
    def fn(a, box):
        box.t = a
        box.n = 3
        return box.t + 1

    plain, box = Doubled(), Doubled()
    want = fn(X, plain)
    assert torch.equal(torch.compile(fn, backend="eager")(X, box), want)
    assert box.n == plain.n == 6 and torch.equal(box.t, plain.t)


def test_object_setattr_past_the_class():
    def fn(a):
        box = Frozen()
        print("break")
        object.__setattr__(box, "t", a)
        return box.t + 1, box

    out, box = torch.compile(fn, backend="eager")(X)
    assert torch.equal(out, X + 1) and torch.equal(box.t, X)


# -- half-way: errors and breaks between side effects


def raised_by_the_program(a, items, box):
    items.append(1)
    box.n = a.sum()
    items.append(2)
    raise ValueError("half")


def raised_by_the_library(a, items, box):
    items.append(1)
    a.add_(1)
    box.n += 1
    a.view(7)
    items.append(3)


def raised_by_a_container(a, items, box):
    box.n += 1
    a.mul_(2)
    box.hist[box.n] = a.sum()
    box.hist.pop("gone")


def caught_and_finished(a, items, box):
    try:
        items.append("try")
        a.add_(1)
        raise KeyError("k")
    except KeyError as error:
        items.append(str(error))
    finally:
        items.append("finally")
    return a * 2


def raised_after_breaks(a, items, box):
    for i in range(4):
        if i == 2:
            raise RuntimeError(f"at {i}")
        items.append(a.shape[0] * i)
        print(i)


def while_else(a, items, box):
    while box.n < 3:
        items.append(box.n)
        print("turn", box.n)
        a, box.n = a + box.n, box.n + 1
    else:
        items.append("else")
    return a


def handled_around_breaks(a, items, box):
    try:
        a = a + 1
        print("before")
        items.append(1)
        raise KeyError("q")
    except KeyError:
        items.append("caught")
        print("handler")
        a = a * 2
    finally:
        items.append("finally")
        print("finally")
    return a


def comprehension(a, items, box):
    return [(items.append(i), print(i), a + i)[2] for i in range(3)]


def deeper(a, items):
    items.append("deep")
    b = a + 1
    print("deep", len(items))
    items.append("deep again")
    return b * 3


def inlined_call(a, items, box):
    a = a * 2
    items.append("outer")
    result = deeper(a, items)
    box.n = len(items)
    return result + box.n


def counted_by_a_cell(a, items, box):
    n = 0

    def more():
        nonlocal n
        n += 1
        items.append(n)
        print(n)
        return n

    more()
    a = a * more()
    return a + n


@pytest.mark.parametrize(
    "fn, breaks",
    [
        (raised_by_the_program, {"exception": 1}),
        (raised_by_the_library, {"exception": 1}),
        (raised_by_a_container, {"exception": 1}),
        (caught_and_finished, 0),
        (raised_after_breaks, None),
        (while_else, {"print": 3}),
        (handled_around_breaks, None),
        (comprehension, None),
        (inlined_call, None),
        (counted_by_a_cell, None),
    ],
)
def test_effects_happen_once_and_in_order(fn, breaks):
    check(fn, X.clone(), [], Box(n=0, hist={}), graphs=None, breaks=breaks, recompiles=None)
