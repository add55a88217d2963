"""The frame hook swaps code in place: over every kind of frame that a nested call may have."""

import asyncio
import gc
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import traceback
import weakref

import pytest

from .doors_support import Recorder, hooked

from flambeau.capture import _capture as native
from flambeau.runtime.errors import CheckFailed


def only(*names):
    return Recorder(wanted=lambda code: code.co_name in names)


def door_of(cache, name):
    return next(door for door in cache.doors if door.code.co_name == name)


def run(function, *args, cache=None, **kwargs):
    """Twice: the call that compiles and the call that hits must agree."""
    cache = cache or Recorder()
    first, _ = hooked(function, *args, cache=cache, **kwargs)
    second, _ = hooked(function, *args, cache=cache, **kwargs)
    return first, second, cache


def test_nothing_is_installed_outside_of_a_scope():
    assert not native.installed() and native.hooked() == 0 and native.mode() == "off"
    seen = []
    hooked(lambda: seen.append((native.installed(), native.mode(), native.hooked())), cache=only())
    assert seen == [(True, "running", 1)]
    assert not native.installed() and native.hooked() == 0


def test_all_kinds_of_arguments():
    def target(a, b=2, /, c=3, *args, k, m=5, **kw):
        return "old", a, b, c, args, k, m, kw

    def caller():
        return [target(1, k=4), target(1, 2, 3, 4, 5, k=6, m=7, z=8)]

    first, second, cache = run(caller, cache=only("target"))
    expected = [("new", 1, 2, 3, (), 4, 5, {}), ("new", 1, 2, 3, (4, 5), 6, 7, {"z": 8})]
    assert first == second == expected
    assert cache.asked == [("frame", "target", {"a": 1, "b": 2, "c": 3, "k": 4, "m": 5, "args": (), "kw": {}})]


def test_closures_and_nonlocal():
    def outer(v):
        w = 10

        def target(a):
            nonlocal w
            w += a

            def inner():
                return a + v + w

            return "old", inner()

        return target

    def caller():
        t = outer(1)
        return t(2), t(3)

    first, second, _ = run(caller, cache=only("target"))
    assert first == second == (("new", 15), ("new", 19))


def test_super_and_class_cell():
    class A:
        def m(self):
            return "A"

    class B(A):
        def m(self):
            return "old" + super().m() + __class__.__name__

    first, second, _ = run(lambda: B().m(), cache=only("m"))
    assert first == second == "newAB"


def test_exceptions_have_right_traceback_lines_and_context():
    def target():
        try:
            1 / 0
        except ZeroDivisionError:
            raise KeyError("old")

    def caller():
        try:
            target()
        except KeyError as error:
            text = "".join(traceback.format_exception(error))
            return error.args, type(error.__context__).__name__, 'raise KeyError("old")' in text, "1 / 0" in text

    first, second, _ = run(caller, cache=only("target"))
    assert first == second == (("new",), "ZeroDivisionError", True, True)


def test_exception_leaves_the_state_as_it_was():
    def target():
        raise ValueError("old")

    for _ in range(2):
        with pytest.raises(ValueError, match="new"):
            hooked(lambda: target(), cache=only("target"))
    assert native.mode() == "off" and native.hooked() == 0


def test_recursion_across_stack_chunks():
    def target(n):
        return 0 if n == 0 else 1 + step(n - 1)

    def step(n):
        return target(n)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        for depth in (5, 150, 700):
            assert hooked(lambda: target(depth), cache=only("target"))[0] == depth
    finally:
        sys.setrecursionlimit(limit)


def test_frame_object_outlives_the_call():
    def target(a):
        local = "old"
        return sys._getframe(), local

    def caller():
        frame, local = target(3)
        return frame.f_locals["local"], frame.f_locals["a"], frame.f_code.co_name, frame.f_lineno > 0, local

    first, second, _ = run(caller, cache=only("target"))
    assert first == second == ("new", 3, "target", True, "new")


def test_generators_run_plain_but_their_calls_are_hooked():
    def target(a):
        return "old", a

    def generate():
        yield target(1)
        yield "old"

    cache = only("target")
    assert hooked(lambda: list(generate()), cache=cache)[0] == [("new", 1), "old"]
    assert [kind for kind, *_ in cache.asked] == ["frame"]


def test_generator_throw_and_close():
    def target():
        return "old"

    def generate():
        try:
            yield target()
        except ValueError:
            yield target()
        finally:
            target()

    def caller():
        g = generate()
        first = next(g), g.throw(ValueError)
        g.close()
        return first

    assert hooked(caller, cache=only("target"))[0] == ("new", "new")


