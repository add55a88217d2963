"""Moving elements: no lane divides, gathers or chooses where rows of memory can be copied; what has no such rows runs on the
kernel that eager uses."""

import re

import flambeau
import pytest
from flambeau import compiler
from flambeau.inductor.cpp.codegen import MARK
from flambeau.nn import functional as F
from flambeau.runtime.config import config

from .test_calls import check, randn, text_of

INNER = re.compile(r"each_vector.*?\}\);", re.DOTALL)


def kernels_of(f, *args):
    """The generated text without the headers."""
    return text_of(f, *args).split(MARK)[-1]


def inner_loops(f, *shape):
    """The innermost loops of a function's kernels."""
    found = INNER.findall(text_of(f, flambeau.randn(*shape)).split("// ---- kernels")[-1].split("fb_plan")[0])
    assert found
    return [text for text in found if "_at_" in text and "i64 i," not in text]


MOVES = {
    "roll": (lambda x: flambeau.roll(x, (3, 5), (1, 2)), (2, 6, 40)),
    "roll_many_shifts": (lambda x: flambeau.roll(x, -45, 2), (2, 6, 40)),
    "reflect": (lambda x: F.pad(x, (3, 2, 1, 2), mode="reflect"), (2, 3, 6, 40)),
    "replicate": (lambda x: F.pad(x, (3, 20, 1, 2), mode="replicate"), (2, 3, 6, 40)),
    "circular": (lambda x: F.pad(x, (3, 2, 1, 2), mode="circular"), (2, 3, 6, 40)),
    "repeat": (lambda x: x.repeat(3, 4), (3, 24)),
    "unfold": (lambda x: F.unfold(x, 3), (2, 3, 20, 30)),
    "unfold_padded": (lambda x: F.unfold(x, (3, 2), padding=1, dilation=(1, 2)), (2, 3, 8, 30)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 5, 24)),
    "pixel_shuffle_3": (lambda x: F.pixel_shuffle(x, 3), (2, 9, 5, 24)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (2, 2, 6, 48)),
}


@pytest.mark.parametrize("name", MOVES)
def test_lanes_of_innermost_loops_do_not_compute_places(name):
    f, shape = MOVES[name]
    for text in inner_loops(f, *shape):
        assert "start = j" not in text, f"lanes compute their own places: {text}"


@pytest.mark.parametrize("width", [1, 2, 5, 16, 17, 40])
@pytest.mark.parametrize("name", MOVES)
def test_moves_and_their_gradients(name, width):
    f, shape = MOVES[name]
    if name in ("reflect", "circular", "unfold", "unfold_padded") and width < 5:
        pytest.skip("wider than the tensor")
    if name == "pixel_unshuffle":
        width *= 2
    check(lambda x: f(x.sin()), randn(*shape[:-1], width))


@pytest.mark.parametrize("sizes", [(70, 300), (3, 20000)])
def test_long_rows_in_chunks(sizes):
    """Chunks of a long row begin where no segment does."""
    check(lambda x: flambeau.roll(x, 7, 1) + flambeau.cat((x[:, 5:], x[:, :5]), 1), randn(*sizes))


@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [1, 4, 15, 16, 17, 33, 100])
def test_every_second_element(step, length):
    """Loads and stores a few elements apart; nothing behind the last one is touched."""

    def f(x, y):
        out = y.clone()
        out[:, ::step] = x[:, ::step] * 2.0
        return out, x[:, ::step] + 1.0

    x, y = flambeau.randn(3, length), flambeau.randn(3, length)
    with config.patch(strict=True, optimize=1):
        compiler.reset()
        for a, b in zip(flambeau.compile(f)(x, y), f(x, y)):
            assert bool((a == b).all())


BYTES = {
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x),
    "order": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y),
    "sums": lambda x, y: (x + y, x * y, flambeau.maximum(x, y), x * 3 + y),
    "choice": lambda x, y: (flambeau.where(x.bool(), y, x), flambeau.logical_not(x), flambeau.logical_and(x, y)),
    "casts": lambda x, y: (x.bool(), x.to(flambeau.uint8), y.to(flambeau.int8) - 7, -x.to(flambeau.int8)),
    "numbers": lambda x, y: (
        x == 3,
        y > 1,
        (x != 0) & (y < 2),
        x.float() > y,
        (x.float() * 0.5).to(flambeau.int8),
        x.double() == y,
    ),
}


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("kinds", [("bool", "bool"), ("uint8", "uint8"), ("int8", "int8"), ("int8", "uint8"), ("bool", "int8")])
def test_maps_of_bytes(kinds, name):
    """In registers of bytes and stores of four registers at once; rows with tails, one number or one row for all, none."""
    for k, sizes in enumerate([(3,), (16,), (64,), (70,), (257,), (20001,), (3, 100), (4, 5, 130), (0,), (2, 0)]):
        x, y = [(flambeau.randn(*sizes) * 60).long().to(getattr(flambeau, kind)) for kind in kinds]
        y = y if len(sizes) == 1 else y[..., :1] if k % 2 else y[:1]
        for dynamic in (False, True):
            with config.patch(strict=True, optimize=1):
                compiler.reset()
                for a, b in zip(flambeau.compile(BYTES[name], dynamic=dynamic)(x, y), BYTES[name](x, y)):
                    assert a.dtype is b.dtype and flambeau.equal(a, b)
                    assert a.dtype is not flambeau.bool or flambeau.equal(a.view(flambeau.uint8), b.view(flambeau.uint8))


