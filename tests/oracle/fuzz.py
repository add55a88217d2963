"""Random calls on two libraries: specifications of tensors and calls, running, comparing, making smaller, printing.

In: a `Case` (a public function or method with specifications for tensors), a library. Out: an `Outcome`; two of them
are compared in values, types, sizes, strides, gradients and errors. Everything is made from the case alone, so a case
that differs can be run again, made smaller step by step, and printed as a program of a few lines.
"""

import dataclasses
import itertools
import warnings
from collections.abc import Callable

import numpy as np

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTS = ("int64", "int32", "uint8", "int8", "int16")
COMPLEX = ("complex64", "complex128")
KINDS = {"f": FLOATS, "i": INTS, "b": ("bool",), "c": COMPLEX}
EVERY = FLOATS + INTS + ("bool",) + COMPLEX
WEIGHTS = {"f": (0.6, 0.2, 0.1, 0.1), "i": (0.5, 0.15, 0.15, 0.1, 0.1), "b": (1.0,), "c": (0.6, 0.4)}
SPECIALS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
EXTREMES = []  # fuzz_extremes.py's numbers, once it is imported
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-5, "complex64": 2e-5, "float16": 5e-3, "bfloat16": 4e-2}


@dataclasses.dataclass(frozen=True)
class Spec:
    """A tensor: `layout` is "c", ("permuted", order), ("sliced",), ("offset",) or ("expanded", dims)."""

    shape: tuple
    dtype: str = "float32"
    values: str = "normal"
    seed: int = 0
    layout: tuple = ("contiguous",)
    grad: bool = False
    top: int = 0  # of indices: the smallest number that is out of range

    def base_shape(self):
        kind, shape = self.layout[0], self.shape
        if kind == "permuted":
            return tuple(shape[d] for d in self.layout[1])
        if kind == "sliced":
            return (*shape[:-1], shape[-1] * 2)
        if kind == "offset":
            return (shape[0] + 1, *shape[1:])
        return tuple(1 if kind == "expanded" and d in self.layout[1] else n for d, n in enumerate(shape))

    def view(self, base):
        kind = self.layout[0]
        if kind == "permuted":
            return base.permute(*np.argsort(self.layout[1]).tolist())
        if kind == "sliced":
            return base[..., ::2]
        if kind == "offset":
            return base[1:]
        return base.expand(*self.shape) if kind == "expanded" else base


@dataclasses.dataclass(frozen=True)
class Type:
    """A dtype of either library."""

    name: str


@dataclasses.dataclass(frozen=True)
class Case:
    """`call`: "torch.add", "F.relu", "linalg.inv", "fft.fft", "special.i0", or a function (library, *args).
    `form`: function, method, inplace, out. `order`: 0, 1 or 2, of differentiation."""

    call: str | Callable
    form: str
    args: tuple
    kwargs: tuple = ()
    order: int = 0
    out: str = ""
    strides: bool = False
    view: bool = False
    tolerance: float = 1.0  # times what the types hold
    within: float | None = None  # instead of that, whatever the types
    invariant: Callable | None = None  # of a result that is not unique: what is compared

    @property
    def name(self):
        return self.call if isinstance(self.call, str) else self.call.__name__


# -- numbers


def numbers(values, shape, rng):
    """Multiples of 1/16 (so that halves hold them), by kind."""
    if values == "special":
        plain = np.rint(rng.standard_normal(shape) * 24) / 16
        return np.where(rng.random(shape) < 0.3, rng.choice(SPECIALS, shape), plain)
    if values in ("distinct", "distinct with NaN"):
        x = (rng.permutation(int(np.prod(shape))).reshape(shape) - 5) / 4
        most = x.max(initial=0)
        if values == "distinct" or rng.random() < 0.3:
            return x
        return np.where(x == most, rng.choice((np.nan, np.nan, np.inf)), np.where(x == -1.25, rng.choice((-np.inf, -1.25)), x))
    if values == "ascending":
        return np.sort(np.rint(rng.standard_normal(shape) * 24) / 16, -1)
    if values == "positive":
        return rng.integers(4, 64, shape) / 16
    if values == "unit":
        return rng.integers(1, 16, shape) / 16
    if values == "open":
        return rng.integers(-15, 16, shape) / 16
    if values == "above":
        return rng.integers(17, 64, shape) / 16
    if values == "between":  # off whole numbers, halves and sixteenths, where functions have kinks
        return (np.clip(np.rint(rng.standard_normal(shape) * 16), -47, 47) + rng.choice((0.25, 0.5, 0.75))) / 16
    if values == "ones":
        return np.ones(shape)
    if values == "zeros":
        return np.zeros(shape)
    if values in ("regular", "definite"):
        x = rng.integers(-16, 17, shape) / 16
        x = x @ np.swapaxes(x, -1, -2) if values == "definite" else x
        return x + 3 * np.eye(*shape[-2:]) if len(shape) > 1 else x
    return np.clip(np.rint(rng.standard_normal(shape) * 24) / 16, -7, 7)


