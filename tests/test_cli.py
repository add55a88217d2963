"""`python -m flambeau`: each command's text, JSON and exit status; what is not there is told by name."""

import json
import os
import re
import subprocess
import sys

import pytest

import flambeau
from flambeau.cli import doctor
from flambeau.cli.result import DONE, FAILED, FOUND, STATUSES, WRONG
from flambeau.cli.main import COMMANDS, main, parser
from flambeau.eager.op.op import OPS
from flambeau.runtime import artifact_store, counters, toolchain
from flambeau.runtime.config import config

PROGRAM = """
import sys
import flambeau as torch

def step(x, n=2):
    y = torch.tanh(x) * n
    print("inside")
    return y + 1

def needs(x, y):
    return x + y

class Layer(torch.nn.Module):
    def forward(self, x):
        return x * 2

layer = Layer()
if __name__ == "__main__":
    assert sys.argv[0].endswith("program.py") and sys.modules["__main__"].step is step, sys.argv
    compiled = torch.compile(step, backend="eager")
    for number in map(int, sys.argv[1:]):
        compiled(torch.ones(number))
    if len(sys.argv) == 1:
        raise ValueError("no numbers")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in a folder of its own, which is the present one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def said(capsys):
    """said(*arguments) -> (status, standard output, standard error)"""

    def run(*arguments):
        status = main(list(map(str, arguments)))
        return status, *capsys.readouterr()

    return run


def test_help_of_every_command_has_examples(capsys):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        text = capsys.readouterr().out
        assert ended.value.code == 0 and "examples:" in text and f"python -m flambeau {name}" in text
        assert all(meaning in text for meaning in STATUSES.values())
    assert set(COMMANDS) == {"run", "explain", "report", "show", "ops", "cache", "bench", "doctor", "bisect", "torch"}


def test_unknown_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explane"])
    assert ended.value.code == WRONG and "explain" in capsys.readouterr().err


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "flambeau", "ops", "silu", "--json"], capture_output=True, text=True)
    assert done.returncode == DONE and json.loads(done.stdout)["name"] == "silu"


# -- explain


def test_explain(said, program):
    status, out, _ = said("explain", "program.py:step", "torch.ones(3)", "--backend", "eager")
    assert status == FOUND
    assert "2 graphs, 1 break," in out and "program.py:7" in out and "what to do: move the print" in out


def test_explain_as_json(said, program):
    status, out, err = said("explain", "--json", "program.py:layer", "torch.ones(3)", "--backend", "eager")
    facts = json.loads(out)
    assert status == DONE and facts["graph_count"] == 1 and facts["breaks"] == [] and facts["graphs"] == [["mul"]]
    status, out, err = said("explain", "--json", "program.py:step", "torch.ones(3)", "--backend", "eager")
    (one,) = json.loads(out)["breaks"]
    assert one["code"] == "print" and one["line"].endswith("program.py:7") and "inside" in err


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["program.py:stop"], "defines no 'stop'; it defines: step, needs"),
        (["program.py:needs"], "it needs x, y"),
        (["program.py:Layer"], "the class Layer: name an instance"),
        (["program.py:layer.weights"], "has no 'weights'"),
        (["program.py:step", "torch.ones(4"], "raises SyntaxError"),
        (["nothing.py:step"], "No such file"),
        (["step"], "is not FILE:FUNCTION"),
        (["program.py:torch"], "torch is no function or nn.Module but an imported Python module"),
        (["program.py:step", "--backend", "nope", "torch.ones(3)"], "unknown backend 'nope'; backends are: "),
    ],
)
def test_explain_names_what_is_wrong(said, program, arguments, told):
    status, _, err = said("explain", *arguments)
    assert status == WRONG and told in err


def test_explain_takes_the_example_inputs(said, program):
    (program / "given.py").write_text(
        "import flambeau as torch\nexample_inputs = lambda: (torch.ones(2), 3)\ndef f(x, n):\n    return x * n\n"
    )
    status, out, _ = said("explain", "given.py:f", "--backend", "eager")
    assert status == DONE and "1 graph, 0 breaks, 1 op," in out


def test_explain_of_a_call_that_fails(said, program):
    status, _, err = said("explain", "program.py:needs", "torch.ones(2)", "torch.ones(3)", "--backend", "eager")
    assert status == FAILED and "the call raised RuntimeError" in err
    status, _, err = said("explain", "program.py:layer", "torch.ones(2)", "3", "--backend", "eager")
    assert status == FAILED and "the call raised TypeError" in err and "explain.py" not in err


# -- report


def test_report(said, program):
    status, out, _ = said("report", "program.py", 3, 4, 5)
    assert status == FOUND and "program_report.html: step, 4 frames, 4 graphs, 2 breaks" in out
    page = (program / "program_report.html").read_text()
    assert "program.py" in page and "</html>" in page


def test_report_as_json_with_the_failure_of_the_program(said, program):
    status, out, err = said("report", "--json", "program.py", 3)
    (one,) = json.loads(out)["reports"]
    assert status == FOUND and one["frames"][0]["breaks"][0]["line"] == 7 and "inside" in err
    status, out, err = said("report", "--json", "program.py")
    facts = json.loads(out)
    assert status == FAILED and facts["failure"] == "program.py raised ValueError" and facts["reports"] == []
    assert "no numbers" in err and "scripts.py" not in err
    assert not list(program.glob("*.html"))


@pytest.mark.parametrize(
    "last, status, told",
    [
        ("sys.exit()", DONE, ""),
        ("sys.exit(0)", DONE, ""),
        ("sys.exit(7)", FAILED, "ends.py ended with status 7"),
        ("sys.exit('no data')", FAILED, "ends.py ended with status 1"),
        ("raise KeyboardInterrupt", FAILED, "ends.py was interrupted"),
    ],
)
def test_a_program_that_ends_early_gets_its_page(said, program, last, status, told):
    (program / "ends.py").write_text(
        f"import sys\nimport flambeau\nflambeau.compile(lambda x: x + 1, backend='eager')(flambeau.ones(2))\n{last}\n"
    )
    ended, out, err = said("report", "ends.py")
    assert ended == status and told in out and "ends_report.html: <lambda>, 1 frame, 1 graph, 0 breaks, 0 kernels" in out
    assert ("no data\n" in err) == ("no data" in last) and "scripts.py" not in err


@pytest.mark.parametrize("command", ["report", "bisect"])
def test_where_nothing_can_be_written_the_program_does_not_run(said, program, command):
    (program / "file").write_text("")
    for out, told in (("file/page", "file/page cannot be written: "), (".", ". is a folder")):
        status, _, err = said(command, "--out", out, "program.py", 3)
        assert status == WRONG and told in err and "inside" not in err


FOR_PYTORCH = """
import multiprocessing, sys
import torch
from torch import nn

