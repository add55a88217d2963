"""Hooks of modules: those of the whole process, and how a call runs them all.

In: a module with hooks and the arguments of a call. Out: its result. Order: hooks of the process, then the module's
own; forward pre-hooks, forward, forward hooks; the taps for backward hooks lie between pre-hooks and forward, and
behind the forward hooks.
"""

import warnings
from collections import OrderedDict

from ...hook_handle import add_hook
from .backward_hooks import BackwardCall, watch_result

_global_hooks = OrderedDict()  # the ids of all below that calls run, for one test on the way
_global_forward_hooks = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_parameter_registration_hooks = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Register `hook(module, args[, kwargs], output)` for every module of the process."""
    flags = (_global_hooks,)
    flags += (_global_forward_hooks_with_kwargs,) if with_kwargs else ()
    flags += (_global_forward_hooks_always_called,) if always_call else ()
    return add_hook(_global_forward_hooks, hook, flags=flags)


def register_module_forward_pre_hook(hook):
    """Register `hook(module, args)` for every module of the process."""
    return add_hook(_global_forward_pre_hooks, hook, flags=(_global_hooks,))


def register_module_full_backward_hook(hook):
    """Register `hook(module, grad_input, grad_output)` for every module of the process."""
    _set_global_kind(True)
    return add_hook(_global_backward_hooks, hook, flags=(_global_hooks,))


def register_module_backward_hook(hook):
    """The older kind: it sees the gradients of the last node of the result."""
    _set_global_kind(False)
    return add_hook(_global_backward_hooks, hook, flags=(_global_hooks,))


def _set_global_kind(full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of them."
        )
    _global_is_full_backward_hook = full


def register_module_full_backward_pre_hook(hook):
    """Register `hook(module, grad_output)` for every module of the process."""
    return add_hook(_global_backward_pre_hooks, hook, flags=(_global_hooks,))


def register_module_parameter_registration_hook(hook):
    """`hook(module, name, param)` at each registration; what it returns (unless None) is registered instead."""
    return add_hook(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook):
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    return add_hook(_global_module_registration_hooks, hook)


def registered(hooks, module, name, value):
    """The value that registration hooks leave."""
    for hook in tuple(hooks.values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


# -- calls


def call_with_hooks(module, args, kwargs):
    """`module(*args, **kwargs)` where there are hooks."""
    ran, box = set(), [None]
    try:
        return _call(module, args, kwargs, ran, box)
    except Exception:
        _run_always_hooks(module, args, kwargs, ran, box[0])
        raise


def _call(module, args, kwargs, ran, box):
    full, plain, pre = _backward_hooks_of(module)
    args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
    watch = None
    if full or pre:
        watch = BackwardCall(module, full, pre)
        args = watch.tap_inputs(args)
    box[0] = module.forward(*args, **kwargs)
    for key, hook, with_kwargs in _forward_hooks_of(module):
        ran.add(key)
        changed = _run_forward_hook(hook, with_kwargs, module, args, kwargs, box[0])
        if changed is not None:
            box[0] = changed
    if watch is not None:
        box[0] = watch.tap_outputs(box[0])
    if plain:
        watch_result(module, plain, args, box[0])
    return box[0]


def _backward_hooks_of(module):
    """(full hooks, hooks of the older kind, pre-hooks), those of the process first."""
    full, plain = [], []
    if _global_backward_hooks:
        (full if _global_is_full_backward_hook else plain).extend(_global_backward_hooks.values())
    if module._backward_hooks:
        (full if module._is_full_backward_hook else plain).extend(module._backward_hooks.values())
    return full, plain, [*_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()]


def _run_forward_pre_hooks(module, args, kwargs):
    for hook in tuple(_global_forward_pre_hooks.values()):
        changed = hook(module, args)
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    for key, hook in tuple(module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _forward_hooks_of(module):
    """(id, hook, whether it takes keywords), those of the process first."""
    return [(k, hook, k in _global_forward_hooks_with_kwargs) for k, hook in tuple(_global_forward_hooks.items())] + [
        (k, hook, k in module._forward_hooks_with_kwargs) for k, hook in tuple(module._forward_hooks.items())
    ]


def _run_forward_hook(hook, with_kwargs, module, args, kwargs, result):
    return hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)


def _run_always_hooks(module, args, kwargs, ran, result):
    """After an error: the hooks registered with `always_call` that have not run yet see the result so far."""
    for key, hook, with_kwargs in _forward_hooks_of(module):
        everywhere = key in _global_forward_hooks_always_called
        if key in ran or not (everywhere or key in module._forward_hooks_always_called):
            continue
        try:
            changed = _run_forward_hook(hook, with_kwargs, module, args, kwargs, result)
            result = result if changed is None else changed
        except Exception as error:
            warnings.warn(
                f"{'global ' if everywhere else ''}module forward hook with ``always_call=True`` raised an "
                "exception that was silenced as another error was raised in forward: " + str(error),
                stacklevel=2,
            )
