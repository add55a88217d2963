"""Files that are cut off, changed, or made to harm: a clear error or a sound result, no code run, no memory asked for
that the file does not have.
"""

import io
import json
import pathlib
import pickle
import random
import struct
import tracemalloc
import zipfile

import pytest

import flambeau as fb
from flambeau.serialization import safetensors

DATA = pathlib.Path(__file__).parent.parent / "data"
ERRORS = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError)
ran = []


def canary(*args):
    """What a hostile file would call."""
    ran.append(args)


@pytest.fixture(autouse=True)
def nothing_runs():
    ran.clear()
    yield
    assert not ran


def attempt(data: bytes, load=fb.load, wrap=io.BytesIO):
    """The exception's type name, or "ok"; peak memory is bounded by the file's size."""
    tracemalloc.start()
    try:
        load(wrap(data))
        outcome = "ok"
    except ERRORS as error:
        assert str(error) or isinstance(error, EOFError)
        outcome = type(error).__name__
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4_000_000 + 20 * len(data)
    return outcome


FILES = sorted(p.name for p in DATA.glob("*.pt"))


@pytest.mark.parametrize("name", FILES)
def test_cut_off(name):
    """Every prefix fails."""
    data = (DATA / name).read_bytes()
    for length in sorted(random.Random(1).sample(range(1, len(data)), 40)):
        assert attempt(data[:length]) != "ok", length


@pytest.mark.parametrize("name", FILES)
def test_changed_bytes(name):
    """A changed byte is an error, or does not matter, or (in files without checksums) is another value."""
    data, rng, outcomes = (DATA / name).read_bytes(), random.Random(2), set()
    for _ in range(60):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        outcomes.add(attempt(bytes(changed)))
    assert outcomes - {"ok"}


def repacked(pickled: bytes, records=()) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("a/data.pkl", pickled)
        for name, body in records:
            target.writestr(f"a/{name}", body)
    return out.getvalue()


@pytest.mark.parametrize("name", ["views.pt", "adam.pt", "types.pt"])
def test_changed_pickles_with_right_checksums(name):
    with zipfile.ZipFile(DATA / name) as source:
        entries = {n.partition("/")[2]: source.read(n) for n in source.namelist()}
    pickled, rng, outcomes = entries.pop("data.pkl"), random.Random(3), set()
    for _ in range(150):
        changed = bytearray(pickled)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        outcomes.add(attempt(repacked(bytes(changed), entries.items())))
    assert "UnpicklingError" in outcomes


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def storage(count, key="0", kind=b"ctorch\nFloatStorage\n"):
    number = b"K" + bytes([count]) if 0 <= count < 256 else b"\x8a\x08" + struct.pack("<q", count)
    return b"(" + text("storage") + kind + text(key) + text("cpu") + number + b"tQ"


def tensor(offset=b"K\0", sizes=b"K\x02\x85", strides=b"K\x01\x85", count=2, **kw):
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage(count, **kw)
        + offset
        + sizes
        + strides
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