def test_bytes_are_computed_as_bytes():
    x = flambeau.randn(3, 1000) > 0
    f = lambda x: (~x & x[:1]) | (x.to(flambeau.uint8) == 1)
    text = kernels_of(f, x)
    assert "each_bytes(" in text and "vi " not in text
    f = lambda x: x > x[:1]
    text = kernels_of(f, x.float())
    assert "each_four(" in text and "st_part(" in text
    f = lambda x: ~x
    assert "each_bytes(" not in kernels_of(f, x[:, :40].contiguous()[:, :20])


def test_truth_of_whole_numbers_needs_no_float():
    x, y = flambeau.arange(-50, 50), flambeau.randn(100)
    f = lambda x, y: (flambeau.logical_and(x, y), x.float().bool(), x.half().bool(), x.int().bool(), x.int().long().bool())
    text = kernels_of(f, x, y)
    assert "to_f(" not in text and "to_i(" in text  # (what is cut to 32 bits may become zero)
    for big in (x, x * 2**40, x * 2**32):
        for a, b in zip(flambeau.compile(f)(big, y), f(big, y)):
            assert flambeau.equal(a, b)


TURNED = {
    "transpose": lambda x: x.transpose(-1, -2).contiguous(),
    "first_last": lambda x: x.permute(2, 1, 0).contiguous(),
    "middle": lambda x: x.permute(1, 2, 0).contiguous(),
    "sliced": lambda x: x[:, 1:, 2:].transpose(1, 2).contiguous(),
    "every_second": lambda x: x[:, ::2].transpose(1, 2).contiguous(),
    "into_columns": lambda x: flambeau.empty_like(x.transpose(1, 2).contiguous()).transpose(1, 2).copy_(x),
    "expanded": lambda x: x[:1].expand(20, -1, -1).permute(1, 2, 0).contiguous(),
}


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "bfloat16", "int16", "bool", "uint8"])
@pytest.mark.parametrize("name", TURNED)
def test_copies_that_exchange_dims(name, kind):
    """Tiles with whole and broken edges, elements of every size; other sizes of the same code."""
    for sizes in ((2, 70, 33), (3, 16, 64), (40, 5, 100), (2, 3, 0), (33, 17, 31)):
        x = (flambeau.randn(*sizes) * 9).to(getattr(flambeau, kind))
        for dynamic in (False, True):
            with config.patch(strict=True, optimize=1):
                compiler.reset()
                a, b = flambeau.compile(TURNED[name], dynamic=dynamic)(x), TURNED[name](x)
            assert a.dtype is b.dtype and a.stride() == b.stride() and flambeau.equal(a, b)


def test_tiles_stand_in_the_code():
    for f, given in ((TURNED["transpose"], flambeau.randn(2, 70, 33)), (TURNED["middle"], flambeau.randn(40, 5, 100).double())):
        assert "turn_block(" in kernels_of(f, given)
    computed = lambda x: x.transpose(1, 2).sin().contiguous() + 1.0
    assert "turn_block(" not in kernels_of(computed, flambeau.randn(2, 70, 33))


RESAMPLED = {
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "bicubic_down": lambda x: F.interpolate(x, size=(3, 5), mode="bicubic", align_corners=True),
    "bilinear": lambda x: F.interpolate(x, scale_factor=(2, 1.5), mode="bilinear"),
    "nearest": lambda x: F.interpolate(x, size=(9, 10)),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive_more": lambda x: F.adaptive_avg_pool2d(x, (8, 9)),
    "adaptive_even": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
}


@pytest.mark.parametrize("name", RESAMPLED)
def test_resampling_and_its_gradients(name):
    f = RESAMPLED[name]
    check(lambda x: f(x.sin()).cos(), randn(2, 3, 6, 8))
    check(f, randn(2, 3, 6, 8, grad=False).to(memory_format=flambeau.channels_last))
    check(f, randn(2, 3, 6, 8), dynamic=True)


