"""Random Python programs around tensor operations: control flow, data structures, functions, classes, exceptions.

`program(seed)` is the source of `f(x, y, n, items, box)`. Programs are made from statements as nested lists, so that a
failing one can be made smaller by leaving statements out (`smaller`). Each statement draws variables of a known kind; a
statement whose variable was left out raises NameError in both runs, which counts as a result.
"""

import random
import re

KINDS = {"t": "tensors", "n": "integers", "l": "lists of tensors", "d": "dicts of tensors", "s": "strings", "u": "tuples"}


TOKEN, TARGET = re.compile("@([a-zA-Z])"), re.compile("=@([a-z])=")
EXPRESSIONS = {
    "t": [
        "(@T + @T)",
        "(@T * 0.5)",
        "(@T - @N)",
        "torch.relu(@T)",
        "@T.sin()",
        "torch.where(@t > 0, @T, @T)",
        "(@T if @C else @T)",
        "@l[0]",
        "@l[-1]",
        "@d['a']",
        "sum([@T, @T])",
        "torch.stack([@T, @T]).mean(0)",
        "@d.get('b', @T)",
        "(lambda p, q=@T: p + q)(@T)",
        "torch.cat([@T, @T])[:@t.shape[0]]",
        "max([@T, @T], key=lambda v: v.shape[0])",
        "[@T, @T][@N % 2]",
        "next(iter([@T, @T]))",
        "@T.detach()",
        "(-@T)",
        "helper(@T, k=@N)",
        "Pair(@T, @T).total()",
        "functools.reduce(operator.add, [@T, @T])",
        "@T.view(-1)[:@t.shape[0]]",
        "torch.tanh(@T).mul_(2)",
        "@u[0]",
        "functools.partial(helper, k=@N)(@T)",
        "(lambda: (yield @T))().__next__()",
        "dict(m=@T, o=@T)['m']",
        "(@T, @T)[1]",
        "operator.itemgetter(0)(@l)",
        "copy.copy(@T)",
        "getattr(state, 'value')",
        "[*map(torch.cos, [@T])][0]",
        "(w := @T) * 2",
    ],
    "n": [
        "(@N + @N)",
        "(@N * @N)",
        "(@N - @N)",
        "len(@l)",
        "(@N // 2)",
        "(@N % 3)",
        "@t.shape[0]",
        "min(@N, @N)",
        "max([@N, @N], default=1)",
        "abs(@N)",
        "len(@s)",
        "int(@C)",
        "@t.dim()",
        "sum(range(@N % 4))",
        "len(@d)",
        "[@n, @N].index(@n)",
        "sum(i for i in range(3) if i != @N)",
        "@u[1]",
        "math.floor(@N / 2)",
        "{@N: 1, 2: 3}.get(2)",
        "len({@N, @N})",
        "(@N if @C else @N)",
        "@t.numel()",
        "len(@t.shape)",
        "(@N & 6)",
        "round(@N / 3)",
        "divmod(@N, 2)[0]",
        "[i * i for i in range(4)][@N % 4]",
        "next((i for i in range(5) if i > @N), 9)",
        "@s.count('a')",
        "len(set(@d))",
        "sorted([@N, @N])[0]",
        "int(str(abs(@N)))",
        "functools.reduce(lambda p, q: p * 2 + q, [@N, @N, 1])",
    ],
    "c": [
        "@N > @N",
        "@N == @N",
        "not @N",
        "@N < @N <= 3",
        "'b' in @d",
        "@s == 'ab'",
        "@t is @t",
        "isinstance(@u, tuple)",
        "bool(@l)",
        "@N > 0 and @N > 0",
        "@N > 0 or @N < 0",
        "hasattr(@t, 'shape')",
        "any(v > 1 for v in (@N, @N))",
        "all([@N, @N])",
        "@t.requires_grad",
        "@l is @l",
        "(@N, 1) < (@N, @N)",
        "@t.shape == @t.shape",
        "@s.startswith('a')",
        "@N in (1, 2, @N)",
        "@N in range(@N)",
        "@u == @u[:]",
        "type(@u) is tuple",
        "@t.dtype == torch.float32",
        "callable(helper)",
        "@N is None",
        "{1, @N} <= {1, 2, 3}",
    ],
    "l": [
        "[@T, @T]",
        "[v * 2 for v in @l][:4]",
        "list(@l)",
        "(@l + [@T])[:4]",
        "@l[::-1]",
        "[v for v in @l if @C]",
        "[@T] * 2",
        "list(map(lambda v: v + 1, @l))[:4]",
        "list(gen(@l, @N))",
        "sorted(@l, key=lambda v: v.shape[0])",
        "[p for p, q in zip(@l, [@T, @T])]",
        "[v + i for i, v in enumerate(@l)][:4]",
        "@l.copy()",
        "[*@l[:3], @T]",
        "list(itertools.chain(@l[:2], [@T]))",
        "list(@d.values())",
        "[p + q for p in @l[:2] for q in @l[:2]]",
        "list(filter(lambda v: v.dim(), @l))",
        "list(reversed(@l))",
        "[@T, *gen([@T], 1)]",
        "list(itertools.islice(@l, @N % 3))",
        "[v for k, v in sorted(@d.items(), key=lambda p: p[0])]",
        "[[v] for v in @l][0]",
    ],
    "d": [
        "{'a': @T, 'c': @T}",
        "dict(@d, b=@T)",
        "{k: v + 1 for k, v in @d.items()}",
        "{**@d, 'a': @T}",
        "dict(zip(['a', 'b'], [@T, @T]))",
        "@d | {'z': @T}",
        "collections.OrderedDict(@d)",
        "dict(sorted(@d.items(), key=lambda p: p[0]))",
        "@d.copy()",
        "dict.fromkeys(['a', 'b'], @T)",
        "{'a': @T, @S: @T}",
    ],
    "s": [
        "'ab'",
        "f'{@n}-{@s}'",
        "@s[:5] + 'b'",
        "str(@N)",
        "','.join(@d)",
        "@s.upper()[:6]",
        "'%d' % @N",
        "repr(@N)",
        "f'{@n:>3}'",
        "'{}'.format(@n)",
        "@s.replace('a', 'b')[:6]",
        "type(@u).__name__",
        "'x' * (@N % 3)",
        "@s[::-1][:6]",
        "helper.__name__",
    ],
    "u": [
        "(@T, @N)",
        "(@T, *@u[1:])",
        "Named(@T, @N)",
        "tuple([@T, @N])",
        "@u[:2]",
        "(@u[0], @u[1])",
        "tuple(v for v in (@T, @N))",
        "Named(@T, second=@N)",
    ],
}
STATEMENTS = [
    "=@t= = @t + @T",
    "=@n= += @N",
    "@l.append(@T)",
    "@l[0] = @T",
    "@d['b'] = @T",
    "@d.update(a=@T)",
    "@l.extend([@T])",
    "=@t=, =@n= = @T, @N",
    "@l.insert(0, @T)",
    "@l.pop()",
    "del @d['a']",
    "state.value = @T",
    "state.count += @N",
    "=@t= = @t + state.value",
    "@d.setdefault('q', @T)",
    "=@t= += 1",
    "global_list.append(@N)",
    "=@t=, *=@l= = @l[:2] + [@T]",
    "print(@N)",
    "print(@t.sum().item() > 0)",
    "log.append(@S)",
    "assert @C, 'asserted'",
    "=@n= = id(@l) * 0 + @N",
    "@t.add_(1)",
    "@l.reverse()",
    "=@n= = int(@t.shape[0])",
    "log.append(type(@u).__name__)",
    "global_number = @N",
    "=@n= = @n + global_number",
    "(=@t=, =@n=), =@s= = (@T, @N), @S",
    "@l[:1] = [@T, @T]",
    "@d.pop('c', None)",
    "setattr(state, 'value', @T)",
    "del @l[0]",
    "state.seen = @S",
    "log.append(getattr(state, 'seen', 0))",
    "@l.clear()",
    "=@l= *= 2",
    "=@u= = @U",
    "=@d= = @D",
    "@l.sort(key=lambda v: v.shape[0])",
    "log.extend(k for k in @d)",
    "for k in @d: log.append(k)",
    "=@t=.mul_(0.5)",
    "torch.manual_seed(@N % 5)",
    "log.append(len(torch.rand(2)))",
    "del =@n=",
    "=@t= = torch.zeros(@N % 3 + 1)",
    "=@t= = torch.ones(@N % 3 + 1) + @T",
    "=@t= = torch.ones(@N % 3 + 1, 3).squeeze()",
    "=@t= = @t.expand(@N % 3 + 1, *@t.shape).sum(0)",
    "log.append(torch.ones(3, @N % 3 + 1).t().is_contiguous())",
    "log.append(torch.ones(2, @N % 4).t().contiguous().stride())",
    "Base.kind = @S",
    "log.append(Base.kind)",
]


