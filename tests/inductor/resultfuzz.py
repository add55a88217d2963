"""Draws functions whose results alias inputs and each other, and callers that look at these results: write into them, ask for
versions, memory and histories, resize them, go backward through some, call again and look at the first ones.

In: a seed. Out: a `Program` (callers.py). Sizes change from call to call in a third of the programs. In every fifth program what is made
of `x` and of `y` stays apart, so that results lead to one of them each, and the caller searches for gradients towards one, the other and both.
"""

import re

from .callers import Draws, Program

FRESH = (
    "{t} * 2",
    "{t}.clone()",
    "{t}.sin()",
    "{t} + {o}",
    "{t}.clone().reshape(-1)",
    "({t} * 1)[...]",
    "{t}.contiguous()",
    "{t}.t().contiguous()",
    "{t}.to(DT)",
    "{t}.to(DT, copy=True)",
    "{t}.type_as({o})",
    "{t}.mul(1)",
    "torch.cat([{t}, {o}])",
    "{t}.reshape(-1)",
    "{t}.flatten()",
    "{t}.sum()",
    "{t}.amax(0)",
    "torch.zeros_like({t})",
    "{t} > 0.75",
    "{t}.clone().t()",
    "torch.stack([{t}, {o}])[1]",
    "{t}.double().to(DT)",
    "{t}.bfloat16().to(DT)",
    "{t} - {t}.amax(1, keepdim=True)",
    "{t}.repeat(1, 1)",
    "{t}.new_ones(3)",
    "torch.where({t} > 0.75, {t}, {o})",
    "torch.as_tensor({t})",
    "{t}.clamp(min=0.)",
    "torch.nn.functional.dropout({t}, 0.)",
    "{t}.flip(0)",
    "{t}.roll(0, 0)",
    "{t}.nan_to_num()",
    "{t}.float()",
    "+{t}",
    "{t}.div(1)",
    "{t}.masked_fill({t} > 9, 0.)",
    "{t}.expand(-1, -1).clone()",
    "{t} ** 1",
    "{t}.clone().uniform_(0.25, 0.5)",
    "{t}.clone().normal_()",
    "({t} * 1).bernoulli_(0.5)",
    "torch.empty_like({t}).copy_({t})",
)
# Compiled code keeps what a mask is made of where eager keeps it for another result, and the mask itself: a search that needs the mask
# alone is refused once that was written.
UNDECIDED = tuple(
    text for text in FRESH if not any(word in text for word in ("masked_fill", "clamp", "where", "amax", "nan_to_num"))
)
VIEWS = (
    "{t}.view(-1)",
    "{t}[0]",
    "{t}[1:]",
    "{t}[:, ::2]",
    "{t}.t()",
    "{t}[...]",
    "{t}.unsqueeze(0)",
    "{t}.detach()",
    "{t}.unbind(0)[0]",
    "{t}.split(2)[0]",
    "{t}.chunk(2, 1)[1]",
    "{t}.view_as({t})",
    "{t}.expand(2, *{t}.shape)",
    "{t}.diagonal()",
    "{t}.squeeze()",
    "{t}.T",
    "{t}.permute(1, 0)",
    "{t}.narrow(0, 0, 1)",
    "{t}.select(1, 0)",
    "{t}.real",
    "{t}.unsqueeze(0).squeeze(0)",
    "{t}.movedim(0, 1)",
    "torch.broadcast_tensors({t}, {o})[0]",
    "{t}.unflatten(1, (2, -1))",
    "{t}.swapaxes(0, 1)",
    "{t}.reshape({t}.shape)",
    "{t}.mT",
    "{t}.ravel()",
    "{t}.view(1, -1)",
)
LEADING = ("{t} * {t}", "{t}.sin()", "{t} * 2", "({t} * {t}).t()", "{t}.exp()[1:]", "{t}.sin() * {t}")
WRITES = (
    "{v}.add_(1)",
    "{v}.mul_(2)",
    "{v}.copy_({v}.cos())",
    "{v}[0] = 0.5",
    "{v}.zero_()",
    "{v}.uniform_(0.25, 0.5)",
    "{v}.sub_({v}.mean())",
    "{v}.clamp_(max=1.)",
    "{v}.detach().add_(0.25)",
    "{v}.normal_()",
)


