"""The symbolic interpreter: one Frame per Python frame, one method per normal opcode, under the opcode's name.

In: normalised instructions and Variables in the frame's slots. Out: what the frame returns or yields; operations on tensors
have become graph nodes, changes of the world have become side effects. The root frame counts its steps: a graph break is the
number of the step that could not be taken, and the frame is traced again up to it.
"""

from __future__ import annotations

import builtins
import importlib.util
import inspect
import linecache
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from ...runtime.errors import Unsupported
from ...runtime.locks import cached_property
from ..breaks import GraphBreak, UserRaise, unsupported
from ..bytecode.code_cache import OWN, listing
from ..bytecode.opcodes import call_pair
from ..guards.source import Global, Pinned, item
from ..variables.base import DELETED, NULL, LazyVariable, NotPlain, Variable
from ..variables.constant import ConstantVariable, SymVariable
from ..variables.dicts import DictVariable
from ..variables.exceptions import ExceptionVariable, TracebackVariable
from ..variables.functions import CellVariable, UserFunctionVariable
from ..variables.generators import GeneratorVariable
from ..variables.late_handlers import know_libraries
from ..variables.module import Module, ModuleVariable
from ..variables.objects import ClassVariable, SuperVariable, UserObjectVariable, lookup
from ..variables.outer_containers import EntryVariable, new_dict, new_set
from ..variables.sequences import ListVariable, SequenceVariable, SliceVariable, TupleVariable

if TYPE_CHECKING:
    from ..bytecode.instructions import Instr
    from .trace_context import TraceContext

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
}
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}
GENERATOR = inspect.CO_GENERATOR
SEQUENCE_FLAG, MAPPING_FLAG = 1 << 5, 1 << 6  # Py_TPFLAGS_SEQUENCE, _MAPPING: what patterns match
COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_exception_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


class StopTrace(Exception):
    """The root frame reached the step it was asked to stop before."""


