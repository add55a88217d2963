"""Writes docs/configuration.md: settings, log channels, options of `compile`, commands, from the tables in the code.

In: the package. Out: configuration.md. Run `python docs/make_configuration.py` with the package importable; `--check` exits with
1 if configuration.md is not up to date.
"""

import pathlib

from checked import finish
from flambeau.capture.frontend.backends import MODES, list_backends
from flambeau.capture.frontend.api import OPTIONS
from flambeau.cli.result import STATUSES
from flambeau.cli.main import COMMANDS, PROGRAM
from flambeau.runtime.config import FIELDS
from flambeau.runtime.log import CHANNELS

FILE = pathlib.Path(__file__).parent / "configuration.md"
HEAD = """# Configuration

Made by `docs/make_configuration.py` from the tables in the code.

## Settings

An environment variable is read once, at import; one that cannot be understood raises an error that names it, and a variable
that begins with `FLAMBEAU_` and sets nothing is warned of. In a program a setting is an attribute, changed for a while with
`patch`:

```python
from flambeau.runtime.config import config

with config.patch(threads=1, logs=("breaks",)):
    print(config.threads)
```
"""
LOGS = """## What FLAMBEAU_LOGS prints

A list of channels with commas, or `all`; the text goes to stderr. A channel that does not exist is an error. With a channel of
the passes (`graph`, `joint`, `schedule`, `loops`, `memory`, `kernels`), `FLAMBEAU_DUMP` or `FLAMBEAU_VERIFY`, graphs are compiled
anew, not taken from the cache.
"""
OTHERS = """## Other variables

| variable | meaning |
|---|---|
| `CXX` | the C++ compiler; without it the first of `g++`, `clang++`, `c++` on the `PATH` |
| `TORCH_LOGS` | PyTorch's names of logs (`graph_breaks`, `output_code`, ...), where `FLAMBEAU_LOGS` is not set |
| `TORCH_COMPILE_DEBUG` | `1`: as `FLAMBEAU_DUMP=torch_compile_debug` |
| `XDG_CACHE_HOME` | parent of the default cache folder, instead of `~/.cache` |
"""


def rows(title, *lines):
    """A table of Markdown."""
    yield "| " + " | ".join(title) + " |"
    yield "|" + "---|" * len(title)
    for line in lines:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"


def default(field):
    """The default as it would be written in the environment."""
    value = field.default
    return "" if value in (None, ()) else f"`{int(value) if isinstance(value, bool) else value}`"


def text():
    settings = rows(
        ("setting", "variable", "default", "meaning"),
        *((f"`{f.name}`", f"`{f.env}`", default(f), f.doc) for f in FIELDS.values()),
    )
    channels = rows(("channel", "what it prints"), *((f"`{name}`", doc) for name, doc in CHANNELS.items()))
    options = rows(("option", "type", "meaning"), *((f"`{name}`", kind.__name__, doc) for name, (kind, doc) in OPTIONS.items()))
    modes = rows(("mode", "meaning"), *((f"`{name}`", doc) for name, doc in MODES.items()))
    commands = rows(("command", "what it tells"), *((f"`{name}`", module.HELP) for name, module in COMMANDS.items()))
    statuses = rows(("exit status", "meaning"), *((str(number), doc) for number, doc in STATUSES.items()))
    backends = "Backends: " + ", ".join(f"`{name}`" for name in list_backends()) + "."
    parts = [
        HEAD,
        *settings,
        "",
        OTHERS,
        LOGS,
        *channels,
        "",
        "## Options of compile",
        "",
        "`flambeau.compile(f, options={...})` or `mode=...`, not both.",
        "",
        *options,
        "",
        *modes,
        "",
        backends,
        "",
        f"## {PROGRAM}",
        "",
        f"`{PROGRAM} COMMAND --help` has examples; `--json` prints data instead of text.",
        "",
        *commands,
        "",
        *statuses,
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    finish(FILE, text())
