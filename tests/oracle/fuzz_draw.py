"""What the tables of random calls are written with: `Draw` picks sizes, types, layouts and numbers; `calls` enters a
generator for names; `Entry.case(seed)` makes a case of it.

A generator returns a dict of arguments in PyTorch's order. Those before the first that is left out may be given by
position or by keyword; a key "*name" is given by keyword only, "/name" by position only.
"""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np

from .fuzz import COMPLEX, EVERY, FLOATS, KINDS, WEIGHTS, Case, Spec, mapped, specs_of

OMIT = object()
TABLE = {}


class Draw:
    """Random choices; `wild`: now and then something that torch refuses."""

    def __init__(self, seed, name):
        self.rng = np.random.default_rng(seed)
        self.name = name

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def maybe(self, p, value):
        """The value with chance p, else the argument is left out."""
        return value if self.chance(p) else OMIT

    def number(self):
        return self.pick(0, 1, 2, 3, -1, -2, 0.5, 2.5, -1.5, 1.0, True)

    def size(self):
        return int(self.rng.choice([0, 1, 2, 3, 4, 5], p=[0.05, 0.15, 0.25, 0.3, 0.15, 0.1]))

    def shape(self, low=0, high=4):
        rank = int(min(high, max(low, self.rng.choice([0, 1, 2, 3, 4], p=[0.1, 0.25, 0.35, 0.2, 0.1]))))
        return tuple(self.size() for _ in range(rank))

    def full_shape(self, low=1, high=4):
        """Without empty dims."""
        return tuple(max(1, n) for n in self.shape(low, high))

    def dtype(self, kinds):
        """A type of these kinds ("f" floating, "i" integer, "b" bool, "c" complex), rarely any."""
        if self.chance(0.03):
            return self.pick(*EVERY)
        kind = kinds[0] if self.chance(0.5) else self.pick(*kinds)
        return str(self.rng.choice(KINDS[kind], p=WEIGHTS[kind]))

    def layout(self, shape):
        rank = len(shape)
        if rank == 0 or self.chance(0.55):
            return ("contiguous",)
        kind = self.pick("permuted", "permuted", "sliced", "offset", "expanded")
        if kind == "permuted":
            return (kind, tuple(self.rng.permutation(rank).tolist()))
        if kind == "expanded":
            return (kind, (self.int(0, rank - 1),))
        return (kind,)

    def tensor(self, shape=None, kinds="f", values="normal", grad=None, dtype=None, plain=False):
        shape = self.shape() if shape is None else tuple(shape)
        dtype = dtype or self.dtype(kinds)
        grad = (dtype in FLOATS or dtype in COMPLEX) and (self.chance(0.85) if grad is None else grad)
        layout = ("contiguous",) if plain else self.layout(shape)
        return Spec(shape, dtype, values, int(self.rng.integers(1 << 30)), layout, grad)

    def index(self, shape, top, dtype="int64"):
        """Integers in [0, top), rarely one too far."""
        return Spec(tuple(shape), dtype, "index", int(self.rng.integers(1 << 30)), self.layout(shape), False, top)

    def like(self, spec, **changes):
        """Another tensor of the same type and sizes."""
        return dataclasses.replace(
            spec, seed=int(self.rng.integers(1 << 30)), layout=self.layout(changes.get("shape", spec.shape)), **changes
        )

    def broadcast(self, shape):
        """A shape that broadcasts with this one; rarely not."""
        if self.chance(0.45):
            return shape
        shape = list(shape[self.int(0, len(shape)) :]) if self.chance(0.4) else list(shape)
        shape = [1 if self.chance(0.3) else n for n in shape]
        if shape and self.chance(0.03):
            shape[-1] += 1
        return tuple(shape)

    def operand(self, shape, kinds, values="normal"):
        """The other operand of a binary op: a tensor, a 0-dim tensor or a number."""
        roll = self.rng.random()
        if roll < 0.2:
            return self.number()
        return self.tensor(() if roll < 0.3 else self.broadcast(shape), kinds, values)

    def dim(self, rank, extra=0):
        """A dim of either sign, rarely out of range."""
        top = rank + extra
        if self.chance(0.03):
            return self.pick(top, -top - 1)
        return self.int(-top, top - 1) if top else self.pick(0, -1)

    def dims(self, rank, low=0):
        """Several different dims."""
        if not rank:
            return ()
        chosen = self.rng.permutation(rank)[: self.int(min(low, rank), rank)]
        return tuple(int(d) - (rank if self.chance(0.4) else 0) for d in chosen)

    def some_dims(self, rank):
        """One dim, several, a list, none at all or left out."""
        return self.pick(
            lambda: self.dim(rank), lambda: self.dims(rank, 1), lambda: list(self.dims(rank, 1)), lambda: OMIT, lambda: None
        )()


@dataclasses.dataclass(frozen=True)
class Entry:
    """Options: forms (which of function, method, inplace, out; None: those that torch has), order of differentiation,
    weight (share of the cases), and what `Case` carries on."""

    call: str | Callable
    make: Callable
    forms: tuple | None = None
    order: int = 2
    weight: float = 1.0
    options: dict = dataclasses.field(default_factory=dict)

    @property
    def name(self):
        return self.call if isinstance(self.call, str) else f"program.{self.call.__name__}"

    def case(self, seed, available):
        d = Draw((seed, zlib.crc32(self.name.encode())), self.name.rpartition(".")[2])
        given = {k: v for k, v in self.make(d).items()}
        form = d.pick(*(self.forms or available))
        args, kwargs, by_keyword = [], {}, False
        start = d.int(1, len(given) + 3)
        for k, (name, value) in enumerate(given.items()):
            by_keyword = by_keyword or value is OMIT or (k >= start and not name.startswith("/"))
            if value is OMIT:
                continue
            if (by_keyword or name.startswith("*")) and not (k == 0 and form in ("method", "inplace")):
                kwargs[name.lstrip("*")] = value
            else:
                args.append(value)
        if form in ("method", "inplace") and not (args and isinstance(args[0], Spec)):
            form = "function"
        out = d.pick("same", "same", "empty", "strided", *EVERY[:1], "int64") if form == "out" else ""
        order = 0 if form == "out" or d.chance(0.35) else d.pick(*range(1, self.order + 1)) if self.order else 0
        if any(s.values == "special" for s in specs_of((args, kwargs))):
            order = min(order, 1)  # second derivatives at infinity are nobody's promise, nor at kinks
        if order == 2:
            args, kwargs = mapped(
                (args, kwargs),
                lambda s: (
                    dataclasses.replace(s, values="between")
                    if isinstance(s, Spec) and s.values == "normal" and s.dtype in FLOATS
                    else s
                ),
            )
        return Case(self.call, form, tuple(args), tuple(kwargs.items()), order, out, **self.options)


def calls(names, forms=None, order=2, weight=1.0, **options):
    """`@calls("torch.add torch.sub")` or of a function (library, *args)."""

    def enter(make):
        for call in names.split() if isinstance(names, str) else [names]:
            made = Entry(call, make, forms, order, weight, options)
            if made.name in TABLE:
                raise ValueError(f"{made.name} is in the table already")
            TABLE[made.name] = made
        return make

    return enter
