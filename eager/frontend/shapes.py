"""Functions of shape: views where possible, copies that rearrange elsewhere."""

from typing import Any

import numpy as np

from ..ops import rearrange, pixel_shuffle, repeat as tiling, views as v
from ..ops.checks import check_within
from ..ops.indexing import index_select, one_hot as one_hot_record
from ..dispatch import small, type_name
from ..dtypes import dtype as type_class, int64
from ..errors import DataDependent
from ..op.meta import broadcast_shapes as common_shape
from ..op.promote import promote_types
from ..autograd_node import mark_multiple
from ..sizes import Size, is_int, numel
from ..tensor import Tensor, read_of_fake
from . import memory_format, public
from .arguments import dim_of, give, known_size, size_of, sizes_of, takes_out
from .interop import view_as_type


@public.views
@public.method
def view(self, *shape, dtype=None, size=None):
    """The same memory under other sizes, or (with a dtype) read as another type."""
    shape = shape if size is None else (size,)
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], type_class)):
        return view_as_type(self, dtype or shape[0])
    return v.view_as_size(self, known_size(sizes_of(shape), self.numel()))


@public.method
def view_as(self, other):
    return v.view_as_size(self, known_size(tuple(other.shape), self.numel()))


@public.views
@public.both
def reshape(input, *shape, **kw):
    if "shape" in kw:
        shape = (kw["shape"],)
    return v.reshape(input, known_size(sizes_of(shape), input.numel()))


@public.method
def reshape_as(self, other):
    return reshape(self, other.shape)


@public.views
@public.both
def flatten(input, start_dim=0, end_dim=-1):
    a, b = dim_of(input, start_dim), dim_of(input, end_dim)
    if not input.ndim:
        return v.reshape(input, (1,))
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b:
        return input
    shape = tuple(input.shape)
    return v.reshape(input, (*shape[:a], numel(shape[a : b + 1]), *shape[b + 1 :]))


@public.both
def ravel(input):
    return v.reshape(v.contiguous(input), (input.numel(),))


@public.both
def unflatten(input, dim, sizes):
    d = dim_of(input, dim)
    shape = tuple(input.shape)
    sizes = (sizes,) if is_int(sizes) else sizes
    inner = tuple(size_of(n) for n in sizes)
    if numel(inner) != shape[d] and -1 not in inner:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(inner)} don't multiply up to the size of dim {d} ({shape[d]}) in the input tensor"
        )
    return v.view_as_size(input, (*shape[:d], *known_size(inner, shape[d], "unflatten sizes"), *shape[d + 1 :]))


@public.in_place_view
@public.views
@public.both
def transpose(input, dim0, dim1):
    if not input.ndim:
        dim_of(input, dim0), dim_of(input, dim1)
        return v.alias(input)
    return v.transpose(input, dim_of(input, dim0), dim_of(input, dim1))


@public.in_place_view
@public.both
def swapaxes(input, axis0, axis1):
    return transpose(input, axis0, axis1)


@public.in_place_view
@public.both
def swapdims(input, dim0, dim1):
    return transpose(input, dim0, dim1)


@public.in_place_view
@public.views
@public.both
def t(input):
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return v.transpose(input, 0, 1) if input.ndim == 2 else v.alias(input)


def _reversed(input):
    return v.permute(input, tuple(reversed(range(input.ndim))))


def _matrix_transpose(input):
    if input.ndim < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor.")
    return transpose(input, -2, -1)


@public.views
@public.both
def permute(input, *args, dims=None):
    dims = args if dims is None else dims
    if len(dims) == 1 and not is_int(dims[0]):
        dims = dims[0]
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
            "of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = "
            f"{len(dims)}"
        )
    order = tuple(dim_of(input, d) for d in dims)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return v.permute(input, order)


