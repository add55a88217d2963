"""`python -m flambeau torch`: every process of an environment has torch, pip knows it, and nothing is left behind."""

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest

PROGRAM = """
import importlib.metadata, multiprocessing, subprocess, sys
import torch, torch.nn.functional as F
from torch import nn

def work(x):
    return torch.__name__, x.sum().item()

if __name__ == "__main__":
    print(torch.__name__, torch.__flambeau__.__name__, F.relu(torch.tensor([-1.0, 2.0])).tolist(), sys.argv[1:])
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, *pool.apply(work, (torch.ones(3),)))
    print(subprocess.run([sys.executable, "-c", "import torch; print(torch.ones(2) + 1)"], capture_output=True, text=True).stdout.strip())
"""


class Environment:
    """An environment of its own that has what this one has."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
        self.python = str(folder / "env" / "bin" / "python")
        (self.site,) = (folder / "env" / "lib").glob("python3*/site-packages")
        (self.site / "beside.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")

    def run(self, *arguments, **options):
        return subprocess.run([self.python, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, **options)

    def torch(self, *arguments):
        return self.run("-m", "flambeau", "torch", *arguments)

    def files(self):
        root = self.folder / "env"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*"))

    def pip(self, *arguments):
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def environment(made):
    made.torch("--remove")
    yield made
    made.torch("--remove")


def test_every_process_has_torch(environment):
    before = environment.files()
    assert "No module named 'torch'" in environment.run("-c", "import torch").stderr
    assert environment.torch("--status").returncode == 1
    done = environment.torch("--install")
    assert done.returncode == 0 and "torch is flambeau 2.13.0+flambeau in " in done.stdout, done.stderr
    (environment.folder / "train.py").write_text(PROGRAM)
    done = environment.run("train.py", "--lr", 1)
    assert done.stdout.splitlines() == [
        "torch flambeau [0.0, 2.0] ['--lr', '1']",
        "fork torch 3.0",
        "spawn torch 3.0",
        "forkserver torch 3.0",
        "tensor([2., 2.])",
    ], done.stderr
    (environment.folder / "test_one.py").write_text(
        "from torch.nn import Linear\ndef test_it():\n    assert Linear(2, 3).weight.shape == (3, 2)\n"
    )
    done = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
    told = json.loads(environment.torch("--status", "--json").stdout)
    kept = str(environment.folder / "env" / "pip.conf")
    assert told == {"torch": "flambeau", "version": "2.13.0+flambeau", "place": str(environment.site), "kept": kept}
    assert environment.torch("--remove").returncode == 0 and environment.files() == before


def test_pip_knows_it(environment):
    """It satisfies what packages ask for, is listed and checked, and pip can take it out."""
    before = environment.files()
    environment.torch("--install")
    shown = environment.pip("show", "--files", "torch")
    assert (
        "Version: 2.13.0+flambeau" in shown.stdout
        and "Requires: flambeau" in shown.stdout
        and "torch/__init__.py" in shown.stdout
    ), shown
    asked = "import importlib.metadata as m; print(m.version('torch'), m.distribution('torch').files[0])"
    assert environment.run("-c", asked).stdout == "2.13.0+flambeau torch/__init__.py\n"
    wanted = environment.site / "wanting-1.0.dist-info"
    wanted.mkdir()
    (wanted / "METADATA").write_text("Metadata-Version: 2.1\nName: wanting\nVersion: 1.0\nRequires-Dist: torch (==2.13.0)\n")
    try:
        checked = environment.pip("check")
        assert "wanting" not in checked.stdout and "torch 2.13" not in checked.stdout, checked.stdout
        environment.torch("--remove")
        assert "wanting 1.0 requires torch" in environment.pip("check").stdout
    finally:
        (wanted / "METADATA").unlink()
        wanted.rmdir()
    environment.torch("--install")
    environment.run("-c", "import torch")  # (leaves bytecode)
    gone = environment.pip("uninstall", "--yes", "torch")
    assert gone.returncode == 0 and environment.files() == before, gone.stderr


def wheel(folder, name, version, *requires):
    """A package with nothing in it."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}_{version.replace('.', '_')}.py", "")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_pip_takes_the_release_that_fits(environment, tmp_path):
    """A newer release wants a newer PyTorch: the one before it is taken, and nothing but this torch, by nobody."""
    before = environment.files()
    wheel(tmp_path, "torch", "2.14.1")
    wheel(tmp_path, "sight", "0.28.0", "torch==2.13.0")
    wheel(tmp_path, "sight", "0.29.0", "torch>=2.14.0")
    get = ("install", "--no-index", "--find-links", str(tmp_path))
    environment.torch("--install")
    try:
        for wanted in (["sight"], ["--upgrade", "sight", "torch"]):
            done = environment.pip(*get, *wanted)
            assert done.returncode == 0, done.stderr
            listed = environment.pip("list").stdout.split()
            assert "2.13.0+flambeau" in listed and "0.28.0" in listed and "2.14.1" not in listed
        done = environment.pip(*get, "sight==0.29.0")
        assert done.returncode == 1 and re.search(r"\(constraint\) torch\S*==2\.13\.0\+flambeau", done.stdout), done.stdout
    finally:
        environment.pip("uninstall", "--yes", "sight")
    assert environment.pip("uninstall", "--yes", "torch").returncode == 0 and environment.files() == before


