"""Complex tensors: parts are views, gradients follow the convention dL/dx + i dL/dy (against differences)."""

import numpy as np
import pytest

import flambeau
from flambeau.eager.autograd import grad

Z = np.array([[1 + 2j, -0.5 + 0.3j], [0.7 - 1.1j, 2j]])


def numeric(f, z, step=1e-6):
    """dL/dx + i dL/dy by central differences."""
    out = np.zeros_like(z)
    for at in np.ndindex(z.shape):
        for unit in (1.0, 1j):
            up, down = z.copy(), z.copy()
            up[at] += step * unit
            down[at] -= step * unit
            out[at] += unit * (f(flambeau.tensor(up)).item() - f(flambeau.tensor(down)).item()) / (2 * step)
    return out


LOSSES = {
    "abs": lambda z: z.abs().sum(),
    "angle": lambda z: z.angle().sum(),
    "real": lambda z: (z.real**2).sum(),
    "imag": lambda z: (z.imag**3).sum(),
    "conj": lambda z: (z.conj() * z * z).real.sum(),
    "sgn": lambda z: (flambeau.sgn(z) * (1 + 2j)).real.sum(),
    "mul": lambda z: (z * z * (2 - 1j)).imag.sum(),
    "div": lambda z: ((1 + 1j) / z).real.sum(),
    "exp": lambda z: z.exp().imag.sum(),
    "matmul": lambda z: (z @ z).abs().sum(),
    "view": lambda z: (flambeau.view_as_real(z) ** 2).sum(),
    "norm": lambda z: flambeau.linalg.vector_norm(z),
    "inv": lambda z: flambeau.linalg.inv(z).real.sum(),
    "fft": lambda z: flambeau.fft.fft(z).abs().sum(),
    "irfft": lambda z: (flambeau.fft.irfft(z) ** 2).sum(),
    "polar": lambda z: (flambeau.polar(z.abs(), z.angle()) * (1 + 3j)).real.sum(),
    "cumsum": lambda z: z.cumsum(1).abs().sum(),
    "index": lambda z: z[0, 1:].abs().sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_against_differences(name):
    z = flambeau.tensor(Z, requires_grad=True)
    (g,) = grad(LOSSES[name](z), [z])
    np.testing.assert_allclose(g.numpy(), numeric(LOSSES[name], Z), rtol=1e-6, atol=1e-7)


def test_real_operand_gets_a_real_gradient():
    x = flambeau.tensor([1.0, 2.0], dtype=flambeau.float64, requires_grad=True)
    (x * flambeau.tensor([1 + 2j, 3 - 1j], dtype=flambeau.complex128)).imag.sum().backward()
    assert x.grad.dtype is flambeau.float64 and x.grad.tolist() == [2.0, -1.0]


def test_parts_are_views():
    z = flambeau.tensor(Z)
    z.real.mul_(2)
    z.imag[0] = 0
    flambeau.view_as_real(z)[1, 1] = flambeau.tensor([5.0, 6.0], dtype=flambeau.float64)
    assert z.tolist() == [[2, -1], [1.4 - 1.1j, 5 + 6j]]
    x = flambeau.zeros(2, 2)
    flambeau.view_as_complex(x).add_(1 - 1j)
    assert x.tolist() == [[1, -1], [1, -1]]
    assert z.real.untyped_storage() is z.untyped_storage() and z.real.stride() == (4, 2)


def test_writes_through_parts_reach_autograd():
    z = flambeau.tensor(Z, requires_grad=True)
    w = z * 1
    w.real.mul_(3)
    w.imag[0].zero_()
    (w.real.sum() + w.imag.sum()).backward()
    assert z.grad.tolist() == [[3, 3], [3 + 1j, 3 + 1j]]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: flambeau.view_as_real(flambeau.ones(2)), "only supported for complex"),
        (lambda: flambeau.view_as_complex(flambeau.ones(3)), "last dimension of size 2"),
        (lambda: flambeau.view_as_complex(flambeau.ones(2, 2).t()), "last dimension with stride 1"),
        (lambda: flambeau.ones(2).imag, "imag is not implemented"),
        (lambda: flambeau.complex(flambeau.ones(1), flambeau.ones(1).double()), "Expected object of scalar type"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()
