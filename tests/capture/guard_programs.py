"""Random small functions of tensors, containers, modules, objects and numbers, and random changes of these between calls.

`unsound(seed)` makes three equal worlds and one function, changes all worlds in the same way before each call, and calls the
function plainly in the first, through one compiled function that keeps its entries in the second, and freshly compiled in
the third. What each gives, and what its world looks like afterwards, must be the same.
"""

import random
import re
import types
import warnings

from . import fuzzing

import flambeau as torch
from flambeau.runtime.config import config

ARGUMENTS = "x y n k flag s items table m obj fn names pair".split()

PRELUDE = """
import collections, enum
import flambeau as torch

GLOBAL, SCALES = 2, [1.0, 2.0]

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

class Pair(collections.namedtuple("Pair", "left right")):
    def swapped(self): return self.right, self.left

class Base:
    rate = 3
    def total(self): return self.count * self.rate

class State(Base):
    def __init__(self): self.count, self.colour = 1, Colour.RED
    @property
    def twice(self): return self.count * 2
    def __len__(self): return self.count

class Other(Base):
    rate = 5
    twice = 7
    def __len__(self): return 1

class Named(int):
    label = "a"

class Slotted:
    __slots__ = ("value", "spare")
    def __init__(self): self.value = 4

class Block(torch.nn.Module):
    gain = 2
    def __init__(self, scale):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0, 1, 3))
        self.register_buffer("offset", torch.ones(3))
        self.scale = scale
    def forward(self, x): return x[..., :3] * self.weight[:1] * self.scale + self.offset[:1] * self.gain

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(1.0), Block(2)])
        self.drop, self.extra, self.sizes = None, {"a": 1}, (2, 3)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x if self.training else x * 2

def scaled(x, by=2, *, plus=0): return x * by + plus * GLOBAL

def closure(start):
    kept = start
    def fn(x, by=2, *, plus=1):
        return x * kept + by + plus
    def change(value):
        nonlocal kept
        kept = value
    return fn, change

class World:
    def __init__(self):
        self.x, self.y = torch.linspace(-1, 1, 4), torch.linspace(0, 2, 4)
        self.n, self.k, self.flag, self.s = 2, 0.5, True, "ab"
        self.items, self.table = [self.x, 3, self.y * 2], {"a": self.y, "b": 2}
        self.m, self.obj, self.names, self.pair = Net(), State(), {1, 2}, Pair(1, self.y)
        self.fn, self.change = closure(3)
        self.slotted, self.named = Slotted(), Named(6)
        self.obj.slotted, self.obj.named = self.slotted, self.named
"""
CODE = compile(PRELUDE, "worlds.py", "exec")

