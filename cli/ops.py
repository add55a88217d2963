"""The op records: all of them, or one with everything that is derived from it.

Of one record: parameters with roles, outputs, promotion, formula or decomposition, gradients, kernels, the in-place form,
what the first sample gives, and, with `--code`, the loop and the C++ that the compiler makes of that sample.
"""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from ..eager.op.op import OPS, Kind, Op
from .result import Answer, Wrong

HELP = "the op records: all, or one with everything that is derived from it"
EXAMPLES = """
    python -m flambeau ops                  # kind, name and parameters of all
    python -m flambeau ops layer_norm
    python -m flambeau ops silu --code      # its loop and C++ as well
"""
_CALL = "a call of eager's kernel"
COMPILED_BY = {Kind.COMPOSITE: "its decomposition", Kind.EXTERN: _CALL, Kind.SCAN: _CALL}
FORMULA = {Kind.COMPOSITE: "decomposition", Kind.EXTERN: "rule", Kind.VIEW: "stride rule"}


def add(parser: Any) -> None:
    parser.add_argument("name", nargs="?", help="of one record")
    parser.add_argument("--code", action="store_true", help="also the loop IR and the C++ of its first sample")


def run(options: Any) -> Answer:
    return everything() if options.name is None else one(options.name, options.code)


def everything() -> Answer:
    found = [
        {"name": op.name, "kind": op.kind.value, "parameters": [p.name for p in op.params], "gradients": list(op.grads)}
        for op in sorted(OPS.values(), key=lambda op: (op.kind.value, op.name))
    ]
    return Answer(found, "\n".join(f"{f['kind']:10} {f['name']}({', '.join(f['parameters'])})" for f in found))


def find_op(name: str) -> Op:
    """The record, under its own name or that of its in-place form."""
    if name in OPS:
        return OPS[name]
    near = difflib.get_close_matches(name, OPS, 3)
    raise Wrong(f"there is no op {name!r}" + (f"; is {' or '.join(near)} meant?" if near else "") + " `ops` lists all")


def one(name: str, code: bool) -> Answer:
    op = find_op(name)
    facts = facts_of(op)
    if code:
        facts |= compiled(op)
    return Answer(facts, text(facts))


def facts_of(op: Op) -> dict[str, Any]:
    rule = op.promote if isinstance(op.promote, str) else "a rule of its own"
    return {
        "name": op.name,
        "kind": op.kind.value,
        "doc": inspect.cleandoc(op.doc),
        "where": where(op.fn),
        "parameters": [
            {"name": p.name, "role": p.role, "promotes": p.promotes} | ({} if p.required else {"default": repr(p.default)})
            for p in op.params
        ],
        "outputs": [{"name": o.name, "differentiable": o.differentiable, "hidden": o.hidden} for o in op.outputs],
        "promotion": rule,
        "mutates": list(op.mutates),
        "in place": in_place(op),
        "formula": {"is": FORMULA.get(op.kind, "formula"), "source": source(op.fn)},
        "gradients": {name: source(formula.fn) for name, formula in op.grads.items()},
        "saved": {name: saved(op, formula) for name, formula in op.grads.items()},
        "kernels": {kind: where(kernel) for kind, kernel in op.kernels.items()},
        "combine": op.combine,
        "draws": op.draws is not None,
        "autocast": op.autocast,
        "effects": op.effects,
        "compiled by": compiled_by(op),
        "samples": samples(op),
    }


def where(function: Callable | None) -> str:
    """File and line of a function, from the package's folder on."""
    if function is None:
        return ""
    try:
        file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return ""
    package = __name__.partition(".")[0]
    return f"{file.rpartition(f'/{package}/')[2] if file else ''}:{line}"


def source(function: Callable | None) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function)).rstrip() if function is not None else ""
    except (OSError, TypeError):
        return ""


def in_place(op: Op) -> str | None:
    """The record that writes into the first argument, where there can be one."""
    if op.mutates or op.kind in (Kind.VIEW, Kind.RANDOM) or not op.params or op.params[0].role != "tensor":
        return None
    try:
        return op.inplace.name
    except (TypeError, ValueError, AttributeError, LookupError):
        return None


def saved(op: Op, formula: Any) -> list[str]:
    """What a recorded call keeps for this gradient."""
    inputs = [op.params[k].name for k in formula.params]
    return inputs + [op.outputs[k].name for k in formula.outs if k < len(op.outputs)]  # a record of any number has one


def compiled_by(op: Op) -> str:
    ways = [f"the {op.template} template"] if op.template else []
    ways += ["calls of the runtime's kernels"] if op.call_rule is not None else []
    else_by = COMPILED_BY.get(op.kind, "its loop")
    return f"{' or '.join(ways)}, where eligible; else {else_by}" if ways else else_by


def sample_calls(op: Op) -> list[tuple]:
    from ..eager.op_samples import Samples

    return list(op.sample_rule(Samples())) if op.sample_rule is not None else []


def samples(op: Op) -> list[dict[str, str]]:
    """What the record's own samples give: arguments and results."""
    from ..capture.graph.graph import describe
    from ..eager.state import recording

    rows = []
    for arguments in sample_calls(op)[:4]:
        with recording(False):
            shown = ", ".join(describe(a) if a is not None else "None" for a in arguments)
            rows.append({"arguments": shown, "result": describe(op(*arguments))})
    return rows


def compiled(op: Op) -> dict[str, str]:
    """The loop IR and the C++ of the first sample."""
    from ..inductor.tools.show_op import code_of

    calls = sample_calls(op)
    if not calls:
        raise Wrong(f"{op.name} has no samples")
    return code_of(op, calls[0])


def text(facts: dict[str, Any]) -> str:
    lines = [f"{facts['name']}: {facts['kind']}, {facts['where']}", facts["doc"].strip()]
    lines += ["", "parameters"] + [
        f"  {p['name']}: {p['role']}"
        + (f" = {p['default']}" if "default" in p else "")
        + ("" if p["promotes"] or "tensor" not in p["role"] else " (takes no part in promotion)")
        for p in facts["parameters"]
    ]
    lines.append(
        "outputs: "
        + ", ".join(
            o["name"] + " (hidden)" * o["hidden"] + " (no gradient)" * (not o["differentiable"]) for o in facts["outputs"]
        )
    )
    lines += [f"{name}: {facts[name]}" for name in ("promotion", "in place", "combine", "autocast", "compiled by") if facts[name]]
    lines += [f"writes: {', '.join(facts['mutates'])}"] * bool(facts["mutates"]) + ["draws random numbers"] * facts["draws"]
    kernels = ", ".join(f"{kind} ({place})" for kind, place in facts["kernels"].items())
    lines += [f"kernels: {kernels or 'derived from the kind'}"]
    lines += block(facts["formula"]["is"], facts["formula"]["source"])
    for name, formula in facts["gradients"].items():
        lines += block(f"gradient for {name} (keeps {', '.join(facts['saved'][name]) or 'nothing'})", formula)
    lines += [] if facts["gradients"] else ["", "no gradients"]
    lines += ["", "samples"] + [f"  ({s['arguments']}) -> {s['result']}" for s in facts["samples"]] if facts["samples"] else []
    for title in ("loop", "C++"):
        lines += block(title, facts[title]) if title in facts else []
    return "\n".join(line for k, line in enumerate(lines) if k != 1 or line)


def block(title: str, body: str) -> list[str]:
    return ["", title, textwrap.indent(body, "    ")] if body else []
