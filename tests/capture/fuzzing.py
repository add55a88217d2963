"""Runs of random programs, plainly and captured, compared; a difference is made smaller and told.

`outcome(program, compiled)` calls `f` a few times in a world of its own and gives everything that can be seen afterwards:
results or exceptions, printed text, changed arguments, globals and objects. `python fuzzing.py FIRST LAST` prints what
differs; the tests call `differing`.
"""

import contextlib
import io
import random
import signal
import sys
import warnings
from collections import deque

from . import programs

import flambeau as torch
from flambeau.capture.graph.graph import Interpreter
from flambeau.runtime.config import config

SECONDS = 20  # for the calls of one program
CALLS = (3, 4, 3)  # sizes of the calls
PRELUDE = compile(programs.PRELUDE, "prelude.py", "exec")


def interpreted(graph, example_inputs):
    graph.lint()
    return Interpreter(graph).run


def arguments(size, k):
    x = torch.linspace(-1, 1, size)
    y = torch.linspace(0, 2, size).requires_grad_(k % 2 == 1)
    return [x, y, k + 1, [x * 2, y * 3], {"a": x + 3}]


def seen(value, known=None, causes=()):
    """A comparable picture of a value: structure, types, numbers, and which objects are the same."""
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        number = known.setdefault(id(value), len(known))
        return "tensor", number, str(value.dtype), tuple(value.shape), value.requires_grad, value.detach().tolist()
    if isinstance(value, (list, tuple, dict, set, deque)):
        if id(value) in known and not isinstance(value, tuple):
            return "same", known[id(value)]
        if not isinstance(value, tuple):  # which tuples are one object is CPython's business
            known[id(value)] = len(known)
        items = value.items() if isinstance(value, dict) else value
        return type(value).__name__, [seen(v, known) for v in items]
    if isinstance(value, NameError) and str(value).startswith("cannot access"):
        return "NameError"  # a resume function that runs plain reads the cells of its function as free variables
    if isinstance(value, BaseException):
        if any(value is each for each in causes):  # raised from itself, or from what it is the cause of
            return "cause", len(causes)
        return type(value).__name__, str(value), seen(value.__cause__, causes=(*causes, value)), value.__suppress_context__
    if type(value).__name__ == "State":
        return "State", seen(vars(value), known)
    return type(value).__name__, value if isinstance(value, (int, float, str, bool, type(None))) else ""


class TooLong(BaseException):
    """The calls of a program take more than SECONDS of the processor's time (a busy machine is no reason)."""


def give_up(*_):
    raise TooLong


def outcome(text, wrap, name, calls=len(CALLS), given_by=None, fresh=False):
    """What the calls do, in a fresh world; `fresh`: each compiled anew."""
    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        return pictures_of(text, wrap, name, calls, given_by, fresh)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def pictures_of(text, wrap, name, calls, given_by, fresh):
    world = {"__name__": name, "__file__": f"{name}.py"}
    exec(PRELUDE, world)
    exec(compile(text, f"{name}.py", "exec"), world)
    call, pictures, alive = wrap(world["f"]), [], []
    for k in range(calls):
        given, printed = given_by(k) if given_by else arguments(CALLS[k], k), io.StringIO()
        if fresh:
            torch._dynamo.reset()
        torch.manual_seed(k)
        with contextlib.redirect_stdout(printed):
            try:
                result = call(*given)
            except Exception as error:
                result = error
        alive.append((given, result))
        pictures.append(
            (
                seen([result, given, world["state"], world["log"], world["global_list"], world["global_number"]]),
                world.get("shown", tuple)(),
                printed.getvalue(),
                torch.is_grad_enabled(),
            )
        )
        torch.set_grad_enabled(True)
    return pictures


