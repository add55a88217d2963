"""benchmarks/gpu.py without a GPU: every row's program runs at a tiny size, and what is made of measurements is right."""

import importlib
import json
import pathlib
import sys
import time

import pytest

FOLDER = str(pathlib.Path(__file__).parents[1] / "benchmarks")


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("gpu")
    for name in ("gpu", "gpu_rows"):
        sys.modules.pop(name, None)


def test_every_row_runs(gpu):
    for name in gpu.ROWS:
        found = gpu.child("flambeau", "eager", name, "cpu", "tiny", 0)
        assert found["seconds"] > 0 and found["value"] == found["value"], name
    assert gpu.child("flambeau", "eager", "copy", "cpu", "tiny", 0)["seconds"] > 0


@pytest.mark.parametrize("name", ["gpt_train", "adamw", "cross_entropy"])
def test_rows_compile(gpu, name):
    found = gpu.child("flambeau", "compiled", name, "cpu", "tiny", 0)
    assert found["wrong"] is False
    assert gpu.child("flambeau", "eager", name, "cpu", "tiny", 0)["value"] == pytest.approx(found["value"], rel=3e-2, abs=1e-3)


def test_a_wrong_result_is_no_success(gpu):
    row = {"name": "softmax", "flambeau compiled": {"seconds": 1e-3, "host": 1e-4, "value": 0.5, "wrong": True}}
    result = {"machine": {"gpu": "x", "cpu": "", "python": "", "packages": {}}, "build": None, "tests": None, "rows": [row]}
    assert not gpu.passed(result) and "WRONG RESULT" in gpu.markdown(result)
    row["flambeau compiled"]["wrong"] = False
    assert gpu.passed(result) and "WRONG" not in gpu.markdown(result)


ANSWERS = {"flambeau compiled": 1.0, "torch compiled": 2.0, "torch eager": 4.0}


def test_the_whole_run(gpu, monkeypatch, tmp_path, capsys):
    """A machine where one row fails and one hangs: the others are compared, and the exit code tells."""
    asked = []

    def ran(command, seconds):
        assert seconds > 0
        if "--child" not in command:
            return {"command": " ".join(command[1:]), "code": 0, "seconds": 1.0, "end": ["7 passed"]}
        lib, mode, name = command[command.index("--child") + 1].split(":")
        asked.append((lib, mode, name))
        code = {"softmax": 1, "adamw": None}.get(name, 0) if lib == "flambeau" else 0
        text = {
            1: "RuntimeError: no kernel | at all",
            None: "",
            0: json.dumps({"seconds": ANSWERS[f"{lib} {mode}"] / 1e3, "host": 1e-4, "value": 0.5}),
        }[code]
        return {"command": "", "code": code, "seconds": 1.0, "end": [text] if text else []}

    monkeypatch.setattr(gpu, "ran", ran)
    monkeypatch.setenv("PYTHONPATH", "")
    assert gpu.main(["--out", str(tmp_path), "--wheels", str(tmp_path)]) == 1
    assert len(asked) == 3 * len(gpu.ROWS) + 1
    kept = json.loads((tmp_path / "gpu.json").read_text())
    assert kept["summary"]["against torch.compile"] == pytest.approx(2.0)
    assert kept["summary"]["rows compared"] == len(gpu.ROWS) - 2
    assert kept["summary"]["share of cuBLAS"]["matmul_4096"] == pytest.approx(4.0)
    copy = 8 * (1 << 28) / 4e-3
    assert kept["summary"]["share of copy bandwidth"]["pointwise"] == pytest.approx(8 * (1 << 26) / 1e-3 / copy)
    text = (tmp_path / "gpu.md").read_text()
    assert text == capsys.readouterr().out.rstrip("\n") + "\n"
    assert "| gpt_train | 1.000 | 2.000 | 4.000 | 2.00 |" in text and "| RuntimeError: no kernel / at all |" in text
    assert "| adamw | took too long |" in text and "7 passed" in text and f"({len(gpu.ROWS) - 2} of {len(gpu.ROWS)} rows)" in text


def test_no_time_is_told(gpu, tmp_path):
    assert gpu.main(["--out", str(tmp_path), "--minutes", "0", "--no-build", "--no-tests", "--rows", "softmax"]) == 1
    assert "no time was left" in (tmp_path / "gpu.md").read_text()
    assert "not measured" in (tmp_path / "gpu.md").read_text()


def test_a_process_that_hangs_is_ended(gpu):
    start = time.monotonic()
    done = gpu.ran([sys.executable, "-c", "import time; time.sleep(60)"], 1)
    assert done["code"] is None and time.monotonic() - start < 30 and gpu.answer(done) == {"error": "took too long"}


def test_a_measurement_in_a_process_of_its_own(gpu, monkeypatch):
    options = gpu.arguments(["--device", "cpu", "--size", "tiny", "--seconds", "0"])
    monkeypatch.setattr(gpu, "RUNS", (("flambeau", "eager"),))
    with gpu.package() as folder:
        monkeypatch.setenv("PYTHONPATH", folder)
        found = gpu.measured("softmax", options, lambda: 100.0)
    assert found["flambeau eager"]["value"] == pytest.approx(1 / 40)
