"""The normal form of bytecode, and every difference between CPython 3.11, 3.12 and 3.13.

In: code units as the running version writes them. Out: normal ops (`NORMAL_OPS`: name -> what argval holds, stack effect,
meaning), and back again (`prepare`, `lower`). The idea: a consumer writes one method per normal op and never asks for the version.

What the normal form settles:
- one thing per op: fused ops are split, EXTENDED_ARG, CACHE, PRECALL, KW_NAMES, END_FOR and RETURN_CONST are gone;
- **call pair**: below the arguments of CALL and CALL_FUNCTION_EX lie two slots (a, b), and at most one is NULL:
  a is NULL -> call b(...);  b is NULL -> call a(...);  neither -> call a(b, ...).  Slots keep the order of the running version, so
  a symbolic stack is the real stack; what pushes a pair asks `call_pair(callable, null)` for the order;
- conditional jumps and UNARY_NOT test the truth of any object (TO_BOOL is implied; it remains only where nothing follows to imply it);
- FOR_ITER and jumps name the instruction that runs next: an exhausted FOR_ITER has popped its iterator when it arrives there;
- slices are BUILD_SLICE 2 + subscript, formatting is CONVERT_VALUE + FORMAT_SIMPLE / FORMAT_WITH_SPEC, `x or y` is COPY 1 + jump + POP_TOP,
  MAKE_FUNCTION takes its attributes by flags, SEND always leaves its receiver for END_SEND;
- names instead of indices. In `fast` ops a name that is also in co_cellvars means the raw slot, which holds the cell object
  (inlined comprehensions of 3.12 do that around MAKE_CELL).

The tables are our own instead of the `bytecode` package: local slots keep their numbers, handler depths are never recomputed, and a round trip costs less.
"""
import opcode
import sys
from typing import Callable, NamedTuple

from ..runtime.errors import InternalError

VERSION = sys.version_info[:2]
SUPPORTED = (3, 11) <= VERSION <= (3, 13)
NULL_FIRST = VERSION < (3, 13)  # a call pair is (NULL, callable) before 3.13 and (callable, NULL) from then on
CACHES = opcode._inline_cache_entries  # how many CACHE units follow an op: by number up to 3.12, by name after
BINARY_SYMBOLS = tuple(symbol for _, symbol in opcode._nb_ops)
COMPARE_SYMBOLS = ("<", "<=", "==", "!=", ">", ">=")


def call_pair(callable_, null):
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
    """kind: what argval holds. pops/pushes: ints, or functions of argval; they move the top, entries below stay. jump: (pops, pushes) when it jumps."""
    kind: str
    pops: int | Callable
    pushes: int | Callable
    doc: str
    jump: tuple[int, int] | None = None


NORMAL_OPS: dict[str, NormalOp] = {}


def _ops(kind, pops, pushes, doc, *names, jump=None):
    for name in names or (doc.split()[0],):
        NORMAL_OPS[name] = NormalOp(kind, pops, pushes, doc, jump)


