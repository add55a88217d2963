"""Real values into Variables: `wrap` for what came from outside (with its guards), `fresh` for what library code made.

`wrap` is one table from a value's type to a maker; each maker states the guards that its Variable relies on. Objects that
can be changed or compared by identity are wrapped once, whatever path they are met on.
"""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import re
import types
import typing
import weakref
from typing import Any, NoReturn
from collections.abc import Callable

from ...eager import api, dtypes, memory_formats, overrides
from ...eager.amp.autocast_mode import autocast
from ...eager.device import device
from ...eager.nn import functional
from ...eager.nn.parameter import is_lazy
from ...eager.op.op import Op
from ...eager.sizes import SYMBOLIC, Size
from ...eager.tensor import Tensor
from .. import state
from ..breaks import unsupported
from ..guards.source import Attr, Pinned, Source, item
from ..graph.graph_tracer import LARGEST_SYMBOL
from .base import LazyVariable, OpaqueVariable, Variable
from .builtins import HANDLERS, BuiltinVariable
from .lru_cache import Cached, CachedFunctionVariable
from .constant import ConstantVariable, FloatVariable, OutsideText, PlainMethod, SymVariable
from .ctx_manager import AutocastVariable, GradModeVariable
from .user_subclass import wrap_derived
from .dicts import DictVariable, by_identity, pinned_key
from .functions import BoundMethodVariable, DisabledVariable, PartialVariable, UserFunctionVariable
from .iterators import OutsideIterator
from .module import Module, ModuleVariable
from .python_module import NamespaceVariable, is_namespace, namespace_of
from .objects import ClassVariable, SuperVariable, UserObjectVariable
from .numpy_values import FUNCTIONS, SCALARS
from .outer_containers import OutsideDict, OutsideList, OutsideSet
from .polyfills import REPLACED
from .sequences import ListVariable, SliceVariable, TupleVariable
from .sets import SetVariable
from .signatures import ReadOnlyDict
from .threads import LOCKS, LocalVariable, LockVariable, is_local
from .user_kernels import KernelVariable, is_kernel

LITERALS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(Ellipsis),
    type(NotImplemented),
    range,
    dtypes.dtype,
    device,
    types.CodeType,
)
SINGLETONS = (type(None), bool, type(Ellipsis), type(NotImplemented), dtypes.dtype, types.CodeType)
ITERATORS = tuple(
    {type(iter(v)) for v in ([], (), {}, {}.values(), {}.items(), set(), range(1), "", b"")}
    | {zip, map, filter, enumerate, type(reversed([])), types.GeneratorType}
)
BUILTIN_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
NATIVE_CALLABLES = tuple(
    {type(f) for scope in (api, functional, Tensor) for f in vars(scope).values() if type(f).__module__ == overrides.CALLABLES}
)  # the library's functions of C++
ALIASES = (types.GenericAlias, types.UnionType, type(typing.Sequence[int]), typing.TypeVar)
IMMUTABLE = (
    *ALIASES,
    memory_formats.layout,
    memory_formats.memory_format,
    dtypes.finfo,
    dtypes.iinfo,
    re.Pattern,
    re.Match,
    inspect.Signature,
    inspect.Parameter,
)
TRANSFORMS = tuple(f"{overrides.__package__}.{name}" for name in ("func", "autograd.functional"))
MORTAL = (ClassVariable, CachedFunctionVariable)  # where the frame holds the value, generated code does not hold it, too
BOUND = (str, list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)
NOT_OBJECTS = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex, type, BaseException)


def wrap(tx: Any, value: Any, source: Source) -> Variable:
    """The Variable of an outside value; guards what its kind relies on."""
    if type(value) in weakref.ProxyTypes:  # what it says of itself is said of another object, or raises
        raise unsupported("value", f"{source.name()} is a weak proxy")
    known = tx.known(value)
    if known is not None:
        tx.same_object(value, source)
        return known
    for kinds, maker in MAKERS:
        if isinstance(value, kinds):
            made = maker(tx, value, source)
            break
    else:
        made = _object(tx, value, source)
    if made.source is source and made.shared:
        made.outside = value
    made.shared = made.shared or isinstance(made, MORTAL) and made.source is source and source.of_frame
    return made


def _literal(tx: Any, value: Any, source: Source) -> Variable:
    if isinstance(value, enum.Enum) or type(value) not in LITERALS and not isinstance(value, (dtypes.dtype, device)):
        return _singleton(tx, value, source)
    if type(value) is int and tx.is_symbolic(source) and abs(value) <= LARGEST_SYMBOL:
        return _symbolic_int(tx, value, source)
    if type(value) is float:
        return _float(tx, value, source)
    if type(value) is str and not isinstance(source, Pinned):
        return OutsideText(tx, value, source)
    tx.guard(source, "equals", value)
    return ConstantVariable(value, source)


