"""What a record's `calls` rule is given: regions for tensors, and a context that makes them row-major.

In: a node of an op with such a rule, and the lowering that it is in. Out: an `ExternCall` whose `calls` fill its outputs
without Python, a template (convolutions), or None where the rule says that no kernel of the runtime is eligible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...capture.shapes.expr import ExprLike, maximum, minimum, int_if_const, product
from ...capture.graph.graph import Node, map_nodes
from ...capture.shapes.symbolic_shapes import expr_of
from ...eager.op.op import Op
from ...eager.tensor import Tensor
from ...runtime.kernel_calls import ConvCall, is_native
from .body import Buffer
from .ir import ExternCall, GemmKernel, LoopKernel, Operand, Step, Store, View, row_major


class Sizes:
    """What rules ask of sizes."""

    @staticmethod
    def max(*args: ExprLike) -> ExprLike:
        return int_if_const(maximum(*args))

    @staticmethod
    def min(*args: ExprLike) -> ExprLike:
        return int_if_const(minimum(*args))

    @staticmethod
    def is_empty(region: View) -> bool:
        return any(n == 0 for n in region.sizes)

    def rows(self, region: View) -> View:
        return replace(region, strides=row_major(region.sizes))


def has_kernel(op: Op, args: tuple, result: Any, takes: Callable[[tuple], bool] | None = None) -> bool:
    """Whether the op's rule accepts tensors of these geometries, here fakes, and the target what it gives."""
    if op.call_rule is None or op.draws is not None and op.draws(*args):
        return False
    outs = tuple(map(as_views, result if isinstance(result, tuple) else (result,)))
    calls = op.call_rule(Sizes(), outs, *map(as_views, op.bind(args, {})))
    return calls is not None and (takes or is_native)(calls)


def is_called_in_eager(node: Node) -> bool:
    """Whether lowering finds neither a loop nor a kernel of the runtime for the call of an Extern or Scan."""
    return node.target.template != "gemm" and not has_kernel(node.target, map_nodes(node.args, lambda n: n.value), node.value)


def as_views(a: Any) -> Any:
    if isinstance(a, Tensor):
        sizes, strides = geometry(a)
        return View(Buffer("", a.dtype, sizes, strides), sizes, strides)
    return tuple(map(as_views, a)) if isinstance(a, (tuple, list)) else expr_of(a)


def as_argument(a: Any, region: Callable[[Node], View]) -> Any:
    """An argument of a node as an extern call has it: `region` shows a tensor's memory."""
    if isinstance(a, Node):
        return region(a) if isinstance(a.value, Tensor) else expr_of(a.value)
    if isinstance(a, (tuple, list)):
        return tuple(as_argument(each, region) for each in a)
    return expr_of(a)


class ExternLowering(Sizes):
    """The context of one rule while its node is lowered."""

    def __init__(self, lowering: Any, node: Node):
        self.lowering, self.node = lowering, node
        self.nodes: dict[int, Node] = {}  # id of a region -> the node that it shows
        self.args = [as_argument(a, self.region) for a in node.target.bind(node.args, {})]

    def region(self, node: Node) -> View:
        made = self.lowering.region(node)
        self.nodes[id(made)] = node
        return made

    def rows(self, region: View) -> View:
        """The region in row-major memory: itself, or a copy that stands for it among the arguments too."""
        wanted = row_major(region.sizes)
        if any(int_if_const(a) != b for a, b, n in zip(region.strides, wanted, region.sizes) if n != 1):
            made = self.lowering.rows_of(self.nodes[id(region)])
        else:
            made = replace(region, strides=wanted)
        self.args = replace_view(self.args, region, made)
        return made


def geometry(value: Tensor) -> tuple[tuple, tuple]:
    return tuple(int_if_const(expr_of(n)) for n in value.shape), tuple(int_if_const(expr_of(n)) for n in value.stride())


def replace_view(x: Any, old: View, new: View) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(replace_view(item, old, new) for item in x)
    return new if x is old else x


def rows_of(lowering: Any, node: Node) -> View:
    """A row-major copy of a value."""
    axes, index, value = lowering.generic(lowering.source(node))
    buffer = raw_buffer(lowering, node.name + "_rows", node.value, node.name)
    kernel = LoopKernel(lowering.unique("k_" + buffer.name), axes, (Step((), (Store(buffer, index, value),)),))
    lowering.kernels.append(kernel)
    return View(buffer, buffer.sizes, buffer.strides)


