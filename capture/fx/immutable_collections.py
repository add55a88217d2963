"""Lists and dicts that a graph keeps: they compare, hash and print like their kinds and refuse to be changed."""

from __future__ import annotations

from typing import Any

_ADVICE = (
    "object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node object, "
    "instead create a new copy of it and assign the copy to the node: new_args = ... # copy and mutate args; "
    "node.args = new_args"
)


def _refusing(names: str) -> dict:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' {_ADVICE}")

    return dict.fromkeys(names.split(), refuse)


class immutable_list(list):
    """A list that stays as it is."""

    locals().update(_refusing("__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dict that stays as it is."""

    locals().update(_refusing("__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"))

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return immutable_dict, (tuple(self.items()),)
