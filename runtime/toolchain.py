"""From C++ text to a shared object: find a compiler, build translation units in parallel, keep results by content hash.

The key is the text, the flags and the compiler's identity (path, size, time: no subprocess on a warm start).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Callable

from . import artifact_store, counters, atomic_files, locks, log
from .config import config
from .errors import FlambeauError
from .processes import Process, which

BASE_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-w",
)
LIBRARIES = ("-nostdlib",)  # the C library is there: Python needs it as well
ISA_FLAGS = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", "-mprefer-vector-width=512"),
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "baseline": (),
}

_VECTORS_OF = {"amx": "avx512", "avx512bf16": "avx512"}  # these add products of bfloat16, which are the runtime's


class CompilerError(FlambeauError):
    """The C++ compiler refused generated code; the text carries its message and the kept source file."""


@functools.cache
def _which(path_variable: str) -> str | None:
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["g++", "clang++", "c++"]:
        found = which(name)
        if found:
            return found
    return None


def compiler() -> str | None:
    """The C++ compiler's path (CXX, g++, clang++, c++ in this order), or None."""
    return _which(os.environ.get("PATH", "") + "\0" + os.environ.get("CXX", ""))


@functools.cache
def _identity(path: str) -> str:
    status = os.stat(os.path.realpath(path))
    return f"{os.path.realpath(path)}:{status.st_size}:{status.st_mtime_ns}"


@functools.cache
def _detected_isa() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((set(line.split(":")[1].split()) for line in file if line.startswith("flags")), set())
    except OSError:
        flags = set()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"} <= flags:
        return "avx512"
    return "avx2" if {"avx2", "fma", "f16c"} <= flags else "baseline"


def isa() -> str:
    """The vector instructions to generate for: FLAMBEAU_ISA, else what the processor has."""
    detected, order = _detected_isa(), list(ISA_FLAGS)
    asked: str = config.isa
    wanted = _VECTORS_OF.get(asked, asked)
    if wanted == "auto" or order.index(wanted) >= order.index(detected):
        return detected if wanted == "auto" else wanted
    _tell_missing_isa(wanted, detected)
    return detected


@functools.cache
def _tell_missing_isa(wanted: str, detected: str) -> None:
    told = f"this processor cannot run {wanted} code (FLAMBEAU_ISA): {detected} is generated"
    warnings.warn(told, RuntimeWarning, stacklevel=4)


def options_now() -> tuple[str, ...]:
    """The compiler's options under the present settings."""
    return (f"-O{config.optimize}", *BASE_FLAGS, *ISA_FLAGS[isa()])


def identity() -> tuple[str, ...] | None:
    """What decides how texts are compiled: compiler and options; None without a compiler."""
    program = compiler()
    return None if program is None else (_identity(program), *options_now())


def find(key: str) -> str | None:
    """The path of a shared object that was built under this key and is still whole."""
    found = artifact_store.get(key, ".so")
    if found:
        counters.add("cache_hits")
        log.channel("cache")(f"found {found}")
    return found


def build(sources: list[str], flags: tuple[str, ...] = ()) -> str:
    """Compile C++ texts (one translation unit each, in parallel) into one shared object; returns its path.

    Raises CompilerError when there is no compiler or it refuses the code.
    """
    return start(sources, flags).path()


def start(sources: list[str], flags: tuple[str, ...] = ()) -> PendingBuild:
    """The same without waiting for the compiler. Raises CompilerError when there is none."""
    program = compiler()
    if program is None:
        raise CompilerError("no C++ compiler was found (looked for CXX, g++, clang++, c++); install g++ to compile kernels")
    options = (*options_now(), *flags)
    key = hashlib.sha256("\0".join([*sources, *options, _identity(program)]).encode()).hexdigest()[:40]
    return PendingBuild(program, sources, options, key)


_running: list[PendingBuild] = []  # those that hold a claim
_waiting: list[WaitingCompiler] = []  # at most one


def _forget() -> None:
    """A forked child leaves to its parent what that has begun."""
    _running.clear()
    _waiting.clear()


os.register_at_fork(after_in_child=_forget)


class WaitingCompiler:
    """A compiler that was started before its text is known: it reads its options and sets itself up meanwhile, a third
    of its time for a small text. What it is given ends with a mark, so that half a text is refused."""

    MARK = "FB_WHOLE_TEXT"

    def __init__(self, program: str, options: tuple[str, ...]):
        self.program, self.options, self.work = program, options, atomic_files.scratch("flambeau-build-")
        try:
            path = _write(self.work, 0, f'#include "/dev/stdin"\n#ifndef {self.MARK}\n#error "not the whole text"\n#endif\n')
            command = [program, *options, path, *LIBRARIES, "-o", f"{self.work}/out.so"]
            self.process = Process(command, f"{self.work}/0.said", waits=True)
        except OSError:
            atomic_files.remove(self.work)
            raise

    def tell(self, text: str) -> None:
        self.process.tell(f"{text}\n#define {self.MARK}\n")

    def end(self) -> None:
        self.process.end()
        atomic_files.remove(self.work)


def prepare() -> None:
    """Start a compiler for a text that is about to be known, where there is one and a processor for it."""
    program = compiler()
    if program is not None and not _waiting and (config.threads or os.cpu_count() or 1) > 1:
        with contextlib.suppress(OSError):
            _waiting.append(WaitingCompiler(program, options_now()))


