"""Multi-head attention."""

from ...api import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


class MultiheadAttention(Module):
    """Attention of `query` over `key` and `value`, in `num_heads` heads.

    Inputs are (L, N, E), or (N, L, E) with batch_first, or (L, E). Returns (output, weights averaged over heads or
    None). State keys are PyTorch's: in_proj_weight (3E, E) or q/k/v_proj_weight, in_proj_bias, out_proj.*, bias_k,
    bias_v.
    """

    __constants__ = ["batch_first"]

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.head_dim = embed_dim // num_heads
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.add_zero_attn = add_zero_attn
        made = dict(device=device, dtype=dtype)
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty((3 * embed_dim, embed_dim), **made))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = Parameter(empty((embed_dim, embed_dim), **made))
            self.k_proj_weight = Parameter(empty((embed_dim, self.kdim), **made))
            self.v_proj_weight = Parameter(empty((embed_dim, self.vdim), **made))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, **made)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        self.bias_k = Parameter(empty((1, 1, embed_dim), **made)) if add_bias_kv else None
        self.bias_v = Parameter(empty((1, 1, embed_dim), **made)) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self):
        weights = (
            [self.in_proj_weight] if self._qkv_same_embed_dim else [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        )
        for weight in weights:
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)  # of modules pickled before there was another way
        super().__setstate__(state)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        swap = self.batch_first and query.dim() == 3
        if swap:
            same = query is key and key is value
            query, key, value = (query.transpose(0, 1),) * 3 if same else (x.transpose(0, 1) for x in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if swap else out), weights

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """(one mask for both, its kind: 0 attention, 1 padding, 2 both; None without masks)."""
        if key_padding_mask is None:
            return (None, None) if attn_mask is None else (attn_mask, 0)
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = key_padding_mask.shape
        own = (
            attn_mask.view(batch, -1, length, length)
            if attn_mask.dim() == 3
            else attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        )
        return own + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1), 2