@public.both
def movedim(input, source, destination):
    sources = [dim_of(input, d) for d in ((source,) if is_int(source) else source)]
    targets = [dim_of(input, d) for d in ((destination,) if is_int(destination) else destination)]
    rest = iter(d for d in range(input.ndim) if d not in sources)
    return v.permute(input, tuple(sources[targets.index(d)] if d in targets else next(rest) for d in range(input.ndim)))


moveaxis = movedim


@public.in_place_view
@public.views
@public.both
def squeeze(input, dim=None):
    if dim is None:
        dims = range(input.ndim)
    else:
        dims = [dim_of(input, d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if not input.ndim:
        dims = ()
    return v.squeeze(input, tuple(sorted(d for d in dims if input.shape[d] == 1)))


@public.in_place_view
@public.views
@public.both
def unsqueeze(input, dim):
    return v.unsqueeze(input, dim_of(input, dim, 1))


@public.views
@public.method
def expand(self, *sizes, size=None, implicit=False):
    size, shape = sizes_of(sizes if size is None else (size,)), tuple(self.shape)
    lead = len(size) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({list(size)}): the number of sizes provided ({len(size)}) must be greater or "
            "equal to the number of "
            f"dimensions in the tensor ({len(shape)})"
        )
    new = []
    for d, n in enumerate(size):
        own = shape[d - lead] if d >= lead else 1
        if type(n) is int and n == -1:
            if d < lead:
                raise RuntimeError(f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}")
            n = own
        elif not (type(own) is int and own == 1) and n != own:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({own}) at "
                "non-singleton dimension "
                f"{d}.  Target sizes: {list(size)}.  Tensor sizes: {list(shape)}"
            )
        new.append(n)
    return v.expand(self, tuple(new))


@public.method
def expand_as(self, other):
    return expand(self, *other.shape)


@public.both
def broadcast_to(input, size, *more):
    return expand(input, *((size, *more) if is_int(size) else size))


@public.function
def broadcast_shapes(*shapes):
    return Size(common_shape([(s,) if is_int(s) else tuple(s) for s in shapes]))


@public.function
def broadcast_tensors(*tensors):
    tensors = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = common_shape([tuple(x.shape) for x in tensors], "broadcast_tensors")
    return tuple(x if tuple(x.shape) == shape else expand(x, *shape) for x in tensors)


@public.views
@public.both
def narrow(input, dim, start, length):
    d = dim_of(input, dim)
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    n = input.shape[d]
    start = start.item() if isinstance(start, Tensor) else start
    start = start + n if start < 0 else start
    if start < 0 or start > n or start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return v.slice_dim(input, d, start, 1, length)


@public.views
@public.both
def select(input, dim, index):
    d = dim_of(input, dim)
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    n = input.shape[d]
    if index >= n or index < -n:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}")
    return v.select(input, d, index + n if index < 0 else index)


