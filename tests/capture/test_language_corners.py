"""Corners of the language that a random program or one of CPython's own tests met: captured, they do what Python does."""

import enum
import functools
import os
import sys
import types

import pytest

import flambeau as torch
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime.config import config


@pytest.fixture(autouse=True)
def strict():
    """An error of the compiler is an error, too."""
    with config.patch(strict=True):
        yield


class Seen:
    """A descriptor that gives something else than itself."""

    def __init__(self, value):
        self.value = value

    def __get__(self, owner, cls=None):
        return (self.value, os.getpid() > 0)


class Home:
    seen = Seen(3)

    @functools.singledispatchmethod
    def kind(self, value):
        return "something"

    @kind.register(int)
    def _(self, value):
        return "an int"


class Caching(type):
    @functools.cached_property
    def cached(cls):
        return 1


class Cached(metaclass=Caching):
    pass


def error_of(run):
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


def plain_tuple_has_no_fields(x):
    pair = (x, x + 1)
    return hasattr(pair, "_fields"), hasattr((1, 2), "_fields")


def surplus_arguments(x):
    parts = [{1: x}, {2: x}]
    return error_of(lambda: tuple(*parts)), error_of(lambda: list(*parts)), error_of(lambda: set(*parts))


def descriptors_of_a_class(x):
    home = Home()
    return home.seen, Home.seen, home.kind(1), home.kind("")


def caching_metaclass(x):
    return error_of(lambda: Cached.cached)


def comprehension_with_cells(x):
    outer = 3
    first = [(lambda t: t * outer + i)(x) for i in range(2)]
    second = [i + 1 for i in range(3)]
    return first, second, [(lambda i=i: i)() for i in range(2)]


def cell_without_value(items):
    for last in items[:0]:
        pass
    torch._dynamo.graph_break()
    try:
        torch._dynamo.graph_break()
        found = last
    except NameError as error:
        found = type(error)
    return found, lambda: last


def length_of_iterators(x):
    return error_of(lambda: len(zip([1], [2]))), error_of(lambda: len(iter([x]))), error_of(lambda: len(k for k in "ab"))


def exceptions_of_c(x):
    def missing():
        raise ImportError("text", name="name")

    try:
        missing()
    except ImportError as error:
        first = error.name, str(error)
    problem = UnicodeEncodeError("baz", "xxxxx", 1, 5, "foo")
    return (
        first,
        str(problem),
        error_of(lambda: setattr(problem, "__traceback__", 5)),
        error_of(lambda: setattr(problem, "__cause__", 5)),
    )


def clause_that_is_no_class(x):
    def run(classes):
        try:
            raise ValueError(1)
        except classes:
            return 1

    return error_of(lambda: run((5, KeyError))), error_of(lambda: run(ValueError))


seen = []


class Count(int):
    """A number with Python of its own, and a cache that is too small for the program."""

    calls = 0

    @functools.lru_cache(2)
    def times_ten(self, x):
        self.calls += 1
        return x * 10 + self

    @property
    def twice(self):
        self.calls += 1
        return self * 2


class Mode(enum.Enum):
    SMALL = 1
    LARGE = 2

    def scaled(self, x):
        seen.append(self.name)
        return x * self.value


class Pair:
    __slots__ = ("first", "second")


class Base:
    def step(self, x):
        seen.append("base")
        print("a break")
        return x + 1

    @classmethod
    def made(cls, x):
        print("a break")
        return cls, x * 3


class Derived(Base):
    def step(self, x):
        return super().step(x * 2) * 2

    @classmethod
    def made(cls, x):
        return super().made(x - 1)


class Loud(dict):
    def update(self, *args):
        super().update(*args)
        print("a break")

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        print("a break")


def breaks_behind_super(x):
    loud = Loud()
    loud.update({"a": x})
    loud["b"] = x + 1
    return Derived().step(x), Derived.made(x), loud


def small_cache(x):
    count = Count(5)
    Count.times_ten.cache_clear()
    results = [count.times_ten(k) for k in (1, 2, 2, 3, 1, 1, 1, 2, 3, 3)]
    return x + 1, results, count.calls, count.twice, count.calls


def text_of_errors(x):
    texts = []
    for error in (ImportError("no", "such"), NameError("name"), OSError(2, "gone"), AttributeError("a")):
        try:
            raise error
        except (ImportError, NameError, OSError, AttributeError) as caught:
            texts.append(str(caught))
    return x + 1, texts