def body(d: Draws, apart: bool = False) -> tuple[list[str], int]:
    """(lines, how many results). `apart`: no value is made of two others, and there is one with a gradient of each argument."""
    lines, wide, every = [], ["x", "y"], ["x", "y"]
    for k in range(d.randint(1, 5)):
        kind = d.random()
        t = d.choice(wide)
        o = t if apart else d.choice(wide)
        made = [line for line in lines if re.match(r"v\d = ", line)]
        if kind < 0.08 and made:  # the same once more
            lines.append(f"v{k}" + d.choice(made)[2:])
        elif kind < 0.4:
            lines.append(f"v{k} = " + d.choice(UNDECIDED if apart else FRESH).format(t=t, o=o))
        elif kind < 0.8:
            lines.append(f"v{k} = " + d.choice(VIEWS).format(t=t, o=o))
        else:
            v = d.choice(every)
            lines.append(d.choice(WRITES).format(v=v))
            continue
        every.append(f"v{k}")
        if (
            any(
                lines[-1].endswith(tail)
                for tail in ("* 2", ".clone()", ".sin()", "[...]", ".mul(1)", ".detach()", ".contiguous()", ".to(DT)")
            )
            and ".t()" not in lines[-1]
            and "reshape" not in lines[-1]
        ):
            wide.append(f"v{k}")
    if apart:
        lines += [f"{name} = " + d.choice(LEADING).format(t=t) for name, t in (("vx", "x"), ("vy", "y"))]
        every += ["vx", "vy"]
    results = [d.choice(every) for _ in range(d.randint(1, 4))]
    if apart:
        results += d.sample(["vx", "vy"], 2)
    if d.chance(0.2):
        results.append(
            d.choice((f"{d.choice(every)} * 1", f"{d.choice(wide)}[0]", "x.shape[0]", f"{{'k': {d.choice(every)}}}", "None"))
        )
    return [*lines, f"return {', '.join(results)}" + (",")], len(results)


def given_apart(d: Draws) -> list[str]:
    """Arguments with gradients, each of memory of its own."""
    lines = ["x = leaf = numbers((n, 4), 1).requires_grad_()", "y = other = numbers((n, 4), 5).requires_grad_()"]
    return lines + [f"{name} = {name} * 1" for name in "xy" if d.chance(0.6)]


def given(d: Draws) -> list[str]:
    """How the arguments are made, of `n` rows."""
    leaf = f"x = numbers((n, 4), 1).requires_grad_({d.chance(0.5)})"
    lines = [leaf, "leaf = x"]
    kind = d.random()
    if kind < 0.35:
        lines.append("x = x * 1")
    elif kind < 0.45:
        lines.append("base = numbers((n + 1, 4), 2); x = base[1:]")
    elif kind < 0.5:
        lines.append("x = numbers((4, n), 2).t()")
    other = d.random()
    lines.append(
        f"y = numbers((n, 4), 5).requires_grad_({d.chance(0.3)})"
        if other < 0.8
        else "y = x"
        if other < 0.9
        else "y = x.view(n, 4)"
    )
    if d.chance(0.3):
        lines.append("y = y * 1")
    return lines