@public.views
@public.both
def split(tensor, split_size_or_sections, dim=0):
    """Pieces of a size (the last may be shorter), or of the given sizes."""
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = dim_of(tensor, dim)
    total, given = tensor.shape[d], split_size_or_sections
    if not is_int(given):
        sections = [size_of(n) for n in given]
        if sum(sections) != total:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size "
                f"at dimension {d}), "
                f"but got split_sizes={sections}"
            )
        return _multiple(tensor, sections, d)
    if given < 0 or (given == 0 and total != 0):
        raise RuntimeError(
            f"split expects split_size be non-negative and positive for a dimension of size {total}, but got {given}"
        )
    count = max(-(-int(total) // given), 1) if given else 1
    return _multiple(tensor, [given] * (count - 1) + [total - given * (count - 1)], d)


def _pieces(x, sizes, d):
    start, found = 0, []
    for n in sizes:
        found.append(v.slice_dim(x, d, start, 1, n))
        start = start + n
    return tuple(found)


def _multiple(x, sizes, d):
    return mark_multiple(_pieces(x, sizes, d))


@public.method
def split_with_sizes(self, split_sizes, dim=0):
    return split(self, split_sizes, dim)


@public.views
@public.both
def chunk(input, chunks, dim=0):
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    d = dim_of(input, dim)
    total = input.shape[d]
    each = (total + chunks - 1) // chunks
    if type(each) is int and each == 0:
        return _multiple(input, [0] * chunks, d)
    if type(total) is not int:
        if total % chunks == 0:
            return _multiple(input, [each] * chunks, d)
    return split(input, each, d)


@public.both
def tensor_split(input, indices_or_sections: Any = None, dim=0, *, indices=None, sections=None):
    if indices_or_sections is None:
        indices_or_sections = indices if sections is None else sections
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    d = dim_of(input, dim)
    total = input.shape[d]
    if is_int(indices_or_sections):
        each, more = divmod(total, indices_or_sections)
        return _pieces(input, [each + 1] * more + [each] * (indices_or_sections - more), d)
    edges = [0, *(min(max(i + total if i < 0 else i, 0), total) for i in indices_or_sections), total]
    return tuple(v.slice_dim(input, d, a, 1, max(b - a, 0)) for a, b in zip(edges, edges[1:]))


def _with_dims(input, dim):
    """One dim of a tensor that has dims."""
    d = dim_of(input, dim)
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return d


@public.views
@public.both
def unbind(input, dim=0):
    d = _with_dims(input, dim)
    return mark_multiple(tuple([v.select(input, d, k) for k in range(int(input.shape[d]))]))


@public.both
def diagonal(input, offset=0, dim1=0, dim2=1):
    a, b = dim_of(input, dim1), dim_of(input, dim2)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return v.diagonal(input, offset, a, b)


@public.small
@public.both
def diag(input, diagonal=0, *, out=None):
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return give(diag_embed(input, diagonal) if input.ndim == 1 else v.diagonal(input, diagonal, 0, 1).clone(), out)


@public.small
@public.both
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    rank = input.ndim + 1
    return pixel_shuffle.diag_embed(input, offset, *sorted((dim1 % rank, dim2 % rank)))


@public.both
def as_strided(input, size, stride, storage_offset=None):
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    own = input.storage_offset()
    start = (own if storage_offset is None else storage_offset) - own
    if input._fl_fake and not input.is_meta:
        _stay_within(input, size, stride, start)
    elif not input._fl_fake:
        _stay_inside(input, size, stride, start + own)
    if input.is_contiguous():
        return v.as_strided(input, tuple(size), tuple(stride), start)
    return v.restrided(input, tuple(size), tuple(stride), start, tuple(input._fl_strides))


def _stay_inside(x, size, stride, offset):
    """Refuses what lies outside the storage."""
    if offset < 0 or any(step < 0 for step in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}, storage offset {offset}"
        )
    bytes_held, item = x.untyped_storage().nbytes(), x.element_size()
    needed = 0 if 0 in size else (offset + sum((n - 1) * step for n, step in zip(size, stride)) + 1) * item
    if needed > bytes_held:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
            f"{item} requiring a storage size of {needed} are out of bounds for storage of size {bytes_held}"
        )


def _stay_within(x, size, stride, start):
    """Graphs compute with elements of tensors, so the memory beyond them is out of their reach."""
    reach = start + sum((n - 1) * step for n, step in zip(size, stride))
    if not x.is_contiguous() or start < 0 or (0 not in size and reach >= x.numel()):
        raise DataDependent("as_strided() of memory that holds more than the tensor's elements")


@public.method
def unfold(self, dimension, size, step):
    d = dim_of(self, dimension)
    if not self.ndim and size <= 1:
        return v.slice_dim(v.unsqueeze(self, 0), 0, 0, 1, size)
    if size > self.shape[d]:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {self.shape[d]} but size is {size}")
    return v.unfold(self, d, size, step)


# -- several tensors


