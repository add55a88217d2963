"""Context: the state of one trace, and the questions that variables ask of it (`tx` everywhere).

It holds the tracer (graph), the guards, the side effects and the frames being interpreted; it runs library code on fake
tensors, and dispatches operators, calls, truth and iteration to variables. Wrapping and inlining are handed in, so that
variables know nothing of the interpreter.
"""

from __future__ import annotations

import collections
import functools
import operator
import re
import sys
import types
import typing
from typing import Any
from collections.abc import Callable

from ...eager import autograd, dispatch, overrides, random
from ...eager.amp.autocast_mode import autocast
from ...eager.errors import DataDependent
from ...eager.nn.parameter import Parameter
from ...eager.op.op import Op
from ...eager.sizes import SYMBOLIC, Size
from ...eager.tensor import Tensor
from ...runtime.errors import FlambeauError
from .. import state
from ..breaks import Assumptions, UserRaise, unsupported
from .side_effects import SideEffects
from ..guards.source import Attr, Guards, Pinned, Root, Source, item
from ..guards.tensor_facts import TensorFacts
from ..graph.graph_tracer import GraphTracer
from ..shapes.symbolic_shapes import SymFloat

# some of these register handlers
from ..variables import builder, builtins, copying, eval_text, autograd_function, higher_order, messages, objects, polyfills  # noqa: F401
from ..variables.arguments import fits, misused
from ..variables.base import NotPlain, Variable
from ..variables.class_mutation import ClassEdits
from ..variables.constant import answered, ConstantVariable, SymVariable, TextVariable, is_open, is_open_text, join_texts, sample
from ..variables.ctx_manager import AutocastVariable, DecoratedVariable, GradModeVariable, RegionVariable, is_region
from ..variables.user_subclass import derived_object
from ..variables.dicts import DictVariable
from ..variables.exceptions import ExceptionVariable, SizedExceptionVariable
from ..variables.functions import BoundMethodVariable, CellVariable, UserFunctionVariable
from ..variables.iterators import FixedIterator, IteratorVariable
from ..variables.module import Module, ModuleVariable
from ..variables.objects import ClassVariable, UserObjectVariable, lookup
from ..variables.numpy_values import SCALARS, call_numpy, is_numpy
from ..variables.outer_containers import OutsideDict
from ..variables.sequences import ListVariable, TupleVariable, own_maker
from ..variables.tensor import TensorVariable

ROOT = __name__.split(".")[0]
MOST_IDLE = 10_000  # steps of loops without a tensor operation before Python gets the work
COMPARISONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}
ARITHMETIC = {
    getattr(operator, name): text + sign
    for name, text in (
        ("add", "+"),
        ("sub", "-"),
        ("mul", "*"),
        ("truediv", "/"),
        ("floordiv", "//"),
        ("mod", "%"),
        ("matmul", "@"),
        ("and_", "&"),
        ("or_", "|"),
        ("xor", "^"),
        ("lshift", "<<"),
        ("rshift", ">>"),
    )
    for sign in ("",)
}
ARITHMETIC |= {getattr(operator, "i" + op.__name__.strip("_")): text + "=" for op, text in ARITHMETIC.items()}
ARITHMETIC |= {operator.pow: "** or pow()", operator.ipow: "**="}
SEQUENCES = (str, list, tuple, bytes)
GLOBAL_STATE = ("manual_seed", "seed", "initial_seed", "get_rng_state", "use_deterministic_algorithms")
INLINED = tuple(
    f"{ROOT}.eager.{name}"
    for name in (
        "nn.modules",
        "nn.utils",
        "nn.attention",
        "nn.parallel",
        "optim",
        "utils",
        "distributions",
        "func",
        "compat.backends",
        "compat.pytree",
        "compat.higher_order",
    )
)
AUTOGRAD = f"{ROOT}.eager.autograd"
EAGER = f"{ROOT}.eager"
WATCHERS = (sys.settrace, sys.setprofile, breakpoint, *vars(getattr(sys, "monitoring", types.SimpleNamespace())).values())
DEBUGGERS = ("pdb", "bdb")


