"""A pickle machine of our own for files that are not trusted: weights and plain values, no code.

In: the bytes of a pickle. Out: its object and where it ended. One method per opcode. A global is looked up in a table,
never imported; only functions that check their arguments are called; memory grows with the file's length, not with
numbers in it.
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict
from typing import Any

from ..tensor import Tensor
from .names import CALLS, SAFE, added, name_of, normal
from .rebuild import Malformed, check, set_state

UnpicklingError = pickle.UnpicklingError
OPCODES: dict = {}
_KEY_NODES = 10_000  # the largest key of a dict or set, in tuple elements


class Stop(Exception):
    """The pickle is complete."""


def op(code: bytes, argument: str | None = None):
    """Registers a method for an opcode; `argument` is the struct format of what follows the opcode."""

    def register(method):
        OPCODES[code[0]] = method, struct.Struct("<" + argument) if argument else None
        return method

    return register


class Machine:
    """`persistent_load` answers persistent ids (storages)."""

    def __init__(self, data, start=0, persistent_load=None, encoding="utf-8"):
        self.data, self.position, self.persistent_load, self.encoding = data, start, persistent_load, encoding
        self.stack, self.marks, self.memo = [], [], {}
        self.instances = {}

    def load(self):
        """The object; UnpicklingError names the opcode's place in the pickle."""
        while True:
            if self.position >= len(self.data):
                raise EOFError("Ran out of input")
            at, code = self.position, self.data[self.position]
            self.position += 1
            if code not in OPCODES:
                raise UnpicklingError(f"Unsupported operand {code}")
            method, form = OPCODES[code]
            try:
                method(self, *form.unpack(self.take(form.size))) if form else method(self)
            except Stop:
                return self.stack.pop()
            except (Malformed, IndexError, KeyError, TypeError, ValueError, UnicodeError, OverflowError) as error:
                raise UnpicklingError(f"{type(error).__name__} at byte {at} of the pickle: {error}") from None

    def take(self, count: int):
        end = self.position + count
        check(0 <= count and end <= len(self.data), "the pickle is cut off")
        found = self.data[self.position : end]
        self.position = end
        return found

    def line(self) -> str:
        end = bytes(self.data[self.position : self.position + 4096]).find(b"\n")
        check(end >= 0, "a name has no end")
        return bytes(self.take(end + 1)[:-1]).decode("utf-8")

    def pop(self):
        check(len(self.stack) > (self.marks[-1] if self.marks else 0), "the stack is empty")
        return self.stack.pop()

    def pop_mark(self) -> list:
        check(self.marks, "no mark is set")
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def top(self, *kinds):
        check(self.stack and type(self.stack[-1]) in kinds, f"one of {[k.__name__ for k in kinds]} was expected")
        return self.stack[-1]

    def push(self, value) -> None:
        self.stack.append(value)

    # -- the frame of the pickle

    @op(pickle.PROTO, "B")
    def proto(self, version):
        check(2 <= version <= 5, f"pickle protocol {version}")

    @op(pickle.FRAME, "Q")
    def frame(self, length):
        check(self.position + length <= len(self.data), "a frame is cut off")

    @op(pickle.STOP)
    def stop(self):
        check(len(self.stack) == 1 and not self.marks, "the pickle ends with an unfinished stack")
        raise Stop

    @op(pickle.MARK)
    def mark(self):
        self.marks.append(len(self.stack))

    @op(pickle.POP)
    def pop_op(self):
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.pop()

    @op(pickle.POP_MARK)
    def pop_mark_op(self):
        self.pop_mark()

    @op(pickle.DUP)
    def dup(self):
        self.push(self.stack[-1])

    # -- numbers and text

    @op(pickle.NONE)
    def none(self):
        self.push(None)

    @op(pickle.NEWTRUE)
    def true(self):
        self.push(True)

    @op(pickle.NEWFALSE)
    def false(self):
        self.push(False)

    @op(pickle.BININT, "i")
    def binint(self, value):
        self.push(value)

    op(pickle.BININT1, "B")(binint)
    op(pickle.BININT2, "H")(binint)

    @op(pickle.BINFLOAT, "8s")
    def binfloat(self, raw):
        self.push(struct.unpack(">d", raw)[0])

    @op(pickle.LONG1, "B")
    def long(self, count):
        self.push(int.from_bytes(self.take(count), "little", signed=True))

    op(pickle.LONG4, "i")(long)

    @op(pickle.BINUNICODE, "I")
    def text(self, count):
        self.push(str(self.take(count), "utf-8", "surrogatepass"))

    op(pickle.SHORT_BINUNICODE, "B")(text)
    op(pickle.BINUNICODE8, "Q")(text)

    @op(pickle.BINBYTES, "I")
    def binbytes(self, count):
        self.push(bytes(self.take(count)))

    op(pickle.SHORT_BINBYTES, "B")(binbytes)
    op(pickle.BINBYTES8, "Q")(binbytes)

    @op(pickle.BYTEARRAY8, "Q")
    def binarray(self, count):
        self.push(bytearray(self.take(count)))

    @op(pickle.BINSTRING, "i")
    def string(self, count):
        raw = bytes(self.take(count))
        self.push(raw if self.encoding == "bytes" else raw.decode(self.encoding))

    op(pickle.SHORT_BINSTRING, "B")(string)

    # -- containers

    @op(pickle.EMPTY_TUPLE)
    def empty_tuple(self):
        self.push(())

    @op(pickle.TUPLE)
    def tuple(self):
        self.push(tuple(self.pop_mark()))

    @op(pickle.TUPLE1)
    def tuple1(self):
        self.push((self.pop(),))

    @op(pickle.TUPLE2)
    def tuple2(self):
        b, a = self.pop(), self.pop()
        self.push((a, b))

    @op(pickle.TUPLE3)
    def tuple3(self):
        c, b, a = self.pop(), self.pop(), self.pop()
        self.push((a, b, c))

    @op(pickle.EMPTY_LIST)
    def empty_list(self):
        self.push([])

    @op(pickle.APPEND)
    def append(self):
        value = self.pop()
        self.top(list).append(value)

    @op(pickle.APPENDS)
    def appends(self):
        values = self.pop_mark()
        self.top(list).extend(values)

    @op(pickle.EMPTY_DICT)
    def empty_dict(self):
        self.push({})

    @op(pickle.SETITEM)
    def setitem(self):
        value, key = self.pop(), self.pop()
        self.mapping()[_key(key)] = value

    @op(pickle.SETITEMS)
    def setitems(self):
        items = self.pop_mark()
        check(len(items) % 2 == 0, "a key without a value")
        into = self.mapping()
        for key, value in zip(items[::2], items[1::2]):
            into[_key(key)] = value

    def mapping(self):
        if self.stack and isinstance(self.stack[-1], dict) and self.is_allowed_instance(self.stack[-1]):
            return self.stack[-1]
        return self.top(dict, OrderedDict, *_COUNTERS)

    @op(pickle.EMPTY_SET)
    def empty_set(self):
        self.push(set())

    @op(pickle.ADDITEMS)
    def additems(self):
        values = self.pop_mark()
        self.top(set).update(map(_key, values))

    @op(pickle.FROZENSET)
    def frozenset(self):
        self.push(frozenset(map(_key, self.pop_mark())))

    # -- the memo

    @op(pickle.BINPUT, "B")
    def put(self, k):
        self.memo[k] = self.stack[-1]

    op(pickle.LONG_BINPUT, "I")(put)

    @op(pickle.MEMOIZE)
    def memoize(self):
        self.memo[len(self.memo)] = self.stack[-1]

    @op(pickle.BINGET, "B")
    def get(self, k):
        self.push(self.memo[k])

    op(pickle.LONG_BINGET, "I")(get)

    # -- globals and calls

    @op(pickle.GLOBAL)
    def named(self):
        module, name = self.line(), self.line()
        self.push(resolve(module, name))

    @op(pickle.STACK_GLOBAL)
    def stack_global(self):
        name, module = self.pop(), self.pop()
        check(type(name) is str and type(module) is str, "a global's name is text")
        self.push(resolve(module, name))

    @op(pickle.BINPERSID)
    def persistent(self):
        pid = self.pop()
        if self.persistent_load is None:
            raise UnpicklingError(
                "A load persistent id instruction was encountered, but no persistent_load function was specified."
            )
        self.push(self.persistent_load(pid))

    @op(pickle.REDUCE)
    def reduce(self):
        arguments, function = self.pop(), self.pop()
        check(type(arguments) is tuple, "arguments are not a tuple")
        self.push(self.call(function, arguments))

    def call(self, function, arguments):
        own = CALLS.get(id(function))
        if own is OrderedDict and arguments:
            check(
                len(arguments) == 1
                and type(arguments[0]) is list
                and all(type(pair) in (list, tuple) and len(pair) == 2 for pair in arguments[0]),
                "pairs were expected",
            )
            return OrderedDict((_key(key), value) for key, value in arguments[0])
        if own is not None:
            return own(*[_plain(a) for a in arguments] if own in _HASHING else arguments)
        if not is_added(function):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {function!r:.200}")
        return self.made(function(*arguments))

    @op(pickle.NEWOBJ)
    def newobj(self):
        arguments, cls = self.pop(), self.pop()
        check(type(arguments) is tuple and isinstance(cls, type), "a class and a tuple were expected")
        if cls is OrderedDict and not arguments:
            self.push(OrderedDict())
        elif is_added(cls):
            kind: Any = cls
            self.push(self.made(kind.__new__(kind, *arguments)))
        else:
            raise UnpicklingError(f"Trying to instantiate unrecognized class {cls!r:.200}")

    def made(self, obj):
        """Remembers an instance of a class that the user allowed, so that its state may be set."""
        self.instances[id(obj)] = obj
        return obj

    def is_allowed_instance(self, obj) -> bool:
        return self.instances.get(id(obj)) is obj

    @op(pickle.BUILD)
    def build(self):
        state = self.pop()
        obj = self.stack[-1]
        if self.is_allowed_instance(obj):
            setter = getattr(obj, "__setstate__", None)
            if setter is not None:
                setter(state)
            else:
                set_state(obj, state)
        elif type(obj) is OrderedDict or isinstance(obj, Tensor):
            set_state(obj, state)
        else:
            raise UnpicklingError(
                f"Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got {type(obj)}"
            )


