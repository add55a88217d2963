"""Builtin functions and types that the tracer knows, and library functions that it runs for real.

`HANDLERS` maps a builtin to a handler `(tx, args, kwargs)`; a handler that cannot decide from variables runs the real
builtin on plain values. Everything else that is written in C is a graph break.
"""

from __future__ import annotations

import abc
import collections
import functools
import inspect
import itertools
import math
import operator
import sys
import threading
import types
from typing import Any
from collections.abc import Callable

from ...eager.autograd import is_grad_enabled
from ...eager.tensor import read_of_fake
from .. import state
from ..breaks import unsupported
from ..shapes.symbolic_shapes import SymFloat, SymInt, always_finite, float_op
from ..guards.source import Pinned
from .base import Variable
from .constant import answered, HEAP_TYPE, ConstantVariable, SymVariable
from .dicts import DictVariable
from .functions import BoundMethodVariable, PartialVariable
from .object_id import IdentityVariable
from .iterators import (
    AccumulateIterator,
    ArrangedIterator,
    ChainIterator,
    CountIterator,
    EnumerateIterator,
    FilterIterator,
    FixedIterator,
    LongestIterator,
    MapIterator,
    PairwiseIterator,
    SliceIterator,
    ZipIterator,
    tees,
)
from .module import Module
from .python_module import namespace_of
from .objects import SuperVariable, UserObjectVariable, lookup
from .polyfills import call_until
from .sequences import ListVariable, SliceVariable, TupleVariable
from .sets import SetVariable
from .tensor import TensorVariable

HANDLERS: dict[Any, Callable] = {}


def handles(*builtins):
    """Register a handler; a second one for the same builtin is refused."""

    def register(fn):
        for builtin in builtins:
            if builtin in HANDLERS:
                raise ValueError(f"{builtin} has a handler already")
            HANDLERS[builtin] = fn
        return fn

    return register


def known_native(*names):
    """Functions of the extension that generated code calls; none where it could not be built."""
    return [getattr(state.native, name) for name in names if state.native is not None]


MOST = {
    type: 3,
    getattr: 3,
    int: 2,
    bool: 1,
    str: 3,
    set: 1,
    frozenset: 1,
    dict: 1,
    collections.OrderedDict: 1,
    slice: 3,
    collections.deque: 2,
    range: 3,
    next: 2,
    iter: 2,
    vars: 1,
    super: 2,
    filter: 2,
    functools.reduce: 3,
    math.log: 2,
    itertools.repeat: 2,
    itertools.islice: 4,
}  # positional arguments of builtins that tell no signature


@functools.cache
def most_arguments(fn):
    """How many positional arguments a builtin takes, and which keywords; infinity and None where it does not say."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return MOST.get(fn, math.inf), None
    kinds = [p.kind for p in parameters]
    at_most = (
        math.inf
        if inspect.Parameter.VAR_POSITIONAL in kinds
        else sum(kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
    )
    return at_most, None if inspect.Parameter.VAR_KEYWORD in kinds else frozenset(p.name for p in parameters)


def surplus(fn, args, kwargs) -> bool:
    """Whether there are arguments that the builtin does not take: Python is to say so."""
    at_most, keywords = most_arguments(fn)
    return len(args) > at_most or (bool(kwargs) and keywords is not None and not kwargs.keys() <= keywords)


class BuiltinVariable(Variable):
    """A function written in C or owned by the library: a handler, a real run, or a break."""

    shared = False

    def __init__(self, fn, source=None):
        super().__init__(source)
        self.fn = fn

    def python_type(self):
        return type(self.fn)

    def plain(self):
        return self.fn

    def is_constant(self):
        return True

    def identity(self):
        return self.fn

    def key(self):
        return self.fn

    def describe(self):
        return f"{getattr(self.fn, '__module__', None) or 'builtins'}.{getattr(self.fn, '__qualname__', repr(self.fn))}"

    def __str__(self):
        return self.describe()

    def get_attr(self, tx, name):
        return tx.fresh(tx.run(getattr, self.fn, name))

    def call(self, tx, args, kwargs):
        return tx.call_builtin(self.fn, args, kwargs)

    def reconstruct(self, gen):
        gen.emit.load_const(self.fn)


class ThreadVariable(Variable):
    """threading.get_ident(): the number of whichever thread calls."""

    shared = False

    def python_type(self):
        return int

    def key(self):
        return "thread"

    def reconstruct(self, gen):
        gen.load_call(threading.get_ident, [])


NOT_OBJECTS = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex, type, BaseException)


def none(tx):
    return tx.constant(None)


# -- types and attributes --------------------------------------------------------------------------------------------


def classes_of(variable):
    """The classes of isinstance's second argument."""
    if isinstance(variable, TupleVariable):
        return tuple(c for item in variable.items for c in classes_of(item.realize()))
    plain = variable.plain()
    return tuple(plain.__args__) if isinstance(plain, types.UnionType) else (plain,)


