"""The threaded kernels on every instruction set: values against float64 numpy, every floating type, tails, strides."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from flambeau.runtime import (
    _native,
    attention,
    cumulative,
    kernels,
    elementwise,
    grid_sample,
    copy_gather,
    native,
    sorting,
    reductions,
    row_kernels as rows,
    optimizer_step,
)

TOLERANCES = {np.float32: 3e-5, np.float64: 1e-12, ml_dtypes.bfloat16: 3e-2, np.float16: 3e-3}
TYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=lambda d: np.dtype(d).name)


pytestmark = pytest.mark.usefixtures("isa")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def wide(x):
    return np.asarray(x, np.float64)


def close(found, wanted, tolerance):
    assert found is not NotImplemented
    np.testing.assert_allclose(wide(found), wanted, tolerance, tolerance)


def test_every_table_has_the_same_names():
    assert len(_native.jobs()) == len(kernels._NUMBERS) and list(_native.jobs()) == list(kernels._NUMBERS)


def test_wrong_calls_are_refused():
    with pytest.raises(TypeError, match="no kernel of type"):
        kernels._job(kernels._NUMBERS["ctc_forward"], 2, 1, 1, (), (), ())
    with pytest.raises(TypeError, match="no numpy array"):
        kernels.run("sum_rows", np.dtype(np.float32), 1, 1, (3,))
    with pytest.raises(TypeError, match="job"):
        kernels._job(1, 2)


# -- rows


@TYPES
@pytest.mark.parametrize("shape, dim", [((7, 33), 1), ((5, 100, 9), 1), ((3, 130), 0), ((2, 4099), 1)])
def test_softmax_and_its_gradient(dtype, shape, dim, rng):
    x, g = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    e = np.exp(wide(x) - wide(x).max(dim, keepdims=True))
    y, up, t = e / e.sum(dim, keepdims=True), wide(g), TOLERANCES[dtype]
    close(rows.softmax(x, dim), y, t)
    close(rows.log_softmax(x, dim), np.log(y), 10 * t)
    own = wide(y.astype(dtype))
    close(rows.softmax_backward(g, y.astype(dtype), dim), own * (up - (up * own).sum(dim, keepdims=True)), t)
    own = wide(np.log(y).astype(dtype))
    close(rows.log_softmax_backward(g, own.astype(dtype), dim), up - np.exp(own) * up.sum(dim, keepdims=True), 4 * t)


def test_softmax_of_special_rows():
    inf, nan = np.inf, np.nan
    x = np.array([[-inf] * 20, [0.0] * 19 + [nan], [1.0] * 19 + [-inf], [1.0] * 19 + [inf]], np.float32)
    y = rows.softmax(x, 1)
    assert np.isnan(y[[0, 1, 3]]).all() and y[2, 19] == 0 and np.allclose(y[2, :19], 1 / 19)


@TYPES
def test_layer_and_rms_norm(dtype, rng):
    t = 4 * TOLERANCES[dtype]
    x, g = (rng.standard_normal((37, 50)).astype(dtype) for _ in range(2))
    w, b = (rng.standard_normal(50).astype(dtype) for _ in range(2))
    out, mean, rstd = rows.layer_norm(x, 1, w, b, 1e-5)
    d, h = wide(x), wide(g) * wide(w)
    hat = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5)
    close(out, hat * wide(w) + wide(b), t)
    close(rows.layer_norm(x, 1, None, None, 1e-5)[0], hat, t)
    scale = 1 / np.sqrt(d.var(1, keepdims=True) + 1e-5)
    wanted = scale * (h - h.mean(1, keepdims=True) - hat * (h * hat).mean(1, keepdims=True))
    close(rows.norm_backward(g, x, mean, rstd, w, 1), wanted, t)
    close(rows.norm_weight_gradient(g, x, mean, rstd, 1), (wide(g) * hat).sum(0), 3 * t)
    out, rstd = rows.rms_norm(x, 1, w, 1e-5)
    scale = 1 / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    close(out, d * scale * wide(w), t)
    wanted = scale * (h - d * scale * (h * d * scale).mean(1, keepdims=True))
    close(rows.norm_backward(g, x, None, rstd, w, 1), wanted, t)


def test_the_variance_is_that_of_centred_values(rng):
    x = (rng.standard_normal((4, 1000)) + 1e4).astype(np.float32)
    close(rows.layer_norm(x, 1, None, None, 0.0)[2][:, 0], 1 / wide(x).std(1), 1e-4)


@TYPES
def test_cross_entropy(dtype, rng):
    x, target = rng.standard_normal((37, 50)).astype(dtype), rng.integers(0, 50, 37)
    weight = rng.random(50).astype(dtype)
    target[3] = -100
    loss, lse, bad, count = rows.cross_entropy(x, target, weight, -100)
    d, kept, picked = wide(x), target != -100, np.where(target == -100, 0, target)
    wanted = np.log(np.exp(d).sum(1))
    close(lse, wanted, 1e-5)
    close(loss, np.where(kept, (wanted - d[np.arange(37), picked]) * wide(weight)[picked], 0), 1e-4)
    assert bad == -1 and count == kept.sum() == 36
    target[5] = 50
    assert rows.cross_entropy(x, target, None, -100)[2] == 5
    target[5] = 1
    scale = np.where(kept, rng.standard_normal(37), 0).astype(lse.dtype)
    p = np.exp(d - wanted[:, None])
    p[np.arange(37), np.where(target == -100, 0, target)] -= 1
    close(rows.cross_entropy_backward(x, target, lse, scale, -100), p * scale[:, None], TOLERANCES[dtype])
    close(rows.cross_entropy_backward(x, target, lse, 0.75, -100), p * (0.75 * kept)[:, None], TOLERANCES[dtype])


# -- reductions

SHAPES = [(64, 100), (5, 30, 40), (100000,), (20, 3, 40, 5), (40000, 3), (2048, 16), (3, 7, 11, 13, 5)]
REFERENCES = {
    "sum": lambda x, d, k: x.sum(d, keepdims=k),
    "max": lambda x, d, k: x.max(d, keepdims=k),
    "min": lambda x, d, k: x.min(d, keepdims=k),
    "squares": lambda x, d, k: (x * x).sum(d, keepdims=k),
    "absolutes": lambda x, d, k: np.abs(x).sum(d, keepdims=k),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions_over_all_dims(dtype, shape, rng):
    x, t, taken = rng.standard_normal(shape).astype(dtype), 20 * TOLERANCES[dtype], 0
    for count in range(1, len(shape) + 1):
        for dims in itertools.combinations(range(len(shape)), count):
            turned = tuple(sorted(len(shape) - 1 - d for d in dims))
            for y, own, keep in ((x, dims, False), (x, dims, True), (x.T, turned, False)):
                taken += all_reductions(y, own, keep, t)
    assert taken > len(shape)


def all_reductions(y, dims, keep, t) -> int:
    found = {name: reductions.reduce(name, y, dims, keep) for name in REFERENCES}
    if found["sum"] is NotImplemented:
        return 0
    d = wide(y)
    for name, value in found.items():
        wanted = REFERENCES[name](d, dims, keep)
        close(value / (1 + np.abs(wanted)), wanted / (1 + np.abs(wanted)), t)
    variance, mean = reductions.variance(y, 1, dims, keep)
    close(variance, d.var(dims, ddof=1, keepdims=keep), t)
    close(mean, d.mean(dims, keepdims=keep), t)
    logsumexp = reductions.logsumexp(y, dims, keep)
    if logsumexp is not NotImplemented:
        close(logsumexp, np.log(np.exp(d).sum(dims, keepdims=keep)), t)
    if len(dims) == 1 and y.flags.c_contiguous:
        for name in ("argmax", "argmin"):
            assert (reductions.extreme(name, y, dims, keep)[1] == getattr(np, name)(d, dims[0], keepdims=keep)).all()
    return 1


@pytest.mark.parametrize("dim", [0, 1])
def test_nan_wins_and_the_first_of_equals_is_the_position(dim):
    x = np.zeros((80, 100), np.float32)
    x[(3, 7) if dim else (7, 3)] = np.nan
    x[5, 5] = x[5, 9] = x[9, 5] = 2
    for name, values in (("max", np.max), ("min", np.min)):
        np.testing.assert_array_equal(reductions.reduce(name, x, (dim,), False), values(x, dim))
    for name in ("argmax", "argmin"):
        value, place = reductions.extreme(name, x, (dim,), False)
        np.testing.assert_array_equal(place, getattr(np, name)(x, dim))
        np.testing.assert_array_equal(value, np.take_along_axis(x, np.expand_dims(place, dim), dim).squeeze(dim))


def test_sums_do_not_lose_digits():
    x = np.full(1 << 22, 0.1, np.float32)
    wanted = float(np.float32(0.1)) * x.size
    assert abs(float(reductions.reduce("sum", x, (0,), False)) / wanted - 1) < 5e-6
    tall = x.reshape(-1, 2)
    assert np.abs(wide(reductions.reduce("sum", tall, (0,), False)) / (wanted / 2) - 1).max() < 1e-5


# -- moves


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize(
    "shape, order_",
    [
        ((70, 130), (1, 0)),
        ((4, 100, 6, 64), (0, 2, 1, 3)),
        ((4, 100, 66), (2, 0, 1)),
        ((5, 30, 7, 40), (3, 1, 0, 2)),
        ((3, 4, 5, 6, 7, 8), (5, 3, 1, 0, 2, 4)),
    ],
)
def test_copies_of_any_strides(dtype, shape, order_, rng):
    x = (rng.standard_normal(shape) * 50).astype(dtype).transpose(order_)
    for y in (x, x[1:, ::2], x[::-1], np.broadcast_to(x[:1], x.shape), np.repeat(x, 2, 0)[::2]):
        copy = copy_gather.copied(y)
        assert copy.flags.c_contiguous and (copy == y).all()
    out = np.zeros(shape, dtype).transpose(order_)
    assert copy_gather.copy_into(out, x) and (out == x).all()


def test_concatenation(rng):
    parts = [rng.standard_normal((30, n, 40)).astype(np.float32) for n in (3, 50, 10)]
    assert (copy_gather.concatenate(parts, 1) == np.concatenate(parts, 1)).all()
    turned = [parts[1].transpose(0, 2, 1)] * 2
    assert (copy_gather.concatenate(turned, 1) == np.concatenate(turned, 1)).all()


@pytest.mark.parametrize("source", TOLERANCES)
@pytest.mark.parametrize("target", TOLERANCES)
def test_conversions_round_like_numpy(source, target, rng):
    x = (rng.standard_normal(10007) * 1e3).astype(source)
    found = copy_gather.converted(x, np.dtype(target))
    assert (found is NotImplemented) == (source is target)
    assert source is target or (found == x.astype(target)).all()


def test_rows_and_elements_by_index(rng):
    table, index = rng.standard_normal((100, 384)).astype(np.float32), rng.integers(0, 100, (4, 77))
    assert (copy_gather.take_rows(table, index)[0] == table[index]).all()
    index[2, 5] = 100
    assert copy_gather.take_rows(table, index)[1] == 2 * 77 + 5
    x, at = rng.standard_normal((20, 50, 30)).astype(np.float32), rng.integers(0, 50, (20, 70, 30))
    assert (copy_gather.take_elements(x, 1, at)[0] == np.take_along_axis(x, at, 1)).all()
    out, source, wanted = np.zeros_like(x), rng.standard_normal(at.shape).astype(np.float32), np.zeros(x.shape)
    assert copy_gather.add_elements(out, 1, at, source)
    a, _, c = np.ogrid[:20, :70, :30]
    np.add.at(wanted, (a, at, c), source)
    close(out, wanted, 1e-4)
    at[3, 4, 5] = -1
    assert copy_gather.take_elements(x, 1, at)[1] == (3 * 70 + 4) * 30 + 5
    assert copy_gather.out_of_range(at, 50) and not copy_gather.out_of_range(np.abs(at), 50)


@pytest.mark.parametrize("width", [1, 5, 384])
def test_sums_of_rows_at_an_index(width, rng):
    index, x = rng.integers(0, 10, 308), rng.standard_normal((2, 308, width)).astype(np.float32)
    out, wanted = np.zeros((2, 10, width), np.float32), np.zeros((2, 10, width))
    assert copy_gather.add_rows(out, index, x, 4) == -1
    for k in range(2):
        np.add.at(wanted[k], index, x[k])
    wanted[:, 4] = 0
    close(out, wanted, 1e-4)
    index[7] = 10
    assert copy_gather.add_rows(out, index, x) == 7


def test_dropout_draws_what_philox_draws():
    x, uniform = np.ones(5000, np.float32), np.empty(5000, np.float32)
    out, keep = copy_gather.dropout(x, 0.3, 2.0, 11, 5)
    native.philox(uniform, 11, 5)
    assert (keep == (uniform >= 0.3)).all() and (out == np.where(keep, 2.0, 0)).all()
    assert (copy_gather.masked_scale(x, keep, 3.0) == np.where(keep, 3.0, 0)).all()


# -- order


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [8, 300])
def test_sorting_is_stable_with_nan_last(dtype, descending, n, rng):
    x = (rng.integers(-20, 20, (400, n)) / 4).astype(dtype)
    x[::7, 3], x[::5, 1], x[::3, 2] = np.nan, -0.0, np.inf
    values, places = sorting.sort(x, 1, descending)
    d = wide(x)
    keys = np.where(np.isnan(d), -np.inf, -d) if descending else d
    wanted = np.lexsort((keys, ~np.isnan(d)), axis=1) if descending else np.argsort(keys, 1, kind="stable")
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(wide(values), np.take_along_axis(d, wanted, 1))
    values, places = sorting.topk(x, 5, 1, descending)
    np.testing.assert_array_equal(places, wanted[:, :5])


def test_running_sums(rng):
    x = rng.standard_normal((30, 40, 9)).astype(np.float32)
    for dim in range(3):
        np.testing.assert_array_equal(cumulative.running("sum", x, dim), wide(x).cumsum(dim).astype(np.float32))
        np.testing.assert_array_equal(cumulative.running("product", x, dim), wide(x).cumprod(dim).astype(np.float32))


# -- images at the places of a grid


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_registers_of_points_of_any_number(mode, padding, rng):
    x = rng.standard_normal((2, 3, 5, 6)).astype(np.float32)
    for points in (1, 2, 3, 5, 8, 9, 15, 16, 17, 33):
        grid = (rng.random((2, 1, points, 2)) * 3 - 1.5).astype(np.float32)
        g = rng.standard_normal((2, 3, 1, points)).astype(np.float32)
        close(
            grid_sample.sample(x, grid, mode, padding, False), grid_sample.sample(wide(x), wide(grid), mode, padding, False), 1e-4
        )
        found = grid_sample.gradients(g, x, grid, mode, padding, False)
        for a, b in zip(found, grid_sample.gradients(wide(g), wide(x), wide(grid), mode, padding, False)):
            close(a, b, 1e-4)


# -- attention


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("sizes", [(2, 3, 17, 23, 8, 5, 1), (1, 2, 200, 200, 64, 64, 1), (2, 4, 30, 70, 16, 24, 2)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", ["", "bool", "added"])
@pytest.mark.parametrize("dropped", [False, True])
def test_attention(dtype, sizes, causal, masked, dropped, rng):
    batch, heads, length, width, depth, deep, group = sizes
    t = 20 * TOLERANCES[dtype]

    def make(*shape):
        return rng.standard_normal(shape).astype(dtype)

    q, k = make(batch, length, heads, depth).transpose(0, 2, 1, 3), make(batch, heads // group, width, depth)
    v, g = make(batch, heads // group, width, deep), make(batch, heads, length, deep)
    mask = None if not masked else make(length, width) if masked == "added" else (rng.random((batch, 1, length, width)) > 0.3)
    if masked == "bool":
        mask[:, :, 3] = False
    keep = rng.random((batch, heads, length, width)) > 0.2 if dropped else None
    weights = reference_weights(wide(q), np.repeat(wide(k), group, 1), mask, causal)
    used = np.where(keep, weights * 1.25, 0) if dropped else weights
    out, lse = attention.forward(q, k, v, mask, keep, causal, 0.3, 1.25)
    close(out, used @ np.repeat(wide(v), group, 1), t)
    if group > 1 or dtype is ml_dtypes.bfloat16:
        return
    gq, gk, gv = attention.backward(g, q, k, v, mask, keep, lse, causal, 0.3, 1.25)
    slope = wide(g) @ wide(v).swapaxes(2, 3)
    slope = np.where(keep, slope * 1.25, 0) if dropped else slope
    slope = weights * (slope - (slope * weights).sum(3, keepdims=True)) * 0.3
    wanted = slope @ wide(k), slope.swapaxes(2, 3) @ wide(q), used.swapaxes(2, 3) @ wide(g)
    for found, wanted in zip((gq, gk, gv), wanted):
        close(found, wanted, t)


def reference_weights(q, k, mask, causal):
    s = q @ k.swapaxes(2, 3) * 0.3
    s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf) if causal else s
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + wide(mask)
    top = s.max(3, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(3, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total != 0)


# -- steps and maps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("biggest", [False, True])
def test_adam(dtype, decoupled, biggest, rng):
    p, g, m, v = (rng.random(1003).astype(dtype) for _ in range(4))
    top = np.full(1003, 0.5, dtype) if biggest else None
    d = [wide(a).copy() for a in (p, -g, m, v)]
    step, other = np.full(1, 2, np.float32), [rng.random(7).astype(dtype) for _ in range(4)]
    rows = [(p, g, m, v, top, step)]
    if not decoupled:  # another parameter in the same run
        rows.append((*other, None, np.zeros(1, np.float32)))
    assert optimizer_step.adam(rows, 0.1, 0.9, 0.99, 1e-8, 0.05, decoupled, True) and step[0] == 3
    d[0], d[1] = (d[0] * (1 - 0.1 * 0.05), d[1]) if decoupled else (d[0], d[1] + 0.05 * d[0])
    d[2] += (d[1] - d[2]) * 0.1
    d[3] = d[3] * 0.99 + d[1] ** 2 * 0.01
    spread = np.maximum(d[3], 0.5) if biggest else d[3]
    d[0] -= 0.1 / (1 - 0.9**3) * d[2] / (np.sqrt(spread) / np.sqrt(1 - 0.99**3) + 1e-8)
    for found, wanted in zip((p, m, v), (d[0], d[2], d[3])):
        close(found, wanted, 1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd(nesterov, rng):
    p, g, b = (rng.random(1003).astype(np.float32) for _ in range(3))
    d = [wide(a).copy() for a in (p, g, b)]
    assert optimizer_step.sgd([(p, g, b)], 0.1, 0.9, 0.2, 0.05, nesterov, False)
    d[1] += 0.05 * d[0]
    d[2] = d[2] * 0.9 + d[1] * 0.8
    close(b, d[2], 1e-5)
    close(p, d[0] - 0.1 * (d[1] + 0.9 * d[2] if nesterov else d[2]), 1e-5)
    plain, before = rng.random(50).astype(np.float32), None
    before = wide(plain).copy()
    assert optimizer_step.sgd([(plain, g[:50], None)], 0.1, 0.0, 0.0, 0.0, False, False)
    close(plain, before - 0.1 * wide(g[:50]), 1e-5)


MAPS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((x + 0.044715 * x**3) * np.sqrt(2 / np.pi))),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "relu": lambda x: np.maximum(x, 0),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
}


@TYPES
@pytest.mark.parametrize("name", MAPS)
def test_maps(dtype, name, rng):
    x = (rng.standard_normal(1003) * 4).astype(dtype)
    found = elementwise.formula(name, 1)(x)
    if found is NotImplemented:
        assert dtype is np.float64
        return
    close(found, MAPS[name](wide(x)), 2 * TOLERANCES[dtype])


def test_maps_of_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 100.0, -100.0], np.float32)
    np.testing.assert_array_equal(elementwise.clamp(x, -1, 1), np.clip(x, -1, 1))
    np.testing.assert_array_equal(elementwise.clamp(x, None, 1), np.minimum(x, np.float32(1)))
    np.testing.assert_array_equal(elementwise.formula("sigmoid", 1)(x)[[1, 2, 3, 5]], np.float32([1, 0, 0.5, 1]))
    assert np.isnan(elementwise.formula("sigmoid", 1)(x)[0]) and np.isnan(elementwise.formula("relu", 1)(x)[0])
    np.testing.assert_array_equal(elementwise.formula("silu", 1)(x)[[1, 3, 4, 5]], np.float32([np.inf, 0, -0.0, 100]))


@TYPES
def test_a_row_added_to_all_rows(dtype, rng):
    x, row = rng.standard_normal((70, 301)).astype(dtype), rng.standard_normal(301).astype(dtype)
    wanted = wide(x) + wide(row)
    assert elementwise.add_row(x, row) is x
    close(x, wanted, TOLERANCES[dtype])
