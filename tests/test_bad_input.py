"""Bad input, a bad environment: each gives an error that says what is wrong, or a warning and a working way round.

Arguments of operations, of compile, of modules and optimizers; settings; machines without compiler, with a broken one,
with cache folders that cannot or must not be used; index errors inside compiled functions.
"""

import os
import re
import subprocess
import sys
import textwrap
import warnings

import pytest

import flambeau as torch
from flambeau import compiler, nn
from flambeau.nn import functional as F
from flambeau.runtime import artifact_store, toolchain
from flambeau.runtime.config import FIELDS, config

needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


def a():
    return torch.ones(2, 3)


def b():
    return torch.ones(4, 5)


# -- operations, plain and compiled

SIZES = r"\[2, 3\].*\[4, 5\]|2x3 and 4x5"
CALLS = {
    "sum of sizes that do not fit": (lambda: a() + b(), RuntimeError, rf"add.*({SIZES})"),
    "in place": (lambda: a().mul_(b()), RuntimeError, rf"mul.*({SIZES})"),
    "product": (lambda: a() @ b(), RuntimeError, SIZES),
    "batched product": (lambda: torch.bmm(a(), b()), RuntimeError, r"bmm.*\[2, 3\]"),
    "linear": (lambda: F.linear(a(), b()), RuntimeError, "2x3 and 5x4"),
    "joined": (lambda: torch.cat([a(), b()]), RuntimeError, "Expected size 3 but got size 5"),
    "stacked": (lambda: torch.stack([a(), b()]), RuntimeError, r"\[2, 3\].*\[4, 5\]"),
    "view": (lambda: a().view(7), RuntimeError, r"'\[7\]' is invalid for input of size 6"),
    "expand": (lambda: a().expand(5, 3), RuntimeError, r"\[5, 3\].*\[2, 3\]"),
    "norm": (lambda: F.layer_norm(a(), (5,)), RuntimeError, r"\[5\].*\[\*, 5\].*\[2, 3\]"),
    "attention": (
        lambda: F.scaled_dot_product_attention(a(), b(), b()),
        RuntimeError,
        r"scaled_dot_product_attention.*\[2, 3\].*\[4, 5\]",
    ),
    "batch of targets": (lambda: F.cross_entropy(a(), torch.tensor([0])), ValueError, r"batch_size \(2\).*batch_size \(1\)"),
    "dim": (lambda: a().sum(5), IndexError, r"\[-2, 1\], but got 5"),
    "dims": (lambda: a().transpose(0, 7), IndexError, "but got 7"),
    "types of a product": (lambda: torch.ones(2, dtype=torch.int64) @ torch.ones(2), RuntimeError, "long int != float.*matmul"),
    "bits of floats": (lambda: a() & a(), RuntimeError, "bitwise_and: not implemented for torch.float32"),
    "a condition that is no bool": (lambda: torch.where(a(), a(), a()), RuntimeError, "where.*Float"),
    "a mask that is no bool": (lambda: a().masked_fill(a(), 0.0), RuntimeError, "masked_fill.*float32"),
    "an index that is no integer": (lambda: a().gather(0, a()), RuntimeError, "gather.*int64"),
    "ids that are no integers": (lambda: F.embedding(a(), a()), RuntimeError, "embedding"),
    "a result that does not fit": (
        lambda: torch.ones(2, dtype=torch.int64).add_(1.5),
        RuntimeError,
        "result type.*can't be cast",
    ),
    "gradients of integers": (
        lambda: torch.ones(2, dtype=torch.int64).requires_grad_(),
        RuntimeError,
        "only Tensors of floating point",
    ),
    "text as a tensor": (lambda: torch.exp("x"), TypeError, "exp.*must be Tensor, not str"),
    "a number as a matrix": (lambda: torch.matmul(a(), 3), TypeError, "matmul.*must be Tensor, not int"),
    "text added": (lambda: a() + "x", TypeError, r"\+.*Tensor.*str"),
    "no argument": (lambda: torch.exp(), TypeError, "exp.*missing 1 required"),
    "too many arguments": (lambda: torch.exp(a(), a(), a()), TypeError, "exp.*takes 1 positional argument but 3"),
    "an unknown argument": (lambda: torch.sum(a(), dims=1), TypeError, "sum.*'dims'"),
    "a size that is no int": (lambda: torch.zeros(2.5), TypeError, "sizes must be ints, but found float"),
    "a negative size": (lambda: torch.zeros(-1), RuntimeError, "negative dimension -1"),
    "a ragged list": (lambda: torch.tensor([[1], [1, 2]]), ValueError, "sequence of length 1 at dim 1 .got 2"),
    "a step of zero": (lambda: torch.arange(0, 5, 0), RuntimeError, "step must be nonzero"),
    "an unknown device": (lambda: torch.ones(2, device="tpu"), RuntimeError, "tpu"),
    "a probability above one": (lambda: F.dropout(a(), p=2.0), ValueError, "between 0 and 1, but got 2"),
    "the truth of many": (lambda: bool(a()), RuntimeError, "more than one value is ambiguous"),
    "the number of many": (lambda: a().item(), RuntimeError, "6 elements cannot be converted to Scalar"),
    "module of other sizes": (lambda: nn.Linear(3, 4)(b()), RuntimeError, "4x5 and 3x4"),
    "no parameters": (lambda: torch.optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
    "a negative rate": (lambda: torch.optim.Adam([nn.Parameter(a())], lr=-1.0), ValueError, "learning rate: -1"),
    "an unwanted backward": (lambda: a().sum().backward(), RuntimeError, "does not require grad"),
}


@pytest.mark.parametrize("name", CALLS)
def test_operations_say_what_is_wrong(name):
    call, error, text = CALLS[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", [n for n, (_, _, text) in CALLS.items() if n not in ("no parameters", "a negative rate")])
def test_compiled_code_raises_the_same_errors(name):
    """The error of the program itself, not one of the compiler: nothing is swallowed, nothing is warned of."""
    call, error, text = CALLS[name]
    compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(error, match=text):
            torch.compile(call)()
    assert "internal error" not in compiler.counters()["fallbacks"]


def test_backward_twice():
    def program(x):
        return (x * x).sum()

    for call in (program, torch.compile(program)):
        x = torch.ones(3, requires_grad=True)
        loss = call(x)
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        assert x.grad.tolist() == [2.0] * 3
        loss = call(x)
        loss.backward(retain_graph=True)
        loss.backward()
        assert x.grad.tolist() == [6.0] * 3


def test_in_place_on_a_leaf():
    def program(x):
        x.mul_(2.0)
        return x.sum()

    for call in (program, torch.compile(program)):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            call(x)
        assert x.tolist() == [1.0] * 3 and x._version == 0


def test_a_saved_value_that_is_overwritten():
    def program(x):
        return x.exp()

    for call in (program, torch.compile(program)):
        y = call(torch.ones(3, requires_grad=True))
        y.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_load_state_dict_tells_everything_that_does_not_fit():
    class Small(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first, self.second = nn.Linear(3, width), nn.Linear(width, 1)

        def forward(self, x):
            return self.second(self.first(x))

    state = Small(4).state_dict()
    state["third.weight"] = state.pop("second.bias")
    for model in (Small(5), torch.compile(Small(5))):
        before = [p.clone() for p in model.parameters()]
        with pytest.raises(RuntimeError) as caught:
            model.load_state_dict(state)
        text = str(caught.value)
        assert "Missing key(s)" in text and "second.bias" in text and "Unexpected key(s)" in text and "third.weight" in text
        assert "size mismatch for first.weight" in text and "[4, 3]" in text and "[5, 3]" in text
        assert [p.tolist() for p in before][1] == list(model.parameters())[1].tolist()


# -- compile


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (dict(backend="inducto"), ValueError, "unknown backend 'inducto'; backends are: .*inductor"),
        (dict(backend=7), TypeError, "backend must be a name or a callable"),
        (dict(mode="fastest"), ValueError, "unknown mode 'fastest'; modes are: default"),
        (dict(options={"verfy": True}), ValueError, "unknown option 'verfy'; options are: verify"),
        (dict(options={"verify": "yes"}), TypeError, "verify.*bool.*'yes'"),
        (dict(dynamic="maybe"), TypeError, "dynamic takes True or False, not 'maybe'"),
        (dict(fullgraf=True), TypeError, "fullgraf"),
    ],
)
def test_wrong_settings_of_compile(arguments, error, text):
    with pytest.raises(error, match=text):
        torch.compile(lambda: 1, **arguments)


@pytest.mark.parametrize(
    "thing, text", [(3, "int"), ("f", "str"), (None, "NoneType"), (torch.ones(2), "Tensor"), (nn.Linear, "class Linear")]
)
def test_what_cannot_be_compiled(thing, text):
    if thing is None:
        assert callable(torch.compile(thing))  # the decorator form
        with pytest.raises(TypeError, match="int"):
            torch.compile(thing)(3)
        return
    with pytest.raises(TypeError, match=f"takes a callable.*{text}"):
        torch.compile(thing)


def test_wrong_arguments_of_a_compiled_function():
    def program(x, scale, *, bias=0.0):
        return x * scale + bias

    compiled = torch.compile(program)
    compiled(a(), 2.0)
    for arguments, names in (((), {}), ((a(),), {}), ((a(), 1, 2), {}), ((a(), 1), {"bia": 2}), ((a(), 1), {"scale": 2})):
        with pytest.raises(TypeError) as wanted:
            program(*arguments, **names)
        with pytest.raises(TypeError) as caught:
            compiled(*arguments, **names)
        assert str(caught.value) == str(wanted.value)


def test_a_backend_that_fails():
    """fullgraph raises its error; otherwise eager runs, told and counted."""

    def broken(graph, example_inputs):
        raise ZeroDivisionError("of this backend")

    compiler.reset()
    with pytest.warns(RuntimeWarning, match="could not compile.*runs it eagerly"):
        assert torch.compile(lambda x: x + 1, backend=broken)(a()).tolist() == (a() + 1).tolist()
    assert compiler.counters()["fallbacks"] == {"internal error": 1}
    with pytest.raises(ZeroDivisionError, match="of this backend"):
        torch.compile(lambda x: x + 1, backend=broken, fullgraph=True)(a())


# -- index errors inside compiled functions


def lookup(table, index, counter):
    counter.add_(1.0)
    noise = torch.rand(4)
    return F.embedding(index, table) + noise.sum() + counter


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["loops", pytest.param("inductor", marks=needs_compiler)])
def test_index_out_of_range_in_compiled_code(backend, dynamic):
    """Eager's error, from eager's state: the arguments as eager leaves them and the generator where eager leaves it."""
    table = torch.arange(12.0).reshape(4, 3)
    good, bad, negative = torch.tensor([0, 3, 1]), torch.tensor([0, 4, 1]), torch.tensor([-1, 0, 0])
    compiler.reset()
    compiled = torch.compile(lookup, backend=backend, dynamic=dynamic)
    seen = {}
    for name, call in (("eager", lookup), ("compiled", compiled)):
        counter = torch.zeros(3)
        torch.manual_seed(5)
        first = call(table, good, counter)
        errors = []
        for index in (bad, negative):
            with pytest.raises(IndexError) as caught:
                call(table, index, counter)
            errors.append(str(caught.value))
        last = call(table, good, counter)
        seen[name] = (first.tolist(), errors, last.tolist(), counter.tolist(), torch.get_rng_state().tolist())
    assert seen["compiled"] == seen["eager"]
    counted = compiler.counters()
    assert counted["graphs"] >= 1 and (counted["breaks"], counted["fallbacks"]) == ({}, {})
    assert table.tolist() == torch.arange(12.0).reshape(4, 3).tolist()


