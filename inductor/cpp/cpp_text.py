"""Names and lines of generated code: placeholders that become readable names, and indented lines.

A kernel is written once with placeholders for its buffers and symbols. Filled with positions it is the kernel's
identity (equal kernels are emitted once); filled with names it is what people read.
"""

from __future__ import annotations

import functools
import re

from ...capture.shapes.value_ranges import Bounds, simplify
from ...capture.shapes.expr import Expr, ExprLike
from ...runtime import native
from .. import source_text as text

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


class Names(text.Names):
    """Distinct C++ identifiers."""

    def identifier(self, wanted: str) -> str:
        return identifier(wanted)


class Lines(text.Lines):
    """Lines of C++ under an indentation."""

    def open(self, text: str) -> None:
        self(text + " {" if text else "{")
        self.depth += 1

    def close(self, tail: str = "") -> None:
        self.depth -= 1
        self("}" + tail)


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
    made = cpp(e, bounds)
    return made if re.fullmatch(r"[\w.]+", made) else f"({made})"
