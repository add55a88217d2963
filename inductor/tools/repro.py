"""A program of records alone: traced, run by eager and compiled, and compared. What a repro file calls.

In: a Python function of tensors written with `ops.<record>` (as `Graph.print_python` prints it), and its inputs. Out: how the
compiled results differ from eager's, in words, or None. `write` makes such a file from a graph and inputs; it needs nothing
else, and its exit status is 1 while the fault is there.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capture.graph.graph import Graph, Interpreter, Node
from ...capture.shapes.symbolic_shapes import ShapeEnv
from ...eager import dtypes
from ...eager.op.op import Op
from ...eager.state import recording
from ...eager.tensor import Tensor, fake_tensor
from ...runtime.config import config
from .. import driver, targets
from ..graph.decompose import decompose
from ..runtime.compare_stages import compare, observe, own_copy_of
from ..graph.retrace import Retracer, fresh_fake
from ..graph.verify import differs

SEED, BASE = 1234, 0  # what a program that draws draws with
WIDTH = 110


class DrawNumbering(Retracer):
    """Numbers the random draws in the order of the calls; `stack`: the user's frames of what is called next."""

    stack: tuple = ()

    def add_node(self, op: Op, nodes: tuple, result: Any) -> None:
        drawn = op.draws is not None and op.draws(*nodes)
        self.marks = dict(stack=self.stack, draw=self.graph.draws if drawn else None)
        self.graph.draws += drawn
        super().add_node(op, nodes, result)


def graph_of(function: Callable, inputs: Sequence, dynamic: bool = False, recorder: DrawNumbering | None = None) -> Graph:
    """The graph of what a function does with tensors of this geometry; with `dynamic`, their sizes are symbols."""
    recorder = recorder or DrawNumbering(Graph(ShapeEnv()))
    env = recorder.graph.env if dynamic else None
    fakes = [fresh_fake(x) if env is None else symbolic(env, x, f"a{k}") for k, x in enumerate(inputs)]
    for k, fake in enumerate(fakes):
        recorder.placeholder(f"a{k}", fake)
    with recording(False), recorder:
        result = function(*fakes)
    recorder.graph.set_output(recorder.reference(tuple(result) if isinstance(result, (tuple, list)) else (result,)))
    return recorder.graph


def symbolic(env: ShapeEnv, x: Any, name: str) -> Any:
    """A fake with a symbol for each size, rows or dims in the order of its strides."""
    if not isinstance(x, Tensor):
        return x
    sizes = [env.create_symbol(n, name) for n in x.shape]
    strides, step = [0] * len(sizes), 1
    for d in sorted(range(len(sizes)), key=lambda d: (x.stride()[d], -d)):
        strides[d], step = step, step * sizes[d]
    return fake_tensor(tuple(sizes), tuple(strides), x.dtype)


RAISES = "it raises "


def difference(graph: Graph, inputs: Sequence, loops: bool = False) -> str | None:
    """How what a graph's C++ (or its loop IR) gives differs from what eager gives, in words. What eager refuses is raised."""
    target = targets.LOOPS if loops else targets.CPP
    with recording(False):
        expected = Interpreter(graph).run(*map(own_copy_of, inputs), seed=SEED, base=BASE)
        try:
            run, given = driver.compile_alone(decompose(graph), target), [own_copy_of(x) for x in inputs]
            dirty(flat(expected))
            actual = run(given, SEED, BASE)
        except Exception as error:
            return raised(error)
    return differs(flat(expected), list(actual))


def dirty(values: Sequence) -> None:
    """Leave memory of these sizes with other values behind: code that does not write all of its results, or reads what it
    never wrote, would find the right ones of an earlier run there."""
    blocks = [np.full(x.numel() * x.dtype.itemsize, 0x7B, np.uint8) for x in values if isinstance(x, Tensor) for _ in range(3)]
    kept = [Tensor._fl_from_array(block, dtypes.uint8).clone() for block in blocks]
    del kept, blocks


def whole_difference(graph: Graph, inputs: Sequence) -> str | None:
    """The same for all passes from the captured graph on, gradients included."""
    expected = observe(lambda *given: Interpreter(graph).run(*given), inputs)
    try:
        return compare(expected, observe(driver.compile_graph(graph, inputs), inputs))
    except Exception as error:
        return raised(error)


def raised(error: Exception) -> str:
    return f"{RAISES}{type(error).__name__}: {error}"


def flat(outputs: Any) -> list:
    return [x for item in outputs for x in flat(item)] if isinstance(outputs, (tuple, list)) else [outputs]


def every_value(graph: Graph, inputs: Sequence, seed: int, base: int) -> dict[str, Any]:
    """What eager gives for every node, by name."""
    kept = Keeping(graph)
    with recording(False):
        kept.run(*map(own_copy_of, inputs), seed=seed, base=base)
    return kept.found