HUGE = b"\x8a\x08" + struct.pack("<q", 1 << 60)
NEGATIVE = b"J" + struct.pack("<i", -1)
NAME = __name__
PICKLES = {
    "calls a function": f"c{NAME}\ncanary\n(tR.".encode(),
    "calls by stack": text(NAME) + text("canary") + b"\x93)R.",
    "os.system": b"cos\nsystem\n" + text("true") + b"\x85R.",
    "builtins.eval": b"cbuiltins\neval\n" + text("1") + b"\x85R.",
    "getattr": b"cbuiltins\ngetattr\n(tR.",
    "a dotted name": b"ctorch\nTensor.__init__\n)R.",
    "a module of ours": b"ctorch.serialization\nload\n" + text("x") + b"\x85R.",
    "class as function": b"ctorch\nTensor\nK\x05\x85R.",
    "instance of a class": f"c{NAME}\ncanary\n)\x81.".encode(),
    "inst opcode": f"(i{NAME}\ncanary\n.".encode(),
    "obj opcode": f"(c{NAME}\ncanary\no.".encode(),
    "ext registry": b"\x82\x01.",
    "persid opcode": b"Pstorage\n.",
    "a great bytearray": b"cbuiltins\nbytearray\n" + HUGE + b"\x85R.",
    "a great set": b"cbuiltins\nset\n" + HUGE + b"\x85R.",
    "a Counter of text": b"ccollections\nCounter\n" + text("a") + b"\x85R.",
    "codec": b"c_codecs\nencode\n" + text("a") + text("zlib_codec") + b"\x86R.",
    "great memo": b"Nr" + struct.pack("<I", 0xFFFFFFFF) + b"j" + struct.pack("<I", 0xFFFFFFFE) + b".",
    "long text": b"X" + struct.pack("<I", 0xFFFFFFF0) + b"ab.",
    "long text 8": b"\x8d" + struct.pack("<Q", 1 << 62) + b"ab.",
    "long number": b"\x8b" + struct.pack("<i", 0x7FFFFFF0) + b"ab.",
    "negative length": b"\x8b" + struct.pack("<i", -5) + b".",
    "long frame": b"\x95" + struct.pack("<Q", 1 << 62) + b"N.",
    "protocol 9": b"\x80\x09N.",
    "no stop": b"N",
    "empty stack": b".",
    "unfinished stack": b"NN.",
    "no mark": b"t.",
    "mark left": b"(N.",
    "pop below mark": b"N(\x85.",
    "memo unset": b"h\x05.",
    "append to number": b"K\1K\2a.",
    "setitem on list": b"]K\1K\2s.",
    "odd items": b"}(K\1u.",
    "unhashable key": b"}]K\1s.",
    "hash bomb": b"})" + b"q\1h\1\x86" * 60 + b"K\1s.",
    "build on a list": b"]}b.",
    "build hides a method": b"ccollections\nOrderedDict\n)R}" + text("items") + b"K\1sb.",
    "build with a number": b"ccollections\nOrderedDict\n)RK\1b.",
    "build on a tensor's class": b"ctorch\nTensor\n}" + text("x") + b"K\1sb.",
    "tensor outside its storage": tensor(sizes=b"K\x03\x85") + b".",
    "tensor far outside": tensor(strides=HUGE + b"\x85") + b".",
    "tensor of huge sizes": tensor(sizes=HUGE + b"\x85") + b".",
    "negative size": tensor(sizes=NEGATIVE + b"\x85") + b".",
    "negative stride": tensor(strides=NEGATIVE + b"\x85") + b".",
    "negative offset": tensor(offset=NEGATIVE) + b".",
    "offset outside": tensor(offset=b"K\x05") + b".",
    "sizes and strides differ": tensor(strides=b"K\1K\1\x86") + b".",
    "sizes of text": tensor(sizes=text("ab")) + b".",
    "storage larger than its record": tensor(count=200) + b".",
    "storage of a huge count": tensor(count=1 << 60) + b".",
    "storage of negative count": tensor(count=-2) + b".",
    "storage without a record": tensor(key="7") + b".",
    "storage outside the archive": tensor(key="../../../../etc/passwd") + b".",
    "storage of no kind": tensor(kind=b"ctorch\nfloat32\n") + b".",
    "a tensor for a storage": b"ctorch._utils\n_rebuild_tensor_v2\n(K\1K\0))\x89NtR.",
    "two types of a storage": b"]" + tensor() + b"a" + tensor(kind=b"ctorch\nIntStorage\n") + b"a.",
    "persistent id of text": text("storage") + b"Q.",
    "short persistent id": text("storage") + b"\x85Q.",
    "type that is no class": b"ctorch._tensor\n_rebuild_from_type_v2\n(" + b"ctorch._utils\n_rebuild_tensor_v2\nK\1)NtR.",
    "function that is no tensor's": b"ctorch._tensor\n_rebuild_from_type_v2\n(ccollections\nOrderedDict\nctorch\nTensor\n)NtR.",
    "parameter of a number": b"ctorch._utils\n_rebuild_parameter\n(K\1\x88NtR.",
    "integer parameter": b"ctorch._utils\n_rebuild_parameter\n(" + tensor(kind=b"ctorch\nIntStorage\n") + b"\x88NtR.",
    "too few arguments": b"ctorch._utils\n_rebuild_tensor_v2\n)R.",
    "meta tensor of text": b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(" + text("x") + b"))\x89tR.",
    "a sparse tensor": b"ctorch._utils\n_rebuild_sparse_tensor\n(K\1K\1tR.",
    "device of nowhere": b"ctorch\ndevice\n" + text("moon") + b"\x85R.",
    "layout of nowhere": b"ctorch.serialization\n_get_layout\n" + text("torch.odd") + b"\x85R.",
    "Size of text": b"ctorch\nSize\n" + text("ab") + b"\x85R.",
    "bad utf-8": b"X\x02\0\0\0\xff\xff.",
    "name without end": b"cos",
    "unknown opcode": b"\xfe.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickle(name):
    body = PICKLES[name]
    body = body if body.startswith(b"\x80") else b"\x80\x02" + body
    data = repacked(body, [("data/0", bytes(8)), ("byteorder", b"little")])
    assert attempt(data) != "ok"
    assert attempt(body) != "ok"  # as a legacy stream


