"""Children that are forked while threads of the parent compute and compile, and Ctrl-C in native code."""

import ast
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau.runtime import locks, native
from flambeau.utils.data import DataLoader, Dataset


@pytest.fixture
def busy():
    """Threads that keep the pool, the allocator and the compiler's locks busy."""
    stop, first = threading.Event(), threading.Barrier(3)
    before = native.get_num_threads()
    native.set_num_threads(2)

    def compute():
        x = torch.ones(300, 300)
        f = torch.compile(lambda x: (x @ x).softmax(1) + x.exp())
        f(x)
        first.wait()  # modules that are imported late are there
        while not stop.is_set():
            f(x)

    def compile_anew():
        torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(3))
        first.wait()
        while not stop.is_set():
            torch.compile(lambda x: torch.rand(3) + x, backend="aot_eager")(torch.ones(3))

    threads = [threading.Thread(target=compute), threading.Thread(target=compile_anew)]
    for thread in threads:
        thread.start()
    first.wait()
    yield
    stop.set()
    for thread in threads:
        thread.join()
    native.set_num_threads(before)


class Rows(Dataset):
    """Each row is computed by a function that the worker compiles itself, on more than the pool leaves to one thread."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if not hasattr(self, "run"):
            self.run = torch.compile(lambda x, k: (x @ x.t()).relu().sum(1) * k)
        return self.run(torch.ones(200, 100), torch.tensor(float(i)))[:3], os.getpid()


def test_workers_compute_and_compile(store, busy):
    for _ in range(2):
        pids, rows = set(), []
        for values, made_by in DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=60):
            rows += values.tolist()
            pids |= set(made_by.tolist())
        assert rows == [[20000.0 * i] * 3 for i in range(8)] and len(pids) == 2 and os.getpid() not in pids


def trains():
    w = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    loss = torch.compile(lambda x: (x @ w).tanh().sum())(torch.ones(2, 3))
    loss.backward()
    expected = 2 * (1 - np.tanh(w.detach().numpy().sum(0)) ** 2)
    np.testing.assert_allclose(w.grad.numpy(), np.broadcast_to(expected, (3, 4)), rtol=1e-5)


def test_children_compile_while_threads_of_the_parent_do(store, busy, in_child):
    assert [in_child(trains) for _ in range(6)] == [0] * 6
    trains()


def test_a_lock_held_at_the_fork_is_open_in_the_child(in_child):
    held = locks.fresh(threading.RLock), locks.fresh()
    locked, done = threading.Event(), threading.Event()

    def hold():
        with held[0], held[1]:
            locked.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    try:
        assert in_child(lambda: [lock.acquire(timeout=5) or sys.exit(1) for lock in held], 20) == 0
        assert not held[1].acquire(blocking=False)
    finally:
        done.set()
        thread.join()


class Slow:
    started, done = threading.Event(), threading.Event()

    @locks.cached_property
    def value(self):
        self.started.set()
        self.done.wait()
        return 1


def test_a_property_computed_at_the_fork_is_open_in_the_child(in_child):
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    Slow.started.wait()

    def reads():
        Slow.done.set()
        assert Slow().value == 1

    try:
        assert in_child(reads, 20) == 0
    finally:
        Slow.done.set()
        thread.join()


def made_by(tree):
    """The decorators of a module's functions, as they are called in the modules that they come from."""
    names = {a.asname or a.name: f"{n.module}.{a.name}" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            text = ast.unparse(decorator)
            yield names.get(text, text)


def test_no_property_has_a_lock_that_stays_shut():
    """CPython 3.11's functools.cached_property has one, which a thread of the parent may hold at a fork."""
    root = pathlib.Path(torch.__file__).parent
    files = [f for layer in ("runtime", "eager", "capture", "inductor", "cli") for f in (root / layer).rglob("*.py")]
    found = [(str(f), name) for f in files for name in made_by(ast.parse(f.read_text())) if name.endswith("cached_property")]
    assert len(found) >= 8
    assert [(f, name) for f, name in found if not name.endswith("locks.cached_property")] == []


INTERRUPTED = textwrap.dedent("""
    import os, signal, threading, time
    import flambeau as torch
    signal.signal(signal.SIGINT, signal.default_int_handler)      # a job in the background of a shell starts without it
    torch.set_num_threads(2)
    x, w = torch.ones(600, 600) / 600, torch.ones(600, 600, requires_grad=True)

    @torch.compile
    def f(x, w):
        for _ in range(12):
            x = (x @ w) / 600
        return x.sum()

    def run():
        out = f(x, w)
        out.backward()
        return round(out.item(), 2), round(w.grad.abs().max().item(), 2)
    start = time.perf_counter()
    expected = run()
    start = time.perf_counter()
    w.grad = None
    assert run() == expected
    took = time.perf_counter() - start
    for part in (0.2, 0.5, 0.8):
        w.grad = None
        timer = threading.Timer(took * part, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        try:
            while True:
                run()
        except KeyboardInterrupt:
            print("INTERRUPTED")
        timer.join()
        w.grad = None
        assert run() == expected
        assert torch.compile(lambda x: x + part)(torch.ones(2)).tolist() == (torch.ones(2) + part).tolist()
    print("USABLE")
""")


def test_interrupts_in_long_kernels_leave_a_usable_process(tmp_path):
    given = {k: v for k, v in os.environ.items() if not k.startswith("FLAMBEAU_")}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=given | {"FLAMBEAU_CACHE_DIR": str(tmp_path / "cache")},
        timeout=120,
    )
    assert done.returncode == 0 and done.stdout.count("INTERRUPTED") == 3 and "USABLE" in done.stdout, done.stdout
