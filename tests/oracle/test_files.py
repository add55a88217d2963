"""Files both ways between PyTorch and flambeau: what one saves the other loads, and the bytes agree."""

import collections
import io
import pickle

import numpy as np
import pytest

import flambeau as fb

torch = pytest.importorskip("torch")

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2"
).split()


def to_ours(obj, **kw):
    file = io.BytesIO()
    torch.save(obj, file, **kw)
    file.seek(0)
    return fb.load(file)


def to_torch(obj, **kw):
    file = io.BytesIO()
    fb.save(obj, file, **kw)
    file.seek(0)
    return torch.load(file)


def raw(t):
    """The elements' bytes, whatever the type."""
    if isinstance(t, torch.Tensor):
        return t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return np.ascontiguousarray(t.detach().numpy()).tobytes()


def same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride()
    assert str(ours.dtype) == str(theirs.dtype) and ours.storage_offset() == theirs.storage_offset()
    assert ours.requires_grad == theirs.requires_grad and raw(ours) == raw(theirs)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("legacy", [False, True])
def test_every_type_both_ways(name, legacy):
    kw = dict(_use_new_zipfile_serialization=not legacy)
    theirs = (torch.arange(12).reshape(3, 4) % 5).to(getattr(torch, name))
    same(to_ours(theirs, **kw), theirs)
    ours = fb.tensor(np.arange(12).reshape(3, 4) % 5).to(getattr(fb, name))
    if not (legacy and name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")):  # PyTorch reads no such file
        same(ours, to_torch(ours, **kw))


@pytest.mark.parametrize("legacy", [False, True])
def test_views_keep_geometry_and_sharing(legacy):
    kw = dict(_use_new_zipfile_serialization=not legacy)
    base = torch.arange(24.0).reshape(4, 6)
    found = to_ours([base, base.t(), base[1:, ::2], base[2], base.view(-1)[5:], base.new_ones(1).expand(3)], **kw)
    for ours, theirs in zip(found, [base, base.t(), base[1:, ::2], base[2], base.view(-1)[5:], base.new_ones(1).expand(3)]):
        same(ours, theirs)
    found[0].fill_(7)
    assert all(bool((t == 7).all()) for t in found[:5])
    ours = fb.arange(24.0).reshape(4, 6)
    found = to_torch([ours, ours.t(), ours[1:, ::2]], **kw)
    found[0].fill_(7)
    assert all(bool((t == 7).all()) for t in found)


def test_the_bytes_agree():
    p = torch.nn.Parameter(torch.randn(3, 2))
    theirs = {
        "a": torch.ones(2, 3),
        "p": p,
        "n": [1, 2.5, "x", None, True, (1,), b"ab", 10**20],
        "sd": torch.nn.Linear(2, 3).state_dict(),
        "half": p.detach().half().t(),
        "f8": torch.ones(3).to(torch.float8_e5m2),
        "empty": torch.zeros(0, 4),
        "dtype": torch.float32,
        "size": torch.Size((2, 3)),
    }
    file = io.BytesIO()
    torch.save(theirs, file)
    again = io.BytesIO()
    fb.save(to_ours(theirs), again)
    a, b = bytearray(file.getvalue()), bytearray(again.getvalue())
    assert len(a) == len(b)
    at = a.index(b".data/serialization_id")
    differing = [k for k in range(len(a)) if a[k] != b[k]]
    assert [k for k in differing if k < at] == []  # the identity (a hash of their own making) and its checksum


def test_optimizer_and_scheduler_states():
    model = torch.nn.Linear(3, 2)
    opt = torch.optim.AdamW(model.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2)
    model(torch.ones(4, 3)).sum().backward()
    opt.step()
    state = to_ours({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict()})
    mine = fb.nn.Linear(3, 2)
    mine.load_state_dict(state["model"])
    other = fb.optim.AdamW(mine.parameters(), lr=0.5)
    other.load_state_dict(state["opt"])
    for m, o in ((mine, other), (model, opt)):
        o.zero_grad()
        m((fb if m is mine else torch).ones(4, 3)).sum().backward()
        o.step()
    np.testing.assert_allclose(mine.weight.detach().numpy(), model.weight.detach().numpy(), rtol=1e-6)
    back = to_torch(other.state_dict())
    opt.load_state_dict(back)
    assert back["param_groups"][0]["lr"] == 0.1


@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Dropout(0.1), lib.nn.LayerNorm(4)),
        lambda lib: lib.nn.ModuleDict({"e": lib.nn.Embedding(4, 3), "l": lib.nn.ModuleList([lib.nn.GELU(), lib.nn.Identity()])}),
        lambda lib: lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.MaxPool2d(2), lib.nn.Flatten()),
    ],
)
def test_whole_modules_from_torch(make):
    model = make(torch).eval()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        fb.load(file)
    file.seek(0)
    mine = fb.load(file, weights_only=False)
    assert repr(mine) == repr(model)
    if isinstance(model, torch.nn.Sequential):
        x = torch.randn(2, 3, 8, 8) if isinstance(model[0], torch.nn.Conv2d) else torch.randn(2, 3)
        np.testing.assert_allclose(mine(fb.from_numpy(x.numpy())).detach().numpy(), model(x).detach().numpy(), atol=1e-5)


