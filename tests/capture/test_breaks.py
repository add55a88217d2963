"""Graph breaks: what cannot be captured runs in Python, the rest is captured on both sides; every break is counted."""

import collections
import functools
import time
import warnings

import pytest

import flambeau as torch
from flambeau.capture.frontend import convert_frame
from flambeau.runtime import counters
from flambeau.runtime.config import config
from flambeau.runtime.errors import Unsupported

from .harness import captured, check  # noqa: F401

torch.manual_seed(1)
X = torch.randn(2, 3)
Point = collections.namedtuple("Point", "p q")


def test_print_between():
    def fn(a):
        b = a + 1
        print("shape", b.shape[0])
        return b * 2

    check(fn, X, graphs=2, ops=2, breaks={"print": 1})


def test_print_at_start_and_end():
    def fn(a):
        print("start")
        b = a * 2
        print("end")
        return b

    check(fn, X, graphs=1, breaks={"print": 2})


def test_locals_and_stack_survive():
    def fn(a):
        items, n, text = [a], 2, "t"
        return items[0] + n, (print(text), a * n)[1], len(items)

    check(fn, X, graphs=2, breaks={"print": 1})


def test_item_of_bool():
    def fn(a):
        n = (a.sum() > 0).item()
        return a * 2 + n

    check(fn, X, graphs=2, breaks={"item": 1})


def test_index_by_data():
    def fn(a):
        return a * a[int((a[0, 0] > 0).long())]

    check(fn, X, again=(X - 100,))


def test_branch_on_data():
    def fn(a):
        b = a + 1
        if b.sum() > 0:
            return b * 2
        return b * 3

    check(fn, X, graphs=2, breaks={"branch-on-data": 1}, again=(X - 100,))


def test_branch_on_data_then_join():
    def fn(a):
        if a.max() > 100:
            b = a - 1
        else:
            b = a + 1
        return b * 2

    check(fn, X, graphs=2, breaks={"branch-on-data": 1}, again=(X + 200,))


def test_while_on_data():
    def fn(a):
        n = 0
        while a.sum() < 50:
            a = a + 3
            n += 1
        return a, n

    check(fn, torch.zeros(2, 3), graphs=None, breaks=None)


def test_break_in_inlined_call():
    def inner(b):
        b = b * 2
        print("inner")
        return b + 1

    def fn(a):
        return inner(a + 1) * 3

    check(fn, X, graphs=4, breaks={"print": 2})


def test_break_in_for_loop():
    def fn(a):
        for i in range(3):
            a = a + i
            print("step", i)
        return a * 2

    check(fn, X, graphs=None, breaks=None)


def test_iterators_cross():
    def fn(a):
        items, table = [1, 2, 3], {"p": 1, "q": 2}
        keys, out = table.keys(), []
        rest = iter(items)
        next(rest)
        pairs, numbered = zip(items, "abc"), enumerate(items, 5)
        next(pairs), next(numbered)
        doubled, odd = map(lambda v: v * 2, items), filter(lambda v: v % 2, items)
        print("between")
        table["r"] = 3
        items.append(4)
        for each in (keys, rest, pairs, numbered, doubled, odd):
            out.append(list(each))
        return out, a + 1

    check(fn, X, graphs=None, breaks=None)


def test_break_in_loops_over_containers():
    def fn(a, items, table):
        for i, (v, (key, w)) in enumerate(zip(items, table.items())):
            a = a * v + w
            print(i, key)
        return a

    check(fn, X, [1, 2, 3], {"p": 4, "q": 5, "r": 6}, graphs=None, breaks=None, recompiles=None)


def test_symbolic_sizes_cross():
    def fn(a):
        n = a.shape[0] * 2
        half = n / 4
        print(n)
        return a * n + half, n

    check(fn, X, again=(torch.randn(5, 3),), graphs=1, breaks={"print": 1}, dynamic=True)


def test_everything_else_crosses():
    class Holder:
        pass

    def fn(a):
        holder, partial = Holder(), functools.partial(max, 3)
        holder.own = holder
        text, pair, members = f"{a.dim()}", slice(1, 2), {1, 2}
        queue, default = collections.deque([1, a]), collections.defaultdict(list)
        point, module, method = Point(1, a), functools, holder.__class__
        print(text)
        default["k"].append(queue.pop() + 1)
        return (
            holder.own is holder,
            partial(5),
            items[pair],
            members,
            queue,
            dict(default),
            point,
            module is functools,
            method is Holder,
        )

    items = [7, 8, 9]
    check(fn, X, graphs=1, breaks={"print": 1})


def test_break_in_a_long_loop_does_not_nest():
    def fn(a):
        for i in range(400):
            if i % 2:
                print(i)
        return a * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain_and_compiled_agree(fn)


def plain_and_compiled_agree(fn):
    from .harness import compare

    compare(fn, torch.compile(fn, backend="eager"), (X,), "long loop")


def test_break_in_with():
    class Manager:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")
            return self

        def __exit__(self, *error):
            self.log.append("exit")

    def fn(a):
        log = []
        with Manager(log):
            b = a + 1
            print("inside")
            b = b * 2
        return b, log

    check(fn, X, graphs=2, breaks={"print": 1})


def test_break_in_no_grad():
    def fn(a):
        with torch.no_grad():
            b = a + 1
            print("inside", torch.is_grad_enabled())
            b = b * 2
        return b, torch.is_grad_enabled(), a * 2

    check(fn, torch.ones(2, 3, requires_grad=True), graphs=3, breaks={"print": 1, "grad-mode": 1})