def array_of(spec):
    """The numbers of the storage, in a type that both libraries read."""
    rng = np.random.default_rng(spec.seed)
    shape = spec.base_shape()
    if spec.values == "index":
        return rng.integers(0, max(spec.top, 1), shape).astype(spec.dtype)
    if spec.values.startswith("extreme"):

        def draw():
            return EXTREMES[0](spec, shape, rng)
    else:

        def draw():
            return numbers(spec.values, shape, rng)

    x = draw()
    if spec.dtype in COMPLEX:
        z = np.empty(shape, spec.dtype)
        z.real, z.imag = x, draw()
        return z
    if spec.dtype == "bool":
        return np.asarray(x > 0.2)
    if spec.dtype in INTS:
        x = np.rint(np.nan_to_num(np.asarray(x) * (4 if spec.values == "distinct" else 3), posinf=7, neginf=-7))
        x = x + 5 if spec.values == "distinct" else np.abs(x) if spec.dtype == "uint8" else x
        return np.asarray(x).astype(spec.dtype)
    return np.asarray(x, "float64" if spec.dtype == "float64" else "float32")


def build(lib, spec, tracked, wide=False):
    """(tensor, its storage's tensor, the leaf or None). `wide`: halves as the doubles that they are."""
    array = array_of(spec)
    dtype = getattr(lib, spec.dtype)  # (NumPy's empty arrays have no strides)
    leaf = lib.from_numpy(array).to(dtype) if array.size else lib.zeros(array.shape, dtype=dtype)
    leaf = leaf.double() if wide and spec.dtype in ("float16", "bfloat16") else leaf
    if not tracked:
        return spec.view(leaf), leaf, None
    leaf.requires_grad_()
    base = leaf.clone()
    return spec.view(base), base, leaf


# -- running


@dataclasses.dataclass
class Value:
    dtype: str
    shape: tuple
    strides: tuple
    array: np.ndarray
    tracked: bool
    viewed: bool


@dataclasses.dataclass
class Outcome:
    error: BaseException | None = None
    stage: str = "call"
    results: object = None
    inputs: list = dataclasses.field(default_factory=list)
    same: bool | None = None
    bumped: list = dataclasses.field(default_factory=list)
    shared: list = dataclasses.field(default_factory=list)
    grads: list = dataclasses.field(default_factory=list)


def dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


def to_array(t):
    t = t.detach()
    kind = dtype_name(t.dtype)
    if kind in ("bfloat16", "float16"):
        t = t.to(dtype=type(t).float(t).dtype)
    return np.array(t.clone().resolve_conj().resolve_neg().numpy())


def summary(lib, r):
    if isinstance(r, lib.Tensor):
        return Value(dtype_name(r.dtype), tuple(r.shape), tuple(r.stride()), to_array(r), r.requires_grad, r._base is not None)
    if isinstance(r, (tuple, list)) and not isinstance(r, lib.Size):
        return [summary(lib, e) for e in r]
    if isinstance(r, lib.dtype):
        return dtype_name(r)
    return tuple(r) if isinstance(r, lib.Size) else r


def place(lib, path):
    """(function, module) of "torch.add", "F.relu" ..."""
    space, _, name = path.partition(".")
    home = {"torch": lib, "F": lib.nn.functional}.get(space) or getattr(lib, space)
    return getattr(home, name)


