"""Code whose line table is missing, or covers a part of it, is captured like any other."""

import types

import pytest

import flambeau as torch
from flambeau.runtime import counters
from flambeau.runtime.config import config


def program(x, n):
    try:
        for i in range(n):
            x = x * 2
            print(end="")
        if n == 3:
            raise ValueError("three")
        if n == 5:
            raise KeyError("five")
        if n == 6:
            x = late  # noqa: F821  (an UnboundLocalError)
    except ValueError:
        x = x + 1
    late = 4
    return [x + k for k in range(late)]


def outcome(function, n):
    try:
        return [t.tolist() for t in function(torch.ones(2), n)]
    except Exception as error:
        return (
            type(error),
            str(error),
            error.__traceback__.tb_next.tb_next.tb_lineno
            if error.__traceback__.tb_next.tb_next
            else error.__traceback__.tb_next.tb_lineno,
        )


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.98])
def test_a_table_that_is_missing_or_cut_short(share):
    counters.reset()
    code = program.__code__
    table = code.co_linetable[: int(len(code.co_linetable) * share)]
    plain = types.FunctionType(code.replace(co_linetable=table), globals())
    compiled = torch.compile(plain, backend="eager")
    with config.patch(strict=True):
        for n in (1, 2, 3, 5, 6):
            assert outcome(compiled, n) == outcome(plain, n)
    assert counters.snapshot()["frames"] > 3 and not counters.snapshot()["fallbacks"]