class AbstractAnswers:
    """Guard: abstract base classes, which may register classes at any time, still say the same about these."""

    def __init__(self):
        self.token, self.answers = abc.get_cache_token(), {}

    def __call__(self, _):
        token = abc.get_cache_token()
        if token != self.token and all(issubclass(*asked) is answer for asked, answer in self.answers.items()):
            self.token = token
        return token == self.token

    def __str__(self):
        return "abstract base classes have the same subclasses"


def subclass(tx, cls, wanted) -> bool:
    """issubclass(), guarded where the answer may change."""
    answer = issubclass(cls, wanted)
    if any(isinstance(w, abc.ABCMeta) for w in (wanted if isinstance(wanted, tuple) else (wanted,))):
        if tx.abstract_answers is None:
            tx.abstract_answers = AbstractAnswers()
            tx.guard(Pinned(abc.ABC, "abc.ABC"), "predicate", tx.abstract_answers)
        tx.abstract_answers.answers[cls, wanted] = answer
    return answer


@handles(*known_native("full_cell"))
def _full_cell(tx, args, kwargs):
    cell, name = args
    if cell.get(tx) is None:
        tx.raise_error(
            UnboundLocalError, f"cannot access local variable {name.plain()!r} where it is not associated with a value"
        )
    return tx.constant(None)


@handles(*known_native("taken", "ended_at"))
def _nothing_traced(tx, args, kwargs):
    return tx.constant(None)


@handles(isinstance)
def _isinstance(tx, args, kwargs):
    value, wanted = args[0], classes_of(args[1])
    if isinstance(value, (ConstantVariable, TensorVariable)) and any(type(c) is not type for c in wanted):
        probe = value.value if isinstance(value, ConstantVariable) else value.real if value.real is not None else value.fake
        return tx.constant(isinstance(probe, wanted))
    return tx.constant(subclass(tx, value.python_type(), wanted))


@handles(issubclass)
def _issubclass(tx, args, kwargs):
    return tx.constant(subclass(tx, args[0].plain(), classes_of(args[1])))


@handles(type)
def _type(tx, args, kwargs):
    if len(args) != 1:
        raise unsupported("builtin", "making a class with type()")
    return tx.wrap_type(args[0].python_type())


def attribute_name(tx, variable) -> str:
    name = variable.plain()
    if not isinstance(name, str):
        raise unsupported("attribute", f"an attribute whose name is {name!r}")
    return name


@handles(hasattr)
def _hasattr(tx, args, kwargs):
    return tx.constant(tx.try_attr(args[0], attribute_name(tx, args[1])) is not None)


@handles(getattr)
def _getattr(tx, args, kwargs):
    name = attribute_name(tx, args[1])
    if len(args) == 2:
        return tx.get_attr(args[0], name)
    found = tx.try_attr(args[0], name)
    return args[2] if found is None else found


@handles(setattr)
def _setattr(tx, args, kwargs):
    args[0].set_attr(tx, attribute_name(tx, args[1]), args[2])
    return none(tx)


@handles(delattr)
def _delattr(tx, args, kwargs):
    args[0].del_attr(tx, attribute_name(tx, args[1]))
    return none(tx)


@handles(callable)
def _callable(tx, args, kwargs):
    return tx.constant(lookup(args[0].python_type(), "__call__") is not None)


