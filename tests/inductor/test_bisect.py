"""`python -m flambeau bisect` and `verify` on a compiler with one wrong operator: stage, kernel, node and line are named, and
the small program that they write fails alone, and only as long as the fault is there."""

import dataclasses
import json
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau.cli.main import main
from flambeau.inductor.tools import bisect, repro, minifier
from flambeau.inductor import driver
from flambeau.inductor.cpp import codegen
from flambeau.runtime import toolchain
from flambeau.runtime.config import config
from flambeau.runtime.errors import InternalError

from .. import faults

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")

SCRIPT = """
import flambeau as torch

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))

@torch.compile
def loss(x):
    h = torch.softmax(model(x), -1)
    y = torch.tanh(h * 2) - h.mean(-1, keepdim=True)
    return (y * y).sum()

torch.manual_seed(0)
loss(torch.randn(5, 8)).backward()
print("the end")
"""
ALONE = """
import importlib.util, runpy, sys
spec = importlib.util.spec_from_file_location("faults", sys.argv[1])
faults = importlib.util.module_from_spec(spec)
sys.modules["faults"] = faults
spec.loader.exec_module(faults)
faults.switch_on("operator_flipped")
runpy.run_path(sys.argv[2], run_name="__main__")
"""


@pytest.fixture
def flipped(monkeypatch):
    """One operator of every kernel with a tanh is another in C++."""
    monkeypatch.setattr(codegen, "write_kernel", faults.flipped(codegen.write_kernel))


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    with config.patch(verify=False, optimize=0):
        yield tmp_path


def test_a_program_without_fault(script, capsys):
    assert main(["bisect", "script.py"]) == 0
    out = capsys.readouterr().out
    assert "the end" in out and "1 graph: no stage differs from eager" in out and not list(script.glob("*_repro.py"))


def test_a_program_that_fails(script, capsys):
    (script / "failing.py").write_text("raise ValueError('early')\n")
    assert main(["bisect", "failing.py"]) == 3
    out, err = capsys.readouterr()
    assert "failing.py raised ValueError" in out and "nothing was compiled" in out and "early" in err


