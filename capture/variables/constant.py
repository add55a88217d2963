"""Values that are plain Python at trace time: constants, and symbolic numbers.

Whatever is asked of them is asked of the real object, in real Python: arithmetic, methods, formatting. A symbolic number
answers a branch from its hint, and that records a guard.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
import types
from typing import Any
from collections.abc import Callable

from ...eager.class_homes import real_module
from ...eager.sizes import SymBool, SymFloat, SymInt
from ..breaks import unsupported
from ..shapes.symbolic_shapes import FloatComparison
from ..guards.source import Attr, Source
from .base import NamedMethod, Variable
from .iterators import RangeIterator

Cached = type(functools.lru_cache(len))
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class written in Python
TRACED = (types.FunctionType, property, classmethod, staticmethod, Cached)
OF_BUILTINS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType)
NUMBERS = {SymInt: int, SymFloat: float, SymBool: bool}


class PlainVariable(Variable):
    """Holds a real Python object; operations run on it for real."""

    def __init__(self, value: Any, source: Source | None = None):
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def plain(self) -> Any:
        return self.value

    def identity(self) -> Any:
        return self.value

    def truth(self, tx: Any) -> bool:
        return tx.run(bool, self.value)

    def get_attr(self, tx: Any, name: str) -> Variable:
        written = self.written(tx, name)
        if written is not None:
            return tx.bind(written, self, name)
        own = self.source is not None and not isinstance(self.value, (enum.Enum, type))
        if own and name in getattr(self.value, "__dict__", ()):
            return tx.wrap(tx.run(getattr, self.value, name), Attr(self.known_source, name))
        found = self.data_of_class(tx, name) if own and hasattr(self.value, "__dict__") else None
        if found is not None:
            return tx.bind(found, self, name)
        value = tx.run(getattr, self.value, name)
        if callable(value) and not isinstance(value, type) and getattr(value, "__self__", None) is self.value:
            return PlainMethod(self, name)
        return tx.fresh(value)

    def written(self, tx: Any, name: str) -> Any:
        """What the program's own class has under this name, if it is Python that is to be traced: a function, a property, ..."""
        cls = type(self.value)
        if name.startswith("__") or name in getattr(self.value, "__dict__", ()) or not cls.__flags__ & HEAP_TYPE:
            return None
        found = tx.class_attribute(cls, name)
        if found is None or not found[0].__flags__ & HEAP_TYPE or tx.is_trusted(real_module(found[0])):
            return None
        if isinstance(found[1], TRACED):
            return found
        if hasattr(type(found[1]), "__get__") and not isinstance(found[1], OF_BUILTINS):
            raise unsupported("attribute", f"{cls.__name__}.{name} is a {type(found[1]).__name__}, which Python must bind")
        return None

    def data_of_class(self, tx: Any, name: str) -> Any:
        """What the program's own class has under this name, if the object has nothing there (which is guarded) and it binds
        to nothing."""
        cls = type(self.value)
        if name.startswith("__") or not cls.__flags__ & HEAP_TYPE or tx.is_trusted(real_module(cls)):
            return None
        tx.guard(self.source, "no_dict_attr", name)
        found = tx.class_attribute(cls, name)
        return None if found is None or hasattr(type(found[1]), "__get__") else found

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        written = self.written(tx, name)
        if written is not None:
            return tx.call(tx.bind(written, self, name), args, kwargs)
        if isinstance(self.value, tx.OPAQUE):
            raise unsupported("builtin", f"{self.python_type().__name__}.{name}() changes or reads the state of {self}")
        method = tx.run(getattr, self.value, name)
        return tx.fresh(tx.run_variables(method, args, kwargs, what=f"{self.python_type().__name__}.{name}"))

    def get_item(self, tx: Any, key: Variable) -> Variable:
        if key.has_index:
            key = tx.constant(tx.index(key))
        return tx.fresh(tx.run_variables(lambda k: self.value[k], [key], what=f"indexing {self}"))

    def contains(self, tx: Any, member: Variable) -> bool:
        return tx.run_variables(lambda m: m in self.value, [member], what=f"`in` {self}")

    def iterate(self, tx: Any) -> Variable:
        if type(self.value) is range:
            return RangeIterator(self.value)
        return tx.iterator([tx.fresh(v) for v in tx.run(list, self.value)])

    def length(self, tx: Any) -> Variable:
        return tx.fresh(tx.run(len, self.value))


class PlainMethod(NamedMethod):
    """A bound method of a plain value, not called yet."""

    def python_type(self) -> type:
        return types.BuiltinMethodType if self.owner.python_type() is str else type(getattr(self.owner.plain(), self.name))

    def get_attr(self, tx: Any, name: str) -> Variable:
        return tx.fresh(tx.run(getattr, getattr(self.owner.plain(), self.name), name))


