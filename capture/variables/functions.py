"""Functions and what they close over: inlined when called.

A UserFunctionVariable is a code object with globals, defaults and cells, whether it is a real function that was read
somewhere or one that the traced code just made. Cells are variables of their own, shared by everyone who closes over them.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ..breaks import unsupported
from ..guards.source import Attr, Contents, DictAttr, Source, item
from ..state import is_allowed_in_graph
from .base import LazyVariable, NotPlain, Variable
from .constant import ConstantVariable
from .dicts import DictVariable
from .sequences import TupleVariable

OUTSIDE_DICT = tuple(
    n
    for n in (
        "__name__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__annotations__",
        "__defaults__",
        "__kwdefaults__",
        "__type_params__",
    )
    if hasattr(types.FunctionType, n)
)  # not in its __dict__


class CellVariable(Variable):
    """One closure cell; `real` is the cell object when it existed before the call."""

    def __init__(
        self,
        value: Variable | None = None,
        source: Source | None = None,
        real: types.CellType | None = None,
        local: str | None = None,
    ):
        super().__init__(source)
        self.value, self.real, self.local = value, real, local
        self.argument = local is not None and value is not None  # the real cell starts with an argument in it

    def get(self, tx: Any) -> Variable | None:
        """The content, or None when the cell is empty."""
        if self.value is None and self.real is not None and not tx.effects.is_changed(self):
            try:
                content = self.real.cell_contents
            except ValueError:
                return None
            self.value = LazyVariable(tx, content, Contents(self.known_source))
        return self.value.realize() if self.value is not None else None

    def set(self, tx: Any, value: Any) -> None:
        tx.effects.change_cell(self)
        self.value = value

    def identity(self) -> CellVariable:
        return self

    def python_type(self) -> type:
        return types.CellType

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name != "cell_contents":
            return super().get_attr(tx, name)
        found = self.get(tx)
        if found is None:
            if self.real is not None and not tx.effects.is_changed(self):
                raise unsupported("attribute", "the contents of a cell that is still empty")
            return tx.raise_error(ValueError, "Cell is empty")
        return found

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        if name != "cell_contents":
            raise unsupported("attribute", f"storing {name!r} of a cell")
        self.set(tx, value)

    def reconstruct(self, gen: Any) -> None:
        if self.local is not None:
            gen.emit.load_closure(self.local)
        else:
            gen.load_call(types.CellType, [])
        gen.fill_cell(self)


class UserFunctionVariable(Variable):
    """A Python function: its call is interpreted."""

    seen_dict = False
    code: types.CodeType
    globals: dict[str, Any]

    def __init__(
        self,
        fn: types.FunctionType | None = None,
        source: Source | None = None,
        *,
        code: Any = None,
        globals: Any = None,
        defaults: Iterable = (),
        kwdefaults: dict | None = None,
        closure: list | None = None,
    ):
        super().__init__(source)
        self.fn: types.FunctionType | None = fn  # the real one
        self.code = code if fn is None else fn.__code__
        self.globals = globals if fn is None else fn.__globals__
        self.name = fn.__name__ if fn is not None else self.code.co_name
        self.defaults, self.kwdefaults, self.closure = list(defaults), dict(kwdefaults or {}), closure
        self.attrs = {}

    def python_type(self) -> type:
        return types.FunctionType

    def identity(self) -> Any:
        return self.fn if self.fn is not None else self

    def key(self) -> Any:
        return self.fn if self.fn is not None else self

    def describe(self) -> str:
        return f"function {self.name}"

    def __str__(self) -> str:
        return self.describe()

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        if self.code is DISPATCH and len(args) == 1 and args[0].is_constant() and self.caches_weakly():
            return self.dispatched(tx, args[0].plain())
        if self.fn is not None and is_allowed_in_graph(self.fn):
            return self.called_while_tracing(tx, args, kwargs)
        return tx.inline(self, args, kwargs)

    def called_while_tracing(self, tx: Any, args: list, kwargs: dict) -> Variable:
        """The result of the function itself, called on fakes; inlined where an argument has no plain value."""
        try:
            values = [a.realize().plain() for a in args]
            named = {name: a.realize().plain() for name, a in kwargs.items()}
        except NotPlain:
            return tx.inline(self, args, kwargs)
        if self.source is not None:
            tx.guard_identity(self.source, self.fn)
        return tx.fresh(tx.run(self.fn, *values, **named))

    def caches_weakly(self) -> bool:
        """Whether a `dispatch` keeps its answers where functools does."""
        held = dict(zip(self.code.co_freevars, self.fn.__closure__ or ())) if self.fn is not None else {}
        return "dispatch_cache" in held and type(held["dispatch_cache"].cell_contents) is weakref.WeakKeyDictionary

    def dispatched(self, tx: Any, cls: type) -> Variable:
        """`dispatch` of a single-dispatch function, which keeps its answers in a cache of weak references: asked now, guarded."""
        found = tx.run_outside(self.fn, cls)
        tx.guard(tx.pinned(self.fn, self.name), "predicate", SingleDispatchGuard(cls, found))
        return tx.wrap_pinned(found, found.__name__)

    def default_values(self, tx: Any) -> list:
        """Variables of the positional defaults."""
        if self.fn is not None and not self.defaults and self.fn.__defaults__:
            base = Attr(self.known_source, "__defaults__")
            self.defaults = [LazyVariable(tx, v, item(base, i)) for i, v in enumerate(self.fn.__defaults__)]
        return self.defaults

    def keyword_defaults(self, tx: Any) -> dict:
        if self.fn is not None and not self.kwdefaults and self.fn.__kwdefaults__:
            base = Attr(self.known_source, "__kwdefaults__")
            self.kwdefaults = {k: LazyVariable(tx, v, item(base, k)) for k, v in self.fn.__kwdefaults__.items()}
        return self.kwdefaults

    def cells(self, tx: Any) -> list:
        """The cells of the code's free variables, in order."""
        if self.closure is None:
            real = self.fn.__closure__ if self.fn is not None else None
            self.closure = self.real_cells(tx, real) if real else []
        return self.closure

    def real_cells(self, tx: Any, real: tuple) -> list:
        base = Attr(self.known_source, "__closure__")
        return [tx.cell(cell, item(base, i)) for i, cell in enumerate(real)]

    def bind(self, tx: Any, args: list, kwargs: dict) -> dict:
        """Parameter name -> Variable, as Python binds them; a mismatch raises the program's TypeError."""
        code = self.code
        names, count = code.co_varnames, code.co_argcount
        bound = dict(zip(names[:count], args))
        rest, keywords = list(args[count:]), dict(kwargs)
        at = count + code.co_kwonlyargcount
        if code.co_flags & inspect.CO_VARARGS:
            bound[names[at]], rest, at = TupleVariable(rest), [], at + 1
        parameters = names[code.co_posonlyargcount : count + code.co_kwonlyargcount]
        takes_any = code.co_flags & inspect.CO_VARKEYWORDS
        for name in kwargs:  # complaints come in Python's order
            if name in parameters and name in bound:
                tx.raise_error(TypeError, f"{code.co_qualname}() got multiple values for argument {name!r}")
            if name in parameters:
                bound[name] = keywords.pop(name)
            elif not takes_any:
                self.refuse_keywords(tx, list(kwargs), name)
        if takes_any:
            bound[names[at]] = DictVariable([(tx.constant(k), v) for k, v in keywords.items()])
        if rest:
            self.refuse_surplus(tx, len(args), kwargs)
        return self.fill_defaults(tx, bound)

    def refuse_keywords(self, tx: Any, names: list, first: str) -> None:
        code = self.code
        misplaced = [n for n in names if n in code.co_varnames[: code.co_posonlyargcount]]
        if misplaced:
            tx.raise_error(
                TypeError,
                f"{code.co_qualname}() got some positional-only arguments passed as keyword arguments: {', '.join(misplaced)!r}",
            )
        probe = types.FunctionType(code, {}, closure=tuple(types.CellType() for _ in code.co_freevars))
        tx.run_outside(probe, **{first: None})  # raises before its code begins, in this Python's words

    def refuse_surplus(self, tx: Any, given: int, keywords: dict) -> None:
        """The TypeError of too many positional arguments, in Python's words."""
        code, least = self.code, self.code.co_argcount - len(self.default_values(tx))
        takes = f"{code.co_argcount}" if least == code.co_argcount else f"from {least} to {code.co_argcount}"
        plural = "" if takes == "1" else "s"
        only = [n for n in keywords if n in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]]
        extra = (
            f" positional argument{'s' if given != 1 else ''} (and {len(only)} keyword-only argument"
            f"{'s' if len(only) != 1 else ''})"
            if only
            else ""
        )
        was = "was" if given == 1 and not only else "were"
        tx.raise_error(
            TypeError, f"{code.co_qualname}() takes {takes} positional argument{plural} but {given}{extra} {was} given"
        )

    def refuse_missing(self, tx: Any, bound: dict) -> None:
        """The TypeError of missing arguments, all of them named."""
        code, names = self.code, self.code.co_varnames
        least = code.co_argcount - len(self.default_values(tx))
        only = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        for kind, wanted in (("positional", names[:least]), ("keyword-only", only)):
            known = self.keyword_defaults(tx) if kind == "keyword-only" else ()
            missing = [repr(n) for n in wanted if n not in bound and n not in known]
            if missing:
                listed = (
                    missing[0]
                    if len(missing) == 1
                    else " and ".join(missing)
                    if len(missing) == 2
                    else ", ".join(missing[:-1]) + f", and {missing[-1]}"
                )
                tx.raise_error(
                    TypeError,
                    f"{code.co_qualname}() missing {len(missing)} required {kind} "
                    f"argument{'s' if len(missing) > 1 else ''}: {listed}",
                )

    def guard_defaults(self, tx: Any, missing: list) -> None:
        """That there are defaults for what a call left out, also where nobody looks at them: a program may exchange them."""
        fn = self.fn
        if fn is None or not missing or tx.is_trusted(fn.__module__ or ""):
            return
        if any(n in self.code.co_varnames[: self.code.co_argcount] for n in missing):
            base = Attr(self.known_source, "__defaults__")
            tx.guard(base, *(("len", len(fn.__defaults__)) if fn.__defaults__ else ("is", fn.__defaults__)))
        for name in missing:
            if fn.__kwdefaults__ and name in fn.__kwdefaults__:
                tx.guard(Attr(self.known_source, "__kwdefaults__"), "has_item", name)

    def fill_defaults(self, tx: Any, bound: dict) -> Any:
        code, names = self.code, self.code.co_varnames
        defaults = self.default_values(tx)
        self.guard_defaults(tx, [n for n in names[: code.co_argcount + code.co_kwonlyargcount] if n not in bound])
        self.refuse_missing(tx, bound)
        first = code.co_argcount - len(defaults)
        for i in range(code.co_argcount):
            if names[i] not in bound:
                bound[names[i]] = defaults[i - first]
        for name in names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
            if name not in bound:
                bound[name] = self.keyword_defaults(tx)[name]
        return bound

    # -- attributes ------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name in self.attrs:
            return self.attrs[name]
        if name == "__name__":
            return tx.constant(self.name) if self.fn is None else tx.wrap(self.fn.__name__, Attr(self.known_source, name))
        if name == "__code__":
            return tx.constant(self.code)
        if name == "__defaults__":
            values = self.default_values(tx)
            return TupleVariable(values) if values else tx.constant(None)
        if name == "__get__":
            return MethodMaker(self)
        if name == "__closure__":
            cells = self.cells(tx)
            return TupleVariable(cells) if cells else tx.constant(None)
        if self.fn is None:
            return self.made_attribute(tx, name)
        if name == "__dict__":
            self.dict_is_seen(tx)
        if name in self.fn.__dict__:
            return tx.wrap(self.fn.__dict__[name], DictAttr(self.known_source, name))
        if not hasattr(self.fn, name):
            tx.guard(self.source, "no_attr", name)
            tx.raise_error(AttributeError, f"'function' object has no attribute {name!r}")
        return tx.wrap(getattr(self.fn, name), Attr(self.known_source, name))

    def made_attribute(self, tx: Any, name: str) -> Variable:
        known = {
            "__module__": self.globals.get("__name__"),
            "__qualname__": self.code.co_qualname,
            "__doc__": self.code.co_consts[0] if self.code.co_consts and isinstance(self.code.co_consts[0], str) else None,
        }
        if name in known:
            return tx.constant(known[name])
        if name == "__dict__":
            return FunctionDict(self)
        if name == "__annotations__":
            return self.attrs.setdefault(name, DictVariable())
        if name == "__type_params__" and hasattr(types.FunctionType, name):
            return TupleVariable([])  # (a function that has some is a break where it is made)
        if hasattr(types.FunctionType, name):
            raise unsupported("attribute", f"attribute {name!r} of {self}, which is not made yet")
        return tx.raise_error(AttributeError, f"'function' object has no attribute {name!r}")

    def dict_is_seen(self, tx: Any) -> None:
        """The dictionary of a function from outside is the real one, which has no changes that are still to be made."""
        if self.attrs:
            raise unsupported("attribute", f"__dict__ of {self}, which has changed")
        self.seen_dict = True

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        if self.seen_dict:
            raise unsupported("mutation", f"an attribute of {self}, whose __dict__ was looked at")
        if self.fn is not None:
            tx.effects.store_attr(self, name, value)
        self.attrs[name] = value

    def reconstruct(self, gen: Any) -> None:
        """A function made by the traced code is made again from its code, defaults and cells."""
        defaults = TupleVariable(self.defaults) if self.defaults else gen.constant(None)
        closure = TupleVariable(self.closure) if self.closure else gen.constant(None)
        gen.load_call(
            types.FunctionType, [gen.constant(self.code), gen.constant(self.globals), gen.constant(self.name), defaults, closure]
        )
        self.reconstruct_attributes(gen)

    def reconstruct_attributes(self, gen: Any) -> None:
        named = {k: v for k, v in self.attrs.items() if not (k == "__dict__" or v is None)}
        if self.kwdefaults:
            named["__kwdefaults__"] = DictVariable([(gen.constant(k), v) for k, v in self.kwdefaults.items()])
        for name, value in named.items():
            gen.store_attr_on_top(name, value)


