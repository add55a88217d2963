"""torch.distributions.relaxed_bernoulli"""

from .derived import LogitRelaxedBernoulli, RelaxedBernoulli  # noqa: F401
