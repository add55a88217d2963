"""From C++ text to a shared object: find a compiler, build translation units in parallel, keep results by content hash.

The key is the text, the flags and the compiler's identity (path, size, time: no subprocess on a warm start).
"""

from __future__ import annotations

import hashlib
import functools
import os
import shutil
import subprocess
import tempfile
import warnings

from . import artefacts, counters, log
from .config import config
from .errors import FlambeauError

BASE_FLAGS = ("-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
              "-fno-trapping-math", "-fno-exceptions", "-fno-rtti", "-w")
LIBRARIES = ("-nodefaultlibs", "-lm", "-lc")
ISA_FLAGS = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", "-mprefer-vector-width=512"),
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "baseline": (),
}

_VECTORS_OF = {"amx": "avx512", "avx512bf16": "avx512"}     # these add products of bfloat16, which are the runtime's


class CompilerError(FlambeauError):
    """The C++ compiler refused generated code; the text carries its message and the kept source file."""


@functools.cache
def _which(path_variable: str) -> str | None:
    wanted = os.environ.get("CXX")
    for name in ([wanted] if wanted else ["g++", "clang++", "c++"]):
        found = shutil.which(name)
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
    wanted = _VECTORS_OF.get(config.isa, config.isa)
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
    found = artefacts.get(key, ".so")
    if found:
        counters.add("cache_hits")
        log.channel("cache")(f"found {found}")
    return found


def build(sources: list[str], flags: tuple[str, ...] = ()) -> str:
    """Compile C++ texts (one translation unit each, in parallel) into one shared object; returns its path.

    Raises CompilerError when there is no compiler or it refuses the code.
    """
    program = compiler()
    if program is None:
        raise CompilerError("no C++ compiler was found (looked for CXX, g++, clang++, c++); "
                            "install g++ to compile kernels")
    options = (*options_now(), *flags)
    key = hashlib.sha256("\0".join([*sources, *options, _identity(program)]).encode()).hexdigest()[:40]
    return find(key) or _compile(program, sources, options, key)


def _compile(program: str, sources: list[str], options: tuple[str, ...], key: str) -> str:
    """One process of several that want the same object compiles it, the others take what it stored."""
    with artefacts.claimed(key) as alone:
        found = None if alone else find(key)
        if found is None:
            try:
                found = _compile_here(program, sources, options, key)
            except OSError as error:
                raise CompilerError(f"generated code could not be compiled: {error}") from error
    return found


def _compile_here(program: str, sources: list[str], options: tuple[str, ...], key: str) -> str:
    with tempfile.TemporaryDirectory(prefix="flambeau-build-") as work:
        if len(sources) == 1:
            _run([[program, *options, _write(work, 0, sources[0]), *LIBRARIES, "-o", f"{work}/out.so"]], sources)
        else:
            compile_only = tuple(option for option in options if option != "-shared")
            _run([[program, *compile_only, "-c", _write(work, number, text), "-o", f"{work}/{number}.o"]
                  for number, text in enumerate(sources)], sources)
            objects = [f"{work}/{number}.o" for number in range(len(sources))]
            _run([[program, "-shared", *objects, *LIBRARIES, "-o", f"{work}/out.so"]], sources)
        with open(f"{work}/out.so", "rb") as file:
            stored = artefacts.put(key, ".so", file.read())
    log.channel("cache")(f"built {stored}")
    return stored


def _write(work: str, number: int, text: str) -> str:
    path = f"{work}/{number}.cpp"
    with open(path, "w") as file:
        file.write(text)
    return path


def _run(commands: list[list[str]], sources: list[str]) -> None:
    """Run compiler processes side by side; the first failure raises with the compiler's message and a kept source."""
    start = lambda command: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    running: list[subprocess.Popen] = []
    try:
        running += map(start, commands)
        outputs = [process.communicate()[0] for process in running]
    finally:
        for process in running:                                 # an interrupt leaves no compiler behind
            if process.poll() is None:
                process.kill()
                process.wait()
    for number, (process, output) in enumerate(zip(running, outputs)):
        if process.returncode < 0:
            raise CompilerError(f"{commands[number][0]} was killed by signal {-process.returncode}")
        if process.returncode:
            handle, kept = tempfile.mkstemp(prefix="flambeau-failed-", suffix=".cpp")
            with os.fdopen(handle, "w") as file:
                file.write(sources[min(number, len(sources) - 1)])
            raise CompilerError(f"{commands[number][0]} exited with {process.returncode} on generated code "
                                f"(kept as {kept}):\n" + "\n".join(output.splitlines()[:30]))
