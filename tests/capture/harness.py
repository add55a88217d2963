"""One harness for the tests of capture: a tiny function, run plainly and compiled, must do the same and be counted right.

`check(fn, *args)` compares results, changes of the arguments and printed text over two calls (and over `again`, arguments of
another size), and asserts the numbers of graphs, ops and breaks, so that a `compile` that does nothing fails.
"""

import contextlib
import copy
import io

import pytest

import flambeau as torch
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime import counters
from flambeau.runtime.config import config


@pytest.fixture(autouse=True)
def captured():
    """Imported by every test file of captured frames: a test in which nothing was captured fails."""
    counters.reset()
    yield
    seen = counters.snapshot()
    assert seen["frames"] > 0 or seen["breaks"], "no frame was captured"


class Recording:
    """A backend that runs the graph in the Interpreter and keeps it."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, example_inputs):
        graph.lint()
        self.graphs.append(graph)
        return Interpreter(graph).run

    @property
    def ops(self):
        return sum(node.is_op for graph in self.graphs for node in graph.nodes)


def same(a, b, seen=None):
    """Equal structure, types and values; tensors by bytes, objects by their attributes."""
    seen = seen if seen is not None else set()
    if id(a) in seen:
        return True
    if isinstance(a, torch.Tensor):
        return (
            type(a) is type(b)
            and a.dtype is b.dtype
            and tuple(a.shape) == tuple(b.shape)
            and a.requires_grad == b.requires_grad
            and a.tolist() == b.tolist()
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k], seen) for k in a)
    if hasattr(a, "__dict__") and not callable(a):
        seen.add(id(a))
        return same(vars(a), vars(b), seen)
    return callable(a) or a == b


def outcome(fn, args):
    """(result or exception, printed text)."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = fn(*args)
        except Exception as error:
            result = (type(error).__name__, str(error))
    return result, printed.getvalue()


def compare(fn, compiled, args, what):
    """One call of both on copies of the arguments."""
    plain_args, compiled_args = copy.deepcopy(args), copy.deepcopy(args)
    torch.manual_seed(0)
    expected, text = outcome(fn, plain_args)
    torch.manual_seed(0)
    result, compiled_text = outcome(compiled, compiled_args)
    assert same(expected, result), f"{what}: expected {expected!r}, got {result!r}"
    assert text == compiled_text, f"{what}: printed {compiled_text!r} instead of {text!r}"
    assert same(plain_args, compiled_args), f"{what}: arguments became {compiled_args!r} instead of {plain_args!r}"
    return result


def check(fn, *args, graphs=1, ops=None, breaks=0, again=None, recompiles=0, reset=None, **settings):
    """Compare `fn` with its compiled self. `breaks`: a number, or {reason: number}; None leaves a count unchecked."""
    backend = Recording()
    counters.reset()
    compiled = torch.compile(fn, backend=backend, **settings)
    prepare = reset or (lambda: None)
    with config.patch(strict=True):
        prepare_and_compare(prepare, fn, compiled, args, "first call")
        seen = counters.snapshot()
        assert_counts(seen, graphs, breaks, ops, backend)
        prepare_and_compare(prepare, fn, compiled, args, "second call")
        again_compiled = counters.snapshot()["recompiles"] - seen["recompiles"]
        assert recompiles is None or again_compiled == recompiles, f"the second call compiled {again_compiled} times"
        if again is not None:
            prepare_and_compare(prepare, fn, compiled, again, "other arguments")
    assert counters.snapshot()["fallbacks"] == {}
    if breaks == 0 and not settings:
        outcome(torch.compile(fn, backend=Recording(), fullgraph=True), copy.deepcopy(args))
    return backend


def prepare_and_compare(prepare, fn, compiled, args, what):
    """Globals that `fn` changes are put back before each of the two runs."""

    def ready(call):
        def run(*given):
            prepare()
            return call(*given)

        return run

    compare(ready(fn), ready(compiled), args, what)


def assert_counts(seen, graphs, breaks, ops, backend):
    if graphs is not None:
        assert seen["graphs"] == graphs, f"{seen['graphs']} graphs instead of {graphs}; breaks: {seen['breaks']}"
    if isinstance(breaks, dict):
        assert seen["breaks"] == breaks
    elif breaks is not None:
        assert sum(seen["breaks"].values()) == breaks, f"breaks: {seen['breaks']} instead of {breaks}"
    if ops is not None:
        assert backend.ops == ops, f"{backend.ops} ops instead of {ops}:\n" + "\n".join(map(str, backend.graphs))
