"""numpy's arrays of tensors in captured code: `np.sin(x.numpy())`, `a.sum(0)`, `torch.from_numpy(a * 2)`.

An array stands for a tensor that nobody differentiates. A function of numpy on arrays is one node, which numpy itself runs when
the graph does: its results are numpy's, to the bit. Functions whose results lie in new memory and have sizes that no value
decides are taken; with symbolic sizes those are the universal functions. Everything else, and whatever writes into an array, is a
graph break.
"""

from __future__ import annotations

import functools
import operator
from typing import Any
from collections.abc import Callable

import numpy as np

from ...eager import api, dtypes
from ...eager.frontend import creation
from ...eager.op.meta import broadcast_shapes
from ...eager.ops import custom_calls
from ...eager.sizes import SYMBOLIC, SymInt
from ...eager.tensor import Tensor, fake_tensor
from ...runtime.dataclass import data
from ..breaks import unsupported
from .base import NotPlain, Variable
from .builtins import handles
from .constant import ConstantVariable, PlainMethod, SymVariable
from .numpy_values import KNOWN, ON_ARRAYS
from .sequences import ListVariable, SliceVariable, TupleVariable
from .tensor import TensorVariable

OPERATORS = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.divide,
    operator.floordiv: np.floor_divide,
    operator.mod: np.remainder,
    operator.pow: np.power,
    operator.matmul: np.matmul,
    operator.and_: np.bitwise_and,
    operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
    operator.eq: np.equal,
    operator.ne: np.not_equal,
}
UNARY = {operator.neg: np.negative, operator.pos: np.positive, operator.invert: np.invert}
FRESH = frozenset(
    {np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.argmax, np.argmin, np.any, np.all, np.cumsum, np.cumprod}
    | {np.concatenate, np.stack, np.vstack, np.hstack, np.where, np.clip, np.dot, np.outer, np.sort, np.argsort, np.median}
    | {np.zeros_like, np.ones_like, np.full_like, np.tile, np.roll, np.linalg.norm, np.round, np.diff, np.kron}
)
METHODS = frozenset(
    {"sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod"}
) | {"astype", "copy", "clip", "round", "dot", "flatten"}
TYPES = frozenset(np.dtype(kind) for kind in "?bhilBHILefdFD")


class ArrayVariable(Variable):
    """An array, or (`scalar`) one of numpy's numbers, over the memory of a tensor. `owner`: the program's own tensor whose memory
    it is; None for an array that numpy made."""

    is_array = True

    def __init__(self, tensor: TensorVariable, scalar: bool = False, owner: TensorVariable | None = None):
        super().__init__(None)
        self.tensor, self.scalar, self.owner = tensor, scalar, owner
        self.taken = False

    @property
    def fake(self) -> Tensor:
        return self.tensor.fake

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.fake.dtype.numpy)

    def python_type(self) -> type:
        return self.dtype.type if self.scalar else np.ndarray

    def describe(self) -> str:
        return f"numpy array {list(self.fake.shape)} {self.dtype}"

    def truth(self, tx: Any) -> bool:
        raise unsupported("branch-on-data", f"Python asks for the truth of {self}, which only the data knows")

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name in ("shape", "ndim", "size"):
            read = {"shape": lambda t: tuple(t.shape), "ndim": lambda t: t.ndim, "size": lambda t: t.numel()}[name]
            return tx.fresh(tx.run(read, self.fake))
        if name == "dtype":
            return ConstantVariable(self.dtype)
        if name == "T" and not self.scalar:
            return self.view(tx, lambda t: t.permute(*range(t.ndim - 1, -1, -1)) if t.ndim > 1 else t.view(t.shape))
        if name in METHODS or name == "reshape":
            return PlainMethod(self, name)
        raise unsupported("attribute", f"{name!r} of {self}")

    def view(self, tx: Any, make: Callable) -> ArrayVariable:
        """An array over the same memory."""
        return ArrayVariable(tx.fresh(tx.run(make, self.fake)), owner=self.owner or self.tensor)

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name == "reshape" and not self.scalar and not kwargs:
            sizes = [n for a in args for n in (a.unpack(tx) if isinstance(a, (ListVariable, TupleVariable)) else [a])]
            numbers = [tx.index(n) for n in sizes]
            if all(type(n) is int for n in numbers):
                return self.view(tx, lambda t: t.reshape(numbers))
        if name not in METHODS:
            raise unsupported("builtin", f"{name}() of {self}")
        return call_on_arrays(tx, getattr(np.ndarray, name), [self, *args], kwargs)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if op not in OPERATORS or isinstance(other, TensorVariable):
            raise unsupported("operator", f"{op.__name__}() of {self} and {other}")
        return call_on_arrays(tx, OPERATORS[op], [other, self] if reflected else [self, other], {})

    def unary(self, tx: Any, op: Callable) -> Variable:
        if op not in UNARY:
            raise unsupported("operator", f"{op.__name__}() of {self}")
        return call_on_arrays(tx, UNARY[op], [self], {})

    def get_item(self, tx: Any, key: Variable) -> Variable:
        parts = key.unpack(tx) if isinstance(key, TupleVariable) else [key]
        if self.scalar or not all(is_basic(p.realize()) for p in parts):
            raise unsupported("operator", f"indexing {self} by {key}")
        row = tx.fresh(tx.run_variables(lambda k: self.fake[k], [key], what="indexing an array"))
        if row.fake.ndim == 0 and not any(p.realize().is_constant() and p.realize().plain() is Ellipsis for p in parts):
            copied = tx.fresh(tx.run(lambda t: t.clone(), row.fake))
            return ArrayVariable(copied, scalar=True)
        return ArrayVariable(row, owner=self.owner or self.tensor)

    def length(self, tx: Any) -> Variable:
        if self.scalar or not self.fake.ndim:
            raise unsupported("builtin", f"len() of {self}")
        return tx.fresh(tx.run(lambda: self.fake.shape[0]))

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(_number if self.scalar else _array, [self.tensor])


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.numpy(force=True)


