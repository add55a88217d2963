"""An entry that accepts a call gives what a fresh compilation and plain Python give, whatever changed since it was made."""

import collections
import operator
import sys

import pytest

from . import guard_programs

import flambeau as torch
from flambeau.capture.guards import guard_builder
from flambeau.runtime import counters

CASES = 1000 if sys.version_info < (3, 12) else 400  # all of them on one Python


def test_entries_agree_with_fresh_compilations_and_with_python():
    counters.reset()
    found, cases, seed = [], 0, 0
    while cases < CASES:
        told, calls = guard_programs.unsound(seed)
        found += [told] if told else []
        cases, seed = cases + calls, seed + 1
    assert not found, "\n\n".join(found[:3])
    seen = counters.snapshot()
    assert seen["graphs"] > CASES and seen["recompiles"] > CASES / 6


@pytest.mark.parametrize("kind", ["equals", "len", "type_is"])
def test_a_guard_that_is_left_out_is_found(kind, monkeypatch):
    add = guard_builder.add
    monkeypatch.setattr(guard_builder, "add", lambda tree, guard, known: None if guard.kind == kind else add(tree, guard, known))
    assert any(guard_programs.unsound(seed)[0] for seed in range(100))


READS = {
    "keys": lambda x, m: [x * 1, list(m.extra)],
    "loop": lambda x, m: sum((x for _ in m.extra), x),
    "in": lambda x, m: [x * 1, "c" in m.extra],
    "get": lambda x, m: [x * 1, m.extra.get("c", 4)],
    "len": lambda x, m: x * len(m.extra),
    "truth": lambda x, m: x * 2 if m.extra else x,
    "values": lambda x, m: x * sum(m.extra.values()),
    "item": lambda x, m: x * m.extra["a"],
    "not in": lambda x, m: x if "a" not in m.extra else x * 3,
}
CHANGES = {
    "number": lambda d: d.update({7: 1}),
    "tuple": lambda d: d.update({(1, 2): 3}),
    "both": lambda d: (d.update({7: 1}), d.update(c=5)),
    "gone": lambda d: (d.pop("a"), d.update({7: 1})),
    "all gone": lambda d: d.clear(),
    "text": lambda d: d.update(c=5),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_dictionary_of_texts_gets_other_keys(name, change):
    """What is kept of an accepted call was not given up: comparing keys that are no texts may run anybody's code, so that a
    check that could not be made again passed for one that holds."""
    module, x = torch.nn.Module(), torch.ones(2)
    module.extra = {"a": 1}
    read = READS[name]
    compiled = torch.compile(read, backend="eager")
    for _ in range(3):
        assert repr(compiled(x, module)) == repr(read(x, module))
    CHANGES[change](module.extra)
    for _ in range(3):
        try:
            want = repr(read(x, module))
        except KeyError:
            with pytest.raises(KeyError):
                compiled(x, module)
        else:
            assert repr(compiled(x, module)) == want


class Said:
    v = 1


class Length(Said):
    def __len__(self):
        return self.v


class Truth(Said):
    def __bool__(self):
        return self.v


class Number(Said):
    def __index__(self):
        return self.v

    def __int__(self):
        return self.v

    def __float__(self):
        return self.v

    def __complex__(self):
        return self.v


class LongList(list, Length):
    __len__ = Length.__len__


class LongClass(type):
    def __len__(cls):
        return cls.v


class Pair(collections.namedtuple("Pair", "v w")):
    def __len__(self):
        return self.v

    def __bool__(self):
        return self.w


ASKED = {
    "len": (Length, lambda x, o: [x * 1, len(o)]),
    "truth by len": (Length, lambda x, o: x + 1 if o else x - 1),
    "bool": (Truth, lambda x, o: [x * 1, bool(o)]),
    "not": (Truth, lambda x, o: x + 1 if not o else x - 1),
    "index": (Number, lambda x, o: [x * 1, operator.index(o)]),
    "item": (Number, lambda x, o: [x * 1, [1, 2, 3][o]]),
    "row": (Number, lambda x, o: x[o]),
    "int": (Number, lambda x, o: [x * 1, int(o)]),
    "float": (Number, lambda x, o: x * float(o)),
    "complex": (Number, lambda x, o: [x * 1, complex(o)]),
    "list": (LongList, lambda x, o: [x * 1, len(o)]),
    "class": (lambda: LongClass("Made", (), {"v": 1}), lambda x, o: [x * 1, len(o)]),
    "named tuple": (Pair, lambda x, o: [x * 1, len(o)]),
    "truth of named tuple": (Pair, lambda x, o: [x * 1, bool(o)]),
}
SAID = [
    (2, 2.5),
    (2, 1, 2.5),
    (2, 0, 1, 2.5, 1.5, -1),
    (2, 1, -1, -2, 0),
    (2.5, 1.5, 2),
    (True, False, 2),
    ("a", 1),
    (None, 2),
    (2, 1j, 1),
    (1.0, 2.0, 0.0),
    (2, 1, 2**70),
]


def outcome(f, *args):
    try:
        return repr(f(*args))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("values", SAID, ids=str)
def test_what_special_methods_may_say(name, values):
    """A number that changes may become one that Python refuses: of another kind, or a negative length."""
    make, f = ASKED[name]
    compiled, x = torch.compile(f, backend="eager"), torch.ones(3)
    one = None if make is Pair else make()
    for v in values:
        if make is Pair:
            one = Pair(v, v)
        else:
            one.v = v
        assert outcome(compiled, x, one) == outcome(f, x, one)


ONE = {"more": 3}


@pytest.mark.parametrize(
    "steps",
    [
        ((1, 0), ONE, (7,), ONE),
        ((7,), ONE, (1, 0), ONE),
        ((1, 0), ONE, None, ONE),
        (None, ONE, (1, 0), ONE),
        ((1, 0), ONE, (1, 0), None),
        ((1, 0), None, (1, 0), ONE),
        ((1, 0), ONE, (1, 0), {"other": 1}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, scaled: [x * 1, scaled(x)],
        lambda x, scaled: [x * 1, scaled(x, 2)],
        lambda x, scaled: [x * 1, scaled(x, 2, 3, more=1)],
    ],
    ids=["all", "one", "none"],
)
def test_defaults_that_nobody_reads_may_go(call, steps):
    scaled = lambda x, by=1, plus=0, *, more=3: x
    compiled, x = torch.compile(call, backend="eager"), torch.ones(3)
    for scaled.__defaults__, scaled.__kwdefaults__ in (steps[:2], steps[2:], steps[:2]):
        assert outcome(compiled, x, scaled) == outcome(call, x, scaled)
