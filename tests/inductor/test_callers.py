"""Drawn custom functions and drawn callers of results: every backend shows what eager shows, with the settings that users have.

CALLERS: how many programs of each kind (default 45); CALLERS_SEED: where they start. One in INDUCTOR goes through C++ as well.
"""

import itertools
import os

import numpy as np
import pytest

import flambeau
import flambeau as torch
from flambeau.runtime.config import config

from . import functionfuzz, resultfuzz
from .callers import BACKENDS, Program, check, difference, differs, flat, numbers, observe

COUNT = int(os.environ.get("CALLERS", 45))
SEED = int(os.environ.get("CALLERS_SEED", 0)) * 10**6
INDUCTOR = 45
PARTS = 3


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", [functionfuzz, resultfuzz], ids=["functions", "results"])
def test_drawn_programs(kind, part):
    for k in range(part, COUNT, PARTS):
        check(kind.draw(SEED + k), (*BACKENDS, "inductor") if k % INDUCTOR == 0 else BACKENDS)


@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_searches(part):
    """Programs whose results lead to one argument each."""
    for k in range(part, 2 * COUNT, PARTS):
        check(resultfuzz.draw(SEED + 5 * k + 4), ("aot_eager",))


def test_linear_backwards_are_linear():
    checked = 0
    for seed in range(SEED, SEED + 150):
        program = functionfuzz.draw(seed)
        scope = {"torch": torch, "flat": flat}
        exec(program.linear, scope)
        scope["numbers"] = lambda shape, at: numbers(torch, shape, "float64", at)
        try:
            exec(program.caller[0], scope)
            inputs = [x for x in (scope["a"], scope["b"]) if x.requires_grad]
            outs = [t for t in scope["f"](scope["a"], scope["b"]) if t.requires_grad]
            slopes = [
                torch.autograd.grad(outs, inputs, [k * t.detach().cos() + j for t in outs], retain_graph=True, allow_unused=True)
                for k, j in ((1, 0), (0, 2), (1, 2))
            ]
        except RuntimeError:
            continue
        for one, other, both in zip(*slopes):
            if both is not None:
                torch.testing.assert_close(one + other, both)
                checked += 1
    assert checked > 50


# -- what they have found, by name


def programs(source, *caller, dtype="float32"):
    check(Program(source, caller, dtype), (*BACKENDS, "inductor"))


