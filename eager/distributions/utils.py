"""What distributions share: broadcasting of parameters, probabilities and logits, properties computed once."""

from typing import Any

from .. import api
from ..autograd import enable_grad
from ..ops.activations import log_sigmoid
from ..tensor import Tensor


def broadcast_all(*values):
    """Tensors of one shape; numbers take the tensors' type (or the default one)."""
    given = [v for v in values if isinstance(v, Tensor)]
    for v in values:
        if not isinstance(v, (Tensor, int, float, bool)):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
            )
    kind = given[0].dtype if given else api.get_default_dtype()
    return api.broadcast_tensors(*[v if isinstance(v, Tensor) else api.tensor(v, dtype=kind) for v in values])


def eps_of(x):
    return api.finfo(x.dtype if isinstance(x, Tensor) else x).eps


def clamp_probs(probs):
    eps = eps_of(probs)
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits, is_binary=False):
    return api.sigmoid(logits) if is_binary else api.softmax(logits, -1)


def probs_to_logits(probs, is_binary=False):
    kept = clamp_probs(probs)
    return api.log(kept) - api.log1p(-kept) if is_binary else api.log(kept)


def log_softplus(x):
    """log(1 + exp(x)) without overflow, whose slope at 0 is one half."""
    return -log_sigmoid(-x)


def sum_rightmost(value, dim):
    """The sum over the last `dim` dims."""
    return value if dim == 0 else value.reshape(tuple(value.shape[:-dim]) + (-1,)).sum(-1)


_sum_rightmost = sum_rightmost


def _standard_normal(shape, dtype, device):
    """Normal numbers of mean 0 and variance 1."""
    return api.randn(tuple(shape), dtype=dtype, device=device)


class lazy_property:
    """An attribute computed at the first use, with gradients on."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance, owner=None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def open_uniform(shape, like):
    """Uniform numbers in (0, 1), of like's type."""
    tiny = api.finfo(like.dtype).tiny
    return api.rand(shape, dtype=like.dtype).clamp(min=tiny)
