"""Drawn programs: straight-line functions of tensors, as text that runs eagerly and compiled alike.

In: inputs (sizes, type, layout, seed) and lines of Python over records and tensor methods. Out: `Program`: its
function, fresh inputs, its text as a program of its own, and what one call of it shows: outputs, inputs afterwards,
gradients, strides, and which results share memory.
"""

import dataclasses
import re
import warnings

import numpy as np

import flambeau
from flambeau.eager import dispatch, dtypes
from flambeau.eager.op.op import Kind, OPS, find
from flambeau.eager.tensor import Tensor
from flambeau.inductor.runtime.compare_stages import gradients_or_none, tensors_in

NAMES = re.compile(r"\b[xv]\d+\b")
RECORDS = re.compile(r"\bop_(\w+)\(")


@dataclasses.dataclass(frozen=True)
class Input:
    """`layout`: rows, columns (the reverse order of dims), steps (each second element), offset, expanded (stride 0).
    `values`: grid (multiples of 1/8: ties, exact sums), normal, special (with infinities and NaN), an int (whole
    numbers below it), or an array. `grad`: None, "leaf", or "computed" (no leaf, may be written)."""

    name: str
    sizes: tuple
    dtype: str = "float32"
    layout: str = "rows"
    values: object = "normal"
    grad: str | None = None
    seed: int = 0

    def array(self):
        if isinstance(self.values, np.ndarray):
            return self.values.copy()
        kind = getattr(dtypes, self.dtype).numpy
        memory = np.asarray(self.drawn(self.stored_sizes())).astype(kind)
        if self.layout == "columns":
            return memory.transpose(range(memory.ndim)[::-1])
        if self.layout == "steps":
            return memory[..., ::2]
        if self.layout == "offset":
            return memory[1:]
        return (
            np.lib.stride_tricks.as_strided(memory, self.sizes, (0, *memory.strides[1:])) if self.layout == "expanded" else memory
        )

    def stored_sizes(self):
        sizes = self.sizes
        if not sizes or self.layout == "rows":
            return sizes
        changed = {
            "columns": sizes[::-1],
            "steps": (*sizes[:-1], 2 * sizes[-1]),
            "offset": (sizes[0] + 1, *sizes[1:]),
            "expanded": (1, *sizes[1:]),
        }
        return changed[self.layout]

    def drawn(self, sizes):
        rng = np.random.default_rng(self.seed)
        if isinstance(self.values, int):
            return rng.integers(0, self.values, sizes)
        if self.dtype == "bool":
            return rng.integers(0, 2, sizes)
        if not getattr(dtypes, self.dtype).is_floating_point:
            return rng.integers(0 if self.dtype == "uint8" else -5, 9, sizes)
        if self.values == "grid":
            return rng.integers(-16, 17, sizes) / 8
        numbers = rng.standard_normal(sizes)
        if self.values == "special":
            odd = rng.random(np.shape(numbers)) < 0.2
            numbers = np.where(odd, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], np.shape(numbers)), numbers)
        return numbers

    def tensor(self):
        """(what the gradient is taken for, the argument)."""
        made = Tensor._fl_from_array(self.array(), getattr(dtypes, self.dtype))
        if self.grad is None or not made.dtype.is_floating_point:
            return made, made
        made.requires_grad_()
        return made, made if self.grad == "leaf" else OPS["clone"](made)

    def text(self):
        """The expression of a printed program."""
        if isinstance(self.values, np.ndarray):
            return f"flambeau.tensor({self.values.tolist()!r}, dtype=flambeau.{self.dtype}).reshape({list(self.sizes)})"
        return f"{self!r}.tensor()[1]"


@dataclasses.dataclass(frozen=True)
class Line:
    """`name` is None for a statement that writes memory."""

    name: str | None
    text: str

    @property
    def reads(self):
        return frozenset(NAMES.findall(self.text))

    def __str__(self):
        return f"{self.name} = {self.text}" if self.name else self.text


