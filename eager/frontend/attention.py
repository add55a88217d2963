"""Attention functions: scaled_dot_product_attention and multi_head_attention_forward."""

import math

from .. import dtypes
from ..dispatch import small
from ..op.meta import broadcast_shapes
from ..ops import attention as attend
from ..ops.activations import dropout, softmax
from ..ops.arithmetic import add, mul
from ..ops.creation import full
from ..ops.products import linear, matmul
from ..ops.rearrange import cat
from ..ops.reduce import mean
from ..ops.views import expand, reshape, slice_dim, squeeze, transpose, unsqueeze
from .arguments import lowered
from .shapes import repeat_interleave


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(q @ k.T * scale + mask) @ v over (..., L, E), (..., S, E), (..., S, Ev).

    A boolean mask is True where attention is allowed; `is_causal` is a mask from the top left corner; `enable_gqa`
    repeats the heads of key and value.
    """
    query, key, value, attn_mask = lowered(attend.attention, query, key, value, attn_mask)
    _check_attention(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = _repeat_heads(query, key), _repeat_heads(query, value)
    scale = (
        1.0 / math.sqrt(int(query.shape[-1]) if isinstance(query.shape[-1], int) else query.shape[-1]) if scale is None else scale
    )
    batch = broadcast_shapes([tuple(t.shape[:-2]) for t in (query, key, value)], "scaled_dot_product_attention")
    q, k, v = (t if tuple(t.shape[:-2]) == batch else t.expand(*batch, *t.shape[-2:]) for t in (query, key, value))
    return attend.attention(q, k, v, attn_mask, float(dropout_p), is_causal, scale)[0]


scaled_dot_product_attention = small("scaled_dot_product_attention", scaled_dot_product_attention)


def _repeat_heads(query, t):
    heads, own = query.shape[-3], t.shape[-3]
    if heads % own:
        raise RuntimeError(
            f"scaled_dot_product_attention: query has {heads} heads, not a multiple of the {own} heads of key and value"
        )
    return t if heads == own else repeat_interleave(t, heads // own, -3)


def _check_attention(q, k, v, mask, causal):
    if not (q.dtype is k.dtype is v.dtype):
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{q.dtype} key.dtype: {k.dtype} and value.dtype: {v.dtype} instead."
        )
    if q.ndim < 2 or k.ndim < 2 or v.ndim < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim(): "
            f"{q.ndim} key.dim(): "
            f"{k.ndim} and value.dim(): {v.ndim} instead."
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(
            f"scaled_dot_product_attention: sizes do not fit: query {list(q.shape)}, key {list(k.shape)}, value {list(v.shape)}"
        )
    if mask is not None:
        if causal:
            raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
        if mask.dtype is not dtypes.bool and mask.dtype is not q.dtype:
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or to match query dtype, but got "
                f"attn_mask.dtype: {mask.dtype} and  "
                f"query.dtype: {q.dtype} instead."
            )


# -- multi-head attention


def additive_mask(mask, name, dtype):
    """-inf where a bool mask is True; a float mask as it is."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if mask.dtype is dtypes.bool:
        return full(tuple(mask.shape), 0, dtype, mask.device).masked_fill(mask, -math.inf)
    return mask


def _check_ranks(query, key, value, key_padding_mask, attn_mask, heads, causal):
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    kind = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found {key.dim()}-D "
            f"and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
            )
        expected = (heads, query.shape[0], key.shape[0])
        if rank == 2 and attn_mask.dim() == 3 and tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    elif causal:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")


def _one_more(mask):
    """A further column of zeros: for a key that every query may attend to."""
    return None if mask is None else cat((mask, full((*mask.shape[:-1], 1), 0, mask.dtype, mask.device)), len(mask.shape) - 1)


def _zero_key(heads):
    """A further key, or value, of zeros; heads: (N, heads, S, E)."""
    return cat((heads, full((*heads.shape[:2], 1, heads.shape[3]), 0, heads.dtype, heads.device)), 2)


def _projected(query, key, value, weight, bias, separate, q_weight, k_weight, v_weight):
    """The three projections (L, N, E); self-attention is one product."""
    size = query.shape[-1]
    if separate:
        for name, w in (("q_proj_weight", q_weight), ("k_proj_weight", k_weight), ("v_proj_weight", v_weight)):
            if w is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name} is None")
        weights = q_weight, k_weight, v_weight
    else:
        if weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        if query is key and key is value:
            return linear(query, weight, bias).chunk(3, -1)
        weights = tuple(slice_dim(weight, 0, k * size, 1, size) for k in range(3))
    biases = (None,) * 3 if bias is None else tuple(slice_dim(bias, 0, k * size, 1, size) for k in range(3))
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))