class ConstantVariable(PlainVariable):
    """A number, string, dtype, enum member, ...: the value is known and guarded."""

    shared = False

    def is_constant(self) -> bool:
        return True

    def key(self) -> Any:
        return self.value

    def truth(self, tx: Any) -> bool:
        return bool(self.value)

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if not isinstance(self.value, str) or name == "__class__":
            return super().call_method(tx, name, args, kwargs)
        made = tx.written(getattr(str, name), [self, *args], kwargs) if name == "format" else None
        if made is not None:
            return made
        if name == "join" and args:
            args = [tx.tuple(tx.unpack(args[0]))]
            if is_open(args[0]) and all(part.python_type() is str for part in args[0].items):
                return join_with_separator(self, args[0].items)
        method = tx.run(getattr, self.value, name)
        return tx.fresh(tx.run_variables(tx.on_specialised(method), args, kwargs, what=f"str.{name}"))

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        """`%` of a string shows numbers, which must be known."""
        if op is operator.mod and isinstance(self.value, str) and not reflected:
            made = tx.written(operator.mod, [self, other])
            return made or tx.fresh(tx.run_variables(tx.on_specialised(operator.mod), [self, other], what="formatting"))
        return None

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        own = tx.class_attribute(type(self.value), "__call__") if isinstance(self.value, enum.Enum) else None
        if own is not None and isinstance(own[1], types.FunctionType):
            return tx.call(tx.bind(own, self, "__call__"), args, kwargs)
        origin = getattr(self.value, "__origin__", None)  # list[int]() makes a list
        if not isinstance(origin, type):
            return super().call(tx, args, kwargs)
        return tx.call(tx.wrap_type(origin), args, kwargs)

    def __str__(self) -> str:
        return repr(self.value)

    def reconstruct(self, gen: Any) -> None:
        gen.emit.load_const(self.value)


class OutsideText(ConstantVariable):
    """A text from outside: whoever asks for its value has it guarded; it may be stored, shown or made part of another text as
    whatever it is then."""

    shared, asked = True, False

    source: Source

    def __init__(self, tx: Any, value: str, source: Source):
        Variable.__init__(self, source)
        self.tx, self.seen = tx, value
        tx.guard(source, "type_is", str)

    @property
    def value(self) -> str:
        if not self.asked:
            self.tx.watch.relies(self.source, self.source.name(), self.seen)
        self.asked = True
        self.tx.guard(self.source, "equals", self.seen)
        return self.seen

    def get_attr(self, tx: Any, name: str) -> Variable:
        return PlainMethod(self, name) if name in METHODS and not self.asked else super().get_attr(tx, name)

    def truth(self, tx: Any) -> bool:
        if not self.asked:
            tx.guard(self.source, "bool", bool(self.seen))
        return bool(self.seen)

    def python_type(self) -> type:
        return str

    def __str__(self) -> str:
        return self.source.name()

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        return concatenated(op, other, self, reflected) or super().binary(tx, op, other, reflected)

    def reconstruct(self, gen: Any) -> None:
        if self.asked:
            gen.emit.load_const(self.seen)
        else:
            self.source.reconstruct(gen.emit)


def is_open_text(variable: Variable) -> bool:
    return isinstance(variable, OutsideText) and not variable.asked


def is_open(variable: Any) -> bool:
    """A number or text, or a tuple with such, that is known when the code runs."""
    if isinstance(variable, SymVariable):
        return variable.python_type() is not bool
    if getattr(variable, "cls", None) is tuple:
        parts = [part.realize() for part in variable.items]
        return any(map(is_open, parts)) and all(is_open(part) or part.is_constant() for part in parts)
    return isinstance(variable, TextVariable) or is_open_text(variable)


def sample_value(variable: Any) -> Any:
    """A value that it may have."""
    if isinstance(variable, SymVariable):
        number = variable.value.hint
        return variable.python_type()(1) if number is None else number
    if isinstance(variable, TextVariable):
        return variable.fn(*map(sample_value, variable.args), **{k: sample_value(v) for k, v in variable.kwargs.items()})
    if isinstance(variable, OutsideText):
        return variable.seen
    return variable.plain() if variable.is_constant() else tuple(sample_value(part.realize()) for part in variable.items)


def concatenated(op: Callable, other: Variable, text: Any, reflected: bool) -> Variable | None:
    """`text + other`, which nobody has looked at; None where that is no text."""
    texts = (other, text) if reflected else (text, other)
    if op not in (operator.add, operator.iadd) or other.python_type() is not str:
        return None
    return join_texts(texts)


