"""Snapshots of guard trees: whatever is changed between calls, a poll accepts exactly what a walk of the whole tree does.

Random graphs of modules, plain objects, containers, functions and classes are guarded along random paths; then bindings
change, in every way that Python has for it, and each answer and each fetched object is compared with a fresh reading.
"""

import collections
import random
import types

import numpy as np
import pytest

from . import doors_support  # noqa: F401  (configures the native module)

from flambeau import nn
from flambeau.capture import _capture as native
from flambeau.eager import dtypes
from flambeau.eager.tensor import Tensor


class Plain:
    pass


class Slotted:
    __slots__ = ("value", "__weakref__")


def new_class(rng):
    return type("Made", (rng.choice([Plain, nn.Module]),), {"level": rng.randrange(3)})


def new_function(cell_value):
    def inner(x=1):
        return cell_value

    return inner


def new_tensor(rng):
    shape = rng.choice([(2, 3), (4,), (1, 2)])
    made = Tensor._fl_from_array(np.zeros(shape, np.float32), dtypes.float32)
    if rng.random() < 0.3:
        made._grad = new_tensor(rng)
    return made


def scalar(rng):
    """Mostly fresh objects, so that a new one may lie where an old one lay."""
    return rng.choice(
        [
            lambda: rng.randrange(1000, 1004),
            lambda: float(rng.randrange(4)) + 0.5,
            lambda: rng.random() < 0.5,
            lambda: None,
            lambda: f"text{rng.randrange(3)}",
            lambda: (rng.randrange(1000, 1003), "a"),
        ]
    )()


def value(rng, depth):
    kinds = [scalar] * 4 + [new_tensor] * 3
    if depth > 0:
        kinds += [instance] * 4 + [table] * 2 + [sequence] * 2 + [closure, keyed]
    made = rng.choice(kinds)
    return made(rng) if made in (scalar, new_tensor) else made(rng, depth - 1)


def instance(rng, depth):
    cls = rng.choice([Plain, nn.Module, Slotted, new_class(rng)])
    made = cls()
    if cls is Slotted:
        made.value = value(rng, depth)
        return made
    for name in rng.sample("abcd", 3):
        object.__setattr__(made, name, value(rng, depth))
    if isinstance(made, nn.Module):
        made._parameters["w"] = new_tensor(rng)
    return made


def table(rng, depth):
    return {name: value(rng, depth) for name in rng.sample("abcd", 2)}


class Table(dict):
    pass


def keyed(rng, depth):
    """A dictionary as an optimizer's state: keys that are compared by identity."""
    made = rng.choice([dict, Table, lambda: collections.defaultdict(list)])()
    made.update({new_tensor(rng): value(rng, depth) for _ in range(3)})
    if rng.random() < 0.2:
        made[rng.choice(["a", 1000])] = value(rng, depth)
    return made


def sequence(rng, depth):
    items = [value(rng, depth) for _ in range(2)]
    return rng.choice([list, tuple])(items)


def closure(rng, depth):
    return new_function(value(rng, depth))


def tensor_payload(x):
    return dict(
        type=type(x),
        dtype=x._fl_dtype,
        device=x._fl_device,
        requires_grad=x.requires_grad,
        sizes=tuple(x._fl_array.shape),
        strides=tuple(s // x._fl_array.itemsize for s in x._fl_array.strides),
    )


def paths(rng, node, here, path, out, depth=5):
    """Random steps from a place down; `out` gets (node, the way to read it)."""
    out.append((node, here, path))
    if depth == 0:
        return
    for kind, key, read in steps(here):
        if rng.random() < 0.8:
            paths(rng, node.child(kind, key), read(here), (*path, read), out, depth - 1)


def steps(here):
    if isinstance(here, Tensor):
        if gradient_of(here) is not None:
            yield "slot", "_grad", gradient_of
        return
    if isinstance(here, types.FunctionType):
        yield "attr", "__code__", lambda f: f.__code__
        yield "attr", "__defaults__", lambda f: f.__defaults__
        if here.__closure__:
            yield "attr", "__closure__", lambda f: f.__closure__
    elif isinstance(here, types.CellType):
        yield "cell", None, lambda c: c.cell_contents
    elif isinstance(here, type):
        if "level" in here.__dict__:
            yield "dict_attr", "level", lambda c: c.__dict__["level"]
        if hasattr(here, "level"):
            yield "type_attr", "level", lambda c: getattr_raw(c, "level")
    elif isinstance(here, dict):
        for key in here:
            yield "item", key, lambda d, key=key: d[key]
    elif isinstance(here, (list, tuple)):
        for i in range(len(here)):
            yield "item", i, lambda s, i=i: s[i]
    elif isinstance(here, Slotted):
        yield "attr", "value", lambda s: s.value
    elif hasattr(here, "__dict__"):
        for key in "abcd":
            if key in here.__dict__:
                yield "dict_attr", key, lambda o, key=key: o.__dict__[key]
        if isinstance(here, nn.Module):
            yield "dict_attr", "_parameters", lambda o: o.__dict__["_parameters"]
        yield "type", None, type


def gradient_of(tensor):
    return getattr(tensor, "_grad", None)


def getattr_raw(cls, name):
    return next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)


