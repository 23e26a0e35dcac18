"""The notebooks on packages written for PyTorch, executed as a reader would, where the packages are installed: what is
found, and on which line, in the notebook and in the package."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import nbformat
import pytest

from .test_lessons import looking, run
from .test_programs_in_notebooks import FOLDER, figure
from .test_tour import outputs

NAMES = ["09_fine_tuning", "10_timm"]


def told(name: str) -> tuple[Any, list[list[tuple[str, int]]]]:
    """Return the notebook that ran, and of each watched cell the kinds and lines of what was found."""
    needed = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).metadata["needs"]
    if missing := [package for package in needed if importlib.util.find_spec(package) is None]:
        pytest.skip(f"{', '.join(missing)} not installed")
    notebook = run(name, looking)
    return notebook, [[(kind, line) for kind, _, line in json.loads(text)] for text in outputs(notebook, "import json")]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_committed_without_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_transformers() -> None:
    notebook, found = told("09_fine_tuning")
    assert found == [[], [("mode", 6)], [], [("loss", 6)], [("cut", 5)]]
    assert figure(r"right on ([\d.]+)%", outputs(notebook, "share = right(model)")) >= 45
    assert "modeling_bert_changed.py line" in outputs(notebook, "%%autograd\nmodel = changed")[0]


def test_timm() -> None:
    notebook, found = told("10_timm")
    assert found[0] == []
    assert [cell[0] for cell in found[1:]] == [("optimizer", 11), ("zero-grad", 6), ("cut", 5)]
    assert figure(r"right on ([\d.]+)%", outputs(notebook, "share =")) >= 85
    assert "vision_transformer_changed.py line" in outputs(notebook, "%%autograd\nmodel = changed")[0]
