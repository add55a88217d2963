"""Texts: str(), repr(), format() and joins of variables, for a Context.

A text with a symbolic number in it is made when the code runs (`TextVariable`), if making it can raise nothing; else the number
is guarded to be what it is now.
"""

from __future__ import annotations

import collections
import operator
import re
import types
from typing import Any
from collections.abc import Callable

from ...eager.sizes import SYMBOLIC
from ...eager.tensor import Tensor
from ..breaks import unsupported
from .semantics import Semantics
from ..shapes.symbolic_shapes import SymFloat
from ..variables.base import Variable
from ..variables.constant import SymVariable, TextVariable, is_open, is_open_text, join_texts, sample_value
from ..variables.exceptions import ExceptionVariable
from ..variables.objects import UserObjectVariable, lookup_defined, lookup
from ..variables.sequences import TupleVariable


CONVERSIONS = re.compile(r"%[^a-zA-Z%]*([a-zA-Z%])")


class Texts(Semantics):
    """The texts of variables."""

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
        return self.run_variables(lambda value: form(specialise_for_text(value)), [variable], what="formatting")

    def own_text(self, variable: Variable, names: tuple) -> Variable | None:
        """The method that a named tuple's class has for its text, if the program wrote it."""
        found = (variable.own_method(self, name) for name in names) if isinstance(variable, TupleVariable) else ()
        return next((own for own in found if own is not None), None)

    def text_of_object(self, variable: Any, form: Callable, names: tuple = ("__str__", "__repr__"), args: Any = ()) -> Any:
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
        if isinstance(variable, UserObjectVariable) and lookup_defined(variable.cls, "__format__")[0] is not object:
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
        self.run_outside(sample_value, made)  # raises what the program would see
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
        text = spec.plain()
        if text == "" and variable.python_type() is str:
            return variable
        return self.written(format, [variable, self.constant(text)]) or self.constant(self.formatted(variable, text))

    def joined(self, parts: list) -> Variable:
        if any(map(is_open, parts)):
            return join_texts(parts)
        return self.constant("".join(part.plain() for part in parts))

    def on_specialised(self, fn: Callable) -> Callable:
        """The function on arguments whose symbolic numbers have become numbers."""
        return lambda *args, **kwargs: fn(*map(specialise_for_text, args), **specialise_for_text(kwargs))

    def specialise_number(self, value: Variable) -> Variable:
        """What is stored into a tensor: a symbolic number becomes its number."""
        value = value.realize()
        return value.specialise(self) if isinstance(value, SymVariable) else value

    def plain_or_text(self, variable: Variable) -> Any:
        if isinstance(variable, SymVariable):
            return variable.specialise(self).value
        return variable.plain() if variable.is_constant() else str(variable)


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


def specialise_for_text(value: Any) -> Any:
    """A value about to be shown: symbolic numbers become the numbers they are now, guarded. What a tensor holds is not known."""
    if isinstance(value, Tensor) and value.device.type != "meta":
        raise unsupported("item", "the text of a tensor shows its values")
    if isinstance(value, SYMBOLIC):
        return SymVariable(value).python_type()(value)
    if type(value) is dict:
        return {specialise_for_text(k): specialise_for_text(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [specialise_for_text(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
