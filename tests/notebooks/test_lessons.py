"""The notebooks that teach, executed as a reader would: autograd from a scalar on, ten mistakes, timings, tuning."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from .test_programs_in_notebooks import FOLDER, figure
from .test_tour import outputs

NAMES = ["05_autograd_from_scratch", "06_ten_broken_models", "07_reading_the_timings", "08_tuning"]
LOOK = """\
import json, lab
print(json.dumps([[f.kind, f.severity, f.line] for f in lab.last().findings]))"""
BROKEN = [
    ("zero-grad", 6, "loss.backward()"),
    ("broadcast", 7, "loss = ((prediction - y) ** 2).mean()"),
    ("cut", 6, "hidden = encoder(x).detach().numpy()"),
    ("loss", 5, "loss = F.cross_entropy(model(x), labels)"),
    ("mode", 5, "loss = F.cross_entropy(model(x), labels)"),
    ("optimizer", 9, "optimizer.step()"),
    ("nan", 4, "p = scores / scores.sum(1, keepdim=True)"),
    ("memory", 10, "total += loss"),
    ("vanishing", 6, "loss = F.cross_entropy(model(x), labels)"),
    ("no-gradient", 17, "loss.backward()"),
]
"""Of each broken cell: the kind of the first finding, its line, and what stands there."""


def run(name: str, change: Callable[[Any], None] | None = None) -> Any:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    if change is not None:
        change(notebook)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}})
    path = os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]))
    client.execute(env={**os.environ, "PYTHONPATH": path})
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert not (output.output_type == "stream" and output.name == "stderr"), output.text
    return notebook


@pytest.mark.parametrize("name", NAMES)
def test_they_are_committed_without_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_from_a_scalar_to_a_block() -> None:
    notebook = run("05_autograd_from_scratch")
    cards = [text for text in outputs(notebook, "%%autograd") if "wall" in text]
    assert len(cards) == sum(cell.source.startswith("%%autograd") for cell in notebook.cells) == 7
    assert [("No problems found." in card, "none is wrong." in card) for card in cards] == [
        (n != 3, n == 3)
        for n in range(7)  # the fourth is under --check
    ]
    (steps,) = outputs(notebook, "lab.walk(neuron)")
    nodes = re.findall(r"(\w+)Backward0 .*? line \d", steps)
    assert nodes == ["Tanh", "Add", "Sum", "Mul"]
    assert "out 3: -0.990 … 1.98" in steps  # 0.99 times the inputs
    assert figure(r"right on (\d+)%", outputs(notebook, "assert right >=")) >= 90
    assert figure(r"([\d.]+) nats", outputs(notebook, "assert loss.item() <")) < 1.2
    assert "gpt.block.before_mlp.weight" in cards[-1]


def looking(notebook: Any) -> None:
    """After each watched cell one that prints what was found, as data."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.source.startswith("%%autograd"):
            cells.append(new_code_cell(LOOK))
    notebook.cells = cells


def test_ten_broken_models_and_the_same_mended() -> None:
    notebook = run("06_ten_broken_models", looking)
    cells = [cell for cell in notebook.cells if cell.source.startswith("%%autograd")]
    found = [json.loads(text) for text in outputs(notebook, LOOK)]
    assert len(cells) == len(found) == 2 * len(BROKEN)
    for (kind, line, code), cell, findings in zip(BROKEN, cells[::2], found[::2], strict=True):
        first = findings[0]
        assert (first[0], first[2]) == (kind, line), findings
        assert first[1] in ("error", "warning")
        assert cell.source.splitlines()[line - 1].strip() == code
    assert found[1::2] == [[]] * len(BROKEN)
    heads = [cell.source for cell in notebook.cells if re.match(r"## \d+\.", cell.source)]
    assert len(heads) == len(BROKEN)
    assert all("“" in head for head in heads)


def test_the_timings() -> None:
    def look(notebook: Any) -> None:
        at = next(k for k, cell in enumerate(notebook.cells) if cell.source == "before = lab.last()")
        notebook.cells.insert(at + 1, new_code_cell("print(before.to_json())"))

    notebook = run("07_reading_the_timings", look)
    (text,) = outputs(notebook, "print(before.to_json())")
    before = json.loads(text)
    found = [(f["kind"], f["line"]) for f in before["findings"]]
    assert [f for f in found if f != ("slow", 3)] == [("dtype", 4), ("overhead", 8)]  # a copy: slow on most machines
    lines = {row["line"]: row for row in before["lines"]}
    assert max(lines.values(), key=lambda row: row["count"])["line"] == 8
    assert lines[8]["count"] > 2000
    assert lines[3]["forward_ms"] > 5 * lines[4]["forward_ms"]
    assert max(before["memory"]["rows"], key=lambda row: row["made_bytes"])["line"] == 3
    (changes,) = outputs(notebook, "lab.compare(before, after)")
    assert "finding dtype gone" in changes
    assert "'clone', 'cast'" in changes
    assert figure(r"(\d+) times as fast", outputs(notebook, "assert ratio > 2")) >= 2
    (files,) = outputs(notebook, "tempfile.TemporaryDirectory")
    assert all(f"'{name}'" in files for name in ("step.html", "step.json", "step.trace.json"))
    (longest,) = outputs(notebook, "longest = max(spans")
    assert re.search(r"\d+ runs; the longest is \w+, \d+ µs, on line \d", longest)


def test_tuning_on_a_processor_alone() -> None:
    notebook = run("08_tuning")
    (found,) = outputs(notebook, "# a panel gives the prompt back")
    verdict, chosen = found.splitlines()[0].split(" ", 1)
    assert figure(r"([\d.]+) of the default's time", [found]) <= 1
    (panel,) = outputs(notebook, "%tune matmul_f32", "text/html")
    assert panel.startswith('<div class="gradlab-tuning">')  # what stays where nobody can press a button
    assert "http://" not in panel.replace("http://www.w3.org/2000/svg", "")
    (fresh,) = outputs(notebook, "PROGRAM")
    assert fresh.strip() == (chosen if verdict != "noisy" else "None")
    assert re.search(r"(faster|default|noisy) (budget|complete)$", outputs(notebook, "tune.Session")[-1].strip())
    (*_, own) = outputs(notebook, "%%tune --target")
    assert "No time was measured" in own
    (reasons,) = outputs(notebook, "for reason, count")
    assert "correctness: " in reasons
    assert "exceeds triton maximum tensor numel" in reasons
    assert "CONFIGS = {" in outputs(notebook, "tune export")[0]
    assert "widgets" not in notebook.metadata
