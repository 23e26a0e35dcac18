"""Event files that TensorBoard shows: PyTorch's ``SummaryWriter``, for core's tensors.

The files are written by tensorboardX (MIT, 0.2 MB, over protobuf, 3-clause BSD, 1 MB), an extra that is imported when a
writer is made.
"""

from __future__ import annotations

import datetime
import io
import itertools
import os
import socket
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..base.errors import text
from ..tensors.tensor import Tensor
from ..vision.images import pillow
from . import tensorboard_graph, tensorboard_projector

PIP = "pip install 'gradlab[tensorboard]' (or: pip install tensorboardX)"
FORMATS = ("CHW", "HWC", "HW")
_files = itertools.count()


class SummaryWriter:
    """Writes what a run does to event files in `log_dir`, for ``tensorboard --logdir``: scalars, histograms, texts,
    images, figures, graphs, settings, precision-recall curves, embeddings.

    log_dir : the folder; without one ``runs/<date>_<host><comment>``, as PyTorch's
    comment : what the name of that folder ends with
    purge_step : events from this step on, left by an earlier run in the same folder, are dropped by TensorBoard
    max_queue : as in PyTorch's signature; nothing waits in a queue here
    flush_secs : an event that comes so many seconds after the last flush() flushes
    filename_suffix : what the names of the event files end with

    Values may be numbers, arrays or tensors; tensors are detached and brought to the CPU. Use it in a ``with`` block,
    or close it.

    *Raises*: ImportError, with the pip command, where tensorboardX is missing.

    >>> import core, os, tempfile
    >>> from core.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SummaryWriter(folder) as writer:
    ...         for step in range(3):
    ...             writer.add_scalar("loss/training", core.tensor(1 / (1 + step), requires_grad=True), step)
    ...         writer.add_histogram("weights", core.randn(100), 2)
    ...     [name.startswith("events.out.tfevents.") for name in os.listdir(folder)]
    [True]
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        _tensorboardx()
        if log_dir is None or not os.fspath(log_dir):
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self._options: dict[str, Any] = {
            "purge_step": purge_step,
            "max_queue": max_queue,
            "flush_secs": flush_secs,
            "filename_suffix": filename_suffix,
        }
        self._events: Any = None
        self._finalizer: Any = None
        self._flushed = 0.0
        self._others: dict[str, SummaryWriter] = {}  # a folder for each curve of add_scalars
        self._file()

    def _file(self) -> Any:
        """Return the open file; a new one after close().

        Events are written by the caller's thread: tensorboardX's own writer hands them to a thread through a process
        queue, and its flush() does not wait for them. Its names count seconds, so that a second writer would empty
        the file of the first: ours end with the process and a number, as TensorBoard's do.
        """
        if self._events is None:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event, SessionLog

            os.makedirs(self.log_dir, exist_ok=True)
            suffix = f".{os.getpid()}.{next(_files)}{self._options['filename_suffix']}"
            self._events = EventsWriter(os.path.join(self.log_dir, "events"), suffix)
            self._finalizer = weakref.finalize(self, self._events.close)  # also at exit
            self._flushed = time.monotonic()
            purge = self._options["purge_step"]
            if purge is not None:
                started = SessionLog(status=SessionLog.START)
                self._events.write_event(Event(step=purge, wall_time=time.time(), session_log=started))
        return self._events

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        from tensorboardX.proto.event_pb2 import Event

        event = Event(summary=summary, wall_time=time.time() if walltime is None else walltime)
        if step is not None:
            event.step = int(step)
        self._file().write_event(event)
        if time.monotonic() - self._flushed > self._options["flush_secs"]:
            self.flush()

    def get_logdir(self) -> str:
        """Return the folder that is written to."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """One number under `tag`, at a step.

        *Raises*: AssertionError, as PyTorch's, for more than one element.
        """
        a = _array(scalar_value, "add_scalar").squeeze()
        if a.ndim:
            raise AssertionError(
                text(
                    f"Tensor should contain one element (0 dimensions). Was given size: {a.size}",
                    op="add_scalar",
                    came=f"shape {a.shape} for {tag!r}",
                    remedy="give its mean(), or add_histogram for all of it",
                )
            )
        self._add(_tensorboardx().scalar(tag, float(a)), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several curves in one diagram: each is a run of its own, in a folder below this one, as PyTorch's are."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self._others:
                self._others[folder] = SummaryWriter(folder, **self._options)
            self._others[folder].add_scalar(main_tag, value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed, at a step. `bins` is "tensorflow" (logarithmic) or a rule of NumPy's.

        *Raises*: ValueError for no values, or for some that are NaN or infinite.
        """
        a = _array(values, "add_histogram")
        bad = int(a.size - np.isfinite(a).sum())
        if bad or not a.size:
            raise ValueError(
                text(
                    f"The histogram is empty, please file a bug report. {tag!r} has no values"
                    if not a.size
                    else f"range parameter must be finite: {bad:,} of {a.size:,} values of {tag!r} are NaN or infinite",
                    op="add_histogram",
                    remedy="%%autograd names the op that made the first one" if bad else "",
                )
            )
        edges: Any = _bins() if bins == "tensorflow" else bins
        self._add(_tensorboardx().histogram(tag, a, edges, max_bins), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text, which TensorBoard reads as Markdown."""
        self._add(_tensorboardx().text(tag, text_string), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image of floats in [0, 1] or bytes, of 1, 3 or 4 channels; `dataformats` is "CHW", "HWC" or "HW".

        *Raises*: ImportError where Pillow is missing; ValueError for a shape that `dataformats` does not fit.
        """
        pillow("add_image")
        a = _array(img_tensor, "add_image")
        at = dataformats.find("C")
        if dataformats not in FORMATS or a.ndim != len(dataformats) or (at >= 0 and a.shape[at] not in (1, 3, 4)):
            raise ValueError(
                text(
                    f"size of input tensor and input format are different. {tag!r} has shape {a.shape}, "
                    f"dataformats is {dataformats!r}",
                    op="add_image",
                    needed=f"one of {', '.join(FORMATS)}, and 1, 3 or 4 channels",
                )
            )
        self._add(_tensorboardx().image(tag, a, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Images of a batch beside one another, at most eight in a row; `dataformats` is "NCHW" or "NHWC".

        *Raises*: as `add_image`.
        """
        a = _array(img_tensor, "add_images")
        if dataformats not in ("NCHW", "NHWC") or a.ndim != 4 or not len(a):
            raise ValueError(
                text(
                    f"size of input tensor and input format are different. {tag!r} has shape {a.shape}, "
                    f"dataformats is {dataformats!r}",
                    op="add_images",
                    needed="NCHW or NHWC, and at least one image",
                )
            )
        batch = a if dataformats == "NHWC" else a.transpose(0, 2, 3, 1)
        columns = min(len(batch), 8)
        blank = np.zeros((-len(batch) % columns, *batch.shape[1:]), a.dtype)
        rows = np.concatenate([batch, blank]).reshape(-1, columns, *batch.shape[1:])
        n, _, high, wide, channels = rows.shape
        grid = rows.transpose(0, 2, 1, 3, 4).reshape(n * high, columns * wide, channels)
        self.add_image(tag, grid, global_step, walltime, "HWC")

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A matplotlib figure, or a list of equally large ones, as an image; `close` closes them."""
        image, pictures = pillow("add_figure"), []
        for each in figure if isinstance(figure, list) else [figure]:
            file = io.BytesIO()
            each.savefig(file, format="png", dpi=each.dpi)
            pictures.append(np.asarray(image.open(file).convert("RGB")))
            pyplot = sys.modules.get("matplotlib.pyplot")
            if close and pyplot is not None:
                pyplot.close(each)
        if isinstance(figure, list):
            self.add_images(tag, np.stack(pictures), global_step, walltime, "NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, "HWC")

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of predicted probabilities, at thresholds from 0 to 1 (at most 127).

        labels : 0 or 1 for each; predictions : in [0, 1]; weights : how much each counts.

        *Raises*: ValueError for other sizes or values.
        """
        y, p = _array(labels, "add_pr_curve").reshape(-1), _array(predictions, "add_pr_curve").reshape(-1)
        w = None if weights is None else _array(weights, "add_pr_curve").reshape(-1)
        if y.size != p.size or (w is not None and w.size != y.size):
            raise ValueError(
                text("labels and predictions differ in number", op="add_pr_curve", came=f"{y.size} and {p.size}")
            )
        if not ((p >= 0) & (p <= 1)).all() or not np.isin(y, (0, 1)).all():
            raise ValueError(
                text(
                    f"predictions of {tag!r} should be in [0, 1], and labels 0 or 1",
                    op="add_pr_curve",
                    remedy="probabilities: logits.sigmoid(), or softmax of one class",
                )
            )
        self._add(_tensorboardx().pr_curve(tag, y, p, num_thresholds, w), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Settings of a run beside what came of it, as a run of its own below this folder.

        hparam_dict : numbers, texts and truths by name. metric_dict : numbers by name. hparam_domain_discrete : the
        values that a setting may have. run_name : the folder's name; by default the time.

        *Raises*: TypeError for other values.
        """
        settings = {n: v.item() if hasattr(v, "item") else v for n, v in hparam_dict.items()}
        for name, value in settings.items():
            if not (value is None or isinstance(value, bool | int | float | str)):
                raise TypeError(
                    text(
                        f"value should be one of int, float, str, bool, or torch.Tensor; {name!r} is "
                        f"{type(value).__name__}",
                        op="add_hparams",
                        remedy="str(...) of it",
                    )
                )
        summaries = _tensorboardx().hparams(settings, dict(metric_dict))
        if hparam_domain_discrete:
            _restrict(summaries[0], hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for summary in summaries:
                run._add(summary, None, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Vectors (N, D) for the projector, with a label and a picture (N, C, S, S) for each.

        metadata : labels, or rows of them whose columns `metadata_header` names.

        *Raises*: ValueError where their numbers differ.
        """
        pictures = None if label_img is None else _array(label_img, "add_embedding")
        labels: Any = metadata.tolist() if hasattr(metadata, "tolist") else metadata
        vectors = _array(mat, "add_embedding")
        self._file()  # TensorBoard looks for the projector's files in folders with events
        tensorboard_projector.written(
            self.log_dir, tag, int(global_step or 0), vectors, labels, metadata_header, pictures
        )

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The ops of a module on these inputs, a tensor or several, folded by its modules.

        verbose : print their names. use_strict_trace : as in PyTorch's signature, without effect.

        *Raises*: ValueError without inputs; ExportError, with the line, for what `core.export` cannot capture.
        """
        from tensorboardX.proto.event_pb2 import Event

        if input_to_model is None:
            raise ValueError(
                text("a graph is of a call", op="add_graph", needed="input_to_model, a tensor or a tuple of them")
            )
        given = tuple(input_to_model) if isinstance(input_to_model, tuple | list) else (input_to_model,)
        graph = tensorboard_graph.graph_of(model, given)
        if verbose:
            print("\n".join(f"{node.name}: {node.op}({', '.join(node.input)})" for node in graph.node))
        self._file().write_event(Event(graph_def=graph.SerializeToString(), wall_time=time.time()))

    def flush(self) -> None:
        """Write what waits."""
        for other in self._others.values():
            other.flush()
        if self._events is not None:
            self._events.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Write what waits and end; what is added later begins another file."""
        for other in self._others.values():
            other.close()
        self._others = {}
        if self._events is not None:
            self._finalizer()
            self._events = self._finalizer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _tensorboardx() -> Any:
    try:
        from tensorboardX import summary
    except ImportError:
        raise ImportError(
            text(
                "SummaryWriter needs tensorboardX, which is not installed",
                op="core.utils.tensorboard.SummaryWriter",
                remedy=PIP,
            )
        ) from None
    return summary


def _restrict(summary: Any, domains: Mapping[str, Sequence[Any]]) -> None:
    """Say in an experiment's summary which values its settings may have."""
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    plugin = summary.value[0].metadata.plugin_data
    content = HParamsPluginData.FromString(plugin.content)
    for info in content.experiment.hparam_infos:
        info.domain_discrete.extend(domains.get(info.name, ()))
    plugin.content = content.SerializeToString()


@cache
def _bins() -> list[float]:
    """TensorBoard's edges: powers of 1.1 from 1e-12 to 1e20, on both sides of 0."""
    edges = [1e-12]
    while edges[-1] < 1e20:
        edges.append(edges[-1] * 1.1)
    return [-edge for edge in reversed(edges)] + [0.0] + edges


def _array(value: Any, op: str) -> np.ndarray:
    """Return the values on the CPU, in a dtype that NumPy itself has."""
    if isinstance(value, Tensor):
        value = value.detach()
        value = (value.float() if value.dtype.name == "bfloat16" else value).cpu().numpy()
    elif callable(getattr(value, "detach", None)):  # PyTorch's
        value = value.detach().cpu().numpy()
    a = np.asarray(value)
    if a.dtype.kind not in "biuf":
        raise TypeError(
            text(f"{op}: got {type(value).__name__} of {a.dtype}", op=op, needed="real numbers, arrays or tensors")
        )
    return a
