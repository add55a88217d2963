"""WaveNet's dilated convolutions, a radiance field with its renderer, Perceiver."""

import math
from functools import wraps

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum

from .base import default, exists, model, ramp, whole


class WaveNet(nn.Module):
    def __init__(self, layers=3, blocks=2, channels=6, skip=8, classes=16):
        super().__init__()
        self.classes, self.dilations = classes, []
        self.filter_convs, self.gate_convs = nn.ModuleList(), nn.ModuleList()
        self.residual_convs, self.skip_convs = nn.ModuleList(), nn.ModuleList()
        self.start_conv = nn.Conv1d(classes, channels, kernel_size=1)
        self.receptive_field = 1
        for b in range(blocks):
            new_dilation, additional_scope = 1, 1
            for i in range(layers):
                self.dilations.append(new_dilation)
                self.filter_convs.append(nn.utils.weight_norm(nn.Conv1d(channels, channels, 2, dilation=new_dilation)))
                self.gate_convs.append(nn.Conv1d(channels, channels, 2, dilation=new_dilation))
                self.residual_convs.append(nn.Conv1d(channels, channels, 1))
                self.skip_convs.append(nn.Conv1d(channels, skip, 1))
                self.receptive_field += additional_scope
                additional_scope *= 2
                new_dilation *= 2
        self.end_conv_1, self.end_conv_2 = nn.Conv1d(skip, skip, 1), nn.Conv1d(skip, classes, 1)

    def forward(self, samples):
        x = self.start_conv(F.one_hot(samples, self.classes).float().transpose(1, 2))
        skip = 0
        for i, dilation in enumerate(self.dilations):
            residual = x
            x = torch.tanh(self.filter_convs[i](x)) * torch.sigmoid(self.gate_convs[i](x))
            s = self.skip_convs[i](x)
            try:
                skip = skip[:, :, -s.size(2) :]
            except Exception:
                skip = 0
            skip = s + skip
            x = self.residual_convs[i](x) + residual[:, :, dilation:]
        return self.end_conv_2(F.relu(self.end_conv_1(F.relu(skip))))


@model
def wavenet():
    samples = whole(16, 2, 20)
    return WaveNet(), (samples,), lambda o: F.cross_entropy(o[:, :, :-1], samples[:, -o.shape[2] + 1 :])


class Embedder:
    def __init__(self, **kwargs):
        self.kwargs = kwargs
        self.create_embedding_fn()

    def create_embedding_fn(self):
        embed_fns, d = [lambda x: x], self.kwargs["input_dims"]
        out_dim = d
        for freq in 2.0 ** torch.linspace(0.0, self.kwargs["num_freqs"] - 1, steps=self.kwargs["num_freqs"]):
            for p_fn in (torch.sin, torch.cos):
                embed_fns.append(lambda x, p_fn=p_fn, freq=freq: p_fn(x * freq))
                out_dim += d
        self.embed_fns, self.out_dim = embed_fns, out_dim

    def embed(self, inputs):
        return torch.cat([fn(inputs) for fn in self.embed_fns], -1)


def cumprod_exclusive(tensor):
    cumprod = torch.cumprod(tensor, -1)
    cumprod = torch.roll(cumprod, 1, -1)
    cumprod[..., 0] = 1.0
    return cumprod


