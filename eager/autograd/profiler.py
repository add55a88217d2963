"""`torch.autograd.profiler`: the profiler under its older path and with its older arguments."""

from __future__ import annotations

from ..compat import missing
from ..profiler import session
from ..profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ..profiler.recorder import record_function

__all__ = ["profile", "record_function", "emit_nvtx", "emit_itt", "EventList", "FunctionEvent", "FunctionEventAvg"]

emit_nvtx = missing.kind("torch.autograd.profiler.emit_nvtx", "there is no NVIDIA device; use profile()")
emit_itt = missing.kind("torch.autograd.profiler.emit_itt", "use profile()")


class profile(session.profile):
    """`with profile() as prof:`; `enabled=False` records nothing. Devices other than the CPU are not there to record."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device=None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **options,
    ):
        if options:
            raise TypeError(f"profile: unknown arguments {sorted(options)}")
        super().__init__(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
        )
        self.enabled = enabled

    def __enter__(self):
        return super().__enter__() if self.enabled else self

    def __str__(self) -> str:
        return str(self.events())

    @property
    def function_events(self) -> EventList:
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        return self.events().self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        return self.events().total_average()

    def table(self, **options) -> str:
        return self.key_averages().table(**options)
