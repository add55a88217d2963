"""Profiles: a recorder that is on for a block, or for the steps that a schedule names."""

from __future__ import annotations

import enum
import os
import time

from .events import EventList
from .recorder import Recorder


class ProfilerActivity(enum.Enum):
    """What to record; this machine has CPU."""

    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3


def supported_activities() -> set:
    return {ProfilerActivity.CPU}


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0):
    """step -> action: cycles of `wait` idle, `warmup` discarded and `active` recorded steps, `repeat` times (0: on and
    on), after `skip_first` steps."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < skip_first or (repeat > 0 and (step - skip_first) // length >= repeat):
            return ProfilerAction.NONE
        at = (step - skip_first) % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False):
    """An `on_trace_ready` that writes a Chrome trace into a folder."""
    import platform

    ending = ".pt.trace.json" + (".gz" if use_gzip else "")

    def handler(prof) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{platform.node()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"))

    return handler


def always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class profile:
    """`with profile(...) as prof:`; with a `schedule`, call `prof.step()` after each step, and `on_trace_ready(prof)`
    runs after each recorded cycle. Recorded are this thread's ops, its calls of compiled graphs with each kernel, and its
    compilations, on the CPU."""

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        use_cuda=None,
        custom_trace_id_callback=None,
    ):
        for name, given in (
            ("profile_memory", profile_memory),
            ("with_stack", with_stack),
            ("with_flops", with_flops),
            ("with_modules", with_modules),
            ("execution_trace_observer", execution_trace_observer),
        ):
            if given:
                raise RuntimeError(f"profile: {name}={given!r} is not supported: times, counts and shapes are recorded")
        self.activities, self.schedule, self.on_trace_ready = activities, schedule or always, on_trace_ready
        self.shapes, self.step_num = record_shapes, 0
        self.recorder: Recorder | None = None
        self.done = EventList()

    # -- steps

    def start(self) -> None:
        self.step_num = 0
        self.turn(ProfilerAction.NONE, self.schedule(0))

    def stop(self) -> None:
        was = self.schedule(self.step_num)
        if self.recorder is not None:
            self.close()
            if self.on_trace_ready is not None and was is not ProfilerAction.WARMUP:
                self.on_trace_ready(self)

    def step(self) -> None:
        was = self.schedule(self.step_num)
        self.step_num += 1
        self.turn(was, self.schedule(self.step_num))

    def turn(self, was: ProfilerAction, action: ProfilerAction) -> None:
        """From one step's action to the next one's."""
        recorded = was in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if was is ProfilerAction.RECORD_AND_SAVE:
            self.close()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        wanted = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wanted and self.recorder is None:
            self.recorder = Recorder(self.shapes).__enter__()
        elif recorded and not wanted and self.recorder is not None:
            self.close()

    def close(self) -> None:
        if self.recorder is not None:
            self.recorder.__exit__()
            self.done, self.recorder = self.recorder.finished(), None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    # -- results

    def events(self) -> EventList:
        return self.done if self.recorder is None else self.recorder.finished()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        if group_by_stack_n:
            raise RuntimeError("key_averages: group_by_stack_n is not supported: stacks are not recorded")
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path) -> None:
        self.events().export_chrome_trace(path)