class NeRF(nn.Module):
    def __init__(self, D=3, W=16, skips=(1,)):
        super().__init__()
        self.embed, self.embed_dirs = Embedder(input_dims=3, num_freqs=3), Embedder(input_dims=3, num_freqs=2)
        self.skips = skips
        self.pts_linears = nn.ModuleList(
            [nn.Linear(self.embed.out_dim, W)]
            + [nn.Linear(W, W) if i not in self.skips else nn.Linear(W + self.embed.out_dim, W) for i in range(D - 1)]
        )
        self.views_linears = nn.ModuleList([nn.Linear(self.embed_dirs.out_dim + W, W // 2)])
        self.feature_linear, self.alpha_linear, self.rgb_linear = nn.Linear(W, W), nn.Linear(W, 1), nn.Linear(W // 2, 3)

    def network(self, pts, dirs):
        input_pts = self.embed.embed(pts)
        h = input_pts
        for i, l in enumerate(self.pts_linears):
            h = F.relu(self.pts_linears[i](h))
            if i in self.skips:
                h = torch.cat([input_pts, h], -1)
        alpha = self.alpha_linear(h)
        h = torch.cat([self.feature_linear(h), self.embed_dirs.embed(dirs)], -1)
        for l in self.views_linears:
            h = F.relu(l(h))
        return torch.cat([self.rgb_linear(h), alpha], -1)

    def forward(self, H, W, focal, c2w, N_samples=8):
        i, j = torch.meshgrid(torch.linspace(0, W - 1, W), torch.linspace(0, H - 1, H), indexing="xy")
        dirs = torch.stack([(i - W * 0.5) / focal, -(j - H * 0.5) / focal, -torch.ones_like(i)], -1)
        rays_d = torch.sum(dirs[..., None, :] * c2w[:3, :3], -1)
        rays_o = c2w[:3, -1].expand(rays_d.shape)
        rays_o, rays_d = rays_o.reshape(-1, 3), rays_d.reshape(-1, 3)
        t_vals = torch.linspace(0.0, 1.0, steps=N_samples)
        z_vals = (1.0 / (1.0 / 2.0 * (1.0 - t_vals) + 1.0 / 6.0 * t_vals)).expand([rays_o.shape[0], N_samples])
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        viewdirs = (rays_d / torch.norm(rays_d, dim=-1, keepdim=True))[:, None].expand(pts.shape)
        raw = torch.reshape(self.network(pts.reshape(-1, 3), viewdirs.reshape(-1, 3)), list(pts.shape[:-1]) + [4])
        dists = z_vals[..., 1:] - z_vals[..., :-1]
        dists = torch.cat([dists, torch.Tensor([1e10]).expand(dists[..., :1].shape)], -1)
        dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
        alpha = 1.0 - torch.exp(-F.softplus(raw[..., 3]) * dists)
        weights = alpha * cumprod_exclusive(1.0 - alpha + 1e-10)
        rgb_map = torch.sum(weights[..., None] * torch.sigmoid(raw[..., :3]), -2)
        depth_map = torch.sum(weights * z_vals, -1)
        disp_map = 1.0 / torch.max(1e-10 * torch.ones_like(depth_map), depth_map / torch.sum(weights, -1))
        return rgb_map, disp_map, weights


@model
def radiance_field():
    pose = torch.cat([torch.eye(3) + 0.1 * ramp(3, 3), torch.tensor([[0.1], [0.2], [4.0]])], 1)
    return NeRF(), (4, 5, 6.0, pose), lambda o: ((o[0] - ramp(20, 3).abs()) ** 2).mean() + o[1].mean()


def cache_fn(f):
    cache = None

    @wraps(f)
    def cached_fn(*args, _cache=True, **kwargs):
        if not _cache:
            return f(*args, **kwargs)
        nonlocal cache
        if cache is not None:
            return cache
        cache = f(*args, **kwargs)
        return cache

    return cached_fn


class PreNorm(nn.Module):
    def __init__(self, dim, fn, context_dim=None):
        super().__init__()
        self.fn, self.norm = fn, nn.LayerNorm(dim)
        self.norm_context = nn.LayerNorm(context_dim) if exists(context_dim) else None

    def forward(self, x, **kwargs):
        x = self.norm(x)
        if exists(self.norm_context):
            kwargs.update(context=self.norm_context(kwargs["context"]))
        return self.fn(x, **kwargs)


class GEGLU(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, dim=-1)
        return x * F.gelu(gates)


class Attention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=2, dim_head=4):
        super().__init__()
        inner_dim, context_dim = dim_head * heads, default(context_dim, query_dim)
        self.scale, self.heads = dim_head**-0.5, heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv, self.to_out = nn.Linear(context_dim, inner_dim * 2, bias=False), nn.Linear(inner_dim, query_dim)

    def forward(self, x, context=None, mask=None):
        h = self.heads
        q = self.to_q(x)
        k, v = self.to_kv(default(context, x)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (h, -1)).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
        sim = einsum("b i d, b j d -> b i j", q, k) * self.scale
        if exists(mask):
            mask = mask.flatten(1)[:, None, None].expand(-1, h, 1, -1).flatten(0, 1)
            sim.masked_fill_(~mask, -torch.finfo(sim.dtype).max)
        out = einsum("b i j, b j d -> b i d", sim.softmax(dim=-1), v)
        return self.to_out(out.unflatten(0, (-1, h)).transpose(1, 2).flatten(2))


class Perceiver(nn.Module):
    def __init__(self, depth=2, num_latents=4, latent_dim=8, channels=3, bands=2, classes=5):
        super().__init__()
        self.bands = bands
        input_dim = 2 * (bands * 2 + 1) + channels
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim))
        get_cross_attn = cache_fn(lambda: PreNorm(latent_dim, Attention(latent_dim, input_dim), context_dim=input_dim))
        get_ff = cache_fn(
            lambda: PreNorm(latent_dim, nn.Sequential(nn.Linear(latent_dim, 16), GEGLU(), nn.Linear(8, latent_dim)))
        )
        get_latent_attn = cache_fn(lambda: PreNorm(latent_dim, Attention(latent_dim)))
        self.layers = nn.ModuleList([])
        for i in range(depth):
            cache_args = {"_cache": i > 0}
            self.layers.append(nn.ModuleList([get_cross_attn(**cache_args), get_ff(**cache_args), get_latent_attn(**cache_args)]))
        self.to_logits = nn.Sequential(nn.LayerNorm(latent_dim), nn.Linear(latent_dim, classes))

    def fourier(self, x, max_freq=10):
        x = x.unsqueeze(-1)
        scales = torch.linspace(1.0, max_freq / 2, self.bands, device=x.device, dtype=x.dtype)
        scales = scales[(*((None,) * (len(x.shape) - 1)), Ellipsis)]
        orig_x, x = x, x * scales * math.pi
        return torch.cat((torch.cat([x.sin(), x.cos()], dim=-1), orig_x), dim=-1)

    def forward(self, data, mask=None):
        b, *axis, _ = data.shape
        axis_pos = list(map(lambda size: torch.linspace(-1.0, 1.0, steps=size), axis))
        pos = torch.stack(torch.meshgrid(*axis_pos, indexing="ij"), dim=-1)
        enc = self.fourier(pos).flatten(-2)
        data = torch.cat((data, enc[None].expand(b, *enc.shape)), dim=-1).flatten(1, -2)
        x = self.latents.unsqueeze(0).repeat(b, 1, 1)
        for cross_attn, ff, latent_attn in self.layers:
            x = cross_attn(x, context=data, mask=mask) + x
            x = ff(x) + x
            x = latent_attn(x) + x
        return self.to_logits(x.mean(dim=-2))


@model
def perceiver():
    target = torch.tensor([1, 4])
    return Perceiver(), (ramp(2, 4, 5, 3), whole(3, 2, 4, 5) > 0), lambda o: F.cross_entropy(o, target)