def test_index_out_of_range_before_anything_is_written():
    """Where the bad index comes first, the arguments and the generator are as before the call."""

    def program(x, index):
        row = x[index]
        x.mul_(2.0)
        return row + torch.rand(3)

    compiled = torch.compile(program)
    x, good = torch.ones(4, 3), torch.tensor([1])
    compiled(x, good)
    torch.manual_seed(9)
    before, version, state = x.tolist(), x._version, torch.get_rng_state().tolist()
    for bad in ([4], [-5]):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor(bad))
        assert (x.tolist(), x._version, torch.get_rng_state().tolist()) == (before, version, state)
    assert compiled(x, torch.tensor([-1])).shape == (1, 3) and x.tolist() == (torch.full((4, 3), 4.0)).tolist()


# -- settings


def python(code, expect=0, **environment):
    """Run a program in a process of its own; its output."""
    given = {k: v for k, v in os.environ.items() if not k.startswith("FLAMBEAU_")} | environment
    command = [sys.executable, "-W", "always::RuntimeWarning", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == expect, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "variable, value, text",
    [
        ("THREADS", "many", "expected|invalid literal"),
        ("THREADS", "0", "positive"),
        ("THREADS", "-2", "positive"),
        ("ISA", "sse9", "avx2"),
        ("VERIFY", "perhaps", "expected 1 or 0"),
        ("RECOMPILE_LIMIT", "-1", "positive"),
        ("SLOW_COMPILE_SECONDS", "soon", "float"),
        ("LOGS", "kernles", "channels are: .*kernels"),
    ],
)
def test_settings_that_make_no_sense(variable, value, text):
    said = python("import flambeau", expect=1, **{f"FLAMBEAU_{variable}": value})
    assert re.search(f"ValueError: FLAMBEAU_{variable}.*{value}.*", said) and re.search(text, said)


