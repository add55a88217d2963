"""Compiler processes: one that waits for its text, and what becomes of it when its text, its parent or the caller fails."""

import contextlib
import ctypes
import os
import subprocess
import sys
import time

import pytest

from flambeau.runtime import artifact_store, processes, toolchain
from flambeau.runtime.config import config

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")

TEXT = 'extern "C" __attribute__((visibility("default"))) int answer() {{ return {}; }}\n'


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with config.patch(cache_dir=str(tmp_path / "cache"), threads=2):
        artifact_store.forget()
        yield tmp_path
        toolchain.dismiss()
    artifact_store.forget()
    assert not left(tmp_path) and not toolchain._running


def left(folder):
    """Folders of ours and files of the compiler's."""
    return [path for path in folder.iterdir() if path.name.startswith(("flambeau-build-", "cc"))]


def waiting():
    toolchain.prepare()
    (found,) = toolchain._waiting
    return found


def answer(number):
    return ctypes.CDLL(toolchain.build([TEXT.format(number)])).answer()


def ended(pid, seconds=60):
    """Whether a process is gone, or only waits to be asked for its status."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_compiler_that_waits_is_given_the_text():
    process = waiting().process
    assert answer(41) == 41 and process.code == 0 and not toolchain._waiting
    assert answer(42) == 42


def parts(pid, seconds=60):
    """The processes that a compiler has started: it has named their files by then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := [other for other in os.listdir("/proc") if other.isdigit() and parent(other) == pid]:
            return [int(part) for part in found]
    return []


def parent(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_one_that_nobody_needs_is_ended(store):
    process = waiting().process
    started = parts(process.pid)
    toolchain.dismiss()
    assert process.code == -9 and started and all(map(ended, started)) and not left(store)
    toolchain.dismiss()


def test_one_with_other_options_is_ended():
    process = waiting().process
    with config.patch(optimize=0):
        assert answer(43) == 43
    assert process.code == -9 and not toolchain._waiting


def test_several_texts_do_not_use_it():
    process = waiting().process
    path = toolchain.build([TEXT.format(1), TEXT.format(2).replace("answer", "other")])
    assert ctypes.CDLL(path).answer() == 1 and process.code is None and toolchain._waiting


def test_half_a_text_is_refused():
    found = waiting()
    found.process.tell(TEXT.format(44))
    assert found.process.wait() > 0 and "not the whole text" in found.process.said()


def test_a_compiler_that_cannot_be_given_a_text_so(store, monkeypatch):
    path = store / "cxx"
    path.write_text(
        f'#!/bin/sh\nfor a; do case $a in *.cpp) grep -q /dev/stdin $a && exit 3;; esac; done\nexec {toolchain.compiler()} "$@"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    process = waiting().process
    assert process.wait() == 3 and answer(45) == 45 and not toolchain._waiting


def test_refused_code_is_told_and_kept():
    for prepared in (False, True):
        if prepared:
            waiting()
        with pytest.raises(toolchain.CompilerError, match=r"exited with 1 .*kept as") as told:
            toolchain.build([f"int f( {{ // {prepared}"])
        kept = str(told.value).partition("kept as ")[2].partition(")")[0]
        with open(kept) as file:
            assert file.read().startswith("int f( {")
        os.unlink(kept)


def test_a_forked_child_keeps_no_compiler_waiting():
    """A child that lives on while the parent gives the text: the compiler must see the end of it."""
    process = waiting().process
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0 if not toolchain._waiting else 1)
    os.close(reading)
    try:
        building = toolchain.start([TEXT.format(46)])
        assert ended(process.pid)
        assert ctypes.CDLL(building.path()).answer() == 46
    finally:
        os.close(writing)
        assert os.waitpid(child, 0)[1] == 0


def test_a_killed_parent_leaves_no_compiler(store):
    code = (
        "import os\nfrom flambeau.runtime import toolchain\nfrom flambeau.runtime.config import config\n"
        "with config.patch(threads=2):\n    toolchain.prepare()\nprint(toolchain._waiting[0].process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -9 and ended(int(done.stdout))
    for folder in left(store):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


@pytest.mark.parametrize("prepared", [False, True])
def test_an_interrupt_while_the_compiler_runs(prepared, monkeypatch):
    """Ctrl-C takes the compiler's processes, folder and claim with it; the next one makes the object."""
    started = []
    spawn, wait = processes.Process.__init__, processes.Process.wait

    def interrupted(self, block=True):
        if not block:
            return wait(self, block)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes.Process, "__init__", lambda self, *a, **k: started.append(self) or spawn(self, *a, **k))
    if prepared:
        waiting()
    with monkeypatch.context() as patch:
        patch.setattr(processes.Process, "wait", interrupted)
        patch.setattr(processes.Process, "end", lambda self: (self._close(), os.killpg(self.pid, 9), wait(self)))
        with pytest.raises(KeyboardInterrupt):
            toolchain.build([TEXT.format(47)])
    assert started and all(ended(process.pid) for process in started) and not toolchain._running
    assert answer(47) == 47
