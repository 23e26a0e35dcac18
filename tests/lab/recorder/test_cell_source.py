"""Places in the source: each is found once for a record, whoever asks for it."""

from __future__ import annotations

import sys
from collections import Counter
from types import CodeType
from typing import Any

import pytest

from core.base import source

CELL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        h = self.a(x).relu()
        return self.b(h)

model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for i in range(6):
    loss = F.cross_entropy(model(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss
shown = model(x).detach().numpy().mean()
"""


def test_every_place_of_a_cell_is_found_once(monkeypatch: pytest.MonkeyPatch, cell: Any, space: dict[str, Any]) -> None:
    asked: Counter[tuple[int, int]] = Counter()
    held: list[CodeType] = []
    locate = source.locate

    def counted(code: CodeType, lasti: int) -> source.Location:
        asked[id(code), lasti] += 1
        held.append(code)  # so that no other one takes its number
        return locate(code, lasti)

    cell(CELL, space)  # all that a record loads is there
    for module in [source, *(m for n, m in sys.modules.items() if n.partition(".")[0] == "lab")]:
        if getattr(module, "locate", None) is locate:
            monkeypatch.setattr(module, "locate", counted)
    record = cell(CELL, space)
    assert [f.kind for f in record.findings] == ["memory"]
    assert {op.line for op in record.ops} == {6, 7, 13, 16, 17}
    assert len(asked) >= 8
    assert set(asked.values()) == {1}
