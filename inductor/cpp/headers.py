"""The shared headers as one translation unit needs them: what its functions use, with what that uses in its turn.

In: the headers as one text, generated functions. Out: the headers without the functions that nobody names. The C++ compiler
takes a third of a small graph's time for all of them. Types, directives, operators and whatever is not plainly a
function stay always; a function stays with all of its overloads, so that every call means what it meant.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = re.compile(r"//[^\n]*")
FUNCTION = re.compile(r"(?:template <[^{;]*?>\s*)?(?:FB_INLINE|FB_RARE|static inline)\s[\w:<>&*\s]*?\b(\w+)\(")
MADE = re.compile(r"FB_EACH2?\(\w+, (\w+), [\w<>:]+\)")  # defines v_<name>
Piece = tuple[frozenset | None, str]


def needed(headers: str, text: str) -> str:
    """What of the headers `text` needs, without comments."""
    pieces, definitions, always = table(headers)
    wanted, new = set(), always.union(definitions.keys() & WORD.findall(text))
    while new:
        wanted |= new
        new = frozenset().union(*(used_by(headers, name) for name in new)) - wanted
    return "".join(piece for names, piece in pieces if names is None or not names.isdisjoint(wanted))


@functools.lru_cache(4096)
def used_by(headers: str, name: str) -> frozenset:
    """The functions that the overloads of a function name."""
    definitions = table(headers)[1]
    return frozenset(definitions.keys() & WORD.findall("\n".join(definitions[name])))


@functools.lru_cache(4)
def table(headers: str) -> tuple[list[Piece], dict[str, list[str]], frozenset]:
    """Pieces with the functions that they define (None: they stay); the pieces of each function's overloads; the functions
    that what stays needs."""
    pieces = [(names_of(piece), piece) for piece in split(COMMENT.sub("", headers) + "\n")]
    definitions: dict[str, list[str]] = {}
    for names, piece in pieces:
        for name in names or ():
            definitions.setdefault(name, []).append(piece)
    staying = "\n".join(piece for names, piece in pieces if names is None)
    return pieces, definitions, frozenset(definitions.keys() & WORD.findall(staying))


def names_of(piece: str) -> frozenset | None:
    """The functions that a piece defines, if that is all it does."""
    code = piece.lstrip()
    if code.startswith("FB_EACH"):
        made, rest = MADE.findall(code), MADE.sub("", code).strip()
    else:
        made, rest = (), code
    function = FUNCTION.match(rest)
    if function is None and (rest or not made) or function is not None and "operator" in function[0]:
        return None
    return frozenset([*(f"v_{name}" for name in made), *(function.groups() if function else ())])


def split(text: str) -> Iterator[str]:
    """Pieces that belong together: a directive of the preprocessor, or definitions up to a last brace or semicolon."""
    piece: list[str] = []
    depth = 0
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        bare = line.strip()
        if not bare:
            continue
        if depth == 0 and bare[0] == "#":
            if piece:
                yield "".join(piece)
                piece = []
            while line.endswith("\\\n"):
                line += next(lines)
            yield line
            continue
        piece.append(line)
        depth += line.count("{") + line.count("(") - line.count("}") - line.count(")")
        if depth == 0 and bare[-1] in ";}":
            yield "".join(piece)
            piece = []
    if piece:
        yield "".join(piece)
