"""save and load without PyTorch: files that PyTorch made (tests/data), round trips, mapping, atomic writes."""

import collections
import io
import os
import pathlib
import pickle
import zipfile

import numpy as np
import pytest

import flambeau as fb
from flambeau.serialization import safetensors

DATA = pathlib.Path(__file__).parent.parent / "data"
PATTERN = np.arange(6).reshape(2, 3) % 4


def ramp(*shape):
    n = int(np.prod(shape))
    return ((np.arange(n) - n // 2).reshape(shape) / 8).astype(np.float32)


def roundtrip(obj, save=None, **kw):
    file = io.BytesIO()
    fb.save(obj, file, **(save or {}))
    file.seek(0)
    return fb.load(file, **kw)


# -- files that PyTorch made


@pytest.mark.parametrize("name", ["types.pt", "types_legacy.pt"])
def test_every_type_of_pytorch(name):
    found = fb.load(DATA / name)
    assert len(found) == (17 if name == "types.pt" else 12)
    for kind, t in found.items():
        assert t.dtype is getattr(fb, kind) and t.is_contiguous()
        expected = PATTERN.astype(bool) if kind == "bool" else PATTERN
        assert (t.numpy().astype(np.complex128) == expected).all()


@pytest.mark.parametrize("name", ["views.pt", "views_legacy.pt"])
def test_views_of_pytorch(name):
    found = fb.load(DATA / name)
    base = ramp(4, 6)
    np.testing.assert_array_equal(found["base"].numpy(), base)
    np.testing.assert_array_equal(found["part"].numpy(), base[1:, ::2])
    assert found["t"].stride() == (1, 6) and found["part"].stride() == (6, 2) and found["part"].storage_offset() == 6
    assert isinstance(found["param"], fb.nn.Parameter) and found["param"].requires_grad
    found["base"].fill_(3)
    assert all(bool((found[k] == 3).all()) for k in ("t", "part", "param"))


def test_a_resnet_of_pytorch():
    state = fb.load(DATA / "resnet.pt")
    assert type(state) is collections.OrderedDict and state._metadata["bn1"] == {"version": 2}
    assert state["bn1.num_batches_tracked"].dtype is fb.int64 and state["bn1.num_batches_tracked"].shape == ()
    for name, t in state.items():
        if t.dtype.is_floating_point:
            np.testing.assert_array_equal(t.numpy(), ramp(*t.shape), err_msg=name)
    head = fb.nn.Linear(2, 5)
    head.load_state_dict({k[3:]: v for k, v in state.items() if k.startswith("fc.")})
    np.testing.assert_array_equal(head.weight.detach().numpy(), ramp(5, 2))


def test_adam_of_pytorch():
    found = fb.load(DATA / "adam.pt")
    model = fb.nn.Linear(3, 2)
    model.load_state_dict(found["model"])
    opt = fb.optim.Adam(model.parameters())
    opt.load_state_dict(found["optimizer"])
    assert opt.param_groups[0]["lr"] == 0.125 and opt.param_groups[0]["weight_decay"] == 0.5 and found["epoch"] == 3
    state = opt.state[model.weight]
    assert float(state["step"]) == 1 and state["exp_avg"].shape == (2, 3)
    x, w, b = ramp(4, 3).astype(np.float64), ramp(2, 3).astype(np.float64), ramp(2).astype(np.float64)
    grad = 2 * (x @ w.T + b).T @ x + 0.5 * w
    np.testing.assert_allclose(state["exp_avg"].numpy(), 0.1 * grad, rtol=1e-5)
    np.testing.assert_allclose(state["exp_avg_sq"].numpy(), 0.001 * grad**2, rtol=1e-5)


def test_a_module_of_pytorch():
    with pytest.raises(pickle.UnpicklingError, match=r"torch.nn.modules.container.Sequential.*add_safe_globals"):
        fb.load(DATA / "module.pt")
    model = fb.load(DATA / "module.pt", weights_only=False)
    assert [type(m).__name__ for m in model] == ["Linear", "GELU", "LayerNorm"]
    np.testing.assert_array_equal(model[0].weight.detach().numpy(), ramp(4, 3))
    assert model(fb.ones(2, 3)).shape == (2, 4)
    nn = fb.nn
    with fb.serialization.safe_globals([nn.Sequential, nn.Linear, nn.GELU, nn.LayerNorm]):
        again = fb.load(DATA / "module.pt")
    np.testing.assert_array_equal(again[2].bias.detach().numpy(), ramp(4))


# -- round trips


@pytest.mark.parametrize("legacy", [False, True])
def test_round_trip_of_everything(legacy):
    w = fb.arange(12.0).reshape(3, 4)
    value = {
        "t": w,
        "view": w.t()[1:],
        "p": fb.nn.Parameter(w),
        "list": [1, 2.5, None, True, "ä", b"\0\xff", (1, (2,)), 10**30],
        "set": {1, 2},
        "od": collections.OrderedDict(a=1),
        "counter": collections.Counter("aab"),
        "c": 1j,
        "size": w.shape,
        "dtype": fb.bfloat16,
        "device": fb.device("cpu"),
        "zero": fb.zeros(0, 3),
        "scalar": fb.tensor(2),
        "f8": w.to(fb.float8_e5m2),
        "rng": fb.get_rng_state(),
        "expanded": fb.ones(1).expand(4),
    }
    found = roundtrip(value, {"_use_new_zipfile_serialization": not legacy})
    assert list(found) == list(value) and found["list"] == value["list"] and found["set"] == {1, 2} and found["c"] == 1j
    assert found["counter"] == value["counter"] and found["size"] == (3, 4) and type(found["size"]) is fb.Size
    assert found["dtype"] is fb.bfloat16 and found["device"] is fb.device("cpu") and found["zero"].shape == (0, 3)
    assert found["expanded"].stride() == (0,) and found["expanded"].untyped_storage().nbytes() == 4
    assert bool((found["view"] == value["view"]).all()) and found["f8"].dtype is fb.float8_e5m2
    assert bool((found["rng"] == value["rng"]).all())
    found["t"].zero_()
    assert not found["view"].any() and not found["p"].any()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_protocols(protocol):
    value = {"w": fb.ones(2), "s": {1}, "b": b"xy", "deep": [[("a",)]], "ba": bytearray(b"z")}
    found = roundtrip(value, {"pickle_protocol": protocol})
    assert found["w"].tolist() == [1, 1] and found["b"] == b"xy" and found["deep"] == [[("a",)]] and found["ba"] == b"z"


def test_archive_is_an_ordinary_zip(tmp_path):
    fb.save({"w": fb.arange(5)}, tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            f"model/{n}"
            for n in (
                "data.pkl",
                ".format_version",
                ".storage_alignment",
                "byteorder",
                "data/0",
                "version",
                ".data/serialization_id",
            )
        ]
        assert archive.read("model/data/0") == np.arange(5).tobytes() and archive.read("model/version") == b"3\n"
    raw = (tmp_path / "model.pt").read_bytes()
    assert raw.index(np.arange(5).tobytes()) % 64 == 0


def test_repacked_archives_load():
    file = io.BytesIO()
    fb.save({"w": fb.arange(5.0)}, file)
    out = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    out.seek(0)
    assert fb.load(out)["w"].tolist() == [0, 1, 2, 3, 4]


def test_module_and_state_dict(tmp_path):
    model = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.ReLU())
    fb.save(model.state_dict(), tmp_path / "s.pt")
    other = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.ReLU())
    assert not other.load_state_dict(fb.load(tmp_path / "s.pt", weights_only=True)).missing_keys
    x = fb.randn(2, 3)
    assert bool((model(x) == other(x)).all())
    fb.save(model, tmp_path / "m.pt")
    assert bool((fb.load(tmp_path / "m.pt", weights_only=False)(x) == model(x)).all())