_COUNTERS = (SAFE["collections", "Counter"],)
_HASHING = (CALLS[id(set)], CALLS[id(_COUNTERS[0])])


def _plain(values):
    """The argument of a set or Counter, its elements checked as keys."""
    for value in values if isinstance(values, (list, tuple, dict)) else ():
        _key(value)
    return values


def _key(value):
    """The value, fit to be hashed: nested tuples that share parts would take exponential time."""
    left = [_KEY_NODES]

    def walk(v):
        left[0] -= 1
        check(left[0] > 0, "a key is too large")
        if isinstance(v, (tuple, frozenset)):
            for each in v:
                walk(each)

    if isinstance(value, (tuple, frozenset)):
        walk(value)
    return value


def is_added(obj) -> bool:
    return any(obj is allowed for allowed in added.table.values())


def resolve(module: str, name: str):
    """What an allowed global stands for; UnpicklingError tells how to allow others."""
    module = normal(module)
    for table in (added.table, SAFE):
        if (module, name) in table:
            return table[module, name]
    full = f"{module}.{name}"
    if module.partition(".")[0] in _BLOCKED:
        raise UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
    raise UnpicklingError(
        f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{full}])` or the `torch.serialization.safe_globals([{full}])` context "
        "manager to allowlist this global if you trust this class/function."
    )


_BLOCKED = ("sys", "os", "posix", "nt")


def allowed_name(entry) -> tuple:
    """((module, name), object) of an element of `add_safe_globals`: an object, or (object, "module.name")."""
    if isinstance(entry, tuple):
        check(len(entry) == 2 and isinstance(entry[1], str), "add_safe_globals takes objects or (object, name) pairs")
        obj, full = entry
        module, _, name = full.rpartition(".")
        return (normal(module), name), obj
    return name_of(entry), entry
