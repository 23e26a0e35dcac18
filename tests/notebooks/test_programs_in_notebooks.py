"""The notebooks that train real models, executed as a reader would: what they promise is what they reach."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from .test_tour import outputs

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ["02_char_gpt", "03_cnn_digits", "04_lstm_series"]


def run(name: str) -> Any:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}})
    client.execute(env={**os.environ, "PYTHONPATH": str(FOLDER.parent)})
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert not (output.output_type == "stream" and output.name == "stderr"), output.text
    return notebook


def figure(pattern: str, texts: list[str]) -> float:
    found = re.search(pattern, "\n".join(texts))
    assert found is not None, texts
    return float(found.group(1))


@pytest.mark.parametrize("name", NAMES)
def test_they_are_committed_without_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_the_gpt_learns_the_manual() -> None:
    notebook = run("02_char_gpt")
    held_out = figure(r"([\d.]+) nats a character", outputs(notebook, "assert held"))
    assert held_out < 1.8
    (card,) = outputs(notebook, "%%autograd")
    assert "No problems found." in card
    assert "model.blocks.0" in card
    noise = outputs(notebook, 'print(continuation("The function ", 100))')[-1]
    (text,) = outputs(notebook, 'print(continuation("The function ", 400))')
    assert len(text) > 400
    words = re.findall(r"[a-z]{3,}", text)
    assert sum(word in {"the", "function", "class", "and", "module", "object", "with", "for"} for word in words) >= 5
    assert noise != text


def test_the_cnn_reads_98_percent() -> None:
    notebook = run("03_cnn_digits")
    assert figure(r"right on ([\d.]+)%", outputs(notebook, "assert right >= 0.98")) >= 98
    assert figure(r"right on ([\d.]+)%", outputs(notebook, "others = CNN()")) >= 93
    (card,) = outputs(notebook, "%%autograd")
    assert "No problems found." in card


def test_the_lstm_beats_those_who_know_nothing() -> None:
    texts = outputs(run("04_lstm_series"), 'errors["LSTM"] = ')
    errors = {k: figure(rf"{k}: ([\d.]+)", texts) for k in ("today's", "last week's", "straight line", "LSTM")}
    assert errors["LSTM"] < 0.95 * errors["today's"]
    assert errors["LSTM"] < 0.95 * errors["last week's"]