@public.small(rearrange.cat)
@public.function
def cat(tensors, dim=0, *, out=None, axis=None):
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(x).__name__}")
        if not x.ndim:
            raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    kept = [x for x in tensors if not _skipped(x)]
    parts = _promoted(kept or tensors[:1], tensors)
    d = dim_of(parts[0], dim if axis is None else axis) if kept else 0
    _check_cat(parts, d)
    order = memory_format.channels_last(parts)
    if order is None:
        return _joined(rearrange.cat(parts, d), out)
    joined = rearrange.cat(tuple([x.permute(order) for x in parts]), order.index(d))
    return _joined(joined.permute(memory_format.back(order)), out)


concat = concatenate = cat


def _joined(result, out):
    """Joins refuse an `out` of a lesser kind by another error than other functions."""
    if out is not None and out.dtype.category < result.dtype.category:
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {type_name(out.dtype)}")
    return give(result, out)


def _skipped(x):
    """Empty tensors of one dim are left out, whatever the others' rank."""
    return x.ndim == 1 and type(x.shape[0]) is int and x.shape[0] == 0


def _promoted(parts, everything):
    dtype = everything[0].dtype
    for x in everything[1:]:
        dtype = promote_types(dtype, x.dtype)
    return tuple(x if x.dtype is dtype else x.to(dtype) for x in parts)


def _check_cat(parts, d):
    first = parts[0].shape
    for k, x in enumerate(parts[1:], 1):
        if len(x.shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(x.shape)}")
        for e, (n, m) in enumerate(zip(first, x.shape)):
            if e != d and n is not m and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {d}. Expected size {n} but got "
                    f"size {m} for tensor "
                    f"number {k} in the list."
                )


@public.small(rearrange.stack)
@public.function
def stack(tensors, dim=0, *, out=None):
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tuple(tensors[0].shape)
    for k, x in enumerate(tensors):
        if len(x.shape) != len(first) or any(n is not m and n != m for n, m in zip(first, x.shape)):
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(x.shape)} at entry {k}"
            )
    parts, d = _promoted(tensors, tensors), dim_of(tensors[0], dim, 1)
    if d < len(first) and memory_format.channels_last(parts) is not None:
        return _joined(v.reshape(cat(parts, d), (*first[:d], len(parts), *first[d:])), out)
    return _joined(rearrange.stack(parts, d), out)


@public.function
def hstack(tensors, *, out=None):
    tensors = [atleast_1d(x) for x in tensors]
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1, out=out)


@public.function
def vstack(tensors, *, out=None):
    return cat([atleast_2d(x) for x in tensors], 0, out=out)


row_stack = vstack


@public.function
def dstack(tensors, *, out=None):
    return cat([atleast_3d(x) for x in tensors], 2, out=out)


@public.function
def atleast_1d(x):
    return x if x.ndim else v.reshape(x, (1,))


@public.function
def atleast_2d(x):
    x = atleast_1d(x)
    return x if x.ndim > 1 else v.unsqueeze(x, 0)


@public.function
def atleast_3d(x):
    x = atleast_2d(x)
    return x if x.ndim > 2 else v.unsqueeze(x, 2)


