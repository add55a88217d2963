"""The store's size limit: oldest use first, nothing foreign, off at 0."""

import os

import pytest

from flambeau.runtime import artifact_store, cache_eviction
from flambeau.runtime.config import config


def key(k):
    return f"{k:02x}" * 20


@pytest.fixture
def store(tmp_path):
    with config.patch(cache_dir=str(tmp_path / "store"), cache_megabytes=1):
        artifact_store.forget()
        yield tmp_path / "store"
    artifact_store.forget()


def put(k, age, size=100_000):
    path = artifact_store.put(key(k), ".so" if k % 2 else ".graph", b"x" * size)
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_what_was_used_longest_ago_goes_first(store):
    paths = [put(k, age=100 - k) for k in range(9)]
    assert artifact_store.get(key(0), ".graph") == paths[0]  # used now
    last = put(9, age=0)  # 1,000,320 bytes of a million, of which 800,000 may stay
    assert [k for k, path in enumerate(paths) if not os.path.exists(path)] == [1, 2, 3]
    assert (
        os.path.exists(last)
        and artifact_store.read(key(1), ".so") is None
        and artifact_store.read(key(5), ".so") == b"x" * 100_000
    )
    put(10, age=0)
    assert cache_eviction.total(str(store)) == 8 * 100_032 and os.path.exists(paths[4])  # there is room again


def test_nothing_that_is_not_the_stores_is_removed(store):
    store.mkdir(mode=0o700)
    others = [
        store / "notes.txt",
        store / "aa" / "mine.so",
        store / "aa" / ".part-abc",
        store / "lock-aa",
        store / "folder" / (key(1) + ".so"),
    ]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"y" * 3_000_000)
    for path in set(others) - {others[2]}:
        os.utime(path, (1, 1))
    new = artifact_store.put(key(1), ".so", b"x")
    assert os.path.exists(new) and all(path.exists() for path in others)  # a file of 3 MB is being written
    put(2, age=40)
    os.utime(others[2], (1, 1))  # a process died while it wrote this
    put(3, age=30)
    assert [path.exists() for path in others] == [True, True, False, True, True]


def test_no_limit(store):
    with config.patch(cache_megabytes=0):
        paths = [put(k, age=100 - k) for k in range(15)]
    assert all(map(os.path.exists, paths))


def test_a_file_that_another_process_removed(store, monkeypatch):
    paths = [put(k, age=100 - k) for k in range(9)]
    listed = cache_eviction.files(str(store))
    monkeypatch.setattr(cache_eviction, "files", lambda folder: listed + [(0.0, 100_032, str(store / "00" / (key(99) + ".so")))])
    put(9, age=0)
    assert [k for k, path in enumerate(paths) if not os.path.exists(path)] == [0, 1]
