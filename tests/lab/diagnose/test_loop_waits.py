"""What a loop waits for: data, the values of a GPU, copies, Python; and small tensors, for which none of it is told."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

import core
from core.base.source import here
from core.events import observe
from core.events.observe import CutEvent
from lab.diagnose.speed import loop_waits
from lab.recorder import user_files
from lab.recorder.sampling import Queue, Sampler
from lab.recorder.user_files import is_users
from lab.session.recording import Recording

Space = dict[str, Any]

STEP = """
model = nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def step(xb, yb):
    loss = F.cross_entropy(model(xb), yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
GENERATOR = """
import time
def batches():
    for i in range(0, 64, 8):
        time.sleep(0.025)
        yield x[i : i + 8], labels[i : i + 8]
for xb, yb in batches():
    step(xb, yb)
"""
ITERATOR = """
import time
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for i in range(64):
            time.sleep(0.006)
            yield x[i], labels[i]
stream = iter(torch.utils.data.DataLoader(Stream(), batch_size=8))
for i in range(8):
    xb, yb = next(stream)
    step(xb, yb)
"""
FUNCTION = """
import time
def load(i):
    time.sleep(0.025)
    return x[i : i + 8], labels[i : i + 8]
for i in range(0, 64, 8):
    step(*load(i))
"""
SMALL = """
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=8, shuffle=True)
for epoch in range(10):
    for xb, yb in loader:
        step(xb, yb)
"""


@pytest.mark.parametrize(
    ("text", "line", "slow"),
    [
        (GENERATOR, 4, "Line 4 (`time.sleep(0.025)`) in batches is what line 6 waits for"),
        (ITERATOR, 5, "Line 5 (`time.sleep(0.006)`) in __iter__ is what line 9 waits for"),
    ],
)
def test_a_loop_that_waits_for_its_data(cell: Any, space: Space, text: str, line: int, slow: str) -> None:
    cell(STEP, space)
    finding = cell(text, space).findings[0]
    assert (finding.kind, finding.severity, finding.line) == ("data-loader", "warning", line)
    assert slow in finding.message
    share = int(finding.message.partition("about ")[2].partition(" %")[0])
    assert 60 <= share <= 99


def test_a_function_that_loads_is_a_note_with_its_line(cell: Any, space: Space) -> None:
    cell(STEP, space)
    finding = cell(FUNCTION, space).findings[0]
    assert (finding.kind, finding.severity, finding.line) == ("data-loader", "note", 3)
    assert "called on line 6" in finding.message


def test_batches_of_small_tensors_are_no_finding(cell: Any, space: Space) -> None:
    cell(STEP, space)
    assert [f.message for f in cell(SMALL, space).findings if f.severity != "note" or f.reads] == []


def test_a_cell_that_only_loads_is_no_finding(cell: Any, space: Space) -> None:
    text = "import time\ndef lines():\n    for i in range(9):\n        time.sleep(0.01)\n        yield x[i]\n"
    assert cell(text + "rows = [row * 2 for row in lines()]", space).findings == []


def test_the_sampler_goes_with_the_recording() -> None:
    before = threading.active_count()
    recording = Recording()
    recorder = recording.start({})
    assert threading.active_count() == before + 1
    recording.drop()
    assert threading.active_count() == before
    assert all(sample.kind in ("python", "op", "loader") for sample in recorder.trace.samples.values())


def test_a_sampler_that_can_have_no_thread_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    recording = Recording()
    recording.start({})
    core.ones(2).exp()
    assert recording.stop({}, "").ops


def test_nothing_of_a_frame_is_kept() -> None:
    """A state is told apart by code and instruction; the frames, and with them the user's tensors, are let go."""
    recording = Recording()
    recorder = recording.start({})
    try:
        sampler = Sampler(recorder.trace)
        sampler._note(__import__("sys")._getframe(), 5)
        (sample,) = (s for s in recorder.trace.samples.values() if s.ns == 5)
        assert {type(part) for place in sample.places for part in place} <= {type((lambda: 0).__code__), int}
    finally:
        recording.drop()
    assert observe.observers == ()


# -- a GPU, interpreted ------------------------------------------------------------------------------------------------

GPU = """
model = nn.Linear(16, 4).to("cuda")
opt = torch.optim.SGD(model.parameters(), lr=0.1)
images, classes = x.to("cuda"), labels.to("cuda")
for i in range(10):
    loss = F.cross_entropy(model(images), classes)
    opt.zero_grad()
    loss.backward()
    opt.step()
    {ask}
"""
interpreted = pytest.mark.skipif(
    not loop_waits.interpreted(), reason="needs the device cuda under Triton's interpreter"
)


@interpreted
@pytest.mark.parametrize("ask", ["loss.item()", "print(loss)", "f = float(loss)", "bool(loss > 1)", "loss.tolist()"])
def test_values_asked_of_a_gpu(cell: Any, space: Space, ask: str) -> None:
    record = cell(GPU.format(ask=ask), space)
    assert {f.severity for f in record.findings} == {"note"}  # the interpreter's own slowness may be told beside it
    (finding,) = (f for f in record.findings if f.kind == "wait")
    assert finding.line == 9
    assert "ran 10 times" in finding.message
    assert "no wait can be measured under Triton's interpreter" in finding.message


@interpreted
def test_a_value_asked_once_is_no_finding(cell: Any, space: Space) -> None:
    assert cell(GPU.format(ask="pass") + "print(loss.item())", space).findings == []


def test_the_wait_is_measured(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events as a GPU would give them: each value took 5 ms to come."""
    monkeypatch.setattr(loop_waits, "interpreted", lambda: False)
    there = core.device("cuda")

    t = core.ones(())
    t._kind = type(t._kind)(t.dtype, there)
    recording = Recording()
    recorder = recording.start({__file__: 0})
    for _ in range(12):
        place, start = here(), perf_counter_ns()
        recorder.cut(CutEvent("item", t, None, place, start - 5_000_000, start))
    recorder.trace.wall_ns = 0
    recorder.started_ns -= 100_000_000
    record = recording.stop({}, Path(__file__).read_text(encoding="utf-8"))
    (finding,) = (f for f in record.findings if f.kind == "wait")
    assert finding.severity == "warning"  # no step at all, and most of the time
    assert "ran 12 times" in finding.message
    assert "5.00 ms each" in finding.message
    assert "% of this cell's time" in finding.message


@interpreted
def test_the_same_tensor_copied_again(cell: Any, space: Space) -> None:
    text = GPU.format(ask="pass").replace("model(images)", "model(x.to('cuda'))")
    (finding,) = cell(text, space).findings
    assert (finding.kind, finding.severity, finding.line) == ("copy", "note", 5)
    assert "`x.to('cuda')` ran 10 times, 41 kB in all, though the tensor x did not change" in finding.message


@interpreted
def test_batches_copied_are_no_finding(cell: Any, space: Space) -> None:
    text = GPU.format(ask="pass").replace("model(images)", "model(x[i : i + 8].to('cuda'))")
    assert cell(text.replace("), classes)", "), classes[i : i + 8])"), space).findings == []


@interpreted
def test_there_and_back(cell: Any, space: Space) -> None:
    text = GPU.format(ask="pass").replace("model(images)", "torch.tanh(model(images).cpu()).to('cuda')")
    (finding,) = (f for f in cell(text, space).findings if f.kind == "copy")
    assert "takes values off the GPU (`model(images).cpu()`)" in finding.message
    assert "Stay on the device" in finding.remedy


# -- rows of a batch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loop",
    ["for i in range(64):\n        loss = loss + F.cross_entropy(model(x[i]), labels[i])",
     "for row, label in zip(x, labels):\n        loss = loss + F.cross_entropy(model(row), label)"],
)  # fmt: skip
def test_one_row_at_a_time(cell: Any, space: Space, loop: str) -> None:
    text = f"model = nn.Linear(16, 4)\nfor epoch in range(2):\n    loss = 0.0\n    {loop}\n    loss.backward()"
    (finding,) = cell(text, space).findings
    assert (finding.kind, finding.severity, finding.line) == ("overhead", "note", 5)
    assert "ran 128 times" in finding.message


def test_a_recurrent_network_is_no_such_loop(cell: Any, space: Space) -> None:
    text = ("cell, seq = nn.RNNCell(16, 8), x.unsqueeze(1)\nfor epoch in range(2):\n    h = torch.zeros(1, 8)\n"
            "    for t in range(64):\n        h = cell(seq[t], h)\n    h.square().mean().backward()")  # fmt: skip
    assert cell(text, space).findings == []


def test_a_loop_folds_to_one_row_though_python_specialises_it(cell: Any, space: Space) -> None:
    """From its eighth run on the interpreter has specialised a call, and the frame stands behind the instruction."""
    record = cell("def f(a):\n    return a.exp()\nfor i in range(40):\n    b = f(x[i])", space)
    assert [(op.op, op.count) for op in record.ops if op.op in ("select", "exp")] == [("select", 40), ("exp", 40)]


# -- a busy machine ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux tells it")
def test_the_queue_for_a_processor_is_told_apart_from_a_wait() -> None:
    queue = Queue()
    try:
        time.sleep(0.05)
        ran, stood = queue.since()
        assert ran + stood < 45_000_000  # asleep: neither
        start = perf_counter_ns()
        while perf_counter_ns() - start < 50_000_000:
            pass
        ran, stood = queue.since()
        assert ran + stood > 25_000_000
    finally:
        queue.close()
    assert queue.since() == (0, 0)


def test_looks_that_other_programs_made_late_tell_nothing(cell: Any, space: Space, monkeypatch: Any) -> None:
    """As if the cell had stood in the queue all the time between two looks but 1 ms, though the clock went on.

    Those are the looks of a thread: C's tell the time of the queue apart, wherever they find the cell."""
    monkeypatch.setattr("lab.recorder.sampling._stack_sampler", lambda later: None)
    monkeypatch.setattr(Queue, "since", lambda self: (10_000_000, 50_000_000))
    cell(STEP, space)
    busy = FUNCTION.replace("time.sleep(0.025)", "sum(range(400_000))")
    assert [f for f in cell(busy, space).findings if f.kind == "data-loader"] == []


LOADER = """
import time
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 48
    def __getitem__(self, i):
        time.sleep(0.004)
        return x[i], labels[i]
for epoch in range({epochs}):
    for xb, yb in torch.utils.data.DataLoader(Slow(), batch_size=8):
        step(xb, yb)
"""


@pytest.mark.parametrize(
    ("cores", "epochs", "starts", "does", "remedy"),
    [
        (8, 1, 0.1, "its 2 workers run __getitem__ (line 5).",
         "Make __getitem__ (line 5) faster or do its work once, before the loop; or load in more processes: "
         "num_workers=4; or keep what fits into memory as one tensor."),
        (2, 1, 0.1, "its 2 workers run __getitem__ (line 5).",
         "Make __getitem__ (line 5) faster or do its work once, before the loop; or keep what fits into memory as one "
         "tensor."),
        (8, 1, 0.9, "and most of the time passes until they have started.", "num_workers=0"),
        (8, 2, 0.9, "and most of the time passes until they have started.", "persistent_workers=True"),
    ],
)  # fmt: skip
def test_a_loader_that_has_workers_is_not_told_to_take_some(
    cell: Any, space: Space, monkeypatch: pytest.MonkeyPatch, cores: int, epochs: int, starts: float, does: str,
    remedy: str,
) -> None:  # fmt: skip
    def with_workers(trace: Any) -> Any:
        for fetched in trace.fetched.values():
            fetched.workers, fetched.starts_ns = 2, int(starts * fetched.ns)
        return timed(trace)

    timed = loop_waits._timed
    monkeypatch.setattr(loop_waits, "_timed", with_workers)
    monkeypatch.setattr(loop_waits.os, "cpu_count", lambda: cores)
    cell(STEP, space)
    finding = next(f for f in cell(LOADER.format(epochs=epochs), space).findings if f.kind == "data-loader")
    assert finding.line == 9
    assert does in finding.message
    assert remedy in finding.remedy
    assert "num_workers=2" not in finding.remedy


def test_what_a_loader_runs_is_known(space: Space) -> None:
    from types import SimpleNamespace

    from lab.recorder.loader_waits import _loading

    class Own(core.utils.data.Dataset):  # type: ignore[type-arg]
        def __getitem__(self, i: int) -> int:
            return i

        def __len__(self) -> int:
            return 4

    def collate(rows: list[int]) -> list[int]:
        return rows

    part = core.utils.data.Subset(Own(), [0, 1])
    loader = core.utils.data.DataLoader(part, collate_fn=collate)
    assert _loading(iter(loader)) == (0, (Own.__getitem__.__code__, collate.__code__))
    foreign = SimpleNamespace(_num_workers=3, _dataset=Own(), _collate_fn=None)
    assert _loading(foreign) == (3, (Own.__getitem__.__code__,))


def test_no_file_of_pythons_own_is_blamed() -> None:
    import selectors

    assert not is_users(selectors.__file__)
    assert not is_users(pytest.__file__)
    assert not is_users("<frozen importlib._bootstrap>")
    assert is_users(__file__)


def test_packages_in_a_folder_of_their_own_are_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there-1.0.dist-info").mkdir()
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path, tmp_path / "mine"):
        monkeypatch.syspath_prepend(str(folder))
    assert not is_users(str(tmp_path / "there" / "model.py"))
    assert not is_users(str(tmp_path / "mine" / "model.py"))
    (tmp_path / "there-1.0.dist-info").rmdir()
    is_users.cache_clear()
    user_files._has_packages.cache_clear()
    assert is_users(str(tmp_path / "there" / "model.py"))
    is_users.cache_clear()
