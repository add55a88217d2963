"""torch.overrides: what the `__torch_function__` protocol offers to callers."""

from ..tensor import Tensor


def is_tensor_like(inp):
    """A Tensor, or an object whose type takes part in the protocol."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args):
    """Whether any argument's type overrides functions."""
    return any(_overrides(type(a)) for a in relevant_args)


def has_torch_function_unary(arg):
    return _overrides(type(arg))


def has_torch_function_variadic(*args):
    return has_torch_function(args)


def _overrides(kind):
    own = getattr(kind, "__torch_function__", None)
    default = getattr(Tensor, "__torch_function__", None)
    return own is not None and getattr(own, "__func__", own) is not getattr(default, "__func__", default)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Asks each overriding type in turn, subclasses first; TypeError if none answers."""
    types = []
    for kind in map(type, relevant_args):
        if _overrides(kind) and kind not in types:
            place = next((i for i, known in enumerate(types) if issubclass(kind, known)), len(types))
            types.insert(place, kind)
    for kind in types:
        result = kind.__torch_function__(public_api, tuple(types), args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types that "
                    f"implement __torch_function__: {types}")


def resolve_name(f):
    return f"{f.__module__}.{f.__qualname__}"
