"""Block sizes and warps that a kernel may be given, beside those that rules give it.

In: what a writer knows of its kernel. Out: the changes of `TritonKernel.blocks` worth a trial, at most `MOST`. A writer names
only the sizes that its text takes in any value: rows of one block, and what a text relies on, stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MOST = 8
# by bytes of an element: BM, BN, BK, warps, stages
PRODUCTS = {
    2: (
        (128, 128, 64, 8, 4),
        (128, 256, 64, 8, 3),
        (128, 64, 32, 4, 4),
        (64, 128, 64, 4, 3),
        (64, 64, 64, 4, 4),
        (32, 64, 64, 4, 4),
        (64, 32, 64, 4, 4),
        (32, 32, 128, 4, 3),
    ),
    4: (
        (128, 64, 32, 4, 3),
        (64, 128, 32, 4, 3),
        (128, 128, 16, 8, 3),
        (64, 64, 16, 4, 4),
        (32, 64, 32, 4, 3),
        (64, 32, 32, 4, 3),
        (32, 32, 64, 4, 2),
    ),
    8: ((64, 64, 16, 4, 2), (32, 64, 16, 4, 3), (64, 32, 16, 4, 3), (16, 32, 32, 2, 2)),
}
SQUARES = ((64, 64), (16, 64), (64, 16), (16, 256), (256, 16))


def distinct(rule: dict[str, Any], changes: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Changes that change something, each once."""
    seen, found = [dict(rule)], []
    for change in changes:
        made = {**rule, **change}
        if made not in seen and change.keys() <= rule.keys():
            seen.append(made)
            found.append(change)
    return tuple(found[:MOST])


def products(rule: dict[str, Any], fits: dict[str, int], bytes_: int) -> tuple[dict[str, Any], ...]:
    """Tiles of a product; `fits`: the largest of each block that is not mere padding."""
    made = []
    for bm, bn, bk, warps, stages in PRODUCTS.get(bytes_, PRODUCTS[2]):
        tile = {name: min(n, fits[name]) for name, n in (("BM", bm), ("BN", bn), ("BK", bk))}
        made.append({**tile, "num_warps": max(1, min(warps, tile["BM"] * tile["BN"] // 1024)), "num_stages": stages})
    return distinct(rule, made)


def attention(rule: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Blocks divide those that the text was written for, as masks at the ends were left out where they divide the rows."""
    half = lambda name: max(16, rule[name] // 2)
    other = {"num_warps": 8 if rule["num_warps"] < 8 else 4}
    return distinct(
        rule,
        [
            other,
            {"num_stages": rule["num_stages"] + 1},
            {"num_stages": max(1, rule["num_stages"] - 1)},
            {"BM": half("BM")},
            {"BN": half("BN")},
            {"BM": half("BM"), "BN": half("BN")},
            {"BN": half("BN"), **other},
            {"BM": half("BM"), "num_stages": rule["num_stages"] + 1},
        ],
    )


def maps(rule: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Any sizes: every dimension has a mask."""
    if "YBLOCK" in rule:
        return distinct(rule, ({"YBLOCK": y, "XBLOCK": x, "num_warps": 4 if x * y <= 1024 else 8} for y, x in SQUARES))
    return distinct(rule, ({"XBLOCK": x, "num_warps": w} for x, w in ((256, 4), (512, 4), (512, 8), (1024, 8), (2048, 8))))


def rows(rule: dict[str, Any], walked: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """`walked`: the blocks in which long rows are walked; short ones are one block, of one size."""
    blocks = [{}] + [dict.fromkeys(walked, n) for n in (512, 2048, 4096) if walked]
    outer = sorted({rule["XBLOCK"], max(1, rule["XBLOCK"] // 4), min(128, 4 * rule["XBLOCK"])}) if "XBLOCK" in rule else [None]
    warps = [w for w in (rule["num_warps"], rule["num_warps"] * 2, max(1, rule["num_warps"] // 2)) if w <= 16]
    made = [{**b, "num_warps": w} for b in blocks for w in warps] if walked else []
    made += [{"XBLOCK": x, "num_warps": w} for x in outer if x is not None for w in warps]
    return distinct(rule, sorted(made, key=lambda m: -m["num_warps"]))
