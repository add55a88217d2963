"""The normal form of bytecode, and every difference between CPython 3.11, 3.12 and 3.13.

In: code units as the running version writes them. Out: normal ops (`NORMAL_OPS`: name -> what argval holds, stack
effect, meaning) by `lift` and `merge`, and code units again by `lower`. The idea: a consumer has one method per
normal op and never asks for the version. What the normal form settles:
- one thing per op: fused ops are split; EXTENDED_ARG, CACHE, PRECALL, KW_NAMES, END_FOR and RETURN_CONST are gone;
- **call pair**: below the arguments of CALL and CALL_FUNCTION_EX lie two slots (a, b), of which at most one is NULL:
  a is NULL: call b(...);  b is NULL: call a(...);  neither: call a(b, ...).  Slots keep the order of the running
  version, so a symbolic stack is the real stack; what pushes a pair asks `call_pair(callable, null)` for the order;
- conditional jumps and UNARY_NOT test the truth of any object; TO_BOOL remains only where nothing implies it;
- jumps and FOR_ITER name the instruction that runs next; an exhausted FOR_ITER has popped its iterator there;
- slices are BUILD_SLICE 2 and a subscript; f-strings are CONVERT_VALUE, FORMAT_SIMPLE, FORMAT_WITH_SPEC; `x or y` is
  COPY 1, jump, POP_TOP; MAKE_FUNCTION takes its attributes by flags; SEND leaves its receiver for END_SEND;
- names instead of indices. In `fast` ops a name that is also in co_cellvars means the raw slot, which holds the cell
  object (inlined comprehensions of 3.12 do that around MAKE_CELL).

Code units are read and written by the `bytecode` package (code_units.py). What an argument stands for is told by the tables here:
the package's own symbolic form renumbers slots and merges constants that are equal.
"""

from __future__ import annotations

import opcode
import re
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from ...runtime.errors import InternalError
from .code_units import LoweredUnit

VERSION = sys.version_info[:2]
CLOSE_RETURNS = VERSION >= (3, 13)  # generator.close() gives what the generator returned
VERSION_TEXT = f"{VERSION[0]}.{VERSION[1]}"
SUPPORTED = (3, 11) <= VERSION <= (3, 13)
NULL_FIRST = VERSION < (3, 13)  # a call pair is (NULL, callable) before 3.13 and (callable, NULL) from then on
BINARY_SYMBOLS = tuple(symbol for _, symbol in opcode._nb_ops)  # pyright: ignore[reportAttributeAccessIssue] (not told in its stub)
COMPARE_SYMBOLS = ("<", "<=", "==", "!=", ">", ">=")


def call_pair(callable_: Any, null: Any) -> tuple:
    """The two slots below the arguments of a call that binds no self, in the order of the running version."""
    return (null, callable_) if NULL_FIRST else (callable_, null)


class CallShape(NamedTuple):
    """argval of CALL: number of all arguments, and the names of the last ones, which are keywords."""

    count: int
    kwnames: tuple[str, ...] = ()


class SuperShape(NamedTuple):
    """argval of LOAD_SUPER_ATTR/METHOD: attribute, and whether the source wrote super(a, b)."""

    name: str
    two_arg: bool


class NormalOp(NamedTuple):
    """kind: what argval holds. pops, pushes: ints or functions of argval. jump: pops and pushes when it jumps."""

    kind: str
    pops: int | Callable
    pushes: int | Callable
    doc: str
    jump: tuple[int, int] | None = None


