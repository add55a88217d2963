"""torch in this environment: `import torch` gives flambeau in every process of it.

`--install` writes two things into the environment's site-packages: a package `torch` of a few lines, and the record of a
distribution `torch` by which pip, `pip check` and `importlib.metadata` know that it is there. Programs, notebooks, `python -m`,
and what they start by `subprocess` or multiprocessing have it then, without a change. Where PyTorch is, nothing is touched.

A third thing keeps it there: a package's newest release may ask for a newer PyTorch (torchvision 0.29 for 2.14), and pip would
put that one in torch's place. The environment's `pip.conf` therefore names a constraint, `torch` at the version that stands
here, under which pip takes the newest release that fits (https://pip.pypa.io/en/stable/user_guide/#constraints-files). The file
is written where there is none, is part of the record, and leaves with it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import importlib.machinery
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
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
SETTINGS = ("pip.conf", "pip.ini")
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
        remove(folder())  # (before its settings of pip are taken for somebody else's)
        install(folder(), settings())
    else:
        remove(folder())
    after = present()
    return Answer(after, torch_text(after))


def folder() -> str:
    """Where this environment keeps packages."""
    return sysconfig.get_path("purelib")


def settings() -> tuple[str, list[str]] | None:
    """Where this environment's pip keeps its settings, and the constraints that it has from elsewhere (a machine's, a user's),
    which settings of the environment replace; None if the environment has settings already."""
    path = os.path.join(sys.prefix, "pip.ini" if os.name == "nt" else "pip.conf")
    if os.path.exists(path):
        return None
    asked = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    told = subprocess.run(asked, capture_output=True, text=True).stdout  # nothing where there is no pip
    known = dict(re.findall(r"^(install|global)\.constraint=(.*)$", told, re.MULTILINE))
    return path, ast.literal_eval(known.get("install") or known.get("global") or "''").split()


def version() -> str:
    from ..eager.compat import version as api

    return f"{api.__version__}+flambeau"


def present() -> dict[str, Any]:
    """Which torch is here: "flambeau", "PyTorch" or None; its version, and where it lies."""
    for found in importlib.metadata.distributions(name="torch"):
        place = str(found.locate_file(""))
        if os.path.isdir(place):  # (an alias in this process lies nowhere)
            ours = (found.read_text("INSTALLER") or "").strip() == INSTALLER
            return {"torch": "flambeau" if ours else "PyTorch", "version": found.version, "place": place, "kept": kept(found)}
    spec = importlib.machinery.PathFinder.find_spec("torch")
    if spec is None:
        return {"torch": None, "version": None, "place": folder(), "kept": None}
    place = os.path.dirname(spec.origin) if spec.origin else next(iter(spec.submodule_search_locations or [folder()]))
    return {"torch": "flambeau" if written_here(place) else "PyTorch", "version": None, "place": place, "kept": None}


def kept(found: importlib.metadata.Distribution) -> str | None:
    """The settings of pip that belong to an installed torch; None if it has none."""
    return next((os.path.normpath(str(found.locate_file(each))) for each in found.files or () if each.name in SETTINGS), None)


def written_here(place: str) -> bool:
    with contextlib.suppress(OSError), open(os.path.join(place, "__init__.py"), encoding="utf-8") as file:
        return file.read() == PACKAGE
    return False


def torch_text(facts: dict[str, Any]) -> str:
    if facts["torch"] is None:
        return f"no torch in {facts['place']}"
    text = f"torch is {facts['torch']}{' ' + facts['version'] if facts['version'] else ''} in {facts['place']}"
    if facts["torch"] == "PyTorch":
        return text
    if facts["kept"]:
        return f"{text}; pip keeps it and takes what fits it, by {facts['kept']}"
    return (
        f"{text}\npip has settings of its own here ({sys.prefix}): add the line torch=={facts['version']} to its constraints, "
        "or a package that asks for a newer PyTorch brings that one"
    )


def names() -> tuple[str, str]:
    return "torch", f"torch-{version()}.dist-info"


def install(place: str, pip: tuple[str, list[str]] | None = None) -> None:
    """Both folders are made beside their places and then moved there, so that none is ever seen half-written; `pip` is where
    the settings of pip that come with them go, and the constraints to keep (`settings`)."""
    remove(place)
    package, record = names()
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".torch-") as made:
            texts = {
                f"{package}/__init__.py": PACKAGE,
                f"{record}/METADATA": METADATA.format(version=version()),
                f"{record}/INSTALLER": INSTALLER + "\n",
                f"{record}/top_level.txt": "torch\n",
                f"{record}/constraints.txt": f"torch=={version()}\n",
                f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: flambeau\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            }
            lines = [line(name, text) for name, text in texts.items()]
            if pip is not None:
                conf, others = pip
                ours = pathlib.Path(place, record, "constraints.txt").as_uri()  # (pip splits the list at blanks)
                keeping = f"[install]\nconstraint = {' '.join([*others, ours])}\n"
                lines.append(line(os.path.relpath(conf, place).replace(os.sep, "/"), keeping))
            texts[f"{record}/RECORD"] = "".join(lines) + f"{record}/RECORD,,\n"
            for name, text in texts.items():
                path = os.path.join(made, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            for name in (package, record):
                os.rename(os.path.join(made, name), os.path.join(place, name))
            if pip is not None:
                with open(conf, "x", encoding="utf-8") as file:
                    file.write(keeping)
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
            if settings := kept(found):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(settings)
            shutil.rmtree(os.path.join(place, f"torch-{found.version}.dist-info"))
    if written_here(os.path.join(place, "torch")):
        shutil.rmtree(os.path.join(place, "torch"))
    importlib.invalidate_caches()
    sys.path_importer_cache.pop(place, None)
