"""What a command gives back, and the exit statuses that all commands share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

DONE, FOUND, WRONG, FAILED = range(4)
INTERRUPTED = 130  # as a shell tells of a program that Ctrl-C ended
STATUSES = {
    DONE: "done, and nothing is wrong",
    FOUND: "done, and something was found: graph breaks, damaged files, a stage that differs, no way to compile",
    WRONG: "asked for something that does not exist (a command, an op, a file, a function)",
    FAILED: "the program that was to be run failed; its own message stands on stderr",
}


@dataclass(frozen=True)
class Answer:
    """`facts` are plain values (what `--json` prints), `text` is what a person reads."""

    facts: Any
    text: str
    status: int = DONE

    def show(self, as_json: bool) -> int:
        """Print it, and give the status."""
        text = json.dumps(self.facts, indent=2, default=str) if as_json else self.text
        if text:
            print(text)
        return self.status


class Wrong(Exception):
    """The command line names something that is not there."""


class ScriptFailed(Exception):
    """The program that a command runs raised, or ended with a status of its own; `status`: what `python` would have given."""

    def __init__(self, text: str, status: int = 1):
        super().__init__(text)
        self.status = status


def table(rows: list[tuple], gap: str = "  ") -> str:
    """Rows of texts in columns as wide as their longest."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows)]
    return "\n".join(gap.join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
