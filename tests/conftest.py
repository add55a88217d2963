"""Shared test tools: `--update-golden`, `--fault`, the same random numbers in every run, golden texts beside the tests, forked
children, arrays at the end of a page, and a tracer of eager functions into graphs."""

import ctypes
import mmap
import operator
import os
import pathlib
import random
import signal
import sys
import time
import traceback

import numpy as np
import pytest

os.environ.setdefault("FLAMBEAU_VERIFY", "1")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts with what the compiler makes now")
    parser.addoption("--fault", metavar="NAME", help="run with this fault of tests/faults.py switched on: tests must fail")


def pytest_configure(config):
    if config.getoption("--fault"):
        from . import faults

        faults.switch_on(config.getoption("--fault"))


# Files whose tests take long and share nothing: with `--dist loadgroup` each may go to another process; else a file goes to one
ALONE = ("test_whole_cpython.py", "test_graphfuzz.py", "test_graphfuzz_loops.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Groups by names of files: xdist's own marks change node ids in a way that pytest 9.2 does not see."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return nodeid if file.endswith(ALONE) else file

        def remove_node(self, node):
            """What a process that ended had left to do goes to others. The test that it was at has failed, and is not tried
            again: each process that did would end in its turn, and xdist waits for ever for units without a test."""
            units = self.assigned_work.pop(node)
            left = {scope: unit for scope, unit in units.items() if not all(unit.values())}
            crashed = next((test for unit in left.values() for test, done in unit.items() if not done), None)
            for scope, unit in left.items():
                unit.update({crashed: True} if crashed in unit else {})
                if not all(unit.values()):
                    self.workqueue[scope] = unit
            for other in self.assigned_work if crashed else ():
                self._reschedule(other)
            return crashed

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def seeded():
    """Each test draws the same numbers in every run, in whatever order tests run: what fails once, fails again."""
    import flambeau

    oracle = sys.modules.get("torch", flambeau)
    for seed in (flambeau.manual_seed, oracle.manual_seed, np.random.seed, random.seed):
        seed(20261122)


@pytest.fixture
def golden(request):
    """golden(name, text): `text` equals tests/.../golden/<name>; with --update-golden it becomes that file."""
    folder = pathlib.Path(request.node.fspath).parent / "golden"

    def check(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"{path} is missing: run pytest with --update-golden and read the new file"
        assert text == path.read_text(), f"differs from {path}; if that is meant, run pytest with --update-golden"

    return check


@pytest.fixture
def in_child():
    """in_child(action, seconds=60): what became of `action` in a forked child: its exit code, or "hung" after the deadline."""

    def run(action, seconds=60):
        pid = os.fork()
        if pid == 0:
            try:
                action()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hung"

    return run


@pytest.fixture
def at_the_edge():
    """at_the_edge(shape, dtype): an array of normal numbers whose last byte is the last of a page; the next cannot be read."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None, use_errno=True)

    def array(shape, dtype=np.float32):
        count, width = int(np.prod(shape)), np.dtype(dtype).itemsize
        size = (count * width + page - 1) // page * page
        block = mmap.mmap(-1, size + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(block))
        assert libc.mprotect(ctypes.c_void_p(start + size), page, 0) == 0
        x = np.frombuffer(block, dtype, count=count, offset=size - count * width).reshape(shape)
        x[...] = np.random.default_rng(0).standard_normal(shape)
        return x

    return array


@pytest.fixture
def trace():
    """trace(fn, *tensors, symbolic=False) -> a functional, decomposed Graph of what `fn` does with them."""
    return trace_function


def trace_function(fn, *inputs, symbolic=False):
    from flambeau.capture.graph.graph import Graph, map_args
    from flambeau.capture.shapes.symbolic_shapes import ShapeEnv
    from flambeau.eager import dispatch
    from flambeau.eager.op.op import Kind
    from flambeau.eager.tensor import Tensor, fake_tensor

    env = ShapeEnv()
    graph = Graph(env)
    nodes = {}

    class Tracer(dispatch.Mode):
        def dispatch(self, op, args):
            if op.kind is Kind.COMPOSITE and op.fn is not None:
                return op.fn(*args)
            found = map_args(tuple(args), lambda a: node_of(a) if isinstance(a, Tensor) else a)
            with dispatch.no_modes():
                out = dispatch.call(op, args)
            drawn = bool(op.draws and op.draws(*args))
            node = graph.call(op, found, out, draw=graph.draws if drawn else None)
            graph.draws += drawn
            parts = out if isinstance(out, tuple) else None
            for k, part in enumerate(parts or ()):
                nodes[id(part)] = part, graph.call(operator.getitem, (node, k), part)
            if parts is None:
                nodes[id(out)] = out, node
            return out

    def node_of(tensor):
        if id(tensor) not in nodes:
            nodes[id(tensor)] = tensor, graph.get_attr("constant", tensor)
        return nodes[id(tensor)][1]

    def fake(k, x):
        if not isinstance(x, Tensor):
            if isinstance(x, (int, float)) and symbolic:
                x = env.create_symbol(x, f"a{k}", duck=False) if isinstance(x, int) else env.create_float(x, f"a{k}")
                graph.placeholder(f"a{k}", x)
            return x
        sizes = tuple(env.create_symbol(n, f"a{k}") if symbolic else n for n in x.shape)
        strides, step = [0] * len(sizes), 1
        for d in sorted(range(len(sizes)), key=lambda d: (x.stride()[d], -d)):
            strides[d], step = (step, step * sizes[d]) if symbolic else (x.stride()[d], 0)
        made = fake_tensor(sizes, tuple(strides), x.dtype)
        nodes[id(made)] = made, graph.placeholder(f"a{k}", made)
        return made

    fakes = [fake(k, x) for k, x in enumerate(inputs)]
    if not symbolic:
        for k, x in enumerate(inputs):
            if not isinstance(x, Tensor):
                graph.placeholder(f"a{k}", x)
    with dispatch.setting(grad=False, fake=True), Tracer():
        out = fn(*fakes)
    outputs = out if isinstance(out, (tuple, list)) else (out,)
    graph.set_output(map_args(outputs, lambda t: node_of(t) if isinstance(t, Tensor) else t))
    graph.lint()
    return graph


def close(actual, expected, rtol=2e-5, atol=2e-5):
    """Equal shapes, types and (within tolerance) values; NaNs match NaNs."""
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, b = (x.astype(wide) if x.dtype.kind not in "biu" else x for x in (actual, expected))
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@pytest.fixture
def assert_close():
    return close


@pytest.fixture
def make():
    from flambeau.eager.op_samples import Samples

    return Samples()


@pytest.fixture
def random_program():
    """random_program(seed) -> (function of tensors, its inputs): maps, reductions, views and products over few sizes."""
    return make_program


def make_program(seed, length=14):
    from flambeau.eager.op.op import OPS
    from flambeau.eager.op_samples import Samples

    make = Samples(seed)
    rng = np.random.default_rng(seed)
    plan = [(int(rng.integers(0, 1 << 30)), int(rng.integers(0, 1 << 30)), int(rng.integers(0, 1 << 30))) for _ in range(length)]
    sizes = [int(n) for n in rng.choice([2, 3, 4, 4, 6, 8], 2)]
    inputs = [make(*sizes), make(sizes[1]), make(*reversed(sizes)), make(3, *sizes)]

    def run(*given):
        values = list(given)
        for step in plan:
            made = program_step(OPS, values, *step)
            if made is not None:
                values.append(made)
        return tuple(values[len(given) :][-5:])

    return run, inputs


def program_step(ops, values, which, first, second):
    """One op on values picked by numbers; None where it does not apply."""
    from flambeau.eager.ops.views import reshape

    x, y = values[first % len(values)], values[second % len(values)]
    rank = len(x.shape)
    unary = ("exp", "sin", "relu", "neg", "tanh", "abs")
    kind = which % 9
    if kind < 2:
        bounded = ops["tanh"](x)
        return ops[unary[(which // 9) % len(unary)]](bounded)
    if kind < 4:
        fits = all(type(a) is type(b) and a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], y.shape[::-1]))
        return ops[("add", "mul", "sub", "maximum")[(which // 9) % 4]](x, ops["tanh"](y)) if fits else None
    if kind == 4 and rank:
        dims = tuple(d for d in range(rank) if (which >> d + 5) & 1) or (rank - 1,)
        return ops[("sum", "amax", "mean")[(which // 9) % 3]](x, dims, bool(which & 1 << 10))
    if kind == 5 and rank > 1:
        return ops["transpose"](x, (which // 9) % rank, (which // 81) % rank)
    if kind == 6 and rank:
        total = 1
        for n in x.shape:
            total = total * n
        return reshape(x, (total,)) if which & 1 << 9 else reshape(x, (x.shape[0], total // x.shape[0]))
    if kind == 7 and rank == 2:
        return ops["matmul"](ops["tanh"](x), ops["transpose"](x, 0, 1))
    if kind == 8 and rank:
        return ops["flip"](x, ((which // 9) % rank,)) if which & 1 << 8 else ops["unsqueeze"](x, (which // 9) % (rank + 1))
    return None
