"""Models of third-party packages, unmodified: under `alias_torch()` they give PyTorch's numbers.

Each model runs three times in fresh processes, with the real torch, with the alias, and captured as one graph: evaluation in
float32, then two training steps in float64 (batch norm over four images amplifies float32's rounding a thousandfold, in
PyTorch too). Weights and
inputs come from integer arithmetic, so that no random numbers are needed. Skipped where torch or the package is absent.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

MODELS = {
    "torchvision.resnet18": "torchvision.models.resnet18(num_classes=7)",
    "torchvision.mobilenet_v3_small": "torchvision.models.mobilenet_v3_small(num_classes=7, dropout=0.0)",
    "torchvision.densenet": "torchvision.models.DenseNet(8, (2, 2), 16, num_classes=7)",
    "torchvision.shufflenet": "torchvision.models.shufflenet_v2_x0_5(num_classes=7)",
    "torchvision.squeezenet": "torchvision.models.squeezenet1_1(num_classes=7, dropout=0.0)",
    "torchvision.vit": "torchvision.models.VisionTransformer(64, 16, 2, 2, 32, 64, num_classes=7)",
    "torchvision.swin": "torchvision.models.SwinTransformer([4, 4], 16, [2, 2], [2, 2], [4, 4], num_classes=7, "
    "stochastic_depth_prob=0.0)",
    "vit_pytorch.vit": "vit_pytorch.ViT(image_size=64, patch_size=16, num_classes=7, dim=32, depth=2, heads=2, mlp_dim=64)",
    "vit_pytorch.simple_vit": "vit_pytorch.SimpleViT(image_size=64, patch_size=16, num_classes=7, dim=32, depth=2, "
    "heads=2, mlp_dim=64)",
    "vit_pytorch.cvt": "importlib.import_module('vit_pytorch.cvt').CvT(num_classes=7, s1_emb_dim=16, s1_heads=1, "
    "s1_depth=1, s2_emb_dim=24, s2_heads=1, s2_depth=1, s3_emb_dim=32, s3_heads=2, s3_depth=1)",
}

PROGRAM = """
import importlib, json, sys
if sys.argv[1] != "torch":
    import flambeau
    flambeau.alias_torch()
else:
    import torch.library        # torchvision's own kernels need a build with them: their shape functions are left out
    torch.library.register_fake = lambda *a, **k: (lambda f: f)
import torch
package = sys.argv[2].partition(".")[0]
globals()[package] = importlib.import_module(package)
if package == "torchvision":
    import torchvision.models

def filled(shape, salt, scale):
    n = 1
    for s in shape:
        n *= s
    flat = (torch.arange(n) * 7919 + 104729 * (salt + 1)) % 10007
    return ((flat.to(torch.float32) / 10007 - 0.5) * 2 * scale).reshape(shape)

torch.manual_seed(0)
model = eval(sys.argv[3])
with torch.no_grad():
    for i, (name, p) in enumerate(sorted(model.named_parameters())):
        base = 1.0 if p.dim() == 1 and name.endswith("weight") else 0.0
        scale = 0.1 if p.dim() < 2 else (1.5 / max(1, p.numel() // p.shape[0])) ** 0.5
        p.copy_(base + filled(tuple(p.shape), i, scale))
x, target = filled((2, 3, 64, 64), 3, 1.0), torch.tensor([1, 5])
keys = list(model.state_dict())
if sys.argv[1] == "captured":
    model = torch.compile(model, backend="eager")
with torch.no_grad():
    single = model.eval()(x)
model, x = model.double().train(), x.double()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
losses = []
for step in range(2):
    optimizer.zero_grad()
    out = model(x)
    loss = torch.nn.functional.cross_entropy(out, target)
    loss.backward()
    norms = [float(p.grad.norm()) for p in model.parameters() if p.grad is not None]
    optimizer.step()
    losses.append(loss.item())
counters = torch.compiler.counters() if sys.argv[1] == "captured" else None
print(json.dumps(dict(losses=losses, single=single.flatten().tolist(), out=out.detach().flatten().tolist(), norms=norms,
                      keys=keys, counters=counters)))
"""


def run(kind, name):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, name, MODELS[name]],
        capture_output=True,
        text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1", FLAMBEAU_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", MODELS)
def test_trains_like_torch(name):
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    want, got, captured = run("torch", name), run("alias", name), run("captured", name)
    for result in (got, captured):
        assert result["keys"] == want["keys"]
        close(result["single"], want["single"], 1e-4)
        for key in ("losses", "out", "norms"):
            close(result[key], want[key], 1e-7)
    counted = captured["counters"]
    assert counted["graphs"] >= 2 and counted["breaks"] == counted["fallbacks"] == {}


def close(got, want, tolerance):
    """Equal up to the tolerance, relative to the largest."""
    assert got == pytest.approx(want, rel=tolerance, abs=tolerance * max(map(abs, want)))
