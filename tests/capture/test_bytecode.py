"""The normal form: decoded, assembled and run again; tables exact; odd control flow written by the Emitter."""

import dis
import importlib
import inspect
import pathlib
import subprocess
import sys
import textwrap
import types

import pytest

from flambeau.capture.bytecode import opcodes
from flambeau.capture.bytecode.assemble import assemble
from flambeau.capture.bytecode.emitter import Emitter
from flambeau.capture.bytecode.instructions import Handler, clone, decode, flow, reindex, stack_depths, successors, text
from flambeau.runtime.errors import InternalError

STDLIB = pathlib.Path(inspect.__file__).parent
SAMPLE = [
    "argparse",
    "ast",
    "asyncio/tasks",
    "collections/__init__",
    "contextlib",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "inspect",
    "json/decoder",
    "pathlib",
    "pickle",
    "statistics",
    "tempfile",
    "typing",
    "zipfile",
]


def all_codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_codes(constant)


def rebuilt(code):
    """The code object and all inside it, once through the normal form."""
    consts = {id(c): rebuilt(c) for c in code.co_consts if isinstance(c, types.CodeType)}
    instrs = decode(code)
    for instr in instrs:
        if instr.op == "LOAD_CONST":
            instr.argval = consts.get(id(instr.argval), instr.argval)
    return assemble(instrs, code)


def compiled(path):
    source = path.read_bytes()
    return compile(source, str(path), "exec", dont_inherit=True)


def sample_files():
    found = [STDLIB / f"{name}.py" for name in SAMPLE]
    return [path for path in found if path.exists()]


def comparable(instrs):
    def constant(value):
        return "code" if isinstance(value, types.CodeType) else repr(value)

    return [
        (
            i.op,
            constant(i.argval),
            i.target and i.target.index,
            i.position,
            i.handler and (i.handler.target.index, i.handler.depth, i.handler.lasti),
        )
        for i in instrs
    ]


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.stem)
def test_round_trip_of_the_standard_library(path):
    for code in all_codes(compiled(path)):
        instrs = decode(code)
        again = assemble(clone(instrs)[0], code)
        assert comparable(decode(again)) == comparable(instrs), code
        for field in (
            "co_varnames",
            "co_cellvars",
            "co_freevars",
            "co_flags",
            "co_nlocals",
            "co_argcount",
            "co_name",
            "co_qualname",
        ):
            assert getattr(again, field) == getattr(code, field), (code, field)
        assert again.co_consts[:1] == code.co_consts[:1]
        assert again.co_stacksize >= code.co_stacksize


def test_computed_depths_agree_with_cpython():
    """Our stack effects never give more than CPython's own stack size allows, and every handler depth is met."""
    for path in sample_files():
        for code in all_codes(compiled(path)):
            instrs = decode(code)
            depths, largest = flow(instrs)
            assert largest <= code.co_stacksize + 1, (code, largest, code.co_stacksize)
            for instr, depth in zip(instrs, depths):
                assert depth < 0 or not instr.handler or depth >= instr.handler.depth, (code, instr)


def test_rebuilt_modules_run():
    module = types.ModuleType("json_decoder")
    exec(rebuilt(compiled(STDLIB / "json" / "decoder.py")), module.__dict__ | {"__name__": "json.decoder", "__package__": "json"})
    spaces = {}
    for name in ("textwrap", "statistics", "difflib", "string"):
        namespace = {"__name__": name, "__package__": ""}
        sys.modules[name] = importlib.import_module(name)
        exec(rebuilt(compiled(STDLIB / f"{name}.py")), namespace)
        spaces[name] = namespace
    assert spaces["textwrap"]["fill"]("aaa bbb ccc ddd", width=8) == "aaa bbb\nccc ddd"
    assert spaces["statistics"]["median"]([3, 1, 2]) == 2 and spaces["statistics"]["stdev"]([1, 2, 3]) == 1.0
    assert spaces["difflib"]["get_close_matches"]("appel", ["ape", "apple", "peach"]) == ["apple", "ape"]
    assert spaces["string"]["Template"]("$x").substitute(x=3) == "3"