class Frame:
    """One interpreted frame: `slots` holds locals by name and cells by the name of their variable."""

    instr: Instr | None  # the one that runs
    result: Variable | None  # what it returned

    def __init__(
        self,
        tx: TraceContext,
        code: types.CodeType,
        globals: dict,
        slots: dict,
        cells: Iterable = (),
        instrs: list | None = None,
        stop: int | None = None,
        root: bool = False,
    ):
        self.tx, self.code, self.globals, self.slots = tx, code, globals, slots
        self.cells = list(cells)
        self.instrs = instrs if instrs is not None else listing(code).instrs
        self.stack: list[Variable] = []
        self.ip, self.step, self.stop, self.root = 0, 0, stop, root
        self.instr, self.line = None, code.co_firstlineno
        self.trusted = tx.is_trusted(globals.get("__name__") or "")
        self.exception = None
        self.result = None

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> Variable:
        """Interpret until the frame returns or yields; `self.result` tells which (None: it yielded)."""
        self.tx.frames.append(self)
        try:
            while True:
                try:
                    return self.loop()
                except UserRaise as error:
                    if not self.handle(error):
                        error.stack = error.stack or self.tx.stack()
                        raise
        except NotPlain as error:
            raise self.placed(unsupported("value", f"{error} has no plain value here")) from error
        except Unsupported as error:
            error = GraphBreak.of(error)
            raise self.placed(error)
        finally:
            self.tx.frames.pop()

    def placed(self, error: GraphBreak) -> GraphBreak:
        """The error with the user's stack at its first appearance."""
        error.stack = error.stack or self.tx.stack()
        return error

    def loop(self) -> Variable:
        instrs, table = self.instrs, OPCODES
        while True:
            instr = self.instr = instrs[self.ip]
            if self.root:
                if self.step == self.stop:
                    raise StopTrace
                self.step += 1
            self.line = instr.position[0] or self.line
            self.ip += 1
            method = table.get(instr.op)
            if method is None:
                raise unsupported("opcode", f"{instr.op} in {self.code.co_qualname}")
            value = method(self, instr)
            if value is not None:
                return value

    def handle(self, error: UserRaise) -> bool:
        """Go to the handler of the instruction that raised, if it has one."""
        error.variable.raised_during(self.tx.frames[0].step - 1, self.tx.exception_now)
        instr = self.instr
        if instr is None or (handler := instr.handler) is None:
            return False
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(self.tx.constant(instr.index))
        self.push(error.variable)
        self.ip = handler.target.index
        return True

    def place(self) -> tuple | None:
        """(filename, line, source line, function) for user stacks; None for frames of the library."""
        code = self.code
        return None if self.trusted else (code.co_filename, self.line, source_line(code, self.line), code.co_qualname)

    @cached_property
    def module(self) -> str:
        """The path of the module whose method this is, or nothing."""
        code = self.code
        first = self.slots.get(code.co_varnames[0]) if code.co_argcount else None
        first = first.value if isinstance(first, CellVariable) else first
        known = isinstance(first, ModuleVariable) or isinstance(first, LazyVariable) and isinstance(first.value, Module)
        return first.source.name() if known and first is not None and first.source is not None else ""

    # -- the stack -------------------------------------------------------------------------------------------------

    def push(self, variable: Variable) -> None:
        self.stack.append(variable.realize())

    def pop(self) -> Variable:
        return self.stack.pop()

    def pop_members(self) -> list:
        """The members of a tuple or list that the bytecode has just made."""
        made = self.pop()
        assert isinstance(made, SequenceVariable)
        return made.items

    def popn(self, n: int) -> list:
        if n == 0:
            return []
        found = self.stack[-n:]
        del self.stack[-n:]
        return found

    def jump(self, instr: Any) -> None:
        if instr.target.index < self.ip:
            self.tx.step(self.root)
        self.ip = instr.target.index

    def unbound(self, name: str) -> NoReturn:
        if self.root and name.startswith(OWN):  # generated code would tell the slot's name
            raise unsupported("exception", f"{name.removeprefix(OWN)!r} of a comprehension has no value", whole_frame=True)
        name = name.removeprefix(OWN)
        self.tx.raise_error(UnboundLocalError, f"cannot access local variable {name!r} where it is not associated with a value")

    def cell_of(self, name: str) -> CellVariable:
        cell = self.slots.get(name)
        if not isinstance(cell, CellVariable):
            raise unsupported("opcode", f"{name!r} is not in a cell here")
        return cell

    def zero_argument_super(self) -> Variable:
        cls = self.cell_of("__class__").get(self.tx)
        first = self.slots[self.code.co_varnames[0] if self.code.co_argcount else self.first_content()]
        owner = first.get(self.tx) if isinstance(first, CellVariable) else first.realize()
        if cls is None:
            self.tx.raise_error(RuntimeError, "super(): empty __class__ cell")
        return SuperVariable(cls.plain(), owner)

    def first_content(self) -> str:
        raise unsupported("call", "super() without arguments in a function without arguments")

    # -- plumbing --------------------------------------------------------------------------------------------------

    def NOP(self, i: Instr) -> None:
        pass

    def RESUME(self, i: Instr) -> None:
        pass

    def COPY_FREE_VARS(self, i: Instr) -> None:
        for name, cell in zip(self.code.co_freevars, self.cells):
            self.slots[name] = cell

    def MAKE_CELL(self, i: Instr) -> None:
        local = i.argval if self.root and not self.stack else None
        self.slots[i.argval] = CellVariable(self.slots.get(i.argval), local=local)

    def POP_TOP(self, i: Instr) -> None:
        self.pop()

    def COPY(self, i: Instr) -> None:
        self.push(self.stack[-i.argval])

    def SWAP(self, i: Instr) -> None:
        self.stack[-1], self.stack[-i.argval] = self.stack[-i.argval], self.stack[-1]

    def PUSH_NULL(self, i: Instr) -> None:
        self.push(NULL)

    def LOAD_CONST(self, i: Instr) -> None:
        self.push(self.tx.fresh(i.argval))

    # -- names -----------------------------------------------------------------------------------------------------

    def LOAD_FAST(self, i: Instr) -> None:
        value = self.slots.get(i.argval)
        if value is None:
            self.unbound(i.argval)
        self.push(value)

    LOAD_FAST_CHECK = LOAD_FAST

    def LOAD_FAST_AND_CLEAR(self, i: Instr) -> None:
        self.push(self.slots.pop(i.argval, NULL))

    def STORE_FAST(self, i: Instr) -> None:
        value = self.pop()
        if value is NULL:
            self.slots.pop(i.argval, None)
        else:
            self.slots[i.argval] = value

    def DELETE_FAST(self, i: Instr) -> None:
        value = self.slots.get(i.argval)
        if value is None:
            self.unbound(i.argval)
        if isinstance(value, Variable) and ends_loudly(value):
            raise unsupported("call", f"{i.argval} is deleted, which may run __del__ of {value}")
        del self.slots[i.argval]

    def LOAD_CLOSURE(self, i: Instr) -> None:
        self.push(self.cell_of(i.argval))

    def LOAD_DEREF(self, i: Instr) -> None:
        value = self.cell_of(i.argval).get(self.tx)
        if value is None and i.argval in self.code.co_cellvars:
            self.unbound(i.argval)
        if value is None:
            text = f"cannot access free variable {i.argval!r} where it is not associated with a value in enclosing scope"
            self.tx.raise_error(NameError, text)
        self.push(value)

    def STORE_DEREF(self, i: Instr) -> None:
        self.cell_of(i.argval).set(self.tx, self.pop())

    def DELETE_DEREF(self, i: Instr) -> None:
        self.LOAD_DEREF(i)
        self.pop()
        self.cell_of(i.argval).set(self.tx, None)

    def LOAD_GLOBAL(self, i: Instr) -> None:
        self.push(self.tx.load_global(self, i.argval))

    def STORE_GLOBAL(self, i: Instr) -> None:
        self.tx.effects.store_global(self.globals, i.argval, self.pop())

    def DELETE_GLOBAL(self, i: Instr) -> None:
        stored = self.tx.effects.stored_global(self.globals, i.argval)
        if stored is DELETED or stored is None and i.argval not in self.globals:  # a builtin is not deleted in its place
            if stored is None:
                self.tx.guard(Pinned(self.globals, self.globals.get("__name__", "globals")), "no_item", i.argval)
            self.tx.raise_error(NameError, f"name {i.argval!r} is not defined")
        self.tx.load_global(self, i.argval)
        self.tx.effects.store_global(self.globals, i.argval, DELETED)

    def LOAD_ASSERTION_ERROR(self, i: Instr) -> None:
        self.push(self.tx.wrap_type(AssertionError))

    # -- attributes and items --------------------------------------------------------------------------------------

    def LOAD_ATTR(self, i: Instr) -> None:
        self.push(self.tx.get_attr(self.pop(), i.argval))

    def LOAD_METHOD(self, i: Instr) -> None:
        found = self.tx.get_attr(self.pop(), i.argval)
        for slot in call_pair(found, NULL):
            self.push(slot)

    def STORE_ATTR(self, i: Instr) -> None:
        value, owner = self.popn(2)
        owner.set_attr(self.tx, i.argval, value)

    def DELETE_ATTR(self, i: Instr) -> None:
        self.pop().del_attr(self.tx, i.argval)

    def _super_attribute(self, i: Instr) -> Any:
        maker, cls, owner = self.popn(3)
        if not (isinstance(maker, ClassVariable) and maker.cls is super):
            raise unsupported("call", "super is shadowed by another name")
        return SuperVariable(cls.plain(), owner).get_attr(self.tx, i.argval.name)

    def LOAD_SUPER_ATTR(self, i: Instr) -> None:
        self.push(self._super_attribute(i))

    def LOAD_SUPER_METHOD(self, i: Instr) -> None:
        for slot in call_pair(self._super_attribute(i), NULL):
            self.push(slot)

    def BINARY_SUBSCR(self, i: Instr) -> None:
        owner, key = self.popn(2)
        self.push(owner.get_item(self.tx, key))

    def STORE_SUBSCR(self, i: Instr) -> None:
        value, owner, key = self.popn(3)
        owner.set_item(self.tx, key, value)

    def DELETE_SUBSCR(self, i: Instr) -> None:
        owner, key = self.popn(2)
        owner.del_item(self.tx, key)

    # -- operators -------------------------------------------------------------------------------------------------

    def UNARY_NEGATIVE(self, i: Instr) -> None:
        self.push(self.tx.unary(operator.neg, self.pop()))

    def UNARY_POSITIVE(self, i: Instr) -> None:
        self.push(self.tx.unary(operator.pos, self.pop()))

    def UNARY_INVERT(self, i: Instr) -> None:
        self.push(self.tx.unary(operator.invert, self.pop()))

    def UNARY_NOT(self, i: Instr) -> None:
        self.push(self.tx.constant(not self.tx.truth(self.pop())))

    def TO_BOOL(self, i: Instr) -> None:
        self.push(self.tx.constant(self.tx.truth(self.pop())))

    def BINARY_OP(self, i: Instr) -> None:
        left, right = self.popn(2)
        self.push(self.tx.binary(BINARY[i.argval], left, right))

    def COMPARE_OP(self, i: Instr) -> None:
        left, right = self.popn(2)
        self.push(self.tx.binary(COMPARE[i.argval], left, right))

    def IS_OP(self, i: Instr) -> None:
        left, right = self.popn(2)
        self.push(self.tx.constant(self.tx.identical(left, right) != bool(i.argval)))

    def CONTAINS_OP(self, i: Instr) -> None:
        member, owner = self.popn(2)
        self.push(self.tx.constant(owner.contains(self.tx, member) != bool(i.argval)))

    # -- containers ------------------------------------------------------------------------------------------------

    def BUILD_TUPLE(self, i: Instr) -> None:
        self.push(TupleVariable(self.popn(i.argval)))

    def BUILD_LIST(self, i: Instr) -> None:
        self.push(ListVariable(self.popn(i.argval)))

    def BUILD_SET(self, i: Instr) -> None:
        self.push(new_set(self.tx, self.popn(i.argval)))

    def BUILD_MAP(self, i: Instr) -> None:
        values = self.popn(2 * i.argval)
        self.push(new_dict(self.tx, zip(values[::2], values[1::2])))

    def BUILD_CONST_KEY_MAP(self, i: Instr) -> None:
        keys = self.pop()
        self.push(DictVariable(zip(keys.unpack(self.tx), self.popn(i.argval))))

    def BUILD_SLICE(self, i: Instr) -> None:
        parts = self.popn(i.argval)
        self.push(SliceVariable(parts + [self.tx.constant(None)] * (3 - len(parts))))

    def BUILD_STRING(self, i: Instr) -> None:
        self.push(self.tx.joined(self.popn(i.argval)))

    def LIST_APPEND(self, i: Instr) -> None:
        value = self.pop()
        self.stack[-i.argval].method_append(self.tx, value)

    def SET_ADD(self, i: Instr) -> None:
        value = self.pop()
        self.stack[-i.argval].method_add(self.tx, value)

    def MAP_ADD(self, i: Instr) -> None:
        key, value = self.popn(2)
        self.stack[-i.argval].set_item(self.tx, key, value)

    def LIST_EXTEND(self, i: Instr) -> None:
        values = self.pop()
        self.stack[-i.argval].method_extend(self.tx, values)

    def SET_UPDATE(self, i: Instr) -> None:
        values = self.pop()
        self.stack[-i.argval].method_update(self.tx, values)

    def DICT_UPDATE(self, i: Instr) -> None:
        values = self.pop()
        pairs = self.tx.mapping_pairs(values)
        if pairs is None:
            self.tx.raise_error(TypeError, f"'{values.realize().python_type().__name__}' object is not a mapping")
        for key, value in pairs:
            self.stack[-i.argval].set_item(self.tx, key, value)

    def DICT_MERGE(self, i: Instr) -> None:
        into, values = self.stack[-i.argval - 1], self.pop()
        pairs = self.tx.mapping_pairs(values)
        if pairs is None:
            kind = values.realize().python_type().__name__
            self.tx.raise_error(TypeError, f"{self.called(i)}() argument after ** must be a mapping, not {kind}")
        for key, value in pairs:
            if into.contains(self.tx, key):
                text = f"{self.called(i)}() got multiple values for keyword argument {key.plain()!r}"
                self.tx.raise_error(TypeError, text)
            into.set_item(self.tx, key, value)

    def called(self, i: Instr) -> str:
        """The function whose keyword arguments are collected, as errors name it: below its arguments and a NULL or owner."""
        first, second = self.stack[-i.argval - 3 : -i.argval - 1]
        function = (second if first is NULL else first).realize()
        module, name = (self.tx.try_attr(function, part) for part in ("__module__", "__qualname__"))
        if name is None or not name.is_constant():
            raise unsupported("exception", f"a keyword argument of {function} is given twice")
        if module is None or not module.is_constant() or module.plain() in (None, "builtins"):
            return name.plain()
        return f"{module.plain()}.{name.plain()}"

    def LIST_TO_TUPLE(self, i: Instr) -> None:
        self.push(TupleVariable(self.pop_members()))

    def unpacked(self) -> list:
        """The members of what is taken apart."""
        value = self.pop().realize()
        if isinstance(value, (ConstantVariable, SymVariable)) and not hasattr(value.python_type(), "__iter__"):
            self.tx.raise_error(TypeError, f"cannot unpack non-iterable {value.python_type().__name__} object")
        return self.tx.unpack(value)

    def UNPACK_SEQUENCE(self, i: Instr) -> None:
        values = self.unpacked()
        if len(values) != i.argval:
            few = f"not enough values to unpack (expected {i.argval}, got {len(values)})"
            many = f"too many values to unpack (expected {i.argval})"
            self.tx.raise_error(ValueError, few if len(values) < i.argval else many)
        for value in reversed(values):
            self.push(value)

    def UNPACK_EX(self, i: Instr) -> None:
        before, after = i.argval & 255, i.argval >> 8
        values = self.unpacked()
        if len(values) < before + after:
            least = f"expected at least {before + after}, got {len(values)}"
            self.tx.raise_error(ValueError, f"not enough values to unpack ({least})")
        middle = ListVariable(values[before : len(values) - after])
        for value in reversed([*values[:before], middle, *values[len(values) - after :]]):
            self.push(value)

    # -- text ------------------------------------------------------------------------------------------------------

    def CONVERT_VALUE(self, i: Instr) -> None:
        self.push(self.tx.text_variable(self.pop(), {1: str, 2: repr, 3: ascii}[i.argval]))

    def FORMAT_SIMPLE(self, i: Instr) -> None:
        self.push(self.tx.formatted_variable(self.pop(), self.tx.constant("")))

    def FORMAT_WITH_SPEC(self, i: Instr) -> None:
        value, spec = self.popn(2)
        self.push(self.tx.formatted_variable(value, spec))

    # -- calls -----------------------------------------------------------------------------------------------------

    def CALL(self, i: Instr) -> None:
        count, names = i.argval
        args = self.popn(count)
        first, second = self.popn(2)
        positional, named = args[: count - len(names)], dict(zip(names, args[count - len(names) :]))
        made = self._call(first, second, positional, named)
        unseen = isinstance(made, EntryVariable) and self.instrs[self.ip].op == "POP_TOP"  # nobody asks which entry it is
        self.push(self.tx.constant(None) if unseen else made)

    def _call(self, first: Variable, second: Variable, args: list, kwargs: dict) -> Variable:
        if first is NULL:
            return self.tx.call(second, args, kwargs)
        if second is NULL:
            return self.tx.call(first, args, kwargs)
        return self.tx.call(first, [second, *args], kwargs)

    def CALL_FUNCTION_EX(self, i: Instr) -> None:
        kwargs = self.tx.pairs(self.pop()) if i.argval & 1 else ()
        args = self.tx.unpack(self.pop())
        first, second = self.popn(2)
        self.push(self._call(first, second, args, {key.plain(): value for key, value in kwargs}))

    def MAKE_FUNCTION(self, i: Instr) -> None:
        code = self.pop().plain()
        closure = self.pop_members() if i.argval & 8 else []
        annotations = self.pop() if i.argval & 4 else None
        kwdefaults = {key.plain(): value for key, value in self.tx.pairs(self.pop())} if i.argval & 2 else {}
        defaults = self.pop_members() if i.argval & 1 else []
        made = UserFunctionVariable(code=code, globals=self.globals, defaults=defaults, kwdefaults=kwdefaults, closure=closure)
        if annotations is not None:
            flat = annotations.unpack(self.tx)
            made.attrs["__annotations__"] = DictVariable(zip(flat[::2], flat[1::2]))
        self.push(made)

    def RETURN_VALUE(self, i: Instr) -> Variable:
        self.result = self.pop()
        return self.result

    # -- control ---------------------------------------------------------------------------------------------------

    def JUMP(self, i: Instr) -> None:
        self.jump(i)

    JUMP_NO_INTERRUPT = JUMP

    def POP_JUMP_IF_TRUE(self, i: Instr) -> None:
        if self.tx.truth(self.pop()):
            self.jump(i)

    def POP_JUMP_IF_FALSE(self, i: Instr) -> None:
        if not self.tx.truth(self.pop()):
            self.jump(i)

    def _pop_is_none(self) -> bool:
        value = self.pop()
        return isinstance(value, ConstantVariable) and value.python_type() is type(None)

    def POP_JUMP_IF_NONE(self, i: Instr) -> None:
        if self._pop_is_none():
            self.jump(i)

    def POP_JUMP_IF_NOT_NONE(self, i: Instr) -> None:
        if not self._pop_is_none():
            self.jump(i)

    def GET_ITER(self, i: Instr) -> None:
        self.push(self.tx.iterate(self.pop()))

    def FOR_ITER(self, i: Instr) -> None:
        iterator: Any = self.stack[-1]
        value = iterator.next(self.tx)
        if value is None:
            self.pop()
            self.jump(i)
        else:
            self.push(value)

    def GET_LEN(self, i: Instr) -> None:
        self.push(self.stack[-1].length(self.tx))

    # -- generators ------------------------------------------------------------------------------------------------

    def RETURN_GENERATOR(self, i: Instr) -> None:
        self.push(self.tx.constant(None))

    def YIELD_VALUE(self, i: Instr) -> Variable:
        return self.pop()

    def GET_YIELD_FROM_ITER(self, i: Instr) -> None:
        self.push(self.tx.iterate(self.pop()))

    def SEND(self, i: Instr) -> None:
        sent = self.pop()
        receiver: Any = self.stack[-1]
        if isinstance(receiver, GeneratorVariable):
            value = receiver.next(self.tx, sent)
        elif isinstance(sent, ConstantVariable) and sent.value is None:
            value = receiver.next(self.tx)
        else:
            raise unsupported("generator", f"sending a value to {receiver}")
        if value is None:
            self.push(self.tx.returned_by(receiver))
            self.jump(i)
        else:
            self.push(value)

    def END_SEND(self, i: Instr) -> None:
        value = self.pop()
        self.pop()
        self.push(value)

    # -- exceptions ------------------------------------------------------------------------------------------------

    def RAISE_VARARGS(self, i: Instr) -> NoReturn:
        parts = self.popn(i.argval)
        if not parts:
            if self.tx.exception_now is None:
                self.tx.raise_error(RuntimeError, "No active exception to reraise")
            raise UserRaise(self.tx.exception_now)
        raised = self.tx.call(parts[0], [], {}) if isinstance(parts[0], ClassVariable) else parts[0]
        if not isinstance(raised, ExceptionVariable):
            raise unsupported("exception", f"raising {raised}")
        if len(parts) == 2:
            cause = self.tx.call(parts[1], [], {}) if isinstance(parts[1], ClassVariable) else parts[1]
            raised.set_attr(self.tx, "__cause__", cause)
        raise UserRaise(raised, f"raise {raised.describe()}")

    def RERAISE(self, i: Instr) -> NoReturn:
        raised = self.pop()
        if not isinstance(raised, ExceptionVariable):
            raise unsupported("exception", "an exception from outside is raised again")
        raise UserRaise(raised, f"raise {raised.describe()}")

    def STOPITERATION_ERROR(self, i: Instr) -> None:
        raised = self.pop()
        if issubclass(raised.python_type(), StopIteration):
            stop, raised = raised, ExceptionVariable(RuntimeError, [self.tx.constant("generator raised StopIteration")])
            raised.set_attr(self.tx, "__cause__", stop)
            raised.set_attr(self.tx, "__context__", stop)
        self.push(raised)

    def PUSH_EXC_INFO(self, i: Instr) -> None:
        raised: Any = self.pop()
        self.push(self.tx.exception_now or self.tx.constant(None))
        self.push(raised)
        self.tx.exception_now = raised

    def POP_EXCEPT(self, i: Instr) -> None:
        previous = self.pop()
        self.tx.exception_now = previous if isinstance(previous, ExceptionVariable) else None

    def CHECK_EXC_MATCH(self, i: Instr) -> None:
        wanted = self.pop()
        members = wanted.items if isinstance(wanted, TupleVariable) else [wanted]
        if not all(c.is_constant() and is_exception_class(c.plain()) for c in members):
            raise unsupported("exception", f"an except clause for {wanted}")
        self.push(self.tx.constant(issubclass(self.stack[-1].python_type(), tuple(c.plain() for c in members))))

    def BEFORE_WITH(self, i: Instr) -> None:
        manager = self.pop()
        leave = self._special(manager, "__exit__")
        enter = self._special(manager, "__enter__")
        self.push(leave)
        self.push(self.tx.call(enter, [], {}))

    def _special(self, manager: Variable, name: str) -> Variable:
        if isinstance(manager, UserObjectVariable):
            found = lookup(manager.cls, name)
            if found is None:
                name = manager.cls.__name__
                self.tx.raise_error(TypeError, f"{name!r} object does not support the context manager protocol")
            return self.tx.bind(found, manager, name)
        return self.tx.get_attr(manager, name)

    def WITH_EXCEPT_START(self, i: Instr) -> None:
        leave, raised = self.stack[-4], self.stack[-1]
        self.push(self.tx.call(leave, [self.tx.wrap_type(raised.python_type()), raised, self.traceback_of(raised)], {}))

    def traceback_of(self, raised: Variable) -> TracebackVariable | ConstantVariable:
        return TracebackVariable(raised) if isinstance(raised, ExceptionVariable) else self.tx.constant(None)

    # -- imports and patterns --------------------------------------------------------------------------------------

    def IMPORT_NAME(self, i: Instr) -> None:
        level, names = (part.plain() for part in self.popn(2))
        package = (self.globals.get("__package__") or "").split(".")
        wanted = i.argval if level == 0 else ".".join([*package[: len(package) - level + 1], i.argval]).rstrip(".")
        if wanted not in sys.modules:  # what an import does, it does once: now is as good as later
            self.tx.run_outside(importlib.import_module, wanted)
            know_libraries()
        module = sys.modules[wanted if names or level else wanted.split(".")[0]]
        for name in names or ():
            if name != "*" and not hasattr(module, name) and hasattr(module, "__path__"):
                self.import_part(f"{module.__name__}.{name}")
        self.push(self.tx.wrap_pinned(module, module.__name__))

    def import_part(self, name: str) -> None:
        """`from package import name` for a module that is not loaded yet; a name that is none is IMPORT_FROM's error."""
        if importlib.util.find_spec(name) is not None:
            self.tx.run_outside(importlib.import_module, name)

    def IMPORT_FROM(self, i: Instr) -> None:
        module = self.stack[-1]
        found = self.tx.try_attr(module, i.argval)
        if found is None:
            value = module.plain()
            place = getattr(value, "__file__", None) or "unknown location"
            self.tx.raise_error(ImportError, f"cannot import name {i.argval!r} from {value.__name__!r} ({place})")
        self.push(found)

    def MATCH_SEQUENCE(self, i: Instr) -> None:
        self.push(self.tx.constant(bool(self.stack[-1].python_type().__flags__ & SEQUENCE_FLAG)))

    def MATCH_MAPPING(self, i: Instr) -> None:
        self.push(self.tx.constant(bool(self.stack[-1].python_type().__flags__ & MAPPING_FLAG)))

    def MATCH_KEYS(self, i: Instr) -> None:
        subject, keys = self.stack[-2:]
        found = [subject.get_item(self.tx, k) if subject.contains(self.tx, k) else None for k in keys.unpack(self.tx)]
        self.push(self.tx.constant(None) if None in found else TupleVariable(found))

    def MATCH_CLASS(self, i: Instr) -> None:
        subject, cls, names = self.popn(3)
        if not issubclass(subject.python_type(), cls.plain()):
            self.push(self.tx.constant(None))
            return
        positional = getattr(cls.plain(), "__match_args__", ())[: i.argval]
        found = [subject] if i.argval == 1 and not positional else [self.tx.try_attr(subject, name) for name in positional]
        found += [self.tx.try_attr(subject, name.plain()) for name in names.unpack(self.tx)]
        self.push(self.tx.constant(None) if None in found else TupleVariable(found))


