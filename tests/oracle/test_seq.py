"""Recurrent layers, attention, Transformers, losses, embeddings and nn.utils against PyTorch: values, gradients, keys,
texts of repr."""

import itertools
import warnings

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")
LIBRARIES = (torch, flambeau)
pytestmark = pytest.mark.filterwarnings("ignore")


def floats(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(ours, theirs, tolerance=2e-5):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b, tolerance)
    elif theirs is None:
        assert ours is None
    else:
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def twins(make):
    """The module in both libraries, with equal weights, keys and repr."""
    theirs, ours = make(torch.nn), make(flambeau.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    copy_state(ours, theirs)
    return theirs, ours


def copy_state(ours, theirs):
    ours.load_state_dict({k: flambeau.tensor(v.detach().numpy().copy()) for k, v in theirs.state_dict().items()})


def both(run, theirs, ours):
    return run(flambeau, ours), run(torch, theirs)


# -- recurrent

SIZES = {"small": (5, 2, 4), "native": (11, 13, 21)}


def recurrent_run(kind, x, states, lengths, batch_first):
    def run(lib, m):
        m.zero_grad()
        rnn = lib.nn.utils.rnn
        given = lib.tensor(x, requires_grad=True)
        held = [lib.tensor(s, requires_grad=True) for s in states]
        hx = None if not held else tuple(held) if kind == "LSTM" else held[0]
        steps = given if lengths is None else rnn.pack_padded_sequence(given, lengths, batch_first, False)
        out, last = m(steps, hx)
        last = last if kind == "LSTM" else (last,)
        if lengths is not None:
            out, counts = rnn.pad_packed_sequence(out, batch_first, 0.5, total_length=max(lengths) + 1)
            assert counts.tolist() == lengths
        ((out * out).sum() + sum((k + 2) * (s**3).sum() for k, s in enumerate(last))).backward()
        return [out, *last, given.grad, *[p.grad for p in m.parameters()], *[s.grad for s in held]]

    return run


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind,proj", [("LSTM", 0), ("LSTM", 3), ("GRU", 0), ("RNN", 0)])
def test_recurrent(kind, proj, size):
    steps, rows, hidden = SIZES[size]
    for k, (layers, two, first, bias, stated, packed) in enumerate(itertools.product((1, 2), *[(False, True)] * 5)):
        if k % (5 if size == "native" else 3):
            continue
        options = dict(num_layers=layers, bidirectional=two, batch_first=first, bias=bias)
        options.update({"proj_size": proj} if proj else {})
        options.update({"nonlinearity": "relu"} if kind == "RNN" and bias else {})
        theirs, ours = twins(lambda nn: getattr(nn, kind)(3, hidden, **options))
        x = floats(k, *((rows, steps, 3) if first else (steps, rows, 3)))
        sizes = [proj or hidden, hidden][: 2 if kind == "LSTM" else 1]
        states = [floats(k + 9, layers * (1 + two), rows, n) for n in sizes] if stated else []
        lengths = [1 + (7 * n) % steps for n in range(rows)] if packed else None
        run = recurrent_run(kind, x, states, lengths, first)
        same(*both(run, theirs, ours), 3e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_unbatched_and_cells(kind):
    theirs, ours = twins(lambda nn: getattr(nn, kind)(3, 4, batch_first=True))
    same(*both(lambda lib, m: m(lib.tensor(floats(0, 5, 3)))[0], theirs, ours))
    theirs, ours = twins(lambda nn: getattr(nn, kind + "Cell")(3, 4))
    for shape in ((3,), (6, 3)):
        state = floats(1, *shape[:-1], 4)
        for given in (False, True):

            def run(lib, m, shape=shape, given=given, state=state):
                h = lib.tensor(state)
                hx = (((h, h * 2) if kind == "LSTM" else h),) if given else ()
                return m(lib.tensor(floats(2, *shape)), *hx)

            same(*both(run, theirs, ours))


def test_second_order_through_an_lstm():
    theirs, ours = twins(lambda nn: nn.LSTM(2, 3))

    def run(lib, m):
        x = lib.tensor(floats(0, 9, 2, 2), requires_grad=True)
        loss = (m(x)[0] ** 2).sum()
        (g,) = lib.autograd.grad(loss, x, create_graph=True)
        return list(lib.autograd.grad((g**2).sum(), [x, *m.parameters()]))

    with torch.backends.mkldnn.flags(enabled=False):
        same(*both(run, theirs, ours), 1e-4)


# -- attention

ATTENTION = [
    c
    for k, c in enumerate(
        itertools.product(
            (False, True),
            (False, True),
            (False, True),
            (False, True),
            (None, "bool", "float", "heads"),
            (None, "bool", "float"),
            (False, True),
            (False, True),
        )
    )
    if k % 5 == 0
]


@pytest.mark.parametrize("case", ATTENTION, ids=str)
def test_multihead_attention(case):
    first, extra, zero, sizes, mask, padding, need, lone = case
    options = dict(add_bias_kv=extra, add_zero_attn=zero, batch_first=first)
    options.update(dict(kdim=3, vdim=5) if sizes else {})
    theirs, ours = twins(lambda nn: nn.MultiheadAttention(8, 2, **options))

    def shaped(length, width, seed):
        return floats(seed, *((length, width) if lone else (2, length, width) if first else (length, 2, width)))

    arrays = [shaped(3, 8, 0), shaped(4, 3 if sizes else 8, 1), shaped(4, 5 if sizes else 8, 2)]
    allowed = {
        None: None,
        "bool": np.triu(np.ones((3, 4)), 2) > 0,
        "float": floats(3, 3, 4),
        "heads": floats(4, 2 if lone else 4, 3, 4),
    }[mask]
    padded = np.array([[0, 0, 0, 1], [0, 0, 1, 1]]) > 0
    padded = padded[0] if lone else padded
    padded = {None: None, "bool": padded, "float": np.where(padded, -1.5, 0.0).astype(np.float32)}[padding]

    def run(lib, m):
        given = [lib.tensor(a, requires_grad=True) for a in arrays]
        out, weights = m(
            *given,
            attn_mask=None if allowed is None else lib.tensor(allowed),
            need_weights=need,
            key_padding_mask=None if padded is None else lib.tensor(padded),
            average_attn_weights=zero,
        )
        (out * out).sum().backward()
        return [out, weights, *[g.grad for g in given], *[p.grad for p in m.parameters()]]

    same(*both(run, theirs, ours), 1e-4)


@pytest.mark.parametrize(
    "first,norm_first,activation,masked,padded",
    [
        c
        for k, c in enumerate(itertools.product((False, True), (False, True), ("relu", "gelu"), (False, True), (False, True)))
        if k % 3 != 1
    ],
)
def test_transformer(first, norm_first, activation, masked, padded):
    theirs, ours = (
        lib.nn.Transformer(8, 2, 2, 1, 12, 0.0, activation, batch_first=first, norm_first=norm_first) for lib in LIBRARIES
    )
    assert list(ours.state_dict()) == list(theirs.state_dict())
    copy_state(ours, theirs)

    def run(lib, m):
        given = [lib.tensor(floats(n, *((2, n, 8) if first else (n, 2, 8))), requires_grad=True) for n in (4, 3)]
        options = {}
        if masked:
            options.update(
                tgt_mask=m.generate_square_subsequent_mask(3), tgt_is_causal=True, src_mask=m.generate_square_subsequent_mask(4)
            )
        if padded:
            options["src_key_padding_mask"] = lib.tensor([[False] * 4, [False, False, False, True]])
        out = m.train()(*given, **options)
        (out**3).sum().backward()
        with lib.no_grad():
            calm = m.eval()(*given, **options)  # PyTorch drops padded positions here
        return [out, calm, *[g.grad for g in given], *[p.grad for p in m.parameters()]]

    same(*both(run, theirs, ours), 1e-3)


# -- losses, activations, embeddings as functions


def positive(seed, *shape):
    return np.abs(floats(seed, *shape)) + np.float32(0.3)


def signs(seed, *shape):
    return np.where(floats(seed, *shape) > 0, 1, -1)


def log_probabilities(*shape):
    x = np.exp(floats(5, *shape))
    return np.log(x / x.sum(-1, keepdims=True))


LISTED = np.array([[3, 0, -1, 1], [0, -1, 2, 1], [-1, 0, 0, 0]])
CTC = np.array([[2, 2, 1], [1, 3, 4], [4, 1, 2]])
F, G, H, W = floats(0, 3, 4), floats(1, 3, 4), floats(2, 3, 4), floats(3, 7, 3)
INDEX = np.random.default_rng(0).integers(0, 7, (4, 5))
LOSSES = [
    ("poisson_nll_loss", (positive(0, 3, 4), positive(1, 3, 4) * 3), dict(log_input=False, full=True)),
    ("poisson_nll_loss", (F, positive(1, 3, 4)), {}),
    ("gaussian_nll_loss", (F, G, positive(2, 3, 4)), dict(full=True)),
    ("gaussian_nll_loss", (F, G, positive(2, 3)), {}),
    ("gaussian_nll_loss", (F, G, positive(2, 3, 1)), {}),
    ("hinge_embedding_loss", (F, signs(1, 3, 4)), dict(margin=0.7)),
    ("multilabel_margin_loss", (F, LISTED), {}),
    ("multilabel_margin_loss", (F[0], LISTED[0]), {}),
    ("multilabel_soft_margin_loss", (F, (G > 0).astype("f"), positive(3, 4)), {}),
    ("soft_margin_loss", (F, signs(1, 3, 4)), {}),
    ("multi_margin_loss", (F, np.array([1, 0, 3])), dict(p=2, margin=0.8)),
    ("multi_margin_loss", (F, np.array([1, 0, 3])), dict(weight=positive(3, 4))),
    ("multi_margin_loss", (F[0], np.array(2)), {}),
    ("margin_ranking_loss", (F[0], G[0], signs(3, 4)), dict(margin=0.1)),
    ("cosine_embedding_loss", (F, G, signs(3, 3)), dict(margin=0.1)),
    ("cosine_embedding_loss", (F[0], G[0], np.array(1)), {}),
    ("triplet_margin_loss", (F, G, H), dict(swap=True)),
    ("triplet_margin_loss", (F, G, H), dict(p=1.0)),
    ("triplet_margin_with_distance_loss", (F, G, H), dict(swap=True)),
    ("l1_loss", (F, G), dict(weight=positive(4, 3, 4))),
    ("mse_loss", (F, G), dict(weight=positive(4, 3, 4))),
    ("huber_loss", (F, G), dict(weight=positive(4, 3, 4))),
    ("smooth_l1_loss", (F, G), dict(beta=0.5)),
    ("ctc_loss", (log_probabilities(6, 3, 5), CTC), dict(input_lengths=[6, 5, 3], target_lengths=[3, 2, 1])),
    ("ctc_loss", (log_probabilities(6, 3, 5), CTC.reshape(-1)[:6]), dict(input_lengths=(6, 5, 3), target_lengths=(3, 2, 1))),
    ("ctc_loss", (log_probabilities(6, 3, 5), CTC), dict(input_lengths=[6, 5, 2], target_lengths=[3, 2, 3], zero_infinity=True)),
    ("ctc_loss", (log_probabilities(6, 3, 5), CTC), dict(input_lengths=[6, 5, 2], target_lengths=[3, 0, 1], blank=0)),
    ("ctc_loss", (log_probabilities(6, 5), CTC[0]), dict(input_lengths=(6,), target_lengths=(3,))),
]
OTHERS = [
    *[(name, (x,), {}) for name in ("hardshrink", "tanhshrink", "rrelu", "selu", "celu") for x in (F, floats(4))],
    ("softshrink", (F,), dict(lambd=0.3)),
    ("prelu", (F, positive(0, 4)), {}),
    ("prelu", (floats(4), positive(0, 1)), {}),
    ("prelu", (floats(0, 2, 3, 4), positive(0, 3)), {}),
    ("threshold", (F,), dict(threshold=0.1, value=0.5)),
    ("softmin", (F,), dict(dim=0)),
    ("embedding", (INDEX, W), dict(scale_grad_by_freq=True)),
    ("embedding", (INDEX, W), dict(padding_idx=-3)),
    *[("embedding_bag", (INDEX, W), dict(mode=m, padding_idx=p)) for m in ("sum", "mean", "max") for p in (None, 2)],
    *[
        ("embedding_bag", (INDEX.reshape(-1), W, np.array([0, 3, 3, 20 if last else 10])), dict(mode=m, include_last_offset=last))
        for m in ("sum", "mean", "max")
        for last in (False, True)
    ],
    ("embedding_bag", (INDEX, W), dict(mode="sum", per_sample_weights=floats(8, 4, 5))),
]


@pytest.mark.parametrize(
    "name,arrays,options",
    [(n, a, dict(o, reduction=r)) for n, a, o in LOSSES for r in ("none", "mean", "sum")] + OTHERS,
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_functions(name, arrays, options):
    def run(lib):
        given = [lib.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        out = getattr(lib.nn.functional, name)(
            *given, **{k: lib.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        )
        (out * lib.tensor(np.cos(np.arange(out.numel())).astype("f").reshape(tuple(out.shape)))).sum().backward()
        return [out] + [g.grad for g in given if g.requires_grad]

    same(run(flambeau), run(torch), 1e-4)


def test_embedding_max_norm_writes_the_weight():
    ours, theirs = flambeau.tensor(W.copy()), torch.tensor(W.copy())
    for lib, weight in ((flambeau, ours), (torch, theirs)):
        lib.nn.functional.embedding(lib.tensor(INDEX[0]), weight, max_norm=1.0)
    same(ours, theirs)


def test_adaptive_softmax():
    theirs, ours = twins(lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 11], div_value=2.0))

    def run(lib, m):
        found = m(lib.tensor(floats(0, 9, 8)), lib.tensor(np.arange(9) * 2))
        found.loss.backward()
        return [
            found.output,
            *[p.grad for p in m.parameters()],
            m.log_prob(lib.tensor(floats(0, 9, 8))),
            m.predict(lib.tensor(floats(0, 9, 8))),
        ]

    same(*both(run, theirs, ours), 1e-4)


@pytest.mark.parametrize(
    "text",
    """RReLU() PReLU(3) CELU(.5) SELU(True) Threshold(.1,2) Hardshrink() Softshrink(.3)
Tanhshrink() Softmin(1) Softmax2d() EmbeddingBag(3,4,padding_idx=1) Embedding(3,4,max_norm=1.) CTCLoss()
TripletMarginLoss() LSTM(3,4,2,bidirectional=True,dropout=.1) GRUCell(3,4,bias=False) RNNCell(3,4,nonlinearity='relu')
""".split(),
)
def test_repr(text):
    assert eval("nn." + text, {"nn": flambeau.nn}) is not None
    assert repr(eval("nn." + text, {"nn": flambeau.nn})) == repr(eval("nn." + text, {"nn": torch.nn}))


# -- nn.utils


def wrapped(wrap, make=lambda nn: nn.Linear(4, 3)):
    theirs, ours = twins(make)
    theirs, ours = wrap(torch.nn.utils, theirs), wrap(flambeau.nn.utils, ours)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    copy_state(ours, theirs)
    return theirs, ours


def trained(x):
    def run(lib, m):
        m.zero_grad()
        given = lib.tensor(x, requires_grad=True)
        out = m(given)
        (out * out).sum().backward()
        return [out, given.grad, *[p.grad for p in m.parameters()]]

    return run


WRAPS = {
    **{f"weight_norm {d}": lambda u, m, d=d: u.weight_norm(m, dim=d) for d in (0, 1, None, -1)},
    **{f"parametrized weight_norm {d}": lambda u, m, d=d: u.parametrizations.weight_norm(m, dim=d) for d in (0, 1, None)},
    "spectral_norm": lambda u, m: u.spectral_norm(m),
    "parametrized spectral_norm": lambda u, m: u.parametrizations.spectral_norm(m),
}


@pytest.mark.parametrize("name", WRAPS)
def test_normalised_weights(name):
    theirs, ours = wrapped(WRAPS[name])
    run = trained(floats(0, 2, 4))
    for _ in range(2):
        same(*both(run, theirs, ours))
    theirs.eval(), ours.eval()
    same(*both(run, theirs, ours))
    if name.startswith("parametrized"):
        for lib, m in ((torch, theirs), (flambeau, ours)):
            lib.nn.utils.parametrize.remove_parametrizations(m, "weight")
    else:
        for lib, m in ((torch, theirs), (flambeau, ours)):
            getattr(lib.nn.utils, "remove_" + name.split()[0])(m)
    assert list(ours.state_dict()) == list(theirs.state_dict()) and type(ours) is flambeau.nn.Linear
    same(*both(run, theirs, ours))


@pytest.mark.parametrize("shape", [(4, 3), (4, 4), (4, 6)])
@pytest.mark.parametrize("kind", [None, "cayley", "householder", "matrix_exp"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(shape, kind, trivial):
    theirs, ours = wrapped(
        lambda u, m: u.parametrizations.orthogonal(m, orthogonal_map=kind, use_trivialization=trivial),
        lambda nn: nn.Linear(*shape),
    )
    same(*both(trained(floats(0, 2, shape[0])), theirs, ours), 3e-4)
    w = ours.weight.detach().numpy()
    w = w if w.shape[0] <= w.shape[1] else w.T
    np.testing.assert_allclose(w @ w.T, np.eye(len(w)), atol=1e-5)


def test_fusion():
    theirs, ours = twins(lambda nn: nn.Linear(4, 3).eval())
    their_norm, norm = twins(lambda nn: nn.BatchNorm1d(3).eval())
    their_norm.running_mean.normal_(), their_norm.running_var.uniform_(0.5, 2)
    copy_state(norm, their_norm)
    fused = [lib.nn.utils.fuse_linear_bn_eval(*pair) for lib, pair in ((flambeau, (ours, norm)), (torch, (theirs, their_norm)))]
    same([fused[0].weight, fused[0].bias], [fused[1].weight, fused[1].bias])


def test_errors_of_recurrent_layers():
    def errors(lib):
        nn, zeros, rnn = lib.nn, lib.zeros, lib.nn.utils.rnn
        lstm, cell, x = nn.LSTM(3, 4), nn.LSTMCell(3, 4), zeros(3, 2, 1)
        calls = [
            lambda: lstm(zeros(2, 2, 5)),
            lambda: lstm(zeros(2, 2, 2, 3)),
            lambda: lstm(zeros(0, 2, 3)),
            lambda: lstm(zeros(2, 2, 3), (zeros(1, 3, 4), zeros(1, 2, 4))),
            lambda: lstm(zeros(2, 2, 3).double()),
            lambda: lstm(zeros(2, 2, 3), (zeros(1, 4), zeros(1, 4))),
            lambda: nn.GRU(3, 4)(zeros(2, 3), zeros(1, 2, 4)),
            lambda: cell(zeros(1, 1, 3)),
            lambda: cell(zeros(2, 5)),
            lambda: nn.GRU(3, 4, proj_size=2),
            lambda: nn.LSTM(3, 4, proj_size=4),
            lambda: nn.LSTM(3, 0),
            lambda: nn.LSTM(3, 4, dropout=2),
            lambda: nn.RNN(3, 4, nonlinearity="x"),
            lambda: nn.RNNCell(3, 4, nonlinearity="x")(zeros(2, 3)),
            lambda: rnn.pack_padded_sequence(x, [1, 2]),
            lambda: rnn.pack_padded_sequence(x, [2, 0]),
            lambda: rnn.pack_padded_sequence(x, [1]),
            lambda: rnn.pad_sequence([]),
            lambda: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [2, 1]), total_length=1),
        ]
        return [raised(call) for call in calls]

    assert errors(flambeau) == errors(torch)


def raised(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as info:
            call()
    return info.type, str(info.value)
