"""Recurrent layers, packed sequences, attention, CTC, embeddings and nn.utils, against formulas written out here."""

import copy
import itertools

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import grad
from flambeau.eager.ops import recurrences
from flambeau.eager.ops import recurrent as records
from flambeau.eager.ops.recurrences import NUMPY_STEPS
from flambeau.nn.utils import parametrizations, parametrize, rnn, stateless


def floats(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def near(a, b, tolerance=2e-5):
    a, b = (x.detach().numpy() if isinstance(x, flambeau.Tensor) else x for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# -- recurrent


def written_out(kind, x, h, c, w_ih, w_hh, b_ih, b_hh):
    """(T, N, F) -> outputs, one step after the other."""
    outs = []
    for step in x:
        a, b = step @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        if kind == "LSTM":
            i, f, g, o = np.split(a + b, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        elif kind == "GRU":
            (ar, az, an), (br, bz, bn) = np.split(a, 3, 1), np.split(b, 3, 1)
            z = sigmoid(az + bz)
            h = (1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * h
        else:
            h = np.tanh(a + b)
        outs.append(h)
    return np.stack(outs), h, c


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("steps,rows,hidden", [(3, 2, 4), (9, 7, 37)])
def test_layers_do_what_their_formulas_say(kind, steps, rows, hidden):
    m = getattr(nn, kind)(5, hidden)
    x, h, c = floats(0, steps, rows, 5), floats(1, 1, rows, hidden), floats(2, 1, rows, hidden)
    weights = [p.detach().numpy() for p in m.parameters()]
    state = flambeau.tensor(h)
    out, last = m(flambeau.tensor(x), (state, flambeau.tensor(c)) if kind == "LSTM" else state)
    wanted, h, c = written_out(kind, x, h[0], c[0], *weights)
    near(out, wanted)
    near(last[0][0] if kind == "LSTM" else last[0], h)
    if kind == "LSTM":
        near(last[1][0], c)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh", "relu"])
def test_native_kernels_equal_the_steps(kind, masked, reverse):
    """Sizes that leave tails in every block."""
    steps, rows, size = 6, 11, 21
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    valid = np.arange(steps)[:, None] < np.arange(rows)[None] % steps + 1 if masked else None
    x, h, c = floats(0, steps, rows, gates * size), floats(1, rows, size), floats(2, rows, size)
    w = floats(3, gates * size, size) / 5
    b, g_out, g_h, g_c = floats(4, size), floats(5, steps, rows, size), floats(6, rows, size), floats(7, rows, size)
    if kind == "lstm":
        forward, given = records.lstm_sequence, (x, h, c, w, None, valid, reverse)
        outs = recurrences.lstm(NUMPY_STEPS, *given)
        back = records.lstm_sequence_backward, (g_out, g_h, g_c, None, None, *outs[3:], c, w, None, valid, reverse)
        wanted = recurrences.lstm_backward(NUMPY_STEPS, *back[1])[:3]
    elif kind == "gru":
        forward, given = records.gru_sequence, (x, h, w, b, valid, reverse)
        outs = recurrences.gru(NUMPY_STEPS, *given)
        back = records.gru_sequence_backward, (g_out, g_h, None, outs[2], outs[0], h, w, valid, reverse)
        wanted = recurrences.gru_backward(NUMPY_STEPS, *back[1])
    else:
        forward, given = records.rnn_sequence, (x, h, w, valid, kind == "relu", reverse)
        outs = recurrences.rnn(NUMPY_STEPS, *given)
        back = records.rnn_sequence_backward, (g_out, g_h, outs[0], w, valid, kind == "relu", reverse)
        wanted = recurrences.rnn_backward(NUMPY_STEPS, *back[1])
    for record, args, expected in ((forward, given, outs), (*back, wanted)):
        found = record.kernels["native"](*args)
        assert found is not NotImplemented
        for a, e in zip(found, expected):
            near(a, e, 1e-4)


def test_other_types_and_strides_run_too():
    m = nn.GRU(3, 4, batch_first=True).double()
    x = flambeau.randn(6, 5, 3, dtype=flambeau.float64)
    whole = m(x)[0]
    near(m(x.transpose(0, 1).contiguous().transpose(0, 1))[0], whole)
    near(m.float()(x.float())[0], whole, 1e-5)
    half = m.bfloat16()(x.bfloat16())
    assert half[0].dtype is flambeau.bfloat16
    near(half[0].float(), whole.float(), 5e-2)


def test_packed_sequences_ignore_what_is_behind_their_ends():
    m = nn.LSTM(3, 5, num_layers=2, bidirectional=True)
    x, lengths = flambeau.randn(6, 4, 3), [2, 6, 1, 4]
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [4, 3, 2, 2, 1, 1] and packed.sorted_indices.tolist() == [1, 3, 0, 2]
    out, (h, c) = m(packed)
    padded, counts = rnn.pad_packed_sequence(out)
    assert counts.tolist() == lengths
    for n, length in enumerate(lengths):
        alone, (own_h, own_c) = m(x[:length, n : n + 1])
        near(padded[:length, n], alone[:, 0])
        assert not padded[length:, n].any()
        near(h[:, n], own_h[:, 0])
        near(c[:, n], own_c[:, 0])


def test_packing_and_padding_are_inverse():
    sequences = [flambeau.randn(n, 2) for n in (3, 1, 4)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    for a, b in zip(rnn.unpack_sequence(packed), sequences):
        assert flambeau.equal(a, b)
    left = rnn.pad_sequence(sequences, batch_first=True, padding_value=9.0, padding_side="left")
    assert left.shape == (3, 4, 2) and (left[1, :3] == 9).all() and flambeau.equal(left[1, 3:], sequences[1])
    lengths = flambeau.tensor([3, 1, 4])
    for a, b in zip(rnn.unpad_sequence(rnn.pad_sequence(sequences), lengths), sequences):
        assert flambeau.equal(a, b)
    double = packed.to(flambeau.float64)
    assert double.data.dtype is flambeau.float64 and packed.to(flambeau.float32) is packed


def test_dropout_between_layers_only_in_training():
    m, x = nn.GRU(3, 4, num_layers=2, dropout=0.5), flambeau.randn(5, 2, 3)
    flambeau.manual_seed(0)
    assert not flambeau.equal(m(x)[0], m(x)[0])
    m.eval()
    assert flambeau.equal(m(x)[0], m(x)[0])


def test_second_order_gradients_of_a_bidirectional_layer():
    m = nn.LSTM(2, 3, bidirectional=True).double()
    x = flambeau.randn(4, 2, 2, dtype=flambeau.float64, requires_grad=True)
    direction = flambeau.randn(4, 2, 2, dtype=flambeau.float64)

    def slope(at):
        (g,) = grad((m(at)[0] ** 2).sum(), at, create_graph=True)
        return (g * direction).sum()

    (second,) = grad(slope(x), x)
    step, other = 1e-6, flambeau.randn(4, 2, 2, dtype=flambeau.float64)
    ends = [slope((x + s * step * other).detach().requires_grad_()).item() for s in (1, -1)]
    assert (second * other).sum().item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)


def test_compiled_recurrent_training_step():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.rnn(x)[0])

    m, x = Tagger(), flambeau.randn(5, 7, 4)
    wanted = m(x)
    (wanted**2).sum().backward()
    grads = [p.grad.clone() for p in m.parameters()]
    m.zero_grad()
    flambeau.compiler.reset()
    compiled = flambeau.compile(m)
    out = compiled(x)
    (out**2).sum().backward()
    near(out, wanted)
    for p, g in zip(m.parameters(), grads):
        near(p.grad, g, 1e-4)
    seen = flambeau.compiler.counters()
    assert seen["graphs"] == 1 and not seen["breaks"]
    assert seen["fallbacks"] == {}


def test_state_keys():
    assert list(nn.LSTM(2, 4, 2, bidirectional=True, proj_size=3).state_dict())[:10] == [
        "weight_ih_l0",
        "weight_hh_l0",
        "bias_ih_l0",
        "bias_hh_l0",
        "weight_hr_l0",
        "weight_ih_l0_reverse",
        "weight_hh_l0_reverse",
        "bias_ih_l0_reverse",
        "bias_hh_l0_reverse",
        "weight_hr_l0_reverse",
    ]


# -- attention


def test_attention_of_modules_equals_the_formula():
    m = nn.MultiheadAttention(8, 2, batch_first=True)
    x, hidden = flambeau.randn(3, 4, 8), flambeau.tensor([[False] * 4, [False, False, True, True], [False] * 3 + [True]])
    out, weights = m(x, x, x, key_padding_mask=hidden)
    q, k, v = (
        part.unflatten(-1, (2, 4)).transpose(1, 2)
        for part in nn.functional.linear(x, m.in_proj_weight, m.in_proj_bias).chunk(3, -1)
    )
    scores = (q @ k.transpose(-1, -2) / 2).masked_fill(hidden[:, None, None], float("-inf")).softmax(-1)
    near(weights, scores.mean(1))
    near(out, m.out_proj((scores @ v).transpose(1, 2).flatten(2)))
    near(m(x, x, x, key_padding_mask=hidden, need_weights=False)[0], out)


def test_causal_hint_equals_its_mask():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    mask, x = nn.Transformer.generate_square_subsequent_mask(5), flambeau.randn(5, 2, 8)
    near(layer(x, mask, is_causal=True), layer(x, mask))
    with pytest.raises(RuntimeError, match="is_causal hint"):
        layer(x, is_causal=True)


def test_fully_masked_rows():
    """NaN with softmax of -inf alone; zeros from scaled_dot_product_attention."""
    q, nothing = flambeau.randn(1, 2, 4), flambeau.zeros(2, 2, dtype=flambeau.bool)
    assert not nn.functional.scaled_dot_product_attention(q, q, q, nothing).any()


def test_backend_choice_is_checked_only():
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.MATH, nn.attention.SDPBackend.FLASH_ATTENTION]):
        nn.functional.scaled_dot_product_attention(*[flambeau.randn(1, 2, 4)] * 3)
    with pytest.raises(AssertionError), nn.attention.sdpa_kernel("math"):
        pass


# -- losses


def alignments(target, steps, classes, blank=0):
    """All paths of `steps` classes that collapse to the target."""
    for path in itertools.product(range(classes), repeat=steps):
        kept = [c for c, before in zip(path, (None, *path)) if c != before and c != blank]
        if kept == list(target):
            yield path


@pytest.mark.parametrize("target", [(1, 2), (2, 2), (1,), ()])
def test_ctc_is_the_sum_over_alignments(target):
    x = flambeau.randn(4, 1, 3, requires_grad=True)
    logs = x.log_softmax(2)
    loss = nn.functional.ctc_loss(logs, flambeau.tensor([list(target) or [0]]), [4], [len(target)], reduction="sum")
    paths = [sum(logs[t, 0, c] for t, c in enumerate(path)) for path in alignments(target, 4, 3)]
    wanted = -flambeau.stack(paths).logsumexp(0)
    near(loss, wanted)
    near(grad(loss, x, retain_graph=True)[0], grad(wanted, x)[0])


def test_ctc_of_impossible_targets():
    logs, target = flambeau.zeros(2, 1, 3).log_softmax(2).requires_grad_(), flambeau.tensor([[1, 1, 2]])
    assert nn.functional.ctc_loss(logs, target, [2], [3]).item() == float("inf")
    loss = nn.functional.ctc_loss(logs, target, [2], [3], zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and not logs.grad.any()
    with pytest.raises(RuntimeError, match="differentiable once"):
        (g,) = grad(nn.functional.ctc_loss(logs, target[:, :1], [2], [1]), logs, create_graph=True)
        g.sum().backward()


# -- embeddings


def test_bags_equal_loops():
    weight, index = flambeau.randn(6, 3), flambeau.tensor([1, 2, 2, 5, 0, 4])
    parts = [weight[[1, 2]], weight[[]], weight[[2, 5, 0, 4]]]
    for mode, reduce in (("sum", lambda r: r.sum(0)), ("mean", lambda r: r.mean(0)), ("max", lambda r: r.max(0)[0])):
        out = nn.functional.embedding_bag(index, weight, flambeau.tensor([0, 2, 2]), mode=mode)
        near(out[0], reduce(parts[0]))
        near(out[2], reduce(parts[2]))
        assert not out[1].any()


def test_gradient_by_frequency_and_refused_sparseness():
    weight = flambeau.ones(4, 2, requires_grad=True)
    nn.functional.embedding(flambeau.tensor([1, 1, 1, 3]), weight, scale_grad_by_freq=True).sum().backward()
    assert weight.grad[:, 0].tolist() == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="sparse=True is not available"):
        nn.Embedding(4, 2, sparse=True)


# -- nn.utils


def test_parametrisations():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a):
            return a.triu()

    m = nn.Linear(3, 3)
    parametrize.register_parametrization(m, "weight", Symmetric())
    assert type(m).__name__ == "ParametrizedLinear" and isinstance(m, nn.Linear)
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original"]
    value = flambeau.randn(3, 3)
    m.weight = value + value.T
    near(m.weight, value + value.T)
    assert m.weight is not m.weight
    with parametrize.cached():
        assert m.weight is m.weight
    twin = copy.deepcopy(m)
    assert twin.parametrizations.weight.original is not m.parametrizations.weight.original
    near(twin.weight, m.weight)
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Flatten(0))
    parametrize.remove_parametrizations(m, "weight")
    assert type(m) is nn.Linear and isinstance(m.weight, nn.Parameter)


