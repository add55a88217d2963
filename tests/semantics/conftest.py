"""Every test here states one measured behaviour and runs on every library that is installed: flambeau, and PyTorch as
the proof that the statement is right.
"""

import importlib

import pytest


@pytest.fixture(params=["flambeau", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def sub(lib):
    """`sub("nn.functional")`: a public module of the library."""
    return lambda path: importlib.import_module(f"{lib.__name__}.{path}")