def test_whole_modules_to_torch():
    mine = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.ReLU()).eval()
    file = io.BytesIO()
    fb.save(mine, file)
    file.seek(0)
    model = torch.load(file, weights_only=False)
    x = torch.randn(2, 3)
    np.testing.assert_allclose(mine(fb.from_numpy(x.numpy())).detach().numpy(), model(x).detach().numpy(), atol=1e-6)


def test_attributes_buffers_meta_and_containers():
    p = torch.nn.Parameter(torch.ones(2))
    p.tag = "t"
    t = torch.ones(3)
    t.note = [1]
    found = to_ours(
        {
            "p": p,
            "t": t,
            "buf": torch.nn.Buffer(torch.ones(1)),
            "meta": torch.zeros(2, 3, device="meta"),
            "conj": torch.tensor([1 + 2j]).conj(),
            "set": {1, 2},
            "counter": collections.Counter("aab"),
            "c": 1 + 2j,
            "ba": bytearray(b"xy"),
            "storage": torch.ones(2).untyped_storage(),
        }
    )
    assert found["p"].tag == "t" and isinstance(found["p"], fb.nn.Parameter) and found["t"].note == [1]
    assert isinstance(found["buf"], fb.nn.Buffer) and found["meta"].is_meta and found["meta"].shape == (2, 3)
    assert found["conj"].item() == 1 - 2j and found["set"] == {1, 2} and found["counter"]["a"] == 2
    assert found["c"] == 1 + 2j and found["ba"] == b"xy" and found["storage"].nbytes() == 8
    mine = fb.nn.Buffer(fb.ones(1))
    assert isinstance(to_torch(mine), torch.nn.Buffer)


@pytest.mark.parametrize("location", ["cuda:0", "cuda"])
def test_storages_of_other_devices(location):
    """A file of a GPU: the tag is part of the pickle, so it can be made here."""
    file = io.BytesIO()
    torch.save({"w": torch.ones(2)}, file)
    tagged = cuda_file(file.getvalue(), location)
    messages = []
    for lib in (fb, torch):
        with pytest.raises(RuntimeError, match="deserialize|restore data location") as error:
            lib.load(io.BytesIO(tagged))
        messages.append(str(error.value))
        for where in ("cpu", lib.device("cpu"), {location: "cpu"}, lambda storage, loc: storage):
            assert lib.load(io.BytesIO(tagged), map_location=where)["w"].tolist() == [1, 1]
        assert lib.load(io.BytesIO(tagged), map_location="meta")["w"].is_meta
    assert messages[0] == messages[1]


def cuda_file(data, location):
    import zipfile

    source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            body = source.read(name)
            if name.endswith("data.pkl"):
                old = b"X\x03\0\0\0cpu"
                assert old in body
                body = body.replace(old, b"X" + len(location).to_bytes(4, "little") + location.encode())
            target.writestr(name, body)
    return out.getvalue()