def add_checks(rng, node, here):
    if isinstance(here, Tensor):
        node.check("tensor", tensor_payload(here))
        if rng.random() < 0.3:
            node.check("is", here)
    elif isinstance(here, (int, float, str, type(None))) or type(here) is tuple and type(here[0]) is int:
        node.check("equals", here)
    elif isinstance(here, (type, types.CodeType)):
        node.check("is", here)
    else:
        add_container_checks(rng, node, here)


def add_container_checks(rng, node, here):
    if rng.random() < 0.7:
        node.check("type_is", type(here))
    if isinstance(here, (list, tuple, dict)) and rng.random() < 0.5:
        node.check("len", len(here))
    if isinstance(here, dict) and rng.random() < 0.3:
        node.check("dict_keys", tuple(here))
    if isinstance(here, dict) and rng.random() < 0.3:
        node.check("no_item", "z")
    if isinstance(here, dict) and here and rng.random() < 0.3:
        node.check("has_item", rng.choice(list(here)))
    if isinstance(here, nn.Module):
        node.check("no_hooks", ("_forward_hooks", "_forward_pre_hooks"))
    if isinstance(here, (Plain, nn.Module)) and rng.random() < 0.5:
        node.check("no_dict_attr", "z")
    if rng.random() < 0.1:
        node.check("predicate", lambda v: v is not None)


def reachable(root):
    """Everything below the root that can be changed."""
    seen, work = {}, [root]
    while work:
        at = work.pop()
        if id(at) in seen:
            continue
        seen[id(at)] = at
        if isinstance(at, dict):
            work += [*at.values(), *(key for key in at if isinstance(key, Tensor))]
        elif isinstance(at, (list, tuple)):
            work += at
        elif isinstance(at, types.FunctionType):
            work += [c.cell_contents for c in at.__closure__ or ()]
        elif isinstance(at, Slotted):
            work.append(at.value)
        elif isinstance(at, Tensor):
            work.append(gradient_of(at))
        elif isinstance(at, (Plain, nn.Module)):
            work += [at.__dict__, type(at)]
    return list(seen.values())


def mutate(rng, root):
    """One change somewhere; the answer undoes it (or is None)."""
    target = rng.choice(reachable(root))
    if isinstance(target, dict) and target:
        return mutate_dict(rng, target)
    if isinstance(target, list):
        return mutate_list(rng, target)
    if isinstance(target, types.FunctionType):
        return mutate_function(rng, target)
    if isinstance(target, Tensor):
        return mutate_tensor(rng, target)
    if isinstance(target, type):
        return mutate_class(rng, target)
    if isinstance(target, Slotted):
        return store(lambda v: setattr(target, "value", v), target.value, changed(rng, target.value))
    if isinstance(target, (Plain, nn.Module)):
        return mutate_object(rng, target)
    return None


def changed(rng, old):
    """Another value of the kind, the same, or anything; often an equal but new object."""
    how = rng.random()
    if how < 0.3 and isinstance(old, (int, float, str)) and not isinstance(old, bool):
        return old + (1 if not isinstance(old, str) else "x") if rng.random() < 0.5 else type(old)(str(old))
    return old if how < 0.4 else value(rng, 1)


def store(put, old, new):
    put(new)
    return lambda: put(old)