def test_other_constraints_of_pip_stay(environment, tmp_path):
    """Those of the machine or the user are kept beside ours; settings of this environment are not touched, and it says so."""
    before = environment.files()
    constraints, user = tmp_path / "those.txt", tmp_path / "pip.conf"
    constraints.write_text("sight<0.28\n")
    user.write_text(f"[global]\nconstraint = {constraints}\n")
    settings = {**os.environ, "PIP_CONFIG_FILE": str(user)}
    conf = environment.folder / "env" / "pip.conf"
    assert environment.run("-m", "flambeau", "torch", "--install", env=settings).returncode == 0
    kept, ours = conf.read_text().split("=")[1].split()
    assert kept == str(constraints) and ours.startswith("file:///") and ours.endswith("/constraints.txt")
    assert environment.run("-m", "flambeau", "torch", "--install", env=settings).returncode == 0
    assert conf.read_text().split("=")[1].split() == [kept, ours]
    assert environment.torch("--remove").returncode == 0 and environment.files() == before
    conf.write_text("[install]\nno-color = true\n")
    try:
        for option in ("--install", "--status"):
            assert "add the line torch==2.13.0+flambeau to its constraints" in environment.torch(option).stdout
        assert environment.torch("--remove").returncode == 0 and conf.read_text() == "[install]\nno-color = true\n"
    finally:
        conf.unlink()
    assert environment.files() == before


@pytest.mark.parametrize("record", [True, False])
def test_pytorch_is_left_alone(environment, record):
    before = environment.files()
    package, info = environment.site / "torch", environment.site / "torch-2.4.1.dist-info"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '2.4.1'\n")
    if record:
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n")
    there = environment.files()
    try:
        for option in ("--install", "--remove"):
            done = environment.torch(option)
            assert (
                done.returncode == 2 and "this environment has PyTorch" in done.stderr and str(environment.site) in done.stderr
            ), done
            assert environment.files() == there
        status = environment.torch("--status")
        assert status.returncode == 0 and status.stdout.startswith("torch is PyTorch" + " 2.4.1" * record)
    finally:
        (package / "__init__.py").unlink()
        package.rmdir()
        if record:
            (info / "METADATA").unlink()
            info.rmdir()
    assert environment.files() == before


def test_twice_is_once_and_another_version_is_replaced(environment):
    environment.torch("--install")
    there = environment.files()
    assert environment.torch("--install").returncode == 0 and environment.files() == there
    os.rename(environment.site / "torch-2.13.0+flambeau.dist-info", environment.site / "torch-2.12.0+flambeau.dist-info")
    meta = environment.site / "torch-2.12.0+flambeau.dist-info" / "METADATA"
    meta.write_text(meta.read_text().replace("2.13.0", "2.12.0"))
    assert environment.torch("--install").returncode == 0 and environment.files() == there


def test_a_place_that_cannot_be_written(environment, tmp_path):
    """A read-only folder, for whoever is not root: here the folder is a file."""
    from flambeau.cli import result, torch

    (tmp_path / "site").write_text("")
    with pytest.raises(result.Wrong, match="cannot be written .*use an environment of your own"):
        torch.install(str(tmp_path / "site"))
    assert (tmp_path / "site").read_text() == ""


def test_without_flambeau_the_error_says_what_to_do(tmp_path):
    from flambeau.cli import torch

    torch.install(str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(tmp_path)!r}); import torch"],
        capture_output=True,
        text=True,
    )
    assert "flambeau is not installed in it: install flambeau, or remove" in done.stderr
    torch.remove(str(tmp_path))
    assert not list(pathlib.Path(tmp_path).iterdir())
