"""What one compilation left: the files of a folder that FLAMBEAU_DUMP filled.

Without ID, the compilations in the folder; with one, its stages; with FILE, that stage's text. An ID that begins a hash of
the cache shows the compiled graph there.
"""

from __future__ import annotations

import os
import re
from typing import Any

from ..runtime.config import config
from . import cache
from .result import Answer, Wrong

HELP = "the stages of one compilation, from the folder that FLAMBEAU_DUMP filled"
EXAMPLES = """
    FLAMBEAU_DUMP=dump python train.py
    python -m flambeau show --dump dump                       # the compilations there
    python -m flambeau show --dump dump 002_forward           # the stages of one
    python -m flambeau show --dump dump 002_forward kernels.cpp
"""
STAGES = {
    "bytecode.txt": "the frame's instructions, before and after",
    "graph.py": "what was captured",
    "guards.txt": "what a call is compared with",
    "functional.py": "without writes and views",
    "joint.py": "forward and backward in one",
    "forward.py": "the forward, decomposed",
    "backward.py": "the backward, decomposed",
    "loops.txt": "loops, before and after fusion",
    "kernels.cpp": "C++",
    "kernels.py": "Triton",
    "wrapper.txt": "order of calls, memory",
}


def add(parser: Any) -> None:
    parser.add_argument("--dump", default=config.dump, metavar="FOLDER", help="default: FLAMBEAU_DUMP")
    parser.add_argument("id", nargs="?", help="of a compilation: its folder's name, or its number; or a hash of the cache")
    parser.add_argument("file", nargs="?", help="one of its files")


def run(options: Any) -> Answer:
    if options.id is not None and re.fullmatch(r"[0-9a-f]{6,40}", options.id):
        return cache.show(options.id)
    if not options.dump:
        raise Wrong("name the folder: --dump FOLDER, or FLAMBEAU_DUMP")
    if not os.path.isdir(options.dump):
        raise Wrong(f"{options.dump} is no folder; FLAMBEAU_DUMP={options.dump} python SCRIPT fills it")
    if options.id is None:
        return listing(options.dump)
    folder = os.path.join(options.dump, chosen(options.dump, options.id))
    return stages(folder) if options.file is None else one(folder, options.file)


def compilations(dump: str) -> list[str]:
    return sorted(name for name in os.listdir(dump) if os.path.isdir(os.path.join(dump, name)))


def listing(dump: str) -> Answer:
    found = {name: files(os.path.join(dump, name)) for name in compilations(dump)}
    lines = [f"{name}: {', '.join(there)}" for name, there in found.items()] or [f"{dump} holds no compilation"]
    return Answer(found, "\n".join(lines))


def files(folder: str) -> list[str]:
    """In order of the stages, others last."""
    order = list(STAGES)
    there = [name for name in os.listdir(folder) if not name.startswith(".")]
    return sorted(there, key=lambda name: (order.index(name) if name in order else len(order), name))


def chosen(dump: str, ident: str) -> str:
    """The folder of that name, or whose number this is."""
    known = compilations(dump)
    found = [
        name
        for name in known
        if name == ident or ident.isdigit() and name.partition("_")[0].isdigit() and int(name.partition("_")[0]) == int(ident)
    ]
    if not found:
        raise Wrong(f"{dump} has no compilation {ident!r}; it has: {', '.join(known) or 'none'}")
    return found[0]


def stages(folder: str) -> Answer:
    there = files(folder)
    lines = [os.path.basename(folder)]
    for name in there:
        size = len(read(folder, name).splitlines())
        lines.append(f"  {name:14} {size:6} lines  {STAGES.get(name, '')}".rstrip())
    return Answer({"id": os.path.basename(folder), "folder": folder, "files": there}, "\n".join(lines))


def one(folder: str, name: str) -> Answer:
    if name not in files(folder):
        raise Wrong(f"{os.path.basename(folder)} has no file {name!r}; it has: {', '.join(files(folder))}")
    text = read(folder, name)
    return Answer({"id": os.path.basename(folder), "file": name, "text": text}, text.rstrip())


def read(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
        return file.read()
