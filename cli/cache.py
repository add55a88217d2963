"""The folder of compiled artefacts: list it, look into a file, empty it, check every file.

Two kinds of file lie there under content hashes: compiled graphs (.graph) and the shared objects of their kernels (.so).
A file is named by the first letters of its hash.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from ..runtime import artifact_store, cache_eviction
from ..runtime.config import config
from ..capture.report.format import count
from .result import DONE, FOUND, Answer, Wrong, table

HELP = "the folder of compiled artefacts: ls, show, clear, verify"
EXAMPLES = """
    python -m flambeau cache ls
    python -m flambeau cache show 3fa1c2          # a compiled graph: its kernels and their C++
    python -m flambeau cache verify               # exit status 1 when a file was damaged
    python -m flambeau cache clear
"""
MOST_TOLD = 6  # hashes in a message
KINDS = {".graph": "graph", ".so": "kernels"}


def add(parser: Any) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="all files, the one used last first")
    actions.add_parser("show", help="what one file holds").add_argument("key", help="the first letters of its hash")
    actions.add_parser("clear", help="remove all files")
    actions.add_parser("verify", help="check all seals; damaged files are removed, and made again when they are needed")


def run(options: Any) -> Answer:
    return {"ls": ls, "clear": clear, "verify": verify}[options.action]() if options.action != "show" else show(options.key)


def entries() -> list[dict[str, Any]]:
    """What lies in the store, the file used last first."""
    found = [
        (*os.path.splitext(os.path.basename(path)), path, size, used)
        for used, size, path in sorted(cache_eviction.files(artifact_store.folder()), reverse=True)
    ]
    return [
        {
            "key": key,
            "kind": KINDS[suffix],
            "bytes": size,
            "used": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(used)),
            "path": path,
        }
        for key, suffix, path, size, used in found
        if suffix in KINDS
    ]


def ls() -> Answer:
    found, folder = entries(), artifact_store.folder()
    total = sum(entry["bytes"] for entry in found)
    lines = (
        [
            table(
                [("key", "kind", "kB", "last used")]
                + [(e["key"][:12], e["kind"], f"{e['bytes'] / 1000:.1f}", e["used"]) for e in found]
            )
        ]
        if found
        else []
    )
    limit = f" of {config.cache_megabytes}" if config.cache_megabytes else ""
    lines.append(f"{folder}: {count(len(found), 'file')}, {total / 1e6:.1f}{limit} MB")
    return Answer({"folder": folder, "bytes": total, "files": found}, "\n".join(lines))


def find(key: str) -> dict[str, Any]:
    """The one file whose hash begins so; of a graph and its kernels under one hash, the graph."""
    found = [entry for entry in entries() if key and entry["key"].startswith(key)]
    if not found:
        raise Wrong(f"no file in {artifact_store.folder()} has a hash that begins with {key!r}; `cache ls` lists them")
    keys = sorted({entry["key"][:16] for entry in found})
    if len(keys) > 1:
        more = f" and {len(keys) - MOST_TOLD} more" if len(keys) > MOST_TOLD else ""
        raise Wrong(f"{key!r} begins several hashes: {', '.join(keys[:MOST_TOLD])}{more}")
    return min(found, key=lambda entry: entry["kind"])


def show(key: str) -> Answer:
    entry = find(key)
    facts = entry | (graph_facts(entry["key"]) if entry["kind"] == "graph" else {"graphs": users(entry["key"])})
    return Answer(facts, graph_text(facts) if entry["kind"] == "graph" else library_text(facts))


def graph_facts(key: str) -> dict[str, Any]:
    """The programs of a compiled graph: forward, and backward where it trains."""
    from ..inductor.runtime import graph_cache

    data = graph_cache.read(key)
    if data is None:
        raise Wrong(f"{key} is damaged, or of another user")
    runs = [("backward", data[1])] if len(data) == 2 else [("forward", data[4]), ("backward", data[5] and data[5][3])]
    return {"programs": [program_facts(name, run) for name, run in runs if run]}


def program_facts(name: str, run: Any) -> dict[str, Any]:
    """What was kept of one program: its kernels, the hash of their shared object, the C++ text."""
    from ..inductor.runtime import graph_cache

    while run and run[0] == "around":
        run = run[1]
    if not run:
        return {"name": name, "kernels": [], "library": None, "source": ""}
    launch = graph_cache.Decoder(None)(run[1])
    return {"name": name, "kernels": list(launch.kernels), "library": launch.library, "source": run[2]}


def users(library: str) -> list[str]:
    """The graphs that call a shared object."""
    graphs = []
    for entry in entries():
        if entry["kind"] == "graph":
            with contextlib.suppress(Wrong, ValueError, EOFError, LookupError, TypeError, AttributeError):
                if any(program["library"] == library for program in graph_facts(entry["key"])["programs"]):
                    graphs.append(entry["key"])
    return graphs


def graph_text(facts: dict[str, Any]) -> str:
    lines = [f"{facts['path']}: a compiled graph, last used {facts['used']}"]
    for program in facts["programs"]:
        lines.append(f"\n{program['name']}: {count(len(program['kernels']), 'kernel')} in {program['library']}.so")
        lines += [f"  {kernel}" for kernel in program["kernels"]] + ["", program["source"].rstrip()]
    return "\n".join(lines)


def library_text(facts: dict[str, Any]) -> str:
    used_by = "\n".join(f"  {key}" for key in facts["graphs"]) or "  no graph in this folder"
    return f"{facts['path']}: a shared object, {facts['bytes']:,} bytes, last used {facts['used']}\ncalled by\n{used_by}"


def clear() -> Answer:
    """Whoever has a file open or loaded keeps it."""
    found = cache_eviction.files(artifact_store.folder())
    removed = 0
    for _, size, path in found:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            removed += size
    told = f"{artifact_store.folder()}: {count(len(found), 'file')} removed, {removed / 1e6:.1f} MB"
    return Answer({"folder": artifact_store.folder(), "files": len(found), "bytes": removed}, told)


def verify() -> Answer:
    """Reading a file checks its seal, and removes one that is damaged."""
    found = entries()
    damaged = [entry["path"] for entry in found if artifact_store.read(entry["key"], os.path.splitext(entry["path"])[1]) is None]
    lines = [f"damaged, removed: {path}" for path in damaged]
    lines.append(f"{artifact_store.folder()}: {len(found) - len(damaged)} of {len(found)} files are whole")
    return Answer(
        {"folder": artifact_store.folder(), "files": len(found), "damaged": damaged}, "\n".join(lines), FOUND if damaged else DONE
    )
