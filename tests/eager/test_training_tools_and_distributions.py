"""Autocast, gradient scaling, old constructors, lists of tensors, optimizers and distributions, without PyTorch."""

import math
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F


def test_autocast_types():
    layer, x = nn.Linear(4, 4), flambeau.randn(3, 4)
    with flambeau.autocast("cpu"):
        y = layer(x)
        assert y.dtype is flambeau.bfloat16 and (x @ x.T).dtype is flambeau.bfloat16
        assert F.mse_loss(y, y).dtype is flambeau.float32 and y.softmax(-1).dtype is flambeau.bfloat16
        assert (x.double() @ x.T.double()).dtype is flambeau.float64
        with flambeau.autocast("cpu", enabled=False):
            assert layer(x).dtype is flambeau.float32
        assert layer(x).dtype is flambeau.bfloat16 and flambeau.is_autocast_enabled("cpu")
    assert layer(x).dtype is flambeau.float32 and not flambeau.is_autocast_enabled("cpu")
    y.float().sum().backward()
    assert layer.weight.grad.dtype is flambeau.float32


def test_autocast_sees_changed_weights():
    layer, x = nn.Linear(2, 1, bias=False), flambeau.ones(1, 2)
    with flambeau.autocast("cpu"):
        layer(x)
        with flambeau.no_grad():
            layer.weight.fill_(3.0)
        assert layer(x).item() == 6.0


def test_autocast_without_cuda_warns_and_does_nothing():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = flambeau.autocast("cuda")
    with context:
        assert (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).dtype is flambeau.float32