class Context:
    """One trace of one frame."""

    OPEN_NEW = (typing.Generic.__new__, Module.__new__)  # a __new__ that does what object's does
    OPAQUE = (random.Generator,)
    PLAIN_GETATTRIBUTE = (object, types.ModuleType, types.SimpleNamespace)
    GRAD_MODES = (autograd.no_grad, autograd.enable_grad, autograd.set_grad_enabled, autograd.inference_mode)

    def __init__(
        self, inline: Callable, load_global: Callable, options, symbolic: dict, assumptions: Assumptions = Assumptions()
    ):
        self.guards, self.effects = Guards(), SideEffects(self)
        self.inline_call, self.global_of, self.options, self.symbolic = inline, load_global, options, symbolic
        self.frames: list = []
        self.regions: list[str] = []  # names of the record_function blocks that are open
        self.tracer = GraphTracer(
            functools.partial(user_stack, self.frames, self.regions),  # lives on: must not hold us
            functools.partial(has_handler, self.frames),
            assumptions,
        )
        self.assumptions = assumptions
        self.env = self.tracer.env
        self.memory: dict[int, tuple] = {}  # id -> (object, variable, first source)
        self.last_node, self.idle = None, 0  # steps of loops since the graph grew
        self.exception_now: ExceptionVariable | None = None  # what a bare `raise` raises
        self.generators: list = []  # those that the traced code made
        self.abstract_answers = None  # what abstract base classes said: later registrations may change it
        self.cached_calls: set = set()  # calls of functions with a cache that are guarded already
        self.identities = False  # whether the program asked for an id()
        self.class_edits = ClassEdits()
        self.watch = None  # what the code relies on, of what changes from call to call
        self.lookups: dict = {}  # class -> name -> what was found along its bases
        self.memberships: dict = {}  # (source, expression) -> (number, whether it is a key there, line)
        self.float_guards: dict = {}  # (source, comparison) -> the one object of it
        self.initial_grad_mode = dispatch.state.grad

    # -- where we are ----------------------------------------------------------------------------------------------

    @property
    def frame(self):
        return self.frames[-1]

    def stack(self) -> tuple:
        """(filename, line number, source line, function) of every active user frame, innermost last."""
        return user_stack(self.frames)

    def line(self) -> str:
        """The user's innermost line as `file:line`, for guards."""
        for frame in reversed(self.frames):
            if not frame.trusted and frame.line:
                return f"{frame.code.co_filename}:{frame.line}"
        return ""

    # -- guards and identity ---------------------------------------------------------------------------------------

    def guard(self, source: Source, kind: str, payload: Any = None) -> None:
        if not (isinstance(source, Pinned) and kind in ("is", "type_is", "equals")):
            self.guards.add(source, kind, payload, self.line())

    def guard_identity(self, source: Source, value: Any) -> None:
        self.guard(source, "is", value)

    def guard_membership(self, source: Source, number, there: bool) -> bool:
        """Whether a symbolic number is among the keys of a container."""
        return self.memberships.setdefault((source, number.expr), (number, there, self.line()))[1]

    def guard_function(self, source: Source, value: types.FunctionType) -> None:
        """A function that is inlined: the same one where a name was bound to it once, the same code where it is an
        argument or a cell, because closures are made anew with every call."""
        if isinstance(source, Pinned):
            return
        if value.__closure__ is None and not source.of_frame:
            self.guard(source, "is", value)
        else:
            self.guard(source, "type_is", types.FunctionType)
            self.guard(Attr(source, "__code__"), "is", value.__code__)

    def known(self, value: Any):
        found = self.memory.get(id(value))
        return found[1] if found is not None else None

    def remember(self, value: Any, variable: Variable) -> Variable:
        self.memory[id(value)] = value, variable, variable.source
        return variable

    def same_object(self, value: Any, source: Source) -> None:
        """An object met on a second path: the entry relies on both paths giving one object."""
        first = self.memory[id(value)][2]
        if first != source and not isinstance(value, types.FunctionType):
            self.guard(source, "same_as", first)
        elif first != source:
            self.guard_function(source, value)

    def guard_distinct(self) -> None:
        """Objects that were changed must stay different from every other object of their kind that was looked at."""
        changed = [
            v for v in (*self.effects.containers, *self.effects.attributes, *self.effects.iterators) if v.source is not None
        ]
        for variable in changed:
            for _, other, source in self.memory.values():
                other = getattr(other, "content", None) or other  # (of an object derived from a container)
                if (
                    other is not variable
                    and source is not None
                    and type(other) is type(variable)
                    and not lie_apart(variable, other)
                ):
                    self.guard_different(variable.source, source)

    def guard_different(self, a: Source, b: Source) -> None:
        """Two paths lead to two objects. Pinned objects are different for good."""
        if not (isinstance(a, Pinned) and isinstance(b, Pinned)):
            first, second = sorted((a, b), key=lambda source: source.name())
            self.guard(first, "not_same", second)

    # -- making variables ------------------------------------------------------------------------------------------

    def wrap(self, value: Any, source: Source) -> Variable:
        return builder.wrap(self, value, source)

    def fresh(self, value: Any) -> Variable:
        return builder.fresh(self, value)

    def constant(self, value: Any) -> ConstantVariable:
        return ConstantVariable(value)

    def tuple(self, items) -> TupleVariable:
        return TupleVariable(items)

    def dictionary(self, pairs) -> DictVariable:
        return DictVariable(pairs)

    def iterator(self, members) -> FixedIterator:
        return FixedIterator(members)

    def wrap_type(self, cls: type) -> ClassVariable:
        return ClassVariable(cls)

    def pinned(self, value: Any, label: str) -> Pinned:
        return Pinned(value, label)

    def wrap_pinned(self, value: Any, label: str) -> Variable:
        return self.wrap(value, Pinned(value, label))

    def object_variable(self, cls: type) -> UserObjectVariable:
        return ModuleVariable(cls) if issubclass(cls, Module) else derived_object(cls) or UserObjectVariable(cls)

    def cell(self, real: types.CellType, source: Source) -> CellVariable:
        return self.known(real) or self.remember(real, CellVariable(source=source, real=real))

    def tensor_input(self, value: Tensor, source: Source) -> TensorVariable:
        dims = self.symbolic_dims(value, source)
        fake = self.tracer.input(value, source, dims)
        if fake is None:
            raise unsupported("value", f"{source.name()} is a tensor of a kind that is not traced")
        variable = TensorVariable(fake, source, type(value), value)
        variable.facts = TensorFacts(value, fake)
        self.guards.add(source, "tensor", variable.facts, self.line())
        self.tracer.variables[id(fake)] = variable
        return variable

    def symbolic_dims(self, value: Tensor, source: Source) -> set:
        """Dimensions of an input whose sizes become symbols: learned, marked, or all under dynamic=True."""
        marks = state.marks(value)
        wanted = self.symbolic.get(source.name(), ())
        dims = set(range(value.ndim)) if wanted is True or self.options.dynamic is True else set(wanted)
        dims |= {d for d, mark in marks.items() if mark is not False}
        return dims - {d for d, mark in marks.items() if mark is False}

    def tensor_of(self, value: Tensor) -> TensorVariable:
        """The variable of a tensor that library code returned: one per tensor object."""
        known = self.tracer.variables.get(id(value))
        if known is None:
            if isinstance(value, Parameter):
                raise unsupported("call", "making a Parameter inside a compiled function")
            if overrides.takes_part(type(value)):
                raise unsupported("value", f"a {type(value).__name__} is made, whose class has a say in every operation")
            fake = value if value._fake else self.tracer.constant_copy(value)
            node = self.tracer.node_of(fake)
            if node.op == "call_function" and fake._requires_grad and fake._grad_fn is None:
                if not self.assumptions.leaves_unseen:
                    raise unsupported("metadata", "a new tensor that requires grad is made")
                self.tracer.owned[id(fake)] = fake
            known = TensorVariable(fake, cls=type(value))
            self.tracer.variables[id(value)] = self.tracer.variables[id(fake)] = known
            self.tracer.node_of(value)
        return known

    def is_symbolic(self, source: Source) -> bool:
        return self.has_changed(source) or self.options.dynamic is True and isinstance(source, Root)

    def has_changed(self, source: Source) -> bool:
        """Whether an earlier call of the same code saw another number here."""
        return bool(self.symbolic.get(source.name()))

    def symbolic_int(self, value: int, source: Source):
        return self.tracer.symbolic_int(value, source)

    # -- running library code --------------------------------------------------------------------------------------

    def run(self, fn: Callable, *args, **kwargs) -> Any:
        """Call real code on fakes and numbers; its exceptions are the traced program's. What a builtin asks of a number is
        the program's own question; what library code asks is asked of a size or an index."""
        before, self.env.assumes = self.env.assumes, not isinstance(fn, (types.BuiltinFunctionType, type))
        try:
            with self.tracer:
                return fn(*args, **kwargs)
        except DataDependent as error:
            raise unsupported("item" if "item" in error.what else "data-dependent", str(error)) from error
        except (FlambeauError, UserRaise):
            raise
        except RecursionError as error:
            raise unsupported("recursion", "calls nest too deeply") from error
        except Exception as error:
            raise UserRaise(self.exception(error), f"{type(error).__name__}: {error}") from error
        finally:
            self.env.assumes = before

    def run_outside(self, fn: Callable, *args, **kwargs) -> Any:
        """Call real code on real values, as if nothing were traced; its exceptions are the traced program's."""
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            raise UserRaise(self.exception(error), f"{type(error).__name__}: {error}") from error

    def run_variables(self, fn: Callable, args=(), kwargs=None, what: str = "") -> Any:
        """`run` on variables; one without a plain value is a graph break."""
        try:
            values = [a.realize().plain() for a in args]
            named = {k: v.realize().plain() for k, v in (kwargs or {}).items()}
        except NotPlain as error:
            name = what or getattr(fn, "__qualname__", repr(fn))
            raise unsupported("call", f"{name} cannot be traced with {error} as an argument") from error
        return self.run(fn, *values, **named)

    def runs_for_real(self, fn: Any) -> bool:
        """Library functions that are run on fakes instead of being inlined."""
        module = getattr(fn, "__module__", None) or ""
        return module.startswith(EAGER) and not module.startswith((*INLINED, AUTOGRAD))

    def is_trusted(self, module: str) -> bool:
        """Modules whose functions and constants never change: the library's own and the numeric ones of Python."""
        return module.split(".")[0] in (
            ROOT,
            "math",
            "operator",
            "_operator",
            "builtins",
            "functools",
            "itertools",
            "types",
            "typing",
            "collections",
            "contextlib",
            "enum",
            "abc",
            "cmath",
        )

    def exception(self, error: Exception) -> ExceptionVariable:
        """What library code raised."""
        if self.env.symbols and not self.env.symbols.keys().isdisjoint(re.findall(r"[a-z]\d+", str(error))):  # "s0xs1" has two
            return SizedExceptionVariable(error)
        arguments = [self.constant(a if isinstance(a, (str, int, float, bool, type(None))) else str(a)) for a in error.args]
        return ExceptionVariable(type(error), arguments, error)

    def raise_error(self, cls: type, *args):
        raise UserRaise(ExceptionVariable(cls, [self.constant(a) for a in args]), f"{cls.__name__}: {' '.join(map(str, args))}")

    # -- calls and attributes --------------------------------------------------------------------------------------

    def call(self, function: Variable, args: list, kwargs: dict) -> Variable:
        return function.realize().call(self, [a.realize() for a in args], {k: v.realize() for k, v in kwargs.items()})

    def inline(self, function, args, kwargs):
        return self.inline_call(self, function, args, kwargs)

    def load_global(self, frame, name: str) -> Variable:
        return self.global_of(self, frame, name)

    def refuse_marked(self, function) -> None:
        """Functions that `disable` marked are not inlined, nor is a debugger."""
        if id(function.code) in state._disabled_codes:
            raise unsupported("disabled", f"{function.name} is disabled")
        if function.globals.get("__name__") in DEBUGGERS:
            self.refuse_debugger(function.name)

    def refuse_debugger(self, name: str):
        """What looks at the frame that calls it must find the program's own."""
        raise unsupported("debugger", f"{name}() looks at the frame that calls it", whole_frame=len(self.frames) == 1)

    def load_symbol(self, emit, name: str) -> None:
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

    def relatives(self, method) -> Variable:
        """`cls.__subclasses__()` and `cls.mro()`: a list of what the guard then finds again."""
        found = method()
        self.guard(Pinned(method.__self__, method.__self__.__qualname__), "predicate", Relatives(method.__name__, found))
        return ListVariable([self.wrap_type(cls) for cls in found])

    def handled(self, handler, fn, args, kwargs):
        """What a handler makes of a call of `fn` that binds; of another one Python is to say what is wrong with it."""
        if not fits(handler, args, kwargs, fn):
            raise misused(fn)
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

    def make_exception(self, cls, args, kwargs):
        made = ExceptionVariable(cls, args)
        init = lookup(cls, "__init__")
        if kwargs and not isinstance(init[1], types.FunctionType):
            raise unsupported("exception", f"making a {cls.__name__} with keyword arguments")
        if isinstance(init[1], types.FunctionType):
            self.call(objects.bind(self, init, made, "__init__"), args, kwargs)
        return made

    def make_grad_mode(self, cls, args, kwargs):
        """A grad-mode manager; `set_grad_enabled` has switched when it is made, `no_grad(f)` decorates."""
        if args and isinstance(args[0], (UserFunctionVariable, BoundMethodVariable)):
            return DecoratedVariable(self.make_grad_mode(cls, [], {}), args[0])
        manager = self.run_variables(cls, args, kwargs)
        return GradModeVariable(cls, manager.mode, manager.prev, [*args, *kwargs.values()])

    def make_named_tuple(self, cls, args, kwargs):
        if own_maker(cls) and isinstance(lookup(cls, "__new__")[1], staticmethod):
            maker = self.wrap_pinned(lookup(cls, "__new__")[1].__func__, "__new__")
            made = self.call(maker, [self.wrap_type(cls), *args], kwargs)
            if isinstance(lookup(cls, "__init__")[1], types.FunctionType):
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

    def class_attribute(self, cls, name):
        return lookup(cls, name)

    def bind(self, found, owner, name):
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
        if isinstance(a, SymVariable) and a.python_type() is bool:
            a = a.settled(self)  # (what Python makes of ~True is no truth value)
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
            value = answered(self, operator.index, value.cls, "__index__", value.call_special(self, "__index__"))
        if isinstance(value, TensorVariable):
            raise unsupported("item", f"{value} used as an index of a Python container")
        return self.run_variables(operator.index, [value])

    # -- iteration -------------------------------------------------------------------------------------------------

    def iterate(self, variable: Variable) -> Variable:
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

    def members(self, variable: Variable):
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

    def next_or_raise(self, iterator: Variable) -> Variable:
        value = iterator.next(self)
        return value if value is not None else self.stop_iteration(iterator)

    def stop_iteration(self, iterator: Variable):
        """StopIteration at the end of an iterator, once with what its generator returned; of an object's own `__next__` the very
        one that it raised."""
        stopped = getattr(iterator, "stopped", None)
        if stopped is not None:
            iterator.stopped = None
            raise stopped
        returned = self.returned_by(iterator)
        plain_end = returned.is_constant() and returned.plain() is None
        raise UserRaise(ExceptionVariable(StopIteration, [] if plain_end else [returned]), "StopIteration")

    def returned_by(self, iterator: Variable) -> Variable:
        """What an iterator that has ended tells with its StopIteration, once: an exhausted one says None."""
        stopped, returned = getattr(iterator, "stopped", None), getattr(iterator, "returned", None)
        if stopped is not None:
            iterator.stopped, returned = None, stopped.variable.get_attr(self, "value")
        elif returned is not None:
            iterator.returned = None
        return returned if returned is not None else self.constant(None)

    def sorted(self, values: list, key: Variable | None, reverse: bool) -> list:
        by_value = key is None or (key.is_constant() and key.plain() is None)
        keys = values if by_value else [self.call(key, [v], {}) for v in values]
        order = _Ordered.order(self, keys, reverse)
        return [values[i] for i in order]

    # -- text ------------------------------------------------------------------------------------------------------

    def text(self, variable: Variable, form: Callable = str) -> str:
        variable = variable.realize()
        if isinstance(variable, ExceptionVariable):
            return variable.text(self, form)
        if isinstance(variable, UserObjectVariable):
            return self.text_of_object(variable, form)
        own = self.own_text(variable, ("__repr__",) if form in (repr, ascii) else ("__str__", "__repr__"))
        if own is not None:
            return self.call(own, [], {}).plain()
        return self.run_variables(lambda value: form(settled(value)), [variable], what="formatting")

    def own_text(self, variable, names):
        """The method that a named tuple's class has for its text, if the program wrote it."""
        found = (variable.own_method(self, name) for name in names) if isinstance(variable, TupleVariable) else ()
        return next((own for own in found if own is not None), None)

    def text_of_object(self, variable, form, names=("__str__", "__repr__"), args=()):
        for name in ("__repr__",) if form in (repr, ascii) else names:
            found = lookup(variable.cls, name)
            if found is not None and isinstance(found[1], types.FunctionType):
                return self.call(self.bind(found, variable, name), list(args), {}).plain()
        if variable.content is not None and variable.base is not collections.OrderedDict:
            return self.text(variable.content, form)
        raise unsupported("call", f"formatting {variable}")

    def formatted(self, variable: Variable, spec: str) -> str:
        """format(value, spec)."""
        variable = variable.realize()
        own = self.own_text(variable, ("__format__",))
        if own is not None:
            return self.call(own, [self.constant(spec)], {}).plain()
        if isinstance(variable, UserObjectVariable) and lookup(variable.cls, "__format__")[0] is not object:
            return self.text_of_object(variable, format, ("__format__",), [self.constant(spec)])
        if isinstance(variable, (UserObjectVariable, ExceptionVariable)) or self.own_text(variable, ("__str__", "__repr__")):
            if spec:
                self.raise_error(TypeError, f"unsupported format string passed to {variable.python_type().__name__}.__format__")
            return self.text(variable)
        return self.text(variable, lambda value: format(value, spec))

    def written(self, fn: Callable, args: list, kwargs: dict | None = None) -> TextVariable | None:
        """The text `fn(*args, **kwargs)`, made when the code runs; None where all is known now, or must be."""
        args, kwargs = [a.realize() for a in args], {k: v.realize() for k, v in (kwargs or {}).items()}
        given = [*args, *kwargs.values()]
        if (
            not any(map(is_open, given))
            or not all(is_open(v) or v.is_constant() for v in given)
            or not is_harmless(fn, args, given)
        ):
            return None
        made = TextVariable(fn, args, kwargs)
        self.run_outside(sample, made)  # raises what the program would see
        return made

    def text_variable(self, variable: Variable, form: Callable) -> Variable:
        """str(), repr() or ascii()."""
        variable = variable.realize()
        if form is str and (isinstance(variable, TextVariable) or is_open_text(variable)):
            return variable
        return self.written(form, [variable]) or self.constant(self.text(variable, form))

    def formatted_variable(self, variable: Variable, spec: Variable) -> Variable:
        variable = variable.realize()
        if not is_open(variable):
            return self.constant(self.formatted(variable, spec.plain()))
        spec = self.constant(spec.plain())
        if spec.value == "" and variable.python_type() is str:
            return variable
        return self.written(format, [variable, spec]) or self.constant(self.formatted(variable, spec.value))

    def joined(self, parts: list) -> Variable:
        if any(map(is_open, parts)):
            return join_texts(parts)
        return self.constant("".join(part.plain() for part in parts))

    def on_settled(self, fn: Callable) -> Callable:
        """The function on arguments whose symbolic numbers have become numbers."""
        return lambda *args, **kwargs: fn(*map(settled, args), **settled(kwargs))

    def settled_number(self, value: Variable) -> Variable:
        """What is stored into a tensor: a symbolic number becomes its number."""
        value = value.realize()
        return value.settled(self) if isinstance(value, SymVariable) else value

    def plain_or_text(self, variable: Variable) -> Any:
        if isinstance(variable, SymVariable):
            return variable.settled(self).value
        return variable.plain() if variable.is_constant() else str(variable)

    # -- grad mode -------------------------------------------------------------------------------------------------

    def grad_mode(self) -> bool:
        return dispatch.state.grad

    def set_grad_mode(self, enabled: bool) -> None:
        """What runs a graph that was entered without gradients records nothing, whatever its nodes say."""
        if enabled and not self.initial_grad_mode:
            raise unsupported("grad-mode", "gradients are switched on in a frame that was entered without them")
        dispatch.state.grad = enabled


