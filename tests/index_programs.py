"""Programs that read and write a tensor at a key, drawn in every spelling that PyTorch takes, right and wrong.

In: a seed. Out: a `Program`, the text of a function of one tensor and of the tensors that its key holds, which any library of
PyTorch's names runs (`observed`): what it returns, what became of the base, gradients, or the type of the error.
"""

import dataclasses
import random
import warnings

import numpy as np

INTS = ("int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
ACTIONS = {
    "read": "y = x[k]\nreturn y",
    "view": "y = x[k]\ny.fill_(1)\nreturn y, x * 1",
    "number": "x[k] = 3\nreturn x * 1",
    "fraction": "x[k] = 2.5\nreturn x * 1",
    "row": "y = x[k]\nx[k] = torch.ones(y.shape[-1:], dtype=x.dtype) * 2\nreturn x * 1",
    "whole": "y = x[k]\nx[k] = (torch.ones(y.shape) * 3).to(x.dtype)\nreturn x * 1",
    "wider": "y = x[k]\nx[k] = torch.ones((1, *y.shape), dtype=x.dtype)\nreturn x * 1",
    "wrong size": "x[k] = torch.ones(7, 2, dtype=x.dtype)\nreturn x * 1",
    "other type": "x[k] = torch.ones(1, dtype=torch.int32)\nreturn x * 1",
    "scalar": "x[k] = torch.tensor(4., dtype=x.dtype)\nreturn x * 1",
    "add": "x[k] += 1\nreturn x * 1",
    "list": "x[k] = [1, 2]\nreturn x * 1",
    "gradient": "y = (x * 2)[k]\nreturn y * y",
    "gradient of both": "z = x * 1\nv = w[:1].sum() * 3\nz[k] = v\nreturn z * z",
}
TRACKED = ("gradient", "gradient of both")


@dataclasses.dataclass(frozen=True)
class Program:
    """`tensors`: name and text of each tensor in the key, which are arguments of the function."""

    base: str
    key: str
    action: str
    tensors: tuple

    @property
    def text(self):
        names = "".join(f", {name}" for name, _ in self.tensors)
        body = f"k = {self.key}\n{ACTIONS[self.action]}".replace("\n", "\n    ")
        return f"def f(x, w{names}):\n    {body}\n"

    def __str__(self):
        return f"x = {self.base}\nw = torch.ones(3)\n" + "".join(f"{n} = {t}\n" for n, t in self.tensors) + self.text


class Draw:
    def __init__(self, seed):
        self.rng, self.tensors = random.Random(seed), []

    def program(self):
        shape = tuple(self.rng.choice((1, 2, 3, 3, 4)) for _ in range(self.rng.choice((0, 1, 2, 2, 3, 3))))
        if self.rng.random() < 0.06 and shape:
            shape = (*shape[:-1], 0)
        base = self.base(shape)
        key = self.key(list(shape))
        action = self.rng.choice(list(ACTIONS))
        if action in TRACKED and "float" not in base:
            action = "read"
        return Program(base, key, action, tuple(self.tensors))

    def base(self, shape):
        n = int(np.prod(shape))
        kind = self.rng.choice(("float32", "float32", "float64", "int64", "bool"))
        made = f"torch.arange({n}).reshape({shape}).to(torch.{kind})"
        layout = self.rng.random()
        if layout < 0.15 and len(shape) > 1:
            swapped = shape[::-1]
            return f"torch.arange({n}).reshape({swapped}).to(torch.{kind}).permute({tuple(range(len(shape)))[::-1]})"
        if layout < 0.25 and shape and shape[0]:
            return f"torch.arange({2 * n}).reshape({(2 * shape[0], *shape[1:])}).to(torch.{kind})[::2]"
        if layout < 0.32 and shape:
            rest = (1, *shape[1:])
            return f"torch.arange({int(np.prod(rest))}).reshape({rest}).to(torch.{kind}).expand({shape})"
        return made

    # -- keys

    def key(self, shape):
        """The text of a key for these sizes."""
        if self.rng.random() < 0.2:
            return self.part(shape[:1] or [1], shape)
        parts, left, common = [], list(shape), self.rng.randint(1, 3)
        for _ in range(self.rng.choice((0, 1, 1, 2, 2, 2, 3, 4))):
            parts.append(self.part(left[:1] or [1], left, common))
            left = left[1:] if self.rng.random() < 0.9 else left
        inside = ", ".join(parts)
        return f"[{inside}]" if self.rng.random() < 0.15 else f"({inside}{',' if parts else ''})"

    def part(self, first, shape, common=2):
        n = first[0]
        kinds = (
            self.number,
            self.number,
            self.slice,
            self.slice,
            lambda n: "None",
            lambda n: "...",
            self.flag,
            self.scalar,
            self.index,
            self.index,
            self.list,
            self.list,
            self.array,
            self.mask,
            self.range,
            self.odd,
        )
        self.common, self.shape = common, shape
        return self.rng.choice(kinds)(n)

    def place(self, n):
        return self.rng.randint(-n, n - 1) if n and self.rng.random() < 0.97 else self.rng.choice((n, -n - 1, 9))

    def places(self, n):
        return [self.place(n) for _ in range(self.rng.choice((0, 1, self.common, self.common, self.common)))]

    def number(self, n):
        k = self.place(n)
        return self.rng.choice((str(k), str(k), f"np.int64({k})", f"Index({k})"))

    def slice(self, n):
        ends = [self.rng.choice(("None", "None", str(self.rng.randint(-n - 1, n + 1)))) for _ in range(2)]
        return f"slice({ends[0]}, {ends[1]}, {self.rng.choice(('None', 'None', '1', '2', '3', '-1' if n > 2 else '1'))})"

    def flag(self, n):
        return self.rng.choice(
            ("True", "False", "True", self.tensor("torch.tensor(True)"), self.tensor("torch.tensor(False)"), "np.array(True)")
        )

    def scalar(self, n):
        kind = self.rng.choice(("int64", "int64", "int64", "int32", "uint8", "int16", "float32"))
        k = self.place(n) if kind != "uint8" else self.rng.randint(0, 1)
        return self.tensor(f"torch.tensor({k}, dtype=torch.{kind})")

    def index(self, n):
        kind = self.rng.choice(("int64", "int64", "int64", "int32", "int16", "float32"))
        places = self.places(n)
        if self.rng.random() < 0.2:
            places = [places, [self.place(n) for _ in places]]
        return self.tensor(f"torch.tensor({places}, dtype=torch.{kind})")

    def list(self, n):
        choice = self.rng.random()
        if choice < 0.5:
            return str(self.places(n))
        if choice < 0.65:
            return str([self.rng.random() < 0.5 for _ in range(n)])
        if choice < 0.8:
            return str([self.places(n), self.places(n)])
        if choice < 0.9:
            return "[" + ", ".join(self.scalar(n) for _ in range(self.rng.randint(1, 2))) + "]"
        return str(tuple(self.places(n)))

    def array(self, n):
        kind = self.rng.choice((*INTS, "float64"))
        places = [abs(k) for k in self.places(n)] if kind[0] == "u" else self.places(n)
        return f"np.array({places}, dtype=np.{kind})"

    def mask(self, n):
        rank = self.rng.choice((1, 1, min(2, len(self.shape))))
        size = [m if self.rng.random() < 0.97 else m + 1 for m in self.shape[:rank]] or [n]
        values = np.random.default_rng(self.rng.randint(0, 10**6)).random(size) < 0.5
        return self.rng.choice(
            (
                lambda: self.tensor(f"torch.tensor({values.tolist()}, dtype=torch.bool)"),
                lambda: f"np.array({values.tolist()}, dtype=bool)",
                lambda: self.tensor(f"torch.tensor({values.astype(int).tolist()}, dtype=torch.uint8)"),
            )
        )()

    def range(self, n):
        return f"range({self.rng.randint(0, n)})"

    def odd(self, n):
        return (
            self.rng.choice(
                (
                    "1.5",
                    "'a'",
                    "{}",
                    "object()",
                    "np.float64(1)",
                    "[None]",
                    "[slice(None)]",
                    "[[0, [1]], 1]",
                    "2**70",
                    "torch.Size([0])",
                    "[...]",
                    "1j",
                )
            )
            if self.rng.random() < 0.2
            else "slice(None)"
        )

    def tensor(self, text):
        name = f"i{len(self.tensors)}"
        self.tensors.append((name, text))
        return name


class Index:
    def __init__(self, k):
        self.k = k

    def __index__(self):
        return self.k


def drawn(seed):
    return Draw(seed).program()


def arguments(lib, program):
    scope = {"torch": lib, "np": np}
    x = eval(program.base, scope)
    w = lib.ones(3)
    if program.action in TRACKED:
        x, w = x.detach().requires_grad_(), w.requires_grad_()
    return x, w, *[eval(text, scope) for _, text in program.tensors]


def function_of(lib, program, where="<index program>"):
    scope = {"torch": lib, "np": np, "Index": Index, "__name__": "index_program"}
    exec(compile(program.text, where, "exec"), scope)
    return scope["f"]


def told(value):
    """What can be compared between libraries."""
    if isinstance(value, (tuple, list)):
        return [told(v) for v in value]
    return (str(value.dtype), list(value.shape), value.tolist()) if hasattr(value, "dtype") else value


def observed(lib, program, f=None):
    """(kind of the outcome, what is seen of it)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, w, *rest = arguments(lib, program)
        try:
            out = (f or function_of(lib, program))(x, w, *rest)
            if program.action in TRACKED and out.requires_grad:
                out.sum().backward()
        except Exception as error:
            return "error", type(error).__name__, str(error)
        return "value", told(out), told(x.detach()), [told(t.grad) if t.grad is not None else None for t in (x, w)]