def test_a_variable_that_sets_nothing():
    said = python("import flambeau; print('goes on')", FLAMBEAU_THREDS="2")
    assert "RuntimeWarning: FLAMBEAU_THREDS sets nothing: is FLAMBEAU_THREADS meant?" in said and "goes on" in said
    assert "Warning" not in python("import flambeau", FLAMBEAU_THREADS="1")


def test_names_of_settings():
    for use in (lambda: config.theads, lambda: setattr(config, "theads", 1), lambda: config.patch(theads=1).__enter__()):
        with pytest.raises(AttributeError, match="no setting 'theads'; settings are: .*threads"):
            use()
    assert all(hasattr(config, name) for name in FIELDS)


def test_vector_instructions_that_the_processor_lacks(monkeypatch):
    monkeypatch.setattr(toolchain, "_detected_isa", lambda: "avx2")
    toolchain._tell_missing_isa.cache_clear()
    with config.patch(isa="avx512"):
        with pytest.warns(RuntimeWarning, match="cannot run avx512 code.*avx2 is generated"):
            assert toolchain.isa() == "avx2"
        assert toolchain.isa() == "avx2"  # told once
    with config.patch(isa="baseline"):
        assert toolchain.isa() == "baseline"
    toolchain._tell_missing_isa.cache_clear()


