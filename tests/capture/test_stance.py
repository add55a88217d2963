"""set_stance and error_on_recompile: what compiled functions do where no entry fits."""

import flambeau as fb
import pytest
from flambeau.capture import dynamo
from flambeau.capture.frontend import stance
from flambeau.capture.dynamo import config as dynamo_config
from flambeau.runtime import counters
from flambeau.runtime.config import config
from flambeau.runtime.errors import RecompileError


@pytest.fixture(autouse=True)
def default_again():
    yield
    stance._take(stance.Stance())


def graphs():
    return counters.snapshot()["graphs"]


def compiled():
    return fb.compile(lambda x, n=2: x * n, backend="eager")


X, Y = fb.ones(3), fb.ones(2, 3)


def test_force_eager_runs_the_original():
    f = compiled()
    f(X)
    before = graphs()
    with fb.compiler.set_stance("force_eager"):
        assert f(X).tolist() == [2.0] * 3 and f(Y).shape == (2, 3)
        model = fb.compile(fb.nn.Linear(3, 1), backend="eager")
        model(X)
    assert graphs() == before
    f(Y)
    assert graphs() == before + 1


def test_force_eager_behind_a_break():
    @fb.compile(backend="eager")
    def f(x, switch):
        x = x + 1
        switch()
        return x * 2

    assert f(X, lambda: None).tolist() == [4.0] * 3
    assert f(X, lambda: fb.compiler.set_stance("force_eager")).tolist() == [4.0] * 3
    assert f(X, lambda: fb.compiler.set_stance()).tolist() == [4.0] * 3


def test_eager_on_recompile_uses_what_there_is():
    f = compiled()
    f(X)
    before, door = graphs(), f
    hits = door.hits
    with fb.compiler.set_stance("eager_on_recompile"):
        assert f(X).tolist() == [2.0] * 3 and door.hits == hits + 1
        assert f(Y).shape == (2, 3) and graphs() == before
    f(Y)
    assert graphs() == before + 1 and f.plain is None


def test_fail_on_recompile_names_the_guards():
    f = compiled()
    with fb.compiler.set_stance("fail_on_recompile"), pytest.raises(RecompileError, match="fail_on_recompile"):
        f(X)
    f(X)
    with fb.compiler.set_stance("fail_on_recompile"):
        f(X)
        with pytest.raises(RecompileError, match=r"rank of x: was 1, is 2.*test_stance.py:\d+"):
            f(Y)
    assert f(Y).shape == (2, 3)


def test_eager_then_compile_learns_what_changes():
    f = compiled()
    before = graphs()
    with fb.compiler.set_stance("eager_then_compile"):
        assert f(X).tolist() == [2.0] * 3 and graphs() == before
        for n in range(4, 10):
            assert f(fb.ones(n), n).tolist() == [float(n)] * n
    assert graphs() == before + 1


def test_as_decorator_and_nested():
    f = compiled()

    @fb.compiler.set_stance("force_eager")
    def plain():
        assert stance.current.name == "force_eager"
        return f(X)

    assert stance.current.name == "default"
    before = graphs()
    plain()
    assert graphs() == before and stance.current.name == "default"
    with fb.compiler.set_stance("eager_on_recompile"):
        with fb.compiler.set_stance("force_eager"):
            assert stance.current.name == "force_eager"
        assert stance.current.name == "eager_on_recompile"
    fb.compiler.set_stance("force_eager")
    assert stance.current.name == "force_eager"


def test_force_backend():
    seen = []

    def backend(graph, inputs):
        seen.append(len(inputs))
        return lambda x: [x * 2]

    f = compiled()
    with fb.compiler.set_stance(force_backend=backend):
        assert f(X).tolist() == [2.0] * 3
    assert seen == [1]


@pytest.mark.parametrize("arguments", [dict(stance="nowhere"), dict(stance="force_eager", force_backend="eager")])
def test_wrong_stances(arguments):
    with pytest.raises(RuntimeError):
        fb.compiler.set_stance(**arguments)
    assert stance.current.name == "default"


def test_error_on_recompile():
    f = compiled()
    with config.patch(error_on_recompile=True):
        f(X)
        with pytest.raises(RecompileError, match=r"error_on_recompile.*compiled again\n.*entry 0:\n.*int of n: was 2, is 3"):
            f(X, 3)
    assert f(X, 3).tolist() == [3.0] * 3


def test_settings_under_the_names_of_torch():
    assert dynamo_config.cache_size_limit == config.recompile_limit
    with dynamo_config.patch(error_on_recompile=True), dynamo_config.patch("cache_size_limit", 3):
        assert config.error_on_recompile and config.recompile_limit == 3
    assert not config.error_on_recompile and config.recompile_limit == 8
    assert dynamo.config is dynamo_config
    with pytest.raises(AttributeError):
        dynamo_config.no_such_setting


def test_the_report_tells_old_and_new_value_of_every_guard():
    def f(x, n, mode):
        if mode == "wide":
            return x * n
        return x.sum() + (1 if n > 1.5 else 2)

    g = fb.compile(f, backend="eager")
    g(X, 2.0, "a")
    with config.patch(error_on_recompile=True), pytest.raises(RecompileError) as told:
        g(fb.ones(4, dtype=fb.float64), 1.0, "wide")
    text = str(told.value)
    assert "dtype of x: was torch.float32, is torch.float64" in text and "size of x in dimension 0: was 3, is 4" in text
    assert "value of mode: was 'a', is 'wide'" in text and "n passes value > 1.5: no longer holds, is 1.0" in text
    assert text.count("test_stance.py:") >= 4
