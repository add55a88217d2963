"""Handlers of builtins: a wrong call is the program's, and Python says what is wrong with it; an error in a handler's own body is
one of the compiler, and loud."""

import random

import pytest

import flambeau as torch
from flambeau.capture.frontend import trace_context  # noqa: F401  (it registers all handlers)
from flambeau.capture.variables import builtins
from flambeau.capture.variables.arguments import parameters
from flambeau.runtime.config import config

from .harness import check

X = torch.ones(2)
VALUES = (
    "x", "3", "-1", "1.5", "'ab'", "None", "o", "int", "len", "[x]", "(1, 2)", "{'a': x}", "iter([1, 2])", "{1}", "[[1, 2]]", "True"
)  # fmt: skip
KEYWORDS = (
    "key=None",
    "start=1",
    "strict=True",
    "reverse=True",
    "maxlen=2",
    "initial=2",
    "fillvalue=0",
    "y=1",
    "tx=1",
    "value=2",
)
NOT_PYTHONS = ("flambeau", "torch", "logging", "_thread")  # the library's own, which nobody calls so; numbers of threads


class Plain:
    pass


def programs(builtin, count):
    draw = random.Random(builtin.__qualname__)
    for _ in range(count):
        given = draw.choices(VALUES, k=draw.choice((0, 1, 1, 2, 2, 3, 4))) + draw.choices(KEYWORDS, k=draw.random() < 0.25)
        yield f"called({', '.join(given)})"


def outcome(fn, x):
    try:
        return type(fn(x))
    except Exception as error:
        return type(error), str(error)


BUILTINS = sorted(
    (
        fn
        for fn in builtins.HANDLERS
        if not (fn.__module__ or "").startswith(NOT_PYTHONS) and not getattr(fn, "__qualname__", "").endswith("__new__")
    ),
    key=lambda fn: (fn.__module__ or "", fn.__qualname__),
)


@pytest.mark.parametrize("builtin", BUILTINS, ids=lambda fn: f"{fn.__module__}.{fn.__qualname__}")
def test_calls_of_all_kinds_say_what_python_says(builtin):
    if builtin in (print, eval):
        pytest.skip("writes, or runs what is drawn")
    if builtin in (iter, reversed, vars):
        pytest.skip("iterators of other classes, and tables of what has none, are not told apart")
    for text in programs(builtin, 12):
        names = {"called": builtin, "o": Plain()}
        exec(f"def program(x):\n    y = x + 1\n    return {text}", names)
        with config.patch(strict=True):
            found = outcome(torch.compile(names["program"], backend="eager"), X)
        assert found == outcome(names["program"], X), text


def test_an_error_in_a_handler_is_one_of_the_compiler(monkeypatch):
    def broken(tx, value, /):
        return {}["no such key"]

    monkeypatch.setitem(builtins.HANDLERS, len, broken)
    with config.patch(strict=True), pytest.raises(KeyError, match="no such key"):
        torch.compile(lambda x: x + len([1]), backend="eager")(X)


def test_names_of_parameters_may_be_keywords_of_the_program():
    check(lambda x: (x + 1, dict(tx=1, self=2, pairs=x)), X)


@pytest.mark.parametrize("text", ["1, 2", "1", "1, b=2", "1, 2, 3, 4", "b=2", "a=1, b=2", "1, 2, b=2", "1, 2, c=3", "1, 2, d=3", "1, 2, d=3, e=4", ""])  # fmt: skip
@pytest.mark.parametrize(
    "signature",
    ["a, b", "a, /, b", "a, b, /", "a, b=1", "a=1, *, d", "a, *more", "a, /, *more, **rest", "*, a, b=2", "*, d=1, **rest"],
)
def test_binding_is_pythons(signature, text):
    names = {}
    exec(f"def callee({signature}): pass\ndef asked(*args, **kwargs): return len(args), kwargs\nasked = asked({text})", names)
    try:
        exec(f"callee({text})", names)
        fits = True
    except TypeError:
        fits = False
    assert parameters(names["callee"]).bind(*names["asked"]) == fits
