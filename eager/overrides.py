"""Operands of other classes: the `__torch_function__` protocol, function modes, and subclasses of Tensor.

In: a call of a public function, as the caller wrote it, with an operand whose class has `__torch_function__` (also inside
a tuple or list), or under a `TorchFunctionMode`. The handlers are asked in turn, subclasses first. Public functions
carry the question (`public`): for plain operands it is a comparison of types in C, after the fast paths.
"""

from __future__ import annotations

from types import FunctionType

from . import _call
from .error_messages import complaint
from .op.op import OPS
from .sizes import Size
from .state import state
from .tensor import Tensor, install_methods

PROCEED = object()  # the answer to calls that no handler takes part in
TOLD = "__name__", "__qualname__", "__module__", "__doc__", "numpy_names", "missing"  # of a public function, from its own
PLAIN, NO_SUBCLASSES, NOTHING = None, "subclasses", "all"  # `state.unasked`


def disabled(func, types, args=(), kwargs=None):
    """As the `__torch_function__` of a class: the class has none, and results are plain tensors."""
    return func(*args, **(kwargs or {}))


# -- public functions


def public(function, module: str | None = None, name: str | None = None, face=None):
    """The function with its handlers asked first; one written in Python gets an object in front of it. `face`: what the
    handlers are given, if it is not the result itself."""
    made = _call.public(function) if face is None else _call.public(function, face)
    if made is not function:
        told = vars(made)
        if type(function) is FunctionType:  # nearly all, and there are 1300
            told["__name__"], told["__doc__"] = function.__name__, function.__doc__
            told["__qualname__"], told["__module__"] = function.__qualname__, function.__module__
            if own := function.__dict__:
                told.update({name: own[name] for name in TOLD if name in own})
        else:
            told.update({name: getattr(function, name) for name in TOLD if hasattr(function, name)})
        told["__wrapped__"] = function
        if module is not None:
            told["__module__"], told["__qualname__"] = module, name or told["__name__"]
    return made


def publish(scope: dict, names, bound=()) -> None:
    """Make functions of a module public, in place. `bound`: those that bind where they are attributes of a class: PyTorch has
    them in Python, the others in C++."""
    made = {}
    for name in names:
        function = scope[name]
        if callable(function) and not isinstance(function, type):
            scope[name] = made.setdefault(id(function), public(function, scope["__name__"], name))
            if name not in bound:
                _call.function(scope[name])


def publish_methods(methods: dict) -> None:
    """Give Tensor these methods (name -> function or property), public. The functions of a method and of an operator are the
    method's."""
    for name, own in methods.items():
        made = own
        if name not in _UNASKED and callable(own) and not isinstance(own, (type, staticmethod, classmethod)):
            made = public(own, Tensor.__module__, f"Tensor.{name}", vars(Tensor).get(_FACES.get(name, "")))
            if name.startswith("__"):
                made.__name__ = name
        setattr(Tensor, name, made)


# the functions that operators show to handlers, where they are not the operators themselves
_FACES = {f"__{name}__": name for name in "add sub mul matmul pow eq ne lt le gt ge neg abs".split()}
_FACES.update(
    __radd__="add",
    __rmul__="mul",
    __truediv__="div",
    __mod__="remainder",
    __iadd__="add_",
    __isub__="sub_",
    __imul__="mul_",
    __itruediv__="div_",
)


# -- asking


def _separate_operands(args):
    """einsum's operands, where they are given as one list."""
    return (args[0], *args[1]) if len(args) == 2 and type(args[1]) in (tuple, list) and isinstance(args[0], str) else args


_SEPARATE = {"einsum": _separate_operands}  # what handlers are shown, of functions that take one thing in several forms