@handles(id)
def _id(tx, args, kwargs):
    return IdentityVariable(tx, args[0])


@handles(super)
def _super(tx, args, kwargs):
    if args:
        return SuperVariable(args[0].plain(), args[1])
    return tx.frame.zero_argument_super()


@handles(property, staticmethod, classmethod)
def _descriptor(tx, args, kwargs):
    raise unsupported("builtin", "making a property, staticmethod or classmethod")


@handles(vars)
def _vars(tx, args, kwargs):
    found = tx.try_attr(args[0], "__dict__")
    return found if found is not None else tx.raise_error(TypeError, "vars() argument must have __dict__ attribute")


@handles(object)
def _object(tx, args, kwargs):
    return tx.object_variable(object)


@handles(object.__new__)
def _object_new(tx, args, kwargs):
    cls = args[0].plain()
    if cls.__new__ is object.__new__ and len(args) + len(kwargs) > 1 and cls.__init__ is object.__init__:
        tx.raise_error(TypeError, f"{cls.__name__}() takes no arguments")
    if not cls.__flags__ & HEAP_TYPE or issubclass(cls, NOT_OBJECTS):
        raise unsupported("call", f"object.__new__({cls.__name__})")
    return tx.object_variable(cls)


@handles(Module.__new__)
def _module_new(tx, args, kwargs):
    return tx.object_variable(args[0].plain())


@handles(globals)
def _globals(tx, args, kwargs):
    return namespace_of(tx, tx.frame.globals, tx.pinned(tx.frame.globals, "globals()"))


@handles(threading.get_ident)
def _get_ident(tx, args, kwargs):
    return ThreadVariable()


# -- numbers and text ------------------------------------------------------------------------------------------------


@handles(int)
def _int(tx, args, kwargs):
    if len(args) == 1 and isinstance(args[0], SymVariable) and args[0].python_type() is int:
        return args[0]
    if len(args) == 1 and isinstance(args[0], SymVariable) and args[0].python_type() is float:
        return tx.fresh(tx.run(math.trunc, args[0].value))
    return number(tx, int, args, kwargs, "__int__")


@handles(float)
def _float(tx, args, kwargs):
    if len(args) == 1 and isinstance(args[0], SymVariable) and hasattr(args[0].value, "as_float"):
        return tx.fresh(args[0].value.as_float())
    return number(tx, float, args, kwargs, "__float__")


@handles(complex)
def _complex(tx, args, kwargs):
    return number(tx, complex, args, kwargs, "__complex__")


def number_of_tensor(tx, cls, tensor):
    kind = tensor.fake.dtype
    whole = not (kind.is_floating_point or kind.is_complex)
    if cls is float or cls is int and whole:
        return tx.fresh(tx.run(lambda: (tensor.fake if cls is int else tensor.fake.double()).item()))
    if cls is int and kind.is_floating_point and tx.run(lambda: bool(tensor.fake.numel() == 1)):
        return tx.fresh(tx.run(read_of_fake, tensor.fake, "whole"))
    raise unsupported("item", f"{cls.__name__}() of {tensor}")


def number(tx, cls, args, kwargs, special):
    if args and isinstance(args[0], TensorVariable):
        return number_of_tensor(tx, cls, args[0])
    if args and isinstance(args[0], UserObjectVariable):
        return answered(tx, cls, args[0].cls, special, args[0].call_special(tx, special))
    return tx.fresh(tx.run_variables(cls, args, kwargs))


@handles(bool)
def _bool(tx, args, kwargs):
    if args and isinstance(args[0], SymVariable) and args[0].python_type() is bool:
        return args[0]
    return tx.constant(tx.truth(args[0]) if args else False)


@handles(operator.truth)
def _truth(tx, args, kwargs):
    return tx.constant(tx.truth(args[0]))


@handles(operator.not_)
def _not(tx, args, kwargs):
    return tx.constant(not tx.truth(args[0]))


@handles(str)
def _str(tx, args, kwargs):
    return tx.text_variable(args[0], str) if args else tx.constant("")


@handles(repr)
def _repr(tx, args, kwargs):
    return tx.text_variable(args[0], repr)