def test_orthogonal_weights_stay_so_while_training():
    m = parametrizations.orthogonal(nn.Linear(5, 3))
    opt = flambeau.optim.SGD(m.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        m(flambeau.randn(4, 5)).pow(2).sum().backward()
        opt.step()
    near(m.weight @ m.weight.T, np.eye(3), 1e-5)


def test_spectral_norm_has_largest_singular_value_one():
    m = parametrizations.spectral_norm(nn.Linear(6, 4), n_power_iterations=20)
    assert np.linalg.svd(m.weight.detach().numpy())[1][0] == pytest.approx(1, rel=1e-4)


def test_functional_call_swaps_and_restores():
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    given = {k: v.detach().clone() * 2 for k, v in m.state_dict().items()}
    before, x = copy.deepcopy(m.state_dict()), flambeau.randn(3, 2)
    twin = copy.deepcopy(m)
    twin.load_state_dict(given)
    near(stateless.functional_call(m, given, x), twin(x))
    near(given["1.running_mean"], twin[1].running_mean)
    for name, value in m.state_dict().items():
        assert flambeau.equal(value, before[name])
    with pytest.raises(RuntimeError, match="Missing key"):
        stateless.functional_call(m, {"0.bias": given["0.bias"]}, x, strict=True)


def test_tied_weights_change_together():
    m = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
    m[1].weight = m[0].weight

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = m

        def forward(self, x):
            return m[1](m[0](x))

    x, other = flambeau.randn(1, 2), flambeau.eye(2) * 3
    near(stateless.functional_call(Chain(), {"parts.0.weight": other}, x), x * 9)
    near(stateless.functional_call(Chain(), {"parts.0.weight": other}, x, tie_weights=False), m[1](x * 3))


def test_clipping():
    p = [flambeau.zeros(2, requires_grad=True), flambeau.zeros(1, requires_grad=True)]
    p[0].grad, p[1].grad = flambeau.tensor([3.0, 0.0]), flambeau.tensor([4.0])
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == 5
    near(nn.utils.get_total_norm([q.grad for q in p]), np.float32(1), 1e-5)
    p[1].grad.fill_(float("nan"))
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    with pytest.warns(FutureWarning):
        nn.utils.clip_grad_norm(p, 1.0)


def test_skip_init_draws_nothing():
    flambeau.manual_seed(0)
    state = flambeau.get_rng_state()
    m = nn.utils.skip_init(nn.Linear, 3, 4)
    assert m.weight.shape == (4, 3) and flambeau.equal(flambeau.get_rng_state(), state)
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.ReLU)


