"""Attention without its weights in memory, forward and backward: a block of queries walks all keys, or keys all queries.

In: the runtime's call as data (`runtime/attention.py`). Out: `TritonKernel`, one kernel forward, two backward. Forward keeps for
every query the largest score, the sum of exponentials and the weighted values so far; they are scaled anew when a larger score
comes. Backward computes the weights again from the log-sum-exp: one kernel for queries, which leaves the sums that the other,
for keys and values, needs. Exponentials are powers of two: log2(e) is in the scale.
"""

from __future__ import annotations

import math
from collections import ChainMap
from dataclasses import dataclass
from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import ExprLike, int_if_const, product
from ...eager import dtypes
from ...runtime.kernel_calls import RuntimeCall
from ..loops.body import Buffer
from ..loops.ir import Axis, ExternCall, View, step_bounds
from . import configs
from .prims import division
from .products import SMALLEST, precision
from .row_kernels import power_of_two
from .triton_text import HALVES, expression, factor, register_type
from .tiles import Tile, decode
from .block_values import Argument, KernelWriter, TritonKernel

NAMES = ("attention_forward", "attention_backward")
NO_MASK, BOOL_MASK = 0, 1
LOCAL = frozenset(
    """
    tiles item head depths deeps queries keys values given scores weights slopes share sums top lse sum made made_keys made_values
    queries_start keys_start values_start given_start low free last keep kept_weights weight
    """.split()
)
KEPT = {"weights": "kept_weights", "slopes": "slopes"}  # what is kept, by what there was
LOG2E, LN2 = 1 / math.log(2), math.log(2)
# by bytes of an element and the deepest row: queries and keys of a block, warps, stages; forward, backward
BLOCKS = {
    2: ((64, (128, 64, 4, 3), (64, 64, 4, 2)), (128, (128, 64, 8, 2), (64, 32, 4, 2)), (256, (64, 32, 8, 2), (32, 32, 8, 1))),
    4: ((64, (64, 32, 4, 2), (32, 32, 4, 2)), (128, (32, 32, 4, 2), (32, 32, 8, 1))),
    8: ((64, (16, 16, 4, 1), (16, 16, 4, 1)), (128, (16, 16, 4, 1), (16, 16, 4, 1))),
}


def has_template(call: Any) -> bool:
    """Rows of a known length that a block can hold."""
    if not isinstance(call, RuntimeCall) or call.name not in NAMES:
        return False
    depths = call.numbers[3:5]
    most = BLOCKS[operands(call)[0].dtype.itemsize][-1][0]
    return all(isinstance(n, int) and 0 < n <= most for n in depths)


def operands(call: RuntimeCall) -> tuple:
    """The regions of q, k, v, the mask and what dropout keeps."""
    first = 2 if call.name == "attention_forward" else 3
    return call.arrays[first : first + 5]


def mask_place(call: RuntimeCall) -> int:
    """Where the mask of dropout stands among a call's arrays."""
    return 6 if call.name == "attention_forward" else 7


@dataclass(frozen=True)
class Shape:
    """Sizes and strides: (batch, head, row) of q, k, v and the result's gradient; four of the mask."""

    heads: ExprLike
    length: ExprLike
    width: ExprLike
    depth: int
    deep: int
    causal: bool
    q: tuple
    k: tuple
    v: tuple
    g: tuple
    mask: tuple
    kind: int


def shape_of(call: RuntimeCall) -> Shape:
    numbers = [int_if_const(n) for n in call.numbers]
    heads, length, width, depth, deep, causal = numbers[:6]
    q, k, v, g = (tuple(numbers[at : at + 3]) for at in (8, 11, 14, 17))
    mask, kind = tuple(numbers[20:24]), numbers[24]
    return Shape(heads, length, width, int(depth), int(deep), bool(causal), q, k, v, g, mask, int(kind))


