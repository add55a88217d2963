"""torch.torch_version: the version as a text that compares as a version."""

import re

_PARTS = re.compile(r"(?:\d+!)?(\d+(?:\.\d+)*)(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?(\d*))?(.*)", re.IGNORECASE)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}


class TorchVersion(str):
    """A text; beside texts and tuples, `<` and its kin compare numbers: "2.13" lies above "2.9". Tests `==` by numbers, too.
    Source: PyTorch's `torch.torch_version`."""

    __slots__ = ()

    def __lt__(self, other):
        return _key(self) < _key(other)

    def __le__(self, other):
        return _key(self) <= _key(other)

    def __gt__(self, other):
        return _key(self) > _key(other)

    def __ge__(self, other):
        return _key(self) >= _key(other)

    def __eq__(self, other):
        return str.__eq__(self, other) is True or _key(self) == _key(other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def _key(version) -> tuple[tuple, tuple, str]:
    """Numbers without zeros at the end, then the stage before the release (a release comes last)."""
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    found = _PARTS.match(text.strip().removeprefix("v").partition("+")[0])
    if not found:
        return (), (), text  # no version: equal to itself, below every release
    numbers = [int(n) for n in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    stage = (_STAGES[found[2].lower()], int(found[3] or 0)) if found[2] else (-1, 0) if ".dev" in found[4] else (3, 0)
    return tuple(numbers), stage, ""


__all__ = ["TorchVersion"]
