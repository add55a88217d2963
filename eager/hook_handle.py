"""Handles that take a registered hook away again.

In: the dictionary that holds hooks (id -> function), and dictionaries that hold flags under the same ids.
Out: a `RemovableHandle`. Ids grow through the process, so hooks run in the order of registration.
"""

import weakref
from collections import OrderedDict


class RemovableHandle:
    """Returned by every `register_*hook`; `remove()` may be called more than once, and it works as a context
    manager."""

    next_id = 0

    def __init__(self, hooks, *, extra_dict=None):
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = () if extra_dict is None else extra_dict if isinstance(extra_dict, (list, tuple)) else (extra_dict,)
        self._refs = tuple(weakref.ref(d) for d in (hooks, *extra))

    def remove(self):
        for ref in self._refs:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()

    def __getstate__(self):
        return self.id, tuple(ref() for ref in self._refs)

    def __setstate__(self, state):
        self.id, dicts = state
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        self._kept = tuple(OrderedDict() if d is None else d for d in dicts)
        self._refs = tuple(weakref.ref(d) for d in self._kept)


def add_hook(hooks, fn, prepend=False, flags=()):
    """Put `fn` into `hooks` (an OrderedDict) and its id into each dictionary of `flags`."""
    handle = RemovableHandle(hooks, extra_dict=flags)
    hooks[handle.id] = fn
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