PROGRAMS = (
    plain_tuple_has_no_fields,
    surplus_arguments,
    descriptors_of_a_class,
    caching_metaclass,
    comprehension_with_cells,
    length_of_iterators,
    exceptions_of_c,
    clause_that_is_no_class,
    small_cache,
    breaks_behind_super,
    text_of_errors,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_is_plain(program):
    compiled = torch.compile(program, backend=lambda graph, inputs: Interpreter(graph).run)
    for x in (torch.ones(2), torch.zeros(2)):
        assert repr(compiled(x)) == repr(program(x))


def test_a_cell_without_value_is_a_local_without_value():
    compiled = torch.compile(cell_without_value, backend=lambda graph, inputs: Interpreter(graph).run)
    assert compiled([1])[0] is UnboundLocalError


def test_methods_of_enum_members_run_once_a_call():
    compiled = torch.compile(
        lambda x, mode: mode.scaled(x) + 1, backend=lambda graph, inputs: Interpreter(graph).run, fullgraph=True
    )
    seen.clear()
    for mode, number in ((Mode.SMALL, 2), (Mode.LARGE, 3), (Mode.SMALL, 2)):
        assert compiled(torch.ones(2), mode).tolist() == [number, number]
    assert seen == ["SMALL", "LARGE", "SMALL"]


def test_attributes_of_a_number_are_guarded():
    compiled = torch.compile(lambda x, n: x + n.weight, backend=lambda graph, inputs: Interpreter(graph).run, fullgraph=True)
    number = Count(1)
    for number.weight in (2, 3):
        assert compiled(torch.ones(2), number).tolist() == [1 + number.weight] * 2


def test_no_place_for_an_attribute():
    def program(x, pair):
        pair.first = 3
        try:
            pair.third = 5
        except AttributeError as error:
            return x + pair.first, str(error)

    compiled = torch.compile(program, backend=lambda graph, inputs: Interpreter(graph).run)
    for pair in (Pair(), Pair()):
        assert repr(compiled(torch.ones(2), pair)) == repr(program(torch.ones(2), Pair()))


def test_an_exception_that_a_caller_handles():
    def program(x):
        return x + 1, sys.exception(), sys.exc_info()[1]

    compiled = torch.compile(program, backend=lambda graph, inputs: Interpreter(graph).run)
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == (None, None)
        try:
            raise KeyError(1)
        except KeyError as error:
            assert compiled(torch.ones(2))[1:] == (error, error)


class Kept:
    def __init__(self):
        self.a = 5

    def __delattr__(self, name):
        self.__dict__.setdefault("log", []).append(name)
        object.__delattr__(self, name)


class Bare:
    a = 0


class Slots:
    __slots__ = ("a", "b")


class Answers:
    """Has an answer to every name, and a property without a value."""

    def __getattr__(self, name):
        return name * 2

    @property
    def empty(self):
        raise AttributeError("nothing yet")


def interpreted(program, **settings):
    return torch.compile(program, backend=lambda graph, inputs: Interpreter(graph).run, **settings)


@pytest.mark.parametrize("make", (Bare, Kept, torch.nn.Identity, lambda: torch.ones(1)))
@pytest.mark.parametrize("there", ((), (0,), (1,), (0, 1, 2)))
def test_what_is_stored_and_deleted_may_have_been_there(make, there):
    def program(x, thing):
        thing.extra = x + 1
        held = thing.extra
        del thing.extra
        return held * 2, hasattr(thing, "extra")

    def calls(run):
        thing = make()
        for k in range(3):
            if k in there:
                thing.extra = k
            found = run(torch.ones(2), thing)
            yield repr(found), list(vars(thing)), vars(thing).get("log")

    assert list(calls(interpreted(program))) == list(calls(program))


def test_a_slot_that_is_stored_and_deleted():
    def program(x, thing, k):
        if k:
            thing.b = x + 1
        del thing.b
        return error_of(lambda: thing.b), error_of(lambda: delattr(thing, "b")), x * 2

    compiled = interpreted(program)
    for k in (1, 1, 0, 0, 1):
        pair = Slots(), Slots()
        pair[0].b = pair[1].b = k
        assert repr(compiled(torch.ones(2), pair[0], k)) == repr(program(torch.ones(2), pair[1], k))
        assert not hasattr(pair[0], "b")
    for _ in range(2):
        assert error_of(lambda: compiled(torch.ones(2), Slots(), 0)) == error_of(lambda: program(torch.ones(2), Slots(), 0))


def explicit_lookups(x):
    made = Answers()
    made.a = x
    del made.a
    return (
        made.b,
        made.empty,
        made.a,
        error_of(lambda: object.__getattribute__(made, "a")),
        error_of(lambda: object.__getattribute__(made, "empty")),
        error_of(lambda: super(Answers, made).__getattribute__("b")),
        x + 1,
    )


def cells_of_a_closure(x):
    def made(v):
        def get():
            return v

        def put(w):
            nonlocal v
            v = w

        return get, put

    get, put = made(x)
    first = get.__closure__[0].cell_contents + 1
    put(x * 3)
    second = get.__closure__[0].cell_contents + 1
    get.__closure__[0].cell_contents = x * 5
    return first, second, get(), put.__closure__[0] is get.__closure__[0], made.__closure__, type(get.__closure__[0]).__name__


def an_empty_cell(x):
    def get():
        return late

    found = error_of(lambda: get.__closure__[0].cell_contents)
    late = x + 1
    return found, get.__closure__[0].cell_contents, get()


def names_of_a_made_function(x):
    def made(v, *, w=2):
        return v + w

    return made(x), made.__kwdefaults__, made.__globals__ is globals(), error_of(lambda: made.absent)


def waits_at_a_yield_in_its_handler(x):
    def numbers():
        try:
            yield x
        except GeneratorExit:
            yield x + 1
        done.append("went on")
        yield x + 2
        return x + 3

    done, it = [], numbers()
    next(it)
    found = [error_of(it.close), done[:], error_of(lambda: next(it)), done[:], error_of(lambda: next(it))]
    return found, error_of(lambda: next(it)), it.close()


@pytest.mark.parametrize(
    "program",
    (explicit_lookups, cells_of_a_closure, an_empty_cell, names_of_a_made_function, waits_at_a_yield_in_its_handler),
    ids=lambda program: program.__name__,
)
def test_drawn_corners(program):
    test_captured_is_plain(program)


def test_a_closure_from_outside():
    def made(v):
        return lambda x: x + v

    def program(x, f):
        held = f.__closure__[0].cell_contents
        f.__closure__[0].cell_contents = held + 1
        return f(x), held

    compiled, pair = interpreted(program), (made(1), made(1))
    for _ in range(3):
        assert repr(compiled(torch.ones(2), pair[0])) == repr(program(torch.ones(2), pair[1]))


@pytest.mark.parametrize("names", ((), ("absent",), ("len",), ("absent", "len")))
def test_names_that_no_module_has_yet(names):
    """A name that was missing is asked for again; a global that hides a builtin goes, and the builtin is there."""
    text = "\n".join(
        (
            "def remove():",
            "    global absent",
            "    del absent",
            "def remove_builtin():",
            "    global len",
            "    del len",
            "def program(x):",
            "    return x + 1, told(lambda: absent), told(remove), told(remove_builtin), told(lambda: len((1,)))",
            "def store(x):",
            "    global len, absent",
            "    absent = len = lambda v: 7",
            "    found = absent(1), len(1)",
            "    del absent, len",
            "    return x + 1, found, told(lambda: absent), len((1,))",
        )
    )

    def calls(wrap):
        world = {"__name__": "world", "told": error_of}
        exec(text, world)
        program, store = wrap(world["program"]), wrap(world["store"])
        for k in range(4):
            if k % 2:
                world.update((name, lambda v: 5) for name in names)
            yield repr(program(torch.ones(2)))[:60], sorted(set(world) & {"absent", "len"})
            found = store(torch.ones(2))
            yield repr((found[0].tolist(), *found[1:])), sorted(set(world) & {"absent", "len"})

    assert list(calls(interpreted)) == list(calls(lambda f: f))


def test_names_that_a_module_lost():
    module = types.ModuleType("other")

    def program(x):
        module.Z = x
        first = error_of(lambda: delattr(module, "Z"))
        return (
            x + 1,
            first,
            error_of(lambda: delattr(module, "Z")),
            error_of(lambda: module.Z),
            error_of(lambda: delattr(module, "Y")),
        )

    compiled = interpreted(program)
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))


