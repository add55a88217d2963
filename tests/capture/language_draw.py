"""Random programs about what Python means: names of modules, generators, caches, descriptors, closures, exceptions, calls, texts.

`Program(seed)` has a body as `programs.Program` has: nested statements, which `fuzzing` runs and makes smaller. A program is some
fragments, each about one part of the language, drawn with tensors and numbers in all places and put into loops, `try`, `with`, nested
functions and behind breaks. What it does is in `out`, in `log` (the order of effects), in what it prints and in `shown()`: names of both
modules, caches and objects at the end.
"""

import random

from .programs import lines, smaller  # noqa: F401  (a program of this module is made smaller like any other)

PRELUDE = '''
import collections
import types
this = types.ModuleType("other")
exec("""
G, H = 2, [1]
def read():
    return G
def write(v):
    global G
    G = v
def forget():
    global Z
    del Z
""", vars(this))
G, H = 3, 4
def set_g(v):
    global G
    log.append(("set", seen(v)))
    G = v
def get_g():
    return G
def seen(v):
    return (tuple(v.shape), v.detach().tolist()) if isinstance(v, torch.Tensor) else v
made = []
@functools.lru_cache(maxsize=None)
def cached(a, b=0):
    made.append(("cached", a, b))
    return a * 2 + b
@functools.lru_cache(maxsize=64, typed=True)
def table(a):
    made.append(("table", a))
    return [a]
@functools.cache
def failing(a):
    if a % 2:
        raise ValueError(f"odd {a}")
    return a
class Meta(type):
    def __call__(cls, *args, **kwargs):
        self = super().__call__(*args, **kwargs)
        self.born = "meta"
        return self
class Described:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, owner, kind=None):
        return self if owner is None else getattr(owner, self.name, "unset")
    def __set__(self, owner, value):
        log.append(("store", self.name))
        setattr(owner, self.name, value)
    def __delete__(self, owner):
        delattr(owner, self.name)
class Thing:
    kind, field = "thing", Described()
    __match_args__ = ("a", "b")
    def __init__(self, a, b=1):
        self.a, self.b = a, b
    @property
    def twice(self):
        log.append("twice")
        return self.a * 2
    @twice.setter
    def twice(self, value):
        self.a = value / 2 if isinstance(value, torch.Tensor) else value // 2
    @functools.cached_property
    def heavy(self):
        log.append("heavy")
        return self.a + 1
    @classmethod
    def of(cls, *given):
        return cls(*given)
    @staticmethod
    def plus(p, q=2):
        return p + q
    def __eq__(self, other):
        return isinstance(other, Thing) and seen(self.a) == seen(other.a)
    __hash__ = None
class Made(Thing, metaclass=Meta):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        log.append(("missing", name))
        return name * 2
class Strict(Thing):
    def __setattr__(self, name, value):
        log.append(("set", name))
        object.__setattr__(self, name, value)
    def __getattribute__(self, name):
        return 7 if name == "seven" else object.__getattribute__(self, name)
    def __delattr__(self, name):
        log.append(("del", name))
        object.__delattr__(self, name)
class Small:
    __slots__ = ("a", "b")
    def __init__(self, a, b=1):
        self.a, self.b = a, b
    def __iter__(self):
        yield self.a
        yield self.b
    def __len__(self):
        return 2
    def __bool__(self):
        log.append("bool")
        return True
class Counting:
    def __init__(self, stop):
        self.at, self.stop = 0, stop
    def __iter__(self):
        return self
    def __next__(self):
        self.at += 1
        if self.at > self.stop:
            raise StopIteration(self.at)
        return self.at
class Noted(Exception):
    def __init__(self, text, *more):
        super().__init__(text, *more)
        self.more = more
kept = Thing(5)
def inner_gen(v, n):
    got = yield v
    log.append(("got", seen(got)))
    for i in range(n):
        yield v + i
    return n * 10
def told(call):
    try:
        return seen(call())
    except Exception as e:
        return type(e).__name__, str(e)
def shown():
    names = {k: seen(v) for k, v in globals().items() if k in ("G", "H", "Z", "Y")}
    others = {k: seen(v) for k, v in vars(this).items() if k in ("G", "H", "Z")}
    caches = [(c.cache_info().misses, c.cache_info().currsize) for c in (cached, table)]
    return list(names), names, list(others), others, caches, list(made), {k: seen(v) for k, v in vars(kept).items()}
'''