def mutate_dict(rng, target):
    keys = [k for k in target if isinstance(k, (Tensor, int)) or not k.startswith("_")] or ["z"]
    key, how = rng.choice(keys), rng.random()
    if how < 0.5 and key in target:
        return store(lambda v: target.__setitem__(key, v), target[key], changed(rng, target[key]))
    if how < 0.7:
        name = rng.choice("yz")
        target[name] = 1.25
        return lambda: target.pop(name, None)
    if how < 0.8:
        kept = dict(target)
        target.clear()
        return lambda: target.update(kept)
    if how < 0.9 and key in target:
        kept = dict(target)
        target[key] = target.pop(key)

        def back():
            target.clear()
            target.update(kept)

        return back
    for _ in range(5):
        target["unread"] = float(rng.randrange(9))
    return None


def mutate_list(rng, target):
    kept = list(target)
    rng.choice(
        [
            lambda: target.append(1),
            lambda: target and target.pop(),
            target.reverse,
            lambda: target and target.__setitem__(0, changed(rng, target[0])),
        ]
    )()
    return lambda: target.__setitem__(slice(None), kept)


def mutate_function(rng, target):
    how = rng.randrange(3)
    if how == 0:
        old = target.__defaults__
        target.__defaults__ = (rng.randrange(3),)
        return lambda: setattr(target, "__defaults__", old)
    if how == 1:
        old, other = target.__code__, new_function(1).__code__.replace(co_name="other")
        target.__code__ = other
        return lambda: setattr(target, "__code__", old)
    cell = target.__closure__[0]
    return store(lambda v: setattr(cell, "cell_contents", v), cell.cell_contents, changed(rng, cell.cell_contents))


def mutate_tensor(rng, target):
    how = rng.randrange(7)
    old = target._fl_array
    if how == 6:
        return store(
            lambda v: setattr(target, "_grad", v), gradient_of(target), rng.choice([new_tensor(rng), new_tensor(rng), None])
        )
    if how == 0:
        target._fl_array = np.zeros((5, 7), np.float32)
    elif how == 1:
        target._fl_array = np.zeros(old.shape, np.float32)  # the same, elsewhere
    elif how == 2:
        kept = target._fl_requires_grad
        target._fl_requires_grad = not kept
        return lambda: setattr(target, "_fl_requires_grad", kept)
    elif how == 3 and old.flags.c_contiguous:
        sizes = old.shape
        old.shape = (old.size,) if rng.random() < 0.5 else (old.size, 1)  # the same array in another form
        return lambda: setattr(old, "shape", sizes)
    elif how == 4:
        kept = target._fl_dtype
        target._fl_dtype = dtypes.float64
        return lambda: setattr(target, "_fl_dtype", kept)
    else:
        target._fl_array = np.zeros(tuple(2 * n for n in old.shape), np.float32)[tuple(slice(None, None, 2) for _ in old.shape)]
    return lambda: setattr(target, "_fl_array", old)


def mutate_class(rng, target):
    if target in (Plain, nn.Module):
        return None
    if "level" in target.__dict__ and rng.random() < 0.7:
        old = target.__dict__["level"]
        setattr(target, "level", rng.choice([old, rng.randrange(3), float(rng.randrange(3))]))
        return lambda: setattr(target, "level", old)
    target.unread = object()
    return None


def mutate_object(rng, target):
    """Attributes, the dictionary, the class, hooks; and counters that nobody guards."""
    how, fields = rng.random(), target.__dict__
    names = [n for n in "abcd" if n in fields]
    if how < 0.35 and names:
        name = rng.choice(names)
        return store(lambda v: object.__setattr__(target, name, v), fields[name], changed(rng, fields[name]))
    if how < 0.5 and names:
        name = rng.choice(names)
        old = fields[name]
        object.__delattr__(target, name)
        return lambda: object.__setattr__(target, name, old)
    if how < 0.65:
        object.__setattr__(target, "__dict__", dict(fields) if rng.random() < 0.6 else {**fields, "a": 1})
        return lambda: object.__setattr__(target, "__dict__", fields)
    if how < 0.8:
        old = type(target)
        target.__class__ = type("Other", (old,), {})
        return lambda: setattr(target, "__class__", old)
    if "_forward_hooks" in fields and how < 0.9:
        handle = target.register_forward_hook(print)
        return handle.remove
    object.__setattr__(target, "count", float(rng.randrange(9)))
    return None


