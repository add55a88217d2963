"""A generated matrix of tests: construct x kind of variable x position, static and dynamic.

In: constructs (few lines of Python over a tensor `a` and a variable `v`, which leave `r`), kinds of `v` (an expression that
makes one), and positions (templates around the lines). Out: for each combination the text of a function, run plainly and
compiled. Expected are plain Python's result, prints and changes of `v`; as many ops as the plain run dispatches; one graph;
no break, unless the construct says otherwise. Where `v` comes from (argument, global, cell, attribute, ...) rotates.
"""

import ast
import collections
import contextlib
import io
import itertools
import linecache
import re
import textwrap
from dataclasses import dataclass, replace

import flambeau as torch
from flambeau.eager import dispatch
from flambeau.runtime import counters
from flambeau.runtime.config import config

from . import matrix_support
from .harness import Recording


@dataclass(frozen=True)
class Construct:
    """`body` uses `a` and `v` and leaves `r`; what is not as usual is stated."""

    name: str
    body: str
    kinds: tuple[str, ...]
    setup: str = ""  # module-level text
    positions: tuple[str, ...] = ()  # all, if empty
    sources: tuple[str, ...] = ()  # all, if empty
    breaks: object = 0  # a number, or the reason why it breaks: then results count, numbers do not
    breaks_with_symbols: str = ""  # the reason why it breaks where sizes are symbols, and there alone
    gaps: tuple[str, ...] = ()  # kinds of `v` with which alone it breaks
    graphs: object = 1
    ops: int | None = None  # None: as many as plain Python dispatches; -1: not compared
    recompiles: int = 0  # of the second call with equal arguments
    sizes: int = 0  # compilations that other sizes cost where sizes are symbols
    grad: bool = False  # `a` requires a gradient
    seen: object = True  # whether `v` after the call is compared
    classes: bool = False  # its class statements stay in the function


# -- kinds -----------------------------------------------------------------------------------------------------------

KINDS = {
    "int": "3",
    "negative": "-2",
    "zero": "0",
    "float": "2.5",
    "bool": "True",
    "str": "'abc'",
    "bytes": "b'ab'",
    "complex": "2j",
    "none": "None",
    "ellipsis": "...",
    "enum": "Color.BLUE",
    "intenum": "Level.HIGH",
    "flag": "Perm.R",
    "dtype": "torch.float64",
    "device": "torch.device('cpu')",
    "list": "[1, 2, 3]",
    "tuple": "(1, 2, 3)",
    "dict": "{'p': 1, 'q': 2, 's': 3}",
    "set": "{1, 2, 3}",
    "frozenset": "frozenset({1, 2, 3})",
    "deque": "collections.deque([1, 2, 3])",
    "ordereddict": "collections.OrderedDict(p=1, q=2, s=3)",
    "defaultdict": "collections.defaultdict(int, p=1, q=2, s=3)",
    "counter": "collections.Counter(p=1, q=2, s=3)",
    "range": "range(1, 4)",
    "slice": "slice(0, 2)",
    "namedtuple": "Point(1, 2)",
    "dataclass": "Data(1, 2)",
    "frozendata": "Frozen(1, 2)",
    "size": "torch.Size([1, 2, 3])",
    "tensor": "torch.arange(ROWS * 3.).reshape(ROWS, 3)",
    "vector": "torch.tensor([1., 2., 3.])",
    "mask": "torch.arange(ROWS) > 0",
    "index": "torch.tensor([1, 0])",
    "scalar": "torch.tensor(2.5)",
    "parameter": "torch.nn.Parameter(torch.ones(ROWS, 3))",
    "tensors": "[torch.ones(3), torch.ones(ROWS, 3)]",
    "tensordict": "{'p': torch.ones(3), 'q': torch.ones(ROWS, 3)}",
    "nested": "[1, (2, {'k': 3})]",
    "strings": "['b', 'a']",
    "empty": "[]",
    "ints": "[3, 1, 2]",
    "floats": "[1.5, 0.5]",
    "object": "Thing(2)",
    "slotted": "Slotted(2)",
    "derived": "Derived(2)",
    "callable": "Adder(2)",
    "function": "double",
    "lambda": "tripled",
    "builtin": "abs",
    "partial": "functools.partial(scale, n=4)",
    "method": "Thing(2).go",
    "class": "Thing",
    "cached": "cached",
    "torchfn": "torch.relu",
    "decorated": "decorated",
    "closure": "make_scaler(3)",
    "staticmethod": "Thing.static",
    "classmethod": "Thing.make",
    "module": "Linear2()",
    "sequential": "Stack()",
    "modulelist": "Blocks()",
    "buffered": "Buffered()",
    "error": "ValueError('bad', 3)",
    "errorclass": "KeyError",
    "intstr": "'12'",
    "namespace": "types.SimpleNamespace(p=1, q=2)",
}

