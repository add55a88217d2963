"""The store under processes that share it, die, run out of room, or find something else than they left."""

import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flambeau as torch
from flambeau.inductor.runtime import graph_cache
from flambeau.runtime import source_hash, toolchain
from flambeau.runtime.config import config

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")

PROGRAM = textwrap.dedent("""
    import flambeau as torch, flambeau.nn as nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    x = torch.linspace(-1, 1, 30).reshape(5, 6)
    step = torch.compile(lambda x: model(x).square().sum())
    loss = step(x)
    loss.backward()
    assert abs(loss.item() - model(x).square().sum().item()) < 1e-4
    print("RESULT", round(loss.item(), 5), round(model[0].weight.grad.sum().item(), 4))
""")
OBJECTS = 2  # shared objects of the program: forward and backward


def start(code, folder, **environment):
    given = {k: v for k, v in os.environ.items() if not k.startswith("FLAMBEAU_")}
    given |= {"FLAMBEAU_CACHE_DIR": str(folder), "FLAMBEAU_LOGS": "cache"} | environment
    return subprocess.Popen(
        [sys.executable, "-W", "always::RuntimeWarning", "-c", code],
        env=given,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(process):
    """(what it said, its result)"""
    said = process.communicate()[0]
    assert process.returncode == 0, said
    return said, [line for line in said.splitlines() if line.startswith("RESULT")]


def run(code, folder, **environment):
    return finish(start(code, folder, **environment))


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """(a store with the program in it, its result)"""
    folder = tmp_path_factory.mktemp("store") / "cache"
    said, result = run(PROGRAM, folder)
    assert said.count("built") == OBJECTS and said.count("stored") == 1 and len(result) == 1
    return folder, result


def test_a_second_process_compiles_nothing(full):
    folder, result = full
    said, found = run(PROGRAM, folder, CXX=toolchain.compiler())
    assert found == result and said.count("found") == OBJECTS and "built" not in said and "stored" not in said


def test_a_second_process_imports_no_passes(full):
    folder, result = full
    code = (
        PROGRAM + "import sys; assert 'flambeau.inductor.runtime.graph_cache' in sys.modules\n"
        "assert not {'driver', 'targets', 'loops.lower', 'schedule.scheduler', 'cpp.codegen', 'graph.functionalize'} & "
        "{name.removeprefix('flambeau.inductor.') for name in sys.modules}\n"
    )
    # the line of the program that is compiled is the same, and so is its number
    assert run(code, folder)[1] == result


def test_eight_processes_share_one_cold_store(tmp_path, full):
    folder = tmp_path / "cache"
    all_of_them = [finish(process) for process in [start(PROGRAM, folder) for _ in range(8)]]
    assert {tuple(result) for _, result in all_of_them} == {tuple(full[1])}
    assert sum(said.count("built") for said, _ in all_of_them) == OBJECTS  # the others waited for the first
    assert "RuntimeWarning" not in "".join(said for said, _ in all_of_them)
    said, _ = run(PROGRAM, folder)
    assert "built" not in said and said.count("found") == OBJECTS
    assert not list(folder.rglob(".part-*"))


def shim(tmp_path, text):
    """A compiler that does something before the real one runs."""
    path = tmp_path / "cxx"
    path.write_text(f'#!/bin/sh\n{text}\nexec {toolchain.compiler()} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_a_killed_compiler(tmp_path, full):
    compiler = shim(tmp_path, f"if mkdir {tmp_path}/died 2>/dev/null; then kill -9 $$; fi")
    folder = tmp_path / "cache"
    said, result = run(PROGRAM, folder, CXX=compiler)
    assert "was killed by signal 9" in said and said.count("RuntimeWarning") == 1 and result == full[1]
    said, result = run(PROGRAM, folder, CXX=compiler)
    assert "RuntimeWarning" not in said and said.count("built") == 1 and result == full[1]
    assert "built" not in run(PROGRAM, folder, CXX=compiler)[0]


def test_a_killed_process(tmp_path, full):
    """Killed while the compiler runs for it: the next one does not wait, and finds nothing half-made."""
    compiler = shim(tmp_path, f"if mkdir {tmp_path}/died 2>/dev/null; then kill -9 $PPID; exit 1; fi")
    folder = tmp_path / "cache"
    dying = start(PROGRAM, folder, CXX=compiler)
    dying.communicate()
    assert dying.returncode == -9
    said, result = run(PROGRAM, folder, CXX=compiler)
    assert said.count("built") == OBJECTS and result == full[1]


def test_files_may_not_grow(tmp_path, full):
    """A limit on the size of files stands for a full disk: compiler and linker die, results stay right."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); "
    folder = tmp_path / "cache"
    said, result = run(limit + PROGRAM.lstrip(), folder)
    assert "RuntimeWarning" in said and "built" not in said and result == full[1]
    said, result = run(PROGRAM, folder)
    assert said.count("built") == OBJECTS and result == full[1] and "RuntimeWarning" not in said


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_full_disk(tmp_path, full, everywhere):
    """Nothing can be written: to the store, or anywhere."""
    told = "    if everywhere or path.startswith(folder): raise OSError(28, 'No space left on device')\n"
    code = (
        "import os\nfrom flambeau.runtime import artifact_store\nkept, folder = artifact_store.write_atomically, "
        f"os.environ['FLAMBEAU_CACHE_DIR']\neverywhere = {everywhere}\n"
        f"def write_atomically(path, data):\n{told}    return kept(path, data)\n"
        "artifact_store.write_atomically = write_atomically\n" + PROGRAM
    )
    folder = tmp_path / "cache"
    said, result = run(code, folder)
    assert result == full[1] and "No space left on device" in said
    assert not [path for path in folder.rglob("*") if path.suffix in (".so", graph_cache.SUFFIX)]
    if everywhere:
        said, result = run(PROGRAM, folder)
        assert said.count("built") == OBJECTS and result == full[1]


def test_truncated_artefacts(tmp_path, full):
    folder = tmp_path / "cache"
    shutil.copytree(full[0], folder)
    for path in [path for path in folder.rglob("*") if path.suffix in (".so", graph_cache.SUFFIX)]:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
    said, result = run(PROGRAM, folder)
    assert result == full[1] and said.count("refused") == OBJECTS + 1 and "RuntimeWarning" not in said
    said, result = run(PROGRAM, folder)
    assert result == full[1] and "refused" not in said and "built" not in said


def test_a_store_that_others_may_write_to_is_not_read(tmp_path, full):
    folder = tmp_path / "cache"
    shutil.copytree(full[0], folder)
    folder.chmod(0o770)
    said, result = run(PROGRAM, folder)
    assert "others have access to it (mode 770)" in said and "cache: found" not in said and result == full[1]
    folder.chmod(0o700)
    assert "built" not in run(PROGRAM, folder)[0]


def test_a_read_only_store_is_read(full):
    """What is there is found, what is not goes to a temporary folder."""
    folder, result = full
    before = sorted(folder.rglob("*"))
    code = (
        "from flambeau.runtime import artifact_store; "  # the program's lines keep their numbers
        "artifact_store._write_refusal = lambda folder: 'it cannot be written to: Read-only file system'"
        + PROGRAM
        + "assert torch.compile(lambda x: x - 5)(torch.ones(2)).tolist() == [-4.0, -4.0]\n"
    )
    said, found = run(code, folder)
    assert found == result and said.count("RuntimeWarning") == 1 and "Read-only file system" in said
    assert said.count("cache: found") == OBJECTS and said.count("built") == 1 and sorted(folder.rglob("*")) == before


# -- what must not be found


def value_of(f):
    return torch.compile(f)(torch.tensor([1.0, 2.0])).tolist()


def test_another_version_misses(store, passes, monkeypatch):
    f = lambda x: x * 3
    assert value_of(f) == value_of(f) == [3.0, 6.0] and len(passes) == 1
    monkeypatch.setattr(source_hash, "fingerprint", lambda: "another version")
    assert value_of(f) == [3.0, 6.0] and len(passes) == 2


def test_every_source_file_counts(tmp_path, monkeypatch):
    for folder in source_hash.FOLDERS:
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "inner" / "a.py").write_text("x = 1\n")
    (tmp_path / "runtime" / "_native.so").write_bytes(b"x")
    monkeypatch.setattr(source_hash, "ROOT", str(tmp_path))
    seen = {source_hash.fingerprint.__wrapped__()}
    for folder in source_hash.FOLDERS:
        times = os.stat(tmp_path / folder / "inner" / "a.py")
        (tmp_path / folder / "inner" / "a.py").write_text("x = 2\n")
        os.utime(tmp_path / folder / "inner" / "a.py", ns=(times.st_atime_ns, times.st_mtime_ns))
        seen.add(source_hash.fingerprint.__wrapped__())
    (tmp_path / "runtime" / "_native.so").write_bytes(b"xy")
    seen.add(source_hash.fingerprint.__wrapped__())
    assert len(seen) == len(source_hash.FOLDERS) + 2


def test_another_compiler_misses(store, passes, monkeypatch):
    f = lambda x: x * 3
    value_of(f)
    monkeypatch.setattr(toolchain, "_identity", lambda path: "another compiler")
    assert value_of(f) == [3.0, 6.0] and len(passes) == 2


def test_another_instruction_set_misses(store, passes):
    f, seen = lambda x: x * 3, set()
    for isa in ("baseline", "auto", "baseline", "auto"):
        with config.patch(isa=isa):
            assert value_of(f) == [3.0, 6.0]
            seen.add(toolchain.isa())
        assert len(passes) == len(seen)


def test_another_constant_of_a_closure_misses(store, passes):
    def scaled(by):
        return lambda x: x * by

    assert value_of(scaled(3)) == [3.0, 6.0] and value_of(scaled(4)) == [4.0, 8.0] and len(passes) == 2
    assert value_of(scaled(3)) == [3.0, 6.0] and value_of(scaled(3.0)) == [3.0, 6.0]
    assert value_of(scaled(-0.0))[0].hex() == "-0x0.0p+0" and value_of(scaled(0.0))[0].hex() == "0x0.0p+0"


def test_an_edited_helper_misses(store, passes, tmp_path):
    """Two versions of one file, of one length and time, inlined into a function that stays as it is."""
    path = tmp_path / "helper.py"

    def helper(text):
        path.write_text(text)
        os.utime(path, (1, 1))
        space = {}
        exec(compile(path.read_text(), str(path), "exec"), space)
        return lambda x: space["shift"](x) * 2

    before, after = "def shift(x): return x + 1\n", "def shift(x): return x + 9\n"
    assert value_of(helper(before)) == [4.0, 6.0] and value_of(helper(after)) == [20.0, 22.0]
    assert value_of(helper(before)) == [4.0, 6.0] and len(passes) == 2


def test_another_default_of_a_helper_misses(store, passes):
    def helper(x, k=2):
        return x + k

    f = lambda x: helper(x)
    assert value_of(f) == [3.0, 4.0]
    helper.__defaults__ = (5,)
    assert value_of(f) == [6.0, 7.0] and len(passes) == 2


def test_values_of_tensors_do_not_count(store, passes):
    """A constant tensor is an input: another one of its geometry takes the same code, and its own values."""

    def shifted(by):
        table = torch.tensor(by)
        return lambda x: x + table

    assert value_of(shifted([1.0, 2.0])) == [2.0, 4.0] and value_of(shifted([5.0, 7.0])) == [6.0, 9.0]
    assert len(passes) == 1
    assert np.array_equal(value_of(shifted([[1.0], [2.0]])), [[2.0, 3.0], [3.0, 4.0]]) and len(passes) == 2
