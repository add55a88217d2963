"""Tests of the Triton backend: skipped where triton is not installed. TRITON_TESTS=all runs every record and graph, else a
fixed sample. `stub`: a driver that records."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

try:
    import triton  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_*.py"]
EVERYTHING = os.environ.get("TRITON_TESTS") == "all"


@pytest.fixture
def everything():
    """Whether all is run, not the sample."""
    return EVERYTHING


def pytest_generate_tests(metafunc):
    """Tests of records take `record`: one name each, a sample of them unless all are asked for."""
    if "record" in metafunc.fixturenames:
        names = list(metafunc.module.RECORDS)
        metafunc.parametrize("record", names if EVERYTHING else names[:: metafunc.module.SAMPLE])


@pytest.fixture
def programs(monkeypatch):
    """The loop programs that the backend was given while the test ran."""
    from flambeau.inductor.triton import interpret

    found, made = [], interpret.InterpretedGraph.__init__

    def note(self, program, *args):
        found.append(program)
        made(self, program, *args)

    monkeypatch.setattr(interpret.InterpretedGraph, "__init__", note)
    return found


class Seen(ctypes.Structure):
    """A launch that the recording driver was asked for."""

    _fields_ = [
        ("function", ctypes.c_uint64),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint),
        ("shared", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("cluster", ctypes.c_uint),
        ("stream", ctypes.c_uint64),
        ("parameters", ctypes.c_uint64 * 24),
    ]


@pytest.fixture(scope="session")
def built_stub(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("stub") / "libcuda.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", str(Path(__file__).with_name("stub_cuda.cpp")), "-o", str(path)], check=True
    )
    return path


@pytest.fixture
def stub(built_stub, tmp_path):
    """The recording driver; a file of its own for each test has counters of its own."""
    path = shutil.copy(built_stub, tmp_path / "libcuda.so.1")
    library = ctypes.CDLL(str(path))
    library.path = str(path)
    library.seen = lambda: list((Seen * 64).in_dll(library, "seen")[: ctypes.c_int.in_dll(library, "seen_count").value])
    library.set = lambda name, value: setattr(ctypes.c_int.in_dll(library, name), "value", value)
    return library
