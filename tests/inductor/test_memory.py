"""The memory plan: temps that are alive together never meet, memory is reused, outputs stay out of the arena."""

import numpy as np
import pytest
from flambeau.eager.op.op import OPS as O
from flambeau.inductor.loops import interpreter
from flambeau.inductor.loops.lower import lower
from flambeau.inductor.schedule.memory_planning import ALIGN, bytes_of, lifetimes, plan, share_in_place
from flambeau.inductor.schedule.scheduler import schedule


def barrier(x):
    """Something that no kernel fuses with: a product with itself."""
    return O["gemm"](x, x)


def chain(n):
    def fn(x):
        for _ in range(n):
            x = barrier(x)
        return x

    return fn


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_a_chain_needs_two_places(symbolic, trace, make, assert_close):
    x = make(16, 16)
    x._array *= 0.2
    program = plan(schedule(lower(trace(chain(8), x, symbolic=symbolic))))
    size = program.arena_size if isinstance(program.arena_size, int) else program.arena_size.evaluate({"s0": 16})
    assert len(program.arena) == 7 and size == 2 * 16 * 16 * 4, program.text()
    expected = x._array
    for _ in range(8):
        expected = expected @ expected
    assert_close(interpreter.run(program, [x])[0], expected)


def test_outputs_and_inputs_are_not_in_the_arena(trace, make):
    program = plan(schedule(lower(trace(lambda x: (barrier(barrier(x)), barrier(x)), make(8, 8)))))
    kinds = {b.name: b.kind for b in program.buffers}
    assert {kinds[name] for name in program.arena} <= {"temp"}
    assert all(b.name not in program.arena for b in program.outputs)


def test_offsets_are_aligned_and_blocks_alive_together_are_disjoint(trace, make):
    def fn(x, y):
        values = [barrier(O["add"](barrier(x), float(k))) for k in range(5)]
        small = O["sum"](barrier(y), (1,), False)
        total = values[0]
        for v in values[1:]:
            total = barrier(O["add"](total, v))
        return total, small

    program = schedule(lower(trace(fn, make(12, 12), make(7, 7))))
    planned = plan(program)
    blocks = share_in_place(program, lifetimes(program))
    spans = [(planned.arena[b.names[0]], b) for b in blocks]
    assert all(start % ALIGN == 0 for start, _ in spans)
    for k, (start, block) in enumerate(spans):
        for other, second in spans[:k]:
            if block.meets(second):
                assert start + block.size <= other or other + second.size <= start
    assert planned.arena_size == max(start + b.size for start, b in spans)
    naive = sum(bytes_of(b) for b in program.buffers if b.kind == "temp")
    assert planned.arena_size < naive


def test_a_map_overwrites_what_it_alone_still_reads(trace, make, assert_close):
    """scores -> softmax -> product: the softmax takes the place of the scores."""

    def fn(x, y):
        s = O["gemm"](x, y)
        e = O["exp"](O["sub"](s, O["amax"](s, (1,), True)))
        return O["gemm"](O["div"](e, O["sum"](e, (1,), True)), y)

    x, y = make(16, 16), make(16, 16)
    program = plan(schedule(lower(trace(fn, x, y))))
    assert len(program.arena) == 2 and len(set(program.arena.values())) == 1
    assert_close(interpreter.run(program, [x, y])[0], fn(x, y)._array, 1e-4, 1e-4)


def test_no_overwriting_where_other_points_still_read(trace, make, assert_close):
    def fn(x, y):
        s = O["gemm"](x, y)
        return O["gemm"](O["exp"](O["flip"](s, (0,))), y)

    x, y = make(8, 8), make(8, 8)
    program = plan(schedule(lower(trace(fn, x, y))))
    assert len(set(program.arena.values())) == 2, program.text()
    assert_close(interpreter.run(program, [x, y])[0], fn(x, y)._array, 1e-4, 1e-4)


def test_the_arena_changes_no_value(trace, make):
    def fn(x, y):
        a = barrier(O["exp"](O["mul"](x, 0.1)))
        b = O["add"](barrier(O["sin"](a)), O["transpose"](a, 0, 1))
        return barrier(O["sub"](b, y)), O["sum"](b, (0,), False)

    inputs = [make(12, 12), make(12)]
    program = plan(schedule(lower(trace(fn, *inputs))))
    for a, b in zip(interpreter.run(program, inputs, arena=True), interpreter.run(program, inputs, arena=False)):
        np.testing.assert_array_equal(a, b)
