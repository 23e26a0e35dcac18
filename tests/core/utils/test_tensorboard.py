"""Event files, read back by tensorboardX's own protobuf classes."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

import core
from core.utils.tensorboard import SummaryWriter


def crc32c(data: bytes) -> int:
    """The checksum of a record, masked, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(folder: Path) -> list[Any]:
    """All events of a folder; their checksums are right."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        while data:
            size, check = struct.unpack("<QI", data[:12])
            assert check == crc32c(data[:8])
            body, (check,) = data[12 : 12 + size], struct.unpack("<I", data[12 + size : 16 + size])
            assert check == crc32c(body)
            found.append(Event.FromString(body))
            data = data[16 + size :]
    return found


def values(folder: Path) -> list[tuple[int, Any]]:
    return [(event.step, value) for event in events(folder) for value in event.summary.value]


@pytest.mark.parametrize(
    "value",
    [0.5, np.float64(0.5), core.tensor(0.5, requires_grad=True), core.tensor([[0.5]]), core.tensor(0.5).bfloat16()],
)
def test_a_scalar(tmp_path: Path, value: Any) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", value, 7, walltime=12.5)
    ((step, got),) = values(tmp_path)
    assert (step, got.tag, got.simple_value) == (7, "loss", 0.5)
    assert events(tmp_path)[0].file_version == "brain.Event:2"
    assert events(tmp_path)[-1].wall_time == 12.5


def test_a_training_loop(tmp_path: Path) -> None:
    core.manual_seed(0)
    model = core.nn.Linear(4, 1)
    optimizer = core.optim.SGD(model.parameters(), lr=0.1)
    x = core.randn(32, 4)
    losses = []
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(20):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            writer.add_scalar("loss", loss, step)
            for name, p in model.named_parameters():
                writer.add_histogram(name, p, step)
    found = values(tmp_path)
    assert [v.simple_value for _, v in found if v.tag == "loss"] == pytest.approx(losses)
    weights = [(step, v.histo) for step, v in found if v.tag == "weight"]
    assert [step for step, _ in weights] == list(range(20))
    last = weights[-1][1]
    w = model.weight.detach().numpy()
    assert (last.num, last.min, last.max, last.sum) == pytest.approx((4, w.min(), w.max(), w.sum()), rel=1e-5)
    assert sum(last.bucket) == 4


def test_curves_in_one_diagram_are_runs_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(2):
            writer.add_scalars("loss/all", {"training": core.tensor(step + 1.0), "test": step + 2.0}, step)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["loss_all_test", "loss_all_training"]
    for name, first in (("training", 1.0), ("test", 2.0)):
        got = [(step, v.tag, v.simple_value) for step, v in values(tmp_path / f"loss_all_{name}")]
        assert got == [(0, "loss/all", first), (1, "loss/all", first + 1)]


def test_a_text(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("notes", "**lr** 1e-3, naïve", 3)
    ((step, got),) = values(tmp_path)
    assert (step, got.tensor.string_val[0].decode()) == (3, "**lr** 1e-3, naïve")
    assert got.metadata.plugin_data.plugin_name == "text"


@pytest.mark.parametrize(("form", "order"), [("CHW", (0, 1, 2)), ("HWC", (1, 2, 0))])
def test_an_image(tmp_path: Path, form: str, order: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 5, 7)).astype(np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("digit", core.tensor(image.transpose(order)), 1, dataformats=form)
    ((_, got),) = values(tmp_path)
    read = np.asarray(Image.open(io.BytesIO(got.image.encoded_image_string)))
    assert np.array_equal(read.transpose(2, 0, 1), image)


def test_a_grey_image_of_floats(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("digit", core.linspace(0, 1, 6).reshape(2, 3), dataformats="HW")
    ((_, got),) = values(tmp_path)
    read = np.asarray(Image.open(io.BytesIO(got.image.encoded_image_string)))
    assert read.shape == (2, 3, 3)
    assert read[..., 0].tolist() == [[0, 51, 102], [153, 204, 255]]


def picture(value: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))


def test_images_beside_one_another(tmp_path: Path) -> None:
    batch = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 5)).astype(np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_images("digits", core.tensor(batch), 1)
        writer.add_images("digits", batch[:2].transpose(0, 2, 3, 1), 2, dataformats="NHWC")
    (_, first), (_, second) = values(tmp_path)
    grid = picture(first)
    assert grid.shape == (8, 40, 3)
    assert np.array_equal(grid[4:, 5:10].transpose(2, 0, 1), batch[9])
    assert not grid[4:, 10:].any()
    assert np.array_equal(picture(second)[:, 5:].transpose(2, 0, 1), batch[1])


def test_figures(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures = [pyplot.figure(figsize=(2, 1), dpi=50) for _ in range(2)]
    figures[0].patch.set_facecolor("red")
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("one", figures[0], 1, close=False)
        writer.add_figure("both", figures, 2)
    (_, one), (_, both) = values(tmp_path)
    assert picture(one).shape == (50, 100, 3)
    assert picture(one)[0, 0].tolist() == [255, 0, 0]
    assert picture(both).shape == (50, 200, 3)
    assert not any(pyplot.fignum_exists(figure.number) for figure in figures)


def test_a_precision_recall_curve(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 2, 200), rng.random(200)
    p = (0.3 * labels + 0.7 * rng.random(200)).clip(0, 1)
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("spam", core.tensor(labels), core.tensor(p), 3, num_thresholds=11)
        writer.add_pr_curve("spam", labels, p, 4, num_thresholds=11, weights=weights)
        with pytest.raises(ValueError, match=r"'spam' should be in \[0, 1\].*\n.*logits.sigmoid"):
            writer.add_pr_curve("spam", labels, 2 * p)
        with pytest.raises(ValueError, match=r"differ in number\n.*200 and 3"):
            writer.add_pr_curve("spam", labels, p[:3])
    (step, got), (_, weighted) = values(tmp_path)
    assert (step, got.metadata.plugin_data.plugin_name) == (3, "pr_curves")
    tp, fp, tn, fn, precision, recall = np.reshape(got.tensor.float_val, (6, 11))
    for k, threshold in enumerate(np.arange(11) / 10):
        at = np.floor(p * 10) >= round(threshold * 10)
        right = [(at & (labels == 1)).sum(), (at & (labels == 0)).sum(), (~at & (labels == 0)).sum(),
                 (~at & (labels == 1)).sum()]  # fmt: skip
        assert [tp[k], fp[k], tn[k], fn[k]] == right
        assert precision[k] == pytest.approx(right[0] / max(right[0] + right[1], 1e-7))
        assert recall[k] == pytest.approx(right[0] / (right[0] + right[3]))
    assert weighted.tensor.float_val[0] == pytest.approx(weights[labels == 1].sum(), rel=1e-5)


def test_settings_beside_what_came_of_them(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": core.tensor(0.5), "layers": 3, "name": "adam", "bias": True, "none": None},
                           {"hparam/loss": core.tensor(0.25)}, {"name": ["adam", "sgd"]}, "first", 2)  # fmt: skip
        with pytest.raises(TypeError, match=r"'sizes' is list\n.*remedy: str\(...\) of it"):
            writer.add_hparams({"sizes": [1]}, {})
    (_, experiment), (_, start), (_, end), (step, loss) = values(tmp_path / "first")
    assert (step, loss.tag, loss.simple_value) == (2, "hparam/loss", 0.25)
    told, began, ended = (
        HParamsPluginData.FromString(v.metadata.plugin_data.content) for v in (experiment, start, end)
    )
    hparams = began.session_start_info.hparams
    assert (hparams["lr"].number_value, hparams["layers"].number_value) == (0.5, 3)
    assert (hparams["name"].string_value, hparams["bias"].bool_value) == ("adam", True)
    assert {info.name: list(info.domain_discrete) for info in told.experiment.hparam_infos}["name"] == ["adam", "sgd"]
    assert [info.name.tag for info in told.experiment.metric_infos] == ["hparam/loss"]
    assert ended.session_end_info.status == 1


def test_embeddings(tmp_path: Path) -> None:
    vectors, pictures = core.randn(5, 3), np.random.default_rng(0).integers(0, 256, (5, 1, 4, 4)).astype(np.uint8)
    with SummaryWriter(tmp_path) as writer:
        for _ in range(2):  # the same again changes its files
            writer.add_embedding(vectors, ["a", "b\tb", "c", "d", "e"], pictures, 7, "words/first")
        writer.add_embedding(vectors, [(0, "x")] * 5, metadata_header=["number", "name"])
        for wrong, said in (
            ({"mat": vectors[0]}, "mat should be 2D"),
            ({"metadata": ["a"]}, "1 labels for 5 vectors"),
            ({"metadata": ["a"] * 5, "metadata_header": ["x", "y"]}, "rows of 2: x, y"),
            ({"label_img": pictures[:, :, :2]}, "and each be square"),
            ({"label_img": np.zeros((5, 1, 4000, 4000), np.uint8)}, "Sprite too large"),
        ):
            with pytest.raises(ValueError, match=said):
                writer.add_embedding(**{"mat": vectors, **wrong})
    folder = tmp_path / "00007" / "words_first"
    read = np.loadtxt(folder / "tensors.tsv", delimiter="\t", dtype=np.float32)
    assert np.array_equal(read, vectors.numpy())
    assert (folder / "metadata.tsv").read_text() == "a\nb b\nc\nd\ne\n"
    assert (tmp_path / "00000/default/metadata.tsv").read_text().splitlines()[:2] == ["number\tname", "0\tx"]
    sheet = np.asarray(Image.open(folder / "sprite.png"))
    assert np.array_equal(sheet[4:8, 4:8, 0], pictures[4, 0])
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2
    assert 'tensor_path: "00007/words_first/tensors.tsv"' in config
    assert "single_image_dim: 4" in config


class Branching(core.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = core.nn.Sequential(core.nn.Linear(4, 3), core.nn.BatchNorm1d(3))
        self.head = core.nn.Linear(3, 2)

    def forward(self, x: Any, y: Any) -> Any:
        return self.head(self.layer(x).relu() + y).softmax(-1)


def test_a_graph(tmp_path: Path, capsys: Any) -> None:
    model = Branching()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, (core.randn(5, 4), core.randn(5, 3)), verbose=True)
        with pytest.raises(ValueError, match=r"a graph is of a call\n.*needed: input_to_model"):
            writer.add_graph(model)
    assert model.training
    assert all((t == before[name]).all() for name, t in model.state_dict().items())
    (graph,) = (GraphDef.FromString(event.graph_def) for event in events(tmp_path) if event.graph_def)
    nodes = {node.name: node for node in graph.node}
    assert list(nodes["layer/0/linear"].input) == ["x", "layer/0/weight", "layer/0/bias"]
    assert {"layer/1/batch_norm_eval", "relu", "add", "head/linear_1", "softmax", "output"} <= nodes.keys()
    assert list(nodes["add"].input) == ["relu", "y"]
    (shape,) = nodes["head/linear_1"].attr["_output_shapes"].list.shape
    assert [d.size for d in shape.dim] == [5, 2]
    assert b"test_tensorboard.py" in nodes["softmax"].attr["line"].s
    assert {name for node in graph.node for name in node.input} <= nodes.keys()
    assert "layer/0/linear: linear(x, layer/0/weight, layer/0/bias)" in capsys.readouterr().out


def test_tensorboard_itself_reads_all_of_it(tmp_path: Path) -> None:
    """Where tensorboard is on the path: it is no dependency."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_histogram("w", core.randn(100), 1)
        writer.add_images("i", core.rand(2, 3, 4, 4), 1)
        writer.add_pr_curve("p", [0, 1], [0.25, 0.75], 1)
        writer.add_text("t", "text", 1)
        writer.add_graph(Branching(), (core.randn(5, 4), core.randn(5, 3)))
        writer.add_hparams({"lr": 0.5}, {"hparam/loss": 1.0}, run_name="run")
    read = accumulator.EventAccumulator(str(tmp_path)).Reload()
    tags = read.Tags()
    assert (tags["scalars"], tags["histograms"], tags["images"]) == (["loss"], ["w"], ["i"])
    assert sorted(tags["tensors"]) == ["p", "t/text_summary"]
    assert (tags["graph"], read.Scalars("loss")[0].value) == (True, 0.5)
    assert read.Histograms("w")[0].histogram_value.num == 100
    assert (read.Images("i")[0].width, read.Images("i")[0].height) == (8, 4)
    assert "layer/0/linear" in {node.name for node in read.Graph().node}
    run = accumulator.EventAccumulator(str(tmp_path / "run")).Reload()
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(run.PluginTagToContent("hparams"))


