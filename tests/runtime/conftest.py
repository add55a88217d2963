"""Shared by the tests of the runtime: each instruction set that the processor has."""

import pytest

from flambeau.runtime import _native, native


@pytest.fixture(params=native.isas())
def isa(request):
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa("auto")
