"""Tiles: which axes a block of a kernel covers, its masks, and the lines that number its points.

In: groups of axes, one a dimension of the tile. Out: index variables shaped to broadcast over the tile. The idea: a value
depends on some dimensions of the tile only (`dims`); it stays that small until it meets another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import ExprLike, int_if_const, product
from ..loops.ir import Axis
from .triton_text import Lines, expression, factor


class BlockValue(NamedTuple):
    """A value that has been printed: its text and the dimensions of the tile that it depends on."""

    text: str
    dims: frozenset


@dataclass(eq=False)
class Dim:
    """One dimension of a tile: the points of `axes` in row-major order, `block` of them at a time."""

    letter: str
    axes: tuple[Axis, ...]
    block: str
    masked: bool = True

    @property
    def extent(self) -> ExprLike:
        return int_if_const(product(axis.extent for axis in self.axes))

    @property
    def mask(self) -> str:
        return f"{self.letter}mask"

    @property
    def index(self) -> str:
        """The variable of the flat position."""
        return self.axes[0].name if len(self.axes) == 1 else f"{self.letter}index"


@dataclass(eq=False)
class Tile:
    """The dimensions of a kernel's blocks, in order."""

    dims: tuple[Dim, ...]
    where: dict[str, frozenset] = field(default_factory=dict)  # variable -> letters of the dimensions it varies along

    def __post_init__(self):
        for dim in self.dims:
            self.where |= {axis.name: frozenset(dim.letter) for axis in dim.axes}

    @property
    def letters(self) -> frozenset:
        return frozenset(dim.letter for dim in self.dims if dim.axes)

    def shape(self, dims: frozenset | None = None) -> str:
        """The shape of a block that varies along some of the dimensions."""
        wanted = self.letters if dims is None else dims
        return f"[{', '.join(d.block if d.letter in wanted else '1' for d in self.dims)}]"

    def spread(self, dim: Dim) -> str:
        """What turns a vector along one dimension into a block."""
        if len(self.dims) == 1:
            return ""
        return f"[{', '.join(':' if d is dim else 'None' for d in self.dims)}]"

    def masks(self, dims: frozenset) -> list[str]:
        return [d.mask for d in self.dims if d.letter in dims and d.masked]

    def number(self, out: Lines, dim: Dim, start: str, bounds: Bounds) -> None:
        """The lines that number the points of one dimension from `start` on."""
        lanes = f"tl.arange(0, {dim.block}){self.spread(dim)}"
        out(f"{dim.index} = {start} + {lanes}" if start else f"{dim.index} = {lanes}.to(INDEX)")
        self.mask(out, dim, bounds)
        self.decode(out, dim, bounds)

    def mask(self, out: Lines, dim: Dim, bounds: Bounds) -> None:
        if dim.masked:
            out(f"{dim.mask} = {dim.index} < {expression(dim.extent, bounds)}")

    def decode(self, out: Lines, dim: Dim, bounds: Bounds) -> None:
        decode(out, dim.axes, dim.index, bounds)


def decode(out: Lines, axes: tuple[Axis, ...], flat: str, bounds: Bounds) -> None:
    """The axes' variables from a flat position, the last axis fastest."""
    if len(axes) < 2:
        return
    for k, axis in enumerate(axes):
        faster = int_if_const(product(a.extent for a in axes[k + 1 :]))
        text = flat if faster == 1 else f"{flat} // {factor(expression(faster, bounds))}"
        out(f"{axis.name} = {text}" + (f" % {factor(expression(axis.extent, bounds))}" if k else ""))
