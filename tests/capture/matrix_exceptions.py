"""Constructs with exceptions, and patterns of match statements."""

from .matrix import construct

construct(
    "try_quiet", "int", "try:\n    b = a * v\nexcept ValueError:\n    b = a\nelse:\n    b = b + 1\nfinally:\n    n = 3\nr = b + n"
)
construct(
    "raise_and_catch",
    "int str",
    "try:\n    raise ValueError('bad', v)\nexcept (KeyError, ValueError) as error:\n    r = a + 1, error.args, str(error), type(error).__name__, isinstance(error, ValueError)",
)
construct("raise_class", "errorclass", "try:\n    raise v\nexcept KeyError as error:\n    r = a + 1, error.args")
construct(
    "raise_object",
    "error",
    "try:\n    raise v\nexcept ValueError as error:\n    r = a * error.args[1], error is v",
    seen=False,
    breaks="an exception from outside: raising it would change it",
    sources=("argument", "attribute", "item", "global", "cell", "default"),
)
construct(
    "raise_own_class",
    "int",
    "try:\n    raise MyError(v)\nexcept MyError as error:\n    r = a * error.code, str(error), error.args, isinstance(error, ValueError)",
)
construct(
    "raise_own_class_made_here",
    "int",
    "class Oops(Exception):\n    level = 4\ntry:\n    raise Oops('x', v)\nexcept Oops as error:\n    r = a * error.level, error.args",
)
construct(
    "raise_from",
    "int",
    "try:\n    try:\n        raise KeyError(v)\n    except KeyError as first:\n        raise ValueError('second') from first\nexcept ValueError as error:\n    r = a + 1, type(error.__cause__).__name__, error.__cause__.args, error.__suppress_context__",
)
construct(
    "raise_from_none",
    "int",
    "try:\n    try:\n        raise KeyError(v)\n    except KeyError:\n        raise ValueError('second') from None\nexcept ValueError as error:\n    r = a + 1, error.__cause__, error.__suppress_context__, type(error.__context__).__name__",
)
construct(
    "context",
    "int",
    "try:\n    try:\n        raise KeyError(v)\n    except KeyError:\n        [][1]\nexcept IndexError as error:\n    r = a + 1, type(error.__context__).__name__, error.__cause__, str(error)",
)
construct(
    "reraise",
    "int",
    "try:\n    try:\n        raise KeyError(v)\n    except KeyError:\n        raise\nexcept KeyError as error:\n    r = a * error.args[0]",
)
construct(
    "reraise_nothing",
    "int",
    "def again():\n    raise\ntry:\n    again()\nexcept (RuntimeError, LookupError) as error:\n    r = a + v, type(error).__name__",
)
construct(
    "error_variable_is_gone",
    "int",
    "try:\n    raise KeyError(v)\nexcept KeyError as error:\n    pass\ntry:\n    error\nexcept NameError as gone:\n    r = a + 1, type(gone).__name__",
)
construct(
    "finally_runs",
    "int",
    "log = []\ndef g(n):\n    try:\n        if n > 2:\n            return a * n\n        raise KeyError(n)\n    except KeyError:\n        return a + n\n    finally:\n        log.append(n)\nr = g(v), g(1), log",
)
construct("finally_overrides", "int", "def g():\n    try:\n        return 1\n    finally:\n        return a * v\nr = g()")
construct(
    "finally_in_loop",
    "list",
    "log = []\nfor q in v:\n    try:\n        if q == 1:\n            continue\n        if q == 3:\n            break\n    finally:\n        log.append(q)\nr = a + 1, log",
)
construct(
    "nested_handlers",
    "int",
    "log = []\ntry:\n    try:\n        raise ValueError(v)\n    except KeyError:\n        log.append('no')\n    finally:\n        log.append('inner')\nexcept ValueError:\n    log.append('outer')\nr = a + 1, log",
)
construct(
    "errors_of_builtins",
    "int",
    """
notes = []
for bad in (lambda: {}['k'], lambda: [][1], lambda: ().index(3), lambda: int('x'), lambda: None.x, lambda: 1 // 0,
            lambda: [].pop(), lambda: {}.popitem(), lambda: 'a' + 1, lambda: None + 1, lambda: len(3), lambda: nothing_here,
            lambda: next(iter([])), lambda: [1].remove(2), lambda: {}.pop('k'), lambda: set().pop(), lambda: 3(),
            lambda: 1 < 'a', lambda: iter(3), lambda: [][None], lambda: max([]), lambda: object().x, lambda: [1, 2].index(9),
            lambda: {[]: 1}, lambda: 'abc'.index('z'), lambda: float('q'), lambda: math.sqrt(-1), lambda: chr(-1),
            lambda: type('x', (), {})().y, lambda: 5 in 5, lambda: (1, 2)[5], lambda: range(3)[7], lambda: 'ab'[4]):
    try:
        bad()
    except Exception as error:
        notes.append((type(error).__name__, str(error)))
r = a * v, notes
""",
    positions=("straight", "call", "closure", "with"),
    sources=("argument",),
    breaks="calls that fail in C, whose exceptions are kept",
)
construct(
    "library_error",
    "int",
    "try:\n    r = a + torch.ones(7, 7)\nexcept RuntimeError as error:\n    r = a * v, type(error) is RuntimeError",
)
construct("library_type_error", "int", "try:\n    r = a.reshape(v * 100)\nexcept RuntimeError as error:\n    r = a * v", sizes=1)
construct(
    "library_attribute_error",
    "int",
    "try:\n    r = a.not_there\nexcept AttributeError as error:\n    r = a * v, hasattr(a, 'not_there'), getattr(a, 'nor_this', 4)",
)
construct("library_index_error", "int", "try:\n    r = a[7]\nexcept IndexError:\n    r = a * v")
construct(
    "user_raises_across_calls",
    "int",
    "def fails(n):\n    if n > 2:\n        raise LookupError(n)\n    return n\ntry:\n    r = a * fails(v)\nexcept LookupError as error:\n    r = a + error.args[0]",
)
construct(
    "raise_in_generator",
    "int",
    "def g():\n    yield 1\n    raise KeyError(v)\ngot = []\ntry:\n    for q in g():\n        got.append(q)\nexcept KeyError as error:\n    r = a * error.args[0], got",
)
construct(
    "exception_attributes",
    "int",
    "try:\n    raise ValueError('m')\nexcept ValueError as error:\n    error.extra = v\n    kept = error\nr = a * kept.extra, kept.args, repr(kept), kept.__class__ is ValueError, kept.with_traceback(None) is kept",
)
construct(
    "exception_notes",
    "int",
    "try:\n    raise ValueError('m')\nexcept ValueError as error:\n    error.add_note('more')\n    r = a * v, error.__notes__",
)
construct(
    "exception_in_container",
    "int",
    "errors = [KeyError('k'), ValueError(v)]\nr = a * v, [type(e).__name__ for e in errors], errors[1].args, [str(e) for e in errors]",
)
construct("exception_made_not_raised", "int", "e = MyError(v)\nr = a * e.code, str(e), e")
construct(
    "catch_tuple_variable",
    "int",
    "kinds = (KeyError, IndexError)\ntry:\n    [][v]\nexcept kinds as error:\n    r = a + 1, str(error)",
)
construct(
    "catch_base", "int", "try:\n    {}[v]\nexcept Exception as error:\n    r = a + 1, repr(error), isinstance(error, LookupError)"
)
construct("bare_except", "int", "try:\n    raise RuntimeError\nexcept:\n    r = a * v")
construct("system_exit", "int", "try:\n    raise SystemExit(v)\nexcept BaseException as error:\n    r = a * error.code")
construct(
    "stop_iteration_value", "int", "try:\n    raise StopIteration(v)\nexcept StopIteration as error:\n    r = a * error.value"
)
construct(
    "attribute_error_name",
    "object",
    "try:\n    v.nothing\nexcept AttributeError as error:\n    r = a + 1, str(error), error.name",
    breaks="what only Python stores in an exception",
)
construct(
    "except_star",
    "int",
    "log = []\ntry:\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\nexcept* ValueError as group:\n    log.append(len(group.exceptions))\nexcept* KeyError:\n    log.append('k')\nr = a * v, log",
    breaks="exception groups",
    positions=("straight", "loop", "with"),
)
construct(
    "try_in_loop",
    "list",
    "r = a\nfor q in v:\n    try:\n        if q == 2:\n            raise ValueError(q)\n        r = r * q\n    except ValueError as error:\n        r = r + error.args[0]\n    else:\n        r = r - 1",
)
construct(
    "try_else_raises",
    "int",
    "try:\n    try:\n        pass\n    except KeyError:\n        r = a\n    else:\n        raise KeyError(v)\nexcept KeyError as error:\n    r = a * error.args[0]",
)
construct("stop_iteration_ends_for", "int", "r = [a * q for q in Countdown(v)], list(Countdown(2)), sum(Countdown(3))")
construct("index_error_ends_for", "object", "r = a + 1, [q for q in v], list(v)")
construct(
    "traceback_and_exc_info",
    "int",
    "import sys\ntry:\n    raise KeyError(v)\nexcept KeyError as error:\n    r = a * v, sys.exc_info()[0].__name__, sys.exc_info()[1] is error",
    breaks="the exception that is being handled",
)

