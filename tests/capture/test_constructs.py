"""Python constructs that are captured in one graph: each is a tiny function, compared with plain Python."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator

import pytest

import flambeau as torch
from flambeau.runtime.config import config

from .harness import captured, check  # noqa: F401


def x(*sizes):
    torch.manual_seed(1)
    return torch.randn(*(sizes or (2, 3)))


CASES = []


def case(*args, **expected):
    """Register a function with the arguments it is checked on."""

    def register(fn):
        CASES.append((fn, args, expected))
        return fn

    return register


X, Y = x(2, 3), x(2, 3)


# -- constants, arithmetic, comparisons ------------------------------------------------------------------------------


@case(X, ops=1, again=(x(4, 3),))
def add_one(a):
    return a + 1


@case(X, Y, ops=3)
def arithmetic(a, b):
    return (a * b - a) / 2


@case(X, ops=6)
def operators(a):
    return (-a) ** 2 // 3 % 2 + abs(a)


@case(X, 2.5, ops=2)
def scalar_argument(a, n):
    return a * n + n


@case(X, ops=2)
def comparisons(a):
    return a > 0, a == a


@case(X, ops=1)
def chained_comparison(a):
    return a + 1 if 0 < a.dim() < 3 <= a.shape[1] else a - 1


@case(X, ops=2)
def augmented(a):
    b = a + 1
    b += 2
    return b


@case(X, ops=2)
def boolean_operators(a):
    return a + (0 or 5) + 0 if (a is not None and a.dim()) else a


@case(X, ops=1)
def conditional_expression(a):
    return a * (2 if a.shape[0] == 2 else 3)


@case(X, ops=1)
def matrix_product(a):
    return a @ a.t() if False else a * 1


@case(X, ops=1)
def walrus(a):
    if (n := len(a)) > 1:
        a = a * n
    return a


@case(X, ops=1)
def string_formatting(a):
    text = f"{a.shape[0]:>3}-{'q'!r}-{1.5:.2f}"
    return a + len(text), text, "%d" % 3, "{}".format("z"), ",".join(["a", "b"]), "Ab".lower()


@case(X, ops=1)
def chained_assignment(a):
    p = q = a + 1
    return p, q, p is q


@case(X, ops=1)
def literal_kinds(a):
    return a + 1, (1, "s", None, True, 2.5, 1j, b"b", ...), {1, 2}, {"k": 1}, [3]


# -- calls -----------------------------------------------------------------------------------------------------------


def helper(a, b=2, *rest, k=3, **named):
    return a * b + k + sum(rest) + named.get("z", 0)


@case(X)
def call_forms(a):
    return helper(a), helper(a, 3), helper(a, 3, 4, 5, k=6, z=7), helper(*(a, 1), **{"k": 2}), helper(b=4, a=a)


@case(X, ops=1)
def lambda_call(a):
    return (lambda v, n=3: v * n)(a)


@case(X, ops=2)
def closure_reads_and_writes(a):
    n = 2

    def g(v):
        nonlocal n
        n += 1
        return v * n

    return g(a), g(a), n


@case(X, ops=2)
def nested_functions(a):
    def outer(v):
        def inner(w):
            return w + 1

        return inner(inner(v))

    return outer(a)


@case(X, ops=3)
def recursion(a, n=3):
    def go(v, k):
        return v if k == 0 else go(v + 1, k - 1)

    return go(a, n)


def twice(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(fn(*args, **kwargs))

    return wrapper


@twice
def decorated(a):
    return a * 2


@case(X, ops=2)
def decorated_function(a):
    return decorated(a)


@case(X, ops=4)
def partial_application(a):
    return functools.partial(helper, b=4, k=1)(a)


@case(X, ops=2)
def keyword_only(a):
    def g(v, /, w, *, s):
        return v * w + s

    return g(a, w=2, s=3)


@case(X, ops=2)
def function_argument(a):
    def apply(f, v):
        return f(f(v))

    return apply(lambda v: v + 1, a)


@case(X, ops=3)
def reduce_and_operator(a):
    return functools.reduce(operator.add, [a, a, a]) * operator.mul(2, 3)


@case(X, ops=1)
def math_functions(a):
    return a * math.sqrt(4) if math.floor(2.7) == 2 and math.prod([1, 2, 3]) == 6 else a


def defaults(a, scale=2, *, shift=1):
    return a * scale + shift


CASES.append((defaults, (X,), {"ops": 2}))


def starred(*tensors, **named):
    return tensors[0] + named["k"], len(tensors)


CASES.append((lambda a: starred(a, a, k=2), (X,), {"ops": 1}))


# -- containers ------------------------------------------------------------------------------------------------------


@case(X, ops=1)
def list_methods(a):
    items = [3, 1]
    items.append(2)
    items.extend([5, 4])
    items.insert(0, 9)
    items.remove(1)
    last = items.pop()
    items.sort()
    items.reverse()
    return a + last, items, items.index(5), items.count(2), items[1:3], items[-1], items.copy(), items * 2, items + [0]


@case(X, ops=2)
def dict_methods(a):
    d = {"a": a, "n": 1}
    d["b"] = a + 1
    d.update(c=3)
    d.setdefault("e", 5)
    del d["n"]
    got = d.get("zz", 7), d.pop("c"), "a" in d, list(d.keys()), len(d)
    return {k: v for k, v in d.items() if k != "e"}, got, d["b"] * 2, {**d, "x": 1}


@case(X, ops=1)
def set_methods(a):
    s = {1, 2}
    s.add(3)
    s |= {4}
    s.discard(1)
    return a + len(s), 3 in s, sorted(s), sorted(s & {2, 3}), s == {2, 3, 4}, frozenset(s)


@case(X, ops=1)
def tuple_operations(a):
    t = (1, 2) + (3,)
    return a + t[0], t[1:], t * 2, 2 in t, t.index(3), t == (1, 2, 3), (1, 2) < (1, 3)


@case(X, ops=1)
def unpacking(a):
    (p, q), *rest = (1, 2), 3, 4
    p, q = q, p
    first, *middle, last = [1, 2, 3, 4]
    return a + p, q, rest, middle, first, last


@case(X, ops=3)
def list_comprehension(a):
    return [a * i for i in range(3)]


@case(X, ops=2)
def nested_comprehension(a):
    return [[a + i * j for j in range(2) if j] for i in range(2)]


@case(X, ops=2)
def dict_comprehension(a):
    return {f"k{i}": a + i for i in range(2)}


@case(X, ops=1)
def set_comprehension(a):
    return a + 1, {i % 2 for i in range(4)}


@case(X, ops=3)
def comprehension_with_closure(a):
    n = 3
    return [(lambda v: v * n + i)(a) for i in range(1)] + [a + n]


@case([X, Y], ops=1)
def list_input(items):
    first, second = items
    return first + second


@case((X, (Y, 2)), ops=2)
def nested_tuple_input(t):
    a, (b, n) = t
    return (a + b) * n


@case({"a": X, "n": 3}, ops=1)
def dict_input(d):
    return {"r": d["a"] * d["n"]}


@case(X, ops=1)
def default_dict(a):
    d = collections.defaultdict(list)
    d["k"].append(a + 1)
    return d["k"], len(d)


@case(X, ops=1)
def ordered_dict(a):
    d = collections.OrderedDict(p=1, q=a * 2)
    d.move_to_end("p")
    return list(d), d["q"]


@case(X, ops=1)
def deque_use(a):
    d = collections.deque([1, 2])
    d.appendleft(0)
    d.append(a + 1)
    return d.popleft(), len(d), d.pop()


Point = collections.namedtuple("Point", "a b")


@case(X, ops=1)
def named_tuple(a):
    p = Point(a, b=2)
    q = p._replace(b=3)
    return p.a * p.b, q[1], p._fields, q


@case(X, ops=1)
def slices(a):
    items = list(range(6))
    s = slice(1, None, 2)
    items[0:2] = [7]
    del items[-1]
    return a + items[s][0], items, "abc"[::-1]


# -- builtins --------------------------------------------------------------------------------------------------------


@case(X, ops=1)
def iteration_builtins(a):
    pairs = list(zip([1, 2], (3, 4)))
    numbered = list(enumerate("ab", 1))
    doubled = list(map(lambda v: v * 2, [1, 2]))
    back = list(reversed([1, 2, 3]))
    ordered = sorted([3, 1, 2], key=lambda v: -v)
    return a + sum(doubled), pairs, numbered, back, ordered, list(filter(None, [0, 1, 2])), list(range(5, 0, -2))


@case(X, ops=2)
def number_builtins(a):
    return (
        a + min(3, 1) + max([1, 5], key=lambda v: -v),
        any([0, 1]),
        all([]),
        divmod(7, 2),
        round(2.567, 1),
        pow(2, 3),
        abs(-3),
        int("4"),
        float("1.5"),
        bool([]),
        str(3),
        hash(1),
        ord("a"),
        chr(98),
    )


@case(X, ops=1)
def type_builtins(a):
    return (
        a + isinstance(a, torch.Tensor),
        isinstance(1, (int, str)),
        hasattr(a, "shape"),
        hasattr(a, "nothing"),
        getattr(a, "missing", 3),
        int is int,
        callable(len),
        issubclass(bool, int),
        type(a) is torch.Tensor,
    )


@case(X, ops=2)
def itertools_functions(a):
    out = a
    for i in itertools.chain([1], (2,)):
        out = out + i
    return (
        out,
        list(itertools.islice(itertools.count(3), 2)),
        list(itertools.product([1, 2], "a")),
        list(itertools.repeat(0, 2)),
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.combinations([1, 2, 3], 2)),
    )


@case(X, ops=1)
def iterators_by_hand(a):
    it = iter([1, 2, 3])
    first = next(it)
    return a + first, list(it), next(it, "end")


# -- control flow ----------------------------------------------------------------------------------------------------


@case(X, ops=4)
def loops(a):
    total = a
    for i in range(4):
        if i == 2:
            continue
        total = total + i
    else:
        total = total * 2
    n = 0
    while True:
        n += 1
        if n > 3:
            break
    return total, n


@case(X, ops=1)
def try_without_raising(a):
    try:
        b = a + 1
    except ValueError:
        b = a
    else:
        return b
    finally:
        a = None
    return b


@case(X, ops=2)
def raise_and_catch(a):
    try:
        b = a + 1
        raise ValueError("v", 3)
    except (KeyError, ValueError) as error:
        b = a * error.args[1]
    finally:
        b = b + 0 if False else b
    return b


@case(X, ops=1)
def exceptions_cross_calls(a):
    def fails(d):
        return d["missing"]

    try:
        fails({})
    except KeyError as error:
        return a + 1, str(error)


@case(X, ops=2)
def library_error_is_caught(a):
    try:
        return a + torch.ones(7, 7)
    except RuntimeError:
        return a * 2


@case(X, ops=1)
def assertion(a):
    assert a.dim() == 2, "two dimensions"
    return a + 1


@case(X, ops=3)
def generator_function(a):
    def numbers():
        for i in range(3):
            yield i
        return 9

    return [a * i for i in numbers()]


@case(X, ops=2)
def generator_expression(a):
    return sum((a * i for i in range(1, 3)), 0) if False else tuple(a * i for i in (1, 2))


@case(X, ops=1)
def generator_delegation(a):
    def inner():
        got = yield 1
        return got

    def outer():
        r = yield from inner()
        yield r, 2

    return a + 1, list(outer())


@case(X, ops=1)
def generator_send(a):
    def echo():
        got = 0
        while True:
            got = yield got

    g = echo()
    next(g)
    return a + g.send(4), g.send(5)


@case(X, ops=1)
def pattern_matching(a):
    match (1, {"k": 2}):
        case (n, {"k": m}):
            return a + n + m if False else a * m


@contextlib.contextmanager
def logged(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@case(X, ops=1)
def context_manager_function(a):
    log = []
    with logged(log) as n:
        b = a * n
    return b, log


class Manager:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind.__name__ if kind else None)
        return kind is ValueError


@case(X, ops=1)
def context_manager_class(a):
    with Manager() as m:
        b = a + 1
    with m:
        raise ValueError("swallowed")
    return b, m.log


@case(X, ops=1)
def import_inside(a):
    import math as m
    from operator import neg

    return a * m.pi, neg(3)


# -- objects ---------------------------------------------------------------------------------------------------------


class Thing:
    scale = 3

    def __init__(self, a):
        self.a = a
        self.n = 0

    def go(self, v):
        self.n += 1
        return v * self.a * self.scale

    @property
    def double(self):
        return self.a * 2

    @double.setter
    def double(self, value):
        self.a = value // 2

    @classmethod
    def make(cls, a):
        return cls(a)

    @staticmethod
    def static(v):
        return v + 1

    def __add__(self, other):
        return self.a + other

    def __radd__(self, other):
        return other + self.a

    def __getitem__(self, i):
        return self.a * i

    def __len__(self):
        return 5

    def __call__(self, v):
        return v + self.a

    def __contains__(self, v):
        return v == self.a

    def __eq__(self, other):
        return isinstance(other, Thing) and self.a == other.a

    __hash__ = None


class Derived(Thing):
    def __init__(self, a):
        super().__init__(a + 1)

    def go(self, v):
        return super().go(v) + 1

    def __getattr__(self, name):
        return f"dynamic {name}"


@case(X, Thing(2))
def object_argument(a, thing):
    return thing.go(a) + thing.double, thing.static(1), thing.n


@case(X, ops=2)
def objects_made_inside(a):
    thing = Thing.make(4)
    thing.double = 6
    same = thing == Thing(3)
    return thing(a), (thing + 1) + (1 + thing), thing[2], len(thing), 3 in thing, same, thing.go(a) if False else a + 1


@case(X, ops=3)
def inheritance(a):
    d = Derived(1)
    return d.go(a), d.unknown, isinstance(d, Thing), type(d).__name__


@case(X, ops=1)
def attribute_functions(a):
    thing = Thing(2)
    setattr(thing, "extra", a + 1)
    delattr(thing, "n")
    return thing.extra, hasattr(thing, "n"), getattr(thing, "a"), vars(thing)["a"]


@dataclasses.dataclass
class Config:
    width: int = 4
    name: str = "c"
    items: list = dataclasses.field(default_factory=list)


@case(X, Config(), ops=1)
def dataclass_argument(a, config):
    return a * config.width, Config(width=2).width, Config("w") == Config("w")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@case(X, Color.BLUE, ops=1)
def enum_argument(a, color):
    return a * color.value if color is Color.BLUE else a, color.name, Color(1) is Color.RED


class Slotted:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


@case(X, ops=1)
def slots(a):
    s = Slotted(2)
    s.v += 1
    return a * s.v


# -- tensors ---------------------------------------------------------------------------------------------------------


@case(X, again=(x(5, 3),))
def shape_arithmetic(a):
    n, m = a.shape
    return a.reshape(m, n) * (n * m) + a.size(0) + len(a) + a.numel()


@case(X)
def indexing(a):
    return a[0], a[:, 1], a[..., None], a[-1, 0:2], a[None]


@case(X)
def views(a):
    b = a.view(3, 2).t()
    return b.unsqueeze(0), b.transpose(0, 1), a.permute(1, 0)


@case(X)
def in_place(a):
    b = a.clone()
    b.add_(1)
    b[0] = 5
    b[:, 1] *= 2
    return b


@case(X)
def in_place_on_input(a):
    a.mul_(2)
    return a


@case(X)
def view_of_input_is_written(a):
    v = a[0]
    v.add_(1)
    return v, a + 0


@case(X)
def iterate_tensor(a):
    return [row * 2 for row in a]


@case(X)
def tensor_functions(a):
    return torch.cat([a, a], dim=0), torch.stack([a, a]), torch.where(a > 0, a, -a), torch.zeros(2), torch.arange(3), a.sum(1)


@case(X)
def several_outputs(a):
    v, i = a.max(dim=1)
    p, q = a.chunk(2, dim=0)
    return v, i, p, q


@case(X)
def constant_tensor(a):
    t = torch.tensor([1.0, 2.0, 3.0])
    t.add_(1)
    return a * t


@case(X)
def random_numbers(a):
    return a + torch.rand(2, 3) + torch.randn_like(a)


@case(X)
def dtype_and_device(a):
    return a.to(torch.float64), a.dtype == torch.float32, str(a.device), torch.ones(2, dtype=a.dtype), a.is_floating_point()


@case(X, X, ops=1)
def identical_inputs(a, b):
    return a is b, a + b


@case(X, ops=0, graphs=0)
def returns_input(a):
    return a


@case(X, ops=1)
def no_grad_block(a):
    with torch.no_grad():
        b = a + 1
    return b, torch.is_grad_enabled()


@torch.no_grad()
def without_grad(a):
    return a * 2


@case(X, ops=1)
def no_grad_decorator(a):
    return without_grad(a)


@case(X, ops=1)
def compiling_flag(a):
    return a + 1 if torch.compiler.is_compiling() else a + 1


FACTOR, TABLE = 3, {"k": 2}


@case(X, ops=2)
def global_constants(a):
    return a * FACTOR * TABLE["k"]


@pytest.mark.parametrize("fn, args, expected", CASES, ids=[fn.__name__ for fn, _, _ in CASES])
def test_construct(fn, args, expected):
    check(fn, *args, **expected)


def test_root_closure():
    n = 3
    seen = []

    def fn(a):
        nonlocal n
        n = n + 1
        seen.append(n)
        return a * n

    def back():
        nonlocal n
        n = 3
        seen.clear()

    check(fn, X, ops=1, reset=back)


def test_method_of_object():
    thing = Thing(2)
    backend = check(lambda a: thing.go(a), X, ops=2, reset=lambda: setattr(thing, "n", 0))
    assert backend.graphs[0].inputs[0].source == "a"


def test_user_lines_stay_with_nodes():
    backend = check(add_one, X)
    node = backend.graphs[0].calls[0]
    assert node.stack[-1][0] == __file__ and node.stack[-1][2] == "return a + 1" and node.stack[-1][3] == "add_one"


def test_inlined_nodes_keep_both_lines():
    backend = check(decorated_function, X)
    functions = [place[3] for place in backend.graphs[0].calls[0].stack]
    assert functions[0] == "decorated_function" and functions[-1] == "decorated"


def test_super_before_there_is_a_class():
    """A metaclass calls a method while its class is made: the error is Python's, none of the compiler's."""
    told = []

    class Meta(type):
        def __new__(meta, name, bases, fields):
            for scale in (fields["scale"], torch.compile(fields["scale"], backend="eager")):
                with config.patch(strict=True), pytest.raises((RuntimeError, NameError), match="__class__") as raised:
                    scale(x())  # (RuntimeError on 3.11, NameError later)
                told.append((raised.type, str(raised.value)))
            return super().__new__(meta, name, bases, fields)

    class Made(metaclass=Meta):
        def scale(self):
            return super().scale() * 2

    assert len(told) == 2 and told[0] == told[1]
