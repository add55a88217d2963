"""What CPython's own tests and the fuzzing of guards found: iterators, attributes, caches, long loops. Plain and captured agree."""

import functools
import itertools
import textwrap

import pytest

import flambeau as torch
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime import counters
from flambeau.runtime.config import config

PROGRAMS = """
it = iter(range(10)); a = islice(it, 3)
CUT; b = next(it); r = b, list(a), list(it)
--
it = iter(range(10)); a = islice(it, 1, 8, 3); x = next(a)
CUT; r = x, list(a), list(it), type(a).__name__
--
it = iter(range(3)); a = islice(it, 1, 9, 2); x = next(a)
CUT; r = x, list(a), list(it), list(islice('abc', 0)), list(islice('abc', None))
--
a = accumulate(count(1))
CUT; r = next(a), next(a), next(a), list(accumulate([1, 2], initial=None)), list(accumulate([], initial=3))
--
a = pairwise(count(1))
CUT; r = next(a), next(a), list(pairwise('a')), list(pairwise('abc'))
--
a = zip_longest('abc', [1], fillvalue=0); x = next(a), next(a)
CUT; r = x, list(a), list(a), list(zip_longest()), list(zip_longest('', 'ab'))
--
a = permutations('abc', 2); x = next(a)
CUT; r = x, list(a), list(product('ab', repeat=2)), list(combinations([1, 2, 3], 2)), type(a).__name__, list(product())
--
a, b, c = tee('abcd', 3); x = next(a), next(a), next(b)
CUT; r = x, list(a), list(b), list(c), type(a).__name__
--
a, b = tee('abc'); next(a); c, d = tee(a)
CUT; r = a is c, list(d), list(b), list(c), tee('', 0)
--
g = [(k, list(v)) for k, v in groupby('AAbbbC')]
CUT; r = g, [(k, list(v)) for k, v in list(groupby('AAbC'))], [(k, list(v)) for k, v in groupby(range(9), lambda v: v // 4)]
--
gs = groupby([1, 1, 2, 2, 3]); k, g = next(gs); a = next(g); k2, g2 = next(gs)
r = k, a, k2, list(g), list(g2), [(k, list(v)) for k, v in gs]
--
a = count(step=-1); x = next(a), next(a)
CUT; r = x, next(a), list(zip(count(5, 2), 'ab'))
--
it = iter(range(5)); x = next(it)
CUT; r = x, list(it), type(it).__name__
--
s = Guarded(); s.x = 5; del s.x
CUT; r = hasattr(s, 'x'), told(lambda: s.__delattr__('x')), told(lambda: delattr(s, 'kind'))
--
r = told(lambda: len(Sized(2.5))), told(lambda: bool(Sized(-1))), told(lambda: bool(Truth(1))), len(Sized(True))
--
def w(): pass
def g(): pass
g.a = 1; w.__dict__.update(g.__dict__)
CUT; g.b = 2; w.__dict__.update(g.__dict__); r = w.a, w.b, list(w.__dict__)
--
a = Number(5); x = a.add(1), a.add(2)
CUT; r = x, a.n, a.add(3), a.n
"""


class Guarded:
    kind = 1

    def __delattr__(self, name):
        super().__delattr__(name)


class Sized:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


class Truth(Sized):
    def __bool__(self):
        return self.size


class Number(int):
    n = 0

    def add(self, x):
        self.n += 1
        return x * 10 + self


