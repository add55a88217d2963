"""DistributedDataParallel for a group of one process: gradients are already the group's mean."""

import contextlib

from ...compat import distributed
from ..modules.module import Module


class DistributedDataParallel(Module):
    """The wrapped module under `module`. Needs `torch.distributed.init_process_group(...)` first, as in PyTorch."""

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=True,
        init_sync=True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None,
        mixed_precision=None,
        device_mesh=None,
        skip_all_reduce_unused_params=False,
    ):
        super().__init__()
        for name, given in (
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
        ):
            if given is not None:
                raise RuntimeError(f"DistributedDataParallel({name}=...) is not supported: this build runs groups of one process")
        if process_group is None and not distributed.is_initialized():
            raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
        if distributed.get_world_size(process_group) != 1:
            raise RuntimeError("DistributedDataParallel: this build runs groups of one process")
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        self.module, self.dim, self.process_group = module, dim, process_group
        self.device_ids, self.output_device = device_ids, output_device
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.static_graph, self.require_backward_grad_sync = static_graph, True

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """Within it, PyTorch does not average gradients; there is nothing to average in a group of one."""
        previous, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = previous

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        yield

    def register_comm_hook(self, state, hook):
        """Hooks compute what processes send each other; in a group of one nothing is sent."""
        raise RuntimeError(
            "DistributedDataParallel.register_comm_hook() is not supported: this build runs groups of one "
            "process, whose gradients no hook would see"
        )

    def scatter(self, inputs, kwargs, device_ids):
        return inputs, kwargs

    def gather(self, outputs, output_device):
        return outputs
