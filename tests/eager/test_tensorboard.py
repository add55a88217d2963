"""Event files: what was written is read back, with checksums, by TensorBoard's loader; and TensorBoard serves it."""

import io
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import wave

import numpy as np
import pytest

pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.util.tensor_util import make_ndarray

import flambeau as torch
from flambeau import nn
from flambeau.utils.tensorboard import SummaryWriter, summaries as made


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
        w.add_scalar("wide", 0.1, new_style=True, double_precision=True)
        w.add_scalars("both", {"a": 1.0, "b": 2.0}, 3)
        w.add_image("picture", torch.arange(3 * 8 * 12).view(3, 8, 12) / 288, 1)
        w.add_images("batch", torch.rand(5, 1, 8, 8), 1)
        w.add_image_with_boxes("boxed", torch.zeros(3, 20, 20), torch.tensor([[2, 3, 10, 12]]))
        w.add_image_with_boxes("labelled", torch.zeros(3, 20, 20), torch.tensor([[2, 2, 18, 18]]), rescale=2, labels=["M"])
        w.add_video("moving", torch.rand(2, 3, 3, 4, 5))
        w.add_mesh(
            "solid",
            torch.arange(12.0).view(1, 4, 3),
            torch.zeros(1, 4, 3),
            torch.tensor([[[0, 1, 2], [1, 2, 3]]]),
            {"camera": {"cls": "PerspectiveCamera"}},
        )
        w.add_audio("tone", torch.sin(torch.arange(4410) * 0.1), 1, sample_rate=4410)
        w.add_text("note", "**bold** text", 2)
        w.add_pr_curve("pr", torch.tensor([0, 0, 1, 1]), torch.tensor([0.1, 0.6, 0.4, 1.0]), 0, num_thresholds=11)
        w.add_graph(Net(), torch.randn(3, 4))
        w.add_hparams({"lr": 0.1, "kind": "sgd", "flag": True}, {"hp/acc": 0.9}, {"kind": ["sgd", "adam"]}, run_name="hp")
        w.add_custom_scalars({"mine": {"losses": ["Multiline", ["loss", "new"]]}})
        w.add_embedding(torch.randn(6, 3), metadata=list("abcdef"), label_img=torch.rand(6, 3, 4, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_everything(folder)
    return folder


def events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return list(LegacyEventFileLoader(str(path)).Load())


def summaries(folder, tag):
    """(step, value) of each value with this tag."""
    return [(event.step, value) for event in events(folder) for value in event.summary.value if value.tag == tag]


def test_scalars(folder):
    assert events(folder)[0].file_version == "brain.Event:2"
    found = summaries(folder, "loss")
    assert [step for step, _ in found] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([value.simple_value for _, value in found], 1 / np.arange(1, 6), rtol=1e-6)
    losses = [event.wall_time for event in events(folder) if [value.tag for value in event.summary.value] == ["loss"]]
    assert losses == [1000.0 + i for i in range(5)]
    assert [make_ndarray(value.tensor) for _, value in summaries(folder, "new")] == [0, 2, 4, 6, 8]
    assert [make_ndarray(value.tensor).dtype for _, value in summaries(folder, "wide")] == [np.float64]
    ((_, other),) = summaries(folder / "both_b", "both")
    assert other.simple_value == 2.0


def test_histogram(folder):
    body = summaries(folder, "weights")[0][1].histo
    assert (body.min, body.max, body.num, body.sum) == (0, 999, 1000, 499500.0)
    assert body.sum_squares == float(np.square(np.arange(1000.0)).sum())
    limits, counts = np.array(body.bucket_limit), np.array(body.bucket)
    assert len(limits) == len(counts) and counts.sum() == 1000
    for limit, below in zip(limits, counts.cumsum()):
        assert abs(below - np.clip(np.ceil(limit), 0, 1000)) <= 1


def decoded(picture):
    """Pixels of a file."""
    return np.array(Image.open(io.BytesIO(picture)))


def test_images(folder):
    ((_, value),) = summaries(folder, "picture")
    body = value.image
    assert (body.height, body.width, body.colorspace) == (8, 12, 3) and body.encoded_image_string[1:4] == b"PNG"
    want = (np.arange(288).reshape(3, 8, 12) / 288 * 255).astype(np.uint8).transpose(1, 2, 0)
    assert np.abs(decoded(body.encoded_image_string).astype(int) - want).max() <= 1
    ((_, value),) = summaries(folder, "batch")
    assert decoded(value.image.encoded_image_string).shape == (8, 40, 3)
    ((_, value),) = summaries(folder, "boxed")
    pixels = decoded(value.image.encoded_image_string)
    assert (pixels[3, 2:11] == [255, 0, 0]).all() and not pixels[4:12, 3:10].any() and pixels[..., 0].sum() == 255 * 34
    ((_, value),) = summaries(folder, "labelled")
    assert value.image.height == 40 and decoded(value.image.encoded_image_string)[8:20, 8:16, 0].any()
    ((_, value),) = summaries(folder, "moving")
    assert (value.image.height, value.image.width) == (4, 10) and value.image.encoded_image_string[:3] == b"GIF"
    assert Image.open(io.BytesIO(value.image.encoded_image_string)).n_frames == 3


def test_audio_and_text(folder):
    ((_, value),) = summaries(folder, "tone")
    body = value.audio
    assert (body.sample_rate, body.length_frames, body.content_type) == (4410.0, 4410, "audio/wav")
    with wave.open(io.BytesIO(body.encoded_audio_string)) as sound:
        samples = np.frombuffer(sound.readframes(4410), "<i2") / 32767
    np.testing.assert_allclose(samples, np.sin(np.arange(4410) * 0.1), atol=1e-4)
    ((step, value),) = summaries(folder, "note/text_summary")
    assert step == 2 and list(value.tensor.string_val) == [b"**bold** text"]


def test_pr_curve(folder):
    ((_, value),) = summaries(folder, "pr")
    rows = make_ndarray(value.tensor)
    assert rows.shape == (6, 11)
    labels, predictions = np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 1.0])
    for k, threshold in enumerate(np.linspace(0, 1, 11)):
        taken = np.floor(np.float32(predictions) * 10) >= round(threshold * 10)
        assert rows[0, k] == (taken & (labels == 1)).sum() and rows[1, k] == (taken & (labels == 0)).sum()
        assert rows[2, k] == (~taken & (labels == 0)).sum() and rows[3, k] == (~taken & (labels == 1)).sum()


