"""A record as a file, and a script run under a recording."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import core
import lab
from widgets.record import Record

SCRIPT = """
import sys
import core as torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(8, 4)
for step in range(3):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print("loss is a tensor:", torch.is_tensor(loss), sys.argv[1:], __name__)
"""


@pytest.fixture
def recorded() -> lab.Recording:
    W = core.ones(4, 4, requires_grad=True)
    with lab.record() as rec:
        (W @ W).tanh().sum().backward()
    return rec


def test_saved_as_page_rows_and_text(recorded: Any, tmp_path: Path) -> None:
    for suffix in ("html", "json", "txt"):
        recorded.save(tmp_path / f"report.{suffix}")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert Record.from_json((tmp_path / "report.json").read_text()) == recorded.record
    assert "tanh" in (tmp_path / "report.txt").read_text()
    with pytest.raises(ValueError, match=r"report.pdf.*\.html"):
        recorded.save(tmp_path / "report.pdf")
    with pytest.raises(FileNotFoundError, match=r"the folder '.*no' does not exist.*mkdir"):
        recorded.save(tmp_path / "no" / "report.html")
    with pytest.raises(FileNotFoundError, match="is no folder"):
        recorded.save(tmp_path / "report.html" / "report.html")


def test_the_trace_is_what_perfetto_reads(recorded: Any, tmp_path: Path) -> None:
    recorded.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [(e["name"], e["cat"]) for e in spans[:3]] == [
        ("matmul", "forward"),
        ("tanh", "forward"),
        ("sum", "forward"),
    ]
    assert {(e["name"], e["cat"]) for e in spans[3:]} == {(n, "backward") for n in ("sum", "tanh", "matmul")}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 and {"pid", "tid", "args"} <= e.keys() for e in spans)
    assert any(e["ph"] == "C" for e in events)


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", "run", *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_script_is_run_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = run("--report", "out.html", "--trace", "trace.json", "train.py", "--fast", "7", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "loss is a tensor: True ['--fast', '7'] __main__" in done.stdout
    assert "lab: wrote out.html (1 finding)" in done.stderr
    page = (tmp_path / "out.html").read_text()
    assert '"machine":{"name":' in page  # with what the machine reaches, as the card in a notebook
    assert "Line 9 adds its gradients to those that a step has used already" in page
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_the_report_may_be_asked_for_behind_the_script(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = run(
        "words.py", "--fast", "7", "--report", "out.html", "-h", "--trace=t.json", "--", "--report", cwd=tmp_path
    )
    assert done.stdout == "['--fast', '7', '-h', '--report']\n", done.stderr
    assert (tmp_path / "out.html").exists()
    assert (tmp_path / "t.json").exists()


def test_a_folder_that_is_not_there_is_told_before_the_script_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    done = run("train.py", "--report", "absent/out.html", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--report absent/out.html: there is no folder" in done.stderr


@pytest.mark.by_turns
def test_a_script_that_raises(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import core\nx = core.ones(2, 2)\nx @ core.ones(3, 3)\n")
    done = run("bad.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "mat1 and mat2 shapes cannot be multiplied" in done.stderr
    assert "Line 3 fails in `matmul`" in done.stderr
    (tmp_path / "syntax.py").write_text("x = (\n")
    done = run("syntax.py", cwd=tmp_path)
    assert (done.returncode, "SyntaxError" in done.stderr) == (1, True)
    assert run("absent.py", cwd=tmp_path).returncode == 2
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(5)\n")
    assert run("leaves.py", cwd=tmp_path).returncode == 5


def test_a_report_tells_its_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It told how many there are."""
    from lab import run

    (tmp_path / "train.py").write_text(SCRIPT)
    assert run.main(["--report", str(tmp_path / "r.html"), str(tmp_path / "train.py")]) == 0
    said = capsys.readouterr().err
    assert "r.html (1 finding)" in said
    assert "▲ Warning: Line 9 adds its gradients to those that a step has used already" in said
    assert "Call optimizer.zero_grad() before backward()." in said
    (tmp_path / "stops.py").write_text("raise KeyboardInterrupt")
    assert run.main(["--report", str(tmp_path / "r.html"), str(tmp_path / "stops.py")]) == 130
    assert "Stopped by you at line 1" in capsys.readouterr().err
