"""Activations as modules, and multi-head attention."""

from ...api import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import Linear
from .module import Module


class _InPlace(Module):
    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    def forward(self, input):
        return F.relu(input, self.inplace)


class ReLU6(_InPlace):
    def forward(self, input):
        return F.relu6(input, self.inplace)


class SiLU(_InPlace):
    def forward(self, input):
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    def forward(self, input):
        return F.mish(input, self.inplace)


class Hardtanh(Module):
    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class Hardsigmoid(_InPlace):
    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_InPlace):
    def forward(self, input):
        return F.hardswish(input, self.inplace)


class ELU(Module):
    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class LeakyReLU(Module):
    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class Tanh(Module):
    def forward(self, input):
        return input.tanh()


class Sigmoid(Module):
    def forward(self, input):
        return input.sigmoid()


class LogSigmoid(Module):
    def forward(self, input):
        return F.logsigmoid(input)


class Softsign(Module):
    def forward(self, input):
        return F.softsign(input)


class _AlongDim(Module):
    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    def forward(self, input):
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDim):
    def forward(self, input):
        return F.log_softmax(input, self.dim)


class GLU(_AlongDim):
    def __init__(self, dim=-1):
        super().__init__(dim)

    def forward(self, input):
        return F.glu(input, self.dim)


class NonDynamicallyQuantizableLinear(Linear):
    """The name that PyTorch gives the output projection of attention; a Linear."""


class MultiheadAttention(Module):
    """Attention of `query` over `key` and `value`, in `num_heads` heads.

    Inputs are (L, N, E), or (N, L, E) with batch_first, or (L, E). Returns (output, weights averaged over heads or
    None). State keys are PyTorch's: in_proj_weight (3E, E) or q/k/v_proj_weight, in_proj_bias, out_proj.*, bias_k,
    bias_v.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} "
                             f"and num_heads={num_heads} instead")
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if add_bias_kv or add_zero_attn:
            raise ValueError("MultiheadAttention: add_bias_kv and add_zero_attn are not available")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.head_dim = embed_dim // num_heads
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.bias_k = self.bias_v = None
        self.add_zero_attn = False
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
        self._reset_parameters()

    def _reset_parameters(self):
        weights = ([self.in_proj_weight] if self._qkv_same_embed_dim
                   else [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight])
        for weight in weights:
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)

    def _project(self, query, key, value):
        """The three projections, each (N, L, E); self-attention is one product."""
        if self._qkv_same_embed_dim and query is key and key is value:
            return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        weights = (self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim
                   else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight))
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))

    def _heads(self, x):
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def _mask(self, attn_mask, key_padding_mask, dtype):
        """One additive mask that broadcasts to (N, heads, L, S), or None."""
        masks = []
        if attn_mask is not None:
            attn_mask = _additive(attn_mask, dtype)
            masks.append(attn_mask if attn_mask.dim() == 2
                         else attn_mask.unflatten(0, (-1, self.num_heads)))
        if key_padding_mask is not None:
            masks.append(_additive(key_padding_mask, dtype)[:, None, None, :])
        if not masks:
            return None
        return masks[0] if len(masks) == 1 else masks[0] + masks[1]

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        same = query is key and key is value
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if same:
            key = value = query
        q, k, v = (self._heads(x) for x in self._project(query, key, value))
        mask = self._mask(attn_mask, key_padding_mask, q.dtype)
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            out, weights = self._attend_with_weights(q, k, v, mask, dropout)
            weights = weights.mean(dim=1) if average_attn_weights else weights
        else:
            out, weights = F.scaled_dot_product_attention(q, k, v, mask, dropout), None
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), weights

    def _attend_with_weights(self, q, k, v, mask, dropout):
        scores = (q * self.head_dim ** -0.5) @ k.transpose(-2, -1)
        weights = F.dropout(F.softmax(scores if mask is None else scores + mask, dim=-1), dropout)
        return weights @ v, weights


def _additive(mask, dtype):
    """-inf where a bool mask is True; a float mask as it is."""
    if not mask.is_floating_point():
        zeros = mask.new_zeros(mask.shape, dtype=dtype)
        return zeros.masked_fill(mask, float("-inf"))
    return mask