def _by_identity(made: Callable) -> Callable:
    """What wraps an object of which the entry relies on its being this very one."""

    def wrap_known(tx: Any, value: Any, source: Source) -> Variable:
        tx.guard_identity(source, value)
        return made(value, source)

    return wrap_known


_singleton = _by_identity(ConstantVariable)


def _float(tx: Any, value: float, source: Source) -> Variable:
    """Known at the first value, symbolic from the second on."""
    if not tx.has_changed(source):
        return FloatVariable(tx, value, source)
    tx.guard(source, "type_is", float)
    return SymVariable(tx.tracer.symbolic_float(value, source), source)


def _symbolic_int(tx: Any, value: int, source: Source) -> Variable:
    symbol = tx.symbolic_int(value, source)
    if type(symbol) is int:
        tx.guard(source, "equals", value)
        return ConstantVariable(value, source)
    tx.guard(source, "type_is", int)
    return SymVariable(symbol, source)


def _scalar(tx: Any, value: Any, source: Source) -> ConstantVariable:
    """A number of numpy's, which never changes."""
    tx.guard(source, "equals", value)
    return ConstantVariable(value, source)


def _tensor(tx: Any, value: Any, source: Source) -> Variable:
    """A tensor whose class has a say in every operation (`__torch_function__`), or without sizes yet, is Python's."""
    if overrides.takes_part(type(value)) or is_lazy(value):
        return _opaque(tx, value, source)
    return tx.remember(value, tx.tensor_input(value, source))


def _tuple(tx: Any, value: Any, source: Source) -> Variable:
    if hasattr(type(value), "n_sequence_fields"):  # a struct sequence of C, as in sys
        return _singleton(tx, value, source)
    if type(value) is not tuple and not isinstance(value, Size) and not hasattr(value, "_fields"):
        return _unknown(tx, value, source)
    items = list(tuple.__iter__(value))  # (a named tuple's class may say otherwise)
    if isinstance(source, Pinned):  # neither its length nor its members can change
        parts = [LazyVariable(tx, v, Pinned(v, f"{source.label}[{i}]")) for i, v in enumerate(items)]
        return TupleVariable(parts, source, cls=type(value))
    tx.guard(source, "type_is", type(value))
    if type(value) is tuple:
        tx.watch.relies(source, source.name(), len(items), grows=True)
    tx.guard(source, "len", len(items))
    return TupleVariable([LazyVariable(tx, v, item(source, i)) for i, v in enumerate(items)], source, cls=type(value))


def _list(tx: Any, value: Any, source: Source) -> Variable:
    if type(value) not in (list, collections.deque):
        return wrap_derived(tx, value, source, _key) or _unknown(tx, value, source)
    tx.guard(source, "type_is", type(value))
    if type(value) is list:
        return tx.remember(value, OutsideList(tx, value, source))
    tx.guard(Attr(source, "maxlen"), "equals", value.maxlen)
    return tx.remember(value, OutsideList(tx, value, source, collections.deque, value.maxlen))


def _dict(tx: Any, value: Any, source: Source) -> Variable:
    if type(value) not in (dict, collections.OrderedDict, collections.defaultdict):
        return wrap_derived(tx, value, source, _key) or _unknown(tx, value, source)
    if is_namespace(value):
        return namespace_of(tx, value, source)
    tx.guard(source, "type_is", type(value))
    factory = tx.wrap(value.default_factory, Attr(source, "default_factory")) if hasattr(value, "default_factory") else None
    return tx.remember(value, OutsideDict(tx, value, source, _key, factory))


def _key(tx: Any, key: Any) -> Variable:
    """A key of an outside dict: a constant, or something whose identity the key guard fixes."""
    variable = fresh_literal(key)
    if variable is None and by_identity(key):
        return tx.wrap(key, pinned_key(key))
    if variable is None:
        raise unsupported("value", f"a dict from outside with keys of type {type(key).__name__}")
    return variable


def fresh_literal(value: Any) -> Variable | None:
    """Constants, classes and functions of C as they stand; None for anything else."""
    if isinstance(value, (*LITERALS, *SCALARS, enum.Enum)):
        return ConstantVariable(value)
    if isinstance(value, type):
        return ClassVariable(value)
    if isinstance(value, tuple) and type(value) is tuple:
        parts = [fresh_literal(v) for v in value]
        return None if None in parts else TupleVariable(parts)
    return None


def _set(tx: Any, value: set, source: Source) -> Variable:
    if type(value) not in (set, frozenset):
        return _unknown(tx, value, source)
    tx.guard(source, "type_is", type(value))
    return tx.remember(value, OutsideSet(tx, value, source, _key))


