"""Functions that are made of packages: these are imported when such a function is called, and without them it says what to install."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import flambeau as torch
x = torch.rand(3, 3, dtype=torch.float64) + 0.5
{call}
"""
CALLS = {
    "torch.special.airy_ai": "torch.special.airy_ai(x)",
    "torch.special.bessel_y1": "torch.compile(lambda x: torch.special.bessel_y1(x + 1))(x)",
    "torch.special.shifted_chebyshev_polynomial_w": "torch.special.shifted_chebyshev_polynomial_w(x, 3)",
    "torch.linalg.ldl_factor": "torch.linalg.ldl_factor(x)",
    "torch.linalg.ldl_solve": "torch.linalg.ldl_solve(torch.eye(3), torch.arange(3).int() + 1, torch.ones(3, 1))",
}
COMMON = """
for name in "lgamma digamma erf erfc erfinv erfcx i0 i0e i1 i1e ndtr ndtri log_ndtr sinc spherical_bessel_j0".split():
    found = getattr(torch.special if hasattr(torch.special, name) else torch, name)(x / 2)
    assert found.isfinite().all(), name
    if name != "spherical_bessel_j0":
        torch.compile(getattr(torch.special if hasattr(torch.special, name) else torch, name))(x.float() / 2)
torch.special.gammainc(x, x), torch.special.gammaincc(x, x), torch.special.zeta(x + 1, x), torch.polygamma(2, x)
torch.lobpcg(torch.eye(9), 1), torch.signal.windows.kaiser(5)
"""


def run(package, call):
    code = WITHOUT.format(package=package, call=call)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("name", CALLS)
def test_what_scipy_computes_names_it(name):
    done = run("scipy", CALLS[name])
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {name} needs scipy (No module named 'scipy") and last.endswith(
        "pip install flambeau[special]"
    )


def test_common_functions_need_no_scipy():
    done = run("scipy", COMMON)
    assert done.returncode == 0, done.stderr


def test_tensorboard_is_named():
    done = run("tensorboard", "torch.utils.tensorboard.SummaryWriter")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: torch.utils.tensorboard needs tensorboard (No module named 'tensorboard'")
    assert last.endswith("pip install flambeau[tensorboard]")


def test_import_loads_no_extra():
    code = 'import sys, flambeau; print([name for name in ("scipy", "tensorboard") if name in sys.modules])'
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_compiled_is_eager():
    import flambeau as torch

    x = torch.rand(7, generator=torch.Generator().manual_seed(0)) * 9
    for function in (
        lambda x: torch.special.bessel_j0(x) * 2 + torch.special.airy_ai(-x),
        lambda x: torch.special.legendre_polynomial_p(x / 9, torch.arange(7)) + x,
    ):
        assert torch.equal(torch.compile(function)(x), function(x))


def test_results_lie_as_their_input_does():
    import flambeau as torch

    x = torch.rand(3, 4).T
    assert torch.special.bessel_j0(x).stride() == x.stride() and torch.special.bessel_j0(torch.ones(())).shape == ()