@public.function
def meshgrid(*tensors, indexing="ij"):
    tensors = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(x.ndim > 1 for x in tensors):
        raise RuntimeError(
            f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {[list(x.shape) for x in tensors]}"
        )
    tensors = [atleast_1d(x) for x in tensors]
    if any(x.dtype is not tensors[0].dtype for x in tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors[0], tensors[1] = tensors[1], tensors[0]
    shape = tuple(x.shape[0] for x in tensors)
    grids = [
        expand(v.view_as_size(x, (1,) * k + (n,) + (1,) * (len(shape) - 1 - k)), *shape)
        for k, (x, n) in enumerate(zip(tensors, shape))
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


# -- copies that rearrange


@public.small(rearrange.flip)
@public.both
@takes_out
def flip(input, *args, dims=None):
    if dims is None and not args:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    dims = args if dims is None else (dims,)
    dims = dims[0] if len(dims) == 1 and not is_int(dims[0]) else dims
    found = [dim_of(input, d) for d in dims]
    twice = [d for d in found if found.count(d) > 1]
    if twice:
        raise RuntimeError(f"dim {twice[0]} appears multiple times in the list of dims")
    return rearrange.flip(input, tuple(sorted(found))) if input.ndim else input.clone()


@public.both
def fliplr(input):
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@public.both
def flipud(input):
    if not input.ndim:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@public.small
@public.both
def roll(input, shifts, dims: Any = None):
    if dims is None and input.ndim == 1:
        dims = 0
    if dims is None or dims == ():
        return v.reshape(roll(ravel(input), shifts, 0), tuple(input.shape))
    shifts = (shifts,) if is_int(shifts) else tuple(shifts)
    dims = (dims,) if is_int(dims) else tuple(dims)
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if len(dims) == 1 and not -input.ndim <= dims[0] < input.ndim and input.numel() == 0:
        return input.clone()  # PyTorch looks at one dimension only where there is something to move
    dims, order = tuple(_with_dims(input, d) for d in dims), memory_format.channels_last((input,))
    if order is None:
        return rearrange.roll(input, shifts, dims)
    return rearrange.roll(input.permute(order), shifts, tuple(map(order.index, dims))).permute(memory_format.back(order))


@public.small
@public.both
def rot90(input, k=1, dims=(0, 1)):
    a, b = (dim_of(input, d) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turns = k % 4
    if turns == 0:
        return v.contiguous_copy(input)
    if turns == 2:
        return flip(input, a, b)
    return transpose(flip(input, b if turns == 1 else a), a, b)


@public.method
def repeat(self, *sizes, repeats=None):
    sizes = sizes if repeats is None else (repeats,)
    if not sizes:
        raise TypeError('repeat() missing 1 required positional arguments: "repeats"')
    times = sizes_of(sizes)
    if len(times) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    x = v.reshape(self, (1,) * (len(times) - self.ndim) + tuple(self.shape))
    return tiling.repeat(x, times)


@public.both
def tile(input, *sizes, dims=None):
    dims = sizes_of(sizes if dims is None else (dims,))
    return repeat(input, (1,) * (input.ndim - len(dims)) + dims)


@public.both
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each slice as often as told; without `repeats`, `input` tells how often its places are repeated."""
    if repeats is None:
        return _places(input, output_size).to(input.dtype)
    if dim is None:
        input, dim = ravel(input), 0
    d = dim_of(input, dim)
    if is_int(repeats):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        return tiling.repeat_interleave(input, repeats, d)
    size = input.shape[d] if input.ndim else 1
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats.ndim == 0 or repeats.shape[0] == 1:
        repeats = v.expand(v.reshape(repeats, (1,)), (size,))
    elif repeats.shape[0] != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {repeats.shape[0]} and input.size({d}) = {size}"
        )
    return index_select(input, d, _places(repeats, output_size))


def _places(counts, output_size) -> Any:
    """Place i `counts[i]` times."""
    if counts.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if counts.dtype.name not in ("int32", "int64"):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{type_name(counts.dtype)}'")
    if counts._fl_array is None:
        return read_of_fake(counts, "places", output_size)
    values = counts._values("repeat_interleave()")
    if values.size and values.min() < 0:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != values.sum():
        raise RuntimeError("allocated size does not match required size")
    return Tensor._fl_from_array(np.repeat(np.arange(len(values)), values), int64)


def one_hot(tensor, num_classes=-1):
    if tensor.dtype.category != 1:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1 and tensor._fl_array is None:
        num_classes = read_of_fake(tensor, "classes")
    else:
        check_within(tensor, 0, None, "Class values must be non-negative.")
        if num_classes == -1:
            num_classes = int(tensor._values("one_hot without num_classes").max()) + 1
        else:
            check_within(tensor, None, num_classes - 1, "Class values must be smaller than num_classes.")
    return one_hot_record(tensor, num_classes)


one_hot = small("one_hot", one_hot)


public.each(globals(), both="moveaxis", function="concat concatenate")
public.methods(T=property(_reversed), H=property(_matrix_transpose), mT=property(_matrix_transpose))
