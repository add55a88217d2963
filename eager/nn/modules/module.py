"""nn.Module: a tree of parameters, buffers and sub-modules with a forward.

In: attributes assigned in `__init__`. Out: `parameters()`, `state_dict()`, `.to()`, hooks and calls as in PyTorch.
Every instance gets a dictionary of its own at birth (`__new__`), so that guards may watch it by key: instances whose
attributes live inside the object (3.13) would escape a dictionary watcher.
"""

import functools
import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from ...autograd import no_grad
from ...autograd.api import zero_gradient
from ...frontend.arguments import parse_to
from ...frontend.creation import empty_like
from ...tensor import Tensor
from ...hook_handle import add_hook
from ..parameter import Buffer, Parameter, is_lazy
from .hooks import (  # noqa: F401  (the registration functions are public under this path)
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    call_with_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)


EXTRA_STATE = _EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


def typename(value):
    """The name that error texts give a value's type: `module.qualname`, bare for builtins."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def _indent(text, spaces=2):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in rest])


# ordered, because hooks run in order and may be put first
_HOOK_DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_TABLES = ("_parameters", "_buffers", "_modules")


class Module:
    """Base class of all modules; subclasses define `forward`."""

    training: bool
    dump_patches = False
    _version = 1
    call_super_init = False

    def __new__(cls, *args, **kwargs):
        self = object.__new__(cls)
        object.__setattr__(self, "__dict__", {})
        return self

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and (args or kwargs):
            given = f"{len(args) + 1} were given" if args else f"got an unexpected argument {next(iter(kwargs))!r}"
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {given}")
        fields = self.__dict__
        fields["training"] = True
        for table in _TABLES:
            fields[table] = {}
        fields["_non_persistent_buffers_set"] = set()
        fields["_is_full_backward_hook"] = None
        for hooks in _HOOK_DICTS:
            fields[hooks] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *inputs):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # -- calls -----------------------------------------------------------------------------------------------------

    def __call__(self, *args, **kwargs):
        if not (
            self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks or _global_hooks
        ):
            return self.forward(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def _call_impl(self, *args, **kwargs):
        return Module.__call__(self, *args, **kwargs)

    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    # -- hooks -----------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """`hook(module, args)` (or `(module, args, kwargs)`) runs before forward and may return new arguments."""
        flags = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return add_hook(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """`hook(module, args[, kwargs], output)` runs after forward and may return a new output."""
        flags = (self._forward_hooks_with_kwargs,) if with_kwargs else ()
        flags += (self._forward_hooks_always_called,) if always_call else ()
        return add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_hook(self, hook, prepend=False):
        """`hook(module, grad_input, grad_output)` runs when the gradients of the module's inputs are known."""
        self._fl_set_backward_kind(True)
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """The older kind: it sees the gradients of the last node of the result."""
        self._fl_set_backward_kind(False)
        return add_hook(self._backward_hooks, hook)

    def _fl_set_backward_kind(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """`hook(module, grad_output)` runs before the module's backward and may return new gradients."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook):
        return add_hook(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook):
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return add_hook(self._load_state_dict_pre_hooks, functools.partial(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook):
        return add_hook(self._load_state_dict_post_hooks, hook)

    # -- attributes ------------------------------------------------------------------------------------------------

    def __getattr__(self, name):
        fields = self.__dict__
        for table in _TABLES:
            members = fields.get(table)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._fl_assign_parameter(name, value)
        elif isinstance(value, Module):
            self._fl_assign_module(name, value)
        elif not self._fl_assign_to_table(name, value):
            object.__setattr__(self, name, value)

    def _fl_table_or_raise(self, table, what):
        members = self.__dict__.get(table)
        if members is None:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        return members

    def _fl_forget(self, name, keep):
        """Take `name` out of every table but `keep`."""
        fields = self.__dict__
        fields.pop(name, None)
        for table in _TABLES:
            if table != keep and table in fields:
                fields[table].pop(name, None)
        fields["_non_persistent_buffers_set"].discard(name)

    def _fl_assign_parameter(self, name, value):
        self._fl_table_or_raise("_parameters", "parameters")
        self._fl_forget(name, "_parameters")
        self.register_parameter(name, value)

    def _fl_assign_module(self, name, value):
        modules = self._fl_table_or_raise("_modules", "module")
        self._fl_forget(name, "_modules")
        modules[name] = registered(_global_module_registration_hooks, self, name, value)

    def _fl_assign_to_table(self, name, value):
        """Assign a plain value over a registered name; says whether there was one."""
        fields = self.__dict__
        if name in fields.get("_parameters", ()):
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, None)
        elif name in fields.get("_modules", ()):
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)")
            fields["_modules"][name] = None
        elif isinstance(value, Buffer) or name in fields.get("_buffers", ()):
            self._fl_assign_buffer(name, value)
        else:
            return False
        return True

    def _fl_assign_buffer(self, name, value: Any):
        buffers = self._fl_table_or_raise("_buffers", "buffer")
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if name in buffers:
            buffers[name] = registered(_global_buffer_registration_hooks, self, name, value)
        else:
            self.__dict__.pop(name, None)
            buffer: Any = value
            self.register_buffer(name, buffer, buffer.persistent)

    def __delattr__(self, name):
        fields = self.__dict__
        for table in _TABLES:
            if name in fields.get(table, ()):
                del fields[table][name]
                fields["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = itertools.chain(dir(type(self)), self.__dict__, *(self.__dict__.get(t, ()) for t in _TABLES))
        return sorted({name for name in names if not name[0].isdigit()})

    def _fl_check_new_name(self, name, table, what):
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        taken = hasattr(self, name) if name != "summary" else any(name in self.__dict__[each] for each in _TABLES)
        if taken and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name, param):
        parameters = self._fl_table_or_raise("_parameters", "parameter")
        self._fl_check_new_name(name, "_parameters", "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                "the forward() method."
            )
        if param is not None:
            param = registered(_global_parameter_registration_hooks, self, name, param)
        parameters[name] = param

    def register_buffer(self, name, tensor, persistent=True):
        buffers = self._fl_table_or_raise("_buffers", "buffer")
        self._fl_check_new_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        buffers[name] = registered(_global_buffer_registration_hooks, self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name, module):
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        modules = self._fl_table_or_raise("_modules", "module")
        self._fl_check_new_name(name, "_modules", "module")
        modules[name] = registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name, module):
        self.add_module(name, module)

    def get_submodule(self, target):
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _fl_get_member(self, target, table, what):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[table]:
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(module, name)

    def get_parameter(self, target):
        return self._fl_get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target):
        return self._fl_get_member(target, "_buffers", "a buffer")

    def set_submodule(self, target, module):
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)

    # -- walks -----------------------------------------------------------------------------------------------------

    def _named_members(self, get, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield path + ("." if path else "") + name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def apply(self, fn):
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- modes, devices, dtypes --------------------------------------------------------------------------------------

    def train(self, mode=True):
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        for param in self.parameters():
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                zero_gradient(param.grad)

    def _apply(self, fn, recurse=True):
        """Replace every parameter's data, its gradient and every buffer by fn(it); Parameter objects stay the same."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                param.data = fn(param)
                if param.grad is not None:
                    grad = fn(param.grad)
                    param.grad = grad.requires_grad_(param.grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """`to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`: in place; only floating tensors change
        dtype."""
        device, dtype, non_blocking, _, memory_format = parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t):
            wanted = dtype if t.dtype.is_floating_point or t.dtype.is_complex else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device=device, dtype=wanted, non_blocking=non_blocking, memory_format=memory_format)
            return t.to(device=device, dtype=wanted, non_blocking=non_blocking)

        return self._apply(convert)

    def type(self, dst_type):
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self):
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device, recurse=True):
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def share_memory(self):
        return self._apply(lambda t: t.share_memory_())

    # -- state -----------------------------------------------------------------------------------------------------

    def get_extra_state(self):
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _fl_has_extra_state(self):
        return type(self).get_extra_state is not Module.get_extra_state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._fl_has_extra_state():
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args, destination: Any = None, prefix: Any = "", keep_vars: Any = False):
        """An OrderedDict of detached tensors that share memory with the module's: parameters, buffers, then
        children."""
        if args:
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = dict(version=self._version)
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            replaced = hook(self, destination, prefix, local_metadata)
            destination = destination if replaced is None else replaced
        return destination

    def _fl_own_state(self):
        """name -> tensor of the parameters and persistent buffers that are not None."""
        state = {k: v for k, v in self._parameters.items() if v is not None}
        state.update((k, v) for k, v in self._buffers.items() if v is not None and k not in self._non_persistent_buffers_set)
        return state

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Copy this module's own entries; keys and errors are appended to the three lists."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = self._fl_own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in own.items():
            key = prefix + name
            if key in state_dict:
                error = self._fl_load_one(name, key, param, state_dict[key], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        self._fl_load_extra_state(state_dict, prefix + EXTRA_STATE, strict, missing_keys, unexpected_keys)
        if strict:
            self._fl_list_unexpected(state_dict, prefix, own, unexpected_keys)

    def _fl_load_one(self, name, key, param, value, assign):
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
        lazy = is_lazy(param)
        if lazy and is_lazy(value):
            return None  # neither has elements yet
        if not lazy and param.dim() == 0 and value.dim() == 1 and len(value) == 1:
            value = value[0]  # old checkpoints store scalars as one element
        if not lazy and tuple(value.shape) != tuple(param.shape):
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {param.shape}."
            )
        try:
            with no_grad():
                if assign:
                    self._fl_assign_loaded(name, param, value)
                else:
                    param.copy_(value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are {param.size()} and '
                f"whose dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
            )
        return None

    def _fl_assign_loaded(self, name, param, value):
        if isinstance(param, Parameter):
            if not isinstance(value, Parameter):
                value = Parameter(value, requires_grad=param.requires_grad)
            else:
                value.requires_grad_(param.requires_grad)
        setattr(self, name, value)

    def _fl_load_extra_state(self, state_dict, key, strict, missing_keys, unexpected_keys):
        if type(self).set_extra_state is not Module.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _fl_list_unexpected(self, state_dict, prefix, own, unexpected_keys):
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + EXTRA_STATE:
                name, dot, _ = key[len(prefix) :].partition(".")
                if name not in (self._modules if dot else own):
                    unexpected_keys.append(key)

    def load_state_dict(self, state_dict: Any, strict=True, assign=False):
        """Copy values in; raises RuntimeError naming all wrong keys and shapes, returns (missing, unexpected) keys."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        _load_tree(self, state_dict, "", metadata or {}, assign, missing, unexpected, errors)
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    def __setstate__(self, state):
        self.__dict__.update(state)
        for hooks in _HOOK_DICTS:
            self.__dict__.setdefault(hooks, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # -- text ------------------------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """The text between the parentheses of the representation."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _indent(repr(module)) for name, module in self._modules.items()]
        lines = extra_lines + children
        if not lines:
            return self._get_name() + "()"
        if len(extra_lines) == 1 and not children:
            return f"{self._get_name()}({extra_lines[0]})"
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


def _quoted(keys):
    return ", ".join(f'"{k}"' for k in keys)


def _load_tree(module, state_dict, prefix, metadata, assign, missing, unexpected, errors):
    local = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(state_dict, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            path = prefix + name + "."
            part = OrderedDict((k, v) for k, v in state_dict.items() if k.startswith(path))
            _load_tree(child, part, path, metadata, assign, missing, unexpected, errors)
    incompatible = _IncompatibleKeys(missing, unexpected)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hook(module, incompatible) is not None:
            raise RuntimeError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return "
                "new values, if incompatible_keys need to be modified, it should be done inplace."
            )
