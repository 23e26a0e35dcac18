"""How a sentence calls the parameters that an optimizer does not hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.diagnose.graph.unheld_parameters import _Left


@pytest.mark.parametrize(
    ("names", "kind", "call"),
    [
        (["net.0.weight", "net.2.bias"], "behind", "net.parameters() "),
        (["encoder.weight", "decoder.weight"], "beside", "model.parameters() "),
        (["encoder.weight", "decoder.weight"], "alone", ""),
    ],
)
def test_the_call_that_lists_parameters(names: list[str], kind: str, call: str) -> None:
    leaves: list[Any] = [SimpleNamespace(name=name) for name in names]
    step: Any = None
    assert _Left(leaves, kind, step).call() == call