def test_the_parts_of_these_pickles_are_sound():
    data = repacked(b"\x80\x02" + tensor() + b".", [("data/0", bytes(8))])
    assert fb.load(io.BytesIO(data)).tolist() == [0, 0]


ARCHIVES = {
    "no pickle": lambda: archive({"a/other": b""}),
    "compressed": lambda: archive({"a/data.pkl": b"\x80\x02N." + bytes(100)}, zipfile.ZIP_DEFLATED),
    "empty": lambda: archive({}),
    "script": lambda: archive({"a/data.pkl": b"\x80\x02N.", "a/constants.pkl": b""}),
    "odd byte order": lambda: archive({"a/data.pkl": b"\x80\x02N.", "a/byteorder": b"middle"}),
    "record beyond the end": lambda: stretched(),
    "tar": lambda: bytes(257) + b"ustar" + bytes(500),
    "text": lambda: b"hello world" * 10,
    "zeros": lambda: bytes(1000),
    "legacy with a great storage": lambda: legacy(1 << 40),
    "legacy cut off": lambda: legacy(2)[:-4],
    "legacy with another count": lambda: legacy(2, 3),
    "legacy without storages": lambda: legacy(2, keys=["9"]),
}


def archive(entries, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as target:
        for name, body in entries.items():
            target.writestr(name, body)
    return out.getvalue()


def stretched():
    """The directory says that a record is larger than the file."""
    data = bytearray(archive({"a/data.pkl": b"\x80\x02N."}))
    at = data.index(b"PK\1\2")
    data[at + 20 : at + 28] = struct.pack("<II", 1 << 30, 1 << 30)
    return bytes(data)


def legacy(count, written=None, keys=("5",)):
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    number = b"\x8a\x08" + struct.pack("<q", count)
    pid = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("5") + text("cpu") + number + b"NtQ"
    body = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + pid + b"K\0K\2\x85K\1\x85\x89NtR."
    return (
        b"".join(pickle.dumps(h, 2) for h in head)
        + body
        + pickle.dumps(list(keys), 2)
        + struct.pack("<q", written or count)
        + bytes(8)
    )


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archive(name):
    assert attempt(ARCHIVES[name]()) != "ok"


def test_the_legacy_stream_of_these_tests_is_sound():
    assert fb.load(io.BytesIO(legacy(2))).tolist() == [0, 0]


# -- safetensors


def header(entries, body=b"", length=None):
    raw = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + body


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
SAFETENSORS = {
    "empty": b"",
    "short": b"abc",
    "long header": header({}, length=1 << 40),
    "header cut": header({"a": F32}, length=500),
    "no json": header(b"{{{"),
    "list": header(b"[]"),
    "bad utf-8": header(b'{"\xff":1}'),
    "deep": header(b"[" * 100_000),
    "no bytes": header({"a": F32}),
    "too many bytes": header({"a": F32}, bytes(9)),
    "overlap": header({"a": F32, "b": F32}, bytes(8)),
    "gap": header({"a": {**F32, "data_offsets": [4, 12]}}, bytes(12)),
    "shape": header({"a": {**F32, "shape": [3]}}, bytes(8)),
    "negative": header({"a": {**F32, "shape": [-2]}}, bytes(8)),
    "huge": header({"a": {**F32, "shape": [1 << 40, 1 << 40]}}, bytes(8)),
    "type": header({"a": {**F32, "dtype": "X9"}}, bytes(8)),
    "reversed": header({"a": {**F32, "data_offsets": [8, 0]}}, bytes(8)),
    "entry": header({"a": 3}, bytes(8)),
    "offsets": header({"a": {**F32, "data_offsets": [0, 8, 9]}}, bytes(8)),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_hostile_safetensors(name):
    with pytest.raises(safetensors.SafetensorError):
        safetensors.load(SAFETENSORS[name])


def test_cut_and_changed_safetensors():
    data, rng = safetensors.save({"a": fb.ones(2, 3), "b": fb.arange(4)}), random.Random(4)
    assert bool((safetensors.load(data)["a"] == 1).all())
    for _ in range(100):
        changed = bytearray(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        try:
            safetensors.load(bytes(changed))
        except safetensors.SafetensorError:
            pass
