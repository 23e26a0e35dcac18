"""Recording in scripts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
import lab
from lab.doctor import examine
from lab.doctor import main as doctor
from lab.recorder.cell_trace import Gradient
from lab.recorder.tensor_stats import _figures, finite, gradient, histogram, stats
from lab.session import recording
from widgets.record import Record


def test_a_block() -> None:
    W = core.ones(2, 2, requires_grad=True)
    with lab.recording() as rec:
        assert "recording of test_recording.py" in str(rec)
        with pytest.raises(RuntimeError, match="the recording is still on"):
            _ = rec.record
        (W * 3).sum().backward()
    assert rec.record.title == "test_recording.py"
    assert rec.record.gradients[0].name == "W"
    assert str(rec).startswith("test_recording.py: 2 ops")
    line = next(row.line for row in rec.record.lines if row.count)
    assert line == rec.record.ops[0].line
    assert rec.record.source.splitlines()[line - 1].strip() == "(W * 3).sum().backward()"
    assert rec.html().startswith("<div")
    assert sorted(rec._repr_mimebundle_()) == ["text/html", "text/plain"]
    assert lab.last() is rec.record
    assert Record.from_json(rec.record.to_json()).ops == rec.record.ops


def test_a_block_that_raises_is_recorded_and_raises() -> None:
    with pytest.raises(ZeroDivisionError), lab.recording() as rec:  # noqa: PT012
        core.ones(2).exp()
        _ = 1 / 0
    assert rec.record.error is not None
    assert rec.record.error.type == "ZeroDivisionError"
    assert rec.record.source.splitlines()[(rec.record.error.line or 1) - 1].strip() == "_ = 1 / 0"


def test_a_function_call() -> None:
    weights = [core.ones(3, 3, requires_grad=True) for _ in range(2)]

    def work(a: core.Tensor, scale: float = 1.0) -> core.Tensor:
        for w in weights:
            a = a @ w * scale
        return a.sum()

    rec = lab.record(work, core.ones(2, 3), scale=0.5)
    assert rec.value.item() == pytest.approx(2 * 3 * 1.5 * 1.5)
    assert [op.op for op in rec.record.ops] == ["matmul", "mul", "matmul", "mul", "sum"]
    assert [t.name for t in rec.record.tensors if t.kind == "parameter"] == ["weights[0]", "weights[1]"]
    assert rec.record.title == "work"
    with pytest.raises(ZeroDivisionError):
        lab.record(lambda: 1 / 0)
    with pytest.raises(TypeError, match="got Tensor, needs a function"):
        lab.record(core.ones(2))  # type: ignore[arg-type]
    assert not core.events.observe.observers


def test_a_recording_inside_another_has_its_ops_to_itself() -> None:
    W, x = core.ones(3, 3, requires_grad=True), core.ones(2, 3)
    with lab.recording("outer") as outer:
        h = (x @ W).tanh()
        with lab.recording("inner") as inner:
            (x @ W).exp().sum().backward()
        (h.sum() * (x @ W).sum()).backward()
    assert [op.op for op in inner.record.ops] == ["matmul", "exp", "sum"]
    assert [op.op for op in outer.record.ops] == ["matmul", "tanh", "sum", "matmul", "sum", "mul"]
    for rec in (inner, outer):
        assert [g.name for g in rec.record.gradients] == ["W"]
        assert rec.record.findings == []
    assert not core.events.observe.observers


def test_what_a_recording_inside_another_takes_is_no_time_of_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = recording.settle

    def slowly(*args: Any) -> Any:
        time.sleep(0.6)
        return settle(*args)

    x = core.ones(3, requires_grad=True)
    with lab.recording("outer") as outer:
        with lab.recording("inner") as inner:
            monkeypatch.setattr(recording, "settle", slowly)
            x.exp().sum().backward()
            inner_ended = time.perf_counter()
        took = time.perf_counter() - inner_ended
        monkeypatch.undo()
        (x * 2).sum().backward()
    assert took > 0.6
    assert inner.record.findings == outer.record.findings == []
    assert outer.record.recording_ms > 600
    assert outer.record.wall_ms - outer.record.recording_ms < 600


def test_tables() -> None:
    rec = lab.record(lambda: core.ones(3).exp())
    assert "exp" in rec.table("ops")
    assert "exp" in rec.table("kernels")
    with pytest.raises(ValueError, match="needs one of ops, lines, gradients, kernels, memory, tensors"):
        rec.table("chairs")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(), (7,), (300, 301)])
def test_figures_agree_with_numpy(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> None:
    a = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
    found = stats(a)
    assert found is not None
    assert found.nonfinite == 0
    assert finite(a.astype(np.float64))
    if a.size <= 1 << 16:
        x = a.astype(np.float64)
        assert (found.min, found.max) == (x.min(), x.max())
        assert found.mean == pytest.approx(x.mean(), abs=1e-4)
        assert found.std == pytest.approx(x.std(), abs=1e-4)


def test_what_is_not_finite_is_counted_apart() -> None:
    a = np.array([1.0, np.nan, -2.0, np.inf, 0.0], np.float32)
    assert not finite(a)
    found = stats(a)
    assert found is not None
    assert (found.min, found.max, found.nonfinite) == (-2.0, 1.0, 2)
    all_bad = stats(np.full(3, np.nan))
    assert all_bad is not None
    assert (all_bad.min, all_bad.nonfinite) == (None, 3)
    assert stats(np.empty((0, 3))) is None


def test_the_histogram_is_the_same_with_and_without_c(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = (rng.standard_normal(5000) * np.exp2(rng.uniform(-50, 30, 5000))).astype(np.float32)
    g[:7] = 0
    fast, slow = Gradient(), Gradient()
    gradient(fast, g)
    monkeypatch.setattr("lab.recorder.tensor_stats._native_stats", None)
    gradient(slow, g)
    assert fast.histogram == slow.histogram == histogram(g)
    assert sum(fast.histogram) == 4993
    assert fast.norm == pytest.approx(slow.norm, rel=1e-6)
    assert len(_figures(g)) == 8


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    checks = {check.name: check for check in examine()}
    assert checks["core"].state == "ok"
    assert all(check.remedy for check in checks.values() if check.state != "ok")
    assert doctor([]) == 0
    assert "core works on this machine." in capsys.readouterr().out


def test_doctor_says_what_is_broken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "tensor", lambda *a, **k: 1 / 0)
    assert doctor(["--json"]) == 1
    assert '"broken"' in capsys.readouterr().out


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from lab.__main__ import main

    assert main(["--help"]) == 0
    assert main(["cure"]) == 2
    assert "unknown command 'cure'" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["doctor", "--json"]) == 0


def test_a_block_answers_for_its_own_models_alone() -> None:
    from core import nn

    def other() -> nn.Linear:
        return nn.Linear(2, 2)

    idle = other()
    model = nn.Linear(2, 1)
    with lab.recording() as rec:
        fresh, unused = nn.Linear(2, 1), nn.Linear(2, 1)
        (model(core.ones(1, 2)) + fresh(core.ones(1, 2))).sum().backward()
    assert idle is not unused
    (finding,) = rec.record.findings
    assert finding.parameters == ["unused.weight", "unused.bias"]


def test_a_script_with_another_model(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import core, lab\n"
        "mine, idle = core.nn.Linear(2, 1), core.nn.Linear(2, 1)\n"
        "def train():\n    mine(core.ones(1, 2)).sum().backward()\n"
        "with lab.recording() as rec:\n    train()\n"
        "print(len(rec.record.findings), len(lab.record(train).record.findings))\n"
    )
    root = str(Path(core.__file__).parent.parent)
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "0 0\n"