LOOKS = (
    "log(same_memory(ts))",
    "log([a is b for a in ts for b in ts])",
    "log([t.requires_grad for t in ts], [t.is_leaf for t in ts])",
    "log([t.grad_fn is None for t in ts])",
    "log([t._version - v for t, v in zip(ts, versions)])",
    "log([t.shape for t in ts])",
    "log([t._version > 0 for t in (x, y)])",
    "log(ts)",
    "log([t._base is None for t in (x, y)])",
    "log([t.storage_offset() for t in (x, y)])",
    "log([a.data_ptr() == b.data_ptr() for a in ts for b in ts if a.numel() and b.numel()])",
)
ACTS = (
    "{t}.detach().add_(1)",
    "{t}.detach().mul_(2)",
    "{t}.add_(1)",
    "{t}.detach().zero_()",
    "{t}.resize_(2)",
    "{t}.set_(torch.ones(3))",
    "{t}.requires_grad_()",
    "{t}.detach_()",
    "{t}.data.add_(1)",
    "x.detach().add_(1)",
    "torch.add({t}, 1, out={t})",
    "y.detach().mul_(0.5)",
    "torch.mul(x, 2, out=torch.empty(0))",
    "{t}.copy_({t} * 2)",
    "{t}.unsqueeze_(0)",
    "{t}.t_()",
    "{t}.retain_grad()",
    "{t}.detach().view(-1)[0] = 9",
    "{t}.float().sum().backward()",
    "{t}.float().sum().backward(retain_graph=True)",
    "sum(t.float().sum() for t in ts if t.requires_grad).backward()",
    "g = torch.autograd.grad({t}.float().sum(), leaf, allow_unused=True); log([v for v in g if v is not None])",
)


SEARCHES = (
    "{t}.float().sum().backward()",
    "{t}.float().sum().backward(retain_graph=True)",
    "sum(t.float().sum() for t in ts if t.requires_grad).backward(retain_graph=True)",
    *(
        f"g = torch.autograd.grad({{t}}.float().sum(), {wanted}, allow_unused=True{how}); log([v is None for v in g], [v for v in g if v is not None])"
        for wanted in ("leaf", "other", "(leaf, other)")
        for how in ("", ", retain_graph=True", ", create_graph=True")
    ),
)
# What changes no tensor's history or sizes, which one node for all results cannot tell apart, and is counted by versions: a double backward
# runs the forward again, from what inputs are then.
COUNTED_ACTS = tuple(act for act in ACTS if not any(word in act for word in (".data.", ".set_", ".resize_", ".detach_()")))


def caller(d: Draws, dynamic: bool, apart: bool = False) -> list[str]:
    lines, made = [], given_apart(d) if apart else given(d)
    likely, choices = (0.9, (*SEARCHES, *SEARCHES, *COUNTED_ACTS)) if apart else (0.7, ACTS)
    acts = [(d.choice(LOOKS), d.choice(choices) if d.chance(likely) else "pass") for _ in range(d.randint(2, 6))]
    if any("set_" in act for _, act in acts):  # the versions of the other memory count from then on
        acts = [("log(ts)" if "_version" in look else look, act) for look, act in acts]
    for call, n in enumerate((2, 4, 6) if dynamic else (2, 2)):
        lines += [
            f"n = {n}; ts = []; x = y = None",
            *made,
            f"with torch.{'no_grad' if d.chance(0.15) else 'enable_grad'}(): r = f(x, y)",
            "ts = [t for t in flat(r) if isinstance(t, torch.Tensor)]; versions = [t._version for t in ts]",
            "log(len(ts), [v for v in flat(r) if not isinstance(v, torch.Tensor)])",
            "log(ts, x, y)",
            "log(same_memory([x, y, *ts]))",
        ]
        for k, (look, act) in enumerate(acts):
            lines += [act.format(t=f"ts[{k} % len(ts)]"), look]
        lines += ["log(ts, x, y)", "log([None if t.grad is None else t.grad for t in (x, y) if t.is_leaf])"]
        lines.append("log(first)" if call else "first = ts")
    return lines


def draw(seed: int) -> Program:
    d, apart = Draws(seed), seed % 5 == 4
    lines, _ = body(d, apart)
    source = "def f(x, y):\n" + "\n".join("    " + line for line in lines) + "\n"
    return Program(source, tuple(caller(d, d.chance(0.33), apart)), d.dtype())
