"""Parameters, buffers and submodules of a module by dotted names. Source: PyTorch's private module of this name."""

from ...tensor import Tensor
from ..modules.module import Module


def _place(module, name):
    """(the module that holds it, its last name); AttributeError names what is missing."""
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else ():
        module = getattr(module, part, None)
        if not isinstance(module, Module):
            raise AttributeError(f"{name}: {part!r} is not a submodule")
    return module, last


def _table(module, name):
    if "." in name or not name:
        raise KeyError(f"tensor name can't {'contain' if name else 'be empty'}{' a dot' if name else ''}, got {name!r}")
    if name in module._parameters:
        return module._parameters
    if name in module._buffers:
        return module._buffers
    raise AttributeError(f"{type(module).__name__} has no tensor {name!r}")


def set_tensor(module, name, tensor):
    """A tensor in the place of a parameter or buffer."""
    swap_tensor(module, name, tensor)


def swap_tensor(module, name, tensor, allow_missing=False):
    """The same; what was there is returned. `allow_missing`: a new buffer if there is none of this name."""
    if not isinstance(module, Module):
        raise TypeError(f"{module!r} is not an instance of torch.nn.Module")
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor!r} is not an instance of torch.Tensor")
    try:
        table = _table(module, name)
    except AttributeError:
        if not allow_missing:
            raise
        table = module._buffers
    before = table.get(name)
    if tensor is None:
        table.pop(name, None)
    else:
        table[name] = tensor
    return before


def swap_submodule(module, name, submodule):
    """A module in the place of another, which is returned."""
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule!r} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule name {name!r} does not exist in {type(module).__name__}")
    before = module._modules[name]
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Members of `module` by dotted names."""

    def __init__(self, module):
        self.module = module

    def get_submodule(self, name):
        return self.module.get_submodule(name)

    def swap_submodule(self, path, value):
        return swap_submodule(*_place(self.module, path), value)

    def get_tensor(self, name):
        module, last = _place(self.module, name)
        return _table(module, last)[last]

    def set_tensor(self, name, value):
        set_tensor(*_place(self.module, name), value)

    def del_tensor(self, name):
        module, last = _place(self.module, name)
        del _table(module, last)[last]

    def swap_tensor(self, name, value, allow_missing=False):
        return swap_tensor(*_place(self.module, name), value, allow_missing)

    def get_tensors(self, names):
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors):
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names):
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values, strict=True)]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """(what was there, names that were missing); all or nothing."""
        before, missing = {}, []
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
                if before[name] is None:
                    missing.append(name)
        finally:
            if missing and not allow_missing:
                for name, value in before.items():
                    self.swap_tensor(name, value, allow_missing=True)
        if missing and not allow_missing:
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return before, missing

    def named_parameters(self, remove_duplicate=True):
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