def lie_apart(a: Variable, b: Variable) -> bool:
    """Two inputs of the graph in different storages, which its own guards keep apart (where they have bytes)."""
    return (
        isinstance(a, TensorVariable)
        and isinstance(b, TensorVariable)
        and a.fake._storage is not b.fake._storage
        and bool(a.real._storage.nbytes() and b.real._storage.nbytes())
    )


class Stack(tuple):
    """User frames of one operation; `module`: the path of the innermost module whose method makes it; `regions`: names of the
    `record_function` blocks around it. Passes hand the very object on, so it also tells which nodes of the captured graph a
    kernel comes from."""

    module, regions = "", ()


def has_handler(frames) -> bool:
    """Whether the program catches what is raised where it is now."""
    return any(frame.instr is not None and frame.instr.handler is not None for frame in frames)


def user_stack(frames, regions=()) -> Stack:
    stack = Stack(place for frame in frames if (place := frame.place()) is not None)
    if regions:
        stack.regions = tuple(regions)
    stack.module = next((path for frame in reversed(frames) if (path := frame.module)), "")
    return stack


class Relatives:
    """Guard: a class has these subclasses, or this order of bases."""

    def __init__(self, name: str, found: list):
        self.name, self.found = name, found

    def __call__(self, cls) -> bool:
        return getattr(cls, self.name)() == self.found


