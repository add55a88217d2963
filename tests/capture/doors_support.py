"""A cache with a converter of a few lines for the tests of hook, guards and doors: constants of the code are replaced."""

import dis
import types

import numpy as np

from flambeau.capture import _capture as native
from flambeau.eager.state import state
from flambeau.eager.tensor import Tensor
from flambeau.runtime.errors import CheckFailed

native.configure(tensor=Tensor, ndarray=np.ndarray, check_failed=CheckFailed, state=state)


def renamed(code, replacements):
    """The code with some constants replaced, and a larger frame than the original's."""
    consts = tuple(replacements.get(c, c) if isinstance(c, str) else c for c in code.co_consts)
    return code.replace(co_consts=consts, co_stacksize=code.co_stacksize + 7)


class Recorder(native.Cache):
    """Compiles by replacing the constant "old" with "new"; notes every question that it is asked."""

    def __init__(self, wanted=lambda code: True, make=None, guard=None):
        self.asked, self.met = [], []
        self.wanted, self.make, self.guard = wanted, make, guard

    def frame(self, code, globals):
        self.met.append(code.co_name)
        return self.wanted(code)

    def special(self):
        self.asked.append("special")

    def miss(self, door, code, globals, builtins, closure, slots):
        self.asked.append((door.kind, code.co_name, slots))
        tree = native.GuardTree()
        if self.guard is not None:
            self.guard(tree, slots)
        entry = native.Entry(tree, self.new_code(code))
        door.add(entry)
        return entry

    def new_code(self, code):
        return self.make(code) if self.make else renamed(code, {"old": "new"})


def hooked(function, *args, cache=None, **kwargs):
    """Call with the frame hook active for a cache; returns (result, cache)."""
    cache = cache or Recorder()
    return native.call("running", cache, function, args, kwargs), cache


def instructions(code):
    return [i.opname for i in dis.get_instructions(code)]


def code_like(original, replacement: types.FunctionType):
    """The replacement's code under the original's name."""
    return replacement.__code__.replace(co_name=original.__name__, co_qualname=original.__qualname__)
