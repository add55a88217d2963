"""Forms of calls that PyTorch still takes, results with names, versions that compare, complex draws."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau import return_types, torch_version

x, y, z = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0]), torch.tensor([2.0, 4.0])
m = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
b = torch.stack([m, m + 1])

FORMS = {
    "add": (lambda: torch.add(x, 2, y), lambda: x + 2 * y),
    "add_": (lambda: x.clone().add_(2, y), lambda: x + 2 * y),
    "x.add": (lambda: x.add(2, y), lambda: x + 2 * y),
    "sub": (lambda: torch.sub(x, 2, y), lambda: x - 2 * y),
    "sub_": (lambda: x.clone().sub_(2, y), lambda: x - 2 * y),
    "addcmul": (lambda: torch.addcmul(x, 2, y, z), lambda: x + 2 * y * z),
    "addcmul_": (lambda: x.clone().addcmul_(2, y, z), lambda: x + 2 * y * z),
    "addcdiv": (lambda: torch.addcdiv(x, 2, y, z), lambda: x + 2 * y / z),
    "addcdiv_": (lambda: x.clone().addcdiv_(2, y, z), lambda: x + 2 * y / z),
    "addmm": (lambda: torch.addmm(0.5, m, 2, m, m), lambda: 0.5 * m + 2 * (m @ m)),
    "addmm, beta": (lambda: torch.addmm(0.5, m, m, m), lambda: 0.5 * m + m @ m),
    "x.addmm": (lambda: m.addmm(0.5, 2, m, m), lambda: 0.5 * m + 2 * (m @ m)),
    "x.addmm, beta": (lambda: m.addmm(0.5, m, m), lambda: 0.5 * m + m @ m),
    "addmm_": (lambda: m.clone().addmm_(0.5, 2, m, m), lambda: 0.5 * m + 2 * (m @ m)),
    "addmv": (lambda: torch.addmv(0.5, x, 2, m, y), lambda: 0.5 * x + 2 * (m @ y)),
    "addr": (lambda: torch.addr(0.5, m, 2, x, y), lambda: 0.5 * m + 2 * torch.outer(x, y)),
    "baddbmm": (lambda: b.baddbmm(0.5, b, b), lambda: 0.5 * b + b @ b),
    "addbmm": (lambda: torch.addbmm(0.5, m, 2, b, b), lambda: 0.5 * m + 2 * (b @ b).sum(0)),
}


@pytest.mark.parametrize("name", FORMS)
def test_numbers_before_tensors(name):
    """They are taken with a warning, as PyTorch takes them."""
    call, expected = FORMS[name]
    with pytest.warns(UserWarning, match="deprecated form"):
        found = call()
    assert torch.allclose(found, expected())


def test_numbers_before_tensors_in_captured_code():
    with pytest.warns(UserWarning, match="deprecated form"):
        assert torch.compile(lambda x, y: x.clone().add_(2, y), backend="eager")(x, y).tolist() == [7.0, 12.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.add(x, y, z),
        lambda: torch.add(x, "a", y),
        lambda: torch.addmm(1, m, 2, m, m, 3),
        lambda: x.add_(1, 2),
        lambda: torch.addcmul(x, 1, 2, y, z),
    ],
)
def test_other_forms_are_refused(call):
    with pytest.raises(TypeError, match=r"takes \d tensors"):
        call()


def test_sizes_and_bounds():
    assert torch.ones(1).broadcast_to(3).shape == (3,) and torch.broadcast_to(torch.ones(2, 1), (2, 3)).shape == (2, 3)
    drawn = torch.randint_like(torch.zeros(50), high=3)
    assert set(drawn.tolist()) == {0.0, 1.0, 2.0} and set(torch.randint_like(torch.zeros(50), 2, high=4).tolist()) == {2.0, 3.0}
    with pytest.raises(TypeError, match="high"):
        torch.randint_like(torch.zeros(2))
    assert torch.ones(1).name is None


@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_draws(draw, dtype):
    """The parts are independent; a complex normal number has the variance 1."""
    torch.manual_seed(3)
    parts = torch.view_as_real(draw(20000, dtype=dtype))
    mean, spread = (0.5, 12**-0.5) if draw is torch.rand else (0.0, 0.5**0.5)
    assert parts.dtype is dtype.to_real() and np.abs(parts.numpy().mean(0) - mean).max() < 0.02
    assert np.abs(parts.numpy().std(0) - spread).max() < 0.02 and abs(np.corrcoef(parts.numpy().T)[0, 1]) < 0.03
    like = torch.rand_like if draw is torch.rand else torch.randn_like
    assert like(torch.zeros(3, dtype=dtype)).dtype is dtype and draw(0, dtype=dtype).shape == (0,)


def test_results_have_names():
    found = torch.tensor([[3.0, 1.0]]).max(1)
    assert type(found) is return_types.max and found.values.item() == 3 and found[1].item() == 0
    assert repr(found) == "torch.return_types.max(\nvalues=tensor([3.]),\nindices=tensor([0]))"
    assert type(torch.slogdet(m)) is return_types.slogdet and type(torch.linalg.slogdet(m)) is return_types.linalg_slogdet
    assert isinstance(m.sort(), return_types.sort) and {"topk", "svd", "linalg_svd", "frexp"} <= set(dir(return_types))
    for copied in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(copied) is return_types.max and copied.values.item() == 3
    named = torch.compile(lambda x: x.max(1), backend="eager")(m)
    assert type(named) is return_types.max and named.indices.tolist() == [1, 1]


@pytest.mark.parametrize(
    "name, cls", {"uint8": "Byte", "uint16": "UInt16", "float8_e5m2": "Float8_e5m2", "complex64": "ComplexFloat"}.items()
)
def test_types_have_the_names_of_classes(name, cls):
    t = torch.zeros(2).to(getattr(torch, name))
    assert t.type() == f"torch.{cls}Tensor" and torch.zeros(2).type(t.type()).dtype is t.dtype


def test_messages_have_the_names_of_types_in_cpp():
    with pytest.raises(RuntimeError, match=r"got: c10::complex<float> != float"):
        torch.mm(m.to(torch.complex64), m)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_softmax_of_float8_is_not_read_as_another_type(dtype):
    x = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
    assert torch.allclose(torch.softmax(x.to(dtype), -1).float(), torch.softmax(x, -1), atol=0.05)


def test_versions_compare_by_numbers():
    version = torch.version.__version__
    assert (
        version == "2.13.0" == str(version)
        and version >= "2.9"
        and version > (1, 13)
        and not version < "2.10"
        and version < "2.13.1"
    )
    assert version == (2, 13) and version != "2.13.1" and hash(version) == hash("2.13.0") and version.split(".")[0] == "2"
    kinds = ["2.13.0.dev20260101", "2.13.0a0", "2.13.0rc1", "2.13.0", "2.13.0.1"]
    assert sorted(map(torch_version.TorchVersion, kinds[::-1])) == kinds and torch_version.TorchVersion("2.13.0+cpu") == "2.13"