def told(f):
    try:
        return f()
    except (AttributeError, NameError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def interpreted(graph, example_inputs):
    return Interpreter(graph).run


def program(text, cut):
    lines = [line for part in text.strip().split("\n") for line in part.replace("CUT; ", f"{cut}\n").split("\n")]
    source = "def f(t):\n" + textwrap.indent("\n".join(lines), "    ") + "\n    return r, t + 1\n"
    scope = {**vars(itertools), **globals()}
    exec(source, scope)
    return scope["f"]


@pytest.mark.parametrize("cut", ["pass", "print(end='')"], ids=["whole", "cut"])
@pytest.mark.parametrize("text", PROGRAMS.split("--\n"), ids=range(len(PROGRAMS.split("--\n"))))
def test_program(text, cut):
    t = torch.ones(2)
    with config.patch(strict=True):
        captured = torch.compile(program(text, cut), backend=interpreted)
        for _ in range(2):
            assert repr(captured(t)) == repr(program(text, cut)(t))


def test_a_small_cache_sees_the_calls_that_python_makes():
    made = []

    @functools.lru_cache(2)
    def f(x):
        made.append(x)
        return x * 10

    def several(t):
        return [f(x) for x in (1, 2, 2, 3, 1, 1, 2, 3, 3)], t + 1

    expected = several(torch.ones(1))[0], list(made), f.cache_info()
    f.cache_clear()
    made.clear()
    found = torch.compile(several, backend=interpreted)(torch.ones(1))[0]
    assert (found, made, f.cache_info()) == expected


def test_names_and_slots_are_guarded():
    class Slotted:
        __slots__ = ("a",)

    def g():
        """Renamed below."""

    module, owner = torch.nn.Identity(), Slotted()
    f = torch.compile(lambda t, g, m, o: (g.__name__, hasattr(m, "added"), hasattr(o, "a"), t + 1), backend=interpreted)
    assert f(torch.ones(1), g, module, owner)[:3] == ("g", False, False)
    g.__name__, module.added, owner.a = "h", 1, 2
    assert f(torch.ones(1), g, module, owner)[:3] == ("h", True, True)


def test_long_loops_run_in_python():
    def busy(t):
        total = 0
        for i in range(30_000):
            total += i
        return t + total

    def asks(t):
        return t + any(v < 0 for v in range(30_000))

    def sorts(t):
        return t + sorted([(v % 7, v) for v in range(3_000)])[9][1]

    for f in (busy, asks, sorts):
        counters.reset()
        assert torch.equal(torch.compile(f, backend=interpreted)(torch.zeros(1)), f(torch.zeros(1)))
        assert counters.snapshot()["breaks"], f


def test_long_lists_of_numbers_sort_without_a_break():
    def f(t, k, numbers):
        return t + sorted(numbers)[3], sorted([k, 3, 1]), sorted([k, 3], reverse=True), sorted([True, False]), sorted([])

    numbers = [v * 7919 % 3001 for v in range(3_000)]
    captured = torch.compile(f, backend=interpreted)
    counters.reset()
    for k in (2, 5, 2, 0, 1.5):
        assert repr(captured(torch.ones(1), k, numbers)) == repr(f(torch.ones(1), k, numbers))
    assert not counters.snapshot()["breaks"]


def shadows_a_cell(xs):
    for b in xs:
        k = lambda: b
    return [(int("7"), b, cut(b))[1:] for b in xs], {b: cut(b) for b in xs if cut(b)}, b, k()


def shadows_twice(xs):
    for b in xs:
        k = lambda: b
    return [[(b, cut(b)) for b in (b, cut(b))] for b in xs if cut(b)], b, k()


def shadows_a_free_variable(xs):
    b = 50

    def inner():
        return [(b, cut(b)) for b in xs], b

    return inner()


def makes_cells_and_shadows(xs):
    for b in xs:
        k = lambda: b
    made = [(cut(b), lambda: b)[1] for b in xs]
    return [(b, cut(b)) for b in xs], [f() for f in made], b, k()


def makes_cells_of_a_free_name(xs):
    b = 7

    def inner():
        made = [(cut(b), lambda: b)[1] for b in xs]
        return [(b, cut(b)) for b in xs], [f() for f in made], b

    return inner()


def shadows_and_raises(xs):
    b = 1
    k = lambda: b
    try:
        return [1 // cut(b) for b in (*xs, 0)]
    except ZeroDivisionError:
        return b, k()


def shadows_what_has_no_value(xs):
    def k():
        return b

    r = [cut(b) for b in xs]
    text = told(k)
    b = 3
    return r, text, k()


@torch.compiler.disable
def cut(b):
    return b


@pytest.mark.parametrize(
    "program",
    [
        shadows_a_cell,
        shadows_twice,
        shadows_a_free_variable,
        makes_cells_and_shadows,
        makes_cells_of_a_free_name,
        shadows_and_raises,
        shadows_what_has_no_value,
    ],
)
def test_comprehensions_over_names_of_cells(program):
    counters.reset()
    with config.patch(strict=True):
        assert torch.compile(program, backend=interpreted)([1, 2]) == program([1, 2])
        assert torch.compile(lambda: program([1, 2]), backend=interpreted)() == program([1, 2])
    assert counters.snapshot()["breaks"]