def _heads(x, batch, heads):
    """(L, N, E) -> (N, heads, L, E / heads)"""
    x = reshape(x, (x.shape[0], batch, heads, x.shape[2] // heads))
    return x.permute(1, 2, 0, 3)


def _given_heads(static, batch, heads, head_dim, name):
    """Keys or values given by the caller, (N * heads, S, head_dim)."""
    if static.shape[0] != batch * heads:
        raise AssertionError(f"expecting {name}.size(0) of {batch * heads}, but got {static.shape[0]}")
    if static.shape[2] != head_dim:
        raise AssertionError(f"expecting {name}.size(2) of {head_dim}, but got {static.shape[2]}")
    return reshape(static, (batch, heads, static.shape[1], head_dim))


def _attention_mask(attn_mask, length, width, batch, heads):
    """(1 or N, 1 or heads, L, S)"""
    if attn_mask is None:
        return None
    if attn_mask.dim() == 2:
        if tuple(attn_mask.shape) != (length, width):
            raise RuntimeError(f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {(length, width)}.")
        return unsqueeze(unsqueeze(attn_mask, 0), 0)
    if tuple(attn_mask.shape) != (batch * heads, length, width):
        raise RuntimeError(f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be {(batch * heads, length, width)}.")
    return reshape(attn_mask, (batch, heads, length, width))


def _with_weights(q, k, v, mask, p):
    scores = matmul(mul(q, q.shape[-1] ** -0.5), transpose(k, 2, 3))
    weights = softmax(scores if mask is None else add(scores, mask), 3)
    weights = dropout(weights, p)[0] if p > 0.0 else weights
    return matmul(weights, v), weights


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Attention of `query` (L, N, E) over `key` and `value` (S, N, ...), or without N.

    Masks: attn_mask (L, S) or (N * heads, L, S), key_padding_mask (N, S); True, or -inf, is not attended to.
    `is_causal` says that attn_mask is causal. -> (output, weights (N, L, S), per head (N, heads, L, S), or None).
    """
    _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads, is_causal)
    batched = query.dim() == 3
    if not batched:
        query, key, value, key_padding_mask = _as_batch(query, key, value, key_padding_mask)
    length, batch, size = query.shape
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    head_dim, dtype, dropout_p = size // num_heads, query.dtype, dropout_p if training else 0.0
    causal = is_causal and key_padding_mask is None and not need_weights and bias_k is None and not add_zero_attn
    key_padding_mask = additive_mask(key_padding_mask, "key_padding_mask", dtype)
    attn_mask = None if causal else additive_mask(attn_mask, "attn_mask", dtype)
    q, k, v = _projected(
        query, key, value, in_proj_weight, in_proj_bias, use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight
    )
    if bias_k is not None and bias_v is not None:
        k, v = (cat((x, expand(b, (1, batch, size))), 0) for x, b in ((k, bias_k), (v, bias_v)))
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    q = _heads(q, batch, num_heads)
    k = _heads(k, batch, num_heads) if static_k is None else _given_heads(static_k, batch, num_heads, head_dim, "static_k")
    v = _heads(v, batch, num_heads) if static_v is None else _given_heads(static_v, batch, num_heads, head_dim, "static_v")
    if add_zero_attn:
        k, v = _zero_key(k), _zero_key(v)
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    mask = _with_padding(_attention_mask(attn_mask, length, k.shape[2], batch, num_heads), key_padding_mask, batch, k.shape[2])
    out, weights = _attended(q, k, v, mask, dropout_p, causal, need_weights, average_attn_weights)
    out = linear(reshape(out.permute(2, 0, 1, 3), (length, batch, size)), out_proj_weight, out_proj_bias)
    if not batched:
        out, weights = squeeze(out, (1,)), None if weights is None else squeeze(weights, (0,))
    return out, weights


def _attended(q, k, v, mask, dropout_p, causal, need_weights, average):
    """What the heads (N, heads, L, E) gather, and their weights, (N, L, S) where averaged, or None."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, causal), None
    out, weights = _with_weights(q, k, v, mask, dropout_p)
    return out, mean(weights, (1,), False) if average else weights


def _as_batch(query, key, value, padding):
    """Sequences without a batch, (L, E), and their padding (S,) as a batch of one; tensors that are one object stay one."""
    if query is key and key is value:
        query = key = value = query.unsqueeze(1)
    else:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
    return query, key, value, None if padding is None else padding.unsqueeze(0)


def _with_padding(mask, padding, batch, keys):
    """The mask of all heads with that of the keys (N, S) added."""
    if padding is None:
        return mask
    if tuple(padding.shape) != (batch, keys):
        raise AssertionError(f"expecting key_padding_mask shape of {(batch, keys)}, but got {padding.shape}")
    padding = unsqueeze(unsqueeze(padding, 1), 1)
    return padding if mask is None else add(mask, padding)


def _check_sizes(query, key, value, embed_dim, heads, separate):
    size = query.shape[2]
    if size != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {size}")
    if size % heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {heads}")
    if separate and tuple(key.shape[:2]) != tuple(value.shape[:2]):
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and tuple(key.shape) != tuple(value.shape):
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
