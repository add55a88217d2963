"""Values of a program that breaks live as long as they would without compilation: not longer, and not shorter."""

import functools
import gc
import itertools
import sys
import threading
import weakref

import pytest

import flambeau as torch


class Thing:
    """Something to hold weakly."""


class Last:
    """Tells when it ends."""

    def __init__(self, told):
        self.told = told

    def __del__(self):
        self.told.append(sys.exc_info())


def alive(watched):
    """A call that compiled code breaks at. What compiling left behind in cycles does not count."""
    if any(ref() is not None for ref in watched):
        gc.collect()
    return [ref() is not None for ref in watched]


alive = torch.compiler.disable(alive)


def rebound(seen):
    thing = Thing()
    watched = [weakref.ref(thing)]
    seen += alive(watched)
    thing = None
    seen += alive(watched)


def deleted(seen):
    thing, other = Thing(), Thing()
    watched = [weakref.ref(thing), weakref.ref(other)]
    seen += alive(watched)
    del thing
    seen += alive(watched)
    return other


def in_a_loop(seen):
    watched = []
    for _ in range(3):
        thing = Thing()
        watched.append(weakref.ref(thing))
        seen += alive(watched)


def passed_on_the_stack(seen):
    watched = []
    pair = (watch(Thing(), watched), alive(watched), alive(watched))
    seen += pair[1] + pair[2]
    pair = None
    seen += alive(watched)


@torch.compiler.disable
def watch(thing, watched):
    watched.append(weakref.ref(thing))
    return thing


def not_read_again(seen):
    thing = Thing()
    watched = [weakref.ref(thing)]
    seen += alive(watched)
    seen += alive(watched)
    seen += alive(watched)


def behind_a_handler(seen):
    thing = Thing()
    watched = [weakref.ref(thing)]
    try:
        int("x")
    except ValueError:
        thing = None
        seen += alive(watched)
    seen += alive(watched)


def local_class(seen):
    class Local:
        @functools.lru_cache
        def method(self, x):
            return x

        @staticmethod
        @functools.lru_cache
        def static(x):
            return x

    watched = [weakref.ref(Local), weakref.ref(Local.method), weakref.ref(Local.static)]
    seen += alive(watched)
    del Local
    gc.collect()
    seen += alive(watched)


def argument(seen, thing=None):
    thing = thing or Thing()
    return nested(seen, thing)


def nested(seen, thing):
    watched = [weakref.ref(thing)]
    seen += alive(watched)
    return len(seen)


@pytest.mark.parametrize(
    "function",
    [rebound, deleted, in_a_loop, passed_on_the_stack, not_read_again, behind_a_handler, local_class, argument],
    ids=lambda f: f.__name__,
)
def test_lives_as_long_as_without_compilation(function):
    plain, captured = [], []
    function(plain)
    compiled = torch.compile(function, backend="eager")
    for _ in range(2):
        captured.clear()
        compiled(captured)
        assert captured == plain != []


def test_a_big_tensor_that_is_rebound_behind_a_break_is_freed():
    def step(x, seen):
        big = x * 2
        watched = [weakref.ref(big)]
        big = big.sum()
        seen += alive(watched)
        return big

    compiled, seen = torch.compile(step, backend="eager"), []
    for _ in range(3):
        seen.clear()
        assert compiled(torch.ones(4), seen).item() == 8
    assert seen == [False]


def test_what_a_finalizer_sees():
    def f(told):
        try:
            raise ValueError(Last(told))
        except ValueError:
            pass
        gc.collect()
        return len(told)

    told = []
    assert torch.compile(f, backend="eager")(told) == 1 and told == [(None, None, None)]


def test_dead_locals_are_in_the_frame_that_raises():
    def f(n):
        first, second = "a", [n]
        print(end="")
        second.append(first)
        return 1 // n

    with pytest.raises(ZeroDivisionError) as raised:
        torch.compile(f, backend="eager")(0)
    found = dict(raised.traceback[-1].frame.f_locals)
    assert found["n"] == 0 and found["first"] == "a" and found["second"] == [0, "a"]


def unmatched():
    try:
        int("x")
    except TypeError:
        pass


def finished():
    try:
        int("x")
    finally:
        pass


@pytest.mark.parametrize("function", [unmatched, finished])
@pytest.mark.parametrize("inner", [False, True])
def test_the_line_at_which_a_frame_ended(function, inner):
    def lines(call):
        with pytest.raises(ValueError) as raised:
            call()
        trace, found = raised.value.__traceback__, []
        while trace:
            found.append((trace.tb_frame.f_code.co_name, trace.tb_lineno, trace.tb_frame.f_lineno))
            trace = trace.tb_next
        return [row for row in found if row[0] == function.__name__]

    def caller():
        print(end="")
        function()

    called = caller if inner else function
    assert lines(torch.compile(called, backend="eager")) == lines(called) != []


def test_ids_of_tuples_that_are_filled_again():
    def f():
        few = len(set(map(id, zip("abc", "def")))), len(set(map(id, itertools.combinations("abcde", 3))))
        return *few, len(set(map(id, list(zip("abc", "def")))))

    assert torch.compile(f, backend="eager")() == f() == (1, 1, 3)


def test_deep_recursion_under_the_hook():
    def down(n):
        threading.get_ident()
        return 1 + down(n - 1) if n else 0

    def top(n):
        print(end="")
        return down(n)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(60_000)
    try:
        assert torch.compile(top, backend="eager")(50_000) == 50_000
    finally:
        sys.setrecursionlimit(limit)


def test_one_object_under_two_names_across_a_break():
    """The second name keeps the object when the first gets another one."""

    def program(x, y):
        also = y
        torch.manual_seed(1)
        assert y is also
        y = x
        torch.manual_seed(2)
        return also, x, y

    given = torch.zeros(1), torch.ones(1)
    assert [id(t) for t in torch.compile(program, backend="eager")(*given)] == [id(t) for t in program(*given)]
