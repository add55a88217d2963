"""Which type comes out under autocast where the operands' types differ, as after a layer that ran in bfloat16."""

import pytest

import flambeau as fb
import flambeau.nn.functional as F
from flambeau import nn

LOW, FULL = fb.bfloat16, fb.float32
x, low, image, row = fb.ones(2, 3, 3), fb.ones(2, 3, 3, dtype=LOW), fb.ones(2, 3, 4, 4), fb.ones(3)

CASES = {  # PyTorch 2.13's answers
    "conv1d": (lambda: F.conv1d(low, fb.ones(3, 3, 1)), LOW),
    "conv2d": (lambda: F.conv2d(image.to(LOW), fb.ones(3, 3, 1, 1), row), LOW),
    "conv2d weight": (lambda: F.conv2d(image, fb.ones(3, 3, 1, 1, dtype=LOW), row), LOW),
    "conv_transpose2d": (lambda: F.conv_transpose2d(image.to(LOW), fb.ones(3, 3, 1, 1), row), LOW),
    "mm": (lambda: fb.mm(low[0], x[0]), LOW),
    "bmm": (lambda: fb.bmm(low, x), LOW),
    "addmm": (lambda: fb.addmm(row, low[0], x[0]), LOW),
    "baddbmm": (lambda: fb.baddbmm(x, low, x), LOW),
    "addbmm": (lambda: fb.addbmm(x[0], low, x), LOW),
    "attention": (lambda: F.scaled_dot_product_attention(low, x, x, fb.zeros(3, 3)), LOW),
    "prelu": (lambda: F.prelu(low, fb.ones(1)), LOW),
    "lstm": (lambda: nn.LSTM(3, 3)(low)[0], LOW),
    "gru": (lambda: nn.GRU(3, 3)(x)[0], FULL),
    "gru cell": (lambda: nn.GRUCell(3, 3)(x[0]), FULL),
    "two convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.Tanh(), nn.Conv2d(3, 2, 1))(image), LOW),
}


@pytest.mark.parametrize("name", CASES)
def test_type(name):
    call, wanted = CASES[name]
    with fb.autocast("cpu", dtype=LOW):
        assert call().dtype is wanted


def test_float64_is_not_cast():
    with fb.autocast("cpu", dtype=LOW), pytest.raises(RuntimeError, match="should be the same"):
        F.conv2d(image.double(), fb.ones(3, 3, 1, 1))


def test_outside_types_must_agree():
    with pytest.raises(RuntimeError, match="should be the same"):
        F.conv2d(image.to(LOW), fb.ones(3, 3, 1, 1))
    with pytest.raises(ValueError, match="RNN input dtype"):
        nn.LSTM(3, 3)(low)
    with pytest.raises(RuntimeError, match="both inputs should have same dtype"):
        fb.tensordot(low, x)


def test_gradients_reach_the_weights_in_their_type():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Tanh(), nn.Conv2d(3, 2, 1))
    with fb.autocast("cpu", dtype=LOW):
        loss = net(image).float().sum()
    loss.backward()
    assert all(p.grad.dtype is FULL and p.grad.abs().sum() > 0 for p in net.parameters())
