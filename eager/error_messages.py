"""Errors of public functions in the library's words.

In: a function, its arguments and what it raised. Out: the error that the caller gets instead, or None. An argument of a
kind that the function does not know is a TypeError that names it; what numpy says of arrays that a caller never made is
told with the function's name and the sizes of its tensors. Nothing is asked of a call that succeeds.
"""

from __future__ import annotations

import inspect
import re

import numpy as np

from .tensor import Tensor

NUMPY = (  # (patterns are compiled when a call has failed)
    r"ufunc '|broadcast together with (remapped )?shapes [(]|could not be broadcast (from |to )|not broadcastable|"
    r"cannot reshape array|numpy boolean|"
    r"incompatible with shape of requested array|negative dimensions are not allowed|broadcast shape must be|"
    r"too many indices for array|array is too big|maximum supported dimension|inhomogeneous shape|zero-size array|"
    r"operand requires|input operand|same-kind casting|for axis \d|object arrays|array with a sequence|"
    r"need at least one array|all the input array|don't match array|must be non-negative, got -|scalar arrays can be converted"
)
KINDS = "not supported for the input types|numpy boolean|did not contain a loop"
NUMBERS = ("__index__", "__int__", "__float__")
CONVERSIONS = (
    r"invalid literal for int|could not convert string to float|not supported between instances of|"
    r"object cannot be interpreted as an integer|^an integer is required|unsupported operand type|"
    r"bad operand type|must be real number|has no len|object is not (iterable|subscriptable)|"
    r"argument must be"
)
OUT = "out=(): "  # how an error of `dispatch.store` begins
# spellings -> what PyTorch's messages about out= call the function behind them
BEHIND = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "concat": "cat",
    "concatenate": "cat",
    "column_stack": "cat",
    "row_stack": "cat",
    "hstack": "cat",
    "vstack": "cat",
    "dstack": "cat",
    "divide": "div",
    "true_divide": "div",
    "multiply": "mul",
    "outer": "mul",
    "ger": "mul",
    "kron": "mul",
    "negative": "neg",
    "subtract": "sub",
    "fix": "trunc",
    "clip": "clamp",
    "expit": "sigmoid",
    "square": "pow",
    "float_power": "pow",
    "greater": "gt",
    "msort": "sort",
    "multi_dot": "mm",
    "chain_matmul": "mm",
    "cross": "linalg_cross",
    "norm": "linalg_vector_norm",
    "vector_norm": "linalg_vector_norm",
    "qr": "linalg_qr",
    "pinv": "linalg_pinv",
    "matrix_power": "matmul",
    "take_along_dim": "gather",
}


def complaint(function, args: tuple, kwargs: dict, error: BaseException):
    """The error to raise instead (the old one stays its hidden context), or None."""
    made = answer(function, args, kwargs, error)
    if made is not None:
        made.__context__, made.__suppress_context__ = error, True
    return made


def answer(function, args, kwargs, error):
    if isinstance(error, AttributeError):
        found = foreign(args, kwargs, function, error.obj) or odd(args, kwargs, function)
        return found and wrong_kind(function, *found, error.name in NUMBERS)
    if isinstance(error, RuntimeError):
        return nameless(function, error)
    if isinstance(error, MemoryError):
        return RuntimeError(f"{name_of(function)}(): not enough memory for the result. {error}".rstrip())
    if isinstance(error, np.exceptions.AxisError) or re.search(NUMPY, str(error)):
        found = odd(args, kwargs, function)
        if found or args and args[0] is None:
            return wrong_kind(function, *(found or next(named(args, kwargs, function))), False)
        if re.search(KINDS, str(error)):
            return NotImplementedError(f"{name_of(function)}(): not implemented for {described(args, kwargs)}")
        return RuntimeError(f"{name_of(function)}(): cannot be computed for {described(args, kwargs)}")
    if isinstance(error, (TypeError, ValueError)) and re.search(CONVERSIONS, str(error)):
        found = odd(args, kwargs, function)
        return found and wrong_kind(function, *found, False)
    return None


def nameless(function, error):
    """An error about out= with the name of the function; others of this class are in words of our own."""
    name, text = name_of(function), str(error)
    if type(error) is not RuntimeError or not text.startswith(OUT):
        return None
    return RuntimeError(f"{BEHIND.get(name, name)}(): {text[len(OUT) :]}")


def name_of(function) -> str:
    return getattr(function, "__name__", "function")


def named(args: tuple, kwargs: dict, function):
    """(position or None, name, value) of each argument."""
    try:
        names = [
            n
            for n, p in inspect.signature(inspect.unwrap(function)).parameters.items()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    for k, value in enumerate(args):
        yield k + 1, names[k] if k < len(names) else None, value
    for name, value in kwargs.items():
        yield None, name, value


def foreign(args, kwargs, function, value):
    """The argument that is, or holds, the object of which an attribute was wanted."""
    if isinstance(value, Tensor):
        return None
    for position, name, given in named(args, kwargs, function):
        if given is value or isinstance(given, (list, tuple)) and any(each is value for each in given):
            return position, name, value
    return None


def odd(args, kwargs, function):
    """The first argument that no function of tensors takes, if there is one."""
    return next(
        (
            (position, name, value)
            for position, name, value in named(args, kwargs, function)
            if isinstance(value, (str, bytes, dict, set)) or type(value) is object
        ),
        None,
    )


def wrong_kind(function, position, name, value, number: bool):
    where = f"argument '{name}'" if name else "an argument"
    where += f" (position {position})" if position else ""
    wanted = "int" if number or name in ("dim", "dims", "n", "k", "index", "steps", "offset") else "Tensor"
    return TypeError(f"{name_of(function)}(): {where} must be {wanted}, not {type(value).__name__}")


def described(args, kwargs) -> str:
    tensors = [
        x
        for given in (*args, *kwargs.values())
        for x in (given if isinstance(given, (list, tuple)) else (given,))
        if isinstance(x, Tensor)
    ]
    return "tensors of " + ", ".join(f"{list(x.shape)} ({str(x.dtype)[6:]})" for x in tensors) if tensors else "these arguments"
