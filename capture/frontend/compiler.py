"""The public module `flambeau.compiler`: compiling, looking at what was compiled, leaving things uncompiled."""

from __future__ import annotations

from typing import Any

from ...runtime import locks
from ...runtime.config import config
from ...runtime.counters import snapshot as counters
from ...runtime.native import native_seconds
from .backends import get_default_backend, list_backends, register_backend, set_default_backend
from .api import compile, reset
from .explain import explain
from .stance import set_stance
from ..state import allow_in_graph, disable, is_compiling, mark_dynamic, mark_static, maybe_mark_dynamic

is_dynamo_compiling = is_compiling

if config.report:
    from . import report_at_exit

    report_at_exit.at_exit(config.report)


def __getattr__(name: str) -> Any:
    """Reports are imported when one is asked for."""
    if name not in ("report", "last_reports"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with locks.importing:
        from . import report
    globals().update(report=report.report, last_reports=report.last_reports)
    return globals()[name]


def is_exporting() -> bool:
    """Whether a program is being exported: there is no export."""
    return False


def assume_constant_result(fn: Any) -> Any:
    """Returns the function: what it reads is guarded, so its result holds as long as that."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: what a replay gives has memory of its own, which later replays leave alone."""


__all__ = [  # noqa: F822
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "counters",
    "cudagraph_mark_step_begin",
    "disable",
    "explain",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "last_reports",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "native_seconds",
    "register_backend",
    "report",
    "reset",
    "set_default_backend",
    "set_stance",
]