def test_asyncio():
    def target(a):
        return "old", a

    async def main():
        first = target(1)
        await asyncio.sleep(0)
        return first, target(2)

    assert hooked(lambda: asyncio.run(main()), cache=only("target"))[0] == (("new", 1), ("new", 2))


def test_callbacks_from_c():
    def target(match):
        return "old" + match.group(0)

    assert hooked(lambda: re.sub("[ab]", target, "xaxb"), cache=only("target"))[0] == "xnewaxnewb"
    assert hooked(lambda: sorted([3, 1], key=lambda v: (target(re.match(".", "q")), v)), cache=only("target"))[0] == [1, 3]


def test_class_bodies_and_exec_pass():
    def caller():
        class C:
            value = "old"

        space = {}
        exec("x = 'old'", space)
        return C.value, space["x"]

    cache = Recorder(wanted=lambda code: code.co_name != "caller")
    assert hooked(caller, cache=cache)[0] == ("old", "old")
    assert cache.asked == []


def test_comprehensions_and_lambdas():
    def caller():
        target = lambda v: ("old", v)  # noqa: E731
        return [target(v) for v in range(3)]

    assert hooked(caller, cache=only("<lambda>"))[0] == [("new", 0), ("new", 1), ("new", 2)]


def test_threads_do_not_disturb_each_other():
    def target(a):
        return "old", a

    def plain(a):
        return "old", a

    shared, errors = only("target"), []

    def work(number):
        try:
            for i in range(200):
                assert hooked(lambda: (target(i), plain(i)), cache=shared)[0] == (("new", i), ("old", i))
                assert target(i) == ("old", i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and native.hooked() == 0 and not native.installed()


def test_tracer_and_profiler_mean_plain():
    def target():
        return "old"

    def traced():
        sys.settrace(lambda *_: None)
        try:
            return target()
        finally:
            sys.settrace(None)

    def profiled():
        sys.setprofile(lambda *_: None)
        try:
            return target()
        finally:
            sys.setprofile(None)

    cache = only("target")
    assert hooked(lambda: target(), cache=cache)[0] == "new"
    before = sys.gettrace(), sys.getprofile()
    assert before == (None, None)
    assert hooked(traced, cache=cache)[0] == "old"
    assert hooked(profiled, cache=cache)[0] == "old"
    assert hooked(lambda: target(), cache=cache)[0] == "new"


def test_capturing_means_plain_and_compilers_frames_are_not_looked_up():
    def helper():
        return "old"

    def target():
        return "old"

    class Nested(Recorder):
        def miss(self, *args):
            assert native.mode() == "capturing" and helper() == "old" and target() == "old"
            return super().miss(*args)

    cache = Nested(wanted=lambda code: code.co_name in ("target", "helper"))
    assert hooked(lambda: target(), cache=cache)[0] == "new"
    assert [name for _, name, _ in cache.asked] == ["target"]


def test_failure_of_the_compiler_is_raised_in_the_frame():
    class Failing(Recorder):
        def miss(self, *args):
            raise RuntimeError("no graph")

    def target(a):
        return a

    def caller():
        try:
            return target(object())
        except RuntimeError as error:
            return str(error)

    assert hooked(caller, cache=Failing(wanted=lambda code: code.co_name == "target"))[0] == "no graph"
    value = object()
    before = sys.getrefcount(value)
    for _ in range(50):
        with pytest.raises(RuntimeError, match="no graph"):
            hooked(lambda: target(value), cache=Failing(wanted=lambda code: code.co_name == "target"))
    assert sys.getrefcount(value) == before


def test_none_means_plain_and_may_be_asked_again():
    class Never(Recorder):
        def miss(self, door, *args):
            self.asked.append(door)
            return None

    def target():
        return "old"

    cache = Never(wanted=lambda code: code.co_name == "target")
    assert hooked(lambda: (target(), target()), cache=cache)[0] == ("old", "old")
    assert len(cache.asked) == 2
    cache.asked[0].plain = "because"
    assert hooked(lambda: target(), cache=cache)[0] == "old" and len(cache.asked) == 2


def test_reference_counts_balance():
    def target(a, *args, **kw):
        b = a
        return "old", [b]

    cache, value = only("target"), object()
    hooked(lambda: target(value), cache=cache)
    new_code = door_of(cache, "target").entries[0].code
    counted = [value, target.__code__, new_code, cache]
    before = [sys.getrefcount(one) for one in counted]
    hooked(lambda: [target(value, value, k=value) for _ in range(500)] and None, cache=cache)
    assert [sys.getrefcount(one) for one in counted] == before


def test_check_failure_runs_the_original():
    def target(a, *args, k, **kw):
        return "plain", a, args, k, kw

    def refused(a, *args, k, **kw):
        raise CheckFailed("index out of range")

    class Failing(Recorder):
        def new_code(self, code):
            return refused.__code__

    def caller():
        return target(1, 2, k=3, z=4)

    assert hooked(caller, cache=Failing(wanted=lambda code: code.co_name == "target"))[0] == ("plain", 1, (2,), 3, {"z": 4})
    assert native.mode() == "off"


def test_a_door_dies_with_its_code_and_with_its_cache():
    cache = only("target")

    def make():
        space = {}
        exec("def target():\n    return 'old'", space)
        return space["target"]

    made = [make()]
    assert hooked(lambda: made[0](), cache=cache)[0] == "new"
    door = weakref.ref(door_of(cache, "target"))
    made.clear()
    gc.collect()
    assert door() is None
    kept = make()
    assert hooked(lambda: kept(), cache=cache)[0] == "new"
    gone = weakref.ref(cache)
    door = weakref.ref(door_of(cache, "target"))
    del cache
    gc.collect()
    assert gone() is None and door() is None and kept() == "old"
    assert hooked(lambda: kept(), cache=only("target"))[0] == "new"


def test_two_caches_keep_their_own_entries():
    def target():
        return "old"

    one, other = (
        only("target"),
        Recorder(
            wanted=lambda code: code.co_name == "target",
            make=lambda code: code.replace(co_consts=tuple("other" if c == "old" else c for c in code.co_consts)),
        ),
    )
    for _ in range(2):
        assert hooked(lambda: target(), cache=one)[0] == "new"
        assert hooked(lambda: target(), cache=other)[0] == "other"


def test_wrong_signature_is_refused():
    def target(a):
        return a

    def other(a, b):
        return a

    class Wrong(Recorder):
        def new_code(self, code):
            return other.__code__

    cache = Wrong(wanted=lambda code: code.co_name == "target")
    with pytest.raises(ValueError, match="differs in arguments"):
        hooked(lambda: target(1), cache=cache)


OTHER_EVALUATOR = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
struct _PyInterpreterFrame;
static long frames;
static _PyFrameEvalFunction below;
static PyObject* count(PyThreadState* state, struct _PyInterpreterFrame* frame, int flag) {
    frames++;
    return below(state, frame, flag);
}
static PyObject* on(PyObject*, PyObject*) {
    below = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), count);
    Py_RETURN_NONE;
}
static PyObject* off(PyObject*, PyObject*) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), below);
    Py_RETURN_NONE;
}
static PyObject* counted(PyObject*, PyObject*) { return PyLong_FromLong(frames); }
static PyMethodDef methods[] = {
    {"on", on, METH_NOARGS, ""}, {"off", off, METH_NOARGS, ""}, {"counted", counted, METH_NOARGS, ""}, {0}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "other", "", -1, methods};
