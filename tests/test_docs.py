"""The documentation holds: its blocks run and print what the page says, what is made from the code is as the code says, links lead
somewhere, and commands exist.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

from flambeau.runtime import toolchain
from flambeau.runtime.config import FIELDS

from . import pages

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
HEADER = "runtime/include/flambeau_op.h"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")])
ELSEWHERE = {"breaks", "stages"}  # tests/capture/test_breaks_text.py; docs/make_stages.py
RUN = [
    page
    for page in PAGES
    if page.stem not in ELSEWHERE and any(block.language == "python" and not block.package for block in pages.blocks(page))
]
needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


@needs_compiler
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT).with_suffix("")))
def test_the_blocks_of_a_page_run(page, tmp_path):
    """In a folder of their own, beside the examples; with quickly compiled kernels and none from before."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PYTHONSAFEPATH": "1",
        "FLAMBEAU_OPTIMIZE": "0",
        "FLAMBEAU_VERIFY": "0",
        "FLAMBEAU_SLOW_COMPILE_SECONDS": "1000",
        "FLAMBEAU_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, pages.__file__, str(page)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) >= 1


def test_the_runner_notices(tmp_path):
    """Wrong output, an error, and blocks that need packages."""
    page = tmp_path / "page.md"
    run = lambda *more: subprocess.run([sys.executable, pages.__file__, str(page), *more], capture_output=True, text=True)
    page.write_text(
        "```python\nprint(1, 'x')\n```\n\n```text\n1 ...\n```\n\n<!-- needs: nothing_such -->\n```python\n1 / 0\n```\n"
    )
    assert run().stdout == "1\n" and "ZeroDivisionError" in run("packages").stderr
    page.write_text(page.read_text().replace("1 ...", "2"))
    assert "the page says" in run().stderr
    page.write_text("words\n```python\n\nraise KeyError\n```\n")
    assert 'page.md", line 4' in run().stderr


def maker(name, monkeypatch):
    """docs/<name>.py as a module, which finds those beside it."""
    monkeypatch.syspath_prepend(str(DOCS))
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [pytest.param("make_stages", marks=needs_compiler), "make_readme"])
def test_what_is_made_is_up_to_date(name, monkeypatch):
    """The worked example is what the stages write; the readme's table is the benchmark's."""
    made = maker(name, monkeypatch)
    assert made.filled(made.PAGE.read_text()) == made.PAGE.read_text(), f"run python docs/{name}.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT).with_suffix("")))
def test_links_and_files_exist(page):
    text = pages.FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert target.startswith(("http", "mailto")) or (page.parent / target).exists(), f"{page.name} links to {target}"
    for named in re.findall(r"`((?:docs|examples|tests|benchmarks|runtime|eager|capture|inductor|cli)/[\w/.]+)`", text):
        assert (ROOT / named.rstrip("/")).exists(), f"{page.name} names {named}"


def test_commands_and_targets_exist():
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    help_text = subprocess.run([sys.executable, "-m", "flambeau", "--help"], capture_output=True, text=True).stdout
    for page in PAGES:
        text = page.read_text()
        for target in re.findall(r"(?:`|^)make ([\w-]+)", text, re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"
        for command in re.findall(r"python -m flambeau (\w+)", text):
            assert re.search(rf"^ +{command}\b", help_text, re.MULTILINE), f"{page.name}: python -m flambeau {command}"


def test_settings_exist():
    known = {field.env for field in FIELDS.values()} | set(re.findall(r"\bFLAMBEAU_\w+", (ROOT / HEADER).read_text()))
    for page in PAGES:
        if page.parent.name != "decisions":  # they tell of settings that were dropped
            for name in re.findall(r"\bFLAMBEAU_[A-Z0-9_]+\b", page.read_text()):
                assert name in known, f"{page.name} names {name}"
