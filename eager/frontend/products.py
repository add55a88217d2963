"""Products of matrices and vectors, and einsum."""

from typing import Any

from .. import dtypes
from ..ops import arithmetic as a, products as p
from ..ops.reduce import sum as sum_dims
from ..ops.views import diagonal, expand, permute, reshape, unsqueeze
from ..op.meta import check_expandable
from ..state import state
from . import public
from .arguments import dim_of, from_old_form, give, lowered, settings


@public.both
def matmul(input, other, *, out=None):
    return give(p.matmul(input, other), out)


def _ranked(name, *pairs):
    for x, rank, what in pairs:
        if x.ndim != rank:
            raise RuntimeError(
                f"{name}: {what} must be a {'matrix' if rank == 2 else f'{rank}D tensor'}, got {x.ndim}-D: {list(x.shape)}"
            )


@public.both
def mm(input, mat2, *, out=None):
    _ranked("mm", (input, 2, "self"), (mat2, 2, "mat2"))
    input, mat2 = lowered(p.gemm, input, mat2)
    p.check_product(input, mat2, "mm")
    return give(p.gemm(input, mat2), out)


@public.small
@public.both
def bmm(input, mat2, *, out=None):
    _ranked("bmm", (input, 3, "batch1"), (mat2, 3, "batch2"))
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, "
            f"{input.shape[2]}] but got: "
            f"[{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    input, mat2 = lowered(p.gemm, input, mat2)
    p.check_product(input, mat2, "bmm")
    return give(p.gemm(input, mat2), out)


@public.both
def mv(input, vec, *, out=None):
    _ranked("mv", (input, 2, "input"), (vec, 1, "vec"))
    return give(p.matmul(input, vec), out)


@public.both
def dot(input, tensor, *, out=None):
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return give(p.matmul(input, tensor), out)


@public.both
def inner(input, other, *, out=None):
    """Sums over the last dims of both."""
    if not (input.ndim and other.ndim):
        return give(a.mul(input, other), out)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return give(tensordot(input, other, ([-1], [-1])), out)


@public.both
def outer(input, vec2, *, out=None):
    _ranked("outer", (input, 1, "self"), (vec2, 1, "vec2"))
    return give(a.mul(unsqueeze(input, 1), vec2), out)


def _scaled_sum(input, product, beta, alpha):
    """beta * input + alpha * product; integers are scaled by the whole parts."""
    check_expandable("addmm", tuple(product.shape), tuple(input.shape))
    beta, alpha = settings(product, beta, alpha, halves=dtypes.float32)
    product = product if alpha == 1 else a.mul(product, alpha)
    if beta == 0:
        return product
    return a.add(input if beta == 1 else a.mul(input, beta), product)


def _of_halves(beta, alpha, *tensors) -> bool:
    """Whether a scaled sum is one of halves, which is rounded once, not behind its product as well."""
    kinds = {x.dtype for x in tensors}
    return (
        len(kinds) == 1
        and tensors[0].dtype.is_floating_point
        and tensors[0].dtype.itemsize == 2
        and state.autocast is None
        and not (beta == 1 and alpha == 1)
    )


def _rounded_once(product, input, left, right, beta, alpha):
    wide, left, right = (a.cast(x, dtypes.float32) for x in (input, left, right))
    return a.cast(_scaled_sum(wide, product(left, right), beta, alpha), input.dtype)


@public.small
@public.both
@public.in_place
def addmm(input, mat1, mat2, *old, beta=1, alpha=1, out=None):
    if old:
        return from_old_form(addmm, (input, mat1, mat2, *old), 3, "beta", "alpha")
    if _of_halves(beta, alpha, input, mat1, mat2):
        return give(_rounded_once(mm, input, mat1, mat2, beta, alpha), out)
    return give(_scaled_sum(lowered(p.gemm, input)[0], mm(mat1, mat2), beta, alpha), out)


@public.both
@public.in_place
@public.in_place_function
def addmv(input, mat, vec, *old, beta=1, alpha=1, out=None):
    if old:
        return from_old_form(addmv, (input, mat, vec, *old), 3, "beta", "alpha")
    beta, alpha = settings(input, beta, alpha)
    if _of_halves(beta, alpha, input, mat, vec):
        return give(_rounded_once(mv, input, mat, vec, beta, alpha), out)
    return give(_scaled_sum(input, mv(mat, vec), beta, alpha), out)


