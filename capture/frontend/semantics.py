"""Semantics: what calls, attributes, operators and iteration mean, asked of variables (`tx.call`, `tx.binary`, ...).

The part of a Context that dispatches to variables, in Python's order; the state that it asks (`self.guard`, `self.run`, ...) is
in trace_state.py. What a variable does not answer is a graph break, or runs for real on plain values.
"""

from __future__ import annotations

import operator
import sys
import types
import typing
from typing import Any, NoReturn
from collections.abc import Callable, Iterable, Iterator

from ...eager.amp.autocast_mode import autocast
from ...eager.op.op import Op
from ...eager.sizes import SYMBOLIC, Size
from ...eager.tensor import Tensor
from .. import state
from .trace_state import AUTOGRAD, TraceState
from ..breaks import UserRaise, unsupported
from ..guards.source import Pinned, item
from ..variables import builtins, objects, polyfills
from ..variables.arguments import fits, call_error
from ..variables.base import NotPlain, Variable
from ..variables.constant import special_method_result, SymVariable
from ..variables.ctx_manager import AutocastVariable, DecoratedVariable, GradModeVariable, RegionVariable, is_region
from ..variables.dicts import DictVariable
from ..variables.exceptions import ExceptionVariable
from ..variables.functions import BoundMethodVariable, UserFunctionVariable
from ..variables.iterators import IteratorVariable
from ..variables.module import Module
from ..variables.objects import ClassVariable, UserObjectVariable, lookup_defined, lookup
from ..variables.numpy_values import SCALARS, call_numpy, is_numpy
from ..variables.outer_containers import OutsideDict
from ..variables.sequences import ListVariable, TupleVariable, own_maker
from ..variables.tensor import TensorVariable


MOST_IDLE = 10_000  # steps of loops without a tensor operation before Python gets the work
COMPARISONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}
ARITHMETIC = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.matmul: "@",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
}
ARITHMETIC |= {getattr(operator, "i" + op.__name__.strip("_")): text + "=" for op, text in ARITHMETIC.items()}
ARITHMETIC |= {operator.pow: "** or pow()", operator.ipow: "**="}
SEQUENCES = (str, list, tuple, bytes)
GLOBAL_STATE = ("manual_seed", "seed", "initial_seed", "get_rng_state", "use_deterministic_algorithms")
WATCHERS = (sys.settrace, sys.setprofile, breakpoint, *vars(getattr(sys, "monitoring", types.SimpleNamespace())).values())
DEBUGGERS = ("pdb", "bdb")