class Given(nn.Module):
    def forward(self, x):
        return x + 1

def work(module, queue):
    queue.put((__name__, torch.__name__, module(torch.ones(2)).tolist()))

if __name__ == "__main__":
    started = multiprocessing.get_context("spawn")
    queue = started.Queue()
    child = started.Process(target=work, args=(Given(), queue))
    child.start()
    print(*queue.get(timeout=60), torch.compile(Given())(torch.zeros(1)).item(), sys.argv[1:])
    child.join()
    sys.exit(5)
"""


def test_a_program_for_pytorch_runs_as_it_is(program):
    """Its spawned children, too, and they know classes of the program."""
    (program / "other.py").write_text(FOR_PYTORCH)
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", "run", "--counts", "other.py", "--lr", "1"], capture_output=True, text=True
    )
    assert done.returncode == 5, done.stderr
    said, counted = done.stdout.splitlines()
    assert said == "__mp_main__ torch [2.0, 2.0] 1.0 ['--lr', '1']" and "graphs 1," in counted


@pytest.mark.parametrize("last, status", [("raise ValueError('no')", 1), ("raise KeyboardInterrupt", 130), ("sys.exit()", 0)])
def test_a_program_for_pytorch_ends_with_its_own_status(program, last, status):
    (program / "ends.py").write_text(f"import sys\n{last}\n")
    done = subprocess.run([sys.executable, "-m", "flambeau", "run", "ends.py"], capture_output=True, text=True)
    assert done.returncode == status and ("Error" in done.stderr) == ("Error" in last) and "scripts.py" not in done.stderr


def test_report_of_other_processes(program):
    """FLAMBEAU_REPORT: what a process compiled in a function that has returned is told when it ends."""
    (program / "other.py").write_text(
        "import flambeau as torch\ndef main():\n    f = torch.compile(lambda x: x * 2, backend='eager')\n"
        "    f(torch.ones(2))\nmain()\n"
    )
    subprocess.run([sys.executable, "other.py"], env=os.environ | {"FLAMBEAU_REPORT": str(program / "reports")}, check=True)
    pages, facts = list(program.glob("reports/*.html")), list(program.glob("reports/*.json"))
    assert len(pages) == len(facts) == 1
    assert [node["op"] for graph in json.loads(facts[0].read_text())["graphs"] for node in graph["nodes"]] == ["mul"]


def flambeau_run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "flambeau", "run", *arguments], capture_output=True, text=True, **options)


def test_a_module_and_statements_for_pytorch(program):
    """As `python -m` and `python -c`: names, arguments, the path, the module's package, children of a module."""
    (program / "inner").mkdir()
    (program / "inner" / "__init__.py").write_text("")
    (program / "inner" / "helper.py").write_text("import torch\nvalue = torch.ones(3)\n")
    (program / "inner" / "main.py").write_text(
        FOR_PYTORCH.replace("import torch\n", "import torch\nfrom .helper import value\n", 1)
    )
    done = flambeau_run("--counts", "-m", "inner.main", "--lr", "1")
    assert done.returncode == 5 and done.stdout.startswith(
        "__mp_main__ torch [2.0, 2.0] 1.0 ['--lr', '1']\nframes 1, graphs 1,"
    ), done
    done = flambeau_run(
        "-c",
        "import sys, torch\nfrom inner.helper import value\nprint(__name__, sys.argv, value + torch.ones(1)); sys.exit(3)",
        "-x",
        "y",
    )
    assert (done.returncode, done.stdout) == (3, "__main__ ['-c', '-x', 'y'] tensor([2., 2., 2.])\n"), done
    done = flambeau_run("-m", "pytest", "--version")
    assert done.returncode == 0 and "pytest" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments, told",
    [
        ([], "name a program"),
        (["-m"], "the module is missing"),
        (["-c"], "the text is missing"),
        (["-m", "no_such"], "No module named no_such"),
        (["-c", "1 +"], "no Python program"),
    ],
)
def test_no_program_for_pytorch(program, arguments, told):
    done = flambeau_run(*arguments)
    assert done.returncode == WRONG and told in done.stderr and "Traceback" not in done.stderr, done.stderr


