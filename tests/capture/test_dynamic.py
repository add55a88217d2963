"""Guards and symbolic sizes of captured frames: what is compiled again, what is not, and what stays right."""

import math

import pytest

import flambeau as torch
from flambeau.runtime import counters
from flambeau.runtime.errors import ConstraintViolation

from .harness import Recording, captured, same  # noqa: F401

torch.manual_seed(1)


def run(fn, *calls, **settings):
    """Compile, call with each tuple of arguments, compare; the backend and the counters."""
    counters.reset()
    backend = Recording()
    compiled = torch.compile(fn, backend=backend, **settings)
    for args in calls:
        expected = fn(*args)
        assert same(expected, compiled(*args)), args
    seen = counters.snapshot()
    assert seen["fallbacks"] == {} and seen["graphs"] == len(backend.graphs) > 0
    return backend, seen


def x(*sizes):
    return torch.randn(*sizes)


def test_second_size_becomes_symbolic():
    _, seen = run(lambda a: a * 2 + a.shape[0], (x(4, 3),), (x(5, 3),), (x(6, 3),), (x(9, 3),))
    assert seen["graphs"] == 2 and seen["recompiles"] == 1


def test_dynamic_true_is_symbolic_at_once():
    _, seen = run(lambda a: a + a.shape[0] * a.shape[1], (x(4, 3),), (x(5, 7),), (x(6, 2),), dynamic=True)
    assert seen["graphs"] == 1


def test_dynamic_false_stays_static():
    _, seen = run(lambda a: a + 1, (x(4, 3),), (x(5, 3),), (x(6, 3),), dynamic=False)
    assert seen["graphs"] == 3


def test_mark_dynamic():
    a = x(4, 3)
    torch.compiler.mark_dynamic(a, 0)
    _, seen = run(lambda v: v.sum(0) + v.shape[0], (a,), (x(5, 3),), (x(8, 3),))
    assert seen["graphs"] == 1


def test_branch_on_size_is_guarded():
    def fn(a):
        return a * 2 if a.shape[0] > 5 else a * 3

    _, seen = run(fn, (x(4, 3),), (x(3, 3),), (x(8, 3),), (x(9, 3),), (x(2, 3),), dynamic=True)
    assert seen["graphs"] == 2


def test_divisibility_is_guarded():
    def fn(a):
        return a * 2 if a.shape[0] % 2 == 0 else a * 3

    _, seen = run(fn, (x(4, 3),), (x(5, 3),), (x(8, 3),), (x(7, 3),), dynamic=True)
    assert seen["graphs"] == 2


def test_zero_and_one_have_their_own_code():
    _, seen = run(lambda a: a + a.shape[0], (x(1, 3),), (x(4, 3),), (x(5, 3),), (x(1, 3),), dynamic=True)
    assert seen["graphs"] == 2


