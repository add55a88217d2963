"""Values that are plain Python at trace time: constants, and symbolic numbers.

Whatever is asked of them is asked of the real object, in real Python: arithmetic, methods, formatting. A symbolic number
answers a branch from its hint, and that records a guard.
"""

from __future__ import annotations

import enum
import functools
import operator
import types

from ...eager.sizes import SymBool, SymFloat, SymInt
from ..breaks import unsupported
from ..shapes import FloatComparison
from ..source import Attr
from .base import Variable
from .iterators import RangeIterator

Cached = type(functools.lru_cache(len))
HEAP_TYPE = 1 << 9                           # Py_TPFLAGS_HEAPTYPE: a class written in Python
TRACED = (types.FunctionType, property, classmethod, staticmethod, Cached)
OF_BUILTINS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType)
NUMBERS = {SymInt: int, SymFloat: float, SymBool: bool}


class PlainVariable(Variable):
    """Holds a real Python object; operations run on it for real."""

    def __init__(self, value, source=None):
        super().__init__(source)
        self.value = value

    def python_type(self):
        return type(self.value)

    def plain(self):
        return self.value

    def identity(self):
        return self.value

    def truth(self, tx):
        return tx.run(bool, self.value)

    def get_attr(self, tx, name):
        written = self.written(tx, name)
        if written is not None:
            return tx.bind(written, self, name)
        own = self.source is not None and not isinstance(self.value, (enum.Enum, type))
        if own and name in getattr(self.value, "__dict__", ()):
            return tx.wrap(tx.run(getattr, self.value, name), Attr(self.source, name))
        found = self.data_of_class(tx, name) if own and hasattr(self.value, "__dict__") else None
        if found is not None:
            return tx.bind(found, self, name)
        value = tx.run(getattr, self.value, name)
        if callable(value) and not isinstance(value, type) and getattr(value, "__self__", None) is self.value:
            return PlainMethod(self, name)
        return tx.fresh(value)

    def written(self, tx, name):
        """What the program's own class has under this name, if it is Python that is to be traced: a function, a property, ..."""
        cls = type(self.value)
        if name.startswith("__") or name in getattr(self.value, "__dict__", ()) or not cls.__flags__ & HEAP_TYPE:
            return None
        found = tx.class_attribute(cls, name)
        if found is None or not found[0].__flags__ & HEAP_TYPE or tx.is_trusted(found[0].__module__):
            return None
        if isinstance(found[1], TRACED):
            return found
        if hasattr(type(found[1]), "__get__") and not isinstance(found[1], OF_BUILTINS):
            raise unsupported("attribute", f"{cls.__name__}.{name} is a {type(found[1]).__name__}, which Python must bind")
        return None

    def data_of_class(self, tx, name):
        """What the program's own class has under this name, if the object has nothing there (which is guarded) and it binds
        to nothing."""
        cls = type(self.value)
        if name.startswith("__") or not cls.__flags__ & HEAP_TYPE or tx.is_trusted(cls.__module__):
            return None
        tx.guard(self.source, "no_dict_attr", name)
        found = tx.class_attribute(cls, name)
        return None if found is None or hasattr(type(found[1]), "__get__") else found

    def call_method(self, tx, name, args, kwargs):
        written = self.written(tx, name)
        if written is not None:
            return tx.call(tx.bind(written, self, name), args, kwargs)
        if isinstance(self.value, tx.OPAQUE):
            raise unsupported("builtin", f"{self.python_type().__name__}.{name}() changes or reads the state of {self}")
        method = tx.run(getattr, self.value, name)
        return tx.fresh(tx.run_variables(method, args, kwargs, what=f"{self.python_type().__name__}.{name}"))

    def get_item(self, tx, key):
        if key.has_index:
            key = tx.constant(tx.index(key))
        return tx.fresh(tx.run_variables(lambda k: self.value[k], [key], what=f"indexing {self}"))

    def contains(self, tx, member):
        return tx.run_variables(lambda m: m in self.value, [member], what=f"`in` {self}")

    def iterate(self, tx):
        if type(self.value) is range:
            return RangeIterator(self.value)
        return tx.iterator([tx.fresh(v) for v in tx.run(list, self.value)])

    def length(self, tx):
        return tx.fresh(tx.run(len, self.value))


