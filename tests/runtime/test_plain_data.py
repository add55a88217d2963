"""Data classes that make their `__init__` late, and late imports: garbage collection is as it was before them."""

import gc
from dataclasses import field, fields, replace

import pytest

from flambeau.runtime import locks
from flambeau.runtime.dataclass import data


@data
class Point:
    x: int
    tags: list = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    seen: dict = field(default_factory=dict, init=False)

    def __post_init__(self):
        self.double = 2 * self.x


@data
class Named(Point):
    name: str = "p"
    scale: float = field(default=1.0, kw_only=True)


@data(eq=False)
class Identity:
    x: int = 3


def test_instances_are_those_of_a_dataclass():
    p = Point(2, note="a")
    assert (p.x, p.tags, p.note, p.seen, p.double) == (2, [], "a", {}, 4) and p.tags is not Point(2).tags
    assert p == Point(2, note="b") != Point(3) and repr(p) == "Point(x=2, tags=[], seen={})"
    q = Named(1, [5], name="q", scale=2.0)
    assert (q.double, q.tags, q.name, q.scale) == (2, [5], "q", 2.0) and Named(1, [5]).scale == 1.0
    assert replace(q, x=4).double == 8 and [f.name for f in fields(q)] == ["x", "tags", "note", "seen", "name", "scale"]
    assert Identity() != Identity() and len({Identity(), Identity()}) == 2


@pytest.mark.parametrize(
    "make", [lambda: Point(), lambda: Point(1, y=2), lambda: Point(1, [], "", {}), lambda: Named(1, [], "", "n", 2.0)]
)
def test_wrong_arguments_are_refused(make):
    with pytest.raises(TypeError, match="__init__"):
        make()


@pytest.mark.parametrize("collects", [True, False])
def test_late_imports_leave_garbage_collection_as_it_was(collects):
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ImportError), locks.importing:
            with locks.importing:
                assert not gc.isenabled()
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