SCAN = """
class Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, A, X):
        a, x = A.clone().transpose(0, 1), X.clone().transpose(0, 1)
        x[1].add_(a[1].mul(x[0]))
        ctx.save_for_backward(A, x)
        return x.transpose(0, 1)

    @staticmethod
    def backward(ctx, grad):
        A, x = ctx.saved_tensors
        g, a = grad.clone().transpose(0, 1), A.transpose(0, 1)
        g[0].add_(a[1].mul(g[1]))
        q = torch.zeros_like(x)
        q[1:].add_(x[:-1] * g[1:])
        return q.transpose(0, 1), g.transpose(0, 1)

def f(A, X):
    return Scan.apply(A.sigmoid(), X * 2).sin()
"""
TWO = (
    "a, b = numbers((4, 6), 1).requires_grad_(), numbers((4, 6), 2).requires_grad_()",
    "r = f(a, b)",
    "log(r)",
    "flat(r)[0].sum().backward()",
    "log([x.grad is None for x in (a, b)], [x.grad for x in (a, b) if x.grad is not None])",
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_backwards_that_write_into_views_of_clones(dtype):
    programs(SCAN, *TWO, *TWO, dtype=dtype)


FUNCTION = """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
{forward}

    @staticmethod
    def backward(ctx, *g):
{backward}

def f(a, b):
{body}
"""


def function(forward, backward, body):
    """A program with one custom function; several lines are divided by semicolons."""
    rows = lambda text, by: "\n".join(" " * by + line.strip() for line in text.split(";"))
    return FUNCTION.format(forward=rows(forward, 8), backward=rows(backward, 8), body=rows(body, 4))


def test_results_of_a_custom_function_that_share_memory():
    programs(
        function("t = a + b; return t, t[1:]", "return g[0] * 2, None", "return F.apply(a * 2, b)"),
        *TWO,
        "log(same_memory(r)); r[0].detach().zero_(); log(r)",
    )


def test_a_result_of_a_custom_function_is_written_afterwards():
    programs(function("return a * b", "return g[0] * 2, g[0]", "r = F.apply(a, b); r.mul_(2); return r,"), *TWO)


def test_a_backward_that_reads_the_result_sees_that_it_was_written():
    source = function(
        "t = a * b; ctx.save_for_backward(t); return t",
        "return g[0] * ctx.saved_tensors[0], None",
        "r = F.apply(a, b); r.mul_(2); return r,",
    )
    logs = [
        observe(flambeau, Program(source, TWO, "float32"), wrap)
        for wrap in (lambda f: f, lambda f: flambeau.compile(f, backend="eager"))
    ]
    assert all(any("modified by an inplace operation" in str(entry) for entry in log) for log in logs)


def test_a_custom_function_whose_gradient_is_none_has_a_history():
    programs(
        function("return a * b", "return None, None", "return F.apply(a, b).sin(), a * 2"),
        *TWO,
        "log([t.requires_grad for t in r])",
    )


def test_a_backward_is_given_gradients_in_the_strides_that_it_was_traced_with():
    programs(
        function(
            "return a * b",
            "return g[0].contiguous().view(-1).view(4, 6) * 2, None",
            "r = F.apply(a, b); return (r.t() * torch.ones(6, 4)).t(),",
        ),
        *TWO,
    )


@pytest.mark.parametrize(
    "f",
    [
        "x.clone().view(-1)",
        "(x * 1)[...]",
        "x.clone().transpose(0, 1)",
        "x.clone()[1:]",
        "(x * 2).view(-1), (x * 2).view(-1)",
        "x.clone().view(-1), x.clone().view(-1)",
        "x.clone().detach(), x.view(-1)",
    ],
)
def test_results_do_not_lie_in_the_memory_of_arguments(f):
    for grad in (False, True):
        programs(
            f"def f(x):\n    return {f},",
            f"x = numbers((2, 4), 1).requires_grad_({grad})",
            "r = flat(f(x))",
            "log(same_memory([x, *r]))",
            "r[0].detach().add_(1)",
            "log(x, r)",
        )


def test_a_refused_write_has_written_nothing():
    programs(
        "def f(y):\n    y.clamp_(max=1.)\n    return y * 2",
        "x = numbers((2, 4), 1).requires_grad_()",
        "r = f(x.view(2, 4))",
        "log(x)",
    )


@pytest.mark.parametrize(
    "write", ["uniform_()", "normal_()", "bernoulli_(0.5)", "random_()", "eq_(1.)", "exponential_()", "zero_()"]
)
@pytest.mark.parametrize("part", ["", "[1:]"])
def test_what_is_drawn_over_a_value_keeps_a_history_of_zeros(write, part):
    programs(
        f"def f(x):\n    c = x.clone()\n    v = c{part}\n    v.{write}\n    return (c * x.detach()).sin(),",
        "x = numbers((3, 4), 1).requires_grad_()",
        "r = f(x)",
        "log(r[0].requires_grad)",
        "r[0].sum().backward()",
        "log(x.grad is None, (x.grad == 0)[1:])",
    )


def test_hooks_of_results_that_no_gradient_reaches_are_not_called():
    programs(
        "def f(x):\n    y = x * 1\n    v = y * 2\n    v.register_hook(lambda g: g * 2)\n    return y, v",
        "x = numbers((3,), 1).requires_grad_()",
        "r = f(x)",
        "r[0].sum().backward(retain_graph=True)",
        "log(x.grad)",
        "r[1].sum().backward()",
        "log(x.grad)",
    )


def test_numbers_beside_a_captured_backward():
    source = (
        "kept = {}\ndef f(x):\n    kept.update(a=x.detach().sum().item())\n    w = torch.ones(3, requires_grad=True)\n"
        "    return torch.autograd.grad((x.detach() * w).sum(), w)[0] * kept['a']"
    )
    programs(source, "log(f(numbers((2, 3), 1)))", "log(f(numbers((2, 3), 2)))", "log(kept['a'])")


@pytest.mark.parametrize("holder", ["optimizer", "module"])
def test_gradients_that_are_views_are_zeroed(holder):
    layer = torch.nn.Linear(3, 3)
    owner = layer if holder == "module" else torch.optim.SGD(layer.parameters(), 0.1)
    memory = torch.ones(9)
    layer.weight.grad = memory.view(3, 3)
    owner.zero_grad(set_to_none=False)
    assert (memory == 0).all() and layer.weight.grad.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr()
    layer.weight.grad = layer.weight * 2
    owner.zero_grad(set_to_none=False)
    assert layer.weight.grad.grad_fn is None and (layer.weight.grad == 0).all()
    layer.weight.grad = torch.ones(3, 3, requires_grad=True)
    owner.zero_grad(set_to_none=False)
    assert not layer.weight.grad.requires_grad


# -- halves that decide

HALVES = [
    "x.amax(1)",
    "x.amin(1)",
    "x.max()",
    "x.min()",
    "x.norm(float('inf'), dim=1)",
    "sum(torch.aminmax(x, dim=1))",
    "x.amax((0, 1))",
    "(x - x.amax(1, keepdim=True)).exp().sum(1).log()",
    "torch.where(x == x.amax(1, keepdim=True), x, 0.)",
    "(x - x.amin()).sqrt() * (x - x.amin() > 0)",
    "x.masked_fill(x < x.topk(3, 1)[0][:, -1:], 0.)",
    "x.sort(1)[0].cumsum(1).amax(1)",
    "torch.maximum(x, x.flip(1)).amax(1)",
    "x.clamp(x.amin(), x.amax())",
    "torch.dist(x, x.flip(0), float('inf'))",
]


def gradients(text, dtype, wrap):
    scope = {"torch": flambeau}
    f = wrap(eval(f"lambda z: (lambda x: {text})(g(z))", {**scope, "g": VALUES[dtype]}))
    found = []
    for seed in range(3):
        x = torch.tensor(
            np.random.default_rng(seed).standard_normal((4, 7)), dtype=getattr(torch, dtype.split()[0])
        ).requires_grad_()
        out = f(x)
        out.float().sum().backward()
        found.append((out.detach().float().numpy(), x.grad.float().numpy()))
    return found


VALUES = {
    "bfloat16": lambda z: z.sin() * 3.3,
    "float16": lambda z: z.tanh() * 1.7 + z,
    "float32 cast": lambda z: (z.sin() * 3.3).bfloat16().float(),
}


@pytest.mark.parametrize("dtype", VALUES)
def test_extremes_of_halves_find_themselves_again(dtype):
    """No gradient is NaN, nor lost, where eager's is not; ties may go to a neighbour."""
    for text in HALVES:
        wanted = gradients(text, dtype, lambda f: f)
        with config.patch(keep_half_rounding=False, strict=True):
            flambeau.compiler.reset()
            got = gradients(text, dtype, lambda f: flambeau.compile(f, backend="loops"))
        for (a, da), (b, db) in zip(wanted, got):
            assert np.isfinite(b).all() >= np.isfinite(a).all() and np.isfinite(db).all() >= np.isfinite(da).all(), text
            assert (db != 0).any() or not (da != 0).any(), text
            assert np.allclose(a, b, rtol=0.05, atol=0.25), text


@pytest.mark.parametrize(
    "f, wanted",
    [
        (lambda a, b: a.bfloat16() == b.bfloat16(), True),
        (lambda a, b: (a * 1.0).half() == (b * 1.0).half(), True),
        (lambda a, b: (a * 1e5).half().float(), float("inf")),
        (lambda a, b: (a.half() * 10).long(), None),
        (lambda a, b: (a.bfloat16() * 3).argmax(), None),
    ],
)
@pytest.mark.parametrize("backend", ["loops", "inductor"])
def test_what_halves_decide_is_decided_as_in_eager(f, wanted, backend):
    a = torch.tensor([1.0, 0.1, 0.3, 0.7, 1.1, 1.101])
    b = a + 1e-6
    with config.patch(keep_half_rounding=False, strict=True):
        got = flambeau.compile(f, backend=backend)(a, b)
    assert torch.equal(got, f(a, b))
    assert wanted is None or (got == wanted).all() or got[0] == wanted


def test_the_programs_own_casts_round_where_they_are_saved_too():
    programs(
        "def f(x):\n    v = x.bfloat16().float()\n    v.clamp_(max=1.)\n    return v.clone().reshape(-1), v.view_as(v)",
        "x = numbers((2, 4), 1).requires_grad_()",
        "r = f(x)",
        "log(r)",
        "r[0].sum().backward()",
        "log(x.grad)",
    )


def test_kernels_without_a_decision_round_no_more_than_before():
    """Softmax, normalisation and activations of halves: one rounding, at the store."""
    from flambeau.inductor.graph import half_rounding

    for f in (
        lambda x: (x * 2).softmax(-1),
        lambda x: torch.nn.functional.layer_norm(x * 2, (8,)),
        lambda x: torch.nn.functional.gelu(x * 2) * x,
        lambda x: torch.nn.functional.silu(x * 2) + x,
        lambda x: (x * 2).logsumexp(-1),
        lambda x: torch.relu(x * 2) * x,
    ):
        made = []
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(half_rounding, "insert_rounding", lambda *args: made.append(args))
            flambeau.compile(f, backend="loops")(
                torch.ones(4, 8, dtype=torch.bfloat16, requires_grad=True)
            ).float().sum().backward()
        assert not made


def test_the_comparison_sees_differences():
    entry = (2,), "float32", np.array([1.0, 2.0])
    assert difference([entry], [entry], 1e-4) is None
    assert difference([entry], [((2,), "float32", np.array([1.0, 2.1]))], 1e-4)
    assert difference([entry], [((2,), "float32", np.array([1.0, np.nan]))], 1e-4)
    assert difference([True], [False], 1e-4) and difference([True], [], 1e-4)
    assert difference([True], [("raises", "RuntimeError", "")], 1e-4)


def test_whole_numbers_that_halves_decided_are_compared_with_every_rounding(monkeypatch):
    """A product that is not rounded on its way decides an element otherwise than doubles and eager do; a wrong one is still told."""
    source = "def f(x, y):\n    t = (x * 2 * y).sigmoid()\n    return t, (t > 0.75) * 1\n"
    program = Program(source, ("log(f(numbers((6, 8), 8), numbers((6, 8), 10008)))",), "bfloat16")
    assert differs(program, "loops") is None
    own = flambeau.compile
    monkeypatch.setattr(flambeau, "compile", lambda f, **how: lambda *args: (own(f, **how)(*args)[0], f(*args)[1] ^ 1))
    assert "'int64'" in differs(program, "loops")


@pytest.mark.parametrize("backend", ("eager", "aot_eager", "loops", "inductor"))
@pytest.mark.parametrize("change", ("x.add_(1)", "x.unsqueeze_(0)", "y.mul_(2)"))
def test_a_backward_checks_only_what_it_reads(backend, change):
    """One node stands for all results; for gradients of some of them, what the others need may have changed."""

    def program(x, y):
        first = x * x.sigmoid()
        y.add_(1)
        return y, first, y.exp()

    def told(run, k, order):
        leaves = [flambeau.ones(2, n, requires_grad=True) for n in (4, 4)]
        x, y = (t * 1 for t in leaves)
        r = run(x, y)
        exec(change, {"x": x, "y": y})
        for j in order:
            try:
                r[(j + k) % 3].sum().backward(retain_graph=True)
                yield [t.grad is not None and t.grad.tolist() for t in leaves]
            except RuntimeError as error:
                yield str(error)[:95]

    compiled = flambeau.compile(program, backend=backend)
    for k in range(3):
        for order in ((0,), (0, 1, 2), (2, 0)):
            for ours, theirs in zip(told(compiled, k, order), told(program, k, order), strict=True):
                assert type(ours) is type(theirs) and (
                    ours == theirs
                    if type(ours) is str
                    else np.allclose(*(np.array([v or np.zeros((2, 4)) for v in each]) for each in (ours, theirs)), rtol=1e-6)
                )


@pytest.mark.parametrize("backend", ("aot_eager", "loops", "inductor"))
def test_a_search_runs_only_what_leads_to_what_it_asks_for(backend):
    """One node stands for all results. Where none of those that are differentiated depends on what is asked for, nothing runs and
    nothing is used up; what was used up raises only where eager's would."""

    def program(x, y):
        x.mul_(2.0).sin_()
        v = y.sin() * y
        return x, v, x.exp()

    def grad(r, k, wanted, **how):
        return torch.autograd.grad(r[k].sum(), wanted, allow_unused=True, **how)

    acts = (
        lambda r, x, y: grad(r, 1, x),
        lambda r, x, y: grad(r, 0, y),
        lambda r, x, y: grad(r, 1, (x, y)),
        lambda r, x, y: grad(r, 1, x, create_graph=True),
        lambda r, x, y: r[1].sum().backward(),
        lambda r, x, y: sum(t.sum() for t in r).backward(),
    )

    def told(run, order):
        x, y = torch.full((2, 3), 0.3, requires_grad=True), torch.full((2, 3), 0.7, requires_grad=True)
        r = run(x * 1, y)
        for k in order:
            try:
                found = acts[k](r, x, y) or ()
            except RuntimeError as error:
                yield str(error)[:80]
                return  # a backward that eager breaks off has given some gradients already
            yield [None if g is None else g.tolist() for g in (*found, x.grad, y.grad)]

    compiled = flambeau.compile(program, backend=backend)
    for order in itertools.product(range(len(acts)), repeat=3):
        for wanted, found in zip(told(program, order), told(compiled, order), strict=True):
            assert type(wanted) is type(found) and (type(wanted) is list or wanted == found), (order, wanted, found)
            if type(wanted) is list:
                assert [g is None for g in wanted] == [g is None for g in found], (order, wanted, found)
                for a, b in zip(wanted, found):
                    assert a is None or np.allclose(a, b, rtol=1e-5), (order, wanted, found)


def test_double_backwards_of_what_is_left_read_inputs_alone():
    """`create_graph` runs the forward again: what another result's backward used up, or a caller wrote since, it does not read."""
    given = (
        "x = numbers((2, 4), 1).requires_grad_()",
        "y = numbers((2, 4), 5).requires_grad_()",
        "a = x * 1; b = y * 1; r = f(a, b)",
    )
    search = (
        "g = torch.autograd.grad(r[1].sum(), (x, y), allow_unused=True, create_graph=True); log([v is None for v in g], g[0])"
    )
    source = "def f(x, y):\n    return y.sin() * y, x.sin() * 2"
    programs(
        source,
        *given,
        "log(torch.autograd.grad(r[0].sum(), y))",
        search,
        "log(g[0].grad_fn is None)",
        "g[0].sum().backward()",
        "log(x.grad)",
    )
    programs(source.replace("x.sin()", "x"), *given, "r[0].sum().backward()", "log(y.grad)", search)
    programs(source.replace("return", "y = y * 1; return y,"), *given, "r[0].detach().zero_()", search.replace("r[1]", "r[2]"))


def test_a_search_for_another_s_gradient_leaves_the_compiled_backward_alone():
    """No output depends on `x` but `x` itself, so that what is saved for `y` is still there afterwards."""
    programs(
        "def f(x, y):\n    y = y * y\n    return x, y, y.unflatten(1, (2, -1))",
        "x = numbers((2, 4), 1).requires_grad_()",
        "y = numbers((2, 4), 5).requires_grad_()",
        "r = f(x, y)",
        "log([g is None for g in torch.autograd.grad(r[2].sum(), x, allow_unused=True)])",
        "sum(t.sum() for t in r).backward()",
        "log(x.grad, y.grad)",
    )