# kind: none; int; const: the object; name; fast: a local's name; deref: a cell's or free variable's name;
# jump: see Instr.target. effect: pops -> pushes, n is argval; after a bar, when it jumps.
_TABLE = """
none    0 -> 0          NOP                     nothing; for an interpreter RESUME and COPY_FREE_VARS are nothing too
int     0 -> 0          RESUME                  start of a function, or after a yield; argval tells which
int     0 -> 0          COPY_FREE_VARS          the closure's cells into the free slots; argval: how many
deref   0 -> 0          MAKE_CELL               the slot becomes a new cell that holds what the slot held, or nothing
none    1 -> 0          POP_TOP                 pop
int     0 -> 1          COPY                    push the argval-th entry again, 1 = top
int     0 -> 0          SWAP                    exchange the top with the argval-th entry, 1 = top
none    0 -> 1          PUSH_NULL               push NULL
const   0 -> 1          LOAD_CONST              push argval
fast    0 -> 1          LOAD_FAST LOAD_FAST_CHECK   push a local; UnboundLocalError if it has no value
fast    0 -> 1          LOAD_FAST_AND_CLEAR     push a local's value, or NULL, and leave it without value
fast    1 -> 0          STORE_FAST              pop into a local; NULL leaves it without value
fast    0 -> 0          DELETE_FAST             the local loses its value; UnboundLocalError if it has none
deref   0 -> 1          LOAD_CLOSURE            push the cell object itself
deref   0 -> 1          LOAD_DEREF              push a cell's content; NameError or UnboundLocalError if empty
deref   1 -> 0          STORE_DEREF             pop into a cell
deref   0 -> 0          DELETE_DEREF            empty a cell; error if it is empty
deref   0 -> 1          LOAD_CLASSDEREF         class bodies of 3.11: from the namespace, else the cell
deref   1 -> 1          LOAD_FROM_DICT_OR_DEREF     class bodies from 3.12: (mapping -- value), else the cell
name    1 -> 1          LOAD_FROM_DICT_OR_GLOBALS   (mapping -- value), else global, else builtin
none    0 -> 1          LOAD_LOCALS             push the namespace of a class body
name    0 -> 1          LOAD_GLOBAL             push global, else builtin; NameError; never a NULL beside it
name    1 -> 0          STORE_GLOBAL            pop into a global
name    0 -> 0          DELETE_GLOBAL           delete a global
name    0 -> 1          LOAD_NAME               module and class bodies: local, global, builtin
name    1 -> 0          STORE_NAME              module and class bodies
name    0 -> 0          DELETE_NAME             module and class bodies
none    0 -> 1          LOAD_BUILD_CLASS        push builtins.__build_class__
none    0 -> 0          SETUP_ANNOTATIONS       module and class bodies: make __annotations__
none    0 -> 1          LOAD_ASSERTION_ERROR    push AssertionError
name    1 -> 1          LOAD_ATTR               (obj -- obj.argval)
name    1 -> 2          LOAD_METHOD             (obj -- pair): (unbound method, obj) or call_pair(obj.argval, NULL)
name    2 -> 0          STORE_ATTR              (value, obj --): obj.argval = value
name    1 -> 0          DELETE_ATTR             (obj --): del obj.argval
super   3 -> 1          LOAD_SUPER_ATTR         (super, class, self -- attribute); argval SuperShape
super   3 -> 2          LOAD_SUPER_METHOD       (super, class, self -- pair); argval SuperShape
none    2 -> 1          BINARY_SUBSCR           (obj, key -- obj[key])
none    3 -> 0          STORE_SUBSCR            (value, obj, key --): obj[key] = value
none    2 -> 0          DELETE_SUBSCR           (obj, key --): del obj[key]
none    1 -> 1          UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE      operator on the top
none    1 -> 1          UNARY_NOT               (obj -- not obj), any object
none    1 -> 1          TO_BOOL                 (obj -- bool(obj))
binary  2 -> 1          BINARY_OP               (left, right -- result); argval is the symbol: '+', '@', '+=' ...
compare 2 -> 1          COMPARE_OP              (left, right -- result), any object; argval is the symbol: '<', '==' ...
int     2 -> 1          IS_OP                   (left, right -- bool): left is right; argval 1: is not
int     2 -> 1          CONTAINS_OP             (left, right -- bool): left in right; argval 1: not in
int     n -> 1          BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_STRING BUILD_SLICE   argval entries into one
int     2n -> 1         BUILD_MAP               argval pairs key, value into a dict
int     n+1 -> 1        BUILD_CONST_KEY_MAP     argval values and a tuple of keys into a dict
int     1 -> 0          LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE  pop into what is then the argval-th entry
int     1 -> 0          DICT_UPDATE DICT_MERGE  pop a mapping into what is then the argval-th entry; MERGE: no key twice
int     2 -> 0          MAP_ADD                 pop key, value into the dict that is then the argval-th entry
none    1 -> 1          LIST_TO_TUPLE           (list -- tuple)
int     1 -> n          UNPACK_SEQUENCE         pop a sequence of exactly argval items; the first ends on top
int     1 -> starred    UNPACK_EX               with a starred list: argval & 255 items before it, argval >> 8 after
int     1 -> 1          CONVERT_VALUE           f-string conversion: 1 str, 2 repr, 3 ascii
none    1 -> 1          FORMAT_SIMPLE           (value -- format(value)); a str stays itself
none    2 -> 1          FORMAT_WITH_SPEC        (value, spec -- format(value, spec))
call    call -> 1       CALL                    (pair, args... -- result); argval CallShape(count, kwnames)
int     ex -> 1         CALL_FUNCTION_EX        (pair, args, [kwargs if argval & 1] -- result); one of the pair is NULL
int     bits -> 1       MAKE_FUNCTION           code on top, below 8 closure 4 annotations 2 kwdefaults 1 defaults
none    1 -> 0          RETURN_VALUE            return the top
jump    0 -> 0          JUMP JUMP_NO_INTERRUPT  go to target
jump    1 -> 0 | 1 -> 0 POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE  pop, jump if its truth is so
jump    1 -> 0 | 1 -> 0 POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE   pop, jump if it is (not) None
none    1 -> 1          GET_ITER                (iterable -- iterator)
jump    0 -> 1 | 1 -> 0 FOR_ITER                (iterator -- iterator, next value); exhausted: pop the iterator and jump
none    0 -> 1          GET_LEN                 (obj -- obj, len(obj))
none    0 -> 1          MATCH_MAPPING MATCH_SEQUENCE    (subject -- subject, bool)
none    0 -> 1          MATCH_KEYS              (subject, keys -- subject, keys, tuple of values or None)
int     3 -> 1          MATCH_CLASS             (subject, class, keyword names -- tuple or None); argval: positionals
name    2 -> 1          IMPORT_NAME             (level, fromlist -- module)
name    0 -> 1          IMPORT_FROM             (module -- module, attribute)
none    1 -> 0          IMPORT_STAR PRINT_EXPR  module level of 3.11
int     n -> 0          RAISE_VARARGS           0: the current exception again; 1: raise it; 2: raise it from a cause
int     1 -> 0          RERAISE                 raise the popped exception; argval > 0: the entry with the lasti
none    1 -> 2          PUSH_EXC_INFO           (exc -- previous current exception or None, exc); exc becomes current
none    1 -> 0          POP_EXCEPT              pop: it becomes the current exception again
none    1 -> 1          CHECK_EXC_MATCH         (exc, type -- exc, bool)
none    2 -> 2          CHECK_EG_MATCH          (group, type -- rest, matching group or None)
none    2 -> 1          PREP_RERAISE_STAR       (original, list of exceptions -- exception or None): end of except*
none    1 -> 2          BEFORE_WITH             (manager -- bound __exit__, result of __enter__)
none    0 -> 1          WITH_EXCEPT_START       (exit, lasti, previous, exc -- the same, exit(type, exc, traceback))
none    0 -> 1          RETURN_GENERATOR        generators: create and return; a POP_TOP follows on resumption
int     1 -> 1          YIELD_VALUE             generators: (value -- what send() gave)
jump    0 -> 0 | 0 -> 0 SEND                    (receiver, value -- receiver, yielded); jumps with what it returned
none    2 -> 1          END_SEND                (receiver, value -- value)
none    3 -> 2          CLEANUP_THROW           (receiver, sent, exc -- None, value) of a StopIteration, else raise exc
none    1 -> 1          GET_YIELD_FROM_ITER ASYNC_GEN_WRAP STOPITERATION_ERROR GET_AITER    generators and coroutines
int     1 -> 1          GET_AWAITABLE           (awaitable -- iterator)
none    0 -> 1          GET_ANEXT               (aiter -- aiter, awaitable)
none    2 -> 0          END_ASYNC_FOR           (aiter, exc --) if exc is StopAsyncIteration, else raise exc
none    1 -> 2          BEFORE_ASYNC_WITH       (manager -- bound __aexit__, awaitable)
int     1 -> 1          CALL_INTRINSIC_1        type parameters and module level from 3.12; argval is CPython's number
int     2 -> 1          CALL_INTRINSIC_2        type parameters from 3.12; argval is CPython's number
"""
_COUNTS = {
    "n": lambda n: n,
    "2n": lambda n: 2 * n,
    "n+1": lambda n: n + 1,
    "starred": lambda n: (n & 255) + 1 + (n >> 8),
    "call": lambda shape: shape.count + 2,
    "ex": lambda n: 3 + (n & 1),
    "bits": lambda n: 1 + n.bit_count(),
}


