"""Two ops of one's own: one by a formula in Python, one by a kernel in C++; both with gradients, both in compiled code.

    python examples/custom_op.py

`snake` is a record by a formula: eager runs it through numpy's loops, the compiler fuses it like any other op. `smooth` is a
running average whose kernel is C++ against the public header; compiled code calls it between its kernels. A small network that
uses both is trained to follow a noisy wave.
"""

import numpy as np

import common
import flambeau as torch
from flambeau import extend, nn
from flambeau.nn import functional as F


# -- an op by a formula: x + sin(a x)^2 / a


@extend.pointwise(promote="float")
def snake(s, x, a):
    return x + s.sin(a * x) * s.sin(a * x) / a


@snake.grad("x")
def _(g, x, a):
    return g * (1 + torch.sin(2 * a * x))


@snake.grad("a")
def _(g, x, a):
    wave = torch.sin(a * x)
    return g * (x * torch.sin(2 * a * x) - wave * wave / a) / a


@snake.samples
def _(make):
    return [(make(3, 4), 0.5 + make(4) ** 2), (make(2, 1, 3), 2.0)]


# -- an op by a kernel in C++: y[t] = decay y[t - 1] + (1 - decay) x[t] along the last dim

KERNEL = """
#include "flambeau_op.h"

template <class T>
static void rows(const flambeau_tensor& y, const flambeau_tensor& x, double decay, bool backwards, long begin, long end) {
    const long n = x.sizes[x.dims - 1];
    for (long row = begin; row < end; row++) {
        const T* from = (const T*)x.data + row * n;
        T* to = (T*)y.data + row * n;
        T state = 0;
        for (long k = 0; k < n; k++) {
            const long t = backwards ? n - 1 - k : k;
            state = (T)decay * state + (T)(1 - decay) * from[t];
            to[t] = state;
        }
    }
}

FLAMBEAU_KERNEL(smooth) {
    const flambeau_tensor &x = in[0], &y = out[0];
    if (!flambeau::dense(x) || !flambeau::dense(y)) return "smooth: rows must lie one behind the other";
    if (x.type != FLAMBEAU_FLOAT32 && x.type != FLAMBEAU_FLOAT64) return "smooth: float32 or float64 is wanted";
    const long n = x.sizes[x.dims - 1], all = n ? flambeau::elements(x) / n : 0;
    const double decay = numbers[0];
    const bool backwards = numbers[1] != 0;
    flambeau::parallel(runtime, all, 1 + 4096 / (n + 1), [&](long begin, long end) {
        if (x.type == FLAMBEAU_FLOAT32) rows<float>(y, x, decay, backwards, begin, end);
        else rows<double>(y, x, decay, backwards, begin, end);
    });
    return nullptr;
}
"""
smooth_kernel = extend.cpp_kernel(KERNEL, "smooth")


@extend.extern(meta=lambda x, decay, backwards: tuple(x.shape), roles={"decay": "scalar", "backwards": "static"})
def smooth(x, decay, backwards=False):
    """Arrays come in, an array goes out. `backwards`: from the end to the beginning."""
    x = np.ascontiguousarray(x)
    y = np.empty_like(x)
    smooth_kernel([y], [x], [decay, backwards])
    return y


@smooth.grad("x")
def _(g, x, decay, backwards):
    return smooth(g, decay, not backwards)  # the transposed sum runs the other way


@smooth.samples
def _(make):
    return [(make(3, 5), 0.8), (make(2, 2, 4), 0.5, True), (make(0, 3), 0.5)]


# -- a network that uses both


class Follower(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, 1)
        self.a = nn.Parameter(torch.ones(width))

    def forward(self, x):
        """x: (batch, time)."""
        channels = torch.stack([x, *[smooth(x, decay) for decay in (0.5, 0.8, 0.95)]], dim=-1)
        return self.last(snake(self.first(channels), self.a)).squeeze(-1)


def waves(count=64, time=48):
    phase, speed = torch.rand(count, 1) * 6.3, 0.1 + 0.2 * torch.rand(count, 1)
    clean = torch.sin(phase + speed * torch.arange(time))
    return clean + 0.5 * torch.randn(count, time), clean


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=300)
    torch.manual_seed(7)
    checked = extend.check(snake), extend.check(smooth)
    noisy, clean = waves()
    model = Follower()
    compiled = torch.compile(model)
    before = torch.compiler.counters()
    apart = (compiled(noisy) - model(noisy)).abs().max().item()
    after = torch.compiler.counters()
    step = model if options.eager else compiled
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(options.steps):
        noisy, clean = waves()
        loss = F.mse_loss(step(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    graphs = after["graphs"] - before["graphs"]
    claims = [
        ("samples agree with finite differences, twice differentiated", f"{checked[0]} and {checked[1]}", min(checked) > 0),
        ("compiled is eager", f"worst difference {apart:.1e}, {graphs} graph", apart < 1e-5 and graphs == 1),
        ("the loss falls", f"{losses[0]:.3f} -> {losses[-1]:.3f}", losses[-1] < losses[0]),
    ]
    if not options.short:
        noise = F.mse_loss(noisy, clean).item()
        claims.append(("half of the noise is gone", f"{losses[-1]:.3f} of {noise:.3f}", losses[-1] < noise / 2))
    return common.check(claims)


if __name__ == "__main__":
    main()