@dataclasses.dataclass(frozen=True)
class Program:
    """`dynamic`: compiled with symbolic sizes; `other`: sizes -> sizes for a second call of the same code."""

    inputs: tuple
    lines: tuple
    outputs: tuple
    dynamic: bool = False
    other: tuple = ()
    label: str = ""

    def text(self):
        lines = [f"def program({', '.join(i.name for i in self.inputs)}):", *(f"    {line}" for line in self.lines)]
        return "\n".join([*lines, f"    return ({', '.join(self.outputs)},)"]) + "\n"

    def function(self):
        scope = {name: SCOPE[name] for name in (*GIVEN, *(f"op_{name}" for name in self.records()))}
        exec(compile(self.text(), f"<drawn program {self.label}>", "exec"), scope)
        return scope["program"]

    def records(self):
        return sorted({name for line in self.lines for name in RECORDS.findall(line.text)})

    def printed(self):
        """A program of its own."""
        head = [
            "from math import inf, nan",
            "import flambeau",
            "from flambeau.eager import dtypes",
            "from flambeau.eager.op.op import find",
        ]
        if any(not isinstance(i.values, np.ndarray) for i in self.inputs):
            head.append("from flambeau.tests.inductor.graphfuzz import Input")
        head += [f"op_{name} = find({name!r})" for name in self.records()]
        given = ", ".join(i.text() for i in self.inputs)
        dynamic = ", dynamic=True" if self.dynamic else ""
        calls = [f"print(program({given}))", f"print(flambeau.compile(program{dynamic})({given}))"]
        if self.other:
            calls.append(f"# and with sizes exchanged: {dict(self.other)}")
        return "\n".join([*head, "", "", self.text(), "", *calls]) + "\n"

    def resized(self):
        """The program with the other sizes; None where it has none."""
        if not self.other:
            return None
        table = dict(self.other)
        moved = [
            i if isinstance(i.values, np.ndarray) else dataclasses.replace(i, sizes=tuple(table.get(n, n) for n in i.sizes))
            for i in self.inputs
        ]
        return dataclasses.replace(self, inputs=tuple(moved))


GIVEN = {"flambeau": flambeau, "dtypes": dtypes, "inf": float("inf"), "nan": float("nan")}


class _Scope(dict):
    """Records by `op_name`; made once."""

    def __init__(self):
        super().__init__(GIVEN)
        for name, op in list(OPS.items()):
            self["op_" + name] = op

    def record(self, name):
        self.setdefault("op_" + name, find(name))
        return name


SCOPE = _Scope()


# -- what a call shows


@dataclasses.dataclass
class Shown:
    """Outputs, inputs afterwards, gradients (arrays); `facts`: types, sizes, strides, requires_grad; `shares`: which of
    outputs and inputs are one object, and which lie in one storage; `refused`: eager has no gradient, as a value that it
    saved was written (compiled graphs have one)."""

    arrays: list
    facts: list
    shares: list
    refused: bool = False

    def without_gradients(self):
        count = len(self.shares) // 2
        return Shown(self.arrays[:count], self.facts[:count], self.shares, True)


def show(call, program):
    """One call with inputs made anew; `Refused` where it raises."""
    flambeau.manual_seed(5)
    leaves, given = zip(*[i.tensor() for i in program.inputs]) if program.inputs else ((), ())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        outputs = call(*given)
        everything = [*tensors_in(outputs), *given]
        gradients = gradients_or_none(everything, [x for x, i in zip(leaves, program.inputs) if i.grad and x.requires_grad])
    arrays = [t._fl_array for t in everything]
    facts = [(t.dtype.name, tuple(t.shape), strides_told(t), t.requires_grad) for t in everything]
    shares = groups([id(t) for t in everything]) + groups([t.untyped_storage().data_ptr() or id(t) for t in everything])
    for g in gradients or ():
        arrays.append(None if g is None else g._fl_array)
        facts.append(None if g is None else (g.dtype.name, tuple(g.shape)))
    return Shown(arrays, facts, shares, gradients is None)


def groups(keys):
    first = {}
    return [first.setdefault(key, k) for k, key in enumerate(keys)]


def strides_told(t):
    """Strides that mean something."""
    return tuple(s for s, n in zip(t.stride(), t.shape) if n > 1) if t.numel() else ()


TOLERANCE = {"float64": (1e-9, 1e-10), "float32": (2e-4, 2e-5), "float16": (1e-2, 2e-3), "bfloat16": (5e-2, 1e-2)}


def coarsest(program):
    """The tolerance of the shortest type that numbers of a program pass through: a product of float32 that is then made
    float64 is no more exact for that."""
    return coarsest_named(program.text() + repr(program.inputs))