@public.small
@public.both
@public.in_place
def baddbmm(input, batch1, batch2, *old, beta=1, alpha=1, out=None):
    if old:
        return from_old_form(baddbmm, (input, batch1, batch2, *old), 3, "beta", "alpha")
    if _of_halves(beta, alpha, input, batch1, batch2):
        return give(_rounded_once(bmm, input, batch1, batch2, beta, alpha), out)
    return give(_scaled_sum(lowered(p.gemm, input)[0], bmm(batch1, batch2), beta, alpha), out)


def _summed(products):
    """Over the batch, in its type."""
    total = sum_dims(products, (0,), False)
    return total if total.dtype is products.dtype else a.cast(total, products.dtype)


@public.both
@public.in_place
def addbmm(input, batch1, batch2, *old, beta=1, alpha=1, out=None):
    if old:
        return from_old_form(addbmm, (input, batch1, batch2, *old), 3, "beta", "alpha")
    if batch1.dtype is dtypes.bool:
        raise RuntimeError(
            "addbmm: sums over the batch can't be cast to the desired output type Bool; convert the matrices to int64 first"
        )
    return give(_scaled_sum(lowered(p.gemm, input)[0], _summed(bmm(batch1, batch2)), beta, alpha), out)


@public.small
@public.function
def tensordot(a, b, dims: Any = 2):
    if isinstance(dims, int):
        dims = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    if not (isinstance(dims, (tuple, list)) and len(dims) == 2 and not any(isinstance(ds, str) for ds in dims)):
        raise TypeError(f"tensordot(): argument 'dims' must be an int or two lists of ints, one for each tensor, not {dims!r}")
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    left, right = ([dim_of(x, d) for d in ds] for x, ds in zip((a, b), dims))
    a, b = _of_joint_sizes(a, b, left, right)
    free_a = [d for d in range(a.ndim) if d not in left]
    free_b = [d for d in range(b.ndim) if d not in right]
    n = 1
    for d in left:
        n = n * a.shape[d]
    x = reshape(permute(a, tuple(free_a + left)), (_size(a, free_a), n))
    y = reshape(permute(b, tuple(right + free_b)), (n, _size(b, free_b)))
    return reshape(p.matmul(x, y), tuple(a.shape[d] for d in free_a) + tuple(b.shape[d] for d in free_b))


def _of_joint_sizes(a, b, left, right):
    """Operands whose contracted dims are as long as each other: a dim of 1 meets any, and the other is summed."""
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    for da, db in zip(left, right):
        n, m = a.shape[da], b.shape[db]
        if type(m) is int and m == 1:
            a = a if type(n) is int and n == 1 else _summed_over(a, da)
        elif type(n) is int and n == 1:
            b = _summed_over(b, db)
        elif n != m:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {da} and second has size {m} in dim {db}"
            )
    return a, b


def _summed_over(x, d):
    total = sum_dims(x, (d,), True)
    return total if total.dtype is x.dtype else total.to(x.dtype)


def _size(x, dims):
    n = 1
    for d in dims:
        n = n * x.shape[d]
    return n


@public.both
def trace(input):
    _ranked("trace", (input, 2, "input"))
    return sum_dims(diagonal(input, 0, 0, 1), (0,), False)


# -- einsum


@public.small
@public.function
def einsum(equation, *operands):
    """Sums of products by index letters: "bij,bjk->bik", with "..." for broadcast dims; contracted from left to right.
    Also as (operand, [subscripts], ..., [subscripts of the output]) with whole numbers from 0 to 51 for letters."""
    if not isinstance(equation, str):
        if not hasattr(equation, "ndim"):
            raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(equation).__name__}")
        equation, operands = _lettered(equation, *operands)
    operands = list(operands[0]) if len(operands) == 1 and not hasattr(operands[0], "ndim") else list(operands)
    inputs, output = _parse(equation.replace(" ", ""), operands)
    terms = [_merge_repeats(x, letters) for x, letters in zip(operands, inputs)]
    while len(terms) > 1:
        (x, left), (y, right) = terms.pop(0), terms.pop(0)
        needed = set(output).union(*(letters for _, letters in terms))
        terms.insert(0, _contract(x, left, y, right, needed))
    x, letters = terms[0]
    x, letters = _sum_out(x, letters, set(output))
    return permute(x, tuple(letters.index(c) for c in output))


def _lettered(*given):
    """(equation, operands) of operands that are followed by lists of subscripts, and maybe the output's list."""
    if len(given) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
        )
    pairs = len(given) // 2
    terms = [_letters_of(subscripts) for subscripts in given[1 : 2 * pairs : 2]]
    output = "->" + _letters_of(given[-1]) if len(given) % 2 else ""
    return ",".join(terms) + output, given[: 2 * pairs : 2]


