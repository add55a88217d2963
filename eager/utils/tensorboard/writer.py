"""`SummaryWriter`: what a training run tells, as files that TensorBoard reads. No package is needed to write them.

In: tensors, arrays and numbers under tags and steps. Out: event files in a folder (`files.py`), one a run; `values.py` has
the messages. Pictures of batches are laid out in a grid; what would need a package that is absent says so.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import socket
import time

import numpy as np

from ...tensor import Tensor
from . import graphs, values as messages
from .files import EventFile, event
from . import protobuf as pb


def numpy_of(x) -> np.ndarray:
    """A tensor, array, number or list as an array; bfloat16 as float32."""
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        x = (x.float() if x.dtype.name == "bfloat16" else x).numpy()
    return np.asarray(x)


def number_of(x) -> float:
    array = numpy_of(x)
    if array.size != 1:
        raise AssertionError("scalar should be 0D")
    return float(array.reshape(()))


class FileWriter:
    """Summaries and graphs into one event file."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir)
        self.file = EventFile(self.log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        return self.log_dir

    def add_summary(self, *made: bytes, global_step=None, walltime=None) -> None:
        """Values (messages) of one step."""
        step = None if global_step is None else int(global_step)
        self.file.add(event(step, walltime, summary=messages.summary(*made)))

    def add_graph(self, graph: bytes, walltime=None) -> None:
        self.file.add(event(None, walltime, graph=graph))

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class SummaryWriter:
    """Writes under `log_dir` (default: runs/<date>_<host><comment>). `purge_step`: what earlier files of the folder say of
    later steps is void. `max_queue`, `flush_secs`: events and seconds after which the file is written out."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = os.fspath(log_dir), purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self._get_file_writer()
        if purge_step is not None:
            self._get_file_writer().file.add(event(purge_step, session=pb.integer(1, 1)))  # a session starts

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._another(self.log_dir)
        return self.file_writer

    def _another(self, folder: str) -> FileWriter:
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        return self.all_writers[folder]

    def get_logdir(self) -> str:
        return self.log_dir

    def _add(self, made: bytes, step, walltime) -> None:
        self._get_file_writer().add_summary(made, global_step=step, walltime=walltime)

    # -- numbers

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """One number; `new_style` writes it as a tensor, `double_precision` as one of 64 bits."""
        self._add(messages.scalar(tag, number_of(scalar_value), new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one chart: each key is a run of its own, in a folder below this one's."""
        for name, number in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{name}")
            self._another(folder).add_summary(
                messages.scalar(main_tag, number_of(number)), global_step=global_step, walltime=walltime
            )

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        self._add(messages.value(tag, messages.tensor(numpy_of(tensor)), messages.plugin("tensor")), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        self._add(messages.histogram(tag, numpy_of(values), bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None, walltime=None
    ):
        """A histogram that was counted elsewhere; limits are right edges."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = messages.histogram_raw(tag, min, max, num, sum, sum_squares, numpy_of(bucket_limits), numpy_of(bucket_counts))
        self._add(made, global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        weights = None if weights is None else numpy_of(weights)
        self._add(messages.pr_curve(tag, numpy_of(labels), numpy_of(predictions), num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        if weights is not None:
            raise RuntimeError("SummaryWriter.add_pr_curve_raw: weights is not supported: the counts hold them already")
        content = messages.pr_curve_raw(
            tag,
            numpy_of(true_positive_counts),
            numpy_of(false_positive_counts),
            numpy_of(true_negative_counts),
            numpy_of(false_negative_counts),
            numpy_of(precision),
            numpy_of(recall),
            num_thresholds,
        )
        self._add(content, global_step, walltime)

    # -- pictures, sound, text

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """Floats in [0, 1] or bytes; `dataformats` names the axes: CHW, HWC, HW."""
        self._add(messages.image(tag, messages.arranged(numpy_of(img_tensor), dataformats)), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """A batch as one picture, eight in a row (or a list of pictures without their axis N)."""
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = np.stack([numpy_of(each) for each in img_tensor])
            dataformats = "N" + dataformats.upper().replace("N", "")
        self._add(messages.image(tag, messages.arranged(numpy_of(img_tensor), dataformats)), global_step, walltime)

    def add_image_with_boxes(
        self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1, dataformats="CHW", labels=None
    ):
        """Red borders at boxes of (left, top, right, bottom) in pixels."""
        if labels is not None or rescale != 1:
            raise RuntimeError(
                "SummaryWriter.add_image_with_boxes: labels and rescale are not supported: boxes are drawn without text"
            )
        pixels = messages.outlined(messages.arranged(numpy_of(img_tensor), dataformats), numpy_of(box_tensor))
        self._add(messages.image(tag, pixels), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, or a list of figures side by side."""
        pictures = [drawn(each, close) for each in (figure if isinstance(figure, (list, tuple)) else [figure])]
        pixels = pictures[0] if len(pictures) == 1 else messages.grid(np.stack(pictures))
        self._add(messages.image(tag, pixels), global_step, walltime)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """A batch of videos (batch, time, channels, height, width) as one GIF; needs Pillow."""
        frames = numpy_of(vid_tensor).transpose(1, 0, 3, 4, 2)
        pictures = [messages.to_bytes(messages.grid(each)) for each in frames]
        self._add(messages.image(tag, pictures[0], gif(pictures, fps)), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Samples in [-1, 1] of one channel."""
        self._add(messages.audio(tag, numpy_of(snd_tensor), sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, which may be Markdown."""
        self._add(messages.text(tag, text_string), global_step, walltime)

    # -- models and runs

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The ops of one call of `model`, folded by its modules."""
        if input_to_model is None:
            raise ValueError("SummaryWriter.add_graph: input_to_model is what the model is called with; it is needed")
        graph = graphs.graph_of(model, input_to_model)
        if verbose:
            print(f"graph of {type(model).__name__}: {len(pb.fields(graph)[1])} nodes")
        self._get_file_writer().add_graph(graph)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Rows of a matrix for the projector; `metadata`: a label (or a list of them) a row."""
        if label_img is not None:
            raise RuntimeError("SummaryWriter.add_embedding: label_img is not supported")
        rows = numpy_of(mat)
        if rows.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(rows):
            raise AssertionError("#labels should equal with #data points")
        step = "00000" if global_step is None else f"{int(global_step):05d}"
        folder = f"{step}/{str(tag).replace('/', '_')}"
        os.makedirs(os.path.join(self.log_dir, folder), exist_ok=True)
        self._write(f"{folder}/tensors.tsv", table(rows.astype(float).tolist()))
        described = {"tensor_name": f"{tag}:{step}", "tensor_path": f"{folder}/tensors.tsv"}
        if metadata is not None:
            head = [metadata_header] if metadata_header else []
            self._write(f"{folder}/metadata.tsv", table([*head, *metadata]))
            described["metadata_path"] = f"{folder}/metadata.tsv"
        lines = "".join(f"  {name}: {json.dumps(given)}\n" for name, given in described.items())
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "a") as file:
            file.write(f"embeddings {{\n{lines}}}\n")

    def _write(self, name: str, content: str) -> None:
        with open(os.path.join(self.log_dir, name), "w") as file:
            file.write(content)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """One run's settings and results, as a run below this one's folder."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        given = {name: number_of(x) if isinstance(x, Tensor) else x for name, x in hparam_dict.items()}
        made = messages.hparams(given, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as below:
            below._get_file_writer().add_summary(*made)
            for name, number in metric_dict.items():
                below.add_scalar(name, number, global_step)

    def add_custom_scalars(self, layout):
        """{category: {chart: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}: which charts are drawn together."""
        self._add(messages.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def __getattr__(self, name):
        if name in ("add_mesh", "add_onnx_graph"):
            raise AttributeError(f"SummaryWriter.{name} does not exist in flambeau")
        raise AttributeError(f"'SummaryWriter' object has no attribute {name!r}")

    # -- the files

    def flush(self) -> None:
        for each in self.all_writers.values():
            each.flush()

    def close(self) -> None:
        """Writes everything; adding more opens new files."""
        for each in self.all_writers.values():
            each.close()
        self.file_writer, self.all_writers = None, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def table(rows) -> str:
    """Lines with tabs between the cells; a row may be a single cell."""
    return "".join("\t".join(map(str, row if isinstance(row, (list, tuple)) else [row])) + "\n" for row in rows)


def drawn(figure, close: bool) -> np.ndarray:
    """The pixels of a figure."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba())
    if close:
        pyplot.close(figure)
    return pixels


def gif(pictures: list, fps: float) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("SummaryWriter.add_video writes GIFs with Pillow: install it (pip install pillow)") from None
    out = io.BytesIO()
    first, *rest = [Image.fromarray(each.squeeze(-1) if each.shape[-1] == 1 else each) for each in pictures]
    first.save(out, format="GIF", save_all=True, append_images=rest, duration=round(1000 / fps), loop=0)
    return out.getvalue()
