"""Notebooks run as a reader would, in a kernel of this Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient


def executed(path: Path, timeout: int = 900) -> dict[str, Any]:
    """Run a notebook in a folder of its own place, and return it with its outputs.

    *Raises*: nbclient's CellExecutionError for a cell that raises.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    package = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH", "")
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, before]))})
    return dict(notebook)
