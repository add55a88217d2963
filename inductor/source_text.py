"""Names and lines of generated code, in whatever language: what the targets' own `text.py` build on.

In: keys with wanted names, lines with their depth. Out: distinct identifiers, indented text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Names:
    """Distinct identifiers for objects (by identity or equality of the key). A language says what an identifier is."""

    def __init__(self, taken: Iterable[str] = ()):
        self.found: dict[Any, str] = {}
        self.used: set[str] = set(taken)

    def __call__(self, key: Any, wanted: str) -> str:
        name = self.found.get(key)
        if name is None:
            name = self.found[key] = self.fresh(self.identifier(wanted))
        return name

    def identifier(self, wanted: str) -> str:
        return wanted

    def fresh(self, name: str) -> str:
        """The name, or the first of name_2, name_3, ... that is free."""
        candidate, n = name, 2
        while candidate in self.used:
            candidate, n = f"{name}_{n}", n + 1
        self.used.add(candidate)
        return candidate


class Lines:
    """Lines of code under an indentation."""

    def __init__(self, depth: int = 0):
        self.lines: list[str] = []
        self.depth = depth

    def __call__(self, text: str = "") -> None:
        self.lines.append("    " * self.depth + text if text else "")

    def extend(self, lines: Iterable[str]) -> None:
        for line in lines:
            self(line)

    def text(self) -> str:
        return "\n".join(self.lines)


def shape_text(dtype: Any, sizes: tuple) -> str:
    return f"{dtype.name}[{', '.join(map(str, sizes))}]"