# -- where `v` comes from ----------------------------------------------------------------------------------------------

MODULES = ("parameter", "module", "sequential", "modulelist", "buffered")
SOURCES = ("argument", "local", "global", "cell", "attribute", "item", "default")

# -- positions -------------------------------------------------------------------------------------------------------

POSITIONS = {
    "straight": """
        def f(a, {v}):
            {body}
            return r
        """,
    "loop": """
        def f(a, {v}):
            out = []
            for step in range(2):
                {body}
                out.append(r)
            return out
        """,
    "with": """
        def f(a, {v}):
            entered = []
            with Managed(entered) as manager:
                {body}
            return r, entered
        """,
    "try": """
        def f(a, {v}):
            done = None
            try:
                {body}
            except ZeroDivisionError as problem:
                r = str(problem)
            finally:
                done = 1
            return r, done
        """,
    "call": """
        def inner(a, v):
            {body}
            return r

        def f(a, {v}):
            r = inner(a, v)
            return r
        """,
    "closure": """
        def f(a, {v}):
            def inner():
                nonlocal a, v
                {body}
                return r
            return inner()
        """,
    "comprehension": """
        def f(a, {v}):
            def inner(a, step, v):
                {body}
                return r
            return [inner(a, step, v) for step in range(2)]
        """,
    "handler": """
        def f(a, {v}):
            try:
                raise LookupError("on purpose")
            except LookupError as caught:
                {body}
            return r
        """,
    "generator": """
        def f(a, {v}):
            def produce(a, v):
                {body}
                yield r
            return list(produce(a, v))
        """,
    "forward": """
        class Layer(torch.nn.Module):
            def forward(self, a, v):
                {body}
                return r
        layer = Layer()

        def f(a, {v}):
            return layer(a, v)
        """,
}
EXTRA = ("handler", "generator", "forward")  # positions that take turns
EXPRESSION = """
        def f(a, {v}):
            return [({body}) for step in range(2)]
        """


def place(text: str, body: str, parameter: str, before: str = "") -> str:
    """The body in the hole of a template, at the hole's indentation."""
    text = textwrap.dedent(text).strip("\n").replace("{v}", parameter)
    lines = []
    for line in text.split("\n"):
        if line.strip() == "{body}":
            lines.append(textwrap.indent(body, line[: len(line) - len(line.lstrip())]))
        else:
            lines.append(line.replace("{body}", body))
        if before and line.startswith("def f("):
            lines.append(textwrap.indent(before, "    "))
    return "\n".join(lines) + "\n"


def split_classes(body: str) -> tuple[str, str]:
    """(class statements that need nothing of the function, the rest): a class made by the function itself is a break."""
    tree, lines, moved = ast.parse(body), body.split("\n"), []
    for statement in reversed(tree.body):
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.ClassDef) and not used & {"a", "v", "r", "log"}:
            first = min([statement.lineno, *(d.lineno for d in statement.decorator_list)]) - 1
            moved[:0] = lines[first : statement.end_lineno]
            del lines[first : statement.end_lineno]
    return "\n".join(moved), "\n".join(lines)


def is_expression(body: str) -> str | None:
    """`r = expression` of one line, without assignment expressions."""
    found = re.fullmatch(r"r = (.+)", body)
    return found.group(1) if found and ":=" not in body and "step" not in body else None