class Keeping(Interpreter):
    """Keeps a copy of each node's value, as a later one may be written over it."""

    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.found: dict[str, Any] = {}

    def run_node(self, node: Node, args: tuple) -> Any:
        value = super().run_node(node, args)
        self.found[node.name] = own_copy_of(value)
        return value


def tell(function: Callable, inputs: Sequence, gradients: bool = False, loops: bool = False, dynamic: bool = False) -> int:
    """What a repro file ends with: print how the results differ; the exit status, 1 when they do. `gradients`: all passes from
    the captured graph on; else the code generators alone, with `loops` the loop interpreter instead of C++."""
    with config.patch(verify=False):
        graph = graph_of(function, inputs, dynamic)
        problem = whole_difference(graph, inputs) if gradients else difference(graph, inputs, loops)
    print(f"compiled code differs: {problem}" if problem else "compiled code agrees with eager")
    return 1 if problem else 0


# -- inputs ------------------------------------------------------------------------------------------------------------


def normal(
    number: int, shape: tuple, dtype: str = "float32", strides: tuple | None = None, requires_grad: bool = False
) -> Tensor:
    """The `number`-th input of a repro: fixed values of about unit size (integers: 0 and 1)."""
    values = np.random.default_rng(number).standard_normal(shape)
    kind = getattr(dtypes, dtype)
    array = values.astype(kind.numpy) if kind.is_floating_point or kind.is_complex else (values > 0).astype(kind.numpy)
    return laid_out(array, kind, strides, requires_grad)


def values(text: str, shape: tuple, dtype: str, strides: tuple | None = None, requires_grad: bool = False) -> Tensor:
    """An input written into the file: its bytes, compressed, in base 64."""
    kind = getattr(dtypes, dtype)
    array = np.frombuffer(zlib.decompress(base64.b64decode(text)), kind.numpy).reshape(shape).copy()
    return laid_out(array, kind, strides, requires_grad)


def laid_out(array: np.ndarray, kind: Any, strides: tuple | None, requires_grad: bool) -> Tensor:
    array = np.asarray(array)
    if strides is not None:
        span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides)) if array.size else 0
        block = np.zeros(span, kind.numpy)
        placed = np.lib.stride_tricks.as_strided(block, array.shape, tuple(s * array.itemsize for s in strides))
        placed[...] = array
        array = placed
    made = Tensor._fl_from_array(array, kind)
    return made.requires_grad_() if requires_grad else made


def input_text(number: int, x: Any, drawn: bool) -> str:
    """The expression of an input in a repro."""
    if not isinstance(x, Tensor):
        return repr(x)
    shape, rows = tuple(map(int, x.shape)), row_major(tuple(x.shape)) == tuple(x.stride())
    rest = ("" if rows else f", strides={tuple(x.stride())}") + (", requires_grad=True" if x.requires_grad else "")
    if drawn:
        return f"normal({number}, {shape}, {x.dtype.name!r}{rest})"
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(x._fl_array).tobytes(), 9)).decode()
    lines = "\n           ".join(repr(packed[k : k + WIDTH]) for k in range(0, len(packed), WIDTH))
    return f"values({lines},\n           {shape}, {x.dtype.name!r}{rest})"


def row_major(sizes: tuple) -> tuple:
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def drawn_inputs(inputs: Sequence) -> list:
    """Inputs of the same geometry with the values that a repro draws."""
    return [
        normal(
            k,
            tuple(x.shape),
            x.dtype.name,
            None if row_major(tuple(x.shape)) == tuple(x.stride()) else tuple(x.stride()),
            x.requires_grad,
        )
        if isinstance(x, Tensor)
        else x
        for k, x in enumerate(inputs)
    ]


# -- the file ----------------------------------------------------------------------------------------------------------


def text_of(graph: Graph, inputs: Sequence, about: Sequence[str], drawn: bool, **flags: bool) -> str:
    """A Python file that fails (exit status 1) while the fault is there. `about`: lines for its docstring; flags: of `tell`."""
    package = __name__.partition(".")[0]
    made = ", ".join(sorted({"normal" if drawn else "values"} if any(isinstance(x, Tensor) for x in inputs) else ()) + ["tell"])
    header, _, program = graph.print_python().strip().partition("def ")
    given = ",\n          ".join(input_text(k, x, drawn) for k, x in enumerate(inputs))
    said = "".join(f", {name}=True" for name, on in flags.items() if on)
    told = "\n".join(about).replace('"""', "'''")
    imports = "\n".join(["import sys", *header.strip().splitlines(), f"from {package}.inductor.tools.repro import {made}"])
    return (
        f'"""{told}\n"""\n\n{imports}\n\n\ndef {program}\n\n\nINPUTS = [{given}]\n\n'
        f'if __name__ == "__main__":\n    sys.exit(tell({graph.name}, INPUTS{said}))\n'
    )