class Program:
    """Draws statements; `body` is a list of lines, (header, body) pairs for blocks."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = {"t": ["x", "y"], "n": ["n"], "l": ["items"], "d": ["box"], "s": ['"a"'], "u": ["(x, n)"]}
        self.bound = self.random.random() < 0.7  # all variables have a value from the start
        self.count, self.depth, self.loops, self.functions = 0, 0, 0, 0
        self.body = [self.assign(kind) for kind in "tn"] + self.block(self.random.randint(2, 6))

    # -- names -----------------------------------------------------------------------------------------------------

    def name(self, kind):
        return self.random.choice(self.names[kind])

    def variable(self, kind):
        """A name that can be assigned to."""
        found = [n for n in self.names[kind] if n.isidentifier()]
        return self.random.choice(found) if found else self.fresh(kind)

    def fresh(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def pick(self, *choices):
        return self.random.choice(choices)

    def know(self, kind, name):
        self.names[kind].append(name)

    # -- expressions -----------------------------------------------------------------------------------------------

    def expression(self, kind, depth):
        """A template of the kind: @t a tensor by name, @T any tensor expression, and so on for the other kinds."""
        few = {"t": 0.3, "n": 0.4}.get(kind)
        if few is not None and (depth > 2 or self.random.random() < few):
            literal = kind == "n" and self.random.random() < 0.5
            return str(self.random.randint(-2, 4)) if literal else self.name(kind)
        return self.fill(self.random.choice(EXPRESSIONS[kind]), depth + 1)

    def fill(self, template, depth):
        return TOKEN.sub(lambda found: self.part(found[1], depth), template)

    def part(self, letter, depth):
        return self.name(letter) if letter.islower() else self.expression(letter.lower(), depth)

    def t(self, depth=0):
        return self.expression("t", depth)

    def n(self, depth=0):
        return self.expression("n", depth)

    def c(self, depth=0):
        return self.expression("c", depth)

    # -- statements ------------------------------------------------------------------------------------------------

    def assign(self, kind):
        value = self.expression(kind, 0 if kind in "tn" else 1)
        name = self.fresh(kind) if self.random.random() < 0.7 else self.variable(kind)
        if name not in self.names[kind]:
            self.know(kind, name)
        return f"{name} = {value}"

    def simple(self):
        if self.random.random() < 0.4:
            return self.assign(self.random.choice("ttttnnllduus"))
        template = self.random.choice(STATEMENTS)
        return self.fill(TARGET.sub(lambda found: self.variable(found[1]), template), 1)

    def block(self, size):
        return [self.statement() for _ in range(size)]

    def inside(self, most=3):
        """A block at a greater depth; names that it makes stay known, and may be unbound."""
        self.depth += 1
        made = self.block(self.random.randint(1, most))
        self.depth -= 1
        return made

    def statement(self):
        if self.depth > 2 or self.random.random() < 0.6:
            return self.simple()
        return self.pick(
            self.if_,
            self.for_,
            self.for_,
            self.while_,
            self.try_,
            self.try_,
            self.with_,
            self.def_,
            self.match_,
            self.return_,
            self.generator_,
            self.class_,
        )()

    def if_(self):
        parts = [(f"if {self.c()}:", self.inside())]
        if self.random.random() < 0.5:
            parts.append((f"elif {self.c()}:" if self.random.random() < 0.3 else "else:", self.inside()))
        return parts

    def leave_loop(self):
        return [(f"if {self.c()}:", [self.pick("break", "continue")])] if self.random.random() < 0.4 else []

    def for_(self):
        i, v = self.fresh("n"), self.fresh("t")
        head, known = self.pick(
            (f"for {i} in range({self.random.randint(0, 4)}):", [("n", i)]),
            (f"for {v} in list({self.name('l')})[:3]:", [("t", v)]),
            (f"for {i}, {v} in enumerate({self.name('l')}[:3]):", [("n", i), ("t", v)]),
            (f"for {v} in gen({self.name('l')}[:3], {self.n(1)}):", [("t", v)]),
            (f"for {v} in tuple({self.name('d')}.values()):", [("t", v)]),
            (f"for {i}, {v} in zip(range(3), {self.name('l')}[:3]):", [("n", i), ("t", v)]),
        )
        for kind, name in known:
            self.know(kind, name)
        parts = [(head, self.inside() + self.leave_loop())]
        return parts + ([("else:", self.inside(1))] if self.random.random() < 0.2 else [])

    def while_(self):
        i = self.fresh("w")  # a name that nothing else changes
        return [f"{i} = 0", (f"while {i} < {self.random.randint(1, 3)}:", [f"{i} += 1", *self.inside(), *self.leave_loop()])]

    def raise_(self):
        return self.pick(
            "raise ValueError('v')",
            "raise KeyError('k') from None",
            "raise Problem(1, 'p')",
            "1 / 0",
            "[][1]",
            "{}['x']",
            "raise StopIteration",
            f"{self.name('t')}.nothing",
            "torch.ones(2) @ torch.ones(3)",
            "[a for a in 3]",
            "int('q')",
        )

    def try_(self):
        body = self.inside() + ([self.raise_()] if self.random.random() < 0.6 else [])
        if self.random.random() < 0.3 and body:
            body = body[:-1] + [(f"if {self.c()}:", [body[-1]])]
        parts = [("try:", body)]
        caught = self.pick(
            "except Exception as e:",
            "except (ValueError, KeyError) as e:",
            "except ZeroDivisionError:",
            "except Problem as e:",
            "except BaseException:",
        )
        again = self.pick(
            [], [], [], ["raise"], ["raise RuntimeError('again') from None"], ["log.append(type(sys.exc_info()[1]).__name__)"]
        )
        note = ["log.append(type(e).__name__)"] if " as e" in caught else []
        if self.random.random() < 0.85:
            parts.append((caught, note + self.inside(2) + again))
            if self.random.random() < 0.3:
                parts.append(("else:", self.inside(1)))
        if len(parts) == 1 or self.random.random() < 0.3:
            parts.append(("finally:", self.inside(1)))
        return parts

    def with_(self):
        head = self.pick(
            "with torch.no_grad():",
            "with Manager(log) as m:",
            "with managed(log) as m:",
            "with contextlib.nullcontext():",
            "with contextlib.suppress(ValueError, ZeroDivisionError):",
            "with Manager(log, swallow=True):",
            "with torch.enable_grad():",
            "with contextlib.ExitStack() as stack:",
        )
        body = self.inside() + ([self.raise_()] if self.random.random() < 0.25 else [])
        return [(head, body)]

    def def_(self):
        self.functions += 1
        name, keep = f"fn{self.functions}", {k: list(v) for k, v in self.names.items()}
        self.know("t", "p")
        closed = self.random.random() < 0.4 and any(v.isidentifier() for v in keep["n"] if v != "n")
        body = []
        if closed:
            shared = self.random.choice([v for v in keep["n"] if v.isidentifier()])
            body = [f"nonlocal {shared}", f"{shared} = {shared} + 1"] if self.depth == 0 else []
        result = self.t(1)
        inner = self.simple_assignments()
        self.names = keep
        target = self.fresh("t")
        self.know("t", target)
        call = self.pick(f"{name}({self.t(1)})", f"{name}(p={self.t(1)})", f"{name}(*[{self.t(1)}], q=2)")
        return [(f"def {name}(p, q={self.n(1)}, *rest, **more):", body + inner + [f"return {result} + q"]), f"{target} = {call}"]

    def simple_assignments(self):
        return [f"{self.fresh('w')} = {self.t(1)}" for _ in range(self.random.randint(0, 2))]

    def class_(self):
        self.functions += 1
        target = self.fresh("t")
        head = f"class C{self.functions}(Base):"
        body = [
            ("def __init__(self, v):", ["super().__init__(v)", "self.extra = v * 2"]),
            ("def get(self):", [f"return self.v + self.extra * {self.random.randint(1, 3)}"]),
        ]
        made = [(head, body), f"{target} = C{self.functions}({self.t(1)}).get()"]
        self.know("t", target)
        return made

    def generator_(self):
        self.functions += 1
        name, target = f"g{self.functions}", self.fresh("l")
        first, second = self.t(1), self.t(1)
        body = [
            self.pick(f"got = yield {first}", f"yield {first}"),
            (f"for i in range({self.random.randint(0, 3)}):", ["yield p + i"]),
            self.pick("yield from [p, p]", f"yield {second}", "return p"),
        ]
        finished = [f"{target} = list({name}({self.t(1)}))", f"{target} = [*{name}({self.t(1)})]"]
        if self.random.random() < 0.4:  # must be run to the end: when a dropped one is closed is not compared
            return [
                (f"def {name}(p):", [("try:", body), ("finally:", ["log.append('closed')"])]),
                self.known_list(target, self.pick(*finished)),
            ]
        use = self.pick(
            f"{target} = list({name}({self.t(1)}))",
            f"{target} = [v for v in {name}({self.t(1)})][:2]",
            f"it = {name}({self.t(1)}); {target} = [next(it)]",
            f"it = {name}({self.t(1)}); {target} = [next(it), it.send(1)]; it.close()",
            f"{target} = [*{name}({self.t(1)})]",
        )
        return [(f"def {name}(p):", body), self.known_list(target, use)]

    def known_list(self, name, statement):
        self.know("l", name)
        return statement

    def match_(self):
        target = self.fresh("n")
        self.know("n", target)
        return [
            f"{target} = 0",
            (
                f"match {self.pick(self.name('u'), self.n(1), self.name('d'))}:",
                [
                    ("case (a, int(b)):", [f"{target} = b"]),
                    ("case {'b': b, **rest}:", [f"{target} = len(rest)"]),
                    (f"case int() if {self.c(1)}:", [f"{target} = 5"]),
                    ("case _:", [f"{target} = 7"]),
                ],
            ),
        ]

    def return_(self):
        return [(f"if {self.c()}:", [f"return {self.t(1)}, {self.n(1)}"])]


PRELUDE = """
import collections, contextlib, copy, functools, itertools, math, operator, sys
import flambeau as torch