def test_resampling_is_the_kernel_that_eager_uses():
    text = text_of(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), flambeau.randn(2, 3, 6, 8))
    assert "/* taps_inner */" in text and "/* taps_single */" in text and "static const i64 table0[]" in text


@pytest.mark.parametrize("p, causal", [(0.3, False), (0.3, True), (1.0, False)])
def test_attention_with_dropout_is_one_call(p, causal):
    """With the mask that eager draws, forward and backward."""
    q, k, v = randn(2, 3, 7, 4), randn(2, 3, 9, 4), randn(2, 3, 9, 5)

    def f(q, k, v):
        flambeau.manual_seed(5)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=causal)

    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.0), q, k, v)
    text = text_of(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=causal), q.detach(), k.detach(), v.detach()
    )
    assert text.count("/* attention_forward */") == 1 and "rt->gemm" not in text.split("fb_run")[1]
    leaves = [q, k, v]
    with config.patch(strict=True, optimize=1):
        compiler.reset()
        compiled = flambeau.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=causal))
        flambeau.manual_seed(5)
        made = compiled(*leaves)
        wanted = f(*leaves)
        assert float((made - wanted).abs().max()) < 1e-5
        for a, b in zip(flambeau.autograd.grad(made.sin().sum(), leaves), flambeau.autograd.grad(wanted.sin().sum(), leaves)):
            assert float((a - b).abs().max()) < 1e-5


def complex_pair():
    return [flambeau.complex(flambeau.randn(4, 9), flambeau.randn(4, 9)) for _ in range(2)]


def test_functions_of_numpy_write_into_planned_memory():
    """The first call asks eager, later ones hand numpy the memory."""
    x, y = complex_pair()
    with config.patch(strict=True, optimize=1):
        compiler.reset()
        f = lambda x, y: (x * y.conj(), flambeau.acos(x.real - x.real.round()))
        compiled = flambeau.compile(f)
        for turn in range(3):
            for a, b in zip(compiled(x * (turn + 1), y), f(x * (turn + 1), y)):
                assert a.dtype is b.dtype and bool((a == b).all())
        first = compiled(x, y)
        assert all(a.data_ptr() != b.data_ptr() for a, b in zip(first, compiled(x, y)))
    assert compiler.counters()["fallbacks"]


@pytest.mark.parametrize("sizes", [(0, 4), (3, 0), (0, 0)])
def test_nothing_is_moved(sizes):
    x = flambeau.randn(*sizes)
    with config.patch(strict=True, optimize=1):
        compiler.reset()
        out = flambeau.compile(lambda x: flambeau.cat((x, x), 1)[:, ::2] + 1.0)(x)
    assert out.shape == flambeau.cat((x, x), 1)[:, ::2].shape


NARROW = {
    "cross": lambda x, y: flambeau.linalg.cross(x[..., :3].contiguous(), y[..., :3].contiguous()),
    "stack": lambda x, y: flambeau.stack([x[:, 0] * y[:, 1], y[:, 0] - x[:, 1]], 1),
    "cat": lambda x, y: flambeau.cat([x[:, :1], (x * y)[:, :2]], 1),
    "flip": lambda x, y: x.flip(1) * y,
    "roll": lambda x, y: x.roll(1, 1) + y,
    "row": lambda x, y: x * y[:1] + y[:, :1],
}


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "int32", "int64"])
@pytest.mark.parametrize("count, width", [(16, 3), (17, 4), (100, 3), (1000, 3)])
@pytest.mark.parametrize("name", NARROW)
def test_narrow_last_dims_are_written_out(name, count, width, kind):
    """What the place in a narrow dim decides, no lane decides; elements of 64 bits keep to plain rows."""
    make = lambda: (flambeau.randn(count, width) * 9).to(getattr(flambeau, kind)).requires_grad_(kind.startswith("float"))
    with config.patch(keep_half_rounding=True):
        check(NARROW[name], make(), make())


@pytest.mark.parametrize("name", ["cross", "flip", "roll"])
def test_lanes_of_narrow_dims_choose_nothing(name):
    x, y = flambeau.randn(2, 100, 3)
    text = text_of(NARROW[name], x, y).split("// ---- kernels")[-1].split("fb_plan")[0]
    assert "scatter_by<3>" in text and "v_where" not in text and "gather_where" not in text


