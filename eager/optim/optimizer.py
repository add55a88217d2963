"""Optimizer: parameter groups, state by parameter, and their state_dict.

In: parameters, or dictionaries of parameters with options. Out: `step()` changes the parameters in place.
`param_groups` may be edited between steps (`group["lr"] = ...`); options missing in a group come from `defaults`.
"""

import copy
import functools
from collections import OrderedDict, defaultdict
from typing import Any

from ..autograd import enable_grad
from ..autograd.api import zero_gradient
from ..tensor import Tensor
from ..utils.hooks import add_hook
from .third_party import (  # noqa: F401 (what third-party optimizers import from here)
    ParamsT,
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _group_tensors_by_device_and_dtype,
    _maximize_doc,
    _params_doc,
    _params_t,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)

_global_step_pre_hooks = OrderedDict()
_global_step_post_hooks = OrderedDict()
_STATE_HOOKS = ("_state_dict_pre_hooks", "_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")


def register_optimizer_step_pre_hook(hook):
    """`hook(optimizer, args, kwargs)` before each step of every optimizer; may return new (args, kwargs)."""
    return add_hook(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """`hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return add_hook(_global_step_post_hooks, hook)


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base class: a subclass gives `defaults` and a `step(closure=None)`."""

    # a wrapper that never runs __init__ has no hooks of its steps
    _optimizer_step_pre_hooks: Any = None
    _optimizer_step_post_hooks: Any = None
    _state_dict_pre_hooks: OrderedDict
    _state_dict_post_hooks: OrderedDict
    _load_state_dict_pre_hooks: OrderedDict
    _load_state_dict_post_hooks: OrderedDict

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self.__dict__.update((name, OrderedDict()) for name in _STATE_HOOKS)
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(dict(group))

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_step_hooks(cls.step)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", *_STATE_HOOKS):
            self.__dict__.setdefault(hooks, OrderedDict())

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    def register_step_pre_hook(self, hook):
        """`hook(optimizer, args, kwargs)` before each step; may return new (args, kwargs)."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """`hook(optimizer)` before `state_dict()`."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """`hook(optimizer, state_dict)` after `state_dict()`; may return another one."""
        return add_hook(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """`hook(optimizer, state_dict)` before loading (the dictionary is a shallow copy); may return another one."""
        return add_hook(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """`hook(optimizer)` after loading."""
        return add_hook(self._load_state_dict_post_hooks, hook, prepend)

    def add_param_group(self, param_group):
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of "
                "tensors in sets will change between runs. Please use a list instead."
            )
        params: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        if params and isinstance(params[0], tuple):  # named parameters
            param_group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        param_group["params"] = params
        for param in params:
            _check_param(param, self.defaults.get("differentiable"))
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(set(params)) != len(params):
            raise ValueError("some parameters appear more than once in the same parameter group")
        if not set(params).isdisjoint(p for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    zero_gradient(p.grad)

    def _fl_prepare(self, group):
        """Make the state of the group's parameters that have a gradient and no state yet."""
        if len(self.state) < sum(len(g["params"]) for g in self.param_groups):
            for p in group["params"]:
                if p.grad is not None and not self.state[p]:
                    self._fl_make_state(p, group)

    def _fl_make_state(self, p, group):
        """Put a new parameter's state into `self.state[p]`."""

    def step(self, closure=None):
        raise RuntimeError(f"{type(self).__name__} does not define step()")

    def _fl_evaluate(self, closure):
        """The loss of a closure, which is run with gradients on."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def state_dict(self):
        """State keyed by the position of the parameter over all groups; tensors are not copied."""
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self)
        index = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [index[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {index[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        found = {"state": state, "param_groups": groups}
        for hook in tuple(self._state_dict_post_hooks.values()):
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict):
        saved = copy.copy(state_dict)
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            changed = hook(self, saved)
            saved = saved if changed is None else changed
        own, new = self.param_groups, copy.deepcopy(saved["param_groups"])
        if len(own) != len(new):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(own, new)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        by_id = dict(zip((i for group in new for i in group["params"]), (p for group in own for p in group["params"])))
        state = defaultdict(dict)
        for key, value in saved["state"].items():
            param = by_id.get(key)
            state[key if param is None else param] = value if param is None else _cast_state(param, value)
        for group, loaded in zip(own, new):
            loaded["params"] = group["params"]
        self.__setstate__({"state": state, "param_groups": new})
        for hook in tuple(self._load_state_dict_post_hooks.values()):
            hook(self)


def _check_param(param, differentiable=False):
    if not isinstance(param, Tensor):
        raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
    if not differentiable and not param.is_leaf and not getattr(param, "retains_grad", False):
        raise ValueError("can't optimize a non-leaf Tensor")


def _cast_state(param, value, key=None):
    """A copy of loaded state whose floating tensors have the parameter's dtype and device; `step` keeps its own."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.clone()
        wanted = param.dtype if param.is_floating_point() else None
        return value.to(device=param.device, dtype=wanted, copy=True)
    if isinstance(value, dict):
        return {k: _cast_state(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast_state(param, v) for v in value)
    return value


def _with_step_hooks(step):
    @functools.wraps(step)
    def run(self, *args, **kwargs):
        if self._optimizer_step_pre_hooks is None or not (
            self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _global_step_pre_hooks or _global_step_post_hooks
        ):
            return step(self, *args, **kwargs)
        for hook in (*_global_step_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return run


def as_float(lr):
    """A learning rate as a number: it may be a tensor of one element."""
    return lr.item() if isinstance(lr, Tensor) else lr


def number_of(x):
    """A number, or a tensor's one element. A captured program computes with the tensor itself, in double precision
    (capture/variables/higher_order.py), so what is made of it is used by the functions below."""
    return x.item() if isinstance(x, Tensor) else x


def moved(p, x, factor):
    """p := p + factor * x"""
    return p.add_(x * factor) if isinstance(factor, Tensor) else p.add_(x, alpha=factor)


def moved_by_quotient(p, a, b, factor):
    """p := p + factor * a / b"""
    return p.add_(a / b * factor) if isinstance(factor, Tensor) else p.addcdiv_(a, b, value=factor)


def blended(p, x, rate):
    """p := p + rate * (x - p)"""
    return p.lerp_(x, rate.to(p.dtype) if isinstance(rate, Tensor) else rate)


def assigned(p, number):
    return p.copy_(number) if isinstance(number, Tensor) else p.fill_(number)


def larger(number, bound):
    return number.clamp(min=bound) if isinstance(number, Tensor) else max(number, bound)


def smaller(number, bound):
    return number.clamp(max=bound) if isinstance(number, Tensor) else min(number, bound)
