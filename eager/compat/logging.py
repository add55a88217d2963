"""torch._logging.set_logs: what PyTorch prints of a compilation, as the log channels that print it here."""

from ...runtime.config import config
from ...runtime.torch_environ import of_names


def set_logs(*, all=None, modules=None, **named):
    """Channels for the words that TORCH_LOGS takes: a level of logging for a component (below `logging.ERROR` switches it on),
    a truth value for an artefact. Each call replaces the one before, as in PyTorch; without arguments nothing is printed."""
    if modules is not None and not isinstance(modules, dict):
        raise TypeError("modules must be a dictionary of module names to log levels")
    chosen = [name for name, value in (("all", all), *named.items()) if _on(value)]
    config.logs = of_names(chosen, "torch._logging.set_logs")


def _on(value):
    """Components have levels, artefacts truth values."""
    return value if isinstance(value, bool) else value is not None and value < 40