def mapped(value, fn):
    """`value` with fn applied to specifications and types inside containers."""
    if isinstance(value, (Spec, Type)):
        return fn(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(e, fn) for e in value)
    if isinstance(value, dict):
        return {k: mapped(e, fn) for k, e in value.items()}
    if isinstance(value, slice):
        return slice(mapped(value.start, fn), mapped(value.stop, fn), value.step)
    return value


def specs_of(value):
    found = []
    mapped(value, lambda s: found.append(s) if isinstance(s, Spec) else None)
    return found


def weights(lib, like, k):
    n = int(np.prod(like.shape, dtype=int))
    w = np.cos(np.arange(n) * 1.7 + k + 0.3).reshape(tuple(like.shape))
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype_name(like.dtype), dtype_name(like.dtype))
    return lib.from_numpy(w).to(getattr(lib, real))


def weighed(lib, tensors):
    """The weighted sum of all parts of differentiable tensors, given with their places."""
    total = None
    for k, t in tensors:
        t = lib.view_as_real(t.resolve_conj()) if t.is_complex() else t
        part = (t * weights(lib, t, k)).sum().to(lib.float64)
        total = part if total is None else total + part
    return total


def tensors_in(lib, r):
    if isinstance(r, lib.Tensor):
        return [r]
    return [t for e in r for t in tensors_in(lib, e)] if isinstance(r, (tuple, list)) else []


def sharing(results, given):
    """Of each result with elements: the places of the arguments in whose memory it lies."""

    def home(t):
        return t.untyped_storage().data_ptr() if t.numel() and not t.is_sparse else None

    homes = list(map(home, given))
    return [[k for k, own in enumerate(homes) if own is not None and own == home(t)] for t in results]


def derivatives(lib, outs, leaves, order):
    found = []
    for step in range(order):
        outs = [
            (k, t) for k, t in enumerate(outs) if t is not None and t.requires_grad and (t.is_floating_point() or t.is_complex())
        ]
        if not outs:
            break
        outs = lib.autograd.grad(weighed(lib, outs), leaves, allow_unused=True, create_graph=step + 1 < order)
        found.append([None if g is None else summary(lib, g) for g in outs])
    return found


def invoke(lib, case, args, kwargs):
    if not isinstance(case.call, str):
        return case.call(lib, *args, **kwargs)
    if case.form == "function" or case.form == "out":
        return place(lib, case.call)(*args, **kwargs)
    name = case.call.rpartition(".")[2] + ("_" if case.form == "inplace" else "")
    return getattr(args[0], name)(*args[1:], **kwargs)


def out_tensor(lib, case, plain):
    """What is given for out=: `plain` is the result without it."""
    if isinstance(plain, (tuple, list)):
        return (
            type(plain)(out_tensor(lib, case, p) for p in plain)
            if type(plain) in (tuple, list)
            else tuple(out_tensor(lib, case, p) for p in plain)
        )
    dtype = plain.dtype
    if case.out == "empty":
        return lib.empty(0, dtype=dtype)
    if case.out == "strided":
        return lib.zeros(tuple(reversed(plain.shape)), dtype=dtype).permute(tuple(reversed(range(plain.dim()))))
    if case.out in EVERY:
        dtype = getattr(lib, case.out)
    return lib.zeros(tuple(plain.shape), dtype=dtype)


def run(lib, case, wide=False):
    """What the library makes of a case; `wide`: in doubles where it has halves."""
    outcome = Outcome()
    tensors, leaves = [], []

    def make(s):
        if isinstance(s, Type):
            return getattr(lib, s.name)
        made, base, leaf = build(lib, s, bool(case.order and s.grad), wide)
        tensors.append((made, base))
        if leaf is not None:
            leaves.append(leaf)
        return made

    try:
        args, kwargs = mapped(case.args, make), mapped(dict(case.kwargs), make)
        versions = [base._version for _, base in tensors]
        if case.form == "out":
            with lib.no_grad():
                plain = invoke(lib, case, args, kwargs)
                kwargs["out"] = given = out_tensor(lib, case, plain)
        result = invoke(lib, case, args, kwargs)
        if case.form == "inplace":
            outcome.same = result is args[0]
        if case.form == "out":
            outcome.same = all(a is b for a, b in zip(tensors_in(lib, result), tensors_in(lib, given)))
        outcome.bumped = [base._version > v for (_, base), v in zip(tensors, versions)]
        outcome.shared = sharing(tensors_in(lib, result), [made for made, _ in tensors])
        compared = result if case.invariant is None else case.invariant(lib, result)
        outcome.results = summary(lib, compared)
        outcome.inputs = [to_array(base) for _, base in tensors]
        outcome.stage = "gradient"
        if leaves:
            outs = tensors_in(lib, compared) + ([tensors[0][1]] if case.form == "inplace" else [])
            outcome.grads = derivatives(lib, outs, leaves, case.order)
    except Exception as error:
        outcome.error = error
    return outcome


