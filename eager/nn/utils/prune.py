"""torch.nn.utils.prune: parameters with some of their entries held at zero by a mask.

A pruned parameter `name` becomes a parameter `name_orig` and a buffer `name_mask`; before each forward a hook sets the
attribute `name` to their product. Pruning again multiplies the masks; `remove` makes the product the parameter.
"""

import numbers
from abc import ABC, abstractmethod
from typing import Any

from ... import api
from ...autograd import no_grad
from ..parameter import Parameter

__all__ = [
    "BasePruningMethod",
    "PruningContainer",
    "Identity",
    "RandomUnstructured",
    "L1Unstructured",
    "RandomStructured",
    "LnStructured",
    "CustomFromMask",
    "identity",
    "random_unstructured",
    "l1_unstructured",
    "random_structured",
    "ln_structured",
    "global_unstructured",
    "custom_from_mask",
    "remove",
    "is_pruned",
]


class BasePruningMethod(ABC):
    """A way to choose a mask. A subclass says its PRUNING_TYPE ("unstructured", "structured": along `dim`, or "global")
    and computes masks."""

    _tensor_name: str
    PRUNING_TYPE: str | None = None
    dim: int  # of the structured

    def __call__(self, module, inputs):
        """The forward pre-hook."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask) -> Any:
        """A new mask, from the tensor and the mask that already holds."""

    def apply_mask(self, module):
        """The product of the original parameter and its mask."""
        name = self._tensor_name
        mask, original = getattr(module, name + "_mask"), getattr(module, name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes `module.name` by this method, on top of what has pruned it; the method that now stands in the hooks."""
        found = _hook_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if found is not None:
            key, before = found
            del module._forward_pre_hooks[key]
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name) if found is None else getattr(module, name + "_orig")
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise ValueError(f"importance_scores should have the same shape as parameter {name} of {module}")
        _prune(module, name, method, original, scores, fresh=found is None)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise ValueError("importance_scores should have the same shape as tensor t")
        return t * self.compute_mask(scores, api.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module):
        """Makes the pruned values the parameter again. The mask is gone; the pruning stays."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        original.data = weight.data
        setattr(module, name, original)


def _hook_of(module, name):
    """(key, method) of the pruning of `name` among the module's hooks; None if it is not pruned."""
    found = [(k, h) for k, h in module._forward_pre_hooks.items() if isinstance(h, BasePruningMethod) and h._tensor_name == name]
    if len(found) > 1:
        raise AssertionError(f"{name} of {module} is pruned by more than one hook")
    return found[0] if found else None


def _prune(module, name, method, original, scores, fresh):
    """Registers original and mask if they are new, computes the mask, and sets the product."""
    before = api.ones_like(original) if fresh else getattr(module, name + "_mask").detach().clone()
    with no_grad():
        mask = method.compute_mask(scores.detach(), before)
    if fresh:
        if not isinstance(module._parameters.get(name), Parameter):
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r} to prune")
        del module._parameters[name]
        module.register_parameter(name + "_orig", original)
    module.register_buffer(name + "_mask", mask)
    setattr(module, name, method.apply_mask(module))


class PruningContainer(BasePruningMethod):
    """Several prunings of one tensor, one after the other."""

    def __init__(self, *args):
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and not isinstance(args[0], (list, tuple)):
            self._tensor_name = args[0]._tensor_name
        for method in args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        own = getattr(self, "_tensor_name", None)
        if method is not None and own is not None and own != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{own}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The last method's mask among the entries (or slices) that are still there, times the mask that holds."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            chosen = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()
            alive = mask.sum([d for d in range(t.dim()) if d != dim]) != 0
            chosen = (slice(None),) * dim + (alive,)
        elif method.PRUNING_TYPE == "global":
            chosen = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = mask.clone()
        mask[chosen] = method.compute_mask(t[chosen], mask[chosen]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing: only the names change."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


class _Amount(BasePruningMethod):
    """A method that prunes `amount` entries or slices: a count, or a share between 0 and 1."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def _count(self, size):
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}")
        return self.amount


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    n: Any = amount
    if (whole and n < 0) or (not whole and not 0 <= n <= 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


class RandomUnstructured(_Amount):
    """Prunes entries drawn at random."""

    def compute_mask(self, t, default_mask):
        count, mask = self._count(t.nelement()), default_mask.clone()
        if count:
            mask.view(-1)[api.topk(api.rand_like(t).view(-1), count).indices] = 0
        return mask


class L1Unstructured(_Amount):
    """Prunes the entries that are smallest in magnitude."""

    def compute_mask(self, t, default_mask):
        count, mask = self._count(t.nelement()), default_mask.clone()
        if count:
            mask.view(-1)[api.topk(t.abs().reshape(-1), count, largest=False).indices] = 0
        return mask


class _Slices(_Amount):
    """A method that prunes whole slices along `dim`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def scores(self, t):
        """One number for each slice; the smallest are pruned."""
        raise AttributeError(f"{type(self).__name__} has no scores")

    def compute_mask(self, t, default_mask):
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{tuple(t.shape)} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid dim={self.dim} for tensor of shape {tuple(t.shape)}")
        count = self._count(t.shape[self.dim])
        mask = default_mask.clone()
        if count:
            index = (slice(None),) * (self.dim % t.dim()) + (api.topk(self.scores(t), count, largest=False).indices,)
            mask[index] = 0
        return mask


class RandomStructured(_Slices):
    """Prunes slices drawn at random."""

    def scores(self, t):
        return api.rand(t.shape[self.dim])


class LnStructured(_Slices):
    """Prunes the slices whose norm of order n is smallest."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t):
        return api.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != self.dim % t.dim()])


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError("the mask has another shape than the parameter")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """Each of these functions prunes `module.name` in place and returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes `amount` entries over all (module, name) pairs together, by one method."""
    if not isinstance(parameters, (list, tuple)):
        parameters = list(parameters)
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    flat = [scores.get(pair, getattr(*pair)).detach().reshape(-1) for pair in parameters]
    masks = [getattr(m, name + "_mask", api.ones_like(getattr(m, name))).detach().reshape(-1) for m, name in parameters]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    with no_grad():
        mask = container.compute_mask(api.cat(flat), api.cat(masks))
    for (module, name), part in zip(parameters, api.split(mask, [each.numel() for each in flat])):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def remove(module, name):
    """Makes the pruned values of `module.name` permanent and takes mask and hook away; returns the module."""
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    key, method = found
    method.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module):
    """Whether any parameter of the module, or of one inside it, is pruned."""
    return any(isinstance(hook, BasePruningMethod) for inner in module.modules() for hook in inner._forward_pre_hooks.values())
