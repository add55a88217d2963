"""`summary(model, input_size=...)`: one line a module with its output's sizes, parameters and operations, and the totals.

The model is called once, in `eval` mode unless told otherwise, without gradients and without moving the random state. Out: a
`ModelSummary`: printed it is a table; `to_dict()` has the numbers. Layers that were never called are listed as well.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from .. import dispatch, random
from ..api import rand, zeros
from ..autograd import no_grad
from ..dtypes import float32
from ..state import Mode
from ..tensor import Tensor
from ..utils.flop_counter import flop_registry
from .modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook

COLUMNS = {
    "input_size": "Input Shape",
    "output_size": "Output Shape",
    "num_params": "Param #",
    "params_percent": "Param %",
    "kernel_size": "Kernel Shape",
    "mult_adds": "Mult-Adds",
    "trainable": "Trainable",
}
ROW_SETTINGS = ("ascii_only", "depth", "hide_recursive_layers", "var_names")
TOTALS = ("total_params", "trainable_params", "total_mult_adds", "input_bytes", "output_bytes", "param_bytes", "total_bytes")
FACTS = ("path", "kind", "depth", "parameters", "trainable", "input_size", "output_size", "mult_adds", "again", "called")
MODES = {"train": True, "eval": False, "same": None}


@dataclass
class Layer:
    """One call of a module. `depth` counts from 0 for the model; `again`: the module was called before, its parameters are
    counted there; `own`: parameters that belong to it and to no module below."""

    kind: str
    name: str
    depth: int
    path: str
    parameters: int = 0
    trainable: int = 0
    own: int = 0
    again: bool = False
    called: bool = True
    leaf: bool = False
    kernel: tuple | None = None
    input_size: list | None = None
    output_size: list | None = None
    output_bytes: int = 0
    mult_adds: int = 0

    def cell(self, column: str, total: int) -> str:
        if column in ("input_size", "output_size"):
            sizes = getattr(self, column)
            return "--" if not sizes else ", ".join(str(list(each)) for each in sizes)
        if column == "kernel_size":
            return "--" if self.kernel is None else str(list(self.kernel))
        if column == "mult_adds":
            return "(recursive)" if self.again and not self.mult_adds else f"{self.mult_adds:,}" if self.mult_adds else "--"
        if self.again:
            return "(recursive)"
        if column == "num_params":
            return f"{self.parameters:,}" if self.parameters else "--"
        if column == "params_percent":
            return f"{100 * self.parameters / total:.2f}%" if self.parameters and total else "--"
        return (
            "--"
            if not self.parameters
            else str(self.trainable == self.parameters)
            if self.trainable in (0, self.parameters)
            else "Partial"
        )


@dataclass
class ModelSummary:
    """What `summary` found. Bytes are of the inputs, of what leaf modules gave, and of parameters and buffers."""

    layers: list[Layer]
    total_params: int
    trainable_params: int
    total_mult_adds: int
    input_bytes: int
    output_bytes: int
    param_bytes: int
    columns: tuple = ("output_size", "num_params")
    depth: int = 3
    width: int = 25
    settings: tuple = field(default=("depth", "var_names"))

    @property
    def total_bytes(self) -> int:
        """Inputs, parameters, and outputs twice: for the values and for their gradients."""
        return self.input_bytes + self.param_bytes + 2 * self.output_bytes

    def to_dict(self) -> dict:
        """Plain numbers: totals, and per layer its path, kind, sizes, parameters and operations."""
        return {
            **{name: getattr(self, name) for name in TOTALS},
            "layers": [{name: getattr(each, name) for name in FACTS} for each in self.layers],
        }

    def shown(self) -> list[Layer]:
        hide = "hide_recursive_layers" in self.settings
        return [each for each in self.layers if each.depth <= self.depth and not (hide and each.again)]

    def titles(self) -> list[str]:
        """The first column: a tree."""
        stem, last = ("+ ", "  ") if "ascii_only" in self.settings else ("├─", "│    ")
        counts: dict[int, int] = {}
        out = []
        for each in self.shown():
            counts[each.depth] = counts.get(each.depth, 0) + 1
            title = each.kind + (f" ({each.name})" if "var_names" in self.settings and each.name else "")
            title += f": {each.depth}" + (f"-{counts[each.depth]}" if each.depth else "") if "depth" in self.settings else ""
            out.append(last * max(0, each.depth - 1) + (stem if each.depth else "") + title)
        return out

    def __str__(self) -> str:
        head = (
            "Layer (type"
            + (" (var_name)" if "var_names" in self.settings else "")
            + (":depth-idx)" if "depth" in self.settings else ")")
        )
        titles = self.titles()
        first = max(map(len, [head, *titles]))
        cells = [[each.cell(c, self.total_params) for c in self.columns] for each in self.shown()]
        rows = [[COLUMNS[c] for c in self.columns], *cells]
        widths = [max(self.width, *(len(row[k]) + 2 for row in rows)) for k in range(len(self.columns))]
        rule = "=" * (first + 2 + sum(widths))
        line = lambda title, row: (f"{title:<{first}}  " + "".join(f"{c:<{w}}" for c, w in zip(row, widths))).rstrip()
        body = [line(title, row) for title, row in zip(titles, cells)]
        return "\n".join([rule, line(head, [COLUMNS[c] for c in self.columns]), rule, *body, rule, *self.totals(), rule])

    __repr__ = __str__

    def totals(self) -> list[str]:
        mega = lambda n: f"{n / 1e6:.2f}"
        rule = "=" * 40
        return [
            f"Total params: {self.total_params:,}",
            f"Trainable params: {self.trainable_params:,}",
            f"Non-trainable params: {self.total_params - self.trainable_params:,}",
            f"Total mult-adds: {self.total_mult_adds:,}",
            rule,
            f"Input size (MB): {mega(self.input_bytes)}",
            f"Forward/backward pass size (MB): {mega(2 * self.output_bytes)}",
            f"Params size (MB): {mega(self.param_bytes)}",
            f"Estimated Total Size (MB): {mega(self.total_bytes)}",
        ]


def tensors(x) -> list[Tensor]:
    if isinstance(x, Tensor):
        return [x]
    items = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else ()
    return [t for item in items for t in tensors(item)]


def nbytes(found) -> int:
    return sum(t.numel() * t.element_size() for t in found)


def count(found) -> int:
    return sum(t.numel() for t in found)


class Watch(Mode):
    """Makes a Layer for each call of a module while the model runs, and counts operations for all modules around."""

    def __init__(self, model: Module):
        self.model, self.layers, self.open, self.seen = model, [], [], set()
        self.paths = {inner: path for path, inner in model.named_modules(remove_duplicate=True)}

    def __enter__(self):
        self.hooks = [register_module_forward_pre_hook(self.begin), register_module_forward_hook(self.end, always_call=True)]
        return super().__enter__()

    def __exit__(self, *exc):
        super().__exit__(*exc)
        for hook in self.hooks:
            hook.remove()

    def begin(self, module, args):
        layer = layer_of(module, self.paths.get(module, ""), len(self.open), module in self.seen)
        layer.input_size = [tuple(t.shape) for t in tensors(args)]
        self.seen.add(module)
        self.layers.append(layer)
        self.open.append(layer)

    def end(self, module, args, result):
        layer, found = self.open.pop(), tensors(result)
        layer.output_size = [tuple(t.shape) for t in found]
        layer.output_bytes = nbytes(found) if layer.leaf else 0

    def dispatch(self, op, args):
        formula = flop_registry.get(op.name)
        if formula is None:
            return dispatch.execute(op, args)
        with dispatch.below():  # what a counted record is made of is not counted again
            out = dispatch.execute(op, args)
        for layer in self.open:
            layer.mult_adds += int(formula(args, out[0] if isinstance(out, tuple) else out)) // 2
        return out


def layer_of(module: Module, path: str, depth: int, again: bool) -> Layer:
    parameters, own = list(module.parameters()), list(module.parameters(recurse=False))
    weight = getattr(module, "weight", None)
    kernel = tuple(weight.shape)[2:] if isinstance(weight, Tensor) and len(weight.shape) > 2 else None
    return Layer(
        type(module).__name__,
        path.rpartition(".")[2],
        depth,
        path,
        count(parameters),
        count(p for p in parameters if p.requires_grad),
        count(own),
        again,
        leaf=not any(True for _ in module.children()),
        kernel=kernel,
    )


def with_uncalled(model: Module, watch: Watch) -> list[Layer]:
    """The calls, and behind those of its parent each module that was never called, at its depth in the tree."""
    layers = list(watch.layers)
    for path, module in model.named_modules():
        if path and module not in watch.seen:
            parent = path.rpartition(".")[0]
            below = [k for k, each in enumerate(layers) if not parent or (each.path + ".").startswith(parent + ".")]
            above = next((each for each in layers if each.path == parent), layers[0])
            layer = layer_of(module, path, above.depth + 1, False)
            layer.called = False
            layers.insert(max(below, default=len(layers) - 1) + 1, layer)
    return layers


def inputs_of(input_size, dtypes, batch_dim, device) -> list[Tensor]:
    """Random numbers (zeros of whole types) of the given sizes."""
    several = input_size and all(isinstance(each, (tuple, list)) for each in input_size)
    sizes = [tuple(each) for each in (input_size if several else [input_size])]
    kinds = list(dtypes) if dtypes is not None else [float32] * len(sizes)
    if len(kinds) != len(sizes):
        raise ValueError(f"summary: {len(sizes)} sizes but {len(kinds)} dtypes")
    if batch_dim is not None:
        sizes = [(*size[:batch_dim], 1, *size[batch_dim:]) for size in sizes]
    return [
        rand(size, dtype=kind, device=device) if kind.is_floating_point else zeros(size, dtype=kind, device=device)
        for size, kind in zip(sizes, kinds)
    ]


def call_arguments(input_size, input_data, dtypes, batch_dim, device) -> tuple[tuple, dict]:
    if (input_size is None) == (input_data is None):
        raise ValueError("summary: give input_size or input_data: the model is called once to see its layers")
    if input_size is not None:
        return tuple(inputs_of(input_size, dtypes, batch_dim, device)), {}
    if isinstance(input_data, dict):
        return (), input_data
    return (tuple(input_data) if isinstance(input_data, (tuple, list)) else (input_data,)), {}


@contextlib.contextmanager
def mode_of(model: Module, training: bool | None):
    """Each module's `training` is as before, afterwards."""
    before = {module: module.training for module in model.modules()}
    if training is not None:
        model.train(training)
    try:
        yield
    finally:
        for module, was in before.items():
            module.training = was


