"""torch.autograd.forward_ad: levels of dual tensors, and what a tensor carries in them, which is no tangent.

Derivatives along a direction are `torch.func.jvp` and `torch.autograd.functional.jvp`, which run the function once and a
backward of its backward; no op carries a tangent beside its result, so `make_dual` raises. Packages ask `unpack_dual` whether a
tensor has a tangent, and the answer is true.

https://pytorch.org/docs/stable/autograd.html#forward-mode-automatic-differentiation
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

_current_level = -1


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None where it has none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Opens the one level that there can be; its number, 0."""
    global _current_level
    if _current_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _current_level += 1
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level."""
    global _current_level
    if level is not None and level != _current_level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not supported.")
    if _current_level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    _current_level -= 1


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Raises: no tensor carries a tangent here."""
    if _current_level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    raise RuntimeError(
        "torch.autograd.forward_ad.make_dual does not exist in flambeau: torch.func.jvp(f, (x,), (tangent,)) gives f(x) and its "
        "derivative along the tangent"
    )


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor (inside a level a view of it, as PyTorch's) and None."""
    inside = (_current_level if level is None else level) >= 0
    return UnpackedDualTensor(tensor.view_as(tensor) if inside else tensor, None)


class dual_level(contextlib.ContextDecorator):
    """`with dual_level() as level`: a level that is open inside."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()
