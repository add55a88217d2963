"""Exceptions of compiled functions are those of plain Python: type, arguments, text, attributes, notes, cause, context, the
user's lines of the traceback to the column, and what had been changed when they were raised."""

import contextlib
import importlib.util
import io
import itertools
import pathlib
import traceback

import pytest

import flambeau as torch
import flambeau.nn as nn

from .harness import Recording, captured, same  # noqa: F401

from flambeau.runtime import counters
from flambeau.runtime.config import config

FILE = pathlib.Path(__file__).parent / "exception_programs.py"
spec = importlib.util.spec_from_file_location("exception_programs", FILE)
world = importlib.util.module_from_spec(spec)
spec.loader.exec_module(world)
PROGRAMS = world.PROGRAMS


def lines(error, file=str(FILE)):
    """(function, line, end line, column, end column) of the frames of the program; a recursion's only once."""
    found = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            found.append((frame.name, frame.lineno, frame.end_lineno, frame.colno, frame.end_colno))
    return [place for place, _ in itertools.groupby(found)]


def story(error, depth=0):
    """All there is to see of an exception and of those it came from."""
    if error is None or depth > 6:
        return None
    arguments = [
        a.tolist() if isinstance(a, torch.Tensor) else repr(a) if not isinstance(a, BaseException) else str(a) for a in error.args
    ]
    attributes = {k: repr(v) for k, v in vars(error).items()}
    special = [repr(getattr(error, name, None)) for name in ("name", "errno", "value", "code", "exceptions")]
    return {
        "type": f"{type(error).__module__}.{type(error).__name__}",
        "text": str(error),
        "args": arguments,
        "lines": lines(error),
        "attributes": attributes,
        "special": special,
        "suppressed": error.__suppress_context__,
        "cause": story(error.__cause__, depth + 1),
        "context": story(error.__context__, depth + 1),
    }


def told(value):
    """Results and logs, in which exceptions are told by their story."""
    if isinstance(value, BaseException):
        return story(value)
    if isinstance(value, (list, tuple)):
        return type(value)(told(v) for v in value)
    return value


def state():
    s = world.State()
    torch.manual_seed(0)
    s.linear, s.embed = nn.Linear(4, 2), nn.Embedding(4, 3)
    s.index, s.index4 = torch.tensor([1, 7]), torch.tensor([0, 1, 2, 9])
    return s


def outcome(function):
    s, printed = state(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = "returned", told(function(s))
        except BaseException as error:
            result = "raised", story(error)
    return result, [s.x.tolist(), s.table.tolist(), told(s.log), s.count, getattr(s, "extra", "deleted")], printed.getvalue()


def compare(program, compiled, what):
    expected, found = outcome(program), outcome(compiled)
    for name, a, b in zip(("outcome", "state", "printed"), expected, found):
        assert same(a, b), f"{what}: {name}\n  plain    {a}\n  compiled {b}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_exceptions_are_those_of_plain_python(name):
    compiled = torch.compile(PROGRAMS[name], backend=Recording())
    with config.patch(strict=True):
        for call in ("first call", "second call"):
            compare(PROGRAMS[name], compiled, call)
    assert counters.snapshot()["fallbacks"] == {}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", world.KERNELS)
def test_exceptions_of_kernels_are_those_of_eager(name, backend):
    compiled = torch.compile(world.KERNELS[name], backend=backend)
    with config.patch(strict=True):
        for call in ("first call", "second call"):
            compare(world.KERNELS[name], compiled, call)
    assert counters.snapshot()["graphs"] > 0


def its_text(error, a, v):
    return str(error), f"{error}: {error!r}"


def its_arguments(error, a, v):
    return error.args


def itself(error, a, v):
    return [type(kept).__name__ for kept in (error,)], str(ValueError(str(error)))


def other_arguments(error, a, v):
    error.args = (v,)
    return error.args, str(error)


def nothing_of_it(error, a, v):
    error.add_note("seen")
    return type(error).__name__, bool(error)


@pytest.mark.parametrize(
    "look, breaks", [(its_text, True), (its_arguments, True), (itself, True), (other_arguments, False), (nothing_of_it, False)]
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_texts_that_tell_a_size_are_those_of_each_call(look, breaks, dynamic):
    """Only who looks at such a text breaks the graph, and finds the numbers of this call."""

    def f(a, v):
        b = a * v
        try:
            b.reshape(v * 100)
        except RuntimeError as error:
            return b, look(error, a, v)

    compiled = torch.compile(f, backend="eager", dynamic=dynamic)
    for n in (2, 3, 4, 5):
        a = torch.ones(n, 3)
        found, wanted = compiled(a, n), f(a, n)
        assert found[1] == wanted[1] and found[0].tolist() == wanted[0].tolist()
    seen = counters.snapshot()["breaks"]
    assert bool(seen.get("exception")) is breaks and (breaks or not seen)
