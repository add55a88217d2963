"""A generator with modulated convolutions, and translation with additive attention."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .base import model, ramp, whole


class EqualLinear(nn.Module):
    def __init__(self, in_dim, out_dim, lr_mul=0.5, bias_init=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_dim, in_dim).div_(lr_mul))
        self.bias = nn.Parameter(torch.zeros(out_dim).fill_(bias_init))
        self.scale, self.lr_mul = (1 / math.sqrt(in_dim)) * lr_mul, lr_mul

    def forward(self, input):
        return F.linear(input, self.weight * self.scale, bias=self.bias * self.lr_mul)


class ModulatedConv2d(nn.Module):
    def __init__(self, in_channel, out_channel, kernel_size, style_dim, demodulate=True, upsample=False):
        super().__init__()
        self.kernel_size, self.out_channel, self.upsample, self.demodulate = kernel_size, out_channel, upsample, demodulate
        self.scale, self.padding = 1 / math.sqrt(in_channel * kernel_size**2), kernel_size // 2
        self.weight = nn.Parameter(torch.randn(1, out_channel, in_channel, kernel_size, kernel_size))
        self.modulation = EqualLinear(style_dim, in_channel)
        blur = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("kernel", (blur[None, :] * blur[:, None] / 16).flip([0, 1]))

    def forward(self, input, style):
        batch, in_channel, height, width = input.shape
        style = self.modulation(style).view(batch, 1, in_channel, 1, 1)
        weight = self.scale * self.weight * style
        if self.demodulate:
            weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8).view(batch, self.out_channel, 1, 1, 1)
        k = self.kernel_size
        input = input.view(1, batch * in_channel, height, width)
        if self.upsample:
            weight = weight.transpose(1, 2).reshape(batch * in_channel, self.out_channel, k, k)
            out = F.conv_transpose2d(input, weight, padding=0, stride=2, groups=batch)
            out = out.view(batch * self.out_channel, 1, *out.shape[2:])
            out = F.conv2d(F.pad(out, (1, 1, 1, 1)), self.kernel[None, None])
        else:
            weight = weight.view(batch * self.out_channel, in_channel, k, k)
            out = F.conv2d(input, weight, padding=self.padding, groups=batch)
        return out.view(batch, self.out_channel, *out.shape[-2:])


class Generator(nn.Module):
    def __init__(self, style=6):
        super().__init__()
        self.style = nn.Sequential(*[nn.Sequential(EqualLinear(style, style), nn.LeakyReLU(0.2)) for _ in range(2)])
        self.input = nn.Parameter(torch.randn(1, 4, 4, 4))
        self.conv, self.up = ModulatedConv2d(4, 4, 3, style), ModulatedConv2d(4, 3, 3, style, upsample=True)
        self.noise_weight = nn.Parameter(torch.zeros(1))

    def forward(self, z):
        w = self.style(z * torch.rsqrt(torch.mean(z**2, dim=1, keepdim=True) + 1e-8))
        out = self.conv(self.input.repeat(z.shape[0], 1, 1, 1), w)
        out = F.leaky_relu(out + self.noise_weight * ramp(*out[:, :1].shape), 0.2) * 2**0.5
        return self.up(out, w)


def path_regularized(image):
    return image.square().mean() + F.softplus(-image.mean((1, 2, 3))).mean()


@model
def style_generator():
    return Generator(), (ramp(3, 6),), path_regularized


class Seq2Seq(nn.Module):
    """Bahdanau attention over a packed encoder."""

    def __init__(self, vocab=19, dim=6, hidden=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.encoder = nn.GRU(dim, hidden, bidirectional=True, batch_first=True)
        self.bridge, self.decoder = nn.Linear(2 * hidden, hidden), nn.GRUCell(dim + 2 * hidden, hidden)
        self.query, self.key = nn.Linear(hidden, hidden, bias=False), nn.Linear(2 * hidden, hidden, bias=False)
        self.energy, self.out = nn.Linear(hidden, 1, bias=False), nn.Linear(hidden, vocab)

    def forward(self, src, lengths, tgt):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(src), lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, h = self.encoder(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        mask = torch.arange(outputs.size(1))[None, :] < lengths[:, None]
        h = torch.tanh(self.bridge(torch.cat([h[-2], h[-1]], dim=-1)))
        keys, logits = self.key(outputs), []
        for step in tgt.t()[:-1]:
            scores = self.energy(torch.tanh(self.query(h).unsqueeze(1) + keys)).squeeze(2)
            alphas = F.softmax(scores.masked_fill(mask == 0, -float("inf")), dim=-1)
            context = torch.bmm(alphas.unsqueeze(1), outputs).squeeze(1)
            h = self.decoder(torch.cat([self.embedding(step), context], -1), h)
            logits += [self.out(h)]
        return torch.stack(logits, dim=1)


@model
def translation():
    tgt = whole(19, 3, 5)
    return (
        Seq2Seq(),
        (whole(18, 3, 7) + 1, torch.tensor([5, 7, 2]), tgt),
        lambda o: F.cross_entropy(o.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=0),
    )
