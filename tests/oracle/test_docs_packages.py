"""Blocks of the documentation that need packages written for PyTorch, where those are installed; they run on flambeau alone."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from .. import pages

ROOT = pathlib.Path(__file__).parent.parent.parent
NEEDED = {
    page: {block.package for block in pages.blocks(page) if block.package}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}


@pytest.mark.parametrize("page", [page for page, packages in NEEDED.items() if packages], ids=lambda page: page.stem)
def test_blocks_that_need_packages(page, tmp_path):
    absent = [name for name in NEEDED[page] if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    done = subprocess.run(
        [sys.executable, pages.__file__, str(page), "packages"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0 and int(done.stdout) >= 1, done.stdout + done.stderr
