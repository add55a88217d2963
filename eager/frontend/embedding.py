"""Rows of a weight looked up by integers: embedding, and embedding_bag, which reduces bags of them."""

from .. import dtypes
from ..autograd import no_grad
from ..dispatch import small, type_name
from ..ops import embedding_bag as bag_records, indexing
from ..op.op import specialise
from ..ops.creation import arange
from ..ops.rearrange import cat


def checked_indices(input, name):
    if input.dtype is dtypes.int64:
        return input
    if input.dtype is not dtypes.int32:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {type_name(input.dtype)} instead (while checking arguments for {name})"
        )
    return input.long()


def padding_row(padding_idx, weight):
    """The padding row as a non-negative int; -1: none."""
    if padding_idx is None:
        return -1
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx


def renorm(weight, index, max_norm, norm_type):
    """Rows that are about to be read are scaled down, in place, to the largest norm allowed."""
    with no_grad():
        used = index.reshape(-1).unique()
        rows = weight.index_select(0, used)
        norms = rows.norm(norm_type, 1, keepdim=True)
        scale = (max_norm / (norms + 1e-7)).masked_fill(norms <= max_norm, 1.0)
        weight.index_copy_(0, used, rows * scale)


def _scaled_by_count(rows, index, count):
    """The same values; the gradient of a row is divided by how often it is looked up."""
    flat = index.reshape(-1)
    ones = rows.new_ones((flat.shape[0],))
    times = rows.new_zeros((count,)).index_add(0, flat, ones).index_select(0, flat).reshape((*index.shape, 1))
    still = rows.detach()
    return still + (rows - still) / times


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """(*input.shape, D). The row `padding_idx` gets no gradient; `max_norm` scales the rows used down, in `weight`."""
    if sparse:
        raise ValueError("embedding: sparse=True is not available: gradients are dense")
    input = checked_indices(input, "embedding")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = padding_row(padding_idx, weight)
    if max_norm is not None:
        renorm(weight, input, max_norm, norm_type)
    rows = indexing.embedding(weight, input, padding)
    return _scaled_by_count(rows, input, weight.shape[0]) if scale_grad_by_freq and rows.requires_grad else rows


embedding = small("embedding", embedding, indexing.embedding)


def _check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse):
    if sparse:
        raise ValueError("embedding_bag: sparse=True is not available: gradients are dense")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode='{mode}'). Please open a feature request "
                "on GitHub."
            )
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.shape)}) is not None, "
                f"then it must have the same shape as the input ({tuple(input.shape)})"
            )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
            f"length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    elif input.dim() != 2:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")


def bags(input, offsets, include_last_offset):
    """(flat indices, the bag of each, how many bags)."""
    if input.dim() == 2:
        count, length = input.shape
        places = input.new_empty((0,)).new_tensor(range(count)).repeat_interleave(length)
        return input.reshape(-1), places, count
    starts = offsets.long()[:-1] if include_last_offset else offsets.long()
    count = starts.shape[0]
    steps = input.new_zeros((input.shape[0] + 1,)).index_add(0, starts, input.new_ones((count,)))
    return input, steps[:-1].cumsum(0) - 1, count


def first_places(input, offsets, include_last_offset):
    """(flat indices, where each bag begins and the last one ends)."""
    if input.dim() == 2:
        count, length = input.shape
        return input.reshape(-1), arange(0, 1, count + 1, dtypes.int64, input.device) * length
    starts = offsets.long()[:-1] if include_last_offset else offsets.long()
    return input, cat((starts, starts.new_full((1,), input.shape[0])), 0)


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type: float = 2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Bags of rows, summed, averaged or maximised: input (B, L), or one vector with the bags' first positions in
    `offsets`. Rows `padding_idx` are left out; an empty bag is zero. -> (B, D)"""
    _check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse)
    index = checked_indices(input, "embedding_bag")
    padding = padding_row(padding_idx, weight)
    if max_norm is not None:
        renorm(weight, index, max_norm, norm_type)
    if not scale_grad_by_freq:
        flat, first = first_places(index, offsets, include_last_offset)
        if mode == "max" and not (type(flat.shape[0]) is int and flat.shape[0] == 0):  # (sums of nothing are zero)
            return bag_records.bag_max(weight, flat, first, padding)[0]
        scale = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        return bag_records.bag_sum(weight, flat, first, scale, padding, mode == "mean")
    flat, bag, count = bags(index, offsets, include_last_offset)
    rows = indexing.embedding(weight, flat, padding)
    kept = flat != padding
    rows = _scaled_by_count(rows, flat, weight.shape[0])
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    total = rows.new_zeros((count, rows.shape[1])).index_add(0, bag, rows.masked_fill(~kept.unsqueeze(1), 0))
    if mode == "sum":
        return total
    sizes = rows.new_zeros((count,)).index_add(0, bag, kept.to(rows.dtype))
    return total / sizes.clamp(min=1).unsqueeze(1)


def winners(weight, index, offsets, include_last_offset, padding):
    """Which row of the weight gave each maximum; 0 in empty bags."""
    return bag_records.bag_winners(weight, *first_places(index, offsets, include_last_offset), padding).clamp(min=0)


embedding_bag = small("embedding_bag", embedding_bag, (specialise(bag_records.bag_sum), specialise(bag_records.bag_max)))
