"""Values as TensorBoard's plugins want them: each function makes one Summary.Value message, or a list of them.

In: plain numbers, numpy arrays and texts. Out: bytes. Pictures are PNGs and sounds are WAVs, made here.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np

from . import protobuf as pb

FLOAT, DOUBLE, STRING = 1, 2, 7  # of TensorFlow's types
SCALARS_CLASS = 1
GREY, GREY_ALPHA, RGB, RGBA = 0, 4, 2, 6  # PNG's colour types
COLOURS = {1: GREY, 2: GREY_ALPHA, 3: RGB, 4: RGBA}


def value(tag: str, content: bytes, metadata: bytes | None = None) -> bytes:
    return pb.text(1, tag) + content + (b"" if metadata is None else pb.message(9, metadata))


def plugin(name: str, content: bytes = b"", data_class: int = 0) -> bytes:
    """A SummaryMetadata."""
    return pb.message(1, pb.text(1, name) + pb.raw(2, content)) + pb.integer(4, data_class)


def summary(*values: bytes) -> bytes:
    return b"".join(pb.message(1, each) for each in values)


def shape(sizes) -> bytes:
    return b"".join(pb.message(2, pb.integer(1, n)) for n in sizes)


def tensor(array: np.ndarray) -> bytes:
    """A field of Summary.Value with numbers."""
    kind = DOUBLE if array.dtype == np.float64 else FLOAT
    data = array.astype("<f8" if kind == DOUBLE else "<f4").tobytes()
    return pb.message(8, pb.integer(1, kind) + pb.message(2, shape(array.shape)) + pb.raw(4, data))


def texts(strings: list[str | bytes]) -> bytes:
    """A field of Summary.Value with strings."""
    parts = b"".join(pb.raw(8, each if isinstance(each, bytes) else each.encode()) for each in strings)
    return pb.message(8, pb.integer(1, STRING) + pb.message(2, shape((len(strings),))) + parts)


# -- numbers


def scalar(tag: str, number: float, as_tensor: bool = False, double: bool = False) -> bytes:
    if not as_tensor and not double:
        return value(tag, pb.single(2, number, always=True))
    return value(tag, tensor(np.asarray(number, np.float64 if double else np.float32)), plugin("scalars", b"", SCALARS_CLASS))


def default_bins() -> np.ndarray:
    """Edges that grow by a tenth on both sides of zero, as TensorFlow has them."""
    up = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-up[::-1], [0.0], up])


def histogram(tag: str, values: np.ndarray, bins="tensorflow", max_bins: int | None = None) -> bytes:
    """Counts between the edges; runs of empty buckets at both ends are left out."""
    values = np.asarray(values, np.float64).reshape(-1)
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(values, bins=default_bins() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        edges = np.append(edges[:-1:step], edges[-1])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = filled[0], filled[-1] + 1
    limits, kept = edges[first : last + 1], np.concatenate([[0], counts[first:last]])
    return histogram_raw(tag, values.min(), values.max(), len(values), values.sum(), values @ values, limits, kept)


def histogram_raw(tag, least, most, count, total, squares, limits, counts) -> bytes:
    numbers = (least, most, count, total, squares)
    body = b"".join(pb.double(k + 1, float(n), always=True) for k, n in enumerate(numbers))
    return value(tag, pb.message(5, body + pb.doubles(6, limits) + pb.doubles(7, counts)))


# -- pictures


def png(pixels: np.ndarray) -> bytes:
    """Bytes of height x width x channels (1 to 4) as a PNG."""
    height, width, channels = pixels.shape
    if channels not in COLOURS:
        raise ValueError(f"an image has 1, 2, 3 or 4 channels, not {channels}")
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    sealed = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(sealed)


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


def grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """A batch of pictures (batch, height, width, channels) as one, eight in a row."""
    count, height, width, channels = images.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    out = np.zeros((rows * height, columns * width, channels), images.dtype)
    for k, each in enumerate(images):
        top, left = k // columns * height, k % columns * width
        out[top : top + height, left : left + width] = each
    return out.repeat(3, 2) if channels == 1 else out


def image(tag: str, pixels: np.ndarray, encoded: bytes | None = None) -> bytes:
    """A picture of height x width x channels; `encoded`: its file, where there is one already."""
    height, width, channels = pixels.shape
    body = pb.integer(1, height) + pb.integer(2, width) + pb.integer(3, channels)
    return value(tag, pb.message(4, body + pb.raw(4, encoded or png(to_bytes(pixels)))))


def outlined(pixels: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The picture with red borders of boxes (left, top, right, bottom), in bytes."""
    out = np.array(to_bytes(pixels))
    height, width = out.shape[:2]
    for left, top, right, bottom in np.asarray(boxes, np.float64).round().astype(int).reshape(-1, 4):
        left, right, top, bottom = *np.clip((left, right), 0, width - 1), *np.clip((top, bottom), 0, height - 1)
        red = np.array([255, 0, 0, 255], np.uint8)[: out.shape[2]]
        out[top : bottom + 1, [left, right]] = red
        out[[top, bottom], left : right + 1] = red
    return out


