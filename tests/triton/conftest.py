"""Tests of the Triton backend: skipped where triton is not installed. TRITON_TESTS=all runs every record and graph, else a
fixed sample."""

import os

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
        metafunc.parametrize("record", names if EVERYTHING else names[::metafunc.module.SAMPLE])


@pytest.fixture
def programs(monkeypatch):
    """The loop programs that the backend was given while the test ran."""
    from flambeau.inductor.triton import interpret
    found, made = [], interpret.Interpreted.__init__

    def note(self, program, *args):
        found.append(program)
        made(self, program, *args)
    monkeypatch.setattr(interpret.Interpreted, "__init__", note)
    return found
