"""flex_attention: attention whose scores and mask are functions of the positions.

The functions are called once with index tensors that broadcast to (B, H, L, S), instead of once per score; they must
be made of elementwise operations and indexing, as PyTorch asks as well.
"""

import math
from typing import NamedTuple

from ... import api
from ...tensor import Tensor

__all__ = [
    "BlockMask",
    "flex_attention",
    "create_block_mask",
    "create_mask",
    "noop_mask",
    "AuxRequest",
    "AuxOutput",
    "and_masks",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Which outputs `flex_attention(return_aux=...)` gives besides the attention."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Log-sum-exp and largest score of each row, (B, H, L); None where not asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch, head, token_q, token_kv):
    """Everything is attended to."""
    return batch.new_ones((), dtype=api.bool)


def and_masks(*mask_mods):
    """A mask that allows what all of these allow."""

    def mask_mod(b, h, q_idx, kv_idx):
        result = b.new_ones((), dtype=api.bool)
        for mod in mask_mods:
            result = result & mod(b, h, q_idx, kv_idx)
        return result

    return mask_mod


def or_masks(*mask_mods):
    """A mask that allows what any of these allows."""

    def mask_mod(b, h, q_idx, kv_idx):
        result = b.new_zeros((), dtype=api.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q_idx, kv_idx)
        return result

    return mask_mod


def _positions(sizes, device):
    """Index tensors of batch, head, query and key that broadcast over `sizes`."""
    return [api.arange(n, device=device).reshape([-1 if k == d else 1 for k in range(4)]) for d, n in enumerate(sizes)]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device="cpu"):
    """The boolean mask (B, H, Q_LEN, KV_LEN) of a mask_mod; None for B or H counts as 1."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_positions(sizes, device)).expand(sizes)


class BlockMask:
    """A mask_mod with the sizes it was made for. All blocks are computed here, so no block is listed."""

    def __init__(self, mask_mod, sizes, block_size, device):
        self.mask_mod, self.shape, self.BLOCK_SIZE, self.device = mask_mod, tuple(sizes), block_size, device

    def to_dense(self):
        """1 where a block has anything to attend to, (B, H, query blocks, key blocks)."""
        mask = create_mask(self.mask_mod, *self.shape, device=self.device)
        rows, columns = ([slice(k, k + n) for k in range(0, size, n)] for size, n in zip(self.shape[2:], self.BLOCK_SIZE))
        return api.stack([api.stack([mask[:, :, r, c].any(-1).any(-1) for c in columns], -1) for r in rows], -2).int()

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, block_size={self.BLOCK_SIZE})"


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device="cpu", BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False):
    """A BlockMask for `mask_mod(b, h, q_idx, kv_idx) -> bool`."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), size, device)


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """softmax(score_mod(q @ k.T * scale)) @ v over (B, H, L, E), (B, H, S, E), (B, H, S, Ev).

    `score_mod(score, b, h, q_idx, kv_idx)` changes scores, `block_mask` says which count; a query without any key gives
    zeros. With `return_lse` also the log-sum-exp of each row; with `return_aux` an AuxOutput of what it asks for.
    `kernel_options` tune kernels of other devices.
    """
    if return_lse and return_aux is not None:
        raise ValueError("return_lse and return_aux cannot both be specified: use return_aux=AuxRequest(lse=True)")
    if enable_gqa and query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    places = _positions(scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.mask_mod(*places), float("-inf"))
    lse = scores.logsumexp(-1, keepdim=True)
    weights = (scores - lse.masked_fill(lse == float("-inf"), 0.0)).exp()
    out = weights.to(value.dtype) @ value
    if return_aux is not None:
        largest = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse.squeeze(-1) if return_aux.lse else None, largest)
    return (out, lse.squeeze(-1)) if return_lse else out
