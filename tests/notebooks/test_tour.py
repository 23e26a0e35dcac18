"""The tour, executed as a reader would, and what its outputs say."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[2] / "notebooks" / "01_tour.ipynb"


@pytest.fixture(scope="module")
def tour() -> Any:
    notebook = nbformat.read(TOUR, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(TOUR.parent)}}
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(TOUR.parents[1])})
    return notebook


def outputs(notebook: Any, start: str, kind: str = "text/plain") -> list[str]:
    """What the cells whose source has `start` displayed or printed."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and start in cell.source:
            printing = False
            for output in cell.outputs:
                if "data" in output and kind in output.data:
                    found.append(output.data[kind])
                elif output.output_type == "stream" and kind == "text/plain":
                    if printing:  # a busy kernel sends what is printed in pieces
                        found[-1] += output.text
                    else:
                        found.append(output.text)
                printing = output.output_type == "stream" and kind == "text/plain"
    return found


def test_it_is_committed_without_outputs() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_no_cell_printed_an_error(tour: Any) -> None:
    streams = [o for c in tour.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "stream"]
    assert [o.text for o in streams if o.name == "stderr"] == []


def test_accuracy(tour: Any) -> None:
    (text,) = outputs(tour, "assert accuracy >= 0.95")
    found = re.search(r"right on ([\d.]+)%", text)
    assert found is not None
    assert float(found.group(1)) >= 95


def test_the_training_card(tour: Any) -> None:
    (_, card) = outputs(tour, "for epoch in range(15)")
    assert "No problems found." in card
    for name in ("model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"):
        assert name in card
    for line in ("optimizer.step()", "loss.backward()", "F.cross_entropy(model(images), labels)"):
        assert line in card
    (html,) = outputs(tour, "for epoch in range(15)", "text/html")
    assert html.startswith('<div class="gradlab-card">')
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")


DETOUR = (
    "Line 4 cuts the graph: `hidden.detach().numpy()` hands the values of `hidden` to NumPy, and line 5 brings them "
    "back as a constant, so encoder.0.weight and encoder.0.bias get no gradient."
)


@pytest.mark.parametrize("kind", ["text/plain", "text/html"])
def test_the_detours_sentence_in_html_and_text(tour: Any, kind: str) -> None:
    (card,) = outputs(tour, "clipped = np.clip", kind)
    assert DETOUR in card
    (healed,) = outputs(tour, "head(torch.clamp(hidden", kind)
    assert "cuts the graph" not in healed


def test_vanishing_gradients_name_the_layers(tour: Any) -> None:
    before, after = outputs(tour, "F.cross_entropy(deep(images), labels)")
    assert re.search(
        r"Line 3 lets gradients vanish: .* so deep\.0\.weight to deep\.\d+\.weight \(\d+ layers\) hardly learn", before
    )
    assert "No problems found." in after


def test_explain_and_the_script(tour: Any) -> None:
    (text,) = outputs(tour, "torch.explain")
    assert "softmax of float32 on cpu runs softmax_forward (C)" in text
    assert "got int64" in text
    (text,) = outputs(tour, "with lab.recording")
    assert text.startswith("one step: ")
    assert "model.2.bias" in text
    (table,) = outputs(tour, 'rec.table("ops")')
    assert "cross_entropy" in table
