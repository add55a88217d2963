"""Errors of eager code that are not plain RuntimeError, TypeError, ...; and how shapes are told in messages."""

from __future__ import annotations

from ..runtime.errors import FlambeauError


class DataDependent(FlambeauError):
    """The value of a tensor without bytes was asked for: a capture breaks here, eager code never sees it."""

    def __init__(self, what: str):
        super().__init__(f"{what} needs the values of a tensor, which only the data knows")
        self.what = what


def shapes(*tensors) -> str:
    """'[2, 3] and [4]': the shapes of the tensors among the arguments."""
    return " and ".join(str(list(t.shape)) for t in tensors if hasattr(t, "shape"))