class PlainMethod(Variable):
    """A bound method of a plain value, not called yet."""

    def __init__(self, owner, name):
        super().__init__()
        self.owner, self.name = owner, name

    def python_type(self):
        return type(getattr(self.owner.plain(), self.name))

    def get_attr(self, tx, name):
        return tx.fresh(tx.run(getattr, getattr(self.owner.plain(), self.name), name))

    def call(self, tx, args, kwargs):
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, gen):
        gen.load(self.owner)
        gen.emit.load_attr(self.name)


class ConstantVariable(PlainVariable):
    """A number, string, dtype, enum member, ...: the value is known and guarded."""

    shared = False

    def is_constant(self):
        return True

    def key(self):
        return self.value

    def truth(self, tx):
        return bool(self.value)

    def call_method(self, tx, name, args, kwargs):
        if not isinstance(self.value, str) or name == "__class__":
            return super().call_method(tx, name, args, kwargs)
        if name == "join" and args:
            args = [tx.tuple(tx.unpack(args[0]))]
        method = tx.run(getattr, self.value, name)
        return tx.fresh(tx.run_variables(tx.on_settled(method), args, kwargs, what=f"str.{name}"))

    def binary(self, tx, op, other, reflected):
        """`%` of a string shows numbers, which must be known."""
        if op is operator.mod and isinstance(self.value, str) and not reflected:
            return tx.fresh(tx.run_variables(tx.on_settled(operator.mod), [self, other], what="formatting"))
        return None

    def call(self, tx, args, kwargs):
        own = tx.class_attribute(type(self.value), "__call__") if isinstance(self.value, enum.Enum) else None
        if own is not None and isinstance(own[1], types.FunctionType):
            return tx.call(tx.bind(own, self, "__call__"), args, kwargs)
        origin = getattr(self.value, "__origin__", None)       # list[int]() makes a list
        if not isinstance(origin, type):
            return super().call(tx, args, kwargs)
        return tx.call(tx.wrap_type(origin), args, kwargs)

    def __str__(self):
        return repr(self.value)

    def reconstruct(self, gen):
        gen.emit.load_const(self.value)


COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


class FloatVariable(ConstantVariable):
    """A float from outside, seen for the first time. Where it is only compared with constants, the guards are those
    comparisons; whoever asks for its value has it guarded."""

    def __init__(self, tx, value, source):
        Variable.__init__(self, source)
        self.tx, self.seen = tx, value
        tx.guard(source, "type_is", float)

    @property
    def value(self):
        self.tx.guard(self.source, "equals", self.seen)
        return self.seen

    def python_type(self):
        return float

    def identity(self):
        return self.seen

    def truth(self, tx):
        return self.compared(tx, operator.ne, 0.0)

    def binary(self, tx, op, other, reflected):
        number = type(other) is ConstantVariable and type(other.value) in (int, float, bool)
        if op not in COMPARISONS or not number:
            return None
        return tx.constant(self.compared(tx, TURNED[op] if reflected else op, other.value))

    def compared(self, tx, op, number) -> bool:
        made = FloatComparison(op, ("var", "value"), ("const", number), op(self.seen, number))
        tx.guard(self.source, "predicate", tx.float_guards.setdefault((self.source, made), made))
        return made.answer


TURNED = {operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge, operator.ge: operator.le,
          operator.eq: operator.eq, operator.ne: operator.ne}

# operators that no symbolic number has: the number is settled first
SETTLING = (operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor)


class SymVariable(PlainVariable):
    """A symbolic integer, float or truth value over the sizes of the inputs."""

    def python_type(self):
        return next(kind for symbolic, kind in NUMBERS.items() if isinstance(self.value, symbolic))

    def key(self):
        return self.python_type()(self.value)

    def settled(self, tx):
        """The number it is now, guarded to be that."""
        return ConstantVariable(tx.run(self.python_type(), self.value))

    def get_attr(self, tx, name):
        if name == "__class__":
            return tx.wrap_type(self.python_type())
        return super().get_attr(tx, name) if hasattr(type(self.value), name) else self.settled(tx).get_attr(tx, name)

    def call_method(self, tx, name, args, kwargs):
        known = hasattr(type(self.value), name) and name != "__format__"
        return (super() if known else self.settled(tx)).call_method(tx, name, args, kwargs)

    def binary(self, tx, op, other, reflected):
        if op not in SETTLING and not (op in (operator.pow, operator.ipow) and hasattr(other, "fake")):
            return None
        number = self.settled(tx)
        return tx.binary(op, *((other, number) if reflected else (number, other)))

    def describe(self):
        return f"symbolic {self.value}"

    def reconstruct(self, gen):
        gen.load_symbolic(self.value)
