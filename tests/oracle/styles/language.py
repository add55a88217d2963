"""LLaMA with its cache and decoding, Mamba's selective scan, S4D's convolution by FFT."""

import math
from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor, einsum

from .base import model, ramp, whole


@dataclass
class ModelArgs:
    dim: int = 16
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int | None = 2
    vocab_size: int = 29
    multiple_of: int = 8
    norm_eps: float = 1e-5
    max_seq_len: int = 16


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end, device=freqs.device), freqs).float())


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis.view(*[d if i == 1 or i == xq_.ndim - 1 else 1 for i, d in enumerate(xq_.shape)])
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim).reshape(bs, slen, n_kv_heads * n_rep, head_dim)


class LlamaAttention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_local_heads, self.head_dim = args.n_heads, args.dim // args.n_heads
        self.n_rep = self.n_local_heads // self.n_kv_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        self.cache_k = torch.zeros((4, args.max_seq_len, self.n_kv_heads, self.head_dim))
        self.cache_v = torch.zeros((4, args.max_seq_len, self.n_kv_heads, self.head_dim))

    def forward(self, x, start_pos: int, freqs_cis, mask: Tensor | None):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, self.n_local_heads, self.head_dim)
        xk = xk.view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = xv.view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)
        if not torch.is_grad_enabled():
            self.cache_k = self.cache_k.to(xq)
            self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
            self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
            xk, xv = self.cache_k[:bsz, : start_pos + seqlen], self.cache_v[:bsz, : start_pos + seqlen]
        keys, values = repeat_kv(xk, self.n_rep), repeat_kv(xv, self.n_rep)
        xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden_dim: int, multiple_of: int):
        super().__init__()
        hidden_dim = multiple_of * ((int(2 * hidden_dim / 3) + multiple_of - 1) // multiple_of)
        self.w1, self.w2 = nn.Linear(dim, hidden_dim, bias=False), nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, layer_id: int, args: ModelArgs):
        super().__init__()
        self.attention, self.layer_id = LlamaAttention(args), layer_id
        self.feed_forward = FeedForward(args.dim, 4 * args.dim, args.multiple_of)
        self.attention_norm, self.ffn_norm = RMSNorm(args.dim, args.norm_eps), RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, start_pos, freqs_cis, mask):
        h = x + self.attention(self.attention_norm(x), start_pos, freqs_cis, mask)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, params: ModelArgs):
        super().__init__()
        self.params = params
        self.tok_embeddings = nn.Embedding(params.vocab_size, params.dim)
        self.layers = torch.nn.ModuleList()
        for layer_id in range(params.n_layers):
            self.layers.append(LlamaBlock(layer_id, params))
        self.norm = RMSNorm(params.dim, eps=params.norm_eps)
        self.output = nn.Linear(params.dim, params.vocab_size, bias=False)
        self.freqs_cis = precompute_freqs_cis(params.dim // params.n_heads, params.max_seq_len * 2)

    def forward(self, tokens: Tensor, start_pos: int = 0):
        _bsz, seqlen = tokens.shape
        h = self.tok_embeddings(tokens)
        freqs_cis = self.freqs_cis[start_pos : start_pos + seqlen]
        mask = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1)
            mask = torch.hstack([torch.zeros((seqlen, start_pos), device=tokens.device), mask]).type_as(h)
        for layer in self.layers:
            h = layer(h, start_pos, freqs_cis, mask)
        return self.output(self.norm(h)).float()


@model
def llama():
    tokens = whole(29, 2, 9)
    return Llama(ModelArgs()), (tokens[:, :-1],), lambda o: F.cross_entropy(o.reshape(-1, 29), tokens[:, 1:].reshape(-1))


class LlamaDecoding(nn.Module):
    """Prompt first, then token by token with the cache."""

    def __init__(self):
        super().__init__()
        self.llama = Llama(ModelArgs())

    @torch.inference_mode()
    def generate(self, tokens, count):
        start = 0
        for _ in range(count):
            logits = self.llama(tokens[:, start:], start)
            start = tokens.shape[1]
            probs = torch.softmax(logits[:, -1] / 0.8, dim=-1)
            probs_sort, probs_idx = torch.sort(probs, dim=-1, descending=True)
            probs_sum = torch.cumsum(probs_sort, dim=-1)
            probs_sort[probs_sum - probs_sort > 0.9] = 0.0
            probs_sort.div_(probs_sort.sum(dim=-1, keepdim=True))
            tokens = torch.cat([tokens, torch.gather(probs_idx, -1, probs_sort.argmax(-1, keepdim=True))], 1)
        return tokens

    def forward(self, tokens):
        return self.generate(tokens, 4).float()