def test_generators_and_coroutines_survive():
    source = """
import asyncio
def inner():
    try:
        got = yield 1
        yield got
    except ValueError as e:
        yield str(e)
    return "r"
def gen():
    x = yield from inner()
    yield x
class Ctx:
    async def __aenter__(self): return 5
    async def __aexit__(self, *a): return True
async def agen():
    for i in range(3):
        await asyncio.sleep(0)
        yield i
async def main():
    out = [x async for x in agen() if x]
    async with Ctx() as c:
        out.append(c)
        raise KeyError
    async for y in agen():
        out.append(y)
    else:
        out.append("else")
    return out
g = gen(); a = [next(g), g.send("s"), g.throw(ValueError("v")), next(g)]
result = a, asyncio.run(main())
"""
    namespace = {}
    exec(rebuilt(compile(source, "gen", "exec")), namespace)
    assert namespace["result"] == ([1, "s", "v", "r"], [1, 2, 5, 0, 1, 2, "else"])


def test_nested_finally_keeps_the_current_exception():
    def f():
        try:
            1 / 0
        except ZeroDivisionError:
            try:
                try:
                    raise
                finally:
                    raise
            except ZeroDivisionError:
                pass
        return sys.exc_info()[1]

    g = types.FunctionType(rebuilt(f.__code__), {"sys": sys})
    assert f() is None and g() is None
    ours, theirs = (dis._parse_exception_table(c) for c in (g.__code__, f.__code__))
    assert [(e.depth, e.lasti) for e in ours] == [(e.depth, e.lasti) for e in theirs]


def test_lines_of_tracebacks():
    source = "def f(x):\n    y = (x +\n         1)\n    return [\n        y,\n        y / 0]\n"
    namespace = {}
    exec(compile(source, "lines", "exec"), namespace)
    code = namespace["f"].__code__
    g = types.FunctionType(rebuilt(code), {})
    assert list(g.__code__.co_positions()) == list(code.co_positions())
    with pytest.raises(ZeroDivisionError) as raised:
        g(1)
    assert raised.value.__traceback__.tb_next.tb_lineno == 6


def test_lines_of_wide_sources():
    """A column of 128 and more is a byte that readers of lines take for an entry, where it is written as a byte."""
    source = f"def f(a):\n    x = 1\n    return [\n{' ' * 140}a.real,\n{' ' * 150}a.b, a.c]\n"
    namespace = {}
    exec(compile(source, "wide", "exec"), namespace)
    code = namespace["f"].__code__
    g = types.FunctionType(rebuilt(code), {})
    assert list(g.__code__.co_positions()) == list(code.co_positions())
    assert [line for *_, line in g.__code__.co_lines()] == [line for *_, line in code.co_lines()]
    with pytest.raises(AttributeError) as raised:
        g(1)
    assert raised.value.__traceback__.tb_next.tb_lineno == 5


@pytest.mark.parametrize("steps", [10, 60, 14000])
def test_jumps_of_one_to_three_bytes(steps):
    body = "            x = x + 1\n" * steps
    source = (
        f"def f(n):\n    x = 0\n    while x < n:\n        try:\n{body}        finally:\n            n -= 1\n    return x, n\n"
    )
    namespace = {}
    exec(compile(source, "long", "exec"), namespace)
    code = namespace["f"].__code__
    g = types.FunctionType(rebuilt(code), {})
    assert comparable(decode(g.__code__)) == comparable(decode(code))
    assert g(2 * steps) == namespace["f"](2 * steps) == (2 * steps, 2 * steps - 2)


def test_an_argument_that_an_op_does_not_take():
    """EXTENDED_ARG before an op without argument is legal."""

    def f(a):
        a  # noqa: B018
        return 1

    raw = bytearray(f.__code__.co_code)
    at = next(i for i in range(0, len(raw), 2) if dis.opname[raw[i]] in ("POP_TOP", "RETURN_VALUE"))
    raw[at:at] = bytes((dis.EXTENDED_ARG, 1))
    code = f.__code__.replace(co_code=bytes(raw))
    ops = [(i.op, i.argval) for i in decode(code)]
    assert ops == [(i.op, i.argval) for i in decode(f.__code__)]
    assert types.FunctionType(rebuilt(code), {})(2) == types.FunctionType(code, {})(2) == 1


# ---- the package ----


def in_a_process(program):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_is_loaded_by_the_first_frame():
    assert "False True" in in_a_process("""
        import sys
        import flambeau as torch
        before = "bytecode" in sys.modules
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        print(before, "bytecode" in sys.modules)
        """)


