"""id() in captured programs: objects as keys, beside identities and beside numbers that were written down before the call."""

import pytest

import flambeau as torch
from flambeau import compiler


class Thing:
    pass


A, B = Thing(), Thing()
NUMBERS = [id(A), id(B)]
TABLE = {id(A): 10, 5: 3}
x = torch.ones(2)


def memo(x, things):
    seen = {}
    for thing in things:
        if id(thing) not in seen:
            seen[id(thing)] = len(seen)
    return x + len(seen)


def made(x):
    a, b = Thing(), Thing()
    return x + {id(a): 1, id(b): 2}[id(b)]


def made_beside_numbers(x):
    return x + (id(Thing()) in TABLE)


def behind_a_break(x):
    print(end="")
    table = {}
    for text in map(str, NUMBERS):
        table[int(text)] = x
    return [id(thing) in table for thing in (A, B)]


PROGRAMS = {  # function, its calls, graph breaks, whether all calls are one entry
    "table": (lambda x, t: x + 1 if id(t) in TABLE else x - 1, [(x, A), (x, B), (x, A), (x, Thing())], {}, False),
    "get": (lambda x, t: x + TABLE.get(id(t), 7), [(x, A), (x, B)], {}, False),
    "list": (lambda x, t: x + (id(t) in NUMBERS), [(x, A), (x, B), (x, Thing())], {}, False),
    "equal": (lambda x, t: x + (id(t) == NUMBERS[0]), [(x, A), (x, B)], {}, False),
    "tuple": (lambda x, t: x + ((id(t), 1) in {(NUMBERS[0], 1): 2}), [(x, A), (x, B)], {}, False),
    "set": (lambda x, t: x + (id(t) in set(NUMBERS)), [(x, A), (x, Thing())], {}, False),
    "remainder": (lambda x, t: x + id(t) % 3, [(x, A), (x, B)], {}, False),
    "difference": (lambda x, t: x + len(set(NUMBERS) - {id(t)}), [(x, A), (x, Thing())], {"builtin": 1}, False),
    "order": (lambda x, s, t: x + (sorted({id(s), id(t)})[0] == id(s)), [(x, A, B), (x, B, A)], {"builtin": 1}, False),
    "break": (behind_a_break, [(x,), (x,)], {"print": 1}, True),
    "memo": (memo, [(x, [A, B, B]), (x, [Thing(), A, A])], {}, False),
    "made": (made, [(x,), (x,)], {}, True),
    "made beside numbers": (made_beside_numbers, [(x,), (x,)], {"builtin": 1}, True),
    "tensors": (lambda x, y: x + len({id(x), id(y)}), [(x, x), (x, torch.ones(2))], {}, False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_identities(name):
    program, calls, breaks, one = PROGRAMS[name]
    compiler.reset()
    compiled = torch.compile(program)
    for args in calls:
        assert repr(compiled(*args)) == repr(program(*args))
    assert set(compiler.counters()["breaks"]) == set(breaks) and (compiler.counters()["recompiles"] == 0) >= one


def test_the_same_shape_of_a_memo_is_one_entry():
    """Beside identities alone, an identity is no number: other objects share the entry."""
    compiler.reset()
    compiled = torch.compile(memo)
    for things in ([A, B, B], [B, A, A], [Thing(), A, A]):
        assert compiled(x, things).tolist() == [3.0, 3.0]
    assert compiler.counters()["recompiles"] == 0