@model
def llama_decoding():
    return LlamaDecoding(), (whole(29, 2, 3),), None


class MambaBlock(nn.Module):
    def __init__(self, d_model=8, d_state=4, d_conv=3, expand=2):
        super().__init__()
        self.d_inner, self.dt_rank, self.d_state = expand * d_model, math.ceil(d_model / 16), d_state
        self.in_proj = nn.Linear(d_model, self.d_inner * 2, bias=False)
        self.conv1d = nn.Conv1d(self.d_inner, self.d_inner, d_conv, bias=True, groups=self.d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + d_state * 2, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner, bias=True)
        A = torch.arange(1, d_state + 1).repeat(self.d_inner, 1)
        self.A_log = nn.Parameter(torch.log(A.float()))
        self.A_log._no_weight_decay = True
        self.D = nn.Parameter(torch.ones(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def forward(self, x):
        (b, l, d) = x.shape
        x_and_res = self.in_proj(x)
        (x, res) = x_and_res.split(split_size=[self.d_inner, self.d_inner], dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[:, :, :l].transpose(1, 2))
        return self.out_proj(self.ssm(x) * F.silu(res))

    def ssm(self, x):
        A = -torch.exp(self.A_log.float())
        (delta, B, C) = self.x_proj(x).split(split_size=[self.dt_rank, self.d_state, self.d_state], dim=-1)
        return self.selective_scan(x, F.softplus(self.dt_proj(delta)), A, B, C, self.D.float())

    def selective_scan(self, u, delta, A, B, C, D):
        (b, l, d_in) = u.shape
        deltaA = torch.exp(einsum("bld,dn->bldn", delta, A))
        deltaB_u = einsum("bld,bln,bld->bldn", delta, B, u)
        x, ys = torch.zeros((b, d_in, A.shape[1]), device=deltaA.device), []
        for i in range(l):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            ys.append(einsum("bdn,bn->bd", x, C[:, i, :]))
        return torch.stack(ys, dim=1) + u * D


@model
def mamba():
    return nn.Sequential(OrderedDict(norm=RMSNorm(8), mixer=MambaBlock())), (ramp(2, 6, 8),), None


class S4DKernel(nn.Module):
    def __init__(self, d_model, N=8, dt_min=0.001, dt_max=0.1):
        super().__init__()
        log_dt = torch.linspace(0, 1, d_model) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)
        C = torch.complex(ramp(d_model, N // 2), ramp(d_model, N // 2, salt=1))
        self.C = nn.Parameter(torch.view_as_real(C))
        self.register("log_dt", log_dt, 0.001)
        self.register("log_A_real", torch.log(0.5 * torch.ones(d_model, N // 2)), None)
        self.register("A_imag", math.pi * torch.arange(N // 2).float().repeat(d_model, 1), 0.0)

    def register(self, name, tensor, lr):
        if lr == 0.0:
            self.register_buffer(name, tensor)
        else:
            self.register_parameter(name, nn.Parameter(tensor))
            setattr(getattr(self, name), "_optim", {"weight_decay": 0.0, **({} if lr is None else {"lr": lr})})

    def forward(self, L):
        dt = torch.exp(self.log_dt)
        C = torch.view_as_complex(self.C)
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(L, device=A.device)
        C = C * (torch.exp(dtA) - 1.0) / A
        return 2 * torch.einsum("hn, hnl -> hl", C, torch.exp(K)).real


class S4D(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.D, self.kernel = nn.Parameter(ramp(d_model, salt=3)), S4DKernel(d_model)
        self.output_linear = nn.Sequential(nn.Conv1d(d_model, 2 * d_model, kernel_size=1), nn.GLU(dim=-2))

    def forward(self, u):
        L = u.size(-1)
        k_f = torch.fft.rfft(self.kernel(L=L), n=2 * L)
        u_f = torch.fft.rfft(u, n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        return self.output_linear(F.gelu(y + u * self.D.unsqueeze(-1)))


@model
def s4():
    return S4D(4), (ramp(2, 4, 10),), None
