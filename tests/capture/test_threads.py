"""Threads, tasks, signals, debuggers and functions without a file: compiled code gives plain Python's results under all of
them, and leaves the hook and the thread's state as they were."""

import asyncio
import code as console
import concurrent.futures
import io
import pathlib
import pdb
import signal
import subprocess
import sys
import threading
import types

import pytest

import flambeau as torch
import flambeau.nn as nn

from .harness import Recording, captured  # noqa: F401

from flambeau.capture import _capture as native
from flambeau.runtime import counters
from flambeau.runtime.config import config

HERE = pathlib.Path(__file__)
TOO_LONG = 120  # seconds after which a thread counts as stuck; far above what any test needs


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C raises, also where the tests were started in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert native.mode() == "off" and native.hooked() == 0 and not native.installed()
    assert sys.gettrace() is None and sys.getprofile() is None


@pytest.fixture
def often():
    """Threads are switched as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*jobs):
    """Run the jobs in threads that start at once; gives their results, raises their errors, and refuses to wait for ever."""
    barrier, results, errors = threading.Barrier(len(jobs)), [None] * len(jobs), []

    def work(number, job):
        try:
            barrier.wait(TOO_LONG)
            results[number] = job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TOO_LONG)
    assert not any(thread.is_alive() for thread in threads), "a thread is stuck"
    if errors:
        raise errors[0]
    return results


def helper(x, k):
    y = x + k
    str(object())
    return y * 2


def with_calls(x, k):
    y = x * 2
    print(end="")
    for _ in range(2):
        y = helper(y, k)
    return y.sum() + y


def straight(x, k):
    return (x * k).sin() + 1


def branching(x, k):
    if k % 2:
        return x - k
    return (x + k).relu()


def raising(x, k):
    y = x + k
    if k == 3:
        raise ValueError("three")
    return y


FUNCTIONS = [straight, with_calls, branching, raising]


def outcome(f, *args):
    try:
        return f(*args).tolist()
    except ValueError as error:
        return str(error)


# -- threads


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_eight_threads_call_the_same_function(function, often):
    eight_threads(function, "eager", sizes=(2, 3), numbers=range(5))


@pytest.mark.parametrize("function", [straight, with_calls], ids=lambda f: f.__name__)
def test_eight_threads_call_the_same_kernels(function, often):
    eight_threads(function, "inductor", sizes=(2,), numbers=(1,))


def eight_threads(function, backend, sizes, numbers):
    compiled = torch.compile(function, backend=backend)
    expected = {(n, k): outcome(function, torch.arange(float(n)), k) for n in sizes for k in numbers}

    def job():
        for _ in range(3):
            for (n, k), result in expected.items():
                assert outcome(compiled, torch.arange(float(n)), k) == result

    with config.patch(strict=True, recompile_limit=64):
        together(*[job] * 8)
    assert "internal error" not in counters.snapshot()["fallbacks"]


def test_eight_threads_compile_different_functions(often):
    def make(n):
        def f(x):
            y = x * n
            if n % 2:
                print(end="")
            return helper(y, n) + 1

        return f

    def job(n):
        function = make(n)
        compiled = torch.compile(function, backend="inductor" if n < 2 else "loops")
        x = torch.arange(4.0)
        return [torch.equal(compiled(x), function(x)) for _ in range(5)]

    with config.patch(strict=True):
        assert together(*[lambda n=n: job(n) for n in range(8)]) == [[True] * 5] * 8


def test_eight_threads_compile_one_function_each_for_itself(often):
    def job():
        compiled = torch.compile(with_calls, backend="eager")
        return [compiled(torch.ones(3), k).tolist() for k in range(4)]

    expected = [with_calls(torch.ones(3), k).tolist() for k in range(4)]
    assert together(*[job] * 8) == [expected] * 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x).relu()
        if x.shape[0] > 2:
            print(end="")
        return self.second(x)


@pytest.mark.parametrize("backend, sizes", [("aot_eager", (2, 3)), ("inductor", (2,))])
def test_eight_threads_take_gradients(backend, sizes, often):
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net, backend=backend)

    def gradients(model, rows):
        x = torch.arange(3.0 * rows).reshape(rows, 3).requires_grad_()
        return torch.autograd.grad(model(x).square().sum(), [x, *net.parameters()])

    expected = {rows: gradients(net, rows) for rows in sizes}

    def job():
        for _ in range(4):
            for rows, wanted in expected.items():
                assert all(torch.allclose(a, b) for a, b in zip(gradients(compiled, rows), wanted))

    with config.patch(strict=True):
        together(*[job] * 8)


def test_threads_that_call_a_module_first_share_its_door(often):
    for _ in range(20):
        compiled = torch.compile(Net(), backend="eager")
        doors = together(*[lambda: compiled.forward] * 8)
        assert all(door.__func__ is doors[0].__func__ for door in doors)
    compiled(torch.ones(2, 3))


def test_grad_mode_of_a_thread_is_its_own(often):
    weight = torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: x * weight, backend="aot_eager")

    def recorded():
        return [compiled(torch.ones(3)).requires_grad for _ in range(20)]

    def not_recorded():
        with torch.no_grad():
            return recorded()

    assert together(*[recorded, not_recorded] * 4) == [[True] * 20, [False] * 20] * 4


def test_reset_while_others_call(often):
    compiled = torch.compile(with_calls, backend="eager")
    expected = with_calls(torch.ones(3), 1).tolist()

    def job():
        for _ in range(25):
            assert compiled(torch.ones(3), 1).tolist() == expected

    def resets():
        for _ in range(25):
            torch.compiler.reset()

    together(*[job] * 6, resets, resets)
    compiled(torch.ones(3), 1)


def test_compiled_functions_die_while_others_compile(often):
    def job():
        for k in range(12):
            assert torch.compile(with_calls, backend="eager")(torch.ones(2), k).shape == (2,)

    together(*[job] * 8)


def test_a_lock_held_by_the_program_does_no_harm(often):
    """Captured code that waits for a lock, and a caller that holds it while it compiles."""
    lock, total = threading.Lock(), [0]

    def f(x):
        y = x + 1
        with lock:
            total[0] = total[0] + 1
        return y * 2

    compiled = torch.compile(f, backend="eager")

    def calls():
        for _ in range(10):
            assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]

    def holds():
        for k in range(10):
            with lock:
                assert torch.compile(straight, backend="eager")(torch.ones(2), k).shape == (2,)

    together(calls, holds, calls, holds)
    assert total == [20]


def test_compilations_wait_for_nobody():
    """A compilation that lasts does not keep another thread from compiling and calling the same and another function."""
    started, go_on = threading.Event(), threading.Event()

    def slow(graph, example_inputs):
        if threading.current_thread().name == "slow":
            started.set()
            assert go_on.wait(TOO_LONG)
        return Recording()(graph, example_inputs)

    compiled, results = torch.compile(straight, backend=slow), []
    first = threading.Thread(target=lambda: results.append(compiled(torch.ones(2), 1).tolist()), name="slow", daemon=True)
    first.start()
    assert started.wait(TOO_LONG)
    results.append(compiled(torch.ones(2), 1).tolist())
    results.append(torch.compile(straight, backend=slow)(torch.ones(2), 1).tolist())
    go_on.set()
    first.join(TOO_LONG)
    assert results == [straight(torch.ones(2), 1).tolist()] * 3


def test_a_thread_started_by_compiled_code_runs_plain():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append((native.mode(), helper(x, 1).tolist())))
        thread.start()
        thread.join()
        return x + 1

    assert torch.compile(f, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
    assert seen == [("off", [4.0, 4.0])]


# -- tasks


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_tasks_interleave(backend):
    compiled = torch.compile(with_calls, backend=backend)
    order = []

    async def task(n):
        x = torch.full((2,), float(n))
        for k in range(3):
            order.append(n)
            x = compiled(x, k)
            await asyncio.sleep(0)
        return x.tolist()

    async def main():
        return await asyncio.gather(*[task(n) for n in range(4)])

    def plain(n):
        x = torch.full((2,), float(n))
        for k in range(3):
            x = with_calls(x, k)
        return x.tolist()

    assert asyncio.run(main()) == [plain(n) for n in range(4)]
    assert order == [0, 1, 2, 3] * 3


def test_a_coroutine_function_runs_plain_and_its_calls_are_compiled():
    async def f(x):
        y = helper(x, 1)
        await asyncio.sleep(0)
        return y + 1

    compiled = torch.compile(f, backend="eager")
    assert asyncio.run(compiled(torch.ones(2))).tolist() == [5.0, 5.0]
    assert counters.snapshot()["breaks"] == {"generator frame": 1}


def test_a_loop_run_inside_of_compiled_code():
    async def inner(x):
        await asyncio.sleep(0)
        return helper(x, 1)

    def f(x):
        y = x + 1
        y = asyncio.run(inner(y))
        return y + 1

    for _ in range(2):
        assert torch.compile(f, backend="eager")(torch.ones(2)).tolist() == [7.0, 7.0]


def test_compiled_calls_in_worker_threads_of_a_loop():
    compiled = torch.compile(with_calls, backend="eager")

    async def main():
        return await asyncio.gather(*[asyncio.to_thread(compiled, torch.ones(2), k) for k in range(8)])

    assert [y.tolist() for y in asyncio.run(main())] == [with_calls(torch.ones(2), k).tolist() for k in range(8)]


def test_executors():
    compiled = torch.compile(with_calls, backend="eager")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: compiled(torch.ones(2), k).tolist(), range(12)))
    assert found == [with_calls(torch.ones(2), k).tolist() for k in range(12)]


# -- signals


def interrupt(*_):
    signal.raise_signal(signal.SIGINT)


def test_interrupted_at_a_break():
    ready = []

    def f(x):
        y = x + 1
        if not ready:
            interrupt()
        return y * 2

    compiled = torch.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(2))
        assert native.mode() == "off" and native.hooked() == 0
    ready.append(1)
    assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]


def test_interrupted_in_a_nested_frame():
    times = []

    def inner(x):
        times.append(1)
        print(end="")
        if len(times) == 1:
            interrupt()
        return x * 2

    def f(x):
        print(end="")
        return inner(x + 1) + 1

    compiled = torch.compile(f, backend="eager")
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.ones(2))
    assert compiled(torch.ones(2)).tolist() == [5.0, 5.0]


def test_interrupted_while_compiling():
    times = []

    def backend(graph, example_inputs):
        times.append(1)
        if len(times) == 1:
            interrupt()
        return Recording()(graph, example_inputs)

    compiled = torch.compile(straight, backend=backend)
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.ones(2), 1)
    assert native.mode() == "off" and not compiled.plain and compiled.entries == ()
    assert compiled(torch.ones(2), 1).tolist() == straight(torch.ones(2), 1).tolist()
    assert len(times) == 2 and len(compiled.entries) == 1


def test_interrupted_while_tracing():
    """Wherever the signal comes: the state of the thread is put back, and the next call compiles."""

    def f(x):
        with torch.no_grad():
            y = helper(x, 1)
        return y + 1

    class Count:
        """A tracer that raises at the n-th line of the compiler."""

        def __init__(self, at):
            self.left = at

        def __call__(self, frame, event, argument):
            if "capture" not in frame.f_code.co_filename or frame.f_code.co_filename == __file__:
                return None
            return self.line

        def line(self, frame, event, argument):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return self.line

    class Interrupted(Recording):
        def __call__(self, graph, example_inputs):
            return super().__call__(graph, example_inputs)

    from flambeau.capture.frontend import convert_frame as module

    plain_convert = module.convert
    x, expected = torch.ones(2, requires_grad=True), f(torch.ones(2)).tolist()
    for at in (1, 50, 333, 1000, 2500, 4000):

        def convert(*args, at=at):
            sys.settrace(Count(at))
            try:
                return plain_convert(*args)
            finally:
                sys.settrace(None)

        module.convert = convert
        compiled = torch.compile(f, backend=Interrupted())
        try:
            interrupted = False
            compiled(x)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            module.convert = plain_convert
        assert interrupted or at > 1000, at
        assert native.mode() == "off" and torch.is_grad_enabled() and not torch.compiler.is_compiling()
        assert (x + 1).requires_grad and type(x + 1) is torch.Tensor
        assert compiled(x).tolist() == expected and not compiled.plain


def test_interrupted_in_a_graph():
    times = []

    def backend(graph, example_inputs):
        run = Recording()(graph, example_inputs)

        def call(*inputs):
            times.append(1)
            if len(times) == 2:
                interrupt()
            return run(*inputs)

        return call

    compiled, seen = torch.compile(straight, backend=backend), []
    for _ in range(3):
        try:
            seen.append(compiled(torch.ones(2), 1).tolist())
        except KeyboardInterrupt:
            seen.append("interrupted")
    result = straight(torch.ones(2), 1).tolist()
    assert seen == [result, "interrupted", result]


def test_a_handler_may_call_compiled_code():
    compiled, seen = torch.compile(straight, backend="eager"), []

    def handler(*_):
        seen.append(compiled(torch.ones(2), 2).tolist())

    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def f(x):
            y = x + 1
            signal.raise_signal(signal.SIGUSR1)
            return y * 2

        assert torch.compile(f, backend="eager")(torch.ones(2)).tolist() == [4.0, 4.0]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [straight(torch.ones(2), 2).tolist()]


# -- tracers, profilers, debuggers


def traced(function, *args):
    """The lines that a tracer sees of this file."""
    lines = []

    def tracer(frame, event, argument):
        if frame.f_code.co_filename != __file__:
            return None
        lines.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    sys.settrace(tracer)
    try:
        function(*args)
    finally:
        sys.settrace(None)
    return lines


def profiled(function, *args):
    calls = []

    def profiler(frame, event, argument):
        if frame.f_code.co_filename == __file__ and event in ("call", "return"):
            calls.append((frame.f_code.co_name, event))

    sys.setprofile(profiler)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return calls


def monitored(function, *args):
    """The lines and calls that a tool of sys.monitoring sees of this file."""
    seen, monitoring = [], sys.monitoring

    def tell(code, what, *_):
        if code.co_filename == __file__:
            seen.append((code.co_name, what if monitoring.get_tool(3) else None))

    events = monitoring.events
    monitoring.use_tool_id(3, "test")
    try:
        for event in (events.LINE, events.PY_START):
            monitoring.register_callback(3, event, tell)
        monitoring.set_events(3, events.LINE | events.PY_START)
        function(*args)
        monitoring.set_events(3, 0)
    finally:
        monitoring.free_tool_id(3)
    return seen


WATCHED = [traced, profiled] + ([monitored] if sys.version_info >= (3, 12) else [])


@pytest.mark.parametrize("watch", WATCHED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS[:3], ids=lambda f: f.__name__)
def test_who_watches_sees_the_program(function, warm, watch):
    compiled = torch.compile(function, backend="eager")
    x = torch.ones(2)
    if warm:
        compiled(x, 1)
    expected = watch(function, x, 1)
    assert expected and watch(compiled, x, 1) == expected
    result = compiled(x, 1)
    assert result.tolist() == function(x, 1).tolist()
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("watch", WATCHED, ids=lambda f: f.__name__)
def test_who_begins_to_watch_within_a_call(watch):
    def f(x):
        y = x + 1
        seen.append(watch(helper, y, 1))
        return y * 2

    seen = []
    assert torch.compile(f, backend="eager")(torch.ones(2)).tolist() == [4.0, 4.0]
    expected = watch(helper, torch.ones(2), 1)
    assert seen == [expected]


def test_pdb_stops_in_a_compiled_function():
    compiled = torch.compile(with_calls, backend="eager")
    compiled(torch.ones(2), 1)
    line = with_calls.__code__.co_firstlineno + 3
    commands = io.StringIO(
        f"break {__file__}:{line}\ncontinue\np 'y is', y.tolist()\nnext\nstep\np 'k is', k\nreturn\nclear 1\ncontinue\n"
    )
    told = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=told, readrc=False)
    debugger.use_rawinput = False
    result = debugger.runcall(compiled, torch.ones(2), 1)
    assert "'y is', [2.0, 2.0]" in told.getvalue() and "'k is', 1" in told.getvalue()
    assert result.tolist() == with_calls(torch.ones(2), 1).tolist()
    counters.reset()
    compiled(torch.ones(3), 1)
    assert counters.snapshot()["frames"] > 0


def test_breakpoint_in_a_compiled_function(monkeypatch):
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda *a: stops.append(sys._getframe(1).f_locals["y"].tolist()))

    def f(x):
        y = x + 1
        breakpoint()
        return y * 2

    compiled = torch.compile(f, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
    assert stops == [[2.0, 2.0]] * 2


def test_post_mortem_shows_the_line_and_the_locals():
    compiled = torch.compile(raising, backend="eager")
    compiled(torch.ones(2), 1)
    try:
        compiled(torch.ones(2), 3)
    except ValueError as error:
        last = error.__traceback__
        while last.tb_next:
            last = last.tb_next
    assert last.tb_frame.f_code.co_name == "raising" and last.tb_lineno == raising.__code__.co_firstlineno + 3


# -- functions without a file


def programs(source, mode="exec", filename="<string>", **names):
    space = {"torch": torch, "__name__": "__main__", **names}
    exec(compile(source, filename, mode), space)
    return space


SOURCE = """
scale = 3.0
def inner(x):
    print(end="")
    return x * scale
