"""Drawn programs as text, and what a caller can see of them: the same for eager, for every backend, and for PyTorch.

In: a program (source of `f`, lines of a caller) and a library. Out: a log with an entry per thing seen: values, flags, who shares
memory with whom, types of errors. A caller's line that raises is logged and the next one goes on.
"""

import dataclasses
import random

import numpy as np

import flambeau
from flambeau.runtime.config import config

BACKENDS = ("eager", "aot_eager", "loops")
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 3e-2, "bfloat16": 2e-1}
# compiled code may go on where eager says so
LESS_REFUSED = (
    "modified by an inplace operation",
    "returns multiple views",
    "Can't detach views in-place",
    "view of a leaf",
    "created in no_grad mode",
    "returned as-is",
)
SAVED_LESS = (*LESS_REFUSED, "a second time")  # and eager code, which saves less than PyTorch, where that says so
# refusals in the middle of a backward
REFUSED_LATE = ("modified by an inplace operation", "a second time")


@dataclasses.dataclass(frozen=True)
class Program:
    """`linear`: the source with backwards that are linear in what comes in. A double backward runs a recorded forward of its
    own, so that what comes in arrives in two parts."""

    source: str
    caller: tuple
    dtype: str
    linear: str = ""

    def __str__(self):
        return f"# {self.dtype}\n{self.source}\n# the caller\n" + "\n".join(self.caller)


class Stop(Exception):
    """Nothing after this can be compared."""


def flat(x):
    if isinstance(x, (tuple, list)):
        return [t for v in x for t in flat(v)]
    return [t for v in x.values() for t in flat(v)] if isinstance(x, dict) else [x]


def shown(lib, x):
    if not isinstance(x, lib.Tensor):
        return x
    made = x.detach().to(lib.float64) if x.dtype.is_floating_point else x.detach()
    return tuple(x.shape), str(x.dtype).rpartition(".")[2], np.array(made.numpy())


def numbers(lib, shape, dtype, seed):
    values = np.random.default_rng(seed).uniform(0.25, 1.5, shape).round(2)
    return lib.tensor(values, dtype=getattr(lib, dtype))


def same_memory(tensors) -> list:
    at = [t.untyped_storage().data_ptr() if t.numel() else k for k, t in enumerate(tensors)]
    return [[p == q for q in at] for p in at]


def observe(lib, program, wrap=lambda f: f) -> list:
    """The log of one run."""
    log = []
    scope = {
        "torch": lib,
        "log": lambda *xs: log.extend(shown(lib, x) for x in flat(xs)),
        "flat": flat,
        "same_memory": same_memory,
        "numbers": lambda shape, seed: numbers(lib, shape, program.dtype, seed),
        "DT": getattr(lib, program.dtype),
    }
    exec(program.source, scope)
    scope["f"] = wrap(scope["f"])
    lib.manual_seed(0)
    for line in program.caller:
        try:
            exec(line, scope)
        except Exception as error:
            log.append(("raises", type(error).__name__, str(error)))
    return log


def difference(want: list, got: list, tolerance: float, less_refused=LESS_REFUSED) -> str | None:
    for k, (a, b) in enumerate(zip(want, got)):
        raised = [x for x in (a, b) if is_error(x)]
        if is_error(a) and not (is_error(b) and b[2] == a[2]) and any(text in a[2] for text in less_refused):
            return None  # what follows depends on it, also where compiled code raises for something behind it
        if is_error(b) and not is_error(a) and "double backward runs the" in b[2]:
            return None  # refused by name: an input of the compiled call was written since
        if (
            is_error(a)
            and is_error(b)
            and (
                "returned as-is" in a[2]
                or "differentiate twice" in a[2]
                or any(text in a[2] and text in b[2] for text in REFUSED_LATE)
            )
        ):
            return None  # two refusals; gradients so far depend on the order of the nodes
        if raised:
            if not (is_error(a) and is_error(b) and a[1] == b[1]):
                return f"entry {k}: {a} and {b}"
        elif isinstance(a, tuple) and len(a) == 3 and isinstance(a[2], np.ndarray):
            if overflows(a, b):
                return None  # between fused ops halves are not rounded, nor overflow
            if not (isinstance(b, tuple) and len(b) == 3 and a[:2] == b[:2] and close(a[2], b[2], tolerance)):
                return f"entry {k}: {a} and {b}"
        elif a != b:
            return f"entry {k}: {a} and {b}"
    return None if len(want) == len(got) else f"{len(want)} entries and {len(got)}"


def overflows(a, b) -> bool:
    """Whether a half is infinite here and a number there."""
    return a[:2] == b[:2] and a[1] == "float16" and bool((np.isinf(a[2]) & np.isfinite(b[2])).any())


def is_error(x) -> bool:
    return isinstance(x, tuple) and len(x) == 3 and x[0] == "raises"


def close(a, b, tolerance) -> bool:
    if a.dtype.kind != "f":
        return a.shape == b.shape and np.array_equal(a, b)
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return False
    known = np.where(np.isfinite(a), np.abs(a), 0)
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(a - b) > tolerance * (1 + known.max(initial=0))
    return not (far & (a != b)).any()


def check(program: Program, backends=BACKENDS) -> None:
    """Every backend shows what eager shows, as users run it: halves are not rounded between fused ops."""
    for backend in backends:
        found = differs(program, backend)
        if found and program.linear and any("create_graph=True" in line for line in program.caller):
            program = dataclasses.replace(program, source=program.linear, linear="")
            found = differs(program, backend)
        assert found is None, f"{backend}: {found}\n{program}"


def differs(program: Program, backend) -> str | None:
    """What a backend shows otherwise. Between fused ops halves are not rounded: truth values and whole numbers made of them, sines, and
    numbers whose digits eager's own roundings lose (in float64 they are others) are compared with every rounding kept."""
    want = observe(flambeau, program)

    def told(rounding: bool) -> str | None:
        flambeau.compiler.reset()
        with config.patch(keep_half_rounding=rounding, strict=True):
            got = observe(flambeau, program, lambda f: flambeau.compile(f, backend=backend))
        return difference(want, got, TOLERANCE[program.dtype])

    found = told(False)
    half = found and program.dtype.endswith("float16")
    decided = half and ("'bool'" in found or "'int64'" in found)
    lost = half and (decided or ".sin()" in program.source or loses_digits(program, want))  # (sines, of large angles)
    return told(True) if lost else found


def loses_digits(program: Program, seen: list) -> bool:
    """Whether halves show something else than doubles."""
    exact = observe(flambeau, dataclasses.replace(program, dtype="float64"))
    plain = lambda log: [(x[0], "", x[2]) if isinstance(x, tuple) and len(x) == 3 and not is_error(x) else x for x in log]
    return difference(plain(exact), plain(seen), TOLERANCE[program.dtype]) is not None


class Draws(random.Random):
    """Choices of a generator."""

    def some(self, items, least=0):
        return self.sample(items, self.randint(least, len(items)))

    def chance(self, p: float) -> bool:
        return self.random() < p

    def dtype(self) -> str:
        return self.choices(("float32", "float64", "bfloat16", "float16"), (6, 1, 2, 1))[0]