# -- comparing


FAMILIES = (TypeError, IndexError, AttributeError, ValueError, RuntimeError)


def family(error):
    if isinstance(error, (OverflowError, NotImplementedError)):
        return RuntimeError
    if isinstance(error, AttributeError):
        return TypeError  # of an argument of a kind that the function does not take
    return next((f for f in FAMILIES if isinstance(error, f)), type(error))


def tolerance_of(case, dtypes):
    if case.within is not None:
        return case.within
    types = []
    mapped((case.args, dict(case.kwargs)), lambda t: types.append(t.name) if isinstance(t, Type) else None)
    inexact = [
        TOLERANCE[d] for d in (*dtypes, *types, *(s.dtype for s in specs_of((case.args, dict(case.kwargs))))) if d in TOLERANCE
    ]
    return max(inexact, default=2e-5) * case.tolerance


def unequal(a, b, tolerance, dtype=""):
    """What differs between two arrays of the same shape, or nothing."""
    if a.size == 0:
        return ""
    if not (a.dtype.kind in "fc" or b.dtype.kind in "fc"):
        return "" if np.array_equal(a, b) else "values"
    with np.errstate(all="ignore"):
        wide = "complex128" if "c" in (a.dtype.kind, b.dtype.kind) else "float64"
        a, b = a.astype(wide), b.astype(wide)
        finite = np.isfinite(a) & np.isfinite(b)
        x, y = a[finite], b[finite]
        if np.any(np.abs(x - y) > tolerance * max(1.0, float(np.abs(y).max(initial=0)))):
            return "values"
        if wide == "float64" and not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return "values (NaN, infinity)"  # what is finite in both agrees
        return "values (NaN)" if wide == "complex128" and not np.array_equal(np.isnan(a), np.isnan(b)) else ""


def plain_strides(value):
    """Strides where they mean something."""
    if 0 in value.shape:
        return ()
    return tuple(s for s, n in zip(value.strides, value.shape) if n != 1)


def differ(case, a, b, what="result", strides=None, unequal=unequal):
    strides = case.strides and case.form != "out" if strides is None else strides
    if isinstance(a, Value) and isinstance(b, Value):
        if a.dtype != b.dtype:
            return f"{what}: dtype {a.dtype}, torch {b.dtype}"
        if a.shape != b.shape:
            return f"{what}: shape {a.shape}, torch {b.shape}"
        if strides and plain_strides(a) != plain_strides(b):
            return f"{what}: strides {a.strides}, torch {b.strides} of {a.shape}"
        wrong = unequal(a.array, b.array, tolerance_of(case, (a.dtype,)), a.dtype)
        if wrong:
            return f"{what}: {wrong}\n{short(a.array)}\ntorch\n{short(b.array)}"
        if what == "result" and a.tracked and not b.tracked:
            return f"{what}: requires_grad True, torch False"  # the other way, gradients tell
        viewed = case.view and case.form != "inplace" and what == "result"
        return f"{what}: is a view {a.viewed}, torch {b.viewed}" if viewed and a.viewed != b.viewed else ""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{what}: {len(a)} parts, torch {len(b)}"
        return next((d for x, y in zip(a, b) for d in [differ(case, x, y, what, strides, unequal)] if d), "")
    if isinstance(a, float) and isinstance(b, float):
        return "" if not unequal(np.array(a), np.array(b), 2e-5) else f"{what}: {a}, torch {b}"
    return "" if type(a) is type(b) and a == b else f"{what}: {type(a).__name__} {a}, torch {type(b).__name__} {b}"


