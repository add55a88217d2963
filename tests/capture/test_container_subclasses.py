"""Objects of classes derived from dict, OrderedDict and list: made, read, changed and returned by compiled functions."""

import collections
import dataclasses

import pytest

import flambeau as torch
from flambeau.runtime import counters
from flambeau.runtime.config import config

from .matrix import digest


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """Fields that are entries as well, as models return them."""

    logits: object = None
    hidden: object = None
    loss: object = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


class Dotted(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Defaults(dict):
    def __missing__(self, key):
        self[key] = value = len(self)
        return value


class Stack(list):
    limit = 3

    def push(self, value):
        self.append(value)
        if len(self) > self.limit:
            self.pop(0)
        return self

    def __len__(self):
        return super().__len__() * 1


class Logged(dict):
    """Stores by a method of its own: generated code must not call it again."""

    def __setitem__(self, key, value):
        log.append(key)
        super().__setitem__(key, value)


log: list = []


def output(x, box):
    made = Output(logits=x * 2, hidden=(x, x + 1))
    made.loss = made.logits.sum()
    return made, list(made), made["hidden"][1], made.to_tuple()[0], len(made), "loss" in made


def dotted(x, box):
    d = Dotted(a=1, b=x)
    d.c = d.a + 1
    d["e"] = d.b * d.c
    return d, d.e, sorted(d), d == {"a": 1}, {**d}.keys() == d.keys()


def defaults(x, box):
    d = Defaults(z=4)
    return x * d["q"] + d["z"] + d["r"], d, d.get("no"), list(d.items())


def stack(x, box):
    s = Stack([1, 2])
    s.push(x).push(5).push(6)
    s[0] = s[-1]
    return s, len(s), s + [1], s == [6, 5, 6], isinstance(s, list), [v for v in s], bool(Stack()), s[1:]


def counter(x, box):
    c = collections.Counter("abca")
    c.update(["b", "z"])
    c["q"] -= 1
    return x * c["a"], c, c.most_common(2), c["none"], +c, sum(c.values())


def from_outside(x, box):
    d, s = box
    d["new"] = x * d["k"]
    d.pop("old")
    s.push(7)
    return d.get("new"), len(d), s[0], list(d)


@pytest.mark.parametrize("fn", [output, dotted, defaults, stack, counter, from_outside], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_captured(fn, dynamic):
    counters.reset()
    compiled = torch.compile(fn, backend="eager", dynamic=dynamic, fullgraph=True)
    with config.patch(strict=True):
        for rows in (2, 3):
            x, boxes = torch.randn(rows, 3), [(Defaults(k=2, old=1), Stack([4, 5, 6])) for _ in range(2)]
            assert digest(fn(x, boxes[0])) == digest(compiled(x, boxes[1]))
            assert digest(boxes[0]) == digest(boxes[1]) and list(boxes[0][0].items())[0] == list(boxes[1][0].items())[0]
    assert counters.snapshot()["breaks"] == {} and counters.snapshot()["graphs"] <= 2


def test_what_is_inside_is_guarded():
    compiled = torch.compile(lambda x, d, s: x * d["k"] + s[1] + len(s), backend="eager")
    x = torch.ones(2)
    for d, s in (
        (Defaults(k=2), Stack([1, 2])),
        (Defaults(k=3), Stack([1, 2])),
        (Defaults(k=3), Stack([1, 5])),
        (Defaults(k=3), Stack([1, 5, 6])),
        (Defaults(), Stack([1, 5, 6])),
        ({"k": 9}, [3, 4]),
    ):
        assert compiled(x, d, s).tolist() == (x * d["k"] + s[1] + len(s)).tolist()


def test_a_method_that_stores_is_called_once_a_call():
    def fn(x, d):
        d["a"] = x + 1
        made = Logged()
        made["b"] = x
        return d, made

    counters.reset()
    compiled = torch.compile(fn, backend="eager")
    for _ in range(2):
        log.clear()
        d, made = compiled(torch.ones(2), Logged())
        assert log == ["a", "b"] and list(d) == ["a"] and list(made) == ["b"] and type(made) is Logged
    assert counters.snapshot()["breaks"] == {}


SYMBOLIC_MEMBERS = {
    "len({n, 4})": lambda a, n: len({n, 4}),
    "len({n, n})": lambda a, n: len({n, n}),
    "len({n, n - 1, 3, m})": lambda a, n: len({n, n - 1, 3, a.shape[0]}),
    "len({n: 1, 4: 2})": lambda a, n: len({n: 1, 4: 2}),
    "in": lambda a, n: (4 in {n, 6}, n in {4, 5}, n + 1 in {n: 1, 5: 2}, {n: 1, 4: 2}.get(4), bool({n})),
    "discard": lambda a, n: (lambda s: (s.discard(4), len(s), 4 in s))({n, 4}),
    "equal": lambda a, n: sorted({n, 4} | {n + 1}),
}


@pytest.mark.parametrize("name", SYMBOLIC_MEMBERS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_written_container_counts_equal_symbols_once(name, dynamic):
    """It has no outside: nothing of it is guarded but whether its members are equal."""
    act = SYMBOLIC_MEMBERS[name]

    def f(a, n):
        return a * 2, act(a, n)

    compiled = torch.compile(f, backend="eager", dynamic=dynamic)
    with config.patch(strict=True):
        for n in (2, 3, 4, 5, 6, 4):
            assert compiled(torch.ones(n), n)[1] == f(torch.ones(n), n)[1]


def named_later(a):
    return a


def test_a_written_dictionary_with_a_name_for_a_key():
    """Nobody has asked for its keys when the graph's result is described."""

    def f(a):
        return {"a": a, named_later.__name__: a + 1}, [a * 2]

    with config.patch(strict=True):
        found = torch.compile(f, backend="eager")(torch.ones(3))
    assert list(found[0]) == ["a", "named_later"] and found[0]["named_later"].tolist() == [2] * 3


MERGED = (
    "h |= {('e', i)}",
    "h |= [('e', i), ('f', x)]",
    "h |= ((k, i) for k in 'ab')",
    "h |= zip('ab', [1, 2])",
    "h |= h.items()",
    "h |= {'e': i}",
    "h |= Counter('aa')",
    "h |= 5",
    "h = h | {'e': i}",
    "h = {'e': i} | h",
    "h = h | OrderedDict(e=i)",
    "h = OrderedDict(e=i) | h",
    "h = defaultdict(int, e=1) | h",
    "h = h | defaultdict(list, e=1)",
    "h = h | Counter('aa')",
)
KINDS = {
    "dict": lambda: dict(n=1),
    "defaultdict": lambda: collections.defaultdict(int, n=1),
    "OrderedDict": lambda: collections.OrderedDict(n=1),
    "Counter": lambda: collections.Counter(n=1),
}


@pytest.mark.parametrize("own", [False, True], ids=["outside", "own"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", MERGED)
def test_merged_dictionaries_have_the_class_that_python_gives_them(line, kind, own):
    scope = {**vars(collections), "make": KINDS[kind]}
    exec(
        f"def f(x, h, i):\n    h = make() if {own} else h\n    g = h\n    try:\n        {line}\n    except (TypeError, AttributeError) as error:\n"
        "        h = type(error).__name__\n    return x * 2, h, g is h, getattr(h, 'default_factory', None)",
        scope,
    )
    compiled = torch.compile(scope["f"], backend="eager")
    for i in (1, 2, 3):
        one, other = KINDS[kind](), KINDS[kind]()
        assert repr(scope["f"](torch.ones(1), one, i)) == repr(compiled(torch.ones(1), other, i))
        assert repr(one) == repr(other)
