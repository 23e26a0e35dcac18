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