class FunctionDict(DictVariable):
    """`function.__dict__` of a function that the traced code made: a window on its attributes, in both directions."""

    def __init__(self, owner: Any):
        self.owner = owner
        super().__init__()

    @property
    def entries(self) -> Any:
        return {k: (ConstantVariable(k), v) for k, v in self.owner.attrs.items() if k not in OUTSIDE_DICT}

    @entries.setter
    def entries(self, value: Any) -> None:
        """The base class sets an empty dictionary at birth; there is nothing to keep."""

    def at(self, stand: str) -> Variable:
        return self.entries[stand][1].realize()

    def set_item(self, tx: Any, key: Any, value: Any) -> None:
        self.owner.attrs[key.plain()] = value

    def del_item(self, tx: Any, key: Any) -> None:
        if key.key() not in self.entries:
            tx.raise_error(KeyError, key.plain())
        del self.owner.attrs[key.plain()]

    def changed(self, tx: Any) -> None:
        raise unsupported("mutation", "reordering or clearing a function's __dict__")

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.owner)
        gen.emit.load_attr("__dict__")


class MethodMaker(Variable):
    """`function.__get__`."""

    def __init__(self, function: Variable):
        super().__init__()
        self.function = function

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        if args[0].is_constant() and args[0].plain() is None:
            return self.function
        return BoundMethodVariable(self.function, args[0])