def test_grad_scaler_skips_infinite_steps():
    p = flambeau.ones(2, requires_grad=True)
    optimizer, scaler = optim.SGD([p], lr=0.1), flambeau.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (1.0, 1.0, math.inf, 1.0):
        before = p.tolist()
        optimizer.zero_grad()
        scaler.scale((p * p).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        assert (p.tolist() == before) == math.isinf(factor)
    assert scales == [8.0, 16.0, 8.0, 8.0]
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


def test_old_constructors():
    assert flambeau.FloatTensor(2, 3).shape == (2, 3) and flambeau.LongTensor([1.0, 2.0]).tolist() == [1, 2]
    assert isinstance(flambeau.zeros(1), flambeau.FloatTensor)
    assert not isinstance(flambeau.zeros(1), flambeau.LongTensor)
    assert flambeau.ones(2).new([1, 2]).dtype is flambeau.float32 and flambeau.ones(2).new(3, 2).shape == (3, 2)
    with pytest.raises(TypeError, match="expected FloatTensor"):
        flambeau.FloatTensor(flambeau.zeros(1, dtype=flambeau.int64))


def test_lists_of_tensors():
    a, b = [flambeau.ones(2), flambeau.ones(3)], [flambeau.full((2,), 2.0), flambeau.full((3,), 3.0)]
    assert [t.tolist() for t in flambeau._foreach_add(a, b, alpha=2)] == [[5, 5], [7, 7, 7]]
    flambeau._foreach_lerp_(a, b, 0.5)
    flambeau._foreach_mul_(a, scalar=2)
    assert [t.tolist() for t in a] == [[3, 3], [4, 4, 4]]
    assert [round(t.item(), 4) for t in flambeau._foreach_norm(a)] == [4.2426, 6.9282]
    with pytest.raises(RuntimeError, match="same number of tensors"):
        flambeau._foreach_add(a, b[:1])


OPTIMIZERS = {
    "RMSprop": dict(lr=0.05, momentum=0.5, centered=True),
    "Adagrad": dict(lr=0.5),
    "Adadelta": dict(lr=50.0),
    "Adamax": dict(lr=0.1),
    "NAdam": dict(lr=0.1),
    "RAdam": dict(lr=0.3),
    "ASGD": dict(lr=0.05),
    "Rprop": dict(lr=0.05),
    "LBFGS": dict(lr=0.5, max_iter=4),
    "SGD": dict(lr=0.05),
    "Adam": dict(lr=0.1),
    "AdamW": dict(lr=0.1),
}


def minimised(name, steps, start=None, state=None):
    """Steps on a quadratic; (loss, parameter, optimizer)."""
    p = (flambeau.tensor([3.0, -2.0, 1.0]) if start is None else start.detach().clone()).requires_grad_()
    scale, optimizer = flambeau.tensor([1.0, 3.0, 0.5]), getattr(optim, name)([p], **OPTIMIZERS[name])
    if state is not None:
        optimizer.load_state_dict(state)

    def closure():
        optimizer.zero_grad()
        loss = (scale * p**2).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return closure().item(), p, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_minimise_and_resume(name):
    first, p, optimizer = minimised(name, 20)
    assert first < 20.5 / 3
    whole = minimised(name, 40)[1]
    resumed = minimised(name, 20, p, optimizer.state_dict())[1]
    np.testing.assert_allclose(resumed.detach().numpy(), whole.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_sparse_adam_refuses_dense_gradients():
    p = flambeau.ones(2, requires_grad=True)
    optimizer = optim.SparseAdam([p])
    p.sum().backward()
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optimizer.step()


def test_schedules():
    def rates(make, steps=6):
        optimizer = optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        schedule, seen = make(optimizer), []
        for _ in range(steps):
            seen.append(round(optimizer.param_groups[0]["lr"], 6))
            optimizer.step()
            schedule.step()
        return seen

    s = optim.lr_scheduler
    assert rates(lambda o: s.CosineAnnealingWarmRestarts(o, 2)) == [1, 0.5, 1, 0.5, 1, 0.5]
    assert rates(lambda o: s.PolynomialLR(o, 4)) == [1, 0.75, 0.5, 0.25, 0, 0]
    assert rates(lambda o: s.CyclicLR(o, 0.0, 1.0, 2)) == [0, 0.5, 1, 0.5, 0, 0.5]
    assert rates(lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.1)]), 3) == [0.5, 0.05, 0.01]
    one = rates(lambda o: s.OneCycleLR(o, 2.0, 6))
    assert one[0] == 0.08 and max(one) <= 2.0 and one[-1] < 1e-4
    optimizer = optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    plateau = s.ReduceLROnPlateau(optimizer, patience=1)
    for metric in (1.0, 1.0, 1.0, 1.0):
        plateau.step(metric)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_averaged_model():
    model = nn.Linear(2, 1)
    mean, ema = (
        optim.swa_utils.AveragedModel(model),
        optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5)),
    )
    for value in (1.0, 3.0):
        nn.init.constant_(model.weight, value)
        mean.update_parameters(model)
        ema.update_parameters(model)
    assert mean.module.weight.tolist() == [[2, 2]] and ema.module.weight.tolist() == [[2, 2]] and int(mean.n_averaged) == 2


def test_initialisers():
    q = nn.init.orthogonal_(flambeau.empty(3, 5, dtype=flambeau.float64), gain=2)
    np.testing.assert_allclose((q @ q.T).numpy(), 4 * np.eye(3), atol=1e-12)
    w = nn.init.dirac_(flambeau.empty(4, 2, 3), groups=2)
    x = flambeau.randn(1, 4, 5)
    assert F.conv1d(x, w, padding=1, groups=2).equal(x)
    assert nn.init.sparse_(flambeau.empty(10, 3), 0.3).eq(0).sum(0).tolist() == [3, 3, 3]
    with pytest.warns(FutureWarning, match="deprecated"):
        nn.init.xavier_uniform(flambeau.empty(2, 2))