@handles(ascii)
def _ascii(tx, args, kwargs):
    return tx.constant(tx.text(args[0], repr).encode("ascii", "backslashreplace").decode())


@handles(format)
def _format(tx, args, kwargs):
    return tx.formatted_variable(args[0], args[1] if len(args) > 1 else tx.constant(""))


def keeps(fn, number) -> bool:
    """Whether a symbolic number stays one under this function."""
    return fn in ((abs, round, pow, divmod) if number.python_type() is int else (abs, pow))


def _numeric(fn):
    special = f"__{fn.__name__}__"

    def handler(tx, args, kwargs):
        if args and isinstance(args[0], UserObjectVariable):
            return args[0].call_special(tx, special, *args[1:])
        modular = len(args) == 3  # pow(): Python asks its first argument alone
        args = [a.settled(tx) if isinstance(a, SymVariable) and (modular or not keeps(fn, a)) else a for a in args]
        return tx.fresh(tx.run_variables(fn, args, kwargs))

    return handler


HANDLERS.update(
    {
        fn: functools.partial(lambda fn, tx, args, kwargs: tx.fresh(tx.run_variables(fn, args, kwargs)), fn)
        for fn in (bytes, str.maketrans)
    }
)
HANDLERS.update({fn: _numeric(fn) for fn in (abs, round, divmod, pow, hash, ord, chr, bin, hex, oct)})


def _extreme_of(fn, better):
    def handler(tx, args, kwargs):
        key, default = kwargs.get("key"), kwargs.get("default")
        values = tx.unpack(args[0]) if len(args) == 1 else list(args)
        if not values:
            return default if default is not None else tx.raise_error(ValueError, f"{fn.__name__}() arg is an empty sequence")
        symbolic = [v for v in values if isinstance(v, SymVariable)]
        if symbolic and key is None and len(values) == 2:
            return symbolic_extreme(tx, fn, values)
        best, best_key = values[0], values[0] if key is None else tx.call(key, [values[0]], {})
        for value in values[1:]:
            value_key = value if key is None else tx.call(key, [value], {})
            if tx.truth(tx.binary(better, value_key, best_key)):
                best, best_key = value, value_key
        return best

    return handler


def symbolic_extreme(tx, fn, values):
    """min/max of sizes stays symbolic instead of being decided from the hints."""
    first, second = (v.plain() for v in values)
    owner, other = (first, second) if hasattr(first, "sym_" + fn.__name__) else (second, first)
    if not hasattr(owner, "sym_" + fn.__name__) or isinstance(other, float):
        return values[0] if tx.truth(tx.binary(operator.le if fn is min else operator.ge, *values)) else values[1]
    return tx.fresh(getattr(owner, "sym_" + fn.__name__)(other))


HANDLERS[min] = _extreme_of(min, operator.lt)
HANDLERS[max] = _extreme_of(max, operator.gt)


@handles(sum)
def _sum(tx, args, kwargs):
    total = args[1] if len(args) > 1 else kwargs.get("start", tx.constant(0))
    for value in tx.members(args[0]):
        total = tx.add(total, value)
    return total


@handles(any)
def _any(tx, args, kwargs):
    return tx.constant(any(tx.truth(value) for value in tx.members(args[0])))


@handles(all)
def _all(tx, args, kwargs):
    return tx.constant(all(tx.truth(value) for value in tx.members(args[0])))


# -- containers and iteration ----------------------------------------------------------------------------------------


@handles(len)
def _len(tx, args, kwargs):
    return args[0].length(tx)


@handles(tuple)
def _tuple(tx, args, kwargs):
    if args and isinstance(args[0], TupleVariable) and args[0].cls is tuple:
        return args[0]
    return TupleVariable(tx.unpack(args[0]) if args else [])


@handles(tuple.__new__)
def _tuple_new(tx, args, kwargs):
    cls = args[0].plain()
    if cls is not tuple and not hasattr(cls, "_fields"):
        raise unsupported("call", f"tuple.__new__({cls.__name__})")
    return TupleVariable(tx.unpack(args[1]) if len(args) > 1 else [], cls=cls)


