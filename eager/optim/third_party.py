"""What optimizers written for PyTorch import from `torch.optim.optimizer` besides the base class.

Their questions have one answer here: tensors are on the CPU, lists of tensors are served (`_foreach_*`), and steps run
without gradients unless `differentiable` is set.
"""

import functools
from collections.abc import Iterable
from typing import Any

from .. import api
from ..autograd import set_grad_enabled
from ..tensor import Tensor

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_params_t = ParamsT
_params_doc = "params: the parameters, or dictionaries of parameters with options"
_foreach_doc = "foreach (bool, optional): work on lists of tensors"
_fused_doc = "fused (bool, optional): one kernel over all parameters"
_capturable_doc = "capturable (bool, optional): accepted; there is no graph of a device to capture"
_differentiable_doc = "differentiable (bool, optional): autograd sees the step"
_maximize_doc = "maximize (bool, optional): go up the gradient"


def _use_grad_for_differentiable(step):
    """A step that runs with gradients on only if the optimizer was made with `differentiable=True`."""

    @functools.wraps(step)
    def run(self, *args, **kwargs):
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return step(self, *args, **kwargs)

    return run


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator that changes nothing: every step may be captured."""
    return lambda function: function


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach): what to use where the user did not say."""
    fused = use_fused and not differentiable and all(p is None or p.is_floating_point() for p in params)
    return bool(fused), False


def _device_dtype_check_for_fused(p, cuda_unsupported=False):
    if not p.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"['cpu'] but {p.dtype} and {p.device.type}"
        )


def _get_value(x):
    """A number, or the number in a tensor."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x):
    """The list itself: lists are captured as they are."""
    return x


def _to_scalar(x):
    """A tensor of one element without its dims; numbers as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _view_as_real(params, *state_and_grads):
    """Complex tensors in the lists become real ones with a last dim of 2, in place."""
    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[i] = api.view_as_real(tensors[i])


def _get_scalar_dtype(is_fused=None):
    """The dtype of step counters."""
    return api.float64 if not is_fused and api.get_default_dtype() == api.float64 else api.float32


def _get_capturable_supported_devices(supports_xla=True):
    return ["cuda", "xpu", "hpu", *(["xla"] if supports_xla else [])]


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """Lists of tensors of equal length, cut into one group for each (device, dtype) of the first list:
    {(device, dtype): (lists of the group, positions)}."""
    positions = {}
    for i, first in enumerate(tensorlistlist[0]):
        positions.setdefault((first.device, first.dtype), []).append(i)
    return {
        key: ([[each[i] for i in chosen] if each else [] for each in tensorlistlist], chosen if with_indices else [])
        for key, chosen in positions.items()
    }