# what is iterated over: (how it is made, what changes it, how many changes are drawn while it is iterated over)
EQUALS = ("0", "False", "1", "True", "1.0", "2", "2.0", "9", "17", "5", "33", "-1", "-2")
ITERATED = {
    "deque": (
        ("collections.deque([n, 1, 2])", "collections.deque([1, n], maxlen=2)", "collections.deque()"),
        (
            *(
                ".append(n)",
                ".appendleft(4)",
                ".pop()",
                ".popleft()",
                ".rotate(1)",
                ".reverse()",
                ".extend([])",
                ".extend([1, n])",
            ),
            *(".clear()", ".insert(1, 5)", ".remove(1)", ".__setitem__(0, 9)", ".__delitem__(0)", ".__iadd__([3])", ".copy()"),
        ),
        2,
    ),
    "list": (
        ("[n, 1, 2]", "[1]", "[n] * 3"),
        (".append(n)", ".insert(0, 4)", ".pop()", ".reverse()", ".extend([1, n])", ".remove(1)", ".__setitem__(0, 9)", ".sort()"),
        2,
    ),
    "dict": (
        ("{1: n, 2: 3}", "{}", "dict(a=n)"),
        (".__setitem__(7, n)", ".pop(1)", ".__setitem__(1, 9)", ".update(k=1)", ".get(1)"),
        1,
    ),
    "set": (("{1, 2, 3}", "{n}", "set()"), (".add(9)", ".discard(1)", ".add(1)", ".update([4, 5])"), 1),
}


