"""Writes docs/api.md: which names of PyTorch's API exist here, and what share of the names that programs use.

In: the package, and api_names.txt (names with their ranks). Out: api.md. Run `python docs/make_api.py` with the package
importable; `--check` exits with 1 if api.md is not up to date.
"""

import importlib
import inspect
import pathlib

import flambeau
from checked import finish
from flambeau.eager.compat.absent import table
from flambeau.eager.compat.absent.reasons import OTHERWISE, reason
from make_absent import LEFT_OUT

FOLDER = pathlib.Path(__file__).parent
MODULES = """nn nn.functional nn.grad nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations nn.parallel
optim optim.lr_scheduler optim.swa_utils autograd amp linalg fft special distributions utils.data utils.checkpoint func
random compiler profiler signal.windows utils.tensorboard""".split()


def find(path):
    """The object at `torch.a.b` or `Tensor.a`; None if there is none."""
    first, _, rest = path.partition(".")
    found = {
        "torch": flambeau,
        "Tensor": flambeau.Tensor,
        "Module": flambeau.nn.Module,
        "Optimizer": flambeau.optim.Optimizer,
    }.get(first)
    parts = rest.split(".")
    for k, part in enumerate(parts):
        below = getattr(found, part, None)
        if below is None and inspect.ismodule(found):
            below = imported(".".join(["flambeau", *parts[: k + 1]]))
        found = below
        if found is None:
            return None
    return found


def imported(path):
    try:
        return importlib.import_module(path)
    except ImportError:
        return None


def places(name):
    """Where a listed name may be: methods and functions, also under the in-place name."""
    if not name.startswith("op:"):
        return [name]
    spellings = [s for each in name[3:].split("/") for s in (each, each + "_")]
    return [prefix + s for s in spellings for prefix in ("torch.", "Tensor.", "torch.nn.functional.")]


def status(name):
    """ "done", "placeholder" (it exists so that it can be imported, and raises when it is used), or "missing"."""
    found = [each for each in map(find, places(name)) if each is not None]
    if name.startswith(("torch.", "Tensor.")) and name in ("Tensor.grad", "Tensor.names", "torch.newaxis"):
        return "done"
    if not found and not any(has(each) for each in places(name)):
        return "missing"
    return "placeholder" if found and all(hasattr(each, "missing") for each in found) else "done"


def elsewhere(name):
    """Whether the list has a class under a path that PyTorch 2.13 does not have either (`torch.nn.linear.Linear` for
    `torch.nn.modules.linear.Linear`), and it exists under the right one."""
    parts = name.split(".")
    return len(parts) == 4 and parts[:2] == ["torch", "nn"] and find(".".join(["torch", "nn", "modules", *parts[2:]])) is not None


def has(path):
    """A name whose value is None counts as there."""
    owner, _, last = path.rpartition(".")
    holder = {"torch": flambeau, "Tensor": flambeau.Tensor}.get(owner)
    return holder is not None and last in vars(holder)


def listed():
    """[(rank for models, rank for training, name)]"""
    rows = []
    for line in (FOLDER / "api_names.txt").read_text().splitlines():
        if not line.startswith("#"):
            models, training, name = line.split("\t")
            rows.append((rank(models), rank(training), name))
    return rows


def rank(text):
    return int(text) if text != "-" else None


def public(module):
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted(
        {
            n
            for n in names
            if not n.startswith("_") and not inspect.ismodule(getattr(module, n, None)) and n not in ("annotations",)
        }
    )


# (title, column of the rank, how many entries cover the share of files that is told, which share)
LISTS = (("programs that define models", 0, 425, "90%"), ("programs that train", 1, 375, "95%"))
SPARSE = {"op:to_sparse", "op:sparse_coo_tensor", "op:spmm", "op:_indices"}  # sparse tensors: not part of this project


def share_table(rows):
    yield "| list | first 250 | entries that cover a share of files | all |"
    yield "|---|---|---|---|"
    for title, column, covering, share_of_files in LISTS:
        chosen = sorted((row[column], row[2]) for row in rows if row[column])
        dense = [pair for pair in chosen[:covering] if pair[1] not in SPARSE]
        without = f", {covering - len(dense)} sparse ones excepted" if len(dense) < covering else ""
        yield (
            f"| {title} | {share(chosen[:250])} | first {covering}, {share_of_files} of files: {share(dense)}{without} "
            f"| {share(chosen)} |"
        )


def share(chosen):
    done = sum(status(name) == "done" for _, name in chosen)
    return f"{done} of {len(chosen)}"


def absent():
    """Counts of what eager/compat/absent/names.txt lists, by the part of PyTorch, and what is left out of it."""
    counts = {}
    for path in table.lines():
        if table.names(path) or path:
            row = counts.setdefault(table.public(".".join(path.split(".")[:1])), [0, 0])
            row[0] += hasattr(imported(f"flambeau.{path}".rstrip(".")), "missing")
            row[1] += len(table.names(path))
    yield (
        f"Of PyTorch's modules {sum(row[0] for row in counts.values())} exist only to be imported, and "
        f"{sum(row[1] for row in counts.values())} names, in those and in others, raise when they are called or constructed "
        "(constants, exceptions and enumerations are what they are in PyTorch). `eager/compat/absent/names.txt` lists them; "
        "`eager/compat/absent/reasons.py` has the advice that an error gives."
    )
    yield from ("", "| part | modules | names | what to do instead |", "|---|---|---|---|")
    small = [0, 0]
    for part, (modules, names) in sorted(counts.items()):
        advice = reason(part)
        if modules + names < 25:
            small = [small[0] + modules, small[1] + names]
        else:
            yield f"| `{part}` | {modules} | {names} | {'' if advice == OTHERWISE else advice} |"
    yield f"| others | {small[0]} | {small[1]} | |"
    yield from ("", "Not imported and not listed:", "")
    yield from (f"- `{name}`: {why}" for name, why in LEFT_OUT.items())
    yield "- modules that PyTorch itself imports only where another package is installed (onnxscript, cutlass, cuda, ...)"


def text():
    rows = listed()
    lines = [
        "# Names of PyTorch's API",
        "",
        "Made by `docs/make_api.py`. A placeholder can be imported and raises, by name, when it is used; a missing "
        "name raises AttributeError.",
        "",
        "## Names that programs use",
        "",
        *share_table(rows),
        "",
    ]
    for wanted in ("placeholder", "missing"):
        names = [f"`{name}`" for _, _, name in rows if status(name) == wanted and not elsewhere(name)]
        lines += [f"### {wanted.capitalize()}", "", ", ".join(names) or "none", ""]
    names = [f"`{name}`" for _, _, name in rows if status(name) == "missing" and elsewhere(name)]
    lines += ["### Under `torch.nn.modules`, here as in PyTorch", "", ", ".join(names), ""]
    lines += ["## All public names", ""]
    for path in ["", *MODULES]:
        module = flambeau if not path else imported(f"flambeau.{path}")
        if module is not None:
            names = [n + "*" * hasattr(getattr(module, n, None), "missing") for n in public(module)]
            lines += [f"### torch{'.' * bool(path)}{path} ({len(names)})", "", ", ".join(names), ""]
    lines += ["## Modules and names that only raise", "", *absent(), ""]
    methods = [n for n in dir(flambeau.Tensor) if not n.startswith("_")]
    lines += [f"### Tensor ({len(methods)})", "", ", ".join(methods), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    finish(FOLDER / "api.md", text())
