"""How a sentence calls the parameters that an optimizer does not hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lab.diagnose.unheld_parameters import _all_of


def test_the_call_that_lists_parameters() -> None:
    of_one: list[Any] = [SimpleNamespace(name="net.0.weight"), SimpleNamespace(name="net.2.bias")]
    of_two: list[Any] = [SimpleNamespace(name="encoder.weight"), SimpleNamespace(name="decoder.weight")]
    assert _all_of(of_one, of_two) == "net.parameters() "
    assert _all_of(of_two, of_two) == "model.parameters() "
    assert _all_of(of_two, of_one) == ""
