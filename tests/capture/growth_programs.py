"""Drawn programs of the kind that training loops are: containers of every kind that grow and are sometimes read, twelve calls each.

`differs(seed, backend)` runs one plainly and compiled, each in a world of its own, and tells a difference in results, printed
text, or what the containers hold afterwards, or that a door has more than three entries although nothing but growth changed, or runs plain after too many where the program makes
larger things of those it had, counts down, or reads texts with numbers.
`python growth_programs.py FIRST LAST [BACKEND ...]` prints what differs.
"""

import collections
import contextlib
import dataclasses
import io
import random
import sys
import warnings

import flambeau as torch
from flambeau.runtime import counters

CALLS = 12
BACKENDS = ("eager", "aot_eager", "loops", "inductor")
PLACES = ("module", "closure", "global", "argument", "object")
KINDS = (
    "LDQPSCKFOT"  # list, dict, deque with and without an end, set, Counter, defaultdicts of lists, of ints, OrderedDict, tuple
)

VALUES = (
    "x.sum()",
    "x.detach()",
    "x.sum().item()",
    "i",
    "float(i)",
    "f'step {i}'",
    "(i, x)",
    "[i]",
    "{'i': i}",
    "None",
    "x",
    "'%03d' % i",
    "str(i) + '!'",
    "f'{i:>4}|{i * 0.5:.2f}'",
    "x * 2",
    "'{}-{}'.format('a', i)",
    "-i",
    "i * 3 + 1",
    "s.step",
)
KEYS = ("i", "f'k{i}'", "'last'", "(i, 'a')", "'%d' % i", "i + 1", "0", "('epoch', i // 4)")
WRITES = {
    "L": (
        "{h}.append({v})",
        "{h}.extend([{v}, {w}])",
        "{h}.insert(0, {v})",
        "{h} += [{v}]",
        "{h}.append({v}); {h}[-1] = {w}",
        "{h}.append({v}); {h}.append({w}); {h}.pop()",
        "{h}[0] = {v}",
        "{h}.append({h}[-1])",
        "{h}[-1] = {v}",
        "{h}.append({h})",
        "{h}.extend(a for a in (i, {v}))",
        "grow({h}, {v})",
    ),
    "D": (
        "{h}[{k}] = {v}",
        "{h}.setdefault({k}, {v})",
        "{h}.update({{{k}: {v}}})",
        "{h}.setdefault('rows', []).append({v})",
        "{h}['n'] = {h}.get('n', 0) + 1",
        "{h}['last'] = {v}; del {h}['last']",
        "{h}[i] = {v}; {h}.pop(i)",
        "{h}.pop('last', None)",
        "{h}.update(last={v})",
        "{h}['n'] = i; {h}['n'] += 2",
        "{h} |= {{{k}: {v}}}",
        "{h}['first'] = {h}.get('first', {v})",
    ),
    "Q": ("{h}.append({v})", "{h}.extend(({v}, {w}))", "{h}.append({v}); {h}[-1] = {w}", "{h} += [{v}]"),
    "P": ("{h}.append({v})", "{h}.appendleft({v})", "{h}.append({v}); {h}.append({w}); {h}.pop()", "{h}.extendleft(({v}, {w}))"),
    "S": ("{h}.add({k})", "{h}.update(({k}, 'z'))", "{h}.discard({k})", "{h} |= {{{k}}}", "{h}.add({k}); {h}.remove({k})"),
    "C": ("{h}.update(['a', 'b'])", "{h}['a'] += 1", "{h}[{k}] = i", "{h}['b'] -= i"),
    "K": (
        "{h}['loss'].append({v})",
        "{h}[{k}] = [{v}]",
        "{h}['loss'].append({v}); {h}['rows'].append({w})",
        "{h}[i].append({v})",
    ),
    "F": ("{h}['n'] += 1", "{h}['n'] += i", "{h}[{k}] = i", "{h}[i] += 2"),
    "O": ("{h}[{k}] = {v}", "{h}['last'] = {v}; {h}.move_to_end('last')", "{h}.setdefault({k}, {v})"),
    "T": ("s.seen = {h}",),
}
NUMBERS = (
    "s.step += 1",
    "s.total += 0.5",
    "s.total += x.sum().item()",
    "s.best = i",
    "s.text += f'{{i}},'",
    "s.step = s.step + 2",
    "s.name = f'run {{i}}'",
    "s.last = x",
    "s.total = s.total * 0.5 + i",
    "s.pair = (i, s.step)",
)
READS = {  # of the length, one member, or nothing: no more than growth
    "L": ("r = r * len({h})", "r = r + (1 if {h} else 2)", "r = r + len({h}) - 1", "s.seen = {h}[-1]", "s.seen = len({h})"),
    "D": (
        "r = r + (2 if 'last' in {h} else 1)",
        "r = r + (1 if {h} else 2)",
        "r = r + len({h})",
        "s.seen = {h}.get('last')",
        "r = r + ({k} in {h})",
    ),
    "Q": ("s.seen = {h}[-1]", "r = r + (1 if {h} else 2)"),
    "P": ("r = r + len({h})", "s.seen = {h}[-1]"),
    "S": ("r = r + len({h})", "r = r + (1 if 'z' in {h} else 2)", "r = r + (i in {h})"),
    "C": ("r = r * {h}['a']", "s.seen = len({h})"),
    "K": ("r = r + len({h}['loss'])", "r = r + len({h})"),
    "F": ("r = r * {h}['n']",),
    "O": ("r = r + len({h})",),
    "T": ("s.seen = {h}",),
}
GROWN = {  # made anew from what there was, larger each time: capture or a graph break, but no end of entries
    "L": (
        "{h} = {h} + [{v}]",
        "{h} = [*{h}, {v}]",
        "{h} = [{v}] + {h}",
        "{h} = ({h} + [{v}])[-4:]",
        "{h}.append({v}); s.seen = {h}[-5:]",
        "{h}.append({v}); s.seen = {h}[-30:]",
        "{h} = list({h}); {h}.append({v})",
        "{h}.append(i); s.seen = len([a for a in {h}])",
        "{h}.append(float(i)); s.seen = max(a for a in {h} if isinstance(a, float))",
        "{h}.append({v}); s.seen = tuple({h})",
    ),
    "D": (
        "{h} = {{**{h}, i: {v}}}",
        "{h} = {h} | {{i: {v}}}",
        "{h}[i] = {v}; s.seen = list({h})",
        "{h}[f'k{{i}}'] = {h}.get(f'k{{i}}', 0) + 1",
        "print(end=''); {h}[i] = {h}.get(i, 0) + 1",
    ),
    "Q": ("{h}.append(i); s.seen = {h}[0]", "{h}.append(i); s.seen = list({h})", "{h}.append({v}); r = r + len(list({h}))"),
    "P": ("{h}.append({v}); s.seen = list({h})", "{h}.append({v}); {h}.rotate(1)"),
    "S": ("{h} = {h} | {{i}}", "{h}.add(i); s.seen = sorted(map(str, {h}))"),
    "C": ("{h}[i] += 1", "print(end=''); {h}[i] += 1", "{h}[i // 3] += 1"),
    "K": ("{h}[i // 3].append({v})", "print(end=''); {h}[i].append({v})"),
    "F": ("{h}[i] += 1", "print(end=''); {h}[i] += 1", "{h}[i % 3] += 1"),
    "O": ("{h}[i] = {v}; s.seen = list({h})", "{h}[i] = {v}; {h}.popitem(last=False) if len({h}) > 4 else None"),
    "T": (
        "{h} = {h} + ({v},)",
        "{h} += ({v},)",
        "{h} = (*{h}, {v})",
        "{h} = ({h} + (i,))[-3:]",
        "{h} = {h} + (i,); r = r * len({h})",
    ),
}
FALLING = (
    "s.step = (s.step + 1) % 3",
    "s.step = (s.step + 1) % 4; r = r + s.step",
    "s.step = 0 if i % 4 == 3 else s.step + 1; r = r * s.step",
    "s.best = i if i < 6 else s.best - 1; r = r + s.best",
    "n = 0\nfor k in range(4): n += 1; print(end=''); r = r + n",
    "n, m = i, 0\nfor k in range(3): m += n; print(end=''); n -= 1; r = r * m",
)
READING = (
    "s.seen = f'step {i}'.upper()",
    "r = r + len(f'step {i}')",
    "r = r + (f'{i}' == '5')",
    "s.seen = int(f'{i} a'.split()[0])",
    "s.text += f'{i},'; r = r + len(s.text)",
    "setattr(s, f'at_{i}', x)",
    "r = r + (1 if f'{i:02d}'.startswith('1') else 2)",
)
OPENING = {  # of all: as many entries as it takes
    "L": (
        "s.seen = {h}[1:]",
        "r = r + sum(1 for _ in {h})",
        "s.seen = list(reversed({h}))",
        "r = r + (None in {h})",
        "{h}.reverse()",
        "s.seen = {h} + [i]",
        "s.seen = {h}[-2:]",
        "{h}.insert(1, i)",
        "del {h}[0]",
        "{h}.pop(0)",
        "{h}.append({v}) if i % 2 else {h}.append({w})",
        "{h}[:] = {h}[-4:]",
        "{h}.clear()",
        "s.seen = {h}[0]",
    ),
    "D": ("s.seen = list({h})", "for k in {h}: r = r + 1", "s.seen = {h}.popitem()", "s.seen = dict({h})", "{h}.clear()"),
    "Q": ("s.seen = list({h})", "{h}.rotate(1)", "r = r + len({h})", "{h}.popleft()", "s.seen = {h}[0]"),
    "P": ("{h}.append({v}); {h}.popleft()", "s.seen = list({h})", "{h}.clear()"),
    "S": ("s.seen = sorted(map(str, {h}))", "s.seen = {h} | {{1}}", "{h} &= {{1, 2, i}}", "{h}.clear()", "{h} -= {{i}}"),
    "C": ("s.seen = {h}.most_common(1)", "s.seen = sum({h}.values())"),
    "K": ("s.seen = sorted(map(str, {h}))",),
    "F": ("s.seen = sum({h}.values())",),
    "T": ("s.seen = {h}[1:]",),
    "O": ("s.seen = list({h})", "s.seen = {h}.popitem(last=False)"),
}
ASKING = ("len(", " in ", "setdefault", "get(", "pop(", "+=", "-=", "remove", "seen", "update(['a'", "append")
BREAKS = ("print('at', i)", "print(f'{{i}}', len({h}))", "print(r.tolist())", "print('here')")
ERRORS = ("try: {h}[[]] = 1\n    except TypeError: r = r + 1", "try: {h}.nothing()\n    except AttributeError: r = r + 2")
STARTS = {
    "L": "[0, 'b']",
    "D": "{'last': 0}",
    "Q": "collections.deque([0], maxlen=4)",
    "P": "collections.deque([0])",
    "S": "{0}",
    "C": "collections.Counter('a')",
    "K": "collections.defaultdict(list)",
    "F": "collections.defaultdict(int)",
    "O": "collections.OrderedDict(last=0)",
    "T": "()",
}
EMPTY = {"L": "[]", "D": "{}", "Q": "collections.deque(maxlen=3)", "S": "set()", "L2": "Rows()"}

