"""Matrix products and convolutions: tiles of `tl.dot` with the epilogue on the accumulator.

In: a `GemmKernel`, or a convolution's `ConvCall` data. Out: `TritonKernel`. The idea: one loop over k for all; they differ in how
a tile of an operand is addressed. A convolution is a product whose operand is read through its windows (implicit GEMM), forward,
backward to the input (transposed) and to the weight alike.
"""

from __future__ import annotations

from typing import Any

from ...capture.shapes.value_ranges import Bounds
from ...capture.shapes.expr import ExprLike, int_if_const, product
from ...eager import dtypes
from ...eager.frontend.legacy import get_float32_matmul_precision
from ...runtime import kernel_calls
from ...runtime.errors import BackendError
from ..loops.body import Buffer
from ..loops.ir import Axis, ExternCall, GemmKernel, Operand, step_bounds
from . import configs
from .row_kernels import power_of_two
from .triton_text import HALVES, expression, factor, register_type
from .tiles import Dim, BlockValue, Tile, decode
from .block_values import NOTHING, KernelWriter, TritonKernel

SMALLEST = 16  # what a tensor core multiplies at least
TILES = {2: (128, 128, 64, 8, 3), 4: (64, 64, 32, 4, 3), 8: (32, 32, 16, 4, 2)}  # by bytes: BM, BN, BK, warps, stages


class ProductWriter(KernelWriter):
    """The frame of all products: which tile a program computes, and the loop over k."""

    def frame(self, m: ExprLike, n: ExprLike, outer: tuple[Axis, ...]) -> None:
        """pid -> outer axes, tile of rows and tile of columns; GROUP rows of tiles share what they read of B."""
        out = self.lines
        m_text, n_text = factor(self.text(m)), factor(self.text(n))
        out("pid = tl.program_id(0).to(INDEX)")
        out(f"tiles_m, tiles_n = ({m_text} + BM - 1) // BM, ({n_text} + BN - 1) // BN")
        if outer:
            out("batch = pid // (tiles_m * tiles_n)")
            out("pid = pid % (tiles_m * tiles_n)")
            if len(outer) == 1:
                out(f"{outer[0].name} = batch")
            decode(out, tuple(Axis(a.name, self.sizes(a.extent)) for a in outer), "batch", self.bounds)
        out("first = pid // (GROUP * tiles_n) * GROUP")
        out("group = tl.minimum(tiles_m - first, GROUP)")
        out("rows = (first + pid % (GROUP * tiles_n) % group) * BM + tl.arange(0, BM)")
        out("columns = pid % (GROUP * tiles_n) // group * BN + tl.arange(0, BN)")

    def loop(self, k: ExprLike, compute: Any, left: Any, right: Any) -> str:
        """`left(k)` and `right(k)` print the tiles of one step and give their names."""
        out = self.lines
        name = self.names.fresh("product")
        out(f"{name} = tl.full((BM, BN), 0.0, {register_type(compute)})")
        with out.block(f"for start in range(0, {self.text(k)}, BK):"):
            out("k = (start + tl.arange(0, BK)).to(INDEX)")
            a, b = left(), right()
            out(f"{name} = tl.dot({a}, {b}, {name}, input_precision=PRECISION, out_dtype={register_type(compute)})")
        return name

    def finished(self, m: ExprLike, n: ExprLike, outer: tuple[Axis, ...], dtype: Any, k: ExprLike) -> TritonKernel:
        for e in (m, n, *(a.extent for a in outer)):
            self.sizes(e)
        tiles = [f"cdiv({expression(m, host=True)}, b['BM'])", f"cdiv({expression(n, host=True)}, b['BN'])"]
        grid = " * ".join([*tiles, *(factor(expression(a.extent, host=True)) for a in outer)])
        points = [int_if_const(product((m, n, *(a.extent for a in outer)))), k]
        blocks = blocks_of(m, n, k, dtype)
        fits = {"BM": fitting(m, 1 << 10), "BN": fitting(n, 1 << 10), "BK": fitting(k, 1 << 10)}
        tried = configs.products(blocks, fits, dtype.itemsize)
        return TritonKernel(
            self.kernel,
            self.kernel.name,
            self.lines.lines,
            self.arguments,
            f"({grid},)",
            blocks,
            points,
            self.fallible,
            choices=tried,
        )

    def dot_type(self, dtype: Any) -> str:
        return ".to(DOT)" if dtype.name in HALVES else ""


def fitting(e: ExprLike, most: int) -> int:
    """A block of at most `most` that is not all padding."""
    return max(SMALLEST, min(most, power_of_two(e))) if isinstance(e, int) else most


