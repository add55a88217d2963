"""`python -m tests.suites`: a package's tests on PyTorch and here, compared."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).parents[2]


def test_what_passes_there_is_asked_here(tmp_path):
    (tmp_path / "thing.py").write_text("import torch\n\ndef twice(x):\n    return torch.add(x, x)\n")
    (tmp_path / "test_thing.py").write_text(
        "import torch, thing\n\n"
        "def test_sum():\n    assert thing.twice(torch.ones(2)).tolist() == [2, 2]\n\n"
        "def test_there_alone():\n    assert not hasattr(torch, '__flambeau__'), 'asked here'\n\n"
        "def test_nowhere():\n    assert False\n"
    )
    command = [sys.executable, "-m", "tests.suites", str(tmp_path), "--against", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].endswith("2 pass on PyTorch, 1 of them here (50.0%)"), done.stdout + done.stderr
    assert "AssertionError: asked here" in done.stdout and done.returncode == 1
    done = subprocess.run([*command, "--pytest=-k", "--pytest=sum"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].endswith("1 pass on PyTorch, 1 of them here (100.0%)") and done.returncode == 0
