"""Sizes at which the native kernels run, forward and backward, against PyTorch."""

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")

CASES = {
    "softmax": lambda T, x: T.softmax(x, -1),
    "softmax of columns": lambda T, x: T.softmax(x, 0),
    "log_softmax": lambda T, x: T.log_softmax(x, 1),
    "layer_norm": lambda T, x: T.nn.functional.layer_norm(x, (300,), x[0].abs() + 1, x[1]),
    "rms_norm": lambda T, x: T.nn.functional.rms_norm(x, (300,), x[0].abs() + 1),
    "cross_entropy": lambda T, x: T.nn.functional.cross_entropy(x, T.arange(70) % 50, ignore_index=3),
    "weighted": lambda T, x: T.nn.functional.cross_entropy(x, T.arange(70) % 50, x[0].detach().abs()),
    "sum": lambda T, x: x.sum(0) * x.sum(),
    "mean": lambda T, x: x.mean(1) + x.t().mean(0),
    "var": lambda T, x: x.var(0).sum() + x.std(1) + x.var(),
    "amax": lambda T, x: x.amax(0).sum() + x.amin(1),
    "max": lambda T, x: x.max(1)[0] + x.max(0)[0].sum(),
    "logsumexp": lambda T, x: T.logsumexp(x, 0),
    "norm": lambda T, x: x.norm() + x.norm(dim=0),
    "silu": lambda T, x: T.nn.functional.silu(x) * T.sigmoid(x),
    "gelu": lambda T, x: T.nn.functional.gelu(x) + T.nn.functional.gelu(x, approximate="tanh"),
    "softplus": lambda T, x: T.nn.functional.softplus(x) + T.nn.functional.logsigmoid(x) + T.nn.functional.elu(x),
    "clamp": lambda T, x: x.clamp(-0.5, 0.7) + x.clamp(min=0.1) + T.relu(x),
    "contiguous": lambda T, x: x.t().contiguous() * x.reshape(7, 10, 300).transpose(1, 2).reshape(300, 70),
    "cat": lambda T, x: T.cat((x, x * 2), 1),
    "gather": lambda T, x: x.gather(1, T.arange(70 * 200).reshape(70, 200) % 300),
    "scatter_add": lambda T, x: x.scatter_add(1, T.arange(70 * 300).reshape(70, 300) % 7, x * 2),
    "index_add": lambda T, x: x.index_add(0, T.arange(140) % 70, T.cat((x, x))),
    "index": lambda T, x: x[T.arange(140) % 70] * 2,
    "embedding": lambda T, x: T.nn.functional.embedding(T.arange(300) % 9, x, padding_idx=2),
    "cumsum": lambda T, x: x.cumsum(0) + x.cumsum(1),
    "sort": lambda T, x: T.sort(x, dim=1, descending=True, stable=True)[0] + T.sort(x, dim=0, stable=True)[0],
    "topk": lambda T, x: x.topk(5, 1)[0],
    "linear": lambda T, x: T.nn.functional.linear(x, x[:40], x[0, :40]),
}


def results(T, make, dtype):
    rng = np.random.default_rng(0)
    x = T.tensor(rng.standard_normal((70, 300))).to(getattr(T, dtype)).requires_grad_()
    out = make(T, x)
    weights = T.tensor(rng.standard_normal(tuple(out.shape))).to(out.dtype)
    (out * weights).sum().backward()
    return out.detach().double().numpy(), x.grad.double().numpy()


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("name", CASES)
def test_large_enough_for_native_kernels(name, dtype, tolerance):
    for ours, theirs in zip(results(flambeau, CASES[name], dtype), results(torch, CASES[name], dtype)):
        scale = 1 + np.abs(theirs).max()
        np.testing.assert_allclose(ours / scale, theirs / scale, tolerance, tolerance)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "silu", "gelu", "sum", "amax", "logsumexp"])
def test_bfloat16_is_rounded_once(name):
    ours, theirs = results(flambeau, CASES[name], "bfloat16")[0], results(torch, CASES[name], "bfloat16")[0]
    np.testing.assert_allclose(ours, theirs, 0.03, 0.03)


@pytest.mark.parametrize("causal, masked", [(False, ""), (True, ""), (False, "bool"), (False, "added")])
def test_attention_of_many_queries(causal, masked):
    found = []
    for T in (flambeau, torch):
        rng = np.random.default_rng(1)
        q, k, v, g = (T.tensor(rng.standard_normal((2, 3, 150, 32), dtype="float32")) for _ in range(4))
        mask = rng.standard_normal((150, 150), dtype="float32")
        mask = None if not masked else T.tensor(mask > -1 if masked == "bool" else mask)
        for x in (q, k, v):
            x.requires_grad_()
        out = T.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        out.backward(g)
        found.append([out.detach().numpy()] + [x.grad.numpy() for x in (q, k, v)])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
