"""Draws custom `autograd.Function`s: writes into views of clones, forward and backward, results that are views, several results,
non-differentiable ones, contexts in both styles, gradients that are expanded or transposed, a second differentiation.

In: a seed. Out: a `Program` (callers.py). The gradients need not be those of the forward: they are compared, not checked.
"""

import re

from .callers import Draws, Program


class View:
    """A tensor of the program: its text and its sizes."""

    def __init__(self, text: str, shape: tuple):
        self.text, self.shape = text, shape


def view_of(d: Draws, t: View) -> View:
    n, shape = len(t.shape), t.shape
    dim = d.randrange(n)
    kinds = ["slice", "step", "unsqueeze", "alias"]
    if n > 1:
        kinds += ["transpose", "transpose", "select", "flatten"] + ["diagonal"] * (n == 2) + ["split"] * (shape[dim] % 2 == 0)
    kind = d.choice(kinds)
    cut = lambda k: (*shape[:dim], k, *shape[dim + 1 :])
    if kind == "slice" and shape[dim] > 1:
        start = d.randint(0, shape[dim] - 2)
        return View(f"{t.text}.narrow({dim}, {start}, {shape[dim] - 1 - start})", cut(shape[dim] - 1 - start))
    if kind == "step":
        return View(f"{t.text}[{':, ' * dim}::2]", cut((shape[dim] + 1) // 2))
    if kind == "unsqueeze":
        return View(f"{t.text}.unsqueeze({dim})", (*shape[:dim], 1, *shape[dim:]))
    if kind == "transpose":
        other = (dim + 1) % n
        new = list(shape)
        new[dim], new[other] = new[other], new[dim]
        return View(f"{t.text}.transpose({dim}, {other})", tuple(new))
    if kind == "select":
        return View(f"{t.text}.select({dim}, {d.randrange(shape[dim])})", (*shape[:dim], *shape[dim + 1 :]))
    if kind == "flatten":
        return View(f"{t.text}.reshape(-1)", (size_of(shape),))
    if kind == "diagonal":
        return View(f"{t.text}.diagonal()", (min(shape),))
    if kind == "split":
        return View(f"{t.text}.chunk(2, {dim})[{d.randrange(2)}]", cut(shape[dim] // 2))
    return View(f"{t.text}[...]", shape)


def size_of(shape) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def writes(d: Draws, names: list[View], prefix: str, count: int) -> list[str]:
    """Lines that write into views of the tensors, which grow by the views."""
    lines = []
    for k in range(count):
        t = d.choice(names)
        v = view_of(d, t)
        if d.chance(0.4):
            v = view_of(d, v)
        if d.chance(0.5):
            lines.append(f"{prefix}{k} = {v.text}")
            v = View(f"{prefix}{k}", v.shape)
            names.append(v)
        lines.append(write(d, v, d.choice(names)))
    return lines


def write(d: Draws, v: View, other: View) -> str:
    value = d.choice((f"{other.text}.cos().mean()", f"{v.text}.sin()", "0.5"))
    kinds = [
        f"{v.text}.mul_({value})",
        f"{v.text}.add_({value})",
        f"{v.text}.neg_()",
        f"{v.text}.copy_({v.text}.cos())",
        f"{v.text}.mul_(0.5).add_(0.25)",
        f"{v.text}[...] = {v.text} * 1.25",
        f"{v.text}.zero_()",
        f"{v.text}.sigmoid_()",
    ]
    n = v.shape[0] if v.shape else 0
    if n >= 2:
        kinds += [f"{v.text}[1].add_({v.text}[0].mul(0.5))", f"{v.text}[1::2].add_({v.text}[0:{n // 2 * 2}:2])"] * 2
    if other.shape == v.shape and other is not v:
        kinds += [f"{v.text}.add_({other.text} * 0.5)"] * 3
    return d.choice(kinds)


def start(d: Draws, x: str, y: str, shape) -> View:
    first = d.choice((f"{x}.clone()", f"{x} * {y}", f"{x} + 1", f"torch.zeros_like({x}).add_({y})", f"{x}.clone()"))
    t = View(f"({first})", shape)
    return View(f"{t.text}.transpose(0, 1)", (shape[1], shape[0], *shape[2:])) if d.chance(0.4) else t


def indented(lines, by=8) -> str:
    return "\n".join(" " * by + line for line in lines)


def draw_function(d: Draws, name: str, shape: tuple) -> tuple[str, list[View]]:
    """(source of a class, what it returns: sizes per result)."""
    t = start(d, "a", "b", shape)
    names = [View("t", t.shape)]
    lines = [f"t = {t.text}", *writes(d, names, "v", d.randint(0, 4))]
    results = [d.choice(names[:1] * 3 + names)]
    if d.chance(0.4):
        results.append(
            view_of(d, names[0]) if d.chance(0.6) else View("(t * 2).transpose(0, 1)", (t.shape[1], t.shape[0], *t.shape[2:]))
        )
    if d.chance(0.1):
        results.append(d.choice((View("a", shape), View("a.transpose(0, 1)", (shape[1], shape[0], *shape[2:])))))
    silent = d.chance(0.15)
    saved = d.sample([View("a", shape), View("b", shape), *names], d.randint(0, 2))
    named = [f"r{k}" for k in range(len(results))]
    lines += [f"r{k} = {r.text}" for k, r in enumerate(results)]
    if silent:
        lines.append("mask = t > 0.75")
        named.append("mask")
    value = ", ".join(named) if len(named) > 1 else named[0]
    setup = d.chance(0.25)
    if setup:
        saved = [s for s in saved if s.text in ("a", "b")]
    keep = ([f"ctx.save_for_backward({', '.join(s.text for s in saved)})"] if saved else []) + ["ctx.k = k"]
    keep += ["ctx.mark_non_differentiable(mask)"] if silent else []
    keep += ["ctx.set_materialize_grads(False)"] if d.chance(0.1) and len(named) == 1 else []
    if setup:
        unpack = ["a, b, k = inputs"] + ([f"{', '.join(named)} = output"] if len(named) > 1 else [])
        head = f"""    @staticmethod
    def forward(a, b, k):
{indented([*lines, f"return {value}"])}

    @staticmethod
    def setup_context(ctx, inputs, output):
{indented([*unpack, *keep])}
"""
    else:
        head = f"""    @staticmethod
    def forward(ctx, a, b, k):
{indented([*lines, *keep, f"return {value}"])}
"""
    back = backward_lines(d, results, saved, shape)
    once = "    @torch.autograd.function.once_differentiable\n" if d.chance(0.3) else ""
    text = f"""class {name}(torch.autograd.Function):
{head}
    @staticmethod
{once}    def backward(ctx, *grads):
{indented(back)}
"""
    return text, results


# tensors that a backward makes of Python numbers
MADE_OF_NUMBERS = (
    "da = torch.tensor(2.0) * da",
    "da = da * da.new_tensor(1.5)",
    "da = torch.as_tensor(0.5) * da + da.new_tensor(0.25)",
    "da = da * torch.tensor([1.0, 2.0])[1]",
    "c0 = torch.tensor([0.5, 2.0]); c0.mul_(2); da = da * c0[0]",
    "da = da * da.new_full((), 3.0)",
)


def backward_lines(d: Draws, results, saved, shape) -> list[str]:
    lines = [f"s{k} = ctx.saved_tensors[{k}]" for k in range(len(saved))]
    given = [View(f"s{k}", s.shape) for k, s in enumerate(saved)]
    parts = []
    for k, r in enumerate(results):
        lines.append(f"g{k} = grads[{k}].contiguous().clone()" if d.chance(0.7) else f"g{k} = grads[{k}].contiguous() * 2")
        names = [View(f"g{k}", r.shape)]
        own = writes(d, names, f"w{k}_", d.randint(0, 3))
        lines += own
        if given and d.chance(0.6):
            s = d.choice(given)
            lines.append(f"g{k}.mul_({s.text})" if s.shape == r.shape else f"g{k}.mul_({s.text}.cos().mean())")
        parts.append(fitted(d, f"g{k}", r.shape, shape, lines))
    both = " + ".join(parts)
    lines.append(f"da = {both}")
    if given and d.chance(0.4):
        lines += ["c = s0.clone()", *writes(d, [View("c", given[0].shape)], "c", 2), "da = da * c.mean()"]
    first = "da if ctx.needs_input_grad[0] else None" if d.chance(0.3) else "da"
    second = d.choice(("None", "da.clone().mul_(ctx.k)", "da * 0.5 if ctx.needs_input_grad[1] else None", "da.flip(0)"))
    if d.chance(0.2):
        lines.append(d.choice(MADE_OF_NUMBERS))
    if d.chance(0.08) and (kept := [s.text for s in given if s.shape == shape]):
        second = d.choice(kept)
    return [*lines, f"return {first}, {second}, None"]


def linear(source: str) -> str:
    """The same program, whose backward is linear in the gradients that it is given."""
    head, mark, rest = source.partition("def backward(")
    back, end, rest = rest.partition("\n\ndef f(")
    for text, other in (
        (".mul_(0.5).add_(0.25)", ".mul_(0.5)"),
        (".cos())", ".mul(0.75))"),
        (".sigmoid_()", ".mul_(0.25)"),
        (".sin().sum()", ".sum()"),
        (" + da.new_tensor(0.25)", ""),
    ):
        back = back.replace(text, other)
    back = re.sub(r", s\d, None$", ", da.flip(0), None", back.rstrip())
    return head + mark + "\n".join(map(linear_write, back.split("\n"))) + end + rest


def linear_write(line: str) -> str:
    found = re.fullmatch(r"( *[gw]\d.*)\.(add_|mul_)\((.*)\)", line)
    if not found or found[3].startswith("s"):
        return line
    target, act, value = found.groups()
    if value == "0.5" or value.endswith(".cos().mean()") or act == "mul_" and ".sin()" in value:
        return f"{target}.mul_(0.75)"
    return f"{target}.{act}({value.replace('.sin()', '.mul(0.75)')})"


def fitted(d: Draws, g: str, shape, wanted, lines) -> str:
    """A value of the wanted sizes made of a gradient of these."""
    if shape == wanted:
        return g
    if size_of(shape) == size_of(wanted):
        return (
            f"{g}.reshape({wanted})"
            if sorted(shape) != sorted(wanted) or d.chance(0.5)
            else f"{g}.transpose(0, 1).reshape({wanted})"
        )
    lines += [f"z{g} = {g}.new_zeros({wanted})", f"z{g}[0].add_({g}.mean())", f"z{g}.transpose(0, 1)[0].add_({g}.sin().sum())"]
    return f"z{g}"


def draw(seed: int) -> Program:
    d = Draws(seed)
    shape = d.choice(((4, 6), (3, 4), (2, 4, 3), (4, 4)))
    text, results = draw_function(d, "F", shape)
    feed = d.choice(("a", "a", "a * 2", "a.sin()", "a.transpose(0, 1).contiguous().transpose(0, 1)", "a.clone()"))
    body = [f"u = {feed}", f"r = F.apply(u, {d.choice(('b', 'b', 'b * 1', 'u', 'b.detach()'))}, 2)"]
    body.append("r = list(r) if isinstance(r, tuple) else [r]")
    if results[0].shape == shape and d.chance(0.25):
        body += ["for _ in range(2): r = [*flat(F.apply(r[0], b, 2)), *r[1:]]"]
    if d.chance(0.4):
        body.append(
            d.choice(
                (
                    "r[0] = r[0] * 2",
                    "r[0] = r[0].sin()",
                    "r[-1] = r[-1] * 1",
                    "r.append(r[0] + 1)",
                    "r[0] = r[0][0]",
                    "r[0] = (r[0] * 1).transpose(0, 1)",
                    "r[0] = r[0] + u.sum()",
                    "r[0] = r[0].mul_(2)",
                )
            )
        )
    if d.chance(0.1):  # unrecorded: an argument may come back, a view of one, or a new tensor
        body += [
            "with torch.no_grad(): q = flat(F.apply(u, b, 2))",
            f"q[-1].mul_({d.choice(('2', '0.5', 'q[-1].sin()'))})" if d.chance(0.3) else "",
            "r.append((q[-1] * 1).detach())",
        ]  # (views made under no_grad tell in PyTorch that they require grad)
    source = f"{text}\n\ndef f(a, b):\n{indented(body, 4)}\n    return tuple(r)\n"
    return Program(source, tuple(caller(d, shape)), d.dtype(), linear(source))


def caller(d: Draws, shape) -> list[str]:
    needs = d.choice(((True, True), (True, True), (True, False), (False, True), (False, False)))
    lines, again = [], d.chance(0.3)
    for call in range(2):
        lines += [
            f"a, b = numbers({shape}, {call}).requires_grad_({needs[0]}), numbers({shape}, {call + 9}).requires_grad_({needs[1]})",
            "r = None; r = f(a, b)",
            "log(r, a, b)",
            "log([t.requires_grad for t in r], same_memory([a, b, *r]))",
            "r = [t for t in r if t.requires_grad]",
        ]
        loss = d.choice(
            (
                "sum(t.sum() for t in r)",
                "sum((t * t).sum() for t in r)",
                "r[0].sum()",
                "r[-1].transpose(0, -1).mean()",
                "sum((t.transpose(0, -1) * numbers(t.transpose(0, -1).shape, 3)).sum() for t in r)",
            )
        )
        if again:
            lines += [
                f"g = torch.autograd.grad({loss}, [x for x in (a, b) if x.requires_grad], create_graph=True, allow_unused=True)",
                "log([x is None for x in g]); log([x for x in g if x is not None])",
                "sum((x * x).sum() for x in g if x is not None and x.requires_grad).backward()",
            ]
        else:
            lines.append(f"if r: ({loss}).backward()")
        lines.append("log([x.grad is None for x in (a, b)], [x.grad for x in (a, b) if x.grad is not None])")
    return lines
