"""torch.hub: weights from URLs through a local cache (`$TORCH_HOME/hub/checkpoints`), loaded with `flambeau.load`.

`file://` addresses and files already in the cache need no network. Repositories of code are not fetched (`load`, `list`
and `help` take a local folder with a `hubconf.py` only).
"""

import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
from urllib.parse import urlparse as urlparse

from . import missing

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder = None


def _get_torch_home():
    default = os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(os.getenv("TORCH_HOME", default))


def get_dir():
    """The cache folder: what `set_dir` set, else `$TORCH_HOME/hub`."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d):
    global _folder
    _folder = os.path.expanduser(d)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads to a file beside `dst`, checks the SHA-256 prefix, then renames: `dst` is whole or absent."""
    dst = pathlib.Path(dst).expanduser()
    dst.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=dst.parent, suffix=".partial")
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as out, urllib.request.urlopen(url) as source:
            while block := source.read(1 << 20):
                digest.update(block)
                out.write(block)
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        shutil.move(part, dst)
    finally:
        pathlib.Path(part).unlink(missing_ok=True)


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=True
):
    """The object saved at `url`, downloaded once into `model_dir` (default: the cache). With check_hash the file name
    must end in -<hash>.ext and the content's SHA-256 begin with it."""
    from ..serialization import load as load_file

    folder = pathlib.Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    path = folder / name
    if not path.exists():
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)


def _entrypoints(repo_or_dir, source):
    if source != "local":
        raise missing.error(f"torch.hub with source={source!r}", "pass a local folder and source='local'")
    path = os.path.join(os.path.expanduser(repo_or_dir), "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"torch.hub: {path} does not exist")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.dirname(path))
    return module


def list(github, *args, source="github", **kwargs):
    module = _entrypoints(github, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def load(repo_or_dir, model, *args, source="github", **kwargs):
    """Calls the entry point `model` of the folder's hubconf.py."""
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    entry = getattr(_entrypoints(repo_or_dir, source), model, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return entry(*args, **kwargs)


def help(github, model, source="github", **kwargs):
    return getattr(_entrypoints(github, source), model).__doc__