# kind "none": argval is None; "int"; "const": the object; "name"; "fast": local name; "deref": cell or free name; "jump": None, see Instr.target
_ops("none", 0, 0, "NOP; RESUME and COPY_FREE_VARS also do nothing for an interpreter", "NOP")
_ops("int", 0, 0, "start of a function, or after a yield (argval: where, kept for the round trip)", "RESUME")
_ops("int", 0, 0, "closure cells into the free slots (argval: how many)", "COPY_FREE_VARS")
_ops("deref", 0, 0, "slot becomes a new cell that holds what the slot held (or nothing)", "MAKE_CELL")
_ops("none", 1, 0, "pop", "POP_TOP")
_ops("int", 0, 1, "push a copy of the argval-th entry, 1 = top", "COPY")
_ops("int", 0, 0, "exchange the top with the argval-th entry, 1 = top", "SWAP")
_ops("none", 0, 1, "push NULL", "PUSH_NULL")
_ops("const", 0, 1, "push argval", "LOAD_CONST")
_ops("fast", 0, 1, "push a local; UnboundLocalError if it has no value", "LOAD_FAST", "LOAD_FAST_CHECK")
_ops("fast", 0, 1, "push a local's value or NULL, and leave it without value", "LOAD_FAST_AND_CLEAR")
_ops("fast", 1, 0, "pop into a local; NULL leaves it without value", "STORE_FAST")
_ops("fast", 0, 0, "local loses its value; UnboundLocalError if it has none", "DELETE_FAST")
_ops("deref", 0, 1, "push the cell object itself", "LOAD_CLOSURE")
_ops("deref", 0, 1, "push a cell's content; NameError/UnboundLocalError if empty", "LOAD_DEREF")
_ops("deref", 1, 0, "pop into a cell", "STORE_DEREF")
_ops("deref", 0, 0, "empty a cell; error if it is empty", "DELETE_DEREF")
_ops("deref", 0, 1, "class bodies on 3.11: locals, else the cell", "LOAD_CLASSDEREF")
_ops("deref", 1, 1, "class bodies from 3.12: (mapping -- value), else the cell", "LOAD_FROM_DICT_OR_DEREF")
_ops("name", 1, 1, "(mapping -- value), else global, else builtin", "LOAD_FROM_DICT_OR_GLOBALS")
_ops("none", 0, 1, "push the locals mapping of a class body", "LOAD_LOCALS")
_ops("name", 0, 1, "push global, else builtin; NameError (never pushes NULL: a PUSH_NULL stands beside it)", "LOAD_GLOBAL")
_ops("name", 1, 0, "pop into a global", "STORE_GLOBAL")
_ops("name", 0, 0, "delete a global", "DELETE_GLOBAL")
_ops("name", 0, 1, "module and class bodies: local, global, builtin", "LOAD_NAME")
_ops("name", 1, 0, "module and class bodies", "STORE_NAME")
_ops("name", 0, 0, "module and class bodies", "DELETE_NAME")
_ops("none", 0, 1, "push builtins.__build_class__", "LOAD_BUILD_CLASS")
_ops("none", 0, 0, "make __annotations__ (module and class bodies)", "SETUP_ANNOTATIONS")
_ops("none", 0, 1, "push AssertionError", "LOAD_ASSERTION_ERROR")
_ops("name", 1, 1, "(obj -- obj.argval)", "LOAD_ATTR")
_ops("name", 1, 2, "(obj -- pair): (unbound method, obj), or call_pair(obj.argval, NULL)", "LOAD_METHOD")
_ops("name", 2, 0, "(value, obj --): obj.argval = value", "STORE_ATTR")
_ops("name", 1, 0, "(obj --): del obj.argval", "DELETE_ATTR")
_ops("super", 3, 1, "(super, class, self -- attribute); argval SuperShape", "LOAD_SUPER_ATTR")
_ops("super", 3, 2, "(super, class, self -- pair); argval SuperShape", "LOAD_SUPER_METHOD")
_ops("none", 2, 1, "(obj, key -- obj[key])", "BINARY_SUBSCR")
_ops("none", 3, 0, "(value, obj, key --): obj[key] = value", "STORE_SUBSCR")
_ops("none", 2, 0, "(obj, key --): del obj[key]", "DELETE_SUBSCR")
_ops("none", 1, 1, "unary operator on the top; UNARY_NOT tests the truth of any object", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "UNARY_POSITIVE")
_ops("none", 1, 1, "(obj -- bool(obj))", "TO_BOOL")
_ops("binary", 2, 1, "(left, right -- result); argval is the symbol: '+', '@', '+=' ...", "BINARY_OP")
_ops("compare", 2, 1, "(left, right -- result); argval is the symbol: '<', '==' ...; the result may be any object", "COMPARE_OP")
_ops("int", 2, 1, "(left, right -- bool): left is right; argval 1: is not", "IS_OP")
_ops("int", 2, 1, "(left, right -- bool): left in right; argval 1: not in", "CONTAINS_OP")
_ops("int", lambda n: n, 1, "argval entries into one", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE")
_ops("int", lambda n: 2 * n, 1, "argval pairs key, value into a dict", "BUILD_MAP")
_ops("int", lambda n: n + 1, 1, "argval values and a tuple of keys into a dict", "BUILD_CONST_KEY_MAP")
_ops("int", 1, 0, "pop into the list/set that is then the argval-th entry", "LIST_APPEND", "SET_ADD", "LIST_EXTEND", "SET_UPDATE")
_ops("int", 1, 0, "pop a mapping into the dict that is then the argval-th entry; MERGE refuses double keys (a call's **kw)", "DICT_UPDATE", "DICT_MERGE")
_ops("int", 2, 0, "pop key, value into the dict that is then the argval-th entry", "MAP_ADD")
_ops("none", 1, 1, "(list -- tuple)", "LIST_TO_TUPLE")
_ops("int", 1, lambda n: n, "pop a sequence of exactly argval items; the first ends on top", "UNPACK_SEQUENCE")
_ops("int", 1, lambda n: (n & 255) + 1 + (n >> 8), "as UNPACK_SEQUENCE with a starred list: argval & 255 items before it, argval >> 8 after", "UNPACK_EX")
_ops("int", 1, 1, "f-string conversion: 1 str, 2 repr, 3 ascii", "CONVERT_VALUE")
_ops("none", 1, 1, "(value -- format(value)); a str stays itself", "FORMAT_SIMPLE")
_ops("none", 2, 1, "(value, spec -- format(value, spec))", "FORMAT_WITH_SPEC")
_ops("call", lambda c: c.count + 2, 1, "(pair, args... -- result); argval CallShape(count, kwnames)", "CALL")
_ops("int", lambda n: 3 + (n & 1), 1, "(pair, args iterable, [kwargs mapping if argval & 1] -- result); one of the pair is NULL", "CALL_FUNCTION_EX")
_ops("int", lambda n: 1 + n.bit_count(), 1, "(code on top; below it, as flagged, 8 closure tuple, 4 annotations, 2 kwdefaults, 1 defaults -- function)", "MAKE_FUNCTION")
_ops("none", 1, 0, "return the top", "RETURN_VALUE")
_ops("jump", 0, 0, "go to target", "JUMP", "JUMP_NO_INTERRUPT")
_ops("jump", 1, 0, "pop, jump if its truth is so", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", jump=(1, 0))
_ops("jump", 1, 0, "pop, jump if it is (not) None", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", jump=(1, 0))
_ops("none", 1, 1, "(iterable -- iterator)", "GET_ITER")
_ops("jump", 0, 1, "(iterator -- iterator, next value); when exhausted pop the iterator and jump", "FOR_ITER", jump=(1, 0))
_ops("none", 0, 1, "(obj -- obj, len(obj))", "GET_LEN")
_ops("none", 0, 1, "(subject -- subject, bool)", "MATCH_MAPPING", "MATCH_SEQUENCE")
_ops("none", 0, 1, "(subject, keys -- subject, keys, values tuple or None)", "MATCH_KEYS")
_ops("int", 3, 1, "(subject, class, keyword names -- attributes tuple or None); argval positional patterns", "MATCH_CLASS")
_ops("name", 2, 1, "(level, fromlist -- module)", "IMPORT_NAME")
_ops("name", 0, 1, "(module -- module, attribute)", "IMPORT_FROM")
_ops("none", 1, 0, "module level", "IMPORT_STAR", "PRINT_EXPR")
_ops("int", lambda n: n, 0, "0: re-raise the current exception; 1: raise it; 2: raise it from a cause", "RAISE_VARARGS")
_ops("int", 1, 0, "raise the popped exception again; argval > 0: the argval-th entry is then the lasti to report", "RERAISE")
_ops("none", 1, 2, "(exc -- previous current exception or None, exc); exc becomes current", "PUSH_EXC_INFO")
_ops("none", 1, 0, "pop: it becomes the current exception again", "POP_EXCEPT")
_ops("none", 1, 1, "(exc, type -- exc, bool)", "CHECK_EXC_MATCH")
_ops("none", 2, 2, "(group, type -- rest, matching group or None)", "CHECK_EG_MATCH")
_ops("none", 2, 1, "(original, list of exceptions -- exception or None): end of except*", "PREP_RERAISE_STAR")
_ops("none", 1, 2, "(manager -- bound __exit__, result of __enter__)", "BEFORE_WITH")
_ops("none", 0, 1, "(exit, lasti, previous, exc -- ..., exit(type, exc, tb))", "WITH_EXCEPT_START")
_ops("none", 0, 1, "generators: create, return and push (a POP_TOP follows on resumption)", "RETURN_GENERATOR")
_ops("int", 1, 1, "generators: (value -- what send() gave)", "YIELD_VALUE")
_ops("jump", 0, 0, "(receiver, value -- receiver, yielded); when the receiver returns: (receiver, returned) and jump", "SEND", jump=(0, 0))
_ops("none", 2, 1, "(receiver, value -- value)", "END_SEND")
_ops("none", 3, 2, "(receiver, sent, exc -- None, value) if exc is StopIteration, else raise exc", "CLEANUP_THROW")
_ops("none", 1, 1, "generators and coroutines", "GET_YIELD_FROM_ITER", "ASYNC_GEN_WRAP", "STOPITERATION_ERROR", "GET_AITER")
_ops("int", 1, 1, "(awaitable -- iterator)", "GET_AWAITABLE")
_ops("none", 0, 1, "(aiter -- aiter, awaitable)", "GET_ANEXT")
_ops("none", 2, 0, "(aiter, exc --) if exc is StopAsyncIteration, else raise exc", "END_ASYNC_FOR")
_ops("none", 1, 2, "(manager -- bound __aexit__, awaitable)", "BEFORE_ASYNC_WITH")
_ops("int", 1, 1, "type parameters and module-level things from 3.12; argval is CPython's number", "CALL_INTRINSIC_1")
_ops("int", 2, 1, "type parameters from 3.12; argval is CPython's number", "CALL_INTRINSIC_2")

NO_FALLTHROUGH = frozenset({"JUMP", "JUMP_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})


def effect(op, argval, jump=False):
    """Stack effect of a normal op: (pops, pushes)."""
    form = NORMAL_OPS[op]
    if jump and form.jump:
        return form.jump
    pops, pushes = form.pops, form.pushes
    return (pops(argval) if callable(pops) else pops), (pushes(argval) if callable(pushes) else pushes)


# ---- code units -> normal ops -----------------------------------------------------------------------------------------------

class Unit(NamedTuple):
    """One instruction as the running version has it: CACHE left out, EXTENDED_ARG folded into arg. `after` is the next one's offset."""
    offset: int
    name: str
    arg: int
    after: int


def caches_of(name):
    return CACHES.get(name, 0) if isinstance(CACHES, dict) else CACHES[opcode.opmap[name]]


def units(code):
    """The instructions of a code object as Units."""
    raw, at, start, arg = code.co_code, 0, 0, 0
    while at < len(raw):
        name, arg = opcode.opname[raw[at]], arg << 8 | raw[at + 1]
        at += 2
        if name != "EXTENDED_ARG":
            at += 2 * caches_of(name)
            yield Unit(start, name, arg, at)
            start, arg = at, 0


class CodeNames:
    """The tables of a code object that arguments index: constants, names, and slots (locals, cells, free)."""

    def __init__(self, code):
        self.consts, self.names, self.cells = code.co_consts, code.co_names, frozenset(code.co_cellvars)
        self.nlocals = len(code.co_varnames)
        self.slots = slot_names(code.co_varnames, code.co_cellvars, code.co_freevars)


def slot_names(varnames, cellvars, freevars):
    """Names of a frame's slots in order; a cell that is also a local shares the local's slot."""
    return (*varnames, *(name for name in cellvars if name not in varnames), *freevars)


def _jump(op, sign=1, skip=0):
    """Lift of a jump: argval is the offset it arrives at; `skip` leaves out loop-end units there."""
    return lambda table, unit: [(op, unit.after + 2 * sign * unit.arg + skip)]


def _fast(op):
    return lambda table, unit: [(op, table.slots[unit.arg])]


def _is(op, argval=None):
    return lambda table, unit: [(op, argval)]


def _global(table, unit):
    load = ("LOAD_GLOBAL", table.names[unit.arg >> 1])
    return list(call_pair(load, ("PUSH_NULL", None))) if unit.arg & 1 else [load]


def _method_bit(table, unit):
    return [("LOAD_METHOD" if unit.arg & 1 else "LOAD_ATTR", table.names[unit.arg >> 1])]


def _super_attr(table, unit):
    shape = SuperShape(table.names[unit.arg >> 2], bool(unit.arg & 2))
    return [("LOAD_SUPER_METHOD" if unit.arg & 1 else "LOAD_SUPER_ATTR", shape)]


def _load_fast_or_cell(table, unit):
    """3.13 has no LOAD_CLOSURE: it loads the cell with LOAD_FAST."""
    name = table.slots[unit.arg]
    return [("LOAD_CLOSURE" if unit.arg >= table.nlocals or name in table.cells else "LOAD_FAST", name)]


def _two_fast(first, second):
    def lift(table, unit):
        ops = (first, unit.arg >> 4), (second, unit.arg & 15)
        return [pair for op, slot in ops for pair in LIFT.get(op, _fast(op))(table, Unit(unit.offset, op, slot, unit.after))]
    return lift


def _or_pop(op):
    return lambda table, unit: [("COPY", 1), (op, unit.after + 2 * unit.arg), ("POP_TOP", None)]


def _format_value(table, unit):
    """3.11 and 3.12 convert after the format spec was computed."""
    convert = [("CONVERT_VALUE", unit.arg & 3)] if unit.arg & 3 else []
    if not unit.arg & 4:
        return [*convert, ("FORMAT_SIMPLE", None)]
    swap = [("SWAP", 2)] if convert else []
    return [*swap, *convert, *swap, ("FORMAT_WITH_SPEC", None)]


INTRINSICS_1 = {3: "STOPITERATION_ERROR", 4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
INTRINSICS_2 = {1: "PREP_RERAISE_STAR"}


def _intrinsic(op, known):
    return lambda table, unit: [(known[unit.arg], None) if unit.arg in known else (op, unit.arg)]


LIFT: dict[str, Callable] = {
    "LOAD_GLOBAL": _global,
    "BINARY_OP": lambda table, unit: [("BINARY_OP", BINARY_SYMBOLS[unit.arg])],
    "CALL": lambda table, unit: [("CALL", CallShape(unit.arg))],
    "JUMP_FORWARD": _jump("JUMP"), "JUMP_BACKWARD": _jump("JUMP", -1), "JUMP_BACKWARD_NO_INTERRUPT": _jump("JUMP_NO_INTERRUPT", -1),
    "SEND": _jump("SEND"),
}
if VERSION == (3, 11):
    LIFT |= {
        "COMPARE_OP": lambda table, unit: [("COMPARE_OP", COMPARE_SYMBOLS[unit.arg])],
        "PRECALL": lambda table, unit: [],
        "KW_NAMES": lambda table, unit: [("KW_NAMES", table.consts[unit.arg])],
        "FORMAT_VALUE": _format_value,
        "FOR_ITER": _jump("FOR_ITER"),
        "JUMP_IF_TRUE_OR_POP": _or_pop("POP_JUMP_IF_TRUE"), "JUMP_IF_FALSE_OR_POP": _or_pop("POP_JUMP_IF_FALSE"),
    }
    LIFT |= {f"POP_JUMP_{way}_IF_{test}": _jump(f"POP_JUMP_IF_{test}", sign)
             for test in ("TRUE", "FALSE", "NONE", "NOT_NONE") for way, sign in (("FORWARD", 1), ("BACKWARD", -1))}
if VERSION >= (3, 12):
    LIFT |= {f"POP_JUMP_IF_{test}": _jump(f"POP_JUMP_IF_{test}") for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")}
    LIFT |= {
        "LOAD_ATTR": _method_bit, "LOAD_SUPER_ATTR": _super_attr,
        "RETURN_CONST": lambda table, unit: [("LOAD_CONST", table.consts[unit.arg]), ("RETURN_VALUE", None)],
        "BINARY_SLICE": lambda table, unit: [("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)],
        "STORE_SLICE": lambda table, unit: [("BUILD_SLICE", 2), ("STORE_SUBSCR", None)],
        "CALL_INTRINSIC_1": _intrinsic("CALL_INTRINSIC_1", INTRINSICS_1), "CALL_INTRINSIC_2": _intrinsic("CALL_INTRINSIC_2", INTRINSICS_2),
    }
if VERSION == (3, 12):
    LIFT |= {
        "COMPARE_OP": lambda table, unit: [("COMPARE_OP", COMPARE_SYMBOLS[unit.arg >> 4])],
        "KW_NAMES": lambda table, unit: [("KW_NAMES", table.consts[unit.arg])],
        "FORMAT_VALUE": _format_value,
        "FOR_ITER": _jump("FOR_ITER", skip=2), "END_FOR": lambda table, unit: [],
    }
if VERSION >= (3, 13):
    LIFT |= {
        "LOAD_FAST": _load_fast_or_cell,
        "LOAD_FAST_LOAD_FAST": _two_fast("LOAD_FAST", "LOAD_FAST"), "STORE_FAST_LOAD_FAST": _two_fast("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": _two_fast("STORE_FAST", "STORE_FAST"),
        "COMPARE_OP": lambda table, unit: [("COMPARE_OP", COMPARE_SYMBOLS[unit.arg >> 5])] + [("TO_BOOL", None)] * bool(unit.arg & 16),
        "CALL_KW": lambda table, unit: [("CALL_KW", unit.arg)],
        "SET_FUNCTION_ATTRIBUTE": lambda table, unit: [("SET_FUNCTION_ATTRIBUTE", unit.arg)],
        "MAKE_FUNCTION": _is("MAKE_FUNCTION", 0),
        "FOR_ITER": _jump("FOR_ITER", skip=4), "END_FOR": _is("END_FOR"),
    }

_ARGVAL = {
    "none": lambda table, arg: None, "int": lambda table, arg: arg, "const": lambda table, arg: table.consts[arg],
    "name": lambda table, arg: table.names[arg], "fast": lambda table, arg: table.slots[arg], "deref": lambda table, arg: table.slots[arg],
}


def lift(table, unit):
    """One Unit as (normal op, argval) pairs; the argval of a jump is an offset. Some are half done until `merge` has seen what follows."""
    special = LIFT.get(unit.name)
    if special:
        return special(table, unit)
    form = NORMAL_OPS.get(unit.name)
    if form is None or form.kind not in _ARGVAL:
        raise InternalError(f"bytecode: {unit.name} at offset {unit.offset} is unknown on Python {VERSION[0]}.{VERSION[1]}")
    return [(unit.name, _ARGVAL[form.kind](table, unit.arg))]


_IMPLIES_TRUTH = {"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT"}


def merge(before, op, argval):
    """Given the pair before, what a pair becomes: (drop the one before?, new pair or None). Joins what versions spread over two ops."""
    last, value = before
    if last == "KW_NAMES":
        return True, (op, CallShape(argval.count, value))
    if last == "TO_BOOL" and op in _IMPLIES_TRUTH:
        return True, (op, argval)
    if last == "END_FOR":
        return True, None  # the POP_TOP after END_FOR
    if op == "CALL_KW":
        return True, ("CALL", CallShape(argval, value))  # the names were pushed by the LOAD_CONST before
    if op == "SET_FUNCTION_ATTRIBUTE":
        return True, ("MAKE_FUNCTION", value | argval)
    return False, (op, argval)


def normalise_sends(instrs):
    """3.11's SEND pops its receiver when that returns; give it the END_SEND that later versions write."""
    if VERSION >= (3, 12):
        return instrs
    ends = {instr.target: instr.target.derive("END_SEND") for instr in instrs if instr.op == "SEND"}
    for instr in instrs:
        instr.target = ends.get(instr.target, instr.target) if instr.op == "SEND" else instr.target
    return [new for instr in instrs for new in ((ends[instr], instr) if instr in ends else (instr,))]


# ---- normal ops -> code units -----------------------------------------------------------------------------------------------

class Low:
    """One code unit to be written: name and arg of the running version; a jump's arg is settled by the layout."""
    __slots__ = ("name", "arg", "instr", "target")

    def __init__(self, name, arg, instr, target=None):
        self.name, self.arg, self.instr, self.target = name, arg, instr, target


def _plain(op):
    kind = NORMAL_OPS[op].kind
    if kind == "none" or kind == "jump":
        return lambda table, argval: [(op, 0)]
    if kind == "int":
        return lambda table, argval: [(op, argval)]
    return lambda table, argval: [(op, getattr(table, kind)(argval))]


def _as(name, argument):
    return lambda table, argval: [(name, argument(table, argval))]


COMPARE_MASKS = (2, 10, 8, 7, 4, 12)  # specialised compares test these bits: 1 unordered, 2 less, 4 greater, 8 equal


def _compare(as_bool):
    def lower_compare(table, argval):
        index = COMPARE_SYMBOLS.index(argval)
        if VERSION == (3, 11):
            return [("COMPARE_OP", index)]
        shift = 4 if VERSION == (3, 12) else 5
        return [("COMPARE_OP", index << shift | COMPARE_MASKS[index] | 16 * as_bool)]
    return lower_compare


def _call(table, argval):
    count, kwnames = argval
    if VERSION >= (3, 13):
        return [("LOAD_CONST", table.const(kwnames)), ("CALL_KW", count)] if kwnames else [("CALL", count)]
    names = [("KW_NAMES", table.const(kwnames))] if kwnames else []
    return [*names, *([("PRECALL", count)] if VERSION == (3, 11) else []), ("CALL", count)]


def _make_function(table, flags):
    return [("MAKE_FUNCTION", 0)] + [("SET_FUNCTION_ATTRIBUTE", bit) for bit in (8, 4, 2, 1) if flags & bit]


def _missing(table, argval):
    raise InternalError(f"bytecode: an op without counterpart on Python {VERSION[0]}.{VERSION[1]} (argument {argval!r})")


def _super(method):
    return _as("LOAD_SUPER_ATTR", lambda table, shape: table.name(shape.name) << 2 | shape.two_arg << 1 | method)


LOWER: dict[str, Callable] = {op: _plain(op) for op, form in NORMAL_OPS.items() if form.kind not in ("super", "call", "binary", "compare")}
LOWER |= {
    "LOAD_GLOBAL": _as("LOAD_GLOBAL", lambda table, name: table.name(name) << 1),
    "COPY_FREE_VARS": _as("COPY_FREE_VARS", lambda table, _: table.nfree),
    "BINARY_OP": _as("BINARY_OP", lambda table, symbol: BINARY_SYMBOLS.index(symbol)),
    "COMPARE_OP": _compare(False), "CALL": _call, "LOAD_SUPER_ATTR": _super(0), "LOAD_SUPER_METHOD": _super(1),
}
if VERSION < (3, 13):
    LOWER |= {
        "TO_BOOL": lambda table, _: [("UNARY_NOT", 0), ("UNARY_NOT", 0)],
        "CONVERT_VALUE": _as("FORMAT_VALUE", lambda table, how: how), "FORMAT_SIMPLE": _as("FORMAT_VALUE", lambda table, _: 0),
        "FORMAT_WITH_SPEC": _as("FORMAT_VALUE", lambda table, _: 4),
    }
if VERSION == (3, 11):
    LOWER |= {
        "LOAD_FAST_CHECK": _as("LOAD_FAST", lambda table, name: table.fast(name)),
        "LOAD_FAST_AND_CLEAR": lambda table, name: [("LOAD_FAST", table.fast(name)), ("DELETE_FAST", table.fast(name))],
        "END_SEND": lambda table, _: [],
        **{op: _missing for op in ("LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "CLEANUP_THROW",
                                   "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_LOCALS")},
    }
if VERSION >= (3, 12):
    LOWER |= {
        "LOAD_ATTR": _as("LOAD_ATTR", lambda table, name: table.name(name) << 1),
        "LOAD_METHOD": _as("LOAD_ATTR", lambda table, name: table.name(name) << 1 | 1),
        "LOAD_CLASSDEREF": _missing, "IMPORT_STAR": _missing, "PRINT_EXPR": _missing,
    }
    LOWER |= {op: lambda table, _, number=number: [("CALL_INTRINSIC_1", number)] for number, op in INTRINSICS_1.items()}
    LOWER |= {op: lambda table, _, number=number: [("CALL_INTRINSIC_2", number)] for number, op in INTRINSICS_2.items()}
if VERSION >= (3, 13):
    LOWER |= {
        "LOAD_CLOSURE": _as("LOAD_FAST", lambda table, name: table.deref(name)),
        "MAKE_FUNCTION": _make_function,
        **{op: lambda table, _, op=op: [("TO_BOOL", 0), (op, 0)] for op in _IMPLIES_TRUTH},
    }

# Neighbours that the running version writes as one, or more cheaply together: (ops) -> function(table, argvals) -> code units or None
FUSE: dict[tuple[str, ...], Callable] = {
    call_pair("LOAD_GLOBAL", "PUSH_NULL"): lambda table, *names: [("LOAD_GLOBAL", table.name(call_pair(*names)[0]) << 1 | 1)],
}
if VERSION < (3, 13):
    FUSE[("CONVERT_VALUE", "FORMAT_SIMPLE")] = lambda table, how, _: [("FORMAT_VALUE", how)]
    FUSE[("SWAP", "CONVERT_VALUE", "SWAP", "FORMAT_WITH_SPEC")] = (
        lambda table, depth, how, back, _: [("FORMAT_VALUE", how | 4)] if depth == back == 2 else None)
if VERSION >= (3, 12):
    FUSE[("LOAD_CONST", "RETURN_VALUE")] = lambda table, value, _: [("RETURN_CONST", table.const(value))]
    FUSE[("BUILD_SLICE", "BINARY_SUBSCR")] = lambda table, parts, _: [("BINARY_SLICE", 0)] if parts == 2 else None
    FUSE[("BUILD_SLICE", "STORE_SUBSCR")] = lambda table, parts, _: [("STORE_SLICE", 0)] if parts == 2 else None
if VERSION >= (3, 13):
    _BOOLS = {op: LOWER[op] for op in ("IS_OP", "CONTAINS_OP", "CHECK_EXC_MATCH", "MATCH_MAPPING", "MATCH_SEQUENCE")} | {"COMPARE_OP": _compare(True)}
    for _first, _write in _BOOLS.items():
        for _second in _IMPLIES_TRUTH:
            FUSE[(_first, _second)] = lambda table, argval, _, write=_write, op=_second: [*write(table, argval), (op, 0)]

    def _two_slots(name):
        def lower_two(table, first, second):
            slots = table.fast(first), table.fast(second)
            return [(name, slots[0] << 4 | slots[1])] if max(slots) < 16 else None
        return lower_two

    for _first, _second in (("LOAD_FAST", "LOAD_FAST"), ("STORE_FAST", "LOAD_FAST"), ("STORE_FAST", "STORE_FAST")):
        FUSE[(_first, _second)] = _two_slots(f"{_first}_{_second}")

_FUSE_BY_FIRST = {first: sorted((ops for ops in FUSE if ops[0] == first), key=len, reverse=True) for first in {ops[0] for ops in FUSE}}
LOOP_END = {(3, 11): (), (3, 12): ("END_FOR",)}.get(VERSION, ("END_FOR", "POP_TOP"))  # where an exhausted FOR_ITER arrives
# 3.13 looks for the handler of an exception that comes out of an inlined call one unit before the calling instruction
INLINES_CALLS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_ATTR", "BINARY_SUBSCR", "FOR_ITER", "SEND"} if VERSION >= (3, 13) else frozenset()
_OPPOSITE = {"POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE", "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
             "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE"}


def _fused(table, instrs, at, targets):
    """(instructions used, code units) for the neighbours that start at `at`, or None."""
    first = instrs[at]
    for ops in _FUSE_BY_FIRST.get(first.op, ()):
        group = instrs[at:at + len(ops)]
        if (tuple(instr.op for instr in group) == ops and not any(instr in targets for instr in group[1:])
                and all(instr.handler == first.handler for instr in group)):
            written = FUSE[ops](table, *(instr.argval for instr in group))
            if written and (len(written) == len(ops) or all(instr.position == first.position for instr in group)):
                return len(ops), written
    return None


def lower(instrs, table):
    """Normal instructions as Low units, and where each instruction that may be jumped to starts (Instr -> Low).

    `table` numbers constants, names and slots: methods const, name, fast, deref; nfree.
    """
    targets = {instr.target for instr in instrs} | {instr.handler.target for instr in instrs if instr.handler}
    ends = {instr.target: instr.target.derive("END_FOR") for instr in instrs if instr.op == "FOR_ITER" and LOOP_END}
    out, start, waiting, at = [], {}, [], 0

    def write(group, pairs, target=None):
        lows = [Low(name, arg, group[min(index, len(group) - 1)]) for index, (name, arg) in enumerate(pairs)]
        if lows and lows[0].name in INLINES_CALLS and group[0].handler and not (out and out[-1].instr.handler == group[0].handler):
            lows.insert(0, Low("NOP", 0, group[0]))
        if lows:
            lows[-1].target = target
            start.update((label, lows[0]) for label in waiting)
            waiting.clear()
        out.extend(lows)

    while at < len(instrs):
        instr = instrs[at]
        if instr in ends:
            if at and instrs[at - 1].op not in NO_FALLTHROUGH:
                write(instrs[at - 1:at], [("JUMP", 0)], instr)
            waiting.append(ends[instr])
            write([instr], [(name, 0) for name in LOOP_END])
        waiting.append(instr)
        used, pairs = _fused(table, instrs, at, targets) or (1, LOWER[instr.op](table, instr.argval))
        last = instrs[at + used - 1]
        write(instrs[at:at + used], pairs, ends.get(last.target, last.target) if last.op == "FOR_ITER" else last.target)
        at += used
    return _direct(out, start)


def _direct(lows, start):
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
            after = Low("NOP", 0, low.instr)
            out += [Low("JUMP_BACKWARD", 0, low.instr, low.target), after]
            low.name, low.target = _OPPOSITE[low.name], after
            start[after] = after
        elif backward:
            raise InternalError(f"bytecode: {low.name} can't jump backward")
    return out, start
