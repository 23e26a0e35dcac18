"""Losses whose arguments come the wrong way round, in each form of the loss."""

from __future__ import annotations

from typing import Any

import pytest

Space = dict[str, Any]


@pytest.mark.parametrize("more", ["", ", pos_weight=torch.tensor(2.0)"])
def test_binary_cross_entropy_the_wrong_way_round(cell: Any, space: Space, more: str) -> None:
    text = f"""
net = nn.Linear(16, 1)
y = (x[:, :1] > 0).float()
F.binary_cross_entropy_with_logits(y, net(x){more}).backward()
"""
    finding = cell(text, space).findings[0]
    assert (finding.kind, finding.line) == ("loss", 3)
    assert "gives binary_cross_entropy_with_logits its arguments the wrong way round" in finding.message


@pytest.mark.parametrize("swapped", [False, True])
def test_how_many_are_compared_with_how_many(cell: Any, space: Space, swapped: bool) -> None:
    given = "y - net(x)" if swapped else "net(x) - y"
    finding = cell(f"net = nn.Linear(16, 1)\ny = x[:, 0]\n(({given}) ** 2).mean().backward()", space).findings[0]
    assert finding.kind == "broadcast"
    assert "each of the 64 predictions with every one of the 64 targets" in finding.message
