"""Modules for function transforms: their state stacked for an ensemble, batch norms without running statistics."""

from __future__ import annotations

from ..nn.utils import stateless
from ..op.op import OPS


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """`module(*args, **kwargs)` with the tensors of a dict, or of several dicts, instead of its own."""
    return stateless.functional_call(module, parameter_and_buffer_dicts, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models) -> tuple:
    """({name: parameters of all models stacked}, the same for buffers), for `vmap` over `functional_call`."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {k: stacked([dict(m.named_parameters())[k] for m in models]) for k, _ in models[0].named_parameters()}
    buffers = {k: stacked([dict(m.named_buffers())[k] for m in models]) for k, _ in models[0].named_buffers()}
    return parameters, buffers


def stacked(tensors):
    requires = {t.requires_grad for t in tensors}
    if len(requires) > 1:
        raise RuntimeError("Expected parameters from each model to have the same .requires_grad")
    return OPS["stack"](tuple(t.detach() for t in tensors), 0).requires_grad_(requires.pop())


def replace_all_batch_norm_modules_(root):
    """Batch norms of `root` stop to keep running statistics; returns root."""
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "running_mean"):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