TERMS = (
    "x * n",
    "x.sum() * k",
    "x + y",
    "x * 2 if flag else x - 1",
    "x * len(s)",
    "s.upper() + s",
    "x[n % len(x)]",
    "x * k if k > 0.4 else x",
    "x.shape",
    "x.stride()",
    "x.dtype",
    "x.requires_grad",
    "x.is_contiguous()",
    "x is y",
    "x.shape[0] * n",
    "x.sin() if x.ndim == 1 else x.cos()",
    "type(n).__name__",
    "n + 1",
    "n // 2 + n % 3",
    "n in names",
    "sorted(names)",
    "isinstance(n, bool)",
    "max(n, 2) * x",
    "k * 2",
    "round(k, 1)",
    "len(items)",
    "items[0]",
    "items[-1]",
    "[v for v in items if isinstance(v, int)]",
    "sum(v for v in items if isinstance(v, int)) + x",
    "[v * 2 for v in items]",
    "type(items)",
    "items[0] is x",
    "items and items[0]",
    "items[:2]",
    "tuple(reversed(items))",
    "table.get('a')",
    "table.get('z', 4)",
    "'b' in table",
    "list(table)",
    "[(k2, type(v).__name__) for k2, v in table.items()]",
    "table['b'] * x",
    "len(table)",
    "{**table, 'q': n}",
    "table.get('a') is y",
    "m(x)",
    "m.training",
    "m.layers[0](x)",
    "len(m.layers)",
    "m.layers[-1].scale",
    "[p.shape for p in m.parameters()]",
    "m.layers[0].weight.sum()",
    "m.layers[0].offset + 1",
    "m.drop is None",
    "m.extra.get('a')",
    "list(m.extra)",
    "sum(v for v in m.extra.values() if isinstance(v, int)) * x",
    "'c' in m.extra",
    "len(m.extra)",
    "m.sizes",
    "m.layers[0].gain",
    "hasattr(m, 'added')",
    "[name for name, _ in m.named_buffers()]",
    "m.layers[0].weight.requires_grad",
    "m.layers[0] is m.layers[-1]",
    "sorted(m.state_dict())",
    "obj.count",
    "obj.rate * x",
    "obj.total()",
    "obj.twice",
    "hasattr(obj, 'spare')",
    "getattr(obj, 'spare', 5)",
    "obj.colour",
    "obj.colour.value * x",
    "len(obj)",
    "bool(obj)",
    "type(obj).__name__",
    "obj.slotted.value",
    "hasattr(obj.slotted, 'spare')",
    "obj.named.label",
    "obj.named + 1",
    "vars(obj).keys() >= {'count'}",
    "fn(x)",
    "fn(x, n)",
    "fn(x, plus=k)",
    "scaled(x)",
    "fn.__defaults__",
    "fn.__name__",
    "GLOBAL * x",
    "SCALES[-1] * x",
    "len(SCALES)",
    "Base.rate",
    "scaled(x, plus=1)",
    "pair.left",
    "pair.right * 2",
    "pair.swapped()",
    "type(pair).__name__",
    "len(pair)",
    "torch.is_grad_enabled()",
    "(x * 1.5).requires_grad",
    "torch.zeros(2).dtype",
    "torch.get_default_dtype()",
    "x.to(torch.float32)",
    "f'{s}-{n}-{k}'",
    "x.view(-1).shape",
    "x.t()",
    "torch.cat([x.reshape(-1), y.reshape(-1)])",
    "x.data_ptr() == y.data_ptr()",
    "x.grad is None",
    "x._version >= 0",
    "y.add_(1)",
)
STATEMENTS = (
    "obj.count += 1",
    "table['made'] = x * 2",
    "items.append(n) if isinstance(items, list) else None",
    "m.layers[0].scale = m.layers[0].scale",
    "for name, value in list(table.items()):\n        out.append((name, value))",
    "for i in range(n):\n        if i > 12: break\n        out.append(x * i)",
    "try:\n        out.append(table['z'])\n    except KeyError as error:\n        out.append(str(error))",
    "if obj.count > 2:\n        out.append('many')",
    "with torch.no_grad():\n        out.append(m.layers[0].weight * 2)",
    "while len(out) < n and len(out) < 12:\n        out.append(len(out))",
    "print(n)",
    "global GLOBAL\n    GLOBAL = GLOBAL + 0",
    "out.append([a is b for a in (x, y) for b in items])",
)


def tensors(draw):
    return draw.choice(
        (
            lambda w: torch.linspace(-1, 1, 4),
            lambda w: torch.linspace(-1, 1, 5),
            lambda w: torch.ones(2, 3),
            lambda w: torch.ones(1),
            lambda w: torch.ones(0),
            lambda w: torch.linspace(0, 1, 8)[::2],
            lambda w: torch.arange(4),
            lambda w: torch.ones(4).double(),
            lambda w: torch.ones(4).requires_grad_(),
            lambda w: w.y,
            lambda w: w.y[:3],
            lambda w: torch.ones(3, 2).t(),
            lambda w: torch.nn.Parameter(torch.ones(4)),
            lambda w: w.x.detach(),
            lambda w: torch.ones(4) > 0,
        )
    )


def numbers(draw):
    value = draw.choice((0, 1, 2, 3, 4, 2**40, -1, True, False, 1.0, 2.5))
    return lambda w: value


def put(owner, name, value):
    def change(w):
        target = eval(owner, {"w": w, **w.scope}) if owner else w
        setattr(target, name, value(w))

    return change


def does(text):
    code = compile(text, "change.py", "exec")
    made = lambda draw: lambda w: exec(code, w.scope, {"w": w})
    made.text = text
    return made


NOTHING = does("pass")


