"""A rule that fails is told on the card, last, and the others look all the same."""

from __future__ import annotations

from typing import Any

import pytest

from lab import diagnose


def test_the_others_look(cell: Any, space: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trace: Any, explained: Any) -> Any:
        raise KeyError("what")

    monkeypatch.setattr(diagnose, "ORDER", (broken, *diagnose.ORDER))
    text = """
net = nn.Linear(16, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = F.cross_entropy(net(x), labels)
    loss.backward()
    opt.step()
"""
    first, last = cell(text, space).findings
    assert first.kind == "zero-grad"
    assert (last.kind, last.severity) == ("recorder", "note")
    assert "broken: KeyError: 'what'" in last.message


def test_infinities_lose_no_digits(cell: Any, space: dict[str, Any]) -> None:
    """The figures of a difference of infinities were asked for their spacing, and the card was empty."""
    record = cell("a = torch.full((8,), float('inf'))\nprint((a - torch.full((8,), 1e30)).sum())", space)
    assert [f.kind for f in record.findings if f.kind == "recorder"] == []


def test_large_images_of_bytes_are_looked_at(cell: Any, space: dict[str, Any]) -> None:
    text = """
a = torch.zeros(400, 400, dtype=torch.uint8)
b = torch.ones(400, 400, dtype=torch.uint8)
print((a - b).float().mean())
"""
    assert [(f.kind, f.line) for f in cell(text, space).findings] == [("dtype", 3)]