def ask(function, args: tuple, kwargs: dict):
    """A call with foreign operands, or under a function mode: what the handlers make of it, or PROCEED."""
    unasked = state.unasked
    if unasked == NOTHING or (unasked and not state.function_modes):
        return PROCEED
    args = separate(args) if (separate := _SEPARATE.get(getattr(function, "__name__", ""))) else args
    operands = [*args, *kwargs.values()]
    kinds = () if unasked else asked_classes(operands)
    for mode in reversed(state.function_modes):
        with below_mode(mode):
            answer = mode.__torch_function__(function, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    return answers(function, kinds, args, kwargs) if kinds else PROCEED


def answers(function, kinds: tuple, args: tuple, kwargs: dict):
    for kind in kinds:
        answer = kind.__torch_function__(function, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = f"torch.{getattr(function, '__name__', function)}"
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {list(kinds)}")


def asked_classes(operands) -> tuple:
    """The classes that take part, in the order of the operands, subclasses before their bases."""
    found = []
    for a in operands:
        for x in a if type(a) in (tuple, list) else (a,):
            kind = type(x)
            if kind not in found and takes_part(kind):
                place = next((k for k, known in enumerate(found) if issubclass(kind, known)), len(found))
                found.insert(place, kind)
    return tuple(found)


def takes_part(kind) -> bool:
    handler = None if kind is Tensor else getattr(kind, "__torch_function__", None)
    return handler is not None and getattr(handler, "__func__", handler) is not disabled


def own_handler(kind) -> bool:
    """Whether a class that takes part does more than Tensor's own handler."""
    handler = getattr(kind, "__torch_function__", None)
    return getattr(handler, "__func__", handler) is not default_handler


def overridden(op, args, run):
    """A record's call that no public function has asked about: NotImplemented if its operands are nothing special."""
    if state.unasked or not _call.foreign(args):
        return NotImplemented
    kinds = asked_classes(args)
    if any(map(own_handler, kinds)):
        return answers(public_name(op), kinds, args, {})
    if not kinds:
        return NotImplemented
    with asking(NO_SUBCLASSES):
        return as_kind(run(op, args), kinds[0], args)


namespaces: list = []  # where public functions are looked up by a record's name, best first


def public_name(op):
    """The public function of a record's name; the record itself where there is none."""
    return next((f for space in namespaces if callable(f := getattr(space, op.name, None))), op)


# -- settings


class asking:
    """Inside: subclasses of Tensor (NO_SUBCLASSES), function modes as well (NOTHING), or nothing (PLAIN) go unasked."""

    def __init__(self, unasked):
        self.unasked = unasked

    def __enter__(self):
        self.previous, state.unasked = state.unasked, self.unasked

    def __exit__(self, *_):
        state.unasked = self.previous


class DisableTorchFunctionSubclass(asking):
    """Inside, handlers of classes are not asked, and results are plain tensors."""

    def __init__(self):
        super().__init__(NO_SUBCLASSES)


class DisableTorchFunction(asking):
    """Inside, neither handlers of classes nor function modes are asked."""

    def __init__(self):
        super().__init__(NOTHING)


class TorchFunctionMode:
    """`with mode:` gives this thread's calls of public functions to the mode's
    `__torch_function__(func, types, args, kwargs)`; inside of that, the mode is off."""

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise TypeError(f"{type(self).__name__} does not define __torch_function__")

    def __enter__(self):
        set_modes((*state.function_modes, self))
        return self

    def __exit__(self, *_):
        set_modes(state.function_modes[:-1])

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


def set_modes(modes: tuple) -> tuple:
    """Set the thread's stack of function modes; the previous one."""
    previous = state.function_modes
    _call.function_modes(len(modes) - len(previous))
    state.set(function_modes=modes)
    return previous


class below_mode:
    """Inside, a mode and those above it are off."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        at = len(state.function_modes) - 1
        while state.function_modes[at] is not self.mode:
            at -= 1
        self.previous = set_modes(state.function_modes[:at])
        return self.mode

    def __exit__(self, *_):
        set_modes(self.previous)


# -- subclasses of Tensor

_KEPT = {"grad", "_grad", "_base"}  # attributes that are what they are


def default_handler(cls, func, types, args=(), kwargs=None):
    """What a subclass without its own does: the call, with results of the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with asking(NO_SUBCLASSES):
        result = func(*args, **(kwargs or {}))
    return result if attribute_of(func) in _KEPT else as_kind(result, cls, args)


def attribute_of(func):
    """The attribute that `Tensor.shape.__get__` and its like read."""
    read = getattr(func, "__self__", None)
    return getattr(getattr(read, "fget", read), "__name__", None) if read is not None else None


def as_kind(result, kind, args=()):
    """Results that are tensors, as tensors of a subclass."""
    if isinstance(result, Tensor):
        if isinstance(result, kind):
            return result
        if type(result) is not Tensor or any(result is a for a in args):
            return as_subclass(result, kind)
        result.__class__ = kind
    elif isinstance(result, (tuple, list)) and type(result) is not Size:
        made = [as_kind(r, kind, args) for r in result]
        return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
    return result


def as_subclass(self, cls):
    """The same tensor, with its history, as an instance of a subclass."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): {cls!r} is no subclass of Tensor")
    with asking(NO_SUBCLASSES):
        made = OPS["alias"](self)
    made.__class__ = cls
    return made


def make_subclass(cls, data, require_grad=False):
    """`Tensor._make_subclass`: the memory of `data` as a leaf of the subclass."""
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' must be Tensor, not {type(data).__name__}")
    made = data._fl_alias()
    made.__class__ = cls
    return made.requires_grad_(require_grad)


def plain_tensors(*classes) -> None:
    """Subclasses whose results are plain tensors."""
    for kind in classes:
        kind.__torch_function__ = disabled


_UNASKED = set(
    """
__class__ __dict__ __weakref__ __hash__ __new__ __init__ __init_subclass__ __torch_function__ __doc__ __module__ __slots__
__array_priority__ __iter__ as_subclass is_sparse is_sparse_csr is_quantized is_mkldnn is_nested __format__ __index__
is_mps is_xpu is_xla is_ipu is_mtia is_maia is_vulkan
""".split()
)


def set_handlers(cls) -> None:
    """A new subclass of Tensor with a handler of its own: attributes and the methods that plain tensors have without the
    question ask it too."""
    if not takes_part(cls) or not own_handler(cls):
        return
    for name, own in vars(Tensor).items():
        hidden = name.startswith("_") and not name.startswith("__") and name not in ("_base", "_grad", "_version")
        if name in _UNASKED or hidden or _found(cls, name) is not own:
            continue
        if isinstance(own, property):
            setattr(cls, name, asked_property(own))
        elif callable(own) and not isinstance(own, (type, staticmethod, classmethod)):
            if type(own).__module__ != CALLABLES:
                setattr(cls, name, _call.public(_stand_in(own), own))


CALLABLES = type(_call.public(len)).__module__  # callables of C ask by themselves


def _stand_in(own):
    """A function apart from `own` that does the same: it carries the question for a subclass."""

    def method(*args, **kwargs):
        return own(*args, **kwargs)

    return method


def _found(cls, name):
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def asked_property(own: property) -> property:
    get = _call.public(lambda self: own.__get__(self), own.__get__)
    put = own.fset and _call.public(lambda self, value: own.__set__(self, value), own.__set__)
    return property(get, put, own.fdel)


install_methods(
    {
        "__torch_function__": classmethod(default_handler),
        "__init_subclass__": classmethod(lambda cls, **kwargs: set_handlers(cls)),
        "as_subclass": as_subclass,
        "_make_subclass": staticmethod(make_subclass),
    }
)
_call.answers(ask, PROCEED, disabled, complaint)