def test_a_warm_call_does_without_the_package():
    """Whole frames and frames with a break, called again when the package can't be imported any more."""
    assert "[4.0, 4.0] [4.0, 4.0] warm" in in_a_process("""
        import sys
        import flambeau as torch
        whole = torch.compile(lambda x: x * 2, backend="eager")
        def broken(x):
            x = x + 1
            print(end="")
            return x * 2
        broken = torch.compile(broken, backend="eager")
        cold = whole(torch.ones(2)), broken(torch.ones(2))
        for name in [name for name in sys.modules if name.partition(".")[0] == "bytecode"]:
            sys.modules[name] = None  # (an import of it raises)
        x = torch.full((2,), 2.0)
        print(whole(x).tolist(), broken(x - 1).tolist(), "warm")
        """)


# ---- the table ----


def test_every_op_of_this_version_has_a_normal_form():
    internal = {"CACHE", "EXTENDED_ARG", "INTERPRETER_EXIT", "RESERVED", "ENTER_EXECUTOR", "EXIT_INIT_CHECK"}
    names = {name for name, number in dis.opmap.items() if number < 256} - internal
    names = {name for name in names if not name.startswith("INSTRUMENTED_")}
    assert names - set(opcodes.LIFT) - set(opcodes.NORMAL_OPS) == set()


def test_every_normal_op_can_be_written():
    assert set(opcodes.NORMAL_OPS) == set(opcodes.LOWER)
    for op, form in opcodes.NORMAL_OPS.items():
        assert form.doc and form.kind in {
            "none",
            "int",
            "const",
            "name",
            "fast",
            "deref",
            "jump",
            "super",
            "call",
            "binary",
            "compare",
        }, op


def test_stack_effects_match_dis():
    """Where an op is the version's own and takes a plain argument, dis knows its effect too."""
    checked = 0
    for op, form in opcodes.NORMAL_OPS.items():
        if op in opcodes.LIFT or op not in dis.opmap or form.kind not in ("none", "int"):
            continue
        for argument in (None,) if form.kind == "none" else (0, 1, 2, 3):
            if dis.opmap[op] < dis.HAVE_ARGUMENT:
                want = dis.stack_effect(dis.opmap[op])
            else:
                want = dis.stack_effect(dis.opmap[op], argument or 0)
            pops, pushes = opcodes.effect(op, argument)
            if op not in opcodes.NO_FALLTHROUGH and not unlike_dis(op, argument):
                checked += 1
                assert pushes - pops == want, (op, argument)
    assert checked > 60


def unlike_dis(op, argument):
    """dis counts these otherwise, or refuses the argument."""
    return (
        op in ("RETURN_GENERATOR", "MAKE_FUNCTION")
        or op == "BUILD_SLICE"
        and argument < 2
        or op in ("COPY", "SWAP", "UNPACK_EX")
        and not argument
    )


def test_one_form_for_calls():
    def f(o, a, k):
        o.m(a, x=k)
        f(a)(*a, **k)
        return o.attr

    calls = [i.argval for i in decode(f.__code__) if i.op == "CALL"]
    assert calls == [(2, ("x",)), (1, ())]
    ops = [i.op for i in decode(f.__code__)]
    assert "LOAD_METHOD" in ops and "LOAD_ATTR" in ops and "CALL_FUNCTION_EX" in ops
    assert not {"PRECALL", "KW_NAMES", "CALL_KW", "RETURN_CONST", "CACHE"} & set(ops)


def test_loops_jumps_and_truth_look_alike():
    def f(items, x):
        for i in items:
            if not x or i is None:
                continue
        return x or items[1:2]

    instrs = reindex([i for i in decode(f.__code__) if i.op != "NOP"])
    loop = next(i for i in instrs if i.op == "FOR_ITER")
    assert instrs[loop.target.index - 1].op == "JUMP" and loop.target.op == "LOAD_FAST"
    assert "TO_BOOL" not in [i.op for i in instrs] and "BUILD_SLICE" in [i.op for i in instrs]
    assert successors(instrs, loop.index) == [loop.index + 1, loop.target.index]
    copy = next(i.index for i in instrs if i.op == "COPY")
    assert [i.op for i in instrs[copy : copy + 3]] == ["COPY", "POP_JUMP_IF_TRUE", "POP_TOP"]
    assert "FOR_ITER" in text(instrs)


# ---- the Emitter ----