class BoundMethodVariable(Variable):
    """A function bound to its first argument."""

    through: Variable | None = None  # the super() that it was looked up in

    def __init__(self, function: Variable, owner: Any, source: Any = None, name: str | None = None):
        super().__init__(source)
        self.function, self.owner, self.name = function, owner, name

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return f"method {self.function}"

    def key(self) -> Any:
        return ("method", self.function.key(), self.owner.key())

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return tx.call(self.function, [self.owner, *args], kwargs)

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        return self.function.get_attr(tx, name)

    def binary(self, tx: Any, op: Callable, other: Variable, reflected: bool) -> Variable | None:
        same = (
            isinstance(other, BoundMethodVariable)
            and other.owner is self.owner
            and other.function.identity() is self.function.identity()
        )
        return tx.constant(same) if op.__name__ == "eq" else tx.constant(not same) if op.__name__ == "ne" else None

    def reconstruct(self, gen: Any) -> None:
        if self.name is not None:
            gen.load(self.through or self.owner)
            gen.emit.load_attr(self.name)
        else:
            gen.load_call(types.MethodType, [self.function, self.owner])


DISPATCH = functools.singledispatch(lambda value: None).dispatch.__code__


class SingleDispatchGuard:
    """Guard: a single-dispatch function has this implementation for a class."""

    def __init__(self, cls: type, found: Callable):
        self.cls, self.found = cls, found

    def __call__(self, dispatch: Callable) -> bool:
        return dispatch(self.cls) is self.found

    def __str__(self) -> str:
        return f"{self.cls.__name__} is given to {self.found.__name__}"