def test_flush_writes_what_waits_and_close_twice_is_fine(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path, filename_suffix=".mine")
    writer.add_scalar("a", 1, 0)
    writer.add_scalars("b", {"c": 2}, 0)
    writer.flush()
    assert len(values(tmp_path)) == len(values(tmp_path / "b_c")) == 1
    writer.close()
    writer.close()
    assert all(p.name.endswith(".mine") for p in tmp_path.glob("events*"))


def test_writers_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path)
    for step in range(3):
        writer.add_scalar("a", step, step)
        writer.close()
    with SummaryWriter(tmp_path, purge_step=2) as second:
        second.add_scalar("a", 20, 2)
    assert sorted(v.simple_value for _, v in values(tmp_path)) == [0, 1, 2, 20]
    assert [event.step for event in events(tmp_path) if event.HasField("session_log")] == [2]


@pytest.mark.by_turns
def test_a_script_that_ends_without_close_loses_nothing(tmp_path: Path) -> None:
    program = (
        "from core.utils.tensorboard import SummaryWriter\n"
        f"writer = SummaryWriter({str(tmp_path)!r})\n"
        "for step in range(100): writer.add_scalar('a', step, step)\n"
        "raise SystemExit(3)\n"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == 3
    assert len(values(tmp_path)) == 100


def test_what_is_older_than_flush_secs_is_on_disk(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, flush_secs=0) as writer:
        writer.add_scalar("a", 1, 0)
        assert len(values(tmp_path)) == 1


def test_the_folder_without_a_name(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr3") as writer:
        assert re.fullmatch(r"runs[/\\]\w{3}\d\d_\d\d-\d\d-\d\d_.+_lr3", writer.get_logdir())
    assert Path(writer.log_dir).is_dir()


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(AssertionError, match=r"one element.*Was given size: 3\n.*mean\(\)"):
            writer.add_scalar("loss", core.ones(3))
        with pytest.raises(TypeError, match="got str"):
            writer.add_scalar("loss", "1.0")
        with pytest.raises(ValueError, match="1 of 2 values of 'w' are NaN or infinite"):
            writer.add_histogram("w", core.tensor([1.0, float("nan")]))
        with pytest.raises(ValueError, match="'w' has no values"):
            writer.add_histogram("w", core.zeros(0))
        with pytest.raises(ValueError, match="dataformats is 'CHW'"):
            writer.add_image("i", core.zeros(2, 3))
    assert values(tmp_path) == []


def test_the_core_loads_without_it_and_its_absence_is_told() -> None:
    program = (
        "import sys, core.utils\n"
        "assert 'tensorboardX' not in sys.modules\n"
        "sys.modules['tensorboardX'] = None\n"
        "from core.utils.tensorboard import SummaryWriter\n"
        "try: SummaryWriter()\n"
        "except ImportError as error: print(error)\n"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": root}
    )
    assert "pip install tensorboardX" in done.stdout, done.stderr