def _prepared(program: str, options: tuple[str, ...]) -> WaitingCompiler | None:
    """The compiler that waits for a text, if it was started like this."""
    try:
        waiting = _waiting.pop()
    except IndexError:
        return None
    if (waiting.program, waiting.options) == (program, options):
        return waiting
    waiting.end()
    return None


def dismiss() -> None:
    """End a compiler that nobody has given a text."""
    with contextlib.suppress(IndexError):
        _waiting.pop().end()


def abandon() -> None:
    """End what this thread started and nobody will ask for."""
    for building in list(_running):
        if building.thread == threading.get_ident():
            building.cancel()


class PendingBuild:
    """A shared object that is in the store, or that compiler processes make while the caller goes on.

    One process of several that want the same object makes it. Nothing waits for another process before `path` is asked
    for, and then what this one holds is finished first: so two that hold what the other wants cannot wait for ever.
    """

    def __init__(self, program: str, sources: list[str], options: tuple[str, ...], key: str):
        self.program, self.sources, self.options, self.key = program, sources, options, key
        self.lock, self.thread = locks.fresh(), threading.get_ident()
        self.claim = self.error = None
        self.running: list[Process] = []
        self.work: str | None = None
        self.waited = False  # the compiler was started before its text was known
        self.found = find(key)
        if self.found is None:
            self.claim = artifact_store.claim(key)
            if self.claim is not None:
                with self.lock:  # other threads see it, and finish it, when it has begun
                    self._guarded(self._begin)

    def path(self) -> str:
        """Where it is. Raises CompilerError when the compiler refused the code."""
        if self.claim is None and self.found is None and self.error is None:
            for other in list(_running):
                other.finish()
            with artifact_store.claimed(self.key):
                self._guarded(self._begin)
                self._guarded(self._end)
                self.cancel()
        self.finish()
        if self.error is not None:
            raise self.error
        assert self.found is not None
        return self.found

    def finish(self) -> None:
        """Wait for the compiler; an error is kept for who asks for the path."""
        with self.lock:
            if self.claim is not None:
                self._guarded(self._end)
                self.cancel()

    def cancel(self) -> None:
        """Leave no compiler, no file and no claim behind."""
        for process in self.running:
            process.end()
        self.running = []
        if self.work is not None:
            atomic_files.remove(self.work)
            self.work = None
        if self in _running:
            _running.remove(self)
        if self.claim is not None:
            self.claim.release()
            self.claim = None

    def _guarded(self, step: Callable[[], None]) -> None:
        """Whatever interrupts a step takes the compiler's processes with it."""
        if self.error is not None:
            return
        try:
            step()
        except CompilerError as error:
            self.error = error
        except OSError as error:
            self.error = CompilerError(f"generated code could not be compiled: {error}")
        except BaseException:
            self.cancel()
            raise

    def _begin(self) -> None:
        self.found = find(self.key)  # made by another process while this one took the claim
        if self.found is not None:
            return
        if self.claim is not None:
            _running.append(self)
        waiting = _prepared(self.program, self.options) if len(self.sources) == 1 else None
        if waiting is not None:
            self.work, self.running, self.waited = waiting.work, [waiting.process], True
            waiting.tell(self.sources[0])
            return
        self.work = atomic_files.scratch("flambeau-build-")
        self._compile()

    def _compile(self) -> None:
        assert self.work is not None
        texts = [_write(self.work, number, text) for number, text in enumerate(self.sources)]
        if len(texts) == 1:
            commands = [[self.program, *self.options, *texts, *LIBRARIES, "-o", f"{self.work}/out.so"]]
        else:
            only = [option for option in self.options if option != "-shared"]
            commands = [[self.program, *only, "-c", text, "-o", f"{text}.o"] for text in texts]
        self.running = []
        for number, command in enumerate(commands):
            self.running.append(Process(command, f"{self.work}/{number}.said"))

    def _end(self) -> None:
        if self.found is not None:
            return
        if self.waited and self.running[0].wait() > 0:  # a compiler may not like to be given its text so
            self._compile()
        _check(self.running, self.sources)
        out = f"{self.work}/out.so"
        if len(self.sources) > 1:
            objects = [f"{self.work}/{number}.cpp.o" for number in range(len(self.sources))]
            self.running = [Process([self.program, "-shared", *objects, *LIBRARIES, "-o", out], f"{self.work}/link.said")]
            _check(self.running, self.sources)
        with open(out, "rb") as file:
            self.found = artifact_store.put(self.key, ".so", file.read())
        log.channel("cache")(f"built {self.found}")


def _write(work: str, number: int, text: str) -> str:
    path = f"{work}/{number}.cpp"
    with open(path, "w") as file:
        file.write(text)
    return path


def _check(running: list[Process], sources: list[str]) -> None:
    """Wait for compiler processes; the first failure raises with the compiler's message and a kept source."""
    codes = [process.wait() for process in running]
    for number, (process, code) in enumerate(zip(running, codes)):
        if code < 0:
            raise CompilerError(f"{process.command[0]} was killed by signal {-code}")
        if code:
            import tempfile

            handle, kept = tempfile.mkstemp(prefix="flambeau-failed-", suffix=".cpp")
            with os.fdopen(handle, "w") as file:
                file.write(sources[min(number, len(sources) - 1)])
            raise CompilerError(
                f"{process.command[0]} exited with {code} on generated code "
                f"(kept as {kept}):\n" + "\n".join(process.said().splitlines()[:30])
            )
