"""torch._dynamo.config and torch._inductor.config: settings that people write. Those in FORWARDED are settings of this
compiler; the others are remembered and change nothing.
"""

import contextlib
import sys
from types import ModuleType, SimpleNamespace

from ...runtime.config import config

FORWARDED = {"error_on_recompile": "error_on_recompile", "recompile_limit": "recompile_limit",
             "cache_size_limit": "recompile_limit"}

suppress_errors = verbose = capture_scalar_outputs = optimize_ddp = False
automatic_dynamic_shapes = assume_static_by_default = True
coordinate_descent_tuning = fx_graph_cache = epilogue_fusion = False
triton = SimpleNamespace(unique_kernel_names=False, cudagraphs=False)
cpp = SimpleNamespace(threads=-1, simdlen=None)


@contextlib.contextmanager
def patch(changes=None, value=None, **named):
    """Settings for the length of a `with` block or of a decorated function: a name and a value, a dict, or keywords."""
    wanted = {**({changes: value} if isinstance(changes, str) else changes or {}), **named}
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in wanted}
    try:
        for name, new in wanted.items():
            setattr(module, name, new)
        yield
    finally:
        for name, old in before.items():
            setattr(module, name, old)


class _Settings(ModuleType):
    def __getattr__(self, name):
        if name in FORWARDED:
            return getattr(config, FORWARDED[name])
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name in FORWARDED:
            setattr(config, FORWARDED[name], value)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
