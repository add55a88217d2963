"""How blocks are combined: for every combine of `eager.op.prims.COMBINES`, a block's result and the accumulators of a loop.

In: the texts of a reduction's values as whole blocks, and the mask of what counts. Out: texts of its results, each reduced
along the tile's last dimension. A block that is all of a row is reduced at once; in a loop every lane keeps a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...eager import dtypes
from ...eager.op.prims import COMBINES
from .prims import literal
from .triton_text import register_type

PLAIN = {"sum": "add", "prod": "multiply", "any": "either", "all": "both"}


@dataclass
class BlockReduction:
    """One reduction in one kernel. `bind(stem, text)` prints a line and gives its name; `tail` turns a result of one dimension
    less into a block (`[:, None]`, or nothing)."""

    combine: str
    dtype: Any
    axis: int
    tail: str
    shape: str
    bind: Any

    @property
    def register(self) -> str:
        return "tl.int32" if self.dtype is dtypes.bool else register_type(self.dtype)

    def reduced(self, texts: list[str], function: str) -> str:
        given = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        return f"tl.reduce({given}, {self.axis}, {function}){self.tail if len(texts) == 1 else ''}"

    def function(self) -> str:
        if self.combine in ("max", "min"):
            return f"{'' if self.dtype.is_floating_point else 'whole_'}{self.combine}imum"
        return {"argmax": "larger", "argmin": "smaller"}.get(self.combine) or PLAIN[self.combine]

    def identity(self) -> str:
        given = COMBINES[self.combine].identity(self.dtype)
        number = given[0] if isinstance(given, tuple) else given
        if self.dtype is dtypes.bool:
            return str(int(bool(number)))
        return literal(number, self.dtype)

    def kept(self, text: str, mask: str, identity: str) -> str:
        return f"tl.where({mask}, {text}, {identity})" if mask else text

    def asked(self, text: str) -> str:
        """Truth is combined as whole numbers."""
        return f"{text}.to(tl.int32)" if self.dtype is dtypes.bool else text

    def answered(self, name: str) -> str:
        return self.bind("truth", f"{name} != 0") if self.dtype is dtypes.bool else name

    # -- a row at once

    def at_once(self, texts: list[str], mask: str) -> list[str]:
        if self.combine == "welford":
            return self.moments(texts[0], mask)
        if self.combine == "logsumexp":
            return [self.log_of_sum(texts[0], mask)]
        kept = self.bind("part", self.kept(self.asked(texts[0]), mask, self.identity()))
        if self.combine in ("argmax", "argmin"):
            return self.pair([kept, self.kept(texts[1], mask, "0x7fffffffffffffff")])
        return [self.answered(self.bind(self.combine, self.reduced([kept], self.function())))]

    def pair(self, texts: list[str]) -> list[str]:
        found = self.bind(self.combine, self.reduced(texts, self.function()))
        return [self.bind("key", f"{found}[0]{self.tail}"), self.bind("at", f"{found}[1]{self.tail}")]

    def moments(self, text: str, mask: str) -> list[str]:
        count = self.bind(
            "count",
            self.reduced(
                [f"tl.where({mask}, 1.0, 0.0).to({self.register})" if mask else f"tl.full({self.shape}, 1.0, {self.register})"],
                "add",
            ),
        )
        total = self.reduced([self.kept(text, mask, "0.0")], "add")
        mean = self.bind("mean", f"{total} / {count}")
        away = self.bind("away", self.kept(f"{text} - {mean}", mask, "0.0"))
        return [mean, self.bind("m2", self.reduced([f"{away} * {away}"], "add")), count]

    def log_of_sum(self, text: str, mask: str) -> str:
        kept = self.bind("part", self.kept(text, mask, 'float("-inf")'))
        top = self.bind("top", f"finite({self.reduced([kept], 'maximum')})")
        return self.bind("logsumexp", f"tl.log({self.reduced([f'tl.exp({kept} - {top})'], 'add')}) + {top}")

    # -- in a loop

    def begin(self) -> list[str]:
        """The accumulators before the first block."""
        full = lambda stem, number, kind: self.bind(stem, f"tl.full({self.shape}, {number}, {kind})")
        if self.combine == "welford":
            return [full(stem, "0.0", self.register) for stem in ("mean", "m2", "count")]
        if self.combine == "logsumexp":
            return [full("top", 'float("-inf")', self.register), full("total", "0.0", self.register)]
        first = full("acc", self.identity(), self.register)
        if self.combine in ("argmax", "argmin"):
            return [first, full("acc_at", "0x7fffffffffffffff", "tl.int64")]
        return [first]

    def step(self, accs: list[str], texts: list[str], mask: str) -> list[str]:
        """The lines of one block."""
        if self.combine == "welford":
            mean, m2, count = accs
            return self.step_moments(mean, m2, count, texts[0], mask)
        if self.combine == "logsumexp":
            top, total = accs
            return self.step_log_of_sum(top, total, texts[0], mask)
        kept = self.kept(self.asked(texts[0]), mask, self.identity())
        if self.combine in ("argmax", "argmin"):
            at = self.kept(texts[1], mask, "0x7fffffffffffffff")
            return [f"{accs[0]}, {accs[1]} = {self.function()}({accs[0]}, {accs[1]}, {kept}, {at})"]
        return [f"{accs[0]} = {self.function()}({accs[0]}, {kept})"]

    def step_moments(self, mean: str, m2: str, count: str, text: str, mask: str) -> list[str]:
        delta = f"{text} - {mean}"
        more = f"tl.where({mask}, 1.0, 0.0).to({self.register})" if mask else "1.0"
        return [
            f"{count} = {count} + {more}",
            f"away = {self.kept(delta, mask, '0.0')}",
            f"{mean} = {mean} + {self.kept(f'away / {count}', mask, '0.0')}",
            f"{m2} = {m2} + {self.kept(f'away * ({text} - {mean})', mask, '0.0')}",
        ]

    def step_log_of_sum(self, top: str, total: str, text: str, mask: str) -> list[str]:
        kept = self.kept(text, mask, 'float("-inf")')
        return [
            f"higher = maximum({top}, {kept})",
            f"{total} = {total} * tl.exp({top} - finite(higher)) + tl.exp({kept} - finite(higher))",
            f"{top} = higher",
        ]

    def end(self, accs: list[str]) -> list[str]:
        """The lanes' parts together."""
        if self.combine == "welford":
            found = self.bind("moments", self.reduced(accs, "join_moments"))
            mean, m2, count = (self.bind(stem, f"{found}[{k}]{self.tail}") for k, stem in enumerate(("mean", "m2", "count")))
            return [self.bind("mean", f'tl.where({count} == 0, float("nan"), {mean})'), m2, count]
        if self.combine == "logsumexp":
            top, total = accs
            highest = self.bind("highest", f"finite({self.reduced([top], 'maximum')})")
            whole = self.reduced([f"{total} * tl.exp({top} - {highest})"], "add")
            return [self.bind("logsumexp", f"tl.log({whole}) + {highest}")]
        if self.combine in ("argmax", "argmin"):
            return self.pair(accs)
        return [self.answered(self.bind(self.combine, self.reduced(accs, self.function())))]