ASKED = """
import torch
from torch import nn

def step(x):
    return nn.functional.relu(x) + 1

example_inputs = (torch.ones(3),)
if __name__ == "__main__":
    print(torch.compile(step, backend="eager")(torch.ones(2)))
"""


@pytest.mark.parametrize("arguments", [["explain", "asked.py:step"], ["report", "asked.py"]])
def test_programs_that_import_torch_need_no_option(program, arguments):
    """Where no PyTorch is installed; and the process that ran them asks no further."""
    (program / "asked.py").write_text(ASKED)
    code = (
        f"import sys\nfrom flambeau.cli.main import main\nkept = list(sys.meta_path)\nassert main({arguments!r}) == 0\n"
        "assert not [f for f in sys.meta_path if type(f).__name__ == 'TorchWhenAsked']"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "1 graph" in done.stdout, done.stderr


def test_without_a_command(capsys):
    assert main([]) == DONE and "COMMAND" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and flambeau.__version__ in capsys.readouterr().out


# -- show, cache


def test_show(said, program):
    with config.patch(dump=str(program / "dump")):
        flambeau.compile(lambda x: x + 1, backend="eager")(flambeau.ones(2))
    status, out, _ = said("show", "--dump", "dump")
    (name,) = os.listdir("dump")
    assert status == DONE and out.startswith(f"{name}: bytecode.txt, graph.py, guards.txt")
    assert "what was captured" in said("show", "--dump", "dump", name)[1]
    number = name.partition("_")[0]
    assert "ops.add" in said("show", "--dump", "dump", number, "graph.py")[1]
    for arguments, told in (
        (["--dump", "dump", "zz"], f"it has: {name}"),
        (["--dump", "none"], "no folder"),
        (["--dump", "dump", number, "x.py"], "has no file 'x.py'"),
    ):
        status, _, err = said("show", *arguments)
        assert status == WRONG and told in err


@pytest.fixture
def store(tmp_path):
    with config.patch(verify=False, cache_dir=str(tmp_path / "cache"), strict=True):
        artifact_store.forget()
        yield tmp_path / "cache"
    artifact_store.forget()


def test_cache(said, store):
    flambeau.compile(lambda x: flambeau.sin(x) * 2)(flambeau.ones(3))
    status, out, _ = said("cache", "--json", "ls")
    files = json.loads(out)["files"]
    assert status == DONE and sorted(f["kind"] for f in files) == ["graph", "kernels"]
    graph = next(f for f in files if f["kind"] == "graph")
    library = next(f for f in files if f["kind"] == "kernels")
    assert graph["key"][:12] in said("cache", "ls")[1]
    status, out, _ = said("cache", "show", graph["key"][:10])
    assert status == DONE and "forward: 1 kernel in" in out and "v_sin" in out and library["key"] in out
    assert said("show", graph["key"][:10])[1].splitlines()[1:] == out.splitlines()[1:]
    assert graph["key"] in said("cache", "show", library["key"][:10])[1]
    for key in ("0" * 12, ""):
        assert said("cache", "show", key)[0] == WRONG


def test_cache_verify_and_clear(said, store):
    flambeau.compile(lambda x: x - 3)(flambeau.ones(3))
    assert said("cache", "verify")[:2] == (DONE, f"{store}: 2 of 2 files are whole\n")
    damaged = next(store.glob("*/*.graph"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    status, out, _ = said("cache", "verify")
    assert status == FOUND and f"damaged, removed: {damaged}" in out and "1 of 2 files are whole" in out
    assert "1 file removed" in said("cache", "clear")[1] and "0 files" in said("cache", "ls")[1]


# -- ops


def test_ops(said):
    status, out, _ = said("ops")
    assert status == DONE and len(out.splitlines()) == len(OPS)
    status, out, _ = said("ops", "silu", "--code")
    assert status == DONE and "return x / (1.0 + s.exp(-x))" in out and "gradient for x" in out and "v_exp" in out
    status, _, err = said("ops", "sillu")
    assert status == WRONG and "is silu" in err


def test_every_record_can_be_shown():
    from flambeau.cli import ops

    for op in list(OPS.values()):
        assert ops.text(ops.facts_of(op)).startswith(f"{op.name}: {op.kind.value}")


# -- doctor


def told(monkeypatch, **machine):
    for name, value in machine.items():
        monkeypatch.setattr(
            *{"compiler": (toolchain, "compiler"), "cuda": (doctor, "cuda"), "installed": (doctor, "installed")}[name], value
        )
    answer = doctor.run(None)
    return answer.status, answer.text


def test_doctor_of_a_machine_without_compiler_triton_and_gpu(monkeypatch):
    kept = doctor.installed
    status, text = told(
        monkeypatch,
        compiler=lambda: None,
        cuda=lambda: {"devices": [], "problem": "libcuda.so.1 is not on this machine"},
        installed=lambda name: None if name == "triton" else kept(name),
    )
    assert status == FOUND
    assert "C++ compiler  none" in text and "apt-get install g++" in text and "loop interpreter" in text
    assert "Triton        none" in text and "pip install triton" in text
    assert "CUDA          none" in text and "libcuda.so.1 is not on this machine: everything runs on the processor" in text


BARE = """
import ctypes, sys
for name in ("triton", "cupy", "rich", "safetensors", "scipy", "tensorboard"):
    sys.modules[name] = None
library = ctypes.CDLL
def open_library(name, *rest, **options):
    if "cuda" in str(name):
        raise OSError(name)
    return library(name, *rest, **options)
ctypes.CDLL = open_library
import flambeau
from flambeau.cli.main import main
sys.exit(main(["doctor"]))
"""


def test_doctor_of_a_bare_machine(tmp_path):
    """No program on the path, no optional package, no driver; nothing of this package is replaced."""
    environment = {name: value for name, value in os.environ.items() if name != "CXX"} | {"PATH": str(tmp_path), "CXX": ""}
    done = subprocess.run([sys.executable, "-c", BARE], env=environment, capture_output=True, text=True)
    assert done.returncode == FOUND, done.stderr
    missing = done.stdout.partition("missing:\n")[2]
    lacking = [line.split(":")[0].strip() for line in missing.splitlines()[::2]]
    assert lacking == ["C++ compiler", "Triton", "GPU", "rich", "safetensors", "scipy", "tensorboard"]
    assert "no compiler was found (CXX, g++, clang++, c++)" in missing and "run in the loop interpreter" in missing


def test_doctor_of_a_machine_with_everything(monkeypatch):
    status, text = told(
        monkeypatch,
        compiler=toolchain.compiler,
        cuda=lambda: {"devices": ["NVIDIA X"], "problem": None},
        installed=lambda name: "9.9",
    )
    assert "CUDA          NVIDIA X, cupy 9.9" in text and "Triton        9.9" in text
    if toolchain.compiler():
        assert status == DONE and "nothing is missing" in text and ", works" in text


def test_doctor_of_a_machine_with_a_gpu_that_nothing_reaches(monkeypatch):
    _, text = told(
        monkeypatch,
        cuda=lambda: {"devices": ["NVIDIA X"], "problem": None},
        installed=lambda name: None if name == "cupy" else "9.9",
    )
    assert "CUDA          NVIDIA X\n" in text and "cupy: cupy is not installed: no tensors on the GPU" in text


def test_doctor_tries_the_compiler(monkeypatch, tmp_path):
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'broken 1.0'\nexit 3\n")
    broken.chmod(0o755)
    status, text = told(monkeypatch, compiler=lambda: str(broken))
    assert status == FOUND and "which does not work" in text and "exited with 3" in text


def test_doctor_names_settings(said, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_ISA", "avx2")
    assert json.loads(said("doctor", "--json")[1])["settings"]["FLAMBEAU_ISA"] == "avx2"


# -- logs and settings


def test_unknown_log_channels_are_told():
    done = subprocess.run(
        [sys.executable, "-c", "import flambeau"],
        env=os.environ | {"FLAMBEAU_LOGS": "breaks,kernel"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "no such channel: kernel; channels are: breaks, recompiles," in done.stderr


def test_every_channel_is_filled(capsys):
    from flambeau.runtime.log import CHANNELS

    def f(x):
        print("cut")
        return flambeau.softmax(flambeau.linalg.eigvals(x).abs(), -1).sum()

    counters.reset()
    with config.patch(logs=("all",), verify=False):
        compiled = flambeau.compile(f)
        for n in (2, 3):
            compiled(flambeau.eye(n).requires_grad_())
    told = set(re.findall(r"^flambeau (\w+): ", capsys.readouterr().err, re.M))
    assert told == set(CHANNELS) - {"cache"} | (told & {"cache"})


# -- notebooks


def test_graphs_in_a_notebook():
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    flambeau.compile(lambda x: flambeau.relu(x) < 2, backend=backend)(flambeau.ones(3))
    (graph,) = seen
    text = graph._repr_html_()
    assert "1 inputs, 2 operations" in text and "ops.relu(x)" in text and "f32[3]" in text and "&lt; 2" in text
    assert "relu" in graph.graph._repr_html_()


def test_the_parser_knows_json_everywhere():
    for name in COMMANDS:
        extra = {"explain": ["a:b"], "report": ["a"], "bisect": ["a"], "run": ["a"], "cache": ["ls"], "torch": ["--status"]}.get(
            name, []
        )
        assert parser().parse_args([name, "--json", *extra]).json