# -- sound, text, curves


def audio(tag: str, samples: np.ndarray, rate: int) -> bytes:
    """Samples in [-1, 1] of one channel as a WAV of 16 bits."""
    import wave

    data = (np.clip(np.asarray(samples, np.float64).reshape(-1), -1, 1) * np.iinfo("<i2").max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, int(rate), len(data), "NONE", ""))
        out.writeframes(data.tobytes())
    body = pb.single(1, rate) + pb.integer(2, 1) + pb.integer(3, len(data)) + pb.raw(4, file.getvalue()) + pb.text(5, "audio/wav")
    return value(tag, pb.message(6, body))


def text(tag: str, string: str) -> bytes:
    return value(f"{tag}/text_summary", texts([string]), plugin("text", b"", 0))


def pr_curve(tag: str, labels: np.ndarray, predictions: np.ndarray, thresholds: int, weights=None) -> bytes:
    """Counts, precision and recall of predictions in [0, 1] at evenly spaced thresholds."""
    labels, predictions = np.asarray(labels).reshape(-1) > 0, np.asarray(predictions).reshape(-1)
    weights = np.ones(len(labels)) if weights is None else np.broadcast_to(np.asarray(weights, np.float64), labels.shape)
    buckets = np.floor(predictions * (thresholds - 1)).astype(int)

    def above(mask):
        counts = np.bincount(buckets[mask], weights[mask], thresholds)[:thresholds]
        return counts[::-1].cumsum()[::-1]

    true, false = above(labels), above(~labels)
    return pr_curve_raw(
        tag,
        true,
        false,
        false[0] - false,
        true[0] - true,
        true / np.maximum(1e-7, true + false),
        true / np.maximum(1e-7, true[0]),
        thresholds,
    )


def pr_curve_raw(tag, true_positive, false_positive, true_negative, false_negative, precision, recall, thresholds) -> bytes:
    rows = [true_positive, false_positive, true_negative, false_negative, precision, recall]
    content = pb.integer(2, min(thresholds, 127))
    return value(tag, tensor(np.stack([np.asarray(row, np.float32) for row in rows])), plugin("pr_curves", content))


def custom_scalars(layout: dict) -> bytes:
    """{category: {chart: ["Multiline" or "Margin", tags]}}; the first category is open."""
    out = b""
    for name, charts in layout.items():
        body = b"".join(pb.message(2, chart(title, *given)) for title, given in charts.items())
        out += pb.message(2, pb.text(1, name) + body)
    return value("custom_scalars__config__", texts([out]), plugin("custom_scalars"))


def chart(title: str, kind: str, tags: list) -> bytes:
    if kind.lower() == "multiline":
        return pb.text(1, title) + pb.message(2, b"".join(pb.text(1, tag) for tag in tags))
    if kind.lower() != "margin" or len(tags) != 3:
        raise ValueError(f"chart {title!r}: the kind is 'Multiline', or 'Margin' with three tags; got {kind!r} with {len(tags)}")
    series = b"".join(pb.text(k + 1, tag) for k, tag in enumerate(tags))
    return pb.text(1, title) + pb.message(3, pb.message(1, series))


# -- hyperparameters

HPARAMS_STRING, HPARAMS_BOOL, HPARAMS_FLOAT = 1, 2, 3
SUCCESS = 1


def plain(x) -> tuple[int, bytes]:
    """(hparams' type, google.protobuf.Value) of a hyperparameter."""
    if isinstance(x, (bool, np.bool_)):
        return HPARAMS_BOOL, pb.key(4, pb.VARINT) + pb.varint(int(x))
    if isinstance(x, (int, float, np.integer, np.floating)):
        return HPARAMS_FLOAT, pb.double(2, float(x), always=True)
    if isinstance(x, str):
        return HPARAMS_STRING, pb.raw(3, x.encode())
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hparams(given: dict, metrics: dict, domains: dict | None = None) -> list[bytes]:
    """The three values that describe a run: its experiment, its start, its end."""
    infos = start = b""
    for name, x in given.items():
        kind, packed = plain(x)
        body = pb.text(1, name) + pb.integer(4, kind)
        if domains and name in domains:
            body += pb.message(5, b"".join(pb.message(1, plain(each)[1]) for each in domains[name]))
        infos += pb.message(4, body)
        start += pb.message(1, pb.text(1, name) + pb.message(2, packed))
    infos += b"".join(pb.message(5, pb.message(1, pb.text(2, name))) for name in metrics)
    contents = {
        "experiment": pb.message(2, infos),
        "session_start_info": pb.message(3, start),
        "session_end_info": pb.message(4, pb.integer(1, SUCCESS)),
    }
    return [value(f"_hparams_/{name}", b"", plugin("hparams", content)) for name, content in contents.items()]