def test_memory_mapped(tmp_path):
    torch.save({"a": torch.arange(1000.0), "b": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "x.pt")
    found = fb.load(tmp_path / "x.pt", mmap=True)
    assert found["a"].tolist() == list(range(1000)) and found["b"].sum().item() == 3
    found["a"].zero_()  # private
    assert fb.load(tmp_path / "x.pt", mmap=True)["a"][5].item() == 5
    fb.save({"a": fb.arange(1000.0)}, tmp_path / "y.pt")
    assert torch.load(tmp_path / "y.pt", mmap=True)["a"][7].item() == 7


def test_big_endian_files():
    file = io.BytesIO()
    theirs = {"i": torch.arange(5, dtype=torch.int32), "c": torch.tensor([1 + 2j])}
    torch.save(theirs, file)
    import zipfile

    source, out = zipfile.ZipFile(file), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            body = source.read(name)
            body = b"big" if name.endswith("byteorder") else body
            if name.endswith(("data/0", "data/1")):
                body = np.frombuffer(body, "<u4").astype(">u4").tobytes()
            target.writestr(name, body)
    found = fb.load(io.BytesIO(out.getvalue()))
    assert found["i"].tolist() == [0, 1, 2, 3, 4] and found["c"].tolist() == [1 + 2j]


def test_numpy_scalars_need_permission():
    file = io.BytesIO()
    torch.save({"x": np.float64(3.5)}, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="numpy._core.multiarray.scalar"):
        fb.load(file)
    file.seek(0)
    scalar = np._core.multiarray.scalar
    with fb.serialization.safe_globals([scalar, np.dtype, type(np.dtype("f8"))]):
        assert fb.load(file)["x"] == 3.5
    assert not fb.serialization.get_safe_globals()
    file.seek(0)
    assert fb.serialization.get_unsafe_globals_in_checkpoint(file) == ["numpy._core.multiarray.scalar", "numpy.dtype"]


def test_safetensors_bytes_agree(tmp_path):
    theirs = pytest.importorskip("safetensors.torch")
    from flambeau.serialization import safetensors

    tensors = {
        "a": fb.randn(3, 4),
        "i": fb.arange(5),
        "h": fb.randn(3).half(),
        "b": fb.randn(2, 2).bfloat16(),
        "e": fb.zeros(0, 3),
        "s": fb.tensor(3.0),
        "m": fb.tensor([True, False]),
    }
    data = safetensors.save(tensors, {"format": "pt"})
    again = theirs.save(theirs.load(data), {"format": "pt"})
    assert again == data
    for name, t in safetensors.load(again).items():
        assert raw(t) == raw(tensors[name]) and t.shape == tensors[name].shape


def test_dlpack_both_ways():
    for name in ("float32", "bfloat16", "bool", "complex64", "uint16", "float8_e5m2"):
        theirs = torch.ones(2, 3).to(getattr(torch, name)).t()
        ours = fb.from_dlpack(theirs)
        assert ours.stride() == (1, 3) and str(ours.dtype) == str(theirs.dtype) and ours.data_ptr() == theirs.data_ptr()
        back = torch.from_dlpack(ours)
        assert back.data_ptr() == theirs.data_ptr() and back.dtype == theirs.dtype
    a = torch.zeros(3)
    fb.from_dlpack(a)[0] = 5
    assert a[0].item() == 5


def test_memory_read_as_another_type():
    """view(dtype): values, strides, and the same errors."""

    def tried(f, lib):
        try:
            t = f(lib, lib.arange(6.0).reshape(2, 3), lib.arange(16.0).reshape(4, 4))
            return t.tolist(), tuple(t.shape), t.stride(), str(t.dtype), t.requires_grad
        except RuntimeError as error:
            return str(error)

    for f in [
        lambda lib, a, b: a.view(lib.int32),
        lambda lib, a, b: a.view(dtype=lib.int16),
        lambda lib, a, b: a.t().view(lib.int32),
        lambda lib, a, b: a.t().view(lib.uint8),
        lambda lib, a, b: a[0, 0].view(lib.uint8),
        lambda lib, a, b: a[0, 0].view(lib.int32),
        lambda lib, a, b: a.view(lib.float64),
        lambda lib, a, b: b.view(lib.float64),
        lambda lib, a, b: b[1:, 2:].view(lib.complex64),
        lambda lib, a, b: a[:, 1:].view(lib.int64),
        lambda lib, a, b: b[:, ::2].view(lib.int64),
        lambda lib, a, b: lib.arange(9.0).reshape(3, 3)[:, :2].view(lib.int64),
        lambda lib, a, b: b.requires_grad_().view(lib.int32),
        lambda lib, a, b: a.to(lib.bfloat16).view(lib.uint8),
        lambda lib, a, b: a.to(lib.complex64).view(lib.float32),
    ]:
        assert tried(f, fb) == tried(f, torch)
    t = fb.zeros(2)
    t.view(fb.int32)[0] = 1065353216
    assert t.tolist() == [1, 0] and t._version == 1
