"""What a program only writes is no guard: containers, counters and texts that grow, against plain Python."""

import collections
import gc
import os
import weakref

import pytest

import flambeau as torch
from flambeau.runtime import counters

from . import growth_programs

CASES = int(os.environ.get("GROWTH_CASES", 150))  # drawn programs


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
    "list": (list, grow),
    "length": (list, use_length),
    "ends": (lambda: [1.0], last_and_first),
    "table": (dict, table_with_length),
    "texts": (dict, texts),
    "displays": (list, display),
    "popped": (list, popped),
    "insert": (list, lambda h, x, i: h.insert(0, i)),
    "extend": (list, lambda h, x, i: h.extend((x, i))),
    "full deque": (lambda: collections.deque(maxlen=3), lambda h, x, i: h.append(x.sum())),
    "left": (collections.deque, lambda h, x, i: h.appendleft(i)),
    "set": (set, lambda h, x, i: h.update((i, f"k{i}"))),
    "counter": (collections.Counter, lambda h, x, i: h.update([i, "a"])),
    "default": (lambda: collections.defaultdict(list), lambda h, x, i: h["loss"].append(x.sum().item())),
    "default of numbers": (lambda: collections.defaultdict(int), lambda h, x, i: h.__setitem__("n", h["n"] + i)),
    "ordered": (lambda: collections.OrderedDict(last=0), move_to_end),
    "tuples": (dict, lambda h, x, i: h.__setitem__(("epoch", i), x)),
    "rows": (lambda: growth_programs.Rows(), grow),
    "at a place": (lambda: [None] * 20, lambda h, x, i: h.__setitem__(i, x)),
    "itself": (list, lambda h, x, i: h.append(h)),
    "item of a tensor": (list, lambda h, x, i: h.append(f"{x.sum().item():.3f}")),
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


def test_an_entry_that_setdefault_gives_and_nobody_takes_is_not_asked_for():
    def make():
        counts, table = collections.defaultdict(int), {"last": 0}

        def f(x, i):
            counts["n"] += 1
            table.setdefault(i, i)
            table.setdefault(i + 1, [i])
            counts["n"] += i
            return x * 2

        return f, lambda: [counts, table]

    check(make)


def test_an_entry_that_setdefault_gives_is_the_one_that_is_there():
    def make():
        table = {k: [k] for k in range(20)}

        def f(x, i):
            taken = table.setdefault(i, [])
            taken.append(1)
            return x + len(taken), taken

        return f, lambda: table

    plain, compiled, _ = calls(make)
    assert compiled == plain


def test_a_place_that_held_a_text_and_then_a_tuple():
    def make():
        held = [0, "b"]

        def f(x, i):
            held.insert(0, (i, x))
            r = x + (None in held)
            held.insert(0, (i, x))
            return r

        return f, lambda: held

    plain, compiled, _ = calls(make, count=5)
    assert compiled == plain and counters.snapshot()["fallbacks"] == {}


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


# -- what no guard can leave open --------------------------------------------------------------------------------------------

MOST_ENTRIES = 5


def bounded(make, count=30):
    """The same as plain Python, and no door that runs plain after too many entries; (recompilations, breaks)."""
    plain, compiled, recompiles = calls(make, count=count)
    assert compiled == plain
    told = counters.snapshot()
    assert told["fallbacks"] == {} and recompiles <= MOST_ENTRIES
    return recompiles, told["breaks"]


class Holder:
    def __init__(self):
        self.h, self.t, self.d, self.n, self.text, self.seen = [], (), {}, 0, "", None

    def __repr__(self):
        return repr(growth_programs.picture(vars(self)))


