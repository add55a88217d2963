"""Other names of arguments: PyTorch's methods and overloads take some by names that its functions do not have.

In: functions by name. Out: the same functions, which also take the names below.
"""

import functools

_SECTIONS = dict.fromkeys(("sections", "indices"), "indices_or_sections")
_MATRIX = {"input": "A"}
ALSO = {
    "split": {"split_size": "split_size_or_sections"},
    "tensor_split": {"tensor_indices_or_sections": "indices_or_sections"},
    "hsplit": _SECTIONS,
    "vsplit": _SECTIONS,
    "dsplit": _SECTIONS,
    "det": _MATRIX,
    "inverse": _MATRIX,
    "slogdet": _MATRIX,
    "matrix_exp": _MATRIX,
    "matrix_power": _MATRIX,
    "orgqr": {"input": "A", "input2": "tau"},
    "cholesky_solve": {"input": "B", "input2": "L"},
    "cholesky_inverse": {"input": "L"},
    "lu_solve": {"input": "b"},
    "triangular_solve": {"input": "b"},
    "isin": {"element": "elements", "test_element": "test_elements"},
}
SIZED = set("zeros ones empty rand randn new_zeros new_ones new_empty".split())


def also_named(functions):
    """The functions of a table, those of `ALSO` with their other names, those of `SIZED` with sizes as one keyword."""
    return {name: _taking(f, ALSO[name]) if name in ALSO else _sized(f) if name in SIZED else f for name, f in functions.items()}


def _sized(fn):
    @functools.wraps(fn)
    def run(*args, **kw):
        if "size" in kw:
            args = (*args, kw.pop("size"))
        return fn(*args, **kw)

    return run


def _taking(fn, names):
    @functools.wraps(fn)
    def run(*args, **kw):
        for other in kw.keys() & names.keys():
            kw.setdefault(names[other], kw.pop(other))
        return fn(*args, **kw)

    return run
