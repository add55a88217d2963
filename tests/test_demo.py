"""The dump of the demo's training step: every kernel names real lines of examples/gpt.py, graphs run, norms are fused.

One step of the example's own model is compiled with a dump folder. Checked: the files, provenance, one loop nest per
layer norm, one graph, and gradients against eager's from the same state.
"""

import importlib.util
import pathlib
import re

import numpy as np
import pytest

import flambeau as torch
from flambeau import compiler
from flambeau.runtime import toolchain
from flambeau.runtime.config import config

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")
EXAMPLE = pathlib.Path(__file__).parent.parent / "examples" / "gpt.py"
FILES = {
    "bytecode.txt",
    "graph.py",
    "guards.txt",
    "joint.py",
    "forward.py",
    "backward.py",
    "loops.txt",
    "kernels.cpp",
    "wrapper.txt",
}
BATCH, SEED = 2, 7


def load_example():
    """The example as a module; what it imports only to print progress may be missing here."""
    pytest.importorskip("tqdm")
    spec = importlib.util.spec_from_file_location("gpt_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Step:
    """What one compiled training step left behind, beside eager's."""

    def __init__(self, folder):
        self.example = load_example()
        torch.manual_seed(1)
        self.model = self.example.GPT()
        numbers = np.random.default_rng(0).integers(0, self.example.VOCABULARY, (2, BATCH, self.example.CONTEXT))
        self.tokens, self.targets = (torch.from_numpy(part) for part in numbers)
        self.wanted_loss, self.wanted = self.run(self.model)
        compiler.reset()
        with config.patch(dump=str(folder), strict=True, slow_compile_seconds=1e9):
            self.loss, self.gradients = self.run(torch.compile(self.model))
        self.counted = compiler.counters()
        self.folders = list(folder.iterdir())
        self.texts = {path.name: path.read_text() for path in self.folders[0].iterdir()}

    def run(self, call):
        self.model.zero_grad()
        torch.manual_seed(SEED)
        loss = call(self.tokens, self.targets)
        loss.backward()
        return loss.item(), {name: p.grad.numpy().copy() for name, p in self.model.named_parameters()}


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    return Step(tmp_path_factory.mktemp("dump"))


def test_one_graph_without_breaks(step):
    assert len(step.folders) == 1 and set(step.texts) >= FILES
    assert all(step.texts.values())
    counted = step.counted
    assert (counted["graphs"], counted["recompiles"], counted["breaks"], counted["fallbacks"]) == (1, 0, {}, {})


def test_gradients_are_eagers(step):
    assert step.loss == pytest.approx(step.wanted_loss, rel=1e-5)
    assert len(step.gradients) == len(step.wanted) > 40
    for name, wanted in step.wanted.items():
        difference = np.linalg.norm(step.gradients[name] - wanted) / np.linalg.norm(wanted)
        assert difference <= 2e-5, f"{name}: {difference:.1e}"


# -- provenance

ORIGIN = re.compile(r"^\s*(?://|#) +\w+ = \w+ +(\S+?):(\d+)  (.*)$", re.MULTILINE)
FUNCTION = re.compile(r"((?:^//.*\n)+)^(?:static|extern \"C\") void (kernel_\w+)\(.*\{$", re.MULTILINE)


def functions(step):
    """Name and comment of every generated kernel function."""
    return [(name, comment) for comment, name in FUNCTION.findall(step.texts["kernels.cpp"])]


def test_every_kernel_names_the_lines_it_came_from(step):
    lines = EXAMPLE.read_text().splitlines()
    found = functions(step)
    bodies = re.findall(r"^(?:static|extern \"C\") void (kernel_\w+)\(.*\{$", step.texts["kernels.cpp"], re.MULTILINE)
    assert sorted(name for name, _ in found) == sorted(bodies) and len(bodies) > 20, "a kernel without a comment"
    for name, comment in found:
        origins = ORIGIN.findall(comment)
        assert any(file == "gpt.py" for file, _, _ in origins), f"{name} does not say where it comes from:\n{comment}"
        for file, number, text in origins:
            assert file == "gpt.py" and 1 <= int(number) <= len(lines), f"{name}: {file}:{number}"
            assert lines[int(number) - 1].strip() == text.strip(), f"{name}: line {number} is not {text!r}"


def test_products_called_directly_name_their_lines_too(step):
    """A product that needs no function of ours is described where it is called."""
    lines = EXAMPLE.read_text().splitlines()
    calls = re.findall(r"((?:^ +//.*\n)+)^ +\{\n(?:(?!^ +\}).*\n)*? +rt->gemm", step.texts["kernels.cpp"], re.MULTILINE)
    described = [comment for comment in calls if ": product over" in comment]
    assert described
    for comment in described:
        origins = ORIGIN.findall(comment)
        assert origins and all(lines[int(number) - 1].strip() == text.strip() for _, number, text in origins), comment


# -- fusion


def kernels(step, graph):
    """Texts of the fused loop nests of one graph."""
    text = step.texts["loops.txt"].split(f"# {graph}, after fusion\n")[1].split(", before fusion\n")[0]
    return re.split(r"^(?=kernel |gemm |scatter |extern |native )", text, flags=re.MULTILINE)[1:]


def test_each_layer_norm_of_the_forward_is_one_loop_nest(step):
    """Both reductions over a row and the store of the scaled and shifted row lie in one kernel, and in no other."""
    weights = [name for name, _ in step.model.named_parameters() if "norm" in name and name.endswith("weight")]
    assert len(weights) == 2 * step.example.LAYERS + 1
    for name in weights:
        weight = "self_" + name.replace(".", "_")
        using = [text for text in kernels(step, "forward") if re.search(rf"\b{weight}\[", text)]
        assert len(using) == 1, f"{name} is read by {len(using)} kernels"
        (text,) = using
        assert len(re.findall(r"^    acc_\w+ = sum\(", text, re.MULTILINE)) == 2, text
        bias = weight.removesuffix("weight") + "bias"
        assert re.search(rf"\b{bias}\[", text) and len(re.findall(r" = rsqrt\(", text)) >= 1, text
        assert re.fullmatch(r"    \w+\[.*\bj0\] = %\d+", text.rstrip().splitlines()[-1]), text


def test_a_function_that_serves_several_calls_tells_the_lines_of_each(step):
    """Equal kernels are printed once: the calls of the others say where they come from, as the function itself does."""
    line = next(k for k, text in enumerate(EXAMPLE.read_text().splitlines(), 1) if "self.head(self.norm(x))" in text)
    forward = step.texts["kernels.cpp"].split("// forward\n")[1].split("// backward\n")[0]
    comments = re.findall(r"(?:^ *//.*\n)+", forward, re.MULTILINE)
    mine = [comment for comment in comments if re.search(rf" = mean   gpt.py:{line} ", comment)]
    assert len(mine) == 1 and mine[0].count(" = mean ") == 2 and " = rsqrt " in mine[0]
    calls = re.findall(r"^ +// (\w+): (kernel_\w+)\n((?: +//.*\n)*)", forward, re.MULTILINE)
    printed = {name for _, name, _ in calls if sum(other == name for _, other, _ in calls) == 1}
    assert all(ORIGIN.search(comment) or name in printed or name == f"kernel_{call}" for call, name, comment in calls)


# -- printed graphs


@pytest.mark.parametrize("name", ["graph", "functional", "joint", "forward", "backward"])
def test_printed_graphs_are_python(step, name):
    compile(step.texts[f"{name}.py"], f"{name}.py", "exec")


def test_the_printed_graph_runs(step):
    """The captured graph as text computes the loss that eager computes."""
    scope = {}
    exec(step.texts["graph.py"], scope)
    sources = re.findall(r"^    # \w+: \w+\[[\d, ]*\] +(\S+)$", step.texts["graph.py"], re.MULTILINE)
    table = {"tokens": step.tokens, "targets": step.targets} | {f"self.{n}": p for n, p in step.model.named_parameters()}
    torch.manual_seed(SEED)
    (loss,) = scope["forward"](*[table[source] for source in sources])
    assert loss.item() == pytest.approx(step.wanted_loss, rel=1e-6)


def test_guards_are_told_with_lines(step):
    text = step.texts["guards.txt"]
    assert "gpt.py:" in text and "training" in text and re.search(r"tokens.*\(2, 128\)", text)


def test_the_order_of_calls_is_told(step):
    """wrapper.txt lists each kernel of both graphs once, in the order of the loop program."""
    for graph in ("forward", "backward"):
        section = step.texts["wrapper.txt"].split(f"{graph}: ")[1].split("\n\n")[0]
        count = int(section.split(" kernels")[0])
        named = [re.match(r"\w+ (\w+)", text)[1] for text in kernels(step, graph)]
        assert re.findall(r"^  call \d+: (\w+)$", section, re.MULTILINE)[:count] == named and len(named) == count
