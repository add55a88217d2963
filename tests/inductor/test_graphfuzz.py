"""Drawn programs compiled to C++ equal eager, and the loop interpreter run beside it; what draws have found stays found.

GRAPHS: how many programs this file and test_graphfuzz_loops.py draw (default 5000, a quarter of them here);
GRAPHS_SEED: where they start (told in every failure). A failure is made smaller and printed as a program.
"""

import pytest

from flambeau.inductor.loops import interpreter
from flambeau.runtime import toolchain
from flambeau.runtime.config import config

from .graphfuzz import Input, Line, Program
from .graphfuzz_batch import run
from .graphfuzz_check import SEED, WHOLE, check, smallest
from .graphfuzz_draw import draw
from .graphfuzz_records import families

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")


@pytest.mark.parametrize("number", WHOLE)
def test_drawn_programs_in_generated_code(number):
    """One unit in four as users get it, the others without inlining, which is made in half the time."""
    check(number, plain=number % 18 == 0)


# -- what the draws are


def test_programs_are_of_all_kinds():
    """Of 2400 programs: what each must have its share of, and that nearly every record is called."""
    programs = [draw(SEED + k) for k in range(2400)]
    share = lambda holds: sum(map(holds, programs)) / len(programs)
    assert share(lambda p: p.dynamic) > 0.2 and share(lambda p: bool(p.other)) > 0.1
    assert share(lambda p: any(i.grad for i in p.inputs)) > 0.15
    assert share(lambda p: any(line.name is None for line in p.lines)) > 0.3
    assert share(lambda p: any(0 in i.sizes for i in p.inputs)) > 0.01
    assert share(lambda p: any(i.layout != "rows" for i in p.inputs)) > 0.3
    assert share(lambda p: len({i.dtype for i in p.inputs}) > 1) > 0.3
    assert share(lambda p: any(n.startswith("x") for n in p.outputs)) > 0.05
    called = {name for p in programs for name in p.records()}
    missing = {name for names in families().values() for name in names} - called
    assert len(missing) < 12, sorted(missing)


# -- a fault is found and told


def test_a_fault_is_found_and_made_small(monkeypatch):
    """Maxima in the loop interpreter forget the last element: one reduction of one input is left of the program that
    shows it, and the printed program runs."""
    kept = interpreter.combine
    forgetful = lambda name, values: kept(name, [v[..., :-1] if name == "max" and v.shape[-1] > 1 else v for v in values])
    monkeypatch.setattr(interpreter, "combine", forgetful)
    trials, _ = run([draw(SEED + k) for k in range(400)], native=False)
    found = [t for t in trials if t.problem]
    assert found and all("loops" in t.problem for t in found)
    small = smallest(found[0].program, native=False)
    assert len(small.lines) == 1 and len(small.inputs) == 1, small.printed()
    assert small.printed().count("program(") == 2
    exec(compile(small.printed(), "<printed>", "exec"), {})


# -- programs that once failed


def program(text, *inputs, dynamic=False, other=()):
    lines = [line.strip() for line in text.strip().splitlines()]
    made = [Line(*line.split(" = ", 1)) if line.split(" = ")[0].isidentifier() else Line(None, line) for line in lines[:-1]]
    outputs = tuple(lines[-1].removeprefix("return ").split(", "))
    return Program(tuple(Input(f"x{k}", **given) for k, given in enumerate(inputs)), tuple(made), outputs, dynamic, other)


