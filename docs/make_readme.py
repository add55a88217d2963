"""Fills README.md with what was measured elsewhere: rows of the benchmark table, the share of PyTorch's names, a dumped kernel.

In: benchmarks/README.md, docs/api.md, docs/stages.md. Out: the parts of README.md between `<!-- made: NAME -->` and
`<!-- end -->`. Of the benchmark's rows the best, the worst and some between are shown, chosen by the ratio alone. Run
`python docs/make_readme.py`; `--check` exits with 1 if the page is not up to date.
"""

import re

from checked import ROOT, finish

PAGE = ROOT / "README.md"
RATIO = "torch.compile's time / ours"
COLUMNS = (
    ("what", ("what",)),
    ("unit", ("unit",)),
    ("PyTorch", ("PyTorch", "torch eager")),
    ("torch.compile", ("torch.compile",)),
    ("compiled here", ("compiled: ours", "flambeau compiled")),
    (RATIO, (RATIO,)),
)
BEST, BETWEEN, WORST = 3, 4, 3


def table():
    """Rows of the benchmark as dictionaries by column, and the line about how it was measured."""
    text = (ROOT / "benchmarks/README.md").read_text().partition("<!-- table")[2].partition("<!-- end")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    how = next(line for line in text.splitlines() if line.startswith("Measured"))
    return [dict(zip(cells[0], row)) for row in cells[2:]], how.split(". ")[0].rstrip(".")


def number(row):
    found = re.match(r"[\d.]+", row[RATIO])
    return float(found[0]) if found else None


def chosen(rows):
    """The best, those spread evenly between, and the worst, in the order of the ratio."""
    ranked = sorted((row for row in rows if number(row) is not None), key=number, reverse=True)
    if len(ranked) <= BEST + BETWEEN + WORST:
        return ranked
    middle = ranked[BEST:-WORST]
    between = [middle[(2 * k + 1) * len(middle) // (2 * BETWEEN)] for k in range(BETWEEN)]
    return ranked[:BEST] + between + ranked[-WORST:]


def benchmarks():
    rows, how = table()
    shown = chosen(rows)
    cell = lambda row, names: next(row[name] for name in names if name in row)
    lines = ["| " + " | ".join(title for title, _ in COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cell(row, names) for _, names in COLUMNS) + " |" for row in shown]
    slower = sum(number(row) < 1 for row in rows if number(row) is not None)
    told = (
        f"{how}. {len(shown)} of {len(rows)} rows: the best, the worst, and between; "
        f"in {slower or 'none'} of all ours is the slower one. A ratio above 1: less time here."
    )
    return "\n".join([*lines, "", told])


def coverage():
    """What docs/api.md says of names that programs use."""
    names = (ROOT / "docs/api.md").read_text()
    rows = re.findall(
        r"^\| programs that (\w+).*?\| first \d+, (\d+%) of files: (\d+ of \d+).*? \| (\d+ of \d+) \|$", names, re.MULTILINE
    )
    parts = [
        f"{dense} of those that {share} of the files with programs that {what}{'' if what == 'train' else ' models'} need, "
        f"{every} in all"
        for what, share, dense, every in rows
    ]
    return (
        "Of the names of PyTorch that 84 public repositories use, these are here (sparse tensors excepted): "
        + "; ".join(parts)
        + ". `docs/api.md` lists every name."
    )


def kernel():
    """Some lines of the kernel on the page about stages."""
    text = (ROOT / "docs/stages.md").read_text()
    block = re.search(r"```cpp\n(// k_gemm.*?)^```", text, re.DOTALL | re.MULTILINE)[1].splitlines()
    first = next(k for k, line in enumerate(block) if "each_vector" in line)
    return "\n".join(["```cpp", *block[1:4], *[line[8:] for line in block[first : first + 4]], "```"])


PARTS = {"benchmarks": benchmarks, "coverage": coverage, "kernel": kernel}


def filled(page):
    return re.sub(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{PARTS[m[2]]()}\n{m[3]}", page, flags=re.DOTALL)


if __name__ == "__main__":
    finish(PAGE, filled(PAGE.read_text()))
