"""What runs behind a break: frames that touch no tensor stay Python's, library code that breaks in vain is given up, and what
libraries do besides computing (iterators, locks, messages, objects of their own) is no break."""

import collections
import dataclasses
import functools
import io
import logging
import random
import threading
import time
import types
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.capture.frontend import api as compiling
from flambeau.capture import skipfiles
from flambeau.runtime import counters, log


@pytest.fixture(autouse=True)
def fresh():
    counters.reset()


def compiled(f, plain_root=False):
    """`plain_root`: the frame itself runs plain, so that the hook meets all that it calls."""
    settings = compiling.make_settings(False, None, "eager", None, None)

    def convert(code, *args):
        return None if plain_root and code is f.__code__ else compiling.default_converter(code, *args)

    return compiling.compile_callable(f, settings, convert)


def counted():
    told = counters.snapshot()
    return types.SimpleNamespace(
        frames=told["frames"],
        graphs=told["graphs"],
        recompiles=told["recompiles"],
        breaks=sum(told["breaks"].values()),
        reasons=told["breaks"],
        fallbacks=told["fallbacks"],
    )


X = torch.arange(6.0)

# -- a library that solves things, as symbolic ones do: caches, sets, names from uuid, deep recursion, random choices ------

SOLVER = """
import functools, random, re, uuid

class Symbol:
    def __init__(self, name):
        self.name, self.tag = name, uuid.uuid4().hex
    def __eq__(self, other):
        return isinstance(other, Symbol) and self.name == other.name
    def __hash__(self):
        return hash(self.name)

class Sum:
    def __init__(self, parts):
        self.parts = frozenset(parts)
    def free(self):
        found = set()
        for part in self.parts:
            found |= {part} if isinstance(part, Symbol) else part.free()
        return found

@functools.lru_cache(maxsize=None)
def parsed(text):
    return tuple(re.findall(r"\\w+", text))

def nested(names):
    return Sum([Symbol(names[0])]) if len(names) == 1 else Sum([Symbol(names[0]), nested(names[1:])])

def simplified(expression, depth=0):
    if depth > 12:
        return expression
    random.random()
    return simplified(Sum(expression.free()), depth + 1)

def ordered(symbols):
    found = {}
    for symbol in symbols:
        key = uuid.uuid4().hex
        found[key] = symbol.name
    return sorted(found.values())

def solve(text, sizes):
    names = parsed(text)
    expression = simplified(nested(list(names)))
    known = dict(zip(ordered(expression.free()), sizes))
    for name in list(known):
        eval("None")
        globals()["last"] = name
    return [known[name] for name in sorted(names)]
"""


def solver():
    module = types.ModuleType("fakesolver")
    exec(compile(SOLVER, "/nowhere/site-packages/fakesolver/__init__.py", "exec"), vars(module))
    return module


def test_a_solver_behind_a_break_is_no_storm():
    def run(function, library):
        random.seed(3)
        results = [function(X + k, library) for k in range(4)]
        return [r.tolist() for r in results], random.random()

    def f(x, library):
        a, b = library.solve("a b", (2, 3))
        y = x.reshape(a, b) * 2
        c, d = library.solve("c d", (3, 2))
        return (y.reshape(c, d) + 1).sum(1)

    g = compiled(f)
    assert run(g, solver()) == run(f, solver())
    first = counted()
    assert first.frames <= 20 and first.breaks <= 20 and first.graphs >= 1, first
    run(g, solver())
    assert run(g, solver()) == run(f, solver()) and counted().frames <= first.frames + 12, (first, counted())


# -- frames without tensors ------------------------------------------------------------------------------------------------


def helper(a, b=1):
    return [a, b]


def test_a_nested_frame_without_tensors_is_not_captured_until_it_gets_one():
    def f(values):
        return [helper(v) for v in values]

    g = compiled(f, plain_root=True)
    for k in range(20):
        assert g([k, str(k), (k,)]) == f([k, str(k), (k,)])
    assert counted().frames == 0
    assert g([X])[0][0] is X and counted().frames == 1


class Holder:
    """An object with a tensor three steps down."""

    def __init__(self):
        self.parts = {"weights": [torch.ones(6)]}

    def scaled(self, k):
        return self.parts["weights"][0] * k


def makes_one(n):
    return torch.ones(n) * 2


