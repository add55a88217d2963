"""torch._jit_internal: marks for scripts, which do not exist here; each returns what it marks."""

from typing import Dict, Final, List, Optional, Tuple, Union  # noqa: F401, UP035 (names that packages take from here)

from ..futures import Future as Future
from . import export, ignore, is_scripting, unused  # noqa: F401
from . import _overload as _overload
from . import _overload_method as _overload_method


class _Sized:
    """`BroadcastingList2[int]`: for annotations."""

    def __getitem__(self, item):
        return item


BroadcastingList1, BroadcastingList2, BroadcastingList3 = _Sized(), _Sized(), _Sized()


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that is one of two, by the value of an argument."""

    def function(*args, **kwargs):
        chosen = kwargs.get(arg_name, args[arg_index] if len(args) > arg_index else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    function.__name__, function.__doc__ = func_name or if_true.__name__, if_true.__doc__
    return function


def _copy_to_script_wrapper(fn):
    """A mark for scripts; the function itself."""
    return fn


def is_final(annotation):
    return annotation is Final or getattr(annotation, "__origin__", None) is Final