def test_views_with_symbols():
    def fn(a):
        n, m = a.shape
        return a.reshape(m * n).view(n, m).t().reshape(-1), a[: n // 2]

    _, seen = run(fn, (x(4, 6),), (x(8, 6),), (x(10, 2),), dynamic=True)
    assert seen["graphs"] <= 2


def test_strides_of_one_element_mean_nothing():
    """A dimension of size 1 may have any stride; it is not asked for, and does not compile again."""
    assert x(1, 6)[:, :4].stride() == (6, 1)
    _, seen = run(lambda a: a * 2, (x(1, 6)[:, :4],), (x(6, 5)[2:3],), (x(1, 7),), dynamic=True)
    assert seen["graphs"] == 1
    run(lambda a: a.sum(1) + 1, (x(3, 0),), (x(4, 0),), dynamic=True)


def test_settled_sizes_reach_symbolic_floats():
    """The correction 1 / (n - 1) is made from sizes before one of them becomes a number."""

    def fn(a):
        scale = 1.0 / (a.numel() - 1)
        return [a[k] * scale for k in range(a.shape[0])]

    run(fn, (x(3, 4),), (x(3, 5),), (x(3, 9),), dynamic=True)


def test_sizes_are_returned():
    def fn(a):
        return a + 1, a.shape[0] * 2 + 1, a.shape, f"{a.shape[1]}"

    run(fn, (x(4, 3),), (x(5, 3),), (x(6, 3),))


def test_loop_over_a_size_specialises():
    def fn(a):
        out = a
        for i in range(a.shape[0]):
            out = out + i
        return out

    run(fn, (x(2, 3),), (x(4, 3),), (x(2, 3),))


def test_int_argument_becomes_symbolic():
    _, seen = run(lambda a, n: a * n + n, (x(2, 3), 5), (x(2, 3), 6), (x(2, 3), 7), (x(2, 3), 9))
    assert seen["graphs"] == 2


def test_equal_sizes_are_guarded():
    def fn(a, b):
        return a + b

    run(fn, (x(4, 3), x(4, 3)), (x(5, 3), x(5, 3)), (x(6, 3), x(1, 3)), (x(7, 3), x(7, 3)), dynamic=True)


def test_dtype_and_rank_are_guarded():
    _, seen = run(lambda a: a + 1, (x(2, 3),), (x(2, 3).to(torch.float64),), (x(2, 3, 1),), (x(2, 3),))
    assert seen["graphs"] == 3


def test_strides_are_guarded():
    def fn(a):
        return a + 1 if a.is_contiguous() else a + 2

    run(fn, (x(4, 3),), (x(3, 4).t(),), (x(4, 3),))


def test_requires_grad_and_grad_mode_are_guarded():
    def fn(a):
        return a * 2

    a = torch.ones(2, 3, requires_grad=True)
    counters.reset()
    compiled = torch.compile(fn, backend=Recording())
    assert compiled(a).requires_grad and not compiled(a.detach()).requires_grad
    with torch.no_grad():
        assert not compiled(a).requires_grad
    assert counters.snapshot()["graphs"] == 3


def test_constants_are_guarded():
    def fn(a, flag, name):
        return a + 1 if flag and name == "add" else a * 2

    _, seen = run(fn, (x(2), True, "add"), (x(2), False, "add"), (x(2), True, "other"), (x(2), True, "add"))
    assert seen["graphs"] == 3


def test_none_against_tensor():
    def fn(a, b=None):
        return a if b is None else a + b

    counters.reset()
    compiled = torch.compile(fn, backend=Recording())
    a = x(2)
    assert compiled(a) is a and same(compiled(a, a), a + a) and compiled(a, None) is a


def test_containers_are_guarded():
    def fn(items, d):
        total = items[0]
        for v in items[1:]:
            total = total + v
        return total * d["k"]

    a = x(2)
    run(fn, ([a, a], {"k": 1}), ([a, a, a], {"k": 1}), ([a, a], {"k": 2}), ([a, x(2)], {"k": 1, "z": 0}), ([a, a], {"k": 1}))


def test_dict_keys_are_guarded():
    def fn(a, d):
        for value in d.values():
            a = a * value
        return a + len(d)

    a = x(2)
    run(fn, (a, {"k": 2.0}), (a, {"k": 2.0, "z": 3.0}), (a, {"z": 2.0}), (a, {}), (a, {"k": 2.0}))


def test_shared_memory_of_inputs_is_guarded():
    """Two tensor objects over the same bytes: a write to one shows in the other."""

    def fn(a, b):
        a.add_(1)
        return a * b

    compiled = torch.compile(fn, backend="aot_eager")
    start = x(4)
    for other in (lambda a: start * 1.0, lambda a: a.view(4), lambda a: start * 1.0):
        a, plain = start.clone(), start.clone()
        assert same(fn(plain, other(plain)), compiled(a, other(a))) and same(plain, a)


def test_identity_of_inputs_is_guarded():
    def fn(a, b):
        a.add_(1)
        return a + b

    a = x(2)
    for order in (((a.clone(), a.clone()), "same"), ("same", (a.clone(), a.clone()))):
        compiled = torch.compile(fn, backend=Recording())
        for pair in order:
            p, q = (a.clone(), None) if pair == "same" else pair
            q = p if q is None else q
            expected = fn(*((v := p.clone()), v) if pair == "same" else (p.clone(), q.clone()))
            assert same(expected, compiled(p, q))


def test_changed_global_is_seen():
    scope = {"torch": torch, "SCALE": 2}
    exec("def fn(a): return a * SCALE", scope)
    compiled = torch.compile(scope["fn"], backend=Recording())
    a = x(2)
    assert same(compiled(a), a * 2)
    scope["SCALE"] = 5
    assert same(compiled(a), a * 5)


def test_shadowed_builtin_is_seen():
    scope = {}
    exec("def fn(a): return a * len([1, 2])", scope)
    compiled = torch.compile(scope["fn"], backend=Recording())
    a = x(2)
    assert same(compiled(a), a * 2)
    scope["len"] = lambda v: 7
    assert same(compiled(a), a * 7)


def test_replaced_helper_is_seen():
    scope = {}
    exec("def helper(a): return a + 1\ndef fn(a): return helper(a)", scope)
    compiled = torch.compile(scope["fn"], backend=Recording())
    a = x(2)
    assert same(compiled(a), a + 1)
    exec("def helper(a): return a + 2", scope)
    assert same(compiled(a), a + 2)


def test_fresh_closures_do_not_recompile():
    def fn(f, a):
        return f(a)

    def make(n):
        return lambda v: v * n

    a = x(2)
    _, seen = run(fn, (make(3), a), (make(3), a), (make(3), a))
    assert seen["graphs"] == 1


def test_closure_contents_are_guarded():
    def fn(f, a):
        return f(a)

    def make(n):
        return lambda v: v * n

    a = x(2)
    run(fn, (make("3" and 3.5), a), (make(4.5), a), (make(3.5), a))


def test_marked_dimension_that_is_one_number_is_an_error():
    def fn(a):
        return a * 2 if a.shape[0] == 4 else a

    a = x(4, 3)
    torch.compiler.mark_dynamic(a, 0)
    with pytest.raises(ConstraintViolation, match=r"a.size\(0\) was marked dynamic, but it is always 4 here.*s0 == 4"):
        torch.compile(fn, backend=Recording())(a)
    b = x(4, 3)
    torch.compiler.maybe_mark_dynamic(b, 0)
    run(fn, (b,), (x(5, 3),), (x(6, 3),))
    c = x(1, 3)
    torch.compiler.mark_dynamic(c, 0)
    with pytest.raises(ConstraintViolation, match="always 1"):
        torch.compile(fn, backend=Recording())(c)


def test_range_of_a_mark_is_relied_on_and_guarded():
    def fn(a):
        return a * 2 if a.shape[0] <= 10 else a * 3

    a, b = x(4, 3), x(50, 3)
    torch.compiler.mark_dynamic(a, 0, min=2, max=8)
    torch.compiler.mark_dynamic(b, 0, min=2, max=8)
    backend, seen = run(fn, (a,), (x(8, 3),), (x(12, 3),))
    assert seen["graphs"] == 2 and not any("s0 <= 10" in str(g) for g in backend.graphs[0].env.guards)
    with pytest.raises(ConstraintViolation, match="is 50, and mark_dynamic said"):
        torch.compile(fn, backend=Recording())(b)


def test_numbers_beyond_64_bits_are_constants():
    def fn(a, n):
        return a + n % 7 if n * n > 10 else a

    run(fn, *((x(3), n) for n in (5, 6, 2**31, 2**40, 2**62, 2**70)))


def test_whole_numbers_from_symbolic_ones():
    def fn(a):
        n = a.shape[0]
        halves = int(n / 2), math.floor(n / 3), math.ceil(n / 2), divmod(n, 3), divmod(20, n), ~n
        return a[: int(n / 2)] * math.sqrt(n), halves, math.log(n) + math.exp(n / 8) + math.tanh(n)

    _, seen = run(fn, *((x(n, 2),) for n in (8, 9, 10, 17, 11)), dynamic=True)
    assert seen["graphs"] == 1


ERRORS = {
    "product": (lambda a, n: a @ a, lambda e: str(e)),
    "view": (lambda a, n: a.view(7, n + 9), str),
    "sum": (lambda a, n: a + torch.ones(n + 1, 2), repr),
    "index": (lambda a, n: a[n + 1], lambda e: e.args[0]),
    "cat": (lambda a, n: torch.cat([a, torch.ones(2, 3, 4)]), lambda e: f"{e}"),
    "number": (lambda a, n: torch.ones(n)[n], lambda e: str(e).upper()),
    "product of both": (lambda a, n: a.t() @ a.t(), lambda e: (str(e), len(str(e)))),
}


@pytest.mark.parametrize("name", ERRORS)
def test_texts_of_errors_tell_the_sizes_of_each_call(name):
    act, tell = ERRORS[name]

    def fn(a):
        try:
            return act(a, a.shape[0])
        except (RuntimeError, IndexError) as error:
            return tell(error), a * 2

    compiled = torch.compile(fn, backend="eager")
    for n in (3, 4, 5, 12):
        (told, doubled), (wanted, plain) = compiled(x(n, n + 2)), fn(x(n, n + 2))
        assert told == wanted and doubled.shape == plain.shape


DERIVED = {
    "broadcast": lambda n, y: torch.ones(n % 3 + 1, 3) + y,
    "broadcast, the error caught": lambda n, y: added(torch.ones(n % 3 + 1), y[0]),
    "order in memory": lambda n, y: (
        torch.ones(3, n % 3 + 1).t().is_contiguous(),
        torch.ones(3, n % 3 + 1).t().contiguous().stride(),
    ),
    "squeezed": lambda n, y: torch.ones(n % 3 + 1, 3).squeeze(),
    "expanded": lambda n, y: torch.ones(n % 3 + 1, 3).expand(4, 3),
    "written": lambda n, y: torch.zeros(4, 3).copy_(torch.ones(n % 3 + 1, 3)),
    "a slice": lambda n, y: y[: n % 3] + y[:2],
    "a half": lambda n, y: torch.ones(n // 2, 3) * y,
    "batches": lambda n, y: torch.ones(n % 3 + 1, 2, 4) @ y.expand(4, 4, 3),
}


def added(x, y):
    try:
        return x + y
    except RuntimeError:
        return x


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops", "inductor"])
@pytest.mark.parametrize("name", DERIVED)
def test_sizes_that_are_computed_and_may_be_one(name, backend):
    """As sizes of inputs do, they have code of their own at 0 and 1: a rule of shape takes a symbol for at least 2."""

    def shown(function, n):
        try:
            return repr(function(n, torch.arange(12.0).reshape(4, 3)))
        except (RuntimeError, ValueError) as error:
            return type(error).__name__

    compiled = torch.compile(DERIVED[name], backend=backend)
    for n in (2, 4, 3, 6, 5, 9, 1, 8, 10):
        assert shown(compiled, n) == shown(DERIVED[name], n), n
