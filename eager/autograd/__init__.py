"""Automatic differentiation: the graph of nodes, the engine that runs it, custom functions, modes and hooks."""

from ..autograd_node import Node
from ..tensor import install_methods
from ..lazy_import import submodules
from . import grad_mode, graph
from .api import backward, grad, register_hook, register_post_accumulate_grad_hook, retain_grad, retains_grad, tensor_backward
from ..autograd_node import AccumulateGrad
from .function import Function, InplaceFunction, attach, once_differentiable
from .modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .variable import Variable

__getattr__ = submodules(
    __name__,
    "check",
    "forward_ad",
    "functional",
    "profiler",
    **dict.fromkeys(("GradcheckError", "gradcheck", "gradgradcheck"), "check"),
)

install_methods(
    {
        "backward": tensor_backward,
        "register_hook": register_hook,
        "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
        "retain_grad": retain_grad,
        "retains_grad": property(retains_grad),
    }
)

__all__ = [
    "backward",
    "grad",
    "Function",
    "InplaceFunction",
    "attach",
    "once_differentiable",
    "no_grad",
    "enable_grad",
    "inference_mode",
    "set_grad_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "detect_anomaly",
    "set_detect_anomaly",
    "is_anomaly_enabled",
    "is_anomaly_check_nan_enabled",
    "is_multithreading_enabled",
    "set_multithreading_enabled",
    "gradcheck",
    "gradgradcheck",
    "functional",
    "graph",
    "Node",
    "AccumulateGrad",
    "Variable",
]