def test_break_in_try():
    def fn(a):
        try:
            b = a + 1
            print("inside")
            b = b * 2
            raise KeyError("k")
        except KeyError:
            b = b + 5
        return b

    check(fn, X, graphs=2, breaks={"print": 1})


def test_broken_instruction_raises_into_handler():
    def bad():
        raise ValueError("from Python")

    def fn(a):
        b = a + 1
        try:
            print(bad())
        except ValueError as error:
            return b * 2, str(error)

    check(fn, X, graphs=None, breaks=None)


def test_handler_with_break():
    def fn(a):
        try:
            raise ValueError("v")
        except ValueError:
            print("handling")
            return a + 1

    check(fn, X, graphs=None, breaks=None)


def test_uncaught_exception_is_the_programs():
    def fn(a):
        b = a + 1
        raise ValueError(f"rank {b.dim()}")

    check(fn, X, graphs=None, breaks={"exception": 1})


def test_shape_error_is_eagers():
    def fn(a):
        return a + torch.ones(7, 7)

    check(fn, X, graphs=None, breaks=None)


def test_unsupported_builtin():
    def fn(a):
        b = a + 1
        n = int(time.time() > 0)
        return b * n

    check(fn, X, graphs=2, breaks=1)


def test_generator_in_the_stack_runs_plain():
    def fn(a):
        g = (a * i for i in range(2))
        first = next(g)
        print("half")
        return first, list(g)

    check(fn, X, graphs=None, breaks=1)


def test_cells_cross():
    def fn(a):
        n = 1

        def add():
            nonlocal n
            n += 1
            return n

        add()
        print("between")
        add()
        return a * n

    check(fn, X, graphs=1, breaks={"print": 1})


def test_list_identity_crosses():
    def fn(a):
        items = [a]
        alias = items
        print("x")
        alias.append(a + 1)
        return items, items is alias

    check(fn, X, graphs=1, breaks={"print": 1})


def test_comprehension_with_break():
    def fn(a):
        return [(print(i), a + i)[1] for i in range(2)]

    check(fn, X, graphs=None, breaks=None)


def test_break_keeps_mutations_in_order():
    def fn(a, log):
        log.append("before")
        print(len(log))
        log.append("after")
        return a + len(log)

    check(fn, X, [], graphs=1, breaks={"print": 1})


def test_disabled_function():
    @torch.compiler.disable
    def plain(v):
        return v * 2

    def fn(a):
        return plain(a + 1) + 1

    check(fn, X, graphs=2, breaks={"disabled": 1})


def test_fullgraph_tells_reason_and_line():
    def fn(a):
        b = a + 1
        print("no")
        return b

    with pytest.raises(Unsupported) as caught:
        torch.compile(fn, backend="eager", fullgraph=True)(X)
    check(fn, X, breaks={"print": 1})
    assert caught.value.code == "print" and "test_breaks.py" in str(caught.value) and 'print("no")' in str(caught.value)


def test_explain_lists_breaks():
    def fn(a):
        b = a + 1
        print("one")
        return b * 2 if b.sum().item() > 0 else b

    told = torch.compiler.explain(fn, backend="eager")(X)
    assert told.graph_break_count == 2 and told.graph_count == 3
    assert [one.code for one in told.breaks] == ["print", "data-dependent size"]
    assert all("test_breaks.py" in one.line and one.fix for one in told.breaks)


def test_hooks_inside_break():
    def fn(w):
        seen = []
        y = w * w
        y.register_hook(seen.append)
        y.sum().backward()
        return seen

    check(fn, torch.ones(3, requires_grad=True), graphs=2, breaks={"backward": 2})


def test_recording_is_switched_on_a_captured_tensor():
    def fn(a):
        y = (a * 2).requires_grad_()
        y.sum().backward()
        return y, y.grad

    check(fn, X, graphs=2, breaks={"metadata": 1})


def test_a_captured_tensor_is_detached_in_place():
    weight = torch.ones(3, requires_grad=True)

    def fn(a):
        return (a * weight).detach_() * 2, (a * 2).detach_(), a.requires_grad_(False)

    check(fn, X, graphs=2, breaks={"metadata": 1})


def test_one_text_everywhere(capsys):
    """fullgraph=True, explain and the log say the same: what, the user's line, what to do."""

    def inner(a):
        a = a + 1
        print("in the middle")
        return a

    def fn(a):
        return inner(a) * 2

    with pytest.raises(RuntimeError) as raised:
        torch.compile(fn, backend="eager", fullgraph=True)(X)
    with config.patch(logs=("breaks",)):
        told = torch.compiler.explain(fn, backend="eager")(X).breaks[0]
    log = capsys.readouterr().err
    assert raised.value.code == told.code == "print" and raised.value.fix == told.fix
    for text in (told.text, told.fix, told.line):
        assert text in str(raised.value) and text in str(told) and text in log


def test_a_frame_that_is_traced_too_often_runs_plain_for_a_reason(monkeypatch):
    monkeypatch.setattr(convert_frame, "MAX_RESTARTS", 1)

    def fn(a):
        leaf = a.detach().clone().requires_grad_()
        return leaf * 2, leaf

    with config.patch(strict=True):
        told = torch.compiler.explain(fn, backend="eager")(X)
        counters.reset()
        assert torch.equal(torch.compile(fn, backend="eager")(X)[0], X * 2)
        assert sum(counters.snapshot()["breaks"].values()) == 1
    assert [b.code for b in told.breaks] == ["resume"] and "took for granted" in told.breaks[0].text
