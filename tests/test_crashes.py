"""A process of the tests that ends at once fails its test, and the run goes on to its end."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("xdist")

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("at", [(0,), (2,), (1, 5)], ids=str)
def test_a_process_that_ends_fails_the_run(tmp_path, at):
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.conftest import pytest_xdist_make_scheduler\n"
    )
    (tmp_path / "test_ends.py").write_text(
        f"import os, pytest\n@pytest.mark.parametrize('k', range(6))\ndef test_one(k):\n    if k in {at}: os._exit(3)\n"
    )
    for name in "bcd":
        (tmp_path / f"test_{name}.py").write_text(
            "import pytest\n@pytest.mark.parametrize('k', range(5))\ndef test_one(k): pass\n"
        )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and f"{len(at)} failed, {21 - len(at)} passed" in done.stdout, done.stdout