Named = collections.namedtuple("Named", "first second")

class Problem(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code

class Base:
    kind = "base"
    def __init__(self, v):
        self.v = v

class Pair:
    __slots__ = ("a", "b")
    def __init__(self, a, b):
        self.a, self.b = a, b
    @property
    def first(self):
        return self.a
    def total(self):
        return self.first + self.b

class State:
    def __init__(self):
        self.value, self.count = torch.ones(3), 0

class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow
    def __enter__(self):
        self.log.append("enter")
        return self
    def __exit__(self, kind, value, trace):
        self.log.append("exit" if kind is None else "NameError" if issubclass(kind, NameError) else kind.__name__)
        return self.swallow

@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")

def helper(v, *, k=1):
    if k > 2:
        return v * k
    return v - k

def gen(values, limit):
    for i, v in enumerate(values):
        if i > limit:
            return
        yield v * 2

global_list, global_number, log, state = [], 1, [], State()
"""


FIRST = {"t": "x", "n": "0", "l": "[x]", "d": "{'a': y}", "s": "''", "u": "(y, 2)"}


def lines(body, indent=1):
    """Source lines of a body; an empty one is `pass`."""
    out = []
    for part in body:
        if isinstance(part, str):
            out.append("    " * indent + part)
        elif isinstance(part, list):
            out += lines(part, indent)
        else:
            head, inner = part
            out.append("    " * indent + head)
            out += lines(inner, indent + 1) if inner else ["    " * (indent + 1) + "pass"]
    return out


def source(program):
    """The program's text: the function `f`; what it returns shows every variable it may have."""
    kinds = {n: kind for kind, group in program.names.items() for n in group if n.isidentifier() and n != "p"}
    result = ", ".join(sorted(kinds)[:12])
    first = [f"{n} = {FIRST[kind]}" for n, kind in sorted(kinds.items()) if n[-1].isdigit()] if program.bound else []
    text = "\n".join(lines(first + program.body))
    return f"def f(x, y, n, items, box):\n    global global_number\n{text}\n    return {result}\n"


def smaller(body):
    """Bodies with one part left out, or one block replaced by what is in it."""
    for i, part in enumerate(body):
        yield body[:i] + body[i + 1 :]
        if isinstance(part, list):
            for less in smaller(part):
                yield body[:i] + [less] + body[i + 1 :]
        elif isinstance(part, tuple):
            yield body[:i] + list(part[1]) + body[i + 1 :]
            for less in smaller(part[1]):
                yield body[:i] + [(part[0], less)] + body[i + 1 :]
