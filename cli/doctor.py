"""What this machine and installation can do, what is missing, and how to get it.

Exit status 1 when compiled functions would be slow or run plain: no C++ compiler that works, or a Python whose frames
cannot be captured.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from collections.abc import Iterator
from typing import Any

from .. import __version__
from ..capture import state
from ..runtime import artifact_store, native, cache_eviction, toolchain
from ..runtime.config import FIELDS, config
from ..capture.report.format import count
from .result import DONE, FOUND, Answer, table

HELP = "compiler, instructions, threads, Triton, CUDA, versions: what is there, what is missing"
EXAMPLES = """
    python -m flambeau doctor
    python -m flambeau doctor --json
"""
DISTRIBUTIONS = {"cupy": ("cupy", "cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x")}  # where it is not the package's name
OPTIONAL = {
    "rich": "tables in colour on the terminal",
    "safetensors": "files in the safetensors format",
    "scipy": "Bessel and Airy functions, orthogonal polynomials, LDL factorisations",
    "tensorboard": "event files of utils.tensorboard.SummaryWriter",
}
NO_COMPILER = "compiled functions run in the loop interpreter, slower than eager"


def add(parser: Any) -> None:
    """No arguments of its own."""


def run(options: Any) -> Answer:
    facts = collect_facts()
    broken = any(problem["serious"] for problem in facts["missing"])
    return Answer(facts, text(facts), FOUND if broken else DONE)


def collect_facts() -> dict[str, Any]:
    """Everything, as plain values."""
    facts = {
        "flambeau": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "numpy": installed("numpy"),
        "sympy": installed("sympy"),
        "ml_dtypes": installed("ml_dtypes"),
        "bytecode": installed("bytecode"),
        "captures": state.native is not None,
        "compiler": compiler(),
        "instructions": {"generated": toolchain.isa(), "runtime": native.chosen_instructions()},
        "threads": {"used": native.get_num_threads(), "cores": len(os.sched_getaffinity(0))},
        "cache": cache(),
        "triton": installed("triton"),
        "cupy": installed("cupy"),
        "cuda": cuda(),
        "optional": {name: installed(name) for name in OPTIONAL},
        "settings": settings(),
    }
    return facts | {"missing": list(missing(facts))}


def installed(package: str) -> str | None:
    """The version of an installed package that can be imported, or None."""
    for name in DISTRIBUTIONS.get(package, (package,)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
            return importlib.metadata.version(name) if importlib.util.find_spec(package) else None
    return None


def compiler() -> dict[str, Any] | None:
    """Path, version and what is wrong with it (None: a small function was compiled and linked)."""
    path = toolchain.compiler()
    if path is None:
        return None
    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30).stdout.partition("\n")[0]
    except (OSError, subprocess.SubprocessError) as error:
        return {"path": path, "version": None, "problem": f"it does not start: {error}"}
    try:
        toolchain.build(['extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'])
    except toolchain.CompilerError as error:
        return {"path": path, "version": told, "problem": str(error)}
    return {"path": path, "version": told, "problem": None}


def cache() -> dict[str, Any]:
    folder = artifact_store.folder()
    files = cache_eviction.files(folder)
    return {
        "folder": folder,
        "configured": config.cache_dir,
        "files": len(files),
        "bytes": sum(size for _, size, _ in files),
        "limit_megabytes": config.cache_megabytes,
    }


def cuda() -> dict[str, Any]:
    """What the driver says of devices; `problem` where there is no driver or no device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"devices": [], "problem": "libcuda.so.1 is not on this machine"}
    count = ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return {"devices": [], "problem": f"the driver finds no device (error {status})"}
    return {
        "devices": [device_name(driver, k) for k in range(count.value)],
        "problem": None if count.value else "the driver finds no device",
    }


def device_name(driver: Any, number: int) -> str:
    name, device = ctypes.create_string_buffer(256), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(name, len(name), device)
    return name.value.decode(errors="replace")