HOMES = {"module": "s.{n}", "object": "s.{n}", "closure": "{n}", "global": "{n}", "argument": "{n}"}


class Rows(list):
    """A list with a method of its own in the place of list's."""

    def append(self, value):
        super().append(value)


@dataclasses.dataclass
class State:
    step: int = 0
    total: float = 1.0
    best: int = 0
    text: str = ""
    name: str = "run"


class StateModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.total, self.best, self.text, self.name = 0, 1.0, 0, "", "run"


def grow(held, value):
    held.append(value)


class Program:
    """One drawn program: its text, and whether nothing but growth changes in it."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.place = rng.choice(PLACES)
        self.kinds = [rng.choice(KINDS) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        self.names = [f"h{n}" for n in range(len(self.kinds))]
        self.starts = [self.start(kind) for kind in self.kinds]
        self.first, self.step = rng.choice(((0, 1), (0, 1), (3, 1), (2, 5))), None
        self.alias = rng.random() < 0.1 and len(self.kinds) > 1
        self.only_growth, self.bounded, self.lines, self.breaks, self.told = True, True, [], 0, []
        self.texts = set()
        for _ in range(rng.randint(1, 5)):
            self.lines += [line.strip() for line in self.statement().split("\n")]
        self.only_growth &= not self.asks()
        # two counters that i sets back to 0 and 1 at different steps: each of these values has code of its own, rightly
        self.bounded &= not {line for line in FALLING if " if i " in line} <= set(self.lines)
        if self.alias:
            self.kinds[1] = self.kinds[0]
            self.starts[1] = self.names[0]
            self.only_growth = self.bounded = False

    def start(self, kind):
        if kind == "L" and self.rng.random() < 0.15:
            return "Rows([0])"
        return EMPTY[kind] if kind in EMPTY and self.rng.random() < 0.4 else STARTS[kind]

    def statement(self):
        rng, n = self.rng, self.rng.randrange(len(self.kinds))
        kind, p = self.kinds[n], rng.random()
        if p < 0.55:
            line = rng.choice(WRITES[kind])
        elif p < 0.7:
            line = rng.choice(NUMBERS)
        elif p < 0.78:
            line = rng.choice(READS[kind])
        elif p < 0.86:
            line, self.only_growth = rng.choice(rng.choice((GROWN[kind], GROWN[kind], FALLING, READING))), False
            line = line.replace("{", "{{").replace("}", "}}") if line in READING else line
        elif p < 0.9:
            line, self.only_growth, self.bounded = rng.choice(OPENING[kind]), False, False
        elif p < 0.97:
            line, self.breaks = rng.choice(BREAKS), self.breaks + 1
        else:
            line, self.only_growth, self.bounded = rng.choice(ERRORS), False, False
        held = HOMES[self.place].format(n=self.names[n])
        self.told.append((n, line))
        made = line.format(h=held, v=rng.choice(VALUES), w=rng.choice(VALUES), k=self.key(n, line))
        return (
            f"if i % 3 == 0: {made}"
            if rng.random() < 0.05 and "\n" not in made and not made.startswith("for ") and self.mixed()
            else made
        )

    def key(self, n, line):
        """A text or tuple under which something is stored has no guard until one asks whether it is there."""
        key = self.rng.choice(KEYS)
        if "{k}" in line and ("'" in key and key != "'last'"):
            self.texts.add(n)
        return key

    def asks(self):
        if any("[i]" in line or "i in" in line for _, line in self.told) and ("i + 1" in "".join(self.lines) or self.breaks):
            return True  # what is there under a number that changes
        if any("-= i" in line for _, line in self.told):
            return True  # a number that may come back to 0 and 1, which have code of their own
        return any(n in self.texts and any(word in line for word in ASKING) for n, line in self.told)

    def mixed(self):
        self.only_growth = self.bounded = False
        return True

    def text(self):
        body = "\n    ".join(["r = x * 2", *self.lines, "return r"])
        given = ", ".join(["x", "i", "s", *(self.names if self.place == "argument" else ())])
        outer = ", ".join(self.names)
        scope = {"closure": f"    nonlocal {outer}\n", "global": f"    global {outer}\n"}.get(self.place, "")
        function = f"def f({given}):\n{scope}    {body}\n"
        if self.place == "closure":
            inner = "".join(f"    {line}\n" for line in function.splitlines())
            return f"def make({outer}):\n{inner}    return f\n"
        return function


def picture(value, known=None):
    """Structure, numbers and which objects are the same."""
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        return "tensor", known.setdefault(id(value), len(known)), value.requires_grad, value.detach().tolist()
    if isinstance(value, (list, dict, set, collections.deque)):
        if id(value) in known:
            return "same", known[id(value)]
        known[id(value)] = len(known)
    if isinstance(value, set):
        return "set", sorted(map(repr, value))
    if isinstance(value, (list, tuple, dict, collections.deque)):
        items = value.items() if isinstance(value, dict) else value
        return type(value).__name__, [picture(v, known) for v in items]
    return type(value).__name__, repr(value)


def run(program, wrap):
    """(all that can be seen, the compiled function)."""
    world = {"collections": collections, "torch": torch, "grow": grow, "Rows": Rows, "__name__": "drawn"}
    state = StateModule() if program.place == "module" else State()
    for name, start in zip(program.names, program.starts):
        world[name] = eval(start, world)
    held = [world[name] for name in program.names]
    if program.place in ("module", "object"):
        for name, value in zip(program.names, held):
            setattr(state, name, value)
    exec(program.text(), world)
    f = wrap(world["make"](*held) if program.place == "closure" else world["f"])
    more = held if program.place == "argument" else ()
    told, printed = [], io.StringIO()
    first, step = program.first
    with contextlib.redirect_stdout(printed):
        for n in range(CALLS):
            i = first + step * n
            try:
                told.append(picture(f(torch.ones(3) + i, i, state, *more)))
            except Exception as error:
                told.append((type(error).__name__, "" if program.alias else str(error)))
    fields = {k: v for k, v in vars(state).items() if not k.startswith("_") and k != "training"}
    now = {name: world[name] for name in program.names} if program.place == "global" else held
    return (told, printed.getvalue(), picture([fields, now])), f


def differs(seed, backend):
    """What is wrong with the program of this seed, or None."""
    program = Program(seed)
    want, _ = run(program, lambda f: f)
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        got, f = run(program, lambda f: torch.compile(f, backend=backend))
    told = f"seed {seed}, {backend}, {program.place}, {dict(zip(program.names, program.starts))}, i from {program.first}\n{program.text()}"
    for kind, a, b in zip(("results", "printed text", "what is held"), want, got):
        if a != b:
            return f"{kind}:\n  plain    {a}\n  compiled {b}\n{told}"
    if counters.snapshot().get("fallbacks", {}).get("internal error"):
        return f"an error of the compiler\n{told}"
    most = max((len(door.entries) for door in f.cache.all_doors()), default=0)
    limited = any(door.plain == "recompile limit" for door in f.cache.all_doors())
    if program.only_growth and most > 3 or program.bounded and limited:
        return f"{most} entries of one door\n{told}"
    return None


def main(first, last, *backends):
    wrong = 0
    for seed in range(first, last):
        told = differs(seed, (backends or BACKENDS)[seed % len(backends or BACKENDS)])
        if told:
            wrong += 1
            print(told, flush=True)
            print("-" * 80)
    print(f"{last - first} programs, {wrong} wrong")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
