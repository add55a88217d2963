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
    x._fl_array *= 0.2
    program = plan(schedule(lower(trace(chain(8), x, symbolic=symbolic))))
    size = program.arena_size if isinstance(program.arena_size, int) else program.arena_size.evaluate({"s0": 16})
    assert len(program.arena) == 7 and size == 2 * 16 * 16 * 4, program.text()
    expected = x._fl_array
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
    assert_close(interpreter.run(program, [x, y])[0], fn(x, y)._fl_array, 1e-4, 1e-4)


def test_no_overwriting_where_other_points_still_read(trace, make, assert_close):
    def fn(x, y):
        s = O["gemm"](x, y)
        return O["gemm"](O["exp"](O["flip"](s, (0,))), y)

    x, y = make(8, 8), make(8, 8)
    program = plan(schedule(lower(trace(fn, x, y))))
    assert len(set(program.arena.values())) == 2, program.text()
    assert_close(interpreter.run(program, [x, y])[0], fn(x, y)._fl_array, 1e-4, 1e-4)


def test_the_arena_changes_no_value(trace, make):
    def fn(x, y):
        a = barrier(O["exp"](O["mul"](x, 0.1)))
        b = O["add"](barrier(O["sin"](a)), O["transpose"](a, 0, 1))
        return barrier(O["sub"](b, y)), O["sum"](b, (0,), False)

    inputs = [make(12, 12), make(12)]
    program = plan(schedule(lower(trace(fn, *inputs))))
    for a, b in zip(interpreter.run(program, inputs, arena=True), interpreter.run(program, inputs, arena=False)):
        np.testing.assert_array_equal(a, b)


def byte_size(buffer, sizes):
    count = buffer.extent() * buffer.dtype.itemsize
    return count if isinstance(count, int) else count.evaluate(sizes)


def assert_within_their_homes(program, sizes=None):
    buffers = {b.name: b for b in program.buffers}
    for name, home in program.homes.items():
        start = program.arena.get(name, 0)
        assert start + byte_size(buffers[name], sizes) <= byte_size(buffers[home], sizes), program.text()


@pytest.mark.parametrize("rows, found", [(32, 2), (30, 1)], ids=["ends at a multiple of 64", "ends between two"])
def test_temps_end_where_a_donated_input_ends(rows, found, trace, make, assert_close):
    """Two temps of half its bytes: the second begins at a multiple of 64, and must not end behind the input."""

    def fn(v, x, w, u):
        a = O["gemm"](O["gemm"](v, x), w)
        b = O["gemm"](a, w)
        return O["gemm"](O["gemm"](u, a), O["transpose"](b, 0, 1))

    inputs = [make(rows, 2 * rows), make(2 * rows, 50), make(50, 50), make(2, rows)]
    for x in inputs:
        x._fl_array *= 0.1
    expected = fn(*inputs)._fl_array
    program = plan(schedule(lower(trace(fn, *inputs))), [1])
    assert_within_their_homes(program)
    halves = {b.name for b in program.buffers if b.sizes == (rows, 50)}
    assert len(halves & {*program.homes}) == found, program.text()
    program.verify()
    assert_close(interpreter.run(program, inputs)[0], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("columns, found", [(750, 1), (751, 0)], ids=["of its size", "8 bytes larger"])
def test_an_output_takes_over_no_smaller_input(columns, found, trace, make, assert_close):
    def fn(v, x, w):
        return O["gemm"](O["gemm"](v, x), w)

    inputs = [make(2, 30), make(30, 50), make(50, columns)]
    expected = fn(*inputs)._fl_array
    program = plan(schedule(lower(trace(fn, *inputs))), [1])
    assert len(program.homes) == found, program.text()
    program.verify()
    assert_close(interpreter.run(program, inputs)[0], expected, 1e-3, 1e-3)


@pytest.mark.parametrize("size", [61, 64])
def test_temps_of_symbolic_sizes_lie_in_a_donated_input(size, trace, make, assert_close):
    inputs = [make(size, size) for _ in range(2)]
    for x in inputs:
        x._fl_array *= 0.1

    def fn(x, y):
        a = O["gemm"](O["gemm"](x, x), y)
        return O["gemm"](O["gemm"](a, y), O["transpose"](a, 0, 1))

    expected = fn(*inputs)._fl_array
    program = plan(schedule(lower(trace(fn, *inputs, symbolic=True))), [0])
    assert program.homes and program.symbols, program.text()
    assert_within_their_homes(program, {s.name: size for s in program.symbols})
    program.verify()
    assert_close(interpreter.run(program, inputs)[0], expected, 1e-3, 1e-4)
