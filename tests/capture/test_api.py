"""The public face: compile and its arguments, modules, limits, learning of sizes, disable, reset, explain, pickling."""

import copy
import functools
import pickle
import sys
import types
import warnings

import numpy as np
import pytest


from flambeau.capture.frontend import backends, compiler
from flambeau.capture.frontend import api as compiling
from flambeau.capture import state
from flambeau.capture.frontend.module import doors_of
from flambeau.capture.state import native
from flambeau.eager import dtypes, nn
from flambeau.eager.tensor import Tensor
from flambeau.runtime import counters
from flambeau.runtime.config import config
from flambeau.runtime.errors import Unsupported

if "api-test" not in backends.list_backends():
    backends.register("api-test", lambda graph, example_inputs: graph)


def tensor(*shape):
    return Tensor._fl_from_array(np.zeros(shape, np.float32), dtypes.float32)


class Converter:
    """Replaces the constant "plain" by "compiled", guards all arguments, and notes its settings."""

    def __init__(self):
        self.settings, self.names = [], []

    def __call__(self, code, globals, builtins, closure, slots, settings, cache):
        self.settings.append(settings)
        self.names.append(code.co_name)
        tree = native.GuardTree()
        for name, value in slots.items():
            self.guard(tree.child("arg", name), name, value, settings.symbolic)
        consts = tuple("compiled" if c == "plain" else c for c in code.co_consts)
        return native.Entry(tree, code.replace(co_consts=consts))

    def guard(self, node, name, value, symbolic):
        if isinstance(value, Tensor):
            sizes = tuple(None if d in symbolic.get(name, ()) else n for d, n in enumerate(value.shape))
            node.check("tensor", dict(type=type(value), dtype=value.dtype, device=value.device, sizes=sizes))
        elif isinstance(value, (int, float)):
            if symbolic.get(name) is True:
                node.check("type_is", type(value))
            else:
                node.check("equals", value)
        else:
            node.check("type_is", type(value))


def compile_with(f, converter=None, **arguments):
    how = dict(fullgraph=False, dynamic=None, backend="api-test", mode=None, options=None) | arguments
    return compiling.compile_callable(f, compiling.make_settings(**how), converter or Converter())


@pytest.fixture(autouse=True)
def fresh():
    counters.reset()


# -- arguments


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (dict(backend="nope"), ValueError, "unknown backend 'nope'; backends are: .*api-test"),
        (dict(backend=3), TypeError, "callable"),
        (dict(mode="fast"), ValueError, "unknown mode 'fast'; modes are: default"),
        (dict(options={"speed": 1}), ValueError, "unknown option 'speed'; options are: verify"),
        (dict(options={"verify": 1}), TypeError, "verify.*bool"),
        (dict(mode="default", options={"verify": True}), ValueError, "not both"),
        (dict(dynamic=3), TypeError, "dynamic"),
        (dict(fullgraph=None), TypeError, "fullgraph"),
    ],
)
def test_wrong_arguments_are_told(arguments, error, text):
    with pytest.raises(error, match=text):
        compiler.compile(lambda: 1, **arguments)
    with pytest.raises(error, match=text):
        compiler.compile(**arguments)  # the decorator form too, before it is applied


def test_what_cannot_be_compiled_is_told():
    with pytest.raises(TypeError, match="takes a callable"):
        compiler.compile(3)
    with pytest.raises(TypeError, match="class Linear"):
        compiler.compile(nn.Linear)


def test_backend_registry():
    with pytest.raises(ValueError, match="registered already"):
        backends.register("api-test", print)
    with pytest.raises(TypeError):
        backends.register("api-bad", "no colon")
    backends._backends.pop("api-lazy", None)
    backends.register("api-lazy", "flambeau.capture.frontend.backends:list_backends")
    assert "api-lazy" in compiler.list_backends()
    assert backends.lookup("api-lazy")[1] is backends.list_backends
    backends._backends.pop("api-lazy")


# -- functions


def test_functions_decorators_and_names():
    @functools.partial(compile_with)
    def add(a, *, b: int = 2):
        """Adds."""
        return "plain", a + b

    assert add(1) == ("compiled", 3) and add(1, b=5) == ("compiled", 6)
    assert (add.__name__, add.__doc__, add.__module__, add.__wrapped__(1)) == ("add", "Adds.", __name__, ("plain", 3))
    assert compiler.compile(disable=True)(test_wrong_arguments_are_told) is test_wrong_arguments_are_told
    again = compile_with(add)
    assert again.function is add.function and again.cache is not add.cache


