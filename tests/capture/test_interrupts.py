"""A compilation that is cut off anywhere leaves its thread as it was: Ctrl-C, a timer's exception, an error between any two
lines.

`INTERRUPTS` (default: a few seconds of them) says how many places are tried.
"""

import gc
import os
import pathlib
import signal
import sys
import threading
import time

import pytest

import flambeau as torch
from flambeau.capture import thread_local_state
from flambeau.capture.frontend.api import Compiled
from flambeau.eager.state import state
from flambeau.runtime import locks, compile_log
from flambeau.runtime.gc_pause import uncollected

MOST = int(os.environ.get("INTERRUPTS", 150))
ROOT = pathlib.Path(torch.__file__).parent
WATCHED = tuple(
    str(ROOT / name)
    for name in (
        "capture/frontend/api.py",
        "capture/frontend/convert_frame.py",
        "capture/thread_local_state.py",
        "capture/graph/graph_tracer.py",
        "capture/frontend/trace_context.py",
        "capture/frontend/trace_state.py",
        "capture/frontend/semantics.py",
        "eager/state.py",
        "eager/amp/autocast_mode.py",
        "eager/autograd/modes.py",
        "runtime/gc_pause.py",
        "runtime/locks.py",
        "runtime/compile_log.py",
        "inductor/driver.py",
        "inductor/pass_manager.py",
        "inductor/graph/joint_graph.py",
        "inductor/graph/retrace.py",
    )
)


class Cut(BaseException):
    """Comes from nowhere."""


def program(x, n):
    with torch.no_grad():
        for k in range(n):
            x = (x * k).sin() + x.cos()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x


def surrounded():
    """All that a later call depends on."""
    fields = [(type(local).__name__, thread_local_state.fields_of(local)) for local in thread_local_state.LOCALS]
    held = [(name, {k: v for k, v in found.items() if v not in (None, [], {})}) for name, found in fields]
    return (
        [each for each in held if each[1]],
        uncollected.blocks(),
        gc.isenabled(),
        locks.importing.held(),
        compile_log.compiling(),
    )


@pytest.fixture
def cut_at(monkeypatch):
    """cut_at(k): the next compilation raises before the k-th watched line that it comes to for the first time, or None: just
    tells how many there are."""
    miss, told = Compiled.miss, {}

    def watched(self, *args):
        seen, at = set(), told["at"]

        def local(frame, event, arg):
            if event == "line" and (frame.f_code, frame.f_lineno) not in seen:
                seen.add((frame.f_code, frame.f_lineno))
                if len(seen) == at:
                    sys.settrace(None)
                    raise Cut(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            return local

        sys.settrace(lambda frame, event, arg: local if frame.f_code.co_filename in WATCHED else None)
        try:
            return miss(self, *args)
        finally:
            sys.settrace(None)
            told["lines"] = len(seen)

    monkeypatch.setattr(Compiled, "miss", watched)

    def arm(k):
        told["at"] = k
        return told

    return arm


def test_an_error_before_any_line_leaves_nothing(cut_at):
    x = torch.linspace(0, 1, 4).reshape(2, 2)
    wanted, before = program(x, 2).tolist(), surrounded()
    told = cut_at(None)
    torch._dynamo.reset()
    assert torch.compile(program, backend="aot_eager")(x, 2).tolist() == wanted and surrounded() == before
    total = told["lines"]
    step = max(1, total // MOST)
    assert total > 300
    cuts = 0
    for k in range(1, total + 1, step):
        cut_at(k)
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="aot_eager")
        try:
            compiled(x, 2)
        except Cut as cut:
            cuts += 1
            assert surrounded() == before, str(cut)
            assert (torch.ones(2) + 1).tolist() == [2, 2], str(cut)
        else:
            assert surrounded() == before
    assert cuts > total // step // 2
    cut_at(None)
    assert torch.compile(program, backend="aot_eager")(x, 2).tolist() == wanted


def compile_once():
    torch._dynamo.reset()
    torch.compile(program, backend="aot_eager")(torch.ones(2, 2), 3)


def test_signals_at_random_moments(monkeypatch):
    """A handler that raises, many times while compilations run; not in this function itself, where nobody could catch all. In a
    finalizer nobody can: Python tells the hook for that, and pytest's would be cut off in its turn."""
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    before, stop, sending, presses = surrounded(), threading.Event(), [], 0
    main, here = threading.main_thread().ident, sys._getframe()

    def cut(signum, frame):
        if frame is not here:
            raise Cut()

    def press():
        while not stop.is_set():
            time.sleep(0.004)
            if sending:
                signal.pthread_kill(main, signal.SIGUSR1)

    kept, thread = signal.signal(signal.SIGUSR1, cut), threading.Thread(target=press, daemon=True)
    try:
        thread.start()
        sending.append(True)
        end = time.monotonic() + min(60, max(2, MOST / 75))
        while time.monotonic() < end:
            try:
                compile_once()
            except Cut:
                presses += 1
    finally:
        sending.clear()
        while True:
            try:
                stop.set()
                thread.join()
                break
            except Cut:
                pass
        signal.signal(signal.SIGUSR1, kept)
    assert presses > 5 and (torch.ones(2) + 1).tolist() == [2, 2]
    assert state.modes == () and not state.fake and gc.isenabled() and surrounded()[1:] == before[1:]
    assert torch.compile(program, backend="aot_eager")(torch.ones(2, 2), 2).shape == (2, 2)


def test_what_settles_is_interrupted_itself(monkeypatch):
    """`restore_state` is called again until it ends; the first error stays."""
    kept, calls = thread_local_state.restore_state, []

    def often(saved):
        calls.append(saved)
        if len(calls) < 4:
            raise Cut(len(calls))
        kept(saved)

    from flambeau.capture.state import native
    from flambeau.eager.tensor import Tensor
    import numpy as np

    def use(put_back):
        native.configure(tensor=Tensor, ndarray=np.ndarray, keep=thread_local_state.save_state, put_back=put_back)

    use(often)
    try:
        with pytest.raises(Cut, match="1"):
            native.whole(lambda: state.set(fake=True))
        with pytest.raises(ZeroDivisionError):
            calls.clear()
            native.whole(lambda: (state.set(fake=True), 1 / 0))
    finally:
        use(kept)
    assert len(calls) == 4 and not state.fake
