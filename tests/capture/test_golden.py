"""Golden texts of capture: the guards and graphs of ten small frames.

In: golden_frames/*.py, each with a `run(compile)` that compiles its frame and calls it. Out: golden/<name>.txt: the lines of each
entry's guard tree, which is what a call is really compared with, and each graph as Python text. Rewritten by

    .venv/bin/python -m pytest tests/capture/test_golden.py --update-golden

A frame is a file, so that its line numbers stay. What depends on the machine or on flambeau's own files is left out: folders of files,
lines of the library, what the module of a graph imports. The texts are the same on every Python.
"""

import importlib.util
import pathlib
import re

import pytest

import flambeau as torch
from flambeau.capture.frontend.report import compiled_of
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime.config import config

from .harness import same

FOLDER = pathlib.Path(__file__).parent / "golden_frames"
FRAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(f"golden_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(text: str, name: str) -> str:
    """Without folders, and without numbers of lines in other files than the frame's."""
    text = re.sub(r"(/[\w.-]+)+/([\w.-]+\.py)", r"\2", text)
    return re.sub(rf"\b(?!{name}\.)(\w+\.py):\d+", r"\1", text)


def told(compiled, name: str) -> str:
    """Guards of every entry, oldest door first, and every graph."""
    owner, parts = compiled_of(compiled), []
    for door in owner.all_doors():
        for k, entry in enumerate(door.entries):
            parts.append(f"== {door.code.co_qualname}: guards of entry {k}\n\n" + "\n".join(entry.guards.lines()))
    for record in owner.records:
        for graph, *_ in record.graphs:
            text = graph.print_python()
            parts.append(f"== {record.title}: graph\n\n" + text[text.index("\ndef ") :].strip())
    return plain("\n\n".join(parts) + "\n", name)


@pytest.mark.parametrize("name", FRAMES)
def test_frame(name, golden):
    module, made = load(name), []

    def compile(f, **settings):
        made.append(torch.compile(f, backend=lambda graph, inputs: Interpreter(graph).run, **settings))
        return made[0]

    with config.patch(strict=True):
        found = module.run(compile)
    assert same(found, module.run(lambda f, **settings: f))
    golden(f"{name}.txt", told(made[0], name))


def test_there_are_ten():
    assert len(FRAMES) == 10