def test_methods_partials_callable_objects_and_builtins():
    class C:
        def __init__(self, n):
            self.n = n

        def method(self, a):
            return "plain", self.n + a

        def __call__(self, a):
            return "plain", self.n * a

    c = C(10)
    assert compile_with(c.method)(1) == ("compiled", 11)
    assert compile_with(functools.partial(c.method, 2))() == ("compiled", 12)
    assert compile_with(c)(3) == ("compiled", 30)
    converter = Converter()
    assert compile_with(len, converter)([1, 2]) == 2 and len(converter.names) == 1


def test_generators_run_plain_and_are_counted():
    def generate(n):
        yield from range(n)

    async def later():
        return 3

    converter = Converter()
    assert list(compile_with(generate, converter)(3)) == [0, 1, 2]
    with pytest.raises(StopIteration, match="3"):
        compile_with(later, converter)().send(None)
    assert not converter.names and counters.snapshot()["breaks"] == {"generator frame": 2}


def test_nested_compiled_functions():
    converter = Converter()
    inner = compile_with(lambda a: ("plain", a), converter)
    outer = compile_with(lambda a: ("plain", inner(a)), converter)
    assert outer(1) == outer(1) == ("compiled", ("compiled", 1)) and len(converter.names) == 2


# -- failures


def failing(error):
    def convert(*args):
        raise error

    return convert


def test_unsupported_is_a_counted_break_or_an_error():
    f = compile_with(lambda: "plain", failing(Unsupported("print", "a print", "move it")))
    assert f() == f() == "plain" and f.plain
    assert counters.snapshot()["breaks"] == {"print": 1}
    with pytest.raises(Unsupported, match="move it"):
        compile_with(lambda: "plain", failing(Unsupported("print", "a print", "move it")), fullgraph=True)()


def test_errors_of_the_compiler_are_told_and_run_plain():
    f = compile_with(lambda: "plain", failing(ZeroDivisionError("oops")))
    with pytest.warns(RuntimeWarning, match="oops"):
        assert f() == "plain"
    assert f() == "plain" and counters.snapshot()["fallbacks"] == {"internal error": 1}
    with config.patch(strict=True), pytest.raises(ZeroDivisionError):
        compile_with(lambda: "plain", failing(ZeroDivisionError("oops")))()
    with pytest.raises(ZeroDivisionError):
        compile_with(lambda: "plain", failing(ZeroDivisionError("oops")), fullgraph=True)()


def test_guards_that_do_not_hold_at_once_are_an_internal_error():
    def convert(code, globals, builtins, closure, slots, settings, cache):
        tree = native.GuardTree()
        tree.child("arg", "a").check("equals", 7)
        return native.Entry(tree, code)

    with config.patch(strict=True), pytest.raises(compiling.InternalError, match="a: int: expected 7, is 1"):
        compile_with(lambda a: a, convert)(1)


def test_slow_compilations_are_told(capsys):
    with config.patch(slow_compile_seconds=0.0):
        compile_with(lambda: "plain")()
    assert "took" in capsys.readouterr().err
    compile_with(lambda: "plain")()
    assert capsys.readouterr().err == ""
    assert counters.snapshot()["compile_seconds"] > 0


# -- recompiles


def test_second_size_becomes_symbolic():
    converter = Converter()
    f = compile_with(lambda x, n: ("plain", x.shape), converter)
    for rows in (3, 4, 5, 6):
        assert f(tensor(rows, 2), 1) == ("compiled", (rows, 2))
    assert [s.symbolic for s in converter.settings] == [{}, {"x": {0}}]
    f(tensor(3, 2), 2)
    assert converter.settings[-1].symbolic == {"x": {0}, "n": True}
    f(tensor(9, 2), 77)
    f(tensor(9, 5), 78)
    assert converter.settings[-1].symbolic == {"x": {0, 1}, "n": True} and len(f.entries) == 4
    assert counters.snapshot()["recompiles"] == 3 and counters.snapshot()["frames"] == 4


