"""Shared by the tests of the store: an empty one, used as users' processes use it, and how often the passes ran."""

import pytest

from flambeau.inductor import driver
from flambeau.runtime import artifact_store
from flambeau.runtime.config import config


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "cache"
    with config.patch(verify=False, cache_dir=str(folder), strict=True):
        artifact_store.forget()
        yield folder
    artifact_store.forget()


@pytest.fixture
def passes(monkeypatch):
    runs = []
    compile_graph = driver.compile_graph
    monkeypatch.setattr(driver, "compile_graph", lambda *args, **named: runs.append(args) or compile_graph(*args, **named))
    return runs
