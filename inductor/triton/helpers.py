"""The functions of `library.py` as text, by name.

In: a text that calls some of them. Out: those that it needs, as a generated file shows them.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path


@functools.cache
def library() -> dict[str, str]:
    """The functions of library.py by name, each with its decorator."""
    source = Path(__file__).with_name("library.py").read_text()
    lines = source.splitlines()
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            first = min(d.lineno for d in node.decorator_list) - 1
            found[node.name] = "\n".join(lines[first : node.end_lineno])
    return found


def needed(text: str) -> list[str]:
    """The functions that a text calls, and those that these call, in the library's order."""
    functions = library()
    wanted, todo = set(), [text]
    while todo:
        code = re.sub(r"#.*", "", todo.pop())
        used = set(re.findall(r"(?<![\w.])(\w+)(?=[(),])", code)) & functions.keys()
        todo += [functions[name] for name in used - wanted]
        wanted |= used
    return [body for name, body in functions.items() if name in wanted]