def test_flex_attention():
    from flambeau.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

    q, k, v = (flambeau.randn(2, 4, 6, 3) for _ in range(3))
    mask = create_block_mask(and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 3), None, None, 6, 6, BLOCK_SIZE=2)
    near_diagonal = flambeau.ones(6, 6).tril().triu(-2).bool()
    near(flex_attention(q, k, v, block_mask=mask), nn.functional.scaled_dot_product_attention(q, k, v, near_diagonal))
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    slope = flambeau.tensor([1.0, 0.5, 0.25, 0.1])
    out, lse = flex_attention(q, k, v, lambda s, b, h, i, j: s + slope[h] * (j - i), return_lse=True)
    distance = (flambeau.arange(6)[None] - flambeau.arange(6)[:, None]).float()
    scores = q @ k.transpose(-1, -2) / 3**0.5 + slope[:, None, None] * distance
    near(out, scores.softmax(-1) @ v)
    near(lse, scores.logsumexp(-1))


def test_lazy_linear_takes_its_size_from_the_first_input():
    m = nn.LazyLinear(3)
    assert type(m) is nn.LazyLinear and m.has_uninitialized_params()
    assert m(flambeau.randn(4, 5)).shape == (4, 3)
    assert type(m) is nn.Linear and m.in_features == 5 and m.weight.shape == (3, 5) and m.weight.any()
    other = nn.LazyLinear(3)
    other.load_state_dict(m.state_dict())
    near(other(flambeau.ones(1, 5)), m(flambeau.ones(1, 5)))
