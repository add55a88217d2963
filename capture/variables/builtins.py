"""Builtin functions and types that the tracer knows, and library functions that it runs for real.

`HANDLERS` maps a builtin to a handler with the builtin's parameters behind `tx`, None standing for those that were not given; a
handler that cannot decide from variables runs the real builtin on plain values. Everything else that is written in C is a graph
break, and so is a call that does not bind (`arguments.py`); of the kinds of its arguments a handler says so itself
(`call_error`).
"""

from __future__ import annotations

import abc
import collections
import functools
import itertools
import math
import operator
import sys
import threading
import types
from typing import Any, NoReturn
from collections.abc import Callable

from ...eager.autograd import is_grad_enabled
from ...eager.tensor import read_of_fake
from .. import state
from ..breaks import unsupported
from ..shapes.symbolic_shapes import SymFloat, SymInt, always_finite, float_op
from ..guards.source import Pinned
from .arguments import given_arguments, call_error
from .base import KnownVariable, Variable
from .constant import special_method_result, HEAP_TYPE, ConstantVariable, SymVariable
from .dicts import DictVariable, DictView
from .functions import BoundMethodVariable, PartialVariable
from .object_id import IdentityVariable
from .iterators import (
    AccumulateIterator,
    ArrangedIterator,
    ChainIterator,
    CountIterator,
    DequeIterator,
    EnumerateIterator,
    FilterIterator,
    FixedIterator,
    ListIterator,
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


def handles(*builtins: Any) -> Callable:
    """Register a handler; a second one for the same builtin is refused."""

    def register(fn: Callable) -> Callable:
        for builtin in builtins:
            if builtin in HANDLERS:
                raise ValueError(f"{builtin} has a handler already")
            HANDLERS[builtin] = fn
        return fn

    return register


def known_native(*names: Any) -> list:
    """Functions of the extension that generated code calls; none where it could not be built."""
    return [getattr(state.native, name) for name in names if state.native is not None]


class BuiltinVariable(KnownVariable):
    """A function written in C or owned by the library: a handler, a real run, or a break."""

    def __init__(self, fn: Any, source: Any = None):
        super().__init__(source)
        self.fn = fn

    def plain(self) -> Any:
        return self.fn

    def describe(self) -> str:
        return f"{getattr(self.fn, '__module__', None) or 'builtins'}.{getattr(self.fn, '__qualname__', repr(self.fn))}"

    def get_attr(self, tx: Any, name: str) -> Variable:
        return tx.fresh(tx.run(getattr, self.fn, name))

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return tx.call_builtin(self.fn, args, kwargs)


class ThreadVariable(Variable):
    """threading.get_ident(): the number of whichever thread calls."""

    shared = False

    def python_type(self) -> type:
        return int

    def key(self) -> str:
        return "thread"

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(threading.get_ident, [])


NOT_OBJECTS = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex, type, BaseException)


def none(tx: Any) -> Variable:
    return tx.constant(None)


# -- types and attributes --------------------------------------------------------------------------------------------


def classes_of(variable: Variable) -> Any:
    """The classes of the second argument of isinstance or issubclass."""
    if isinstance(variable, TupleVariable):
        return tuple(c for item in variable.items for c in classes_of(item.realize()))
    plain = variable.plain()
    return tuple(plain.__args__) if isinstance(plain, types.UnionType) else (plain,)


def check_instance(question: Callable, value: Any, wanted: tuple) -> bool:
    """What isinstance or issubclass says, of what it takes."""
    try:
        return question(value, wanted)
    except TypeError as error:
        raise call_error(question) from error


class InstanceCheckGuard:
    """Guard: abstract base classes, which may register classes at any time, still say the same about these."""

    def __init__(self):
        self.token, self.answers = abc.get_cache_token(), {}

    def __call__(self, _: Any) -> bool:
        token = abc.get_cache_token()
        if token != self.token and all(issubclass(*asked) is answer for asked, answer in self.answers.items()):
            self.token = token
        return token == self.token

    def __str__(self) -> str:
        return "abstract base classes have the same subclasses"