class Semantics(TraceState):
    """Calls, attributes, operators and iteration."""

    # -- calls and attributes --------------------------------------------------------------------------------------

    def call(self, function: Variable, args: Iterable, kwargs: dict) -> Variable:
        return function.realize().call(self, [a.realize() for a in args], {k: v.realize() for k, v in kwargs.items()})

    def inline(self, function: Variable, args: list, kwargs: dict) -> Variable:
        return self.inline_call(self, function, args, kwargs)

    def load_global(self, frame: Any, name: str) -> Variable:
        return self.global_of(self, frame, name)

    def refuse_marked(self, function: Any) -> None:
        """Functions that `disable` marked are not inlined, nor is a debugger."""
        if id(function.code) in state._disabled_codes:
            raise unsupported("disabled", f"{function.name} is disabled")
        if function.globals.get("__name__") in DEBUGGERS:
            self.refuse_debugger(function.name)

    def refuse_debugger(self, name: str) -> NoReturn:
        """What looks at the frame that calls it must find the program's own."""
        raise unsupported("debugger", f"{name}() looks at the frame that calls it", whole_frame=len(self.frames) == 1)

    def load_symbol(self, emit: Any, name: str) -> None:
        """Emit the read of a symbol from the first input that shows it."""
        if name in self.tracer.floats:
            self.tracer.floats[name].reconstruct(emit)
            return
        _, source, what, dim = next(b for b in self.tracer.bindings if b[0] == name)
        source.reconstruct(emit)
        if what == "size":
            emit.load_attr("shape")
            emit.load_const(dim)
            emit.binary_subscr()

    def call_builtin(self, fn: Any, args: list, kwargs: dict) -> Variable:
        handler = builtins.HANDLERS.get(fn) if _hashable(fn) else None
        if handler is not None:
            return self.handled(handler, fn, args, kwargs)
        if any(fn is one for one in WATCHERS):
            self.refuse_debugger(fn.__name__)
        if _hashable(fn) and fn in polyfills.REPLACED:
            return self.call(self.polyfill(polyfills.REPLACED[fn]), args, kwargs)
        if self.runs_for_real(fn) and changes_state(getattr(fn, "__name__", "")):
            raise unsupported("builtin", f"{fn.__name__}() changes or reads the state of the library")
        if isinstance(fn, Op) or self.runs_for_real(fn) or builtins.is_pure(fn) or _method_of_constant(fn):
            return self.fresh(self.run_variables(fn, args, kwargs))
        if is_numpy(fn):
            return call_numpy(self, fn, args, kwargs)
        if isinstance(getattr(fn, "__self__", None), type) and fn.__name__ in ("__subclasses__", "mro"):
            return self.relatives(fn)
        if isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
            return args[0].call_method(self, fn.__name__, args[1:], kwargs)
        if isinstance(fn, types.BuiltinMethodType) and not isinstance(fn.__self__, (type, types.ModuleType, type(None))):
            return self.wrap_pinned(fn.__self__, f"{fn.__qualname__}.__self__").call_method(self, fn.__name__, args, kwargs)
        name = f"{getattr(fn, '__module__', None) or 'builtins'}.{getattr(fn, '__qualname__', repr(fn))}"
        if AUTOGRAD in name:
            raise unsupported("backward", f"{name}()")
        raise unsupported("builtin", f"{name}() is not traced")

    def polyfill(self, fn: types.FunctionType) -> Variable:
        """A function of `polyfills`, which never changes."""
        return self.wrap_pinned(fn, fn.__name__)

    def relatives(self, method: Any) -> Variable:
        """`cls.__subclasses__()` and `cls.mro()`: a list of what the guard then finds again."""
        found = method()
        self.guard(
            Pinned(method.__self__, method.__self__.__qualname__), "predicate", ClassHierarchyGuard(method.__name__, found)
        )
        return ListVariable([self.wrap_type(cls) for cls in found])

    def handled(self, handler: Callable, fn: Callable, args: list, kwargs: dict) -> Variable:
        """What a handler makes of a call of `fn` that binds; of another one Python is to say what is wrong with it."""
        if not fits(handler, args, kwargs, fn):
            raise call_error(fn)
        try:
            return handler(self, *args, **kwargs)
        except NotPlain as error:
            raise unsupported("builtin", f"{getattr(fn, '__name__', fn)}() of {error}") from error

    def construct(self, variable: ClassVariable, args: list, kwargs: dict) -> Variable:
        """Calling a class."""
        cls = variable.cls
        if cls in builtins.HANDLERS:
            return self.handled(builtins.HANDLERS[cls], cls, args, kwargs)
        if cls in polyfills.REPLACED:
            return self.call(self.polyfill(polyfills.REPLACED[cls]), args, kwargs)
        if lookup(cls, "__del__") is not None:
            raise unsupported("call", f"a {cls.__name__} runs __del__ when nobody holds it any more")
        if issubclass(cls, BaseException):
            return self.make_exception(cls, args, kwargs)
        if cls in self.GRAD_MODES:
            return self.make_grad_mode(cls, args, kwargs)
        if issubclass(cls, autocast):
            return AutocastVariable(cls, self.run_variables(cls, args, kwargs), args, kwargs)
        if is_region(cls) and all(each.is_constant() for each in (*args, *kwargs.values())):
            return RegionVariable(cls, args, kwargs)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self.make_named_tuple(cls, args, kwargs)
        if issubclass(cls, SCALARS):
            return call_numpy(self, cls, args, kwargs)
        if typing.is_typeddict(cls):
            return self.handled(builtins.HANDLERS[dict], dict, args, kwargs)
        if type(cls).__module__ == "enum" or (self.runs_for_real(cls) and not issubclass(cls, Module)) or cls is Size:
            return self.fresh(self.run_variables(cls, args, kwargs))
        return objects.make_object(self, cls, args, kwargs)

    def make_exception(self, cls: type, args: list, kwargs: dict) -> ExceptionVariable:
        made = ExceptionVariable(cls, args)
        init = lookup_defined(cls, "__init__")
        if kwargs and not isinstance(init[1], types.FunctionType):
            raise unsupported("exception", f"making a {cls.__name__} with keyword arguments")
        if isinstance(init[1], types.FunctionType):
            self.call(objects.bind(self, init, made, "__init__"), args, kwargs)
        return made

    def make_grad_mode(self, cls: type, args: list, kwargs: dict) -> DecoratedVariable | GradModeVariable:
        """A grad-mode manager; `set_grad_enabled` has switched when it is made, `no_grad(f)` decorates."""
        if args and isinstance(args[0], (UserFunctionVariable, BoundMethodVariable)):
            return DecoratedVariable(self.make_grad_mode(cls, [], {}), args[0])
        manager = self.run_variables(cls, args, kwargs)
        return GradModeVariable(cls, manager.mode, manager.prev, [*args, *kwargs.values()])

    def make_named_tuple(self, cls: Any, args: Any, kwargs: Any) -> Any:
        if own_maker(cls) and isinstance(made_by := lookup_defined(cls, "__new__")[1], staticmethod):
            maker = self.wrap_pinned(made_by.__func__, "__new__")
            made = self.call(maker, [self.wrap_type(cls), *args], kwargs)
            if isinstance(lookup_defined(cls, "__init__")[1], types.FunctionType):
                raise unsupported("call", f"making a {cls.__name__}, a named tuple with its own __init__")
            return made
        values = dict(zip(cls._fields, args)) | kwargs
        for name in cls._fields:
            if name not in values:
                if name not in cls._field_defaults:
                    self.raise_error(TypeError, f"{cls.__name__}.__new__() missing required argument: {name!r}")
                base = Pinned(cls._field_defaults, cls.__name__)
                values[name] = self.wrap(cls._field_defaults[name], item(base, name))
        return TupleVariable([values[name] for name in cls._fields], cls=cls)

    def get_attr(self, variable: Variable, name: str) -> Variable:
        return variable.realize().get_attr(self, name).realize()

    def try_attr(self, variable: Variable, name: str) -> Variable | None:
        """The attribute, or None where the program would get an AttributeError."""
        try:
            return self.get_attr(variable, name)
        except UserRaise as error:
            if issubclass(error.variable.cls, AttributeError):
                return None
            raise

    def class_attribute(self, cls: type, name: str) -> tuple | None:
        return lookup(cls, name)

    def bind(self, found: Any, owner: Variable, name: str) -> Variable:
        return objects.bind(self, found, owner, name)

    # -- operators -------------------------------------------------------------------------------------------------

    def binary(self, op: Callable, a: Variable, b: Variable) -> Variable:
        a, b = a.realize(), b.realize()
        result = a.binary(self, op, b, False)
        if result is None:
            result = b.binary(self, op, a, True)
        if result is not None:
            return result
        if op in (operator.eq, operator.ne) and not (_has_plain(a) and _has_plain(b)):
            return self.constant(self.identical(a, b) == (op is operator.eq))
        if (
            isinstance(a, UserObjectVariable)
            and not isinstance(b, TensorVariable)
            or isinstance(b, UserObjectVariable)
            and not isinstance(a, TensorVariable)
        ):
            self.refuse_operands(op, a, b)
        return self.fresh(self.run_variables(op, [a, b], what=op.__name__))

    def refuse_operands(self, op: Callable, a: Variable, b: Variable) -> None:
        """The TypeError of an operator that neither class has."""
        names = f"{a.python_type().__name__!r} and {b.python_type().__name__!r}"
        self.refuse_sequence(op, a.python_type(), b.python_type())
        if op in COMPARISONS:
            self.raise_error(TypeError, f"{COMPARISONS[op]!r} not supported between instances of {names}")
        if op in ARITHMETIC:
            self.raise_error(TypeError, f"unsupported operand type(s) for {ARITHMETIC[op]}: {names}")

    def refuse_sequence(self, op: Callable, first: type, second: type) -> None:
        """What sequences say of an operand that they cannot be added to or repeated by."""
        if op in (operator.add, operator.iadd) and first in (str, list, tuple):
            self.raise_error(TypeError, f'can only concatenate {first.__name__} (not "{second.__name__}") to {first.__name__}')
        if op in (operator.mul, operator.imul) and (first in SEQUENCES or second in SEQUENCES):
            number = second if first in SEQUENCES else first
            self.raise_error(TypeError, f"can't multiply sequence by non-int of type {number.__name__!r}")

    def unary(self, op: Callable, a: Variable) -> Variable:
        if isinstance(a, UserObjectVariable):
            return a.call_special(self, f"__{op.__name__.strip('_')}__")
        if a.is_array:
            return a.unary(self, op)
        if isinstance(a, SymVariable) and a.python_type() is bool:
            a = a.specialise(self)  # (what Python makes of ~True is no truth value)
        return self.fresh(self.run_variables(op, [a], what=op.__name__))

    def add(self, a: Variable, b: Variable) -> Variable:
        return self.binary(operator.add, a, b)

    def truth(self, variable: Variable) -> bool:
        return variable.realize().truth(self)

    def identical(self, a: Variable, b: Variable) -> bool:
        a, b = a.realize(), b.realize()
        if a is not b and (isinstance(a, SymVariable) or isinstance(b, SymVariable)):
            return False
        if a is b or a.identity() is b.identity():
            return True
        if a.source is not None and b.source is not None and a.shared and b.shared:
            if a.outside is not None and a.outside is b.outside:
                self.guard(a.source, "same_as", b.source)
                return True
            self.guard_different(a.source, b.source)
        return False

    def same_value(self, a: Variable, b: Variable) -> bool:
        """What `in` and container equality ask: identical or equal."""
        return self.identical(a, b) or self.truth(self.binary(operator.eq, a, b))

    def index(self, variable: Variable) -> int:
        value = variable.realize()
        if isinstance(value, UserObjectVariable):
            value = special_method_result(self, operator.index, value.cls, "__index__", value.call_special(self, "__index__"))
        if isinstance(value, TensorVariable):
            raise unsupported("item", f"{value} used as an index of a Python container")
        return self.run_variables(operator.index, [value])

    # -- iteration -------------------------------------------------------------------------------------------------

    def iterate(self, variable: Variable) -> Any:
        """A Variable with `next`."""
        return variable.realize().iterate(self)

    def unpack(self, variable: Variable) -> list:
        return [v.realize() for v in variable.realize().unpack(self)]

    def step(self, in_root: bool = False) -> None:
        """Told at each step of a loop; `in_root`: of the frame's own."""
        last = self.tracer.graph.last
        if last is not self.last_node:
            self.last_node, self.idle = last, 0
        self.idle += 1
        if self.idle > MOST_IDLE:
            raise unsupported("long loop", f"{MOST_IDLE:,} steps without a tensor operation", whole_frame=in_root)

    def members(self, variable: Variable) -> Iterator[Any]:
        """Lazily, so that any() and all() stop where Python stops."""
        iterator = self.iterate(variable)
        while (value := iterator.next(self)) is not None:
            self.step()
            yield value

    def mapping_pairs(self, variable: Variable) -> list | None:
        """(key, value) pairs of what has keys; None of anything else."""
        variable = variable.realize()
        written = variable.written_pairs() if isinstance(variable, OutsideDict) else None
        if written is not None:
            return written
        if isinstance(variable, DictVariable):
            return [(key, variable.at(stand)) for stand, (key, _) in list(variable.entries.items())]
        if self.try_attr(variable, "keys") is not None and not isinstance(variable, IteratorVariable):
            return [(key, variable.get_item(self, key)) for key in self.unpack(variable.call_method(self, "keys", [], {}))]
        return None

    def pairs(self, variable: Variable) -> list:
        """(key, value) pairs for dict() and update()."""
        found = self.mapping_pairs(variable)
        if found is not None:
            return found
        pairs = [tuple(self.unpack(pair)) for pair in self.unpack(variable)]
        for number, pair in enumerate(pairs):
            if len(pair) != 2:
                text = f"dictionary update sequence element #{number} has length {len(pair)}; 2 is required"
                self.raise_error(ValueError, text)
        return pairs

    def next_or_raise(self, iterator: Any) -> Variable:
        value = iterator.next(self)
        return value if value is not None else self.stop_iteration(iterator)

    def stop_iteration(self, iterator: Any) -> NoReturn:
        """StopIteration at the end of an iterator, once with what its generator returned; of an object's own `__next__` the very
        one that it raised."""
        stopped = getattr(iterator, "stopped", None)
        if stopped is not None:
            iterator.stopped = None
            raise stopped
        returned = self.returned_by(iterator)
        plain_end = returned.is_constant() and returned.plain() is None
        raise UserRaise(ExceptionVariable(StopIteration, [] if plain_end else [returned]), "StopIteration")

    def returned_by(self, iterator: Any) -> Variable:
        """What an iterator that has ended tells with its StopIteration, once: an exhausted one says None."""
        stopped, returned = getattr(iterator, "stopped", None), getattr(iterator, "returned", None)
        if stopped is not None:
            iterator.stopped, returned = None, stopped.variable.get_attr(self, "value")
        elif returned is not None:
            iterator.returned = None
        return returned if returned is not None else self.constant(None)

    def sorted(self, values: list, key: Variable | None, reverse: bool) -> list:
        by_value = key is None or (key.is_constant() and key.plain() is None)
        keys = values if key is None or by_value else [self.call(key, [v], {}) for v in values]
        order = _Ordered.order(self, keys, reverse)
        return [values[i] for i in order]