def settings() -> dict[str, str]:
    """The environment variables that change a setting."""
    names = [field.env for field in FIELDS.values() if field.env] + ["CXX"]
    return {name: os.environ[name] for name in names if name in os.environ}


def missing(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is not there: what follows from that, and how to get it."""
    if not facts["captures"]:
        yield lack(
            "capture",
            f"Python {facts['python']} has no frame hook here: compiled functions run eagerly",
            "use Python 3.11, 3.12 or 3.13, and build the extensions for it (pip install .)",
            True,
        )
    if facts["compiler"] is None:
        yield lack(
            "C++ compiler",
            f"no compiler was found (CXX, g++, clang++, c++): {NO_COMPILER}",
            "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), or set CXX",
            True,
        )
    elif facts["compiler"]["problem"]:
        broken = facts["compiler"]
        yield lack(
            "C++ compiler",
            f"{broken['path']} does not work: {NO_COMPILER}\n{broken['problem']}",
            "install g++ with its assembler and linker (build-essential), or set CXX to another",
            True,
        )
    if facts["cache"]["folder"] != facts["cache"]["configured"]:
        yield lack(
            "cache",
            f"{facts['cache']['configured']} cannot be used: compiled code is lost when the process ends",
            "chmod 700 a folder of your own, or set FLAMBEAU_CACHE_DIR to one",
        )
    if facts["triton"] is None:
        yield lack("Triton", "Triton is not installed: no kernels are generated for GPUs", "pip install triton")
    if facts["cuda"]["problem"]:
        yield lack(
            "GPU",
            f"{facts['cuda']['problem']}: everything runs on the processor",
            "a machine with an NVIDIA GPU and its driver (nvidia-smi must list it)",
        )
    elif facts["cupy"] is None:
        yield lack(
            "cupy", "cupy is not installed: no tensors on the GPU", "pip install cupy-cuda12x, or cupy-cuda13x for CUDA 13"
        )
    for name, use in OPTIONAL.items():
        if facts["optional"][name] is None:
            yield lack(name, f"{name} is not installed: no {use}", f"pip install {name}")


def lack(what: str, why: str, fix: str, serious: bool = False) -> dict[str, Any]:
    return {"what": what, "why": why, "fix": fix, "serious": serious}


def text(facts: dict[str, Any]) -> str:
    lines = [table(rows(facts))]
    lines += [f"\n{name} = {value}" for name, value in facts["settings"].items()]
    lines.append("\nmissing:" if facts["missing"] else "\nnothing is missing")
    for row in facts["missing"]:
        lines.append(f"  {row['what']}: {row['why']}\n      to get it: {row['fix']}")
    return "\n".join(lines)


def rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    found, isa, threads, kept = facts["compiler"], facts["instructions"], facts["threads"], facts["cache"]
    devices = ", ".join(facts["cuda"]["devices"] + [f"cupy {facts['cupy']}"] * (facts["cupy"] is not None))
    limit = f" of {kept['limit_megabytes']}" if kept["limit_megabytes"] else ""
    return [
        ("flambeau", f"{facts['flambeau']} on Python {facts['python']}, {facts['platform']}"),
        (
            "packages",
            f"numpy {facts['numpy']}, ml_dtypes {facts['ml_dtypes']}, bytecode {facts['bytecode']}, "
            f"sympy {facts['sympy']}" + "".join(f", {name} {found}" for name, found in facts["optional"].items() if found),
        ),
        ("capture", "yes" if facts["captures"] else "no: compiled functions run eagerly"),
        (
            "C++ compiler",
            "none"
            if found is None
            else f"{found['path']}: {found['version']}" + (", which does not work" if found["problem"] else ", works"),
        ),
        ("instructions", f"{isa['generated']} in generated code, {isa['runtime']} in the runtime's kernels"),
        ("threads", f"{threads['used']} on {count(threads['cores'], 'core')}"),
        ("cache", f"{kept['folder']}: {count(kept['files'], 'file')}, {kept['bytes'] / 1e6:.1f}{limit} MB"),
        ("Triton", facts["triton"] or "none"),
        ("CUDA", devices or "none"),
    ]