OPCODES: dict[str, Callable] = {name: method for name, method in vars(Frame).items() if name.isupper() and callable(method)}


# -- inlining --------------------------------------------------------------------------------------------------------


def ends_loudly(value: Variable) -> bool:
    """Whether the program sees when nobody holds an object any more: Python has to let go of it."""
    value = value.resolved()
    return isinstance(value, UserObjectVariable) and value.source is not None and lookup(value.cls, "__del__") is not None


MAX_DEPTH = 60


def inline(tx: TraceContext, function: UserFunctionVariable, args: list, kwargs: dict) -> Variable:
    """Interpret a call of a Python function in place."""
    code = function.code
    tx.refuse_marked(function)
    if code.co_flags & COROUTINE:
        raise unsupported("code-kind", f"{code.co_qualname} is a coroutine")
    if len(tx.frames) > MAX_DEPTH:
        raise unsupported("recursion", f"{code.co_qualname} is {MAX_DEPTH} calls deep")
    tx.step()
    frame = Frame(tx, code, function.globals, function.bind(tx, args, kwargs), function.cells(tx), listing(code).instrs)
    if code.co_flags & GENERATOR:
        return GeneratorVariable(frame)
    return frame.run()


def load_global(tx: TraceContext, frame: Frame, name: str) -> Variable:
    """A global of the frame's module, or a builtin that no global hides."""
    stored = tx.effects.stored_global(frame.globals, name)
    if stored is not None and stored is not DELETED:
        return stored
    base = Pinned(frame.globals, frame.globals.get("__name__", "globals"))
    if name in frame.globals and stored is None:
        value = frame.globals[name]
        fixed = frame.trusted and isinstance(value, (types.FunctionType, types.ModuleType, type, types.BuiltinFunctionType))
        return tx.wrap_pinned(value, name) if fixed else tx.wrap(value, Global(name) if frame.root else item(base, name))
    scope = frame.globals.get("__builtins__", builtins)
    scope = scope if isinstance(scope, dict) else vars(scope)
    if stored is None and (not frame.trusted or name not in scope):
        tx.guard(base, "no_item", name)
    if name not in scope:
        tx.guard(Pinned(scope, "builtins"), "no_item", name)
        tx.raise_error(NameError, f"name {name!r} is not defined")
    return tx.wrap_pinned(scope[name], name)


def source_line(code: types.CodeType, line: int) -> str:
    return linecache.getline(code.co_filename, line).strip()