def test_tied_parameters_stay_tied():
    emb, head = fb.nn.Embedding(4, 3), fb.nn.Linear(3, 4, bias=False)
    head.weight = emb.weight
    found = roundtrip(fb.nn.ModuleList([emb, head]), weights_only=False)
    assert found[0].weight is found[1].weight
    state = roundtrip(fb.nn.ModuleList([emb, head]).state_dict())
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr()


def test_attributes_and_meta():
    t, p = fb.ones(2), fb.nn.Parameter(fb.ones(1))
    t.note, p.tag = [1], "x"
    found = roundtrip([t, p, fb.nn.Buffer(fb.ones(1)), fb.empty(2, 3, device="meta")])
    assert found[0].note == [1] and found[1].tag == "x" and isinstance(found[2], fb.nn.Buffer)
    assert found[3].is_meta and found[3].shape == (2, 3)


class Custom:
    def __init__(self, n):
        self.n = n


def test_user_classes_need_permission(tmp_path):
    fb.save({"c": Custom(3)}, tmp_path / "c.pt")
    with pytest.raises(pickle.UnpicklingError, match="Custom was not an allowed global"):
        fb.load(tmp_path / "c.pt")
    assert fb.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "c.pt")[-1].endswith("test_files.Custom")
    fb.serialization.add_safe_globals([Custom])
    try:
        assert fb.load(tmp_path / "c.pt")["c"].n == 3
    finally:
        fb.serialization.clear_safe_globals()
    assert fb.load(tmp_path / "c.pt", weights_only=False)["c"].n == 3


