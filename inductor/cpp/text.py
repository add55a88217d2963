"""Names and lines of generated code: placeholders that become readable names, and indented lines.

A kernel is written once with placeholders for its buffers and symbols. Filled with positions it is the kernel's
identity (equal kernels are emitted once); filled with names it is what people read.
"""

from __future__ import annotations

import functools
import re
from typing import Any
from collections.abc import Iterable

from ...capture.expr import Bounds, Expr, ExprLike, simplify
from ...runtime import native

HEADERS = ("vector.h", "philox.h", "math.h", "abi.h", "loops.h")
KEYWORDS = """
alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double else
enum explicit extern false float for friend goto if inline int long mutable namespace new not operator or private
protected public register return short signed sizeof static struct switch template this throw true try typedef
typename union unsigned using virtual void volatile while xor main begin end thread raw args far drain body point points row
tile stride batch rows columns block m b k l u first past chunks blocks column0 row m0 n0 tile_row r LANES COLUMNS p
g n f sym fsym rt error buffers arena plan out start
""".split()
CALLED = r"\b([A-Za-z_]\w*+)\("
DEFINED = r"^(?:typedef [^(;]*?\b(\w+)(?: __attribute__.*)?;|(?:template <.*> )?struct (\w+)|#define (\w+))"


@functools.cache
def prelude() -> str:
    """The shared headers as one text without includes."""
    return "\n".join(native.header(name) for name in HEADERS)


@functools.cache
def taken_names() -> frozenset[str]:
    """Functions, types and macros of the prelude that generated names must not hide."""
    called, defined = re.findall(CALLED, prelude()), re.findall(DEFINED, prelude(), re.MULTILINE)
    return frozenset(called).union(*defined, KEYWORDS)


def identifier(wanted: str) -> str:
    """A C++ identifier close to the wanted name."""
    name = re.sub(r"\W", "_", wanted)
    if not name or name[0].isdigit() or name.startswith("_"):
        name = "x" + name
    return name + "_" if name in taken_names() else name


class Names:
    """Distinct identifiers for objects (by identity or equality of the key)."""

    def __init__(self):
        self.found: dict[Any, str] = {}
        self.used: set[str] = set()

    def __call__(self, key: Any, wanted: str) -> str:
        name = self.found.get(key)
        if name is None:
            name = self.found[key] = self.fresh(identifier(wanted))
        return name

    def fresh(self, name: str) -> str:
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

    def open(self, text: str) -> None:
        self(text + " {" if text else "{")
        self.depth += 1

    def close(self, tail: str = "") -> None:
        self.depth -= 1
        self("}" + tail)

    def extend(self, lines: Iterable[str]) -> None:
        for line in lines:
            self(line)

    def text(self) -> str:
        return "\n".join(self.lines)


def cpp(e: ExprLike, bounds: Bounds | None = None) -> str:
    """An index expression as C++ over i64 names."""
    if not isinstance(e, Expr):
        return f"{e}l" if abs(e) >= 2**31 else str(e)
    if bounds is not None and any(a.op != "var" for m, _ in e.terms for a, _p in m):
        e = simplify(e, bounds)
        if not isinstance(e, Expr):
            return str(e)
    return e.cpp(bounds)


def factor(e: ExprLike, bounds: Bounds | None = None) -> str:
    """`e` as an operand of a product."""
    text = cpp(e, bounds)
    return text if re.fullmatch(r"[\w.]+", text) else f"({text})"


def shape_text(dtype: Any, sizes: tuple) -> str:
    return f"{dtype.name}[{', '.join(map(str, sizes))}]"
