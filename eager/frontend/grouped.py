"""Products of groups of rows or columns: what of the arguments PyTorch checks, then the record."""

from .. import dtypes
from ..ops import grouped_mm as grouped, products


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of groups: group i of a 2-d operand ends at offs[i] (int32) along its rows (left of a batch), its columns
    (right of a batch), or along what is summed (both 2-d). Without `offs` the product of two batches.
    """
    for x, name in ((mat_a, "mat_a"), (mat_b, "mat_b")):
        if x.dtype not in (dtypes.float32, dtypes.bfloat16, dtypes.float16):
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {x.dtype}")
        if x.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    _check_groups(mat_a, mat_b, offs)
    products.check_product(mat_a, mat_b, "grouped_mm")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype not in (None, mat_a.dtype):
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    return products.gemm(mat_a, mat_b) if offs is None else grouped.grouped_mm(mat_a, mat_b, offs)


def _check_groups(a, b, offs):
    if (offs is None) != (a.ndim == b.ndim == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if a.ndim == b.ndim == 3 and a.shape[0] != b.shape[0]:
        raise RuntimeError("batched dimension has to match")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if offs is None:
        return
    if offs.ndim != 1:
        raise RuntimeError("offs has to be 1D")
    if offs.dtype is not dtypes.int32:
        raise RuntimeError("Offsets have to be int32")
    if a.ndim != b.ndim and offs.shape[0] != (a if a.ndim == 3 else b).shape[0]:
        raise RuntimeError("matrix batch sizes have to match")