def _normal_ops(table: Any) -> dict:
    """The rows of the table as NormalOps by name."""
    ops = {}
    row = re.compile(r"(\w+) +(\S+) -> (\S+)(?: \| (\d) -> (\d))? +((?:[A-Z_0-9]+ )+) *(.*)")
    for line in table.strip().splitlines():
        found = row.fullmatch(line)
        assert found is not None, line
        kind, pops, pushes, jump_pops, jump_pushes, names, doc = found.groups()
        jump = (int(jump_pops), int(jump_pushes)) if jump_pops else None
        for name in names.split():
            ops[name] = NormalOp(kind, _COUNTS.get(pops) or int(pops), _COUNTS.get(pushes) or int(pushes), doc, jump)
    return ops


NORMAL_OPS: dict[str, NormalOp] = _normal_ops(_TABLE)

NO_FALLTHROUGH = frozenset({"JUMP", "JUMP_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})


def effect(op: str, argval: Any, jump: bool = False) -> tuple:
    """Stack effect of a normal op: (pops, pushes)."""
    form = NORMAL_OPS[op]
    if jump and form.jump:
        return form.jump
    pops, pushes = form.pops, form.pushes
    return (pops(argval) if callable(pops) else pops), (pushes(argval) if callable(pushes) else pushes)


# ---- code units -> normal ops ----


class CodeNames:
    """The tables of a code object that arguments index: constants, names, and slots (locals, cells, free)."""

    def __init__(self, code: Any):
        self.consts, self.names, self.cells = code.co_consts, code.co_names, frozenset(code.co_cellvars)
        self.nlocals = len(code.co_varnames)
        self.slots = slot_names(code.co_varnames, code.co_cellvars, code.co_freevars)


def slot_names(varnames: Any, cellvars: tuple, freevars: tuple) -> tuple:
    """Names of a frame's slots in order; a cell that is also a local shares the local's slot.

    In a class body a name can be a cell and a free variable at once (nonlocal __class__): the free one is marked.
    """
    cells = (name for name in cellvars if name not in varnames)
    return (*varnames, *cells, *(name + " (free)" if name in cellvars else name for name in freevars))


def _jump(op: str, sign: int = 1, skip: int = 0) -> Callable:
    """Lift of a jump: argval is the offset it arrives at; `skip` leaves out loop-end units there."""
    return lambda table, unit: [(op, unit.after + 2 * sign * unit.arg + skip)]


def _fast(op: Any) -> Any:
    return lambda table, unit: [(op, table.slots[unit.arg])]


def _is(op: Any, argval: Any = None) -> Any:
    return lambda table, unit: [(op, argval)]


def _global(table: CodeNames, unit: Any) -> list:
    load = ("LOAD_GLOBAL", table.names[unit.arg >> 1])
    return list(call_pair(load, ("PUSH_NULL", None))) if unit.arg & 1 else [load]


def _method_bit(table: Any, unit: Any) -> list:
    return [("LOAD_METHOD" if unit.arg & 1 else "LOAD_ATTR", table.names[unit.arg >> 1])]


def _super_attr(table: Any, unit: Any) -> list:
    shape = SuperShape(table.names[unit.arg >> 2], bool(unit.arg & 2))
    return [("LOAD_SUPER_METHOD" if unit.arg & 1 else "LOAD_SUPER_ATTR", shape)]


def _load_fast_or_cell(table: Any, unit: Any) -> list:
    """3.13 has no LOAD_CLOSURE: it loads the cell with LOAD_FAST."""
    name = table.slots[unit.arg]
    return [("LOAD_CLOSURE" if unit.arg >= table.nlocals or name in table.cells else "LOAD_FAST", name)]


def _two_fast(first: Any, second: Any) -> Any:
    def lift(table: Any, unit: Any) -> Any:
        ops = (first, unit.arg >> 4), (second, unit.arg & 15)
        return [pair for op, slot in ops for pair in (LIFT.get(op) or _fast(op))(table, unit._replace(arg=slot))]

    return lift


def _or_pop(op: str) -> Callable:
    return lambda table, unit: [("COPY", 1), (op, unit.after + 2 * unit.arg), ("POP_TOP", None)]


def _format_value(table: CodeNames, unit: Any) -> list:
    """3.11 and 3.12 convert after the format spec was computed."""
    convert = [("CONVERT_VALUE", unit.arg & 3)] if unit.arg & 3 else []
    if not unit.arg & 4:
        return [*convert, ("FORMAT_SIMPLE", None)]
    swap = [("SWAP", 2)] if convert else []
    return [*swap, *convert, *swap, ("FORMAT_WITH_SPEC", None)]


INTRINSICS_1 = {3: "STOPITERATION_ERROR", 4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
INTRINSICS_2 = {1: "PREP_RERAISE_STAR"}


def _intrinsic(op: Any, known: Any) -> Any:
    return lambda table, unit: [(known[unit.arg], None) if unit.arg in known else (op, unit.arg)]


LIFT: dict[str, Callable] = {
    "LOAD_GLOBAL": _global,
    "BINARY_OP": lambda table, unit: [("BINARY_OP", BINARY_SYMBOLS[unit.arg])],
    "CALL": lambda table, unit: [("CALL", CallShape(unit.arg))],
    "JUMP_FORWARD": _jump("JUMP"),
    "JUMP_BACKWARD": _jump("JUMP", -1),
    "JUMP_BACKWARD_NO_INTERRUPT": _jump("JUMP_NO_INTERRUPT", -1),
    "SEND": _jump("SEND"),
}
if VERSION == (3, 11):
    LIFT |= {
        "COMPARE_OP": lambda table, unit: [("COMPARE_OP", COMPARE_SYMBOLS[unit.arg])],
        "PRECALL": lambda table, unit: [],
        "KW_NAMES": lambda table, unit: [("KW_NAMES", table.consts[unit.arg])],
        "FORMAT_VALUE": _format_value,
        "FOR_ITER": _jump("FOR_ITER"),
        "JUMP_IF_TRUE_OR_POP": _or_pop("POP_JUMP_IF_TRUE"),
        "JUMP_IF_FALSE_OR_POP": _or_pop("POP_JUMP_IF_FALSE"),
    }
    LIFT |= {
        f"POP_JUMP_{way}_IF_{test}": _jump(f"POP_JUMP_IF_{test}", sign)
        for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")
        for way, sign in (("FORWARD", 1), ("BACKWARD", -1))
    }
if VERSION >= (3, 12):
    LIFT |= {f"POP_JUMP_IF_{test}": _jump(f"POP_JUMP_IF_{test}") for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")}
    LIFT |= {
        "LOAD_ATTR": _method_bit,
        "LOAD_SUPER_ATTR": _super_attr,
        "RETURN_CONST": lambda table, unit: [("LOAD_CONST", table.consts[unit.arg]), ("RETURN_VALUE", None)],
        "BINARY_SLICE": lambda table, unit: [("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)],
        "STORE_SLICE": lambda table, unit: [("BUILD_SLICE", 2), ("STORE_SUBSCR", None)],
        "CALL_INTRINSIC_1": _intrinsic("CALL_INTRINSIC_1", INTRINSICS_1),
        "CALL_INTRINSIC_2": _intrinsic("CALL_INTRINSIC_2", INTRINSICS_2),
    }
if VERSION == (3, 12):
    LIFT |= {
        "COMPARE_OP": lambda table, unit: [("COMPARE_OP", COMPARE_SYMBOLS[unit.arg >> 4])],
        "KW_NAMES": lambda table, unit: [("KW_NAMES", table.consts[unit.arg])],
        "FORMAT_VALUE": _format_value,
        "FOR_ITER": _jump("FOR_ITER", skip=2),
        "END_FOR": lambda table, unit: [],
    }
if VERSION >= (3, 13):
    LIFT |= {
        "LOAD_FAST": _load_fast_or_cell,
        "LOAD_FAST_LOAD_FAST": _two_fast("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": _two_fast("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": _two_fast("STORE_FAST", "STORE_FAST"),
        "COMPARE_OP": lambda table, unit: (
            [("COMPARE_OP", COMPARE_SYMBOLS[unit.arg >> 5])] + [("TO_BOOL", None)] * bool(unit.arg & 16)
        ),
        "CALL_KW": lambda table, unit: [("CALL_KW", unit.arg)],
        "SET_FUNCTION_ATTRIBUTE": lambda table, unit: [("SET_FUNCTION_ATTRIBUTE", unit.arg)],
        "MAKE_FUNCTION": _is("MAKE_FUNCTION", 0),
        "FOR_ITER": _jump("FOR_ITER", skip=4),
        "END_FOR": _is("END_FOR"),
    }

_ARGVAL = {
    "none": lambda table, arg: None,
    "int": lambda table, arg: arg,
    "const": lambda table, arg: table.consts[arg],
    "name": lambda table, arg: table.names[arg],
    "fast": lambda table, arg: table.slots[arg],
    "deref": lambda table, arg: table.slots[arg],
}


def lift(table: CodeNames, unit: Any) -> Any:
    """One Unit as (normal op, argval) pairs; a jump's argval is an offset. `merge` completes what needs two units."""
    special = LIFT.get(unit.name)
    if special:
        return special(table, unit)
    form = NORMAL_OPS.get(unit.name)
    if form is None or form.kind not in _ARGVAL:
        raise InternalError(f"bytecode: {unit.name} at offset {unit.offset} is unknown on Python {VERSION_TEXT}")
    return [(unit.name, _ARGVAL[form.kind](table, unit.arg))]


_IMPLIES_TRUTH = {"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"}


def merge(before: tuple, op: str, argval: Any) -> tuple:
    """Joins what versions spread over two ops. Given the pair before: (drop that one?, the new pair or None)."""
    last, value = before
    if last == "KW_NAMES":
        return True, (op, CallShape(argval.count, value))
    if last == "TO_BOOL" and op in _IMPLIES_TRUTH:
        return True, (op, argval)
    if last == "END_FOR":
        return True, None  # the POP_TOP after END_FOR
    if op == "CALL_KW" and last == "LOAD_CONST":
        return True, ("CALL", CallShape(argval, value))
    if op == "SET_FUNCTION_ATTRIBUTE" and last == "MAKE_FUNCTION":
        return True, ("MAKE_FUNCTION", value | argval)
    if op in ("CALL_KW", "SET_FUNCTION_ATTRIBUTE"):
        raise InternalError(f"bytecode: {op} after {last} is not what the compiler writes")
    return False, (op, argval)


def normalise_sends(instrs: list) -> Any:
    """3.11's SEND pops its receiver when that returns; give it the END_SEND that later versions write."""
    if VERSION >= (3, 12):
        return instrs
    ends = {instr.target: instr.target.derive("END_SEND") for instr in instrs if instr.op == "SEND"}
    for instr in instrs:
        instr.target = ends.get(instr.target, instr.target) if instr.op == "SEND" else instr.target
    return [new for instr in instrs for new in ((ends[instr], instr) if instr in ends else (instr,))]


def normalise_closures(instrs: list, code: types.CodeType) -> Any:
    """3.13 reads the cell and, where an inlined comprehension has put its own value into the slot, that value with the same
    LOAD_FAST: a cell is read only to become part of a closure."""
    if VERSION >= (3, 13):
        closes = {
            k
            for end, instr in enumerate(instrs)
            if instr.op == "MAKE_FUNCTION"
            and instr.argval & 8
            and instrs[end - 2].op == "BUILD_TUPLE"  # else a cut came behind it
            for k in range(end - 2 - instrs[end - 2].argval, end - 2)
        }
        for k, instr in enumerate(instrs):
            if instr.op == "LOAD_CLOSURE" and k not in closes and instr.argval in code.co_varnames:
                instr.op = "LOAD_FAST"
    return instrs


# ---- normal ops -> code units ----


def _plain(op: str) -> Callable:
    kind = NORMAL_OPS[op].kind
    if kind == "none" or kind == "jump":
        return lambda table, argval: [(op, 0)]
    if kind == "int":
        return lambda table, argval: [(op, argval)]
    return lambda table, argval: [(op, getattr(table, kind)(argval))]


def _as(name: str, argument: Callable) -> Callable:
    return lambda table, argval: [(name, argument(table, argval))]


COMPARE_MASKS = (2, 10, 8, 7, 4, 12)  # specialised compares test these bits: 1 unordered, 2 less, 4 greater, 8 equal


def _compare(as_bool: Any) -> Any:
    def lower_compare(table: Any, argval: str) -> Any:
        index = COMPARE_SYMBOLS.index(argval)
        if VERSION == (3, 11):
            return [("COMPARE_OP", index)]
        shift = 4 if VERSION == (3, 12) else 5
        return [("COMPARE_OP", index << shift | COMPARE_MASKS[index] | 16 * as_bool)]

    return lower_compare


def _call(table: Any, argval: CallShape) -> list:
    count, kwnames = argval
    if VERSION >= (3, 13):
        return [("LOAD_CONST", table.const(kwnames)), ("CALL_KW", count)] if kwnames else [("CALL", count)]
    names = [("KW_NAMES", table.const(kwnames))] if kwnames else []
    return [*names, *([("PRECALL", count)] if VERSION == (3, 11) else []), ("CALL", count)]


def _make_function(table: Any, flags: Any) -> list:
    return [("MAKE_FUNCTION", 0)] + [("SET_FUNCTION_ATTRIBUTE", bit) for bit in (8, 4, 2, 1) if flags & bit]


def _missing(table: Any, argval: Any) -> NoReturn:
    raise InternalError(f"bytecode: an op that Python {VERSION_TEXT} has not (argument {argval!r})")


def _super(method: int) -> Callable:
    return _as("LOAD_SUPER_ATTR", lambda table, shape: table.name(shape.name) << 2 | shape.two_arg << 1 | method)


LOWER: dict[str, Callable] = {
    op: _plain(op) for op, form in NORMAL_OPS.items() if form.kind not in ("super", "call", "binary", "compare")
}
LOWER |= {
    "LOAD_GLOBAL": _as("LOAD_GLOBAL", lambda table, name: table.name(name) << 1),
    "COPY_FREE_VARS": _as("COPY_FREE_VARS", lambda table, _: table.nfree),
    "BINARY_OP": _as("BINARY_OP", lambda table, symbol: BINARY_SYMBOLS.index(symbol)),
    "COMPARE_OP": _compare(False),
    "CALL": _call,
    "LOAD_SUPER_ATTR": _super(0),
    "LOAD_SUPER_METHOD": _super(1),
}
if VERSION < (3, 13):
    LOWER |= {
        "TO_BOOL": lambda table, _: [("UNARY_NOT", 0), ("UNARY_NOT", 0)],
        "CONVERT_VALUE": _as("FORMAT_VALUE", lambda table, how: how),
        "FORMAT_SIMPLE": _as("FORMAT_VALUE", lambda table, _: 0),
        "FORMAT_WITH_SPEC": _as("FORMAT_VALUE", lambda table, _: 4),
    }
if VERSION == (3, 11):
    LOWER |= {
        "LOAD_FAST_CHECK": _as("LOAD_FAST", lambda table, name: table.fast(name)),
        "LOAD_FAST_AND_CLEAR": lambda table, name: [("LOAD_FAST", table.fast(name)), ("DELETE_FAST", table.fast(name))],
        "END_SEND": lambda table, _: [],
        **{
            op: _missing
            for op in (
                "LOAD_SUPER_ATTR",
                "LOAD_SUPER_METHOD",
                "CALL_INTRINSIC_1",
                "CALL_INTRINSIC_2",
                "CLEANUP_THROW",
                "LOAD_FROM_DICT_OR_DEREF",
                "LOAD_FROM_DICT_OR_GLOBALS",
                "LOAD_LOCALS",
            )
        },
    }
if VERSION >= (3, 12):
    LOWER |= {
        "LOAD_ATTR": _as("LOAD_ATTR", lambda table, name: table.name(name) << 1),
        "LOAD_METHOD": _as("LOAD_ATTR", lambda table, name: table.name(name) << 1 | 1),
        "LOAD_CLASSDEREF": _missing,
        "IMPORT_STAR": _missing,
        "PRINT_EXPR": _missing,
    }
    LOWER |= {op: lambda table, _, number=number: [("CALL_INTRINSIC_1", number)] for number, op in INTRINSICS_1.items()}
    LOWER |= {op: lambda table, _, number=number: [("CALL_INTRINSIC_2", number)] for number, op in INTRINSICS_2.items()}
if VERSION >= (3, 13):
    LOWER |= {
        "LOAD_CLOSURE": _as("LOAD_FAST", lambda table, name: table.deref(name)),
        "MAKE_FUNCTION": _make_function,
        **{op: lambda table, _, op=op: [("TO_BOOL", 0), (op, 0)] for op in _IMPLIES_TRUTH},
    }

# Neighbours that the running version writes as one: (ops) -> function(table, *argvals) -> units or None
FUSE: dict[tuple[str, ...], Callable] = {
    call_pair("LOAD_GLOBAL", "PUSH_NULL"): lambda table, *names: [("LOAD_GLOBAL", table.name(call_pair(*names)[0]) << 1 | 1)]
}
if VERSION < (3, 13):
    FUSE[("CONVERT_VALUE", "FORMAT_SIMPLE")] = lambda table, how, _: [("FORMAT_VALUE", how)]
    FUSE[("SWAP", "CONVERT_VALUE", "SWAP", "FORMAT_WITH_SPEC")] = lambda table, depth, how, back, _: (
        [("FORMAT_VALUE", how | 4)] if depth == back == 2 else None
    )
if VERSION >= (3, 12):
    FUSE[("LOAD_CONST", "RETURN_VALUE")] = lambda table, value, _: [("RETURN_CONST", table.const(value))]
    FUSE[("BUILD_SLICE", "BINARY_SUBSCR")] = lambda table, parts, _: [("BINARY_SLICE", 0)] if parts == 2 else None
    FUSE[("BUILD_SLICE", "STORE_SUBSCR")] = lambda table, parts, _: [("STORE_SLICE", 0)] if parts == 2 else None
if VERSION >= (3, 13):
    _BOOLS = {op: LOWER[op] for op in ("IS_OP", "CONTAINS_OP", "CHECK_EXC_MATCH", "MATCH_MAPPING", "MATCH_SEQUENCE")} | {
        "COMPARE_OP": _compare(True)
    }
    for _first, _write in _BOOLS.items():
        for _second in _IMPLIES_TRUTH:
            FUSE[(_first, _second)] = lambda table, argval, _, write=_write, op=_second: [*write(table, argval), (op, 0)]

    def _two_slots(name: str) -> Any:
        def lower_two(table: Any, first: Any, second: Any) -> Any:
            slots = table.fast(first), table.fast(second)
            return [(name, slots[0] << 4 | slots[1])] if max(slots) < 16 else None

        return lower_two

    for _first, _second in (("LOAD_FAST", "LOAD_FAST"), ("STORE_FAST", "LOAD_FAST"), ("STORE_FAST", "STORE_FAST")):
        FUSE[(_first, _second)] = _two_slots(f"{_first}_{_second}")

_FUSE_BY_FIRST = {
    first: sorted((ops for ops in FUSE if ops[0] == first), key=len, reverse=True) for first in {ops[0] for ops in FUSE}
}
LOOP_END = {(3, 11): (), (3, 12): ("END_FOR",)}.get(VERSION, ("END_FOR", "POP_TOP"))  # where an exhausted FOR_ITER arrives
# 3.13 looks for the handler of an exception that comes out of an inlined call one unit before the calling instruction
INLINES_CALLS = (
    {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_ATTR", "BINARY_SUBSCR", "FOR_ITER", "SEND"}
    if VERSION >= (3, 13)
    else frozenset()
)
_OPPOSITE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}


def _fused(table: Any, instrs: list, at: int, targets: set) -> tuple | None:
    """(instructions used, code units) for the neighbours that start at `at`, or None."""
    first = instrs[at]
    for ops in _FUSE_BY_FIRST.get(first.op, ()):
        group = instrs[at : at + len(ops)]
        if (
            tuple(instr.op for instr in group) == ops
            and not any(instr in targets for instr in group[1:])
            and all(instr.handler == first.handler for instr in group)
        ):
            written = FUSE[ops](table, *(instr.argval for instr in group))
            if written and (len(written) == len(ops) or all(instr.position == first.position for instr in group)):
                return len(ops), written
    return None


def lower(instrs: list, table: Any) -> tuple:
    """Normal instructions as Low units, and where each instruction that may be jumped to starts (Instr -> Low).

    `table` numbers constants, names and slots: methods const, name, fast, deref; nfree.
    """
    targets = {instr.target for instr in instrs} | {instr.handler.target for instr in instrs if instr.handler}
    ends = {instr.target: instr.derive("END_FOR") for instr in instrs if instr.op == "FOR_ITER" and LOOP_END}
    out, start, waiting, at = [], {}, [], 0

    def write(group: list, pairs: list, target: Any = None) -> None:
        lows = [LoweredUnit(name, arg, group[min(index, len(group) - 1)]) for index, (name, arg) in enumerate(pairs)]
        if lows and lows[0].name in INLINES_CALLS and group[0].handler:
            if not out or out[-1].instr.handler != group[0].handler:
                lows.insert(0, LoweredUnit("NOP", 0, group[0]))
        if lows:
            lows[-1].target = target
            start.update((label, lows[0]) for label in waiting)
            waiting.clear()
        out.extend(lows)

    while at < len(instrs):
        instr = instrs[at]
        if instr in ends:
            if at and instrs[at - 1].op not in NO_FALLTHROUGH:
                write(instrs[at - 1 : at], [("JUMP", 0)], instr)
            waiting.append(ends[instr])
            write([ends[instr]], [(name, 0) for name in LOOP_END])
        waiting.append(instr)
        used, pairs = _fused(table, instrs, at, targets) or (1, LOWER[instr.op](table, instr.argval))
        last = instrs[at + used - 1]
        write(instrs[at : at + used], pairs, ends.get(last.target, last.target) if last.op == "FOR_ITER" else last.target)
        at += used
    return _direct(out, start)


def _direct(lows: list, start: dict) -> tuple:
    """Give jumps the names of their direction; a conditional jump that can't go backward is turned round a JUMP."""
    at = {low: index for index, low in enumerate(lows)}
    out = []
    for index, low in enumerate(lows):
        out.append(low)
        if low.target is None:
            continue
        backward = at[start[low.target]] <= index
        if low.name in ("JUMP", "JUMP_NO_INTERRUPT"):
            low.name = ("JUMP_BACKWARD_NO_INTERRUPT" if low.name != "JUMP" else "JUMP_BACKWARD") if backward else "JUMP_FORWARD"
        elif low.name in _OPPOSITE and VERSION == (3, 11):
            low.name = low.name.replace("POP_JUMP", "POP_JUMP_BACKWARD" if backward else "POP_JUMP_FORWARD")
        elif low.name in _OPPOSITE and backward:
            after = LoweredUnit("NOP", 0, low.instr)
            out += [LoweredUnit("JUMP_BACKWARD", 0, low.instr, low.target), after]
            low.name, low.target = _OPPOSITE[low.name], after
            start[after] = after
        elif backward:
            raise InternalError(f"bytecode: {low.name} can't jump backward")
    return out, start
