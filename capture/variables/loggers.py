"""What libraries tell by `logging`.

Whether a logger tells anything is asked while tracing, and guarded; what it tells is told behind the graph (messages.py).
Handlers of the program's own may look at what it has changed meanwhile: with those, the call is a graph break.
"""

from __future__ import annotations

import logging
from typing import Any

from ..breaks import unsupported
from .base import Variable
from .arguments import call_error
from .builtins import handles
from .functions import UserFunctionVariable
from .messages import call_after_graph, refuse_values

OWN = logging.Logger.handle, logging.Logger.makeRecord
STANDARD = ("logging", "_pytest.logging")  # whose handlers write what they are given and look at nothing else


@handles(logging.Logger.isEnabledFor)
def _is_enabled(tx: Any, logger: Variable, /, level: Variable) -> Variable:
    real = getattr(logger, "value", None)
    if real is None or logger.source is None or not level.is_constant() or changed_loggers(tx):
        method = logging.Logger.isEnabledFor
        return tx.inline(UserFunctionVariable(method, tx.pinned(method, "isEnabledFor")), [logger, level], {})
    enabled = tx.run_outside(real.isEnabledFor, level.plain())
    tx.guard(logger.source, "predicate", LoggerLevelGuard(level.plain(), enabled))
    return tx.constant(enabled)


class LoggerLevelGuard:
    """Guard: the logger tells messages of this level, or does not."""

    def __init__(self, level: Any, enabled: Any):
        self.level, self.enabled = level, enabled

    def __call__(self, logger: Any) -> Any:
        return logger.isEnabledFor(self.level) == self.enabled

    def __str__(self) -> str:
        return f"isEnabledFor({self.level}) is {self.enabled}"


def changed_loggers(tx: Any) -> bool:
    """Whether the traced code has changed loggers: what they say now is not what they will say then."""
    return any(issubclass(v.python_type(), (logging.Logger, logging.Manager, logging.Handler)) for v in tx.effects.attributes)


@handles(logging.Logger._log)
def _log(tx: Any, logger: Variable, /, *args: Variable, **kwargs: Variable) -> Variable:
    real = getattr(logger, "value", None)
    if real is None or logger.source is None or changed_loggers(tx) or any(n in kwargs for n in ("exc_info", "stack_info")):
        raise unsupported("call", "a message of a logger with what only Python can add")
    if not isinstance(real, logging.Logger):
        raise call_error(logging.Logger._log)
    if not writes_only(real):
        raise unsupported("call", f"a message of {logger}, whose handlers are the program's own")
    tx.guard(logger.source, "predicate", writes_only)
    refuse_values(args, kwargs)
    levels = kwargs.pop("stacklevel").plain() if "stacklevel" in kwargs else 1
    call_after_graph(tx, logging.Logger._log, [logger, *args], kwargs, levels)
    return tx.constant(None)


def writes_only(logger: Any) -> bool:
    """Guard: the message goes to handlers of the standard library, and to no filter."""
    while logger is not None:
        cls, standard = type(logger), all(type(h).__module__.startswith(STANDARD) and not h.filters for h in logger.handlers)
        if logger.filters or not standard or (cls.handle, cls.makeRecord) != OWN:
            return False
        logger = logger.parent if logger.propagate else None
    return True


LEVELS = {"debug", "info", "warning", "warn", "error", "critical"}


def tells_only(cached: Any, args: Any) -> bool:
    """Whether a function with a cache does nothing but hand its arguments to a method of a logger, its first: what libraries
    tell once."""
    logger = getattr(args[0].realize(), "value", None) if args else None
    code = getattr(cached.__wrapped__, "__code__", None)
    return (
        isinstance(logger, logging.Logger)
        and code is not None
        and len(code.co_names) == 1
        and LEVELS.issuperset(code.co_names)
        and set(code.co_consts) <= {None, code.co_consts[0]}
        and writes_only(logger)
    )


def tell_once(tx: Any, cached: Any, args: Any, kwargs: dict) -> Any:
    """The function is called behind the graph each time; its cache knows whether it was before."""
    tx.guard(args[0].source, "predicate", writes_only)
    refuse_values(args[1:], kwargs)
    call_after_graph(tx, cached, args, kwargs)
    return tx.constant(None)
