"""Models in the styles of popular repositories (styles/), with the same weights: PyTorch's numbers under `alias_torch()`, eagerly
and compiled, in two steps of SGD.

STYLES_BACKEND: the backend that compiles (default "eager": what is captured runs op by op).
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

FOLDER = pathlib.Path(__file__).parent
PROGRAM = """
import json, sys, traceback, warnings
warnings.filterwarnings("ignore")
kind, backend, chosen = sys.argv[1:4]
if kind != "torch":
    import flambeau
    flambeau.alias_torch()
import torch
from styles import MODELS, base

def filled(model):
    with torch.no_grad():
        for k, (name, p) in enumerate(sorted(model.named_parameters())):
            around = 1.0 if p.dim() == 1 and name.endswith("weight") else 0.0
            p.copy_(around + base.ramp(*p.shape, salt=k + 5) * (0.1 if p.dim() < 2 else 0.6))
    return model

def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [t for part in values for t in flat(part)]

def numbers(t):
    t = torch.view_as_real(t) if t.is_complex() else t
    return t.detach().double().flatten().tolist()[:200]

def steps(make):
    model, inputs, loss = make()
    filled(model)
    run = torch.compile(model, backend=backend) if kind == "compiled" else model
    if loss is None and not any(x.is_floating_point() for x in inputs if isinstance(x, torch.Tensor)):
        return dict(out=numbers(run(*inputs)), keys=list(model.state_dict()))
    found = dict(keys=list(model.state_dict()), losses=[], norms=[])
    for step in range(2):
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-2, momentum=0.9)
        optimizer.zero_grad()
        out = run(*inputs)
        value = loss(out) if loss else sum((t * t).mean() for t in flat(out))
        value.backward()
        found["norms"] += [float(p.grad.norm()) for p in model.parameters() if p.grad is not None]
        optimizer.step()
        found["losses"].append(value.item())
    return dict(found, out=[numbers(t) for t in flat(out)])

results = {}
for name, make in MODELS.items():
    if chosen in ("", name):
        torch.manual_seed(0)
        try:
            results[name] = steps(make)
        except Exception:
            results[name] = traceback.format_exc()
print(json.dumps(results))
"""
NAMES = """diffusion wavenet radiance_field perceiver graph_network policy_gradient deep_q llama llama_decoding mamba s4 style_generator
translation clip masked_autoencoder vq_vae detr""".split()
KEPT = {}


def run(kind, name=""):
    """What the models of one kind of process give, all of them in one."""
    if kind not in KEPT:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, kind, os.environ.get("STYLES_BACKEND", "eager"), name],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            env=dict(os.environ, OMP_NUM_THREADS="1", FLAMBEAU_THREADS="1"),
        )
        assert done.returncode == 0, done.stderr[-3000:]
        KEPT[kind] = json.loads(done.stdout.splitlines()[-1])
    return KEPT[kind]


@pytest.mark.parametrize("kind", ["alias", "compiled"])
@pytest.mark.parametrize("name", NAMES)
def test_gives_torchs_numbers(name, kind):
    want, got = run("torch"), run(kind)
    assert want.keys() == set(NAMES)
    want, got = want[name], got[name]
    assert isinstance(want, dict), want
    assert isinstance(got, dict), got
    assert got["keys"] == want["keys"]
    for key in want.keys() - {"keys"}:
        close(got[key], want[key], 1e-4 if key == "losses" else 1e-3, key)


def close(got, want, tolerance, where):
    """Lists of numbers are equal up to the tolerance, relative to the largest."""
    assert len(got) == len(want), where
    if want and isinstance(want[0], list):
        for k, (a, b) in enumerate(zip(got, want)):
            close(a, b, tolerance, f"{where}[{k}]")
    else:
        assert got == pytest.approx(want, rel=tolerance, abs=tolerance * max(map(abs, want), default=0), nan_ok=True), where