def raw_buffer(lowering: Any, name: str, value: Tensor, origin: str) -> Buffer:
    sizes = geometry(value)[0]
    made = Buffer(lowering.unique(name), value.dtype, sizes, row_major(sizes), 0, "temp", origin)
    lowering.buffers.append(made)
    return made


def native_call(lowering: Any, node: Node, origins: tuple) -> ExternCall | GemmKernel | None:
    """The node as calls of the runtime's kernels. They write row-major memory: where the result lies otherwise, it is
    copied there. One that hands out tiles is a template with an epilogue, which writes any memory."""
    op = node.target
    if op.call_rule is None or node.draw is not None and op.draws is not None:
        return None
    context = ExternLowering(lowering, node)
    keys = [(node, k) for k in range(len(op.outputs))]
    sizes = [geometry(lowering.value(key))[0] for key in keys]
    outs = tuple(View(Buffer("", lowering.value(key).dtype, s, row_major(s)), s, row_major(s)) for key, s in zip(keys, sizes))
    calls = op.call_rule(context, outs, *context.args)
    if calls is None or not (lowering.takes or is_native)(calls):
        return None
    if len(calls) == 1 and isinstance(calls[0], ConvCall) and calls[0].tiles:
        return convolution(lowering, node, calls[0], origins)
    buffers = {id(out.buffer): lowering.filled(key) for out, key in zip(outs, keys)}
    calls = tuple(swapped(call, buffers) for call in calls)
    return ExternCall(
        lowering.unique("k_" + node.name), op, tuple(context.args), tuple(buffers.values()), None, origins, calls=calls
    )


def convolution(lowering: Any, node: Node, call: ConvCall, origins: tuple) -> GemmKernel:
    """A convolution whose epilogue adds the bias and stores."""
    body, value = lowering.body, node.value
    compute = value.dtype.compute
    images, channels, *windows = (int_if_const(expr_of(n)) for n in value.shape)
    batch, image = lowering.space((value.shape[0],))
    m, n = lowering.axis(1, channels), lowering.axis(2, int_if_const(product(windows)))
    k = lowering.axis(3, int_if_const(product(call.weight.sizes[1:])))
    buffer = lowering.home((node, 0))
    lowering.products[buffer.name] = node
    acc = "product_" + node.name
    made = body.acc(acc, compute)
    channel = 0 if m.extent == 1 else m.var
    if call.bias is not None:
        bias = call.bias.buffer
        flat = Buffer(bias.name, bias.dtype, call.bias.sizes, call.bias.strides, call.bias.offset, bias.kind, bias.origin)
        made = body.prim("add", made, body.cast(body.load(flat, (channel,)), compute))
    index = (*image, channel, *unflattened(0 if n.extent == 1 else n.var, windows))
    index = tuple(lowering.tidy(e) for e in index)
    step = Step((*batch, m, n), (Store(buffer, index, body.cast(made, buffer.dtype)),))
    a = Operand(call.weight.buffer, (*(0 for _ in batch), k.extent, 1), call.weight.offset)
    b = Operand(call.x.buffer, (*(call.x.strides[0] for _ in batch), 0, 0), call.x.offset)
    return GemmKernel(
        lowering.unique("k_" + node.name),
        batch,
        m,
        n,
        k,
        a,
        b,
        compute,
        step,
        acc,
        "conv",
        origins,
        call=replace(call, bias=None),
    )


def unflattened(at: ExprLike, sizes: list) -> tuple:
    """The index of a flat position."""
    found: list = []
    for d, n in reversed(list(enumerate(sizes))):
        found.append(0 if n == 1 else at if d == 0 else at % n)
        at = at // n if d else at
    return tuple(reversed(found))


def swapped(call: Any, buffers: dict[int, Buffer]) -> Any:
    """The call with the real outputs, or places in them, for those that the rule saw."""

    def swap(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(swap, x))
        made = buffers.get(id(x.buffer)) if isinstance(x, View) else None
        return x if made is None else View(made, made.sizes, made.strides, x.offset)

    return replace(call, **{name: swap(value) for name, value in vars(call).items()})