class PartialVariable(Variable):
    """functools.partial; `attrs`: what was stored in one that the trace made."""

    def __init__(self, function: Variable, args: list, kwargs: dict, source: Any = None):
        super().__init__(source)
        self.function, self.args, self.kwargs = function, list(args), dict(kwargs)
        self.attrs = {}

    def python_type(self) -> type:
        return functools.partial

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        return tx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def get_attr(self, tx: Any, name: str) -> Variable:
        if name == "func":
            return self.function
        if name == "args":
            return TupleVariable(self.args)
        if name == "keywords":
            return DictVariable([(tx.constant(k), v) for k, v in self.kwargs.items()])
        if name in self.attrs:
            return self.attrs[name]
        raise unsupported("attribute", f"attribute {name!r} of a partial")

    def set_attr(self, tx: Any, name: str, value: Variable) -> None:
        if self.source is not None or name in ("func", "args", "keywords", "__dict__", "__class__"):
            return super().set_attr(tx, name, value)
        self.attrs[name] = value

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(functools.partial, [self.function, *self.args], self.kwargs)
        for name, value in self.attrs.items():
            gen.store_attr_on_top(name, value)


class DisabledVariable(Variable):
    """A function that asked not to be compiled: calling it is a graph break."""

    shared = False

    def __init__(self, value: Any, source: Any = None):
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        name = getattr(self.value, "__name__", "a function")
        raise unsupported("disabled", f"{name} is disabled" + (f": {self.value.reason}" if self.value.reason else ""))

    def reconstruct(self, gen: Any) -> None:
        gen.emit.load_const(self.value)
