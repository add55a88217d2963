"""What a program only writes is no guard: containers, counters and texts that grow, against plain Python."""

import collections
import gc
import os
import pathlib
import sys
import weakref

import pytest

import flambeau as torch
from flambeau.runtime import counters

sys.path.insert(0, str(pathlib.Path(__file__).parent))   # pytest's importlib mode does not
import growth_programs

CASES = int(os.environ.get("GROWTH_CASES", 150))          # drawn programs


def calls(make, count=14, backend="eager"):
    """(results and states plainly, compiled; recompilations) of a function and a state that `make` gives."""
    seen = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, backend=backend)):
        counters.reset()
        f, state = make()
        f = wrap(f)
        seen.append(([growth_programs.picture(f(torch.ones(3) + i, i)) for i in range(count)], growth_programs.picture(state())))
    return *seen, counters.snapshot()["recompiles"]


def check(make, most=2, **how):
    plain, compiled, recompiles = calls(make, **how)
    assert compiled == plain
    assert recompiles <= most
    assert counters.snapshot()["fallbacks"] == {}


def holder(start, act):
    def make():
        held = start()

        def f(x, i):
            more = act(held, x, i)
            return x * (2 if more is None else more)
        return f, lambda: held
    return make


def grow(held, x, i):
    held.append(x)
    held.append(i)


def use_length(held, x, i):
    before = len(held)
    held.append(x)
    return before * 10 + len(held)


def last_and_first(held, x, i):
    held.append(float(i))
    return held[-1] + held[0] + (1 if held else 2)


def table_with_length(held, x, i):
    held[i] = x
    return len(held) + (i in held) + ((i + 100) in held)


def texts(held, x, i):
    held["n"] = f"{i:03d}|{'%d-%s' % (i, 'a')}|{str(i) + '!'}"
    held[f"step {i}/loss"] = f"{i}:{i * 0.5}"
    held["all"] = held.get("all", "") + f"{i},"


def display(held, x, i):
    held.append({f"loss {i}": x, "i": i})
    held.append({i, "a"})


def move_to_end(held, x, i):
    held[i] = x
    held.move_to_end("last")


def popped(held, x, i):
    held.append(i)
    held.append(x)
    return held.pop().sum() + held[-1]


ACTS = {
    "list": (list, grow), "length": (list, use_length), "ends": (lambda: [1.0], last_and_first), "table": (dict, table_with_length),
    "texts": (dict, texts), "displays": (list, display), "popped": (list, popped),
    "insert": (list, lambda h, x, i: h.insert(0, i)), "extend": (list, lambda h, x, i: h.extend((x, i))),
    "full deque": (lambda: collections.deque(maxlen=3), lambda h, x, i: h.append(x.sum())),
    "left": (collections.deque, lambda h, x, i: h.appendleft(i)), "set": (set, lambda h, x, i: h.update((i, f"k{i}"))),
    "counter": (collections.Counter, lambda h, x, i: h.update([i, "a"])),
    "default": (lambda: collections.defaultdict(list), lambda h, x, i: h["loss"].append(x.sum().item())),
    "default of numbers": (lambda: collections.defaultdict(int), lambda h, x, i: h.__setitem__("n", h["n"] + i)),
    "ordered": (lambda: collections.OrderedDict(last=0), move_to_end),
    "tuples": (dict, lambda h, x, i: h.__setitem__(("epoch", i), x)), "rows": (lambda: growth_programs.Rows(), grow),
    "at a place": (lambda: [None] * 20, lambda h, x, i: h.__setitem__(i, x)),
    "itself": (list, lambda h, x, i: h.append(h)), "item of a tensor": (list, lambda h, x, i: h.append(f"{x.sum().item():.3f}")),
}


@pytest.mark.parametrize("name", ACTS)
def test_growth_is_no_guard(name):
    check(holder(*ACTS[name]))


def test_a_write_is_seen_by_a_later_read():
    def act(held, x, i):
        held.append(i)
        held[-1] += 1
        held.extend([5, 6])
        held.pop()
        held.insert(0, held[-1])
        return held[0] + held[-1] + held[-2] + len(held)
    check(holder(list, act))


