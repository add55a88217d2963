"""torch._dynamo.config and torch._inductor.config: settings that people write. They are remembered and change nothing:
the compiler's own settings are in `flambeau.runtime.config`."""

from types import SimpleNamespace

suppress_errors = verbose = capture_scalar_outputs = optimize_ddp = False
cache_size_limit = recompile_limit = 8
automatic_dynamic_shapes = assume_static_by_default = True
coordinate_descent_tuning = fx_graph_cache = epilogue_fusion = False
triton = SimpleNamespace(unique_kernel_names=False, cudagraphs=False)
cpp = SimpleNamespace(threads=-1, simdlen=None)