def test_mesh(folder):
    found = {kind: summaries(folder, f"solid_{kind}")[0][1] for kind in ("VERTEX", "FACE", "COLOR")}
    data = MeshPluginData.FromString(found["FACE"].metadata.plugin_data.content)
    assert list(data.shape) == [1, 2, 3] and data.name == "solid" and data.components == 14
    assert json.loads(data.json_config) == {"camera": {"cls": "PerspectiveCamera"}}
    assert make_ndarray(found["VERTEX"].tensor).tolist() == torch.arange(12.0).view(1, 4, 3).tolist()


def test_hyperparameters(folder):
    values = {value.tag: value for event in events(folder / "hp") for value in event.summary.value}
    data = lambda tag: HParamsPluginData.FromString(values[f"_hparams_/{tag}"].metadata.plugin_data.content)
    infos = {info.name: info for info in data("experiment").experiment.hparam_infos}
    assert [infos[name].type for name in ("kind", "flag", "lr")] == [1, 2, 3]
    assert [each.string_value for each in infos["kind"].domain_discrete.values] == ["sgd", "adam"]
    assert not infos["lr"].HasField("domain_discrete")
    assert data("session_start_info").session_start_info.hparams["lr"].number_value == 0.1
    assert data("session_end_info").session_end_info.status == 1 and values["hp/acc"].simple_value == np.float32(0.9)


def test_embedding(folder):
    config = (folder / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 1 and 'tensor_path: "00000/default/tensors.tsv"' in config
    assert len((folder / "00000/default/tensors.tsv").read_text().splitlines()) == 6
    assert (folder / "00000/default/metadata.tsv").read_text().split() == list("abcdef")
    assert Image.open(folder / "00000/default/sprite.png").size == (12, 12) and config.count("single_image_dim: 4") == 2


def test_graph(folder):
    (data,) = [event.graph_def for event in events(folder) if event.graph_def]
    nodes = {node.name: node for node in GraphDef.FromString(data).node}
    assert {
        "input/0",
        "Net/body/0/weight",
        "Net/head/bias",
        "Net/body/0/linear",
        "Net/body/1/relu",
        "Net/head/linear",
        "output/result",
    } == set(nodes) - {"Net/body/0/bias", "Net/head/weight"}
    assert list(nodes["Net/body/0/linear"].input) == ["input/0", "Net/body/0/weight", "Net/body/0/bias"]
    assert list(nodes["Net/body/1/relu"].input) == ["Net/body/0/linear"]
    assert list(nodes["output/result"].input) == ["Net/head/linear"]
    attributes = nodes["Net/head/linear"].attr
    assert attributes["dtype"].type == 1
    assert [d.size for d in attributes["_output_shapes"].list.shape[0].dim] == [3, 2]


def test_writers_flush_and_open_anew(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=3, flush_secs=1000, purge_step=5)
    load = lambda: [e for path in sorted(tmp_path.glob("events*")) for e in LegacyEventFileLoader(str(path)).Load()]
    for i in range(5):
        writer.add_scalar("x", i)
    writer.flush()
    assert len(load()) == 7 and (load()[1].step, load()[1].session_log.status) == (5, 1)
    writer.add_scalar("x", 2)
    writer.close()
    assert len(load()) == 8
    writer.add_scalar("x", 3)
    writer.close()
    assert len(load()) == 10 and len(list(tmp_path.glob("events*"))) == 2


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
        with pytest.raises(NotImplementedError, match="add_onnx_graph"):
            writer.add_onnx_graph("model.onnx")
    with pytest.raises(ValueError, match="Margin"):
        made.custom_scalars({"a": {"b": ["Margin", ["x"]]}})


# -- the real one


@pytest.fixture(scope="module")
def board(folder):
    """Asks a TensorBoard over the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
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
