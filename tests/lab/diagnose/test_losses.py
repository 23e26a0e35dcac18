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
