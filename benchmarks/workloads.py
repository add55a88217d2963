"""The workloads: programs over any library with PyTorch's API, deterministic (parameters and inputs come from numpy).

    python benchmarks/workloads.py --lib flambeau --mode compiled --workload gpt_train     (one JSON line on stdout)

A workload builder gets the library and the wrapper (identity, or the library's `compile`) and returns one step to call.
"""

import argparse
import gc
import importlib
import json
import math
import os
import resource
import statistics
import sys
import time

import numpy as np

WORKLOADS = {}


def workload(name, *, unit="ms", work=None, note=""):
    """`work`: items per step, when the row quotes a rate."""
    def register(build):
        WORKLOADS[name] = {"build": build, "unit": unit, "work": work, "note": note}
        return build
    return register


class Inputs:
    """Random arrays from fixed seeds, and parameters filled alike for every library."""

    def __init__(self, lib):
        self.lib, self.rng = lib, np.random.default_rng(1234)

    def floats(self, *shape):
        return self.lib.tensor(self.rng.standard_normal(shape, dtype=np.float32))

    def integers(self, high, *shape):
        return self.lib.tensor(self.rng.integers(0, high, shape, dtype=np.int64))

    def fill(self, model):
        rng = np.random.default_rng(7)
        with self.lib.no_grad():
            for name, p in model.named_parameters():
                shape = tuple(p.shape)
                if len(shape) >= 2:
                    values = rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(np.prod(shape[1:])))
                elif name.endswith("weight"):
                    values = np.ones(shape, np.float32)
                else:
                    values = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
                p.copy_(self.lib.tensor(values))
        return model


@workload("x_plus_1", unit="µs", note="call overhead: `x + 1` on 8 floats, no gradient")
def _(lib, inputs, wrap):
    x, f = inputs.floats(8), wrap(lambda x: x + 1)
    return lambda: f(x)


@workload("linear_relu", unit="µs", note="call overhead: Linear(8, 8) and ReLU on 2 rows, no gradient")
def _(lib, inputs, wrap):
    model = inputs.fill(lib.nn.Sequential(lib.nn.Linear(8, 8), lib.nn.ReLU()))
    f, x = wrap(model), inputs.floats(2, 8)

    def step():
        with lib.no_grad():
            return f(x)
    return step


@workload("tiny_train", unit="µs", note="call overhead: forward and backward of `(x * 2).sum()` on 8 floats")
def _(lib, inputs, wrap):
    x, f = inputs.floats(8).requires_grad_(), wrap(lambda x: (x * 2).sum())

    def step():
        x.grad = None
        loss = f(x)
        loss.backward()
        return loss
    return step


def constant_backend(result):
    """Compiled code that computes nothing: what is left of a call is its guards."""
    return lambda graph, example_inputs: lambda *inputs: (result,)


def guards_of(layers):
    def build(lib, inputs, wrap):
        model, x = blocks(lib, inputs, layers).eval(), inputs.floats(2, 8, 32)
        with lib.no_grad():
            f = wrap(model, backend=constant_backend(model(x)))

        def step():
            with lib.no_grad():
                return f(x)
        return step
    return build


workload("guards_12", unit="µs", note="guards alone: a transformer of 12 layers, 145 parameters")(guards_of(12))
workload("guards_32", unit="µs", note="guards alone: a transformer of 32 layers, 385 parameters")(guards_of(32))


@workload("capture_12", note="capture alone, no kernels made: a transformer of 12 layers")
def _(lib, inputs, wrap):
    model, x = blocks(lib, inputs, 12).eval(), inputs.floats(2, 8, 32)
    with lib.no_grad():
        result = model(x)

    def step():
        lib.compiler.reset()
        with lib.no_grad():
            return wrap(model, backend=constant_backend(result))(x)
    return step


@workload("gelu_bias_residual", note="gelu(x + b) + r on 4096 x 1024")
def _(lib, inputs, wrap):
    x, r, b = inputs.floats(4096, 1024), inputs.floats(4096, 1024), inputs.floats(1024)
    f = wrap(lambda x, b, r: lib.nn.functional.gelu(x + b) + r)
    return lambda: f(x, b, r)


