"""What tuples, lists and deques answer, from outside and made by the function: results, changes and errors as in plain Python."""

import collections
import warnings

import pytest

import flambeau as torch

ASKED = (
    """
d[-2:]|d[1:2]|d + [1]|[1] + d|d + (1,)|(1,) + d|d + d|d * 2|2 * d|d == [1., 2., 3.]|d == deque([1., 2., 3.])|d.pop(0)|d.pop()|d.pop(-1)|d.popleft()
d.index(2.)|d.count(1.)|d.remove(2.)|d.remove(9.)|m.remove(1.)|l.remove(2.)|d + m|m + d|m * 3|(m + m).maxlen|(m * 2).maxlen|m.copy().maxlen|delete(d)|delete(l)
store(d)|store(l)|l.popleft()|l.appendleft(1)|l.rotate()|d.sort()|l + (1,)|(1,) + l|l + t|t + l|d[1.0]|l[1.0]|l['a']|t['a']|l[None]|iadd(d, [5.])|iadd(l, d)
iadd(d, 3)|iadd(l, 3)|imul(d, 2)|imul(m, 2)|d < m|d >= m|sorted(d)|list(d)|tuple(m)|1. in d|max(d)|sum(m)|list(zip(d, l))|len(d)|bool(d)|m.insert(0, 1.)
d.insert(0, 1.)|d.extendleft([1., 2.])|d.reverse()|d.rotate(1)|m.maxlen|d.index(7.)|l.index(7.)|t.index(7.)|l.pop(1)|l.pop(5)|d[7]|m.append(4.)|m.appendleft(4.)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
PROGRAM = """
from collections import deque
def outside(x, d, m, l, t):
    return x * 2, ({asked}), d, m, l, t
def inside(x):
    d, m, l, t = deque([1., 2., 3.]), deque([1., 2.], maxlen=2), [1., 2., 3.], (1., 2.)
    return x * 2, ({asked}), d, m, l, t
def delete(s): del s[1:2]
def store(s): s[1:2] = [4.]
def iadd(a, b):
    a += b
    return a
def imul(a, b):
    a *= b
    return a
"""


def seen(f, *made):
    try:
        return repr(f(torch.ones(1), *made)) + repr(made)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("asked", ASKED)
def test_as_in_plain_python(asked):
    scope = {}
    exec(PROGRAM.format(asked=asked), scope)
    world = lambda: (collections.deque([1.0, 2.0, 3.0]), collections.deque([1.0, 2.0], maxlen=2), [1.0, 2.0, 3.0], (1.0, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in (("outside", world), ("inside", tuple)):
            compiled = torch.compile(scope[name], backend="eager")
            for _ in range(2):
                assert seen(compiled, *make()) == seen(scope[name], *make())