def f(x):
    y = x + 1
    print(end="")
    return inner(y) + 1
def bad(x):
    y = x * 2
    raise ValueError("from nowhere")
"""


@pytest.mark.parametrize("filename", ["<string>", "<stdin>", "<console>", "<ipython-input-3-0d1b>", "/nowhere/to/be/found.py"])
def test_functions_without_a_source(filename):
    space = programs(SOURCE, filename=filename)
    compiled = torch.compile(space["f"], backend="eager")
    with config.patch(strict=True):
        for _ in range(2):
            assert compiled(torch.ones(2)).tolist() == [7.0, 7.0]
    assert counters.snapshot()["graphs"] >= 3
    space["scale"] = 4.0
    assert compiled(torch.ones(2)).tolist() == [9.0, 9.0]
    exec("def inner(x):\n    return x - 1", space)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="from nowhere") as caught:
        torch.compile(space["bad"], backend="eager")(torch.ones(2))
    assert [e.lineno for e in caught.traceback[-1:]] == [caught.traceback[-1].lineno]
    with pytest.raises(RuntimeError, match="print"):
        torch.compile(space["f"], backend="eager", fullgraph=True)(torch.ones(2))
    assert torch.compiler.explain(space["f"])(torch.ones(2)) is not None


def test_lambdas_of_eval_and_functions_made_by_hand():
    made = eval("lambda x: x * 2 + 1", {})
    assert torch.compile(made, backend="eager")(torch.ones(2)).tolist() == [3.0, 3.0]
    copied = types.FunctionType(made.__code__.replace(co_name="", co_qualname="", co_filename="", co_linetable=b""), {})
    assert torch.compile(copied, backend="eager")(torch.ones(2)).tolist() == [3.0, 3.0]


def test_an_interactive_session():
    """What is typed at a prompt: definitions, calls, an error, a new definition under the same name."""
    lines = [
        "import flambeau as torch",
        "@torch.compile(backend='eager')",
        "def f(x):",
        "    y = x + 1",
        "    print('in f')",
        "    return y * scale",
        "",
        "scale = 2",
        "print(f(torch.ones(2)).tolist())",
        "scale = 3",
        "print(f(torch.ones(2)).tolist())",
        "f(None)",
        "@torch.compile(backend='eager')",
        "def f(x):",
        "    return x - 1",
        "",
        "print(f(torch.ones(2)).tolist())",
    ]
    run = subprocess.run(
        [sys.executable, "-i", "-q", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=TOO_LONG,
        check=False,
    )
    assert run.stdout.splitlines() == ["in f", "[4.0, 4.0]", "in f", "[6.0, 6.0]", "[0.0, 0.0]"], run.stderr
    assert "TypeError" in run.stderr
    torch.compile(straight, backend="eager")(torch.ones(2), 1)


def test_a_console():
    shell = console.InteractiveConsole({"torch": torch})
    for line in (
        "def f(x):",
        "    print(end='')",
        "    return x + 1",
        "",
        "g = torch.compile(f, backend='eager')",
        "r = g(torch.ones(2)).tolist()",
    ):
        shell.push(line)
    assert shell.locals["r"] == [2.0, 2.0]
