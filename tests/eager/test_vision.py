"""Pooling, normalisation per channel, padding and resampling: measured numbers, plain references, memory order, modules."""

import itertools

import numpy as np
import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import compiler, nn

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def last(array):
    """A tensor with this value and the channels last in memory."""
    return fb.from_numpy(np.ascontiguousarray(array.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)


def orders(array):
    return fb.from_numpy(array), last(array)


# -- normalisation


def test_running_variance_is_unbiased():
    """[0, 2] has the biased variance 1 and the unbiased 2: 0.9 * 1 + 0.1 * 2."""
    norm = nn.BatchNorm1d(1)
    out = norm(fb.tensor([[0.0], [2.0]]))
    np.testing.assert_allclose(out.detach().numpy().ravel(), [-1, 1], rtol=1e-4)
    assert norm.running_var.item() == pytest.approx(1.1)
    assert norm.running_mean.item() == pytest.approx(0.1)
    assert norm.num_batches_tracked.item() == 1


def test_momentum_none_averages_all_batches():
    norm, batches = nn.BatchNorm1d(2, momentum=None), [normal(8, 2) for _ in range(3)]
    for x in batches:
        norm(fb.from_numpy(x))
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean([x.mean(0) for x in batches], 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 70, 9, 5), (2, 3, 33, 40)])
def test_moments_of_data_far_from_zero(shape):
    """Deviations are taken from the mean, not squares from squares."""
    array = normal(*shape) * 0.1 + 1000
    wide = array.astype(np.float64)
    wanted = (wide - wide.mean((0, 2, 3), keepdims=True)) / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-5)
    for x in orders(array):
        np.testing.assert_allclose(F.batch_norm(x, None, None, training=True).numpy(), wanted, atol=2e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.BatchNorm2d(6),
        lambda: nn.GroupNorm(2, 6),
        lambda: nn.BatchNorm2d(6).eval(),
        lambda: nn.MaxPool2d(3, 2, 1),
        lambda: nn.AvgPool2d(2),
        lambda: nn.AdaptiveAvgPool2d(3),
        lambda: nn.Upsample(scale_factor=2),
        lambda: nn.Upsample(7, mode="bilinear"),
        lambda: nn.ReflectionPad2d(1),
        lambda: nn.ZeroPad2d(1),
    ],
)
def test_channels_last_stays_and_gives_the_same(make):
    module, array = make(), normal(2, 6, 8, 9)
    plain, image = (module(x) for x in orders(array))
    np.testing.assert_allclose(image.detach().numpy(), plain.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert image.permute(0, 2, 3, 1).is_contiguous() and plain.is_contiguous()


def test_transposed_input_gives_row_major():
    x = fb.from_numpy(normal(2, 5, 3)).transpose(1, 2)
    for out in (F.batch_norm(x, None, None, training=True), F.group_norm(x, 3), F.avg_pool1d(x, 2), F.max_pool1d(x, 2)):
        assert out.is_contiguous()


def test_sync_batch_norm_takes_over_parameters_and_statistics():
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(4, affine=False)))
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert isinstance(converted[0], nn.SyncBatchNorm) and isinstance(converted[1][0], nn.SyncBatchNorm)
    assert list(converted.state_dict()) == list(net.state_dict())


def test_states_without_a_count_of_batches_load():
    norm = nn.BatchNorm2d(2)
    state = {k: v for k, v in norm.state_dict().items() if k != "num_batches_tracked"}
    assert not norm.load_state_dict(state).missing_keys


# -- windows


def brute(x, kernel, stride, padding, dilation, reduce):
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=np.nan)
    reach = dilation * (kernel - 1) + 1
    counts = [(n - reach) // stride + 1 for n in padded.shape[2:]]
    out = np.empty(x.shape[:2] + tuple(counts), x.dtype)
    for i, j in itertools.product(*map(range, counts)):
        part = padded[:, :, i * stride : i * stride + reach : dilation, j * stride : j * stride + reach : dilation]
        out[:, :, i, j] = reduce(part.reshape(*x.shape[:2], -1), -1)
    return out


@pytest.mark.parametrize("kernel,stride,padding,dilation", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 1, 1, 2), (5, 3, 2, 1)])
def test_windows_against_brute_force(kernel, stride, padding, dilation):
    array = normal(2, 70, 9, 11)
    for x in orders(array):
        wanted = brute(array, kernel, stride, padding, dilation, np.nanmax)
        np.testing.assert_array_equal(F.max_pool2d(x, kernel, stride, padding, dilation).numpy(), wanted)
        if dilation == 1:
            wanted = brute(array, kernel, stride, padding, 1, np.nanmean)
            actual = F.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)
            np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_nan_wins_and_indices_are_flat():
    x = fb.tensor([[[1.0, 5.0, 2.0, float("nan")], [0.0, 3.0, 7.0, 1.0]]])
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    assert values[0, 0, 0] == 5 and values[0, 0, 1].isnan()
    assert indices.tolist() == [[[1, 3]]]


def test_maxima_get_the_whole_gradient_once():
    """The first of equals; windows that overlap add up."""
    x = fb.zeros(1, 3, 3).requires_grad_()
    F.max_pool2d(x, 2, 1).sum().backward()
    assert x.grad.tolist() == [[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]


def test_unpool_undoes_pool():
    x = fb.from_numpy(normal(1, 2, 4, 6))
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, indices, 2)
    assert back.shape == x.shape and back.sum().item() == pytest.approx(values.sum().item(), rel=1e-5)
    with pytest.raises(RuntimeError, match="invalid max index"):
        F.max_unpool2d(values, indices + 100, 2)


