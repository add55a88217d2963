"""Matrix products. Below all of them lies one record with a template: `gemm`, batches of matrices of equal batch sizes.

`matmul` and `linear` are composites that merge and broadcast batch dims down to it. Halves are multiplied in float32
and rounded once.
"""

import numpy as np

from ...runtime import elementwise, copy_gather, kernels, native, reductions, integer_matmul
from .. import _call, dtypes
from ..dispatch import type_name
from ..op.gradient import Meta
from ..op.meta import broadcast_shapes
from ..op.op import composite, extern, optional, static
from ..sizes import numel
from .arithmetic import add, mul, sub
from .rearrange import stack
from .reduce import sum as sum_dims
from .views import expand, permute, reshape, select, squeeze, mT, unsqueeze

_SMALL = 1 << 12  # multiplications below which numpy's call is shorter than ours


def numpy_product(a, b):
    """a @ b of arrays; halves accumulate in float32."""
    if a.ndim >= 2 and b.ndim >= 2 and a.dtype == b.dtype and a.dtype in kernels.TYPES:
        batch = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if (a.size * b.shape[-1] > _SMALL or a.dtype.itemsize < 4) and not _is_thin(a, b):
            out = native.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype)
            native.matmul(a, b, out)
            return out
    if a.dtype.kind in "iu" and a.dtype == b.dtype and a.ndim >= 2 and b.ndim >= 2:
        found = integer_matmul.product(a, b)
        if found is not NotImplemented:
            return found
    if a.dtype.itemsize < 4 and a.dtype.kind not in "biu":
        found = reductions.dot(a, b)
        if found is not NotImplemented:
            return found
        return _in_type(np.matmul(_in_single(a), _in_single(b)), a.dtype)
    return np.matmul(a, b)


def _is_thin(a, b) -> bool:
    """Halves of which a row, a column or one term is multiplied: converting them is most of the work."""
    return (
        a.dtype.itemsize < 4
        and 1 in (a.shape[-2], a.shape[-1], b.shape[-1])
        and a.ndim == b.ndim == 2
        and a.size + b.size > _SMALL
    )


def _in_single(x):
    return _in_type(x, np.dtype(np.float32))


def _in_type(x, dtype):
    """x in another floating type, by the runtime where it can."""
    found = copy_gather.converted(x, dtype) if type(x) is np.ndarray else NotImplemented
    return x.astype(dtype) if found is NotImplemented else found


@extern(template="gemm", meta=lambda a, b: (*a.shape[:-1], b.shape[-1]))
def gemm(a, b):
    """(*batch, M, K) x (*batch, K, N) -> (*batch, M, N); the batch sizes of both are equal."""
    return numpy_product(a, b)


gemm.native(_call.product)


@gemm.grad("a")
def _(g, b):
    return gemm(g, mT(b))


@gemm.grad("b")
def _(g, a):
    return gemm(mT(a), g)


gemm.samples(
    lambda make: [
        (make(3, 4), make(4, 5)),
        (make(2, 3, 4), make(2, 4, 2)),
        (make(4, 3).t(), make(5, 4).t()),
        (make(0, 3), make(3, 2)),
        (make(2, 0), make(0, 3)),
        (make(2, 2, 3, 4), make(2, 2, 4, 1)),
        (make(1, 4), make(4, 1)),
    ]
)


# -- matmul


def check_product(a, b, name="matmul"):
    """Types and inner sizes of a product, with PyTorch's messages."""
    for x in (a, b):
        if not hasattr(x, "dtype"):
            raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_c_name(a.dtype)} != {_c_name(b.dtype)} ({name})"
        )
    if not len(a.shape) or not len(b.shape):
        raise RuntimeError(f"both arguments to {name} need to be at least 1D, but they are {len(a.shape)}D and {len(b.shape)}D")
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise RuntimeError(_mismatch(a, b, name))


def _c_name(dtype):
    """The name that PyTorch's text has for an element type (ours or numpy's)."""
    return dtypes.BY_NAME[dtype.name].c_name


def _mismatch(a, b, name):
    x, y = list(a.shape), list(b.shape)
    if len(x) == len(y) == 1:
        return (
            f"inconsistent tensor size, expected tensor {x} and src {y} to have the same number of elements, but "
            "got "
            f"{x[0]} and {y[0]} elements respectively"
        )
    if len(y) == 1:
        return f"size mismatch, got input ({_rows(x)}), mat ({_rows(x)}x{x[-1]}), vec ({y[0]})"
    if len(y) == 2:
        return f"mat1 and mat2 shapes cannot be multiplied ({_rows(x)}x{x[-1]} and {y[0]}x{y[1]})"
    return (
        f"Expected size for first two dimensions of batch2 tensor to be: {[y[0], x[-1]]} but got: {[y[0], y[-2]]} "
        f"({name}: {x} and {y})"
    )


def _rows(shape):
    n = 1
    for m in shape[:-1]:
        n = n * m
    return n