HANDLERS[list] = lambda tx, args, kwargs: ListVariable(tx.unpack(args[0]) if args else [])


def _deque(tx, args, kwargs):
    limit = args[1] if len(args) > 1 else kwargs.get("maxlen")
    made = ListVariable([], cls=collections.deque)
    made.maxlen = None if limit is None or limit.plain() is None else tx.index(limit)
    if args:
        made.method_extend(tx, args[0])
    return made


HANDLERS[collections.deque] = _deque
HANDLERS[set] = lambda tx, args, kwargs: SetVariable(tx.unpack(args[0]) if args else [])
HANDLERS[frozenset] = lambda tx, args, kwargs: SetVariable(tx.unpack(args[0]) if args else [], cls=frozenset)


def _dict_of(cls):
    def handler(tx, args, kwargs):
        made = DictVariable(tx.pairs(args[0]) if args else [], cls=cls)
        made.method_update(tx, **kwargs)
        made.original = dict(made.entries)
        return made

    return handler


HANDLERS[dict] = _dict_of(dict)
HANDLERS[collections.OrderedDict] = _dict_of(collections.OrderedDict)


@handles(collections.defaultdict)
def _defaultdict(tx, args, kwargs):
    made = DictVariable(
        tx.pairs(args[1]) if len(args) > 1 else [], cls=collections.defaultdict, factory=args[0] if args else none(tx)
    )
    made.method_update(tx, **kwargs)
    return made


@handles(slice)
def _slice(tx, args, kwargs):
    parts = [none(tx), *args, none(tx)] if len(args) == 1 else [*args, none(tx)][:3]
    return SliceVariable(parts)


@handles(range)
def _range(tx, args, kwargs):
    return tx.constant(tx.run(range, *(tx.index(a) for a in args)))


@handles(next)
def _next(tx, args, kwargs):
    if len(args) == 1:
        return tx.next_or_raise(args[0])
    value = args[0].next(tx)
    return args[1] if value is None else value


@handles(zip)
def _zip(tx, args, kwargs):
    return ZipIterator(tx, args, "strict" in kwargs and tx.truth(kwargs["strict"]))


@handles(enumerate)
def _enumerate(tx, args, kwargs):
    start = args[1] if len(args) > 1 else kwargs.get("start", tx.constant(0))
    return EnumerateIterator(tx, args[0], start.plain())


@handles(map)
def _map(tx, args, kwargs):
    return MapIterator(tx, args[0], args[1:])


@handles(filter)
def _filter(tx, args, kwargs):
    return FilterIterator(tx, args[0], args[1])


@handles(reversed)
def _reversed(tx, args, kwargs):
    if isinstance(args[0], TensorVariable):
        return tx.fresh(tx.run(reversed, args[0].fake))
    if isinstance(args[0], UserObjectVariable) and lookup(args[0].cls, "__reversed__"):
        return tx.iterate(args[0].call_special(tx, "__reversed__"))
    return FixedIterator(tx.unpack(args[0])[::-1], cls=type(reversed([])))


@handles(sorted)
def _sorted(tx, args, kwargs):
    return ListVariable(tx.sorted(tx.unpack(args[0]), kwargs.get("key"), "reverse" in kwargs and tx.truth(kwargs["reverse"])))


@handles(itertools.chain)
def _chain(tx, args, kwargs):
    return ChainIterator(FixedIterator(list(args)))


@handles(itertools.chain.from_iterable)
def _chain_from_iterable(tx, args, kwargs):
    return ChainIterator(tx.iterate(args[0]))


@handles(itertools.count)
def _count(tx, args, kwargs):
    given = dict(zip(("start", "step"), args)) | kwargs
    return CountIterator(itertools.count, given.get("start", tx.constant(0)), given.get("step", tx.constant(1)))


@handles(itertools.repeat)
def _repeat(tx, args, kwargs):
    times = args[1] if len(args) > 1 else kwargs.get("times")
    return CountIterator(itertools.repeat, args[0], times=None if times is None else tx.index(times))


