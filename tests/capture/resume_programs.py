"""Plain Python functions of every shape, to be cut anywhere. Each takes a list `log` for its side effects."""

# ruff: noqa: F401, F601, F821, UP008
import contextlib

CASES = []
COUNTER = 0


def case(*argument_lists):
    """Register a function, run once for each tuple of further arguments."""

    def register(function):
        for arguments in argument_lists or ((),):
            CASES.append((function, arguments))
        return function

    return register


class Manager:
    """A context manager that logs, may swallow, and may fail."""

    def __init__(self, log, name="m", swallow=False, fail=""):
        self.log, self.name, self.swallow, self.fail = log, name, swallow, fail

    def __enter__(self):
        self.log.append(("enter", self.name))
        if self.fail == "enter":
            raise OSError("enter " + self.name)
        return self.name

    def __exit__(self, kind, value, tb):
        self.log.append(("exit", self.name, kind and kind.__name__))
        if self.fail == "exit":
            raise OSError("exit " + self.name)
        return self.swallow


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


class Truth:
    """Its truth is observable."""

    def __init__(self, log, value):
        self.log, self.value = log, value

    def __bool__(self):
        self.log.append(("bool", self.value))
        return self.value

    def __lt__(self, other):
        return Truth(self.log, self.value < other.value)


