"""`gradcheck`: analytic gradients against central differences, in the precision of the inputs (use float64).

A complex number counts as two real ones: the gradient of a real value by z = a + bi is d/da + i d/db, and the two seeds
1 and i of a complex output give the rows of its real and its imaginary part.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..tensor import Tensor
from .api import grad, sequence


class GradcheckError(RuntimeError):
    """What `gradcheck` and `gradgradcheck` raise."""


def reals(array: np.ndarray) -> np.ndarray:
    """The numbers of an array as a flat float64 array, complex ones as pairs."""
    flat = np.ascontiguousarray(array).ravel()
    return flat.astype(np.complex128).view(np.float64) if flat.dtype.kind == "c" else flat.astype(np.float64)


def steps(x: Tensor, eps: float):
    """Set each real number of `x` in turn to itself +- eps; yields (element, sign) while it is so."""
    array = x._fl_array
    units = (1, 1j) if array.dtype.kind == "c" else (1,)
    for place in np.ndindex(array.shape):
        saved = array[place].copy()
        for unit in units:
            for sign in (1, -1):
                array[place] = saved + sign * eps * unit
                yield sign
            array[place] = saved


def numeric_jacobian(function, inputs, which: int, output: int, eps: float) -> np.ndarray:
    """d output / d input by central differences, as (input numbers, output numbers)."""
    values, rows = [], []
    for sign in steps(inputs[which], eps):
        values.append(reals(sequence(function(*inputs))[output]._fl_array))
        if sign < 0:  # both sides are known
            rows.append((values[0] - values[1]) / (2 * eps))
            values.clear()
    return np.array(rows).reshape(len(rows), -1)


def seeds_of(out: Tensor):
    """One gradient per real number of an output."""
    units = (1, 1j) if out._fl_dtype.is_complex else (1,)
    for k in range(out.numel()):
        for unit in units:
            seed = np.zeros(out._fl_array.shape, out._fl_array.dtype)
            seed.reshape(-1)[k] = unit
            yield Tensor._fl_from_array(seed, out._fl_dtype)


def analytic_jacobian(out: Tensor, x: Tensor, dtypes: bool = False) -> np.ndarray:
    count = x.numel() * (2 if x._fl_dtype.is_complex else 1)
    columns = []
    for seed in seeds_of(out):
        (g,) = grad(out, x, seed, retain_graph=True, allow_unused=True)
        if dtypes and g is not None and g._fl_dtype is not x._fl_dtype:
            raise GradcheckError(f"Backward's output has dtype {g._fl_dtype} for an input of {x._fl_dtype}")
        columns.append(np.zeros(count) if g is None else reals(g._fl_array))
    return np.array(columns).reshape(len(columns), count).T


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
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
) -> bool:
    """True if the gradients of `func(*inputs)` agree with differences; otherwise raises GradcheckError (or returns
    False). With `fast_mode` each pair of output and input is checked along one random direction: two calls of `func` and
    one backward instead of one for each element.
    """
    if check_forward_ad or check_batched_forward_grad:
        raise NotImplementedError("gradcheck: forward-mode gradients are not supported")
    try:
        inputs = sequence(inputs)
        checked_inputs(inputs)
        if check_backward_ad:
            (compare_projected if fast_mode else compare)(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_undefined_grad:
            undefined(func, inputs)
        if check_batched_grad:
            batched(func, inputs, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def checked_inputs(inputs) -> None:
    differentiable = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not differentiable:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    for k, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad):
            continue
        if x._fl_dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ",
                stacklevel=3,
            )
        if any(n > 1 and s == 0 for n, s in zip(x._fl_sizes, x._fl_strides)):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )


def pairs_of(func, inputs):
    """(output number, output, input number, input) of those that have to do with each other."""
    for k, out in enumerate(sequence(func(*inputs))):
        if isinstance(out, Tensor) and out.requires_grad:
            for n, x in enumerate(inputs):
                if isinstance(x, Tensor) and x.requires_grad:
                    yield k, out, n, x


def compare(func, inputs, eps, atol, rtol, nondet_tol, dtypes) -> None:
    for k, out, n, x in pairs_of(func, inputs):
        numeric, analytic = numeric_jacobian(func, inputs, n, k, eps), analytic_jacobian(out, x, dtypes)
        if not np.allclose(analytic, numeric, rtol, atol, equal_nan=True):
            raise GradcheckError(
                f"Jacobian mismatch for output {k} with respect to input {n},\nnumerical:{numeric}\nanalytical:{analytic}\n"
            )
        if not np.allclose(analytic, analytic_jacobian(out, x), 0, nondet_tol, equal_nan=True):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives different values, although analytical gradient matches numerical "
                f"gradient. The tolerance for nondeterminism was {nondet_tol}."
            )


def direction(x: Tensor, rng) -> np.ndarray:
    """A random unit vector of x's real numbers, all of them positive."""
    u = rng.random(x.numel() * (2 if x._fl_dtype.is_complex else 1))
    return u / max(np.linalg.norm(u), 1e-300)