def _number(tensor: Tensor) -> Any:
    return tensor.numpy(force=True)[()]


def is_basic(part: Variable) -> bool:
    """An index that makes a view: a whole number, None, an ellipsis, or a slice that runs forwards."""
    if isinstance(part, SliceVariable):
        step = part.parts[2].realize()
        return step.is_constant() and (step.plain() is None or type(step.plain()) is int and step.plain() > 0)
    if isinstance(part, SymVariable):
        return part.python_type() is int
    return part.is_constant() and (part.plain() in (None, Ellipsis) or type(part.plain()) is int)


def array_of(tx: Any, tensor: TensorVariable, force: Variable | None = None) -> ArrayVariable:
    """`tensor.numpy(force=...)`"""
    fake = tensor.fake
    if fake.requires_grad and force is not None and force.is_constant() and force.plain() is True:
        tensor = tx.fresh(tx.run(lambda t: t.detach(), fake))
        fake = tensor.fake
    if fake.requires_grad or fake.device.type != "cpu" or fake.dtype.numpy not in TYPES or type(fake) is not Tensor:
        raise unsupported("item", f"numpy() of {tensor}")
    return ArrayVariable(tensor, owner=tensor)


# -- functions -------------------------------------------------------------------------------------------------------


@data
class NumpyFunction:
    """A function of numpy as an operator of the graph (eager/ops/custom_calls.py): tensors in place of arrays; the last arguments
    are those that were given by name. `shapes`: [(sizes, dtype)] of the results, None where sizes are symbolic."""

    name: str
    fn: Any
    named: tuple = ()
    known: tuple | None = None

    def call(self, *args: Any) -> Any:
        first = len(args) - len(self.named)
        return self.fn(*args[:first], **dict(zip(self.named, args[first:])))

    def function(self, *args: Any) -> Any:
        made = self.call(*[_plain(a) for a in args])
        wrapped = [creation.from_numpy(np.array(a, copy=a.base is not None)) for a in map(np.asarray, as_tuple(made))]
        return tuple(wrapped) if isinstance(made, tuple) else wrapped[0]

    def by_position(self, function: Callable, args: list) -> Any:
        return function(*args)

    def shape_function(self, *args: Any) -> Any:
        known = self.known
        if known is None:
            known = symbolic_shapes(self.fn, args)
        made = [fake_tensor(sizes, None, dtype) for sizes, dtype in known]
        return tuple(made) if len(made) > 1 else made[0]

    def __repr__(self) -> str:
        return f"{self.name}{self.named or ''}"


def as_tuple(found: Any) -> tuple:
    return found if isinstance(found, tuple) else (found,)


def _plain(a: Any) -> Any:
    if isinstance(a, Tensor):
        return a._fl_array[()] if a.ndim == 0 else a._fl_array
    return type(a)(map(_plain, a)) if isinstance(a, (list, tuple)) else a


def _sample(a: Any) -> Any:
    """An array of ones in place of a fake, of one element's memory."""
    if isinstance(a, Tensor):
        one = np.ones((), a.dtype.numpy)
        return one[()] if a.ndim == 0 else np.broadcast_to(one, tuple(int(n) for n in a.shape))
    return type(a)(map(_sample, a)) if isinstance(a, (list, tuple)) else a


def symbolic_shapes(fn: Any, args: tuple) -> list:
    """Of an elementwise function: the operands' common sizes, and numpy's types."""
    sizes = broadcast_shapes([tuple(a.shape) for a in args if isinstance(a, Tensor)], fn.__name__)
    kinds = tuple(a.dtype.numpy if isinstance(a, Tensor) else _kind(a) for a in args)
    found = fn.resolve_dtypes((*kinds, *[None] * fn.nout))
    return [(sizes, dtypes.from_numpy(kind)) for kind in found[len(args) :]]


def _kind(number: Any) -> Any:
    """What numpy takes for the type of a number: Python's own go along with any array."""
    return type(number) if type(number) in (int, float, complex) else np.dtype(type(number))


def is_elementwise(fn: Any) -> bool:
    return isinstance(fn, np.ufunc) and fn.signature is None