def test_narrow_dims_of_any_length():
    f = flambeau.compile(NARROW["cross"], dynamic=True)
    for count in (20, 33, 100, 1, 0):
        x, y = flambeau.randn(2, count, 3)
        assert flambeau.equal(f(x, y), NARROW["cross"](x, y))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: flambeau.diag_embed(x.sin()),
        lambda x: flambeau.zeros(7, 9).index_add(0, flambeau.tensor([1, 1, 3, 6, 2, 0]), x),
        lambda x: flambeau.ones(6, 9).scatter_add(1, flambeau.arange(9).expand(6, 9) // 2, x) * 2,
    ],
    ids=["diag_embed", "index_add", "scatter_add"],
)
def test_scatters_begin_where_their_results_lie(f):
    """Zeros are made once, not made and then copied."""
    assert "_start: " not in text_of(f, flambeau.randn(6, 9))
    check(f, randn(6, 9))


ROWS = {
    "index_select": lambda x, rows: x[rows],
    "embedding": lambda x, rows: F.embedding(rows, x),
    "cat": lambda x, rows: flambeau.cat([x, x[2:], x[:1]], 0),
    "padded": lambda x, rows: F.pad(x, (0, 0, 1, 2)),
    "padded_by_ones": lambda x, rows: F.pad(x, (0, 0, 1, 2), value=1.0),
    "slice": lambda x, rows: x[1:, 3:].contiguous(),
    "tril": lambda x, rows: x.unsqueeze(0).repeat(3, 1, 1).tril(),
    "set": lambda x, rows: flambeau.zeros(9, x.shape[1], dtype=x.dtype).index_copy(0, rows, x[:4]),
    "put": lambda x, rows: x.scatter(1, rows.unsqueeze(1).repeat(2, 200)[:6], 0.0),
    "rows_of_zeros": lambda x, rows: flambeau.where((rows > 1)[:, None], x[:4], 0.0),
    "minus_zero": lambda x, rows: flambeau.where((rows > 1)[:, None], x[:4], -0.0),
    "shifted": lambda x, rows: flambeau.roll(x, 100, 1),
}


@pytest.mark.parametrize(
    "width, kind, dynamic", [(500, "float32", False), (512, "bfloat16", False), (700, "float32", True), (20000, "float64", False)]
)
@pytest.mark.parametrize("name", ROWS)
def test_long_rows_are_copied_by_the_library(name, width, kind, dynamic):
    x = flambeau.randn(6, width).to(getattr(flambeau, kind)).requires_grad_()
    rows = flambeau.tensor([0, 5, 2, 3])
    check(lambda x: ROWS[name](x, rows), x, dynamic=dynamic)
    with flambeau.no_grad():
        found = flambeau.compile(ROWS[name])(x, rows)
    assert flambeau.equal(found.signbit(), ROWS[name](x, rows).signbit())


def test_library_copies_stand_in_the_code():
    x, rows = flambeau.randn(6, 700), flambeau.tensor([0, 5, 2, 3])
    for name in ("index_select", "embedding", "cat", "slice", "padded"):
        assert "__builtin_memmove" in text_of(ROWS[name], x, rows).split("// forward")[-1], name


SCATTERS = {
    "unfold": (lambda x: x.unfold(1, 2, 1) * 2.0, (40, 5)),
    "unfold_wide": (lambda x: x.unfold(1, 3, 2).sin(), (9, 61)),
    "reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), (50, 3, 4)),
    "replicate": (lambda x: F.pad(x, (3, 2), mode="replicate"), (50, 3, 3)),
    "circular": (lambda x: F.pad(x, (1, 2), mode="circular"), (50, 3, 3)),
    "reflect_rows": (lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), (5, 7, 77)),
    "replicate_rows": (lambda x: F.pad(x, (2, 1, 1, 2), mode="replicate"), (2, 5, 7, 77)),
    "diagonal": (lambda x: flambeau.diag_embed(x.sin(), 1), (30, 3)),
    "narrow_sum": (lambda x: flambeau.zeros(4, 3).index_add(0, flambeau.tensor([1, 1, 0, 3, 3]), x), (5, 3)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_of_few_points_and_of_segments(name, dynamic):
    """Gradients of windows and mirrored edges add up in order, whether points are written one by one or a row at a time."""
    f, shape = SCATTERS[name]
    check(lambda x: f(x * 2.0), randn(*shape), dynamic=dynamic)


def test_the_last_of_several_points_wins():
    def f(x):
        out = flambeau.zeros(20, 3)
        out[:, 0:2], out[:, 1:3] = x[:, :2], x[:, 2:]
        return out.index_copy(1, flambeau.tensor([2, 2]), x[:, :2])

    check(f, randn(20, 4))