def test_several_objects_in_one_legacy_stream():
    file = io.BytesIO()
    for k in range(3):
        fb.save(fb.full((2,), k), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [fb.load(file)[0].item() for _ in range(3)] == [0, 1, 2]


# -- where storages go


def test_map_location():
    seen = []
    file = io.BytesIO()
    fb.save({"a": fb.ones(2), "b": fb.ones(3)}, file)

    def where(storage, location):
        seen.append((storage.nbytes(), location))
        return storage if storage.nbytes() == 8 else None

    for given in ("cpu", fb.device("cpu"), {"cpu": "cpu"}, where, None):
        file.seek(0)
        assert fb.load(file, map_location=given)["b"].sum().item() == 3
    assert seen == [(8, "cpu"), (12, "cpu")]
    file.seek(0)
    assert fb.load(file, map_location="meta")["a"].is_meta
    file.seek(0)
    with pytest.raises(RuntimeError, match="CUDA device but torch.cuda.is_available"):
        fb.load(file, map_location="cuda:0")
    file.seek(0)
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        fb.load(file, map_location={"cpu": "moon"})


def test_memory_mapped(tmp_path):
    fb.save({"a": fb.arange(1000.0)}, tmp_path / "x.pt")
    found = fb.load(tmp_path / "x.pt", mmap=True)
    found["a"][0] = 7
    assert fb.load(tmp_path / "x.pt")["a"][0].item() == 0
    with pytest.raises(ValueError, match="must be a file path"):
        fb.load(io.BytesIO((tmp_path / "x.pt").read_bytes()), mmap=True)


# -- errors and atomic writes


def test_save_leaves_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "x.pt"
    fb.save({"a": fb.ones(2)}, path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        fb.save({"a": fb.ones(2), "f": lambda: 0}, path)
    assert fb.load(path)["a"].tolist() == [1, 1] and os.listdir(tmp_path) == ["x.pt"]


def test_errors_of_arguments(tmp_path):
    with pytest.raises(RuntimeError, match="Parent directory .*none does not exist"):
        fb.save({}, tmp_path / "none" / "x.pt")
    with pytest.raises(AttributeError, match="'write' attribute"):
        fb.save({}, 3)
    with pytest.raises(AttributeError, match="seekable"):
        fb.load(3)
    with pytest.raises(FileNotFoundError):
        fb.load(tmp_path / "absent.pt")
    with pytest.raises(EOFError):
        fb.load(io.BytesIO())
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        fb.load(io.BytesIO(b"x"), weights_only=True, pickle_module=pickle)
    w = fb.zeros(2, dtype=fb.complex64)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        fb.save([w, fb.view_as_real(w)], io.BytesIO())


# -- safetensors


def test_safetensors(tmp_path):
    tensors = {
        "w": fb.arange(6.0).reshape(2, 3),
        "b": fb.tensor([True, False]),
        "h": fb.ones(3, dtype=fb.bfloat16),
        "t": fb.arange(6).reshape(2, 3).t(),
        "e": fb.zeros(0, 2),
    }
    safetensors.save_file(tensors, tmp_path / "x.safetensors", {"format": "pt"})
    found = safetensors.load_file(tmp_path / "x.safetensors")
    assert sorted(found) == sorted(tensors) and all(bool((found[k] == t).all()) for k, t in tensors.items())
    with safetensors.safe_open(tmp_path / "x.safetensors") as file:
        assert file.metadata() == {"format": "pt"} and file.get_slice("w")[0].tolist() == [0, 1, 2]
        with pytest.raises(safetensors.SafetensorError, match="does not contain"):
            file.get_tensor("none")
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save({"a": tensors["w"], "b": tensors["w"][0]})