class ClassHierarchyGuard:
    """Guard: a class has these subclasses, or this order of bases."""

    def __init__(self, name: str, found: list):
        self.name, self.found = name, found

    def __call__(self, cls: Any) -> bool:
        return getattr(cls, self.name)() == self.found


class _Ordered:
    """Sort keys compared as the program compares them."""

    def __init__(self, tx: Any, variable: Variable):
        self.tx, self.variable = tx, variable

    def __lt__(self, other: _Ordered) -> bool:
        self.tx.step()
        return self.tx.truth(self.tx.binary(operator.lt, self.variable, other.variable))

    @classmethod
    def order(cls, tx: Any, keys: list, reverse: bool) -> list:
        """The indices of `keys` in order. Numbers and texts compare by themselves; each other comparison is a step."""
        keys = [key.realize() for key in keys]
        kinds = {type(key.plain()) if key.is_constant() else None for key in keys}
        plain = kinds in ({int}, {str})
        told = [key.plain() for key in keys] if plain else [cls(tx, key) for key in keys]
        return sorted(range(len(keys)), key=told.__getitem__, reverse=reverse)


def changes_state(name: str) -> bool:
    """Functions of the library that are called for what they do to it."""
    return name in GLOBAL_STATE or name.startswith("set_")


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _has_plain(variable: Variable) -> bool:
    try:
        variable.plain()
    except NotPlain:
        return False
    return True


def _method_of_constant(fn: Any) -> bool:
    """A method of a number, string, dtype or class of such: it has no side effects."""
    owner = getattr(fn, "__self__", None)
    kinds = (str, bytes, int, float, complex, Size, *SCALARS, *SYMBOLIC)
    return isinstance(owner, kinds) or (isinstance(owner, type) and issubclass(owner, (*kinds, Tensor)))
