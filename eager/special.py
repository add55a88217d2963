"""torch.special: special functions of elements. The functions are in frontend/special.py, scipy_special.py and elementwise.py."""

# ruff: noqa: F401
from . import overrides
from .frontend.scipy_special import FUNCTIONS as _OF_SCIPY, modified_bessel_i0, modified_bessel_i1, spherical_bessel_j0
from .frontend.elementwise import erf, erfc, erfinv, exp2, expm1, log1p, log_softmax, round, softmax
from .frontend.reductions import logsumexp
from .frontend.special import (
    digamma,
    entr,
    erfcx,
    i0,
    i0e,
    i1,
    i1e,
    igamma as gammainc,
    igammac as gammaincc,
    lgamma as gammaln,
    log_ndtr,
    logit,
    mvlgamma as multigammaln,
    ndtr,
    ndtri,
    polygamma,
    sinc,
    xlog1py,
    xlogy,
    zeta,
)
from .frontend.elementwise import sigmoid as expit

psi = digamma
globals().update(_OF_SCIPY)

overrides.publish(globals(), [name for name, f in globals().items() if not name.startswith("_") and callable(f)])