def coarsest_named(text):
    return TOLERANCE[next((name for name in ("bfloat16", "float16", "float32") if name in text), "float64")]


def difference(expected, actual, coarse=(0, 0), slack=None):
    """In words, where two calls differ; `slack`: how far each number moves when roundings do."""
    if expected.refused:
        actual = actual.without_gradients()
    if len(expected.facts) != len(actual.facts):
        return "no gradients" if actual.refused else f"{len(actual.facts)} values instead of {len(expected.facts)}"
    if expected.facts != actual.facts:
        at = next(k for k, (a, b) in enumerate(zip(expected.facts, actual.facts)) if a != b)
        return f"value {at}: {actual.facts[at]} instead of {expected.facts[at]}"
    if expected.shares != actual.shares:
        return f"sharing {actual.shares} instead of {expected.shares}"
    for k, (a, b) in enumerate(zip(expected.arrays, actual.arrays)):
        problem = arrays_differ(a, b, coarse, None if slack is None else slack[k])
        if problem:
            return f"value {k}: {problem}"
    return None


def arrays_differ(a, b, coarse=(0, 0), slack=None):
    if a is None or b is None or a.size == 0:
        return None
    relative, absolute = map(max, TOLERANCE.get(a.dtype.name, (0, 0)), coarse)
    wide = a.dtype.kind not in "biu"
    x, y = (v.astype(np.float64) if wide else v for v in (a, b))
    if np.array_equal(x, y):
        return None
    with np.errstate(all="ignore"):
        if not wide:
            wrong = x != y
        else:
            finite = np.abs(x[np.isfinite(x)])
            scale = max(1.0, finite.max()) if finite.size else 1.0
            wrong = ~np.isclose(y, x, rtol=relative, atol=absolute * scale, equal_nan=True)
        if slack is not None:
            low, high = slack
            room = 4 * (high - low) if wide else 0
            wrong &= ~((y >= low - room) & (y <= high + room)) & ~np.isnan(low)
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} numbers differ, first at {at}: {b[at]} instead of {a[at]}"


# -- how exact eager itself is


EPSILON = {"float64": 4e-16, "float32": 2.4e-7, "float16": 1e-3, "bfloat16": 8e-3}


class Shaken(dispatch.Mode):
    """Every result of a record is moved by a few roundings, up or down; for every fourth seed what is left of a difference of
    equal numbers is nothing instead."""

    def __init__(self, seed):
        self.rng, self.exact = np.random.default_rng(seed), seed % 4 == 3

    def __enter__(self):
        super().__enter__()
        return self

    def dispatch(self, op, args):
        result = dispatch.execute(op, args)
        if op.kind is not Kind.VIEW and not op.draws:
            size = max(
                (float(np.abs(a._fl_array).max()) for a in tensors_in(args) if a.numel() and a.is_floating_point()), default=0
            )
            for t in tensors_in(result):
                self.move(t, size)
        return result

    def move(self, t, size):
        eps = EPSILON.get(t.dtype.name)
        if eps and t._fl_array.flags.writeable and t._fl_array.size and self.exact:
            t._fl_array[np.abs(t._fl_array) < 16 * eps * min(size, 1e30)] = 0
        elif eps and t._fl_array.flags.writeable and t._fl_array.size:
            t._fl_array *= (1 + eps * self.rng.uniform(-2, 2, t._fl_array.shape)).astype(t._fl_array.dtype)


def spread(program, count=24):
    """Per shown value (least, greatest) over shaken runs; NaN where some run gives NaN or infinity."""
    runs = []
    for seed in range(count):
        try:
            with Shaken(seed):
                runs.append(show(program.function(), program).arrays)
        except (RuntimeError, ValueError, IndexError):
            continue
    return [None if column[0] is None else limits(column) for column in zip(*runs)]


def limits(column):
    stack = np.stack([a.astype(np.float64) if a.dtype.kind not in "biu" else a.astype(np.int64) for a in column])
    low, high = stack.min(0).astype(np.float64), stack.max(0).astype(np.float64)
    if column[0].dtype.kind in "biu":
        low = np.where(low != high, np.nan, low)  # decided by a rounding: nothing to compare
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(high - low), low, np.where(low == high, low, np.nan)), high