class AttentionWriter(KernelWriter):
    """What the kernels share: blocks of rows, and the scores of a block."""

    SUFFIX = ""

    def __init__(self, program: Any, kernel: ExternCall):
        super().__init__(program, kernel)
        self.names.used |= LOCAL
        self.call: RuntimeCall = kernel.call
        self.shape = shape_of(self.call)
        self.q, self.k, self.v, self.mask, self.keep = operands(self.call)
        self.dtype = self.q.dtype
        self.compute = self.dtype if self.dtype is dtypes.float64 else dtypes.float32
        self.register = register_type(self.compute)
        self.blocks = self.sizes_of_blocks()
        self.items = int_if_const(product(self.q.sizes[:-2]))

    def axes(self) -> list:
        return []

    @property
    def used(self) -> str:
        """The weights that values are summed with."""
        return "weights" if self.keep is None else KEPT["weights"]

    def sizes_of_blocks(self) -> dict[str, Any]:
        s = self.shape
        deepest = max(s.depth, s.deep)
        forward, backward = next(b[1:] for b in BLOCKS[self.dtype.itemsize] if deepest <= b[0])
        bm, bn, warps, stages = forward if self.call.name == "attention_forward" else backward
        fit = lambda n, most: max(SMALLEST, min(most, power_of_two(n))) if isinstance(n, int) else most
        made = {
            "BM": fit(s.length, bm),
            "BN": fit(s.width, bn),
            "BD": max(SMALLEST, power_of_two(s.depth)),
            "BV": max(SMALLEST, power_of_two(s.deep)),
        }
        if self.dtype.name in HALVES:
            made["DOT"] = HALVES[self.dtype.name]
        return {**made, "PRECISION": precision(self.dtype), "num_warps": warps, "num_stages": stages}

    # -- text

    def dot(self, a: str, b: str, acc: str = "") -> str:
        given = f", {acc}" if acc else ""
        return f"tl.dot({a}, {b}{given}, input_precision=PRECISION, out_dtype={self.register})"

    def half(self, text: str) -> str:
        """An operand of a product as tensor cores take it."""
        return f"{factor(text)}.to(DOT)" if self.dtype.name in HALVES else text

    def zeros(self, *sizes: str) -> str:
        return f"tl.full(({', '.join(sizes)},), 0.0, {self.register})"

    def whole(self, extent: ExprLike, block: str) -> bool:
        """Whether blocks end where the extent does."""
        return isinstance(extent, int) and extent % self.blocks[block] == 0

    def inside(self, rows: str, extent: ExprLike, block: str, deep: str = "", depth: int = 0, wide: str = "") -> list[str]:
        """Masks of a block of rows."""
        found = [] if self.whole(extent, block) else [f"({rows}[:, None] < {self.text(extent)})"]
        return found + ([f"({deep}[None, :] < {depth})"] if deep and depth != self.blocks[wide] else [])

    def start_of(self, region: Any, strides: tuple) -> str:
        """The place of the item's first row."""
        texts = [self.text(region.offset)] if region.offset != 0 else []
        texts += [f"{name} * {factor(self.text(s))}" for name, s in (("batch", strides[0]), ("head", strides[1])) if s != 0]
        return " + ".join(texts) or "0"

    def block_of(self, name: str, region: Any, strides: tuple, rows: str, extent: ExprLike, block: str, deep: str) -> None:
        """Load a block of rows: (rows, depths) of the item's matrix."""
        depth, wide = (self.shape.depth, "BD") if deep == "depths" else (self.shape.deep, "BV")
        place = (
            f"{self.pointer(region.buffer)} + {name}_start + {rows}[:, None] * {factor(self.text(strides[2]))} + {deep}[None, :]"
        )
        masks = self.inside(rows, extent, block, deep, depth, wide)
        given = f", {' & '.join(masks)}, other=0.0" if masks else ""
        self.lines(f"{name} = tl.load({place}{given})" + (".to(DOT)" if self.dtype.name in HALVES else ""))

    def begin(self, extent: ExprLike, block: str, rows: str, backwards: bool) -> None:
        """Which rows of which item a program computes; with `backwards` the last rows first, as they have most to do."""
        out = self.lines
        out("pid = tl.program_id(0).to(INDEX)")
        out(f"tiles = ({self.text(extent)} + {block} - 1) // {block}")
        out("item = pid // tiles")
        out(f"batch = item // {factor(self.text(self.shape.heads))}")
        out(f"head = item % {factor(self.text(self.shape.heads))}")
        out(f"first = {'(tiles - 1 - pid % tiles)' if backwards else 'pid % tiles'} * {block}")
        out(f"{rows} = first + tl.arange(0, {block})")
        out("depths = tl.arange(0, BD)")
        out("deeps = tl.arange(0, BV)")

    def scores(self, edge: bool) -> None:
        """`scores` of the block at hand, in powers of two; `edge`: some are of no key, or of a later one."""
        s, scale = self.shape, float(self.call.reals[0]) * LOG2E
        self.lines(f"scores = {self.dot('queries', 'tl.trans(keys)')} * {scale!r}")
        if edge:
            shown = [] if self.whole(s.width, "BN") else [f"(columns[None, :] < {self.text(s.width)})"]
            shown += ["(columns[None, :] <= rows[:, None])"] if s.causal else []
            if shown:
                self.lines(f'scores = tl.where({" & ".join(shown)}, scores, float("-inf"))')
        if s.kind != NO_MASK:
            self.masked()

    def masked(self) -> None:
        s, at = self.shape, ("batch", "head", "rows[:, None]", "columns[None, :]")
        terms = [self.text(self.mask.offset)] if self.mask.offset != 0 else []
        terms += [f"{name} * {factor(self.text(n))}" for name, n in zip(at, s.mask) if n != 0]
        inside = f"(rows[:, None] < {self.text(s.length)}) & (columns[None, :] < {self.text(s.width)})"
        place = f"tl.broadcast_to({' + '.join(terms) or 'rows[:, None] * 0'}, (BM, BN))"
        loaded = f"tl.load({self.pointer(self.mask.buffer)} + {place}, {inside}, other=0)"
        if s.kind == BOOL_MASK:
            self.lines(f'scores = tl.where({loaded}, scores, float("-inf"))')
        else:
            self.lines(f"scores = scores + {loaded}.to({self.register}) * {LOG2E!r}")

    def walk_keys(self, step: Any) -> None:
        """`step(edge)` for every block of keys: those before the diagonal and the end without masks, then the others."""
        s, width = self.shape, self.text(self.shape.width)
        if not s.causal and isinstance(s.width, int) and s.width < self.blocks["BN"]:
            with self.lines.block(f"for start in range(0, {width}, BN):"):
                step(True)
            return
        end = f"tl.minimum({width}, first + BM)" if s.causal else width
        free = f"tl.minimum({width}, first + 1) // BN * BN" if s.causal else f"{factor(width)} // BN * BN"
        if s.causal:
            self.lines(f"last = {end}")
            end = "last"
        self.lines(f"free = {free}")
        with self.lines.block("for start in range(0, free, BN):"):
            step(False)
        if s.causal or not self.whole(s.width, "BN"):
            with self.lines.block(f"for start in range(free, {end}, BN):"):
                step(True)

    def key_block(self, edge: bool) -> None:
        """Load keys and values of one block; without an edge all of them are there."""
        s = self.shape
        self.lines("columns = start + tl.arange(0, BN)")
        extent = s.width if edge else 0  # 0: a multiple of any block
        self.block_of("keys", self.k, s.k, "columns", extent, "BN", "depths")
        self.block_of("values", self.v, s.v, "columns", extent, "BN", "deeps")

    def dropped(self, *names: str) -> None:
        """Of weights, and of slopes towards them, those that dropout keeps, larger."""
        if self.keep is None:
            return
        if isinstance(self.keep, View):
            self.load_keep()
        else:
            self.draw_keep()
        for name in names:
            self.lines(f"{KEPT[name]} = {name} * tl.where(keep, {float(self.call.reals[1])!r}, 0.0)")

    def draw_keep(self) -> None:
        """The mask of this block from its positions, as the kernel that it takes the place of would draw it."""
        axes, value = self.keep.axes, self.keep.step.stores[0].value
        flat = axes[0].name if len(axes) == 1 else "weight"
        self.tile, self.made, self.bounds = Tile(()), ChainMap(), step_bounds(axes, self.keep.step)
        self.tile.where |= {axis.name: frozenset("mn") for axis in axes}
        self.lines(f"{flat} = {self.weight()}")
        decode(self.lines, tuple(Axis(a.name, self.sizes(a.extent)) for a in axes), flat, self.bounds)
        self.emit([value])
        self.lines(f"keep = {self.get(value).text}")
        self.bounds = Bounds({})

    def load_keep(self) -> None:
        s = self.shape
        inside = f"(rows[:, None] < {self.text(s.length)}) & (columns[None, :] < {self.text(s.width)})"
        self.lines(f"keep = tl.load({self.pointer(self.keep.buffer)} + {self.weight()}, {inside}, other=0)")

    def weight(self) -> str:
        """The numbers of a block's weights among all."""
        s = self.shape
        return f"(item * {factor(self.text(s.length))} + rows[:, None]) * {factor(self.text(s.width))} + columns[None, :]"

    def starts(self, **regions: tuple) -> None:
        for name, (region, strides) in regions.items():
            self.lines(f"{name}_start = {self.start_of(region, strides)}")

    def put(self, region: Any, name: str, rows: str, extent: ExprLike, block: str, deep: str) -> None:
        """Store a block of rows into a row-major result."""
        depth, wide = (self.shape.depth, "BD") if deep == "depths" else (self.shape.deep, "BV")
        height = factor(self.text(extent))
        place = f"{self.pointer(region.buffer)} + (item * {height} + {rows}[:, None]) * {depth} + {deep}[None, :]"
        masks = self.inside(rows, extent, block, deep, depth, wide)
        self.lines(f"tl.store({place}, {name}{', ' + ' & '.join(masks) if masks else ''})")

    def row_numbers(self, rows: str, extent: ExprLike, block: str) -> tuple[str, str]:
        """The place of one number a row, and what of `tl.load` masks rows that are not there."""
        mask = "" if self.whole(extent, block) else f", {rows} < {self.text(extent)}"
        return f"item * {factor(self.text(extent))} + {rows}", mask

    def finished(self, extent: ExprLike, block: str) -> TritonKernel:
        s = self.shape
        for e in (extent, self.items):
            self.sizes(e)
        tiles = f"cdiv({expression(extent, host=True)}, b['{block}'])"
        grid = f"({tiles} * {factor(expression(self.items, host=True))},)"
        points = [int_if_const(product((self.items, extent, max(s.depth, s.deep)))), s.width]
        points += [int_if_const(product((self.items, s.length, s.width)))] if self.keep is not None else []
        return TritonKernel(
            self.kernel,
            self.kernel.name + self.SUFFIX,
            self.lines.lines,
            self.arguments,
            grid,
            dict(self.blocks),
            points,
            rows=self.rows(),
            choices=configs.attention(self.blocks),
        )

    def rows(self) -> dict[str, ExprLike]:
        return {}


