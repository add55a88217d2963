"""Classes that change between calls: a method, property or attribute added, replaced or removed anywhere along the bases."""

import flambeau as fb
import pytest
from flambeau import nn
from flambeau.runtime import counters


def world():
    class Base(nn.Module):
        gain = 2.0

        def scale(self, x):
            return x * self.gain

    class Block(Base):
        def __init__(self):
            super().__init__()
            self.shift = 1.0
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            extra = 3.0 if hasattr(self, "extra") else 0.0
            return self.scale(self.inner(x)) + self.shift + extra

    return Base, Block


def descriptor_over_an_attribute(Base, Block):
    Block.shift = property(lambda self: 7.0)


def raise_for_call(self, x):
    return x - 1


def getattribute(Base, Block):
    def __getattribute__(self, name):
        return 9.0 if name == "shift" else object.__getattribute__(self, name)

    Block.__getattribute__ = __getattribute__


EDITS = {
    "method of the class": lambda Base, Block: setattr(Block, "forward", lambda self, x: x * 5),
    "method of the base": lambda Base, Block: setattr(Base, "scale", lambda self, x: x * 6),
    "method that hides the base's": lambda Base, Block: setattr(Block, "scale", lambda self, x: x * 7),
    "attribute of the base": lambda Base, Block: setattr(Base, "gain", 4.0),
    "attribute that hides the base's": lambda Base, Block: setattr(Block, "gain", 5.0),
    "property over an instance's attribute": descriptor_over_an_attribute,
    "attribute that was not there": lambda Base, Block: setattr(Base, "extra", 1),
    "__call__": lambda Base, Block: setattr(Block, "__call__", raise_for_call),
    "__getattr__": lambda Base, Block: setattr(Block, "__getattr__", lambda self, name: nn.Identity()),
    "__getattribute__": getattribute,
    "bases": lambda Base, Block: setattr(Block, "__bases__", (type("Other", (Base,), {"gain": 8.0}),)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_seen(edit):
    Base, Block = world()
    fb.manual_seed(0)
    model, x = Block(), fb.ones(3, 2)
    compiled = fb.compile(lambda m, x: m(x), backend="eager")
    for _ in range(4):
        assert compiled(model, x).tolist() == model(x).tolist()
    EDITS[edit](Base, Block)
    expected = model(x).tolist()
    for _ in range(3):
        assert compiled(model, x).tolist() == expected


def test_edits_that_nobody_reads_compile_nothing():
    Base, Block = world()
    model, x = Block(), fb.ones(3, 2)
    compiled = fb.compile(lambda m, x: m(x), backend="eager")
    compiled(model, x)
    before = counters.snapshot()["recompiles"]
    for value in range(20):
        Block.unread = Base.other = value
        nn.Linear.unread = value
        compiled(model, x)
    del nn.Linear.unread
    assert counters.snapshot()["recompiles"] == before


def test_library_classes_are_watched_too():
    compiled = fb.compile(nn.Linear(2, 2, bias=False), backend="eager")
    x = fb.ones(1, 2)
    compiled(x)
    original = nn.Linear.forward
    try:
        nn.Linear.forward = lambda self, x: x * 3
        assert compiled(x).tolist() == [[3.0, 3.0]]
    finally:
        nn.Linear.forward = original
    assert compiled(x).tolist() != [[3.0, 3.0]]


def test_a_counter_in_a_class_is_no_new_program():
    class Model(nn.Module):
        count = 0

        def forward(self, x):
            return x + self.count

    model, x = Model(), fb.ones(2)
    compiled = fb.compile(model, backend="eager")
    before = counters.snapshot()["recompiles"]
    for value in range(6):
        Model.count = value
        assert compiled(x).tolist() == [1.0 + value] * 2
    assert counters.snapshot()["recompiles"] - before <= 2


# -- edits that the compiled function makes itself


STORES = """
class Base:
    count, kept, said = 0, None, False

class Derived(Base):
    pass

class Module(nn.Module):
    calls, last = 0, None

    def forward(self, x):
        type(self).calls += 1
        self.__class__.last = x * 2
        return x * self.calls + Module.last

    @classmethod
    def more(cls):
        cls.calls += 10
        return cls.calls

module = Module()

def counter(x):
    Base.count += 1
    return x + Base.count

def hides_the_base(x):
    Derived.count += 2
    return x + Derived.count + 10 * Base.count

def seen_by_objects(x):
    thing = Derived()
    Base.count = 5
    first = thing.count
    thing.count = 7
    Base.count = 8
    return x + first + 10 * thing.count + super(Derived, thing).count

def said_once(x):
    if not Base.said:
        Base.said = True
        x = x * 3
    return x

def new_name(x):
    setattr(Derived, "new", x.shape[0])
    return x + Derived.new + hasattr(Base, "new")

def container(x):
    Base.kept = [1, 2]
    Base.kept.append(x * 2)
    return Base.kept[2] + Base.kept[1]

def of_a_module(x):
    return module(x)

def in_a_class_method(x):
    return x + Module.more()

def in_a_loop(x):
    for k in range(3):
        Base.count += k
        x = x + Base.count
    return x

def over_a_break(x):
    Base.count += 1
    print("between")
    Base.count += 1
    return x + Base.count

def before_a_raise(x):
    Base.count += 1
    raise ValueError(str(Base.count))

def method(x):
    Derived.scale = lambda self, x: x * 4
    return Derived().scale(x)

def state():
    return [(cls.__name__, sorted((k, str(v)) for k, v in vars(cls).items() if not callable(v) and k not in ("more", "forward") and k[:2] != "__"))
            for cls in (Base, Derived, Module)]
"""
COUNTED = {"over_a_break": {"print"}, "before_a_raise": {"exception"}, "method": {"mutation"}}


@pytest.mark.parametrize(
    "name",
    [
        "counter",
        "hides_the_base",
        "seen_by_objects",
        "said_once",
        "new_name",
        "container",
        "of_a_module",
        "in_a_class_method",
        "in_a_loop",
        *COUNTED,
    ],
)
def test_stores_in_classes(name):
    def run(compiled):
        scope, told = {"__name__": "stores", "nn": nn}, []
        exec(STORES, scope)
        call = compiled(scope[name])
        for _ in range(5):
            try:
                told.append(call(fb.arange(6.0).reshape(2, 3)).tolist())
            except ValueError as error:
                told.append(str(error))
            told.append(scope["state"]())
        return told

    expected = run(lambda fn: fn)
    counters.reset()
    assert run(lambda fn: fb.compile(fn, backend="eager")) == expected
    assert set(counters.snapshot()["breaks"]) == COUNTED.get(name, set())
    if name not in COUNTED:
        assert 1 <= counters.snapshot()["graphs"] <= 3
