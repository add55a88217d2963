"""`out=` and gradients: what refuses it is told with the name of the function, as PyTorch does; without gradients it writes."""

import pytest

import flambeau as torch
from flambeau.eager import dispatch

X = [[1.0, 2.0], [3.0, 5.0]]
CALLS = {
    "add": lambda x, out: torch.add(x, 1, out=out),
    "sin": lambda x, out: torch.sin(x, out=out),
    "matmul": lambda x, out: torch.matmul(x, x, out=out),
    "sum": lambda x, out: torch.sum(x, 0, out=out),
    "cat": lambda x, out: torch.cat([x, x], out=out),
    "stack": lambda x, out: torch.stack([x, x], out=out),
    "where": lambda x, out: torch.where(x > 2, x, x, out=out),
    "div": lambda x, out: torch.true_divide(x, 2, out=out),
    "abs": lambda x, out: torch.absolute(x, out=out),
    "acos": lambda x, out: torch.arccos(x, out=out),
    "clamp": lambda x, out: torch.clip(x, 0, 1, out=out),
    "sigmoid": lambda x, out: torch.special.expit(x, out=out),
    "pow": lambda x, out: torch.square(x, out=out),
    "linalg_vector_norm": lambda x, out: torch.linalg.vector_norm(x, out=out),
    "gather": lambda x, out: torch.gather(x, 0, torch.tensor([[0]]), out=out),
    "tril": lambda x, out: torch.tril(x, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
    "floor": lambda x, out: torch.floor(x, out=out),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("given, taken", ((True, False), (False, True), (True, True)))
def test_a_refusal_names_the_function(name, given, taken):
    x, out = torch.tensor(X, requires_grad=given), torch.zeros(2, requires_grad=taken)
    told = f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
    for call in (CALLS[name], torch.compile(CALLS[name], backend="aot_eager")):
        with pytest.raises(RuntimeError) as error:
            call(x, out)
        assert str(error.value) == told and out.tolist() == [0, 0]


def test_the_text_reaches_the_programs_handler():
    def program(x, out):
        try:
            torch.add(x, 1, out=out)
        except RuntimeError as error:
            return str(error)[:5], x * 2

    compiled = torch.compile(program, backend="aot_eager")
    assert compiled(torch.tensor(X, requires_grad=True), torch.zeros(2))[0] == "add()"


@pytest.mark.parametrize("name", CALLS)
def test_without_recording_it_writes(name):
    with torch.no_grad():
        x, out = torch.tensor(X, requires_grad=True), torch.zeros(2, requires_grad=True)
        found = CALLS[name](x, out)
        assert found is out and out.requires_grad and out.is_leaf
        assert repr(out.tolist()) == repr(CALLS[name](x.detach(), torch.zeros(0)).tolist())


NATIVE = {
    "sum": lambda x, **kw: torch.sum(x, 0, **kw),
    "mean": lambda x, **kw: torch.mean(x, (1,), **kw),
    "amax": lambda x, **kw: torch.amax(x, 1, **kw),
    "argmax": lambda x, **kw: torch.argmax(x, dim=1, **kw),
    "prod": lambda x, **kw: torch.prod(x, dim=0, **kw),
    "logsumexp": lambda x, **kw: torch.logsumexp(x, 0, **kw),
    "cumsum": lambda x, **kw: torch.cumsum(x, dim=1, **kw),
    "index_select": lambda x, **kw: torch.index_select(x, 0, torch.tensor([2, 0]), **kw),
    "addmm": lambda x, **kw: torch.addmm(x, x, x, beta=2, **kw),
}


@pytest.mark.parametrize("name", NATIVE)
def test_out_of_the_results_sizes_and_type_is_the_result(name):
    """The call that fits is done in front of Python: the same bits, one write, seen through views; every other is Python's."""
    call, x = NATIVE[name], torch.linspace(-1, 2, 9).reshape(3, 3)
    expected = call(x)
    whole = torch.zeros((2, *expected.shape), dtype=expected.dtype)
    out = whole[1]
    version = out._version
    assert call(x, out=out) is out and out._version == version + 1
    assert repr(whole[1].tolist()) == repr(expected.tolist()) and not whole[0].any()
    assert repr(call(x, out=torch.zeros(0, dtype=expected.dtype)).tolist()) == repr(expected.tolist())
    assert repr(call(x, out=None).tolist()) == repr(expected.tolist())
    with pytest.raises((RuntimeError, TypeError)):
        call(x, out=torch.zeros(expected.shape, dtype=torch.bool))
    with pytest.raises((RuntimeError, TypeError)):
        call(x, out=[1.0])


def test_out_may_be_what_is_read():
    x = torch.linspace(-1, 2, 9).reshape(3, 3)
    expected = x.cumsum(0)
    assert torch.cumsum(x, 0, out=x) is x and x.tolist() == expected.tolist()
    expected = x.sum(0)
    assert torch.sum(x, 0, out=x[1]).tolist() == expected.tolist() == x[1].tolist()


def test_functions_without_out_refuse_it():
    x = torch.ones(2, 3, 4)
    for call in (torch.nn.functional.dropout1d, torch.nn.functional.alpha_dropout, torch.clone):
        with pytest.raises(TypeError):
            call(x, out=x.clone())


MAPS = {
    "exp": lambda x, y, out: torch.exp(x, out=out),
    "add": lambda x, y, out: torch.add(x, y, out=out),
    "sub": lambda x, y, out: torch.sub(x, 2, out=out),
    "mul": lambda x, y, out: torch.mul(x, y, out=out),
    "atan2": lambda x, y, out: torch.atan2(x, y, out=out),
}


def _operands():
    x, y = torch.randn(7, 9), torch.randn(7, 9)
    x[0, 0], y[6, 8] = float("nan"), float("inf")
    memory = torch.randn(2, 7, 9)
    return {
        "apart": (x, y, torch.zeros(7, 9)),
        "into the first": (x, y, x),
        "into the second": (x, y, y),
        "overlapping": (memory.view(-1)[:63].view(7, 9), y, memory.view(-1)[5:68].view(7, 9)),
        "broadcast": (x, torch.randn(9), torch.zeros(7, 9)),
        "with gaps": (torch.randn(9, 7).t(), y, torch.zeros(7, 9)),
        "out with gaps": (x, y, torch.zeros(9, 7).t()),
        "of another type": (x, y, torch.zeros(7, 9, dtype=torch.float64)),
        "a narrower operand": (x.half(), y, torch.zeros(7, 9)),
        "whole numbers": (x.nan_to_num().long(), y, torch.zeros(7, 9)),
        "of another size": (x, y, torch.zeros(3)),
        "no elements": (torch.zeros(0, 9), torch.zeros(0, 9), torch.zeros(0, 9)),
    }


store = dispatch.store


@pytest.mark.parametrize("case", _operands())
@pytest.mark.parametrize("name", MAPS)
def test_large_results_are_written_by_blocks(name, case, monkeypatch):
    found = []
    for least in (1, 1 << 40):
        monkeypatch.setattr(dispatch, "OUT_FROM", least)
        monkeypatch.setattr(dispatch, "OUT_BLOCK", 16)
        torch.manual_seed(3)
        x, y, out = _operands()[case]
        version, stored = out._version, []
        monkeypatch.setattr(dispatch, "store", lambda *given: stored.append(given) or store(*given))
        assert MAPS[name](x, y, out) is out
        assert not stored or least > 1 or case not in ("apart", "into the first", "into the second")
        found.append((out, x, y, (out.dtype, out.shape, out.stride(), out._version - version)))
    assert found[0][3] == found[1][3]
    for a, b in zip(found[0][:3], found[1][:3]):
        torch.testing.assert_close(a, b, rtol=5e-7, atol=0, equal_nan=True)


def test_blocks_refuse_as_the_whole_does(monkeypatch):
    monkeypatch.setattr(dispatch, "OUT_FROM", 1)
    x = torch.randn(40)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.exp(x, out=torch.zeros(40, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.exp(x.requires_grad_(), out=torch.zeros(40))
    wanted = x.detach()
    for given, out in ((x * 2, torch.zeros(40)), (wanted, x * 2)):  # of which neither is a leaf
        before = out.tolist()
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            torch.exp(given, out=out)
        assert out.tolist() == before
    with torch.no_grad():
        assert torch.exp(x, out=torch.zeros(40)).tolist() == torch.exp(wanted).tolist()