class Forward(AttentionWriter):
    def write(self) -> TritonKernel:
        s, out = self.shape, self.lines
        result, lse = self.call.arrays[:2]
        self.begin(s.length, "BM", "rows", s.causal)
        self.starts(queries=(self.q, s.q), keys=(self.k, s.k), values=(self.v, s.v))
        self.block_of("queries", self.q, s.q, "rows", s.length, "BM", "depths")
        out(f'top = tl.full((BM,), float("-inf"), {self.register})')
        out(f"total = {self.zeros('BM')}")
        out(f"sums = {self.zeros('BM', 'BV')}")
        self.walk_keys(self.step)
        found = division(self.compute, ["sums", "tl.where(total == 0, 1.0, total)[:, None]"])
        self.put(result, found, "rows", s.length, "BM", "deeps")
        place, mask = self.row_numbers("rows", s.length, "BM")
        out(f"tl.store({self.pointer(lse.buffer)} + {place}, (tl.log2(total) + finite(top)) * {LN2!r}{mask})")
        return self.finished(s.length, "BM")

    def step(self, edge: bool) -> None:
        out = self.lines
        self.key_block(edge)
        self.scores(edge)
        out("higher = maximum(top, tl.reduce(scores, 1, maximum))")
        out("weights = tl.exp2(scores - finite(higher)[:, None])")
        out("share = tl.exp2(top - finite(higher))")
        out("total = total * share + tl.reduce(weights, 1, add)")
        self.dropped("weights")
        out(f"sums = {self.dot(self.half(self.used), 'values', 'sums * share[:, None]')}")
        out("top = higher")