ORDERS = (
    "globals().__delitem__('G'); G = 5; globals()['Z'] = 6",
    "del G; G = 5; Z = 6",
    "Z = 1; del Z; globals()['Y'] = 6; Z = 2",
    "Z = 1; del G; G = 2",
    "Z = 1; del Z; Z = 2; Y = 6",
    "Y = 1; Z = 2; Y = 3; del G; del Y; Y = 4",
    "H = 1; Z = 2; G = 3",
)


@pytest.mark.parametrize("lines", ORDERS)
def test_names_of_a_module_in_the_order_in_which_they_were_stored(lines):
    seen = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, backend="eager")):
        scope = {"G": 3, "H": 4}
        exec(f"def f(x):\n    global G, H, Y, Z\n    {lines}\n    return x * 2, [k for k in globals() if k in 'GHYZ']", scope)
        seen.append((wrap(scope["f"])(torch.ones(1))[1], [k for k in scope if k in "GHYZ"]))
    assert seen[0] == seen[1]


def refused(f, *args):
    try:
        return f(*args)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("value", [(), [], [("a", 1)], "", 3, None, range(0), {"a": 1}], ids=repr)
def test_two_stars_take_mappings_alone(value):
    """`dict.update` takes pairs, too, which had let them through."""

    def collected(**words):
        return words

    def displayed(x):
        return x * 2, {"q": 1, **value}

    def called(x):
        return x * 2, collected(**value)

    x = torch.ones(2)
    for f in (displayed, called):
        plain, compiled = refused(f, x), refused(torch.compile(f, backend="eager"), x)
        assert plain == compiled if isinstance(plain, str) else plain[1] == compiled[1]
