"""What the functions of the matrix find in their module: imports, small classes of each sort, functions, modules."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import random
import types
import typing

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

GLOBAL_NUMBER = 5
GLOBAL_LIST = [1, 2]


class Holder:
    def __init__(self, v):
        self.v = v


class Managed:
    """A context manager that keeps a log."""

    def __init__(self, log, swallow=None):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append("exit" if kind is None else f"exit {kind.__name__}")
        return self.swallow is not None and kind is not None and issubclass(kind, self.swallow)


@contextlib.contextmanager
def managed(log, value):
    log.append("begin")
    try:
        yield value
    finally:
        log.append("end")


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def doubled(self):
        return self.value * 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Perm(enum.Flag):
    R = 1
    W = 2


Point = collections.namedtuple("Point", "x y")


class Typed(typing.NamedTuple):
    x: int
    y: int = 4

    def total(self):
        return self.x + self.y


@dataclasses.dataclass
class Data:
    x: int
    y: float = 2
    items: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.x + self.y


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int
    y: int


@dataclasses.dataclass(order=True)
class Ordered:
    x: int
    z: int = 0

    def __post_init__(self):
        self.double = self.x * 2


class Upper:
    """A data descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, cls=None):
        return self if owner is None else getattr(owner, self.name, 7)

    def __set__(self, owner, value):
        setattr(owner, self.name, value + 1)


class Thing:
    count = 10
    upper = Upper()

    def __init__(self, n):
        self.n = n

    def go(self, t):
        return t * self.n

    @property
    def doubled(self):
        return self.n * 2

    @doubled.setter
    def doubled(self, value):
        self.n = value // 2

    @functools.cached_property
    def lazy(self):
        return self.n + 100

    @staticmethod
    def static(t):
        return t + 1

    @classmethod
    def make(cls, n):
        return cls(n + 1) if isinstance(n, int) else n + cls.count

    def __add__(self, other):
        return Thing(self.n + (other.n if isinstance(other, Thing) else other))

    def __radd__(self, other):
        return other + self.n

    def __iadd__(self, other):
        self.n += other
        return self

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else other * self.n

    def __matmul__(self, other):
        return other * self.n

    def __neg__(self):
        return Thing(-self.n)

    def __eq__(self, other):
        return isinstance(other, Thing) and self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    def __hash__(self):
        return hash(self.n)

    def __len__(self):
        return self.n

    def __getitem__(self, key):
        if isinstance(key, int) and key >= 3:
            raise IndexError(key)
        return (self.n, key)

    def __setitem__(self, key, value):
        self.__dict__[key] = value

    def __contains__(self, key):
        return key == self.n

    def __bool__(self):
        return self.n > 0

    def __call__(self, t):
        return t - self.n

    def __str__(self):
        return f"thing {self.n}"

    def __repr__(self):
        return f"Thing({self.n})"

    def __format__(self, spec):
        return f"<{spec}{self.n}>"

    def __int__(self):
        return self.n

    def __float__(self):
        return float(self.n)

    def __index__(self):
        return self.n


class Derived(Thing):
    def __init__(self, n):
        super().__init__(n)
        self.extra = n + 1

    def go(self, t):
        return super().go(t) + self.extra

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"no {name}"


class Slotted:
    __slots__ = ("n", "other")

    def __init__(self, n):
        self.n = n


class Adder:
    def __init__(self, n):
        self.n = n

    def __call__(self, t):
        return t + self.n


class Countdown:
    """An iterator written in Python."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Reiterable:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for k in range(self.n):
            yield k


class MyError(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


class Wrapped(list):
    def total(self):
        return sum(self)


class Named(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name)


def double(t):
    return t * 2


def scale(t, n=2):
    return t * n


tripled = lambda t, n=3: t * n  # noqa: E731


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 2


def twice(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(fn(*args, **kwargs))

    return wrapper


def plus(n):
    def decorate(fn):
        def wrapper(t):
            return fn(t) + n

        return wrapper

    return decorate


@twice
def decorated(t):
    return t * 2


def make_scaler(n):
    def scaler(t):
        return t * n

    return scaler


def spread(a, b=2, *rest, k=3, **named):
    return a * b + k + sum(rest) + sum(named.values())


def counted(n):
    for k in range(n):
        yield k
    return n


def echo():
    got = 0
    while True:
        sent = yield got
        if sent is None:
            return "ended"
        got = got + sent


class Linear2(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.inner = nn.Linear(3, 3)
        self.calls = 0

    def forward(self, t):
        self.calls += 1
        return self.inner(t) if self.training else t


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        self.table = nn.ModuleDict({"p": nn.Linear(3, 3), "q": nn.Identity()})

    def forward(self, t):
        return self.layers(t)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])

    def forward(self, t):
        for block in self.blocks:
            t = block(t)
        return t


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("late", None)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, t):
        self.seen += 1
        return t * self.scale + self.seen


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, g):
        (t,) = ctx.saved_tensors
        return g * t * 3


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(t, n):
        return t * n, t + n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]

    @staticmethod
    def backward(ctx, g, h):
        return g * ctx.n + h, None
