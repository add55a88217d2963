"""Tables by identity: equal keys have entries of their own, and each goes with its own key."""

import gc
import types
import weakref

import flambeau as torch
from flambeau.runtime import counters
from flambeau.runtime.identity import WeakIdKeyDictionary

TEXT = """
def f(x, n):
    for k in range(n):
        x = x + 1
        print(k)
        x = x * 2
    return x
"""


def made(text=TEXT):
    scope = {}
    exec(compile(text, "/nowhere/equal.py", "exec"), scope)
    return scope["f"]


def test_equal_codes_have_entries_of_their_own():
    first, second = made().__code__, made().__code__
    assert first == second and first is not second
    table = WeakIdKeyDictionary()
    table[first] = "first"
    assert second not in table and table.get(second) is None
    table[second] = "second"
    assert (table[first], table[second], len(table)) == ("first", "second", 2)
    table[first] = "again"
    del first
    gc.collect()
    assert table[second] == "second" and list(table) == [second]
    del table[second]
    assert len(table) == 0 and second not in table


def test_a_number_that_is_used_again_is_another_key():
    """The entry of a dead key is nobody's; its callback, should it come late, leaves the new one alone."""

    class Key:
        pass

    table, dead, living = WeakIdKeyDictionary(), Key(), Key()
    table[dead] = "dead"
    late, value = table._kept.pop(id(dead))
    table._kept[id(living)] = late, value  # as if `living` had been made at the place of `dead`
    del dead
    assert living not in table and len(table) == 0
    table[living] = "living"
    table._drop(id(living), late)
    assert table[living] == "living"


def test_keys_are_not_asked():
    class Key:
        def __eq__(self, other):
            raise AssertionError("asked")

        __hash__ = None

    table, key = WeakIdKeyDictionary(), Key()
    table[key] = 1
    assert table[key] == 1 and key in table


def test_what_is_known_of_equal_functions_lives_apart(capsys):
    """A loop that breaks in every iteration comes back to the same resume functions, also where an equal function has died."""

    def entries(f):
        compiled = torch.compile(f, backend="eager")
        counters.reset()
        assert compiled(torch.ones(2), 6).tolist() == [190, 190]
        return compiled, counters.snapshot()["frames"]

    alone = made()
    compiled, frames = entries(alone)
    del alone, compiled
    gc.collect()  # (whose entries would be the first one's, until they go)
    first, second = made(), made()
    compiled_first, _ = entries(first)
    compiled_second = torch.compile(second, backend="eager")
    compiled_second(torch.ones(2), 2)
    del first, compiled_first
    gc.collect()
    counters.reset()
    assert compiled_second(torch.ones(2), 6).tolist() == [190, 190]
    assert counters.snapshot()["frames"] <= frames
    assert counters.snapshot()["fallbacks"] == {}


def test_the_class_of_a_compiled_module_goes_with_its_module():
    Net = types.new_class("Net", (torch.nn.Module,), {}, lambda fields: fields.update(forward=lambda self, x: x * 2))
    compiled = torch.compile(Net(), backend="eager")
    assert type(torch.compile(Net(), backend="eager")) is type(compiled)
    gone = weakref.ref(Net)
    del Net, compiled
    gc.collect()
    assert gone() is None