def call_on_arrays(tx: Any, fn: Any, args: list, kwargs: dict) -> Variable:
    """A function of numpy's on arrays: one node, run by numpy."""
    name = f"numpy.{fn.__name__}"
    if not (isinstance(fn, np.ufunc) or fn in FRESH or getattr(fn, "__objclass__", None) is np.ndarray):
        raise unsupported("builtin", f"{name}() of arrays")
    if fn is np.where and len(args) != 3:
        raise unsupported("builtin", f"{name}() with a condition alone")
    if (
        isinstance(fn, np.ufunc)
        and kwargs
        or any(k in kwargs for k in ("out", "where", "order", "initial", "subok", "like", "copy"))
    ):
        raise unsupported("builtin", f"{name}() with {', '.join(kwargs)}")
    operands: list = []
    numbers: list = []
    layout = tuple(_laid_out(tx, name, a.realize(), operands, numbers) for a in (*args, *kwargs.values()))
    plain = NumpyFunction(name, fn, tuple(kwargs))
    given = custom_calls.OperatorCall(plain, layout).arguments(operands, numbers)
    symbolic = bool(numbers) or any(type(n) is not int for t in operands for n in t.shape)
    if symbolic and (numbers or not is_elementwise(fn)):
        raise unsupported("builtin", f"{name}() of an array whose sizes change")
    if symbolic:
        shapes, scalars = tx.run(symbolic_shapes, fn, tuple(given)), [all(t.ndim == 0 for t in operands)] * fn.nout
    else:
        found = as_tuple(tx.run_outside(functools.partial(_quietly, plain), *map(_sample, given)))
        if not all(isinstance(x, (np.ndarray, np.generic)) and x.dtype in TYPES for x in found):
            raise unsupported("builtin", f"{name}() gives what is no array of numbers")
        shapes = [(x.shape, dtypes.from_numpy(x.dtype)) for x in found]
        scalars = [isinstance(x, np.generic) for x in found]
    known = None if symbolic else tuple(shapes)
    call = custom_calls.OperatorCall(NumpyFunction(name, fn, tuple(kwargs), known), layout)
    record = custom_calls.operator_record(name, len(shapes), 0)
    made = as_tuple(tx.run(record, tuple(operands), tuple(numbers), call))
    arrays = [ArrayVariable(tx.fresh(t), scalar=s) for t, s in zip(made, scalars)]
    return arrays[0] if len(arrays) == 1 else TupleVariable(arrays)


def _quietly(function: NumpyFunction, *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return function.call(*args)


def _laid_out(tx: Any, name: str, value: Variable, operands: list, numbers: list) -> tuple:
    if isinstance(value, ArrayVariable):
        operands.append(value.fake)
        return custom_calls.TENSOR, len(operands) - 1
    if isinstance(value, (ListVariable, TupleVariable)) and value.python_type() in (list, tuple):
        members = tuple(_laid_out(tx, name, x.realize(), operands, numbers) for x in value.unpack(tx))
        return custom_calls.SEVERAL, value.python_type(), members
    if isinstance(value, SymVariable):
        plain = value.plain()
        if isinstance(plain, SymInt):
            numbers.append(plain)
            return custom_calls.NUMBER, len(numbers) - 1
        raise unsupported("builtin", f"{name}() of a number that changes")
    try:
        plain = value.plain()
    except NotPlain as error:
        raise unsupported("builtin", f"{name}() of {error}") from error
    if not isinstance(plain, KNOWN) or isinstance(plain, (Tensor, *SYMBOLIC)):
        raise unsupported("builtin", f"{name}() of {value}")
    return custom_calls.VALUE, plain


# -- between arrays and tensors --------------------------------------------------------------------------------------


def tensor_of(tx: Any, array: ArrayVariable) -> Variable:
    """The tensor over an array's memory."""
    if array.scalar:
        tx.raise_error(TypeError, f"expected np.ndarray (got {array.python_type().__name__})")
    if array.owner is not None:
        return array.tensor.data(tx)  # it has a version of its own
    if array.taken:
        raise unsupported("metadata", f"a second tensor over the memory of {array}")
    array.taken = True
    return array.tensor


@handles(creation.from_numpy)
def _from_numpy(tx: Any, ndarray: Variable) -> Variable:
    if isinstance(ndarray, ArrayVariable):
        return tensor_of(tx, ndarray)
    return tx.fresh(tx.run_variables(creation.from_numpy, [ndarray]))


def _converts(function: Callable, shares: bool) -> None:
    @handles(function)
    def convert(tx: Any, data: Variable, *args: Variable, **kwargs: Variable) -> Variable:
        if not isinstance(data, ArrayVariable):
            return tx.fresh(tx.run_variables(function, [data, *args], kwargs))
        if args or kwargs:
            raise unsupported("builtin", f"{function.__name__}() of {data} with a type or device")
        if shares and not data.scalar:
            return tensor_of(tx, data)
        return tx.fresh(tx.run(lambda t: t.clone(), data.fake))


_converts(api.as_tensor, True)
_converts(api.tensor, False)
ON_ARRAYS.append(call_on_arrays)