@handles(itertools.islice)
def _islice(tx, args, kwargs):
    start, stop, step = ([None, *args[1:], None] if len(args) == 2 else [*args[1:], None])[:3]
    numbers = [None if a is None or a.is_constant() and a.plain() is None else tx.index(a) for a in (start, stop, step)]
    tx.run(lambda: itertools.islice((), *numbers))  # raises what Python raises
    return SliceIterator(tx.iterate(args[0]), numbers[0] or 0, numbers[1], numbers[2] or 1)


@handles(itertools.accumulate)
def _accumulate(tx, args, kwargs):
    given = dict(zip(("iterable", "func"), args)) | kwargs
    function, initial = (
        None if v is None or v.is_constant() and v.plain() is None else v for v in (given.get("func"), given.get("initial"))
    )
    return AccumulateIterator(tx.iterate(given["iterable"]), function, initial)


@handles(itertools.pairwise)
def _pairwise(tx, args, kwargs):
    return PairwiseIterator(tx.iterate(args[0]))


@handles(itertools.zip_longest)
def _zip_longest(tx, args, kwargs):
    return LongestIterator([tx.iterate(a) for a in args], kwargs.get("fillvalue", tx.constant(None)))


@handles(itertools.tee)
def _tee(tx, args, kwargs):
    count = tx.index(args[1]) if len(args) > 1 else 2
    tx.run(lambda: itertools.tee((), count))  # raises what Python raises
    return TupleVariable(tees(tx.iterate(args[0]), count))


def _arranged(cls):
    """Iterators over arrangements of members that are all known: the real one runs on the Variables."""

    def handler(tx, args, kwargs):
        counted = cls is not itertools.product  # the others take one iterable and a number
        pools = [TupleVariable(tx.unpack(a)) for a in (args[:1] if counted else args)]
        numbers = args[1:] if counted else []
        rows = tx.run(
            lambda: cls(
                *(pool.items for pool in pools),
                *(n.plain() for n in numbers),
                **{name: value.plain() for name, value in kwargs.items()},
            )
        )
        return ArrangedIterator(cls, rows, [*pools, *numbers], kwargs)

    return handler


HANDLERS.update(
    {
        cls: _arranged(cls)
        for cls in (itertools.product, itertools.combinations, itertools.combinations_with_replacement, itertools.permutations)
    }
)


# -- functools and operator ------------------------------------------------------------------------------------------


@handles(functools.partial)
def _partial(tx, args, kwargs):
    return PartialVariable(args[0], args[1:], kwargs)


@handles(functools.reduce)
def _reduce(tx, args, kwargs):
    values = tx.unpack(args[1])
    if not values and len(args) < 3:
        tx.raise_error(TypeError, "reduce() of empty iterable with no initial value")
    total, rest = (args[2], values) if len(args) > 2 else (values[0], values[1:])
    for value in rest:
        total = tx.call(args[0], [total, value], {})
    return total


@handles(types.MethodType)
def _method(tx, args, kwargs):
    return BoundMethodVariable(args[0], args[1])


@handles(operator.getitem)
def _getitem(tx, args, kwargs):
    return args[0].get_item(tx, args[1])


@handles(operator.setitem)
def _setitem(tx, args, kwargs):
    args[0].set_item(tx, args[1], args[2])
    return none(tx)


@handles(operator.delitem)
def _delitem(tx, args, kwargs):
    args[0].del_item(tx, args[1])
    return none(tx)


@handles(operator.contains)
def _contains(tx, args, kwargs):
    return tx.constant(args[0].contains(tx, args[1]))


@handles(operator.is_)
def _is(tx, args, kwargs):
    return tx.constant(tx.identical(*args))


@handles(operator.is_not)
def _is_not(tx, args, kwargs):
    return tx.constant(not tx.identical(*args))


@handles(operator.index)
def _index(tx, args, kwargs):
    return args[0] if isinstance(args[0], SymVariable) else tx.constant(tx.index(args[0]))