class Program:
    """`body`: the statements of `f`."""

    def __init__(self, seed):
        self.random = random.Random(f"language {seed}")
        self.count = 0
        self.globals = self.random.choice(["", "global G", "global G, Z"])
        chosen = [self.fragment() for _ in range(self.random.randint(2, 4))]
        self.body = [part for fragment in chosen for part in fragment]

    # -- parts -----------------------------------------------------------------------------------------------------

    def pick(self, *choices):
        return self.random.choice(choices)

    def some(self, least, most, *choices):
        return [self.random.choice(choices) for _ in range(self.random.randint(least, most))]

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def n(self):
        return self.pick("n", "0", "1", "2", "5", "x.shape[0]", "n + 1", "len(items)", "x.shape[0] * 2", "-n", "n % 2")

    def t(self):
        return self.pick("x", "y", "x * 2", "(x + y)", "x.sum()", "items[0]", "box['a']", "(x * n)", "torch.ones(2)")

    def v(self):
        return self.pick(self.n, self.t)()

    def fragment(self):
        made = self.pick(
            self.names_,
            self.names_,
            self.generator_,
            self.generator_,
            self.cache_,
            self.object_,
            self.object_,
            self.closure_,
            self.exception_,
            self.exception_,
            self.with_,
            self.match_,
            self.call_,
            self.text_,
            self.unpack_,
            self.class_,
            self.leave_,
            self.iteration_,
            self.members_,
        )()
        return self.placed(made)

    def placed(self, made):
        """The statements somewhere."""
        where = self.random.random()
        if where < 0.45:
            return made
        if where < 0.55:
            i = self.name("i")
            return [(f"for {i} in range({self.pick('2', 'n', '1')}):", made)]
        if where < 0.65:
            return [("try:", made), ("finally:", [f"log.append('finally {self.name('at')}')"])]
        if where < 0.72:
            return [(f"with {self.pick('Manager(log)', 'managed(log)', 'torch.no_grad()', 'contextlib.nullcontext()')}:", made)]
        if where < 0.82:
            name = self.name("part")
            declared = [self.globals] if self.globals else []
            return [(f"def {name}():", declared + made), self.pick(f"{name}()", f"[{name}() for _ in range(2)]", f"told({name})")]
        if where < 0.9:
            return [(f"if {self.pick('n > 1', 'x.shape[0] == 3', 'n', 'True')}:", made)]
        return [f"print({self.pick('n', repr('here'), 'len(out)')})", *made]

    # -- fragments -------------------------------------------------------------------------------------------------

    def names_(self):
        """The same name in all spellings: own globals, and those of another module."""
        v, z = self.v, self.pick("Z", "Z", "Y", "G")
        return [
            "%s" % line
            for line in self.some(
                3,
                8,
                f"globals()['G'] = {v()}",
                f"globals().update(G={v()}, H={v()})",
                f"set_g({v()})",
                f"globals()['{z}'] = {v()}",
                f"globals().setdefault('{z}', {v()})",
                f"out.append(globals().pop('{z}', 0))",
                "globals()['H'] += 1" if v else "",
                f"out.append(told(lambda: globals().__delitem__('{z}')))",
                f"this.G = {v()}",
                f"setattr(this, 'G', {v()})",
                f"vars(this)['G'] = {v()}",
                f"this.__dict__.update(G={v()}, Z={v()})",
                f"this.write({v()})",
                "out.append(told(lambda: delattr(this, 'Z')))",
                "out.append(told(this.forget))",
                f"vars(this).setdefault('Z', {v()})",
                "out.append(G)",
                "out.append(get_g())",
                "out.append(globals()['G'])",
                f"out.append(globals().get('{z}', 7))",
                f"out.append('{z}' in globals())",
                "out.append((this.G, this.read()))",
                "out.append(getattr(this, 'Z', None))",
                "out.append(hasattr(this, 'Z'))",
                "out.append(vars(this).get('Z', 9))",
                "out.append(told(lambda: Z))",
                "out.append([k for k in globals() if k in 'GHZY'])",
                "out.append(x + G)",
                "out.append('Z' in vars(this))",
                "out.append(x * this.read())",
                "out.append({k: v for k, v in vars(this).items() if k in 'GZ'})",
                "globals()['H'] = globals()['G']",
                "out.append(globals() is globals())",
                "out.append(get_g.__globals__['G'])",
                *(["G = n + 5", "G += 1"] if self.globals and "global G" in self.globals else []),
            )
        ]

    def generator_(self):
        """A generator and what its holder does with it."""
        gen, it = self.name("gen"), self.name("it")
        steps = self.some(
            1,
            4,
            f"yield {self.v()}",
            f"got = yield {self.v()}",
            "log.append(seen(got))",
            f"got = yield from inner_gen({self.t()}, {self.n()})",
            f"yield from [{self.v()}, {self.v()}]",
            "got = yield from Counting(2)",
            f"if n > 1: return {self.v()}",
            "got = yield got",
        )
        body = ["got = None", *steps]
        if self.random.random() < 0.5:
            caught = self.pick("except ValueError as e:", "except (ValueError, GeneratorExit) as e:", "except Exception as e:")
            body = [
                "got = None",
                ("try:", steps),
                (
                    caught,
                    [
                        "log.append(('caught', type(e).__name__, str(e)))",
                        self.pick("yield 'after'", "raise", "return 'left'", "pass"),
                    ],
                ),
            ]
        if self.random.random() < 0.4:
            body = [*body[:1], ("try:", body[1:]), ("finally:", ["log.append('closed')"])]
        body.append(self.pick(f"return {self.v()}", f"return ({self.v()}, 1)", "return", "return None", f"yield {self.v()}"))
        uses = self.some(
            2,
            6,
            f"next({it})",
            f"next({it}, 'end')",
            f"{it}.send(None)",
            f"{it}.send({self.v()})",
            f"{it}.throw(ValueError('thrown'))",
            f"{it}.throw(KeyError('k'))",
            f"{it}.close()",
            f"[seen(v) for v in {it}]",
            f"list({it})",
            f"{it}.__next__()",
        )
        made = [
            (f"def {gen}(p):", ["yield p" if not any("yield" in str(part) for part in body) else "pass", *body]),
            f"{it} = {gen}({self.t()})",
        ]
        for use in uses:
            made += [
                ("try:", [f"out.append({use})"]),
                ("except StopIteration as e:", [f"out.append((e.value, {self.pick('len(e.args)', 'e.args')}))"]),
                ("except Exception as e:", ["out.append((type(e).__name__, str(e)))"]),
            ]
        if self.random.random() < 0.3:
            outer = self.name("outer")
            made += [
                (f"def {outer}():", [f"r = yield from {gen}({self.t()})", "log.append(('returned', seen(r)))", "yield r"]),
                f"out.append(list({outer}()))",
            ]
        return [*made, f"{it}.close()"]

    def cache_(self):
        n = self.n
        return self.some(
            2,
            6,
            f"out.append(x * cached({n()}))",
            f"out.append(cached({n()}, b={n()}))",
            f"out.append(cached({n()}))",
            f"table({n()}).append({n()})",
            f"out.append(list(table({n()})))",
            f"out.append(told(lambda: failing({n()})))",
            f"out.append(cached(({n()}, 1)))" if False else "out.append(cached(2))",
            f"out.append(table({n()}) is table({n()}))",
            "out.append(cached.cache_info().misses)",
            "cached.cache_clear()",
            f"out.append(kept.heavy + {n()})",
            "kept.__dict__.pop('heavy', None)",
            f"log.append(cached({n()}))",
            f"out.append(told(lambda: cached([{n()}])))",
        )

    def object_(self):
        thing = self.name("o")
        cls = self.pick("Thing", "Made", "Strict", "Small", "Thing.of", "Made.of", "Strict")
        a = self.v()
        slotted = cls == "Small"
        uses = [
            "{o}.a",
            "{o}.b",
            "{o}.twice",
            "{o}.kind",
            "{o}.heavy",
            "{o}.field",
            "{o}.absent",
            "{o}.seven",
            "{o}.born",
            "{o}.plus(3)",
            "type({o}).__name__",
            "hasattr({o}, 'absent')",
            "getattr({o}, 'absent', 4)",
            "{o} == type({o})(1)",
            "[*{o}]",
            "len({o})",
            "bool({o})",
            "sorted(vars({o}))",
            "isinstance({o}, Thing)",
            "{o}.__class__.__mro__[1].__name__",
            "object.__getattribute__({o}, 'a')",
            "type({o}).twice.fget({o})",
        ]
        stores = [
            "{o}.a = {v}",
            "{o}.b += 1",
            "{o}.twice = {v}",
            "{o}.field = {v}",
            "del {o}.field",
            "del {o}.a",
            "setattr({o}, 'b', {v})",
            "{o}.extra = {v}",
            "del {o}.heavy",
            "{o}.__dict__['a'] = {v}",
            "{o}.seven = 1",
            "delattr({o}, 'b')",
            "{o}.b = {o}.a",
            "{o}.twice += 2",
        ]
        made = [f"{thing} = {'kept' if not slotted and self.random.random() < 0.3 else f'{cls}({a})'}"]
        for _ in range(self.random.randint(2, 6)):
            if self.random.random() < 0.6:
                made.append(f"out.append(told(lambda: {self.pick(*uses).format(o=thing)}))")
            else:
                made += [
                    ("try:", [self.pick(*stores).format(o=thing, v=self.v())]),
                    ("except Exception as e:", ["out.append((type(e).__name__, str(e)))"]),
                ]
        return made

    def closure_(self):
        name, c = self.name("fn"), self.name("c")
        kind = self.pick("nonlocal", "default", "late", "shared", "deleted", "recursive")
        if kind == "nonlocal":
            return [
                f"{c} = {self.v()}",
                (f"def {name}(k):", [f"nonlocal {c}" if True else "", f"{c} = {c} + k", f"return {c}"]),
                *self.some(
                    1,
                    3,
                    f"out.append({name}({self.v()}))",
                    f"out.append({c})",
                    f"{c} = {self.v()}",
                    f"out.append([{name}(i) for i in range(2)])",
                ),
            ]
        if kind == "default":
            return [
                (
                    f"def {name}(k, seen=[], *, into={{}}):",
                    ["seen.append(k)", "into[len(seen)] = k", "return list(seen), len(into)"],
                ),
                *self.some(
                    2,
                    4,
                    f"out.append({name}({self.v()}))",
                    f"out.append({name}({self.n()}, [1]))",
                    f"out.append({name}.__defaults__)",
                    f"out.append({name}(1, into={{}}))",
                ),
            ]
        if kind == "late":
            return [
                f"{name} = [lambda t: t * i for i in range({self.pick('3', 'n')})]",
                f"out.append([g({self.v()}) for g in {name}])",
                f"{name} = [lambda t, i=i: t * i for i in range(3)]",
                f"out.append([g({self.v()}) for g in {name}])",
            ]
        if kind == "shared":
            return [
                (f"def {name}(v):", [("def get():", ["return v"]), ("def put(w):", ["nonlocal v", "v = w"]), "return get, put"]),
                f"get{c}, put{c} = {name}({self.v()})",
                f"put{c}({self.v()})",
                f"out.append(get{c}())",
                f"out.append(get{c}.__closure__[0].cell_contents)",
            ]
        if kind == "deleted":
            return [
                f"{c} = {self.v()}",
                (f"def {name}():", [f"return {c}"]),
                f"out.append({name}())",
                f"del {c}",
                f"out.append(told({name})[0] if isinstance(told({name}), tuple) else 0)",
                f"{c} = 1",
            ]
        return [
            (f"def {name}(k):", [f"return {self.t()} if k < 1 else {name}(k - 1) + k"]),
            f"out.append({name}({self.pick('3', 'n', '2')}))",
        ]

    def raised(self):
        return self.pick(
            "raise ValueError('v', 1)",
            "raise Noted('t', n)",
            "raise KeyError(n)",
            "1 / 0",
            "[][n]",
            "{}['k']",
            "x.view(7, -1)",
            "x.reshape(n + 1, 2, 5)",
            "torch.ones(2) @ torch.ones(3)",
            "raise StopIteration(3)",
            "raise AttributeError",
            "int('q')",
            "raise RuntimeError(f'{n} of {x.shape}')",
            "raise ExceptionGroup('g', [ValueError(1), KeyError(n)])",
            "x[9]",
            "torch.cat([x, torch.ones(2, 2)])",
            "x.nothing",
            "nothing",
            "assert n < 0, f'n is {n}'",
            "len(5)",
            "x.squeeze(4)",
            "torch.ones(n, 2).sum(3)",
        )

    def exception_(self):
        caught = self.pick(
            "except Exception as e:",
            "except (ValueError, KeyError, RuntimeError) as e:",
            "except LookupError as e:",
            "except ArithmeticError as e:",
        )
        after = self.some(
            1,
            3,
            "out.append((type(e).__name__, str(e)))",
            "out.append(len(e.args))",
            "out.append(repr(e.__cause__))",
            "e.add_note('note'); out.append(e.__notes__)",
            "out.append(getattr(e, 'more', None))",
            "out.append(e.__suppress_context__)",
            "out.append(isinstance(e, LookupError))",
            "out.append(type(sys.exception()).__name__ if hasattr(sys, 'exception') else '')",
        )
        last = self.pick(
            [], [], ["raise"], ["raise Noted('again') from e"], ["raise Noted('again') from None"], ["raise Noted('during')"]
        )
        made = [("try:", [self.raised()]), (caught, after + last)]
        if self.random.random() < 0.3:
            made.append(("else:", ["log.append('else')"]))
        if self.random.random() < 0.4:
            made.append(("finally:", ["log.append('finally')"]))
        if last or self.random.random() < 0.8:
            made = [
                ("try:", made),
                ("except Exception as e:", ["out.append((type(e).__name__, str(e), type(e.__cause__).__name__))"]),
            ]
        if self.random.random() < 0.15:
            made = [
                ("try:", ["raise ExceptionGroup('g', [ValueError('a'), KeyError(n), ExceptionGroup('h', [ValueError('b')])])"]),
                ("except* ValueError as e:", ["out.append([str(v) for v in e.exceptions])"]),
                ("except* KeyError as e:", ["out.append(len(e.exceptions))"]),
            ]
        return made

    def with_(self):
        opened = self.pick(
            "with Manager(log) as m:",
            "with managed(log) as m, Manager(log, swallow=True):",
            "with contextlib.suppress(ValueError, KeyError, ZeroDivisionError):",
            "with contextlib.ExitStack() as m:",
            "with contextlib.closing(inner_gen(x, 2)) as m:",
            "with Manager(log, swallow=True) as m:",
        )
        body = self.some(1, 3, f"out.append({self.v()})", "log.append('inside')")
        if "ExitStack" in opened:
            body += self.some(
                1,
                3,
                "m.callback(log.append, 'called')",
                "m.enter_context(Manager(log))",
                "m.callback(lambda: out.append(n))",
                "m.pop_all().close()",
            )
        if "closing" in opened:
            body += ["out.append(next(m))"]
        if self.random.random() < 0.4:
            body.append(self.raised())
        return [("try:", [(opened, body)]), ("except Exception as e:", ["out.append((type(e).__name__, str(e)))"])]

    def match_(self):
        subject = self.pick(
            f"({self.v()}, n)",
            f"Thing({self.v()}, n)",
            f"{{'k': {self.v()}, 'm': n}}",
            "n",
            f"[1, {self.v()}, 3, n]",
            "'text'",
            "x.shape",
            "None",
            f"Small({self.n()}, 2)",
            "list(x.shape)",
        )
        cases = [
            ("case Thing(a, 2 as b):", ["out.append(('two', a, b))"]),
            ("case Thing(a=p, b=q) if q != 3:", ["out.append(('thing', p, q))"]),
            ("case {'k': k, **rest}:", ["out.append(('map', k, rest))"]),
            ("case [1, *middle, last]:", ["out.append(('seq', middle, last))"]),
            ("case (p, int(q)):", ["out.append(('pair', p, q))"]),
            ("case 1 | 2 | 3 as which:", ["out.append(('few', which))"]),
            ("case str() as s:", ["out.append(s)"]),
            ("case None:", ["out.append('none')"]),
            ("case [size]:", ["out.append(('size', size))"]),
            ("case Small(a=a):", ["out.append(('small', a))"]),
            ("case int():", ["out.append('int')"]),
        ]
        self.random.shuffle(cases)
        return [(f"match {subject}:", [*cases[: self.random.randint(2, 7)], ("case _:", ["out.append('other')"])])]

    def call_(self):
        name = self.name("fn")
        form = self.pick(
            "p, q=2, /, r=3, *rest, s, t=5, **more",
            "p, *rest, k=1",
            "p, q=n, **more",
            "*rest",
            "p, /, q",
            "*, k, m=2",
            "p=x, q=[1, 2]",
            "p, q",
        )
        names = [part.split("=")[0].strip(" *") for part in form.split(",")]
        shown = ", ".join(f"seen({n})" if n in "pqrstkm" else n for n in names if n and n != "/")
        v = self.v
        calls = self.some(
            2,
            5,
            f"{name}({v()})",
            f"{name}({v()}, {v()}, s=1)",
            f"{name}(*[{v()}, 2], **{{'k': 3}})",
            f"{name}(p={v()}, q=1)",
            f"{name}({v()}, z={v()})",
            f"{name}()",
            f"{name}(*(1, 2, 3), *[4], s={v()}, **dict(t=1, u=2))",
            f"{name}(k={v()}, m=2)",
            f"functools.partial({name}, {v()})(2)",
            f"{name}({v()}, **([('k', 3)] if n % 2 else {{'k': 3}}))",
            f"{name}(**{{'p': 1}}, q={v()})",
            f"{name}(s=1, *[{v()}])",
        )
        return [(f"def {name}({form}):", [f"return ({shown},)"]), *(f"out.append(told(lambda: {call}))" for call in calls)]

    def text_(self):
        return [f"out.append({self.pick(*TEXTS)})" for _ in range(self.random.randint(1, 4))]

    def iteration_(self):
        """Something iterates over a container, which changes meanwhile."""
        held, it = self.name("held"), self.name("it")
        kind = self.pick(*ITERATED)
        made, changes, most = ITERATED[kind]
        around = ["iter({})", "enumerate({})", "map(str, {})", "zip({}, range(9))"] + ["reversed({})"] * (kind != "set")
        asked, lines = f"out.append(told(lambda: next({it})))", [f"{held} = {self.pick(*made)}"]
        if self.random.random() < 0.4:
            lines.append(f"out.append(told(lambda: {held}{self.pick(*changes)}))")
        lines += [f"{it} = {self.pick(*around).format(held)}", *[asked] * self.random.randint(0, 2)]
        for _ in range(self.random.randint(0, most)):
            lines.append(f"out.append(told(lambda: {held}{self.pick(*changes)}))")
        return [
            *lines,
            *self.some(0, 1, "print(end='')", "print(n)"),
            *[asked] * self.random.randint(0, 2),
            f"out.append(told(lambda: [str(q) for q in {it}]))",
            f"out.append([*{held}])",
        ]

    def members_(self):
        """Sets and dicts of numbers that are equal without being alike: which of them stays, and in which order."""
        a, b, c = self.name("a"), self.name("b"), self.name("c")
        body = lambda most=5: ", ".join(self.some(1, most, *EQUALS))
        other = lambda: self.pick("{%s}", "frozenset([%s])", "[%s]", "dict.fromkeys([%s])", "(q for q in [%s])") % body()
        named = lambda: self.pick("union", "intersection", "difference", "symmetric_difference")
        lines = [f"{a} = {self.pick('{%s}', 'frozenset([%s])') % body()}", f"{b} = {{{body()}}}", f"{c} = {b} | {a}"]
        for _ in range(self.random.randint(1, 4)):
            lines.append(
                self.pick(
                    f"{c} = {self.pick(a, b, c)}.{named()}({other()})",
                    f"{c} = {self.pick(a, b, c)} {self.pick(*'&|-^')} {self.pick(a, b)}",
                    f"{b} {self.pick(*'&|-^')}= {a}",
                    f"{b}.{self.pick('', 'intersection_', 'difference_', 'symmetric_difference_')}update({other()})",
                    f"{c} = {self.pick('set', 'frozenset')}({self.pick(a, b, c)})",
                    f"{b}.add({self.pick(*EQUALS)})",
                    f"{b}.discard({self.pick(*EQUALS)})",
                    f"{c} = {self.pick(a, b, c)}.copy()",
                )
            )
        d = self.name("d")
        pairs = ", ".join(f"{k}: {v}" for k, v in zip(self.some(2, 4, *EQUALS), "1234"))
        return [
            f"out.append({self.t()})",  # (frames without tensors are not captured)
            *lines,
            f"{d} = {self.pick('{%s}', 'dict({%s})', 'collections.OrderedDict({%s})') % pairs}",
            f"{d}{self.pick('[%s] = 8', '.setdefault(%s, 9)', '.update({%s: 7})', '.pop(%s, 0)') % self.pick(*EQUALS)}",
            f"out.append([*map(repr, ({a}, {b}, {c}, [*{b}], [*{c}], {d}))])",
            *self.some(0, 1, "print(end='')"),
            f"out.append([[*{b}], [*{c}], [*{d}]])",
        ]

    def unpack_(self):
        a, b, c = self.name("a"), self.name("b"), self.name("c")
        v = self.v
        return [
            self.pick(
                f"{a}, *{b}, {c} = [{v()}, {v()}, 3, 4]",
                f"({a}, {b}), *{c} = ({v()}, 2), {v()}, 5",
                f"{a} = {b} = {c} = {v()}",
                f"*{a}, {b} = range(n + 1); {c} = 0",
                f"{a}, {b}, {c} = (q * 2 for q in (n, {v()}, 3))",
                f"[{a}, [{b}, *{c}]] = {v()}, [1, 2, 3]",
                f"{a} = [{v()}, 2, 3]; {a}[1:], {b} = [9], {a}[0]; {c} = ({b}, {a})",
                f"{a} = {{'k': 1}}; {a}['k'], {b} = {v()}, {a}['k']; {c} = [*{a}, *'ab']",
                f"{a} = [n, 1, 2]; {a}[0] += 1; del {a}[1]; {b} = {a} * 2; {c} = [q for q in {b} if (z := q) > 1]",
                f"{a} = ({b} := {v()}); {c} = {{**box, 'q': {v()}}}",
                f"{a}, {b}, {c} = x.shape[0], *divmod(n + 7, 3)",
            ),
            f"out.append(({a}, {b}, {c}))",
            *(
                [
                    ("try:", [f"{a}, {b} = {self.pick('[1]', '[1, 2, 3]', 'n', 'x.shape', '(n,) * 3')}"]),
                    ("except Exception as e:", ["out.append((type(e).__name__, str(e)))"]),
                ]
                if self.random.random() < 0.4
                else []
            ),
        ]

    def class_(self):
        """Classes made by the function itself."""
        cls = self.name("Cls")
        head = self.pick(f"class {cls}:", f"class {cls}(Thing):", f"class {cls}(metaclass=Meta):", f"class {cls}(Small):")
        body = [
            f"size = {self.n()}",
            ("def __init__(self, a=1, b=2):", ["self.a, self.b = a, b"]),
            ("def go(self, t):", ["return t * self.size"]),
        ]
        body += self.some(
            0,
            2,
            "items2 = [i for i in range(2)]",
            ("def __repr__(self):", ["return f'<{self.a}>'" if "Small" not in head else "return 'r'"]),
            ("def __call__(self, t):", ["return t + 1"]),
            ("def __add__(self, o):", ["return ('sum', o)"]),
            ("def __radd__(self, o):", ["return ('rsum', seen(o))"]),
            ("def __getitem__(self, k):", ["return k"]),
            ("def __contains__(self, k):", ["return k == 1"]),
        )
        if self.random.random() < 0.3:
            body.append(("def __del__(self):", ["log.append('gone')"]))
        one = self.name("one")
        return [
            (head, body),
            f"{one} = {cls}()",
            *(
                f"out.append(told(lambda: {self.pick(*uses)}))"
                for uses in self.some(
                    1,
                    3,
                    (f"{one}.go({self.v()})", f"{cls}.size"),
                    (f"{one} + 1", f"2 + {one}", f"{one}(x)"),
                    (f"{one}[1:2]", f"1 in {one}", f"{cls}.__name__"),
                )
            ),
            f"del {one}",
        ]

    def leave_(self):
        """Ways out of loops and `try`."""
        name, v = self.name("fn"), self.v
        way = self.pick("return ('try', p)", "continue", "break", "raise ValueError('in')", "p = p + 1", "1 / 0")
        final = self.pick("log.append('f')", "return ('finally', p)", "p = p * 2", "continue", "break" if True else "")
        if final in ("continue", "break") or way in ("continue", "break"):
            loop = [
                (
                    "for i in range(3):",
                    [
                        ("try:", ["p = p + i", (f"if i == {self.pick('1', 'n', '0')}:", [way])]),
                        ("except ValueError:", ["log.append('v')"]),
                        ("finally:", ["log.append(i)", final]),
                    ],
                ),
                ("else:", ["log.append('else')"]),
                "return p",
            ]
        else:
            loop = [
                ("try:", [way]),
                ("except ValueError as e:", ["return ('except', str(e))"]),
                ("finally:", [final]),
                "return ('end', p)",
            ]
        return [(f"def {name}(p):", loop), f"out.append(told(lambda: {name}({v()})))"]