FOUND = {
    "argmin of booleans": program(
        """
        v0 = op_argmin(x0, (0,), False)
        return v0""",
        {"sizes": (17, 3), "dtype": "bool", "values": 1},
    ),
    "whole numbers beyond their type": program(
        """
        v0 = x0.clamp(-1, 1)
        v1 = x0 < -1
        return v0, v1""",
        {"sizes": (5,), "dtype": "uint8"},
    ),
    "booleans added where indices tell": program(
        """
        x0.index_add_(0, x2, x1)
        x3.scatter_add_(1, x2.expand([3, 4]), x1.mT[:3])
        v2 = x0 | x0
        return v2""",
        {"sizes": (2, 9), "dtype": "bool", "values": 1},
        {"sizes": (4, 9), "dtype": "bool"},
        {"sizes": (4,), "dtype": "int64", "values": 2},
        {"sizes": (3, 2), "dtype": "bool", "values": 1},
    ),
    "nothing repeated and rolled": program(
        """
        v0 = x0.repeat([1, 1, 2])
        v1 = x1.roll(1, 1).sum(1)
        return v0, v1""",
        {"sizes": (2, 2, 0)},
        {"sizes": (3, 0)},
    ),
    "nothing padded": program(
        """
        v0 = op_pad(x0, ((1, 1), (0, 0), ), 1.0)
        return v0""",
        {"sizes": (0, 2)},
    ),
    "nothing written to expanded memory": program(
        """
        x0[:, 2:2].fill_(0.5)
        v1 = op_exp(x0)
        return v1""",
        {"sizes": (3, 3), "layout": "expanded"},
    ),
    "expanded memory written through a view": program(
        """
        x0.diagonal(0, 0, 2)[...] = 3
        v1 = op_exp(x0)
        return v1""",
        {"sizes": (4, 1, 1), "layout": "expanded"},
    ),
    "a part of an expanded view written": program(
        """
        v0 = x0.expand(3)
        v1 = v0[::2]
        v0.select(0, 0).add_(-1.5)
        return v1, v1, v0""",
        {"sizes": ()},
    ),
    "a part of windows that overlap written": program(
        """
        v0 = x0.unfold(0, 3, 1)
        v0[1:2, 1].mul_(-1.5)
        v0[3].tanh_()
        v2 = v0[::2].sum(1)
        return v2, x0""",
        {"sizes": (7,), "layout": "steps"},
        dynamic=True,
        other=((7, 11),),
    ),
    "a detached tensor takes a value with a gradient": program(
        """
        v0 = x0.detach()
        v0.index_add_(0, x1, x2)
        return v0, x0""",
        {"sizes": (2,)},
        {"sizes": (4,), "dtype": "int64", "values": 2},
        {"sizes": (4,), "grad": "leaf"},
    ),
    "equal maxima in memory of their own": program(
        """
        v0 = op_max_dim(x0, (1,), True)[0]
        v1 = op_max_dim(x0, (1,), True)[0]
        return v0, v1""",
        {"sizes": (3, 5)},
    ),
    "places of a row of halves": program(
        """
        v0 = op_resample(x0, 1, 700, 'cubic', None, False)
        v1 = op_resample(x0, 1, 7, 'linear', None, True)
        return v0, v1""",
        {"sizes": (2, 300), "dtype": "bfloat16"},
    ),
    "a size solved by its square": program(
        """
        v0 = x0.flatten()
        v1 = v0.reshape([81])
        v2 = flambeau.stack([v0, v1], 0)
        return v2, v0""",
        {"sizes": (9, 9)},
        dynamic=True,
        other=((9, 4),),
    ),
    "a row read in other axes than it was written": program(
        """
        v0 = op_spread(x1, x2, 1, 4)
        v1 = op_amax(x0.expand(3), (0,), True)
        v2 = op_binary_cross_entropy_with_logits(v1[:1].expand([3, 4]), v0.sigmoid(), None, None, 'mean')
        return v2, v0""",
        {"sizes": ()},
        {"sizes": (3,)},
        {"sizes": (3,), "dtype": "int64", "values": 4},
        dynamic=True,
    ),
    "a size solved by its multiple": program(
        """
        v0 = flambeau.cat([x0, x0, x0], 0)
        v1 = v0.expand([39])
        v2 = flambeau.cat([v1, v0], 0)
        return v2""",
        {"sizes": (13,)},
        dynamic=True,
        other=((13, 18),),
    ),
    "epilogue over nothing": program(
        """
        v0 = op_neg(x0)
        v1 = op_amin(v0, (0,), False)
        v2 = v1 @ v0.mT
        return v2""",
        {"sizes": (17, 0)},
    ),
    "input written whose old value the gradient needs": program(
        """
        x0.clamp_(-1, 1)
        v1 = op_exp(x1)
        return v1""",
        {"sizes": (1, 7), "grad": "computed"},
        {"sizes": (4,), "grad": "leaf"},
    ),
    "strided input written whose old value the gradient needs": program(
        """
        v0 = op_mul(x0, x1)
        x0.relu_()
        return v0, v0""",
        {"sizes": (5,), "layout": "steps"},
        {"sizes": (5,), "grad": "leaf"},
        dynamic=True,
        other=((5, 11),),
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with config.patch(cache_dir=str(tmp_path_factory.mktemp("found"))):
        trials, _ = run(FOUND.values(), plain=True)
    return dict(zip(FOUND, trials))


@pytest.mark.parametrize("name", FOUND)
def test_programs_that_once_failed(name, found):
    assert found[name].problem is None
