"""Programs that use packages written for PyTorch, run in fresh processes: under `alias_torch()`, and with the real torch
where a Python that has it is known (PEER_PYTHON, else this one). A program prints one line of JSON last.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig

import pytest

START = """
import sys, json, os
if sys.argv[1] == "torch":
    import torch.library        # torchvision's own kernels need a build with them: their shape functions are left out
    torch.library.register_fake = lambda *a, **k: (lambda f: f)
else:
    import flambeau
    flambeau.alias_torch()
import torch

def filled(shape, salt, scale):
    n = 1
    for s in shape:
        n *= s
    flat = (torch.arange(n) * 7919 + 104729 * (salt + 1)) % 10007
    return ((flat.to(torch.float32) / 10007 - 0.5) * 2 * scale).reshape(tuple(shape))

def fill(model, scale=0.3):
    "Weights from integer arithmetic: the same under both libraries, whose random numbers differ."
    with torch.no_grad():
        for i, (name, p) in enumerate(sorted(model.named_parameters())):
            base = 1.0 if p.dim() == 1 and name.endswith("weight") else 0.0
            p.copy_(base + filled(p.shape, i, 0.1 if p.dim() < 2 else scale))
    return model

def numbers(x):
    return x.detach().double().flatten().tolist()
"""


def peer():
    """The Python whose torch the results are compared with; None if there is none."""
    return os.environ.get("PEER_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else None)


def run(python, kind, program, *args):
    """What the program prints last. Another Python finds the packages of this one (it has torch, they need not be there)."""
    env = dict(os.environ, OMP_NUM_THREADS="1", FLAMBEAU_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    if python != sys.executable:
        env["PYTHONPATH"] = sysconfig.get_path("purelib")
    done = subprocess.run([python, "-W", "ignore", "-c", START + program, kind, *args], capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{kind}:\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """runs(program, *args) -> (what it gives here, what it gives with torch or None), run once in a module; each run has a
    folder of its own in FOLDER."""

    def there(kind, python, program, args):
        folder = tmp_path_factory.mktemp(kind)
        return run(python, kind, f"FOLDER = {str(folder)!r}\n" + program, *args)

    @functools.cache
    def answer(program, *args):
        try:
            return there("flambeau", sys.executable, program, args), peer() and there("torch", peer(), program, args)
        except AssertionError as error:
            return error  # told to every test of the program, which runs once all the same

    def result(program, *args):
        found = answer(program, *args)
        if isinstance(found, AssertionError):
            pytest.fail(str(found), pytrace=False)
        return found

    return result


@pytest.fixture
def both(runs):
    """both(program, *args): what the program gives here (or the part of it), after comparing that with the real torch."""

    def compare(program, *args, part=None, tolerance=1e-4):
        got, want = runs(program, *args)
        got, want = (got, want) if part is None else (got[part], want and want[part])
        if want is not None:
            agree(got, want, tolerance, part or "result")
        return got

    return compare


def agree(got, want, tolerance, where):
    """Lists of floats agree up to the tolerance relative to the largest, everything else is equal."""
    if isinstance(want, dict):
        assert got.keys() == want.keys(), where
        for key in want:
            agree(got[key], want[key], tolerance, f"{where}.{key}")
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=tolerance, abs=tolerance, nan_ok=True), where
    elif isinstance(want, list) and want and all(isinstance(x, float) for x in want):
        size = max([1e-3, *(abs(x) for x in want if abs(x) < 1e300)])
        assert got == pytest.approx(want, rel=tolerance, abs=tolerance * size, nan_ok=True), where
    elif isinstance(want, list):
        assert len(got) == len(want), where
        for k, (a, b) in enumerate(zip(got, want)):
            agree(a, b, tolerance, f"{where}[{k}]")
    else:
        assert got == want, where
