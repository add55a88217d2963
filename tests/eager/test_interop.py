"""Memory shared with others: numpy, buffers, DLPack, pickles, copies, other processes, storages."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fb
import flambeau.multiprocessing as mp


def test_from_numpy_shares_both_ways():
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    t = fb.from_numpy(a)
    t[0, 0] = 7
    a[1, 1] = 9
    assert a[0, 0] == 7 and t[1, 1].item() == 9 and t.numpy() is a
    assert fb.as_tensor(a).data_ptr() == t.data_ptr() and fb.tensor(a).data_ptr() != t.data_ptr()
    with pytest.raises(ValueError, match="negative"):
        fb.from_numpy(a[::-1])
    with pytest.raises(ValueError, match="byte order"):
        fb.from_numpy(a.astype(">f4"))
    with pytest.raises(RuntimeError, match="detach"):
        t.requires_grad_().numpy()


def test_frombuffer():
    raw = bytearray(12)
    t = fb.frombuffer(raw, dtype=fb.int32, offset=4)
    t[0] = 1
    assert raw[4] == 1 and t.shape == (2,)
    assert fb.frombuffer(raw, dtype=fb.int8, count=3, offset=4).tolist() == [1, 0, 0]
    for buffer, options, message in [
        (b"", {}, "must not be 0"),
        (raw, {"count": 0}, "must not be 0"),
        (raw, {"offset": 12}, "minus 1"),
        (bytearray(7), {}, "multiple of element size"),
        (raw, {"count": 4}, "greater"),
        (3, {}, "buffer protocol"),
    ]:
        with pytest.raises(ValueError, match=message):
            fb.frombuffer(buffer, dtype=fb.int32, **options)
    with pytest.warns(UserWarning, match="not writable"):
        fixed = fb.frombuffer(b"abcd", dtype=fb.uint8)
    assert fixed.tolist() == [97, 98, 99, 100]


def test_numpy_functions_of_tensors():
    t = fb.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(t), fb.Tensor) and np.sqrt(t).tolist() == [1, 2]
    assert np.isnan(t).dtype is fb.uint8 and isinstance(np.stack([t, t]), np.ndarray)
    assert isinstance(np.ones(2) + t, fb.Tensor) and (np.float64(2) * t).dtype is fb.float32
    assert np.asarray(t, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("name", ["float32", "bfloat16", "bool", "complex64", "uint16", "float8_e4m3fn", "int64"])
def test_dlpack_between_tensors(name):
    t = fb.ones(2, 3).to(getattr(fb, name)).t()
    back = fb.from_dlpack(fb.utils.dlpack.to_dlpack(t))
    assert back.dtype is t.dtype and back.stride() == (1, 3) and back.data_ptr() == t.data_ptr()
    assert fb.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()


def test_dlpack_and_numpy():
    t = fb.arange(4.0)
    np.from_dlpack(t)
    a = np.arange(4.0)
    found = fb.from_dlpack(a)
    found[0] = 5
    assert a[0] == 5 and t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="require gradient"):
        fb.ones(2, requires_grad=True).__dlpack__()
    capsule = t.__dlpack__()
    fb.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="used before"):
        fb.from_dlpack(capsule)


def test_pickle_keeps_sharing():
    base = fb.arange(6.0).reshape(2, 3)
    p = fb.nn.Parameter(base)
    a, b, c, q = pickle.loads(pickle.dumps((base, base.t(), base[1], p)))
    a.zero_()
    assert not b.any() and not c.any() and not q.any() and b.stride() == (1, 3) and q.requires_grad
    half = pickle.loads(pickle.dumps(fb.ones(2, dtype=fb.bfloat16)))
    assert half.dtype is fb.bfloat16 and half.tolist() == [1, 1]
    assert pickle.loads(pickle.dumps(fb.empty(2, 3, device="meta"))).is_meta
    assert pickle.loads(pickle.dumps([fb.float16, fb.device("meta"), fb.Size((1, 2))])) == [fb.float16, fb.device("meta"), (1, 2)]
    result = pickle.loads(pickle.dumps(fb.ones(2, requires_grad=True) * 2))
    assert result.is_leaf and result.requires_grad and result.tolist() == [2, 2]


def test_pickled_modules_optimizers_generators():
    model = fb.nn.Sequential(fb.nn.Linear(2, 3), fb.nn.ReLU())
    opt = fb.optim.Adam(model.parameters())
    model(fb.ones(1, 2)).sum().backward()
    opt.step()
    again, states = pickle.loads(pickle.dumps((model, opt.state_dict())))
    assert bool((again[0].weight == model[0].weight).all()) and again[0].weight.requires_grad
    assert float(states["state"][0]["step"]) == 1
    g = fb.Generator().manual_seed(5)
    fb.rand(3, generator=g)
    h = pickle.loads(pickle.dumps(g))
    assert bool((fb.rand(3, generator=g) == fb.rand(3, generator=h)).all())


def test_deepcopy_keeps_sharing():
    base = fb.arange(6.0)
    a, b, s = copy.deepcopy([base, base[2:], base.untyped_storage()])
    a.fill_(1)
    assert b.tolist() == [1] * 4 and base[0].item() == 0 and s is a.untyped_storage()
    m = fb.nn.Linear(2, 2)
    m.twin = m.weight
    n = copy.deepcopy(m)
    assert n.twin is n.weight and n.weight is not m.weight


def test_storages():
    t = fb.arange(4.0)
    s, u = t.storage(), t.untyped_storage()
    assert (
        s.tolist() == [0, 1, 2, 3]
        and len(s) == 4
        and u.nbytes() == 16
        and s.dtype is fb.float32
        and t.storage_type() is type(fb.FloatStorage(0))
    )
    s[1] = 9
    s.untyped()[0:4].fill_(0)
    assert t[1].item() == 9 and fb.is_storage(s) and fb.is_storage(u) and isinstance(u, fb.UntypedStorage)
    assert fb.FloatStorage([1, 2]).tolist() == [1, 2] and fb.LongStorage(3).dtype is fb.int64 and s.data_ptr() == t.data_ptr()
    assert fb.ByteStorage.from_buffer(b"ab").tolist() == [97, 98]
    assert fb.IntStorage.from_buffer(b"\0\0\0\1", byte_order="big").tolist() == [1]
    assert (
        fb.UntypedStorage(3).nbytes() == 3 and fb.UntypedStorage([1, 2]).tolist() == [1, 2] and fb.UntypedStorage().nbytes() == 0
    )
    assert t[1:].untyped_storage() is u and s == t[2:].storage() and "FloatStorage" in s.type() and u.clone() is not u
    u.resize_(24)
    assert u.nbytes() == 24 and t.tolist() == [0, 9, 2, 3] and u.data_ptr() == t.data_ptr()
    meta = fb.empty(3, device="meta").untyped_storage()
    with pytest.raises(NotImplementedError, match="no bytes"):
        meta.tolist()


def test_storage_of_a_file(tmp_path):
    s = fb.FloatStorage.from_file(str(tmp_path / "x"), shared=True, size=4)
    s.fill_(2)
    assert fb.FloatStorage.from_file(str(tmp_path / "x"), shared=False, size=4).tolist() == [2, 2, 2, 2]


def test_share_memory_moves_every_alias():
    t = fb.arange(6.0)
    view, part = t.view(2, 3), t[2:]
    assert t.share_memory_() is t and view.is_shared() and part.untyped_storage() is t.untyped_storage()
    t[2] = 40
    assert view[0, 2].item() == 40 and part[0].item() == 40
    model = fb.nn.Linear(2, 2).share_memory()
    assert all(p.is_shared() for p in model.parameters())


def child(rank, queue, t, done):
    t += rank + 1
    queue.put(t[1:])
    queue.put((fb.nn.Parameter(fb.full((2,), 3.0)), {"w": fb.ones(2, dtype=fb.bfloat16)}, fb.zeros(0, 2)))
    done.wait()


def failing(rank):
    raise ValueError(f"child {rank} fails")


def test_processes():
    """A tensor that two processes see, tensors sent back, and an error that comes home."""
    context = mp.get_context("spawn")
    queue, done, t = context.Queue(), context.Event(), fb.zeros(3).share_memory_()
    running = mp.spawn(child, (queue, t, done), nprocs=1, join=False)
    part = queue.get(timeout=60)
    p, rest, empty = queue.get(timeout=60)
    assert t.tolist() == [1, 1, 1] and isinstance(p, fb.nn.Parameter) and p.tolist() == [3, 3] and rest["w"].dtype is fb.bfloat16
    part[0] = 8
    assert t[1].item() == 8 and empty.shape == (0, 2)  # what came back is the very same memory
    done.set()
    while not running.join(timeout=60):
        pass
    with pytest.raises(mp.ProcessRaisedException, match="child 0 fails"):
        mp.spawn(failing, nprocs=1)
    with pytest.raises(RuntimeError, match="non-leaf"):
        mp.reductions.reduce_tensor(fb.ones(2, requires_grad=True) * 2)