def test_lists_that_become_one_are_told_apart():
    def f(a, b, x):
        a.append(1)
        b.append(2)
        return x * len(a)
    compiled = torch.compile(f, backend="eager")
    for same in (False, True, False):
        for g in (f, compiled):
            a = [0]
            b = a if same else [0]
            assert g(a, b, torch.ones(1)).item() == (3 if same else 2)
            assert (a, b) == (([0, 1, 2],) * 2 if same else ([0, 1], [0, 2]))


def test_counters_that_become_one_are_told_apart():
    def f(a, b, x):
        a["n"] += 1
        b["n"] += 1
        return x * a["n"]
    compiled = torch.compile(f, backend="eager")
    for same in (False, True):
        a = collections.Counter(n=3)
        b = a if same else collections.Counter(n=3)
        assert compiled(a, b, torch.ones(1)).item() == (5 if same else 4)


def test_methods_of_a_derived_class_are_not_called_again():
    told = []

    class Told(list):
        def append(self, value):
            told.append(value)
            super().append(value)

        def __setitem__(self, at, value):
            told.append(at)
            super().__setitem__(at, value)

    def f(held, x):
        held.append(1)
        held[0] = 2
        return x + 1
    compiled, held = torch.compile(f, backend="eager"), Told([0])
    for n in range(3):
        compiled(held, torch.ones(1))
        assert len(held) == n + 2 and held[0] == 2 and len(told) == 2 * n + 2


def test_a_history_keeps_its_tensors_and_nothing_else_alive():
    held = []

    def f(x):
        y = x * 2
        held.append(y.sin())
        return y
    compiled = torch.compile(f, backend="inductor")
    refs = [weakref.ref(compiled(torch.ones(4) + i)) for i in range(6)]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 6 and len({id(t) for t in held}) == 6
    assert all(torch.equal(t, ((torch.ones(4) + i) * 2).sin()) for i, t in enumerate(held))
    kept = [weakref.ref(t) for t in held]
    held.clear()
    gc.collect()
    assert [ref() for ref in kept] == [None] * 6


def test_items_that_are_read_are_guarded():
    def f(held, x):
        return x * held[1] if held else x
    compiled = torch.compile(f, backend="eager")
    for held in ([1, 2], [1, 3], [1, 4, 5], [], [1, 2.5]):
        assert torch.equal(compiled(held, torch.ones(2)), f(held, torch.ones(2)))
    with pytest.raises(IndexError):
        compiled([1], torch.ones(2))


@pytest.mark.parametrize("part", range(3))
def test_drawn_programs(part):
    found = []
    for seed in range(part * CASES // 3, (part + 1) * CASES // 3):
        told = growth_programs.differs(seed, growth_programs.BACKENDS[seed % len(growth_programs.BACKENDS)])
        found += [told] if told else []
    assert not found, "\n\n".join(found[:3])


def test_a_key_that_changes_is_looked_for():
    def f(held, x, i):
        return x * (10 if i in held else 1)
    compiled, held = torch.compile(f, backend="eager"), {3: 0, 5: 0, 8: 0}
    for i in (2, 4, 5, 6, 3, 8, 9):
        assert torch.equal(compiled(held, torch.ones(2), i), f(held, torch.ones(2), i))
    assert counters.snapshot()["fallbacks"] == {}


def test_a_text_from_outside_is_guarded_where_it_is_asked():
    def f(held, x, name):
        held.append(name)
        held.append(f"{name}/loss")
        return x * 2
    compiled, held = torch.compile(f, backend="eager"), []
    counters.reset()
    for n in range(6):
        compiled(held, torch.ones(2), f"run {n}")
    assert held[-2:] == ["run 5", "run 5/loss"] and counters.snapshot()["recompiles"] == 0
    ask = torch.compile(lambda x, name: x * (2 if name == "a" else 3), backend="eager")
    assert [ask(torch.ones(1), name).item() for name in ("a", "b", "a")] == [2, 3, 2]
