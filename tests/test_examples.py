"""The examples in their short form: each trains for a few steps and holds what it claims.

They run in one process each per group, so that imports are paid once; what an example prints is shown when it fails.
"""

import importlib
import pathlib
import sys

import pytest

from flambeau.runtime import toolchain
from flambeau.runtime.config import config

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
ON_DIGITS = ("resnet", "vit", "lstm", "vae", "custom_backend", "export_kernels")
OTHERS = ("dynamic_shapes", "custom_op", "device_backend", "override", "gains")
ELSEWHERE = {"gpt"}  # tests/test_demo.py
pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    with config.patch(optimize=0):  # quick to compile; what users get is timed and tested elsewhere
        yield lambda name: importlib.import_module(name)
    for name in ("common", "gpt", *ON_DIGITS, *OTHERS):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ON_DIGITS + OTHERS)
def test_an_example_holds_what_it_claims(name, example):
    if name in ON_DIGITS:
        pytest.importorskip("sklearn")
    if name == "gains":
        pytest.importorskip("tqdm")  # of the GPT that it trains
    claims = example(name).main(["--short"])
    assert len(claims) >= 1 and all(holds for _, _, holds in claims)


def test_every_example_is_tested():
    found = {path.stem for path in FOLDER.glob("*.py")} - {"common"}
    assert found == {*ON_DIGITS, *OTHERS, *ELSEWHERE}


def test_a_claim_that_fails_ends_the_program(example):
    with pytest.raises(SystemExit) as ended:
        example("common").check([("holds", 1, True), ("does not", 2, False)])
    assert ended.value.code == 1
