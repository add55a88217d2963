"""`gradcheck`: analytic gradients against central differences, in the precision of the inputs (use float64)."""

from __future__ import annotations

import numpy as np

from ..tensor import Tensor
from .api import grad, sequence


def numeric_jacobian(function, inputs, which: int, output: int, eps: float) -> np.ndarray:
    """d output / d input by central differences, as (input elements, output elements)."""
    x = inputs[which]
    flat = np.ndarray.reshape(x._array, -1) if x._array.flags.c_contiguous else None
    if flat is None:
        raise ValueError("gradcheck needs contiguous inputs")
    rows = []
    for k in range(flat.size):
        saved = flat[k].copy()
        values = []
        for step in (eps, -eps):
            flat[k] = saved + step
            values.append(sequence(function(*inputs))[output]._array.astype(np.float64).ravel().copy())
        flat[k] = saved
        rows.append((values[0] - values[1]) / (2 * eps))
    return np.array(rows).reshape(flat.size, -1)


def analytic_jacobian(out: Tensor, x: Tensor) -> np.ndarray:
    columns = []
    for k in range(out.numel()):
        seed = np.zeros(out._array.shape, out._array.dtype)
        seed.reshape(-1)[k] = 1
        (g,) = grad(out, x, Tensor._from_array(seed, out._dtype), retain_graph=True, allow_unused=True)
        columns.append(np.zeros(x.numel()) if g is None else np.ascontiguousarray(g._array).astype(np.float64).ravel())
    return np.array(columns).reshape(out.numel(), -1).T


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    fast_mode=False,
    **_,
) -> bool:
    """True if the gradients of `func(*inputs)` agree with differences; otherwise raises (or returns False)."""
    inputs = sequence(inputs)
    outputs = sequence(func(*inputs))
    for k, out in enumerate(outputs):
        if not (isinstance(out, Tensor) and out.requires_grad):
            continue
        for n, x in enumerate(inputs):
            if not (isinstance(x, Tensor) and x.requires_grad):
                continue
            numeric, analytic = numeric_jacobian(func, inputs, n, k, eps), analytic_jacobian(out, x)
            if not np.allclose(analytic, numeric, rtol, atol, equal_nan=True):
                if raise_exception:
                    raise RuntimeError(
                        f"Jacobian mismatch for output {k} with respect to input {n},\nnumerical:{numeric}\n"
                        f"analytical:{analytic}\n"
                    )
                return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, **options) -> bool:
    """The same for second derivatives."""
    inputs = sequence(inputs)
    outputs = [o for o in sequence(func(*inputs)) if o.requires_grad]
    rng = np.random.default_rng(0)
    seeds = (
        sequence(grad_outputs)
        if grad_outputs is not None
        else tuple(
            Tensor._from_array(rng.standard_normal(o._array.shape).astype(o._array.dtype), o._dtype).requires_grad_()
            for o in outputs
        )
    )
    wrt = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def first(*args):
        xs, gs = args[: len(inputs)], args[len(inputs) :]
        outs = [o for o in sequence(func(*xs)) if o.requires_grad]
        found = grad(outs, [xs[k] for k in wrt], gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(first, inputs + seeds, **options)