def test_other_changes_teach_nothing_about_sizes():
    converter = Converter()
    f = compile_with(lambda x: ("plain", 0), converter)
    f(tensor(3)), f(tensor(4, 4)), f("a")
    assert [s.symbolic for s in converter.settings] == [{}, {}, {}]
    static = Converter()
    g = compile_with(lambda x: ("plain", 0), static, dynamic=False)
    g(tensor(3)), g(tensor(4)), g(tensor(5))
    assert [s.symbolic for s in static.settings] == [{}, {}, {}]


def test_recompile_limit_names_what_kept_changing():
    f = compile_with(lambda x: ("plain", x), dynamic=False)
    with config.patch(recompile_limit=3):
        assert [f(n)[0] for n in range(3)] == ["compiled"] * 3
        with pytest.warns(RuntimeWarning, match=r"compiled 3 times.*int of x \(3 times\)"):
            assert f(3) == ("plain", 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert f(4) == ("plain", 4) and f(1) == ("compiled", 1)
    assert counters.snapshot()["fallbacks"] == {"recompile limit": 1} and f.plain == "recompile limit"


def test_log_of_recompiles(capsys):
    with config.patch(logs=("recompiles",)):
        f = compile_with(lambda x, y: ("plain", 0))
        f(tensor(3), 1), f(tensor(4), 2.5)
    text = capsys.readouterr().err
    assert "size of x in dimension 0: was 3, is 4" in text and "value of y: was 1, is 2.5" in text


def test_marks_on_tensors():
    x = tensor(3, 4)
    compiler.mark_dynamic(x, -1)
    compiler.mark_dynamic(x, 0, min=2, max=9)
    assert state.dynamic_marks(x) == {1: True, 0: (2, 9)}
    compiler.mark_static(x)
    assert state.dynamic_marks(x) == {0: False, 1: False} and state.dynamic_marks(tensor(2)) == {}
    with pytest.raises(IndexError, match="out of range"):
        compiler.mark_dynamic(x, 2)


# -- disable, is_compiling, reset


def test_is_compiling_and_disable():
    seen = []
    inner = compile_with(lambda: "plain")

    def convert(*args):
        seen.append((compiler.is_compiling(), inner()))

    @compiler.disable(reason="because")
    def left(a):
        return "plain", native.mode(), a

    assert compile_with(lambda: left(1), convert)() == ("plain", "off", 1)
    assert seen == [(True, "plain")] and not compiler.is_compiling() and inner() == "compiled"
    assert left.__name__ == "left" and compiler.disable(left)(2)[0] == "plain" and compile_with(left) is left
    with pytest.raises(TypeError):
        compiler.disable(3)


def test_disable_without_recursion_leaves_nested_calls():
    def nested(x):
        return "plain"

    @compiler.disable(recursive=False)
    def left():
        return "plain", nested(tensor(2))

    def convert(code, *args):
        return None if code.co_name == "<lambda>" else Converter()(code, *args)

    assert compile_with(lambda: left(), convert)() == ("plain", "compiled")


def test_library_code_is_not_captured_by_the_hook():
    def nested(x=tensor(2)):
        return "plain"

    met = []

    def convert(code, *args):
        met.append(code.co_name)
        return None if code.co_name == "outer" else Converter()(code, *args)

    def outer():
        return [f() for f in copy.copy([nested])], functools.reduce(lambda a, b: a, ["plain"]), nested()

    result = compile_with(outer, convert)()
    assert result[2] == "compiled" and not {"copy", "_copy_list"} & set(met) and "nested" in met


def test_whose_code_is_captured():
    made = compile("def f(): pass", "<string>", "exec").co_consts[0]
    assert state.uncapturable(made, {"__file__": __file__}) == state.uncapturable(made, {}) == "generated code"
    assert state.uncapturable(made, {"__name__": "__main__"}) is None
    assert state.uncapturable(test_reset_forgets.__code__, {}) is state.uncapturable(nn.Linear.forward.__code__, {}) is None
    assert state.uncapturable(functools.wraps.__code__, {}) == "standard library"
    assert state.uncapturable(np.array_equal.__wrapped__.__code__, {}) == "installed library"
    assert state.uncapturable(counters.add.__code__, {}) == "part of flambeau"


def test_reset_forgets():
    converter = Converter()
    f, generator = compile_with(lambda: "plain", converter), compile_with(lambda: (yield), converter)
    f(), f()
    compiler.reset()
    assert f.entries == () and counters.snapshot()["frames"] == 0 and generator.plain == "generator"
    assert f() == "compiled" and len(converter.names) == 2


def test_without_the_extension_everything_is_eager():
    compiling._warn_unsupported_python.cache_clear()
    with state.without_native(), pytest.warns(RuntimeWarning, match="does not compile on Python"):
        f = compiler.compile(test_reset_forgets)
        assert f is test_reset_forgets and not compiler.is_compiling() and compiler.disable(lambda: 3)() == 3
    compiling._warn_unsupported_python.cache_clear()


# -- modules


class Net(nn.Module):
    def __init__(self, note="a"):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.note = note
        self.calls = 0

    def forward(self, x, scale=1):
        self.calls += 1
        return "plain", self.note, self.double(scale)

    def double(self, n):
        return 2 * n

    @property
    def title(self):
        return f"title {self.note}"


def test_compiled_module_is_the_module():
    net = Net()
    compiled = compile_with(net)
    assert isinstance(compiled, Net) and compiled is not net and compiled._orig_mod is net
    assert compiled(tensor(1, 3), scale=4) == ("compiled", "a", 8)
    assert list(compiled.state_dict()) == list(net.state_dict()) == ["layer.weight", "layer.bias"]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    assert compiled.title == "title a" and compiled.double(3) == 6 and compiled.calls == net.calls == 1
    compiled.note = "b"
    assert net.note == "b" and compiled(None)[1] == "b"
    net.extra = nn.Linear(1, 1)
    assert "extra.weight" in compiled.state_dict()
    del compiled.extra
    assert not hasattr(net, "extra")
    compiled.eval()
    assert not net.training and not net.layer.training
    assert repr(compiled) == repr(net) and type(compiled).__name__ == "Net"


def test_compiled_module_loads_prefixed_keys():
    net = Net()
    compiled = compile_with(net)
    kept = {key: tensor(*value.shape) for key, value in net.state_dict().items()}
    compiled.load_state_dict({f"_orig_mod.{key}": value for key, value in kept.items()})
    assert not net.layer.weight.detach().numpy().any()
    compiled.load_state_dict(kept)


def test_hooks_of_compiled_modules_run():
    net, seen = Net(), []
    compiled = compile_with(net)
    handle = compiled.register_forward_hook(lambda module, args, result: seen.append(result))
    assert compiled(1)[0] == "compiled" and len(seen) == 1
    handle.remove()
    compiled(1)
    assert len(seen) == 1


def test_compiled_module_as_part_of_another():
    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    net = Net()
    outer = Outer(compile_with(net))
    assert outer(1)[0] == "compiled" and list(outer.state_dict()) == ["inner.layer.weight", "inner.layer.bias"]
    outer.train(False)
    assert not net.training


def test_copies_and_pickles_of_compiled_modules():
    compiled = compiler.compile(Net("c"), backend="api-test", dynamic=False)
    deep = copy.deepcopy(compiled)
    assert type(deep) is type(compiled) and deep._orig_mod is not compiled._orig_mod and deep.note == "c"
    assert deep.layer.weight is not compiled.layer.weight and doors_of(deep) is not doors_of(compiled)
    sys.modules.setdefault(__name__, types.ModuleType(__name__)).__dict__["Net"] = Net
    loaded = pickle.loads(pickle.dumps(compiled))
    assert type(loaded) is type(compiled) and list(loaded.state_dict()) == list(compiled.state_dict())
    assert doors_of(loaded).settings.dynamic is False and doors_of(loaded).settings.backend_given == "api-test"
    shallow = copy.copy(compiled)
    assert shallow.layer is compiled.layer and shallow._orig_mod is not compiled._orig_mod


def test_compile_in_place_and_own_forward():
    net = Net()
    net.forward = lambda x: ("plain", x)
    assert compile_with(net)(1) == ("compiled", 1)
    other = Net()
    other.compile(backend="api-test", disable=True)
    assert other(1)[0] == "plain"


def test_functions_are_pickled_like_functions():
    f = compiler.compile(module_level, backend="api-test", dynamic=True)
    again = pickle.loads(pickle.dumps(f))
    assert again is not f and again.function is module_level and again.cache.settings.dynamic is True
    assert copy.deepcopy(f) is f and copy.copy(f) is f
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def module_level(x):
    return x


@compiler.compile(backend="api-test")
def decorated(x):
    return x


# tests are not importable by name: pickling needs them to be
sys.modules.setdefault(__name__, types.ModuleType(__name__)).__dict__.update(module_level=module_level, decorated=decorated)