# -- match -------------------------------------------------------------------------------------------------------------

construct(
    "match_literals",
    "int str bool none enum float",
    """
match v:
    case 3 | 4:
        r = a * 3
    case 'abc':
        r = a - 1
    case True:
        r = a - 2
    case None:
        r = a - 3
    case Color.BLUE:
        r = a - 4
    case _:
        r = a - 5
""",
)
construct(
    "match_sequence",
    "list tuple range deque str dict namedtuple int",
    """
match v:
    case [x, y, *rest]:
        r = a * x, y, rest
    case {}:
        r = a * 2
    case _:
        r = a * 3
""",
)
construct(
    "match_mapping",
    "dict ordereddict defaultdict counter list",
    """
match v:
    case {'p': n, **others}:
        r = a * n, others
    case [first, *_]:
        r = a * first
""",
)
construct(
    "match_mapping_missing", "dict", "match v:\n    case {'zz': n}:\n        r = n\n    case {'p': 1, 'q': n}:\n        r = a * n"
)
construct(
    "match_class",
    "dataclass namedtuple frozendata int str float object namespace",
    """
match v:
    case Data(x=1, y=n) | Frozen(1, n) | Point(1, n):
        r = a * n
    case int(n):
        r = a + n
    case str() as text:
        r = a + 3, text
    case Thing(n=2):
        r = a - 2
    case _:
        r = a * 9
""",
    ops=None,
)
construct(
    "match_guard",
    "int list",
    "match v:\n    case [*xs] if len(xs) > 2:\n        r = a * len(xs)\n    case n if n == 3:\n        r = a + n",
)
construct("match_nested", "nested", "match v:\n    case [1, (n, {'k': m})]:\n        r = a * n + m")
construct("match_capture", "int", "match (v, a):\n    case (n, t):\n        r = t * n")
construct("match_tensor", "tensor", "match v:\n    case torch.Tensor(ndim=2):\n        r = a * 2\n    case _:\n        r = a")
construct("match_nothing", "int", "r = a + 1\nmatch v:\n    case 99:\n        r = a\n    case [1]:\n        r = a")
construct("match_or_as", "list", "match v:\n    case [1 | 2 as first, (2 | 3) as second, _]:\n        r = a * first + second")
construct(
    "match_attribute_value",
    "str",
    "match v:\n    case names.NAME:\n        r = a * 2\n    case _:\n        r = a",
    setup="class names:\n    NAME = 'abc'",
)
