"""torch.library: operators of the user's own, in Python (https://docs.pytorch.org/docs/stable/library.html).

`Library.define/impl`, `custom_op` and `torch.ops.namespace.name` run the function that was given; in compiled code an operator
with a shape function (`register_fake`) is one node of the graph. Extensions in C++ that were built for PyTorch cannot be loaded.
"""

import re

from ..ops import user_kernels
from . import missing
from .operators import entry, find


def _here(device_types) -> bool:
    """Whether a kernel for these devices (a name, several, or None for all) is one for tensors of this process."""
    names = [device_types] if isinstance(device_types, str) else device_types
    return names is None or any(
        name.lower() in ("", "cpu", "default", "compositeimplicitautograd", "compositeexplicitautograd") for name in names
    )


def _operator_of(op):
    """The operator that is meant by a name, an operator or what `custom_op` gave."""
    return entry(op) if isinstance(op, str) else getattr(op, "_operator", op)


_COMPOSITE = "CompositeImplicitAutograd", "CompositeExplicitAutograd"


class Library:
    """A namespace of operators: `define(schema)`, then `impl(name, function)`."""

    def __init__(self, ns, kind="DEF", dispatch_key=""):
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        name = schema.partition("(")[0].strip()
        return define(f"{self.ns}::{name}", schema)

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        name = op_name if isinstance(op_name, str) else op_name.name
        name = name.partition("::")[2] or name
        if self.ns in ("aten", "prims"):
            raise RuntimeError(
                f"Library({self.ns!r}, ...).impl({name!r}): own operators cannot be replaced by name; "
                "flambeau.extend registers records with kernels of your own"
            )
        key, operator = dispatch_key or self.dispatch_key, entry(f"{self.ns}::{name}")
        if key == "Meta":
            operator.fake = fn
        elif _here(key):
            operator.function, operator.composite = fn, key in _COMPOSITE

    def _register_fake(self, op_name, fn, **kwargs):
        entry(f"{self.ns}::{op_name}").fake = fn


class CustomOp:
    """A function registered as an operator; gradients by `register_autograd`, sizes for compiled code by `register_fake`."""

    def __init__(self, name, function, mutates_args=()):
        self._opoverload = self._operator = operator = entry(name)
        operator.function, operator.closed = function, True
        operator.fake = operator.backward = None
        operator.mutates = None if mutates_args == "unknown" else tuple(mutates_args)
        self._name = name
        self.__name__ = self.__qualname__ = name.rpartition("::")[2]
        self.__doc__ = function.__doc__

    def __call__(self, *args, **kwargs):
        return self._operator(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._name})>"

    def register_fake(self, fn):
        """The shape function: keeps it and returns it."""
        self._operator.fake = fn
        return fn

    def register_kernel(self, device_types, fn=None):
        def register(fn):
            if _here(device_types):
                self._operator.function = fn
            return fn

        return register if fn is None else register(fn)

    def register_autograd(self, backward, *, setup_context=None):
        """`backward(ctx, *grads)` gives a gradient per argument; `setup_context(ctx, inputs, output)` saves what it needs.
        RuntimeError for an operator that writes its arguments."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, fn, **kwargs):
        raise missing.error("torch.library.CustomOp.register_vmap")


def custom_op(name, fn=None, /, *, mutates_args=(), device_types=None, schema=None, tags=None):
    """Registers a Python function as the operator `namespace::name` and returns it as a callable."""
    if "::" not in name:
        raise ValueError(f"custom_op: {name!r} must read namespace::name")
    if not _here(device_types):
        raise RuntimeError(f"custom_op {name!r}: device_types={device_types!r}: only kernels for the cpu can be registered")
    if schema is not None:
        entry(name, name + schema)
    make = lambda function: CustomOp(name, function, mutates_args)
    return make if fn is None else make(fn)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """Keeps a shape function with the operator (which may not exist yet) and returns it."""

    def register(function):
        _operator_of(op).fake = function
        return function

    return register if func is None else register(func)


impl_abstract = register_fake


def register_kernel(op, device_types, func=None, /, *, lib=None):
    def register(function):
        if _here(device_types):
            _operator_of(op).function = function
        return function

    return register if func is None else register(func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The gradient of an operator: `backward(ctx, *grads)`."""
    operator = _operator_of(op)
    if operator.built_in:
        return
    if operator.writes():
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator.name}: it writes {operator.mutates}; "
            "write a functional operator and copy its result"
        )
    operator.backward = (backward, setup_context)


def define(qualname, schema, *, lib=None, tags=()):
    """The operator `namespace::name` with this schema; arguments marked like `Tensor(a!) x` are written."""
    operator = entry(qualname, schema)
    operator.mutates = tuple(re.findall(r"\(\w+!\)(?:\[\])?\??\s+(\w+)", schema))
    return operator.name


def impl(qualname, types, func=None, *, lib=None):
    return register_kernel(qualname, types, func)


def get_ctx():
    raise missing.error("torch.library.get_ctx", "operators with data-dependent shapes run eagerly")


def opcheck(op, args, kwargs=None, **options):
    """Runs the operator once on the arguments."""
    (find(op) if isinstance(op, str) else op)(*args, **(kwargs or {}))
    return {}


def wrap_triton(triton_kernel, /):
    """The kernel (a `@triton.jit` function) as a callable that takes tensors: `wrap_triton(kernel)[grid](...)`."""
    return user_kernels.launcher().wrap(triton_kernel)


def triton_op(name, fn=None, /, *, mutates_args=(), schema=None):
    """`custom_op` for a function that calls Triton kernels by `wrap_triton`; compiled code looks into it."""

    def make(function):
        made = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        made._operator.closed, made._operator.composite = False, True
        return made

    return make if fn is None else make(fn)
