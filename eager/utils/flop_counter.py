"""torch.utils.flop_counter: floating point operations of products, convolutions and attention, counted as they are called.

A multiplication with its addition counts as two; every other record counts as none. What is called inside modules counts
for each module around it, what the backward calls for "Global" alone.
"""

import math
from collections import defaultdict

from .. import dispatch
from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ..state import Mode

flop_registry = {}  # name of a record: function of (args, output) that gives the operations


def register_flop_formula(*names):
    """Decorator: `formula(args, out) -> operations` for the records of these names, args being canonical arguments."""

    def register(formula):
        flop_registry.update(dict.fromkeys(names, formula))
        return formula

    return register


@register_flop_formula("gemm", "matmul")
def _product(args, out):
    return 2 * out.numel() * args[0].shape[-1]


@register_flop_formula("linear")
def _linear(args, out):
    return 2 * out.numel() * args[1].shape[-1]


@register_flop_formula("convolution")
def _convolution(args, out):
    x, weight, transposed = args[0], args[1], args[6]
    return 2 * (x if transposed else out).numel() * math.prod(weight.shape[1:])


@register_flop_formula("convolution_weight")
def _convolution_weight(args, out):
    """Each entry of the weight is a sum over all positions of the second tensor's channel."""
    return 2 * out.numel() * (args[1].numel() // args[1].shape[1])


@register_flop_formula("attention")
def _attention(args, out):
    q, k, v = args[:3]
    return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])


@register_flop_formula("attention_backward")
def _attention_backward(args, out):
    """Five products of the forward's two kinds: the scores again, one for each gradient, and the weights'."""
    q, k, v = args[1:4]
    return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (3 * q.shape[-1] + 2 * v.shape[-1])


class FlopCounterMode(Mode):
    """`with FlopCounterMode(display=False) as counter:`; then `get_total_flops()` and `get_flop_counts()`: operations by
    module path and record. `display` prints a table on leaving; `depth` limits it to that many levels of modules."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.depth, self.display = depth, display
        self.formulas = {**flop_registry, **(custom_mapping or {})}
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self._inside, self._handles = ["Global"], []

    def __enter__(self):
        self.flop_counts.clear()
        self._inside = ["Global"]
        self._names = {}
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *exc):
        super().__exit__(*exc)
        for handle in self._handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    def _enter(self, module, args):
        """A module's path is the one it has in the outermost module that is called."""
        if len(self._inside) == 1:
            kind = type(module).__name__
            self._names.update((inner, f"{kind}.{path}" if path else kind) for path, inner in module.named_modules())
        self._inside.append(self._names.get(module, type(module).__name__))

    def _leave(self, module, args, result):
        self._inside.pop()

    def dispatch(self, op, args):
        formula = self.formulas.get(op.name)
        if formula is None:
            return dispatch.execute(op, args)
        with dispatch.below():  # what a counted record is made of is not counted again
            out = dispatch.execute(op, args)
        count = int(formula(args, out[0] if isinstance(out, tuple) else out))
        for path in set(self._inside):
            self.flop_counts[path][op.name] += count
        return out

    def get_total_flops(self):
        return sum(self.flop_counts["Global"].values()) if "Global" in self.flop_counts else 0

    def get_flop_counts(self):
        """{module path: {record: operations}}"""
        return {path: dict(counts) for path, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as a text: one line a module and record, with its share of all."""
        depth, total = self.depth if depth is None else depth, self.get_total_flops()
        rows = [
            (path, op, n)
            for path, counts in sorted(self.flop_counts.items(), key=lambda row: row[0] != "Global")
            if path == "Global" or path.count(".") < depth
            for op, n in counts.items()
        ]
        width = max([6, *(len(path) for path, _, _ in rows)])
        lines = [f"{'Module':<{width}}  {'record':<20} {'FLOP':>16}  % of total"]
        lines += [f"{path:<{width}}  {op:<20} {n:>16,}  {100 * n / max(1, total):9.2f}%" for path, op, n in rows]
        return "\n".join(lines)
