"""PyTorch as the oracle: the same programs on both libraries give the same values, types, strides and gradients.

Skipped where torch is not installed; nothing else in the project imports it.
"""

import itertools

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(5)
X, Y, W, B = (RNG.standard_normal(s).astype(np.float32) for s in ((4, 6), (4, 6), (6, 6), (6,)))
POSITIVE, LABELS, TOKENS = np.abs(X) + 0.5, np.array([1, 0, 5, 3]), np.array([[0, 2, 2], [3, 1, 0]])
QKV = [RNG.standard_normal((2, 2, 5, 4)).astype(np.float32) for _ in range(3)]
MASK = RNG.random((5, 5)) > 0.4

# name -> (program of (library, its functional module, *tensors), arrays)
PROGRAMS = {
    "arithmetic": (lambda t, F, x, y: x * y - x / (y * y + 1) + (x - 2) ** 3 - 0.5 * y, (X, Y)),
    "power": (lambda t, F, x, y: x**y + 2.0**x + x**0.5, (POSITIVE, Y)),
    "elementary": (
        lambda t, F, x: t.exp(x) + t.log(x) + t.sin(x) * t.cos(x) + t.tanh(x) + t.erf(x) + t.sqrt(x) + t.rsqrt(x),
        (POSITIVE,),
    ),
    "rounding": (lambda t, F, x: t.floor(x * 3) + t.ceil(x * 3) + t.round(x * 3) + t.sign(x) + x.abs(), (X,)),
    "remainders": (
        lambda t, F, x, y: x % y + t.floor_divide(x.detach(), y.detach()) + t.div(x, y, rounding_mode="trunc"),
        (X, Y),
    ),
    "where": (lambda t, F, x, y: t.where(x > y, x, y * 2) + t.maximum(x, y) - t.minimum(x, y) + t.clamp(x, -0.3, 0.4), (X, Y)),
    "sums": (
        lambda t, F, x: (x.sum(), x.sum(0), x.mean(1, keepdim=True), x.var(1), x.std(0), x.prod(1), t.logsumexp(x, 1)),
        (X,),
    ),
    "extremes": (lambda t, F, x: (x.max(), x.amax(0), x.min(1).values, x.argmax(1), x.max(1).indices, x.argmin()), (X,)),
    "norms": (lambda t, F, x: (x.norm(), t.cumsum(x, 1), t.sort(x, 1).values, t.topk(x, 2, 1).values), (X,)),
    "views": (
        lambda t, F, x: (
            x.t().reshape(3, 8),
            x.view(2, 2, 6).permute(2, 0, 1) * 2,
            x[1:, ::2],
            x[None, :, -1],
            x.unsqueeze(1).expand(4, 3, 6).sum(0),
            x.flatten()[3:9].unflatten(0, (2, 3)),
        ),
        (X,),
    ),
    "joins": (lambda t, F, x, y: (t.cat([x, y], 1), t.stack([x, y], -1), *x.split(2, 1), *y.chunk(3, 1), t.flip(x, [0])), (X, Y)),
    "indexing": (
        lambda t, F, x: (
            x[[0, 2, 2]],
            x[:, [1, 3]],
            x[x > 0],
            x[..., 2],
            x.gather(1, t.tensor([[0, 1], [2, 2], [5, 0], [3, 3]])),
            x.index_select(1, t.tensor([4, 0, 4])),
        ),
        (X,),
    ),
    "products": (
        lambda t, F, x, w, b: (x @ w, F.linear(x, w, b), t.einsum("ij,kj->ik", x, w), t.matmul(x[None], w), x @ b),
        (X, W, B),
    ),
    "softmax": (lambda t, F, x: (F.softmax(x, -1), F.log_softmax(x, 0), F.softmax(x * 40, 1)), (X,)),
    "layer_norm": (lambda t, F, x, w, b: F.layer_norm(x, (6,), w, b), (X, B, B)),
    "activations": (
        lambda t, F, x: (
            F.relu(x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.leaky_relu(x),
            F.softplus(x),
            F.elu(x),
            t.sigmoid(x),
        ),
        (X,),
    ),
    "losses": (
        lambda t, F, x, y: (
            F.mse_loss(x, y),
            F.l1_loss(x, y),
            F.cross_entropy(x, t.tensor(LABELS)),
            F.cross_entropy(x, t.tensor(LABELS), label_smoothing=0.1, ignore_index=5),
            F.binary_cross_entropy_with_logits(x, t.sigmoid(y)),
        ),
        (X, Y),
    ),
    "embedding": (lambda t, F, w: F.embedding(t.tensor(TOKENS), w), (W,)),
    "attention": (lambda t, F, q, k, v: F.scaled_dot_product_attention(q, k, v), QKV),
    "causal_attention": (lambda t, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), QKV),
    "masked_attention": (lambda t, F, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=t.tensor(MASK)), QKV),
    "in_place": (lambda t, F, x, y: (x * 1).add_(y).mul_(2)[1:].sub_(1).sum(0) + (y * 1).masked_fill_(y > 0, 3.0).sum(0), (X, Y)),
}


