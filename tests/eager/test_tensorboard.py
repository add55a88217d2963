"""Event files: what was written is read back with checksums; and TensorBoard itself serves it, where TENSORBOARD_PYTHON names a
Python that has it.
"""

import io
import json
import os
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
import wave
import zlib

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.utils.tensorboard import files, values
from flambeau.utils.tensorboard.protobuf import fields

PEER = os.environ.get("TENSORBOARD_PYTHON")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x))


def write_everything(folder):
    torch.manual_seed(0)
    with SummaryWriter(folder) as w:
        for i in range(5):
            w.add_scalar("loss", 1.0 / (i + 1), i, walltime=1000.0 + i)
            w.add_scalar("new", torch.tensor(i * 2.0), i, new_style=True)
            w.add_histogram("weights", torch.arange(1000.0), i)
        w.add_scalars("both", {"a": 1.0, "b": 2.0}, 3)
        w.add_image("picture", torch.arange(3 * 8 * 12).view(3, 8, 12) / 288, 1)
        w.add_images("batch", torch.rand(5, 1, 8, 8), 1)
        w.add_image_with_boxes("boxed", torch.zeros(3, 20, 20), torch.tensor([[2, 3, 10, 12]]))
        w.add_audio("tone", torch.sin(torch.arange(4410) * 0.1), 1, sample_rate=4410)
        w.add_text("note", "**bold** text", 2)
        w.add_pr_curve("pr", torch.tensor([0, 0, 1, 1]), torch.tensor([0.1, 0.6, 0.4, 1.0]), 0, num_thresholds=11)
        w.add_graph(Net(), torch.randn(3, 4))
        w.add_hparams({"lr": 0.1, "kind": "sgd", "flag": True}, {"hp/acc": 0.9}, run_name="hp")
        w.add_custom_scalars({"mine": {"losses": ["Multiline", ["loss", "new"]]}})
        w.add_embedding(torch.randn(6, 3), metadata=list("abcdef"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_everything(folder)
    return folder


def events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return [fields(record) for record in files.read_records(path)]


def summaries(folder, tag):
    """(step, {field: values}) of each value with this tag."""
    found = []
    for event in events(folder):
        for value in fields(event[5][0]).get(1, []) if 5 in event else []:
            value = fields(value)
            if value[1] == [tag.encode()]:
                found.append((event.get(2, [0])[0], value))
    return found


def test_checksums():
    assert files.crc32c(b"123456789") == 0xE3069283
    assert files.crc32c(bytes(32)) == 0x8A9136AA and files.crc32c(bytes(range(32))) == 0x46DD794E
    assert files.crc32c(b"") == 0


def test_a_changed_byte_or_a_lost_end_is_noticed(folder, tmp_path):
    (path,) = folder.glob("events.out.tfevents.*")
    data = bytearray(path.read_bytes())
    other = tmp_path / "other"
    data[200] ^= 1
    other.write_bytes(data)
    with pytest.raises(ValueError, match="byte"):
        list(files.read_records(other))
    other.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="cut off"):
        list(files.read_records(other))


def test_scalars(folder):
    assert events(folder)[0][3] == [b"brain.Event:2"]
    found = summaries(folder, "loss")
    assert [step for step, _ in found] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([value[2][0] for _, value in found], 1 / np.arange(1, 6), rtol=1e-6)
    assert [event[1][0] for event in events(folder) if 5 in event and b"loss" in event[5][0]][:5] == [
        1000.0 + i for i in range(5)
    ]
    new = [fields(value[8][0]) for _, value in summaries(folder, "new")]
    assert [struct.unpack("<f", each[4][0])[0] for each in new] == [0, 2, 4, 6, 8]
    ((_, other),) = summaries(folder / "both_b", "both")
    assert other[2] == [2.0]


def test_histogram(folder):
    body = fields(summaries(folder, "weights")[0][1][5][0])
    assert [body[k][0] for k in range(1, 6)] == [0, 999, 1000, 499500.0, float(np.square(np.arange(1000.0)).sum())]
    limits, counts = (np.frombuffer(body[k][0]) for k in (6, 7))
    assert len(limits) == len(counts) and counts.sum() == 1000
    for limit, below in zip(limits, counts.cumsum()):
        assert abs(below - np.clip(np.ceil(limit), 0, 1000)) <= 1


def decoded(png):
    """Pixels of a PNG without filters."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(png):
        size, name = struct.unpack(">I4s", png[at : at + 8])
        parts[name] = png[at + 8 : at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + parts[name])
        at += 12 + size
    width, height, _, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, {0: 1, 2: 3, 4: 2, 6: 4}[colour])


def test_images(folder):
    ((_, value),) = summaries(folder, "picture")
    body = fields(value[4][0])
    assert (body[1], body[2], body[3]) == ([8], [12], [3])
    want = (np.arange(288).reshape(3, 8, 12) / 288 * 255).astype(np.uint8).transpose(1, 2, 0)
    assert np.abs(decoded(body[4][0]).astype(int) - want).max() <= 1
    ((_, value),) = summaries(folder, "batch")
    assert decoded(fields(value[4][0])[4][0]).shape == (8, 40, 3)
    ((_, value),) = summaries(folder, "boxed")
    pixels = decoded(fields(value[4][0])[4][0])
    assert (pixels[3, 2:11] == [255, 0, 0]).all() and not pixels[4:12, 3:10].any() and pixels[..., 0].sum() == 255 * 34


def test_audio_and_text(folder):
    ((_, value),) = summaries(folder, "tone")
    body = fields(value[6][0])
    assert body[1] == [4410.0] and body[3] == [4410] and body[5] == [b"audio/wav"]
    with wave.open(io.BytesIO(body[4][0])) as sound:
        samples = np.frombuffer(sound.readframes(4410), "<i2") / 32767
    np.testing.assert_allclose(samples, np.sin(np.arange(4410) * 0.1), atol=1e-4)
    ((step, value),) = summaries(folder, "note/text_summary")
    assert step == 2 and fields(value[8][0])[8] == [b"**bold** text"]


def test_pr_curve(folder):
    ((_, value),) = summaries(folder, "pr")
    rows = np.frombuffer(fields(value[8][0])[4][0], "<f4").reshape(6, 11)
    labels, predictions = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 1.0])
    for k, threshold in enumerate(np.linspace(0, 1, 11)):
        taken = np.floor(np.float32(predictions) * 10) >= round(threshold * 10)
        assert rows[0, k] == (taken & (labels == 1)).sum() and rows[1, k] == (taken & (labels == 0)).sum()
        assert rows[2, k] == (~taken & (labels == 0)).sum() and rows[3, k] == (~taken & (labels == 1)).sum()


def test_graph(folder):
    (data,) = [event[4][0] for event in events(folder) if 4 in event]
    nodes = {fields(node)[1][0].decode(): fields(node) for node in fields(data)[1]}
    assert {
        "input/0",
        "Net/body/0/weight",
        "Net/head/bias",
        "Net/body/0/linear",
        "Net/body/1/relu",
        "Net/head/linear",
        "output/result",
    } == set(nodes) - {"Net/body/0/bias", "Net/head/weight"}
    assert nodes["Net/body/0/linear"][3] == [b"input/0", b"Net/body/0/weight", b"Net/body/0/bias"]
    assert nodes["Net/body/1/relu"][3] == [b"Net/body/0/linear"] and nodes["output/result"][3] == [b"Net/head/linear"]


def test_writers_buffer_flush_and_open_anew(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=3, flush_secs=1000)
    count = lambda: sum(len(list(files.read_records(path))) for path in tmp_path.glob("events*"))
    writer.add_scalar("x", 1)
    assert count() == 1
    for i in range(3):
        writer.add_scalar("x", i)
    assert count() == 5
    writer.add_scalar("x", 2)
    writer.flush()
    assert count() == 6
    writer.close()
    writer.add_scalar("x", 3)
    writer.close()
    assert count() == 8 and len(list(tmp_path.glob("events*"))) == 2


def test_errors(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for call, kind in (
            (lambda: writer.add_scalar("x", torch.ones(2)), AssertionError),
            (lambda: writer.add_image("x", torch.ones(5, 2, 2)), ValueError),
            (lambda: writer.add_image("x", torch.ones(2, 2)), AssertionError),
            (lambda: writer.add_histogram("x", torch.ones(0)), ValueError),
            (lambda: writer.add_hparams({"x": [1]}, {}), ValueError),
            (lambda: writer.add_graph(Net()), ValueError),
        ):
            with pytest.raises(kind):
                call()
        with pytest.raises(AttributeError, match="add_mesh"):
            writer.add_mesh
    with pytest.raises(ValueError, match="Margin"):
        values.custom_scalars({"a": {"b": ["Margin", ["x"]]}})


# -- the real one


@pytest.fixture(scope="module")
def board(folder):
    """Asks a TensorBoard over the folder."""
    if not PEER:
        pytest.skip("TENSORBOARD_PYTHON names no Python that has tensorboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        PEER,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(folder),
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        "--load_fast=false",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path, data=None):
        url = f"http://127.0.0.1:{port}/data/{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    try:
        wait_for(ask, {".", "both_a", "both_b", "hp"})
        yield ask
    finally:
        server.terminate()
        server.wait()


def wait_for(ask, runs, seconds=120):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if set(json.loads(ask("runs"))) >= runs:
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        assert time.monotonic() < deadline, "TensorBoard does not answer"
        time.sleep(0.2)


def test_tensorboard_serves_what_was_written(board):
    ask = lambda path: json.loads(board(f"plugin/{path}"))
    loss = ask("scalars/scalars?run=.&tag=loss")
    assert [row[:2] for row in loss] == [[1000.0 + i, i] for i in range(5)]
    np.testing.assert_allclose([row[2] for row in loss], 1 / np.arange(1, 6), rtol=1e-6)
    assert [row[2] for row in ask("scalars/scalars?run=.&tag=new")] == [0, 2, 4, 6, 8]
    assert [row[2] for row in ask("scalars/scalars?run=both_b&tag=both")] == [2]
    assert sum(bucket[2] for bucket in ask("histograms/histograms?run=.&tag=weights")[0][2]) == 1000
    (picture,) = ask("images/images?run=.&tag=picture&sample=0")
    assert decoded(board(f"plugin/images/individualImage?{picture['query']}")).shape == (8, 12, 3)
    (tone,) = ask("audio/audio?run=.&tag=tone&sample=0")
    assert board(f"plugin/audio/individualAudio?{tone['query']}")[:4] == b"RIFF"
    assert "<strong>bold</strong>" in ask("text/text?run=.&tag=note/text_summary")[0]["text"]
    assert b'name: "Net/body/0/linear"' in board("plugin/graphs/graph?run=.&conceptual=false")
    assert len(ask("pr_curves/pr_curves?run=.&tag=pr")["."][0]["precision"]) == 11
    assert ask("custom_scalars/layout")["category"][0]["title"] == "mine"
    assert ask("projector/info?run=.")["embeddings"][0]["tensorShape"] == [6, 3]
    told = json.loads(board("plugin/hparams/experiment", b'{"experimentName": ""}'))
    assert {each["name"] for each in told["hparamInfos"]} == {"lr", "kind", "flag"}
    assert [each["name"]["tag"] for each in told["metricInfos"]] == ["hp/acc"]
