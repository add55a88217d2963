"""Context: the state of one trace, and the questions that variables ask of it (`tx` everywhere).

It holds the tracer (graph), the guards, the side effects and the frames being interpreted, and says which objects are one. How
library code runs on fake tensors is in trace_state.py, what calls, operators and iteration mean in semantics.py, what texts say
in texts.py. Wrapping and inlining are handed in, so that variables know nothing of the interpreter.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import Any
from collections.abc import Callable

from ...eager import dispatch, overrides, random
from ...eager.nn.parameter import Parameter
from ...eager.tensor import Tensor
from .. import state
from ..breaks import Assumptions, unsupported
from .side_effects import SideEffects
from .texts import Texts
from .trace_state import ROOT
from ..guards.growth import Watch
from ..guards.source import Attr, Guards, Pinned, Root, Source
from ..guards.tensor_facts import TensorFacts
from ..graph.graph_tracer import GraphTracer

# some of these register handlers
from ..variables import builder, builtins, copying, eval_text, autograd_function, higher_order, messages, objects, polyfills  # noqa: F401
from ..variables.base import Variable
from ..variables.class_mutation import ClassMutations
from ..variables.user_subclass import derived_object
from ..variables.dicts import DictVariable
from ..variables.exceptions import ExceptionVariable
from ..variables.functions import CellVariable
from ..variables.late_handlers import know_libraries
from ..variables.iterators import FixedIterator
from ..variables.module import Module, ModuleVariable
from ..variables.objects import UserObjectVariable
from ..variables.sequences import TupleVariable
from ..variables.tensor import TensorVariable


class TraceContext(Texts):
    """One trace of one frame."""

    OPEN_NEW = (typing.Generic.__new__, Module.__new__)  # a __new__ that does what object's does
    OPAQUE = (random.Generator,)
    PLAIN_GETATTRIBUTE = (object, types.ModuleType, types.SimpleNamespace)

    watch: Watch  # what the code relies on, of what changes from call to call

    def __init__(
        self, inline: Callable, load_global: Callable, options: Any, symbolic: dict, assumptions: Assumptions = Assumptions()
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
        self.class_edits = ClassMutations()
        self.lookups: dict = {}  # class -> name -> what was found along its bases
        self.memberships: dict = {}  # (source, expression) -> (number, whether it is a key there, line)
        self.float_guards: dict = {}  # (source, comparison) -> the one object of it
        self.initial_grad_mode = dispatch.state.grad
        know_libraries()

    # -- where we are ----------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Any:
        return self.frames[-1]

    def stack(self) -> tuple:
        """(filename, line number, source line, function) of every active user frame, innermost last."""
        return user_stack(self.frames)

    # -- guards and identity ---------------------------------------------------------------------------------------

    def guard_identity(self, source: Source, value: Any) -> None:
        self.guard(source, "is", value)

    def guard_membership(self, source: Source, number: Any, there: bool) -> bool:
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

    def known(self, value: Any) -> Any:
        found = self.memory.get(id(value))
        return found[1] if found is not None else None

    know_libraries = staticmethod(know_libraries)

    def array_of(self, tensor: TensorVariable, **kwargs: Variable) -> Variable:
        """What `tensor.numpy()` gives."""
        from ..variables.numpy_arrays import array_of  # few programs have arrays

        return array_of(self, tensor, **kwargs)

    def remember(self, value: Any, variable: Any) -> Any:
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
                    self.guard_different(variable.known_source, source)

    # -- making variables ------------------------------------------------------------------------------------------

    def tuple(self, items: list) -> TupleVariable:
        return TupleVariable(items)

    def dictionary(self, pairs: Any) -> DictVariable:
        return DictVariable(pairs)

    def iterator(self, members: list) -> FixedIterator:
        return FixedIterator(members)

    def pinned(self, value: Any, label: str) -> Pinned:
        return Pinned(value, label)

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
        marks = state.dynamic_marks(value)
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
            fake = value if value._fl_fake else self.tracer.constant_copy(value)
            node = self.tracer.node_of(fake)
            if node.op == "call_function" and fake._fl_requires_grad and fake._grad_fn is None:
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

    def symbolic_int(self, value: int, source: Source) -> Any:
        return self.tracer.symbolic_int(value, source)

    # -- running library code --------------------------------------------------------------------------------------

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
        and a.fake._fl_storage is not b.fake._fl_storage
        and bool(a.real._fl_storage.nbytes() and b.real._fl_storage.nbytes())
    )


class UserStack(tuple):
    """User frames of one operation; `module`: the path of the innermost module whose method makes it; `regions`: names of the
    `record_function` blocks around it. Passes hand the very object on, so it also tells which nodes of the captured graph a
    kernel comes from."""

    module, regions = "", ()


def has_handler(frames: list) -> bool:
    """Whether the program catches what is raised where it is now."""
    return any(frame.instr is not None and frame.instr.handler is not None for frame in frames)


def user_stack(frames: list, regions: Any = ()) -> UserStack:
    stack = UserStack(place for frame in frames if (place := frame.place()) is not None)
    if regions:
        stack.regions = tuple(regions)
    stack.module = next((path for frame in reversed(frames) if (path := frame.module)), "")
    return stack