def leaves(out):
    return [t for o in out for t in leaves(o)] if isinstance(out, (tuple, list)) else [out]


def run(lib, functional, program, arrays):
    inputs = [lib.tensor(a, requires_grad=True) for a in arrays]
    outs = leaves(program(lib, functional, *inputs))
    loss = sum((o * o.detach().cos()).sum() for o in outs if o.requires_grad)
    loss.backward()
    return outs, [t.grad for t in inputs]


def as_numpy(t):
    return t.detach().numpy()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, compiled):
    program, arrays = PROGRAMS[name]
    call = flambeau.compile(program) if compiled else program
    ours, our_grads = run(flambeau, flambeau.nn.functional, call, arrays)
    theirs, their_grads = run(torch, torch.nn.functional, program, arrays)
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1], (name, k)
        assert tuple(a.shape) == tuple(b.shape), (name, k)
        np.testing.assert_allclose(as_numpy(a), as_numpy(b), rtol=2e-5, atol=2e-5, err_msg=f"{name} output {k}")
    for k, (a, b) in enumerate(zip(our_grads, their_grads, strict=True)):
        np.testing.assert_allclose(as_numpy(a), as_numpy(b), rtol=5e-5, atol=5e-5, err_msg=f"{name} gradient {k}")


TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def test_promotion():
    """Tensor with tensor, 0-dim tensor and Python number, for every pair of types."""
    for a, b in itertools.product(TYPES, TYPES):
        kinds = []
        for lib in (flambeau, torch):
            x, y = lib.ones(2, dtype=getattr(lib, a)), lib.ones(2, dtype=getattr(lib, b))
            zero_dim = lib.ones((), dtype=getattr(lib, b))
            kinds.append([str(t.dtype).split(".")[-1] for t in (x + y, x * zero_dim, x / y, x + 1, x * 2.5)])
        assert kinds[0] == kinds[1], (a, b, kinds)


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("SGD", {"weight_decay": 0.1}),
        ("Adam", {}),
        ("AdamW", {"weight_decay": 0.1, "betas": (0.8, 0.95)}),
        ("AdamW", {"amsgrad": True}),
    ],
)
def test_optimizers(name, options):
    results = []
    for lib in (flambeau, torch):
        p = lib.nn.Parameter(lib.tensor(X))
        optimizer = getattr(lib.optim, name)([p], lr=0.1, **options)
        for step in range(5):
            optimizer.zero_grad()
            ((p - step) ** 2).sum().backward()
            optimizer.step()
        results.append(as_numpy(p))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "program",
    [
        lambda t: t.ones(2, 3) @ t.ones(2, 3),
        lambda t: t.ones(2) + t.ones(3),
        lambda t: t.ones(2, 3).view(5),
        lambda t: t.ones(3)[5],
        lambda t: t.ones(2, requires_grad=True).add_(1),
        lambda t: t.tensor([1, 2]).add_(1.5),
        lambda t: t.ones(2, 2).backward(),
        lambda t: t.ones(3).expand(2, 3).add_(1),
        lambda t: t.tensor([1]).mean(),
        lambda t: bool(t.ones(2)),
        lambda t: t.ones(2, requires_grad=True).numpy(),
        lambda t: t.cat([t.ones(2, 3), t.ones(3, 2)]),
        lambda t: t.ones(3).t().item(),
    ],
)
def test_errors_are_of_the_same_type(program):
    with pytest.raises(Exception) as theirs:
        program(torch)
    with pytest.raises(type(theirs.value)):
        program(flambeau)