@workload("softmax", note="softmax of 4096 rows of 1024")
def _(lib, inputs, wrap):
    x, f = inputs.floats(4096, 1024), wrap(lambda x: lib.nn.functional.softmax(x * 0.125, dim=-1))
    return lambda: f(x)


@workload("layer_norm", note="layer_norm of 4096 rows of 1024, affine")
def _(lib, inputs, wrap):
    x, w, b = inputs.floats(4096, 1024), inputs.floats(1024), inputs.floats(1024)
    f = wrap(lambda x, w, b: lib.nn.functional.layer_norm(x, (1024,), w, b))
    return lambda: f(x, w, b)


@workload("mlp_train", note="784-512-256-10 MLP, cross entropy, SGD, batch 128; one step")
def _(lib, inputs, wrap):
    nn = lib.nn
    model = inputs.fill(nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)))
    x, y, f = inputs.floats(128, 784), inputs.integers(10, 128), wrap(model)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(f(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def block_class(lib, width, heads):
    nn, F = lib.nn, lib.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            B, S, C = x.shape
            q, k, v = self.qkv(x).split(C, dim=2)
            q = q.view(B, S, heads, C // heads).transpose(1, 2)
            k = k.view(B, S, heads, C // heads).transpose(1, 2)
            v = v.view(B, S, heads, C // heads).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(y.transpose(1, 2).reshape(B, S, C))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.out(F.gelu(self.fc(self.norm2(x))))
    return Block


def gpt(lib, inputs, vocabulary=256, width=256, heads=4, layers=4, context=128):
    nn, F, Block = lib.nn, lib.nn.functional, block_class(lib, width, heads)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions(lib.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x)).view(-1, vocabulary), targets.view(-1))
    return inputs.fill(GPT())


def blocks(lib, inputs, layers):
    """A stack of small transformer blocks."""
    nn, Block = lib.nn, block_class(lib, 32, 4)

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(32)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.norm(x)
    return inputs.fill(Stack())


@workload("gpt_train", unit="tokens/s", work=16 * 128, note="training the demo's GPT (4 layers, width 256), AdamW, 16 x 128")
def _(lib, inputs, wrap):
    model = gpt(lib, inputs)
    x, y, f = inputs.integers(256, 16, 128), inputs.integers(256, 16, 128), wrap(model)
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-4)

    def step():
        optimizer.zero_grad()
        loss = f(x, y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def seconds_per_step(step, budget):
    """Median over batches of calls long enough to time, within a budget of seconds."""
    step()
    start = time.perf_counter()
    step()
    once = max(time.perf_counter() - start, 1e-7)
    calls = max(1, int(0.02 / once))
    samples, deadline = [], time.perf_counter() + budget
    gc.disable()
    while time.perf_counter() < deadline or len(samples) < 3:
        start = time.perf_counter()
        for _ in range(calls):
            step()
        samples.append((time.perf_counter() - start) / calls)
    gc.enable()
    return statistics.median(samples)


def fingerprint(out):
    flat = list(out) if isinstance(out, (tuple, list)) else [out]
    return [float(t.detach().double().abs().mean()) for t in flat]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", required=True)
    parser.add_argument("--mode", choices=("eager", "compiled"), required=True)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--budget", type=float, default=1.5, help="seconds of measuring")
    options = parser.parse_args()
    lib = importlib.import_module(options.lib)
    importlib.import_module(f"{options.lib}.nn.functional")
    importlib.import_module(f"{options.lib}.optim")
    lib.set_num_threads(options.threads)
    start = time.perf_counter()
    wrap = lib.compile if options.mode == "compiled" else lambda f, **settings: f
    step = WORKLOADS[options.workload]["build"](lib, Inputs(lib), wrap)
    prints, built = fingerprint(step()), time.perf_counter() - start
    seconds = seconds_per_step(step, options.budget)
    json.dump({"seconds": seconds, "first_seconds": built, "fingerprint": prints,
               "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}, sys.stdout)


if __name__ == "__main__":
    main()
