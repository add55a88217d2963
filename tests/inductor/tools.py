"""Capturing a function without the frame hook: it runs on meta tensors under the Recorder. And comparing it with eager."""

import numpy as np

import flambeau.eager.ops  # noqa: F401  the records
from flambeau.capture.graph.graph import Graph, ops
from flambeau.capture.shapes.symbolic_shapes import ShapeEnv
from flambeau.eager import dtypes, random
from flambeau.eager.state import recording
from flambeau.eager.tensor import Tensor, fake_tensor
from flambeau.inductor import debug_backends, driver
from flambeau.inductor.runtime.compare_stages import gradients_of, tensors_in
from flambeau.inductor.graph.retrace import Retracer
from flambeau.inductor.graph.verify import differs
from flambeau.runtime.config import config

BACKENDS = {
    "aot_eager": debug_backends.aot_eager,
    "eager": debug_backends.eager,
    "inductor": driver.compile_graph,
    "loops": debug_backends.loops,
}

__all__ = ["ops", "capture", "check", "compiled", "tensor", "leaf", "computed", "no_grad", "Tensor", "dtypes"]


def tensor(*shape, seed=0, dtype=dtypes.float32, high=None):
    """Reproducible values: normal floats, or ints below `high`."""
    generator = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    values = generator.integers(0, high, shape) if high else generator.standard_normal(shape)
    return Tensor._fl_from_array(values.astype(dtype.numpy), dtype)


def leaf(*shape, seed=0):
    return tensor(*shape, seed=seed).requires_grad_()


def computed(*shape, seed=0):
    """A tensor that requires grad and is no leaf: it may be written in place."""
    return ops.mul(leaf(*shape, seed=seed), 1.5)


def no_grad():
    return recording(False)


class Numbering(Retracer):
    """Numbers the draws in program order, as capture does."""

    def add_node(self, op, nodes, result):
        if op.draws is not None and op.draws(*nodes):
            self.marks = {"draw": self.graph.draws}
            self.graph.draws += 1
        super().add_node(op, nodes, result)
        self.marks = {}


def fake_of(x, env, name):
    if isinstance(x, int) and not isinstance(x, bool) and env is not None:
        return env.create_symbol(x, name)
    if not isinstance(x, Tensor):
        return x
    sizes = [env.create_symbol(n, f"{name}.size({d})") for d, n in enumerate(x.shape)] if env is not None else tuple(x.shape)
    order = sorted(range(len(sizes)), key=lambda d: (x.stride()[d], -d))
    strides, step = [0] * len(sizes), 1
    for d in order:
        strides[d], step = step, step * sizes[d]
    if env is None:
        strides = x.stride()
    fake = fake_tensor(tuple(sizes), tuple(strides), dtype=x.dtype, requires_grad=x.requires_grad)
    return fake if x.is_leaf else ops.clone(fake)


def capture(fn, *args, dynamic=False):
    """The graph of fn(*args)."""
    env = ShapeEnv() if dynamic else None
    recorder = Numbering(Graph(env))
    fakes = [fake_of(a, env, f"arg{k}") for k, a in enumerate(args)]
    for k, fake in enumerate(fakes):
        recorder.placeholder(f"arg{k}", fake, f"arg{k}")
    with recorder:
        result = fn(*fakes)
    recorder.graph.set_output(recorder.reference(result))
    recorder.graph.lint()
    return recorder.graph


def compiled(fn, *args, backend="aot_eager", dynamic=False, options=None):
    with config.patch(verify=True):
        return BACKENDS[backend](capture(fn, *args, dynamic=dynamic), list(args), options)


def alias_pattern(result, inputs):
    """Which outputs are which objects, and which share memory with what."""
    everything = [x for x in inputs if isinstance(x, Tensor)] + tensors_in(result)
    first = {}
    same = [first.setdefault(id(t), k) for k, t in enumerate(everything)]
    bounds = [
        np.byte_bounds(t._fl_array) if hasattr(np, "byte_bounds") else np.lib.array_utils.byte_bounds(t._fl_array)
        for t in everything
    ]
    shares = [
        [
            a is not b
            and bounds[i][0] < bounds[j][1]
            and bounds[j][0] < bounds[i][1]
            and np.shares_memory(a._fl_array, b._fl_array)
            for j, b in enumerate(everything)
        ]
        for i, a in enumerate(everything)
    ]
    return same, shares, [t.requires_grad for t in everything], [tuple(t.stride()) for t in everything]


def show(fn, make, grads=True):
    """(outputs, inputs afterwards, gradients, alias pattern) of one call on inputs that `make` gives anew."""
    random.default_generator.manual_seed(11)
    given = list(make())
    sources = {id(x): x for a in given if isinstance(a, Tensor) for x in leaves_of(a)}
    result = fn(*given)
    pattern = alias_pattern(result, given)
    outputs = tensors_in(result) + [x for x in given if isinstance(x, Tensor)]
    found = gradients_of(outputs, list(sources.values())) if grads else []
    return result, given, found, pattern


def leaves_of(t):
    """The leaves that a tensor was computed from."""
    if t.grad_fn is None:
        return [t] if t.requires_grad else []
    found, stack = {}, [t.grad_fn]
    while stack:
        for following, _ in stack.pop().next_functions:
            if hasattr(following, "variable"):
                found[id(following.variable)] = following.variable
            elif following is not None:
                stack.append(following)
    return list(found.values())


def check(fn, make, backend="aot_eager", dynamic=False, grads=True, other=None):
    """Compile fn for make()'s inputs; a call shows what eager shows. `other`: inputs of other sizes for the same code."""
    run = compiled(fn, *make(), backend=backend, dynamic=dynamic)
    for inputs in (make,) if other is None else (make, other):
        expected, actual = show(fn, inputs, grads), show(run, inputs, grads)
        for what, a, b in zip(("outputs", "inputs", "gradients"), expected, actual):
            problem = differs(a, b)
            assert problem is None, f"{what}: {problem}"
        for what, a, b in zip(("identity", "shared memory", "requires_grad", "strides"), expected[3], actual[3]):
            assert a == b, f"{what}: {b} instead of {a}"
    return run