def short(array):
    text = np.array2string(np.asarray(array), threshold=60, precision=7)
    return text if len(text) < 1500 else text[:1500] + " ..."


def compare(case, ours, theirs, unequal=unequal):
    """How two outcomes differ: "" or a text that starts with the aspect."""
    if theirs.error is not None or ours.error is not None:
        if theirs.error is None:
            return f"error: {ours.stage} raises {ours.error!r}, torch does not"
        if ours.error is None or (theirs.stage, ours.stage) == ("call", "gradient"):
            return f"error: {theirs.stage} does not raise, torch {theirs.error!r:.400}"
        if family(ours.error) is not family(theirs.error):
            return f"error type: {ours.error!r}, torch {theirs.error!r:.400}"
        return ""
    found = differ(case, ours.results, theirs.results, unequal=unequal)
    if found:
        return found
    if ours.shared != theirs.shared:
        return f"memory: results share that of {ours.shared}, torch {theirs.shared} (places of arguments)"
    if ours.same != theirs.same:
        return f"identity: the result is the tensor written to: {ours.same}, torch {theirs.same}"
    if ours.bumped != theirs.bumped:
        return f"version: counted {ours.bumped}, torch {theirs.bumped}"
    for k, (a, b) in enumerate(zip(ours.inputs, theirs.inputs)):
        if a.shape != b.shape or unequal(a, b, tolerance_of(case, ())):
            return f"input {k} after the call: {short(a)}\ntorch\n{short(b)}"
    return differ_gradients(case, ours.grads, theirs.grads, unequal)


def differ_gradients(case, ours, theirs, unequal=unequal):
    for step, (a, b) in enumerate(itertools.zip_longest(ours, theirs, fillvalue=[])):
        for k, (x, y) in enumerate(itertools.zip_longest(a, b)):
            if all(v is None or not np.any(np.abs(v.array) > tolerance_of(case, ())) for v in (x, y)) and None in (x, y):
                continue  # a derivative of zero may be told as none
            if None in (x, y) and np.all(np.isnan((y if x is None else x).array)):
                continue  # so may one that is undefined
            if (x is None) != (y is None):
                return f"gradient {step + 1}.{k}: {'none' if x is None else 'some'}, torch the other"
            found = differ(
                dataclasses.replace(case, tolerance=case.tolerance * 5), x, y, f"gradient {step + 1}.{k}", False, unequal
            )
            if found:
                return found
    return ""


# -- making smaller


def aspect(text):
    return text.partition(":")[0].partition(" ")[0] + ("" if "raises" not in text else "raises")


def smaller(case):
    """Simpler cases, the boldest first."""

    def with_specs(fn):
        return dataclasses.replace(case, args=mapped(case.args, fn), kwargs=tuple(mapped(dict(case.kwargs), fn).items()))

    def spec_only(fn):
        return lambda s: fn(s) if isinstance(s, Spec) else s

    specs = specs_of((case.args, dict(case.kwargs)))
    if case.order:
        yield dataclasses.replace(case, order=case.order - 1)
    if case.form != "function" and isinstance(case.call, str):
        yield dataclasses.replace(case, form="function", out="")
    for k in range(len(case.kwargs)):
        yield dataclasses.replace(case, kwargs=case.kwargs[:k] + case.kwargs[k + 1 :])
    if len(case.args) > 1 and not isinstance(case.args[-1], Spec):
        yield dataclasses.replace(case, args=case.args[:-1])
    yield with_specs(spec_only(lambda s: dataclasses.replace(s, layout=("contiguous",))))
    for d in ("float32", "int64"):
        kinds = FLOATS if d == "float32" else INTS
        yield with_specs(spec_only(lambda s, d=d, kinds=kinds: dataclasses.replace(s, dtype=d) if s.dtype in kinds else s))
    for s in specs:
        if s.layout != ("contiguous",):
            yield with_specs(lambda t, s=s: dataclasses.replace(t, layout=("contiguous",)) if t is s else t)
        if s.dtype not in ("float32", "int64", "bool"):
            yield with_specs(lambda t, s=s: dataclasses.replace(t, dtype="float32") if t is s else t)
        if s.grad:
            yield with_specs(lambda t, s=s: dataclasses.replace(t, grad=False) if t is s else t)
        if s.values in ("normal", "special"):
            yield with_specs(lambda t, s=s: dataclasses.replace(t, values="ones") if t is s else t)
        if s.shape:
            yield with_specs(lambda t, s=s: resized(t, t.shape[1:]) if t is s else t)
    for n in sorted({n for s in specs for n in s.shape if n > 1}, reverse=True):
        for m in {1, 2, n - 1} - {n}:
            yield with_specs(spec_only(lambda s, n=n, m=m: resized(s, tuple(m if k == n else k for k in s.shape))))
    for s in specs:
        for d, n in enumerate(s.shape):
            if n > 1:
                yield with_specs(lambda t, s=s, d=d: resized(t, (*t.shape[:d], 1, *t.shape[d + 1 :])) if t is s else t)


