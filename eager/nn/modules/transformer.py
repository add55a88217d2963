"""The Transformer: encoder and decoder layers, their stacks, and both together.

Inputs are (L, N, E), or (N, L, E) with batch_first. Masks are additive or boolean (True: do not attend).
"""

import copy
from typing import Any

from ... import api
from .. import functional as F
from .. import init
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"]


def _get_clones(module, n):
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation):
    if activation in ("relu", "gelu"):
        return getattr(F, activation)
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    return api.triu(api.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward block and how a block is added."""

    def _fl_set_up(self, d_model, dim_feedforward, dropout, activation, eps, norm_first, bias, norms, made):
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        for k in range(1, norms + 1):
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=eps, bias=bias, **made))
        for k in range(1, norms + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)  # of layers pickled before there was a choice

    def _fl_feed_forward(self, x, drop):
        return drop(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _fl_add(self, x, norm, block):
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward block, each added to its input and normalised."""

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made)
        self._fl_set_up(d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, 2, made)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = self._fl_add(src, self.norm1, lambda y: self._sa_block(y, src_mask, src_key_padding_mask, is_causal))
        return self._fl_add(x, self.norm2, self._ff_block)

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(
            self.self_attn(
                x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
            )[0]
        )

    def _ff_block(self, x):
        return self._fl_feed_forward(x, self.dropout2)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention over the encoder's output, and a feed-forward block."""

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made)
        self._fl_set_up(d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, 3, made)

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        x = self._fl_add(tgt, self.norm1, lambda y: self._sa_block(y, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._fl_add(
            x, self.norm2, lambda y: self._mha_block(y, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        )
        return self._fl_add(x, self.norm3, self._ff_block)

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(
            self.self_attn(
                x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
            )[0]
        )

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout2(
            self.multihead_attn(
                x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
            )[0]
        )

    def _ff_block(self, x):
        return self._fl_feed_forward(x, self.dropout3)


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, then `norm`.

    In evaluation without gradients and with a padding mask alone, whose rows are all padded at their ends, PyTorch
    drops the padded positions (`enable_nested_tensor`): they come out as zeros, before the norm.
    """

    __constants__ = ["norm"]

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=src_key_padding_mask)
        if mask is None and src_key_padding_mask is not None and self._fl_drops_padding(src):
            src = _without_padding(src, src_key_padding_mask, self.mask_check)
        return src if self.norm is None else self.norm(src)

    def _fl_drops_padding(self, src):
        layer = self.layers[0] if len(self.layers) else None
        if not (self.enable_nested_tensor and type(layer) is TransformerEncoderLayer and src.dim() == 3):
            return False
        attention = layer.self_attn
        if self.training or attention.training or layer.norm_first or not attention.batch_first:
            return False
        if attention.in_proj_bias is None or not attention._qkv_same_embed_dim or attention.num_heads % 2:
            return False
        if layer.activation not in (F.relu, F.gelu) or layer.norm1.eps != layer.norm2.eps:
            return False
        return not (api.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in layer.parameters())))


def _without_padding(x, mask, check):
    """Zeros where the mask (bool, or -inf) is set; with `check` only if every row is padded at its end alone."""
    padded = mask if mask.dtype is api.bool else mask != 0
    if check:
        padded = padded & (padded[:, 1:] | ~padded[:, :-1]).all()
    return x.masked_fill(padded.unsqueeze(-1), 0.0)


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, then `norm`."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder, each with a final norm."""

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                TransformerEncoderLayer(*options, **made),
                num_encoder_layers,
                LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made),
            )
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*options, **made),
                num_decoder_layers,
                LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made),
            )
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self):
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        self._fl_check(src, tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    def _fl_check(self, src, tgt):
        batched = src.dim() == 3
        if batched and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """-inf above the diagonal, 0 elsewhere: position i attends to positions up to i."""
        return _generate_square_subsequent_mask(sz, device, dtype)