@composite
def matmul(a, b):
    """The product of the last two dims, broadcast over the others; a vector counts as a row (left) or a column
    (right)."""
    check_product(a, b)
    if len(a.shape) == 1 or len(b.shape) == 1:
        return _with_vectors(a, b)
    if len(b.shape) == 2:
        return _flat_product(a, b)
    batch = broadcast_shapes((tuple(a.shape[:-2]), tuple(b.shape[:-2])), "matmul")
    return gemm(expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:])))


def _flat_product(a, b):
    """(*rows, K) x (K, N) as one product of two matrices."""
    if len(a.shape) == 2:
        return gemm(a, b)
    return reshape(gemm(reshape(a, (_rows(a.shape), a.shape[-1])), b), (*a.shape[:-1], b.shape[-1]))


def _with_vectors(a, b):
    row, column = len(a.shape) == 1, len(b.shape) == 1
    out = matmul(unsqueeze(a, 0) if row else a, unsqueeze(b, 1) if column else b)
    n = len(out.shape)
    return squeeze(out, ((n - 2,) if row else ()) + ((n - 1,) if column else ()))


@matmul.numpy
def _(a, b):
    check_product(a, b)
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
        return numpy_product(a.reshape(_rows(a.shape), a.shape[-1]), b).reshape(a.shape[:-1] + b.shape[-1:])
    if a.ndim > 2 and b.ndim > 2:
        broadcast_shapes((a.shape[:-2], b.shape[:-2]), "matmul")
    return np.asarray(numpy_product(a, b))


matmul.native(_call.product)


@matmul.meta
def _(a, b):
    check_product(a, b)
    batch = broadcast_shapes((tuple(a.shape[:-2]), tuple(b.shape[:-2])), "matmul")
    rows = (a.shape[-2],) if len(a.shape) > 1 else ()
    return (*batch, *rows, *((b.shape[-1],) if len(b.shape) > 1 else ()))


@matmul.grad("a")
def _(g, a: Meta, b):
    if len(b.shape) == 1:
        return mul(unsqueeze(g, len(g.shape)), b) if len(a.shape) > 1 else mul(g, b)
    if len(a.shape) == 1:
        return _sum_batch(squeeze(matmul(unsqueeze(g, len(g.shape) - 1), mT(b)), (len(g.shape) - 1,)), 1)
    return matmul(g, mT(b))


@matmul.grad("b")
def _(g, a, b: Meta):
    if len(a.shape) == 1:
        return mul(unsqueeze(a, 1), unsqueeze(g, len(g.shape) - 1)) if len(b.shape) > 1 else mul(g, a)
    if len(b.shape) == 1:
        return matmul(mT(_matrix(a)), reshape(g, (_rows(a.shape),)))
    if len(b.shape) == 2:
        return matmul(mT(_matrix(a)), _matrix(g))
    return matmul(mT(a), g)


def _matrix(x):
    return x if len(x.shape) == 2 else reshape(x, (_rows(x.shape), x.shape[-1]))


def _sum_batch(x, keep):
    dims = tuple(range(len(x.shape) - keep))
    return sum_dims(x, dims, False) if dims else x


@matmul.samples
def _(make):
    return [
        (make(3, 4), make(4, 5)),
        (make(4), make(4)),
        (make(3, 4), make(4)),
        (make(4), make(4, 5)),
        (make(2, 3, 4), make(4, 5)),
        (make(2, 3, 4), make(2, 4, 5)),
        (make(2, 1, 3, 4), make(5, 4, 2)),
        (make(2, 3, 4), make(4)),
        (make(4), make(2, 4, 5)),
        (make(4, 3).t(), make(4, 5)),
        (make(0, 4), make(4, 2)),
        (make(3, 0), make(0, 2)),
        (make(3, 4), make(2, 4, 5)),
    ]


# -- linear


@composite
def linear(x, weight, bias: optional = None):
    """x @ weight.T + bias; weight is (out, in)."""
    out = matmul(x, mT(weight) if len(weight.shape) == 2 else weight)
    return out if bias is None else add(out, bias)


@linear.numpy
def _(x, weight, bias):
    _check_linear(x, weight, bias)
    if weight.ndim == 1:
        out = np.asarray(numpy_product(x, weight))
    else:
        rows = x.reshape(_rows(x.shape), x.shape[-1])
        out = numpy_product(rows, weight.T).reshape(x.shape[:-1] + weight.shape[:1])
    return out if bias is None else elementwise.add_row(out, bias) if out.ndim else out + bias


linear.native(_call.linear)


@linear.meta
def _(x, weight, bias):
    _check_linear(x, weight, bias)
    return (*x.shape[:-1], *weight.shape[:-1])