def compare(text, name="program", backend=interpreted, calls=2, close=False, given=None, fresh=False, **settings):
    """None, or (plain, captured) pictures of the first call that differs."""
    torch._dynamo.reset()
    with config.patch(strict=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            plain = outcome(text, lambda f: f, name, calls, given)
        except TooLong:  # smaller programs may have loops without an end
            return None
        captured = outcome(text, lambda f: torch.compile(f, backend=backend, **settings), name, calls, given, fresh)
    return next(((k, a, b) for k, (a, b) in enumerate(zip(plain, captured)) if not agree(a, b, close)), None)


def agree(a, b, close):
    """Equal pictures; `close`: numbers of tensors up to the rounding of fused kernels."""
    if not close:
        return repr(a) == repr(b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(agree(p, q, close) for p, q in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(agree(a[k], b[k], close) for k in a)
    if type(a) is float and type(b) is float:
        return repr(a) == repr(b) or abs(a - b) <= 1e-5 * max(1, abs(a))
    return a == b


CHANGES = (
    lambda given, draw: given[:2] + [draw.choice([given[2], 0, 1, 2, 3, True, 1.0, -1])] + given[3:],
    lambda given, draw: given[:3] + [given[3][: draw.randint(0, 2)]] + given[4:],
    lambda given, draw: given[:3] + [tuple(given[3])] + given[4:],
    lambda given, draw: given[:4] + [draw.choice([{}, {"b": given[0], "a": given[1]}, {"a": given[0], "b": given[0]}])],
    lambda given, draw: [given[0].double(), *given[1:]],
    lambda given, draw: [given[0][:1], *given[1:]],
    lambda given, draw: [given[1], *given[1:]],
    lambda given, draw: [given[0], given[1].detach().requires_grad_(not given[1].requires_grad), *given[2:]],
    lambda given, draw: given[:3] + [[given[0], given[0]], given[4]],
    lambda given, draw: given[:3] + [[given[0], given[1]], {"a": given[1]}],
    lambda given, draw: [torch.linspace(0, 1, 2 * given[0].shape[0])[::2], *given[1:]],
    lambda given, draw: [torch.ones(2, given[0].shape[0]), *given[1:]],
    lambda given, draw: given,
)


def valid(text) -> bool:
    """Some drawn expressions are no Python where they were put."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "program", "exec")
        except SyntaxError:
            return False
    return True


def unsound(seed, calls=6):
    """None, or what one compiled function gives for arguments that differ from plain Python: calls come with arguments of
    other types, sizes, lengths, keys, identities and strides, and an entry that accepts them must give what a fresh
    compilation would give; each is compared with the plain function, as is the fresh one."""
    text = programs.source(programs.Program(seed))
    draw = random.Random(seed)
    chosen = [draw.choice(CHANGES) for _ in range(calls)]

    def varied(k):
        return chosen[k](arguments(3, k), random.Random(k))

    found = compare(text, name=f"changes{seed}", calls=calls, given=varied) if valid(text) else None
    if found is None or compare(text, name=f"changes{seed}", calls=calls, given=varied, fresh=True) is not None:
        return None if found is None else f"seed {seed}: a fresh compilation is wrong too\n{text}\n{found}"
    k, plain, captured = found
    return f"seed {seed}, call {k + 1}: an entry accepts arguments that it is wrong for\n{text}\nplain: {plain}\ncaptured: {captured}"


def minimised(program, differs, most=400, kind=programs):
    """The program, of a module that makes and writes such, with as little as possible in it that still differs."""
    found = True
    while found and most > 0:
        found = False
        for body in programs.smaller(program.body):
            most -= 1
            before, program.body = program.body, body
            if valid(kind.source(program)) and differs(kind.source(program)):
                found = True
                break
            program.body = before
            if most <= 0:
                break
    return kind.source(program)


def differing(seed, kind=programs, **settings):
    """None, or a text about the smallest program of this seed and kind that differs."""
    program = kind.Program(seed)
    text = kind.source(program)
    try:
        if not valid(text) or compare(text, **settings) is None:
            return None
    except TooLong:
        return f"seed {seed}: more than {SECONDS} s of the processor's time\n{text}"
    least = minimised(program, lambda t: compare(t, **settings) is not None, kind=kind)
    k, plain, captured = compare(least, **settings) or compare(text, **settings)
    return f"seed {seed}, call {k + 1}:\n{least}\nplain:    {plain}\ncaptured: {captured}"


def main(first, last):
    bad = 0
    for seed in range(first, last):
        found = differing(seed)
        if found:
            bad += 1
            print(found, "\n", flush=True)
    print(f"{last - first} programs, {bad} differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
