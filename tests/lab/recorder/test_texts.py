"""What lab reads of a cell's text it reads without a word: Python has warned of it when the cell was compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from lab.prove import families  # noqa: F401 - they register themselves
from lab.prove.remedies import guesses, patches
from widgets.record import Record
from widgets.structure import blocks

CELL = r"""label = "$\lambda$"
model = nn.Linear(2, 1)
optimizer = core.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(core.ones(4, 2)).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_a_text_is_warned_of_once(cell: Callable[..., Record], space: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        record = cell(CELL, space)
        assert len(told) == 1, "where it is compiled"
        assert record.findings
        assert any(patches(CELL, found) for found in record.findings)
        for found in record.findings:
            guesses(CELL, found)
        assert blocks(CELL)
    assert len(told) == 1, [(w.filename, str(w.message)) for w in told]