def _slice(tx: Any, value: slice, source: Source) -> SliceVariable:
    tx.guard(source, "type_is", slice)
    return SliceVariable([tx.wrap(getattr(value, n), Attr(source, n)) for n in ("start", "stop", "step")], source)


def _function(tx: Any, value: Callable, source: Source) -> Variable:
    if (value.__module__ or "").startswith(TRANSFORMS):
        from . import functorch  # noqa: F401  (registers handlers: only who uses them pays for them)
    if value in REPLACED:
        tx.guard_identity(source, value)
        return BuiltinVariable(value, source)
    if value in HANDLERS or tx.runs_for_real(value):
        tx.guard_identity(source, value)
        return BuiltinVariable(value, source)
    tx.guard_function(source, value)
    return tx.remember(value, UserFunctionVariable(value, source))


def _method(tx: Any, value: Callable, source: Source) -> Variable:
    tx.guard(source, "type_is", types.MethodType)
    owner = tx.wrap(value.__self__, Attr(source, "__self__"))
    if isinstance(owner, AutocastVariable) and value.__name__ in ("__enter__", "__exit__"):
        return owner.get_attr(tx, value.__name__)
    if isinstance(owner, GradModeVariable):
        tx.guard(Attr(source, "__func__"), "is", value.__func__)
        return owner.get_attr(tx, value.__name__)
    return BoundMethodVariable(tx.wrap(value.__func__, Attr(source, "__func__")), owner, source)


def _builtin(tx: Any, value: Any, source: Source) -> Variable:
    """A method of a container or text that the frame has looked up is made anew by each look: what it belongs to is asked."""
    if type(value) is types.BuiltinMethodType and type(value.__self__) in BOUND and source.of_frame:
        tx.guard(source, "type_is", types.BuiltinMethodType)
        tx.guard(Attr(source, "__name__"), "equals", value.__name__)
        return PlainMethod(tx.wrap(value.__self__, Attr(source, "__self__")), value.__name__)
    tx.guard_identity(source, value)
    return BuiltinVariable(value, source)


def _partial(tx: Any, value: Callable, source: Source) -> PartialVariable:
    tx.guard(source, "type_is", type(value))
    args = tx.wrap(value.args, Attr(source, "args"))
    kwargs = tx.wrap(value.keywords, Attr(source, "keywords"))
    named = {key.plain(): kwargs.at(stand) for stand, (key, _) in list(kwargs.entries.items())}
    return PartialVariable(tx.wrap(value.func, Attr(source, "func")), args.unpack(tx), named, source)


def _module(tx: Any, value: Any, source: Source) -> Variable:
    tx.guard(source, "type_is", type(value))
    return tx.remember(value, ModuleVariable(type(value), value, source))


def _iterator(tx: Any, value: Any, source: Source) -> Variable:
    tx.guard(source, "type_is", type(value))
    return tx.remember(value, OutsideIterator(value, source))


def _super(tx: Any, value: Any, source: Source) -> SuperVariable:
    """A `super()` that crossed a break."""
    tx.guard(source, "type_is", super)
    cls, owner = value.__thisclass__, value.__self__
    if owner is None or type(value) is not super:
        return _unknown(tx, value, source)
    tx.guard_identity(Attr(source, "__thisclass__"), cls)
    made = SuperVariable(cls, tx.wrap(owner, Attr(source, "__self__")))
    made.source = source
    return made


def _lock(tx: Any, value: Any, source: Source) -> Any:
    tx.guard(source, "type_is", type(value))
    return tx.remember(value, LockVariable(value, source))