def join_texts(texts: Any) -> Variable:
    parts = [part for text in texts for part in (text.args if getattr(text, "fn", None) is join else (text,))]
    return TextVariable(join, parts)


def join_with_separator(separator: Any, texts: Any) -> Variable:
    between = [part for text in texts for part in (separator, text)]
    return join_texts(between[1:])


def join(*parts: str) -> str:
    return "".join(parts)


METHODS = frozenset(name for name in vars(str) if not name.startswith("__"))
NUMBER_TEXT = "[-+0-9.einfa]+"
CONVERSION = re.compile("%[^a-zA-Z%]*([a-zA-Z%])")  # of a text before `%`
WRITTEN = {"d": "[-+ 0-9]+", "i": "[-+ 0-9]+", "%": "%"}


class TextVariable(Variable):
    """A text that is made when the code runs: `fn(*args, **kwargs)` of numbers and texts that may be others in the next call.
    Whoever asks what it says has those guarded."""

    def __init__(self, fn: Callable, args: list, kwargs: dict | None = None):
        super().__init__()
        self.fn, self.args, self.kwargs = fn, list(args), kwargs or {}

    def python_type(self) -> type:
        return str

    def plain(self) -> str:
        return self.fn(*map(specialised_value, self.args), **{k: specialised_value(v) for k, v in self.kwargs.items()})

    def specialise(self, tx: Any) -> ConstantVariable:
        return ConstantVariable(tx.run(self.plain))

    def key(self) -> str:
        return self.plain()

    def truth(self, tx: Any) -> bool:
        if self.fn is join and any(part.is_constant() and not is_open_text(part) and part.plain() for part in self.args):
            return True
        return self.specialise(tx).truth(tx)

    def get_attr(self, tx: Any, name: str) -> Variable:
        return PlainMethod(self, name) if name in METHODS else self.specialise(tx).get_attr(tx, name)

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        return self.specialise(tx).call_method(tx, name, args, kwargs)

    def get_item(self, tx: Any, key: Variable) -> Variable:
        return self.specialise(tx).get_item(tx, key)

    def contains(self, tx: Any, member: Variable) -> bool:
        return self.specialise(tx).contains(tx, member)

    def iterate(self, tx: Any) -> Any:
        return self.specialise(tx).iterate(tx)

    def length(self, tx: Any) -> Variable:
        return self.specialise(tx).length(tx)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        made = concatenated(op, other, self, reflected)
        if made is not None:
            return made
        if op in (operator.eq, operator.ne) and other.python_type() is str:
            told = self.compared(other)
            if told is not None:
                return tx.constant(told == (op is operator.eq))
        mine = self.specialise(tx)
        return tx.binary(op, *((other, mine) if reflected else (mine, other)))

    def pattern(self) -> str:
        """A regular expression of what it may say."""
        if self.fn is join:
            return "".join(
                part.pattern() if isinstance(part, TextVariable) else ".*" if is_open_text(part) else re.escape(part.plain())
                for part in self.args
            )
        if self.fn is operator.mod:
            pieces = CONVERSION.split(self.args[0].plain())  # text, letter, text, ...
            return "".join(re.escape(piece) if not n % 2 else WRITTEN.get(piece, ".*") for n, piece in enumerate(pieces))
        shown = self.fn in (str, repr) or self.fn is format and self.args[1].plain() == ""
        return NUMBER_TEXT if shown and isinstance(self.args[0], SymVariable) else ".*"

    def compared(self, other: Variable) -> bool | None:
        """Whether it says the same as another text, if that is certain."""
        if isinstance(other, TextVariable):
            return True if same_expression(self, other) else None
        if not other.is_constant() or is_open_text(other) or type(other.plain()) is not str:
            return None if other.python_type() is str else False
        return None if re.fullmatch(self.pattern(), other.plain(), re.DOTALL) else False

    def describe(self) -> str:
        return "text"

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(self.fn, self.args, self.kwargs)


def rely_on(number: Any) -> None:
    """The code is to hold for this value of a symbolic number only: one more of them may be a growth break."""
    env, hint = number.value.env, number.value.hint
    if number.python_type() is not bool and env.relies is not None and hint is not None:
        env.relies(None, f"the number {number.value}", hint)


def specialised_value(variable: Any) -> Any:
    if isinstance(variable, SymVariable):
        rely_on(variable)
        return variable.python_type()(variable.value)
    return (
        variable.plain()
        if not is_open(variable) or isinstance(variable, (TextVariable, OutsideText))
        else tuple(specialised_value(part.realize()) for part in variable.items)
    )