CHANGES = (
    lambda draw: put("", "x", tensors(draw)),
    lambda draw: put("", "x", tensors(draw)),
    lambda draw: put("", "y", tensors(draw)),
    lambda draw: put("", "n", numbers(draw)),
    lambda draw: put("", "n", numbers(draw)),
    lambda draw: put("", "k", (lambda v: lambda w: v)(draw.choice((0.5, 0.25, -1.0, 3, float("inf"), 0.0, -0.0)))),
    lambda draw: put("", "flag", (lambda v: lambda w: v)(draw.choice((True, False, 0, 1, "", None)))),
    lambda draw: put("", "s", (lambda v: lambda w: v)(draw.choice(("ab", "xyz", "", b"ab")))),
    *map(
        does,
        (
            "w.items = list(w.items)",
            "w.items = tuple(w.items)",
            "w.items = [w.y, w.x]",
            "w.items = w.items[:1]",
            "w.items = []",
            "w.items = [5, 3, w.x]",
            "w.items = list(reversed(w.items))",
            "w.items = [*w.items, 9]",
            "w.items = [w.x, 4, w.x]",
            "w.items = [w.x, 3.0, w.y]",
            "w.table['b'] = 3",
            "w.table['b'] = w.x",
            "w.table.pop('a', None)",
            "w.table['z'] = 8",
            "w.table = dict(reversed(w.table.items()))",
            "w.table = {}",
            "w.table = collections.OrderedDict(w.table)",
            "w.table['a'] = w.y + 1",
            "w.table['a'] = w.x",
            "w.table = {1: 2, **w.table}",
            "w.table['b'] = True",
            "w.m.eval()",
            "w.m.train()",
            "w.m.layers[0].scale = 3",
            "w.m.layers[0].scale = 1.5",
            "w.m.layers[0].train(False)",
            "w.m.layers.append(Block(3))",
            "del w.m.layers[0]",
            "w.m.layers[0].weight = torch.nn.Parameter(torch.ones(5))",
            "w.m.layers[0].weight.data = torch.zeros(3)",
            "w.m.layers[0].offset = torch.ones(3) * 4",
            "w.m.layers[0].weight.requires_grad_(False)",
            "w.m.drop = 4",
            "w.m.extra['a'] = 2",
            "w.m.extra = {}",
            "w.m.extra[7] = 1",
            "w.m.extra[1, 2] = 3",
            "w.m.extra['c'] = 5",
            "w.m.extra.pop('a', None)",
            "w.m.sizes = (2, 4)",
            "w.m.added = 1",
            "Block.gain = 5",
            "w.m.layers[0].gain = 6",
            "w.m.layers[0].forward = lambda x: x + 1",
            "w.m = Net()",
            "w.m = Net().double()",
            "w.m.layers[0].register_forward_hook(lambda m, i, o: o * 2)",
            "w.m.layers[0] = w.m.layers[-1]",
            "w.m.layers[0].register_buffer('more', torch.ones(1))",
            "Block.forward = lambda self, x: x * 3",
            "Net.forward = lambda self, x: x * self.layers[0].scale",
            "Net.__call__ = lambda self, x: x + 100",
            "with torch.no_grad(): w.m.layers[0].weight.add_(1)",
            "w.obj.count = 5",
            "w.obj.count = 2.5",
            "w.obj.spare = 1",
            "vars(w.obj).pop('spare', None)",
            "Base.rate = 4",
            "State.rate = 9",
            "w.obj.rate = 8",
            "vars(w.obj).pop('rate', None)",
            "w.obj.colour = Colour.BLUE",
            "State.twice = property(lambda self: 77)",
            "State.twice = 6",
            "w.obj.__class__ = Other",
            "State.total = lambda self: 1",
            "w.obj.total = lambda: 2",
            "State.__len__ = lambda self: 0",
            "State.__bool__ = lambda self: False",
            "w.slotted.value = 5",
            "w.slotted.spare = 1",
            "w.named.label = 'b'",
            "Named.label = 'c'",
            "w.obj.named = Named(7)",
            "w.obj.slotted = Slotted()",
            "State.__getattr__ = lambda self, name: 13",
            "w.obj = State()",
            "w.change(4)",
            "w.change(2.5)",
            "w.change(w.y)",
            "w.fn.__defaults__ = (5,)",
            "w.fn.__kwdefaults__['plus'] = 6",
            "w.fn, w.change = closure(9)",
            "w.fn = scaled",
            "w.fn.__code__ = (lambda kept: lambda x, by=2, *, plus=1: x - kept)(1).__code__",
            "w.fn.__name__ = 'renamed'",
            "scaled.__defaults__ = (7,)",
            "scaled.__kwdefaults__ = {'plus': 2}",
            "global GLOBAL; GLOBAL = 3",
            "global GLOBAL; GLOBAL = w.y",
            "global GLOBAL; GLOBAL = 2.0",
            "SCALES.append(3.0)",
            "SCALES[-1] = 4",
            "global scaled; scaled = lambda x, by=1, plus=0: x",
            "global Base; Base = type('Base', (), {'rate': 21})",
            "w.names = {1}",
            "w.names = w.names | {0, 3}",
            "w.names = frozenset(w.names)",
            "w.pair = Pair(2, w.y)",
            "w.pair = Pair(1, 4)",
            "w.pair = (1, w.y)",
            "Pair.swapped = lambda self: self",
            "torch.set_grad_enabled(False)",
            "torch.set_grad_enabled(True)",
            "torch.set_default_dtype(torch.float64)",
            "torch.set_default_dtype(torch.float32)",
            "w.x.requires_grad_(w.x.is_floating_point() and w.x.is_leaf)",
            "w.x = w.x.clone()",
            "w.y = w.x",
            "w.y = w.x[:2]",
            "w.x.grad = torch.ones_like(w.x)",
        ),
    ),
)


