"""Summaries as TensorBoard's plugins want them: each function makes one message of the package tensorboard.

In: plain numbers, numpy arrays and texts. Out: a Summary. Pictures are PNGs, videos GIFs, sounds WAVs.
"""

# pyright: reportAttributeAccessIssue=false
# (classes of messages are made when their modules are imported)

from __future__ import annotations

import io
import json
import wave
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from PIL import Image, ImageDraw
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.plugins.custom_scalar import layout_pb2, metadata as custom_scalar_metadata
from tensorboard.plugins.hparams import api_pb2, metadata as hparams_metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve import metadata as pr_curve_metadata
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.util.tensor_util import make_tensor_proto


def summary(tag: str, **content) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, **content)])


def tensor(tag: str, array: np.ndarray) -> Summary:
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="tensor"))
    return summary(tag, tensor=make_tensor_proto(array), metadata=plugin)


# -- numbers


def scalar(tag: str, number: float, as_tensor: bool = False, double: bool = False) -> Summary:
    if not as_tensor:
        return summary(tag, simple_value=number)
    array = np.asarray(number, np.float64 if double else np.float32)
    return summary(tag, tensor=make_tensor_proto(array), metadata=scalar_metadata.create_summary_metadata("", ""))


def default_bins() -> np.ndarray:
    """Edges that grow by a tenth on both sides of zero, as TensorFlow has them."""
    up = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-up[::-1], [0.0], up])


def histogram(tag: str, values: np.ndarray, bins="tensorflow", max_bins: int | None = None) -> Summary:
    """Counts between the edges; runs of empty buckets at both ends are left out."""
    values = np.asarray(values, np.float64).reshape(-1)
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(values, bins=default_bins() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        edges = np.append(edges[:-1:step], edges[-1])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = filled[0], filled[-1] + 1
    limits, kept = edges[first : last + 1], np.concatenate([[0], counts[first:last]])
    return histogram_raw(tag, values.min(), values.max(), len(values), values.sum(), values @ values, limits, kept)


def histogram_raw(tag, least, most, count, total, squares, limits, counts) -> Summary:
    numbers = dict(min=least, max=most, num=count, sum=total, sum_squares=squares)
    return summary(tag, histo=HistogramProto(**numbers, bucket_limit=limits, bucket=counts))


# -- pictures


def to_bytes(pixels: np.ndarray) -> np.ndarray:
    """0 to 255: whole numbers are taken as they are, others as parts of 1."""
    if pixels.dtype == np.uint8:
        return pixels
    return np.clip(np.asarray(pixels, np.float64) * 255, 0, 255).astype(np.uint8)


def arranged(array: np.ndarray, form: str) -> np.ndarray:
    """Height x width x channels of a picture (or a grid of a batch) whose axes `form` names."""
    form = form.upper()
    if len(set(form)) != len(form):
        raise AssertionError(f"You can not use the same dimension shordhand twice. input_format: {form}")
    if array.ndim != len(form) or set(form) - set("NCHW"):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, input_format: {form}"
        )
    if "N" in form:
        order: Any = [form.index(axis) if axis in form else None for axis in "NHWC"]
        return grid(array.transpose(order))
    if "C" not in form:
        return array.transpose([form.index(axis) for axis in "HW"])[:, :, None].repeat(3, 2)
    found = array.transpose([form.index(axis) for axis in "HWC"])
    return found.repeat(3, 2) if found.shape[2] == 1 else found