def test_a_flipped_operator_is_found(script, flipped, capsys):
    assert main(["bisect", "--json", "--out", "small.py", "script.py"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)["found"]
    assert "the end" not in err and told["file"] == "small.py"
    assert (told["stage"], told["graph"], told["kernel"], told["node"]) == ("C++", "forward", "k_sum_1", "sub_1")
    assert told["line"] == "script.py:9: y = torch.tanh(h * 2) - h.mean(-1, keepdim=True)"
    assert "elements differ" in told["problem"] and "v_tanh" in told["code"] and "kernel_k_sum_1" in told["code"]

    small = (script / "small.py").read_text()
    assert small.count("ops.") == 2 and "ops.tanh(" in small and "ops.sub(" in small and "script.py:9" in small
    with_fault = subprocess.run([sys.executable, "-c", ALONE, faults.__file__, "small.py"], capture_output=True, text=True)
    assert with_fault.returncode == 1 and "compiled code differs: item 0: 20 of 20" in with_fault.stdout, with_fault.stderr
    without = subprocess.run([sys.executable, "small.py"], capture_output=True, text=True)
    assert without.returncode == 0 and "agrees with eager" in without.stdout, without.stderr


def test_verify_names_the_same(flipped):
    def f(x):
        return (torch.tanh(x) - x.mean()).sum()

    with config.patch(verify=False), pytest.raises(InternalError) as raised:
        torch.compile(f, fullgraph=True, options={"verify": True})(torch.linspace(0.1, 1, 7))
    text = str(raised.value)
    assert (
        "stage 'compiled' differs from the captured graph in outputs" in text and "node sub" in text and "test_bisect.py:" in text
    )
    assert "stage    C++" in text and "kernel   k_" in text and "v_tanh" in text and "bisect SCRIPT" in text


def found(f, *inputs, **settings):
    """What is found in `f`, or None."""
    with config.patch(verify=False, optimize=0, strict=True):
        try:
            torch.compile(f, backend=bisect.ComparingBackend(), **settings)(*inputs)
        except bisect.DifferenceFound as error:
            return error.finding
    return None


def run_alone(finding, path):
    """The exit status of a repro, in this process."""
    path.write_text(finding.repro)
    with config.patch(optimize=0), pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


def test_in_the_backward(flipped, tmp_path):
    """Only the gradient of a softplus that is written with exp and log has a tanh: the fault is in the backward alone."""

    class Softplus(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.log1p(torch.exp(x))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (1 - (0.5 - 0.5 * torch.tanh(0.5 * x)))

    finding = found(lambda x: Softplus.apply(x).sum(), torch.randn(6, 5, requires_grad=True))
    assert finding is not None and finding.stage == "C++" and finding.graph == "backward"
    assert finding.line.startswith("test_bisect.py:") and run_alone(finding, tmp_path / "small.py") == 1


WRONG = {  # what is exchanged once in a kernel's C++
    "operator": (r"v_tanh\(", r"v_exp("),
    "index": (r"= ld\(@(\d)@ \+ \(([^()]*)\), lanes\)", r"= ld(@\1@ + ((\2) & ~(i64)15), lanes)"),
    "dropped store": (r"(?m)^(\s*)(st|stream_if)\([^;]*\);", r"\1;"),
    "start of a sum": (r"splat_f\(0\.0f\)(?=[,};])", r"splat_f(1.0f)"),
    "type": (r"v_tanh\((\S+)\);", r"v_tanh(as_f(as_i(\1) & splat_i((int)0xffff0000)));"),  # as bfloat16
}


def rows(x):
    return torch.tanh(x) * 2 - x.mean(-1, keepdim=True)


def squashed(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def epilogue(x, w):
    return torch.tanh(x @ w) * 3


@pytest.mark.parametrize(
    "kind, f, dynamic, gradients",
    [
        *((kind, rows, kind in ("index", "type"), False) for kind in WRONG),
        ("type", squashed, False, True),
        ("dropped store", squashed, True, True),
        ("operator", epilogue, True, True),
        ("dropped store", epilogue, False, False),
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_each_kind_of_fault_is_named(monkeypatch, tmp_path, kind, f, dynamic, gradients):
    """The kernel that bisect names is one with the fault, and the repro fails alone."""
    wrong, kept = [], codegen.write_kernel

    def writing(program, kernel):
        written = kept(program, kernel)
        code = re.sub(*WRONG[kind], written.code, count=1)
        wrong.extend([kernel.name] if code != written.code else [])
        return dataclasses.replace(written, code=code)

    monkeypatch.setattr(codegen, "write_kernel", writing)
    inputs = [torch.randn(6, 33, requires_grad=gradients)] + [torch.randn(33, 20)] * (f is epilogue)
    finding = found(f, *inputs, dynamic=dynamic)
    assert finding.stage == "C++" and finding.kernel in wrong and "ops." in finding.repro
    assert finding.line.startswith("test_bisect.py:") and run_alone(finding, tmp_path / "small.py") == 1


def test_with_symbolic_sizes_and_draws(flipped, tmp_path):
    def f(x):
        return torch.tanh(torch.nn.functional.dropout(x, 0.5)) - x.sum(0)

    finding = found(f, torch.randn(6, 5), dynamic=True)
    assert finding.stage == "C++" and run_alone(finding, tmp_path / "small.py") == 1


def test_in_the_schedule(monkeypatch, tmp_path):
    """A fusion that loses a store's value: named as such, before any C++."""
    kept = bisect.schedule

    def losing(program):
        made = kept(program)
        kernel = made.kernels[-1]
        store = kernel.steps[-1].stores[0]
        wrong = dataclasses.replace(store, value=store.value.body.prim("neg", store.value))
        step = dataclasses.replace(kernel.steps[-1], stores=(wrong,))
        return made.with_kernels([*made.kernels[:-1], dataclasses.replace(kernel, steps=(*kernel.steps[:-1], step))])

    monkeypatch.setattr(bisect, "schedule", losing)
    monkeypatch.setattr(driver, "schedule", losing)
    finding = found(lambda x: torch.exp(x) + 1, torch.randn(4))
    assert finding.stage == "loop IR, fusion" and finding.kernel == "k_add" and finding.node == "exp"


def test_before_the_loops(monkeypatch, tmp_path):
    """A pass that changes the meaning: the node is named, and the program that fails has gradients."""
    kept = driver.join_products

    def changing(graph):
        for node in graph.calls:
            if node.target.name == "add":
                node.target = torch.eager.op.op.find("sub")
        return kept(graph)

    monkeypatch.setattr(driver, "join_products", changing)
    finding = found(lambda x, y: torch.sin(x) + y, torch.randn(4, requires_grad=True), torch.randn(4))
    assert finding.stage.startswith("joint graph") and finding.graph == "" or finding.node == "add"
    assert run_alone(finding, tmp_path / "small.py") == 1


def test_a_compiler_that_raises(monkeypatch, tmp_path):
    def refusing(program, kernel):
        raise InternalError("no kernel today")

    monkeypatch.setattr(codegen, "write_kernel", refusing)
    finding = found(lambda x: torch.sin(x) * 2, torch.randn(4))
    assert "it raises InternalError: no kernel today" in finding.problem and finding.repro


def test_a_later_call(monkeypatch):
    """A fault that only the numbers of the second call show."""
    kept = codegen.write_kernel

    def clipping(program, kernel):
        written = kept(program, kernel)
        return dataclasses.replace(
            written, code=written.code.replace("v_sin(", "v_minimum(splat_f(0.9f), v_sin(").replace("_at_0);", "_at_0));")
        )

    monkeypatch.setattr(codegen, "write_kernel", clipping)
    with config.patch(verify=False, optimize=0, strict=True):
        compiled = torch.compile(lambda x: torch.sin(x) + 1, backend=bisect.ComparingBackend(calls=2))
        compiled(torch.zeros(4))
        with pytest.raises(bisect.DifferenceFound) as raised:
            compiled(torch.full((4,), 1.5))
    finding = raised.value.finding
    assert finding.stage == "C++" and finding.kernel == "k_add" and "values(" in finding.repro or "normal(" in finding.repro


def test_inputs_that_only_the_call_had(flipped):
    """Where drawn inputs do not show the fault, the values are written into the file."""
    x = torch.zeros(3, 4)
    x[1, 2] = 3e38
    graph = repro.graph_of(lambda a: (torch.exp(a),), [x])
    program = minifier.FailingProgram(graph, (x,))
    text = repro.text_of(graph, [x], ["told"], False)
    space = runpy_space(text)
    assert np.array_equal(space["INPUTS"][0].numpy(), x.numpy()) and program.fault() is None


def runpy_space(text):
    space = {"__name__": "repro"}
    exec(compile(text, "repro.py", "exec"), space)
    return space


def test_inputs_keep_their_strides():
    x = repro.normal(0, (3, 4), "float64", (1, 3), True)
    assert tuple(x.stride()) == (1, 3) and x.requires_grad
    again = eval(repro.input_text(0, x, True), vars(repro))
    assert tuple(again.stride()) == (1, 3) and np.array_equal(again.detach().numpy(), x.detach().numpy())
    kept = eval(repro.input_text(0, x, False), vars(repro))
    assert tuple(kept.stride()) == (1, 3) and np.array_equal(kept.detach().numpy(), x.detach().numpy())