def subclass(tx: Any, cls: Any, wanted: tuple) -> bool:
    """issubclass(), guarded where the answer may change."""
    answer = check_instance(issubclass, cls, wanted)
    if any(isinstance(w, abc.ABCMeta) for w in (wanted if isinstance(wanted, tuple) else (wanted,))):
        if tx.abstract_answers is None:
            tx.abstract_answers = InstanceCheckGuard()
            tx.guard(Pinned(abc.ABC, "abc.ABC"), "predicate", tx.abstract_answers)
        tx.abstract_answers.answers[cls, wanted] = answer
    return answer


@handles(*known_native("full_cell"))
def _full_cell(tx: Any, cell: Any, name: Any, /) -> Any:
    if cell.get(tx) is None:
        tx.raise_error(
            UnboundLocalError, f"cannot access local variable {name.plain()!r} where it is not associated with a value"
        )
    return tx.constant(None)


@handles(*known_native("taken", "ended_at"))
def _nothing_traced(tx: Any, /, *args: Variable) -> Variable:
    return tx.constant(None)


@handles(isinstance)
def _isinstance(tx: Any, value: Any, wanted: Any, /) -> Any:
    wanted = classes_of(wanted)
    if isinstance(value, (ConstantVariable, TensorVariable)) and any(type(c) is not type for c in wanted):
        probe = value.value if isinstance(value, ConstantVariable) else value.real if value.real is not None else value.fake
        return tx.constant(check_instance(isinstance, probe, wanted))
    return tx.constant(subclass(tx, value.python_type(), wanted))


@handles(issubclass)
def _issubclass(tx: Any, cls: Variable, wanted: Variable, /) -> Variable:
    return tx.constant(subclass(tx, cls.plain(), classes_of(wanted)))


@handles(type)
def _type(tx: Any, value: Variable, /, *more: Variable, **kwargs: Variable) -> Variable:
    if more:
        raise unsupported("builtin", "making a class with type()")
    return tx.wrap_type(value.python_type())


def attribute_name(tx: Any, variable: Variable) -> str:
    name = variable.plain()
    if not isinstance(name, str):
        raise unsupported("attribute", f"an attribute whose name is {name!r}")
    return name


@handles(hasattr)
def _hasattr(tx: Any, owner: Variable, name: Variable, /) -> Variable:
    return tx.constant(tx.try_attr(owner, attribute_name(tx, name)) is not None)


@handles(getattr)
def _getattr(tx: Any, owner: Any, name: Any, default: Any = None, /) -> Any:
    name = attribute_name(tx, name)
    if default is None:
        return tx.get_attr(owner, name)
    found = tx.try_attr(owner, name)
    return default if found is None else found


@handles(setattr)
def _setattr(tx: Any, owner: Variable, name: Variable, value: Variable, /) -> Variable:
    owner.set_attr(tx, attribute_name(tx, name), value)
    return none(tx)


@handles(delattr)
def _delattr(tx: Any, owner: Variable, name: Variable, /) -> Variable:
    owner.del_attr(tx, attribute_name(tx, name))
    return none(tx)


@handles(callable)
def _callable(tx: Any, value: Variable, /) -> Variable:
    return tx.constant(lookup(value.python_type(), "__call__") is not None)


@handles(id)
def _id(tx: Any, value: Variable, /) -> IdentityVariable:
    return IdentityVariable(tx, value)


@handles(super)
def _super(tx: Any, cls: Variable | None = None, owner: Variable | None = None, /) -> Variable:
    if cls is None:
        return tx.frame.zero_argument_super()
    if owner is None or not isinstance(cls.plain(), type):
        raise call_error(super)
    return SuperVariable(cls.plain(), owner)


@handles(property, staticmethod, classmethod)
def _descriptor(tx: Any, /, *args: Variable, **kwargs: Variable) -> NoReturn:
    raise unsupported("builtin", "making a property, staticmethod or classmethod")


@handles(vars)
def _vars(tx: Any, owner: Variable, /) -> Variable:
    found = tx.try_attr(owner, "__dict__")
    return found if found is not None else tx.raise_error(TypeError, "vars() argument must have __dict__ attribute")


@handles(object)
def _object(tx: Any, /, *args: Variable, **kwargs: Variable) -> Variable:
    return tx.object_variable(object)


