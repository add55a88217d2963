"""scatter and gather between GPUs: this build has none."""

from ...compat import missing

_ADVICE = "there are no GPUs here; call the module itself"
scatter = missing.function("torch.nn.parallel.scatter", _ADVICE)
gather = missing.function("torch.nn.parallel.gather", _ADVICE)
scatter_kwargs = missing.function("torch.nn.parallel.scatter_kwargs", _ADVICE)