class Backward(AttentionWriter):
    """What both kernels of the gradient share."""

    def __init__(self, program: Any, kernel: ExternCall):
        super().__init__(program, kernel)
        self.g, self.lse = self.call.arrays[8:10]
        self.sums = Buffer("sums", self.compute, (int_if_const(self.items * self.shape.length),), (1,), 0, "temp")

    def kept(self) -> str:
        """Memory for a sum a query, which one kernel writes and the other reads."""
        self.arguments.setdefault("sums", Argument("scratch", self.sums))
        return "sums"

    def rows(self) -> dict[str, ExprLike]:
        return {"sums": self.sums.sizes[0]}

    def load_lse(self) -> None:
        place, mask = self.row_numbers("rows", self.shape.length, "BM")
        other = f"{mask}, other=0.0" if mask else ""
        self.lines(f"lse = finite(tl.load({self.pointer(self.lse.buffer)} + {place}{other})) * {LOG2E!r}")

    def slopes(self, edge: bool) -> None:
        """`weights`, and `slopes` towards them."""
        self.scores(edge)
        self.lines("weights = tl.exp2(scores - lse[:, None])")
        self.lines(f"slopes = {self.dot('given', 'tl.trans(values)')}")
        self.dropped("slopes", "weights")


class Queries(Backward):
    """The gradient of queries; the sums of weights times slopes."""

    SUFFIX = "_queries"

    def write(self) -> TritonKernel:
        s, out = self.shape, self.lines
        self.begin(s.length, "BM", "rows", s.causal)
        self.starts(queries=(self.q, s.q), keys=(self.k, s.k), values=(self.v, s.v), given=(self.g, s.g))
        self.block_of("queries", self.q, s.q, "rows", s.length, "BM", "depths")
        self.block_of("given", self.g, s.g, "rows", s.length, "BM", "deeps")
        self.load_lse()
        out(f"sum = {self.zeros('BM')}")
        self.walk_keys(self.add_up)
        out(f"made = {self.zeros('BM', 'BD')}")
        self.walk_keys(self.step)
        place, mask = self.row_numbers("rows", s.length, "BM")
        out(f"tl.store({self.kept()} + {place}, sum{mask})")
        self.put(self.call.arrays[0], f"made * {float(self.call.reals[0])!r}", "rows", s.length, "BM", "depths")
        return self.finished(s.length, "BM")

    def add_up(self, edge: bool) -> None:
        self.key_block(edge)
        self.slopes(edge)
        self.lines("sum = sum + tl.reduce(weights * slopes, 1, add)")

    def step(self, edge: bool) -> None:
        self.key_block(edge)
        self.slopes(edge)
        self.lines(f"made = {self.dot(self.half('weights * (slopes - sum[:, None])'), 'keys', 'made')}")