# -- machines

PROGRAM = """
    import flambeau as torch
    from flambeau import compiler
    def program(x, w):
        return torch.nn.functional.gelu(x @ w).sum(1)
    torch.manual_seed(1)
    x, w = torch.randn(5, 4), torch.randn(4, 3, requires_grad=True)
    compiled = torch.compile(program)
    for _ in range(2):
        w.grad = None
        y = compiled(x, w)
        y.sum().backward()
    got, grad, w.grad = y.tolist(), w.grad.tolist(), None
    z = program(x, w)
    z.sum().backward()
    near = lambda p, q: torch.allclose(torch.tensor(p), torch.tensor(q), atol=1e-5)
    assert near(got, z.tolist()) and near(grad, w.grad.tolist())
    @torch.compile
    def another(x):
        return (x * 2 - 1).exp()
    another(x)
    seen = compiler.counters()
    print("COUNTED", seen["graphs"], seen["kernels"] > 0, seen["fallbacks"])
"""


def test_a_machine_without_compiler(tmp_path):
    """The loop interpreter serves, told once and counted per graph."""
    said = python(PROGRAM, PATH=str(tmp_path), CXX="", FLAMBEAU_CACHE_DIR=str(tmp_path / "cache"))
    assert said.count("RuntimeWarning") == 1 and "no C++ compiler was found" in said
    assert "COUNTED 2 False {'no C++ compiler': 3}" in said


def test_a_compiler_that_fails(tmp_path):
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'this compiler is ill' >&2\nexit 3\n")
    broken.chmod(0o755)
    said = python(PROGRAM, CXX=str(broken), FLAMBEAU_CACHE_DIR=str(tmp_path / "cache"))
    assert said.count("RuntimeWarning") == 1 and "this compiler is ill" in said and "exited with 3" in said
    assert "COUNTED 2 False {'C++ compiler failed': 3}" in said
    strict = python(PROGRAM, expect=1, CXX=str(broken), FLAMBEAU_CACHE_DIR=str(tmp_path / "cache"), FLAMBEAU_STRICT="1")
    assert "CompilerError" in strict and "generated code (kept as" in strict


@needs_compiler
def test_a_cache_folder_that_cannot_be_written(tmp_path):
    """Not a folder, or in a place where nobody may make one: a private temporary folder serves."""
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below", "/proc/flambeau"):
        said = python(PROGRAM, FLAMBEAU_CACHE_DIR=str(place))
        assert said.count("RuntimeWarning") == 1 and f"the cache folder {place} is not used: it cannot be" in said
        assert "COUNTED 2 True {}" in said


@needs_compiler
@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_read_only_cache_folder(tmp_path):
    tmp_path.chmod(0o500)
    said = python(PROGRAM, FLAMBEAU_CACHE_DIR=str(tmp_path))
    tmp_path.chmod(0o700)
    assert said.count("RuntimeWarning") == 1 and "it cannot be written to" in said and "COUNTED 2 True {}" in said