TEXTS = (
    "f'{n}'",
    "f'{n:>4}|{n:03d}|{-n:+}'",
    "f'{x.shape}'",
    "f'{x.shape[0]:>{n + 3}}'",
    "f'{n!r:>5}'",
    "f'{n=}'",
    "f'{tuple(x.shape)}'",
    "f'{x.shape[0] / 2:.2f}'",
    "'%d of %s' % (n, x.shape[0])",
    "'{:>{}}'.format(n, 5)",
    "f'{[n, x.shape[0]]}'",
    "f'{x.dtype} {x.dim()}'",
    "str(x.shape)",
    "repr((n, x.shape[0]))",
    "f'{n:x}{n:b}{n:e}'",
    "f'{n / 3:.3g} {n:,}'",
    "f'{{n}} {n}'",
    "f'{kept.kind:*^9}'",
    "f'{n if n > 1 else None}'",
    "str(n).zfill(4)",
    "format(n, '05')",
    "f'{x.numel()}' + 'a' * n",
    "f'{True:>5} {None!s}'",
    "','.join(str(s) for s in x.shape)",
    "f'{dict(k=n)}'",
    "f'{n:{chr(62)}{4}}'",
    "bytes([n % 5, 2]).hex()",
    "f'{1.5 * n:8.3f}'",
    "f\"{'a' if n else 'b'!r}\"",
)


def source(program):
    declared = f"    {program.globals}\n" if program.globals else ""
    text = "\n".join(lines(program.body))
    return f"{PRELUDE}\ndef f(x, y, n, items, box):\n{declared}    out = []\n{text}\n    return out\n"