# -- resampling


def test_nearest_and_nearest_exact_differ():
    x = fb.arange(5.0).reshape(1, 1, 5)
    assert F.interpolate(x, size=3).tolist() == [[[0, 1, 3]]]
    assert F.interpolate(x, size=3, mode="nearest-exact").tolist() == [[[0, 2, 4]]]


def test_bicubic_overshoots():
    x = fb.arange(9.0).reshape(1, 1, 3, 3)
    first = F.interpolate(x, size=4, mode="bicubic")[0, 0, 0]
    np.testing.assert_allclose(first.numpy(), [-0.2871, 0.3145, 1.2549, 1.8564], atol=1e-4)


def test_linear_with_corners_hits_the_ends():
    x = fb.tensor([[[0.0, 10.0]]])
    out = F.interpolate(x, size=5, mode="linear", align_corners=True)
    np.testing.assert_allclose(out.numpy().ravel(), [0, 2.5, 5, 7.5, 10])


def test_antialiased_downsampling_keeps_the_mean():
    array = normal(1, 1, 64, 64)
    for mode in ("bilinear", "bicubic"):
        out = F.interpolate(fb.from_numpy(array), size=8, mode=mode, antialias=True)
        assert abs(out.mean().item() - array.mean()) < 0.02 and out.var().item() < 0.1 * array.var()


@pytest.mark.parametrize("mode,ours", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_pad_modes_are_numpys(mode, ours):
    array = normal(2, 3, 4, 5)
    wanted = np.pad(array, ((0, 0), (0, 0), (2, 1), (3, 0)), ours)
    np.testing.assert_array_equal(F.pad(fb.from_numpy(array), (3, 0, 2, 1), mode=mode).numpy(), wanted)


def test_a_fold_of_other_windows_is_refused_where_its_record_is_planned():
    from flambeau.eager.op.op import OPS

    with pytest.raises(RuntimeError, match=r"fold: 12 windows of \(2, 2\) given, \(36, 45\) has 35 x 44"):
        OPS["fold_windows"].meta_rule(fb.ones(1, 4, 12), (36, 45), (2, 2), (1, 1), (0, 0), (1, 1))


def test_fold_adds_up_what_unfold_took():
    array = normal(1, 2, 5, 5)
    ones = F.fold(F.unfold(fb.ones(1, 2, 5, 5), 3, padding=1), 5, 3, padding=1)
    both = F.fold(F.unfold(fb.from_numpy(array), 3, padding=1), 5, 3, padding=1)
    np.testing.assert_allclose(both.numpy(), array * ones.numpy(), rtol=1e-5, atol=1e-5)


def test_identity_grid_samples_the_image():
    array = normal(2, 3, 4, 5)
    theta = fb.tensor([[[1.0, 0, 0], [0, 1.0, 0]]]).expand(2, 2, 3)
    for align in (True, False):
        grid = F.affine_grid(theta, (2, 3, 4, 5), align_corners=align)
        np.testing.assert_allclose(F.grid_sample(fb.from_numpy(array), grid, align_corners=align).numpy(), array, atol=1e-5)


# -- dropout


def test_dropout2d_drops_whole_channels():
    fb.manual_seed(0)
    out = F.dropout2d(fb.ones(8, 100, 3, 3), 0.25).numpy().reshape(800, 9)
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (out == out[:, :1]).all() and 0.18 < (out[:, 0] == 0).mean() < 0.32


def test_alpha_dropout_keeps_mean_and_variance():
    fb.manual_seed(0)
    out = F.alpha_dropout(fb.randn(200, 200), 0.3, True)
    assert abs(out.mean().item()) < 0.02 and abs(out.std().item() - 1) < 0.02


# -- compiled


def test_a_small_network_compiles_to_one_graph():
    """Batch statistics are updated by the compiled call as by eager's."""

    def build():
        fb.manual_seed(0)
        return nn.Sequential(
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.GroupNorm(2, 4),
            nn.Upsample(scale_factor=2),
            nn.AvgPool2d(2),
            nn.ReflectionPad2d(1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    eager, other = build(), build()
    compiler.reset()
    compiled, x = fb.compile(other), normal(3, 4, 8, 8)
    for _ in range(2):
        inputs = [fb.from_numpy(x).requires_grad_() for _ in range(2)]
        wanted, actual = eager(inputs[0]), compiled(inputs[1])
        (wanted * wanted).sum().backward()
        (actual * actual).sum().backward()
        np.testing.assert_allclose(actual.detach().numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(inputs[1].grad.numpy(), inputs[0].grad.numpy(), rtol=1e-3, atol=1e-5)
    for a, b in zip(eager.state_dict().values(), other.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)
    seen = compiler.counters()
    assert (seen["breaks"], seen["fallbacks"]) == ({}, {})


@pytest.mark.parametrize("name,shape", [("LazyBatchNorm2d", (2, 5, 4, 4)), ("LazyInstanceNorm1d", (2, 5, 4))])
def test_lazy_norms_learn_their_channels(name, shape):
    norm = getattr(nn, name)()
    assert norm.num_features == 0
    out = norm(fb.from_numpy(normal(*shape)))
    assert type(norm) is getattr(nn, name[4:]) and out.shape == shape
    assert norm.weight.shape == (5,) and norm.running_var.shape == (5,) and bool((norm.weight == 1).all())
