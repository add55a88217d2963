"""The op record: one per op, from which every interpreter is derived.

In: a formula, stride rule, kernel or decomposition under a decorator that names its kind. Out: an `Op` in `OPS`,
callable, with its loop (what the compiler lowers), types, gradients and samples. The compiler reads kinds and fields,
never names.

    @pointwise(promote="float")
    def silu(s, x): return x / (1.0 + s.exp(-x))
    @silu.grad("x")
    def _(g, x): ...                     # written with ops; arguments are matched by name
    @silu.samples
    def _(make): return [(make(3, 4),), (make(0, 5),)]

Roles of parameters: "tensor" (a Map also takes numbers there), "tensor?" (may be None), "tensors" (a tuple), "scalar",
"size" (ints, symbolic or not), "static" (anything hashable). Given by annotation (`x: optional`, `eps: scalar`), by
`roles=`, else by the kind and by common names (`dim`, `eps`, `dtype`, ...).
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TYPE_CHECKING, Any
from collections.abc import Callable

from ...runtime import elementwise
from ...runtime.dataclass import data
from .gradient import Formula
from ..signature import REQUIRED as _REQUIRED, parameters
from .loop_rules import derive_loop, finish, put_loop, reduced_sizes, result_types
from .promote import types as promoted_types
from ..sizes import contiguous_strides


class Kind(enum.Enum):
    MAP = "map"
    REDUCE = "reduce"
    SCAN = "scan"
    SCATTER = "scatter"
    VIEW = "view"
    RANDOM = "random"
    EXTERN = "extern"
    COMPOSITE = "composite"

    __hash__ = object.__hash__


# annotations for parameters
if TYPE_CHECKING:
    from typing import Any as mask, Any as optional, Any as scalar, Any as size, Any as static, Any as tensor, Any as tensors
else:
    tensor, optional, tensors, scalar, size, static = "tensor", "tensor?", "tensors", "scalar", "size", "static"
    mask = "mask"  # a tensor that takes no part in promotion and is not cast (conditions, indices)

PLAIN, TENSOR, TENSORS = 0, 1, 2


@data
class Param:
    """`promotes`: takes part in type promotion and is cast to the computation type."""

    name: str
    role: str = "tensor"
    default: Any = _REQUIRED
    promotes: bool = True

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def is_tensor(self) -> bool:
        return self.role in ("tensor", "tensor?")


@data
class Out:
    name: str = "out"
    differentiable: bool = True
    hidden: bool = False


OPS: dict[str, Op] = {}


@data(eq=False)
class Op:
    """Fields: see DESIGN in docs/ARCHITECTURE.md. `refuses`: a call may raise for what its tensors hold (True, or a
    predicate of the arguments), also where nobody reads its result. `ranges(*args)`: extents of the reduction index
    (Reduce) or of the source (Scatter). `functional`: the pure record of an in-place one. `meta_rule(*args)` -> sizes,
    `Spec`, or one per output. A type `X | Any`: None where the record's kind has no such field.
    """

    name: str
    kind: Kind
    params: tuple[Param, ...]
    outputs: tuple[Out, ...] = (Out(),)
    mutates: tuple[str, ...] = ()
    fn: Callable | Any = None
    promote: Any = "same"
    compute: Any = None
    meta_rule: Callable | None = None
    grads: dict[str, Formula] = field(default_factory=dict)
    put: Op | None = None
    loop: Callable | Any = None
    explicit_loop: bool = False
    ranges: Callable | Any = None
    kernels: dict[str, Callable] = field(default_factory=dict)
    draws: Callable | Any = None
    recompute: bool = False
    again: Callable | None = None
    cost: Callable | None = None
    autocast: str | None = None
    effects: bool = False
    refuses: Callable[..., bool] | bool = False
    sample_rule: Callable | None = None
    combine: str | Any = None
    finish: Callable | None = None
    template: str | None = None
    call_rule: Callable | None = None
    ordered: Callable | None = None
    mode: str = "set"
    functional: Op | Any = None
    doc: str = ""
    public: str = ""  # "exp exp_": torch.exp, Tensor.exp and Tensor.exp_, torch.exp_; "F.silu": nn.functional's, with `inplace`
    fast: bool = False  # a native map is made of its formula (runtime/csrc/formulas.h, by inductor/tools/formulas.py)
    entry: Callable | Any = None  # the call path specialised for this record (made by dispatch on first call)
    cache: dict = field(default_factory=dict)  # of the interpreters: plans by operand types
    names: dict[str, int] = field(default_factory=dict)  # parameter -> position
    codes: tuple[int, ...] = ()  # per parameter: PLAIN, TENSOR or TENSORS

    def __post_init__(self):
        if self.name in OPS:
            raise ValueError(f"an op named {self.name!r} is already defined")
        OPS[self.name] = self
        self.names.update({p.name: k for k, p in enumerate(self.params)})
        _fill(self, "codes", tuple([TENSOR if p.is_tensor else TENSORS if p.role == "tensors" else PLAIN for p in self.params]))
        if self.loop is None:
            _fill(self, "loop", derive_loop(self))
        if self.ranges is None and self.kind is Kind.REDUCE:
            _fill(self, "ranges", reduced_sizes(self))
        if self.kind is Kind.VIEW and self.put is None and not self.mutates:
            _fill(self, "put", _make_put(self))
        _fill(self, "entry", lambda *args, **kw: specialise(self)(*args, **kw))

    def __call__(self, *args, **kw):
        return self.entry(*args, **kw)

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return find, (self.name,)

    def bind(self, args: tuple, kw: dict) -> tuple:
        """The canonical positional arguments of a call."""
        names = self.names
        if len(args) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} positional arguments but {len(args)} were given")
        bound = list(args) + [p.default for p in self.params[len(args) :]]
        for name, value in kw.items():
            at = names.get(name, -1)
            if at < len(args):
                problem = "multiple values for" if at >= 0 else "an unexpected keyword"
                raise TypeError(f"{self.name}() got {problem} argument '{name}'")
            bound[at] = value
        for p, value in zip(self.params, bound):
            if value is _REQUIRED:
                raise TypeError(f"{self.name}() missing required argument '{p.name}'")
        return tuple(bound)

    # -- decorators that complete a record

    def grad(self, *names: str):
        """`@x.grad("a")` or `@x.grad("a", "b")` (the same formula for each), `@x.grad("*")` (one formula for all)."""
        known = {p.name for p in self.params} | {"*"}
        for name in names:
            if name not in known:
                raise ValueError(f"{self.name} has no parameter {name!r} (it has {', '.join(p.name for p in self.params)})")

        def add(fn):
            for name in names:
                self.grads[name] = Formula(self, fn)
            return fn

        return add

    def meta(self, fn):
        """Shape rule: the arguments with fakes for tensors -> sizes | Spec | one of these per output."""
        return _fill(self, "meta_rule", fn)

    def rebuilt(self, fn):
        """Of a composite: `fn(*args, *hidden outputs)` -> the first output by maps alone, so that it need not be kept."""
        return _fill(self, "again", fn)

    def samples(self, fn):
        """`fn(make)` -> list of argument tuples for the universal op test."""
        return _fill(self, "sample_rule", fn)

    def numpy(self, fn):
        """An explicit eager kernel: arrays for tensors, other arguments as they are; returns an array, or one per
        output.
        """
        self.kernels["numpy"] = fn
        return fn

    def native(self, fn):
        """Like `numpy`, tried before it; returns NotImplemented where it is not eligible."""
        self.kernels["native"] = fn
        return fn

    def in_order(self, fn):
        """Of a record that draws: `fn(stream, *args)` -> the array of PyTorch's numbers, without the generator among the
        arguments, and with a `mersenne.Like` for a tensor. What it draws must not depend on data."""
        return _fill(self, "ordered", fn)

    def calls(self, fn):
        """For compiled code: `fn(c, outs, *args)` -> calls of the runtime's kernels (runtime/kernel_calls.py) that fill the
        regions `outs`, or None where none is eligible. Tensors are regions: `c.rows(x)` gives a row-major copy of one
        that is not; `c.max`, `c.min` work on symbolic sizes.
        """
        return _fill(self, "call_rule", fn)

    def may_refuse(self, args: tuple) -> bool:
        """Whether a call with these arguments (fakes will do) may raise for what its tensors hold."""
        return self.refuses(*args) if callable(self.refuses) else self.refuses

    # -- derived records

    @property
    def inplace(self) -> Op:
        """The record named with a trailing underscore that writes the result into its first argument."""
        return self.cache.get("inplace") or _make_inplace(self)

    @property
    def pure(self) -> Op:
        """The record without mutation: itself, or one that returns the new values after its outputs."""
        if not self.mutates:
            return self
        return self.functional or _make_pure(self)

    @property
    def differentiable(self) -> bool:
        return bool(self.grads)

    # -- what interpreters of the loop ask

    def types(self, *args) -> tuple:
        """(compute type or None, type of the first output) for operands with `dtype` and `shape`."""
        return _types(self, args)

    def result_types(self, *args) -> tuple:
        """The types of all outputs."""
        return result_types(self, _types(self, args)[1])

    def finished(self, s, acc, *args):
        """Reduce: the value(s) of the outputs from the combined accumulator(s), in the result type(s)."""
        return finish(self, s, acc, args)


def _fill(op: Op, name: str, value):
    object.__setattr__(op, name, value)
    return value


_makers: list[Callable] = []


def on_first_call(maker: Callable) -> None:
    """dispatch hands in what makes the call path of a record."""
    _makers.append(maker)


def specialise(op: Op) -> Callable:
    """Make (once) the fast call path of a record; public functions and methods use this callable itself."""
    if "entry" not in op.cache:
        op.cache["entry"] = _fill(op, "entry", _makers[-1](op))
    return op.cache["entry"]


def find(name: str) -> Op:
    """The record of this name; in-place records are derived on demand."""
    if name not in OPS and name.endswith("_") and name[:-1] in OPS:
        return OPS[name[:-1]].inplace
    return OPS[name]


def zeros(like):
    """A tensor of zeros with the sizes, type and device of a `Meta` or tensor."""
    return OPS["full"](tuple(like.shape), 0, like.dtype, like.device)


# -- types, shared by the numpy path and code builders


def _types(op, args):
    operands = [a for p, a in zip(op.params, args) if p.is_tensor and p.promotes and a is not None]
    for p, a in zip(op.params, args):
        if p.role == "tensors" and p.promotes and a is not None:
            operands.extend(a)
    first = next((a.dtype for p, a in zip(op.params, args) if p.is_tensor and hasattr(a, "dtype")), None)
    given = next((a for p, a in zip(op.params, args) if p.name == "dtype"), None)
    return promoted_types(op.promote, operands, first, given)


def _make_inplace(op: Op) -> Op:
    first = op.params[0].name
    new = Op(
        name=op.name + "_",
        kind=op.kind,
        params=op.params,
        outputs=op.outputs[:1],
        mutates=(first,),
        fn=op.fn,
        promote=op.promote,
        compute=op.compute,
        meta_rule=op.meta_rule,
        loop=op.loop,
        ranges=op.ranges,
        explicit_loop=op.explicit_loop,
        draws=op.draws,
        autocast=None,
        combine=op.combine,
        finish=op.finish,
        mode=op.mode,
        refuses=op.refuses,
        functional=op,
        doc=op.doc,
    )
    op.cache["inplace"] = new
    return new


def _make_put(op: Op) -> Op:
    """`put(base, value, *args)`: a copy of `base` with `value` (a tensor of the view's sizes, or a number) written
    through the view. Its gradients are the same two: put(g, 0) for the base, the view of g for the value.
    """
    params = (Param("base"), Param("value")) + op.params[1:]
    new = Op(
        name=op.name + "_put",
        kind=Kind.SCATTER,
        params=params,
        loop=put_loop(op),
        promote="keep",
        cache={"view": op},
        ranges=lambda base, value, *args: op.fn(tuple(base.shape), contiguous_strides(base.shape), *args)[0],
    )
    _put_grads(op, new, lambda g: g)
    op.grads["x"] = Formula(
        op,
        lambda g, x, *args: new(zeros(x), g, *args),
        [("grad", 0), *[("param", k) for k in range(len(op.params))]],
        metas={("param", 0)},
    )
    return new


def _put_grads(op: Op, put: Op, laid_out: Callable) -> None:
    rest = [("grad", 0), *[("param", k) for k in range(2, len(put.params))]]
    put.grads["base"] = Formula(put, lambda g, *args: put(laid_out(g), 0, *args), rest)
    put.grads["value"] = Formula(put, lambda g, *args: op(laid_out(g), *args), rest)


def write_in_order(op: Op, contiguous: Callable) -> None:
    """Of a view whose rule holds for some layouts only, or means other elements in each: what was written was in order,
    while a gradient may lie as it likes, so it is put in order first."""
    assert op.put is not None
    _put_grads(op, op.put, contiguous)


def _make_pure(op: Op) -> Op:
    outs = op.outputs + tuple(Out("new_" + name, differentiable=False, hidden=True) for name in op.mutates)
    new = Op(
        name=op.name + "_pure",
        kind=op.kind,
        params=op.params,
        outputs=outs,
        fn=op.fn,
        promote=op.promote,
        meta_rule=op.meta_rule,
        kernels=op.kernels,
        grads=op.grads,
        draws=op.draws,
        autocast=op.autocast,
        call_rule=op.call_rule,
        refuses=op.refuses,
    )
    return _fill(op, "functional", new)


# -- signatures

_SIZE_NAMES = {"size", "sizes", "shape", "dim", "dims", "start", "end", "step", "length", "offset", "split_size", "index_dim"}
_STATIC_NAMES = {
    "dtype",
    "device",
    "generator",
    "keepdim",
    "reduction",
    "mode",
    "memory_format",
    "align_corners",
    "correction",
    "largest",
    "sorted",
    "stable",
    "ignore_index",
    "is_causal",
    "training",
    "padding_mode",
    "ceil_mode",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "groups",
    "transposed",
    "output_padding",
    "return_indices",
    "num_classes",
    "accumulate",
    "diagonal",
    "upper",
    "equation",
    "descending",
    "count_include_pad",
    "output_size",
    "ord",
    "approximate",
    "hidden",
    "full_matrices",
    "unbiased",
    "k",
    "side",
    "right",
}
_SCALAR_NAMES = {
    "eps",
    "alpha",
    "beta",
    "p",
    "value",
    "momentum",
    "scale",
    "threshold",
    "negative_slope",
    "low",
    "high",
    "mean",
    "std",
    "min_value",
    "max_value",
    "fill_value",
    "label_smoothing",
    "dropout_p",
    "lambd",
    "delta",
}
_ROLE_OF_TYPE = {
    "int": "scalar",
    "float": "scalar",
    "bool": "static",
    "str": "static",
    "tuple": "size",
    "Tensor": "tensor",
    "optional": "tensor?",
    "mask": "tensor",
}


def _role(annotation, name: str, default: Any, tensors_by_default: bool) -> str:
    if annotation is not _REQUIRED:
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        text = text.strip("'\"")
        return _ROLE_OF_TYPE.get(text, text)
    if tensors_by_default:
        return "tensor"
    if name in _SIZE_NAMES:
        return "size"
    if name in _SCALAR_NAMES:
        return "scalar"
    if name in _STATIC_NAMES or not (default is _REQUIRED or default is None):
        return "static"
    return "tensor?" if default is None else "tensor"


_ROLES = ("tensor", "tensor?", "tensors", "scalar", "size", "static")


def signature(
    fn: Callable, skip: int, roles: dict | None = None, tensors_by_default: bool = False, exclude: tuple = ()
) -> tuple[Param, ...]:
    """The record's parameters from a function's, after the first `skip`."""
    found = []
    for name, default, annotation in parameters(fn)[skip:]:
        role = (roles or {}).get(name) or _role(annotation, name, default, tensors_by_default)
        if role not in _ROLES:
            raise ValueError(f"{fn.__name__}: parameter {name} has the role {role!r}; roles are {', '.join(_ROLES)}")
        masked = name in exclude or annotation is not _REQUIRED and str(annotation).strip("'\"") == "mask"
        found.append(Param(name, role, default, not masked))
    return tuple(found)


def _outs(outputs) -> tuple[Out, ...]:
    if outputs is None:
        return (Out(),)
    return tuple(o if isinstance(o, Out) else Out(o) for o in outputs)


def _decorator(make: Callable[..., Op]) -> Any:
    """`@kind` and `@kind(option=...)`."""

    def decorate(fn=None, **options):
        if fn is None:
            return lambda f: make(f, **options)
        return make(fn, **options)

    decorate.__doc__ = make.__doc__
    return decorate


def _make_op(fn, kind, params, *, name=None, outputs=None, meta=None, loop=None, **options) -> Op:
    return Op(
        name=name or fn.__name__,
        kind=kind,
        params=params,
        outputs=_outs(outputs),
        fn=fn,
        meta_rule=meta,
        loop=loop,
        explicit_loop=loop is not None,
        doc=fn.__doc__ or "",
        **options,
    )


# -- one decorator per kind


@_decorator
def pointwise(fn, *, roles=None, exclude=(), recompute=True, **options) -> Op:
    """`def silu(s, x)`: a formula per element. Options: promote, roles, exclude (parameters outside promotion),
    outputs, autocast, compute, cost, public, fast.
    """
    record = _make_op(fn, Kind.MAP, signature(fn, 1, roles, True, exclude), recompute=recompute, **options)
    if record.fast:
        record.native(elementwise.formula(record.name, sum(p.is_tensor for p in record.params)))
    return record


@_decorator
def indexed(fn, *, meta, roles=None, exclude=(), **options) -> Op:
    """`def tril(s, i, x, diagonal)`: a Map that reads its index `i` and loads where it likes: tensors are loaders,
    `x(*index, mask=condition, other=0)`, with `x.shape` and `x.dtype`. `meta(*args)` gives the output's sizes."""
    params = signature(fn, 2, roles, False, exclude)
    return _make_op(fn, Kind.MAP, params, meta=meta, loop=lambda s, i, r, *args: fn(s, i, *args), **options)


@_decorator
def reduction(fn, *, combine, roles=None, exclude=(), **options) -> Op:
    """`def sum(s, x)`: the prologue per element. Parameters `dim` (tuple of non-negative ints) and `keepdim` are
    implied. `finish(s, acc, n)` makes the result of the accumulator (a tuple if the combine has several) and the
    element count; further arguments of it are matched by name to parameters. `ranges` and `loop` given: windows, with
    any parameters.
    """
    params = signature(fn, 1, roles, False, exclude)
    if "ranges" not in options:
        names = {p.name for p in params}
        params += tuple(Param(n, "static", d) for n, d in (("dim", _REQUIRED), ("keepdim", False)) if n not in names)
    return _make_op(fn, Kind.REDUCE, params, combine=combine, **options)


@_decorator
def scan(fn, *, combine, roles=None, **options) -> Op:
    """`def cumsum(s, x)`: the prologue per element; `dim` (an int) is implied."""
    params = signature(fn, 1, roles) + (Param("dim", "static"),)
    return _make_op(fn, Kind.SCAN, params, combine=combine, **options)


@_decorator
def scatter(fn, *, ranges, roles=None, exclude=(), mode="set", **options) -> Op:
    """`def index_add(s, i, base, index, source)`: for each point `i` of `ranges(*args)`, returns (index tuple into
    the output, value). The output starts as a copy of the first argument if that is a tensor, else as zeros of that
    size (mode "set": the last in row-major order wins; "add", "mul", "max", "min": all that come to a place are combined).
    """
    params = signature(fn, 2, roles, False, exclude)
    return _make_op(fn, Kind.SCATTER, params, ranges=ranges, mode=mode, loop=lambda s, i, r, *args: fn(s, i, *args), **options)


@_decorator
def view(fn, *, roles=None, loop=None, **options) -> Op:
    """`def permute(shape, strides, dims)` -> (sizes, strides, offset in elements relative to the input's).
    The record's parameters are (x, dims). `loop(s, i, r, x, *args)` where the rule is not affine in the strides."""
    params = (Param("x"),) + tuple(p if p.role != "tensor" else Param(p.name, "size", p.default) for p in signature(fn, 2, roles))
    return _make_op(fn, Kind.VIEW, params, loop=loop, promote=options.pop("promote", "keep"), recompute=True, **options)


@_decorator
def random_op(fn, *, roles=None, meta=None, promote="dtype", exclude=(), **options) -> Op:
    """`def rand(s, rng, size, dtype)`: per element, from `rng.bits(word)`, `rng.uniform()`, `rng.normal()`; a
    `generator` parameter (None: the default one) is implied and comes last. One ordinal is drawn per call, whatever
    the size.
    """
    params = signature(fn, 2, roles, False, exclude) + (Param("generator", "static", None),)
    return _make_op(fn, Kind.RANDOM, params, meta=meta, promote=promote, draws=options.pop("draws", lambda *a: 1), **options)


@_decorator
def extern(fn, *, meta=None, roles=None, exclude=(), **options) -> Op:
    """`def matmul(a, b)`: an eager kernel on numpy arrays; `meta(*args)` (required, here or by `@op.meta`) gives the
    sizes.
    """
    return _make_op(fn, Kind.EXTERN, signature(fn, 0, roles, False, exclude), meta=meta, **options)


@_decorator
def composite(fn, *, roles=None, **options) -> Op:
    """`def softmax(x, dim)`: written with other ops. May carry `grad`, `numpy`/`native` kernels and `meta` for
    speed.
    """
    return _make_op(fn, Kind.COMPOSITE, signature(fn, 0, roles), **options)
