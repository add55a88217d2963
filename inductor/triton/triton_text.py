"""Names, indented lines, types and index expressions of generated Triton code.

In: what the loop IR names. Out: Python text. Index arithmetic is C's inside a kernel: `//` and `%` stand only where both
operands are known not to be negative, a helper with Python's meaning elsewhere.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

from ...capture.shapes.value_ranges import Bounds, simplify
from ...capture.shapes.expr import Expr, ExprLike
from ...runtime.errors import BackendError
from .. import source_text as text

# element type -> (in memory, in registers); halves are computed in float32
TYPES = {
    "float32": ("fp32", "tl.float32"),
    "float64": ("fp64", "tl.float64"),
    "bfloat16": ("bf16", "tl.float32"),
    "float16": ("fp16", "tl.float32"),
    "int64": ("i64", "tl.int64"),
    "int32": ("i32", "tl.int32"),
    "int16": ("i16", "tl.int16"),
    "int8": ("i8", "tl.int8"),
    "uint64": ("u64", "tl.uint64"),
    "uint32": ("u32", "tl.uint32"),
    "uint16": ("u16", "tl.uint16"),
    "uint8": ("u8", "tl.uint8"),
    "bool": ("i1", "tl.int1"),
}
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")  # bytes in memory, which casts take apart
HALVES = {"bfloat16": "tl.bfloat16", "float16": "tl.float16"}


def memory_type(dtype: Any) -> str:
    """What a signature calls a pointer's element."""
    return _known(dtype)[0]


def held_type(dtype: Any) -> str:
    """The same; bytes for float8, and for types that only eager touches, between launches."""
    return TYPES.get(dtype.name, ("u8",))[0]


def register_type(dtype: Any) -> str:
    return _known(dtype)[1]


def stored_type(dtype: Any) -> str:
    """The type as memory has it."""
    return HALVES.get(dtype.name) or register_type(dtype)


def _known(dtype: Any) -> tuple[str, str]:
    found = TYPES.get(dtype.name)
    if found is None:
        raise BackendError(f"the Triton backend has no registers for {dtype.name}", f"compute in one of: {', '.join(TYPES)}")
    return found


TAKEN = (
    frozenset(keyword.kwlist)
    | frozenset(dir(builtins))
    | frozenset(
        """
    triton tl libdevice INDEX XBLOCK YBLOCK ZBLOCK RBLOCK BM BN BK GROUP DOT PRECISION error seed base pid xindex yindex zindex
    rindex m n k xmask ymask zmask rmask mmask nmask launch cdiv index run buffers p t first group group_number rows columns
    tiles_m tiles_n batch image start higher away total running value a b w0 w1 w2 w3 c0 c1 c2 c3 at0 at1 at2 from0 from1 from2
    """.split()
    )
)


class Names(text.Names):
    """Distinct identifiers of Python that hide nothing which kernels use."""

    def __init__(self, taken: Iterable[str] = TAKEN):
        super().__init__(taken)

    def fresh(self, name: str) -> str:
        base = re.sub(r"\W", "_", name) or "v"
        return super().fresh("v" + base if base[0].isdigit() or base[0] == "_" else base)


class Lines(text.Lines):
    """Lines of Python under an indentation."""

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self(header)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def expression(e: ExprLike, bounds: Bounds | None = None, host: bool = False) -> str:
    """An index expression as Python; for the host, or inside of a kernel."""
    if not isinstance(e, Expr):
        return str(e)
    if bounds is not None and any(a.op != "var" for m, _ in e.terms for a, _p in m):
        e = simplify(e, bounds)
        if not isinstance(e, Expr):
            return str(e)
    if not e.terms:
        return "0"
    text = ""
    for k, (monomial, c) in enumerate(e.terms):
        sign = ("-" if c < 0 else "") if k == 0 else (" - " if c < 0 else " + ")
        factors = [_atom(a, bounds, host) for a, power in monomial for _ in range(power)]
        if abs(c) != 1 or not monomial:
            factors.append(_constant(abs(c), host))
        text += sign + "*".join(factors)
    return text


def _constant(c: int, host: bool) -> str:
    """A number in an expression; sizes are 32 bits wide, and beside them it has to say so if it is wider."""
    return str(c) if host or c < 2**31 else f"tl.full((), {c}, tl.int64)"


def _atom(atom: Any, bounds: Bounds | None, host: bool) -> str:
    if atom.op == "var":
        return atom.name
    args = [expression(a, bounds, host) for a in atom.args]
    if atom.op in ("max", "min"):
        function = atom.op if host else f"tl.{atom.op}imum"
        return reduce(lambda a, b: f"{function}({a}, {b})", args)
    a, d = atom.args
    sign = "//" if atom.op == "floordiv" else "%"
    if host or bounds is not None and bounds.nonnegative(a) and bounds.nonnegative(d - 1):
        return f"({factor(args[0])} {sign} {factor(args[1])})"
    return f"{'floordiv' if atom.op == 'floordiv' else 'mod'}({args[0]}, {args[1]})"


def factor(text: str) -> str:
    """A text as an operand of a product."""
    return text if re.fullmatch(r"[\w.]+|\([^()]*\)", text) else f"({text})"
