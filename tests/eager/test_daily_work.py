"""What training and loading met: checkpoints under autocast, tensors over storages, reductions that scatter, files of the store."""

import inspect
import os
import shutil

import numpy as np
import pytest

import flambeau as torch
from flambeau.runtime import artifact_store
from flambeau.runtime.config import config
from flambeau.utils.checkpoint import checkpoint

inf = float("inf")


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("caching", [False, True])
def test_a_checkpoint_runs_again_under_the_same_autocast(reentrant, caching):
    lin, seen = torch.nn.Linear(4, 4), []

    def block(x):
        y = lin(x)
        seen.append((y.dtype, torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()))
        return y.sin()

    x = torch.ones(2, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=caching):
        y = checkpoint(block, x, use_reentrant=reentrant)
    y.float().sum().backward()
    assert seen == [(torch.bfloat16, True, caching)] * 2 and not torch.is_autocast_enabled("cpu")
    seen.clear()
    y = checkpoint(block, x, use_reentrant=reentrant)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y.sum().backward()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [(torch.float32, False, True)] * 2


def test_a_tensor_over_a_storage_is_its_memory(tmp_path):
    name = tmp_path / "w.bin"
    name.write_bytes(bytes(range(256)) * 16)
    storage = torch.UntypedStorage.from_file(str(name), False, 4096)
    part = storage[1024:4096]
    for make in (torch.asarray, torch.as_tensor, torch.tensor):
        t = make(part, dtype=torch.uint8)
        assert t[:3].tolist() == [0, 1, 2] and t.numel() == 3072 and t.data_ptr() == storage.data_ptr() + 1024
    assert torch.asarray(storage).dtype is torch.int64 and torch.asarray(storage, dtype=torch.float32).shape == (1024,)
    t[0] = 9
    assert storage[1024] == 9
    values = torch.ones(4)
    assert (
        torch.asarray(values.storage()).data_ptr() == values.data_ptr() and torch.asarray(values.storage()).dtype is torch.float32
    )
    with pytest.raises(RuntimeError, match="whole number of elements"):
        torch.asarray(storage[:3], dtype=torch.float32)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
def test_numbers_beyond_a_type_are_cast_alike(kind):
    d = getattr(torch, kind)
    for number in (inf, -inf, float("nan"), 3e9, -3e20, 300.7, -1.5):
        f = lambda x: torch.full((3,), number).to(d) + x  # noqa: B023, E731
        x = torch.zeros(3, dtype=d)
        for backend in ("aot_eager", "loops"):
            torch._dynamo.reset()
            assert torch.compile(f, backend=backend, fullgraph=True)(x).tolist() == f(x).tolist(), (number, backend)


CASES = [
    ([5.0, 1, 2], [5.0, 5, 1, 1, 0]),
    ([0.0, 0, 2], [0.0, 3, 2, 2, 2]),
    ([3.0, -inf, 2], [-inf] * 5),
    ([3.0, inf, 2], [inf] * 5),
]


@pytest.mark.parametrize("reduce", ["amax", "amin", "prod", "sum", "mean"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_in_graphs(reduce, include_self):
    index = torch.tensor([0, 0, 1, 1, 1])

    def f(x, source):
        return x.scatter_reduce(0, index, source, reduce, include_self=include_self)

    for xs, sources in CASES:
        seen = []
        for backend in (None, "eager", "aot_eager", "loops"):
            torch._dynamo.reset()
            x, source = (torch.tensor(v, requires_grad=True) for v in (xs, sources))
            out = (f if backend is None else torch.compile(f, backend=backend, fullgraph=True))(x, source)
            (out * torch.tensor([1.0, 10, 100])).sum().backward()
            seen.append([np.array(t.tolist()) for t in (out, x.grad, source.grad)])
        for other in seen[1:]:
            for a, b in zip(seen[0], other):
                np.testing.assert_allclose(a, b, rtol=1e-5)


def test_ties_of_scatter_reduce_share_as_in_pytorch():
    x, source = torch.tensor([5.0, -inf], requires_grad=True), torch.tensor([5.0, 5, -inf], requires_grad=True)
    out = x.scatter_reduce(0, torch.tensor([0, 0, 1]), source, "amax", include_self=False)
    out.backward(torch.ones(2))
    assert out.tolist() == [5, -inf] and x.grad.tolist() == [0, 0]
    np.testing.assert_allclose(source.grad.tolist(), [1 / 3, 1 / 3, 1 / 2], rtol=1e-6)


def test_a_file_of_the_store_under_another_name_is_refused(tmp_path):
    one, other = "ab" * 20, "cd" * 20
    with config.patch(cache_dir=str(tmp_path / "cache")):
        first, second = artifact_store.put(one, ".so", b"one"), artifact_store.put(other, ".so", b"other")
        assert artifact_store.read(one, ".so") == b"one"
        shutil.copy(first, second)
        assert (
            artifact_store.read(other, ".so") is None and not os.path.exists(second) and artifact_store.read(one, ".so") == b"one"
        )
        shutil.copy(first, first.removesuffix(".so") + ".graph")
        assert artifact_store.read(one, ".graph") is None
    artifact_store.forget()


def test_compiled_functions_tell_their_signature():
    class Net(torch.nn.Module):
        def forward(self, x, *, scale=2):
            return x * scale

    module = Net()
    compiled = torch.compile(module)
    method = compiled.dynamo_ctx(module.forward)
    assert inspect.getfullargspec(method).kwonlyargs == ["scale"] and method(torch.ones(2)).tolist() == [2, 2]
    assert str(inspect.signature(torch.compile(lambda a, b=1: a))) == "(a, b=1)"


def test_a_hook_on_what_nobody_uses_is_not_called():
    def f(x):
        y = x * 1
        y.mul(2).register_hook(lambda g: g * 2)
        return y

    for backend in ("eager", "aot_eager", "loops"):
        torch._dynamo.reset()
        x = torch.ones(3, requires_grad=True)
        torch.compile(f, backend=backend)(x).sum().backward()
        assert x.grad.tolist() == [1, 1, 1]