def _check_linear(x, weight, bias):
    if bias is not None and bias.ndim and bias.shape[-1] not in (1, weight.shape[0]):
        raise RuntimeError(
            f"linear: The expanded size of the tensor ({weight.shape[0]}) must match the existing size "
            f"({bias.shape[-1]}) of the bias. Target sizes: {[*x.shape[:-1], weight.shape[0]]}. "
            f"Tensor sizes: {list(bias.shape)}"
        )
    if bias is not None and bias.dtype != weight.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {type_name(bias.dtype)} and {type_name(weight.dtype)}"
        )
    if x.dtype != weight.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_c_name(x.dtype)} != {_c_name(weight.dtype)}"
            if bias is None
            else f"mat1 and mat2 must have the same dtype, but got {type_name(x.dtype)} and {type_name(weight.dtype)}"
        )
    if x.shape[-1] != weight.shape[-1]:
        x, w = list(x.shape), list(weight.shape)
        shown = f"{w[1]}x{w[0]}" if len(w) == 2 else f"{w[0]}"
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_rows(x)}x{x[-1]} and {shown})")


@linear.grad("x")
def _(g, weight):
    return matmul(g, weight) if len(weight.shape) == 2 else mul(unsqueeze(g, len(g.shape)), weight)


@linear.grad("weight")
def _(g, x, weight: Meta):
    if len(weight.shape) == 1:
        return matmul(mT(_matrix(x)) if len(x.shape) > 1 else x, reshape(g, (_rows(x.shape),)) if len(x.shape) > 1 else g)
    if len(x.shape) == 1:
        return mul(unsqueeze(g, 1), x)
    return matmul(mT(_matrix(g)), _matrix(x))


@linear.grad("bias")
def _(g):
    return _sum_batch(g, 1)


@linear.samples
def _(make):
    return [
        (make(3, 4), make(5, 4), make(5)),
        (make(2, 3, 4), make(5, 4), None),
        (make(4), make(2, 4), make(2)),
        (make(0, 4), make(3, 4), make(3)),
        (make(4, 2, 3).transpose(0, 1), make(5, 3), make(5)),
    ]


# -- contractions of two operands, and other products that are records where they are recorded in one step


@composite
def contract(x, y, left: static, right: static, out: static):
    """Sums of products by index letters: the dims of x are `left`, those of y `right`, and those of the result `out`. Each
    letter of an operand is one of the other or of the result."""
    batch, rows = [c for c in out if c in left and c in right], [c for c in out if c not in right]
    cols, summed = [c for c in out if c not in left], [c for c in left if c not in out]
    lead, m, n = _sizes(x, left, batch), _sizes(x, left, rows), _sizes(y, right, cols)
    u = permute(x, tuple(left.index(c) for c in batch + rows + summed))
    v = permute(y, tuple(right.index(c) for c in batch + summed + cols))
    k = numel(_sizes(x, left, summed))
    product = matmul(reshape(u, (*lead, numel(m), k)), reshape(v, (*lead, k, numel(n))))
    order = batch + rows + cols
    return permute(reshape(product, (*lead, *m, *n)), tuple(order.index(c) for c in out))


def _sizes(x, letters, which):
    return tuple(x.shape[letters.index(c)] for c in which)


contract.native(_call.contract)


@contract.grad("x")
def _(g, y, left, right, out):
    return contract(g, y, out, right, left)


@contract.grad("y")
def _(g, x, left, right, out):
    return contract(x, g, left, out, right)


contract.samples(
    lambda make: [
        (make(2, 3, 4), make(2, 5, 4), "bij", "bkj", "bik"),
        (make(3), make(4), "i", "j", "ij"),
        (make(3, 4), make(4, 5), "ij", "jk", "ki"),
        (make(3), make(3), "i", "i", ""),
    ]
)


@composite
def cross(x, y, dim: static):
    """The vector product along a dim of size 3, of operands of one shape."""
    (x0, x1, x2), (y0, y1, y2) = ([select(v, dim, k) for k in range(3)] for v in (x, y))
    return stack((sub(mul(x1, y2), mul(x2, y1)), sub(mul(x2, y0), mul(x0, y2)), sub(mul(x0, y1), mul(x1, y0))), dim)


@cross.grad("x")
def _(g, y, dim):
    return cross(y, g, dim)


@cross.grad("y")
def _(g, x, dim):
    return cross(g, x, dim)


cross.samples(lambda make: [(make(4, 3), make(4, 3), 1), (make(3, 2), make(3, 2), 0)])


@composite
def kron(x, y):
    """Every element of a matrix times the whole of another."""
    (m, n), (k, l) = x.shape, y.shape
    return reshape(mul(reshape(x, (m, 1, n, 1)), reshape(y, (1, k, 1, l))), (m * k, n * l))


@kron.grad("x")
def _(g, x: Meta, y):
    (m, n), (k, l) = x.shape, y.shape
    return sum_dims(mul(reshape(g, (m, k, n, l)), reshape(y, (1, k, 1, l))), (1, 3), False)


@kron.grad("y")
def _(g, x, y: Meta):
    (m, n), (k, l) = x.shape, y.shape
    return sum_dims(mul(reshape(g, (m, k, n, l)), reshape(x, (m, 1, n, 1))), (0, 2), False)


kron.samples(lambda make: [(make(2, 3), make(4, 2)), (make(1, 2), make(3, 1))])
