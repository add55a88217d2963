"""Where a compiler pays: four programs, eager and compiled in turn in one process, and what bounds each compiled step.

    python examples/gains.py [--rounds N] [--short]

A GPT's training step and a mobile convnet are mostly products, which eager runs on the same kernels; a recurrence written as
a Python loop and an optimizer over many small parameters are mostly Python and memory. The last column says which it is: the
floating point operations of products and convolutions, and the bytes of all kernels, over what this machine was measured to
reach, and the part of the step that is spent outside of generated code.

Everything runs on one thread and is measured in processor time, and a gain is the median of the rounds' ratios: what else the
machine does changes the milliseconds, and hardly the gain.
"""

import argparse
import statistics
import time

import flambeau as torch
import flambeau.nn as nn

import gpt
from common import check

# the least gains that are claimed; machines gave 1.04-1.12, 1.57-1.63, 4-10, 1.09-1.47
LEAST = {"gpt": 1.05, "convnet": 1.5, "recurrence": 1.5, "optimizer": 1.05}


class Inverted(nn.Module):
    """A residual of the mobile kind: wider, one window a channel, narrower."""

    def __init__(self, channels, out, stride):
        super().__init__()
        wide = 6 * channels
        self.layers = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.residual = stride == 1 and channels == out

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def convnet():
    """Inference of ten mobile blocks on 4 images of 96 x 96."""
    sizes = [
        (16, 24, 2),
        (24, 24, 1),
        (24, 32, 2),
        (32, 32, 1),
        (32, 32, 1),
        (32, 64, 2),
        (64, 64, 1),
        (64, 64, 1),
        (64, 96, 1),
        (96, 96, 1),
    ]
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        *[Inverted(*s) for s in sizes],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, 100),
    ).eval()
    x = torch.randn(4, 3, 96, 96)

    def step():
        with torch.no_grad():
            return model(x)

    return step


class Recurrence(nn.Module):
    """A GRU cell by hand, and a loop over time."""

    def __init__(self, width=64):
        super().__init__()
        self.gates, self.candidate = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, xs):
        h = torch.zeros_like(xs[0])
        for x in xs:
            r, z = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
            h = (1 - z) * h + z * torch.tanh(self.candidate(torch.cat([x, r * h], 1)))
        return h


def recurrence():
    """Forward and backward of 32 steps on rows of 16 x 64."""
    model, xs = Recurrence(), torch.randn(32, 16, 64)

    def step():
        model.zero_grad()
        loss = model(xs).square().mean()
        loss.backward()
        return loss

    return step


def optimizer():
    """AdamW over 100 parameters of 64 x 64."""
    parameters = [nn.Parameter(torch.randn(64, 64)) for _ in range(100)]
    for p in parameters:
        p.grad = torch.randn(64, 64)
    adam = torch.optim.AdamW(parameters, lr=1e-3)

    def step():
        adam.step()
        return parameters[0]

    return step


def gpt_training():
    """The demo's GPT: forward, backward and AdamW on 8 x 128 bytes."""
    model = gpt.GPT()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, gpt.VOCABULARY, (gpt.BATCH, gpt.CONTEXT + 1))
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        adam.zero_grad()
        loss = model(x, y)
        loss.backward()
        adam.step()
        return loss

    return step


PROGRAMS = {"gpt": gpt_training, "convnet": convnet, "recurrence": recurrence, "optimizer": optimizer}


def seconds(step, least):
    """Processor seconds of one step: the mean over as many as take `least` seconds."""
    count, start = 0, time.process_time()
    while not count or time.process_time() - start < least:
        step()
        count += 1
    return (time.process_time() - start) / count


def in_turn(eager, compiled, rounds, least):
    """Medians of eager's time, of compiled code's and of their ratio over rounds that alternate, the order changing from round to
    round."""
    times = ([], [])
    for n in range(rounds):
        for k in (0, 1) if n % 2 else (1, 0):
            times[k].append(seconds((eager, compiled)[k], least))
    return *map(statistics.median, times), statistics.median(plain / took for plain, took in zip(*times))


def bounds(call, took):
    """{what: share of a compiled step's time}: products at this machine's peak, bytes at its bandwidth, what is no kernel."""
    facts = torch.compiler.report(call)
    kernels, machine = facts.kernels, facts.machine
    products = sum(k.flops or 0 for k in kernels if k.kind in ("product", "convolution", "runtime"))
    start, native = time.perf_counter(), torch.compiler.native_seconds()
    for _ in range(10):
        call()
    inside = (torch.compiler.native_seconds() - native) / (time.perf_counter() - start)  # (both on the wall's clock)
    return {
        "products": products / machine.flops / took,
        "memory": sum(k.bytes for k in kernels) / machine.bandwidth / took,
        "Python": 1 - inside,
    }


def told(shares):
    texts = {
        "products": "products, {:.0%} of this machine's peak",
        "memory": "memory, {:.0%} of this machine's bandwidth",
        "Python": "Python, {:.0%} of the step",
    }
    name = max(shares, key=shares.get)
    if name == "memory" and shares[name] > 1:
        return f"the caches, {shares[name]:.1f} times this machine's memory bandwidth"
    return texts[name].format(shares[name])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each, in turn (default 9)")
    parser.add_argument("--short", action="store_true", help="one short round; claims that results are equal, not how fast")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    claims = []
    print(f"\n  {'':12} {'eager ms':>10} {'compiled ms':>12} {'gain':>7}   bound by")
    for name, make in PROGRAMS.items():
        claims += measured(name, make, options)
    print()
    return check(claims)


def measured(name, make, options):
    """Prints a program's row; what is claimed of it."""
    eager, call = started(make, lambda step: step), started(make, torch.compile)
    want, got = third(eager), third(call)
    plain, took, gain = in_turn(eager, call, 1 if options.short else options.rounds, 0.02 if options.short else 0.4)
    print(f"  {name:12} {plain * 1e3:10.2f} {took * 1e3:12.2f} {gain:6.2f}x   {told(bounds(call, took))}")
    off = (got - want).abs().max().item()
    yield f"{name}: the third compiled step equals eager's", f"{off:.1e}", off <= 1e-4
    if not options.short:
        yield f"{name}: at least {LEAST[name]:.2f} times as fast as eager", f"{gain:.2f}", gain >= LEAST[name]


def started(make, through):
    torch.manual_seed(1)
    return through(make())


def third(step):
    """What the third step gives, with the same random numbers for whoever runs it."""
    torch.manual_seed(2)
    return [step() for _ in range(3)][-1].detach().clone()


if __name__ == "__main__":
    main()