def _letters_of(subscripts):
    return "".join("..." if number is Ellipsis else _letter(number) for number in subscripts)


def _letter(number):
    if not 0 <= number < 52:
        raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return chr((ord("A") if number < 26 else ord("a") - 26) + number)


def _parse(equation, operands):
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    _check_letters(equation, inputs, right, bool(arrow))
    if len(inputs) != len(operands):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(inputs)}) does not match the "
            "number of operands "
            f"({len(operands)})"
        )
    depth = 0
    for x, term in zip(operands, inputs):
        depth = max(depth, x.ndim - len(term.replace("...", "")) if "..." in term else 0)
    spread = tuple(f"...{k}" for k in range(depth))
    lists = []
    for x, term in zip(operands, inputs):
        own = x.ndim - len(term.replace("...", ""))
        if own < 0 or (own and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the term '{term}' does not match the number of "
                "dimensions "
                f"({x.ndim}) of its operand"
            )
        lists.append(_letters(term, spread[depth - own :]))
    if arrow:
        return lists, _letters(right, spread)
    everything = [c for letters in lists for c in letters if not c.startswith("...")]
    return lists, list(spread) + sorted(c for c in set(everything) if everything.count(c) == 1)


def _check_letters(equation, inputs, right, arrow):
    """Subscripts are letters; those of the output are different ones of the inputs."""
    for k, c in enumerate(equation.replace("...", "").replace("->", "").replace(",", "")):
        if not (c.isascii() and c.isalpha()):
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {k} in the equation string, subscripts must be in [a-zA-Z]"
            )
    if arrow:
        named = right.replace("...", "")
        for c in named:
            if named.count(c) > 1:
                raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
            if not any(c in term for term in inputs):
                raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")


def _letters(term, spread):
    before, dots, after = term.partition("...")
    return list(before) + (list(spread) if dots else []) + list(after)


def _merge_repeats(x, letters):
    letters = list(letters)
    for c in list(letters):
        while letters.count(c) > 1:
            first = letters.index(c)
            second = letters.index(c, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for one operand but the sizes don't match, "
                    f"{x.shape[second]} != {x.shape[first]}"
                )
            x = diagonal(x, 0, first, second)
            letters = [e for k, e in enumerate(letters) if k not in (first, second)] + [c]
    return x, letters


def _sum_out(x, letters, needed):
    gone = tuple(k for k, c in enumerate(letters) if c not in needed)
    return (sum_dims(x, gone, False) if gone else x), [c for c in letters if c in needed]


def _contract(x, left, y, right, needed):
    """One product of two operands: letters in both and still needed are batch dims, in both and not needed are
    summed."""
    x, left = _sum_out(x, left, needed | set(right))
    y, right = _sum_out(y, right, needed | set(left))
    both = [c for c in left if c in right]
    sizes = {c: _common(x.shape[left.index(c)], y.shape[right.index(c)], c) for c in both}
    batch = [c for c in both if c in needed]
    summed = [c for c in both if c not in needed]
    rows, cols = [c for c in left if c not in both], [c for c in right if c not in both]
    x = _ordered(x, left, batch + rows + summed, sizes)
    y = _ordered(y, right, batch + summed + cols, sizes)
    b, m, k, n = len(batch), len(rows), len(summed), len(cols)
    if not summed:
        out = a.mul(reshape(x, tuple(x.shape) + (1,) * n), reshape(y, tuple(y.shape[:b]) + (1,) * m + tuple(y.shape[b:])))
    else:
        lead = tuple(x.shape[:b])
        product = p.matmul(
            reshape(x, (*lead, _size(x, range(b, b + m)), _size(x, range(b + m, b + m + k)))),
            reshape(y, (*lead, _size(y, range(b, b + k)), _size(y, range(b + k, b + k + n)))),
        )
        out = reshape(product, (*lead, *x.shape[b : b + m], *y.shape[b + k :]))
    return out, batch + rows + cols


def _common(n, m, letter):
    if type(n) is int and n == 1:
        return m
    if not (type(m) is int and m == 1) and n != m:
        raise RuntimeError(f"einsum(): operands do not broadcast with remapped shapes: subscript {letter} has size {n} and {m}")
    return n


def _ordered(x, letters, order, sizes):
    x = permute(x, tuple(letters.index(c) for c in order))
    return expand(x, tuple(sizes.get(c, n) for c, n in zip(order, x.shape)))