class _Ordered:
    """Sort keys compared as the program compares them."""

    def __init__(self, tx, variable):
        self.tx, self.variable = tx, variable

    def __lt__(self, other):
        self.tx.step()
        return self.tx.truth(self.tx.binary(operator.lt, self.variable, other.variable))

    @classmethod
    def order(cls, tx, keys, reverse):
        """The indices of `keys` in order. Numbers and texts compare by themselves; each other comparison is a step."""
        keys = [key.realize() for key in keys]
        kinds = {type(key.plain()) if key.is_constant() else None for key in keys}
        plain = kinds in ({int}, {str})
        told = [key.plain() for key in keys] if plain else [cls(tx, key) for key in keys]
        return sorted(range(len(keys)), key=told.__getitem__, reverse=reverse)


CONVERSIONS = re.compile(r"%[^a-zA-Z%]*([a-zA-Z%])")


def is_harmless(fn: Callable, args: list, given: list) -> bool:
    """Whether making a text raises nothing for any number, if it raises nothing for one."""
    if fn is format:
        return not args[1].plain().endswith("c")
    if fn is str.format:
        return not re.search(r"[\[.]|\{[^}]*\{|c\}", args[0].plain()) if args[0].is_constant() else False
    if fn is not operator.mod:
        return True
    if not args[0].is_constant():
        return False
    used = CONVERSIONS.findall(args[0].plain())
    floats = any(isinstance(getattr(v, "value", None), SymFloat) for g in given for v in (getattr(g, "items", None) or [g]))
    return "*" not in args[0].plain() and "c" not in used and not (floats and {*used} & {*"dioxX"})


def changes_state(name: str) -> bool:
    """Functions of the library that are called for what they do to it."""
    return name in GLOBAL_STATE or name.startswith("set_")


def settled(value: Any) -> Any:
    """A value about to be shown: symbolic numbers become the numbers they are now, guarded. What a tensor holds is not known."""
    if isinstance(value, Tensor) and value.device.type != "meta":
        raise unsupported("item", "the text of a tensor shows its values")
    if isinstance(value, SYMBOLIC):
        return SymVariable(value).python_type()(value)
    if type(value) is dict:
        return {settled(k): settled(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [settled(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


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
