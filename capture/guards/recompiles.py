"""What guards that fail teach: which sizes change, what to tell the user.

In: the failures of every entry of a door for one call. Out: `AutomaticDynamic` (places and dimensions to make symbolic,
    how often
what changed), and the texts of the `recompiles` log and of the limit's warning.
"""

from __future__ import annotations

import types
from collections import Counter
from dataclasses import field
from typing import Any

from ...eager.tensor import Tensor
from ...runtime.dataclass import data

# Failures that symbolic sizes cure. A stride follows its sizes; an int or float argument becomes an input.
CURABLE = frozenset({"size", "stride", "int", "float", "len", "relation"})
# Failures of a container that has grown: numbers that change beside them are cured all the same.
GROWING = frozenset({"bool", "has_item", "no_item", "missing", "dict_keys"})


@data
class AutomaticDynamic:
    """Per door: `symbolic` maps a place to a set of dimensions (tensor) or True (number); `changed` counts reasons."""

    symbolic: dict = field(default_factory=dict)
    changed: Counter = field(default_factory=Counter)


def learn_dynamic(learned: AutomaticDynamic, failures: list[list]) -> None:
    """Take the entry that is nearest to the call; if only sizes and numbers differ there, those become symbolic. One that differs
    in what is symbolic already (it went another way at a comparison) teaches nothing: the others are asked first. A number that
    is another one than in each of several entries becomes symbolic whatever else differs."""

    def distance(of_entry: list) -> tuple:
        foreign = sum(f.kind not in CURABLE for f in of_entry)
        return _is_other(of_entry), foreign * 1000 + (_with(learned.symbolic, of_entry) == learned.symbolic) * 500 + len(of_entry)

    nearest = min(failures, key=distance)
    learned.changed.update(dict.fromkeys((_failed_text(f) for f in nearest), 1))
    if not _is_other(nearest):
        learned.symbolic = _with(learned.symbolic, nearest)
    elif len(failures) > 1:
        always = set.intersection(*({(f.kind, f.name) for f in of_entry if f.kind in ("int", "float")} for of_entry in failures))
        learned.symbolic = _with(learned.symbolic, [f for f in nearest if (f.kind, f.name) in always])


def _is_other(of_entry: list) -> bool:
    """Whether more differs than sizes and numbers, and what containers have gained."""
    return any(f.kind not in CURABLE and f.kind not in GROWING for f in of_entry)


def _with(symbolic: dict, failures: list) -> dict:
    """A new dictionary: settings made from the old one keep theirs."""
    grown = {name: set(dims) if isinstance(dims, set) else dims for name, dims in symbolic.items()}
    for f in failures:
        if f.kind == "size" and grown.get(f.name) is not True:  # a place may hold a tensor now and a number then
            grown.setdefault(f.name, set()).add(f.dim)
        elif f.kind in ("int", "float"):
            grown[f.name] = True
        elif f.kind == "len":
            grown[f"len({f.name})"] = True
    return grown


def shapes_of(slots: dict) -> dict:
    """What may become symbolic of a call's arguments: the sizes of tensors, and numbers."""
    return {
        name: tuple(value.shape) if isinstance(value, Tensor) else value
        for name, value in slots.items()
        if isinstance(value, Tensor) or type(value) in (int, float)
    }


def changed_dimensions(before: dict, now: dict) -> dict:
    """The `symbolic` that follows from two calls: dimensions of another size, other numbers."""
    symbolic: dict = {}
    for name in before.keys() & now.keys():
        a, b = before[name], now[name]
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            dims = {dim for dim, (m, n) in enumerate(zip(a, b)) if m != n}
            symbolic.update({name: dims} if dims else {})
        elif type(a) is type(b) and a != b:
            symbolic[name] = True
    return symbolic


WORDS = {"equals": "value", "type_is": "type", "is": "identity", "len": "length", "dict_keys": "keys", "bool": "truth"}


def _failed_text(f: Any) -> str:
    return f"{WORDS.get(f.kind, f.kind)} of {f.name}" + (f" in dimension {f.dim}" if f.dim is not None else "")


def _show(value: Any) -> str:
    """A value in at most 80 characters; of what its own code cannot show, its type."""
    try:
        text = value.__qualname__ if isinstance(value, type) else repr(value)
    except Exception:
        text = f"<{type(value).__qualname__}, whose repr raises>"
    return text if len(text) <= 80 else text[:77] + "..."


def _line(f: Any) -> str:
    if f.kind == "missing":
        text = f"{f.name} is not there"
    elif f.kind in ("alias", "relation", "predicate"):
        text = f"{f.describe}: no longer holds" + (f", is {_show(f.new)}" if f.new is not None else "")
    else:
        text = f"{_failed_text(f)}: was {_show(f.old)}, is {_show(f.new)}"
    return text + (f"   # {f.line}" if f.line else "")


def reasons(failures: list[list]) -> list[str]:
    """All failed guards of all entries, with old and new value: a text per entry."""
    return ["\n".join(map(_line, of_entry)) for of_entry in failures]


def describe(code: types.CodeType, failures: list[list]) -> str:
    """That, for people who read a log."""
    lines = [f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) is compiled again"]
    for number, text in enumerate(reasons(failures)):
        lines += [f"    entry {number}:"] + [f"        {line}" for line in text.splitlines()]
    return "\n".join(lines)


def warning(code: types.CodeType, limit: int, learned: AutomaticDynamic) -> str:
    """The text told once when a door has used up its entries."""
    kept = ", ".join(f"{place} ({times} times)" for place, times in learned.changed.most_common(3)) or "nothing that guards name"
    return (
        f"flambeau: {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) was compiled {limit} times and now runs "
        f"eagerly where no entry fits. What kept changing: {kept}. Mark changing sizes with mark_dynamic, pass changing "
        "numbers as tensors, or raise FLAMBEAU_RECOMPILE_LIMIT; FLAMBEAU_LOGS=recompiles tells every change."
    )