def test_frames_that_lead_to_tensors_are_captured():
    weight = torch.ones(6) * 3

    def closed_over(k):
        return weight * k

    def f(holder):
        return holder.scaled(2), makes_one(3), closed_over(4)

    g = compiled(f, plain_root=True)
    assert [t.tolist() for t in g(Holder())] == [t.tolist() for t in f(Holder())]
    assert counted().graphs == 3


def describe(x, name):
    return sorted(name), len(x.shape)  # (its letters, so that the whole name is guarded)


def test_a_frame_without_operations_is_not_compiled_for_every_value(recwarn):
    def f(x, names):
        found = []
        for name in names:
            found.append(describe(x, name))
        return found

    names = [f"n{k}" for k in range(30)]
    assert compiled(f, plain_root=True)(X, names) == f(X, names)
    assert counted().frames <= skipfiles.MOST_BARREN and not counted().fallbacks and not recwarn.list


def breaks_often(x, k):
    total = k
    for _ in (1, 2):
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
        time.sleep(0)
    return total


def doubled(x):
    return x * 2


def test_code_that_breaks_in_vain_is_given_up():
    def f(x):
        breaks_often(x, 2)
        return doubled(x)

    g = compiled(f, plain_root=True)
    for _ in range(3):
        assert torch.equal(g(X), f(X))
    told = counted()
    assert told.fallbacks == {"breaks again and again": 1} and told.graphs == 1, told
    assert told.breaks <= skipfiles.MOST_TRIES + 2, told


def many(count):
    """Functions that each break once."""
    scope = {"sleep": time.sleep}
    for k in range(count):
        exec(compile(f"def f{k}(x, n):\n    m = n\n    sleep(0)\n    return m", "/nowhere/many.py", "exec"), scope)
    return [scope[f"f{k}"] for k in range(count)]


@pytest.mark.parametrize(
    "held, most", [(lambda x: [x], skipfiles.MOST_OF_PROGRAM), (lambda x: x, skipfiles.MOST_OF_PROGRAM * skipfiles.LAST_STRAW)]
)
def test_a_program_that_breaks_in_vain_is_given_up(held, most):
    """Where the functions get the tensor itself, they are tried for longer; after that nothing nested is."""
    functions = many(150)

    def f(x):
        found = []
        for k, function in enumerate(functions):
            found.append(function(held(x), k))
        return doubled(x), found

    g = compiled(f, plain_root=True)
    assert g(X)[1] == f(X)[1] and torch.equal(g(X)[0], f(X)[0])
    told = counted()
    assert told.fallbacks == {"the program breaks again and again": 1}, told
    assert told.breaks == most and told.graphs == (most == skipfiles.MOST_OF_PROGRAM), told


def test_the_functions_own_breaks_are_not_bounded():
    def f(x):
        print(1), print(2), print(3), print(4), print(5), print(6), print(7), print(8), print(9), print(10)
        return x * 2

    g = compiled(f)
    assert torch.equal(g(X), f(X)) and counted().graphs == 1 and counted().reasons == {"print": 10}


def test_one_line_of_the_program_is_told_once(monkeypatch):
    library, lines = solver(), []

    def f(x, n):
        sizes = library.solve("a b c", (1, 2, n)), library.solve("a b", (1, n)), library.solve("c d e", (1, n, 2))
        return x + sizes[0][0]

    monkeypatch.setattr(log, "channel", lambda name: lambda text, **rest: lines.append(text) if name == "breaks" else None)
    compiled(f)(X, 3)
    mine = [line for line in lines if "told once" in line]
    assert len(mine) == 1 and mine[0].startswith(__file__) and counted().breaks > 1, lines
    told = skipfiles.CaptureAttempts()
    assert told.first_under("mine.py:3", "/x/site-packages/a.py:1") and not told.first_under(
        "mine.py:3", "/x/site-packages/b.py:9"
    )
    assert told.first_under("mine.py:3", "mine.py:3") and told.first_under("mine.py:4", "/x/site-packages/a.py:1")


# -- iterators from outside -------------------------------------------------------------------------------------------------

