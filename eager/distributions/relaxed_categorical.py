"""torch.distributions.relaxed_categorical"""

from .derived import ExpRelaxedCategorical, RelaxedOneHotCategorical  # noqa: F401
