"""A whole training step, with dropout in its attention and its optimizer, as Triton kernels that are compiled but not launched."""

import os
import pathlib
import subprocess
import sys

import pytest
import flambeau as torch
from flambeau import compiler, nn
from flambeau.nn import functional as F
from flambeau.runtime.config import config

from ..test_ops_compiled import near

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "gpt.py"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inwards, self.outwards = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (t.reshape(2, 16, 2, 16).transpose(1, 2) for t in self.inwards(x).split(32, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        return x + self.outwards(y.transpose(1, 2).reshape(2, 16, 32))


def made():
    torch.manual_seed(3)
    model = nn.Sequential(Attention(), nn.LayerNorm(32), Attention())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def test_a_training_step(tmp_path):
    (model, step), (plain, reference) = made(), made()
    compiler.reset()
    call = torch.compile(step, backend="triton", options={"dry_run": 80})
    x = torch.randn(2, 16, 32)
    with config.patch(strict=True, dump=str(tmp_path)):
        torch.manual_seed(5)
        loss = call(x)
    torch.manual_seed(5)
    near(loss, reference(x), "loss")
    for (name, p), q in zip(model.named_parameters(), plain.parameters()):
        near(p.detach(), q.detach(), name)
    (text,), (ptx,) = tmp_path.glob("*/kernels.py"), tmp_path.glob("*/kernels.ptx")
    written = text.read_text()  # (the mask drawn inside is Triton's alone: C++ runs that attention by eager calls)
    assert all(
        f"def k_{name}(" in written for name in ("dropped_attention", "attention_backward_keys", "attention_backward_queries")
    )
    assert ".target sm_80" in ptx.read_text() and compiler.counters()["breaks"] == {}


def test_the_example(tmp_path, everything):
    if not everything:
        pytest.skip("a minute: TRITON_TESTS=all")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--device", "cuda", "--dry-run", "--out", str(tmp_path / "out")],
        env=dict(os.environ, FLAMBEAU_DUMP=str(tmp_path / "dump")),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    (ptx,) = (tmp_path / "dump").glob("*/kernels.ptx")
    assert ".target sm_90" in ptx.read_text() and str(ptx) in done.stdout
