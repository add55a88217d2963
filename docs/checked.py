"""What the makers of pages end with: the page is written, or compared with `--check`.

In: a path and the text that belongs there. Out: the file; or exit status 1 with a line that says what to run.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).parent.parent


def finish(path: pathlib.Path, made: str) -> None:
    """Write the page; with `--check` on the command line, exit with 1 if it is another."""
    if "--check" not in sys.argv:
        path.write_text(made)
    elif not path.exists() or path.read_text() != made:
        sys.exit(f"{path.resolve().relative_to(ROOT.resolve())} is not up to date: run docs/{pathlib.Path(sys.argv[0]).name}")