ITERATORS = {
    "list": lambda: iter([1.0, 2.0, 3.0]),
    "tuple": lambda: iter((1.0, 2.0, 3.0)),
    "keys": lambda: iter({1.0: 0, 2.0: 0, 3.0: 1}),
    "values": lambda: iter({0: 1.0, 5: 2.0, 6: 3.0}.values()),
    "set": lambda: iter({1.0, 2.0, 3.0}),
    "empty": lambda: iter([]),
    "begun": lambda: moved(iter([9.0, 1.0, 2.0])),
    "ended": lambda: moved(iter([9.0]), 2),
}


def moved(iterator, steps=1):
    for _ in range(steps):
        next(iterator, None)
    return iterator


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_from_outside_are_moved_on(name):
    def f(x, it):
        first = next(it, 7.0)
        for k, value in enumerate(it):
            x = x * value
            if k == 0:
                break
        return x + first

    g = compiled(f)
    for _ in range(2):
        a, b = ITERATORS[name](), ITERATORS[name]()
        assert torch.equal(g(X, a), f(X, b)) and list(a) == list(b)
    assert not counted().breaks and counted().frames == 1


def test_what_an_iterator_gives_is_guarded():
    def f(it):
        return sum(t * k for k, t in enumerate(it, 1))

    g = compiled(f)
    for tensors in ([X, X + 1], [X + 2, X], [X], [X, X, X], [X, X.double()]):
        assert torch.equal(g(iter(tensors)), f(iter(tensors)))
    assert not counted().breaks and counted().frames == 4


def test_an_iterator_over_a_list_that_grows_is_left_to_python():
    def f(x, values, it):
        values.append(next(it) + 1)
        return x + sum(it)

    def run(function):
        values = [1.0, 2.0]
        return function(X, values, iter(values)).tolist(), values

    assert run(compiled(f)) == run(f)


def test_two_names_of_one_iterator():
    def f(x, a, b):
        return x * next(a) + next(b)

    g = compiled(f)
    for one in (True, False, True):
        given = [iter([1.0, 2.0, 3.0]) for _ in range(2)]
        wanted = [iter([1.0, 2.0, 3.0]) for _ in range(2)]
        assert torch.equal(g(X, given[0], given[0 if one else 1]), f(X, wanted[0], wanted[0 if one else 1]))
        assert list(map(list, given)) == list(map(list, wanted))


# -- objects that cross a break ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """As libraries of models give: items, attributes, and numbers in brackets."""

    loss: object = None
    logits: object = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                super().__setitem__(field.name, getattr(self, field.name))

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else tuple(self[k] for k in self.keys())[key]


def test_outputs_cross_a_break():
    def f(x):
        out = Output(x * 2, x + 1)
        print("between")
        again = Output(out.loss + 1, out[1] * out["loss"])
        print("and")
        return again, again[0] + again.logits

    g = compiled(f)
    for _ in range(2):
        (a, sum_a), (b, sum_b) = g(X), f(X)
        assert type(a) is Output and list(a) == list(b) and torch.equal(sum_a, sum_b) and torch.equal(a.logits, b.logits)
    assert counted().reasons == {"print": 2} and counted().graphs == 3


class Base:
    def scaled(self, x, k):
        return x * k


class Derived(Base):
    def scaled(self, x, k):
        return super().scaled(x, self.note(k)) + 1

    def note(self, k):
        print("between", k)
        return k


def test_super_crosses_a_break():
    g = compiled(Derived.scaled)
    for k in (2, 2, 3):
        assert torch.equal(g(Derived(), X, k), Derived().scaled(X, k))
    assert set(counted().reasons) == {"print"}


class Frozen(dict):
    def __new__(cls, *args, **kwargs):
        made = dict.__new__(cls)
        dict.__init__(made, *args, **kwargs)
        made.tag = "frozen"
        return made

    def __init__(self, *args, **kwargs):
        pass

    def __setitem__(self, key, value):
        raise TypeError("frozen")

    def __hash__(self):
        return hash(frozenset(self.items()))


def test_dicts_that_make_themselves():
    given = Frozen(k=2)

    def f(x, outside):
        made = Frozen(a=3, b=outside["k"])
        return x * made["a"] + made["b"], made, hash(made) == hash(Frozen(b=2, a=3))

    (x, made, same), (y, other, _) = compiled(f)(X, given), f(X, given)
    assert torch.equal(x, y) and made == other and type(made) is Frozen and made.tag == "frozen" and same
    assert not counted().breaks


