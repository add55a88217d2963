"""Constructs of the language: arithmetic, text, calls, closures, control flow, exceptions, generators, patterns, imports."""

import sys

from .matrix import construct

NUMBERS = "int negative float bool scalar tensor"
SEQUENCES = "list tuple deque range size"

# -- arithmetic, comparisons, constants --------------------------------------------------------------------------------

for name, symbol in {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**"}.items():
    construct(name, "int float scalar tensor", f"r = a {symbol} v")
    construct("r" + name, "int float scalar", f"r = v {symbol} (a.abs() + 1)")
    construct("plain_" + name, "int float bool", f"r = a + (v {symbol} 2)", sizes=0)
construct("bit_operators", "int bool", "r = a * ((v & 3) | 4 ^ 1), v << 2, ~v, v >> 1")
construct("bit_operators_of_tensors", "mask", "r = a + 1, v & v, v | ~v, v ^ v")
construct("unary", "int float tensor object", "r = a * 1, -v")
construct("unary_plus_abs", "int float tensor", "r = a * 1, +v, abs(v)")
construct("complex_numbers", "complex", "r = a * abs(v), v.real, v.imag, v.conjugate(), v * 1j")
construct("matmul", "vector", "r = a @ v")
construct("compare_numbers", "int float bool", "r = a * (v > 1), v == 3, v != 3, v < 3, v <= 3, 0 < v < 5")
construct("compare_tensors", "int float scalar tensor", "r = a > v, a == v, a != v, a <= v")
construct(
    "identity",
    "none bool ellipsis enum dtype class function object list tensor",
    "w = v\nr = a + 1, v is w, v is not w, v is None",
)
construct("membership", "list tuple set frozenset deque range size", "r = a + 1, 2 in v, 9 not in v")
construct("membership_keys", "dict ordereddict defaultdict counter str tensordict", "r = a + 1, 'p' in v, 'zz' not in v")
construct(
    "truth",
    "int zero float bool str none list empty dict set tuple object range slotted module class function",
    "r = a * 2 if v else a + 1",
)
construct("not_and_or", "int zero str none list empty object", "r = a + 1, not v, v and 1, v or 2, bool(v)")
construct("augmented", "int float tensor scalar", "r = a + 0\nr += v\nr -= 1\nr *= v\nr /= 2")
construct("augmented_number", "int float", "v += 1\nv *= 2\nv -= 3\nr = a * v", recompiles=0, seen=False, sizes=0)
construct(
    "in_place_operator_of_object",
    "object",
    "w = v\nw += 2\nr = a * w.n, w is v",
    sources=("argument", "local", "attribute", "item"),
    recompiles=0,
)
construct("conditional_expression", "int float bool enum str", "r = a + 1 if v == 3 else a * 2")
construct("chained_comparison", "int float", "r = a * (0 < v <= 3 != 7)")
construct("walrus", "int list", "r = a + (n := 4), n, [y := 3, y ** 2]")
construct(
    "number_methods", "int float bool", "r = a * 1, v.real, v.imag, v.conjugate(), v.__class__ is int, v.as_integer_ratio()"
)
construct("int_methods", "int", "r = a * v.bit_length(), (5).to_bytes(2, 'big'), v.numerator")
construct("float_methods", "float", "r = a * v, v.is_integer(), v.hex(), float.fromhex('0x1p3'), float('inf') > v")
construct("constants", "int", "r = a + 1, (1, 's', None, True, 2.5, 1j, b'b', ...), {1, 2}, {'k': v}, [v], -1, 10 ** 3")
construct(
    "enum_use",
    "enum intenum",
    "r = a * v.value, v.name, v is Color.BLUE, v == Level.HIGH, type(v).__name__, isinstance(v, Color)",
)
construct(
    "enum_class",
    "enum",
    "r = a + 1, Color(1), Color['RED'], [c.name for c in Color], len(Color), v in Color, v.doubled, Color.RED != v",
)
construct("enum_keys", "enum", "table = {Color.RED: 1, Color.BLUE: 2}\nr = a * table[v], hash(v) == hash(Color.BLUE)")
construct("flag_use", "flag", "r = a + 1, (v | Perm.W).value, Perm.R in v, bool(v & Perm.W)")
construct(
    "dtype_use", "dtype", "r = a.to(v), torch.zeros(2, dtype=v), v.is_floating_point, v == torch.float64, str(v), v.itemsize"
)
construct("device_use", "device", "r = a.to(v), torch.zeros(2, device=v), v.type, v.index, str(v), v == a.device")
construct("finfo", "dtype", "r = a + 1, torch.finfo(v).eps, torch.finfo(v).max, torch.iinfo(torch.int32).max")

# -- text --------------------------------------------------------------------------------------------------------------

construct(
    "f_string",
    "int float str bool none list tuple dict enum dtype object",
    "r = a + 1, f'{v}', f'{v!r:>12}', f'<{v!s}>', f'{v=}'",
)
construct(
    "f_string_spec",
    "int float",
    "width = 8\nr = a + 1, f'{v:>{width}}', f'{v:.2f}', f'{v:08.3f}', format(v, '+'), '{:5}|{x}'.format(v, x=v)",
)
construct("f_string_shape", "int", "r = a + 1, f'{a.shape[1]}x{a.dim()}', str(tuple(a.shape[1:])), f'{a.dtype}'")
construct("percent_format", "int float str", "r = a + 1, '%s' % v, '%5s|%r' % (v, v), '%(k)s' % {'k': v}")
construct(
    "str_methods",
    "str",
    "r = a * len(v), v.upper(), v.replace('b', 'z'), v.split('b'), v.startswith('a'), v.find('c'), v[1], v[::-1], v + 'd', v * 2, v.join(['x', 'y']), v.encode(), v.isdigit(), v.partition('b'), v.strip('a'), v.zfill(5), v.title(), v.count('a'), v.rsplit('b', 1), v.center(7, '*'), v.removeprefix('a'), v.format(), v.ljust(5), v.endswith(('c', 'd'))",
)
construct(
    "str_iteration",
    "str",
    "r = a + 1, [c for c in v], list(v), sorted(v, reverse=True), max(v), ','.join(v), ','.join(c + c for c in v), [ord(c) for c in v]",
)
construct("str_compare", "str", "r = a + 1, v == 'abc', v < 'b', v != 'x', 'b' in v, v in ('abc', 'd'), hash(v) == hash('abc')")
construct("bytes_methods", "bytes", "r = a * len(v), v.decode(), v + b'c', v[0], list(v), v.hex()")
construct("conversions", "int float bool intstr", "r = a * int(v), float(v), str(v), repr(v), bool(v), complex(v)", seen=True)
construct(
    "str_of_things",
    "none list tuple dict set range slice enum dtype device namedtuple dataclass object error",
    "r = a + 1, str(v), repr(v)",
    gaps=("error",),
)

# -- slicing and unpacking ---------------------------------------------------------------------------------------------

construct("index_sequence", SEQUENCES + " ints", "r = a * v[0], v[-1], len(v)")
construct(
    "slice_sequence",
    "list tuple range size str",
    "r = a + 1, list(v[1:]), list(v[:-1]), list(v[::-1]), list(v[0:2]), list(v[slice(1, None)])",
)
construct("unpack", SEQUENCES + " set dict", "x, y, z = v\nr = a + 1, x, y, z")
construct("unpack_star", SEQUENCES, "first, *rest = v\n*front, last = v\nr = a * first, rest, front, last")
construct("unpack_nested", "nested", "p, (q, s) = v\nr = a * p + q, s['k']")
construct("unpack_tensor", "tensor", "p, q = v\nr = p + q, [*v]", sizes=1)
construct("unpack_wrong", "list tuple", "try:\n    p, q = v\nexcept ValueError as error:\n    r = a + 1, str(error)")
construct("swap", "int tensor", "p, q = a, v\np, q = q, p\nr = p + q")
construct("star_in_display", "list tuple set range deque", "r = a + 1, [*v, 4], (0, *v), {*v, 9}")
construct("double_star_in_display", "dict ordereddict defaultdict counter", "r = a + 1, {**v, 'z': 4}, dict(v, z=1), dict(**v)")
construct("chained_assignment", "list tensor", "p = q = v\nr = a + 1, p is q")
construct(
    "delete_local",
    "int list",
    "w = v\ndel w\ntry:\n    w\nexcept UnboundLocalError as error:\n    r = a + 1, type(error).__name__",
)
construct(
    "slice_objects",
    "slice",
    "r = a[:, v], v.start, v.stop, v.step, v.indices(10), [1, 2, 3][v], (1, 2, 3)[v], 'abc'[v], v == slice(0, 2)",
)
construct(
    "slice_assignment",
    "list ints",
    "v[0:2] = [7]\nv[1:1] = [8, 9]\ndel v[0]\nr = a + 1, list(v)",
    sources=("argument", "local", "attribute", "item", "global", "cell"),
)

# -- calls -------------------------------------------------------------------------------------------------------------

construct("call_positional", "function lambda torchfn partial method decorated closure callable module builtin", "r = v(a)")
construct(
    "call_forms",
    "int float",
    "r = spread(a), spread(a, v), spread(a, v, 4, 5, k=6, z=7), spread(*(a, 1), **{'k': v}), spread(b=v, a=a)",
)
construct("call_star_iterables", "list tuple range deque", "r = spread(a, *v), spread(a, 1, *v, k=2), spread(*[a, 1], *v)")
construct("call_star_dict", "dict ordereddict defaultdict", "r = spread(a, **v), spread(a, 1, **v, k=2)")
construct(
    "keyword_only",
    "int",
    "r = keyed(a, w=v, s=3), keyed(a, w=1)",
    setup="""
    def keyed(t, /, w, *, s=1):
        return t * w + s
    """,
)
construct(
    "call_errors",
    "int",
    "r = []\nfor bad in (lambda: keyed(), lambda: keyed(a, v, 1), lambda: keyed(a, w=1, q=2), lambda: keyed(t=a, w=1)):\n    try:\n        bad()\n    except TypeError as error:\n        r.append(str(error))\nr = a + 1, r",
    setup="""
    def keyed(t, /, w, *, s=1):
        return t * w + s
    """,
)
construct(
    "defaults",
    "int tensor",
    "r = fallback(a), fallback(a, v), fallback.__defaults__, fallback.__name__",
    setup="""
    def fallback(t, n=4):
        return t * n
    """,
)
construct(
    "mutable_default",
    "int",
    "r = a * 2, gather(v), gather(v, [5])",
    setup="""
    def gather(n, into=None):
        into = [] if into is None else into
        into.append(n)
        return into
    """,
)
construct("default_bound_now", "int tensor", "fs = [lambda t, k=k: t * k for k in range(2)]\nr = [g(a) for g in fs]")
construct("late_binding", "int", "fs = [lambda t: t * k for k in range(3)]\nr = [g(a) for g in fs]")
construct("lambda_call", "int tensor", "r = (lambda t, n=3: t * n + v)(a)")
construct(
    "nested_function",
    "int tensor",
    "def outer(t):\n    def inner(w):\n        return w + v\n    return inner(inner(t))\nr = outer(a)",
)
construct("closure_writes", "int", "n = 0\ndef bump():\n    nonlocal n\n    n += v\n    return n\nr = a * bump(), bump(), n")
construct(
    "closure_shared",
    "int tensor",
    "def pair():\n    held = [v]\n    def get():\n        return held[-1]\n    def put(x):\n        held.append(x)\n    return get, put\nget, put = pair()\nput(v * 2)\nr = a * get()",
)
construct(
    "closure_of_loop",
    "list",
    "acc = []\nfor q in v:\n    def g(t, q=q):\n        return t * q\n    acc.append(g)\nr = [g(a) for g in acc]",
)
construct(
    "unbound_cell",
    "int",
    "def read():\n    return late\ntry:\n    read()\nexcept NameError as error:\n    note = str(error)\nlate = v\nr = a * read(), note",
)
construct("recursion", "int", "def fact(n):\n    return 1 if n <= 1 else n * fact(n - 1)\nr = a * fact(v)", sizes=0)
construct(
    "mutual_recursion",
    "int",
    "def even(n):\n    return True if n == 0 else odd(n - 1)\ndef odd(n):\n    return False if n == 0 else even(n - 1)\nr = a + even(v)",
)
construct("decorators", "int", "@twice\n@plus(v)\ndef g(t):\n    return t * 2\nr = g(a), g.__name__, g.__wrapped__(a)")
construct(
    "decorator_class",
    "int",
    "class Log:\n    def __init__(self, fn):\n        self.fn, self.n = fn, 0\n    def __call__(self, t):\n        self.n += 1\n        return self.fn(t)\ng = Log(lambda t: t * v)\nr = g(a), g(a), g.n",
)
construct("wraps", "int", "r = decorated(a), decorated.__name__, decorated.__wrapped__(a)")
construct(
    "partial",
    "int tensor",
    "p = functools.partial(scale, n=v)\nq = functools.partial(p, a)\nr = p(a), q(), p.func is scale, p.keywords, p.args",
)
construct("partial_from_outside", "partial", "r = v(a), v(a, n=2), v.func(a), v.args, v.keywords['n']")
construct("reduce", "list tuple", "r = functools.reduce(lambda p, q: p + q, v, a), functools.reduce(operator.mul, v)")
construct("lru_cache", "cached int", "r = a * cached(4), cached(4), cached.__wrapped__(2)")
construct(
    "lru_cache_inside",
    "int",
    "@functools.lru_cache(maxsize=None)\ndef g(n):\n    return n * 2\nr = a * g(v), g(v), g(5)",
    breaks="a cache made by the function itself",
)
construct(
    "function_attributes",
    "function lambda closure",
    "r = v(a), v.__name__, v.__module__, callable(v), v.__doc__, type(v) is types.FunctionType",
)
construct(
    "function_own_attributes",
    "int",
    "def g(t):\n    g.calls += 1\n    return t * v\ng.calls = 0\nr = g(a), g.calls, hasattr(g, 'calls')",
)
construct(
    "function_introspection",
    "function",
    "r = a + 1, v.__code__.co_argcount, v.__code__.co_varnames, v.__defaults__, v.__closure__, v.__qualname__, v.__kwdefaults__",
)
construct(
    "bound_methods",
    "method object",
    "m = Thing(v.n).go if isinstance(v, Thing) else v\nr = m(a), m.__name__, m.__self__.n, m.__func__(Thing(3), a)",
)
construct(
    "functions_in_containers",
    "function",
    "table = {'d': v, 's': scale}\nr = [fn(a) for fn in table.values()], table['d'](a), [v, abs][1](a)",
)
construct(
    "higher_order",
    "function torchfn callable",
    "def compose(*fns):\n    def run(t):\n        for fn in fns:\n            t = fn(t)\n        return t\n    return run\nr = compose(v, abs, v)(a)",
)
construct("globals_read", "int", "r = a * GLOBAL_NUMBER + len(GLOBAL_LIST)")
construct(
    "globals_write",
    "int",
    "global WRITTEN\nWRITTEN = v\nr = a * WRITTEN",
    setup="WRITTEN = 0",
    positions=("straight", "loop", "with", "try", "call", "handler", "forward", "generator"),
    sources=("argument", "local", "attribute", "item", "default"),
)
construct("globals_call", "int", "r = a * globals()['GLOBAL_NUMBER']", positions=("straight", "loop", "with", "try"))
construct(
    "locals_call",
    "int",
    "n = 4\nr = a * locals()['n']",
    positions=("straight", "with", "try"),
    breaks="the frame's own dictionary",
)
construct(
    "module_attributes",
    "int",
    "r = a * math.pi, math.inf > v, torch.float32, F.relu(a), collections.abc.Mapping.__name__, F.softmax is torch.nn.functional.softmax",
)
construct(
    "import_inside",
    "int float",
    "import math\nimport collections.abc\nfrom functools import reduce as fold\nfrom flambeau.nn import functional as G\nr = G.relu(a) * math.sqrt(4), fold(lambda p, q: p + q, [1, 2]), issubclass(list, collections.abc.Sequence)",
)
construct(
    "import_error", "int", "try:\n    import not_a_module_of_anyone\nexcept ImportError as error:\n    r = a + v, str(error)"
)
construct(
    "import_from_error",
    "int",
    "try:\n    from math import not_there\nexcept ImportError as error:\n    r = a + v, type(error).__name__",
)
construct("assert_true", "int list", "assert v, 'something'\nassert a.dim() == 2, f'{a.dim()}'\nr = a + 1")
construct(
    "assert_false",
    "int",
    "try:\n    assert v == 9, f'not {v}'\nexcept AssertionError as error:\n    r = a + 1, str(error), error.args",
)
construct("assert_type_hints", "int", "n: int = v\nq: list[int] = [n]\nr = a * n, q")
construct(
    "type_alias_subscripts", "int", "r = a + 1, list[int], dict[str, int] is not None, isinstance(v, int | str), int | None"
)

# -- comprehensions and generators -------------------------------------------------------------------------------------

ITERABLES = "list tuple set frozenset deque range size"
construct("list_comprehension", ITERABLES, "r = [a * q for q in v], [q for q in v if q > 1]")
construct(
    "set_dict_comprehension",
    "list tuple range deque",
    "r = a + 1, {q % 2 for q in v}, {q: q ** 2 for q in v}, {k: a * k for k in v}",
)
construct(
    "nested_comprehension",
    "list tuple",
    "r = [[a + p * q for q in v if q > p] for p in v], [(p, q) for p in v for q in range(p)]",
)
construct(
    "comprehension_cells",
    "int tensor",
    "r = [(lambda t: t * v + i)(a) for i in range(2)], [[i + j for j in range(i)] for i in range(3)]",
)
construct("comprehension_shadows", "int", "q = 7\nr = [q * a for q in range(2)], q")
construct(
    "comprehension_raises",
    "list",
    "try:\n    r = [1 // (q - 2) for q in v]\nexcept ZeroDivisionError as error:\n    r = a + 1, str(error)",
)
construct("comprehension_walrus", "list", "r = a * 1, [y for q in v if (y := q * 2) > 2], y")
construct(
    "dict_comprehension_items",
    "dict ordereddict defaultdict counter",
    "r = {k: a * w for k, w in v.items()}, {w: k for k, w in v.items()}",
)
construct(
    "generator_expression",
    ITERABLES,
    "r = sum((a * q for q in v), a), tuple(q + 1 for q in v), any(q > 2 for q in v), max(q for q in v)",
)
construct(
    "generator_function",
    "int",
    "def g(n):\n    for q in range(n):\n        yield a * q\n    return 9\nr = list(g(v)), sum(counted(v))",
    sizes=0,
)
construct("generator_by_hand", "int", "g = counted(v)\nr = a * 1, next(g), next(g), list(g), next(g, 'end')")
construct("generator_return_value", "int", "def g():\n    got = yield from counted(v)\n    yield got\nr = a + 1, list(g())")
construct(
    "generator_yield_from_list", "list tuple range deque", "def g():\n    yield from v\n    yield from 'ab'\nr = a + 1, list(g())"
)
construct(
    "generator_send",
    "int",
    "g = echo()\nfirst = next(g)\nsecond = g.send(v)\nthird = g.send(v)\ntry:\n    g.send(None)\nexcept StopIteration as stop:\n    r = a * third, first, second, stop.value",
)
construct(
    "generator_throw",
    "int",
    "def g():\n    try:\n        yield 1\n    except ValueError as error:\n        yield str(error)\ng = g()\nnext(g)\nr = a + 1, g.throw(ValueError('thrown')), list(g)",
)
construct(
    "generator_close",
    "int",
    "log = []\ndef g():\n    try:\n        yield 1\n        yield 2\n    finally:\n        log.append('closed')\nit = g()\nnext(it)\nit.close()\nr = a + 1, log, list(it)",
)
construct(
    "generator_stop_iteration",
    "int",
    "def g():\n    yield 1\n    raise StopIteration(3)\ntry:\n    list(g())\nexcept RuntimeError as error:\n    r = a + 1, str(error), type(error.__cause__).__name__",
    breaks=0 if sys.version_info >= (3, 12) else "an error crosses a generator that is still held",
)
construct(
    "generator_pipeline",
    "list",
    "def evens(it):\n    for q in it:\n        if q % 2 == 0:\n            yield q\ndef squared(it):\n    return (q * q for q in it)\nr = a + sum(squared(evens(v)))",
)
construct(
    "generator_in_with",
    "int",
    "log = []\ndef g():\n    with Managed(log):\n        yield a * v\n        yield a + v\nr = list(g()), log",
)
construct("generator_unpacked", "int", "p, q, s = (a * k for k in range(3))\nr = p, q, s")
construct(
    "generator_method",
    "object",
    "class Walk:\n    def __init__(self, n):\n        self.n = n\n    def __iter__(self):\n        for k in range(self.n):\n            yield k * 2\nr = [a * k for k in Walk(v.n)], list(Walk(2)), sum(Walk(3)), 2 in Walk(3)",
)
construct(
    "generator_attributes",
    "int",
    "g = counted(v)\nr = a + 1, iter(g) is g, type(g) is types.GeneratorType, isinstance(g, collections.abc.Iterator), g.__name__",
)
construct("generator_unfinished", "int", "g = counted(5)\nr = a + next(g)")
construct(
    "recursive_generator",
    "nested",
    "def flat(x):\n    if isinstance(x, (list, tuple)):\n        for y in x:\n            yield from flat(y)\n    elif isinstance(x, dict):\n        yield from x.values()\n    else:\n        yield x\nr = a * sum(flat(v)), list(flat(v))",
)

# -- loops -------------------------------------------------------------------------------------------------------------

construct("for_over", ITERABLES + " dict str bytes", "r = a + 1\nseen = []\nfor q in v:\n    seen.append(q)\nr = r, sorted(seen)")
construct(
    "for_else_break",
    "list range",
    "for q in v:\n    if q == 2:\n        break\nelse:\n    q = 9\nfor s in v:\n    if s == 7:\n        break\nelse:\n    s = 8\nr = a * q + s",
)
construct("for_continue", "list", "r = a\nfor q in v:\n    if q == 2:\n        continue\n    r = r + q")
construct("while_loop", "int", "n = v\nr = a\nwhile n > 0:\n    n -= 1\n    r = r * 2\nelse:\n    r = r + 1", sizes=0)
construct(
    "while_break",
    "int",
    "n = 0\nwhile True:\n    n += 1\n    if n > v:\n        break\n    if n == 2:\n        continue\nr = a * n",
)
construct("nested_loops", "list", "r = a\nfor p in v:\n    for q in v:\n        if q > p:\n            break\n        r = r + q")
construct("loop_over_tensor", "tensor", "r = a\nfor row in v:\n    r = r + row", sizes=1)
construct("loop_over_zip", "list tuple", "r = a\nfor i, (p, q) in enumerate(zip(v, v)):\n    r = r + p * q + i")
construct(
    "loop_modifies",
    "list",
    "v = list(v)\nfor q in v:\n    if len(v) < 5:\n        v.append(q + 1)\nr = a + len(v), v",
    seen=False,
)
construct(
    "loop_size_changes",
    "dict",
    "v = dict(v)\ntry:\n    for k in v:\n        v[k + 'x'] = 1\nexcept RuntimeError as error:\n    r = a + 1, str(error)",
    seen=False,
)

# -- with --------------------------------------------------------------------------------------------------------------

construct("with_user", "int", "log = []\nwith Managed(log) as m:\n    r = a * v\nr = r, log, m.log is log")
construct("with_two", "int", "log = []\nwith Managed(log) as m, Managed(log):\n    r = a * v\nr = r, log")
construct(
    "with_swallow",
    "int",
    "log = []\nr = a\nwith Managed(log, ValueError):\n    r = r * v\n    raise ValueError('gone')\nr = r, log",
)
construct(
    "with_raises",
    "int",
    "log = []\ntry:\n    with Managed(log):\n        raise KeyError(v)\nexcept KeyError as error:\n    r = a * error.args[0], log",
)
construct("with_contextmanager", "int tensor", "log = []\nwith managed(log, v) as got:\n    r = a * got\nr = r, log")
construct(
    "with_contextmanager_raises",
    "int",
    "log = []\ntry:\n    with managed(log, v):\n        raise KeyError('k')\nexcept KeyError as error:\n    r = a * v, log, str(error)",
)
construct(
    "with_contextmanager_swallows",
    "int",
    "@contextlib.contextmanager\ndef ignore():\n    try:\n        yield\n    except ValueError:\n        pass\nr = a\nwith ignore():\n    r = r * v\n    raise ValueError\nr = r + 1",
)
construct("with_contextmanager_decorator", "int", "log = []\n@managed(log, v)\ndef g(t):\n    return t * 2\nr = g(a), log")
construct(
    "with_nullcontext",
    "int tensor",
    "with contextlib.nullcontext(v) as n:\n    r = a * n\nwith contextlib.nullcontext():\n    r = r + 1",
)
construct(
    "with_suppress",
    "int",
    "r = a\nwith contextlib.suppress(ValueError, KeyError):\n    r = r * v\n    raise KeyError(1)\nr = r + 1",
)
construct(
    "with_closing",
    "int",
    "class Door:\n    open = True\n    def close(self):\n        self.open = False\nd = Door()\nwith contextlib.closing(d) as e:\n    r = a * v\nr = r, d.open, e is d",
)
construct(
    "with_exit_stack",
    "int",
    "log = []\nwith contextlib.ExitStack() as stack:\n    stack.enter_context(Managed(log))\n    stack.callback(log.append, 'callback')\n    r = a * v\nr = r, log",
)
construct("with_return", "int", "log = []\ndef g():\n    with Managed(log):\n        return a * v\nr = g(), log")
construct(
    "with_in_loop_break",
    "list",
    "log = []\nr = a\nfor q in v:\n    with Managed(log):\n        if q == 2:\n            break\n        r = r * q\nr = r, log",
)
construct(
    "with_no_grad",
    "int",
    "with torch.no_grad():\n    b = a * v\n    inside = torch.is_grad_enabled()\nr = b, a * 2, inside, torch.is_grad_enabled()",
    grad=True,
)
construct(
    "with_enable_grad",
    "int",
    "with torch.no_grad():\n    with torch.enable_grad():\n        b = a * v\n    c = a * 3\nr = b, c",
    grad=True,
)
construct(
    "with_set_grad_enabled",
    "bool",
    "with torch.set_grad_enabled(not v):\n    b = a * 2\nr = b, torch.is_grad_enabled()",
    grad=True,
)
construct("with_inference_mode", "int", "with torch.inference_mode():\n    b = a * v\nr = b + 1")
construct("no_grad_decorator", "int", "@torch.no_grad()\ndef g(t):\n    return t * v\nr = g(a), a * 2", grad=True)
construct(
    "with_autocast",
    "int",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    b = a @ a.t()\n    c = torch.softmax(b, -1)\nr = b, c, a @ a.t()",
)
construct("with_autocast_disabled", "bool", "with torch.autocast('cpu', dtype=torch.bfloat16, enabled=not v):\n    r = a @ a.t()")
construct(
    "with_autocast_nested",
    "int",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    with torch.autocast('cpu', enabled=False):\n        b = a @ a.t()\n    r = b, a @ a.t(), torch.is_autocast_enabled('cpu')",
)