def written(write, like, **globals_):
    e = Emitter()
    e.prologue(decode(like.__code__))
    write(e)
    return types.FunctionType(e.assemble(like.__code__), globals_)


def test_calls_of_every_shape():
    def like(a, b):
        return a, b

    def write(e):
        e.load_const(lambda *args, **kw: (args, kw))
        e.as_callable()
        e.load_fast("a")
        e.load_fast("b")
        e.call(2, ("k",))
        e.load_global("name")
        e.load_attr("upper")
        e.as_callable()
        e.call(0)
        e.load_fast("b")
        e.load_method("bit_length")
        e.call(0)
        e.load_global("dict")
        e.as_callable()
        e.build_tuple(0)
        e.load_const("z")
        e.load_fast("a")
        e.build_map(1)
        e.call_function_ex(kwargs=True)
        e.build_tuple(4)
        e.return_value()

    assert written(write, like, name="n", dict=dict)(1, 2) == (((1,), {"k": 2}), "N", 2, {"z": 1})


def test_handlers_loops_and_backward_conditional_jumps():
    def like(n):
        return n

    def write(e):
        caught, top = e.label(), e.label()
        e.load_const(0)
        e.store_fast("count")
        e.place(top)
        e.load_fast("count")
        e.load_const(1)
        e.binary_op("+=")
        e.store_fast("count")
        e.load_fast("count")
        e.load_fast("n")
        e.compare_op("<")
        e.pop_jump_if_true(top)
        with e.at(handler=Handler(caught, 0, False)):
            e.load_fast("count")
            e.load_const(0)
            e.binary_op("/")
            e.return_value()
        e.place(caught)
        e.emit("PUSH_EXC_INFO")
        e.pop()
        e.emit("POP_EXCEPT")
        e.load_fast("count")
        e.return_value()

    assert written(write, like)(7) == 7
    assert sys.exc_info()[1] is None


def test_a_loop_may_end_where_other_code_falls_in():
    def like(items):
        return items

    def write(e):
        end, loop = e.label(), e.label()
        e.load_const(0)
        e.store_fast("total")
        e.load_fast("items")
        e.get_iter()
        e.place(loop)
        e.for_iter(end)
        e.copy(1)
        e.load_fast("total")
        e.binary_op("+")
        e.store_fast("total")
        e.load_const(5)
        e.compare_op("<")
        e.pop_jump_if_true(loop)
        e.pop()
        e.place(end)
        e.load_fast("total")
        e.return_value()

    f = written(write, like)
    assert f([1, 2, 3]) == 6 and f([1, 7, 100]) == 8


def test_closures_cells_and_nulls():
    def like(a):
        return lambda: a

    def inner():
        return a  # noqa: F821

    inner_code = like.__code__.co_consts[1] if isinstance(like.__code__.co_consts[1], types.CodeType) else inner.__code__

    def write(e):
        e.load_const(5)
        e.store_deref("a")
        e.make_function(inner_code, closure=("a",))
        e.load_const(None)
        e.push_null()
        e.store_fast("gone")
        e.pop()
        e.return_value()

    assert written(write, like)(1)() == 5


def test_rotate_and_unpack():
    def like(x):
        return x

    def write(e):
        e.load_fast("x")
        e.unpack_sequence(4)
        e.rotate(4)
        e.build_list(4)
        e.return_value()

    assert written(write, like)([1, 2, 3, 4]) == [1, 4, 3, 2]


def test_wide_constants_keep_their_type():
    def like():
        return None

    def write(e):
        values = [1, True, 1.0, 0.0, -0.0, "1", b"1", None, ...]
        for value in values:
            e.load_const(value)
        e.build_tuple(len(values))
        e.return_value()

    got = written(write, like)()
    assert repr(got) == "(1, True, 1.0, 0.0, -0.0, '1', b'1', None, Ellipsis)"


def test_contradictions_are_refused():
    def like(x):
        return x

    e = Emitter()
    e.prologue(decode(like.__code__))
    again = e.label()
    e.place(again)
    e.load_fast("x")
    e.pop_jump_if_true(again)
    e.load_fast("x")
    e.jump(again)
    with pytest.raises(InternalError, match="stack depth"):
        e.assemble(like.__code__)
    with pytest.raises(InternalError, match="neither a cell"):
        written(lambda e: e.load_deref("nobody"), like)
    assert stack_depths(decode(like.__code__))[-1] == 1
