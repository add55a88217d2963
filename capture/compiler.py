"""The public module `flambeau.compiler`: compiling, looking at what was compiled, leaving things uncompiled."""

from __future__ import annotations

from ..runtime.counters import snapshot as counters
from ..runtime.native import native_seconds
from .backends import list_backends, register_backend
from .compile import compile, reset
from .explain import explain
from .stance import set_stance
from .state import disable, is_compiling, mark_dynamic, mark_static, maybe_mark_dynamic

is_dynamo_compiling = is_compiling

__all__ = ["compile", "counters", "disable", "explain", "is_compiling", "is_dynamo_compiling", "list_backends",
           "mark_dynamic",
           "mark_static", "maybe_mark_dynamic", "native_seconds", "register_backend", "reset", "set_stance"]
