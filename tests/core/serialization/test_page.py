"""The blocks of lab/docs/saving.md run."""

from __future__ import annotations

import os
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "lab" / "docs" / "saving.md"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 4
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert len(names["losses"]) == 24
    assert sorted(os.listdir()) == ["hand.safetensors", "model.safetensors", "run.safetensors"]
