"""The blocks of lab/docs/shrink.md run, and the page names every variant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lab.shrinking.variants import RECIPES

PAGE = Path(__file__).parents[3] / "lab" / "docs" / "shrink.md"


def test_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert [v.name for v in names["found"].view.variants] == ["float32", "bf16", "int8 dynamic", "pruned 50 %"]


def test_every_variant_is_named() -> None:
    page = PAGE.read_text()
    assert [r.key for r in RECIPES if f"`{r.key}`" not in page] == []