# -- locks, and what each thread has of its own ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_locks_are_held_around_what_is_done_under_them(make):
    lock, table = make(), {}

    def f(x, key):
        with lock:
            table[key] = x * 2
        with lock:
            return table[key] + 1

    g = compiled(f)
    for key in ("a", "a"):
        assert torch.equal(g(X, key), X * 2 + 1) and plain_lock_is_free(lock)
    assert not counted().breaks


def plain_lock_is_free(lock):
    taken = []
    thread = threading.Thread(target=lambda: taken.append(lock.acquire(False)) or taken[0] and lock.release())
    thread.start(), thread.join()
    return taken == [True]


def test_a_lock_is_taken_before_what_is_changed_under_it():
    lock, steps = threading.Lock(), []

    box = types.SimpleNamespace(value=0, items=[])

    class Seen:
        """Storing into it tells whether the lock is held."""

        @property
        def value(self):
            return 0

        @value.setter
        def value(self, given):
            steps.append((given, lock.locked()))

    seen = Seen()

    def f(x):
        with lock:
            box.value = 1
            time.sleep(0)
            seen.value = 2
        seen.value = 3
        return x + 1

    compiled(f)(X)
    assert steps == [(2, True), (3, False)] and box.value == 1 and not lock.locked()


def test_a_lock_that_is_held_is_waited_for():
    lock, order = threading.Lock(), []

    def f(x):
        with lock:
            order.append("mine")
        return x + 1

    g = compiled(f)
    g(X)
    lock.acquire()
    order.clear()
    timer = threading.Timer(0.1, lambda: (order.append("theirs"), lock.release()))
    timer.start()
    g(X)
    timer.join()
    assert order == ["theirs", "mine"]


def test_thread_locals_are_those_of_the_thread():
    local = threading.local()

    def f(x):
        if not hasattr(local, "depth"):
            local.depth = 0
        local.depth += 1
        return x + local.depth

    g = compiled(f)
    found = []

    def work():
        found.extend(g(X)[0].item() for _ in range(3))
        del local.depth
        found.append(hasattr(local, "depth"))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start(), thread.join()
    assert found == [1, 2, 3, False] * 2 and not hasattr(local, "depth") and "attribute" not in counted().reasons


# -- messages --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def logger():
    made, text = logging.getLogger("flambeau-test-storms"), io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))
    made.addHandler(handler)
    made.propagate, made.text = False, text
    made.setLevel(logging.INFO)
    yield made
    made.removeHandler(handler)


def told_inside(logger, x, n):
    logger.debug("not told %s", n)
    logger.info("inside %s of %d", "three", n)
    return x * n


def test_loggers_tell_in_order_with_the_programs_lines(logger):
    def f(x, n):
        logger.warning("begins")
        y = told_inside(logger, x, n)
        logger.log(logging.ERROR, "ends %r", {"n": n}.get("n"))
        return y

    def run(function):
        logger.text.seek(0), logger.text.truncate()
        return [function(X, 2).tolist() for _ in range(2)], logger.text.getvalue()

    assert run(compiled(f)) == run(f)
    assert not counted().breaks and counted().frames == 1


def test_what_a_library_tells_once(logger):
    @functools.lru_cache(None)
    def warning_once(self, *args, **kwargs):
        self.warning(*args, **kwargs)

    box = types.SimpleNamespace(calls=0)

    def f(x, n):
        box.calls += 1
        warning_once(logger, "only %s", "once")
        return told_inside(logger, x, n)

    def run(function):
        logger.text.seek(0), logger.text.truncate()
        warning_once.cache_clear()
        return [function(X, 2).tolist() for _ in range(3)], logger.text.getvalue().replace("wrapper", "f")

    assert run(compiled(f)) == run(f) and "once" in logger.text.getvalue()
    assert not counted().breaks


def test_a_loggers_level_is_guarded(logger):
    def f(x):
        logger.debug("now")
        return x + 1

    g = compiled(f)
    g(X)
    assert logger.text.getvalue() == ""
    logger.setLevel(logging.DEBUG)
    g(X)
    assert logger.text.getvalue().endswith("f now\n") and not counted().breaks


