"""What compilation made is freed with the compiled object: graphs, code, kernels, doors, and what they hold. Nothing grows."""

import gc
import os
import weakref

import pytest

import flambeau as torch
import flambeau.nn as nn

from .harness import captured  # noqa: F401

from flambeau.capture import _capture as native
from flambeau.capture.frontend.api import Compiled
from flambeau.capture.frontend.trace_context import TraceContext
from flambeau.capture.graph.graph import Graph, Node

MADE = (Graph, Node, Compiled, TraceContext, native.Entry, native.Wrapper, native.Resume, native.GuardTree)
BACKENDS = ["eager", "inductor"]


def collect():
    """Code objects take no part in garbage collection: what hangs on them alone goes with a later one."""
    for _ in range(3):
        gc.collect()


def living():
    """How many objects of each kind there are."""
    collect()
    found = dict.fromkeys(MADE, 0)
    for one in gc.get_objects():
        if type(one) in found:
            found[type(one)] += 1
    return {kind.__name__: n for kind, n in found.items()}


class Watching:
    """A backend that keeps weak references to the graphs it was given."""

    def __init__(self, backend):
        self.backend, self.graphs, self.compiled = backend, [], []

    def __call__(self, graph, example_inputs):
        from flambeau.capture.frontend import backends

        self.graphs.append(weakref.ref(graph))
        made = backends.lookup(self.backend)[1](graph, example_inputs)
        self.compiled.append(weakref.ref(made))
        return made


def straight(x):
    return (x * 2).sin() + 1


def broken(x):
    y = x * 2
    print(end="")
    return y + 1


def looped(x):
    for _ in range(3):
        x = x + 1
        print(end="")
    return x


def caught(x):
    try:
        y = x * 2
        print(end="")
        y = y + {}["missing"]
    except KeyError:
        return x + 1
    return y


def closing(x):
    z = x * 2

    def add(y):
        return z + y

    print(end="")
    return add(x), add


def through(x):
    def helper(y):
        print(end="")
        return y * 2

    return helper(x) + 1


def failing(x):
    y = x + 1
    raise ValueError(str(y.shape))


FUNCTIONS = [straight, broken, looped, caught, closing, through, failing]


def call(compiled, *args):
    try:
        return compiled(*args)
    except ValueError:
        return None


def copy_of(function):
    """A function of its own, with code of its own, so that nothing else keeps what is made for it."""
    code = function.__code__.replace(co_name=function.__name__)
    return type(function)(code, globals(), function.__name__)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_all_is_freed_with_the_compiled_function(function, backend):
    call(torch.compile(copy_of(function), backend=backend), torch.ones(3))  # imports, and caches filled once
    before = living()
    watching, plain = Watching(backend), copy_of(function)
    compiled = torch.compile(plain, backend=watching)
    for size in (3, 4, 5):
        call(compiled, torch.ones(size))
    door, code = weakref.ref(compiled), weakref.ref(plain.__code__)
    cache = weakref.ref(compiled.cache)
    assert cache() is not None and code() is not None and watching.graphs
    del compiled, plain
    collect()
    assert door() is None and cache() is None and code() is None
    assert [r for r in (*watching.graphs, *watching.compiled) if r() is not None] == []
    assert living() == before


def test_the_compiled_code_is_freed_and_the_function_is_not():
    def f(x):
        return x + 1

    compiled = torch.compile(f, backend="eager")
    compiled(torch.ones(2))
    made = weakref.ref(compiled.entries[0].code)
    del compiled
    collect()
    assert made() is None and f(1) == 2


def test_reset_frees_graphs_and_entries():
    watching = Watching("aot_eager")
    compiled = torch.compile(looped, backend=watching)
    before = living()
    compiled(torch.ones(3))
    torch.compiler.reset()
    collect()
    assert watching.graphs and [r for r in (*watching.graphs, *watching.compiled) if r() is not None] == []
    assert living() == before
    assert compiled(torch.ones(3)).tolist() == [4.0] * 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x).relu()
        if x.shape[0] > 2:
            print(end="")
        return self.second(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [2, 3])
def test_a_compiled_module_frees_its_parameters(backend, rows):
    torch.compile(Net(), backend=backend)(torch.ones(rows, 3)).sum().backward()
    before = living()
    net = Net()
    compiled = torch.compile(net, backend=backend)
    for _ in range(2):
        compiled(torch.ones(rows, 3)).sum().backward()
    held = [weakref.ref(p) for p in (*net.parameters(), net)]
    del net, compiled
    collect()
    assert [r for r in held if r() is not None] == []
    assert living() == before


def test_a_compiled_module_holds_no_inputs_and_no_results():
    compiled = torch.compile(Net(), backend="inductor")
    x = torch.ones(2, 3, requires_grad=True)
    out = compiled(x)
    out.sum().backward()
    seen = weakref.ref(x), weakref.ref(out), weakref.ref(x.grad)
    del x, out
    collect()
    assert [r for r in seen if r() is not None] == []


def test_a_result_keeps_what_its_backward_needs():
    out = torch.compile(straight, backend="aot_eager")(torch.ones(3, requires_grad=True))
    collect()
    out.sum().backward()


def test_an_object_met_by_guards_is_not_kept():
    class Config:
        width = 2

        def __init__(self):
            self.items = [1, 2]

    def f(x, config):
        return x * config.width + config.items[0]

    compiled = torch.compile(f, backend="eager")
    config = Config()
    compiled(torch.ones(2), config)
    gone = weakref.ref(config)
    del config
    collect()
    assert gone() is None
    assert compiled(torch.ones(2), Config()).tolist() == [3.0, 3.0]


def test_a_failed_compilation_keeps_nothing():
    def broken_backend(graph, example_inputs):
        raise RuntimeError("no")

    def f(x):
        return x + 1

    with pytest.warns(RuntimeWarning, match="could not compile"):
        torch.compile(copy_of(straight), backend=broken_backend)(torch.ones(3))
    before = living()
    with pytest.warns(RuntimeWarning, match="could not compile"):
        compiled = torch.compile(f, backend=broken_backend)
        x = torch.ones(3)
        compiled(x)
    gone = weakref.ref(x)
    del x, compiled
    collect()
    assert gone() is None and living() == before
    torch.compile(f, backend="eager")(torch.ones(2))


def resident():
    """Bytes of memory that the process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux tells the memory of a process")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_memory_does_not_grow_over_200_compilations(backend):
    space = {"torch": torch}

    def compile_one(k):
        exec(f"def f(x):\n    return (x * {k % 3}).sin()", space)
        compiled = torch.compile(space["f"], backend=backend)
        x = torch.ones(128, 128, requires_grad=True)
        compiled(x).sum().backward()

    for k in range(15):
        compile_one(k)
    before, objects, memory = living(), len(gc.get_objects()), resident()
    for k in range(200):
        compile_one(k)
    assert living() == before
    assert len(gc.get_objects()) - objects < 200
    assert resident() - memory < 12 << 20