def same_expression(a: Any, b: Any) -> bool:
    """Whether two numbers or texts are the same whatever the numbers in them are."""
    if a is b:
        return True
    if isinstance(a, TextVariable) and isinstance(b, TextVariable):
        return (
            a.fn is b.fn
            and len(a.args) == len(b.args)
            and a.kwargs.keys() == b.kwargs.keys()
            and all(map(same_expression, a.args, b.args))
            and all(same_expression(a.kwargs[k], b.kwargs[k]) for k in a.kwargs)
        )
    if isinstance(a, SymVariable) and isinstance(b, SymVariable):
        kind = a.python_type() if type(a.value) is type(b.value) else None
        return a.value.expr == b.value.expr if kind is int else kind is float and a.value.tree == b.value.tree
    return not is_open(a) and not is_open(b) and a.is_constant() and b.is_constant() and a.plain() == b.plain()


COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


class FloatVariable(ConstantVariable):
    """A float from outside, seen for the first time. Where it is only compared with constants, the guards are those
    comparisons; whoever asks for its value has it guarded."""

    def __init__(self, tx: Any, value: float, source: Any):
        Variable.__init__(self, source)
        self.tx, self.seen = tx, value
        tx.guard(source, "type_is", float)

    @property
    def value(self) -> float:
        self.tx.guard(self.source, "equals", self.seen)
        return self.seen

    def python_type(self) -> type:
        return float

    def identity(self) -> float:
        return self.seen

    def truth(self, tx: Any) -> bool:
        return self.compared(tx, operator.ne, 0.0)

    def binary(self, tx: Any, op: Callable, other: Any, reflected: bool) -> Any:
        number = type(other) is ConstantVariable and type(other.value) in (int, float, bool)
        if op not in COMPARISONS or not number:
            return None
        return tx.constant(self.compared(tx, TURNED[op] if reflected else op, other.value))

    def compared(self, tx: Any, op: Callable, number: Any) -> bool:
        made = FloatComparison(op, ("var", "value"), ("const", number), op(self.seen, number))
        tx.guard(self.source, "predicate", tx.float_guards.setdefault((self.source, made), made))
        return made.answer


TURNED = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}

# operators that no symbolic number has: the number is settled first
SETTLING = (operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor)


KINDS = {len: int, int: int, float: float, complex: complex, operator.index: int, bool: bool}


def special_method_result(tx: Any, ask: Callable, cls: type, special: str, said: Variable) -> Variable:
    """What `ask` (len, bool, int, ...) makes of what a special method of `cls` that is written in Python said: the number, if
    it is of the kind that Python wants, or Python's error. A symbolic number of the kind stays symbolic."""
    said = said.realize()
    if isinstance(said, SymVariable):
        if said.python_type() is KINDS[ask] and not (ask is len and tx.truth(tx.binary(operator.lt, said, tx.constant(0)))):
            return said
        said = said.specialise(tx)
    if not said.is_constant() and ask is len:
        said = tx.constant(tx.index(said))
    if not said.is_constant() and ask is bool:
        tx.raise_error(TypeError, f"__bool__ should return bool, returned {said.python_type().__name__}")
    if not said.is_constant():
        raise unsupported("operator", f"{special} of a {cls.__name__} that gives {said}")
    return tx.fresh(tx.run(ask, type(cls.__name__, (), {special: lambda self: said.plain()})()))


class SymVariable(PlainVariable):
    """A symbolic integer, float or truth value over the sizes of the inputs."""

    value: Any

    def python_type(self) -> type:
        return next(kind for symbolic, kind in NUMBERS.items() if isinstance(self.value, symbolic))

    def key(self) -> int:
        rely_on(self)
        return self.python_type()(self.value)

    def specialise(self, tx: Any) -> ConstantVariable:
        """The number it is now, guarded to be that."""
        return ConstantVariable(tx.run(self.python_type(), self.value))

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name == "__class__":
            return tx.wrap_type(self.python_type())
        return super().get_attr(tx, name) if hasattr(type(self.value), name) else self.specialise(tx).get_attr(tx, name)

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        known = hasattr(type(self.value), name) and name != "__format__"
        return (super() if known else self.specialise(tx)).call_method(tx, name, args, kwargs)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        if op not in SETTLING and not (op in (operator.pow, operator.ipow) and hasattr(other, "fake")):
            return None
        number = self.specialise(tx)
        return tx.binary(op, *((other, number) if reflected else (number, other)))

    def describe(self) -> str:
        return f"symbolic {self.value}"

    def reconstruct(self, gen: Any) -> None:
        gen.load_symbolic(self.value)