def read(slot, path):
    for step in path:
        slot = step(slot)
    return slot


def guarded(rng, depth=3):
    """(root, wrapper, tree, [ways to the fetched objects])"""
    root = rng.choice([instance, instance, sequence, closure])(rng, depth)
    tree = native.GuardTree()
    places = []
    paths(rng, tree.child("arg", "x"), root, (), places)
    for node, here, _ in places:
        if rng.random() < 0.8:
            add_checks(rng, node, here)
    fetched = [place for place in places if rng.random() < 0.3]
    tensors = [(node, i) for i, (node, here, _) in enumerate(places) if isinstance(here, Tensor)]
    if tensors and rng.random() < 0.5:
        unique = {id(places[i][1]): (node, i) for node, i in tensors}
        tree.alias(list(unique.values()))
    wrapper = native.Wrapper(doors_support.Recorder(), lambda x: x)
    wrapper.add(native.Entry(tree, None, direct=lambda *a: list(a), inputs=[node for node, _, _ in fetched]))
    wrapper.plain = "no compiler here"
    return root, wrapper, tree, [path for _, _, path in fetched]


def check(root, wrapper, tree, ways):
    accepted = tree.explain({"x": root}) == []
    assert tree.evaluate({"x": root}) == accepted, tree.explain({"x": root})
    if accepted:
        got = wrapper(root)
        assert len(got) == len(ways) and all(a is read(root, way) for a, way in zip(got, ways))
    else:
        assert wrapper(root) is root
    return accepted


polled = 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # numpy's of `array.shape = ...`
@pytest.mark.parametrize("seed", range(120))
def test_polls_agree_with_walks(seed):
    global polled
    rng = random.Random(seed)
    root, wrapper, tree, ways = guarded(rng)
    assert check(root, wrapper, tree, ways)
    for _ in range(60):
        undo = [back for back in (mutate(rng, root) for _ in range(rng.choice([1, 1, 2]))) if back is not None]
        check(root, wrapper, tree, ways)
        if rng.random() < 0.9:
            for back in reversed(undo):
                back()
        check(root, wrapper, tree, ways)
        check(root, wrapper, tree, ways)
    polled += tree.counts()["polled"]


def test_polls_were_made():
    """Of the 120 times 180 questions above, most were answered yes by a snapshot."""
    assert polled > 6000, polled


def parameters_and_state():
    """As an optimizer has them: a list of tensors with gradients, and a table of tables keyed by them; with guards on all of it."""
    rng = random.Random(0)
    parameters = [new_tensor(rng) for _ in range(20)]
    for p in parameters:
        p._grad = Tensor._fl_from_array(np.zeros((3,), np.float32), dtypes.float32)
    state = collections.defaultdict(dict, {p: {"step": new_tensor(rng)} for p in parameters})
    root, tree = [parameters, state], native.GuardTree()
    places = tree.child("arg", "x").child("item", 0), tree.child("arg", "x").child("item", 1)
    for i, p in enumerate(parameters):
        node = places[0].child("item", i)
        for check, payload in (("tensor", tensor_payload(p)), ("is", p)):
            node.check(check, payload)
        node.child("slot", "_grad").check("tensor", tensor_payload(p._grad))
        places[1].check("has_item", p)
        places[1].child("item", p).child("item", "step").check("tensor", tensor_payload(state[p]["step"]))
    tree.freeze()
    return root, tree


def test_an_optimizers_tensors_are_in_the_snapshot():
    root, tree = parameters_and_state()
    assert all(tree.evaluate({"x": root}) for _ in range(10))
    counts = tree.counts()
    assert (counts["tensors"], counts["loose"]) == (60, 0) and counts["polled"] >= 8, counts
    root[1][root[0][7]]["step"] = None
    assert not tree.evaluate({"x": root})


def test_gradients_that_are_replaced_do_not_cost_the_snapshot():
    root, tree = parameters_and_state()
    for _ in range(40):
        for p in root[0]:
            p._grad = Tensor._fl_from_array(np.zeros((3,), np.float32), dtypes.float32)
        assert tree.evaluate({"x": root})
    counts = tree.counts()
    assert (counts["tensors"], counts["loose"]) == (40, 20) and counts["polled"] >= 30, counts
    root[0][4]._grad = None
    assert not tree.evaluate({"x": root})