class Keys(Backward):
    """The gradients of keys and values. Keys past the last are computed and not stored."""

    SUFFIX = "_keys"

    def write(self) -> TritonKernel:
        s, out = self.shape, self.lines
        self.begin(s.width, "BN", "columns", False)
        self.starts(queries=(self.q, s.q), keys=(self.k, s.k), values=(self.v, s.v), given=(self.g, s.g))
        self.block_of("keys", self.k, s.k, "columns", s.width, "BN", "depths")
        self.block_of("values", self.v, s.v, "columns", s.width, "BN", "deeps")
        out(f"made_keys = {self.zeros('BN', 'BD')}")
        out(f"made_values = {self.zeros('BN', 'BV')}")
        self.walk_queries()
        scaled = f"made_keys * {float(self.call.reals[0])!r}"
        self.put(self.call.arrays[1], scaled, "columns", s.width, "BN", "depths")
        self.put(self.call.arrays[2], "made_values", "columns", s.width, "BN", "deeps")
        return self.finished(s.width, "BN")

    def walk_queries(self) -> None:
        """All blocks of queries; under a causal mask those that the diagonal crosses, then those behind it."""
        length = self.text(self.shape.length)
        low = "0"
        if self.shape.causal:
            self.lines("low = first // BM * BM")
            self.lines(f"free = tl.minimum({length}, (first + BN + BM - 1) // BM * BM)")
            with self.lines.block("for start in range(low, free, BM):"):
                self.step(True)
            low = "free"
        with self.lines.block(f"for start in range({low}, {length}, BM):"):
            self.step(False)

    def step(self, edge: bool) -> None:
        s, out = self.shape, self.lines
        out("rows = start + tl.arange(0, BM)")
        self.block_of("queries", self.q, s.q, "rows", s.length, "BM", "depths")
        self.block_of("given", self.g, s.g, "rows", s.length, "BM", "deeps")
        self.load_lse()
        place, mask = self.row_numbers("rows", s.length, "BM")
        out(f"sum = tl.load({self.kept()} + {place}{mask + ', other=0.0' if mask else ''})")
        self.slopes(edge)
        out(f"made_values = {self.dot(self.half(f'tl.trans({self.used})'), 'given', 'made_values')}")
        out(f"made_keys = {self.dot(self.half('tl.trans(weights * (slopes - sum[:, None]))'), 'queries', 'made_keys')}")


def write_attention(program: Any, kernel: ExternCall) -> list[TritonKernel]:
    forward = kernel.call.name == "attention_forward"
    return [kind(program, kernel).write() for kind in ((Forward,) if forward else (Queries, Keys))]
