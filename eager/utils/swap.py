"""Two tensors exchange all that they are: values, gradients, attributes and class."""

import sys
import weakref

from ..state import state
from ..tensor import Tensor
from ...runtime.errors import Unsupported

SLOTS = [name for name in Tensor.__slots__ if not name.startswith("__")]
ABSENT = object()


def swap_tensors(t1, t2):
    """After it, every reference to `t1` sees what `t2` was, and the other way round. Refused where weak references or views know
    one of them."""
    if state.modes:
        raise Unsupported("in-place view", "swap_tensors: tensors exchange their memory", "swap them outside of compiled code")
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        held = t._fl_storage
        if held is not None and sys.getrefcount(held) > 3:  # (the slot, the name here, the argument)
            raise RuntimeError(f"Cannot swap {name}: other tensors share its memory")
        del held
    kinds, slots = (type(t1), type(t2)), [(_held(t1), t1.__dict__.copy()), (_held(t2), t2.__dict__.copy())]
    for t, kind, (held, named) in ((t1, kinds[1], slots[1]), (t2, kinds[0], slots[0])):
        if type(t) is not kind:
            t.__class__ = kind
        t.__dict__.clear()
        t.__dict__.update(named)
        for name, value in held.items():
            if value is not ABSENT:
                setattr(t, name, value)
            elif hasattr(t, name):
                delattr(t, name)
    storages = [t._fl_ensure_storage() for t in (t1, t2) if not t.is_inference()]
    newest = 1 + max([storage._version for storage in storages], default=0)
    for storage in storages:  # a graph that saved one of the tensors must notice
        storage._version = newest
        storage.data_version += 1


def _held(t):
    return {name: getattr(t, name, ABSENT) for name in SLOTS}