class Case:
    """One cell: the text, a namespace where it is defined, and fresh arguments for each run."""

    numbers = itertools.count()

    def __init__(self, construct: Construct, kind: str, position: str, source: str):
        self.construct, self.kind, self.position, self.source = construct, kind, position, source
        self.make = f"lambda: ({KINDS[kind]})"
        self.namespace = dict(vars(matrix_support))
        self.namespace["__name__"] = "matrix_case"
        self.text = self.render()
        name = f"<matrix-{construct.name}-{kind}-{position}-{source}-{next(self.numbers)}.py>"
        linecache.cache[name] = len(self.text), None, self.text.splitlines(True), name
        exec(compile(self.text, name, "exec"), self.namespace)
        self.make = eval(self.make, self.namespace)

    def render(self) -> str:
        body, template = textwrap.dedent(self.construct.body).strip("\n"), POSITIONS[self.position]
        classes, body = ("", body) if self.construct.classes else split_classes(body)
        expression = is_expression(body)
        if self.position == "comprehension" and expression:
            body, template = expression, EXPRESSION
        parameter, before, rest = "v", "", ""
        if self.source == "local":
            parameter, before = "unused=None", f"v = {KINDS[self.kind]}"
        elif self.source == "attribute":
            parameter, before = "holder", "v = holder.v"
        elif self.source == "item":
            parameter, before = "holder", "v = holder['v'][0]"
        elif self.source == "default":
            parameter, rest = "v=None", "f.__defaults__ = (v,)\n"
        elif self.source in ("global", "cell"):
            parameter, before = "unused=None", "v = outer_v"
        text = place(template, body, parameter, before)
        if self.source == "cell":
            text = "def factory(outer_v):\n" + textwrap.indent(text, "    ") + "    return f\nf = factory(None)\n"
        if self.source == "default":
            text += "\n"
        return textwrap.dedent(self.construct.setup).strip("\n") + "\n" + classes + "\n\n" + text

    def prepared(self, sizes):
        """(arguments, the variable), with what is outside of the arguments set."""
        torch.manual_seed(0)
        self.namespace["ROWS"] = sizes[0]
        a = torch.randn(*sizes)
        a.requires_grad_(self.construct.grad)
        v = self.make()
        f = self.namespace["f"]
        if self.source == "argument":
            return (a, v), v
        if self.source == "attribute":
            return (a, matrix_support.Holder(v)), v
        if self.source == "item":
            return (a, {"v": [v]}), v
        if self.source == "global":
            self.namespace["outer_v"] = v
        elif self.source == "cell":
            f.__closure__[f.__code__.co_freevars.index("outer_v")].cell_contents = v
        elif self.source == "default":
            f.__defaults__ = (v,)
        return (a,), v

    def run(self, fn, sizes, around=contextlib.nullcontext()):
        args, v = self.prepared(sizes)
        printed = io.StringIO()
        torch.manual_seed(0)
        with contextlib.redirect_stdout(printed):
            try:
                with around:
                    result = fn(*args)
            except Exception as error:
                result = type(error).__name__, str(error)
        return digest((result, printed.getvalue(), args[0], v if self.construct.seen else None))


class Counting(dispatch.Mode):
    """Counts the records that plain Python calls at top level: what the graph must hold."""

    def __init__(self):
        self.names = []

    def dispatch(self, op, args):
        with dispatch.setting(modes=()):
            made = dispatch.execute(op, tuple(args))
        self.names.append(op.name)
        return made