D = flambeau.distributions


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.Normal(flambeau.tensor([0.5, -1.0]), flambeau.tensor([1.0, 2.0])),
        lambda: D.Gamma(flambeau.tensor([0.5, 3.0]), 2.0),
        lambda: D.Beta(flambeau.tensor([2.0, 0.7]), flambeau.tensor([1.0, 3.0])),
        lambda: D.Laplace(flambeau.tensor([1.0]), 0.5),
        lambda: D.Uniform(flambeau.tensor([0.0, 1.0]), flambeau.tensor([1.0, 3.0])),
        lambda: D.Exponential(flambeau.tensor([2.0])),
        lambda: D.Poisson(flambeau.tensor([0.7, 4.0])),
        lambda: D.Binomial(10, flambeau.tensor([0.2, 0.9])),
        lambda: D.Geometric(flambeau.tensor([0.3, 0.8])),
        lambda: D.LogNormal(flambeau.tensor([0.0]), flambeau.tensor([0.3])),
        lambda: D.StudentT(flambeau.tensor([8.0])),
        lambda: D.Gumbel(flambeau.tensor([1.0]), flambeau.tensor([2.0])),
        lambda: D.Dirichlet(flambeau.tensor([0.5, 1.0, 2.0])),
        lambda: D.Multinomial(6, flambeau.tensor([0.2, 0.3, 0.5])),
        lambda: D.MultivariateNormal(flambeau.zeros(2), flambeau.tensor([[2.0, 0.5], [0.5, 1.0]])),
        lambda: D.MixtureSameFamily(D.Categorical(flambeau.tensor([0.3, 0.7])), D.Normal(flambeau.tensor([0.0, 4.0]), 1.0)),
    ],
)
def test_samples_have_the_moments(make):
    flambeau.manual_seed(3)
    d = make()
    count = 40000
    x = d.sample((count,)).double()
    assert tuple(x.shape) == (count, *d.batch_shape, *d.event_shape)
    mean, variance = d.mean.double(), d.variance.double()
    assert bool(((x.mean(0) - mean).abs() <= 5 * (variance / count).sqrt()).all())
    assert bool(((x.var(0) - variance).abs() <= 0.15 * variance).all())


def test_gradients_of_samples():
    """Reparametrised: the gradient of the mean sample is that of the mean."""
    flambeau.manual_seed(5)
    a = flambeau.tensor(2.5, requires_grad=True)
    (g,) = flambeau.autograd.grad(D.Gamma(a, flambeau.tensor(2.0)).rsample((20000,)).mean(), a)
    assert g.item() == pytest.approx(0.5, abs=0.02)
    loc = flambeau.tensor(1.0, requires_grad=True)
    (g,) = flambeau.autograd.grad(D.Normal(loc, 2.0).rsample((10,)).mean(), loc)
    assert g.item() == pytest.approx(1.0)


def test_categorical_and_divergences():
    p, q = D.Categorical(flambeau.tensor([0.25, 0.25, 0.5])), D.Categorical(logits=flambeau.zeros(3))
    assert p.log_prob(flambeau.tensor([2, 0])).exp().tolist() == pytest.approx([0.5, 0.25])
    assert D.kl_divergence(p, q).item() == pytest.approx(math.log(3) - p.entropy().item(), abs=1e-6)
    n, m = D.Normal(0.0, 1.0), D.Normal(1.0, 2.0)
    assert D.kl_divergence(n, m).item() == pytest.approx(math.log(2) + 2 / 8 - 0.5)
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(p, n)


def test_distributions_check_their_values():
    with pytest.raises(ValueError, match="Expected parameter scale"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="within the support"):
        D.Bernoulli(0.5).log_prob(flambeau.tensor(0.5))
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        D.Bernoulli()


