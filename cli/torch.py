"""torch in this environment: `import torch` gives flambeau in every process of it.

`--install` writes two things into the environment's site-packages: a package `torch` of a few lines, and the record of a
distribution `torch` by which pip, `pip check` and `importlib.metadata` know that it is there. Programs, notebooks, `python -m`,
and what they start by `subprocess` or multiprocessing have it then, without a change. Where PyTorch is, nothing is touched.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.machinery
import importlib.metadata
import os
import shutil
import sys
import sysconfig
import tempfile
from typing import Any

from .result import DONE, FOUND, Answer, Wrong

HELP = "let `import torch` give flambeau in this whole environment"
EXAMPLES = """
    python -m flambeau torch --install      # plain `python train.py` has torch now, and pip knows that it does
    python -m flambeau torch --status       # which torch this environment has
    python -m flambeau torch --remove       # leaves nothing behind
"""
INSTALLER = "flambeau"
PACKAGE = '''"""Written by `python -m flambeau torch --install`: in this environment `import torch` gives flambeau."""

import sys

del sys.modules[__name__]                   # the alias takes this module's place
try:
    import flambeau
except ModuleNotFoundError as error:
    raise ImportError("torch stands for flambeau in this environment, and flambeau is not installed in it: install flambeau, or "
                      f"remove {__file__} by `pip uninstall torch`") from error
flambeau.alias_torch()
'''
METADATA = """Metadata-Version: 2.1
Name: torch
Version: {version}
Summary: Stands for flambeau, which answers to PyTorch's names; written by `python -m flambeau torch --install`
Requires-Dist: flambeau
"""


def add(parser: Any) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--install", action="store_true", help="refused where PyTorch is installed")
    what.add_argument("--remove", action="store_true", help="only what --install wrote")
    what.add_argument("--status", action="store_true", help="exit status 1 if there is no torch")


def run(options: Any) -> Answer:
    before = present()
    if options.status:
        return Answer(before, torch_text(before), DONE if before["torch"] else FOUND)
    if before["torch"] == "PyTorch":
        raise Wrong(
            f"this environment has PyTorch {before['version'] or ''} in {before['place']}: "
            + (
                "uninstall it first (pip uninstall torch), or use another environment"
                if options.install
                else "only what `torch --install` wrote is removed"
            )
        )
    if options.install:
        install(folder())
    else:
        remove(folder())
    after = present()
    return Answer(after, torch_text(after))


def folder() -> str:
    """Where this environment keeps packages."""
    return sysconfig.get_path("purelib")


def version() -> str:
    from ..eager.compat import version as api

    return f"{api.__version__}+flambeau"


def present() -> dict[str, Any]:
    """Which torch is here: "flambeau", "PyTorch" or None; its version, and where it lies."""
    for found in importlib.metadata.distributions(name="torch"):
        place = str(found.locate_file(""))
        if os.path.isdir(place):  # (an alias in this process lies nowhere)
            ours = (found.read_text("INSTALLER") or "").strip() == INSTALLER
            return {"torch": "flambeau" if ours else "PyTorch", "version": found.version, "place": place}
    spec = importlib.machinery.PathFinder.find_spec("torch")
    if spec is None:
        return {"torch": None, "version": None, "place": folder()}
    place = os.path.dirname(spec.origin) if spec.origin else next(iter(spec.submodule_search_locations or [folder()]))
    return {"torch": "flambeau" if written_here(place) else "PyTorch", "version": None, "place": place}


def written_here(place: str) -> bool:
    with contextlib.suppress(OSError), open(os.path.join(place, "__init__.py"), encoding="utf-8") as file:
        return file.read() == PACKAGE
    return False


def torch_text(facts: dict[str, Any]) -> str:
    if facts["torch"] is None:
        return f"no torch in {facts['place']}"
    return f"torch is {facts['torch']}{' ' + facts['version'] if facts['version'] else ''} in {facts['place']}"


def names() -> tuple[str, str]:
    return "torch", f"torch-{version()}.dist-info"


def install(place: str) -> None:
    """Both folders are made beside their places and then moved there, so that none is ever seen half-written."""
    remove(place)
    package, record = names()
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".torch-") as made:
            texts = {
                f"{package}/__init__.py": PACKAGE,
                f"{record}/METADATA": METADATA.format(version=version()),
                f"{record}/INSTALLER": INSTALLER + "\n",
                f"{record}/top_level.txt": "torch\n",
                f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: flambeau\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            }
            texts[f"{record}/RECORD"] = "".join([line(name, text) for name, text in texts.items()]) + f"{record}/RECORD,,\n"
            for name, text in texts.items():
                path = os.path.join(made, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            for name in (package, record):
                os.rename(os.path.join(made, name), os.path.join(place, name))
    except OSError as error:
        with contextlib.suppress(OSError):
            remove(place)
        raise Wrong(f"{place} cannot be written ({error.strerror}): use an environment of your own (python -m venv)") from None


def line(name: str, text: str) -> str:
    """A file's line in the record, by which pip removes it."""
    data = text.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def remove(place: str) -> None:
    """What `install` wrote, of this version or another."""
    for found in importlib.metadata.distributions(name="torch", path=[place]):
        if (found.read_text("INSTALLER") or "").strip() == INSTALLER:
            shutil.rmtree(os.path.join(place, f"torch-{found.version}.dist-info"))
    if written_here(os.path.join(place, "torch")):
        shutil.rmtree(os.path.join(place, "torch"))
    importlib.invalidate_caches()
    sys.path_importer_cache.pop(place, None)