@case((1, 2), (0, -3))
def arithmetic(log, a, b):
    c = a + b * 2 - (a // (b or 1)) % 5
    c <<= 1
    log.append(c)
    return [c, -c, +c, ~c, not c, a**2, a / (b or 1), a & b | c ^ 3]


@case((3,), (0,), (-1,))
def branches(log, n):
    if n > 0:
        kind = "positive"
    elif n < 0:
        kind = "negative"
    else:
        kind = "zero"
    log.append(kind)
    return kind if n else kind + "!"


@case((5,), (0,))
def for_loop(log, n):
    total = 0
    for i in range(n):
        if i == 3:
            continue
        total += i
        log.append(total)
    else:
        log.append("else")
    return total


@case((10,))
def for_break(log, n):
    for i in range(n):
        for j in range(i):
            if i * j > 6:
                log.append((i, j))
                break
        else:
            continue
        break
    return i, j


@case((6,))
def while_loop(log, n):
    a, b = 0, 1
    while True:
        a, b = b, a + b
        if a > 30:
            break
        while n:
            n -= 1
            log.append(n)
    else:
        log.append("never")
    return a, b, n


@case(([3, 1, 2],), ([],))
def while_else(log, items):
    k = 0
    while k < len(items):
        log.append(items[k])
        k += 1
    else:
        log.append("done")
    return k


@case((1,), ("a",), (None,))
def try_except(log, x):
    try:
        y = 10 + x
    except TypeError as error:
        log.append(str(error))
        y = -1
    else:
        log.append("fine")
    return y


@case((0,), (2,), ("a",))
def try_finally(log, x):
    try:
        y = 1 / x
    finally:
        log.append("finally")
    return y


@case((0,), (2,), ("s",))
def try_all(log, x):
    try:
        log.append("try")
        y = 1 / x
    except ZeroDivisionError:
        log.append("zero")
        y = 0
    except (TypeError, ValueError) as error:
        log.append(type(error).__name__)
        raise KeyError("wrapped") from error
    else:
        log.append("else")
    finally:
        log.append("finally")
    return y


@case((0,), (1,), (2,), (3,))
def nested_handlers(log, how):
    try:
        try:
            if how == 0:
                raise ValueError("v")
            if how == 1:
                raise KeyError("k")
            if how == 2:
                return "early"
        except ValueError:
            log.append("inner")
            try:
                raise RuntimeError("in handler")
            except RuntimeError as inner:
                log.append(repr(inner.__context__))
                raise
        finally:
            log.append("inner finally")
    except KeyError as error:
        log.append(("outer", error.args))
        return "key"
    finally:
        log.append("outer finally")
    return "end"


@case()
def finally_raises_again(log):
    try:
        1 / 0
    except ZeroDivisionError:
        try:
            try:
                raise
            finally:
                raise
        except ZeroDivisionError:
            log.append("caught")
    import sys

    return sys.exc_info()[1]


@case((True,), (False,))
def return_in_finally(log, fail):
    for i in range(3):
        try:
            if fail:
                raise ValueError(i)
            log.append(i)
        except ValueError:
            continue
        finally:
            log.append("f")
            if i == 1:
                break
    try:
        return "try"
    finally:
        log.append("last")


@case((True,), (False,))
def finally_overrides(log, fail):
    try:
        if fail:
            raise ValueError("lost")
        return 1
    finally:
        return 2


@case((False, ""), (True, ""), (False, "exit"), (False, "enter"))
def with_statement(log, swallow, fail):
    with Manager(log, "a", swallow, fail) as name:
        log.append(name)
        x = 1
    log.append(x)
    return x


@case((True, True), (True, False), (False, True), (False, False))
def with_raises(log, swallow, fail):
    result = None
    with Manager(log, "outer", swallow) as a, Manager(log, "inner") as b:
        result = a + b
        if fail:
            raise ValueError(result)
        log.append("not raised")
    return result


@case((3,))
def with_in_loop(log, n):
    out = []
    for i in range(n):
        with Manager(log, str(i), swallow=i == 1):
            if i == 1:
                raise KeyError(i)
            if i == 2:
                break
            out.append(i)
    return out


@case(())
def with_return(log):
    with Manager(log, "a"):
        with Manager(log, "b"):
            return len(log)


@case((True,), (False,))
def with_in_try(log, fail):
    try:
        with Manager(log, "a", fail="exit" if fail else ""):
            log.append("body")
            raise ValueError("body")
    except (OSError, ValueError) as error:
        return [str(error), repr(error.__context__)]


@case(())
def exit_stack(log):
    with contextlib.ExitStack() as stack:
        for name in "abc":
            stack.enter_context(Manager(log, name))
        log.append("in")
    with contextlib.suppress(ZeroDivisionError):
        log.append(1 / 0)
    return log[-1]


@case((1,), (2,))
def closures(log, n):
    def inner(k):
        nonlocal n
        n += k
        log.append(n)
        return n

    inner(1)
    m = n
    inner(2)
    return m, n, inner(3)


def make_counter(start):
    count = start

    def counter(log, step):
        nonlocal count
        for _ in range(2):
            count += step
            log.append(count)
        return lambda: count

    return counter


@case((1,))
def calls_lambda(log, step):
    add = lambda x, y=step, *z, k=2, **w: (x, y, z, k, w)  # noqa: E731
    log.append(add(1))
    return add(1, 2, 3, k=4, m=5), add(*[1, 2], **{"k": 9})


@case((4,))
def loop_closures(log, n):
    out = []
    for i in range(n):

        def f(j=i):
            return i * 10 + j

        out.append(f)
    log.append(out[0]())
    return [f() for f in out]


@case((1, 2, 3), (1,))
def star_args(log, a, *rest, key="k", **more):
    first, *middle = (a, *rest)
    log.append((first, middle, key))
    return {"rest": rest, **more, "n": len(rest)}, [*rest, *middle]


@case((1, 2))
def keyword_calls(log, a, b):
    def f(x, /, y, *, z=0, **kw):
        return x, y, z, sorted(kw.items())

    options = {"q": 1}
    return f(a, b), f(a, y=b, z=3), f(a, z=1, y=2, **options), f(*(a, b), z=5), f(*[a], **{"y": 2})


@case(([1, 2, 3, 4],), ([],))
def comprehensions(log, items):
    squares = [x * x for x in items if x % 2]
    pairs = [(x, y) for x in items for y in squares if x < y]
    table = {x: [k for k in range(x)] for x in items}
    letters = {str(x) for x in items}
    log.append(sum(x for x in items))
    return squares, pairs, table, sorted(letters)


@case(([1, 2],))
def comprehension_shadows(log, items):
    x = "outer"
    y = [x for x in items]
    log.append((x, y))
    z = [[x + k for k in items] for x in y]
    return x, y, z


@case(([1, 2, 0],), ([1],))
def comprehension_raises(log, items):
    x = 7
    try:
        return [10 // x for x in items]
    except ZeroDivisionError:
        log.append(x)
        return x


@case(([1, 2],))
def comprehension_cells(log, items):
    x = 5
    made = [lambda: x for x in items]
    log.append([f() for f in made])
    keep = lambda: x  # noqa: E731
    y = [lambda k=k: (k, x) for k in items]
    return keep(), [f() for f in y], x


@case(([1, 2],))
def comprehension_unbound(log, items):
    made = [lambda: v for v in items]
    log.append(len(made))
    return [f() for f in made]


@case(((1, 2),), ([1, 2, 3],), ({"a": 1, "b": 2},), (Point(0, 3),), ("text",), (5,), ({"kind": "x", "v": [1, 2]},))
def match_statement(log, subject):
    match subject:
        case (a, b):
            result = ("pair", a, b)
        case [first, *others] if len(others) > 1:
            result = ("list", first, others)
        case {"kind": "x" | "y" as kind, "v": [_, second]}:
            result = (kind, second)
        case {"a": a, **more}:
            result = ("map", a, more)
        case Point(0, y=value) | Point(value, 0):
            result = ("axis", value)
        case str() as text:
            result = ("str", text)
        case _:
            result = "other"
    log.append(result)
    return result


@case(([3, 8, 2],))
def walrus(log, items):
    if (n := len(items)) > 2 and (last := items[-1]):
        log.append((n, last))
    while (k := items.pop()) != 3:
        log.append(k)
    total = 0
    return [total := total + v for v in range(4)], total, n


@case((1, 2, 3), (3, 2, 1), (1, 1, 1))
def chained(log, a, b, c):
    x = a < b < c
    y = a <= b <= c != a
    log.append(x)
    if a < b < c or (a == b == c and not c > a):
        log.append("in")
    return x, y, a is b is not c, a in (b, c) not in [True]


@case((True, False), (False, True), (True, True))
def truth(log, p, q):
    a, b = Truth(log, p), Truth(log, q)
    if a and b:
        log.append("both")
    if a or not b:
        log.append("one")
    c = a and b or a
    if a < b < Truth(log, True):
        log.append("ordered")
    return bool(c), not a, (not (a and b)), "yes" if a else "no"


@case((None,), (0,), (3,))
def none_tests(log, x):
    if x is None:
        log.append("none")
        x = 1
    while x is not None:
        x = None if x > 2 else x + 1
    return x, x is None


@case(())
def deletes(log):
    x = [1, 2, 3]
    y = x
    del x[0]
    del x
    log.append(y)
    table = {"a": 1, "b": 2}
    del table["a"]
    p = Point(1, 2)
    del p.y
    log.append(hasattr(p, "y"))
    try:
        return x
    except UnboundLocalError as error:
        return str(error)


@case((True,), (False,))
def maybe_unbound(log, bind):
    if bind:
        value = 3
    log.append("before")
    try:
        return value
    except NameError as error:
        log.append(type(error).__name__)
    del bind
    return value


@case((True,), (False,))
def cell_unbound(log, bind):
    def inner():
        return value

    if bind:
        value = 1
    try:
        log.append(inner())
    except NameError as error:
        log.append(str(error))
    value = 2
    log.append(inner())
    del value
    return inner()


@case(())
def global_counter(log):
    global COUNTER
    COUNTER = 5
    COUNTER += 1
    log.append(COUNTER)
    del COUNTER
    try:
        COUNTER
    except NameError as error:
        log.append(str(error))
    COUNTER = 0
    return COUNTER


@case((3.14159, "w"), (2, [1]))
def f_strings(log, x, y):
    width = 10
    a = f"{x:.2f}|{y!r:>{width}}|{y!s}|{x!a:{width}}|{{}}"
    log.append(a)
    return a + f"{x}{y=}%s" % x


@case((0,), (1,), (2,))
def early_returns(log, k):
    if k == 0:
        return
    for i in range(5):
        if i == k:
            return i, [n for n in range(i)]
    return "no"


@case(("abcdef",), ([1, 2, 3, 4, 5],))
def slices(log, s):
    t = list(s)
    t[1:2] = "xy"
    log.append(t)
    t[::2], u = t[1::2] + t[:1], t[-2:]
    t[0] += t[0]
    return s[1:], s[:-1], s[1:3], s[::-1], s[1:4:2], t, u


@case(())
def containers(log):
    a = [1, 2, *range(3)]
    b = {*a, 9}
    c = {"x": 1, **{"y": 2}, "z": a}
    d = (1, *a, 2)
    e = {"k1": a[0], "k2": a[1], "k3": 3}
    log.append(len(b))
    (p, q), [r, *s, t] = (1, 2), d
    return a, sorted(b), c, d, e, p, q, r, s, t


@case((0,), (1,), (2,))
def raises(log, how):
    if how == 0:
        raise ValueError("plain", 1)
    try:
        raise KeyError("first")
    except KeyError as first:
        log.append("handling")
        if how == 1:
            raise ValueError("second") from first
        raise TypeError("third") from None


@case(())
def raise_with_context(log):
    try:
        try:
            [][1]
        except IndexError:
            log.append("index")
            {}["missing"]
    except KeyError as error:
        log.append((repr(error), repr(error.__context__)))
        raise error


@case((1,), (0,))
def asserts(log, x):
    assert x is not None
    assert x, f"x was {x}"
    return log


@case(())
def calls_that_raise(log):
    def fails(n):
        log.append(n)
        if n == 0:
            raise LookupError("deep")
        return fails(n - 1)

    try:
        fails(2)
    except LookupError:
        log.append("caught")
    return fails(1)


@case((3,))
def recursion(log, n):
    log.append(n)
    return 1 if n <= 0 else n * recursion(log, n - 1)


@case(((1, 2, 3),), ((1,),))
def unpacking(log, items):
    try:
        a, b, c = items
        log.append(a)
        (x, *y) = items
        *z, w = items
    except ValueError as error:
        return str(error)
    return a, b, c, x, y, z, w


@case(())
def augmented(log):
    p = Point([1], 2)
    p.x += [2]
    p.y *= 3
    table = {"k": 1}
    table["k"] -= 5
    t = ([],)
    try:
        t[0] += [1]
    except TypeError as error:
        log.append(str(error))
    return p.x, p.y, table, t


@case(())
def imports(log):
    import os.path as path
    from math import floor, pi as p

    log.append(floor(p))
    try:
        from math import nothing_of_the_kind
    except ImportError as error:
        log.append(type(error).__name__)
    return path.join("a", "b")


@case((4,))
def consumes_generators(log, n):
    def gen(k):
        try:
            for i in range(k):
                got = yield i
                log.append(("got", got))
        finally:
            log.append("closed")
        return "r"

    total = sum(gen(n))
    g = gen(3)
    next(g)
    g.send("s")
    g.close()
    g = gen(5)
    for a, b in zip(gen(2), g):
        log.append((a, b))
    g.close()
    return total, list(map(str, gen(2)))


@case(())
def iterator_for(log):
    it = iter("abcd")
    for a in it:
        b = next(it)
        log.append(a + b)
    try:
        next(it)
    except StopIteration:
        return "stopped"


@case((5,))
def iteration_raises(log, n):
    class Bad:
        def __iter__(self):
            return self

        def __next__(self):
            log.append("next")
            if len(log) > 2:
                raise ArithmeticError("bad iterator")
            return len(log)

    out = []
    try:
        for x in Bad():
            out.append(x)
    except ArithmeticError as error:
        out.append(str(error))
    return out


@case(())
def defines_class(log):
    base = 3

    class Local(Point):
        factor = base

        def scale(self):
            return self.x * self.factor * base

    p = Local(2, 0)
    log.append(p.scale())
    return Local.__name__, p.x


@case((1,), (2,))
def decorated_inner(log, n):
    def twice(f):
        return lambda *a: (f(*a), f(*a))

    @twice
    def g(k: int = 1) -> "str":
        log.append(k)
        return str(k)

    return g(n), g()


@case((0,), (1,))
def exception_group(log, how):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)] if how else [TypeError(3)])
    except* ValueError as group:
        log.append(repr(group))
    except* (KeyError, OSError) as group:
        log.append(len(group.exceptions))
    return "after"


