"""Fills docs/stages.md with what each stage writes for the example on that page.

In: the page, whose first Python block is the example. Out: the block behind each `<!-- made: FILE PART -->` is what the stages
wrote into FILE; PART names the lines that are shown. Run `python docs/make_stages.py` with the package importable; `--check`
exits with 1 if the page is not up to date. The bytecode is that of Python 3.11, and stays where another Python runs this.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from checked import finish

PAGE = pathlib.Path(__file__).parent / "stages.md"
MADE = re.compile(
    r"(<!-- made: (?P<file>[\w.]+)(?: (?P<part>[^>]*?))? -->\n```(?P<language>\w+)\n)(?P<text>.*?)(^```$)",
    re.DOTALL | re.MULTILINE,
)
SETTINGS = {
    "FLAMBEAU_ISA": "baseline",
    "FLAMBEAU_THREADS": "2",
    "FLAMBEAU_OPTIMIZE": "0",
    "FLAMBEAU_VERIFY": "0",
    "FLAMBEAU_SLOW_COMPILE_SECONDS": "1000",
    "PYTHONSAFEPATH": "1",
}
SHOWN_PYTHON = (3, 11)


def written(example: str) -> dict[str, str]:
    """What the stages write for the example: text by file name."""
    with tempfile.TemporaryDirectory() as folder:
        script, dump = pathlib.Path(folder, "example.py"), pathlib.Path(folder, "dump")
        script.write_text(example)
        settings = {**os.environ, **SETTINGS, "FLAMBEAU_DUMP": str(dump), "FLAMBEAU_CACHE_DIR": f"{folder}/cache"}
        subprocess.run([sys.executable, str(script)], check=True, cwd=folder, env=settings, stdout=subprocess.DEVNULL)
        (found,) = dump.iterdir()
        return {path.name: path.read_text().replace(f"{folder}/", "") for path in found.iterdir()}


def part_of(text: str, part: str | None) -> str:
    """`from A` and `to B`: the lines from the first that begins with A to the one before the next that begins with B; without
    a part, programs are shown without their imports."""
    begin, _, end = (part or "from def ").partition(" to ")
    lines, begin = text.splitlines(), begin.removeprefix("from ")
    starts = [k for k, line in enumerate(lines) if line.startswith(begin)]
    lines = lines[starts[0] :] if starts else lines
    stops = [k for k, line in enumerate(lines) if k and end and line.startswith(end)]
    shown = "\n".join(lines[: stops[0]] if stops else lines).strip("\n")
    return re.sub(r" object at 0x\w*", "", shown) + "\n"


def filled(page: str) -> str:
    example = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    texts = written(example)

    def block(match):
        if match["file"] == "bytecode.txt" and sys.version_info[:2] != SHOWN_PYTHON:
            return match[0]
        return match[1] + part_of(texts[match["file"]], match["part"]) + match[6]

    return MADE.sub(block, page)


if __name__ == "__main__":
    finish(PAGE, filled(PAGE.read_text()))
