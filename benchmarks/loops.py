"""Rows without a model: loops over large arrays, and what a call costs where the arrays are tiny."""

import os

from registry import inference, workload


@workload("overhead", unit="µs", note="call overhead: `x + 1` on 4 floats, no gradient")
def _(lib, inputs, wrap):
    x, f = inputs.floats(4), wrap(lambda x: x + 1)
    return lambda: f(x)


@workload("overhead_module", unit="µs", note="call overhead: Linear(4, 4) and ReLU on 2 rows, no gradient")
def _(lib, inputs, wrap):
    model = inputs.fill(lib.nn.Sequential(lib.nn.Linear(4, 4), lib.nn.ReLU())).eval()
    return inference(lib, wrap(model), inputs.floats(2, 4))


@workload("tiny_train", unit="µs", note="call overhead: forward and backward of `(x * 2).sum()` on 8 floats")
def _(lib, inputs, wrap):
    x, f = inputs.floats(8).requires_grad_(), wrap(lambda x: (x * 2).sum())

    def step():
        x.grad = None
        loss = f(x)
        loss.backward()
        return loss

    return step


@workload("pointwise", note="ten cheap operations on two arrays of 4M floats")
def _(lib, inputs, wrap):
    x, y = inputs.floats(1 << 22), inputs.floats(1 << 22)

    def chain(x, y):
        z = lib.abs(lib.relu(x * 1.5 + 0.5) - y)
        z = lib.clamp(z * x, -3.0, 3.0)
        return lib.sqrt(z * z + 1.0) - 1.0

    f = wrap(chain)
    return lambda: f(x, y)


@workload("gelu_bias_res", note="gelu(x + b) + r on 4096 x 1024")
def _(lib, inputs, wrap):
    x, r, b = inputs.floats(4096, 1024), inputs.floats(4096, 1024), inputs.floats(1024)
    f = wrap(lambda x, b, r: lib.nn.functional.gelu(x + b) + r)
    return lambda: f(x, b, r)


@workload("softmax", note="softmax of 4096 scaled rows of 1024")
def _(lib, inputs, wrap):
    x, f = inputs.floats(4096, 1024, scale=4), wrap(lambda x: lib.nn.functional.softmax(x * 0.125, dim=-1))
    return lambda: f(x)


@workload("layernorm", note="layer norm of 4096 rows of 1024, affine")
def _(lib, inputs, wrap):
    x, w, b = inputs.floats(4096, 1024), inputs.floats(1024), inputs.floats(1024)
    f = wrap(lambda x, w, b: lib.nn.functional.layer_norm(x, (1024,), w, b))
    return lambda: f(x, w, b)


@workload("reductions", note="column means and deviations, row variances, maxima, logsumexp, sum of squares; 2048 x 2048")
def _(lib, inputs, wrap):
    def statistics(x):
        mean = x.mean(0)
        deviation = lib.abs(x - mean).sum(0)
        return mean, x.var(1), x.amax(1) + lib.logsumexp(x, 1), (x * x).sum(), deviation

    x, f = inputs.floats(2048, 2048), wrap(statistics)
    return lambda: f(x)


@workload("graph_breaks", note="a print, an `item()` and a branch on data between pointwise pieces of 256 x 1024")
def _(lib, inputs, wrap):
    x, sink = inputs.floats(256, 1024), open(os.devnull, "w")

    def broken(x):
        a = lib.tanh(x) * 2.0 + x
        print("rows", a.shape[0], file=sink)
        b = a * lib.sigmoid(a)
        c = b * b.mean().item() + 1.0
        c = lib.relu(c) - 0.5 if c.sum() > 0 else lib.exp(-lib.abs(c))
        return c * a

    f = wrap(broken)
    return lambda: f(x)


@workload("opt100", note="a compiled AdamW step over 100 parameters of 64 x 64")
def _(lib, inputs, wrap):
    parameters = [lib.nn.Parameter(inputs.floats(64, 64)) for _ in range(100)]
    for p in parameters:
        p.grad = inputs.floats(64, 64)
    optimizer = lib.optim.AdamW(parameters, lr=1e-3)
    update = wrap(lambda: optimizer.step())

    def step():
        update()
        return parameters

    return step