def test_wrappers_of_one_process():
    model = nn.DataParallel(nn.Linear(2, 2))
    assert list(model.state_dict()) == ["module.weight", "module.bias"] and model(flambeau.ones(1, 2)).shape == (1, 2)
    with pytest.raises(ValueError, match="process group"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    shares = [list(flambeau.utils.data.DistributedSampler(range(10), 3, rank, shuffle=False)) for rank in range(3)]
    assert shares == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    with pytest.raises(RuntimeError, match="torch.nn.parallel.replicate"):
        nn.parallel.replicate(model, [0])


def test_factorisations_rebuild_their_matrices():
    x = flambeau.randn(2, 4, 3, dtype=flambeau.float64)
    square = x.mT @ x + flambeau.eye(3, dtype=flambeau.float64)
    parts = flambeau.linalg.svd(x, full_matrices=False)
    q, r = flambeau.linalg.qr(x)
    low, lu = flambeau.linalg.cholesky(square), flambeau.linalg.lu(square)
    identity = flambeau.eye(3, dtype=flambeau.float64).expand(2, 3, 3)
    for made, wanted in (
        ((parts.U * parts.S.unsqueeze(-2)) @ parts.Vh, x),
        (q @ r, x),
        (low @ low.mT, square),
        (flambeau.linalg.inv(square) @ square, identity),
        (lu.P @ lu.L @ lu.U, square),
    ):
        np.testing.assert_allclose(made.numpy(), wanted.numpy(), atol=1e-10)
    with pytest.raises(flambeau.linalg.LinAlgError, match="positive-definite"):
        flambeau.linalg.cholesky(-square)
    with pytest.raises(RuntimeError, match="square matrices"):
        flambeau.linalg.inv(x)


def test_transforms_invert():
    x = flambeau.randn(3, 16, dtype=flambeau.float64)
    for there, back in (("fft", "ifft"), ("rfft", "irfft"), ("fft2", "ifft2"), ("rfftn", "irfftn"), ("ihfft", "hfft")):
        for norm in (None, "ortho", "forward"):
            y = getattr(flambeau.fft, back)(getattr(flambeau.fft, there)(x, norm=norm), norm=norm)
            np.testing.assert_allclose((y.real if y.is_complex() else y).numpy(), x.numpy(), atol=1e-12)
    window = flambeau.hann_window(8, dtype=flambeau.float64)
    frames = flambeau.stft(x, 8, 2, window=window, return_complex=True)
    np.testing.assert_allclose(flambeau.istft(frames, 8, 2, window=window, length=16).numpy(), x.numpy(), atol=1e-12)


def test_einsum_refuses_words():
    with pytest.raises(RuntimeError, match=r"must be in \[a-zA-Z\]"):
        flambeau.einsum("a_b->a", flambeau.ones(2, 2, 2))
    for equation in ({}, [], 3, None, b"ab"):
        with pytest.raises(TypeError, match=rf"argument 'equation' .* must be str, not {type(equation).__name__}"):
            flambeau.einsum(equation, flambeau.ones(2, 2))


def test_axis_is_dim():
    x = flambeau.arange(6.0).reshape(2, 3)
    assert flambeau.stack([x, x], axis=1).shape == (2, 2, 3) and x.softmax(axis=1).shape == (2, 3)
    assert x.unsqueeze(axis=0).shape == (1, 2, 3) and x.sum(axis=0, keepdims=True).shape == (1, 3)


def test_settings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.set_float32_matmul_precision("high")
        flambeau.use_deterministic_algorithms(True)
    assert flambeau.get_float32_matmul_precision() == "high" and flambeau.are_deterministic_algorithms_enabled()
    flambeau.use_deterministic_algorithms(False)
    flambeau.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="precision"):
        flambeau.set_float32_matmul_precision("low")


def test_a_subclass_that_is_made_of_other_arguments_has_an_expand_of_its_own():
    """As in PyTorch: `expand` of the base would leave it half made."""

    class Level(flambeau.distributions.Categorical):
        def __init__(self, level):
            self.level = level
            super().__init__(logits=flambeau.stack([level, -level], -1))

    with pytest.raises(NotImplementedError, match="Subclass Level of Categorical that defines a custom __init__"):
        Level(flambeau.zeros(1)).expand((3,))

    class Same(flambeau.distributions.Normal):
        pass

    assert Same(flambeau.zeros(1), flambeau.ones(1)).expand((3,)).batch_shape == (3,)
    assert flambeau.distributions.HalfNormal(flambeau.ones(1)).expand((3,)).batch_shape == (3,)