@needs_compiler
def test_a_cache_folder_that_turns_read_only(tmp_path, monkeypatch):
    """Making the file fails, whoever runs this: the artefact goes to a temporary folder."""

    def refuse(path, data):
        if path.startswith(str(tmp_path)):
            raise OSError(30, "Read-only file system")
        return kept(path, data)

    kept = artifact_store.write_atomically
    monkeypatch.setattr(artifact_store, "write_atomically", refuse)
    with config.patch(cache_dir=str(tmp_path / "cache")):
        with pytest.warns(RuntimeWarning, match="could not be written: Read-only file system"):
            where = artifact_store.put("ab" * 20, ".so", b"text")
    artifact_store.forget()
    assert not where.startswith(str(tmp_path)) and open(where, "rb").read().startswith(b"text")


@needs_compiler
def test_a_cache_folder_that_others_may_write_to(tmp_path):
    tmp_path.chmod(0o777)
    said = python(PROGRAM, FLAMBEAU_CACHE_DIR=str(tmp_path))
    assert said.count("RuntimeWarning") == 1 and "others have access to it (mode 777); chmod 700 makes it usable" in said
    assert "COUNTED 2 True {}" in said and not any(tmp_path.iterdir())


@needs_compiler
@pytest.mark.parametrize("damage", ["truncated", "emptied", "changed"])
def test_a_damaged_shared_object_is_built_again(tmp_path, damage):
    folder = tmp_path / "cache"
    python(PROGRAM, FLAMBEAU_CACHE_DIR=str(folder))
    stored = sorted(folder.rglob("*.so"))
    whole = [path.read_bytes() for path in stored]
    assert len(stored) == 3
    for path, data in zip(stored, whole):
        half = len(data) // 2
        path.write_bytes(
            {
                "truncated": data[:half],
                "emptied": b"",
                "changed": data[:half] + bytes(255 - byte for byte in data[half : half + 64]) + data[half + 64 :],
            }[damage]
        )
    said = python(PROGRAM, FLAMBEAU_CACHE_DIR=str(folder), FLAMBEAU_LOGS="cache")
    assert "COUNTED 2 True {}" in said and said.count("refused") == said.count("built") == 3
    assert all(
        artifact_store.seal(path.name, path.read_bytes()[: -artifact_store.SEAL]) == path.read_bytes()[-artifact_store.SEAL :]
        for path in stored
    )
    assert python(PROGRAM, FLAMBEAU_CACHE_DIR=str(folder), FLAMBEAU_LOGS="cache").count("found") == 3


def test_a_dump_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    said = python(PROGRAM, FLAMBEAU_DUMP=str(tmp_path / "file" / "dump"))
    assert said.count("RuntimeWarning") == 1 and "nothing is dumped to" in said and "COUNTED 2" in said


def test_a_python_whose_frames_are_not_known():
    """No extension for this Python: the face imports, compile gives the function back and says so once."""
    said = python("""
        import sys
        sys.modules["flambeau.capture._capture"] = None          # what a Python without the extension meets
        import flambeau as torch
        from flambeau import compiler
        def program(x):
            return x * 2 + 1
        compiled = torch.compile(program)
        assert compiled is program and compiled(torch.ones(2)).tolist() == [3.0, 3.0]
        model = torch.nn.Linear(2, 2)
        assert torch.compile(model)(torch.ones(2)).tolist() == model(torch.ones(2)).tolist()
        assert torch.compile(fullgraph=True)(program) is program
        assert not compiler.is_compiling() and compiler.disable(program)(torch.ones(1)).tolist() == [3.0]
        x = torch.ones(2, requires_grad=True)
        program(x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
        compiler.reset()
        print("COUNTED", compiler.counters()["graphs"], sorted(compiler.list_backends())[:1])
        """)
    assert said.count("RuntimeWarning") == 1 and "does not compile on Python" in said and "COUNTED 0 ['aot_eager']" in said


def test_version_branches_stand_in_one_place():
    """What a Python version changes is decided in capture/bytecode/opcodes.py and in the extension."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(torch.compile.__code__.co_filename)))
    found = []
    for folder in ("runtime", "eager", "capture", "inductor"):
        for path, _, names in os.walk(os.path.join(root, folder)):
            found += [
                os.path.join(path, n) for n in names if n.endswith(".py") and "version_info" in open(os.path.join(path, n)).read()
            ]
    assert {os.path.relpath(path, root) for path in found} <= {os.path.join("capture", "bytecode", "opcodes.py")}
