"""torch.monitor: there are no counters and events of this kind."""

from .. import missing

_ADVICE = "torch.compiler.report and torch.profiler tell what ran; tensorboard's writer keeps series of numbers"
globals().update(missing.functions("torch.monitor", "log_event register_event_handler unregister_event_handler", _ADVICE))
globals().update(missing.kinds("torch.monitor", "Aggregation Event EventHandlerHandle Stat TensorboardEventHandler", _ADVICE))