BINARY = tuple(
    getattr(operator, name)
    for name in (
        "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge iadd isub imul itruediv "
        "ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
    ).split()
)
HANDLERS.update({fn: functools.partial(lambda fn, tx, args, kwargs: tx.binary(fn, *args), fn) for fn in BINARY})
UNARY = {operator.neg: "__neg__", operator.pos: "__pos__", operator.invert: "__invert__", operator.abs: "__abs__"}
HANDLERS.update({fn: functools.partial(lambda fn, tx, args, kwargs: tx.unary(fn, args[0]), fn) for fn in UNARY})


def _of_symbolic_number(fn, allowed):
    """A function of C over a symbolic number stays symbolic where it is finite for sure, or the number is `allowed`: there it
    raises nothing."""

    def handler(tx, args, kwargs):
        value = args[0].value if len(args) == 1 and isinstance(args[0], SymVariable) else None
        symbolic = isinstance(value, (SymInt, SymFloat))
        if symbolic and (always_finite(fn.__name__, value) or tx.run(lambda: bool(allowed(value)))):
            return tx.fresh(float_op(value.env, fn.__name__, value))
        return tx.fresh(tx.run_variables(fn, args, kwargs))

    return handler


HANDLERS.update(
    {
        fn: _of_symbolic_number(fn, allowed)
        for fn, allowed in (
            (math.sqrt, lambda x: x >= 0),
            (math.log, lambda x: x > 0),
            (math.exp, lambda x: x < 700),
            (math.tanh, lambda x: x == x),
            (math.sin, lambda x: abs(x) < 1e300),
            (math.cos, lambda x: abs(x) < 1e300),
        )
    }
)

# functions of numbers and text without side effects: they run for real on plain arguments
PURE_MODULES = ("math", "cmath", "operator", "_operator", "string", "re", "textwrap", "fractions", "numbers")


@handles(dict.fromkeys)
def _fromkeys(tx, args, kwargs):
    return _dict_of_keys(tx, args, dict)


@handles(collections.OrderedDict.fromkeys)
def _ordered_fromkeys(tx, args, kwargs):
    return _dict_of_keys(tx, args or [kwargs["iterable"]], collections.OrderedDict, kwargs.get("value"))


def _dict_of_keys(tx, args, cls, value=None):
    value = args[1] if len(args) > 1 else value or none(tx)
    return DictVariable([(key, value) for key in tx.unpack(args[0])], cls=cls)


@handles(math.prod)
def _prod(tx, args, kwargs):
    total = kwargs.get("start", tx.constant(1))
    for value in tx.members(args[0]):
        total = tx.binary(operator.mul, total, value)
    return total


def is_pure(fn) -> bool:
    return getattr(fn, "__module__", None) in PURE_MODULES


@handles(state.is_compiling)
def _is_compiling(tx, args, kwargs):
    return tx.constant(True)


@handles(is_grad_enabled)
def _is_grad_enabled(tx, args, kwargs):
    return tx.constant(tx.grad_mode())


@handles(iter)
def _iter(tx, args, kwargs):
    if len(args) == 2:
        return tx.call(tx.polyfill(call_until), args, {})
    return tx.iterate(args[0])


@handles(sys.exc_info)
def _exc_info(tx, args, kwargs):
    if tx.exception_now is not None:
        raise unsupported("exception", "sys.exc_info() while an exception is handled")
    refuse_handled(tx, "sys.exc_info()")
    return TupleVariable([none(tx)] * 3)


@handles(sys.exception)
def _exception(tx, args, kwargs):
    if tx.exception_now is None:
        refuse_handled(tx, "sys.exception()")
    return tx.exception_now or none(tx)


def refuse_handled(tx, what):
    """A caller of the traced function may be handling an exception."""
    if sys.exception() is not None:
        raise unsupported("exception", f"{what} while a caller handles an exception")
    tx.guard(Pinned(sys, "sys"), "predicate", nothing_is_handled)


def nothing_is_handled(_) -> bool:
    return sys.exception() is None


@handles(sys.intern)
def _intern(tx, args, kwargs):
    return args[0]


@handles(sys.getrecursionlimit)
def _recursion_limit(tx, args, kwargs):
    return tx.constant(sys.getrecursionlimit())


@handles(print)
def _print(tx, args, kwargs):
    raise unsupported("print", "print() inside a compiled function")