def _object(tx: Any, value: Any, source: Source) -> Variable:
    cls = type(value)
    if cls in tx.GRAD_MODES:
        return _grad_mode(tx, value, source)
    if isinstance(value, autocast):
        return _autocast(tx, value, source)
    if isinstance(value, tx.OPAQUE):
        return _singleton(tx, value, source)
    if is_kernel(cls):
        tx.guard_identity(source, value)
        return KernelVariable(value, source)
    if cls.__module__.startswith(COMPAT):
        tx.know_libraries()  # (looking it up may have loaded its module)
    if cls in MAKERS_BY_CLASS:
        tx.guard_identity(source, value)
        return MAKERS_BY_CLASS[cls](value, source)
    python_class = bool(cls.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE
    if isinstance(value, NOT_OBJECTS) or cls.__module__ == "builtins" and not python_class:
        return _unknown(tx, value, source)
    if not (python_class or cls is types.SimpleNamespace):
        return _opaque(tx, value, source)
    tx.guard(source, "type_is", cls)
    return tx.remember(value, (LocalVariable if is_local(cls) else UserObjectVariable)(cls, value, source))


def _grad_mode(tx: Any, value: Any, source: Source) -> Variable:
    tx.guard(source, "type_is", type(value))
    tx.guard(Attr(source, "mode"), "equals", value.mode)
    return tx.remember(value, GradModeVariable(type(value), value.mode, value.prev, source=source))


def _autocast(tx: Any, value: Any, source: Source) -> Any:
    tx.guard(source, "type_is", type(value))
    for name in AutocastVariable.SETTINGS:
        setting = getattr(value, name)
        tx.guard(Attr(source, name), "is" if isinstance(setting, (bool, dtypes.dtype)) else "equals", setting)
    return tx.remember(value, AutocastVariable(type(value), value, source=source))


def _wrapper(tx: Any, value: Any, source: Source) -> Any:
    """A compiled function inside another: its function is inlined."""
    tx.guard_identity(source, value)
    return tx.wrap_pinned(value.function, value.function.__name__)


def _unknown(tx: Any, value: Any, source: Source) -> NoReturn:
    raise unsupported("value", f"{source.name()} is a {type(value).__module__}.{type(value).__qualname__}")


def _opaque(tx: Any, value: Any, source: Source) -> Variable:
    """An object of a class of C: only its uses are breaks."""
    tx.guard(source, "type_is", type(value))
    return tx.remember(value, OpaqueVariable(value, source))


COMPAT = f"{__name__.partition('.')[0]}.eager.compat."
MAKERS_BY_CLASS: dict[type, Callable] = {}  # of objects known by identity, registered by who knows their classes

MAKERS = (
    (Tensor, _tensor),
    (enum.Enum, _singleton),
    (SCALARS, _scalar),
    (SINGLETONS, _literal),
    ((int, float, complex, str, bytes, range, device), _literal),
    (tuple, _tuple),
    ((list, collections.deque), _list),
    (dict, _dict),
    ((set, frozenset), _set),
    (slice, _slice),
    (state.native.Wrapper, _wrapper),
    (state.Disabled, _by_identity(DisabledVariable)),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    ((*BUILTIN_FUNCTIONS, *NATIVE_CALLABLES, *FUNCTIONS, Op), _builtin),
    (Cached, _by_identity(CachedFunctionVariable)),
    (type, _by_identity(ClassVariable)),
    (IMMUTABLE, _singleton),
    (types.ModuleType, _by_identity(NamespaceVariable)),
    (LOCKS, _lock),
    (super, _super),
    (functools.partial, _partial),
    (Module, _module),
    (ITERATORS, _iterator),
)


# -- values that traced code made ------------------------------------------------------------------------------------


def fresh(tx: Any, value: Any) -> Variable:
    """The Variable of what library code returned; nothing is guarded."""
    if isinstance(value, Variable):
        return value
    if isinstance(value, Tensor):
        return tx.tensor_of(value)
    if isinstance(value, SYMBOLIC):
        return SymVariable(value)
    literal = fresh_literal(value) if not isinstance(value, tuple) else None
    if literal is not None:
        return literal
    if isinstance(value, tuple):
        return TupleVariable([fresh(tx, v) for v in value], cls=type(value))
    if type(value) is list:
        return ListVariable([fresh(tx, v) for v in value])
    if type(value) in (dict, collections.OrderedDict):
        return DictVariable([(fresh(tx, k), fresh(tx, v)) for k, v in value.items()], cls=type(value))
    if type(value) is types.MappingProxyType:
        return ReadOnlyDict([(fresh(tx, k), fresh(tx, v)) for k, v in value.items()])
    if type(value) in (set, frozenset):
        made = SetVariable([fresh(tx, v) for v in value], cls=type(value))
        made.takes_layout(value)
        return made
    if isinstance(value, slice):
        return SliceVariable([fresh(tx, v) for v in (value.start, value.stop, value.step)])
    return _fresh_callable(tx, value)


def _fresh_callable(tx: Any, value: Any) -> Variable:
    if isinstance(value, (*BUILTIN_FUNCTIONS, *NATIVE_CALLABLES, Op)):
        return BuiltinVariable(value)
    if isinstance(value, types.FunctionType):
        return BuiltinVariable(value) if tx.runs_for_real(value) else tx.wrap_pinned(value, value.__name__)
    if isinstance(value, types.MethodType) and isinstance(value.__self__, type):
        return BuiltinVariable(value)
    if isinstance(value, (*tx.OPAQUE, *IMMUTABLE)):
        return ConstantVariable(value)
    if type(value) in MAKERS_BY_CLASS:
        return MAKERS_BY_CLASS[type(value)](value)
    raise unsupported("value", f"library code made a {type(value).__module__}.{type(value).__qualname__}")
