"""Corners of the language that a random program or one of CPython's own tests met: captured, they do what Python does."""

import functools
import os

import pytest

import flambeau as torch
from flambeau.capture.graph import Interpreter


class Seen:
    """A descriptor that gives something else than itself."""

    def __init__(self, value):
        self.value = value

    def __get__(self, owner, cls=None):
        return (self.value, os.getpid() > 0)


class Home:
    seen = Seen(3)

    @functools.singledispatchmethod
    def kind(self, value):
        return "something"

    @kind.register(int)
    def _(self, value):
        return "an int"


class Caching(type):
    @functools.cached_property
    def cached(cls):
        return 1


class Cached(metaclass=Caching):
    pass


def error_of(run):
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


def plain_tuple_has_no_fields(x):
    pair = (x, x + 1)
    return hasattr(pair, "_fields"), hasattr((1, 2), "_fields")


def surplus_arguments(x):
    parts = [{1: x}, {2: x}]
    return error_of(lambda: tuple(*parts)), error_of(lambda: list(*parts)), error_of(lambda: set(*parts))


def descriptors_of_a_class(x):
    home = Home()
    return home.seen, Home.seen, home.kind(1), home.kind("")


def caching_metaclass(x):
    return error_of(lambda: Cached.cached)


def comprehension_with_cells(x):
    outer = 3
    first = [(lambda t: t * outer + i)(x) for i in range(2)]
    second = [i + 1 for i in range(3)]
    return first, second, [(lambda i=i: i)() for i in range(2)]


def cell_without_value(items):
    for last in items[:0]:
        pass
    torch._dynamo.graph_break()
    try:
        torch._dynamo.graph_break()
        found = last
    except NameError as error:
        found = type(error)
    return found, lambda: last


def length_of_iterators(x):
    return error_of(lambda: len(zip([1], [2]))), error_of(lambda: len(iter([x]))), error_of(lambda: len(k for k in "ab"))


def exceptions_of_c(x):
    def missing():
        raise ImportError("text", name="name")
    try:
        missing()
    except ImportError as error:
        first = error.name, str(error)
    problem = UnicodeEncodeError("baz", "xxxxx", 1, 5, "foo")
    return first, str(problem), error_of(lambda: setattr(problem, "__traceback__", 5)), error_of(lambda: setattr(problem, "__cause__", 5))


def clause_that_is_no_class(x):
    def run(classes):
        try:
            raise ValueError(1)
        except classes:
            return 1
    return error_of(lambda: run((5, KeyError))), error_of(lambda: run(ValueError))


PROGRAMS = (plain_tuple_has_no_fields, surplus_arguments, descriptors_of_a_class, caching_metaclass, comprehension_with_cells,
            length_of_iterators, exceptions_of_c, clause_that_is_no_class)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured_is_plain(program):
    compiled = torch.compile(program, backend=lambda graph, inputs: Interpreter(graph).run)
    for x in (torch.ones(2), torch.zeros(2)):
        assert repr(compiled(x)) == repr(program(x))


def test_a_cell_without_value_is_a_local_without_value():
    compiled = torch.compile(cell_without_value, backend=lambda graph, inputs: Interpreter(graph).run)
    assert compiled([1])[0] is UnboundLocalError
