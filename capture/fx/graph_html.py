"""Graphs in a notebook: a table of nodes.

In: a title and rows of texts. Out: HTML that takes its colours from the page around it, so it reads in light and dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

CELL = "text-align:left;padding:1px 12px 1px 0;white-space:pre-wrap;vertical-align:top;border:0;background:none"
TABLE = "border-collapse:collapse;font-family:monospace;font-size:90%"
FAINT = "opacity:.65;"
MOST_ROWS = 500  # that a browser draws without a thought


def table_html(title: str, rows: Sequence[Sequence[str]], strong: int = 2) -> str:
    """A table; columns from the `strong`-th on are faint."""
    shown = [*rows[:MOST_ROWS], *([(f"... and {len(rows) - MOST_ROWS} more",)] if len(rows) > MOST_ROWS else [])]
    return (
        f'<div><div style="font-weight:600">{html.escape(title)}</div><table style="{TABLE}"><tbody>'
        f"{''.join(row_html(row, strong) for row in shown)}</tbody></table></div>"
    )


def row_html(row: Sequence[str], strong: int) -> str:
    cells = (f'<td style="{FAINT * (k >= strong)}{CELL}">{html.escape(text)}</td>' for k, text in enumerate(row))
    return f"<tr>{''.join(cells)}</tr>"
