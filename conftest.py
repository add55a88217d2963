"""The root folder is the package itself: pytest would import it a second time, under the folder's name, as a package of tests."""

import pathlib

import pytest


def pytest_collect_directory(path, parent):
    return pytest.Dir.from_parent(parent, path=path) if path == pathlib.Path(__file__).parent else None