@case(())
def exception_name_is_deleted(log):
    error = "kept"
    try:
        raise ValueError("x")
    except ValueError as error:
        log.append(str(error))
    try:
        return error
    except UnboundLocalError:
        return "deleted"


@case(())
def loops_with_handlers(log):
    out = []
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            out.append(10 // (i - 2))
        except ZeroDivisionError:
            log.append(i)
            continue
        finally:
            log.append(-i)
    return out


@case(())
def while_with_try(log):
    n = 0
    while n < 4:
        n += 1
        try:
            with Manager(log, str(n), swallow=n == 2):
                if n == 2:
                    raise KeyError(n)
                if n == 3:
                    raise ValueError(n)
        except ValueError:
            log.append("value")
            break
    else:
        log.append("else")
    return n


@case(())
def handler_in_handler_loop(log):
    for i in range(2):
        try:
            raise ValueError(i)
        except ValueError as a:
            for j in range(2):
                try:
                    raise KeyError(j)
                except KeyError as b:
                    log.append((a.args, b.args, repr(b.__context__)))
    import sys

    return sys.exc_info()


@case((2, 3))
def many_locals(log, a, b):
    c = a + b
    d = c + a
    e = d + b
    f = e + c
    g = f + d
    h = g + e
    i = h + f
    j = i + g
    k = j + h  # noqa: E702
    m = k + i
    n = m + j
    o = n + k
    p = o + m
    q = p + n
    r = q + o
    s = r + p
    t = s + q  # noqa: E702
    log.append([c, d, e, f, g, h, i, j, k])
    s, t = t, s
    return a, b, m, n, o, p, q, r, s, t, [x + t for x in (p, q)]


@case((1, 2, 3))
def swaps(log, a, b, c):
    a, b = b, a
    a, b, c = c, a, b
    log.append((a, b, c))
    a = b = c
    x = [a, b, c]
    x[0], x[1] = x[1], x[0]
    return a, b, c, x


@case(())
def reads_locals(log):
    a = 1
    b = [a]
    log.append(sorted(locals()))
    return eval("a + len(b)"), sorted(vars())


@case((2,))
def argument_cell(log, n):
    def bump():
        nonlocal n
        n *= 2
        return n

    for _ in range(2):
        log.append(bump())
    return [bump for _ in range(1)][0](), n


@case((3,))
def method_calls(log, n):
    text = " ".join(["a"] * n).upper().replace("A", "b")
    log.append(text.split()[0].count("b"))
    return text.encode("utf-8", errors="strict").decode(), {"a": 1}.get("b", text), [].append(n)


@case(())
def conditional_calls(log):
    pick = (len if log else str)([1])
    log.append(pick)
    f = None or (lambda v: v)
    return f(f)(max(1, 2 if pick else 3)), (log and len or str)(log)


@case(())
def big_constants(log):
    zeros = 0.0, -0.0, 1, True, 1.0
    return {1: "a", 1.0: "b", True: "c"}, zeros, frozenset({1, 2}), b"x", ..., 2**70, 1j, repr(-0.0)


class Base:
    def __init__(self, log):
        self.log = log

    def run(self, k):
        self.log.append(("base", k))
        return k

    name = "base"


class Derived(Base):
    def run(self, k):
        for i in range(2):
            k = super().run(k) + i
        self.log.append(super().name)
        base = super()
        return base.run(k), super(Derived, self).run(k)

    def captured(self, k):
        twice = [lambda: (self.name, k) for _ in range(2)]
        k = super().run(k + 1)
        return [f() for f in twice], k

    def late(log, k):
        self = Derived(log)
        return Derived.run(self, k), Derived.captured(self, k)


for _method in (Derived.run, Derived.captured):
    CASES.append((_method, (2,)))
CASES.append((Derived.late, (1,)))
CASES.append((make_counter(10), (3,)))


def first_argument(function, log):
    """What a case's function gets first: the log, or an object that holds it."""
    return Derived(log) if function.__qualname__ in ("Derived.run", "Derived.captured") else log


def long_function():
    """A body with more than 255 instructions between jumps, so that arguments need EXTENDED_ARG."""
    body = "\n".join(f"        x{i % 300} = total + {i}; total += x{i % 300} % 7" for i in range(320))
    source = (
        f"def long(log, n):\n    total = 0\n    for k in range(n):\n{body}\n"
        "        if total % 2: continue\n        log.append(total)\n    return total, x299\n"
    )
    namespace = {}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace["long"]


LONG = long_function(), (2,)


@case((1,))
def deleted_cell(log, n):
    def inner():
        return n

    log.append(inner())
    del n
    for attempt in range(2):
        try:
            log.append(n)
        except NameError as error:
            log.append((type(error).__name__, str(error)))
    try:
        del n
    except UnboundLocalError as error:
        log.append(str(error))
    return n


@case((True,), (False,))
def cell_of_one_branch(log, bind):
    def inner():
        nonlocal value
        log.append(value)
        del value

    if bind:
        value = 1
        inner()
    log.append("before")
    return value


@case(())
def global_that_came_and_went(log):
    global PASSING
    PASSING = 1
    log.append(PASSING)
    del PASSING
    return "PASSING" in globals()


EMPTY_CELLS = deleted_cell, cell_of_one_branch