def digest(value, seen=None):
    """A comparable picture of a value: tensors by type, dtype, shape and numbers, objects by their attributes."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, repr(value.detach().tolist())
    if isinstance(value, (int, float, complex, str, bytes, type(None), torch.dtype)):
        return type(value).__name__, repr(value)
    if id(value) in seen:
        return "again", seen[id(value)][0]
    if not isinstance(value, tuple):
        seen[id(value)] = len(seen), value
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [digest(v, seen) for v in value]
    if isinstance(value, dict):
        return type(value).__name__, [(digest(k, seen), digest(v, seen)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if callable(value) and not hasattr(value, "__dict__") or isinstance(value, type) or hasattr(value, "__code__"):
        return type(value).__name__, getattr(value, "__qualname__", "")
    state = dict(vars(value)) if hasattr(value, "__dict__") else {}
    slots = getattr(type(value), "__slots__", ())
    state.update({name: getattr(value, name) for name in slots if hasattr(value, name)})
    if not state:
        return type(value).__name__, "" if " at 0x" in repr(value) else repr(value)
    return type(value).__name__, [(k, digest(v, seen)) for k, v in state.items()]


def may_break(construct, case):
    """A construct that is known to break, or a module that is made by the function itself."""
    makes_module = case.source == "local" and case.kind in MODULES
    outside = not (case.kind == "error" and case.source == "local")  # an exception made here is as good as any value
    return isinstance(construct.breaks, str) or case.kind in construct.gaps and outside or makes_module


def check_case(construct: Construct, kind: str, position: str, source: str, dynamic: bool) -> None:
    """Run one cell: plainly and compiled, twice, then with other sizes."""
    if dynamic and construct.breaks_with_symbols:
        construct = replace(construct, breaks=construct.breaks_with_symbols)
    case = Case(construct, kind, position, source)
    plain = case.namespace["f"]
    counting = Counting()
    expected = case.run(plain, (2, 3), counting)
    backend = Recording()
    counters.reset()
    compiled = torch.compile(plain, backend=backend, dynamic=dynamic)
    with config.patch(strict=True):
        compare(case, expected, case.run(compiled, (2, 3)), "first call")
        first = counters.snapshot()
        check_counts(case, first, backend, counting.names)
        compare(case, expected, case.run(compiled, (2, 3)), "second call")
        second = counters.snapshot()
        again = second["recompiles"] - first["recompiles"]
        if not may_break(construct, case):
            assert again == construct.recompiles, f"compiled {again} times for the same arguments\n{case.text}"
        if dynamic and "ROWS" not in case.text and not may_break(construct, case):
            compare(case, case.run(plain, (4, 3)), case.run(compiled, (4, 3)), "other sizes")
            third = counters.snapshot()
            again = third["recompiles"] - second["recompiles"]
            assert again <= construct.sizes, f"compiled {again} times for other sizes\n{case.text}"
    fallbacks = counters.snapshot()["fallbacks"]
    assert fallbacks == {} or may_break(construct, case), f"fallbacks: {fallbacks}\n{case.text}"


def compare(case, expected, found, what):
    assert found == expected, f"{what}: got\n{found}\ninstead of\n{expected}\n{case.text}"


def check_counts(case, seen, backend, names):
    construct, position = case.construct, case.position
    number = sum(seen["breaks"].values())
    if may_break(construct, case):
        assert number or seen["fallbacks"], f"this is captured in one graph now: say so\n{case.text}"
        return
    assert number == construct.breaks, f"breaks {seen['breaks']} instead of {construct.breaks}\n{case.text}"
    assert seen["graphs"] == construct.graphs, f"{seen['graphs']} graphs instead of {construct.graphs}\n{case.text}"
    if number == 0:
        ops = construct.ops if construct.ops is not None else len(names)
        copies = (
            0
            if "torch.tensor(" not in case.text
            else sum(node.is_op and node.target.name == "clone" for graph in backend.graphs for node in graph.nodes)
        )
        # a tensor of numbers written in the program is a constant of the graph, and copied for each call
        same = backend.ops - copies == ops - names.count("clone") * bool(copies)
        assert ops == -1 or same, f"{backend.ops} ops instead of {ops} ({names})\n{backend.graphs}\n{case.text}"


def cells(construct: Construct, kind: str, shift: int):
    """(position, source, dynamic) of one construct and kind: every position; sources, static and dynamic take turns."""
    positions = construct.positions or tuple(POSITIONS)
    sources = construct.sources or SOURCES
    for k, position in enumerate(positions):
        if position in EXTRA and k % len(EXTRA) != shift % len(EXTRA):
            continue
        dynamic = (k + shift) % 2 == 0
        yield position, sources[(k + shift) % len(sources)], dynamic
        if len(construct.kinds) == 1 and position in ("straight", "loop"):
            yield position, sources[(k + shift + 3) % len(sources)], not dynamic


ONCE = tuple(position for position in POSITIONS if position not in ("loop", "comprehension"))

# -- tables ----------------------------------------------------------------------------------------------------------

CONSTRUCTS: list[Construct] = []


def construct(name: str, kinds: str, body: str, **settings) -> None:
    """Add a construct for several kinds of `v`."""
    CONSTRUCTS.append(Construct(name, body, tuple(kinds.split()), **settings))
