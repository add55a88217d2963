"""Runs the Python blocks of a page of documentation in order, in one namespace: `python tests/pages.py PAGE [packages]`.

A block is compiled under the page's own name and lines, so what reports and kernels call its source is the page. A `text` block
behind it is what it prints; `...` there stands for anything within a line. A block behind `<!-- needs: PACKAGE -->` runs only
when the page is run with the word `packages`, and then only those do.
"""

import contextlib
import dataclasses
import io
import pathlib
import re
import sys

FENCE = re.compile(
    r"^(?P<needs><!-- needs: (?P<package>\w+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclasses.dataclass
class Block:
    """`line`: of the page, where its text begins; expected: what it prints, None: anything."""

    language: str
    text: str
    line: int
    package: str | None
    expected: str | None = None


def blocks(page: pathlib.Path) -> list[Block]:
    """The fenced blocks of a page; one of language `text` right behind a Python block is that one's output."""
    source, found, end = page.read_text(), [], 0
    for match in FENCE.finditer(source):
        line = source.count("\n", 0, match.start("text")) + 1
        block = Block(match["language"], match["text"], line, match["package"])
        if block.language == "text" and found and found[-1].language == "python" and not source[end : match.start()].strip():
            found[-1].expected = block.text
        found.append(block)
        end = match.end()
    return found


def same(expected: str, printed: str) -> bool:
    """Equal but for blanks at ends of lines, and `...`."""
    tidy = lambda text: "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    pattern = ".*?".join(map(re.escape, tidy(expected).split("...")))
    return re.fullmatch(pattern, tidy(printed)) is not None


def run(page: pathlib.Path, packages: bool) -> int:
    """Runs the blocks; the number of those that ran."""
    names, count = {"__name__": "__main__"}, 0
    for block in blocks(page):
        if block.language != "python" or (block.package is not None) != packages:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        count += 1
        if block.expected is not None and not same(block.expected, printed.getvalue()):
            sys.exit(f"{page}:{block.line}: this was printed\n{printed.getvalue()}\nand the page says\n{block.expected}")
    return count


if __name__ == "__main__":
    print(run(pathlib.Path(sys.argv[1]).resolve(), "packages" in sys.argv[2:]))
