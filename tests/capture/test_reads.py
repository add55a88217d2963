"""Numbers and sizes that only the data knows: item(), tolist(), int(), nonzero() and masks stay in one graph."""

import pytest

import flambeau as torch
from flambeau.eager.nn import functional as F
from flambeau.runtime import counters

from .harness import captured, same  # noqa: F401


def append_item(a, seen):
    y = a.sin().mean()
    seen.append(y.item())
    return y * 2


def item_in_loop(a):
    total = 0.0
    for row in a:
        total += row.sum().item()
    return a * total


def integers(a):
    n = (a > 0).sum()
    return a * int(n) + float(n) / 2, int(n) % 3, n.item() // 2, -n.item(), sum(a[0].long().tolist())


def sizes(a):
    found = a.nonzero()
    return torch.ones(found.shape[0], 2).sum(0) + a.sum(), found.shape[0] * 2 + 1, found.t(), found.shape


def experts(x, one, two, route):
    out, choice = torch.zeros_like(x), (x @ route).argmax(-1)
    for k, weight in enumerate((one, two)):
        rows = (choice == k).nonzero().squeeze(-1)
        out = out.index_add(0, rows, (x[rows] @ weight).relu())
    return out


def aliases(a):
    b = a.clone()
    view = b.view(-1)
    view.add_(b.sum().item())
    return b, view


def written_last(a):
    n = a.sum().item()
    a.mul_(2)
    return a * n


def draws(a):
    b = F.dropout(a, 0.5)
    n = b.abs().sum().item()
    return F.dropout(b * n, 0.3) + torch.rand(4)


def unrecorded(a):
    with torch.no_grad():
        most = a.abs().max().item()
    return a / most


def error_after_a_read(a, index, seen):
    seen.append(1)
    n = a.sum().item()
    return F.embedding(index, F.dropout(a * n, 0.5))


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


PROGRAMS = [
    (append_item, lambda: [leaf(3, 4), []]),
    (item_in_loop, lambda: [leaf(5, 4)]),
    (integers, lambda: [leaf(5, 4)]),
    (sizes, lambda: [torch.randn(5).relu()]),
    (experts, lambda: [leaf(16, 4), leaf(4, 4), leaf(4, 4), torch.randn(4, 2)]),
    (aliases, lambda: [torch.randn(3, 4)]),
    (written_last, lambda: [torch.randn(3, 4)]),
    (draws, lambda: [leaf(3, 4)]),
    (unrecorded, lambda: [leaf(3, 4)]),
    (lambda a: a[a > 0] * 3, lambda: [leaf(30)]),
    (lambda a: torch.where(a > 0)[1] + 1, lambda: [torch.randn(4, 5)]),
]


def call(fn, args):
    """(result or error, gradients)."""
    torch.manual_seed(7)
    try:
        result = fn(*args)
    except IndexError as error:
        return str(error), torch.rand(1).tolist()
    first = result[0] if isinstance(result, tuple) else result
    if first.requires_grad:
        first.sum().backward()
    return result, [a.grad for a in args if isinstance(a, torch.Tensor)]


def close(a, b):
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype is b.dtype and torch.allclose(a.double(), b.double(), 1e-4, 1e-5)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(close, a, b))
    return type(a) is type(b) and (abs(a - b) <= 1e-4 * abs(a) + 1e-5 if isinstance(a, float) else a == b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("fn, make", PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_one_graph_without_breaks(fn, make, backend):
    counters.reset()
    compiled = torch.compile(fn, backend=backend, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        args = make()
        copies = [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else list(a) for a in args]
        assert close(call(fn, args), call(compiled, copies)) and close(args, copies)
    seen = counters.snapshot()
    assert seen["graphs"] == 1 and seen["breaks"] == {} and seen["fallbacks"] == {}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_error_after_a_read_starts_the_call_again(backend):
    """Eager runs it from the same generator state: its error, its effects and its draws."""
    compiled = torch.compile(error_after_a_read, backend=backend)
    for _ in range(2):
        plain, again = ([torch.ones(3, 4), torch.tensor([0, 9]), []] for _ in range(2))
        assert close(call(error_after_a_read, plain), call(compiled, again)) and close(plain, again) and plain[2] == [1]


def test_sizes_of_inputs_and_of_data():
    def fn(a):
        return a[a > 0].sum() + a.shape[0] * a.max().item()

    counters.reset()
    compiled = torch.compile(fn, dynamic=True)
    for n in (3, 5, 8, 4):
        a = torch.randn(n, 4)
        assert torch.allclose(compiled(a), fn(a))
    assert counters.snapshot()["graphs"] == 1 and counters.snapshot()["breaks"] == {}


def test_a_read_after_a_write_to_an_input_breaks():
    """A call with reads must be able to start again."""

    def fn(a):
        a.add_(1)
        n = a.sum().item()
        return a * n

    counters.reset()
    a, b = torch.ones(3), torch.ones(3)
    assert same(torch.compile(fn, backend="eager")(a), fn(b)) and same(a, b)
    assert counters.snapshot()["breaks"] == {"item": 1}


def test_a_question_to_the_data_breaks_there():
    def fn(a):
        n = a.sum().item()
        return a + n if n > 3 else a - n

    counters.reset()
    compiled = torch.compile(fn, backend="eager")
    for scale in (1.0, 4.0, 0.5, 9.0):
        assert same(compiled(torch.ones(2) * scale), fn(torch.ones(2) * scale))
    assert counters.snapshot()["breaks"] == {"data-dependent size": 1}
    with pytest.raises(RuntimeError, match="only the data knows"):
        torch.compile(fn, fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_rows_stored_under_a_mask_must_fit(backend):
    def fn(a, mask):
        out = a.new_zeros(4, 2)
        out[mask] = a
        return out * 2

    def doubled(a, mask):
        a = a.clone()
        a[mask] = a[mask] * 2
        return a

    counters.reset()
    compiled = torch.compile(fn, backend=backend)
    for mask in ([True, True, False, False], [True, False, False, False], [True] * 4):
        args = torch.ones(2, 2), torch.tensor(mask)
        if sum(mask) == 2:
            assert same(compiled(*args), fn(*args))
        else:
            with pytest.raises((ValueError, RuntimeError, IndexError), match="shape mismatch"):
                compiled(*args)
    assert counters.snapshot()["breaks"] == {}
    args = torch.randn(4, 2), torch.tensor([True, False, True, True])
    assert same(torch.compile(doubled, backend=backend, fullgraph=True)(*args), doubled(*args))


def test_printed_graph_reads_the_number():
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.compile_python()

    backend.takes_reads = True
    compiled = torch.compile(lambda a: a * a.sum().item() + a[a > 0].shape[0], backend=backend)
    a = torch.tensor([1.0, -2.0, 4.0])
    assert compiled(a).tolist() == (a * 3 + 2).tolist() and len(graphs) == 1
    assert "f0 = item\n" in graphs[0].print_python() and "u0 = nonzero.shape[0]" in graphs[0].print_python()
