"""The autograd functions behind scatter and gather: this build has no GPUs to move between."""

from ...compat import missing

_ADVICE = "there are no GPUs here; call the module itself"
Scatter, Gather, Broadcast = (
    missing.kind(f"torch.nn.parallel._functions.{name}", _ADVICE) for name in ("Scatter", "Gather", "Broadcast")
)