def test_handlers_of_the_program_see_what_python_shows_them(logger):
    seen = []

    class Own(logging.Handler):
        def emit(self, record):
            seen.append((record.getMessage(), list(state)))

    state, handler = [], Own()

    def f(x):
        state.append(1)
        logger.warning("one")
        state.append(2)
        logger.warning("two")
        return x + 1

    logger.addHandler(handler)
    try:
        compiled(f)(X)
    finally:
        logger.removeHandler(handler)
    assert seen == [("one", [1]), ("two", [1, 2])]


def warns(x, levels):
    warnings.warn("from within", FutureWarning, stacklevel=levels)
    return x + 1


@pytest.mark.parametrize("levels", [1, 2])
def test_warnings_point_to_the_programs_lines(levels):
    def f(x):
        y = warns(x, levels)
        warnings.warn("at the end")
        return y

    def run(function):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(2):
                function(X)
        return [(str(w.message), w.category, w.filename, w.lineno) for w in told if "flambeau:" not in str(w.message)]

    assert run(compiled(f)) == run(f)


def test_a_warning_that_is_an_error_is_raised_where_it_is():
    done = []

    def f(x):
        try:
            warnings.warn("careful")
            done.append("after")
        except UserWarning:
            done.append("caught")
        return x + 1

    g = compiled(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g(X)
        warnings.simplefilter("error", UserWarning)
        g(X)
    assert done == ["after", "caught"]


# -- numpy beside tensors --------------------------------------------------------------------------------------------------

NUMPY = {
    "prod of a shape": lambda x, k: x.reshape(int(np.prod(x.shape))) * k,
    "ufuncs": lambda x, k: x * float(np.ceil(np.log2(np.maximum(k, 3)))) + np.sqrt(4.0),
    "scalars": lambda x, k: (x[np.int64(1)] * np.float32(k), np.prod([2, 3]).astype(int).item(), np.int64(k) // 2),
    "an operand": lambda x, k: (k * x, x - k, x * np.float64(2.5)),
    "a size": lambda x, k: x.view(np.int64(3), np.prod((2, 1))).sum(np.int64(0)) + k,
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpys_numbers_are_constants(name):
    f = NUMPY[name]
    g = compiled(f)
    for k in (2, np.int64(4), np.float64(2.0)):
        a, b = g(X, k), f(X, k)
        a, b = (a, b) if isinstance(a, tuple) else ((a,), (b,))
        for got, wanted in zip(a, b):
            assert type(got) is type(wanted), (k, got, wanted)
            assert torch.equal(got, wanted) and got.dtype == wanted.dtype if isinstance(got, torch.Tensor) else got == wanted
    assert not counted().breaks, counted()


def test_numpys_arrays_are_left_to_python():
    def f(x):
        table = np.arange(6.0)
        np.add(table, 1, out=table)
        return x + torch.from_numpy(table).float(), np.mean(table)

    (a, m), (b, n) = compiled(f)(X), f(X)
    assert torch.equal(a, b) and m == n


# -- functions with a cache ----------------------------------------------------------------------------------------------------

registry, found = {}, []


def looked_up(name):
    return registry.get(name, 1.0)


def cached_functions():
    @functools.lru_cache(None)
    def apart(text):
        return tuple(len(word) for word in text.split())

    @functools.lru_cache(None)
    def sees(name):
        return looked_up(name)

    @functools.lru_cache(None)
    def sees_by_name(name):
        return globals()["registry"].get(name, 1.0)

    return apart, sees, sees_by_name


def test_a_cached_function_is_called_early_only_where_it_sees_no_change():
    apart, sees, by_name = cached_functions()

    def f(x, function, argument):
        registry["n"] = 5.0
        given = function(argument)
        return x * (given[0] if isinstance(given, tuple) else given)

    for function, argument, wanted, breaks in ((apart, "abc de", 3, 0), (sees, "n", 5, 1), (by_name, "n", 5, 1)):
        registry.clear()
        counters.reset()
        assert torch.equal(compiled(f)(X, function, argument), X * wanted) and counted().breaks == breaks
        assert function.cache_info().misses == 1


def test_a_cached_function_is_called_early_under_autocast():
    """What a manager of the library sets is set for real while tracing, so a call sees it."""
    apart, _, _ = cached_functions()

    def f(x):
        with torch.autocast("cpu", enabled=False):
            return x * apart("abc de")[0]

    counters.reset()
    assert torch.equal(compiled(f)(X), X * 3) and counted().breaks == 0
