"""torch.utils._python_dispatch: questions about modes and subclasses below the functions, of which there are none here."""


def is_traceable_wrapper_subclass(t):
    """Whether a tensor's class wraps other tensors that compiled code sees in its place: none does."""
    return False


def is_traceable_wrapper_subclass_type(t):
    """The same of a class."""
    return False


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Whether a mode sees each operator."""
    return False


def any_torch_dispatch_mode_on_stack(*, include_infra_modes=True):
    """The same."""
    return False