def as_numbers(u: np.ndarray, x: Tensor) -> np.ndarray:
    """A vector of real numbers in the type and sizes of `x`."""
    wide = u.view(np.complex128) if x._fl_dtype.is_complex else u
    return wide.reshape(x._fl_array.shape).astype(x._fl_array.dtype)


def moved(function, inputs, which: int, step: np.ndarray) -> list:
    """The outputs' real numbers at inputs[which] + step."""
    array = inputs[which]._fl_array
    saved = array.copy()
    array[...] = saved + step
    try:
        return [reals(o._fl_array) if isinstance(o, Tensor) else None for o in sequence(function(*inputs))]
    finally:
        array[...] = saved


def projected(out: Tensor, x: Tensor, u, v, dtypes: bool = False) -> float:
    """v' J u by a backward from v."""
    (g,) = grad(out, x, Tensor._fl_from_array(as_numbers(v, out), out._fl_dtype), retain_graph=True, allow_unused=True)
    if dtypes and g is not None and g._fl_dtype is not x._fl_dtype:
        raise GradcheckError(f"Backward's output has dtype {g._fl_dtype} for an input of {x._fl_dtype}")
    return 0.0 if g is None else float(reals(g._fl_array) @ u)


def compare_projected(func, inputs, eps, atol, rtol, nondet_tol, dtypes) -> None:
    """One number for each output and input: v' J u for random u and v. An error in any element of J shows in it."""
    rng, sides = np.random.default_rng(0), {}
    for k, out, n, x in pairs_of(func, inputs):
        if n not in sides:
            u = direction(x, rng)
            step = as_numbers(u * eps, x)
            sides[n] = u, moved(func, inputs, n, step), moved(func, inputs, n, -step)
        u, ahead, behind = sides[n]
        v = direction(out, rng)
        numeric, analytic = float(v @ (ahead[k] - behind[k])) / (2 * eps), projected(out, x, u, v, dtypes)
        if not np.isclose(analytic, numeric, rtol, atol * u.sum() * v.sum(), equal_nan=True):
            compare(func, inputs, eps, atol, rtol, nondet_tol, dtypes)  # (tells which elements differ)
            raise GradcheckError(
                f"Gradients of output {k} with respect to input {n} differ along a random direction,\n"
                f"numerical:{numeric}\nanalytical:{analytic}\nalthough each element is within the tolerances."
            )
        if not np.isclose(analytic, projected(out, x, u, v), 0, nondet_tol, equal_nan=True):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives different values. The tolerance for nondeterminism was "
                f"{nondet_tol}."
            )


def undefined(func, inputs) -> None:
    """The node of a custom function copes with outputs that got no gradient: it gives None or zeros."""
    for out in sequence(func(*inputs)):
        node = out.grad_fn if isinstance(out, Tensor) else None
        if node is None or not node.always:
            continue
        for g in node.apply([None] * len(node.metas), [edge is not None for edge in node.edges]):
            if isinstance(g, Tensor) and np.any(g._fl_array != 0):
                raise GradcheckError("Expected backward function to handle undefined output grads.")


def batched(func, inputs, atol, rtol) -> None:
    for k, out, n, x in pairs_of(func, inputs):
        seeds = np.stack([s._fl_array for s in seeds_of(out)])
        (rows,) = grad(
            out, x, Tensor._fl_from_array(seeds, out._fl_dtype), retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        if rows is None:
            continue
        each = np.stack([reals(r) for r in rows._fl_array])
        if not np.allclose(each.T, analytic_jacobian(out, x), rtol, atol, equal_nan=True):
            raise GradcheckError(f"gradcheck: batched gradients of output {k} with respect to input {n} differ")


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=None,
) -> bool:
    """The same for second derivatives; gradients of outputs that are not given are random."""
    if check_fwd_over_rev:
        raise NotImplementedError("gradgradcheck: forward-mode gradients are not supported")
    inputs = sequence(inputs)
    outputs = [o for o in sequence(func(*inputs)) if isinstance(o, Tensor) and o.requires_grad]
    seeds = random_seeds(outputs, gen_non_contig_grad_outputs) if grad_outputs is None else sequence(grad_outputs)
    wrt = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def first(*args):
        xs, gs = args[: len(inputs)], args[len(inputs) :]
        outs = [o for o in sequence(func(*xs)) if isinstance(o, Tensor) and o.requires_grad]
        found = grad(outs, [xs[k] for k in wrt], gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(
        first,
        inputs + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        fast_mode=fast_mode,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
    )


def random_seeds(outputs, strided: bool) -> tuple:
    rng = np.random.default_rng(0)
    found = []
    for o in outputs:
        shape = (*o._fl_array.shape, 2) if strided else o._fl_array.shape
        values = rng.standard_normal(shape)
        if o._fl_dtype.is_complex:
            values = values + 1j * rng.standard_normal(shape)
        values = values.astype(o._fl_array.dtype)
        found.append(Tensor._fl_from_array(values[..., 0] if strided else values, o._fl_dtype).requires_grad_())
    return tuple(found)
