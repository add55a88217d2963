"""torch.return_types: the named tuples that functions with several results return, one class per function, by its name.

Source: PyTorch's `torch.return_types`, whose classes have these fields and print this way. A class takes its members one by
one, as named tuples do.
"""

from collections import namedtuple
from typing import Any

FIELDS = {
    **dict.fromkeys("max min cummax cummin sort topk kthvalue median nanmedian mode".split(), "values indices"),
    "aminmax": "min max",
    "frexp": "mantissa exponent",
    **dict.fromkeys(("histogram", "histogramdd"), "hist bin_edges"),
    "geqrf": "a tau",
    **dict.fromkeys(("qr", "linalg_qr"), "Q R"),
    "svd": "U S V",
    "linalg_svd": "U S Vh",
    **dict.fromkeys(("linalg_eig", "linalg_eigh"), "eigenvalues eigenvectors"),
    **dict.fromkeys(("slogdet", "linalg_slogdet"), "sign logabsdet"),
    **dict.fromkeys(("linalg_lu", "lu_unpack"), "P L U"),
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_cholesky_ex": "L info",
    "linalg_inv_ex": "inverse info",
    "linalg_solve_ex": "result info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "triangular_solve": "solution cloned_coefficient",
}


def _shown(self):
    """A member a line, as PyTorch prints them."""
    members = ",\n".join([f"{name}={value!r}" for name, value in zip(self._fields, self)])
    return f"torch.return_types.{type(self).__name__}(\n{members})"


__all__ = list(FIELDS)


def __getattr__(name: str) -> Any:
    """A class, made when it is first asked for: a named tuple compiles a function (0.1 ms)."""
    if name not in FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made: Any = namedtuple(name, FIELDS[name], module=__name__)
    made.__repr__ = _shown
    return globals().setdefault(name, made)


def __dir__():
    return __all__
