"""Event files: what `SummaryWriter` writes of one run, here and by PyTorch."""

from importlib import import_module

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray

RNG = np.random.default_rng(0)
IMAGE, BATCH = RNG.random((3, 8, 9)).astype(np.float32), RNG.random((5, 1, 4, 4)).astype(np.float32)
LABELS, PREDICTIONS = RNG.integers(0, 2, 50), RNG.random(50).astype(np.float32)


def write(library, folder):
    tensor = library.tensor
    with import_module(f"{library.__name__}.utils.tensorboard").SummaryWriter(str(folder), purge_step=2) as w:
        w.add_scalar("loss (train)", tensor(1.5), 3)
        w.add_scalar("new", 2, new_style=True)
        w.add_scalar("double", 0.1, double_precision=True)
        w.add_scalar("new double", 0.1, new_style=True, double_precision=True)
        w.add_scalars("main/x", {"p": 1, "q": 2.0}, 1)
        w.add_tensor("tensor", tensor(IMAGE))
        w.add_histogram("histogram", tensor(IMAGE) - 0.5, 1)
        w.add_histogram("auto", tensor(IMAGE), 1, bins="auto")
        w.add_histogram("few", tensor(IMAGE), max_bins=50)
        w.add_histogram_raw("raw", 0, 1, 3, 2, 1, [0.0, 1.0], [1, 2], 4)
        w.add_image("image", tensor(IMAGE))
        w.add_image("grey", tensor(IMAGE[0]), dataformats="HW")
        w.add_images("batch", tensor(BATCH))
        w.add_audio("audio", tensor(IMAGE[0, 0]), sample_rate=800)
        w.add_text("text", "**x**", 5)
        w.add_pr_curve("curve", tensor(LABELS), tensor(PREDICTIONS), num_thresholds=20)
        w.add_custom_scalars({"c": {"d": ["Multiline", ["a"]], "e": ["Margin", ["a", "b", "c"]]}})
        w.add_mesh("mesh", tensor(IMAGE[:1, :, :3]), colors=tensor(IMAGE[:1, :, :3]) * 255, faces=tensor([[[0, 1, 2]]]))
        w.add_hparams({"lr": 0.1, "kind": "s", "n": 3}, {"acc": 1.0}, {"kind": ["s", "t"]}, run_name="hp")
        w.add_embedding(tensor(IMAGE[0]), list("abcdefgh"), tensor(RNG.random((8, 3, 4, 4)).astype(np.float32)))


def told(value):
    """A value by its kind: numbers as one array, however they are packed."""
    kind = value.WhichOneof("value")
    if kind == "tensor":
        array = make_ndarray(value.tensor).reshape(-1)
        return (kind, array.tolist() if array.dtype == object else array, value.metadata.plugin_data.plugin_name)
    if kind == "histo":
        h = value.histo
        return kind, np.array([h.min, h.max, h.num, h.sum, h.sum_squares, *h.bucket_limit, *h.bucket])
    if value.metadata.plugin_data.plugin_name == "hparams":
        return kind, str(HParamsPluginData.FromString(value.metadata.plugin_data.content))
    return kind, str(value)


def found(folder):
    """{(run, tag): (step, value)}"""
    return {
        (str(path.parent.relative_to(folder)), value.tag): (event.step, *told(value))
        for path in sorted(folder.rglob("events.out.tfevents.*"))
        for event in LegacyEventFileLoader(str(path)).Load()
        for value in event.summary.value
    }


def test_a_run(tmp_path):
    for library in (flambeau, torch):
        write(library, tmp_path / library.__name__)
    ours, theirs = (found(tmp_path / library.__name__) for library in (flambeau, torch))
    assert ours.keys() == theirs.keys() and len(ours) == 25
    differ = [name for name in ours if not all(map(alike, ours[name], theirs[name]))]
    assert not differ
    a, b = ((tmp_path / name / "projector_config.pbtxt").read_text() for name in ("flambeau", "torch"))
    assert a == b


def alike(a, b):
    return np.allclose(a, b, rtol=1e-6) if isinstance(a, np.ndarray) else a == b
