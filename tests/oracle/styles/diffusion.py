"""A U-Net with time embeddings and linear attention, and the loss of denoising (in the way of denoising-diffusion-pytorch)."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import exists, model, ramp


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim, theta=10000):
        super().__init__()
        self.dim, self.theta = dim, theta

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(self.theta) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, *args, **kwargs):
        return self.fn(x, *args, **kwargs) + x


class ChannelRMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = dim**0.5
        self.g = nn.Parameter(torch.ones(1, dim, 1, 1))

    def forward(self, x):
        return F.normalize(x, dim=1) * self.g * self.scale


class Block(nn.Module):
    def __init__(self, dim, dim_out, groups=4):
        super().__init__()
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(groups, dim_out)
        self.act = nn.SiLU()

    def forward(self, x, scale_shift=None):
        x = self.norm(self.proj(x))
        if exists(scale_shift):
            scale, shift = scale_shift
            x = x * (scale + 1) + shift
        return self.act(x)


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, *, time_emb_dim=None):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_emb_dim, dim_out * 2)) if exists(time_emb_dim) else None
        self.block1, self.block2 = Block(dim, dim_out), Block(dim_out, dim_out)
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb=None):
        scale_shift = None
        if exists(self.mlp) and exists(time_emb):
            time_emb = self.mlp(time_emb)[:, :, None, None]
            scale_shift = time_emb.chunk(2, dim=1)
        h = self.block1(x, scale_shift=scale_shift)
        return self.block2(h) + self.res_conv(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4):
        super().__init__()
        self.scale, self.heads = dim_head**-0.5, heads
        self.norm = ChannelRMSNorm(dim)
        self.to_qkv = nn.Conv2d(dim, heads * dim_head * 3, 1, bias=False)
        self.to_out = nn.Sequential(nn.Conv2d(heads * dim_head, dim, 1), ChannelRMSNorm(dim))

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=1)
        q, k, v = map(lambda t: t.reshape(b, self.heads, -1, h * w), qkv)
        q, k = q.softmax(dim=-2) * self.scale, k.softmax(dim=-1)
        context = torch.einsum("b h d n, b h e n -> b h d e", k, v)
        out = torch.einsum("b h d e, b h d n -> b h e n", context, q)
        return self.to_out(out.reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, dim, dim_mults=(1, 2), channels=3):
        super().__init__()
        self.init_conv = nn.Conv2d(channels, dim, 7, padding=3)
        dims = [dim, *map(lambda m: dim * m, dim_mults)]
        in_out = list(zip(dims[:-1], dims[1:]))
        block = partial(ResnetBlock, time_emb_dim=dim * 4)
        self.time_mlp = nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim * 4))
        self.downs, self.ups = nn.ModuleList([]), nn.ModuleList([])
        for ind, (i, o) in enumerate(in_out):
            last = ind >= len(in_out) - 1
            self.downs.append(
                nn.ModuleList(
                    [
                        block(i, i),
                        Residual(LinearAttention(i)),
                        nn.Conv2d(i, o, 3, padding=1) if last else nn.Conv2d(i, o, 4, 2, 1),
                    ]
                )
            )
        self.mid = block(dims[-1], dims[-1])
        for ind, (i, o) in enumerate(reversed(in_out)):
            last = ind == len(in_out) - 1
            up = (
                nn.Conv2d(o, i, 3, padding=1)
                if last
                else nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(o, i, 3, padding=1))
            )
            self.ups.append(nn.ModuleList([block(o + i, o), Residual(LinearAttention(o)), up]))
        self.final_res_block, self.final_conv = block(dim * 2, dim), nn.Conv2d(dim, channels, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        r, t, h = x.clone(), self.time_mlp(time), []
        for block, attn, downsample in self.downs:
            x = attn(block(x, t))
            h.append(x)
            x = downsample(x)
        x = self.mid(x, t)
        for block, attn, upsample in self.ups:
            x = torch.cat((x, h.pop()), dim=1)
            x = upsample(attn(block(x, t)))
        x = torch.cat((x, r), dim=1)
        return self.final_conv(self.final_res_block(x, t))


class GaussianDiffusion(nn.Module):
    def __init__(self, net, timesteps=20):
        super().__init__()
        self.net = net
        betas = torch.linspace(1e-4, 0.02, timesteps, dtype=torch.float64)
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        register = lambda name, val: self.register_buffer(name, val.to(torch.float32))
        register("betas", betas)
        register("sqrt_alphas_cumprod", torch.sqrt(alphas_cumprod))
        register("sqrt_one_minus_alphas_cumprod", torch.sqrt(1.0 - alphas_cumprod))
        snr = alphas_cumprod / (1 - alphas_cumprod)
        register("loss_weight", snr.clone().clamp_(max=5) / snr)

    @staticmethod
    def extract(a, t, x_shape):
        b, *_ = t.shape
        out = a.gather(-1, t)
        return out.reshape(b, *((1,) * (len(x_shape) - 1)))

    def forward(self, x_start, t, noise):
        x = (
            self.extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start
            + self.extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
        )
        loss = F.mse_loss(self.net(x, t), noise, reduction="none").flatten(1).mean(1)
        return loss * self.extract(self.loss_weight, t, loss.shape)


@model
def diffusion():
    return GaussianDiffusion(Unet(8)), (ramp(2, 3, 8, 8), torch.tensor([3, 17]), ramp(2, 3, 8, 8, salt=1)), lambda o: o.mean()