PyMODINIT_FUNC PyInit_other() { return PyModule_Create(&definition); }
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """An extension with a frame evaluator of its own, as a profiler or debugger may install."""
    if shutil.which("g++") is None:
        pytest.skip("no compiler")
    folder = tmp_path_factory.mktemp("other")
    (folder / "other.cpp").write_text(OTHER_EVALUATOR)
    target = folder / "other.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-w", f"-I{sysconfig.get_paths()['include']}", folder / "other.cpp", "-o", target], check=True
    )
    spec = importlib.util.spec_from_file_location("other", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_earlier_evaluator_still_sees_all_frames(other):
    def target():
        return "old"

    def caller():
        return target(), target()

    other.on()
    try:
        before = other.counted()
        assert hooked(caller, cache=only("target"))[0] == ("new", "new")
        assert other.counted() - before >= 3 and not native.installed()
        target()
        assert other.counted() - before >= 4  # ours is gone, the other one is back
    finally:
        other.off()
    assert hooked(caller, cache=only("target"))[0] == ("new", "new") and not native.installed()


def test_an_evaluator_installed_over_ours(other):
    def target():
        return "old"

    def caller():
        other.on()
        return target()

    cache = only("target")
    assert hooked(caller, cache=cache)[0] == "new"  # the other one passes on to ours
    assert hooked(lambda: target(), cache=cache)[0] == "new"  # we stay below it, without a circle
    other.off()  # and it restores ours, which lets every frame pass
    assert target() == "old"
    assert hooked(lambda: target(), cache=cache)[0] == "new" and not native.installed()