def blocks_of(m: ExprLike, n: ExprLike, k: ExprLike, dtype: Any) -> dict[str, Any]:
    bm, bn, bk, warps, stages = TILES[dtype.itemsize]
    made: dict[str, Any] = {"BM": fitting(m, bm), "BN": fitting(n, bn), "BK": fitting(k, bk), "GROUP": 8}
    if dtype.name in HALVES:
        made["DOT"] = HALVES[dtype.name]
    made["PRECISION"] = precision(dtype)
    return {**made, "num_warps": max(1, min(warps, made["BM"] * made["BN"] // 1024)), "num_stages": stages}


def precision(dtype: Any) -> str:
    """How float32 is multiplied: by tensor cores with 10 bits where `set_float32_matmul_precision` allows it."""
    return "tf32" if dtype is dtypes.float32 and get_float32_matmul_precision() != "highest" else "ieee"


class GemmWriter(ProductWriter):
    """A product of strided matrices, and what is computed from it at the same point."""

    def axes(self) -> list[Axis]:
        return [*super().axes(), self.kernel.k]

    def write(self) -> TritonKernel:
        kernel: GemmKernel = self.kernel
        *batch, m, n = kernel.epilogue.axes
        self.batch = tuple(batch)
        self.bounds = step_bounds((), kernel.epilogue)
        self.frame(m.extent, n.extent, self.batch)
        left = lambda: self.operand(kernel.a, "rows", "k", m.extent, kernel.k.extent)
        right = lambda: self.operand(kernel.b, "k", "columns", kernel.k.extent, n.extent)
        name = self.loop(kernel.k.extent, kernel.compute, left, right)
        self.epilogue(name, m, n)
        return self.finished(m.extent, n.extent, self.batch, kernel.a.buffer.dtype, kernel.k.extent)

    def operand(self, operand: Operand, row: str, column: str, height: ExprLike, width: ExprLike) -> str:
        *batch, rs, cs = operand.strides
        offset = operand.offset
        for axis, stride in zip(self.batch, batch):
            offset = offset + stride * axis.var
        place = " + ".join(
            [
                self.text(int_if_const(offset)),
                *(
                    f"{v}{spread} * {factor(self.text(s))}"
                    for v, spread, s in ((row, "[:, None]", rs), (column, "[None, :]", cs))
                    if s != 0
                ),
            ]
        )
        mask = f"({row}[:, None] < {self.text(height)}) & ({column}[None, :] < {self.text(width)})"
        place += f" + {row}[:, None] * 0" if rs == 0 and cs == 0 else ""  # (a block, also of one element)
        whole = f"tl.broadcast_to({place}, ({size_name(row)}, {size_name(column)}))"
        name = self.names.fresh("a" if row == "rows" else "b")
        dtype = operand.buffer.dtype
        self.lines(f"{name} = tl.load({self.pointer(operand.buffer)} + {whole}, {mask}, other=0.0){self.dot_type(dtype)}")
        return name

    def epilogue(self, name: str, m: Axis, n: Axis) -> None:
        """The values and stores at every point of the tile."""
        dims = Dim("m", (m,), "BM"), Dim("n", (n,), "BN")
        self.tile = Tile(dims)
        self.tile.where |= {a.name: NOTHING for a in self.batch}
        for dim, numbers in zip(dims, ("rows", "columns")):
            self.lines(f"{dim.index} = {numbers}{self.tile.spread(dim)}")
            self.tile.mask(self.lines, dim, self.bounds)
        self.accs[self.kernel.acc] = BlockValue(name, self.tile.letters)
        step = self.kernel.epilogue
        self.emit([self.stored(s) for s in step.stores] + step.index_values())
        for store in step.stores:
            self.store(store, (m, n))


def grouped(groups: ExprLike) -> bool:
    return int_if_const(groups) != 1


def size_name(index: str) -> str:
    return {"rows": "BM", "columns": "BN", "k": "BK"}[index]


# -- convolutions


class ConvWriter(GemmWriter):
    """out[o, point] = sum over k of weight[o, k] * window(point, k), forward (with an epilogue) or transposed."""

    def axes(self) -> list[Axis]:
        return KernelWriter.axes(self)

    def write(self) -> TritonKernel:
        """A convolution with an epilogue: m counts all channels, a program's tile those of one group."""
        kernel: GemmKernel = self.kernel
        call: kernel_calls.ConvCall = kernel.call
        *batch, m, n = kernel.epilogue.axes
        self.batch = tuple(batch)
        self.bounds = step_bounds((), kernel.epilogue)
        image = self.batch[0].name if self.batch else "0"
        windows = tuple(call.out.sizes[2:])
        self.group_frame(m.extent, n.extent, call.groups)
        self.split("columns", windows, "w")
        left = lambda: self.weight_rows(kernel.a.buffer, call)
        right = lambda: self.window(kernel.b.buffer, call, image)
        name = self.loop(self.depth(call), kernel.compute, left, right)
        self.channels(m, call.groups)
        self.epilogue_at(name, m, n)
        grid_m = int_if_const(m.extent // call.groups) if grouped(call.groups) else m.extent
        outer = (*self.batch, *((Axis("group_number", call.groups),) if grouped(call.groups) else ()))
        return self.finished(grid_m, n.extent, outer, kernel.a.buffer.dtype, self.depth(call))

    def group_frame(self, m: ExprLike, n: ExprLike, groups: int) -> None:
        outer = (*self.batch, *((Axis("group_number", groups),) if grouped(groups) else ()))
        self.frame(int_if_const(m // groups) if grouped(groups) else m, n, outer)

    def depth(self, call: kernel_calls.ConvCall) -> ExprLike:
        """The length of the sum: channels of a group times places of the kernel."""
        return int_if_const(product(call.weight.sizes[1:]))

    def split(self, flat: str, sizes: tuple, letter: str) -> None:
        """Positions per spatial dim from a flat one."""
        axes = tuple(Axis(f"{letter}{d}", self.sizes(n)) for d, n in enumerate(sizes))
        if len(axes) == 1:
            self.lines(f"{axes[0].name} = {flat}")
        decode(self.lines, axes, flat, self.bounds)

    def weight_rows(self, buffer: Buffer, call: kernel_calls.ConvCall) -> str:
        """weight[rows of the group, k], row-major."""
        depth = self.text(self.depth(call))
        height = factor(self.text(int_if_const(call.weight.sizes[0] // call.groups)))
        row = f"group_number * {height} + rows[:, None]" if grouped(call.groups) else "rows[:, None]"
        place = f"{self.text(call.weight.offset)} + ({row}) * {factor(depth)} + k[None, :]"
        mask = f"(rows[:, None] < {height}) & (k[None, :] < {depth})"
        self.lines(f"a = tl.load({self.pointer(buffer)} + {place}, {mask}, other=0.0){self.dot_type(buffer.dtype)}")
        return "a"

    def window(self, buffer: Buffer, call: kernel_calls.ConvCall, image: str) -> str:
        """x[image, channel of k, window of the column at the place of k], 0 outside of x."""
        channels, *kernel = call.weight.sizes[1:]
        self.split("k", (channels, *kernel), "c")
        n, c, *strides = call.x.strides
        channel = f"(group_number * {factor(self.text(channels))} + c0[:, None])" if grouped(call.groups) else "c0[:, None]"
        places = [f"{self.text(call.x.offset)} + {image} * {factor(self.text(n))} + {channel} * {factor(self.text(c))}"]
        masks = [
            f"(k[:, None] < {self.text(self.depth(call))})",
            f"(columns[None, :] < {self.text(product(call.out.sizes[2:]))})",
        ]
        for d, step in enumerate(strides):
            at = (
                f"(w{d}[None, :] * {self.text(call.stride[d])} - {factor(self.text(call.padding[d]))}"
                f" + c{d + 1}[:, None] * {self.text(call.dilation[d])})"
            )
            self.lines(f"at{d} = {at}")
            masks.append(f"(at{d} >= 0) & (at{d} < {self.text(call.x.sizes[d + 2])})")
            places.append(f"at{d} * {factor(self.text(step))}")
        self.lines(
            f"b = tl.load({self.pointer(buffer)} + {' + '.join(places)}, {' & '.join(masks)}, other=0.0)"
            f"{self.dot_type(buffer.dtype)}"
        )
        return "b"

    def channels(self, m: Axis, groups: int) -> None:
        """The rows' channels among all: those past the group's last are masked."""
        if grouped(groups):
            height = factor(self.text(int_if_const(m.extent // groups)))
            self.lines(f"rows = tl.where(rows < {height}, group_number * {height} + rows, {self.text(m.extent)})")

    def epilogue_at(self, name: str, m: Axis, n: Axis) -> None:
        self.epilogue(name, m, n)


class ConvCallWriter(ConvWriter):
    """A convolution that is a call: transposed, a weight's gradient, or one with few channels. It writes a region."""

    def axes(self) -> list[Axis]:
        return []

    def write(self) -> TritonKernel:
        call: kernel_calls.ConvCall = self.kernel.calls[0]
        self.call, self.batch = call, ()
        self.dtype = call.x.dtype
        self.compute = self.dtype.compute if self.dtype is not dtypes.float64 else dtypes.float64
        return {kernel_calls.PLAIN: self.plain, kernel_calls.TRANSPOSED: self.transposed, kernel_calls.WEIGHT: self.gradient}[
            call.form
        ]()

    def images(self, n: ExprLike) -> Axis:
        axis = Axis("image", self.sizes(n))
        self.batch = (axis,)
        self.bounds = Bounds({"image": (0, axis.extent - 1)})
        return axis

    def plain(self) -> TritonKernel:
        call = self.call
        self.images(call.x.sizes[0])
        channels, n = call.weight.sizes[0], int_if_const(product(call.out.sizes[2:]))
        self.group_frame(channels, n, call.groups)
        self.split("columns", tuple(call.out.sizes[2:]), "w")
        name = self.loop(
            self.depth(call),
            self.compute,
            lambda: self.weight_rows(call.weight.buffer, call),
            lambda: self.window(call.x.buffer, call, "image"),
        )
        return self.rest(name, int_if_const(channels // call.groups), n, self.depth(call))

    def transposed(self) -> TritonKernel:
        """out[image, o, position] = sum over (c, place) of weight[c, o, place] * x[image, c, window whose place it is]."""
        call = self.call
        self.images(call.x.sizes[0])
        outs, kernel = call.weight.sizes[1], tuple(call.weight.sizes[2:])
        inputs = int_if_const(call.weight.sizes[0] // call.groups)
        depth, n = int_if_const(inputs * product(kernel)), int_if_const(product(call.out.sizes[2:]))
        self.group_frame(int_if_const(outs * call.groups), n, call.groups)
        self.split("columns", tuple(call.out.sizes[2:]), "w")
        name = self.loop(
            depth,
            self.compute,
            lambda: self.turned_weight(call, inputs, outs, kernel, depth),
            lambda: self.spread_input(call, inputs, kernel, depth),
        )
        return self.rest(name, outs, n, depth)

    def turned_weight(self, call: kernel_calls.ConvCall, inputs: ExprLike, outs: ExprLike, kernel: tuple, depth: ExprLike) -> str:
        self.split("k", (inputs, *kernel), "c")
        width = int_if_const(product(kernel))
        channel = f"(group_number * {factor(self.text(inputs))} + c0[None, :])" if grouped(call.groups) else "c0[None, :]"
        place = (
            f"{self.text(call.weight.offset)} + ({channel} * {factor(self.text(outs))} + rows[:, None])"
            f" * {factor(self.text(width))} + k[None, :] % {factor(self.text(width))}"
        )
        mask = f"(rows[:, None] < {self.text(outs)}) & (k[None, :] < {self.text(depth)})"
        buffer = call.weight.buffer
        self.lines(f"a = tl.load({self.pointer(buffer)} + {place}, {mask}, other=0.0){self.dot_type(buffer.dtype)}")
        return "a"

    def spread_input(self, call: kernel_calls.ConvCall, inputs: ExprLike, kernel: tuple, depth: ExprLike) -> str:
        n, c, *strides = call.x.strides
        channel = f"(group_number * {factor(self.text(inputs))} + c0[:, None])" if grouped(call.groups) else "c0[:, None]"
        places = [f"{self.text(call.x.offset)} + image * {factor(self.text(n))} + {channel} * {factor(self.text(c))}"]
        masks = [f"(k[:, None] < {self.text(depth)})", f"(columns[None, :] < {self.text(product(call.out.sizes[2:]))})"]
        for d, step in enumerate(strides):
            stride = factor(self.text(call.stride[d]))
            self.lines(
                f"from{d} = w{d}[None, :] + {factor(self.text(call.padding[d]))}"
                f" - c{d + 1}[:, None] * {self.text(call.dilation[d])}"
            )
            masks.append(f"(from{d} >= 0) & (from{d} % {stride} == 0) & (from{d} // {stride} < {self.text(call.x.sizes[d + 2])})")
            places.append(f"from{d} // {stride} * {factor(self.text(step))}")
        self.lines(
            f"b = tl.load({self.pointer(call.x.buffer)} + {' + '.join(places)}, {' & '.join(masks)}, other=0.0)"
            f"{self.dot_type(self.dtype)}"
        )
        return "b"

    def gradient(self) -> TritonKernel:
        """weight[o, (c, place)] = sum over (image, window) of y[image, o, window] * x[image, c, place of the window]."""
        call = self.call
        made, y = call.weight, call.out
        windows = tuple(y.sizes[2:])
        channels, n = made.sizes[0], int_if_const(product(made.sizes[1:]))
        depth = int_if_const(y.sizes[0] * product(windows))
        self.bounds = Bounds({})
        self.group_frame(channels, n, call.groups)
        self.split("columns", tuple(made.sizes[1:]), "c")
        name = self.loop(
            depth, self.compute, lambda: self.slopes(y, windows, channels, depth), lambda: self.windows_of(call, depth, n)
        )
        self.call = call
        return self.rest(name, int_if_const(channels // call.groups), n, depth, made)

    def slopes(self, y: Any, windows: tuple, channels: ExprLike, depth: ExprLike) -> str:
        """y[image and window of k, rows]."""
        self.split("k", (y.sizes[0], *windows), "w")
        height = self.text(int_if_const(channels // self.call.groups))
        row = f"(group_number * {factor(height)} + rows[:, None])" if grouped(self.call.groups) else "rows[:, None]"
        n, c, *strides = y.strides
        place = " + ".join(
            [
                f"{self.text(y.offset)} + w0[None, :] * {factor(self.text(n))} + {row} * {factor(self.text(c))}",
                *(f"w{d + 1}[None, :] * {factor(self.text(s))}" for d, s in enumerate(strides)),
            ]
        )
        mask = f"(rows[:, None] < {height}) & (k[None, :] < {self.text(depth)})"
        self.lines(f"a = tl.load({self.pointer(y.buffer)} + {place}, {mask}, other=0.0){self.dot_type(y.dtype)}")
        return "a"

    def windows_of(self, call: kernel_calls.ConvCall, depth: ExprLike, n: ExprLike) -> str:
        rows, c, *strides = call.x.strides
        inputs = call.weight.sizes[1]
        channel = f"(group_number * {factor(self.text(inputs))} + c0[None, :])" if grouped(call.groups) else "c0[None, :]"
        places = [f"{self.text(call.x.offset)} + w0[:, None] * {factor(self.text(rows))} + {channel} * {factor(self.text(c))}"]
        masks = [f"(k[:, None] < {self.text(depth)})", f"(columns[None, :] < {self.text(n)})"]
        for d, step in enumerate(strides):
            self.lines(
                f"at{d} = w{d + 1}[:, None] * {self.text(call.stride[d])} - {factor(self.text(call.padding[d]))}"
                f" + c{d + 1}[None, :] * {self.text(call.dilation[d])}"
            )
            masks.append(f"(at{d} >= 0) & (at{d} < {self.text(call.x.sizes[d + 2])})")
            places.append(f"at{d} * {factor(self.text(step))}")
        self.lines(
            f"b = tl.load({self.pointer(call.x.buffer)} + {' + '.join(places)}, {' & '.join(masks)}, other=0.0)"
            f"{self.dot_type(self.dtype)}"
        )
        return "b"

    def rest(self, name: str, m: ExprLike, n: ExprLike, depth: ExprLike, region: Any = None) -> TritonKernel:
        """Add the bias and write the tile into the row-major region."""
        call = self.call
        out = call.out if region is None else region
        height, width = self.text(m), self.text(n)
        row = f"(group_number * {factor(height)} + rows[:, None])" if grouped(call.groups) else "rows[:, None]"
        if call.bias is not None and region is None:
            place = f"{self.text(call.bias.offset)} + {row} * {factor(self.text(call.bias.strides[0]))}"
            self.lines(
                f"{name} = {name} + tl.load({self.pointer(call.bias.buffer)} + {place}, rows[:, None] < {height}, "
                f"other=0.0).to({register_type(self.compute)})"
            )
        start = self.text(out.offset)
        if region is None:
            start += f" + image * {factor(self.text(int_if_const(product(out.sizes[1:]))))}"
        self.lines(
            f"tl.store({self.pointer(out.buffer)} + {start} + {row} * {factor(width)} + columns[None, :], {name}, "
            f"(rows[:, None] < {height}) & (columns[None, :] < {width}))"
        )
        outer = (*self.batch, *((Axis("group_number", call.groups),) if grouped(call.groups) else ()))
        return self.finished(m, n, outer, self.dtype, depth)


def write_product(program: Any, kernel: GemmKernel) -> TritonKernel:
    dtype = kernel.a.buffer.dtype
    if not dtype.is_floating_point:
        raise BackendError(f"{kernel.name} multiplies matrices of {dtype.name}", "multiply floating matrices")
    return (ConvWriter if kernel.call is not None else GemmWriter)(program, kernel).write()


def write_convolution(program: Any, kernel: ExternCall) -> TritonKernel:
    return ConvCallWriter(program, kernel).write()
