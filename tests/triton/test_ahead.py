"""Kernels compiled ahead of time, without a GPU: cubins for sm_80 and sm_90, kept in the store; and the file that a person runs."""

import re
import subprocess
import sys

import pytest
import flambeau
from flambeau.inductor.triton import aot
from flambeau.inductor.triton.codegen import generate
from flambeau.runtime import artifact_store
from flambeau.runtime.config import config

from .graphs import GRAPHS

SAMPLE = ["softmax", "product", "moments"]


@pytest.fixture
def store(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    with config.patch(cache_dir=str(tmp_path / "cache"), strict=True):
        artifact_store.forget()
        yield
    artifact_store.forget()


def captured(programs, name, dynamic=None):
    f, shapes = GRAPHS[name]
    flambeau.compile(f, backend="triton", dynamic=dynamic)(*(flambeau.randn(*s) for s in shapes))
    return programs[-1]


@pytest.mark.parametrize("capability", [80, 90])
def test_cubins(programs, everything, store, capability):
    for name in GRAPHS if everything else SAMPLE:
        for dynamic in (None, True) if everything else (None,):
            made = aot.compile_program(captured(programs, name, dynamic), capability)
            for binary in made:
                assert binary.cubin[:4] == b"\x7fELF" and f".target sm_{capability}" in binary.ptx, name
                assert binary.facts["name"] == binary.launched.kernel and binary.facts["shared"] <= 99 * 1024
                pointers = sum(given.kind[0] == "*" for _, given in binary.launched.arguments)
                found = re.findall(r"\.param \.u64 \.ptr", binary.ptx)
                assert len(found) == pointers + 2, "all pointers, and two of triton's own"


def test_a_second_time_nothing_is_compiled(programs, store, monkeypatch):
    program = captured(programs, "softmax")
    first = aot.compile_program(program)
    monkeypatch.setattr(aot, "compiled", lambda *args: pytest.fail("compiled again"))
    with monkeypatch.context() as patch:
        patch.setattr(aot.triton_api, "load", lambda *args, **given: pytest.fail("triton is imported"))
        second = aot.compile_program(program)
    assert [b.cubin for b in first] == [b.cubin for b in second] and first[0].facts == second[0].facts
    assert [b.launched.arguments for b in first] == [b.launched.arguments for b in second]
    assert [(b.launched.grid, b.launched.options) for b in first] == [(b.launched.grid, b.launched.options) for b in second]
    with pytest.raises(pytest.fail.Exception):
        aot.compile_program(program, 80)  # another chip is another kernel


def test_divisibility_is_told(programs, store):
    program = captured(programs, "columns", dynamic=True)
    generated = generate(program)
    namespace = aot.triton_api.load(generated.text, interpreted=False)
    names = [s.name for s in program.symbols]
    for sizes, divisible in ((dict.fromkeys(names, 64), True), (dict.fromkeys(names, 63), False)):
        (launched, *_) = aot.launches(program, generated, namespace, sizes)
        told = {kind: div for _, kind, div in aot.signature(launched)}
        assert told["i32"] is divisible and told["*fp32"]


def test_the_file_runs_by_itself(programs, tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(generate(captured(programs, "product", dynamic=True)).text)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "in the interpreter" in done.stdout and "float32[" in done.stdout and "mean" in done.stdout


def test_halves_are_multiplied_by_tensor_cores(programs, store):
    a, b = flambeau.randn(128, 64, dtype=flambeau.bfloat16), flambeau.randn(64, 128, dtype=flambeau.bfloat16)
    flambeau.compile(lambda a, b: (a @ b).relu(), backend="triton")(a, b)
    texts = {capability: aot.compile_program(programs[-1], capability)[0].ptx for capability in (80, 90)}
    assert "mma.sync" in texts[80] and "wgmma" in texts[90]
