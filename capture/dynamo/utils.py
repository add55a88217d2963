"""torch._dynamo.utils: questions about the compiler, and what it counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...runtime import counters as ours


def is_compile_supported(device_type: Any) -> Any:
    """Whether functions on this device can be compiled."""
    return device_type == "cpu"


class _Counters(Mapping):
    """This compiler's counts under PyTorch's names, as they are at the moment; a group without counts is empty."""

    def _groups(self) -> dict:
        now = ours.snapshot()
        groups = {
            "frames": {"total": now["frames"], "ok": now["frames"]},
            "stats": {"unique_graphs": now["graphs"]},
            "recompiles": {"total": now["recompiles"]},
            "graph_break": now["breaks"],
            "fallbacks": now["fallbacks"],
            "inductor": {"kernels": now["kernels"], "fxgraph_cache_hit": now["cache_hits"]},
        }
        return {name: Counter({key: int(n) for key, n in counts.items() if n}) for name, counts in groups.items()}

    def __getitem__(self, name: str) -> Any:
        return self._groups().get(name, Counter())

    def __iter__(self) -> Any:
        return iter([name for name, counts in self._groups().items() if counts])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: str) -> bool:
        return name in list(iter(self))

    def clear(self) -> None:
        """All counts begin again."""
        ours.reset()

    def __repr__(self) -> str:
        return f"defaultdict({Counter.__name__}, {dict(self)!r})"


counters = _Counters()