def grid(images: np.ndarray, columns: int = 8, rows: int = 0) -> np.ndarray:
    """A batch of pictures (batch, height, width, channels) as one, eight in a row, in `rows` rows at least."""
    count, height, width, channels = images.shape
    columns = min(columns, count)
    rows = max(rows, -(-count // columns))
    out = np.zeros((rows * height, columns * width, channels), images.dtype)
    for k, each in enumerate(images):
        top, left = k // columns * height, k % columns * width
        out[top : top + height, left : left + width] = each
    return out.repeat(3, 2) if channels == 1 else out


def picture(pixels: np.ndarray) -> Image.Image:
    if pixels.shape[2] not in (1, 2, 3, 4):
        raise ValueError(f"an image has 1, 2, 3 or 4 channels, not {pixels.shape[2]}")
    return Image.fromarray(to_bytes(pixels).squeeze(2) if pixels.shape[2] == 1 else to_bytes(pixels))


def image(tag: str, pixels: np.ndarray, boxes=(), labels=None, rescale: float = 1) -> Summary:
    """A picture of height x width x channels, with red borders at boxes (left, top, right, bottom) in pixels."""
    drawn = picture(pixels)
    draw = ImageDraw.Draw(drawn)
    for k, box in enumerate(np.asarray(boxes, np.float64).round().reshape(-1, 4).tolist()):
        draw.rectangle(box, outline="red")
        if labels is not None:
            draw.text((box[0] + 2, box[1] + 1), str(labels[k]), fill="red")
    return encoded(tag, drawn.resize((int(drawn.width * rescale), int(drawn.height * rescale))) if rescale != 1 else drawn)


def video(tag: str, pictures: list[np.ndarray], fps: float) -> Summary:
    first, *rest = map(picture, pictures)
    return encoded(tag, first, format="GIF", save_all=True, append_images=rest, duration=round(1000 / fps), loop=0)


def encoded(tag: str, drawn: Image.Image, **options) -> Summary:
    out = io.BytesIO()
    drawn.save(out, **{"format": "PNG", **options})
    body = dict(height=drawn.height, width=drawn.width, colorspace=len(drawn.getbands()))
    return summary(tag, image=Summary.Image(**body, encoded_image_string=out.getvalue()))


# -- sound, text, curves, shapes


def audio(tag: str, samples: np.ndarray, rate: int) -> Summary:
    """Samples in [-1, 1] of one channel as a WAV of 16 bits."""
    data = (np.clip(np.asarray(samples, np.float64).reshape(-1), -1, 1) * np.iinfo("<i2").max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, int(rate), len(data), "NONE", ""))
        out.writeframes(data.tobytes())
    body = dict(sample_rate=rate, num_channels=1, length_frames=len(data), content_type="audio/wav")
    return summary(tag, audio=Summary.Audio(**body, encoded_audio_string=file.getvalue()))


def text(tag: str, string: str) -> Summary:
    return text_pb(f"{tag}/text_summary", string)


def pr_curve(tag: str, labels: np.ndarray, predictions: np.ndarray, thresholds: int, weights=None) -> Summary:
    """Counts, precision and recall of predictions in [0, 1] at evenly spaced thresholds."""
    labels, predictions = np.asarray(labels).reshape(-1) > 0, np.asarray(predictions).reshape(-1)
    weights = np.ones(len(labels)) if weights is None else np.broadcast_to(np.asarray(weights, np.float64), labels.shape)
    buckets = np.floor(predictions * (thresholds - 1)).astype(int)

    def above(mask):
        counts = np.bincount(buckets[mask], weights[mask], thresholds)[:thresholds]
        return counts[::-1].cumsum()[::-1]

    true, false = above(labels), above(~labels)
    precision, recall = true / np.maximum(1e-7, true + false), true / np.maximum(1e-7, true[0])
    return pr_curve_raw(tag, (true, false, false[0] - false, true[0] - true, precision, recall), thresholds)


def pr_curve_raw(tag: str, rows, thresholds: int) -> Summary:
    """Rows: true and false positives, true and false negatives, precision, recall."""
    metadata = pr_curve_metadata.create_summary_metadata("", "", min(thresholds, 127))
    return summary(tag, tensor=make_tensor_proto(np.stack(rows).astype(np.float32)), metadata=metadata)


def mesh(tag: str, vertices: np.ndarray, colors=None, faces=None, config: dict | None = None) -> Summary:
    """Points (batch, points, 3), their colours, and the triangles between them (batch, triangles, 3)."""
    given = {MeshPluginData.VERTEX: vertices, MeshPluginData.FACE: faces, MeshPluginData.COLOR: colors}
    parts = {kind: np.asarray(array, np.float32) for kind, array in given.items() if array is not None}
    made, known = Summary(), mesh_metadata.get_components_bitmask(parts)
    for kind, array in parts.items():
        metadata = mesh_metadata.create_summary_metadata(tag, "", kind, known, array.shape, json_config=json.dumps(config or {}))
        made.value.add(tag=mesh_metadata.get_instance_name(tag, kind), tensor=make_tensor_proto(array), metadata=metadata)
    return made


def custom_scalars(layout: dict) -> Summary:
    """{category: {chart: ["Multiline" or "Margin", tags]}}; the first category is open."""
    categories = [
        layout_pb2.Category(title=name, chart=[chart(title, *given) for title, given in charts.items()])
        for name, charts in layout.items()
    ]
    packed = make_tensor_proto(layout_pb2.Layout(category=categories).SerializeToString())
    return summary(
        custom_scalar_metadata.CONFIG_SUMMARY_TAG, tensor=packed, metadata=custom_scalar_metadata.create_summary_metadata()
    )


def chart(title: str, kind: str, tags: list) -> layout_pb2.Chart:
    if kind.lower() == "multiline":
        return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    if kind.lower() != "margin" or len(tags) != 3:
        raise ValueError(f"chart {title!r}: the kind is 'Multiline', or 'Margin' with three tags; got {kind!r} with {len(tags)}")
    series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))


# -- hyperparameters


def plain(x) -> tuple[int, struct_pb2.Value]:
    """(hparams' type, message) of a hyperparameter."""
    if isinstance(x, (bool, np.bool_)):
        return api_pb2.DATA_TYPE_BOOL, struct_pb2.Value(bool_value=bool(x))
    if isinstance(x, (int, float, np.integer, np.floating)):
        return api_pb2.DATA_TYPE_FLOAT64, struct_pb2.Value(number_value=float(x))
    if isinstance(x, str):
        return api_pb2.DATA_TYPE_STRING, struct_pb2.Value(string_value=x)
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hparams(given: dict, metrics: dict, domains: dict | None = None) -> Summary:
    """The three values that describe a run: its experiment, its start, its end."""
    experiment, start = api_pb2.Experiment(), SessionStartInfo()
    for name, x in given.items():
        kind, value = plain(x)
        info = experiment.hparam_infos.add(name=name, type=kind)
        if domains and name in domains:
            info.domain_discrete.values.extend([plain(each)[1] for each in domains[name]])
        start.hparams[name].CopyFrom(value)
    for name in metrics:
        experiment.metric_infos.add(name=api_pb2.MetricName(tag=name))
    contents = {
        hparams_metadata.EXPERIMENT_TAG: HParamsPluginData(experiment=experiment),
        hparams_metadata.SESSION_START_INFO_TAG: HParamsPluginData(session_start_info=start),
        hparams_metadata.SESSION_END_INFO_TAG: HParamsPluginData(session_end_info=SessionEndInfo(status=api_pb2.STATUS_SUCCESS)),
    }
    made = Summary()
    for name, content in contents.items():
        made.value.add(tag=name, metadata=hparams_metadata.create_summary_metadata(content))
    return made
