"""The benchmarks can be measured: every kind of work has a row, one process tells all that the table shows, lines keep their shape."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import flambeau
from flambeau.runtime import toolchain

FOLDER = pathlib.Path(__file__).parent.parent / "benchmarks"
KINDS = """pointwise gelu_bias_res softmax layernorm reductions mlp_infer mlp_train gpt_infer gpt_infer_bf16 gpt_train resnet_infer
resnet_train vit_infer lstm_train gru_loop_train vae_train dyn_sweep graph_breaks overhead overhead_module opt100""".split()

LINES = """
import json, run
full = {"seconds": 0.002, "native_share": 0.987, "peak_mb": 12.3, "cold": 0.5, "fingerprint": [1.0]}
theirs = {**full, "seconds": 0.003, "native_share": None}
print(json.dumps([list(run.WORKLOADS), run.HEAD,
    run.line("softmax", {("flambeau", "compiled"): full, ("torch", "compiled"): theirs}),
    run.line("softmax", {("flambeau", "compiled"): {**full, "fingerprint": [1.1]}, ("torch", "compiled"): theirs, ("torch", "eager"): None})]))
"""


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory):
    """Processes find the package in a folder that holds nothing else: what lies beside the project hides no module."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "flambeau").symlink_to(pathlib.Path(flambeau.__file__).parent, target_is_directory=True)
    kept = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), kept])))
        yield


def program(*arguments):
    done = subprocess.run([sys.executable, *arguments], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_rows_of_the_table():
    names, head, line, differing = program("-c", LINES)
    assert set(KINDS) <= set(names)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert len(cells) == len(head)
    assert cells[1:] == ["ms", "–", "–", "2.00", "3.00", "1.50", "99%", "12 / 12", "0.50 / 0.50"]
    assert "(RESULTS DIFFER)" in differing


@pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
def test_one_process_tells_times_share_and_memory():
    told = program("workloads.py", "--lib", "flambeau", "--mode", "compiled", "--workload", "reductions", "--budget", "0.05")
    assert told["seconds"] > 0 and told["first_seconds"] > 0 and told["peak_mb"] > 16  # the input alone is 16 MB
    assert 0 < told["native_share"] <= 1 and len(told["fingerprint"]) == 5


@pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
def test_never_slower_measures_goes_on_and_makes_a_table(tmp_path):
    """A record in both directions; a second run measures nothing that the file has; a program is a process of its own."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "linear.py").write_text(PROGRAM)
    out = tmp_path / "rows.json"
    lines = never_slower(
        "--kinds",
        "ops,programs",
        "--sizes",
        "small",
        "--names",
        "ops flip,programs linear",
        "--rounds",
        "1",
        "--programs",
        str(tmp_path / "programs"),
        "--out",
        str(out),
    )
    rows = json.loads(out.read_text())
    assert set(rows) == {"ops flip small forward", "ops flip small training", "programs linear"}
    assert all(told["eager"] > 0 and told["compiled"] > 0 for told in rows.values()), rows
    assert lines[0].startswith("1/3 ") and any(line.startswith("| ops small forward | 1 | ") for line in lines)
    again = never_slower("--kinds", "ops", "--sizes", "small", "--names", "ops flip", "--out", str(out))
    assert again[0].startswith("| what |") and json.loads(out.read_text()) == rows


PROGRAM = """
import torch
model = torch.compile(torch.nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(5, 4)).square().sum().backward()
    optimizer.step()
"""


def never_slower(*arguments):
    done = subprocess.run([sys.executable, "never_slower.py", *arguments], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_every_eager_call_runs(tmp_path):
    """A sample of the calls, without the other library and at 100 elements; the table tells what was measured."""
    out = tmp_path / "ops.json"
    done = subprocess.run(
        [
            sys.executable,
            "eager_ops.py",
            "--sizes",
            "100",
            "--peer-python",
            "",
            "--out",
            str(out),
            "--only",
            r"x @ y|sort\(0\)|grid_sample|erfinv|AdamW|Gamma|trunc_normal",
        ],
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(out.read_text())
    assert len(results) > 30 and all(found["flambeau"].get("seconds", 0) > 0 for found in results.values()), results
    assert any(key.endswith("backward") for key in results)


def test_table_of_eager_calls():
    told = program(
        "-c",
        """
import json, eager_ops
one = {"flambeau": {"seconds": 3e-6}, "torch": {"seconds": 1e-6}, "agree": True}
other = {"flambeau": {"seconds": 1e-6}, "torch": {"seconds": 3e-6}, "agree": True}
key = "order | x.sort(0) | x=g(n) | float32 | {} | forward"
print(json.dumps(eager_ops.shown({key.format(100): one, key.format(100000): other}, 5)))""",
    )
    assert "| order | 3.00, 1, 1 | 0.33, 0, 1 |" in told and "| `x.sort(0)` | `x=g(n)` | float32 | 100 | forward | 3.00 |" in told
