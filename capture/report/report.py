"""`Report`: the facts about one compiled function, with everything that shows them.

In: `data.Facts`. Out: findings, text, tables, a page, dictionaries.
"""

from __future__ import annotations

from .data import Facts
from .diagnostics import Finding, findings
from .page import embedded, write
from .text import show, text


class Report(Facts):
    """What became of a compiled function. Printed, it is text; in a notebook, the page."""

    @property
    def findings(self) -> list[Finding]:
        """What there is to complain of, at which line, why, and what to do."""
        return findings(self)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"<report of {self.title}: {len(self.graphs)} graphs, {len(self.breaks)} breaks, {len(self.kernels)} kernels>"

    def show(self) -> None:
        """Print it: with tables where the package rich is installed, else as plain text."""
        show(self)

    def html(self, path: str) -> str:
        """Write the page, one file that needs no network; returns the path."""
        return write(self, path)

    def _repr_html_(self) -> str:
        return embedded(self)
