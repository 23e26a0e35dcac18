"""The tour, executed as a reader would, and what its outputs say."""

from __future__ import annotations

import html
import re
from typing import Any

import nbformat
import pytest

from lab.pages.run_notebooks import executed

from . import kept
from .kept import TOUR

AGAIN = "what the tour is committed with is stale: python -m tests.notebooks.kept"


@pytest.fixture(scope="module")
def tour() -> Any:
    return nbformat.from_dict(executed(TOUR, timeout=300))


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


def test_it_is_committed_with_outputs_of_its_own_cells_and_of_this_version() -> None:
    assert TOUR.stat().st_size < kept.LARGEST
    notebook = nbformat.read(TOUR, as_version=4)
    assert notebook.metadata["gradlab"] == kept.stamp(notebook), AGAIN
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == [*range(1, len(counts) + 1)], AGAIN


def test_what_is_committed_says_what_a_run_says_now(tour: Any) -> None:
    assert kept.words(nbformat.read(TOUR, as_version=4)) == kept.words(tour), AGAIN


def test_committed_cards_say_their_findings_where_scripts_and_styles_are_taken_out() -> None:
    """As a code host shows them: text, tables and pictures."""
    notebook = nbformat.read(TOUR, as_version=4)
    (card,) = outputs(notebook, "clipped = np.clip", "text/html")
    left = re.sub(r"<(script|style)\b.*?</\1>", "", card, flags=re.S)
    assert {"table", "details", "img", "p"} <= {*re.findall(r"<(\w+)", left)}
    text = html.unescape(re.sub(r"<[^>]+>", "", left))
    assert DETOUR.replace("`", "") in text
    assert "encoder.0.weight" in text
    assert "no gradient: backward did not reach it" in text
    assert "{" not in text.replace("{loss.item", "")  # nothing of scripts and styles


def test_no_cell_printed_an_error(tour: Any) -> None:
    streams = [o for c in tour.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "stream"]
    assert [o.text for o in streams if o.name == "stderr"] == []


def test_accuracy(tour: Any) -> None:
    (text,) = outputs(tour, "assert accuracy >= 0.95")
    found = re.search(r"right on ([\d.]+)%", text)
    assert found is not None
    assert float(found.group(1)) >= 95


def test_the_training_card(tour: Any) -> None:
    card = max(outputs(tour, "for epoch in range(15)"), key=len)  # before or behind what the cell prints
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