def resized(s, shape):
    layout = s.layout if len(shape) == len(s.shape) and s.layout[0] != "expanded" else ("contiguous",)
    return dataclasses.replace(s, shape=shape, layout=layout)


def minimized(case, check, budget=150):
    """A smaller case that differs in the same aspect."""
    text = check(case)
    while budget > 0:
        for candidate in smaller(case):
            budget -= 1
            found = check(candidate)
            if found and aspect(found) == aspect(text):
                case, text = candidate, found
                break
            if budget <= 0:
                break
        else:
            break
    return case, text


# -- printing


def spec_program(s, order):
    values = array_of(s)
    text = np.array2string(values, separator=", ", threshold=10**6, floatmode="unique").replace("\n", "")
    for old, new in (("nan", "t.nan"), ("inf", "t.inf")):
        text = text.replace(old, new)
    shape = "" if values.size else f".reshape{values.shape}"
    made = f"t.tensor({text}, dtype=t.{s.dtype}{', requires_grad=True' if order and s.grad else ''}){shape}"
    view = {
        "permuted": lambda: f".permute{tuple(np.argsort(s.layout[1]).tolist())}",
        "sliced": lambda: "[..., ::2]",
        "offset": lambda: "[1:]",
        "expanded": lambda: f".expand{tuple(s.shape)}",
    }.get(s.layout[0], lambda: "")()
    return made, view


def program(case):
    """A few lines that run on both libraries."""
    lines, names = [], iter("xyzuvwabcdefgh")

    def named(s):
        if isinstance(s, Type):
            return Name(f"t.{s.name}")
        name = next(names, "q")
        made, view = spec_program(s, case.order)
        lines.append(f"    {name} = {made}" + (".clone()" if case.order and s.grad and case.form == "inplace" else "") + view)
        return Name(name)

    args, kwargs = mapped(case.args, named), mapped(dict(case.kwargs), named)
    given = [repr(a) for a in args]
    options = [f"{k}={v!r}" for k, v in kwargs.items()]
    if not isinstance(case.call, str):
        call = f"{case.call.__name__}({', '.join(['t', *given, *options])})"
    elif case.form in ("method", "inplace"):
        name = case.call.rpartition(".")[2] + ("_" if case.form == "inplace" else "")
        call = f"{given[0]}.{name}({', '.join(given[1:] + options)})"
    else:
        space, _, name = case.call.partition(".")
        home = {"torch": "t", "F": "t.nn.functional"}.get(space, f"t.{space}")
        extra = [f"out=<{case.out}>"] if case.form == "out" else []
        call = f"{home}.{name}({', '.join(given + options + extra)})"
    return "\n".join(
        ["for t in (flambeau, torch):", *lines, f"    r = {call}", "    print(r)"]
        + (["    # and derivatives of order %d" % case.order] if case.order else [])
    )


class Name(str):
    def __repr__(self):
        return str(self)


def checked(ours, theirs, meant=lambda case, text: "", unequal=unequal):
    """check(case) -> how the libraries differ, where that is not `meant`."""

    def check(case):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            text = compare(case, run(ours, case), run(theirs, case), unequal)
        return "" if text and meant(case, text) else text

    return check
