"""torch.fx._compatibility: the decorator that marks what PyTorch keeps stable; it returns what it decorates."""

from __future__ import annotations

from typing import Any


def compatibility(is_backward_compatible: Any) -> Any:
    """`@compatibility(is_backward_compatible=True)`: nothing is recorded."""

    def decorated(function: Any) -> Any:
        return function

    return decorated