@handles(object.__new__)
def _object_new(tx: Any, cls: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    cls = cls.plain()
    if not isinstance(cls, type):
        raise call_error("__new__")
    if cls.__new__ is object.__new__ and (args or kwargs) and cls.__init__ is object.__init__:
        tx.raise_error(TypeError, f"{cls.__name__}() takes no arguments")
    if not cls.__flags__ & HEAP_TYPE or issubclass(cls, NOT_OBJECTS):
        raise unsupported("call", f"object.__new__({cls.__name__})")
    return tx.object_variable(cls)


@handles(Module.__new__)
def _module_new(tx: Any, cls: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    if not isinstance(cls.plain(), type):
        raise call_error("__new__")
    return tx.object_variable(cls.plain())


@handles(globals)
def _globals(tx: Any, /) -> Variable:
    return namespace_of(tx, tx.frame.globals, tx.pinned(tx.frame.globals, "globals()"))


@handles(threading.get_ident)
def _get_ident(tx: Any, /) -> ThreadVariable:
    return ThreadVariable()


# -- numbers and text ------------------------------------------------------------------------------------------------


@handles(int)
def _int(tx: Any, value: Variable | None = None, /, base: Variable | None = None) -> Variable:
    if base is None and isinstance(value, SymVariable) and value.python_type() is int:
        return value
    if base is None and isinstance(value, SymVariable) and value.python_type() is float:
        return tx.fresh(tx.run(math.trunc, value.value))
    return number(tx, int, given_arguments(value), {} if base is None else {"base": base}, "__int__")


@handles(float)
def _float(tx: Any, value: Variable | None = None, /) -> Variable:
    if isinstance(value, SymVariable) and hasattr(value.value, "as_float"):
        return tx.fresh(value.value.as_float())
    return number(tx, float, given_arguments(value), {}, "__float__")


@handles(complex)
def _complex(tx: Any, /, *args: Variable, **kwargs: Variable) -> Variable:
    return number(tx, complex, list(args), kwargs, "__complex__")


def number_of_tensor(tx: Any, cls: type, tensor: Any) -> Any:
    kind = tensor.fake.dtype
    whole = not (kind.is_floating_point or kind.is_complex)
    if cls is float or cls is int and whole:
        return tx.fresh(tx.run(lambda: (tensor.fake if cls is int else tensor.fake.double()).item()))
    if cls is int and kind.is_floating_point and tx.run(lambda: bool(tensor.fake.numel() == 1)):
        return tx.fresh(tx.run(read_of_fake, tensor.fake, "whole"))
    raise unsupported("item", f"{cls.__name__}() of {tensor}")


def number(tx: Any, cls: type, args: list, kwargs: dict, special: str) -> Variable:
    if args and isinstance(args[0], TensorVariable):
        return number_of_tensor(tx, cls, args[0])
    if args and isinstance(args[0], UserObjectVariable):
        return special_method_result(tx, cls, args[0].cls, special, args[0].call_special(tx, special))
    return tx.fresh(tx.run_variables(cls, args, kwargs))


@handles(bool)
def _bool(tx: Any, value: Variable | None = None, /) -> Variable:
    if isinstance(value, SymVariable) and value.python_type() is bool:
        return value
    return tx.constant(tx.truth(value) if value is not None else False)


@handles(operator.truth)
def _truth(tx: Any, value: Variable, /) -> Variable:
    return tx.constant(tx.truth(value))


@handles(operator.not_)
def _not(tx: Any, value: Variable, /) -> Variable:
    return tx.constant(not tx.truth(value))


@handles(str)
def _str(tx: Any, object: Variable | None = None, encoding: Variable | None = None, errors: Variable | None = None) -> Variable:
    if encoding is not None or errors is not None:
        named = {"object": object, "encoding": encoding, "errors": errors}
        return tx.fresh(tx.run_variables(str, [], {name: v for name, v in named.items() if v is not None}))
    return tx.text_variable(object, str) if object is not None else tx.constant("")


@handles(repr)
def _repr(tx: Any, value: Variable, /) -> Variable:
    return tx.text_variable(value, repr)


@handles(ascii)
def _ascii(tx: Any, value: Variable, /) -> Variable:
    return tx.constant(tx.text(value, repr).encode("ascii", "backslashreplace").decode())


@handles(format)
def _format(tx: Any, value: Variable, spec: Variable | None = None, /) -> Variable:
    return tx.formatted_variable(value, spec if spec is not None else tx.constant(""))


def runs(fn: Callable) -> Callable:
    """The handler of a function that runs for real, on plain values."""
    return lambda tx, /, *args, **kwargs: tx.fresh(tx.run_variables(fn, args, kwargs))


def keeps_symbolic(fn: Callable, number: Variable) -> bool:
    """Whether a symbolic number stays one under this function."""
    return fn in ((abs, round, pow, divmod) if number.python_type() is int else (abs, pow))


def _numeric(fn: Callable) -> Callable:
    special = f"__{fn.__name__}__"

    def handler(tx: Any, /, *args: Any, **kwargs: Any) -> Variable:
        if args and isinstance(args[0], UserObjectVariable):
            return args[0].call_special(tx, special, *args[1:])
        modular = len(args) == 3  # pow(): Python asks its first argument alone
        settled = [a.specialise(tx) if isinstance(a, SymVariable) and (modular or not keeps_symbolic(fn, a)) else a for a in args]
        return tx.fresh(tx.run_variables(fn, settled, kwargs))

    return handler


HANDLERS.update({fn: runs(fn) for fn in (bytes, str.maketrans)})
HANDLERS.update({fn: _numeric(fn) for fn in (abs, round, divmod, pow, hash, ord, chr, bin, hex, oct)})


def _extreme_of(fn: Callable, better: Callable) -> Callable:
    def handler(tx: Any, first: Variable, /, *more: Any, key: Variable | None = None, default: Any = None) -> Variable:
        values = [first, *more] if more else tx.unpack(first)
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


def symbolic_extreme(tx: Any, fn: Any, values: Any) -> Any:
    """min/max of sizes stays symbolic instead of being decided from the hints."""
    first, second = (v.plain() for v in values)
    owner, other = (first, second) if hasattr(first, "sym_" + fn.__name__) else (second, first)
    if not hasattr(owner, "sym_" + fn.__name__) or isinstance(other, float):
        return values[0] if tx.truth(tx.binary(operator.le if fn is min else operator.ge, *values)) else values[1]
    return tx.fresh(getattr(owner, "sym_" + fn.__name__)(other))


HANDLERS[min] = _extreme_of(min, operator.lt)
HANDLERS[max] = _extreme_of(max, operator.gt)


@handles(sum)
def _sum(tx: Any, members: Variable, /, start: Variable | None = None) -> Variable:
    total = start if start is not None else tx.constant(0)
    for value in tx.members(members):
        total = tx.add(total, value)
    return total


@handles(any)
def _any(tx: Any, members: Variable, /) -> Variable:
    return tx.constant(any(tx.truth(value) for value in tx.members(members)))


@handles(all)
def _all(tx: Any, members: Variable, /) -> Variable:
    return tx.constant(all(tx.truth(value) for value in tx.members(members)))


# -- containers and iteration ----------------------------------------------------------------------------------------


@handles(len)
def _len(tx: Any, owner: Variable, /) -> Variable:
    return owner.length(tx)


@handles(tuple)
def _tuple(tx: Any, members: Variable | None = None, /) -> TupleVariable:
    if isinstance(members, TupleVariable) and members.cls is tuple:
        return members
    return TupleVariable(tx.unpack(members) if members is not None else [])


@handles(tuple.__new__)
def _tuple_new(tx: Any, cls: Variable, members: Variable | None = None, /) -> TupleVariable:
    cls = cls.plain()
    if not isinstance(cls, type):
        raise call_error("__new__")
    if cls is not tuple and not hasattr(cls, "_fields"):
        raise unsupported("call", f"tuple.__new__({cls.__name__})")
    return TupleVariable(tx.unpack(members) if members is not None else [], cls=cls)


@handles(list)
def _list(tx: Any, members: Variable | None = None, /) -> ListVariable:
    return ListVariable(tx.unpack(members) if members is not None else [])


@handles(collections.deque)
def _deque(tx: Any, iterable: Variable | None = None, maxlen: Variable | None = None) -> ListVariable:
    made = ListVariable([], cls=collections.deque)
    made.maxlen = None if maxlen is None or maxlen.plain() is None else tx.index(maxlen)
    if iterable is not None:
        made.method_extend(tx, iterable)
    return made


@handles(set)
def _set(tx: Any, members: Variable | None = None, /) -> SetVariable:
    return _set_of(tx, set, members)


@handles(frozenset)
def _frozenset(tx: Any, members: Variable | None = None, /) -> SetVariable:
    if isinstance(members, SetVariable) and members.python_type() is frozenset:
        return members
    return _set_of(tx, frozenset, members)


def _set_of(tx: Any, cls: type, members: Variable | None) -> SetVariable:
    """Made as the real one is, whose order of iteration depends on what it is made of."""
    return SetVariable([], cls=cls) if members is None else SetVariable.of(tx, cls, members)


def _dict_of(cls: type) -> Callable:
    def handler(tx: Any, pairs: Variable | None = None, /, **members: Any) -> Variable:
        made = DictVariable(tx.pairs(pairs) if pairs is not None else [], cls=cls)
        made.method_update(tx, **members)
        made.original = dict(made.entries)
        return made

    return handler


HANDLERS[dict] = _dict_of(dict)
HANDLERS[collections.OrderedDict] = _dict_of(collections.OrderedDict)


@handles(collections.defaultdict)
def _defaultdict(tx: Any, factory: Any = None, pairs: Any = None, /, **members: Any) -> Any:
    pairs = tx.pairs(pairs) if pairs is not None else []
    made = DictVariable(pairs, cls=collections.defaultdict, factory=factory if factory is not None else none(tx))
    made.method_update(tx, **members)
    return made


@handles(slice)
def _slice(tx: Any, first: Variable, stop: Variable | None = None, step: Variable | None = None, /) -> SliceVariable:
    return SliceVariable([none(tx), first, none(tx)] if stop is None else [first, stop, step if step is not None else none(tx)])


@handles(range)
def _range(tx: Any, first: Variable, stop: Variable | None = None, step: Variable | None = None, /) -> Variable:
    return tx.constant(tx.run(range, *(tx.index(a) for a in given_arguments(first, stop, step))))


@handles(next)
def _next(tx: Any, iterator: Any, default: Any = None, /) -> Any:
    if not hasattr(iterator, "next"):
        raise call_error(next)
    if default is None:
        return tx.next_or_raise(iterator)
    value = iterator.next(tx)
    return default if value is None else value


@handles(zip)
def _zip(tx: Any, /, *iterables: Variable, strict: Variable | None = None) -> ZipIterator:
    return ZipIterator(tx, iterables, strict is not None and tx.truth(strict))


@handles(enumerate)
def _enumerate(tx: Any, iterable: Variable, start: Variable | None = None) -> EnumerateIterator:
    return EnumerateIterator(tx, iterable, 0 if start is None else start.plain())


@handles(map)
def _map(tx: Any, function: Variable, /, *iterables: Variable) -> MapIterator:
    if not iterables:
        raise call_error(map)
    return MapIterator(tx, function, iterables)


@handles(filter)
def _filter(tx: Any, function: Variable, iterable: Variable, /) -> FilterIterator:
    return FilterIterator(tx, function, iterable)


@handles(reversed)
def _reversed(tx: Any, sequence: Variable, /) -> Variable:
    if isinstance(sequence, TensorVariable):
        return tx.fresh(tx.run(reversed, sequence.fake))
    if isinstance(sequence, UserObjectVariable) and lookup(sequence.cls, "__reversed__"):
        return tx.iterate(sequence.call_special(tx, "__reversed__"))
    if isinstance(sequence, ListVariable) and sequence.cls is collections.deque:
        return DequeIterator(sequence, backwards=True)
    if isinstance(sequence, ListVariable):
        return ListIterator(sequence, backwards=True)
    if isinstance(sequence, (DictVariable, DictView)):
        return sequence.iterate(tx, backwards=True)
    return FixedIterator(tx.unpack(sequence)[::-1], cls=type(reversed([])))


@handles(sorted)
def _sorted(tx: Any, iterable: Variable, /, *, key: Variable | None = None, reverse: Variable | None = None) -> ListVariable:
    return ListVariable(tx.sorted(tx.unpack(iterable), key, reverse is not None and tx.truth(reverse)))


@handles(itertools.chain)
def _chain(tx: Any, /, *iterables: Variable) -> ChainIterator:
    return ChainIterator(FixedIterator(list(iterables)))


@handles(itertools.chain.from_iterable)
def _chain_from_iterable(tx: Any, iterable: Variable, /) -> ChainIterator:
    return ChainIterator(tx.iterate(iterable))


@handles(itertools.count)
def _count(tx: Any, start: Variable | None = None, step: Variable | None = None) -> CountIterator:
    return CountIterator(itertools.count, start or tx.constant(0), step or tx.constant(1))


@handles(itertools.repeat)
def _repeat(tx: Any, object: Variable, times: Variable | None = None) -> CountIterator:
    return CountIterator(itertools.repeat, object, times=None if times is None else tx.index(times))


@handles(itertools.islice)
def _islice(
    tx: Any, iterable: Variable, first: Variable, stop: Variable | None = None, step: Variable | None = None, /
) -> SliceIterator:
    bounds = (None, first, None) if stop is None else (first, stop, step)
    numbers = [None if a is None or a.is_constant() and a.plain() is None else tx.index(a) for a in bounds]
    tx.run(lambda: itertools.islice((), *numbers))  # raises what Python raises
    return SliceIterator(tx.iterate(iterable), numbers[0] or 0, numbers[1], numbers[2] or 1)


@handles(itertools.accumulate)
def _accumulate(
    tx: Any, iterable: Variable, func: Variable | None = None, *, initial: Variable | None = None
) -> AccumulateIterator:
    function, initial = (None if v is None or v.is_constant() and v.plain() is None else v for v in (func, initial))
    return AccumulateIterator(tx.iterate(iterable), function, initial)


@handles(itertools.pairwise)
def _pairwise(tx: Any, iterable: Variable, /) -> PairwiseIterator:
    return PairwiseIterator(tx.iterate(iterable))


@handles(itertools.zip_longest)
def _zip_longest(tx: Any, /, *iterables: Variable, fillvalue: Variable | None = None) -> LongestIterator:
    return LongestIterator([tx.iterate(a) for a in iterables], fillvalue or tx.constant(None))


@handles(itertools.tee)
def _tee(tx: Any, iterable: Variable, n: Variable | None = None, /) -> TupleVariable:
    count = tx.index(n) if n is not None else 2
    tx.run(lambda: itertools.tee((), count))  # raises what Python raises
    return TupleVariable(tees(tx.iterate(iterable), count))


def _arranged(cls: type) -> Callable:
    """Iterators over arrangements of members that are all known: the real one runs on the Variables."""

    def handler(tx: Any, /, *args: Any, **kwargs: Any) -> Variable:
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
def _partial(tx: Any, function: Variable, /, *args: Variable, **kwargs: Variable) -> PartialVariable:
    return PartialVariable(function, list(args), kwargs)


@handles(functools.reduce)
def _reduce(tx: Any, function: Variable, iterable: Variable, initial: Variable | None = None, /) -> Variable:
    values = tx.unpack(iterable)
    if not values and initial is None:
        tx.raise_error(TypeError, "reduce() of empty iterable with no initial value")
    total, rest = (initial, values) if initial is not None else (values[0], values[1:])
    for value in rest:
        total = tx.call(function, [total, value], {})
    return total


@handles(types.MethodType)
def _method(tx: Any, function: Variable, owner: Variable, /) -> BoundMethodVariable:
    return BoundMethodVariable(function, owner)


@handles(operator.getitem)
def _getitem(tx: Any, owner: Variable, key: Variable, /) -> Variable:
    return owner.get_item(tx, key)


@handles(operator.setitem)
def _setitem(tx: Any, owner: Variable, key: Variable, value: Variable, /) -> Variable:
    owner.set_item(tx, key, value)
    return none(tx)


@handles(operator.delitem)
def _delitem(tx: Any, owner: Variable, key: Variable, /) -> Variable:
    owner.del_item(tx, key)
    return none(tx)


@handles(operator.contains)
def _contains(tx: Any, owner: Variable, member: Variable, /) -> Variable:
    return tx.constant(owner.contains(tx, member))


@handles(operator.is_)
def _is(tx: Any, a: Variable, b: Variable, /) -> Variable:
    return tx.constant(tx.identical(a, b))


@handles(operator.is_not)
def _is_not(tx: Any, a: Variable, b: Variable, /) -> Variable:
    return tx.constant(not tx.identical(a, b))


@handles(operator.index)
def _index(tx: Any, value: Variable, /) -> Variable:
    return value if isinstance(value, SymVariable) else tx.constant(tx.index(value))


def _binary(fn: Callable) -> Callable:
    return lambda tx, a, b, /: tx.binary(fn, a, b)


def _unary(fn: Callable) -> Callable:
    return lambda tx, a, /: tx.unary(fn, a)


BINARY = tuple(
    getattr(operator, name)
    for name in (
        "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge iadd isub imul itruediv "
        "ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
    ).split()
)
HANDLERS.update({fn: _binary(fn) for fn in BINARY})
UNARY = {operator.neg: "__neg__", operator.pos: "__pos__", operator.invert: "__invert__", operator.abs: "__abs__"}
HANDLERS.update({fn: _unary(fn) for fn in UNARY})


def _of_symbolic_number(fn: Callable, allowed: Callable) -> Callable:
    """A function of C over a symbolic number stays symbolic where it is finite for sure, or the number is `allowed`: there it
    raises nothing."""

    def handler(tx: Any, number: Variable | None = None, base: Variable | None = None, /) -> Variable:
        value = number.value if base is None and isinstance(number, SymVariable) else None
        symbolic = isinstance(value, (SymInt, SymFloat))
        if symbolic and (always_finite(fn.__name__, value) or tx.run(lambda: bool(allowed(value)))):
            return tx.fresh(float_op(value.env, fn.__name__, value))
        return tx.fresh(tx.run_variables(fn, given_arguments(number, base)))

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
def _fromkeys(tx: Any, iterable: Variable, value: Variable | None = None, /) -> DictVariable:
    return _dict_of_keys(tx, iterable, dict, value)


@handles(collections.OrderedDict.fromkeys)
def _ordered_fromkeys(tx: Any, iterable: Variable, value: Variable | None = None) -> DictVariable:
    return _dict_of_keys(tx, iterable, collections.OrderedDict, value)


def _dict_of_keys(tx: Any, keys: Variable, cls: type, value: Any) -> DictVariable:
    value = value or none(tx)
    return DictVariable([(key, value) for key in tx.unpack(keys)], cls=cls)


@handles(math.prod)
def _prod(tx: Any, members: Variable, /, *, start: Variable | None = None) -> Variable:
    total = start or tx.constant(1)
    for value in tx.members(members):
        total = tx.binary(operator.mul, total, value)
    return total


def is_pure(fn: Callable) -> bool:
    return getattr(fn, "__module__", None) in PURE_MODULES


@handles(state.is_compiling)
def _is_compiling(tx: Any, /) -> Variable:
    return tx.constant(True)


@handles(is_grad_enabled)
def _is_grad_enabled(tx: Any, /) -> Variable:
    return tx.constant(tx.grad_mode())


@handles(iter)
def _iter(tx: Any, iterable: Variable, sentinel: Variable | None = None, /) -> Variable:
    if sentinel is not None:
        return tx.call(tx.polyfill(call_until), [iterable, sentinel], {})
    return tx.iterate(iterable)


@handles(sys.exc_info)
def _exc_info(tx: Any, /) -> TupleVariable:
    if tx.exception_now is not None:
        raise unsupported("exception", "sys.exc_info() while an exception is handled")
    refuse_handled(tx, "sys.exc_info()")
    return TupleVariable([none(tx)] * 3)


@handles(sys.exception)
def _exception(tx: Any, /) -> Variable:
    if tx.exception_now is None:
        refuse_handled(tx, "sys.exception()")
    return tx.exception_now or none(tx)


def refuse_handled(tx: Any, what: str) -> None:
    """A caller of the traced function may be handling an exception."""
    if sys.exception() is not None:
        raise unsupported("exception", f"{what} while a caller handles an exception")
    tx.guard(Pinned(sys, "sys"), "predicate", nothing_is_handled)


def nothing_is_handled(_: Any) -> bool:
    return sys.exception() is None


@handles(sys.intern)
def _intern(tx: Any, text: Any, /) -> Any:
    if text.python_type() is not str:
        raise call_error(sys.intern)
    return text


@handles(sys.getrecursionlimit)
def _recursion_limit(tx: Any, /) -> Variable:
    return tx.constant(sys.getrecursionlimit())


@handles(print)
def _print(tx: Any, /, *args: Variable, **kwargs: Variable) -> NoReturn:
    raise unsupported("print", "print() inside a compiled function")
