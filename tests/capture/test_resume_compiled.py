"""The programs of resume_programs.py through the whole capture: all that a run shows equals the plain run."""

import importlib.util
import pathlib

import pytest

import flambeau as torch
from flambeau.runtime import counters

spec = importlib.util.spec_from_file_location("cutting", pathlib.Path(__file__).with_name("test_resume.py"))
cutting = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cutting)


@pytest.mark.parametrize("function,arguments", cutting.programs.CASES, ids=cutting.arguments_id)
def test_program_compiled(function, arguments):
    counters.reset()
    want, lines = cutting.observe(function, function, arguments)
    compiled = torch.compile(function, backend="eager")
    for _ in range(2):
        got, got_lines = cutting.observe(compiled, function, arguments)
        assert got == want
        assert lines[-1:] == got_lines[-1:]
    seen = counters.snapshot()
    assert seen["frames"] > 0 or seen["breaks"], "no frame was captured"


def generator_in_with(log, t):
    def numbers():
        with cutting.programs.Manager(log, "g"):
            for i in range(3):
                yield t + i

    return [v * 2 for v in numbers()]


def delegation(log, t):
    def inner():
        got = yield 1
        log.append(got)
        try:
            yield 2
        except ValueError:
            log.append("caught")
            yield 7
        return t + 1

    def outer():
        yield (yield from inner())

    o = outer()
    return next(o), o.send(5), o.throw(ValueError("x")), next(o)


def closing(log, t):
    def gen():
        try:
            yield t
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")

    g = gen()
    value = next(g)
    g.close()
    g.close()
    return value + 1, next(g, "done")


def stop_iteration_inside(log, t):
    def gen():
        yield 1
        raise StopIteration("bad")

    try:
        list(gen())
    except RuntimeError as error:
        log.append(str(error))
    return t * 2


GENERATORS = [generator_in_with, delegation, closing, stop_iteration_inside]


@pytest.mark.parametrize("program", GENERATORS, ids=lambda f: f.__name__)
def test_generators(program):
    t, runs = torch.ones(2), []
    for function in (program, torch.compile(program, backend="eager")):
        log = []
        runs.append((repr(function(log, t)), log))
    assert runs[0] == runs[1]


def test_what_reads_its_frame_is_told_by_meaning():
    from flambeau.capture.bytecode.instructions import decode
    from flambeau.capture.bytecode.liveness import reads_frame

    def model_eval(model, ts):
        return model.eval()(torch.stack(ts))

    def reads(x):
        return eval("x")

    assert not reads_frame(decode(model_eval.__code__), model_eval.__code__)
    assert reads_frame(decode(reads.__code__), reads.__code__)
