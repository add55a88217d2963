"""Eleven small graphs, each of one kind of kernel, and the shapes of their inputs."""

import flambeau
from flambeau.nn import functional as F

GRAPHS = {
    "softmax": (lambda x: x.softmax(-1) * 2, [(64, 100)]),
    "norm": (lambda x: F.layer_norm(x, (5000,)), [(8, 5000)]),
    "product": (lambda a, b, c: F.gelu(a @ b + c), [(64, 48), (48, 80), (80,)]),
    "columns": (lambda x: x.sum(0), [(300, 40)]),
    "gather": (lambda x: x[flambeau.arange(3)].t().contiguous(), [(9, 40)]),
    "dropout": (lambda x: F.dropout(x, 0.2), [(50, 30)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1).relu(), [(2, 3, 9, 9), (8, 3, 3, 3)]),
    "moments": (lambda x: (x.var(1), x.argmax(1), x.logsumexp(1)), [(6, 40)]),
    "scan": (lambda x: x.cumsum(1), [(6, 40)]),
    "scatter": (lambda x: flambeau.zeros(5, 4).index_add(0, flambeau.tensor([1, 1, 4]), x), [(3, 4)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 3, 200, 64)] * 3),
}
