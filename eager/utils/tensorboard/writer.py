"""`SummaryWriter`: what a training run tells, as files that TensorBoard reads.

In: tensors, arrays and numbers under tags and steps. Out: event files in a folder, one a run, which the package tensorboard
writes; `summaries.py` makes the summaries. Pictures of batches are laid out in a grid.
"""

# pyright: reportAttributeAccessIssue=false
# (classes of messages are made when their modules are imported)

from __future__ import annotations

import datetime
import math
import os
import socket
import time

import numpy as np
from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ...tensor import Tensor
from . import graphs, summaries


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


class FileWriter(EventFileWriter):
    """Summaries and graphs into one event file."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        super().__init__(os.fspath(log_dir), max_queue, flush_secs, filename_suffix)

    def add_event(self, event, step=None, walltime=None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        super().add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None) -> None:
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph, walltime=None) -> None:
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)


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
            self._get_file_writer().add_event(Event(session_log=SessionLog(status=SessionLog.START)), purge_step)

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

    def _add(self, made, step, walltime) -> None:
        self._get_file_writer().add_summary(made, global_step=step, walltime=walltime)

    # -- numbers

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """One number; `new_style` writes it as a tensor, with `double_precision` one of 64 bits."""
        self._add(summaries.scalar(tag, number_of(scalar_value), new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one chart: each key is a run of its own, in a folder below this one's."""
        for name, number in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{name}")
            self._another(folder).add_summary(
                summaries.scalar(main_tag, number_of(number)), global_step=global_step, walltime=walltime
            )

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        self._add(summaries.tensor(tag, numpy_of(tensor)), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        self._add(summaries.histogram(tag, numpy_of(values), bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None, walltime=None
    ):
        """A histogram that was counted elsewhere; limits are right edges."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summaries.histogram_raw(tag, min, max, num, sum, sum_squares, numpy_of(bucket_limits), numpy_of(bucket_counts))
        self._add(made, global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        weights = None if weights is None else numpy_of(weights)
        self._add(
            summaries.pr_curve(tag, numpy_of(labels), numpy_of(predictions), num_thresholds, weights), global_step, walltime
        )

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
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        rows = [numpy_of(row) for row in (*counts, precision, recall)]
        self._add(summaries.pr_curve_raw(tag, rows, num_thresholds), global_step, walltime)

    # -- pictures, sound, text

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """Floats in [0, 1] or bytes; `dataformats` names the axes: CHW, HWC, HW."""
        self._add(summaries.image(tag, summaries.arranged(numpy_of(img_tensor), dataformats)), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """A batch as one picture, eight in a row (or a list of pictures without their axis N)."""
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = np.stack([numpy_of(each) for each in img_tensor])
            dataformats = "N" + dataformats.upper().replace("N", "")
        self._add(summaries.image(tag, summaries.arranged(numpy_of(img_tensor), dataformats)), global_step, walltime)

    def add_image_with_boxes(
        self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1, dataformats="CHW", labels=None
    ):
        """Red borders at boxes of (left, top, right, bottom) in pixels; `labels`: a text for each."""
        pixels = summaries.arranged(numpy_of(img_tensor), dataformats)
        self._add(summaries.image(tag, pixels, numpy_of(box_tensor), labels, rescale), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, or a list of figures side by side."""
        pictures = [drawn(each, close) for each in (figure if isinstance(figure, (list, tuple)) else [figure])]
        pixels = pictures[0] if len(pictures) == 1 else summaries.grid(np.stack(pictures))
        self._add(summaries.image(tag, pixels), global_step, walltime)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """A batch of videos (batch, time, channels, height, width) as one GIF."""
        frames = numpy_of(vid_tensor).transpose(1, 0, 3, 4, 2)
        self._add(summaries.video(tag, [summaries.grid(each) for each in frames], fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Samples in [-1, 1] of one channel."""
        self._add(summaries.audio(tag, numpy_of(snd_tensor), sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, which may be Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Points (batch, points, 3) with colours, and triangles of them; `config_dict`: classes of ThreeJS."""
        parts = {kind: numpy_of(part) for kind, part in (("colors", colors), ("faces", faces)) if part is not None}
        self._add(summaries.mesh(tag, numpy_of(vertices), config=config_dict, **parts), global_step, walltime)

    # -- models and runs

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The ops of one call of `model`, folded by its modules."""
        if input_to_model is None:
            raise ValueError("SummaryWriter.add_graph: input_to_model is what the model is called with; it is needed")
        graph = graphs.graph_of(model, input_to_model)
        if verbose:
            print(f"graph of {type(model).__name__}: {len(graph.node)} nodes")
        self._get_file_writer().add_graph(graph)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Rows of a matrix for the projector; `metadata`: a label (or a list of them) a row; `label_img`: a square picture."""
        rows = numpy_of(mat)
        if rows.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(rows):
            raise AssertionError("#labels should equal with #data points")
        step = "00000" if global_step is None else f"{int(global_step):05d}"
        folder = f"{step}/{str(tag).replace('/', '_')}"
        os.makedirs(os.path.join(self.log_dir, folder), exist_ok=True)
        self._write(f"{folder}/tensors.tsv", table(rows.astype(float).tolist()))
        config = ProjectorConfig()
        described = config.embeddings.add(tensor_name=f"{tag}:{step}", tensor_path=f"{folder}/tensors.tsv")
        if metadata is not None:
            head = [metadata_header] if metadata_header else []
            self._write(f"{folder}/metadata.tsv", table([*head, *metadata]))
            described.metadata_path = f"{folder}/metadata.tsv"
        if label_img is not None:
            images, side = numpy_of(label_img).transpose(0, 2, 3, 1), math.ceil(len(rows) ** 0.5)
            if len(images) != len(rows) or images.shape[1] != images.shape[2]:
                raise AssertionError("#images should equal with #data points, and each should be square")
            described.sprite.image_path = f"{folder}/sprite.png"
            described.sprite.single_image_dim.extend(images.shape[1:3])
            summaries.picture(summaries.grid(images, side, side)).save(os.path.join(self.log_dir, folder, "sprite.png"))
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "a") as file:
            file.write(text_format.MessageToString(config))

    def _write(self, name: str, content: str) -> None:
        with open(os.path.join(self.log_dir, name), "w") as file:
            file.write(content)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """One run's settings and results, as a run below this one's folder."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        given = {name: number_of(x) if isinstance(x, Tensor) else x for name, x in hparam_dict.items()}
        made = summaries.hparams(given, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as below:
            below._get_file_writer().add_summary(made)
            for name, number in metric_dict.items():
                below.add_scalar(name, number, global_step)

    def add_custom_scalars(self, layout):
        """{category: {chart: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}: which charts are drawn together."""
        self._add(summaries.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_onnx_graph(self, prototxt):
        raise NotImplementedError("SummaryWriter.add_onnx_graph does not exist in flambeau: add_graph draws a model")

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