# what the text of a change begins with is what it changes: `w.m.extra[7] = 1` belongs to programs that name `m.extra`
TOPICS = {alter: found[1] for alter in CHANGES if (found := re.match(r"w\.(\w+(?:\.\w+)?)", getattr(alter, "text", "")))}


def drawn_change(draw, text):
    """Half of them change what the program reads; in between, now and then, nothing does, so that guards find what they found."""
    apt = [alter for alter, topic in TOPICS.items() if topic in text]
    which = draw.random()
    return NOTHING if which < 0.03 else draw.choice(apt if apt and which < 0.5 else CHANGES)


def function_text(draw) -> str:
    lines = [f"    out.append({term})" for term in draw.sample(TERMS, draw.randint(4, 8))]
    for statement in draw.sample(STATEMENTS, draw.choice((0, 0, 1))):
        lines.insert(draw.randint(0, len(lines)), f"    {statement}")
    lines.sort(key=lambda line: "global" not in line)
    return "\n".join([f"def f({', '.join(ARGUMENTS)}):", "    out = [x * 1]", *lines, "    return out\n"])


def world(text):
    """A fresh world with the function in it."""
    module = types.ModuleType("worlds")
    exec(CODE, vars(module))
    exec(compile(text, "worlds.py", "exec"), vars(module))
    made = module.World()
    made.scope = vars(module)
    return made


def change(w, alter):
    """Apply a change where it makes sense: the worlds are equal, so it fails in all or in none."""
    try:
        alter(w)
    except (RuntimeError, AttributeError, TypeError, IndexError, KeyError, ValueError) as error:
        return type(error).__name__
    return None


def picture(w, f):
    """What a call gives, and what it leaves behind."""
    arguments = [getattr(w, name) for name in ARGUMENTS]
    torch.set_grad_enabled(w.__dict__.get("grad", True))
    torch.set_default_dtype(w.__dict__.get("default", torch.float32))
    try:
        result = f(*arguments)
    except Exception as error:
        result = error
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
    return fuzzing.seen([result, arguments[0:1], w.items, w.table, vars(w.obj).get("count"), w.scope["GLOBAL"]])


def altered(w, alter):
    """Change a world; modes that the change sets belong to that world."""
    torch.set_grad_enabled(w.__dict__.get("grad", True))
    torch.set_default_dtype(w.__dict__.get("default", torch.float32))
    try:
        return change(w, alter)
    finally:
        w.grad, w.default = torch.is_grad_enabled(), torch.get_default_dtype()
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


def unsound(seed, calls=8):
    """(text about the first call that differs or None, number of compared calls)."""
    draw = random.Random(seed)
    text = function_text(draw)
    settings = {"dynamic": draw.choice((None, None, None, True, False))}
    worlds = [world(text) for _ in range(3)]
    kept = torch.compile(worlds[1].scope["f"], backend=fuzzing.interpreted, **settings)
    told = []
    with config.patch(strict=True), warnings.catch_warnings(), fuzzing.contextlib.redirect_stdout(fuzzing.io.StringIO()):
        warnings.simplefilter("ignore")
        for call in range(calls):
            if call:
                makes = drawn_change(draw, text)
                state = draw.getstate()
                for w in worlds:
                    draw.setstate(state)
                    told.append(altered(w, makes(draw)))
            fresh = torch.compile(worlds[2].scope["f"], backend=fuzzing.interpreted, **settings)
            plain, cached, anew = (picture(w, f) for w, f in zip(worlds, (worlds[0].scope["f"], kept, fresh)))
            if repr(plain) != repr(cached) or repr(plain) != repr(anew):
                which = "an entry accepts what it is wrong for" if repr(plain) == repr(anew) else "a fresh compilation is wrong"
                return (
                    f"seed {seed}, call {call + 1}: {which}\n{text}\nplain:  {plain}\ncached: {cached}\nfresh:  {anew}",
                    call + 1,
                )
    return None, calls
