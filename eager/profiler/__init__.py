"""Profiling: `profile` records each op of this thread and each kernel of its compiled calls, `record_function` names a
region, `schedule` tells which steps to record. What comes out: events, averages by name, a table, a Chrome trace.
"""

from .events import EventList, FunctionEvent, FunctionEventAvg
from .recorder import record_function
from .session import ProfilerAction, ProfilerActivity, profile, schedule, supported_activities, tensorboard_trace_handler


def kineto_available():
    """Whether profiles can be recorded: they always can (by this library's own recorder)."""
    return True


__all__ = [
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
    "ProfilerAction",
    "ProfilerActivity",
    "supported_activities",
    "kineto_available",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
]