def summary(
    model: Module,
    input_size=None,
    input_data=None,
    batch_dim=None,
    col_names=("output_size", "num_params"),
    col_width=25,
    depth=3,
    device=None,
    dtypes=None,
    mode="eval",
    row_settings=("depth", "var_names"),
    verbose=0,
    **kwargs,
) -> ModelSummary:
    """The layers of `model` as one call goes through them.

    input_size: a tuple, or one for each argument, `batch_dim` not counted where it is given; input_data: arguments instead
    (a tensor, a tuple, a dictionary of named ones). col_names: of input_size, output_size, num_params, params_percent,
    kernel_size, mult_adds, trainable. depth: levels that the table shows. mode: "eval", "train" or "same". verbose=1 prints
    the table. Other keyword arguments go to the model. Raises ValueError for unknown columns, rows or modes.
    """
    check("col_names", col_names, COLUMNS), check("row_settings", row_settings, ROW_SETTINGS), check("mode", [mode], MODES)
    with random.fork_rng():
        args, named = call_arguments(input_size, input_data, dtypes, batch_dim, device)
        watch = Watch(model)
        with mode_of(model, MODES[mode]), no_grad(), watch:
            model(*args, **named, **kwargs)
    parameters, buffers, layers = list(model.parameters()), list(model.buffers()), with_uncalled(model, watch)
    found = ModelSummary(
        layers,
        count(parameters),
        count(p for p in parameters if p.requires_grad),
        layers[0].mult_adds,
        nbytes(tensors((args, named))),
        sum(each.output_bytes for each in layers),
        nbytes(parameters) + nbytes(buffers),
        tuple(col_names),
        depth,
        col_width,
        tuple(row_settings),
    )
    if verbose:
        print(found)
    return found


def check(what: str, given, known) -> None:
    for each in given:
        if each not in known:
            raise ValueError(f"summary: {what} takes {', '.join(known)}, not {each!r}")
