"""torch._dynamo.config and torch._inductor.config: settings that people write. Those in FORWARDED are settings of this
compiler; others that PyTorch has are remembered and change nothing here; a name that it has not is refused.
"""

from __future__ import annotations

import contextlib
import difflib
import sys
from types import ModuleType, SimpleNamespace
from collections.abc import Iterator
from typing import Any

from ...runtime.config import config
from .config_names import NAMES as REMEMBERED

FORWARDED = {
    "error_on_recompile": "error_on_recompile",
    "recompile_limit": "recompile_limit",
    "cache_size_limit": "recompile_limit",
}

suppress_errors = verbose = capture_scalar_outputs = optimize_ddp = False
automatic_dynamic_shapes = assume_static_by_default = True
coordinate_descent_tuning = fx_graph_cache = epilogue_fusion = False
triton = SimpleNamespace(unique_kernel_names=False, cudagraphs=False)
cpp = SimpleNamespace(threads=-1, simdlen=None)

_ABSENT = object()


@contextlib.contextmanager
def patch(changes: Any = None, value: Any = None, **named: Any) -> Iterator[None]:
    """Settings for the length of a `with` block or of a decorated function: a name and a value, a dict, or keywords."""
    wanted = {**({changes: value} if isinstance(changes, str) else changes or {}), **named}
    module = sys.modules[__name__]
    before = {name: getattr(module, name, _ABSENT) for name in wanted}
    try:
        for name, new in wanted.items():
            setattr(module, name, new)
        yield
    finally:
        for name, old in before.items():
            delattr(module, name) if old is _ABSENT else setattr(module, name, old)


class _Settings(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name in FORWARDED:
            return getattr(config, FORWARDED[name])
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FORWARDED:
            setattr(config, FORWARDED[name], value)
        elif name.startswith("__") or name in vars(self) or name in REMEMBERED:
            super().__setattr__(name, value)
        else:
            near = difflib.get_close_matches(name, {*FORWARDED, *REMEMBERED}, 1)
            meant = f": is {near[0]} meant?" if near else ": PyTorch 2.13 has no setting of this name"
            raise AttributeError(f"torch._dynamo.config and torch._inductor.config have no {name!r}{meant}")


sys.modules[__name__].__class__ = _Settings