MADE_ANEW = {
    "list and one": lambda s, x, i: setattr(s, "h", s.h + [x]),
    "starred": lambda s, x, i: setattr(s, "h", [*s.h, x]),
    "in front": lambda s, x, i: setattr(s, "h", [x] + s.h),
    "copy": lambda s, x, i: setattr(s, "h", list(s.h) + [i]),
    "tuple": lambda s, x, i: setattr(s, "t", s.t + (i,)),
    "tuple of tensors": lambda s, x, i: setattr(s, "t", (*s.t, x)),
    "window of a tuple": lambda s, x, i: setattr(s, "t", (s.t + (i,))[-3:]),
    "table": lambda s, x, i: setattr(s, "d", {**s.d, i: x}),
    "union": lambda s, x, i: setattr(s, "d", s.d | {i: x}),
    "window": lambda s, x, i: (s.h.append(i), sum(s.h[-8:]))[1],
    "long window": lambda s, x, i: (s.h.append(x), setattr(s, "seen", s.h[-90:]))[1],
    "mean": lambda s, x, i: (s.h.append(float(i)), sum(s.h) / len(s.h))[1],
    "stack": lambda s, x, i: (s.h.append(x), torch.stack(s.h).mean(0))[1],
    "middle": lambda s, x, i: (s.h.append(i), s.h[len(s.h) // 2])[1],
    "comprehension": lambda s, x, i: (s.h.append(x), [y * 2 for y in s.h][-1])[1],
    "upper": lambda s, x, i: setattr(s, "seen", f"step {i}".upper()),
    "split": lambda s, x, i: int(f"step {i}".split()[1]),
    "key": lambda s, x, i: s.d.update({f"k{i}": s.d.get(f"k{i}", 0) + 1}),
    "attribute": lambda s, x, i: setattr(s, f"a{i}", x),
    "log": lambda s, x, i: (setattr(s, "text", (s.text or "") + f"{i} "), len(s.text))[1],
    "every third": lambda s, x, i: s.d.update({i % 3: s.d.get(i % 3, 0) + 1}),
}


@pytest.mark.parametrize("name", MADE_ANEW)
def test_what_is_made_anew_is_bounded(name):
    recompiles, breaks = bounded(holder(Holder, MADE_ANEW[name]))
    assert set(breaks) <= {"growth"} and breaks.get("growth")


@pytest.mark.parametrize("size", [4, 8])
def test_a_deque_that_fills_up_breaks_until_it_is_full(size):
    """Full, it is compiled whole."""

    def make():
        held = collections.deque(maxlen=size)

        def f(x, i):
            held.append(x)
            return torch.stack(list(held)).sum()

        return f, lambda: len(held)

    f, _ = make()
    compiled = torch.compile(f, backend="eager")
    for i in range(size):
        compiled(torch.ones(3) + i, i)
    counters.reset()
    for i in range(20):
        compiled(torch.ones(3) + i, i)
    assert counters.snapshot()["breaks"] == {} and counters.snapshot()["frames"] == 1


def test_a_window_is_compiled_whole_when_the_list_is_long_enough():
    held = []

    def f(x):
        held.append(x)
        return torch.stack(held[-3:]).sum()

    compiled = torch.compile(f, backend="eager")
    counters.reset()
    for i in range(12):
        assert compiled(torch.ones(2) + i).item() == sum(2 * (1 + k) for k in range(max(0, i - 2), i + 1))
        if i == 1:
            assert counters.snapshot()["breaks"] == {"growth": 2}
            counters.reset()
    told = counters.snapshot()
    assert told["breaks"] == {} and told["frames"] == 1 and told["fallbacks"] == {}


FALLING = {
    "modulo": lambda s, x, i: (setattr(s, "n", (s.n + 1) % 5), s.n)[1],
    "toggle": lambda s, x, i: (setattr(s, "n", 1 - s.n), s.n)[1],
    "patience": lambda s, x, i: (setattr(s, "n", 0 if i % 4 == 3 else s.n + 1), s.n)[1],
    "behind a comparison": lambda s, x, i: (setattr(s, "n", i if i < 10 else s.n - 1), s.n)[1],
}


@pytest.mark.parametrize("name", FALLING)
def test_numbers_that_fall_again_find_their_entries(name):
    recompiles, breaks = bounded(holder(Holder, FALLING[name]))
    assert not breaks and recompiles <= 4


def test_counters_of_the_frame_itself_behind_a_break(capsys):
    def make():
        def f(x, i):
            n, found, made = 0, {}, ()
            for k in range(9):
                n += 1
                found[f"k{k}"] = n
                made += (x * n,)
                print(end="")
            return made, found

        return f, lambda: 0

    plain, compiled, _ = calls(make)
    assert compiled == plain and counters.snapshot()["fallbacks"] == {}


def test_growth_is_no_break_under_fullgraph():
    held = Holder()

    def f(x):
        held.h = held.h + [x]
        return x * 2

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    counters.reset()
    for i in range(5):
        compiled(torch.ones(2))
    assert len(held.h) == 5 and counters.snapshot()["breaks"] == {}


def test_what_callers_pass_is_no_growth():
    """Lists of other lengths that the program does not write, and texts and numbers of modes, have entries as they always had."""

    def f(x, rows, mode, n):
        return sum(rows) * (2 if mode == "a" else 3) + (x * 2 if n == 3 else x)

    compiled = torch.compile(f, backend="eager")
    counters.reset()
    for n in range(1, 6):
        args = torch.ones(2), [torch.ones(2)] * n, "abcde"[n - 1], 3
        assert torch.equal(compiled(*args), f(*args))
    assert counters.snapshot()["breaks"] == {}


def test_a_function_behind_a_growth_break_breaks_at_once():
    """What its caller found out about an instruction, a function that is captured by itself need not find out again."""
    held = Holder()

    def mean(values):
        return sum(values) / len(values)

    def f(x, i):
        held.h.append(x * i)
        return x * mean(held.h)

    compiled = torch.compile(f, backend="eager")
    counters.reset()
    for i in range(20):
        assert compiled(torch.ones(1), i).item() == pytest.approx(i / 2)
    told = counters.snapshot()
    assert told["breaks"] == {"growth": 2} and told["recompiles"] <= 4 and told["fallbacks"] == {}


def test_a_number_beside_members_of_other_types_is_learned():
    """Each entry differed in the type of a member too, so that the number stayed a constant of eight of them."""

    def make():
        held = {"last": 0}

        def f(x, i):
            nonlocal held
            held = {**held, i: x}
            print(end="")
            held[i] = held.get(i, 0) + 1
            held = {**held, i: f"a-{i}"}
            held.update(last=f"step {i}")
            return x * 2

        return f, lambda: held

    plain, compiled, recompiles = calls(make)
    assert compiled == plain and recompiles <= 6  # of both doors and what follows a growth break


def test_what_several_failed_entries_teach():
    from flambeau.capture.guards.recompiles import AutomaticDynamic, learn_dynamic

    failure = lambda kind, name, **more: type(
        "Failure", (), {"kind": kind, "name": name, "old": 1, "new": 2, "dim": None, **more}
    )()
    other, number, size = failure("type_is", "y"), failure("int", "n"), failure("size", "x", dim=0)
    for entries, want in (
        ([[number]], {"n": True}),
        ([[number, other]], {}),
        ([[number, other], [number, other]], {"n": True}),
        ([[number, other], [other]], {}),
        ([[number, other], [number, size]], {"n": True, "x": {0}}),
    ):
        learned = AutomaticDynamic()
        learn_dynamic(learned, entries)
        assert learned.symbolic == want


def test_a_value_that_cannot_be_shown_is_named_by_its_type():
    """Why a frame is compiled again is told with old and new values; their own code may raise, here that of a sorted Counter."""

    def make():
        counts = collections.Counter("a")

        def f(x, i):
            if i % 3 == 0:
                counts.setdefault(0, i)
            total = sum(counts.values())
            counts[i + 1] = x.detach()
            return x * 2 + (total if isinstance(total, int) else total.sum())

        return f, lambda: {k: growth_programs.picture(v) for k, v in counts.items()}

    plain, compiled, _ = calls(make)
    assert plain == compiled
