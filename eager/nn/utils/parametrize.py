"""Parametrisations: a tensor of a module that is computed from others by modules, whenever it is read.

The module gets a class of its own with a property of the tensor's name; what it is computed from lies in
`module.parametrizations.<name>`: `original` (or original0, original1, ...) and the parametrisations, in order.
"""

import copy
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd import no_grad
from ...tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = [
    "cached",
    "ParametrizationList",
    "register_parametrization",
    "is_parametrized",
    "remove_parametrizations",
    "type_before_parametrizations",
    "transfer_parametrizations_and_params",
]


class _Cache:
    """Values read inside `cached()`, by (module, name)."""

    depth = 0
    values: dict = {}


@contextmanager
def cached():
    """Inside, each parametrised tensor is computed once."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


def _register(module, name, value):
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _set_bytes(tensor, value):
    """Other contents, the same tensor object."""
    with_grad = tensor.requires_grad
    tensor.data = value.data
    tensor.requires_grad_(with_grad)


class ParametrizationList(ModuleList):
    """The original tensor(s) and what is applied to them, in order."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = self._inverted(original)
        if not isinstance(new, Tensor) and not isinstance(new, Sequence):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._take_one(original, new)
        else:
            for k, each in enumerate(new):
                self._take(original, f"original{k}", each)
        if not unsafe:
            made = self()
            if not isinstance(made, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
            if made.dtype != dtype or made.shape != shape:
                what = "dtype" if made.dtype != dtype else "shape"
                got, wanted = (made.dtype, dtype) if what == "dtype" else (made.shape, shape)
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless "
                    f"`unsafe` flag is enabled.\nunparametrized {what}: {wanted}\nparametrized {what}: "
                    f"{got}"
                )

    def _inverted(self, original):
        new = original
        for module in reversed(self):
            if hasattr(module, "right_inverse"):
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    pass
        return new

    def _take_one(self, original, new):
        """The original stays the same object: optimizers may hold it."""
        if new.dtype != original.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
            )
        if new is not original:
            _set_bytes(original, new)
        _register(self, "original", original)

    def _take(self, original, name, each):
        if not isinstance(each, Tensor):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"element of the sequence with type {type(each).__name__}."
            )
        each = each.detach()
        _register(self, name, Parameter(each, original.requires_grad) if isinstance(original, Parameter) else each)

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{k}") for k in range(self.ntensors)]

    def right_inverse(self, value):
        """Assigning to the parametrised tensor: through the inverses, last first."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else list(value)
            if len(values) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of length {self.ntensors}, got {len(values)}.")
            for original, new in zip(self._originals(), values):
                if new.dtype != original.dtype:
                    raise ValueError(
                        f"The tensor returned by 'right_inverse' has dtype {new.dtype} while 'original' "
                        f"has dtype {original.dtype}"
                    )
                _set_bytes(original, new)

    def forward(self):
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


# -- classes with properties


def _inject_class(module):
    """A subclass for this instance alone."""
    cls = type(module)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            replica = self.__new__(type(self))
            memo[id(self)] = replica
            replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return memo[id(self)]

    def __getstate__(self):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")

    body: dict[str, Any] = {"__getstate__": __getstate__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = __deepcopy__
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module, name):
    def get(self):
        if not _Cache.depth:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _Cache.values:
            _Cache.values[key] = self.parametrizations[name]()
        return _Cache.values[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def _check_appended(module, name, parametrization):
    """A further parametrisation keeps dtype and shape, and so does its inverse."""
    with no_grad():
        before = getattr(module, name)
        after = parametrization(before)
        if not isinstance(after, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
        for what in ("dtype", "shape"):
            if getattr(after, what) != getattr(before, what):
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless the "
                    f"`unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                    f"parametrization(module.{name}).{what}: {getattr(after, what)}"
                )


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on `module.<tensor_name>` is `parametrization(original)`; further ones apply to the result."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_appended(module, tensor_name, parametrization)
        held = module.parametrizations[tensor_name]
        if hasattr(parametrization, "right_inverse"):
            with no_grad():
                value = getattr(module, tensor_name)
                inverse = parametrization.right_inverse(value)
            held.append(parametrization)
            held.right_inverse(parametrization(inverse))
        else:
            held.append(parametrization)
        held.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module, tensor_name=None):
    """Whether anything (or this tensor) of the module is parametrised."""
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The tensor becomes a plain one: with its present value, or (leave_parametrized=False) the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with no_grad():
                _set_bytes(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name).detach()
        parameter = any(isinstance(o, Parameter) for o in held._originals())
        original = Parameter(value, any(o.requires_grad for o in held._originals())) if parameter else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
            "terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class that the module had."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives `to_module` the parametrisations of `from_module` (of one tensor, or all), and their originals."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        held = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for each in held:
            register_parametrization(to_module, name, each, unsafe=held.unsafe)
        for ours, theirs in zip(to_module.parametrizations[name]._originals(), held._originals()):
            ours.data = theirs.data
    return to_module
