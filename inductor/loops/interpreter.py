"""The loop interpreter: runs a `Program` on numpy. It is the reference meaning of what code generators print.

In: a program, its inputs, the values of its scalars. Out: the outputs. The idea: a loop nest is evaluated at all its points
at once, each axis being one dimension; affine loads are strided views of memory, so no index arrays are made for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...capture.shapes.expr import Expr, ExprLike, evaluate
from ...capture.shapes.symbolic_shapes import SymFloat
from ...eager import dtypes, random
from ...eager.dispatch import direct_function, state
from ...eager.op.op import Kind
from ...eager.ops.conv_kernels import convolution
from ...eager.op.prims import COMBINES, PRIMS
from ...eager.tensor import Tensor
from ...runtime import counters
from ...runtime.dataclass import data
from ...runtime.errors import CheckFailed, InternalError
from .body import Buffer, Load, Value
from .ir import (
    Axis,
    ExternCall,
    GemmKernel,
    Kernel,
    LoopKernel,
    Operand,
    Program,
    Reduce,
    ScatterKernel,
    Step,
    Store,
    Symbol,
    View,
)

Memory = np.ndarray  # the bytes of a buffer, one-dimensional uint8


def run(program: Program, inputs: Sequence[Any], scalars: Mapping[str, Any] | None = None, arena: bool = True) -> list[Any]:
    """Run on numpy arrays or Tensors (ints for symbolic numbers); outputs are arrays, ints or None.

    With `arena`, temps lie where the memory plan puts them, in one block of garbage; without, each has memory of its own.
    """
    machine = Machine(program, scalars or {}, arena)
    machine.bind(inputs)
    with np.errstate(all="ignore"):
        for kernel in program.kernels:
            machine.kernel(kernel)
    return [machine.output(o) for o in program.outputs]


@data
class Machine:
    """Memory of all buffers and the values of symbols and scalars during one run."""

    program: Program
    scalars: Mapping[str, Any]
    use_arena: bool = True
    env: dict[str, int] = field(default_factory=dict)
    memory: dict[Buffer, Memory] = field(default_factory=dict)

    # -- memory

    def bind(self, inputs: Sequence[Any]) -> None:
        """Take symbols from the inputs, then give every buffer its memory."""
        arrays = [x._fl_array if isinstance(x, Tensor) else x for x in inputs]
        for symbol in self.program.symbols:
            self.env[symbol.name] = symbol_value(symbol, arrays[symbol.input])
        self.scalars = dict(self.scalars) | {s.name: float(arrays[s.input]) for s in self.program.floats}
        for buffer, array in zip(self.program.inputs, arrays, strict=True):
            if isinstance(buffer, Buffer):
                self.memory[buffer] = self.input_memory(buffer, array)
        for buffer in self.program.buffers:
            if buffer.kind == "const":
                self.memory[buffer] = self.input_memory(buffer, self.program.constants[buffer.name]._fl_array)
        block = garbage(self.size(self.program.arena_size))
        for buffer in self.program.buffers:
            if buffer not in self.memory:
                self.memory[buffer] = self.fresh(buffer, block)

    def fresh(self, buffer: Buffer, block: Memory) -> Memory:
        bytes_ = self.size(buffer.extent()) * buffer.dtype.itemsize
        if self.use_arena and buffer.name in self.program.arena:
            start = self.size(self.program.arena[buffer.name])
            return self.home(buffer, block)[start : start + bytes_]
        return garbage(bytes_)

    def home(self, buffer: Buffer, block: Memory) -> Memory:
        """The arena, or the donated input that the temp lies in."""
        name = self.program.homes.get(buffer.name)
        return block if name is None else next(m for b, m in self.memory.items() if b.name == name)

    def input_memory(self, buffer: Buffer, array: np.ndarray) -> Memory:
        """The bytes that an input's geometry spans; its strides must be the ones that the program was made for."""
        sizes = tuple(map(self.size, buffer.sizes))
        strides = tuple(self.size(s) * array.itemsize for s in buffer.strides)
        moved = any(n > 1 and s != t for n, s, t in zip(sizes, strides, array.strides))
        if array.shape != sizes or array.dtype != buffer.dtype.numpy or (moved and array.size):
            raise InternalError(f"{buffer.text()} was given {array.dtype}{list(array.shape)} with byte strides {array.strides}")
        extent = 0 if array.size == 0 else sum((n - 1) * s for n, s in zip(sizes, strides)) + array.itemsize
        array = array.view(np.uint8) if array.itemsize == 1 else array  # numpy's interface has no name for float8
        flat = np.lib.stride_tricks.as_strided(array, shape=(extent // array.itemsize,), strides=(array.itemsize,))
        return flat.view(np.uint8)

    def size(self, e: ExprLike) -> int:
        return int(evaluate(e, self.env))

    def array(self, buffer: Buffer) -> np.ndarray:
        """A buffer as an array of its own geometry."""
        shape = tuple(map(self.size, buffer.sizes))
        strides = tuple(map(self.size, buffer.strides))
        return strided(self.memory[buffer], buffer.dtype.numpy, shape, strides, self.size(buffer.offset))

    def region(self, view: View) -> np.ndarray:
        """A tensor argument of a library call."""
        sizes, strides = tuple(map(self.size, view.sizes)), tuple(map(self.size, view.strides))
        return strided(self.memory[view.buffer], view.buffer.dtype.numpy, sizes, strides, self.size(view.offset))

    def output(self, output: Any) -> Any:
        if isinstance(output, Buffer):
            return self.array(output)
        return self.size(output) if isinstance(output, Expr) else output

    # -- kernels

    def kernel(self, kernel: Kernel) -> None:
        RUN[type(kernel)](self, kernel)

    def loop(self, kernel: LoopKernel) -> None:
        accs: dict[str, np.ndarray] = {}
        scratch = {b: Scratch(self, b, kernel.outer) for b in kernel.locals}
        for _, store in kernel.sums():
            self.memory[store.buffer].view(store.buffer.dtype.numpy)[...] = 0
        for step in kernel.steps:
            StepInterpreter(self, kernel.outer, step, accs, scratch).run()

    def gemm(self, kernel: GemmKernel) -> None:
        if kernel.call is not None:
            return self.convolution(kernel)
        a = self.operand(kernel.a, (*kernel.batch, kernel.m, kernel.k), kernel.compute)
        b = self.operand(kernel.b, (*kernel.batch, kernel.k, kernel.n), kernel.compute)
        product = np.matmul(a, b).astype(kernel.compute.numpy, copy=False)
        StepInterpreter(self, (), kernel.epilogue, {kernel.acc: product}, {}, whole=True).run()

    def convolution(self, kernel: GemmKernel) -> None:
        call = kernel.call
        x, weight = (
            self.region(replace(view, buffer=operand.buffer)).astype(kernel.compute.numpy)
            for view, operand in ((call.x, kernel.b), (call.weight, kernel.a))
        )
        stride, padding, dilation = (tuple(map(self.size, n)) for n in (call.stride, call.padding, call.dilation))
        made = convolution(x, weight, None, stride, padding, dilation, False, (0,) * len(stride), call.groups)
        sizes = [self.size(axis.extent) for axis in kernel.epilogue.axes]
        StepInterpreter(self, (), kernel.epilogue, {kernel.acc: made.reshape(sizes)}, {}, whole=True).run()

    def operand(self, operand: Operand, axes: tuple[Axis, ...], compute: Any) -> np.ndarray:
        shape = tuple(self.size(axis.extent) for axis in axes)
        view = strided(
            self.memory[operand.buffer],
            operand.buffer.dtype.numpy,
            shape,
            tuple(map(self.size, operand.strides)),
            self.size(operand.offset),
        )
        return view.astype(compute.numpy, copy=False)

    def scatter(self, kernel: ScatterKernel) -> None:
        target = self.array(kernel.target)
        if kernel.init is None:
            target[...] = 0
        elif kernel.init != kernel.target:
            target[...] = self.array(kernel.init)
        StepInterpreter(self, (), kernel.step, {}, {}).run()

    def extern(self, kernel: ExternCall) -> None:
        if kernel.members:
            for member in kernel.members:
                self.extern(member)
            return

        if kernel.calls is None:
            counters.add("fallbacks", kernel.op.name)
        self.run_eagerly(kernel)

    def run_eagerly(self, kernel: ExternCall) -> None:
        """The op on tensors over the buffers' memory."""
        made = lambda view: Tensor._fl_from_array(self.region(view), view.buffer.dtype)
        args = tuple(argument(a, made, self.env, self.scalars) for a in kernel.args)
        for buffer, value in zip(kernel.outputs, call_eagerly(kernel, args, self.scalars), strict=True):
            self.array(buffer)[...] = value._fl_array


RUN = {LoopKernel: Machine.loop, GemmKernel: Machine.gemm, ScatterKernel: Machine.scatter, ExternCall: Machine.extern}


def argument(x: Any, tensor: Any, env: Mapping[str, int], scalars: Mapping[str, Any]) -> Any:
    """An argument of an op: `tensor(view)` for a view, numbers for expressions."""
    if isinstance(x, View):
        return tensor(x)
    if isinstance(x, (tuple, list)):
        return type(x)(argument(item, tensor, env, scalars) for item in x)
    return int(evaluate(x, env)) if isinstance(x, Expr) else x.evaluate({**scalars, **env}) if isinstance(x, SymFloat) else x


def function_of(call: Any, args: tuple) -> Any:
    """The numpy function that writes the one result of a call right into its memory, or None."""
    if len(call.outputs) != 1 or call.draw is not None:
        return None
    kernel, dtype = call.op.kernels.get("numpy"), call.outputs[0].dtype
    if kernel is not None:
        same = type(kernel) is np.ufunc and all(isinstance(a, Tensor) and a.dtype is dtype for a in args)
        return kernel if same else None
    return direct_function(call.op, args, dtype) if call.op.kind is Kind.MAP else None


def call_eagerly(kernel: Any, args: tuple, scalars: Mapping[str, Any]) -> Sequence[Any]:
    """The results of an `ExternCall`, or of what a launcher knows of one."""
    recording, state.grad = state.grad, False
    try:
        if kernel.draw is None:
            result = kernel.op(*args)
        else:
            with random.at(scalars["seed"], scalars["base"] + kernel.draw):
                result = kernel.op(*args)
    finally:
        state.grad = recording
    return result if isinstance(result, (tuple, list)) else (result,)


@data
class Scratch:
    """Row scratch: one copy for every point of the outer axes."""

    machine: Machine
    buffer: Buffer
    outer: tuple[Axis, ...]

    def __post_init__(self):
        rows = int(np.prod([self.machine.size(a.extent) for a in self.outer], dtype=np.int64))
        self.extent = self.machine.size(self.buffer.extent())
        self.memory = garbage(rows * self.extent * self.buffer.dtype.itemsize)

    def linear(self, index: tuple[ExprLike, ...]) -> ExprLike:
        row: ExprLike = 0
        for axis in self.outer:
            row = row * axis.extent + axis.var
        return row * self.extent + self.buffer.linear(index)


class StepInterpreter:
    """One step at all points of the outer axes and its own, one dimension an axis.

    `accs` hold one element for each outer point; with `whole` (a template's product) one for each point of the step.
    """

    def __init__(
        self,
        machine: Machine,
        outer: tuple[Axis, ...],
        step: Step,
        accs: dict[str, np.ndarray],
        scratch: dict[Buffer, Scratch],
        whole: bool = False,
    ):
        self.machine, self.step, self.accs, self.scratch, self.whole = machine, step, accs, scratch, whole
        self.axes = (*outer, *step.axes)
        self.inner = len(step.axes)
        self.shape = tuple(machine.size(axis.extent) for axis in self.axes)
        self.env: dict[str, Any] = dict(machine.env)
        for k, axis in enumerate(self.axes):
            self.env[axis.name] = np.arange(self.shape[k]).reshape(self.along(k))
        self.found: dict[int, np.ndarray] = {}

    def along(self, k: int) -> tuple[int, ...]:
        return tuple(n if d == k else 1 for d, n in enumerate(self.shape))

    def run(self) -> None:
        for value in self.step.values():
            self.found[value.id] = EVALUATE.get(value.op, StepInterpreter.primitive)(self, value)
        stores = [(store, self.stored(store)) for store in self.step.stores]
        for reduce in self.step.reduces:
            self.reduce(reduce)
        for store, value in stores:
            self.store(store, value)

    # -- values

    def load(self, value: Value) -> np.ndarray:
        load = value.attrs
        memory, linear = self.place(load.buffer, load.index)
        if load.masked:
            mask = self.found[value.args[0].id]
            return self.masked_load(load, memory, linear, mask)
        strides = self.affine(linear)
        if strides is not None:
            shape = tuple(n if s else 1 for n, s in zip(self.shape, strides[0]))
            read = strided(memory, load.buffer.dtype.numpy, shape, *strides)
            return read.copy() if self.writes(memory) else read
        data = memory.view(load.buffer.dtype.numpy)
        if not data.size:  # (no step of the loop reads it)
            return np.zeros((1,) * len(self.shape), data.dtype)
        return data[self.offsets(linear)]

    def writes(self, memory: Memory) -> bool:
        """Whether the step stores into this memory: what was read there before is kept then."""
        return any(np.may_share_memory(memory, self.place(s.buffer, s.index)[0]) for s in self.step.stores)

    def place(self, buffer: Buffer, index: tuple) -> tuple[Memory, ExprLike]:
        scratch = self.scratch.get(buffer)
        if scratch is not None:
            return scratch.memory, scratch.linear(index)
        return self.machine.memory[buffer], buffer.linear(index)

    def affine(self, linear: ExprLike) -> tuple[tuple[int, ...], int] | None:
        """Strides along the axes and the offset, or None where the place is not affine in the axes."""
        if not isinstance(linear, Expr):
            return (0,) * len(self.shape), linear
        names = {axis.name for axis in self.axes}
        if not linear.free_names() <= names | self.machine.env.keys() or 0 in self.shape:
            return None
        parts = linear.affine([axis.var for axis in self.axes])
        if parts is None:
            return None
        strides = tuple(self.machine.size(parts[0][axis.var]) for axis in self.axes)
        return strides, self.machine.size(parts[1])

    def masked_load(self, load: Load, memory: Memory, linear: ExprLike, mask: np.ndarray) -> np.ndarray:
        data = memory.view(load.buffer.dtype.numpy)
        if data.size == 0:
            return np.full(np.shape(mask), load.other, dtype=data.dtype)
        safe = np.where(mask, self.offsets(linear), 0)
        return np.where(mask, data[safe], np.asarray(load.other, dtype=data.dtype))

    def offsets(self, linear: ExprLike) -> np.ndarray:
        found = np.asarray(evaluate(linear, self.env))
        return found.reshape((1,) * len(self.shape)) if found.ndim == 0 else found

    def index(self, value: Value) -> np.ndarray:
        return np.asarray(evaluate(value.attrs, self.env), dtype=np.int64)

    def const(self, value: Value) -> np.ndarray:
        return np.asarray(value.attrs, dtype=value.dtype.numpy)

    def acc(self, value: Value) -> np.ndarray:
        found = self.accs[value.attrs]
        return found if self.whole else found.reshape(found.shape + (1,) * self.inner)

    def scalar(self, value: Value) -> np.ndarray:
        scalars = self.machine.scalars
        found = scalars[value.attrs] if value.attrs in scalars else self.machine.env[value.attrs]
        if isinstance(found, int) and value.dtype is dtypes.int64:
            found = (found + 2**63) % 2**64 - 2**63  # seeds are unsigned
        return np.asarray(found, dtype=value.dtype.numpy)

    def indirect(self, value: Value) -> np.ndarray:
        """Bind the index variable; an index out of range fails the call (and nothing reads with it)."""
        attrs, found = value.attrs, self.found[value.args[0].id]
        if attrs.check is not None and 0 not in self.shape:
            size = self.machine.size(attrs.size)
            if found.size and (found.min() < 0 or found.max() >= size):
                raise CheckFailed(self.machine.program.checks[attrs.check - 1].text)
        self.env[attrs.name] = found
        return found

    def cast(self, value: Value) -> np.ndarray:
        return PRIMS["cast"].numpy(self.found[value.args[0].id], value.dtype)

    def philox(self, value: Value) -> np.ndarray:
        """Seed, ordinal and word are the same at every point; the element index varies."""
        seed, ordinal, index, word = (self.found[a.id] for a in value.args)
        return PRIMS["philox"].numpy(seed.item(), ordinal.item(), index, word.item())

    def primitive(self, value: Value) -> np.ndarray:
        result = PRIMS[value.op].numpy(*[self.found[a.id] for a in value.args])
        return np.asarray(result).astype(value.dtype.numpy, copy=False)

    # -- effects

    def reduce(self, reduce: Reduce) -> None:
        shape, outer = self.shape, self.shape[: len(self.shape) - self.inner]
        flat = [
            np.broadcast_to(self.found[v.id], shape).reshape(*outer, int(np.prod(shape[len(outer) :], dtype=np.int64)))
            for v in reduce.values
        ]
        results = combine(reduce.combine, flat)
        for name, result, dtype in zip(reduce.names, results, reduce.dtypes, strict=True):
            self.accs[name] = np.asarray(result).astype(dtype.numpy, copy=False)

    def stored(self, store: Store) -> np.ndarray:
        """The value of a store; a copy where another store of the step might overwrite what it views."""
        value = self.found[store.value.id]
        return value.copy() if len(self.step.stores) > 1 and store.value.op == "load" else value

    def store(self, store: Store, value: np.ndarray) -> None:
        if 0 in self.shape:
            return
        memory, linear = self.place(store.buffer, store.index)
        if store.mode == "set":
            strides = self.affine(linear)
            if strides is not None:
                shape = tuple(n if s else 1 for n, s in zip(self.shape, strides[0]))
                target = strided(memory, store.buffer.dtype.numpy, shape, *strides)
                target[...] = value if shape == self.shape else last_along(value, shape, self.shape)
                return
        data = memory.view(store.buffer.dtype.numpy)
        offsets, value = (np.broadcast_to(x, self.shape) for x in (self.offsets(linear), value))
        if store.mode == "set":
            data[offsets] = value
        else:
            COMBINED[store.mode].at(data, offsets, value)


COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
EVALUATE = {op: getattr(StepInterpreter, op) for op in ("load", "index", "const", "acc", "scalar", "indirect", "cast", "philox")}


# -- numpy


def garbage(bytes_: int) -> Memory:
    """Fresh memory whose content nothing may depend on."""
    return np.full(bytes_, 0xA5, dtype=np.uint8)


def strided(memory: Memory, dtype: Any, shape: tuple, strides: tuple, offset: int) -> np.ndarray:
    """A view; numpy itself refuses one that leaves the memory."""
    if 0 in shape:
        return np.empty(shape, dtype)
    itemsize = np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, memory, offset * itemsize, tuple(s * itemsize for s in strides))


def last_along(value: np.ndarray, shape: tuple, full: tuple) -> np.ndarray:
    """What remains when all points along the axes of size 1 in `shape` write one place: the last one's value."""
    value = np.broadcast_to(value, full)
    return value[tuple(slice(n - 1, n) if kept == 1 else slice(None) for kept, n in zip(shape, full))]


def combine(name: str, values: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Reduce the last axis."""
    if name in ("argmax", "argmin"):
        return position_of_extreme(name, *values)
    return COMBINES[name].reduce(values[0], (values[0].ndim - 1,))


def position_of_extreme(name: str, keys: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The extreme key (a NaN wins) and the least position among its equals."""
    order = np.argsort(positions, axis=-1, kind="stable")
    keys, positions = np.take_along_axis(keys, order, -1), np.take_along_axis(positions, order, -1)
    best = (np.argmax if name == "argmax" else np.argmin)(keys, axis=-1)[..., None]
    return np.take_along_axis(keys, best, -1)[..., 0], np.take_along_axis(positions, best, -1)[..., 0]


def symbol_value(symbol: Symbol, array: Any) -> int:
    if symbol.what == "value":
        return int(array)
    if symbol.what == "size":
        return array.shape[symbol.dim]
    return array.strides[symbol.dim] // array.itemsize
